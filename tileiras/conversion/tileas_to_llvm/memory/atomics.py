"""Atomic read-modify-writes, compare-and-swap and reductions in global memory, as inline PTX.

LLVM drops the ordering and the scope of every `atomicrmw`, so each row of this table becomes

    atom{.sem}{.scope}.global.<op>.<type> %old, [%p], %x;      (`red` where the old value isn't wanted)

predicated on the mask and, where several threads hold an element, on one of them (`share-results` hands the old value to the
others). An access by a scalar pointer is made by one thread for the block. Where the old values aren't wanted, neighbours go in
one reduction as far as `runs` says (analysis/access_facts.py asks the target).
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.analysis.access import access_width
from tileiras.conversion.tileas_to_llvm.builder import I16, I32, width_of
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers, storage_type
from tileiras.conversion.tileas_to_llvm.memory.access import SCOPES, address, both
from tileiras.conversion.tileas_to_llvm.memory.loads_stores import (
    ViewAddress,
    _regs_or_repeat,
    _text,
    groups,
    view_address,
)
from tileiras.dialects.llvm import integer
from tileiras.layout.linear import LinearLayout

# rmw mode -> (PTX op, type prefix); the width is the element's
MODES: dict[str, tuple[str, str]] = {
    "and": ("and", "b"), "or": ("or", "b"), "xor": ("xor", "b"), "add": ("add", "u"), "addf": ("add", "f"),
    "max": ("max", "s"), "min": ("min", "s"), "umax": ("max", "u"), "umin": ("min", "u"), "xchg": ("exch", "b")}

REDUCTIONS = frozenset({"relaxed", "release"})
"""Orders that `red` has."""


def ptx_type(mode: str, t: Attribute) -> str:
    """The PTX spelling of an atomic's operation and type: "add.f32", "min.s64", "add.noftz.f16"."""
    op, prefix = MODES[mode]
    if isinstance(t, Float16Type):
        return f"{op}.noftz.f16" if op == "add" else f"{op}.b16"
    if isinstance(t, BFloat16Type):
        return f"{op}.noftz.bf16" if op == "add" else f"{op}.b16"
    return f"{op}.{prefix}{width_of(t)}"


def qualifiers(op: Operation) -> tuple[str, str]:
    """(semantic, PTX scope) of an atomic op."""
    return _text(op, "mem_semantic") or "relaxed", SCOPES[_text(op, "mem_scope") or "sys"]


def rmw(low: Lowering, p: SSAValue, x: SSAValue, mode: str, semantic: str, scope: str, predicate: SSAValue | None,
        wanted: bool) -> SSAValue | None:
    """One atomic read-modify-write; the old value if wanted (zero where the predicate is false)."""
    b = low.b
    t = x.type
    if isinstance(t, BFloat16Type) and not low.target.has_atom_bf16:
        return _bf16_add_loop(low, p, x, semantic, scope, predicate)
    word = integer(width_of(t))
    value = b.cast("bitcast", x, word)
    p, space = address(low, p)
    reduce = not wanted and semantic in REDUCTIONS and mode != "xchg"
    name = f"{'red' if reduce else 'atom'}.{semantic}.{scope}{space}.{ptx_type(mode, t)}"
    args = [p, value]
    if predicate is not None:
        name += ".if"
        args += [predicate] if reduce else [predicate, b.bits(0, word)]
    out = b.nvvm(name, args)
    return b.cast("bitcast", out[0], t) if wanted and out else None


def reduction_of(low: Lowering, p: SSAValue, values: list[SSAValue], semantic: str, scope: str,
                 predicate: SSAValue | None) -> None:
    """One reduction by addition of neighbours in memory, aligned to their size together: f32, or pairs of f16 or bf16."""
    p, space = address(low, p)
    t = values[0].type
    packed = values if width_of(t) == 32 else [low.b.pack(values[i:i + 2]) for i in range(0, len(values), 2)]
    kind = "f32" if width_of(t) == 32 else "bf16x2" if isinstance(t, BFloat16Type) else "f16x2"
    vector = f".v{len(packed)}" if len(packed) > 1 else ""
    name = f"red.{semantic}.{scope}{space}.add{'' if kind == 'f32' else '.noftz'}{vector}.{kind}"
    args = [p, *(low.b.cast("bitcast", x, I32) for x in packed)]
    if predicate is not None:
        name += ".if"
        args.append(predicate)
    low.b.nvvm(name, args)


_TO_BF16 = "cvt.rn.bf16.f32 next, sum;"
# Round to nearest even in integers: add half of the last kept place less one, and that place; NaN is 0x7fff.
_TO_BF16_BY_INTEGERS = """mov.b32 bits, sum;
 shr.u32 last, bits, 16;
 and.b32 last, last, 1;
 add.u32 bits, bits, last;
 add.u32 bits, bits, 32767;
 shr.u32 bits, bits, 16;
 setp.nan.f32 again, sum, sum;
 selp.b32 bits, 32767, bits, again;
 cvt.u16.u32 next, bits;"""


def _bf16_add_loop(low: Lowering, p: SSAValue, x: SSAValue, semantic: str, scope: str,
                   predicate: SSAValue | None) -> SSAValue:
    """A bf16 addition where no instruction adds atomically (before sm_90): compare-and-swap until nobody came between.

    The sum in f32 rounds to bf16 as the exact sum does: 24 bits are more than twice bf16's 8 and two. The swap carries
    the ordering; the first read has none, since a stale value only costs another turn. Names are local to the braces."""
    b = low.b
    p, space = address(low, p)
    where = f".{scope}{space}"
    rounding = _TO_BF16 if low.target.has_cvt_bf16 else _TO_BF16_BY_INTEGERS
    text = f"""{{
 .reg .pred again;
 .reg .b16 seen, next, zero;
 .reg .b32 bits, last;
 .reg .f32 sum, term;
 mov.b16 zero, 0;
 mov.b16 $0, zero;
 {"@!$3 bra DONE;" if predicate is not None else ""}
 mov.b32 term, {{zero, $2}};
 ld.relaxed{where}.b16 $0, [$1];
TRY:
 mov.b16 seen, $0;
 mov.b32 sum, {{zero, seen}};
 add.rn.f32 sum, sum, term;
 {rounding}
 atom.{semantic}{where}.cas.b16 $0, [$1], seen, next;
 setp.ne.b16 again, $0, seen;
 @again bra TRY;
DONE:
 }}"""
    constraints = ["=&h", "l", "h"]
    args = [p, b.cast("bitcast", x, I16)]
    if predicate is not None:
        constraints.append("b")
        args.append(predicate)
    out = b.asm(text.replace("\n \n", "\n"), ",".join([*constraints, "~{memory}"]), [I16], args)
    return b.cast("bitcast", out[0], x.type)


def cas(low: Lowering, p: SSAValue, compare: SSAValue, x: SSAValue, semantic: str, scope: str,
        predicate: SSAValue | None) -> SSAValue:
    """One compare-and-swap (bitwise); the old value, `compare` where the predicate is false."""
    b = low.b
    t = x.type
    word = integer(width_of(t))
    p, space = address(low, p)
    name = f"atom.{semantic}.{scope}{space}.cas.b{width_of(t)}"
    args = [p, b.cast("bitcast", compare, word), b.cast("bitcast", x, word)]
    if predicate is not None:
        name += ".if"
        args += [predicate, args[1]]
    return b.cast("bitcast", b.nvvm(name, args)[0], t)


def _access(low: Lowering, op: Operation, one: Any) -> None:
    """Run `one(pointer, register index, predicate)` for each element this thread is to access."""
    b = low.b
    result = op.results[0]
    wanted = bool(list(result.uses))
    pointers = low.regs(op.ptr) if low.is_tensor(op.ptr) else [low.scalar(op.ptr)]  # type: ignore[attr-defined]
    masks = _regs_or_repeat(low, op.mask, len(pointers))  # type: ignore[attr-defined]
    t = storage_type(low.element(result))
    if not low.is_tensor(result):
        old = one(pointers[0], 0, both(low, low.chosen(op), low.first_thread(), masks[0] if masks else None))
        low.set(result, old if wanted else b.poison(t))
        return
    layout = low.layout(result)
    owner = both(low, low.chosen(op), low.owner_predicate(layout))
    values: dict[int, SSAValue] = {}
    for r in low.owned_regs(layout):
        values[layout.reg_indices[r]] = one(pointers[r], r, both(low, owner, masks[r] if masks else None))
    if not wanted:
        low.set(result, [b.poison(t)] * layout.num_regs)
        return
    low.set(result, [values[i] for i in layout.reg_indices])


@lowers("nv_tileas.atomic_rmw")
def atomic_rmw(low: Lowering, op: Operation) -> None:
    semantic, scope = qualifiers(op)
    mode = _text(op, "rmw_mode") or ""
    wanted = bool(list(op.results[0].uses))
    n = low.layout(op.results[0]).num_regs if low.is_tensor(op.results[0]) else 1
    values = _regs_or_repeat(low, op.source, n) or []  # type: ignore[attr-defined]
    if low.is_tensor(op.results[0]) and not wanted:
        layout = low.layout(op.results[0])
        pointers, masks = low.regs(op.ptr), _regs_or_repeat(low, op.mask, n)  # type: ignore[attr-defined]
        owner = both(low, low.chosen(op), low.owner_predicate(layout))
        for group in groups(low, layout, _width(low, op, layout)):
            first = group[0]
            _reduce(low, pointers[first], [values[r] for r in group], mode, semantic, scope,
                    both(low, owner, masks[first] if masks else None))
        low.set(op.results[0], [low.b.poison(storage_type(low.element(op.results[0])))] * n)
        return
    _access(low, op, lambda p, r, predicate: rmw(low, p, values[r], mode, semantic, scope, predicate, wanted))


@lowers("nv_tileas.atomic_cas")
def atomic_cas(low: Lowering, op: Operation) -> None:
    semantic, scope = qualifiers(op)
    n = low.layout(op.results[0]).num_regs if low.is_tensor(op.results[0]) else 1
    compare = _regs_or_repeat(low, op.compare, n) or []  # type: ignore[attr-defined]
    values = _regs_or_repeat(low, op.source, n) or []  # type: ignore[attr-defined]
    _access(low, op, lambda p, r, predicate: cas(low, p, compare[r], values[r], semantic, scope, predicate))


@lowers("nv_tileas.tiled_atomic_rmw")
def tiled_atomic_rmw(low: Lowering, op: Operation) -> None:
    semantic, scope = qualifiers(op)
    mode = _text(op, "rmw_mode") or ""
    source = op.source  # type: ignore[attr-defined]
    layout = low.layout(source)
    address: ViewAddress = view_address(low, op, layout)
    owner = both(low, low.chosen(op), low.owner_predicate(layout))
    regs = low.regs(source)
    for group in groups(low, layout, _width(low, op, layout)):
        predicate = both(low, owner, address.predicate(group[0]))
        _reduce(low, address.pointer(group[0]), [regs[r] for r in group], mode, semantic, scope, predicate)


def _width(low: Lowering, op: Operation, layout: LinearLayout) -> int:
    """Elements that go in one access: one, where it acquires, for only reductions have several, and those don't. Generic addresses
    have no vector forms, pairs of 16 bits apart."""
    width = access_width(op, layout) if qualifiers(op)[0] in REDUCTIONS else 1
    if not low.generic_pointers:
        return width
    return min(width, 1 if width_of(storage_type(low.element(op.source))) == 32 else 2)  # type: ignore[attr-defined]


def _reduce(low: Lowering, p: SSAValue, values: list[SSAValue], mode: str, semantic: str, scope: str,
            predicate: SSAValue | None) -> None:
    """One access whose old values nobody wants."""
    if len(values) > 1:
        reduction_of(low, p, values, semantic, scope, predicate)
    else:
        rmw(low, p, values[0], mode, semantic, scope, predicate, False)


