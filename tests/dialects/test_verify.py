"""Invalid programs are refused with the public dialect's words, at the line of the op."""
from __future__ import annotations

import pytest

from tests.dialects.invalid_programs import INVALID, INVALID_MODULES, program
from tileiras.bytecode import read, write
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.dialects.cuda_tile.verify import VERIFIERS, verify_module, verify_program
from tileiras.dialects.cuda_tile.verify_error import InvalidOp
from tileiras.errors import BytecodeError
from tileiras.tools.diagnostics import Complaint, check, complaints


def test_the_preamble_is_valid() -> None:
    verify_module(parse_module(program("")))


@pytest.mark.parametrize("body, message", INVALID, ids=range(len(INVALID)))
def test_invalid_programs_are_refused(body: str, message: str) -> None:
    text = program(body)
    with pytest.raises(InvalidOp) as caught:
        verify_module(parse_module(text, "f.mlir"))
    assert message in caught.value.message


def test_every_verifier_refuses_something() -> None:
    """Each op's own verifier refuses an op of these programs."""
    refused = set()
    for text in [program(f"\n{body}") for body, _ in INVALID] + [text for text, _ in INVALID_MODULES]:
        for op in parse_module(text).walk():
            try:
                VERIFIERS.get(op.name, bool)(op)
            except InvalidOp:
                refused.add(op.name)
    assert set(VERIFIERS) - refused == set()


def test_refusals_name_the_line() -> None:
    text = program("\n%z = exti %l signed : tile<i64> -> tile<i32>")
    line = text[:text.index("%z = exti")].count("\n") + 1
    assert complaints(text) == [Complaint(line, "'cuda_tile.exti' op extending to smaller or identical integer")]


def test_bytecode_is_refused_with_exit_code_3() -> None:
    module = read(write(parse_module(program("exti %l signed : tile<i64> -> tile<i32>"), locations=False)))
    with pytest.raises(BytecodeError, match="extending to smaller") as caught:
        verify_program(module)
    assert caught.value.exit_code == 3


def test_bytecode_errors_carry_the_source_location() -> None:
    scope = ('#f = #cuda_tile.di_file<"k.py" in "/src">\n#u = #cuda_tile.di_compile_unit<file = #f>\n'
             '#s = #cuda_tile.di_subprogram<file = #f, line = 1, name = "f", linkageName = "f", compileUnit = #u>\n'
             '#l = #cuda_tile.di_loc<loc("k.py":7:3) in #s>\n')
    body = "entry @f(%l: tile<i64>) {\n %0 = exti %l signed : tile<i64> -> tile<i32> loc(#l)\n return loc(#l) } loc(#l)"
    module = read(write(parse_module(f"{scope}cuda_tile.module @m {{ {body} }}", locations=False)))
    with pytest.raises(BytecodeError) as caught:
        verify_program(module)
    assert caught.value.render() == ('loc("k.py":7:3): error: \'cuda_tile.exti\' op extending to smaller or identical '
                                     "integer")


@pytest.mark.parametrize("text, message", [
    ("global @a <i32: 1> : tile<1xi32>\nglobal @a <i32: 1> : tile<1xi32>", "redefinition of symbol named 'a'"),
    ("global @a <i32: 1> : tile<i32>", "type must have rank 1"),
    ("entry @f(%a: tile<2xi32>) {}", "entry op must have scalar types (rank 0 !cuda_tile.tile)"),
    ("entry @f() -> tile<i32> {}", "entry op must not return values"),
    ("global @a <i32: 1> : tile<1xi32>\nentry @f() { %0 = get_global @a : tile<ptr<f32>> }",
     "pointee type of result type '!cuda_tile.ptr<f32>' does not match type 'i32' of the global @a"),
])
def test_invalid_modules_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidOp) as caught:
        verify_module(parse_module(text))
    assert message in caught.value.message


def test_xdsl_verification_runs_the_same_checks() -> None:
    module = parse_module(program("exti %l signed : tile<i64> -> tile<i32>"))
    bad = next(op for op in module.walk() if op.name == "cuda_tile.exti")
    with pytest.raises(InvalidOp):
        VERIFIERS[bad.name](bad)


def test_expected_errors_are_compared_by_line_and_text() -> None:
    text = ("cuda_tile.module @m {\n entry @f(%l: tile<i64>) {\n  // expected-error @below {{smaller or identical}}\n"
            "  exti %l signed : tile<i64> -> tile<i32>\n }\n}\n// -----\n// expected-error @+1 {{is unknown}}\nbogus\n")
    assert check(text) == []
    assert len(check(text.replace("smaller or", "larger or"))) == 2
    assert len(check(text.replace("@below", "@above"))) == 2
