"""The levels below cuda_tile refuse what breaks their rules, each op at least once, at the op's place."""
from __future__ import annotations

import pathlib
import re

import pytest

from tests.dialects.invalid_lower import Program, programs
from tileiras.dialects import arith, llvm, nv_tileaa, nv_tileas, nvvm
from tileiras.dialects.kinds import ATTRIBUTE_KINDS, KINDS
from tileiras.errors import BytecodeError
from tileiras.tools.lower_text import parse_lower
from tileiras.tools.tileiras_opt import main

PROGRAMS = programs()
OPS = {op.name: op for op in (*arith.ARITH_OPS, *arith.MATH_OPS, *arith.SCF_OPS, *nv_tileaa.OPS.values(),
                              *nv_tileas.OPS.values(), *llvm.OPS.values(), *nvvm.OPS.values())}


@pytest.mark.parametrize("program", PROGRAMS, ids=[f"{i}-{p.op}" for i, p in enumerate(PROGRAMS)])
def test_refused_at_its_place(program: Program) -> None:
    with pytest.raises(BytecodeError) as refused:
        parse_lower(program.text, "bad.mlir")
    assert program.message in refused.value.message
    assert refused.value.loc is not None and re.match(rf'"bad\.mlir":{program.line}:\d+$', refused.value.loc), refused.value.loc
    assert refused.value.message.startswith(f"'{program.op}' op ")


def test_every_op_is_refused_something() -> None:
    assert set(OPS) - {program.op for program in PROGRAMS} == set()


def test_every_entry_of_a_declaration_says_what_it_may_be() -> None:
    for op in OPS.values():
        for field in (*op.operand_fields, *op.result_fields):
            assert field.kind in KINDS, (op.name, field.name)
        for field in op.attr_fields:
            assert field.kind in ATTRIBUTE_KINDS, (op.name, field.name)
        for field in op.region_fields:
            assert field.kind in ("block", "blocks"), (op.name, field.name)


def test_same_and_same_shape_name_entries_of_the_declaration() -> None:
    for op in OPS.values():
        entries = {field.name for field in (*op.operand_fields, *op.result_fields)}
        assert set(op.SAME.split()) | set(op.SAME_SHAPE.split()) <= entries, op.name


def test_the_tool_says_where_and_exits_with_3(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = next(p for p in PROGRAMS if p.op == "nv_tileaa.view")
    source = tmp_path / "bad.mlir"
    source.write_text(program.text)
    assert main([str(source), "-o", str(tmp_path / "out.mlir")]) == BytecodeError.exit_code
    assert capsys.readouterr().err == (f'loc("{source}":{program.line}:1): error: \'nv_tileaa.view\' op must keep the number of '
                                       "elements, but goes from 8 to 64\n")
    assert not (tmp_path / "out.mlir").exists()
