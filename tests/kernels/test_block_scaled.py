"""Block-scaled products by the instructions of sm_120 and sm_121, and of sm_100 and its kin: the right ones, taken by ptxas, and
the right values."""
from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import runner
from tileiras import interp
from tileiras.compiler import lower
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.sim import simulate

# case -> the instruction, None where the product is widened
CASES = {
    "mxfp8_e5m2_weight_ragged": "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X",
    "mxfp8_e4m3_batched": "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X",
    "mxfp4_128x128x128": "m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X",
    "mxfp4_block16_64x64x64": None,
    "nvfp4_ragged_rows": "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X",
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


TENSOR_MEMORY = {**dict.fromkeys(("mxfp8_e5m2_weight_ragged", "mxfp8_e4m3_batched", "mxfp8_e4m3_interleaved_scales"), "mxf8f6f4"),
                 "mxfp4_128x128x128": "mxf4", **dict.fromkeys(("mxfp4_block16_64x64x64", "nvfp4_ragged_rows"), "mxf4nvf4")}


@pytest.mark.parametrize("name", TENSOR_MEMORY)
def test_each_product_by_its_kind_of_tcgen05(name: str) -> None:
    compiled = runner.compile_case(name, "sm_100")
    assert f"tcgen05.mma.cta_group::1.kind::{TENSOR_MEMORY[name]}.block_scale" in compiled.ptx and "mma.sync" not in compiled.ptx
    assert runner.simulate_case(name, compiled).detail == ""
    assert runner.compile_case(name, "sm_103").cubin


@pytest.mark.parametrize("opt", [0, 3])
@pytest.mark.parametrize("name", ["nvfp4_128x64x128", "nvfp4_ragged_rows"])
def test_scale_factors_may_be_negative(name: str, opt: int) -> None:
    """The instruction's scale factors have no sign: as the interpreter has it, blocks flip where theirs is negative."""
    case = runner.case_of(name)
    ours, theirs = runner.launch_of(name), runner.launch_of(name)
    rng = np.random.default_rng(7)
    for i in (1, 3):
        sign = rng.integers(0, 2, ours.values[i].shape, np.uint8) << 7
        for launch in (ours, theirs):
            launch.values[i].view(np.uint8)[...] ^= sign
    compiled = runner.compile_case(name, "sm_120", opt)
    report = simulate(compiled.ptx, kernel=case.name, grid=case.grid, args=ours.flat)
    assert not report.findings
    interp.run(runner.export_case(name), case.name, case.grid, theirs.flat)
    plain = runner.launch_of(name).expected[4].astype(np.float64)
    got, want = (launch.values[4].astype(np.float64) for launch in (ours, theirs))
    assert np.allclose(got, want, rtol=1e-4, atol=1e-3)
    assert not np.allclose(want, plain, rtol=1e-2, atol=1e-1)


def test_the_remark_names_the_instruction() -> None:
    options = CompileOptions(target=find_target("sm_120"), remarks=[])
    lower(runner.export_case("mxfp8_e4m3_batched"), options)
    said = [r for r in options.remarks or () if r.name.endswith("TensorCoreMMA")]
    assert len(said) == 1
    assert dict(said[0].notes) == {
        "Instruction": "Tensor-core SM120", "Shape": "[16, 8, 32]",
        "Atom": "mma.block.scale.m16n8k32.row.col.mxf8f6f4.scale.1x.f32.e4m3.e4m3.f32.ue8m0"}
