"""How to split a tile block's work over the CTAs of a cluster, if it is worth it: which axes, in how many parts.

Of the plans that axes (analysis/cta_axes.py) allow, the one with the least work a CTA is taken. Work is counted in elements of
element-wise ops; what is in a loop counts more often, products by their k, accesses double. What isn't split, every CTA does.
Plans whose parts make a loop's products slower on the target aren't taken. Where pairs of CTAs can multiply together
(analysis/cta_pairs.py), they do: the lowest bit of a rank then numbers a pair's halves, of the products' rows and of B's columns.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.cta_axes import Axes, Place, Relation, extents, mnemonic, relation
from tileiras.analysis.entry_hints import MOST_CTAS
from tileiras.analysis.layout_cost import SECTOR_BYTES
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileaa import PtrType, TiledViewType, int_values
from tileiras.remarks import tile_text

if TYPE_CHECKING:
    from tileiras.analysis.cta_pairs import Pairs

WORTH = 0.75
"""A split must leave a CTA no more than this part of the work."""
LOOP_TRIPS = 8
"""Iterations that a loop counts for."""
MOST_LOOPS = 4
MOST_TRIED = 8
"""Axes with the most work that plans are made of."""
PRODUCT_STEPS = 16
"""Steps of a product's k that cost what one element-wise op does."""
FEW_ROWS, FEW_ROWS_UMMA = 64, 128
"""Rows that products have at least: with fewer than 64 they go by slower instructions, with fewer than 128 those of tcgen05 take as
long as with 128, unless a pair of CTAs has 64 each."""
SLOWER = 4
LEAST_PART, LEAST_PART_UMMA = 128 * 128, 128 * 256
"""Elements of a product's part that a loop repeats, where tensor cores multiply from shared memory (wgmma, tcgen05). Smaller parts
read more operands for each element: on sm_90 matrices take 1.2 times as long in 64 x 128, with multicast, as in 128 x 256; on
sm_100, without multicast, 1.25 times in 128 x 128 as in 256 x 128."""
FED, FED_UMMA = 4, 3
"""What a loop's loads may cost, against its products or its other work, with smaller parts than these: what loads do of a loop that
multiplies in the least parts. Attention's rows halve what softmax and products do, but not the keys that an iteration reads."""
LOADS = ("tiled_load", "load")
ONCE = ("tiled_store", "store", "tiled_atomic_rmw", "atomic_rmw", "atomic_cas")
"""What several CTAs must not do to the same place."""
ACCESS = 8
"""What a byte of an access costs, against an element of an element-wise op: an SM gets some 15 bytes a cycle, and has 128 lanes."""
EXCHANGE = 90_000
"""What it costs that two CTAs tell each other: two barriers of the cluster, of some 360 cycles."""

Masks = tuple[int, ...]
"""For each dimension of a tile, the bits of a CTA's rank that number its parts."""


class Refusal(Exception):
    """Why a function's tile blocks are a CTA's each."""


def planned(func: Operation, ctas: int, context: Any) -> Plan:
    """How to split a function. Raises Refusal."""
    if ctas & (ctas - 1) or ctas > MOST_CTAS:
        raise Refusal(f"a cluster has a power of two of CTAs, at most {MOST_CTAS}")
    if not context.target.has_clusters:
        raise Refusal(f"{context.target.name} has no clusters")
    if context.opt_level == 0:
        raise Refusal("clusters aren't used at -O0")
    if not context.uses("clusters"):
        raise Refusal("clusters are switched off")
    for op in func.walk():
        _check_alone(op)
    plan = _choose_pairs(func, ctas, context) or _choose(func, ctas, context.target)
    for op in func.walk():
        _check_copies(op, plan)
    return plan


def _check_alone(op: Operation) -> None:
    """Whether CTAs can share what an op does at all. Raises Refusal."""
    name = mnemonic(op)
    if name == "alloca":
        raise Refusal("memory that the kernel allocates is a CTA's own")
    if name in LOADS and _text(op, "mem_semantic") == "acquire":
        raise Refusal("a load that acquires orders what its own CTA does")


def _check_copies(op: Operation, plan: Plan) -> None:
    """Whether an access that several CTAs would make can be. Raises Refusal."""
    name = mnemonic(op)
    if name in LOADS and _text(op, "mem_semantic") != "weak" and plan.copies(op):
        raise Refusal("an ordered load of a tile that isn't split gives each CTA another value")
    if name in ("atomic_rmw", "atomic_cas") and plan.copies(op) and op.results[0].first_use is not None:
        raise Refusal("the result of an atomic operation on a tile that isn't split is one CTA's")


def _text(op: Operation, name: str) -> str:
    attr: Any = op.properties.get(name)
    return "" if attr is None else attr.data


@dataclass(frozen=True)
class Plan:
    """Which bits of a rank number the parts of which axis; `ctas` in all. `pairs`: products that pairs of CTAs multiply."""

    axes: Axes
    masks: Mapping[Place, int]
    ctas: int
    pairs: int = 0

    def of(self, value: SSAValue) -> Masks:
        """How a tile is split that isn't cheap; () for anything but a tensor."""
        return tuple(self.masks.get(self.axes.of(value, d), 0) for d in range(len(extents(value))))

    def asked(self, op: Operation, said: Relation, operand: int) -> Masks:
        """How an op wants its operand split, by what its other tiles are."""
        return needed(op.operands[operand], operand, said, lambda v, d: 0 if v in self.axes.cheap else
                      self.masks.get(self.axes.of(v, d), 0))

    def used(self, op: Operation) -> int:
        """The bits that number parts of an op's tiles."""
        out = 0
        for v in (*op.operands, *op.results):
            if extents(v) and v not in self.axes.cheap:
                for mask in self.of(v):
                    out |= mask
        return out

    def splits_sums(self, op: Operation) -> bool:
        """Whether a reduction runs along what is split."""
        return any(m.value not in self.axes.cheap and self.masks.get(self.axes.of(m.value, m.dim), 0) for m in relation(op).summed)

    def copies(self, op: Operation) -> int:
        """The bits that don't."""
        return (self.ctas - 1) & ~self.used(op)

    def notes(self) -> dict[str, str | int]:
        """What is split, as remarks tell it."""
        out: dict[str, str | int] = {}
        for (value, dim), mask in self.masks.items():
            kind: Any = value.type
            out[f"Parts{len(out) + 1}"] = f"{parts(mask)} of dimension {dim} of {tile_text(kind)}"
        if self.pairs:
            out["PairedProducts"] = self.pairs
        return out


def parts(mask: int) -> int:
    return 1 << mask.bit_count()


def needed(value: SSAValue, operand: int, said: Relation, mask_of: Any) -> Masks:
    """The masks of an operand's dimensions, from those of the dimensions that go with them."""
    out = [0] * len(extents(value))
    for group in said.groups:
        for member in group:
            if member.operand == operand and member.value is value:
                for other in group:
                    out[member.dim] |= mask_of(other.value, other.dim)
    return tuple(out)


def _choose(func: Operation, ctas: int, target: Any) -> Plan:
    """The plan with the least work a CTA; of equals that with fewer axes, and those that come first. Raises Refusal."""
    axes = Axes(func)
    work = [w for op in func.walk() if (w := _work(op, axes))]
    whole = sum(w.amount for w in work)
    loops = _loops(work)
    bits = ctas.bit_length() - 1
    best, least, hampered, strides = None, whole * WORTH, False, strides_by_programs(func)
    free = sorted(axes.free(), key=lambda axis: -sum(w.amount for w in work if axis in w.axes))
    tried = set(free[:MOST_TRIED])
    for masks in _ways([axis for axis in axes.free() if axis in tried], axes, bits):
        if any(_is_hampered(loop, masks, target, strides) for loop in loops):
            hampered = True
            continue
        cost = sum(w.cost(masks, target) for w in work)
        if cost < least:
            best, least = masks, cost
    if best is None:
        raise Refusal("products of the parts would be slower than those of whole tiles" if hampered else
                      _obstacle(axes, work, free, bits))
    return Plan(axes, best, ctas)


def strides_by_programs(func: Operation) -> bool:
    """Whether a tile block goes on to others, as many further as there are programs: such kernels are launched with a program for
    every cluster that the machine has room for, so that SMs stay idle where a cluster doesn't share a block, which costs more
    than small parts do. (Predicted for tcgen05 only; others keep to their least part.)"""
    return any(op.name == "scf.for" and getattr(op.operands[2].owner, "name", "") == "nv_tileaa.get_num_programs"
               for op in func.walk())


def _choose_pairs(func: Operation, ctas: int, context: Any) -> Plan | None:
    """The plan with the least work a CTA of those in which pairs of CTAs do all products; these are marked then. None, and nothing
    is marked, where there is none."""
    from tileiras.analysis.cta_pairs import Pairs

    pairs = Pairs(func, context)
    if pairs.obstacle is not None:
        return None
    for op in pairs.products:
        op.properties["pair"] = UnitAttr()
    plan = _choose_marked(func, ctas, pairs, context.target)
    if plan is None:
        for op in pairs.products:
            del op.properties["pair"]
    return plan


def _choose_marked(func: Operation, ctas: int, pairs: Pairs, target: Any) -> Plan | None:
    axes = Axes(func)
    free = axes.free()
    halves = [axes.of(op.operands[1], 1) for op in pairs.products]
    if not set(halves) <= set(free):
        return None
    work = [w for op in func.walk() if (w := _work(op, axes))]
    best, least, strides = None, sum(w.amount for w in work) * WORTH, strides_by_programs(func)
    loops = _loops(work)
    for way in _ways([axis for axis in free if axis not in halves], axes, ctas.bit_length() - 1):
        columns: dict[Place, int] = {}
        for op, half in zip(pairs.products, halves):
            columns[half] = columns.get(half, 0) | way.get(axes.of(op.results[0], 1), 0) | 1
        if any(axes.most[half] < parts(mask) for half, mask in columns.items()) or any(
                not way.get(axes.of(op.results[0], 0), 0) & 1 for op in pairs.products):
            continue

        def part(op: Operation, way: Mapping[Place, int] = way) -> tuple[int, int]:
            m, n = (extent // parts(way.get(axes.of(op.results[0], d), 0)) for d, extent in enumerate(extents(op.results[0])))
            return m, n
        masks = way | columns
        if any(_is_hampered(loop, way, target, strides) for loop in loops) or not pairs.takes(part):
            continue
        cost = sum(w.cost(masks, target) for w in work)
        if cost < least:
            best, least = masks, cost
    return None if best is None else Plan(axes, best, ctas, len(pairs.products))


def _ways(free: Sequence[Place], axes: Axes, bits: int) -> Iterator[dict[Place, int]]:
    """All ways to number the parts of one or two axes with so many bits of a rank; the first axis takes the lowest."""
    for axis in free:
        if axes.most[axis] >> bits:
            yield {axis: (1 << bits) - 1}
    for first, second in combinations(free, 2):
        for n in range(bits - 1, 0, -1):
            if axes.most[first] >> n and axes.most[second] >> bits - n:
                yield {first: (1 << n) - 1, second: (1 << bits) - (1 << n)}


@dataclass(frozen=True)
class Work:
    """What an op costs: `amount`, shared by the parts of `axes`; `product`: of a product, its rows and columns and their axes;
    `summed`: what an exchange costs where the axis of a reduction is split; `loop`: the innermost that it is in; `loads`: whether
    it reads memory; `paired`: a pair of CTAs multiplies together, and reads as few operands as one with twice as many rows;
    `rate`: how much longer a product of such elements takes than one of f16; `row`: of an access, its bytes along memory and
    their axis."""

    amount: float
    axes: frozenset[Place]
    product: tuple[tuple[int, Place], tuple[int, Place]] | None = None
    summed: tuple[float, Place] | None = None
    loop: Operation | None = None
    loads: bool = False
    paired: bool = False
    rate: float = 1.0
    row: tuple[int, Place] | None = None

    def has_few_rows(self, masks: Mapping[Place, int], target: Any) -> bool:
        """Whether a product's parts have too few rows for the tensor core, where the whole has enough."""
        if self.product is None or not (target.has_wgmma or target.has_tcgen05):
            return False
        rows, axis = self.product[0]
        part = rows // parts(masks.get(axis, 0))
        return rows >= FEW_ROWS > part or (target.has_tcgen05 and not self.paired and rows >= FEW_ROWS_UMMA > part)

    def is_small(self, masks: Mapping[Place, int], target: Any, strides: bool) -> bool:
        """Whether a product reads so much more for each element in parts than whole that a loop of nothing else is slower.
        `strides`: see `strides_by_programs`."""
        if self.product is None:
            return False
        whole = prod(extent for extent, _ in self.product)
        part = (2 if self.paired else 1) * prod(extent // parts(masks.get(axis, 0)) for extent, axis in self.product)
        least = (0 if strides else LEAST_PART_UMMA) if target.has_tcgen05 else LEAST_PART if target.has_wgmma else 0
        return part < min(whole, least)

    def cost(self, masks: Mapping[Place, int], target: Any) -> float:
        """A CTA's part under a plan."""
        cost = self.amount / prod(parts(mask) for axis, mask in masks.items() if axis in self.axes)
        if self.has_few_rows(masks, target):
            cost *= SLOWER
        if self.row is not None:
            whole, part = self.row[0], self.row[0] // parts(masks.get(self.row[1], 0))
            cost *= min(whole, SECTOR_BYTES) / min(part, SECTOR_BYTES)
        if self.summed is not None:
            cost += self.summed[0] * masks.get(self.summed[1], 0).bit_count()
        return cost


def _loops(work: Sequence[Work]) -> list[list[Work]]:
    """What loops with products do, loop by loop."""
    by_loop: dict[Operation, list[Work]] = {}
    for w in work:
        if w.loop is not None:
            by_loop.setdefault(w.loop, []).append(w)
    return [loop for loop in by_loop.values() if any(w.product for w in loop)]


def _is_hampered(loop: Sequence[Work], masks: Mapping[Place, int], target: Any, strides: bool) -> bool:
    """Whether a loop is slower in parts than whole: products have few rows, or parts are small and the loop's loads take longer
    than what is done with them."""
    if any(w.has_few_rows(masks, target) for w in loop):
        return True
    if not any(w.is_small(masks, target, strides) for w in loop):
        return False
    loads = sum(w.cost(masks, target) for w in loop if w.loads)
    products = sum(w.cost(masks, target) * w.rate for w in loop if w.product)
    others = sum(w.cost(masks, target) for w in loop if not w.loads and not w.product)
    return loads > (FED_UMMA if target.has_tcgen05 else FED) * max(products, others)


def _work(op: Operation, axes: Axes) -> Work | None:
    """What an op costs a CTA that does all of it; None where that is nothing, or cheap."""
    tiles = [v for v in (*op.operands, *op.results) if extents(v) and v not in axes.cheap]
    if not tiles or mnemonic(op) in ("for", "loop", "if") or getattr(op, "TERMINATOR", False):
        return None
    paired = "pair" in op.properties
    halved = op.operands[1] if paired else None     # each CTA multiplies by the whole of it
    on = frozenset(axes.of(v, d) for v in tiles if v is not halved for d in range(len(extents(v))))
    elements = max(prod(extents(v)) for v in tiles)
    loops = [outer for outer in _ancestors(op) if mnemonic(outer) in ("for", "loop")]
    inner = loops[0] if loops else None
    scale = LOOP_TRIPS ** min(len(loops), MOST_LOOPS)
    name = mnemonic(op)
    if name in ("dot", "dot_scaled"):
        lhs, result = extents(op.operands[0]), extents(op.results[0])
        rows, columns = ((result[d], axes.of(op.results[0], d)) for d in (len(result) - 2, len(result) - 1))
        kind: Any = op.operands[0].type
        return Work(scale * prod(result) * lhs[-1] / PRODUCT_STEPS, on, (rows, columns), loop=inner, paired=paired,
                    rate=element_bytes(kind.element_type) / 2)
    if name in LOADS or name in ONCE:
        moved = [v.type.element_type for v in (*op.operands, *op.results) if extents(v)]    # type: ignore[attr-defined]
        size = max((element_bytes(t) for t in moved if not isinstance(t, PtrType)), default=1)
        return Work(scale * elements * size * ACCESS, on, loop=inner, loads=name in LOADS, row=_row(op, size, axes))
    if name == "reduce":
        said = relation(op).summed
        if said and said[0].value not in axes.cheap:
            exchange = scale * EXCHANGE * len(op.results)
            return Work(scale * elements, on, None, (exchange, axes.of(said[0].value, said[0].dim)), inner)
    return Work(scale * elements, on, loop=inner)


def _row(op: Operation, size: int, axes: Axes) -> tuple[int, Place] | None:
    """Bytes of a view's tile of elements of so many along memory, and their axis; None where it has no such dimension."""
    view: SSAValue | None = getattr(op, "view", None)
    tile = op.results[0] if mnemonic(op) in LOADS else op.operands[0]
    if view is None or not extents(tile) or not isinstance(t := view.type, TiledViewType):
        return None
    strides = int_values(t.memref.strides)
    dim = next((i for i, d in enumerate(int_values(t.dim_map)) if strides[d] == 1 and d != t.sparse_dim.data), None)
    return None if dim is None else (extents(tile)[dim] * size, axes.of(tile, dim))


def _ancestors(op: Operation) -> Iterator[Operation]:
    outer = op.parent_op()
    while outer is not None:
        yield outer
        outer = outer.parent_op()


def _obstacle(axes: Axes, work: list[Work], free: Sequence[Place], bits: int) -> str:
    """Why no plan is worth it."""
    def amount(axis: Place) -> float:
        return sum(w.amount for w in work if axis in w.axes)
    if not work:
        return "no tile is computed that could be split"
    if free and not any(axes.most[axis] >> bits for axis in free):
        kind: Any = free[0][0].type
        return f"{tile_text(kind)} doesn't have as many parts"
    held = max(axes.kept_whole, key=amount, default=None)
    if held is not None and (not free or amount(held) >= amount(free[0])):
        return axes.kept_whole[held]
    if any(w.summed is not None and w.summed[1] in free for w in work):
        return "what reductions would have to exchange between CTAs costs more than the split saves"
    return "most of the work isn't along a dimension that can be split"
