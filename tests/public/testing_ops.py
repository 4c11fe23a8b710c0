"""What the reference has only in builds for its own tests: a function with results, two ops and two bytecode versions.

`installed()` adds them to the tables of this project (op formats, bytecode rows, versions) while public tests run, and
takes them out again.
"""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i32

from tileiras.bytecode import container, optable, plan, version, writer
from tileiras.bytecode.version import Version
from tileiras.dialects.cuda_tile import asm_format, asm_parse_op, asm_print, edition, ops, verify
from tileiras.dialects.cuda_tile.asm_types import full_type_text
from tileiras.dialects.cuda_tile.op import CudaTileOp
from tileiras.dialects.cuda_tile.ops import Entry, PrintTko
from tileiras.dialects.cuda_tile.verify_error import single_block


class TestingFunction(Entry):
    """A function with results: `testing$func`."""

    __test__ = False
    name = "cuda_tile.testing$func"

    def CHECK(self) -> None:
        single_block(self, "body")


class TestNewAttribute(CudaTileOp):
    """Got a flag and a number with a default in 250.1."""

    __test__ = False
    name = "cuda_tile.testing$bytecode_test_new_attribute"
    ATTRS = "new_flag? new_param?"


class TestEvolution(PrintTko):
    """Got an attribute, an operand and its result in 250.1; named in text without its result, as a print is."""

    __test__ = False
    name = "cuda_tile.testing$bytecode_test_evolution"
    OPERANDS = "inputs* optional_token?"
    RESULTS = "result_token?"
    ATTRS = "new_attr?"


OPS: tuple[type[CudaTileOp], ...] = (TestingFunction, TestNewAttribute, TestEvolution)
EXTRA_OPS: dict[str, type[CudaTileOp]] = {op.name.removeprefix("cuda_tile."): op for op in OPS}

_NEW, _EVOLVED = "testing$bytecode_test_new_attribute", "testing$bytecode_test_evolution"
_FORMATS = {
    _NEW: "{ new_flag $new_flag }? { new_param = $new_param }? attr-dict",
    _EVOLVED: "( $inputs : full(inputs) ) { new_attr = $new_attr }? { token = $optional_token : T(optional_token) }? -> "
              "T(result_token) attr-dict",
}
_KINDS = {_NEW: "->", _EVOLVED: "inputs*:tile optional_token?:token -> result_token?:token"}
_ROWS = {
    0x1000: "0x1000 TestNewAttribute 250.0 new_flag:unit@250.1 new_param:i32@250.1=42",
    0x1001: "0x1001 TestEvolution 250.0 new_attr?:i32@250.1",
}
_VERSIONS = (Version(250, 0), Version(250, 1))
_LATER = {("TestEvolution", "optional_token"): _VERSIONS[1], ("TestEvolution", "result_token"): _VERSIONS[1]}


def _full_types(printer: Any, op: Any, indent: int, name: str) -> str:
    return ", ".join(full_type_text(value.type) for value in asm_print.group_values(op, name))


@contextmanager
def installed() -> Iterator[None]:
    """The testing ops and versions in the project's tables."""
    own = version.SUPPORTED_VERSIONS
    versions = (*own, *_VERSIONS)

    def spoken() -> tuple[Version, ...]:
        return tuple(v for v in own if v[:2] <= edition.current())

    with ExitStack() as stack:
        for table, more in (
                (asm_format._TABLE, _FORMATS), (verify._TABLE, _KINDS), (optable._LINES, _ROWS),
                (optable._LATER_VALUES, _LATER), (asm_print._DIRECTIVES, {"full": _full_types}),
                (asm_parse_op._READERS, {"full": asm_parse_op.OpParser.type_group}),
                (asm_parse_op._INTEGERS, {"new_param": i32, "new_attr": i32}), (asm_print._UNWRITTEN_IF, {"new_param": 42}),
                (asm_parse_op.ATTRIBUTE_KINDS, {"new_flag": (UnitAttr,), "new_param": (IntegerAttr,)})):
            stack.enter_context(mock.patch.dict(table, more))
        for op in OPS[1:]:
            stack.enter_context(mock.patch.object(ops, op.__name__, op, create=True))
        for module in (version, container, writer):
            stack.enter_context(mock.patch.object(module, "SUPPORTED_VERSIONS", versions))
            stack.enter_context(mock.patch.object(module, "supported_range", lambda: f"[{spoken()[0]} - {spoken()[-1]}]"))
        stack.enter_context(mock.patch.object(version, "spoken_versions", lambda: (*spoken(), *_VERSIONS)))
        for cached in (asm_format.format_of, optable.row_of, optable.rows_by_name):
            cached.cache_clear()
            stack.callback(cached.cache_clear)
        stack.callback(plan._TABLES.clear)
        yield
