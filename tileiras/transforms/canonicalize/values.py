"""Canonical forms of selects, assumptions and sums.

Each rule holds for every value: a select chooses bits and computes nothing, so NaN and -0.0 pass unharmed. A select on
the equality of its own two sides is a fact of integers only: 0.0 equals -0.0.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import IntegerType

from tileiras.dialects.cuda_tile.attrs import SignednessAttr
from tileiras.dialects.cuda_tile.dense import element_patterns, packed
from tileiras.dialects.cuda_tile.ops import Assume, Constant, ExtI, MulF
from tileiras.transforms.canonicalize.rewriting import WORDS, constant_of, make, negate, splat_integer
from tileiras.transforms.rules.choice import reduce_select, select_value
from tileiras.transforms.structure import replace


def decided_select(op: Any) -> bool:
    """A select that is one of its operands (`rules/choice.py`)."""
    value = select_value(op, WORDS)
    if value is not None:
        replace(op, [value])
    return value is not None


def asked_again(op: Any) -> bool:
    """A select on a negation, or of a select on the same condition (`rules/choice.py`)."""
    return reduce_select(op, WORDS)


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
    patterns = [element_patterns(c) for c in constants if c is not None]
    columns = [p * type_.num_elements if len(p) == 1 else p for p in patterns]
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
    "cuda_tile.select": (decided_select, asked_again, select_booleans, select_constants),
    "cuda_tile.assume": (repeated_assume,),
    "cuda_tile.addf": (product_first,),
}
