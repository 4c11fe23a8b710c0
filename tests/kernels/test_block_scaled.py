"""Block-scaled products by the instructions of sm_120 and sm_121: the right ones, taken by ptxas, and the right values."""
from __future__ import annotations

import pytest

from tests.kernels import runner

# case -> the instruction, None where the product is widened
CASES = {
    "mxfp8_e5m2_weight_ragged": "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X",
    "mxfp8_e4m3_batched": "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X",
    "mxfp4_128x128x128": "m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X",
    "mxfp4_block16_64x64x64": None,
    "nvfp4_ragged_rows": None,
}


@pytest.mark.parametrize("opt", [0, 3])
@pytest.mark.parametrize("name", CASES)
def test_values_are_the_references(name: str, opt: int) -> None:
    compiled = runner.compile_case(name, "sm_120", opt)
    assert compiled.ptx.count("block_scale") == (compiled.ptx.count("mma.sync") if CASES[name] else 0)
    assert CASES[name] is None or f"mma.sync.aligned.{CASES[name]}" in compiled.ptx
    assert runner.simulate_case(name, compiled).detail == ""


@pytest.mark.parametrize("name", [n for n, instruction in CASES.items() if instruction])
def test_assembled_for_sm_121(name: str) -> None:
    compiled = runner.compile_case(name, "sm_121")
    assert compiled.cubin and "block_scale" in compiled.ptx
