"""`remove-layout-conversions`: a change of layout goes where it costs less, or not at all.

    %a = cmpi %i, %n                                  %b = cmpi %i', %n'            computed again in the layout wanted
    %b = convert_layout %a                     ->

    %w = extf %x : f16 -> f32                         %y = convert_layout %x : f16  before the elements grow
    %b = convert_layout %w : f32               ->     %b = extf %y

    %a = convert_layout %x                            %b = convert_layout %x        at once
    %b = convert_layout %a                     ->

    %x = load ...                                     %x = load ...                 what is loaded may then be copied
    %n = negf %x                               ->     %y = convert_layout %x        to shared memory by itself; sums and
    %b = convert_layout %n                            %b = negf %y                  products take a sign for nothing

What is computed again is a few element-wise ops on constants, ranges and splats, and only where that takes fewer issue slots
than the conversion (analysis/layout_cost.py). A conversion that an enclosing block already has isn't made twice.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis import layout_cost
from tileiras.analysis.layout_choice import LEAVES, element_bits, slots_of
from tileiras.analysis.layout_rules import is_tensor
from tileiras.analysis.program_slice import loop_around
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.nv_tileas import LOADS, layout_of, with_layout
from tileiras.layout.linear import LinearLayout
from tileiras.transforms.structure import erase_unused

MAX_REPEATED = 12
"""Ops that are computed again for one conversion, at most."""
REPEATABLE = frozenset({"nv_tileas.addptr", "nv_tileas.assume", "nv_tileas.ptr_to_int", "nv_tileas.int_to_ptr",
                        "nv_tileas.ptr_to_ptr"})
RENAMES = frozenset({"nv_tileas.view", "nv_tileas.permute", "nv_tileas.broadcast"})
SIGNED = frozenset({"math.fma", "arith.addf", "arith.subf", "arith.mulf"})
"""Whose instructions take each operand negated, too."""


def run(module: Operation, context: Any) -> None:
    """Remove and move conversions, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            conversions: list[Operation] = [op for op in func.walk() if isinstance(op, nv_tileas.ConvertLayout)]
            if conversions:
                _Removal().run(conversions)


class _Removal:
    """`made`: conversions by value and layout, with the block that they stand in."""

    def __init__(self) -> None:
        self.made: dict[tuple[SSAValue, LinearLayout], list[tuple[Block, SSAValue]]] = {}

    def run(self, conversions: list[Operation]) -> None:
        for op in conversions:
            if op.parent is not None:
                self.visit(op)

    def visit(self, op: Operation) -> None:
        result, layout = op.results[0], layout_of(op.results[0])
        source = op.operands[0]
        owner = source.owner
        while isinstance(owner, nv_tileas.ConvertLayout):
            source = op.operands[0] = owner.operands[0]
            erase_unused([owner], _may_go)
            owner = source.owner
        if result.first_use is None or layout_of(source) == layout:
            _replace(op, source)
            return
        known = self.known(source, layout, op)
        if known is not None:
            _replace(op, known)
            return
        if self.repeat(op, source, layout) or self.before_growth(op, source, layout) or self.before_sign(op, source, layout):
            return
        assert op.parent is not None
        self.made.setdefault((source, layout), []).append((op.parent, result))

    def known(self, source: SSAValue, layout: LinearLayout, op: Operation) -> SSAValue | None:
        """A conversion made before, in this block or one around it."""
        found = self.made.get((source, layout))
        if found is None:
            return None
        around: Operation | None = op
        blocks: set[Block] = set()
        while around is not None and around.parent is not None:
            blocks.add(around.parent)
            around = around.parent_op()
        return next((v for block, v in found if block in blocks and v.owner.parent is block), None)

    def repeat(self, op: Operation, source: SSAValue, layout: LinearLayout) -> bool:
        """Compute the source again in the layout wanted, where that is cheap."""
        chain = _chain(source)
        if chain is None:
            return False
        slots = sum(slots_of(o) for o in chain if o.name not in LEAVES) * layout.num_regs
        if slots >= layout_cost.conversion(layout_of(source), layout, element_bits(source)):
            return False
        new: dict[SSAValue, SSAValue] = {}
        block = op.parent
        assert block is not None
        for o in chain:
            copy = o.clone(new)
            for v in copy.results:
                assert isinstance(v.type, TensorType)
                v._type = with_layout(v.type, layout)
            block.insert_op_before(copy, op)
        _replace(op, new[source])
        return True

    def before_growth(self, op: Operation, source: SSAValue, layout: LinearLayout) -> bool:
        """Convert what a cast makes wider before the cast, if nobody else asks for the wide tile."""
        cast = source.owner
        if not isinstance(cast, arith.Elementwise) or len(cast.operands) != 1 or not _only_use(source):
            return False
        narrow = cast.operands[0]
        if not isinstance(narrow.type, TensorType) or element_bits(narrow) >= element_bits(source):
            return False
        have, slots = layout_of(source), slots_of(cast)
        saved = layout_cost.conversion(have, layout, element_bits(source)) - layout_cost.conversion(
            have, layout, element_bits(narrow))
        if saved <= slots * (layout.num_regs - have.num_regs):
            return False
        self.before(op, cast, layout)
        return True

    def before_sign(self, op: Operation, source: SSAValue, layout: LinearLayout) -> bool:
        """Convert what a loop loads before its sign changes, if only instructions that negate what they read want it negated."""
        sign = source.owner
        if not isinstance(sign, arith.Negf) or not source.has_one_use() or loop_around(op) is None or \
                not _is_loaded(sign.operands[0]) or not _takes_signs(op.results[0]):
            return False
        self.before(op, sign, layout)
        return True

    def before(self, op: Operation, cast: Operation, layout: LinearLayout) -> None:
        """Convert an op's operand instead of its result."""
        narrow, source = cast.operands[0], cast.results[0]
        block = op.parent
        assert block is not None and isinstance(source.type, TensorType) and isinstance(narrow.type, TensorType)
        convert = nv_tileas.ConvertLayout.make([narrow], [with_layout(narrow.type, layout)])
        convert.location = op.location
        block.insert_op_before(convert, op)
        new: dict[SSAValue, SSAValue] = {narrow: convert.results[0]}
        copy = cast.clone(new)
        copy.results[0]._type = with_layout(source.type, layout)
        block.insert_op_before(copy, op)
        _replace(op, copy.results[0])
        self.visit(convert)


def _is_loaded(v: SSAValue) -> bool:
    """Whether a tile is what a load gives, for one op alone."""
    while v.has_one_use() and isinstance(v.owner, Operation):
        if v.owner.name in LOADS:
            return True
        if v.owner.name not in RENAMES:
            return False
        v = v.owner.operands[0]
    return False


def _takes_signs(v: SSAValue) -> bool:
    """Whether all that is done with a tile is done by instructions that negate what they read."""
    return all(use.operation.name in SIGNED or (use.operation.name in RENAMES and _takes_signs(use.operation.results[0]))
               for use in v.uses)


def _chain(source: SSAValue) -> list[Operation] | None:
    """The ops that make a tensor from leaves and scalars, operands first; None if there are too many or others."""
    found: dict[Operation, None] = {}

    def add(v: SSAValue) -> bool:
        op = v.owner
        if op in found:
            return True
        if not isinstance(op, Operation) or len(found) >= MAX_REPEATED:
            return False
        if op.name not in LEAVES and not isinstance(op, arith.Elementwise) and op.name not in REPEATABLE:
            return False
        if not all(add(x) for x in op.operands if is_tensor(x)):
            return False
        found[op] = None
        return True
    return list(found) if add(source) else None


def _only_use(v: SSAValue) -> bool:
    use = v.first_use
    return use is not None and len(list(v.uses)) == 1


def _replace(op: Operation, by: SSAValue) -> None:
    """`by` stands for the conversion's result; what then nobody uses goes."""
    source = op.operands[0]
    op.results[0].replace_all_uses_with(by)
    op.detach()
    op.erase()
    if isinstance(source.owner, Operation):
        erase_unused([source.owner], _may_go)


def _may_go(op: Operation) -> bool:
    """Whether an op of a chain is one that is removed when nobody uses it."""
    return isinstance(op, (arith.Elementwise, nv_tileas.ConvertLayout)) or op.name in LEAVES or op.name in REPEATABLE
