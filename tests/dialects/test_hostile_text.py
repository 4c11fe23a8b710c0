"""Whatever text comes in, the parser gives ops or a TextError, soon."""
from __future__ import annotations

import pathlib
import random
import re
import time

import pytest

from tileiras.dialects.cuda_tile.asm_parse import TextError, parse_module
from tileiras.dialects.cuda_tile.asm_print import print_module
from tileiras.dialects.cuda_tile.verify import verify_program
from tileiras.errors import BytecodeError

EVERY_OP = pathlib.Path(__file__).with_name("every_op.mlir").read_text()
TOKEN = re.compile(r'%[\w$.-]+|[A-Za-z_][\w$.]*|-?\d+\.?\d*(?:e[+-]\d+)?|"[^"]*"|->|\S|\s+')
MUTATIONS = 150
HUGE = "9" * 5000
PREAMBLE = "%v = constant <i32: 1> : tile<4x8xi32>\n"
LARGE = [
    "%0 = constant <i32: {}> : tile<i32>", "%0 = constant <i32: 1> : tile<{}xi32>",
    "%0 = cat %v, %v dim = {} : tile<4x8xi32>, tile<4x8xi32> -> tile<8x8xi32>",
    "%0 = permute %v [{}, 0] : tile<4x8xi32> -> tile<8x4xi32>", "%0 = assume div_by<{}>, %v : tile<4x8xi32>",
    "%0 = assume same_elements<[{}, 1]>, %v : tile<4x8xi32>", "%0 = assume bounded<{}, ?>, %v : tile<4x8xi32>",
    "%0 = alloca num_elem = {0}, alignment = {0} : tile<ptr<f64>>", "%0:{} = make_token : token",
    "%0 = addi %v#{}, %v : tile<4x8xi32>", "%0 = make_token {{a = array<i8: {}>}} : token",
    '%0 = make_token : token loc("f":{}:1)', "%0 = constant <f32: 1.0e{}> : tile<f32>",
    "%0 = constant <f32: {}.0> : tile<f32>", "%0 = constant <f8E5M2: 1.0e-{}> : tile<f8E5M2>",
]
GENERIC = [
    '"cuda_tile.for"() : () -> ()', '"cuda_tile.if"(%v) : (tile<4x8xi32>) -> ()', '"cuda_tile.entry"() : () -> ()',
    '"cuda_tile.reduce"(%v) ({}) : (tile<4x8xi32>) -> tile<4xi32>', '"cuda_tile.make_token"() ({}) : () -> token',
    '"cuda_tile.join_tokens"() <{operandSegmentSizes = 5}> : () -> ()',
    '"cuda_tile.print_tko"() <{str = 5, operandSegmentSizes = array<i32: 0, 0>}> : () -> token',
    '"cuda_tile.permute"(%v) <{permutation = 5}> : (tile<4x8xi32>) -> tile<8x4xi32>',
    '"cuda_tile.addi"(%v) <{overflow = #cuda_tile.overflow<none>}> : (tile<4x8xi32>) -> tile<4x8xi32>',
    '"cuda_tile.constant"() <{value = 5}> : () -> tile<i32>', '"cuda_tile.get_global"() <{name = 5}> : () -> token',
    '"cuda_tile.load_ptr_tko"(%v) <{operandSegmentSizes = array<i32: 5>}> : (tile<4x8xi32>) -> ()',
]


def read_or_refuse(text: str) -> None:
    start = time.process_time()
    try:
        module = parse_module(text)
        verify_program(module)
    except BytecodeError as error:
        assert str(error)
    else:
        assert print_module(module, locations=True)
    assert time.process_time() - start < 2


def mutated(seed: int) -> str:
    """The text with one to three damaged lines."""
    generator = random.Random(seed)
    lines = EVERY_OP.split("\n")
    words = TOKEN.findall(EVERY_OP)
    for _ in range(generator.randrange(1, 4)):
        index = generator.randrange(len(lines))
        tokens = TOKEN.findall(lines[index]) or [""]
        place = generator.randrange(len(tokens))
        kind = generator.randrange(4)
        if kind == 0:
            tokens[place] = generator.choice(words)
        elif kind == 1:
            del tokens[place]
        elif kind == 2:
            tokens.insert(place, generator.choice(words))
        else:
            tokens[place] = chr(generator.randrange(1, 0x300)) * generator.randrange(1, 4)
        lines[index] = "".join(tokens)
    return "\n".join(lines)


def test_damaged_text() -> None:
    for seed in range(MUTATIONS):
        read_or_refuse(mutated(seed))


@pytest.mark.parametrize("number", (HUGE, f"-{HUGE}", str(1 << 40), str(1 << 70), "-1"), ids=range(5))
def test_large_numbers(number: str) -> None:
    for line in LARGE:
        read_or_refuse(f"cuda_tile.module @m {{ entry @f() {{ {PREAMBLE} {line.format(number)}\n }} }}")


@pytest.mark.parametrize("line", GENERIC)
def test_malformed_generic_ops(line: str) -> None:
    text = f"cuda_tile.module @m {{ entry @f() {{ {PREAMBLE} {line}\n }} }}"
    with pytest.raises((TextError, BytecodeError)):
        verify_program(parse_module(text))
