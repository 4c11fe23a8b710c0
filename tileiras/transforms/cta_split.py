"""A function becomes the program of one CTA of a cluster, by a plan: its tiles become their parts (see `plan-cta`).

Tiles that are cheap to make are made again for each part that is wanted of them. Views are walked in steps of parts, further on by
the number of the CTA's part; ranges begin there. What is printed or asserted stands under a condition that holds in one CTA.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd
from typing import Any

from xdsl.dialects.builtin import IntAttr, IntegerAttr, IntegerType, StringAttr, TensorType, i32
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tileiras.analysis.access_facts import view_facts
from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.cta_axes import RESULT, Relation, extents, mnemonic, relation
from tileiras.analysis.cta_plan import LOADS, ONCE, Masks, Plan, needed, parts
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa import MemTokenType, TiledViewType, int_array, int_values

SAID = ("print", "assert")


class PartNumber:
    """What makes the number of the part that a function is the program of: a constant, until all parts are there."""

    def __init__(self) -> None:
        self.constant: Operation | None = None

    def make(self, operands: list[SSAValue], types: list[Any]) -> Operation:
        """As ops are made that say which part this is."""
        made = self.constant = arith.Constant.make(operands, types, {"value": IntegerAttr(0, i32)})
        return made


class Split:
    """Turns a function into the program of one CTA, by a plan, or of one chain (`rank` says which this is)."""

    def __init__(self, func: Operation, plan: Plan, rank: Any = aa.GetCtaRank) -> None:
        self.func, self.plan, self.axes = func, plan, plan.axes
        self.axis = AxisAnalysis(func)
        self.block: Block = func.regions[0].block
        self.made: dict[tuple[SSAValue, Masks], SSAValue] = {}
        self.views: dict[tuple[SSAValue, Masks], SSAValue] = {}
        self.indices: dict[tuple[SSAValue, int, int, int], SSAValue] = {}
        self.uppers: dict[int, SSAValue] = {}
        self.numbers: dict[tuple[int, int, Any], SSAValue] = {}
        assert self.block.first_op is not None
        self.start = self.block.first_op
        self.by_cta = rank is aa.GetCtaRank
        self.rank = self._at_start(rank.make([], [i32]))

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
            if copies and self.by_cta:
                op.properties["cta_copies"] = IntAttr(copies)
        for v, split in masks.items():
            if any(split):
                v._type = _part_type(v.type, split)     # type: ignore[misc]
        for op in ops:
            if mnemonic(op) == "reduce" and (summed := next((m for m in said[op].summed if m.value in masks), None)) is not None:
                self._exchanged(op, masks[summed.value][summed.dim])
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
        if self.by_cta:
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
        op.properties["inbounds"] = int_array([not c for c in check])
        outside = [bool(c and mask) for c, mask in zip(check, split)]
        if any(outside):
            op.properties["outside"] = int_array(outside)
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
            made = TiledViewType(t.memref, kind, int_array(shape), t.dim_map, int_array(steps), t.padding, t.sparse_dim)
            found = self.views[view, split] = self._behind(maker, aa.BlockTile.make([maker.operands[0]], [made]))
        return found

    # --- reductions ---

    def _exchanged(self, op: Operation, mask: int) -> None:
        """A reduction along what is split: each CTA reduces its part, then pairs of CTAs tell each other what they have, for each
        bit that numbers parts. All get the same, bit for bit: the lower part always comes first."""
        uses = [[*r.uses] for r in op.results]
        mine: list[SSAValue] = list(op.results)
        at: Any = op
        for bit in (1 << n for n in range(mask.bit_length()) if mask >> n & 1):
            upper = self._upper(bit)
            others = []
            for v in mine:
                at = self._behind(at, aa.CtaExchange.make([v], [v.type], {"peer": IntAttr(bit)})).owner
                others.append(at.results[0])
            pairs: list[SSAValue] = []
            for v, other in zip(mine, others):
                for first, second in ((other, v), (v, other)):
                    at = self._behind(at, arith.Select.make([upper, first, second], [v.type])).owner
                    pairs.append(at.results[0])
            mine, at = self._combined(op, pairs, at)
        for old, new in zip(uses, mine):
            for use in old:
                use.operation.operands[use.index] = new

    def _upper(self, bit: int) -> SSAValue:
        """Whether a bit of this CTA's rank is set."""
        found = self.uppers.get(bit)
        if found is None:
            masked = self._at_start(arith.Andi.make([self.rank, self._constant(bit, i32)], [i32]))
            found = self.uppers[bit] = self._at_start(arith.Cmpi.make([masked, self._constant(0, i32)], [IntegerType(1)],
                                                                      {"predicate": StringAttr("ne")}))
        return found

    def _combined(self, op: Operation, pairs: list[SSAValue], at: Any) -> tuple[list[SSAValue], Any]:
        """The reduction's body on tiles: (first, second) of each result."""
        body = op.regions[0].block
        shape = extents(pairs[0])
        known: dict[SSAValue, SSAValue] = dict(zip(body.args, pairs))

        def tile(v: SSAValue, at: Any) -> tuple[SSAValue, Any]:
            if v in known or not shape:
                return known.get(v, v), at
            found = known[v] = self._behind(at, aa.Splat.make([v], [TensorType(v.type, shape)]))    # of a value from outside
            return found, found.owner
        *inner, last = body.ops
        for old in inner:
            operands = []
            for v in old.operands:
                made, at = tile(v, at)
                operands.append(made)
            types = [TensorType(r.type, shape) if shape else r.type for r in old.results]
            new = type(old).create(operands=operands, result_types=types, properties=dict(old.properties))
            self._behind(at, new)
            known.update(zip(old.results, new.results))
            at = new
        outs = []
        for v in last.operands:
            made, at = tile(v, at)
            outs.append(made)
        return outs, at

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
            low = mask & ~(mask + (mask & -mask))       # its lowest run of bits
            found = self._field(low)
            if mask != low:
                above = self._number(mask & ~low, 1 << low.bit_count(), i32)
                found = self._at_start(arith.Addi.make([found, above], [i32]))
            if times > 1:
                found = self._at_start(arith.Muli.make([found, self._constant(times, i32)], [i32]))
            if kind.width.data != i32.width.data:
                change = arith.Trunci if kind.width.data < i32.width.data else arith.Extui
                found = self._at_start(change.make([found], [kind]))
            self.numbers[key] = found
        return found

    def _field(self, bits: int) -> SSAValue:
        """What neighbouring bits of this CTA's rank say."""
        found, shift = self.rank, (bits & -bits).bit_length() - 1
        if shift:
            found = self._at_start(arith.Shrui.make([found, self._constant(shift, i32)], [i32]))
        if bits != (self.plan.ctas - 1) >> shift << shift:
            found = self._at_start(arith.Andi.make([found, self._constant(bits >> shift, i32)], [i32]))
        return found


def _part_type(t: Any, masks: Masks) -> TensorType:
    return TensorType(t.element_type, [n // parts(mask) for n, mask in zip(t.get_shape(), masks)])
