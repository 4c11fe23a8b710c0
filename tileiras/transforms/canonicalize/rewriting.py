"""What rules of `canonicalize` share: making, moving and erasing ops; constants that are true, zero or one."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects.cuda_tile.attrs import DenseElementsAttr
from tileiras.dialects.cuda_tile.dense import element_patterns, is_splat
from tileiras.dialects.cuda_tile.op import CudaTileOp
from tileiras.dialects.cuda_tile.ops import CmpI, Constant, Select, XOrI, Yield
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.transforms.rules.choice import Words


def make(before: Operation, cls: type[CudaTileOp], operands: Sequence[Any], result_types: Sequence[Attribute],
         attrs: Mapping[str, Attribute] | None = None, regions: Sequence[Any] = ()) -> Any:
    """A new op before another one, at its location. `operands`: one entry a group of the declaration, or all flat."""
    op = cls.create(operands=operands, result_types=result_types, properties=attrs or {}, regions=regions,
                    location=before.location)
    block = before.parent
    assert block is not None
    block.insert_op_before(op, before)
    return op


def erase(op: Operation) -> None:
    """Remove an op whose results nobody uses, with what is inside it."""
    op.detach()
    op.erase()


def constant_of(value: SSAValue) -> DenseElementsAttr | None:
    owner = value.owner
    found = owner.properties["value"] if isinstance(owner, Constant) else None
    return found if isinstance(found, DenseElementsAttr) else None


def splat_integer(value: SSAValue) -> int | None:
    """The bits of a constant integer tile whose elements are all equal, else None."""
    constant = constant_of(value)
    if constant is None or not isinstance(constant.type.element_type, IntegerType) or not is_splat(constant):
        return None
    return element_patterns(constant)[0]


def boolean(value: SSAValue) -> bool | None:
    """True or False for a constant tile of i1 whose elements are all equal, else None."""
    constant = constant_of(value)
    if constant is None or constant.type.element_type != IntegerType(1):
        return None
    bits = splat_integer(value)
    return None if bits is None else bool(bits)


def negated(value: SSAValue) -> SSAValue | None:
    """%x where the value is `xori %x, true`, else None."""
    owner = value.owner
    if isinstance(owner, XOrI) and boolean(owner.operands[1]) is True:
        return owner.operands[0]
    return None


def negate(before: Operation, value: SSAValue) -> SSAValue:
    """`xori %value, true`."""
    type_ = value.type
    assert isinstance(type_, TileType)
    true = make(before, Constant, (), (type_,), {"value": DenseElementsAttr(type_, b"\xff")})
    return make(before, XOrI, (value, true.results[0]), (type_,)).results[0]


def _equality(value: SSAValue) -> tuple[bool, tuple[SSAValue, ...]] | None:
    owner: Any = value.owner
    predicate = owner.comparison_predicate.value if isinstance(owner, CmpI) else ""
    return (predicate == "equal", tuple(owner.operands)) if predicate in ("equal", "not_equal") else None


WORDS = Words(boolean, negated, _equality, Select, Yield)
