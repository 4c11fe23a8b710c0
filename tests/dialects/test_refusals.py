"""Every rule that a file can break is a diagnostic of the command line: at the op's source line, exit code 3, no output.

The programs are written as bytecode without being verified, each op with a location of its own.
"""
from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence

import pytest
from xdsl.dialects.builtin import UnknownLoc
from xdsl.ir import Operation

from tests.dialects.invalid_programs import INVALID, INVALID_MODULES, program
from tileiras.bytecode import write
from tileiras.dialects.cuda_tile import debug
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.dialects.cuda_tile.debug import source_position
from tileiras.dialects.cuda_tile.ops import Entry, Global, Module
from tileiras.driver.main import main
from tileiras.errors import BytecodeError

FILE = debug.DIFileAttr("kernel.py", "/src")
UNIT = debug.DICompileUnitAttr(FILE)

OTHER_WORDS = {"expects parent op to be one of 'cuda_tile.if, cuda_tile.reduce, cuda_tile.scan'":
               "'cuda_tile.yield' op must be the last operation in its block"}
"""What the reader sees before the verifier can."""


def locate(module: Module) -> None:
    """Give every op of the entries the line of the text where it stands, as a frontend's location."""
    for op in module.body.block.ops:
        if isinstance(op, Global) or not isinstance(op, Entry):
            op.location = UnknownLoc()
            continue
        name = op.sym_name.data
        scope = debug.DISubprogramAttr(FILE, 1, name, name, UNIT)
        for inner in op.walk():
            position = source_position(inner.location)
            assert position is not None
            inner.location = debug.DILocAttr("kernel.py", position[1], position[2], scope)  # type: ignore[assignment]


def bytecode_of(module: Module) -> bytes:
    locate(module)
    try:
        return write(module)
    except BytecodeError as error:
        pytest.skip(f"no file can hold it: {error.message}")


def compile_bytes(data: bytes, folder: pathlib.Path, options: Sequence[str] = ("--gpu-name=sm_90",)) -> int:
    source = folder / "k.tileirbc"
    source.write_bytes(data)
    return main([str(source), "-o", str(folder / "k.cubin"), *options])


CASES = [(program(f"\n{body}"), message) for body, message in INVALID] + list(INVALID_MODULES)


@pytest.mark.parametrize(("text", "message"), CASES, ids=range(len(CASES)))
def test_refused_at_its_line(text: str, message: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = parse_module(text, "kernel.mlir")
    places = {line_of(op) for op in module.walk()}
    data = bytecode_of(module)
    assert compile_bytes(data, tmp_path) == 3
    said = capsys.readouterr().err
    assert message in said or OTHER_WORDS.get(message, message) in said
    found = re.match(r'loc\("kernel\.py":(\d+):(\d+)\): error: ', said)
    assert found is not None or "error at offset" in said or module_wide(said), said
    if found is not None:
        assert int(found[1]) in places
    assert not (tmp_path / "k.cubin").exists()
    assert "Traceback" not in said


SCOPES = """
#file = #cuda_tile.di_file<"kernel.py" in "/src">
#unit = #cuda_tile.di_compile_unit<file = #file>
#f = #cuda_tile.di_subprogram<file = #file, line = 1, name = "f", linkageName = "f", compileUnit = #unit>
#g = #cuda_tile.di_subprogram<file = #file, line = 1, name = "g", linkageName = "g", compileUnit = #unit>
#block = #cuda_tile.di_lexical_block<scope = #f, file = #file, line = 3>
#in_f = #cuda_tile.di_loc<loc("kernel.py":7:3) in #f>
#in_g = #cuda_tile.di_loc<loc("kernel.py":8:3) in #g>
#in_block = #cuda_tile.di_loc<loc("kernel.py":9:3) in #block>
"""


@pytest.mark.parametrize(("entry", "op", "place", "message"), [
    ("#in_f", "#in_g", "8:3", "Operation debug info scope does not match function debug info scope"),
    ("unknown", "#in_f", "7:3", "Operation has debug info scope, but function debug info scope is undefined."),
    ("#in_g", "#in_g", "8:3", 'Function name "f" does not match subprogram scope linkage name "g".'),
    ("#in_block", "#in_f", "9:3", "Function location must have cuda_tile.di_subprogram debug info scope."),
    ("callsite(#in_f at #in_f)", "#in_f", "7:3", "Function location must not be a CallSiteLoc."),
])
def test_scopes_that_do_not_match(entry: str, op: str, place: str, message: str, tmp_path: pathlib.Path,
                                  capsys: pytest.CaptureFixture[str]) -> None:
    text = f"{SCOPES}cuda_tile.module @m {{ entry @f() {{\nreturn loc({op})\n}} loc({entry}) }} loc(unknown)"
    module = parse_module(text, locations=False)
    assert compile_bytes(write(module), tmp_path) == 3
    said = capsys.readouterr().err
    assert said.startswith(f'loc("kernel.py":{place}): error: ') and message in said
    assert not (tmp_path / "k.cubin").exists()


def module_wide(said: str) -> bool:
    """Errors about globals, which have no location."""
    return "redefinition of symbol" in said or "type must have rank 1" in said


def line_of(op: Operation) -> int:
    position = source_position(op.location)
    return position[1] if position else 0
