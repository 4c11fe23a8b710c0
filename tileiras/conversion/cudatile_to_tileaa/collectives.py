"""How matrix products, reductions and scans lower. Bodies keep their pairs of arguments, as bare scalars.

    mmaf %a, %b, %c            ->   nv_tileaa.dot(%a, %b, %c)
    reduce %x dim=1 { ... }    ->   nv_tileaa.reduce(%x) {dim = 1} ({ ^(%element: f32, %accumulated: f32): ... })
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Region

from tileiras.conversion.cudatile_to_tileaa.constants import integer_attr
from tileiras.conversion.cudatile_to_tileaa.converter import UNIT, CudaTileConverter, lowers
from tileiras.conversion.cudatile_to_tileaa.types import convert_type, text
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa


@lowers("mmaf")
def lower_mmaf(cv: CudaTileConverter, op: Any) -> None:
    cv.replace(op, aa.Dot, cv.get_all(op.operands), {"fast_acc": UNIT} if "fast_acc" in op.properties else None)


@lowers("mmai")
def lower_mmai(cv: CudaTileConverter, op: Any) -> None:
    cv.replace(op, aa.Dot, cv.get_all(op.operands), {"signedness_lhs": text(op.signedness_lhs.value),
                                                     "signedness_rhs": text(op.signedness_rhs.value)})


@lowers("mmaf_scaled")
def lower_mmaf_scaled(cv: CudaTileConverter, op: Any) -> None:
    cv.replace(op, aa.DotScaled, cv.get_all(op.operands))


def identity(attr: Attribute, element_type: Attribute) -> Attribute:
    """An identity as an attribute of its operand's element type (frontends write some in another float type)."""
    if isinstance(attr, FloatAttr):
        return attr if attr.type == element_type else FloatAttr(attr.value.data, element_type)  # type: ignore[arg-type]
    if isinstance(attr, IntegerAttr):
        return integer_attr(attr.value.data, element_type.width.data)  # type: ignore[attr-defined]
    return attr


@lowers("reduce", "scan")
def lower_collective(cv: CudaTileConverter, op: Any) -> None:
    old = op.regions[0].block
    body = cv.block_like(old)
    identities = ArrayAttr([identity(a, v.type.element_type) for a, v in zip(op.identities, op.operands)])
    attrs: dict[str, Attribute] = {"dim": op.dim, "identities": identities}
    cls = aa.Reduce
    if op.name == "cuda_tile.scan":
        attrs["reverse"], cls = op.reverse, aa.Scan
    new = cv.emit(cls, cv.get_all(op.operands), [convert_type(r.type) for r in op.results], attrs, (Region(body),))
    cv.bind_results(op, new)
    cv.enter(old, body, arith.Yield)
