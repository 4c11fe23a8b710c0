"""Canonical forms of selects, assumptions and sums.

Each rule holds for every value: a select chooses bits and computes nothing, so NaN and -0.0 pass unharmed. A select on
the equality of its own two sides is a fact of integers only: 0.0 equals -0.0.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import IntegerType

from tileiras.dialects.cuda_tile.attrs import SignednessAttr
from tileiras.dialects.cuda_tile.dense import packed
from tileiras.dialects.cuda_tile.ops import Assume, CmpI, Constant, ExtI, MulF, Select
from tileiras.transforms.canonicalize.rewriting import (
    boolean,
    constant_of,
    make,
    negate,
    negated,
    replace,
    splat_integer,
)


def select_value(op: Any) -> bool:
    """A select that is one of its operands."""
    condition, yes, no = op.operands
    known = boolean(condition)
    if yes is no or known is True:
        replace(op, [yes])
    elif known is False:
        replace(op, [no])
    elif boolean(yes) is True and boolean(no) is False:
        replace(op, [condition])
    elif isinstance(condition.owner, CmpI) and {*condition.owner.operands} == {yes, no}:
        predicate = condition.owner.comparison_predicate.value
        if predicate not in ("equal", "not_equal"):
            return False
        replace(op, [yes if predicate == "not_equal" else no])
    else:
        return False
    return True


def select_operands(op: Any) -> bool:
    """select(not c, a, b) -> select(c, b, a); a nested select on the same condition gives the side that it takes."""
    condition, yes, no = op.operands
    inner = negated(condition)
    if inner is not None:
        op.operands = (inner, no, yes)
        return True
    for i, side in ((1, yes), (2, no)):
        if isinstance(side.owner, Select) and side.owner.operands[0] is condition:
            op.operands = tuple(side.owner.operands[i] if j == i else v for j, v in enumerate(op.operands))
            return True
    return False


def select_booleans(op: Any) -> bool:
    """select c, false, true -> xori c, true; select c, 1, 0 -> exti c unsigned, and with the sides swapped."""
    condition, yes, no = op.operands
    type_ = op.results[0].type
    element = type_.element_type
    if not isinstance(element, IntegerType):
        return False
    sides = splat_integer(yes), splat_integer(no)
    if sides not in ((1, 0), (0, 1)):
        return False
    if sides == (0, 1):
        condition = negate(op, condition)
    if element.width.data == 1:
        replace(op, [condition])
    else:
        unsigned = {"signedness": SignednessAttr("unsigned")}
        replace(op, [make(op, ExtI, (condition,), (type_,), unsigned).results[0]])
    return True


def select_constants(op: Any) -> bool:
    """Three constants give a constant."""
    constants = [constant_of(value) for value in op.operands]
    type_ = op.results[0].type
    if any(constant is None for constant in constants):
        return False
    columns = [c.bits * type_.num_elements if len(c.bits) == 1 else c.bits for c in constants if c is not None]
    chosen = [yes if condition else no for condition, yes, no in zip(*columns)]
    replace(op, [make(op, Constant, (), (type_,), {"value": packed(chosen, type_)}).results[0]])
    return True


def repeated_assume(op: Any) -> bool:
    """An assumption of what its operand assumes already."""
    inner = op.operands[0].owner
    if not isinstance(inner, Assume) or inner.predicate != op.predicate:
        return False
    replace(op, [op.operands[0]])
    return True


def product_first(op: Any) -> bool:
    """x + a*b -> a*b + x, where fusing looks for products. Addition commutes, also in its roundings; which of two NaNs
    comes out is no one's promise."""
    lhs, rhs = op.operands
    if not isinstance(rhs.owner, MulF) or isinstance(lhs.owner, MulF):
        return False
    op.operands = (rhs, lhs)
    return True


VALUE_RULES: dict[str, tuple[Callable[[Any], bool], ...]] = {
    "cuda_tile.select": (select_value, select_operands, select_booleans, select_constants),
    "cuda_tile.assume": (repeated_assume,),
    "cuda_tile.addf": (product_first,),
}
