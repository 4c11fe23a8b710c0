"""Reading the parts of loops, branches, reductions, entries and modules: heads, arguments, bodies.

Each function reads one element of a format (`asm_format`) for an op that is being read.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import FunctionType, StringAttr, UnitAttr
from xdsl.ir import Attribute, Operation, Region

from tileiras.dialects.cuda_tile.op import CudaTileOp
from tileiras.dialects.cuda_tile.ops import Continue, For, If, Loop, Return, Yield

if TYPE_CHECKING:
    from tileiras.dialects.cuda_tile.asm_parse_op import OpParser, Value

_IMPLICIT: dict[type[Operation], type[CudaTileOp]] = {If: Yield, For: Continue, Loop: Continue}
"""The terminators that go unwritten."""


def body(op: OpParser, name: str) -> None:
    region = op.reader.region(op.arguments, isolated=False)
    _end(op, region, _IMPLICIT.get(op.cls))
    op.regions.append(region)


def _end(op: OpParser, region: Region, terminator: type[CudaTileOp] | None) -> None:
    """Add the terminator that goes unwritten."""
    block = region.block
    last = block.last_op
    if terminator is not None and not (isinstance(last, CudaTileOp) and last.TERMINATOR):
        implicit = terminator.make([[]])
        op.reader.stand_at(implicit, op.start)
        block.add_op(implicit)


def args_body(op: OpParser, name: str) -> None:
    op.reader.expect("(")
    arguments = tuple(op.reader.comma_separated(lambda: _argument(op), ")"))
    op.regions.append(op.reader.region(arguments, isolated=False, may_be_empty=True))


def _argument(op: OpParser) -> tuple[Value, Attribute]:
    reader = op.reader
    value = reader.value()
    reader.expect(":")
    type_ = reader.type()
    if reader.peek("{"):
        reader.dictionary()
    reader.optional_location()
    return value, type_


def _assignments(op: OpParser) -> list[Value]:
    """`(%inner = %outer, ...)`: the outer values; the inner ones are kept."""
    reader = op.reader
    reader.expect("(")
    pairs = reader.comma_separated(lambda: _assignment(op), ")")
    op.inner = [inner for inner, _ in pairs]
    return [outer for _, outer in pairs]


def _assignment(op: OpParser) -> tuple[Value, Value]:
    inner = op.reader.value()
    op.reader.expect("=")
    return inner, op.reader.value()


def for_head(op: OpParser) -> None:
    reader = op.reader
    if reader.accept_word("unsigned"):
        op.properties["unsignedCmp"] = UnitAttr()
    variable = reader.value()
    reader.expect_word("in")
    reader.expect("(")
    op.operands["lowerBound"] = [reader.value()]
    reader.expect_word("to")
    op.operands["upperBound"] = [reader.value()]
    reader.expect(",")
    reader.expect_word("step")
    op.operands["step"] = [reader.value()]
    reader.expect(")")
    reader.expect(":")
    type_ = reader.type()
    for name in ("lowerBound", "upperBound", "step"):
        op.types[name] = [type_]
    arguments = [(variable, type_)]
    if reader.accept_word("iter_values"):
        op.operands["initValues"] = _assignments(op)
        reader.expect_token("->")
        reader.expect("(")
        result_types = reader.comma_separated(reader.type)
        reader.expect(")")
        if len(result_types) != len(op.inner):
            raise op.fail("mismatch in number of loop-carried values and defined values", op.start)
        op.types["initValues"] = op.types["resultValues"] = result_types
        arguments += zip(op.inner, result_types)
    op.arguments = tuple(arguments)


def loop_head(op: OpParser) -> None:
    reader = op.reader
    if not reader.accept_word("iter_values"):
        if reader.accept(":"):
            op.types["resultValues"] = reader.comma_separated(reader.type)
        return
    op.operands["initValues"] = _assignments(op)
    reader.expect(":")
    value_types = reader.comma_separated(reader.type)
    if len(value_types) != len(op.inner):
        raise op.fail("found different number of iter_values and types")
    op.types["initValues"] = value_types
    if reader.accept("->"):
        op.types["resultValues"] = reader.comma_separated(reader.type)
    op.arguments = tuple(zip(op.inner, value_types))


def signature(op: OpParser) -> None:
    reader = op.reader
    op.properties["sym_name"] = StringAttr(reader.symbol())
    reader.expect("(")
    op.arguments = tuple(reader.comma_separated(lambda: _argument(op), ")"))
    results: list[Attribute] = []
    if reader.accept("->"):
        if reader.accept("("):
            results = reader.comma_separated(lambda: _result(op), ")")
        else:
            results = [reader.type()]
    op.properties["function_type"] = FunctionType.from_lists([t for _, t in op.arguments], results)


def _result(op: OpParser) -> Attribute:
    type_ = op.reader.type()
    if op.reader.peek("{"):
        op.reader.dictionary()
    return type_


def entry_body(op: OpParser) -> None:
    region = op.reader.region(op.arguments, isolated=True)
    _end(op, region, Return)
    op.regions.append(region)


def module_body(op: OpParser) -> None:
    op.regions.append(op.reader.region((), isolated=True))
