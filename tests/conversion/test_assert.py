"""A failed assertion says which elements failed, as the original does, and stops the grid."""
from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tileiras.bytecode import write
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.sim import Trap, simulate


def kernel(body: str) -> bytes:
    return write(parse_module(f"""
cuda_tile.module @m {{
  entry @k(%p: tile<ptr<i32>>) {{
    %x, %y, %z = get_tile_block_id : tile<i32>
    %limit, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
    {body}
    return
  }}
}}"""))


VECTOR = """%a = iota : tile<256xi32>
    %one = reshape %limit : tile<i32> -> tile<1xi32>
    %l = broadcast %one : tile<1xi32> -> tile<256xi32>
    %c = cmpi less_than %a, %l, signed : tile<256xi32> -> tile<256xi1>
    assert %c, "all below 100%" : tile<256xi1>"""
MATRIX = VECTOR.replace('assert %c, "all below 100%" : tile<256xi1>',
                        '%m = reshape %c : tile<256xi1> -> tile<16x16xi1>\n    assert %m, "rows" : tile<16x16xi1>')
SCALAR = """%c = cmpi less_than %x, %limit, signed : tile<i32> -> tile<i1>
    assert %c, "few blocks" : tile<i1>"""


def said(body: str, limit: int, grid: int, gpu: str, level: int) -> list[str]:
    """The lines that a grid says before it stops; none if it doesn't."""
    ptx = tileiras.compile(kernel(body), gpu, level, emit="ptx").ptx
    try:
        report = simulate(ptx, grid=(grid, 1, 1), args=[np.array([limit], np.int32)])
    except Trap as error:
        return sorted(error.output.splitlines())
    assert not report.output
    return []


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
@pytest.mark.parametrize("level", [0, 3])
def test_each_element_that_fails_is_said_once(gpu: str, level: int) -> None:
    assert said(VECTOR, 256, 1, gpu, level) == []
    assert said(VECTOR, 253, 1, gpu, level) == [
        f"(unknown):0: tile block: [0, 0, 0], position: [{i}]: all below 100%" for i in (253, 254, 255)]
    assert said(MATRIX, 254, 1, gpu, level) == [
        f"(unknown):0: tile block: [0, 0, 0], position: [15, {i}]: rows" for i in (14, 15)]


@pytest.mark.parametrize("level", [0, 3])
def test_a_scalar_has_no_position_and_is_said_by_one_thread(level: int) -> None:
    lines = said(SCALAR, 1, 2, "sm_90", level)
    assert lines == ["(unknown):0: tile block: [1, 0, 0], position: []: few blocks"]
