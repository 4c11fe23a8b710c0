"""scan: prefixes along a dimension, bit of the index by bit, lowest first.

After the bits below b, every element knows the prefix inside its block of 2^b and the block's total. Bit b joins two
blocks: the later one's prefixes get the earlier one's total in front, and the totals are combined. Where the bit is a
register's, that is done in registers; a lane's bit takes one shuffle of the totals (`lane_bit`; where bodies take long or
mind the order of several totals, all of them together, `running_bits`); warps exchange totals through shared memory, all
their bits that follow one another at once.

    x       3 1 4 1          totals
    bit 0   3 4 4 5          4 . 5 .       pairs
    bit 1   3 4 8 9          9 . . .       (4 in front of the later pair)

Once lanes or warps come into it, what goes in front of a thread's elements is collected in one place (`front`, as
many values as totals) and put in front of all of them at the end.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import Float64Type, IntegerAttr, TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.layout_rules import dim_of
from tileiras.analysis.shared_memory import buffer_bytes
from tileiras.conversion.tileas_to_llvm.builder import width_of
from tileiras.conversion.tileas_to_llvm.collectives.body import Body
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers
from tileiras.conversion.tileas_to_llvm.registers import from_plain, gather, lanes_before, plain_type, shuffle_lanes, to_plain
from tileiras.conversion.tileas_to_llvm.shared import accesses
from tileiras.dialects.nv_tileas import scratch_of
from tileiras.layout.convert import through_shared
from tileiras.layout.scanning import Exchange, Steps, steps_of
from tileiras.layout.shared import access


def _reverse(op: Operation) -> bool:
    attr: Any = op.properties["reverse"]
    return bool(attr.value.data if isinstance(attr, IntegerAttr) else attr.data)


class _Front:
    """What goes in front of each group of a thread's elements, and whether there is anything: certainly (`always`, one
    flag a value), or only in threads where `sometimes` holds."""

    def __init__(self) -> None:
        self.values: list[SSAValue] = []
        self.always: list[bool] = []
        self.sometimes: SSAValue | None = None


class _Scan:
    """One scan: `values` are the prefixes so far, `totals` those of whole blocks; both vectors, one an operand.

    Element number of `values`: other dimensions' register bits lowest, then the dimension's, lowest first; `totals` has
    lost the dimension's bits that are done."""

    def __init__(self, low: Lowering, op: Operation, steps: Steps, values: list[SSAValue]) -> None:
        self.low, self.op, self.steps = low, op, steps
        self.body = Body(low, op)
        self.late = 0 if _reverse(op) else 1
        self.values = values
        self.totals = list(values)
        self.front = _Front()
        self.kept = 1 << steps.kept
        self.done = 0               # the dimension's register bits behind us
        self.start = 0              # how many of them were, when `front` began
        self.scratch_read = False   # whether the scratch was read since the threads met

    def count(self) -> int:
        return self.totals[0].type.get_shape()[0]  # type: ignore[attr-defined]

    def join(self, early: list[SSAValue], late: list[SSAValue], where: Sequence[int]) -> list[SSAValue]:
        """Elements `where` of `early`, one by one in front of `late`."""
        return self.body([gather(self.low.b, v, where) for v in early], late)

    def replace(self, old: list[SSAValue], places: Sequence[int], new: list[SSAValue]) -> list[SSAValue]:
        """Vectors `old` with elements `places` replaced by those of `new`, in order."""
        n = old[0].type.get_shape()[0]  # type: ignore[attr-defined]
        m = new[0].type.get_shape()[0]  # type: ignore[attr-defined]
        mask = list(range(n))
        for i, p in enumerate(places):
            mask[p] = n + i
        b = self.low.b
        if m < n:       # shufflevector takes two vectors of one length
            new = [b.shuffle(v, None, [i if i < m else -1 for i in range(n)]) for v in new]
        return [b.shuffle(x, y, mask) for x, y in zip(old, new)]

    # --- one index bit

    def register_bit(self) -> None:
        n = self.count()
        stride = self.kept
        lower = [i for i in range(n) if not i & stride]
        early, late = ([i ^ stride * bit for i in lower] for bit in (1 - self.late, self.late))
        if not self.front.values:
            # element j's total: its number without the bits done
            size = self.kept << self.register_bits()
            places = [i for i in range(size) if (i // self.kept >> self.done & 1) == self.late]
            before = [self._total_of(i) ^ stride for i in places]
            after = [gather(self.low.b, v, places) for v in self.values]
            self.values = self.replace(self.values, places, self.join(self.totals, after, before))
        else:
            groups = len(self.front.always)
            shift = self.done - self.start
            places = [g for g in range(groups) if (g // self.kept >> shift & 1) == self.late]
            before = [(g % self.kept | (g // self.kept >> shift) * self.kept) ^ stride for g in places]
            self._push(places, [gather(self.low.b, v, before) for v in self.totals])
            for g in places:
                self.front.always[g] = True
        self.totals = self.join(self.totals, [gather(self.low.b, v, late) for v in self.totals], early)
        self.done += 1

    def register_bits(self) -> int:
        return len(self.steps.layout.reg) - self.steps.kept

    def _total_of(self, element: int) -> int:
        """The number, among totals, of an element's block."""
        return element % self.kept | (element // self.kept >> self.done) * self.kept

    def _push(self, places: Sequence[int], totals: list[SSAValue], condition: SSAValue | None = None) -> None:
        """Put `totals` (one a place) in front of what is already in front of the groups `places`, in the threads where
        `condition` holds."""
        b = self.low.b
        front = self.front
        old = [gather(b, v, places) for v in front.values]
        new = totals
        some = [i for i, g in enumerate(places) if front.always[g]]
        if some or front.sometimes is not None:
            joined = self.body(totals, old)
            if len(some) < len(places):
                # only where there is something to join with
                if front.sometimes is not None:
                    fallback = [b.select(front.sometimes, x, y) for x, y in zip(joined, totals)]
                else:
                    fallback = totals
                mask = [i if i in some else i + len(places) for i in range(len(places))]
                joined = [b.shuffle(x, y, mask) for x, y in zip(joined, fallback)]
            new = joined
        if condition is not None:
            new = [b.select(condition, x, y) for x, y in zip(new, old)]
        front.values = self.replace(front.values, places, new) if len(places) < len(front.always) else new

    def _begin_front(self) -> None:
        if not self.front.values:
            self.start = self.done
            self.front.always = [False] * self.count()
            self.front.values = [self.low.b.poison(v.type) for v in self.totals]

    def _all_groups(self, totals: list[SSAValue]) -> list[SSAValue]:
        """Totals, one for each group of `front`."""
        shift = self.done - self.start
        where = [g % self.kept | (g // self.kept >> shift) * self.kept for g in range(len(self.front.always))]
        return [gather(self.low.b, v, where) for v in totals]

    def _also_where(self, condition: SSAValue) -> None:
        before = self.front.sometimes
        self.front.sometimes = condition if before is None else self.low.b.or_(before, condition)

    def lane_bit(self, lane: int, last: bool) -> None:
        b = self.low.b
        self._begin_front()
        bit = b.and_(self.low.lane, b.i32(1 << lane))
        is_late = b.icmp("ne" if self.late else "eq", bit, b.i32(0))
        others = [from_plain(b, shuffle_lanes(self.low, to_plain(b, v), 1 << lane), v.type.element_type)  # type: ignore[attr-defined]
                  for v in self.totals]
        self._push(range(len(self.front.always)), self._all_groups(others), is_late)
        self._also_where(is_late)
        if not last and self.body.is_commutative:
            self.totals = self.body(others, self.totals)
        elif not last:
            early = [b.select(is_late, x, y) for x, y in zip(others, self.totals)]
            late = [b.select(is_late, y, x) for x, y in zip(others, self.totals)]
            self.totals = self.body(early, late)

    def running_bits(self, lanes: range, last: bool) -> None:
        """Lane bits that follow one another. Each round a lane puts in front of its running total that of the lane twice as far
        before it; then each has the total up to and with its own, and the lane behind takes what goes in front."""
        b = self.low.b
        ends = (1 << len(lanes)) - 1
        unused = not self.front.values and not self.done and last
        self._begin_front()
        place = b.and_(b.lshr(self.low.lane, lanes[0]), b.i32(ends))

        def behind(distance: int) -> SSAValue:
            return b.icmp("uge", place, b.i32(distance)) if self.late else b.icmp("ule", place, b.i32(ends - distance))

        for distance in (1 << i for i in range(len(lanes))):
            joined = self.body(self._lanes_before(distance << lanes[0]), self.totals)
            self.totals = [b.select(behind(distance), x, y) for x, y in zip(joined, self.totals)]
        if unused:
            self.values, self.front = self.totals, _Front()
            return
        before = self._lanes_before(1 << lanes[0])
        self._push(range(len(self.front.always)), self._all_groups(before), behind(1))
        self._also_where(behind(1))
        if not last:
            own = b.and_(self.low.lane, b.i32(31 ^ ends << lanes[0]))
            end = b.or_(own, b.i32(ends << lanes[0])) if self.late else own
            self.totals = [self._from(v, end) for v in self.totals]

    def _lanes_before(self, distance: int) -> list[SSAValue]:
        """The totals of the lanes so far before these, in the scan's direction."""
        b = self.low.b
        return [from_plain(b, lanes_before(self.low, to_plain(b, v), distance if self.late else -distance),
                           v.type.element_type) for v in self.totals]      # type: ignore[attr-defined]

    def _from(self, v: SSAValue, lane: SSAValue) -> SSAValue:
        b = self.low.b
        return from_plain(b, shuffle_lanes(self.low, to_plain(b, v), lane), v.type.element_type)    # type: ignore[attr-defined]

    def exchange(self, v: SSAValue, exchange: Exchange) -> SSAValue:
        """Totals as all warps have them, through the op's scratch; the threads meet between its uses."""
        low, b = self.low, self.low.b
        t = v.type.element_type  # type: ignore[attr-defined]
        scratch = scratch_of(self.op)[0]
        base = low.scalar(scratch)
        plain = to_plain(b, v)
        kind = plain_type(t)
        plan = through_shared(exchange.parts, exchange.gathered, width_of(kind), buffer_bytes(scratch.type))
        out = None
        for number in range(plan.num_rounds):
            if self.scratch_read:
                low.barrier()
            accesses.write(low, plain, access(exchange.parts, plan.shared, plan.elem_bytes, plan.rounds), base, number)
            low.barrier()
            out = accesses.read(low, kind, access(exchange.gathered, plan.shared, plan.elem_bytes, plan.rounds), base,
                                number, out)
            self.scratch_read = True
        assert out is not None
        return from_plain(b, out, t)

    def warp_bits(self, exchange: Exchange) -> None:
        low, b = self.low, self.low.b
        self._begin_front()
        n = self.count()
        gathered = [self.exchange(v, exchange) for v in self.totals]
        count = 1 << len(exchange.warps)
        order = list(range(count)) if self.late else list(range(count))[::-1]
        mine = low.place((0,) * 5, tuple(1 << exchange.warps.index(i) if i in exchange.warps else 0
                                         for i in range(len(self.steps.layout.warp))))
        running = [b.slice(v, order[0] * n, n) for v in gathered]
        before = list(running)
        for i in range(1, count):
            if i > 1:
                here = b.icmp("eq", mine, b.i32(order[i]))
                before = [b.select(here, x, y) for x, y in zip(running, before)]
            running = self.body(running, [b.slice(v, order[i] * n, n) for v in gathered])
        not_first = b.icmp("ne", mine, b.i32(order[0]))
        self._push(range(len(self.front.always)), self._all_groups(before), not_first)
        self._also_where(not_first)
        self.totals = running

    def finish(self) -> list[SSAValue]:
        front = self.front
        if not front.values:
            return self.values
        b = self.low.b
        size = self.kept << self.register_bits()
        group = [i % self.kept | (i // self.kept >> self.start) * self.kept for i in range(size)]
        joined = self.join(front.values, self.values, group)
        fallback = self.values
        if front.sometimes is not None:
            fallback = [b.select(front.sometimes, x, y) for x, y in zip(joined, self.values)]
        mask = [i if front.always[group[i]] else i + size for i in range(size)]
        return [b.shuffle(x, y, mask) for x, y in zip(joined, fallback)]


@lowers("nv_tileas.scan")
def scan(low: Lowering, op: Operation) -> None:
    steps = steps_of(low.layout(op.operands[0]), dim_of(op))
    state = _Scan(low, op, steps, [low.vec(v) for v in op.operands if isinstance(v.type, TensorType)])
    ahead = 0
    for i, step in enumerate(steps.walk):
        if i < ahead:
            continue
        run = _running_lanes(steps.walk[i:])
        if len(run) >= FEWEST_RUNNING and _runs(low, state):
            ahead = i + len(run)
            state.running_bits(run, ahead == len(steps.walk))
        elif step == "reg":
            state.register_bit()
        elif isinstance(step, int):
            state.lane_bit(step, i + 1 == len(steps.walk))
        else:
            assert isinstance(step, Exchange)
            state.warp_bits(step)
    for result, v in zip(op.results, state.finish()):
        low.set(result, v)


FEWEST_RUNNING = 2
"""Lane bits of a walk that are worth another shuffle."""


def _running_lanes(walk: Sequence[str | int | Exchange]) -> range:
    """The lane bits that a walk begins with, as long as each is the next higher one."""
    count = 0
    while count < len(walk) and isinstance(walk[count], int) and walk[count] == walk[0] + count:    # type: ignore[operator]
        count += 1
    return range(walk[0], walk[0] + count) if count else range(0)      # type: ignore[arg-type, operator]


def _runs(low: Lowering, state: _Scan) -> bool:
    """Whether totals go from lane to lane as they run: that does the body once a round instead of twice, never has to put what it
    joins in order first, and shuffles once more. It is worth it where the machine computes more slowly than it shuffles, and for
    several totals a thread whose order the body minds; a single one waits for each round either way."""
    if not state.body.is_commutative and state.count() > 1:
        return True
    return low.target.slow_f64 and any(isinstance(v.type, Float64Type) for v in state.body.terminator.operands)
