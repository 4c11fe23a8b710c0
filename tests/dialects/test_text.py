"""Text of cuda_tile: what is printed parses back to the same module and the same bytecode."""
from __future__ import annotations

import pathlib
import struct
from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import BFloat16Type, Float16Type, f32, f64, i32

from tileiras.bytecode import read, write
from tileiras.bytecode.version import CURRENT_VERSION, SUPPORTED_VERSIONS
from tileiras.dialects.cuda_tile.asm_dense import parse_constant
from tileiras.dialects.cuda_tile.asm_numbers import bits_of_text
from tileiras.dialects.cuda_tile.asm_parse import TextError, TextReader, parse_module
from tileiras.dialects.cuda_tile.asm_print import constant_text, print_contents, print_module
from tileiras.dialects.cuda_tile.asm_values import float_text, quoted
from tileiras.dialects.cuda_tile.dense import element_patterns
from tileiras.dialects.cuda_tile.ops import OPS
from tileiras.dialects.cuda_tile.verify import verify_module

EVERY_OP = pathlib.Path(__file__).with_name("every_op.mlir").read_text()
KERNELS = ("vector_add_float32", "softmax_1x1024_f32_ragged", "matmul_float16_float32", "control_while", "misc_print",
           "scan_cumsum_float32_reverse", "atomic_2d_broadcast", "reduce_minmax_float64")


def reparsed(text: str, locations: bool = False) -> str:
    return print_module(parse_module(text, locations=False), locations)


def test_every_op_prints_as_it_was_written() -> None:
    assert reparsed(EVERY_OP) == EVERY_OP


def test_the_text_of_every_op_has_every_op() -> None:
    found = {op.name for op in parse_module(EVERY_OP).walk()}
    assert sorted(op.name for op in OPS if op.name not in found) == []


def test_every_op_is_valid_and_survives_bytecode() -> None:
    module = parse_module(EVERY_OP, locations=False)
    verify_module(module)
    assert print_contents(read(write(module, CURRENT_VERSION))) == print_contents(module)


@pytest.mark.parametrize("version", (SUPPORTED_VERSIONS[0], CURRENT_VERSION), ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_round_trip_with_locations(name: str, version: object, kernel_bytecode: Callable[..., bytes]) -> None:
    module = read(kernel_bytecode(name, str(version)))
    text = print_module(module, locations=True)
    assert "loc(callsite(" in text or "di_loc<" in text
    again = parse_module(text, locations=False)
    assert print_module(again, locations=True) == text
    assert print_module(read(write(again, module.bytecode_info.version)), locations=True) == text


@pytest.mark.parametrize("name", KERNELS[:3])
def test_without_locations_the_program_stays(name: str, kernel_bytecode: Callable[..., bytes]) -> None:
    text = print_contents(read(kernel_bytecode(name)))
    assert "loc(" not in text
    assert print_contents(parse_module(text)) == text


@pytest.mark.parametrize("value, text", [
    (1.0, "1.000000e+00"), (-0.0, "-0.000000e+00"), (0.1, "1.000000e-01"), (3.14159274, "3.14159274"),
    (1e30, "1.000000e+30"), (9.99999997e-7, "9.99999997E-7"), (1 / 3, "0.333333343"), (65504.0, "6.550400e+04"),
    (16777216.0, "0x4B800000"), (float("inf"), "0x7F800000"), (float("-inf"), "0xFF800000"),
    (123456.7, "123456.703"), (1e-45, "1.401300e-45"),
])
def test_f32_as_text(value: float, text: str) -> None:
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    assert float_text(f32, bits) == text


def test_decimal_text_of_floats_reads_back() -> None:
    generator = np.random.default_rng(7)
    for type_, unsigned, floats in ((f32, np.uint32, np.float32), (Float16Type(), np.uint16, np.float16),
                                    (f64, np.uint64, np.float64)):
        patterns = generator.integers(0, np.iinfo(unsigned).max, 500, dtype=unsigned)
        for bits in map(int, patterns):
            text = float_text(type_, bits)
            if text.startswith("0x"):
                assert int(text, 16) == bits
            else:
                assert bits_of_text(type_, text) == bits
                assert np.array([text]).astype(np.float64).astype(floats).view(unsigned)[0] == bits


def test_decimal_text_rounds_to_nearest_even() -> None:
    assert bits_of_text(BFloat16Type(), "1.00390625") == 0x3F80  # halfway to the next: the even one
    assert bits_of_text(BFloat16Type(), "1.01171875") == 0x3F82
    assert bits_of_text(f32, "1e-46") == 0
    assert bits_of_text(f32, "1e39") == 0x7F800000


@pytest.mark.parametrize("text", [
    "<i32: 7> : tile<2x2xi32>", "<i1: [true, false, true]> : tile<3xi1>", "<i8: [[-1, 2]]> : tile<1x2xi8>",
    "<f4E2M1FN: [1.500000e+00, -6.000000e+00]> : tile<2xf4E2M1FN>", "<f8E5M2: 0x7C> : tile<f8E5M2>",
    "<tf32: 1.500000e+00> : tile<4xtf32>", "<bf16: 0xFF80> : tile<bf16>", "<i64: -9223372036854775808> : tile<i64>",
])
def test_constants_round_trip(text: str) -> None:
    padded = text.replace("tile<3xi1>", "tile<4xi1>").replace("true]", "true, false]")
    assert constant_text(parse_constant(TextReader(padded, "-", False))) == padded


def test_large_constants_are_hexadecimal() -> None:
    elements = ", ".join(str(i) for i in range(128))
    text = constant_text(parse_constant(TextReader(f"<i32: [{elements}]> : tile<128xi32>", "-", False)))
    assert text.startswith('<i32: "0x0000000001000000')
    assert constant_text(parse_constant(TextReader(text, "-", False))) == text


def test_strings_are_escaped() -> None:
    assert quoted('a"b\\\n\té') == r'"a\22b\\\0A\09\C3\A9"'


def test_names_say_what_values_are() -> None:
    text = reparsed("""cuda_tile.module @m { entry @f(%p: tile<ptr<f32>>) {
      %a = constant <i32: 4> : tile<i32>
      %b = constant <i32: 4> : tile<i32>
      %c = assume div_by<4>, %b : tile<i32>
      %d = addi %a, %c : tile<i32>
      %e = assume bounded<0, ?>, %d : tile<i32>
    } }""")
    names = [line.split("=")[0].strip() for line in text.splitlines() if " = " in line]
    assert names == ["%cst_4_i32", "%cst_4_i32_0", "%assume_cst_4_i32", "%0", "%assume"]


@pytest.mark.parametrize("text, message, line", [
    ("cuda_tile.module @m {\n  entry @f() {\n    %0 = addi %1, %1 : tile<i32>\n  }\n}",
     "use of undeclared SSA value name '%1'", 3),
    ("cuda_tile.module @m {\n  frobnicate\n}", "custom op 'frobnicate' is unknown", 2),
    ("cuda_tile.module @m {\n  entry @f() {", "expected '}'", 2),
    ("cuda_tile.module @m {\n  entry @f(%a: tile<3xf32>) {}\n}", "all dimensions must be powers of two, got 3", 2),
    ("cuda_tile.module @m {\n  entry @f(%a: tile<?xf32>) {}\n}", "expected static shape", 2),
    ("cuda_tile.module @m {\n  entry @f() { return loc(#nowhere) }\n}",
     "operation location alias was never defined: '#nowhere'", 2),
])
def test_errors_say_where(text: str, message: str, line: int) -> None:
    with pytest.raises(TextError) as caught:
        parse_module(text, "file.mlir")
    assert caught.value.message == message
    assert caught.value.line == line
    assert caught.value.loc is not None and caught.value.loc.startswith(f'"file.mlir":{line}:')


def test_deep_nesting_is_refused() -> None:
    body = "if %c {\n" * 100
    with pytest.raises(TextError, match="nest"):
        parse_module(f"cuda_tile.module @m {{ entry @f(%c: tile<i1>) {{ {body}")
    with pytest.raises(TextError, match="nested too deeply"):
        parse_module("cuda_tile.module @m attributes {producer = " + "[" * 1000)


def test_integer_type_of_constants() -> None:
    constant = parse_constant(TextReader("<i32: -1> : tile<i32>", "-", False))
    assert constant.type.element_type == i32
    assert element_patterns(constant) == (0xFFFFFFFF,)
