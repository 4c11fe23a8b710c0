"""What `arith`, `math` and `scf` ops must keep besides their declarations: widths of casts, values of constants, regions."""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerAttr, IntegerType, TensorType
from xdsl.ir import Block, Operation, SSAValue

from tileiras.dialects import arith
from tileiras.dialects.cuda_tile.types import element_bits
from tileiras.dialects.cuda_tile.verify_error import InvalidOp
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileaa import DenseTileAttr
from tileiras.dialects.verify import Rule, shape_of

LOOPS = ("scf.for", "nv_tileaa.loop", "nv_tileas.loop")
TAKE_YIELD = ("scf.if", "scf.for", "nv_tileaa.reduce", "nv_tileas.reduce", "nv_tileaa.scan", "nv_tileas.scan")
EXITS = ("break", "continue", "return")
"""Terminators of nv_tileaa and nv_tileas that may end a branch or a loop's body."""


def element(value: SSAValue) -> Any:
    """A tensor's element type; a scalar's own type."""
    return value.type.element_type if isinstance(value.type, TensorType) else value.type


def check_values(op: Operation, values: Any, expected: Any, what: str) -> None:
    """Whether values go where values of other types are expected: as many, of the same types."""
    have, want = [v.type for v in values], [v.type for v in expected]
    if have != want:
        raise InvalidOp(op, f"{what} must be of types ({', '.join(map(str, want))}), but got ({', '.join(map(str, have))})")


def last_of(op: Operation, block: Block, *names: str) -> Any:
    """A block's terminator, which must be one of these ops (named without their dialect) or an early exit."""
    last: Any = block.last_op
    short = "" if last is None else last.name.partition(".")[2]
    if short not in names:
        raise InvalidOp(op, f"must end in one of {', '.join(names)}, but ends in '{'' if last is None else last.name}'")
    return last


def _elementwise(op: Any) -> None:
    """All tensors have one layout: each thread computes what it holds."""
    result = op.results[0].type
    for i, value in enumerate(op.operands):
        if isinstance(value.type, TensorType) and isinstance(result, TensorType) and value.type.encoding != result.encoding:
            raise InvalidOp(op, f"operand #{i} must have the result's layout, but they are '{value.type}' and '{result}'")


def _select(op: Any) -> None:
    condition = shape_of(op.condition.type)
    if condition and condition != shape_of(op.result.type):
        raise InvalidOp(op, f"the condition must be an i1 or have the result's shape, but is '{op.condition.type}'")
    _elementwise(op)


def _widening(op: Any) -> None:
    _elementwise(op)
    if element(op.source).width.data >= element(op.result).width.data:
        raise InvalidOp(op, f"must widen, but goes from '{op.source.type}' to '{op.result.type}'")


def _narrowing(op: Any) -> None:
    _elementwise(op)
    if element(op.source).width.data <= element(op.result).width.data:
        raise InvalidOp(op, f"must narrow, but goes from '{op.source.type}' to '{op.result.type}'")


def _bits(t: Any) -> int:
    return 1 if isinstance(t, IntegerType) and t.width.data == 1 else element_bits(t)


def _bitcast(op: Any) -> None:
    _elementwise(op)
    if _bits(element(op.source)) != _bits(element(op.result)):
        raise InvalidOp(op, f"must keep the number of bits, but goes from '{op.source.type}' to '{op.result.type}'")


def check_elements(op: Operation, value: DenseTileAttr, count: int, element_type: Any) -> None:
    """Whether a constant's bytes are `count` elements of this type, each in its place in registers."""
    width = element_bytes(element_type)
    if value.width.data != width:
        raise InvalidOp(op, f"elements of '{element_type}' take {width} bytes, but the constant's take {value.width.data}")
    text = value.data.data
    if len(text) != 2 * width * count or any(c not in "0123456789abcdefABCDEF" for c in text):
        raise InvalidOp(op, f"the constant must have {width * count} bytes in hexadecimal")


def _constant(op: Any) -> None:
    value, kind = op.value, element(op.result)
    count = 1
    for n in shape_of(op.result.type):
        count *= n
    if isinstance(value, DenseTileAttr):
        check_elements(op, value, count, kind)
    elif value.type != kind:
        raise InvalidOp(op, f"the value's type must be '{kind}', but is '{value.type}'")
    elif isinstance(value, IntegerAttr) != isinstance(kind, IntegerType):
        raise InvalidOp(op, f"{value} is no value of '{kind}'")


def _for(op: Any) -> None:
    block = op.body.block
    if not block.args or block.args[0].type != op.lower.type:
        raise InvalidOp(op, f"the body's first argument must be of the bounds' type '{op.lower.type}'")
    check_values(op, op.inits, block.args[1:], "initial values")
    check_values(op, op.outs, block.args[1:], "results")
    last_of(op, block, "yield", "return")


def _if(op: Any) -> None:
    for region in op.regions:
        if region.blocks:
            if region.block.args:
                raise InvalidOp(op, "regions must have no arguments")
            last_of(op, region.block, "yield", *EXITS)
        elif op.results:
            raise InvalidOp(op, "must have both regions, for it has results")


def _yield(op: Any) -> None:
    parent = op.parent_op()
    if parent is None or parent.name not in TAKE_YIELD:
        raise InvalidOp(op, f"must be inside {', '.join(TAKE_YIELD)}")
    if parent.name in ("scf.if", "scf.for"):
        check_values(op, op.operands, parent.results, "operands")
        return
    have, want = [v.type for v in op.operands], [element(v) for v in parent.operands if isinstance(v.type, TensorType)]
    if have != want:
        raise InvalidOp(op, f"operands must be of types ({', '.join(map(str, want))}), but got ({', '.join(map(str, have))})")


OP_RULES: dict[str, Rule] = {
    **{cls.name: _elementwise for cls in (*arith.ARITH_OPS, *arith.MATH_OPS) if issubclass(cls, arith.Elementwise)},
    "arith.select": _select, "arith.extsi": _widening, "arith.extui": _widening, "arith.trunci": _narrowing,
    "arith.bitcast": _bitcast, "arith.constant": _constant, "scf.for": _for, "scf.if": _if, "scf.yield": _yield,
}
