"""Every op of every version, written by the public frontend's encoder: read, compared field by field, written back."""
from __future__ import annotations

from enum import Enum
from typing import Any, cast

import pytest
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FloatAttr, IntegerAttr, StringAttr, SymbolRefAttr, i64
from xdsl.ir import Operation

from tileiras.bytecode import read, write
from tileiras.bytecode.optable import all_rows
from tileiras.bytecode.version import SUPPORTED_VERSIONS
from tileiras.dialects.cuda_tile import attrs, ops
from tileiras.dialects.cuda_tile.op import CudaTileOp
from tileiras.dialects.cuda_tile.types import TileType, TokenType

pytest.importorskip("cuda.tile._bytecode")

from tests.bytecode import frontend_ops

VERSIONS = [str(version) for version in SUPPORTED_VERSIONS]
OUR_NAMES = {"FPowF": "Pow"}


def accessor(op: Operation, name: str) -> Any:
    """A field by the frontend's parameter name, which has an underscore behind Python's keywords, as ours has."""
    if name == "operands":
        return tuple(op.operands)
    if name in op.properties:
        return op.properties[name]
    return getattr(op, name)


def check(op: Operation, name: str, asked: Any, values: dict[int, Any]) -> None:
    import cuda.tile._bytecode as bc

    found = accessor(op, name)
    if asked is None or asked is False:
        assert found is None or (isinstance(found, IntegerAttr) and found.value.data == 0)
    elif asked is True:
        assert found is not None
    elif isinstance(asked, bc.Value):
        assert found is values[asked.value_id]
    elif isinstance(asked, Enum):
        assert isinstance(found, attrs.EnumAttr)
        assert found.number == asked.value[0]
    elif isinstance(asked, int):
        assert found.value.data == asked
    elif isinstance(asked, str):
        assert (found.data if isinstance(found, StringAttr) else found.root_reference.data) == asked
    elif isinstance(asked, bytes):
        assert found.raw == asked
    elif isinstance(asked, bc.DivBy):
        assert found == attrs.DivByAttr(asked.divisor, asked.every, asked.along)
    elif isinstance(asked, bc.Bounded):
        assert found == attrs.BoundedAttr(asked.lb, asked.ub)
    elif isinstance(asked, bc.OptimizationHints):
        hints = found.for_target("sm_90")
        assert (hints["latency"].value.data, hints["allow_tma"].value.data) == (5, 0)
    elif isinstance(found, ArrayAttr):
        assert list(found.data) == [IntegerAttr(-5, i64), FloatAttr(-0.5, 32), IntegerAttr.from_bool(True)]
    elif isinstance(found, DenseArrayBase):
        assert [abs(value) for value in found.get_values()] == [int(value) for value in asked]
    elif isinstance(asked, tuple) and asked and isinstance(asked[0], bc.Value):
        assert tuple(found) == tuple(values[value.value_id] for value in asked)
    else:
        raise AssertionError(f"nothing checks {name} of {op.name}")


@pytest.mark.parametrize("present", [True, False], ids=["all fields", "no optional fields"])
@pytest.mark.parametrize("version", VERSIONS)
def test_every_op_reads_as_the_frontend_wrote_it(version: str, present: bool) -> None:
    writer = frontend_ops.Writer(version, present)
    data = writer.write()
    module = read(data)
    entry = next(iter(module.entries))
    values = dict(enumerate(entry.entry_block.args))
    body = list(entry.entry_block.ops)
    assert len(body) == len(writer.written) + 1
    for asked, op in zip(writer.written, cast("list[CudaTileOp]", body)):
        assert isinstance(op, getattr(ops, OUR_NAMES.get(asked.name, asked.name)))
        assert len(op.regions) == asked.regions
        for name, argument in asked.arguments.items():
            # Result types are checked below; what this version can't say was asked for as its default.
            if not name.endswith(("_type", "_types")) and argument != frontend_ops.NOT_IN_BOUNDS:
                check(op, name, argument, values)
        tokens = [isinstance(result.type, TokenType) for result in op.results]
        assert tokens == ["token" in f.name for f in op.result_fields][:len(tokens)] or "*" in op.RESULTS
        assert all(isinstance(result.type, (TokenType, TileType)) for result in op.results)
        for region in op.regions:
            assert [type(inner) for inner in region.block.ops] == [ops.Yield]
            assert tuple(region.block.last_op.operands) == region.block.args  # type: ignore[union-attr]
    assert write(module) == data
    assert module.is_structurally_equivalent(read(write(module, keep_tables=False)))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_table_has_the_frontends_ops_and_no_others(version: str) -> None:
    theirs = {OUR_NAMES.get(name, name) for name, function in frontend_ops.encoders().items()
              if frontend_ops.since(function) <= version}
    ours = {row.op.__name__ for row in all_rows() if str(row.since) <= version} - frontend_ops.NOT_IN_BODIES
    assert ours == theirs


def test_opcodes_and_names_are_unique() -> None:
    rows = all_rows()
    known = [*ops.OPS, *ops.DEVELOPMENT_OPS]
    assert len({row.opcode for row in rows}) == len({row.op.name for row in rows}) == len(rows) == len(known)


def test_symbols_are_read_by_name() -> None:
    data = frontend_ops.Writer("13.1", True).write()
    found = [op for op in read(data).walk() if isinstance(op, ops.GetGlobal)]
    assert [op.symbol for op in found] == ["GetGlobal.name"]
    assert isinstance(found[0].properties["name"], SymbolRefAttr)
