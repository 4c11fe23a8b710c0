"""`plan-cta`: the CTAs of a cluster share a tile block, where the hint `num_cta_in_cga` asks for several.

    %a = tiled_load %va[%i, %k]   : tensor<128x64xf16>      %rank = get_cta_rank
    %b = tiled_load %vb[%k, %j]   : tensor<64x128xf16>  ->  %a = tiled_load %wa[%i * 2 + %rank, %k] : tensor<64x64xf16>
    %c = dot %a, %b, %acc         : tensor<128x128xf32>     %b = tiled_load %vb[%k, %j] {cta_copies = 1} : tensor<64x128xf16>
    tiled_store %c, %vc[%i, %j]                             %c = dot %a, %b, %acc : tensor<64x128xf32>
                                                            tiled_store %c, %wc[%i * 2 + %rank, %j]

Each CTA computes parts of tiles: behind this pass the function is the program of one CTA, whose tiles are as large as its parts.
A tile is split along axes (analysis/cta_axes.py) that nothing needs whole, so that no element crosses from one CTA to another; what
isn't split, every CTA has. Of the splits there are, the one with the least work a CTA is taken; a hint that halves nothing is
ignored, and a remark says what stands in the way.

Bits of a CTA's rank number the parts of an axis. `cta_copies` on an access is a mask of the bits that number nothing of its tile:
CTAs that differ in these only access the same. What happens once is done by the one where they are 0 (stores, atomics; prints and
assertions stand under a condition); loads may be shared.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import gcd, prod
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerAttr, IntegerType, StringAttr, TensorType, i32
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.cta_axes import RESULT, Axes, Place, Relation, extents, mnemonic, relation
from tileiras.analysis.entry_hints import MOST_CTAS, hint
from tileiras.conversion.tileaa_to_tileas.facts import view_facts
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa import MemTokenType, TiledViewType, int_values
from tileiras.remarks import HINTS, MISSED, PASSED, remark, tile_text

WORTH = 0.75
"""A split must leave a CTA no more than this part of the work."""
LOOP_TRIPS = 8
"""Iterations that a loop counts for."""
MOST_LOOPS = 4
MOST_TRIED = 8
"""Axes with the most work that plans are made of."""
PRODUCT_STEPS = 64
"""Steps of a product's k that cost what one element-wise op does."""
FEW_ROWS = 64
"""A warpgroup's products have as many rows at least; with fewer they go by slower instructions."""
SLOWER = 4
LOADS = ("tiled_load", "load")
ONCE = ("tiled_store", "store", "tiled_atomic_rmw", "atomic_rmw", "atomic_cas")
"""What several CTAs must not do to the same place."""
SAID = ("print", "assert")
LARGER = 2
"""What an access costs, against an element-wise op."""

Masks = tuple[int, ...]
"""For each dimension of a tile, the bits of a CTA's rank that number its parts."""


class Refusal(Exception):
    """Why a function's tile blocks are a CTA's each."""


def run(module: Operation, context: Any) -> None:
    """Split the tile blocks of the functions that ask for it, in place."""
    for func in module.regions[0].block.ops:
        if func.name != "nv_tileaa.func":
            continue
        ctas = hint(func, "num_cta_in_cga")
        if ctas is None or ctas < 2:
            continue
        try:
            plan = _planned(func, ctas, context)
        except Refusal as refusal:
            if context.remarks is not None:
                context.remarks.append(remark(func, func, MISSED, HINTS, "HintIgnored",
                                              f"Hint num_cta_in_cga = {ctas} has no effect", reasons=[str(refusal)]))
            continue
        if context.remarks is not None:
            context.remarks.append(remark(func, func, PASSED, HINTS, "HintApplied",
                                          f"Hint num_cta_in_cga = {ctas} splits a tile block over {ctas} CTAs", plan.notes()))
        _Split(func, plan).run()


def _planned(func: Operation, ctas: int, context: Any) -> Plan:
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
    plan = _choose(func, ctas, context.target)
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


# --- the plan -----------------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Plan:
    """Which bits of a rank number the parts of which axis; `ctas` in all."""

    axes: Axes
    masks: Mapping[Place, int]
    ctas: int

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

    def copies(self, op: Operation) -> int:
        """The bits that don't."""
        return (self.ctas - 1) & ~self.used(op)

    def notes(self) -> dict[str, str | int]:
        """What is split, as remarks tell it."""
        out: dict[str, str | int] = {}
        for (value, dim), mask in self.masks.items():
            kind: Any = value.type
            out[f"Parts{len(out) + 1}"] = f"{parts(mask)} of dimension {dim} of {tile_text(kind)}"
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
    bits = ctas.bit_length() - 1
    best, least = None, whole * WORTH
    free = sorted(axes.free(), key=lambda axis: -sum(w.amount for w in work if axis in w.axes))
    tried = set(free[:MOST_TRIED])
    for masks in _ways([axis for axis in axes.free() if axis in tried], axes, bits):
        cost = sum(w.cost(masks, target) for w in work)
        if cost < least:
            best, least = masks, cost
    if best is None:
        raise Refusal(_obstacle(axes, work, free, bits))
    return Plan(axes, best, ctas)


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
    """What an op costs: `amount`, shared by the parts of `axes`; `rows`: of a product, its rows and their axis."""

    amount: float
    axes: frozenset[Place]
    rows: tuple[int, Place] | None = None
    kind: str = ""

    def cost(self, masks: Mapping[Place, int], target: Any) -> float:
        """A CTA's part under a plan."""
        shares = prod(parts(mask) for axis, mask in masks.items() if axis in self.axes)
        cost = self.amount / shares
        if self.rows is not None and (target.has_wgmma or target.has_tcgen05) and self.rows[0] >= FEW_ROWS and \
                self.rows[0] // parts(masks.get(self.rows[1], 0)) < FEW_ROWS:
            cost *= SLOWER
        return cost


def _work(op: Operation, axes: Axes) -> Work | None:
    """What an op costs a CTA that does all of it; None where that is nothing, or cheap."""
    tiles = [v for v in (*op.operands, *op.results) if extents(v) and v not in axes.cheap]
    if not tiles or mnemonic(op) in ("for", "loop", "if") or getattr(op, "TERMINATOR", False):
        return None
    on = frozenset(axes.of(v, d) for v in tiles for d in range(len(extents(v))))
    elements = max(prod(extents(v)) for v in tiles)
    trips, outer = 0, op.parent_op()
    while outer is not None:
        trips += mnemonic(outer) in ("for", "loop")
        outer = outer.parent_op()
    scale = LOOP_TRIPS ** min(trips, MOST_LOOPS)
    name = mnemonic(op)
    if name in ("dot", "dot_scaled"):
        lhs, result = extents(op.operands[0]), extents(op.results[0])
        rows = (result[-2], axes.of(op.results[0], len(result) - 2))
        return Work(scale * prod(result) * lhs[-1] / PRODUCT_STEPS, on, rows, name)
    return Work(scale * elements * (LARGER if name in LOADS or name in ONCE else 1), on, None, name)


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
    return "most of the work isn't along a dimension that can be split"


# --- the split ----------------------------------------------------------------------------------------------------------

class _Split:
    """Turns a function into the program of one CTA, by a plan."""

    def __init__(self, func: Operation, plan: Plan) -> None:
        self.func, self.plan, self.axes = func, plan, plan.axes
        self.axis = AxisAnalysis(func)
        self.block: Block = func.regions[0].block
        self.made: dict[tuple[SSAValue, Masks], SSAValue] = {}
        self.views: dict[tuple[SSAValue, Masks], SSAValue] = {}
        self.indices: dict[tuple[SSAValue, int, int, int], SSAValue] = {}
        self.numbers: dict[tuple[int, int, Any], SSAValue] = {}
        assert self.block.first_op is not None
        self.start = self.block.first_op
        self.rank = self._at_start(aa.GetCtaRank.make([], [i32]))

    def run(self) -> None:
        ops = list(self.func.walk())
        masks = {v: self.plan.of(v) for v in self._tiles(ops) if v not in self.axes.cheap}
        said = {op: relation(op) for op in ops}
        once = {op: self.plan.copies(op) for op in ops if mnemonic(op) in (*LOADS, *ONCE)}
        for op in ops:
            if not any(r in self.axes.cheap for r in op.results):
                self._cheap_operands(op, said[op])
        for op in ops:
            if mnemonic(op).startswith("tiled_"):
                self._tiled(op, masks)
        for op, copies in once.items():
            if copies:
                op.properties["cta_copies"] = IntAttr(copies)
        for v, split in masks.items():
            if any(split):
                v._type = _part_type(v.type, split)     # type: ignore[misc]
        for op in ops:
            if mnemonic(op) in SAID:
                self._said_once(op)
            elif mnemonic(op) == "make_range" and any(masks.get(op.results[0], ())):
                part = op.results[0]
                kind: Any = part.type
                moved = self._moved(part, self._number(masks[part][0], extents(part)[0], kind.element_type))
                part.replace_uses_with_if(moved, lambda use, end=moved.owner: use.operation is not end)
            elif mnemonic(op) == "assume" and any(masks.get(op.results[0], ())):
                op.results[0].replace_all_uses_with(op.operands[0])
                op.detach()
                op.erase()
        for op in reversed(ops):
            if op.parent is not None and op.results and all(r.first_use is None for r in op.results) and (
                    mnemonic(op) == "block_tile" or op.results[0] in self.axes.cheap):
                op.detach()
                op.erase()
        self.func.properties["cluster"] = IntAttr(self.plan.ctas)

    def _tiles(self, ops: list[Operation]) -> Iterator[SSAValue]:
        for op in ops:
            yield from (r for r in op.results if extents(r))
            for region in op.regions:
                for block in region.blocks:
                    yield from (a for a in block.args if extents(a))

    # --- tiles that are made again ---

    def _cheap_operands(self, op: Operation, said: Relation) -> None:
        for i, v in enumerate(op.operands):
            if v in self.axes.cheap:
                asked = self.plan.asked(op, said, i)
                if any(asked):
                    op.operands[i] = self._part(v, asked)

    def _part(self, value: SSAValue, masks: Masks) -> SSAValue:
        """This CTA's part of a cheap tile: its op once more on parts of its operands, or else cut out of the whole."""
        if not any(masks):
            return value
        found = self.made.get((value, masks))
        if found is None:
            op = value.owner
            assert isinstance(op, Operation)
            found = self.made[value, masks] = self._made_again(op, masks)
        return found

    def _made_again(self, op: Operation, masks: Masks) -> SSAValue:
        result = op.results[0]
        kind = _part_type(result.type, masks)
        if mnemonic(op) == "make_range":
            part = self._behind(op, aa.MakeRange.make([], [kind]))
            return self._moved(part, self._number(masks[0], extents(part)[0], kind.element_type))
        if mnemonic(op) == "assume":
            return self._part(op.operands[0], masks)
        said = relation(op)
        covered = {m.dim for group in said.groups for m in group if m.operand == RESULT}
        if any(mask and d not in covered for d, mask in enumerate(masks)):
            zero = self._constant(0, i32)
            indices = [self._number(mask, 1, i32) if mask else zero for mask in masks]
            return self._behind(op, aa.Extract.make([result, indices], [kind]))
        copy = op.clone()
        for i, v in enumerate(op.operands):
            if extents(v):
                copy.operands[i] = self._part(v, needed(v, i, said, lambda w, d: masks[d] if w is result else 0))
        copy.results[0]._type = kind    # type: ignore[misc]
        return self._behind(op, copy)

    def _moved(self, part: SSAValue, by: SSAValue) -> SSAValue:
        """A range that begins elsewhere."""
        start = self._behind(part.owner, aa.Splat.make([by], [part.type]))
        return self._behind(start.owner, arith.Addi.make([part, start], [part.type]))

    # --- views ---

    def _tiled(self, op: Any, masks: Mapping[SSAValue, Masks]) -> None:
        """An access by the CTA's part of its tile: in smaller steps through the same array."""
        tile = op.results[0] if mnemonic(op) == "tiled_load" else op.operands[0]
        split = masks[tile] if tile in masks else self.plan.asked(op, relation(op), 0)
        if not any(split):
            return
        at = list(op.operands).index(op.view)
        t = op.view.type
        shape, steps, sparse = int_values(t.tile_shape), int_values(t.steps), t.sparse_dim.data
        part_shape = tuple(n // parts(mask) for n, mask in zip(shape, split))
        part_steps = tuple(gcd(step, n) if mask else step for step, n, mask in zip(steps, part_shape, split))
        check = view_facts(op, op.view, self.axis).check
        op.properties["inbounds"] = _numbers([not c for c in check])
        op.properties["outside"] = _numbers([bool(c and mask) for c, mask in zip(check, split)])
        op.operands[at] = self._view(op.view, split, part_shape, part_steps)
        for d, mask in enumerate(split):
            index = op.operands[at + 1 + d]
            if mask and int_values(t.dim_map)[d] != sparse:
                op.operands[at + 1 + d] = self._index(index, mask, steps[d] // part_steps[d], part_shape[d] // part_steps[d])

    def _index(self, index: SSAValue, mask: int, scale: int, times: int) -> SSAValue:
        """Where this CTA's part of a tile is: `index` in steps `scale` times as small, and its number times `times` more."""
        key = (index, mask, scale, times)
        found = self.indices.get(key)
        if found is None:
            kind: Any = index.type
            found = index
            if scale > 1:
                found = self._after(found, arith.Muli.make([found, self._constant(scale, kind)], [kind]))
            found = self._after(found, arith.Addi.make([found, self._number(mask, times, kind)], [kind]))
            self.indices[key] = found
        return found

    def _after(self, value: SSAValue, new: Operation) -> SSAValue:
        """An op at the first place where a scalar is known."""
        if not isinstance(value, BlockArgument):
            return self._behind(value.owner, new)
        if value.owner is self.block:
            return self._at_start(new)
        new.location = self.func.location
        assert value.owner.first_op is not None
        value.owner.insert_op_before(new, value.owner.first_op)
        return new.results[0]

    def _view(self, view: SSAValue, split: Masks, shape: Masks, steps: Masks) -> SSAValue:
        found = self.views.get((view, split))
        if found is None:
            t: Any = view.type
            maker = view.owner
            assert isinstance(maker, Operation)
            kind = t.kind if t.kind.data != "partition" or steps == shape else StringAttr("strided")
            made = TiledViewType(t.memref, kind, _numbers(shape), t.dim_map, _numbers(steps), t.padding, t.sparse_dim)
            found = self.views[view, split] = self._behind(maker, aa.BlockTile.make([maker.operands[0]], [made]))
        return found

    # --- effects ---

    def _said_once(self, op: Operation) -> None:
        """One CTA speaks for all."""
        parent = op.parent
        assert parent is not None
        zero = arith.Cmpi.make([self.rank, self._constant(0, i32)], [IntegerType(1)], {"predicate": StringAttr("eq")})
        parent.insert_op_before(zero, op)
        tokens = [v for v in op.operands if isinstance(v.type, MemTokenType)]
        if op.results and not tokens:
            other = aa.CreateMemToken.make([], [MemTokenType()])
            parent.insert_op_before(other, op)
            tokens = [other.results[0]]
        branch = arith.If.make([zero.results[0]], [[r.type for r in op.results]], regions=[Region(Block()), Region(Block())])
        branch.location = op.location
        parent.insert_op_before(branch, op)
        for old, new in zip(op.results, branch.results):
            old.replace_all_uses_with(new)
        op.detach()
        then, rest = (region.block for region in branch.regions)
        then.add_op(op)
        then.add_op(arith.Yield.make([list(op.results)], []))
        rest.add_op(arith.Yield.make([tokens if op.results else []], []))

    # --- scalars at the function's start ---

    def _at_start(self, op: Operation) -> SSAValue:
        op.location = self.func.location
        self.block.insert_op_before(op, self.start)
        return op.results[0]

    def _behind(self, op: Any, new: Operation) -> SSAValue:
        new.location = op.location
        op.parent.insert_op_after(new, op)
        return new.results[0]

    def _constant(self, value: int, kind: Any) -> SSAValue:
        return self._at_start(arith.Constant.make([], [kind], {"value": IntegerAttr(value, kind)}))

    def _number(self, mask: int, times: int, kind: Any) -> SSAValue:
        """This CTA's number among the parts that bits of its rank number, times a constant."""
        key = (mask, times, kind)
        found = self.numbers.get(key)
        if found is None:
            found = self.rank
            shift = (mask & -mask).bit_length() - 1
            if shift:
                found = self._at_start(arith.Shrui.make([found, self._constant(shift, i32)], [i32]))
            if mask >> shift << shift != (self.plan.ctas - 1) >> shift << shift:
                found = self._at_start(arith.Andi.make([found, self._constant(mask >> shift, i32)], [i32]))
            if times > 1:
                found = self._at_start(arith.Muli.make([found, self._constant(times, i32)], [i32]))
            if kind.width.data != i32.width.data:
                change = arith.Trunci if kind.width.data < i32.width.data else arith.Extui
                found = self._at_start(change.make([found], [kind]))
            self.numbers[key] = found
        return found


def _part_type(t: Any, masks: Masks) -> TensorType:
    return TensorType(t.element_type, [n // parts(mask) for n, mask in zip(t.get_shape(), masks)])


def _numbers(values: Sequence[int]) -> ArrayAttr[IntAttr]:
    return ArrayAttr([IntAttr(int(n)) for n in values])
