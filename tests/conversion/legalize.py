"""Ops whose tensors have layouts that they can't do with, mended by conversions: tests draw layouts freely, passes don't.

    %y = permute [1, 0] %x : #a -> #b           %t = permute [1, 0] %x : #a -> #a permuted
                                          ->    %y = convert_layout %t : #b
"""
from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, OpResult, SSAValue

from tileiras.analysis.layout_rules import Normal, Relation, Same, relations
from tileiras.dialects import nv_tileas
from tileiras.dialects.nv_tileas import layout_of, with_layout
from tileiras.layout.linear import LinearLayout

MOST_STEPS = 64
"""Conversions that one op may need: a few for each of its tensors."""


def legalize(op: Operation) -> None:
    """Let the op keep the rules: operands are converted before it, results behind it."""
    for _ in range(MOST_STEPS):         # a conversion changes what the other relations speak of
        asked = sorted(relations(op), key=lambda r: not isinstance(r, Normal))
        broken = next((r for r in asked if r.broken() is not None), None)
        if broken is None:
            return
        _mend(op, broken, {r.value for r in asked if isinstance(r, Normal)})


def _mend(op: Operation, relation: Relation, normal: set[SSAValue]) -> None:
    """`normal`: the values that are as the op's walk needs them."""
    if isinstance(relation, Same):
        # those lead; else a result does: what it is joined with has its layout already
        mine = [v for v in relation.values if v in op.results or v in op.operands]
        lead = next((v for v in mine if v in normal), None) or next((v for v in mine if v in op.results), mine[0])
        for v in mine:
            _set(op, v, layout_of(lead))
    elif isinstance(relation, Normal):
        wanted = relation.form(layout_of(relation.value))
        assert wanted is not None
        _set(op, relation.value, wanted)
    elif relation.to is not None:
        wanted = relation.to(layout_of(relation.source))
        assert wanted is not None
        _set(op, relation.target, wanted)
    else:
        assert relation.back is not None
        wanted = relation.back(layout_of(relation.target))
        assert wanted is not None
        _set(op, relation.source, wanted)


def _set(op: Operation, v: SSAValue, layout: LinearLayout) -> None:
    """Give `op` its operand, or its result, in this layout."""
    t = v.type
    assert isinstance(t, TensorType) and op.parent is not None
    if layout_of(v) == layout:
        return
    if isinstance(v, OpResult) and v.op is op:
        uses = list(v.uses)
        v._type = with_layout(t, layout)
        convert = nv_tileas.ConvertLayout.make([v], [t])
        op.parent.insert_op_after(convert, op)
        for use in uses:
            use.operation.operands[use.index] = convert.results[0]
    else:
        convert = nv_tileas.ConvertLayout.make([v], [with_layout(t, layout)])
        op.parent.insert_op_before(convert, op)
        for i, operand in enumerate(op.operands):
            if operand is v:
                op.operands[i] = convert.results[0]
    convert.location = op.location
