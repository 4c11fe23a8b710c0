"""Which GPUs exist, and what each of them can do: the one table of SMs.

Code asks a `Target` (`target.has_tma`), it never compares SM numbers. Sources: the PTX ISA 9.x ("Target ISA
Notes" of each instruction), the CUDA programming guide's table of compute capabilities, and ptxas 13.5 for
what it accepts (static shared memory, `a` suffixes).
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tileiras.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

DEFAULT_GPU = "sm_100"
"""The original assembler's default when no `--gpu-name` is given (spec 01-driver/04)."""

LLVM_PTX_FEATURE = "+ptx90"
"""The newest PTX ISA that LLVM 22 prints; its own defaults per SM are too old for TMA and 256-bit loads."""

PTX_VERSION = "9.2"
"""The first PTX ISA that has `.language`; an SM that came later needs a later one."""

MAX_PARAMETER_BYTES = 32764
"""Kernel parameter space: ptxas 13.5 takes this much on every SM and refuses one byte more."""

MAX_REGISTERS_PER_THREAD = 255
REGISTERS_PER_SM = 65536
MAX_THREADS_PER_CTA = 1024
WARP_THREADS = 32
SCHEDULERS = 4
"""Of an SM: each has a quarter of the registers, for the warps that it gets."""
REGISTER_STEP = 8
"""Registers of a thread are given out by so many."""


@dataclass(frozen=True, eq=False, repr=False)
class Target:
    """One SM.

    `name` is the command-line name ("sm_90"), `cc` the compute capability times ten (90), `ptx` the target
    that PTX and LLVM are given ("sm_90a": architecture-specific from 9.0 on, since a cubin is bound to its SM
    anyway). Sizes are bytes. `max_static_smem` is what one CTA may declare in `.shared`, and what lowerings plan with;
    `extended_static_smem` what ptxas grants beyond that when asked (`--enable-extended-smem`, 0: nothing), for a kernel
    that can't do with less. `smem_per_sm` and `max_threads_per_sm` bound occupancy.
    """

    name: str
    cc: int
    ptx: str
    max_static_smem: int
    smem_per_sm: int
    max_threads_per_sm: int

    extended_static_smem: int = 0

    # --- what PTX must be to know this SM, and the SM that LLVM compiles for where it doesn't know this one
    ptx_version: str = PTX_VERSION
    llvm_name: str = ""

    # --- where parameters begin in the constant bank: ptxas aligns them there
    parameter_base: int = 0x160

    # --- registers: the same on all of these SMs
    registers_per_sm: int = REGISTERS_PER_SM
    max_registers_per_thread: int = MAX_REGISTERS_PER_THREAD
    max_threads_per_cta: int = MAX_THREADS_PER_CTA

    # --- matrix instructions
    has_ldmatrix: bool = True              # m8n8 .b16 x1/x2/x4 [.trans]
    has_ldmatrix_bytes: bool = False       # m16n16 .trans.b8 x1/x2
    has_stmatrix: bool = False             # m8n8 .b16
    has_movmatrix: bool = True
    has_f16_mma_k16: bool = False          # m16n8k16; m16n8k8 is everywhere
    has_bf16_mma: bool = False             # m16n8k8, m16n8k16
    has_tf32_mma: bool = False             # m16n8k4, m16n8k8
    has_f64_mma: bool = False              # m8n8k4
    has_f64_mma_m16: bool = False          # m16n8k4, m16n8k8, m16n8k16
    has_fp8_mma: bool = False              # m16n8k32 e4m3/e5m2
    has_block_scaled_mma: bool = False     # mma.sync kind::mxf8f6f4, mxf4, mxf4nvf4
    int8_mma_shapes: tuple[tuple[int, int, int], ...] = ((8, 8, 16),)
    has_wgmma: bool = False
    has_tcgen05: bool = False
    has_tcgen05_i8: bool = False           # kind::i8
    has_tcgen05_scale_d: bool = False      # the accumulator scaled on its way in

    # --- copies and synchronisation
    has_cp_async: bool = False
    has_mbarrier: bool = False
    has_clusters: bool = False
    has_tma: bool = False
    fast_multicast: bool = False           # one copy of the engine's to several CTAs of a cluster, at speed
    has_elect: bool = False
    has_setmaxnreg: bool = False
    has_griddepcontrol: bool = False
    has_launch_control: bool = False       # clusterlaunchcontrol.try_cancel
    has_wide_global_access: bool = False   # 256-bit ld/st.global

    # --- arithmetic
    has_redux: bool = False                # redux.sync on 32-bit integers
    has_redux_f32: bool = False            # redux.sync.{min,max}.f32
    has_bf16_fma: bool = False             # fma.rn.bf16[x2], also min/max/neg/abs
    has_bf16_arith: bool = False           # add/sub/mul.rn.bf16[x2]
    has_f16_minmax: bool = False           # min/max.f16[x2]
    has_ex2_f16: bool = True               # ex2.approx.f16[x2], tanh.approx.f16[x2]
    has_ex2_bf16: bool = False             # ex2.approx.ftz.bf16[x2]
    has_tanh_bf16: bool = False            # tanh.approx.bf16[x2]
    has_tanh_approx: bool = True           # tanh.approx.f32
    has_f32x2_arith: bool = False          # add/mul/fma.rn.f32x2
    has_minmax3: bool = False              # three-input min/max.f32

    # --- conversions
    has_cvt_bf16: bool = False             # cvt.rn.bf16[x2].f32
    has_cvt_bf16_directed: bool = False    # cvt.{rz,rm,rp}.bf16.f32
    has_cvt_tf32: bool = False             # cvt.rna.tf32.f32
    has_cvt_tf32_rn: bool = False          # cvt.{rn,rz}.tf32.f32
    has_cvt_int_bf16: bool = False         # cvt.rn.bf16.{s,u}{8,16,32,64}
    has_cvt_fp8: bool = False              # cvt.rn.satfinite.{e4m3x2,e5m2x2}.f32 and back by f16x2
    has_cvt_fp4_fp6: bool = False          # cvt to/from e2m1x2, e2m3x2, e3m2x2, ue8m0x2
    has_cvt_e5m3: bool = False             # cvt to ue5m3x2, and back by bf16x2
    takes_e5m3_scales: bool = False        # of block-scaled products by tcgen05

    # --- atomics
    has_atom_bf16: bool = False            # atom.add.noftz.bf16[x2]
    has_atom_vector_f32: bool = False      # atom.global.add.v2/v4.f32, v2/v4/v8.f16
    has_atom_b128: bool = False            # atom.cas/exch.b128
    slow_f64: bool = False                 # 2 operations on 64-bit floats an SM and cycle, not 32 or 64

    def registers_for(self, warps: int) -> int:
        """The most registers a thread with which so many warps fit an SM."""
        most = -(-warps // SCHEDULERS)
        return self.registers_per_sm // SCHEDULERS // (WARP_THREADS * most) // REGISTER_STEP * REGISTER_STEP

    @property
    def most_static_smem(self) -> int:
        """What one CTA may declare in `.shared` at all."""
        return max(self.max_static_smem, self.extended_static_smem)

    @property
    def described_smem(self) -> int:
        """How far the addresses in matrix descriptors reach, in bytes: 14 bits count 16 bytes, and 15 where an SM has more than
        that (the original's code for sm_107 keeps so many)."""
        return 1 << (19 if self.smem_per_sm > 1 << 18 else 18)

    @property
    def llvm_cpu(self) -> str:
        """The `cpu` of LLVM's NVPTX target machine."""
        return self.llvm_name or self.ptx

    @property
    def llvm_features(self) -> str:
        return LLVM_PTX_FEATURE

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Target {self.name}>"


_AMPERE: dict[str, Any] = {
    "has_f16_mma_k16": True, "has_bf16_mma": True, "has_tf32_mma": True, "has_f64_mma": True,
    "int8_mma_shapes": ((8, 8, 16), (16, 8, 16), (16, 8, 32)),
    "has_cp_async": True, "has_mbarrier": True, "has_redux": True, "has_bf16_fma": True, "has_f16_minmax": True,
    "has_cvt_bf16": True, "has_cvt_bf16_directed": True, "has_cvt_tf32": True,
}
_ADA: dict[str, Any] = {**_AMPERE, "has_fp8_mma": True, "has_cvt_fp8": True}
_HOPPER: dict[str, Any] = {
    **_ADA, "parameter_base": 0x210,
    "has_stmatrix": True, "has_f64_mma_m16": True, "has_clusters": True, "has_tma": True, "has_elect": True,
    "has_setmaxnreg": True, "has_griddepcontrol": True, "has_bf16_arith": True, "has_ex2_bf16": True,
    "has_tanh_bf16": True, "has_cvt_tf32_rn": True, "has_cvt_int_bf16": True,
    "has_atom_bf16": True, "has_atom_vector_f32": True, "has_atom_b128": True,
}
_BLACKWELL: dict[str, Any] = {
    **_HOPPER, "parameter_base": 0x380,
    "has_launch_control": True, "has_wide_global_access": True, "has_f32x2_arith": True, "has_minmax3": True,
    "has_cvt_fp4_fp6": True, "has_ldmatrix_bytes": True,
}
_TENSOR_MEMORY: dict[str, Any] = {**_BLACKWELL, "has_tcgen05": True, "fast_multicast": True}
_GEFORCE: dict[str, Any] = {**_BLACKWELL, "has_block_scaled_mma": True}

_KIB = 1024
# ptxas 13.5 refuses one byte more of static shared memory than these.
_STATIC_SMEM_LEGACY = 48 * _KIB
_STATIC_SMEM_DATACENTER = 227 * _KIB
_STATIC_SMEM_RUBIN = 327 * _KIB
_STATIC_SMEM_GEFORCE = 99 * _KIB
_EXTENDED_SMEM_TURING = 64 * _KIB
_EXTENDED_SMEM_AMPERE = 163 * _KIB

TARGETS: tuple[Target, ...] = (
    Target("sm_75", 75, "sm_75", _STATIC_SMEM_LEGACY, 64 * _KIB, 1024, _EXTENDED_SMEM_TURING, slow_f64=True),
    Target("sm_80", 80, "sm_80", _STATIC_SMEM_LEGACY, 164 * _KIB, 2048, _EXTENDED_SMEM_AMPERE, **_AMPERE),
    Target("sm_86", 86, "sm_86", _STATIC_SMEM_LEGACY, 100 * _KIB, 1536, _STATIC_SMEM_GEFORCE, **_AMPERE, slow_f64=True),
    Target("sm_87", 87, "sm_87", _STATIC_SMEM_LEGACY, 164 * _KIB, 1536, _EXTENDED_SMEM_AMPERE, **_AMPERE),
    Target("sm_88", 88, "sm_88", _STATIC_SMEM_LEGACY, 100 * _KIB, 1536, _STATIC_SMEM_GEFORCE, **_AMPERE),
    Target("sm_89", 89, "sm_89", _STATIC_SMEM_LEGACY, 100 * _KIB, 1536, _STATIC_SMEM_GEFORCE, **_ADA, slow_f64=True),
    Target("sm_90", 90, "sm_90a", _STATIC_SMEM_DATACENTER, 228 * _KIB, 2048, **_HOPPER, has_wgmma=True,
           fast_multicast=True),
    Target("sm_100", 100, "sm_100a", _STATIC_SMEM_DATACENTER, 228 * _KIB, 2048, **_TENSOR_MEMORY, has_redux_f32=True,
           has_tcgen05_i8=True, has_tcgen05_scale_d=True),
    Target("sm_103", 103, "sm_103a", _STATIC_SMEM_DATACENTER, 228 * _KIB, 2048, **_TENSOR_MEMORY, has_redux_f32=True,
           has_tcgen05_scale_d=True),
    Target("sm_107", 107, "sm_107a", _STATIC_SMEM_RUBIN, 328 * _KIB, 1024, **_TENSOR_MEMORY, has_redux_f32=True, has_cvt_e5m3=True,
           takes_e5m3_scales=True, has_tcgen05_scale_d=True, ptx_version="9.4", llvm_name="sm_103a"),
    Target("sm_110", 110, "sm_110a", _STATIC_SMEM_DATACENTER, 228 * _KIB, 1536, **_TENSOR_MEMORY, has_tcgen05_i8=True),
    Target("sm_120", 120, "sm_120a", _STATIC_SMEM_GEFORCE, 100 * _KIB, 1536, **_GEFORCE, slow_f64=True),
    Target("sm_121", 121, "sm_121a", _STATIC_SMEM_GEFORCE, 100 * _KIB, 1536, **_GEFORCE, slow_f64=True),
)

_BY_NAME = {target.name: target for target in TARGETS}


def find_target(name: str | Target) -> Target:
    """The target called `name` ("sm_90"). Raises ConfigError when there is none."""
    if isinstance(name, Target):
        return name
    target = _BY_NAME.get(name)
    if target is None:
        raise ConfigError(f"unsupported GPU target '{name}'; supported: {', '.join(_BY_NAME)}")
    return target


def target_of_ptx(name: str) -> Target | None:
    """The target that PTX calls `name` ("sm_90a"), or None."""
    return next((target for target in TARGETS if name in (target.ptx, target.name)), None)


def target_names() -> Iterable[str]:
    return _BY_NAME.keys()
