"""Registers to a buffer in shared memory and back, by the accesses that a layout's `Access` lists.

    thread's byte offset = XOR of the bases of its lane and warp bits
    each access at       base + (thread's offset XOR the group's), the parts of the group's offset that no thread sets
                         as an addend, so that neighbouring accesses share one address register
"""
from __future__ import annotations

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import I32, width_of
from tileiras.conversion.tileas_to_llvm.lowering import Lowering
from tileiras.conversion.tileas_to_llvm.registers import gather, length
from tileiras.dialects.llvm import vec
from tileiras.layout.shared import Access

Round = int | SSAValue
"""Which round of a conversion, or which slice of a tile: a number, or an i32 known at run time."""
Counter = tuple[SSAValue, tuple[int, ...]]
"""A run-time number that takes part in addresses: an i32 and the element offsets of its bits."""


class Addresses:
    """The addresses of an access's groups: pointers into shared memory, made once per distinct XOR."""

    def __init__(self, low: Lowering, plan: Access, base: SSAValue, elem_bytes: int,
                 extra: Counter | None = None) -> None:
        self.low = low
        self.base = base
        self.size = elem_bytes
        self.thread = low.place(tuple(x * elem_bytes for x in plan.lane), tuple(x * elem_bytes for x in plan.warp))
        self.touched = 0
        for x in (*plan.lane, *plan.warp):
            self.touched |= x
        if extra is not None:
            value, bases = extra
            self.thread = low.b.xor(self.thread, low.linear(value, [x * elem_bytes for x in bases]))
            for x in bases:
                self.touched |= x
        self.pointers: dict[int, SSAValue] = {}

    def at(self, offset: int) -> SSAValue:
        """The pointer to this thread's element at its own offset XOR `offset` (elements)."""
        b = self.low.b
        crossed = offset & self.touched
        p = self.pointers.get(crossed)
        if p is None:
            p = self.pointers[crossed] = b.gep(self.base, b.xor(self.thread, b.i32(crossed * self.size)))
        return b.gep(p, (offset & ~self.touched) * self.size)


def _predicate(low: Lowering, plan: Access, group_round: int, wanted: Round) -> bool | SSAValue:
    """Whether (or under which condition) a group takes part in a round."""
    b = low.b
    if not plan.is_predicated:
        if isinstance(wanted, int):
            return group_round == wanted
        return b.icmp("eq", wanted, b.i32(group_round))
    thread = low.place(plan.lane_round, plan.warp_round)
    if isinstance(wanted, int):
        reachable = 0
        for x in (*plan.lane_round, *plan.warp_round):
            reachable |= x
        if (group_round ^ wanted) & ~reachable:
            return False
        return b.icmp("eq", thread, b.i32(group_round ^ wanted))
    return b.icmp("eq", b.xor(thread, b.i32(group_round)), wanted)


def _machine_type(t: Attribute, count: int) -> Attribute:
    """The type of an access of `count` elements: words where they fit, which the machine has vectors of."""
    bits = width_of(t) * count
    if count == 1:
        return t
    if width_of(t) < 32 and bits >= 32:
        return vec(bits // 32, I32) if bits > 32 else I32
    return vec(count, t)


def load_group(low: Lowering, where: Addresses, offset: int, t: Attribute, count: int) -> SSAValue:
    """One access: `count` elements of plain type `t` side by side, as a vector.

    One element is loaded as a vector too: LLVM makes loads that are inserted into vectors wider, past what was written.
    """
    b = low.b
    x = b.load(vec(1, t) if count == 1 else _machine_type(t, count), where.at(offset), width_of(t) // 8 * count)
    return b.cast("bitcast", x, vec(count, t)) if count > 1 else x


def write(low: Lowering, v: SSAValue, plan: Access, base: SSAValue, wanted: Round = 0, only: SSAValue | None = None) -> None:
    """Store the registers of vector `v` (plain type) that belong to the round, in the threads where `only` holds."""
    b = low.b
    t = v.type.element_type  # type: ignore[attr-defined]
    size = width_of(t) // 8
    where = Addresses(low, plan, base, size)
    for registers, offset, group_round in plan.groups:
        predicate = _predicate(low, plan, group_round, wanted)
        if predicate is False:
            continue
        if only is not None:
            predicate = only if predicate is True else b.and_(predicate, only)
        machine = _machine_type(t, plan.vec)
        x = b.extract(v, registers[0]) if plan.vec == 1 else b.cast("bitcast", gather(b, v, registers), machine)
        p = where.at(offset)
        if predicate is True:
            b.store(x, p, size * plan.vec)
        else:
            _predicated(low, p, x, predicate)


def read(low: Lowering, t: Attribute, plan: Access, base: SSAValue, wanted: Round = 0, old: SSAValue | None = None,
         extra: Counter | None = None) -> SSAValue:
    """Load registers of element type `t` (plain): a vector in register order. Registers that don't belong to the round
    keep those of `old` (poison without). extra: XORed to every address."""
    b = low.b
    size = width_of(t) // 8
    where = Addresses(low, plan, base, size, extra)
    machine = _machine_type(t, plan.vec)
    parts: list[SSAValue | None] = []
    for registers, offset, group_round in plan.groups:
        predicate = _predicate(low, plan, group_round, wanted)
        before = None
        if old is not None and predicate is not True:
            before = gather(b, old, registers)
        if predicate is False:
            parts.append(before)
            continue
        if predicate is True:
            parts.append(load_group(low, where, offset, t, plan.vec))
            continue
        start = b.poison(machine) if before is None else b.cast("bitcast", before, machine) if plan.vec > 1 \
            else b.extract(before, 0)
        x = _predicated(low, where.at(offset), start, predicate, load=True)
        parts.append(b.cast("bitcast", x, vec(plan.vec, t)) if plan.vec > 1 else b.insert(b.poison(vec(1, t)), x, 0))
    filled = [p if p is not None else b.poison(vec(plan.vec, t)) for p in parts]
    return gather(b, b.concat(filled), plan.slots)


def _predicated(low: Lowering, p: SSAValue, x: SSAValue, predicate: SSAValue, load: bool = False) -> SSAValue:
    """`@predicate st.shared [p], x`, or `ld.shared` over `x` (returned where the predicate is false), as inline PTX."""
    b = low.b
    t = x.type
    n = length(x) if isinstance(t, VectorType) else 1
    bits = width_of(t)
    xs = b.unpack(x) if n > 1 else [x]
    from tileiras.dialects.llvm import integer
    word = integer(max(16, bits))
    words = [b.cast("bitcast", y, integer(bits)) for y in xs]
    words = [b.cast("zext", w, word) if bits < 16 else w for w in words]
    suffix = (f".v{n}" if n > 1 else "") + f".b{bits}.if"
    if not load:
        b.nvvm(f"st.shared{suffix}", [p, *words, predicate])
        return x
    out = b.nvvm(f"ld.shared{suffix}", [p, predicate, *words])
    element = t.element_type if isinstance(t, VectorType) else t
    out = [b.cast("bitcast", b.cast("trunc", o, integer(bits)) if bits < 16 else o, element) for o in out]
    return b.pack(out) if n > 1 else out[0]


def store_if(low: Lowering, predicate: SSAValue, x: SSAValue, p: SSAValue) -> None:
    """Store one element of a plain type where the predicate holds."""
    _predicated(low, p, x, predicate)
