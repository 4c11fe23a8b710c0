"""What LLVM is never given, because it would end the process or compile it to something else.

LLVM's answer to an instruction that it can't select is to abort; to an ordered atomic, to drop the order. So a
module's text is checked here first, against one table of rules: an op or an intrinsic family, and what a target
must have for it. Rows come from the PTX ISA's target notes and from trying each op on LLVM 22 and ptxas 13.5.
"""
from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from tileiras.errors import CompileError
from tileiras.machine.targets import TARGETS, Target

if TYPE_CHECKING:
    from collections.abc import Iterator


class IntrinsicRule(NamedTuple):
    """Intrinsics whose name after `llvm.nvvm.` begins with `prefix` and holds `contains` need a target's `feature`."""

    prefix: str
    feature: str
    contains: str = ""

    def applies(self, name: str) -> bool:
        return name.startswith(self.prefix) and self.contains in name


_R = IntrinsicRule
# Every row that applies must hold.
INTRINSIC_RULES: tuple[IntrinsicRule, ...] = (
    # matrix instructions
    _R("wgmma.", "has_wgmma"),
    _R("tcgen05.", "has_tcgen05"),
    _R("stmatrix.", "has_stmatrix"),
    _R("stmatrix.", "has_cvt_fp4_fp6", ".m16n8."),
    _R("ldmatrix.", "has_cvt_fp4_fp6", ".m16n16."),
    _R("ldmatrix.", "has_cvt_fp4_fp6", ".m8n16."),
    _R("mma.block.scale", "has_block_scaled_mma"),
    _R("mma.sp.ordered.metadata.block.scale", "has_block_scaled_mma"),
    _R("mma.sp.", "has_f16_mma_k16"),
    _R("mma.m16n8k16.", "has_f16_mma_k16"),
    _R("mma.", "has_bf16_mma", ".bf16"),
    _R("mma.", "has_tf32_mma", ".tf32"),
    _R("mma.m8n8k4.row.col.f64", "has_f64_mma"),
    _R("mma.m16n8k", "has_f64_mma_m16", ".f64"),
    _R("mma.m16n8k32.", "has_f16_mma_k16"),
    _R("mma.m16n8k64.", "has_f16_mma_k16"),
    *(_R("mma.", "has_fp8_mma", f".{t}") for t in ("e4m3", "e5m2")),
    *(_R("mma.", "has_block_scaled_mma", f".{t}") for t in ("e2m1", "e2m3", "e3m2")),
    # copies and synchronisation
    _R("cp.async.", "has_cp_async"),
    _R("cp.async.bulk", "has_tma"),
    _R("cp.async.bulk.tensor", "has_tcgen05", "gather4"),
    _R("cp.async.bulk.tensor", "has_tcgen05", "scatter4"),
    _R("cp.async.mbarrier", "has_mbarrier"),
    _R("tensormap.replace", "has_tma"),
    _R("prefetch.tensormap", "has_tma"),
    _R("mbarrier.", "has_mbarrier"),
    _R("mbarrier.", "has_clusters", "try.wait"),
    _R("mbarrier.", "has_clusters", ".scope."),
    _R("mbarrier.", "has_clusters", "expect.tx"),
    _R("mbarrier.", "has_clusters", "complete.tx"),
    _R("barrier.cluster", "has_clusters"),
    _R("mapa", "has_clusters"),
    _R("getctarank", "has_clusters"),
    _R("is_explicit_cluster", "has_clusters"),
    _R("read.ptx.sreg.", "has_clusters", "cluster"),
    _R("fence.sc.cluster", "has_clusters"),
    _R("fence.mbarrier_init", "has_clusters"),
    _R("fence.proxy.", "has_tma", "async"),
    _R("fence.proxy.", "has_tma", "tensormap"),
    _R("fence.", "has_clusters", "sync_restrict"),
    _R("elect.sync", "has_elect"),
    _R("setmaxnreg", "has_setmaxnreg"),
    _R("griddepcontrol", "has_griddepcontrol"),
    _R("clusterlaunchcontrol", "has_wide_global_access"),
    # arithmetic
    _R("redux.sync.", "has_redux"),
    _R("redux.sync.fm", "has_redux_f32"),
    _R("fma.", "has_bf16_fma", "bf16"),
    _R("fma.", "has_bf16_fma", "relu"),
    *(_R(op, "has_f16_minmax", t) for op in ("fmin.", "fmax.") for t in ("f16", "nan", "xorsign")),
    _R("neg.bf16", "has_bf16_fma"),
    # conversions
    _R("ff2bf16x2", "has_cvt_bf16"),
    _R("f2bf16", "has_cvt_bf16"),
    _R("ff2f16x2", "has_cvt_bf16"),
    _R("f2tf32", "has_cvt_tf32"),
    *(_R(f"ff.to.{t}", "has_cvt_fp8") for t in ("e4m3x2", "e5m2x2")),
    *(_R(f"f16x2.to.{t}", "has_cvt_fp8") for t in ("e4m3x2", "e5m2x2")),
    *(_R(t, "has_cvt_fp8") for t in ("e4m3x2.", "e5m2x2.")),
    *(_R(f"ff.to.{t}", "has_cvt_fp4_fp6") for t in ("e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2")),
    *(_R(t, "has_cvt_fp4_fp6") for t in ("e2m1x2.", "e2m3x2.", "e3m2x2.", "ue8m0x2.", "bf16x2.to.ue8m0x2", "f32x4")),
)

APPROXIMABLE = ("sin", "cos", "tanh")
"""Generic intrinsics that select when the call is `afn` (and the type is f32 or narrower)."""
LIBRARY_ONLY = ("tan", "asin", "acos", "atan", "sinh", "cosh", "log", "log2", "log10", "exp", "exp10", "pow", "powi",
                "atan2", "sincos", "sincospi", "modf", "frexp")
"""Generic intrinsics that no target selects: they are calls of libdevice functions."""
_UNSELECTABLE = ("exp2.f64", "tanh.f64", "sin.f64", "cos.f64", "canonicalize.bf16", "canonicalize.v2f16",
                 "canonicalize.v2bf16")

_INTRINSIC = re.compile(r"@(llvm\.[\w.]+)")
_GENERIC_MATH = re.compile(r"llvm\.(" + "|".join((*APPROXIMABLE, *LIBRARY_ONLY)) + r")\.(v\d+)?(bf16|f16|f32|f64)")
_INSTRUCTION = re.compile(r"(?:^|= |tail |notail )(frem|atomicrmw|cmpxchg|load atomic|store atomic|fence|sitofp|uitofp|"
                          r"fptosi|fptoui|fptrunc|fpext|fadd|fsub|fmul|fdiv)\b([^\n]*)", re.MULTILINE)
_SUSPECT = re.compile(r"\bfrem\b|\batomic|\bcmpxchg\b|\bfence\b|\bi128\b|\bfp128\b|\bx86_fp80\b")
_KERNEL = re.compile(r'^define ptx_kernel void @(?:"([^"]*)"|([^\s(]+))', re.MULTILINE)
_PTX_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_$]*|[_$][A-Za-z0-9_$]+")
_SCOPE = re.compile(r'syncscope\("(\w*)"\)')
_WIDE_FLOATS = ("fp128", "x86_fp80", "ppc_fp128")


def _targets_with(feature: str) -> str:
    names = [t.name for t in TARGETS if getattr(t, feature)]
    return names[0] if len(names) == 1 else ", ".join(names)


def _generic_math(name: str, llvm_ir: str) -> str:
    """What is wrong with a generic float intrinsic, or ""."""
    if any(name == f"llvm.{bad}" for bad in _UNSELECTABLE):
        return f"'{name}' can't be selected; call the libdevice function instead"
    match = _GENERIC_MATH.fullmatch(name) or _GENERIC_MATH.match(name)
    if match is None:
        return ""
    if match.group(1) in APPROXIMABLE and match.group(3) != "f64":
        calls = re.findall(rf"call ([^@\n]*)@{re.escape(name)}\(", llvm_ir)
        if all(re.search(r"\b(afn|fast)\b", flags) for flags in calls):
            return ""
        return f"'{name}' without 'afn' can't be selected; call the libdevice function instead"
    return f"'{name}' can't be selected; call the libdevice function instead"


def _instructions(llvm_ir: str, target: Target) -> Iterator[str]:
    """What is wrong with a module's plain instructions."""
    for match in _INSTRUCTION.finditer(llvm_ir):
        op, rest = match.groups()
        if op == "frem":
            yield "'frem' is inexact on every target; call __nv_fmod or __nv_fmodf"
        elif any(wide in rest for wide in _WIDE_FLOATS):
            yield f"'{op}' on floats wider than 64 bits isn't available on any target"
        elif "i128" in rest and op in ("sitofp", "uitofp", "fptosi", "fptoui"):
            yield f"'{op}' between floats and i128 isn't available on any target"
        elif op in ("atomicrmw", "cmpxchg", "load atomic", "store atomic", "fence"):
            yield from _atomic(op, rest, target)


def _atomic(op: str, rest: str, target: Target) -> Iterator[str]:
    scope = match.group(1) if (match := _SCOPE.search(rest)) else "system"
    if op == "atomicrmw" and (scope != "device" or "monotonic" not in rest):
        yield "'atomicrmw' loses its scope and ordering; write it as inline PTX"
    if scope == "cluster" and not target.has_clusters:
        yield f"'{op}' at cluster scope needs one of {_targets_with('has_clusters')}"
    if "i128" in rest and (op == "atomicrmw" or not target.has_atom_b128 or "seq_cst" in rest):
        yield f"'{op}' on 128 bits isn't available"


def problems(llvm_ir: str, target: Target) -> list[str]:
    """Why `llvm_ir` can't be compiled for `target`: one text a reason, in order of appearance, none twice."""
    found: dict[str, None] = {}
    for match in _KERNEL.finditer(llvm_ir):
        kernel = match.group(1) or match.group(2) or ""
        if not _PTX_IDENTIFIER.fullmatch(kernel):
            found[f"a kernel called '{kernel}': PTX names are of letters, digits, '_' and '$'"] = None
    for name in dict.fromkeys(_INTRINSIC.findall(llvm_ir)):
        if name.startswith("llvm.nvvm."):
            short = name[len("llvm.nvvm."):]
            for rule in INTRINSIC_RULES:
                if rule.applies(short) and not getattr(target, rule.feature):
                    found[f"'{name}' needs one of {_targets_with(rule.feature)}"] = None
                    break
        elif reason := _generic_math(name, llvm_ir):
            found[reason] = None
    if _SUSPECT.search(llvm_ir):
        found.update(dict.fromkeys(_instructions(llvm_ir, target)))
    return list(found)


def check(llvm_ir: str, target: Target) -> None:
    """Raise CompileError naming the op and the target if LLVM would not survive `llvm_ir`."""
    reasons = problems(llvm_ir, target)
    if reasons:
        raise CompileError(f"not available on {target.name}: " + "; ".join(reasons))
