"""The simplifications of `simplify`, by what they look at: one file a family of ops, all in one table.

A rule takes an op and gives the value that may stand for its first result, or None. It may put new ops before the op
(`build`), which are simplified at once. A rule is an identity: on floats it holds for every value, NaN and -0.0 too.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects.arith import Constant
from tileiras.dialects.base import TileOp

Rule = Callable[[Any], SSAValue | None]

RULES: dict[str, Rule] = {}
"""By op name."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function
    return register


def build(before: Operation, cls: type[TileOp], operands: Sequence[SSAValue], result_type: Attribute,
          attrs: Mapping[str, Attribute] | None = None) -> SSAValue:
    """The value of a new one-result op put before `before`, or of what it simplifies to."""
    op = cls.create(operands=operands, result_types=(result_type,), properties=attrs or {}, location=before.location)
    block = before.parent
    assert block is not None
    block.insert_op_before(op, before)
    found = RULES.get(op.name)
    value = found(op) if found is not None else None
    if value is None or value is op.results[0]:
        return op.results[0]
    op.detach()
    op.erase()
    return value


def element_type(t: Attribute) -> Attribute:
    return t.element_type if isinstance(t, TensorType) else t


def with_element(t: Attribute, element: Attribute) -> Attribute:
    """The type of the same shape with other elements."""
    return TensorType(element, t.get_shape(), t.encoding) if isinstance(t, TensorType) else element


def int_width(t: Attribute) -> int:
    """Bits of an integer scalar or of a tensor's integer elements; 0 for other types."""
    element = element_type(t)
    return element.width.data if isinstance(element, IntegerType) else 0


def constant_attr(value: SSAValue) -> Attribute | None:
    """The attribute of a constant whose elements are all equal, else None."""
    owner = value.owner
    if isinstance(owner, Constant):
        attr = owner.properties["value"]
        if isinstance(attr, (IntegerAttr, FloatAttr)):
            return attr
    return None


def int_constant(value: SSAValue) -> int | None:
    """The signed integer (i1: 0 or 1) that all elements of a constant are, else None."""
    attr = constant_attr(value)
    if not isinstance(attr, IntegerAttr):
        return None
    return attr.value.data & 1 if int_width(value.type) == 1 else attr.value.data


def float_constant(value: SSAValue) -> float | None:
    attr = constant_attr(value)
    return attr.value.data if isinstance(attr, FloatAttr) else None


def wrap(value: int, width: int) -> int:
    """An integer modulo 2^width as the signed value (i1: 0 or 1)."""
    value &= (1 << width) - 1
    return value - (1 << width) if width > 1 and value >> width - 1 else value


def int_splat(before: Operation, t: Attribute, value: int) -> SSAValue:
    """A new integer constant of type `t`, scalar or tensor."""
    element = element_type(t)
    assert isinstance(element, IntegerType)
    attr = IntegerAttr(wrap(value, element.width.data), element)
    return build(before, Constant, (), t, {"value": attr})


def attr_splat(before: Operation, t: Attribute, attr: Attribute) -> SSAValue:
    """A new constant of type `t` with this scalar attribute."""
    return build(before, Constant, (), t, {"value": attr})
