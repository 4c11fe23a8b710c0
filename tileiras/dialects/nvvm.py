"""nvvm: one row an instruction of the machine, one op for all of them.

    %y = "nvvm.inst"(%mask, %x, %lane, %clamp) <{instruction = "shfl.sync.bfly.i32"}> : (i32, i32, i32, i32) -> i32
    %d = "nvvm.inst"(%acc, %a, %b, %on) <{instruction = "wgmma.mma_async.m64n16k16.f32.f16.f16.ss"}>
             : (vector<8xf32>, i64, i64, i1) -> vector<8xf32>

`find(name)` is the row: operand and result types, the LLVM intrinsic or the inline assembly that says it, whether threads
must execute it together, what it does to memory, and the features of the target that it needs. Rows are data; families
(`wgmma.mma_async.*`, `mma.*`) make theirs from the name. An op takes and gives whole vectors; codegen/nvvm_text.py takes
them apart around the instruction.

Types are written `i1 i16 i32 i64 f16 f32 f64 bf16 v2f16 v8i32 p (generic) p1 p3 p6 p7 (pointers by space)`.

**In flight.** What `wgmma.mma_async` and `tcgen05.ld` give isn't there yet. Nothing may use it but a product that goes on
in the same accumulator, a wait (which takes what was in flight and gives it back, as tied assembly, so that no use can move
before it), or a block argument that leads there. `analysis/in_flight.py` refuses anything else. A wait that leaves groups
pending (`wait_group.1`) takes what is there behind it, not what stays in flight.
"""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IntegerType, StringAttr, VectorType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects import llvm
from tileiras.dialects.base import TileOp
from tileiras.machine.intrinsics import features_of

if TYPE_CHECKING:
    from tileiras.machine.targets import Target

NONE, READ, WRITE, ALL = "", "r", "w", "rw"
"""What an instruction does to memory that the program sees: nothing, reads, writes, or both (also: it synchronizes)."""


class Instruction(NamedTuple):
    """A row. Exactly one of `intrinsic` (the LLVM name behind `llvm.nvvm.`) and `asm` is set. In `asm`, $0, $1, ... are the
    registers of the results, then of the operands, vectors element by element; a register stands for a predicate where the
    type is i1.

    convergent: threads execute it together, so it may not move into or out of a branch. effects: on memory. features:
    fields of the target that all must hold. tied: how many results are the first operands, changed in place; -1: all
    operands come back (a wait). flight: what the results are until a wait ("wgmma", "tcgen05.ld", or nothing), or "wait:"
    and which. volatile: assembly that stays where it is although it has no effect on memory. keeps: the last operands are
    what the results are where the instruction's predicate doesn't hold."""

    name: str
    operands: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    intrinsic: str = ""
    asm: str = ""
    convergent: bool = False
    effects: str = NONE
    features: tuple[str, ...] = ()
    tied: int = 0
    flight: str = ""
    volatile: bool = False
    keeps: bool = False

    @property
    def is_wait(self) -> bool:
        return self.tied < 0

    def missing(self, target: Target) -> str:
        """The first feature that the target lacks, or ""."""
        return next((f for f in self.features if not getattr(target, f)), "")


# --- types ------------------------------------------------------------------------------------------------------------

_SCALARS: dict[str, Attribute] = {
    **{f"i{n}": llvm.integer(n) for n in (1, 8, 16, 32, 64)}, "f16": Float16Type(), "bf16": BFloat16Type(),
    "f32": Float32Type(), "f64": Float64Type(), **{f"p{n or ''}": llvm.ptr(n) for n in (0, 1, 3, 6, 7)}}
_VECTOR = r"v(\d+)(\w+)"


@cache
def type_of(word: str) -> Attribute:
    """The type that a row's word stands for."""
    found = _SCALARS.get(word)
    if found is None:
        match = re.fullmatch(_VECTOR, word)
        assert match is not None, word
        found = llvm.vec(int(match[1]), _SCALARS[match[2]])
    return found


@cache
def word_of(t: Attribute) -> str:
    """How rows write a type; its text for one that no row has."""
    if isinstance(t, VectorType):
        return f"v{t.get_shape()[0]}{word_of(t.element_type)}"
    if isinstance(t, llvm.PtrType):
        return f"p{t.space.data or ''}"
    if isinstance(t, IntegerType):
        return f"i{t.width.data}"
    return str(t)


# --- rows -------------------------------------------------------------------------------------------------------------

_ROWS: dict[str, dict[str, Any]] = {}
"""The table's rows as what an Instruction is made of, when it is asked for."""
_FAMILIES: list[tuple[str, str, Callable[[re.Match[str]], Instruction | None]]] = []


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _intrinsic(name: str, operands: str = "", results: str = "", *, suffix: str = "", **facts: Any) -> None:
    """A row whose name is the intrinsic's; `suffix` is the mangling of overloaded types. Features follow from the name."""
    _ROWS[name] = {"operands": operands, "results": results, "intrinsic": name + suffix, **facts}


def _assembly(name: str, asm: str, operands: str = "", results: str = "", **facts: Any) -> None:
    _ROWS[name] = {"asm": asm, "operands": operands, "results": results, "effects": ALL, **facts}


def _make(name: str, facts: dict[str, Any]) -> Instruction:
    features = _words(facts["features"]) if "features" in facts else tuple(features_of(name)) if "intrinsic" in facts else ()
    return Instruction(name, **{**facts, "operands": _words(facts["operands"]), "results": _words(facts["results"]),
                                "features": features})


def family(prefixes: str, pattern: str) -> Callable[[Callable[[re.Match[str]], Instruction | None]], None]:
    """Register what makes the row of a name that begins with one of `prefixes` and matches `pattern` whole (None: there
    is no such instruction). Patterns are compiled when a name asks for it, not at import."""
    def register(make: Callable[[re.Match[str]], Instruction | None]) -> None:
        _FAMILIES.extend((prefix, pattern, make) for prefix in prefixes.split())
    return register


@cache
def find(name: str) -> Instruction | None:
    """The row called `name`, None if there is no such instruction."""
    facts = _ROWS.get(name)
    if facts is not None:
        return _make(name, facts)
    for prefix, pattern, make in _FAMILIES:
        if name.startswith(prefix) and (match := re.fullmatch(pattern, name)) is not None:
            return make(match)
    return None


def rows() -> Iterator[Instruction]:
    """All rows that aren't made from their name."""
    return (_make(name, facts) for name, facts in _ROWS.items())


TRY_WAIT_NS = 10_000_000
"""How long one try_wait may suspend a thread; the original waits so."""


# --- the table --------------------------------------------------------------------------------------------------------


def _table() -> None:
    for axis in "xyz":
        for register in ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster.ctaid", "cluster.nctaid"):
            _intrinsic(f"read.ptx.sreg.{register}.{axis}", "", "i32")
    for register in ("laneid", "lanemask.lt", "warpid", "smid", "nsmid", "cluster.ctarank", "cluster.nctarank"):
        _intrinsic(f"read.ptx.sreg.{register}", "", "i32")

    # between the lanes of a warp
    for mode in ("idx", "bfly", "up", "down"):
        _intrinsic(f"shfl.sync.{mode}.i32", "i32 i32 i32 i32", "i32", convergent=True)
    for op in ("add", "and", "or", "xor", "min", "max", "umin", "umax"):
        _intrinsic(f"redux.sync.{op}", "i32 i32", "i32", convergent=True)
    for op in ("all", "any", "uni"):
        _intrinsic(f"vote.{op}.sync", "i32 i1", "i1", convergent=True)
    _intrinsic("vote.ballot.sync", "i32 i1", "i32", convergent=True)
    _intrinsic("match.any.sync.i32", "i32 i32", "i32", convergent=True)
    _intrinsic("elect.sync", "i32", "i32 i1", convergent=True)
    _intrinsic("bar.warp.sync", "i32", convergent=True, effects=ALL)

    # between the threads of a block or cluster
    _intrinsic("barrier.cta.sync.aligned.all", "i32", convergent=True, effects=ALL)
    _intrinsic("barrier.cta.sync.aligned.count", "i32 i32", convergent=True, effects=ALL)
    _intrinsic("barrier.cta.arrive.aligned.count", "i32 i32", convergent=True, effects=ALL)
    for what in ("arrive", "arrive.relaxed", "wait"):
        _intrinsic(f"barrier.cluster.{what}.aligned", convergent=True, effects=ALL)
    _intrinsic("mapa.shared.cluster", "p3 i32", "p7")
    _assembly("griddepcontrol.wait", "griddepcontrol.wait;", features="has_griddepcontrol")
    _assembly("griddepcontrol.launch_dependents", "griddepcontrol.launch_dependents;", features="has_griddepcontrol")

    # fences
    _intrinsic("fence.mbarrier_init.release.cluster", effects=ALL)
    _intrinsic("fence.proxy.async", effects=ALL)
    _intrinsic("fence.proxy.async.shared_cta", effects=ALL)
    _intrinsic("fence.proxy.async.global", effects=ALL)
    _intrinsic("fence.sc.cluster", effects=ALL)
    _assembly("fence.proxy.alias", "fence.proxy.alias;")
    for scope in ("cta", "gpu", "sys"):
        _assembly(f"fence.acq_rel.{scope}", f"fence.acq_rel.{scope};")

    # mbarriers: the counts' fields are of 20 bits
    _intrinsic("mbarrier.init.shared", "p3 i32", effects=ALL)
    _intrinsic("mbarrier.inval.shared", "p3", effects=ALL)
    _intrinsic("mbarrier.arrive.shared", "p3", "i64", effects=ALL)
    _intrinsic("mbarrier.arrive.expect.tx.scope.cta.space.cta", "p3 i32", "i64", effects=ALL)
    _intrinsic("mbarrier.expect.tx.scope.cta.space.cta", "p3 i32", effects=ALL)
    # under a predicate: a branch around the intrinsic splits the block, and what stands behind it can't move up
    _assembly("mbarrier.arrive.shared.if", "@$1 mbarrier.arrive.shared.b64 _, [$0];", "p3 i1", features="has_mbarrier")
    _assembly("mbarrier.arrive.scope.cta.space.cluster.if", "@$1 mbarrier.arrive.shared::cluster.b64 _, [$0];", "p7 i1",
              features="has_clusters")
    _assembly("mbarrier.wait.parity", "{\n .reg .pred done;\nWAIT:\n mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1, "
              f"{TRY_WAIT_NS};\n @!done bra WAIT;\n}}", "p3 i32", features="has_clusters", convergent=True)
    _assembly("mbarrier.spin.parity", "{\n .reg .pred done;\nWAIT:\n mbarrier.test_wait.parity.shared.b64 done, [$0], $1;\n "
              "@!done bra WAIT;\n}", "p3 i32", features="has_mbarrier", convergent=True)

    # tile blocks that haven't started
    _assembly("clusterlaunchcontrol.try_cancel", "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
              ".b128 [$0], [$1];", "p3 p3", features="has_launch_control")
    _assembly("clusterlaunchcontrol.query_cancel", "{\n .reg .b128 answer;\n .reg .pred given;\n ld.shared.b128 answer, [$4];\n "
              "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 given, answer;\n selp.b32 $3, 1, 0, given;\n "
              "mov.b32 $0, 0;\n mov.b32 $1, 0;\n mov.b32 $2, 0;\n "
              "@given clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {$0, $1, $2, _}, answer;\n}", "p3",
              "i32 i32 i32 i32", features="has_launch_control")

    # copies by threads
    for nbytes, caches in ((4, ("ca",)), (8, ("ca",)), (16, ("ca", "cg"))):
        for level in caches:
            _intrinsic(f"cp.async.{level}.shared.global.{nbytes}", "p3 p1", effects=ALL)
            _intrinsic(f"cp.async.{level}.shared.global.{nbytes}.s", "p3 p1 i32", effects=ALL)
            name = f"cp.async.{level}.shared.global"
            for suffix, more, types in (("", "", "p3 p1"), (".ignore", ", $2", "p3 p1 i1")):
                if suffix:      # nothing is read where the predicate holds, and zeros are written
                    _assembly(f"{name}.{nbytes}{suffix}", f"{name} [$0], [$1], {nbytes}{more};", types, features="has_cp_async")
                _assembly(f"{name}.{nbytes}{suffix}.if", f"@${types.count(' ') + 1} {name} [$0], [$1], {nbytes}{more};",
                          f"{types} i1", features="has_cp_async")
    _intrinsic("cp.async.commit.group", effects=ALL)
    _intrinsic("cp.async.wait.group", "i32", effects=ALL)
    _intrinsic("cp.async.wait.all", effects=ALL)
    _intrinsic("cp.async.mbarrier.arrive.shared", "p3", effects=ALL)
    _intrinsic("cp.async.mbarrier.arrive.noinc.shared", "p3", effects=ALL)

    # copies by the engine: multicast mask and cache hint with their switches
    _intrinsic("cp.async.bulk.global.to.shared.cluster", "p7 p3 p1 i32 i16 i64 i1 i1", effects=ALL)
    _intrinsic("cp.async.bulk.shared.cta.to.global", "p1 p3 i32 i64 i1", effects=ALL)
    for rank in range(1, 6):
        at = "i32 " * rank
        _intrinsic(f"cp.async.bulk.tensor.g2s.tile.{rank}d", f"p7 p3 p {at} i16 i64 i1 i1 i32", effects=ALL)
        _intrinsic(f"cp.async.bulk.tensor.g2s.cta.tile.{rank}d", f"p3 p3 p {at} i64 i1", effects=ALL)
        _intrinsic(f"cp.async.bulk.tensor.s2g.tile.{rank}d", f"p3 p {at} i64 i1", effects=ALL)
        _intrinsic(f"cp.async.bulk.tensor.prefetch.tile.{rank}d", f"p {at} i64 i1", effects=ALL)
        for op in ("add", "min", "max", "inc", "dec", "and", "or", "xor"):
            _intrinsic(f"cp.async.bulk.tensor.reduce.{op}.tile.{rank}d", f"p3 p {at} i64 i1", effects=ALL)
    # maps that the kernel builds: where a block has memory for them, and between writing and using one
    _assembly("mov.perctamemoryoffset", "mov.u64 $0, %perctamemoryoffset;", "", "i64", features="has_tma")
    _intrinsic("fence.proxy.tensormap_generic.release.gpu", effects=ALL)
    _intrinsic("fence.proxy.tensormap_generic.acquire.gpu", "p i32", effects=ALL)
    # LLVM's intrinsic becomes two instructions where the map is a parameter
    _assembly("prefetch.tensormap", "prefetch.tensormap [$0];", "p", features="has_tma")
    _intrinsic("cp.async.bulk.commit.group", effects=ALL)
    _intrinsic("cp.async.bulk.wait.group", "i32", effects=ALL)
    _intrinsic("cp.async.bulk.wait.group.read", "i32", effects=ALL)

    # matrices of 8 x 8
    for count in (1, 2, 4):
        for trans in ("", ".trans"):
            name = f"sync.aligned.m8n8.x{count}{trans}.b16"
            _intrinsic(f"ldmatrix.{name}", "p3", "i32 " * count, suffix=".p3", convergent=True, effects=READ)
            _intrinsic(f"stmatrix.{name}", "p3 " + "i32 " * count, suffix=".p3", convergent=True, effects=WRITE)
    for count in (1, 2):        # of 16 x 16 bytes, turned: two registers each
        _intrinsic(f"ldmatrix.sync.aligned.m16n16.x{count}.trans.b8", "p3", "i32 " * (2 * count), suffix=".p3", convergent=True,
                   effects=READ)

    # products of a warpgroup
    _intrinsic("wgmma.commit_group.sync.aligned", convergent=True, effects=ALL)
    _assembly("wgmma.fence", "wgmma.fence.sync.aligned;", features="has_wgmma", convergent=True, tied=-1)
    # no instruction: what it gives back is nothing that LLVM knows to be equal to something else
    _assembly("own.registers", "// registers of their own", tied=-1, effects=NONE, volatile=True)
    # a zero that LLVM doesn't know to be one
    _assembly("zero.b16", "mov.b16 $0, 0;", results="i16", effects=NONE)
    _assembly("zero.b32", "mov.b32 $0, 0;", results="i32", effects=NONE)
    # a zero that ptxas doesn't know to be one either, of a number of 16 bits, and what makes another value of one by it
    _assembly("zero.of.b32", "shr.u32 $0, $1, 16;", "i32", "i32", effects=NONE)
    # a number that LLVM can't look at earlier
    _assembly("look.b32", "mov.b32 $0, $1;", "i32", "i32", effects=ALL)
    _assembly("settle.b32", "or.b32 $0, $1, $2;", "i32 i32", "i32", effects=NONE)
    _assembly("settle.b16", "or.b16 $0, $1, $2;", "i16 i16", "i16", effects=NONE)
    # 1 or 0
    _assembly("set.lt.f32", "set.lt.f32.f32 $0, $1, $2;", "f32 f32", "f32", effects=NONE)
    # a number of which LLVM doesn't know what it was extended from
    _assembly("extended.b64", "mov.b64 $0, $1;", operands="i64", results="i64", effects=NONE)
    for count in range(8):
        _assembly(f"wgmma.wait_group.{count}", f"wgmma.wait_group.sync.aligned {count};", features="has_wgmma", convergent=True,
                  tied=-1, flight="wait:wgmma")

    # registers between warps' roles
    _intrinsic("setmaxnreg.inc.sync.aligned.u32", "i32", convergent=True, effects=ALL)
    _intrinsic("setmaxnreg.dec.sync.aligned.u32", "i32", convergent=True, effects=ALL)

    # tensor memory
    for group in (1, 2):
        _intrinsic(f"tcgen05.alloc.shared.cg{group}", "p3 i32", convergent=True, effects=ALL)
        _intrinsic(f"tcgen05.dealloc.cg{group}", "p6 i32", convergent=True, effects=ALL)
        _intrinsic(f"tcgen05.relinq.alloc.permit.cg{group}", convergent=True, effects=ALL)
        _intrinsic(f"tcgen05.commit.shared.cg{group}", "p3", effects=ALL)
        _intrinsic(f"tcgen05.commit.mc.shared.cg{group}", "p3 i16", effects=ALL)    # to the CTAs of a mask
        for shape in ("128x256b", "128x128b", "4x256b", "64x128b_warpx2_02_13", "64x128b_warpx2_01_23", "32x128b_warpx4"):
            _intrinsic(f"tcgen05.cp.{shape}.cg{group}", "p6 i64", effects=ALL)
    _intrinsic("tcgen05.mma.shared", "p6 i64 i64 i32 i1 i32 i32 i32", effects=ALL)
    _intrinsic("tcgen05.mma.tensor", "p6 p6 i64 i32 i1 i32 i32 i32", effects=ALL)
    for kind in ("mxf8f6f4.block_scale.block32", "mxf4.block_scale.block32", "mxf4nvf4.block_scale.block16",
                 "mxf4nvf4.block_scale.block32"):
        # behind the switch: where scale factors of A and of B lie in tensor memory
        _intrinsic(f"tcgen05.mma.shared.{kind}", "p6 i64 i64 i32 i1 p6 p6 i32 i32", effects=ALL)
    _intrinsic("tcgen05.fence.before.thread.sync", convergent=True, effects=ALL)
    _intrinsic("tcgen05.fence.after.thread.sync", convergent=True, effects=ALL)
    _intrinsic("tcgen05.wait.st", convergent=True, effects=ALL)
    _assembly("tcgen05.wait.ld", "tcgen05.wait::ld.sync.aligned;", features="has_tcgen05", convergent=True, tied=-1,
              flight="wait:tcgen05.ld")
    for shape, each in (("32x32b", 1), ("16x64b", 1), ("16x128b", 2), ("16x256b", 4), ("16x32bx2", 1)):
        split = " i64" if shape == "16x32bx2" else ""       # columns from a warp's first half to the second
        for count in (1, 2, 4, 8, 16, 32, 64, 128):
            registers = each * count
            if registers <= 128:
                held = f"v{registers}i32" if registers > 1 else "i32"
                _intrinsic(f"tcgen05.ld.{shape}.x{count}", f"p6{split} i1", held, convergent=True, effects=ALL, flight="tcgen05.ld")
                _intrinsic(f"tcgen05.st.{shape}.x{count}", f"p6{split} {held} i1", convergent=True, effects=ALL)

    _intrinsic("prmt", "i32 i32 i32", "i32")
    # so many ones from bit 0 on; 32 and more are all, which of a shift LLVM leaves undefined
    _assembly("bmsk.clamp", "bmsk.clamp.b32 $0, 0, $1;", "i32", "i32", effects=NONE)
    _assembly("test.bit", "{.reg .b32 t; and.b32 t, $1, $2; setp.ne.b32 $0, t, 0;}", "i32 i32", "i1", effects=NONE)
    # LLVM forgets that a product is of 32 bits where it knows one side's sign and not the other's
    _assembly("mul.wide.s32", "mul.wide.s32 $0, $1, $2;", "i32 i32", "i64", effects=NONE)

    # what stands in a place for the assembler or the debugger
    _assembly("trap", "trap;", effects=NONE, volatile=True)
    _assembly("pragma.nounroll", '.pragma "nounroll";', effects=NONE, volatile=True)
    for mode in ("rz", "rm", "rp"):
        for t in ("f16", "bf16"):
            _assembly(f"cvt.{mode}.{t}.f32", f"cvt.{mode}.{t}.f32 $0, $1;", "f32", t, effects=NONE,
                      features="has_cvt_bf16_directed" if t == "bf16" else "")
    for name, places, operands, result in (
            ("satfinite.ue5m3x2.f32", "$0, $1, $2", "f32 f32", "i16"), ("satfinite.ue5m3x2.f16x2", "$0, $1", "v2f16", "i16"),
            ("bf16x2.ue5m3x2", "$0, $1", "i16", "v2bf16")):
        _assembly(f"cvt.rn.{name}", f"cvt.rn.{name} {places};", operands, result, effects=NONE, features="has_cvt_e5m3")


_table()


# --- families -----------------------------------------------------------------------------------------------------------


_MMA_REGISTERS = {"f16": "v2f16", "f32": "f32", "f64": "f64", "s32": "i32"}


@family("mma.m", r"mma\.m(\d+)n8k(\d+)\.row\.col\.([\w.]+)")
def _mma(match: re.Match[str]) -> Instruction | None:
    """Products of a warp: the rows of layout/atoms/mma_sync.py. Registers of A, of B, of C; as many results as C has."""
    from tileiras.layout.atoms.mma_sync import ATOMS
    atom = next((a for a in ATOMS if a.intrinsic == match[0]), None)
    if atom is None:
        return None
    return _product(atom, "v2f16" if atom.a == "f16" else "f64" if atom.a == "f64" else "i32", ())


@family("mma.block", r"mma\.block\.scale\.[\w.]+")
def _block_scaled(match: re.Match[str]) -> Instruction | None:
    """The same with scale factors: behind C a register, byte and thread selector of A's, then of B's."""
    from tileiras.layout.atoms.block_scaled import BLOCK_SCALED
    atom = next((a for a in BLOCK_SCALED if a.intrinsic == match[0]), None)
    return None if atom is None else _product(atom, "i32", ("i32", "i16", "i16") * 2)


def _product(atom: Any, register: str, more: tuple[str, ...]) -> Instruction:
    per = atom.elements_per_reg
    sources = (atom.m + atom.n) * atom.k // 32 // per
    c = _MMA_REGISTERS[atom.acc]
    accumulators = (c,) * (atom.m * atom.n // 32 // (2 if atom.acc == "f16" else 1))
    return Instruction(atom.intrinsic, (register,) * sources + accumulators + more, accumulators, intrinsic=atom.intrinsic,
                       convergent=True, features=tuple(features_of(atom.intrinsic)))


_WGMMA_K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}


@family("wgmma.mma_async", r"wgmma\.mma_async\.m64n(\d+)k(\d+)\.(f32|f16|s32)\.(\w+)\.(\w+)\.(ss|rs)((?:\.ta)?)((?:\.tb)?)"
                           r"((?:\.neg)?)")
def _wgmma(match: re.Match[str]) -> Instruction | None:
    """A product of a warpgroup: accumulator (tied), A's descriptor or four registers, B's descriptor, whether to add to the
    accumulator. `.ta`, `.tb`: M of A, N of B is contiguous in shared memory. `.neg`: A's sign is changed."""
    n, k = int(match[1]), int(match[2])
    acc, a, b, where = match[3], match[4], match[5], match[6]
    if _WGMMA_K.get(a) != k or _WGMMA_K.get(b) != k or n % 8 or not 8 <= n <= 256:
        return None
    sixteen, integer = a in ("f16", "bf16"), a in ("s8", "u8")
    transposed = match[7] or match[8]
    if (transposed and not sixteen) or (match[7] and where == "rs") or integer != (acc == "s32") or \
            (match[9] and integer):
        return None
    count = n // 4 if acc == "f16" else n // 2
    register = "f32" if acc == "f32" else "i32"
    held = f"v{count}{register}"
    d = ", ".join(f"${i}" for i in range(count))
    at = 2 * count      # behind the results come the tied operands
    source = f"${at}" if where == "ss" else "{" + ", ".join(f"${at + i}" for i in range(4)) + "}"
    at += 1 if where == "ss" else 4
    flags = "" if integer else ", -1, 1" if match[9] else ", 1, 1"
    if sixteen:
        flags += f", {int(bool(match[7]))}" if where == "ss" else ""
        flags += f", {int(bool(match[8]))}"
    asm = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{acc}.{a}.{b} {{{d}}}, {source}, ${at}, ${at + 1}{flags};"
    return Instruction(match[0], (held, "i64" if where == "ss" else "v4i32", "i64", "i1"), (held,), asm=asm, convergent=True,
                       effects=ALL, features=("has_wgmma",), tied=1, flight="wgmma")


_ORDER = r"((?:\.(?:relaxed|acquire|release|mmio)\.(?:cta|cluster|gpu|sys)|\.volatile|\.weak)?)"


@family("ld. st.", r"(ld|st)" + _ORDER + r"(\.global|\.shared|)(\.nc|)((?:\.v[248])?)\.b(8|16|32|64)(\.if)?")
def _access(match: re.Match[str]) -> Instruction | None:
    """Loads and stores that LLVM's own can't say: ordered, or where a predicate holds (`.if`: predicate behind the
    address, and for loads the values to keep where it doesn't), or of what nobody writes (`.nc`)."""
    kind, order, space, once, vector, bits, masked = match.groups()
    if once and (kind != "ld" or order or space != ".global"):
        return None
    count = int(vector[2:]) if vector else 1
    word = f"i{max(16, int(bits))}"
    address = {".global": "p1", ".shared": "p3", "": "p"}[space]
    first = count if kind == "ld" else 1
    names = ", ".join(f"${i + (0 if kind == 'ld' else 1)}" for i in range(count))
    values = f"{{{names}}}" if count > 1 else names
    if kind == "ld":
        asm = f"ld{order}{space}{once}{vector}.b{bits} {values}, [${first}];"
        operands, results = (address,), (word,) * count
        if masked:
            asm, operands = f"@${first + 1} {asm}", (address, "i1", *results)
        return Instruction(match[0], operands, results, asm=asm, effects=ALL if order else READ, keeps=bool(masked))
    asm = f"st{order}{space}{vector}.b{bits} [$0], {values};"
    operands = (address, *(word,) * count)
    if masked:
        asm, operands = f"@${count + 1} {asm}", (*operands, "i1")
    return Instruction(match[0], operands, (), asm=asm, effects=ALL)


_ATOMIC = (r"(atom|red)\.(relaxed|acquire|release|acq_rel)\.(cta|cluster|gpu|sys)(\.global|\.shared|)\."
           r"((?:and|or|xor|exch|cas)\.b(?:16|32|64)|add\.(?:u32|u64|f32|f64|noftz\.b?f16)|(?:min|max)\.[su](?:32|64)"
           r"|add(?:\.v[24]\.f32|\.noftz(?:\.v[24])?\.b?f16x2))(\.if)?")


@family("atom. red.", _ATOMIC)
def _atomic(match: re.Match[str]) -> Instruction | None:
    """Read-modify-writes: address, value (for cas: what is compared, then the value; of a vector's reduction all words); with
    `.if` the predicate, and what the result is where it doesn't hold."""
    kind, semantic, scope, space, op, masked = match.groups()
    if kind == "red" and (semantic in ("acquire", "acq_rel") or op.startswith(("exch", "cas"))):
        return None
    vector = re.search(r"\.v([24])", op)
    several = vector is not None or op.endswith("x2")
    if several and (kind == "atom" or (vector is not None and space != ".global")):
        return None
    word = "i32" if several else f"i{op[-2:]}"
    address = {".global": "p1", ".shared": "p3", "": "p"}[space]
    values = 2 if op.startswith("cas") else int(vector[1]) if vector else 1
    first = int(kind == "atom")
    sources = "".join(f", ${first + 1 + i}" for i in range(values))
    if vector:
        sources = f", {{{sources[2:]}}}"
    asm = f"{kind}.{semantic}.{scope}{space}.{op} {'$0, ' if first else ''}[${first}]{sources};"
    operands = (address, *(word,) * values)
    if masked:
        asm, operands = f"@${first + 1 + values} {asm}", (*operands, "i1", *(word,) * first)
    return Instruction(match[0], operands, (word,) * first, asm=asm, effects=ALL, keeps=bool(masked and first))


# --- the op -------------------------------------------------------------------------------------------------------------


class Inst(TileOp):
    """One machine instruction: `instruction` names its row."""

    name = "nvvm.inst"
    OPERANDS = "args:llvm.value*"
    RESULTS = "outs:llvm.value*"
    ATTRS = "instruction:name"

    @property
    def row(self) -> Instruction:
        """The row. Raises VerifyException if there is none."""
        name = self.properties.get("instruction")
        found = find(name.data) if isinstance(name, StringAttr) else None
        if found is None:
            raise VerifyException(f"'nvvm.inst' op knows no instruction {name}")
        return found

    def verify_op(self) -> None:
        super().verify_op()
        row = self.row
        given, made = ([word_of(v.type) for v in values] for values in (self.operands, self.results))
        if row.is_wait:
            if made != given:
                raise VerifyException(f"'nvvm.inst' op {row.name} gives back what it takes: {given}, not {made}")
            return
        for what, found, wanted in (("takes", given, row.operands), ("gives", made, row.results)):
            if tuple(found) != wanted:
                raise VerifyException(f"'nvvm.inst' op {row.name} {what} ({' '.join(wanted)}), not ({' '.join(found)})")


OPS: dict[str, type[TileOp]] = {Inst.name: Inst}
