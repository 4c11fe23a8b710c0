"""Branches on one condition that become one: right at every optimization level, taken and not taken, also where the second reads
what the first has stored."""
from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tests.transforms.test_stage_streams import HEAD, LENGTH, PADDED, TILE, VIEW, store, tiles
from tileiras.bytecode import write
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.sim import simulate


def read(name: str, view: str, at: str, token: str) -> str:
    return f"%{name}, %t{name} = load_view_tko weak {view}[{at}] token = {token} : {VIEW}, tile<i32> -> tile<{TILE}xf32>, token\n"


BRANCHES = f"""{HEAD.replace(PADDED, VIEW)}
    %two = constant <i32: 2> : tile<i32>
    %c = cmpi less_than %from, %to, signed : tile<i32> -> tile<i1>
    %first = if %c -> (token) {{
      {read("x", "%vo", "%zero", "%t")}
      %xx = addf %x, %x : tile<{TILE}xf32>
      {store("%xx", "%vo", "%zero", "s", "%tx")}
      yield %s : token
    }} else {{
      yield %t : token
    }}
    %at = addi %by, %two : tile<i32>
    %second = if %c -> (token) {{
      {read("y", "%vo", "%zero", "%first")}{read("z", "%vp", "%at", "%t")}
      %yz = mulf %y, %z : tile<{TILE}xf32>
      %both = join_tokens %ty, %tz : token
      {store("%yz", "%vo", "%at", "u", "%both")}
      yield %u : token
    }} else {{
      {read("z", "%vp", "%zero", "%t")}{store("%z", "%vo", "%at", "u", "%first")}
      yield %u : token
    }}
    {read("w", "%vo", "%at", "%second")}{store("%w", "%vo", "%from", "e", "%second")}
    return
  }}
}}
"""


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_the_second_reads_what_the_first_stored(gpu: str, level: int, taken: bool) -> None:
    ptx = tileiras.compile(write(parse_module(BRANCHES)), gpu_name=gpu, opt_level=level).ptx
    x, y, out = np.random.default_rng(7).integers(-8, 8, (3, LENGTH)).astype(np.float32)
    expected = tiles(out.copy())
    if taken:
        expected[0] *= 2
        expected[3] = expected[0] * tiles(x)[3]
    else:
        expected[3] = tiles(x)[0]
    expected[5] = expected[3]
    report = simulate(ptx, args=[x, y, out, np.int32(5), np.int32(6 if taken else 5), np.int32(1)])
    assert not report.findings and out.tolist() == expected.reshape(-1)[:LENGTH].tolist()
