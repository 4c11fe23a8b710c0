"""Kernels of the suite in agents: the load agent of one warp by the copy engine, the one of as many warps as compute by way of
registers, persistent loops around, two warpgroups. Each in five orders, against NumPy; and the same with agents turned off."""
from __future__ import annotations

import re

import pytest

from tests.kernels import runner
from tests.programs import programs

BY_ENGINE = ("matmul_float16_float16_twin", "gemm_persistent_bf16_ragged_twin", "attention_d64_f16_twin",
             "gemm_bf16_f32_256x128x64_twin")
BY_REGISTERS = ("gemm_e4m3_f32_128x128x64_twin",)
BY_BOTH = ("gemm_u8_i8_i32_twin", "gemm_tf32_exact_inputs_twin")
"""A warpgroup that computes brings what goes through registers itself, the load agent only what the copy engine does."""
RUNS = [*((name, sm) for name in BY_ENGINE for sm in ("sm_90", "sm_120")), *((name, "sm_90") for name in (*BY_REGISTERS, *BY_BOTH))]


@pytest.mark.parametrize("name, sm", RUNS)
def test_agents_compute_right(name: str, sm: str) -> None:
    made = runner.compile_case(name, sm, 3, verify_each=True)
    warps = [made.entries[0].threads // 32]
    assert "mbarrier.init" in made.ptx and "shfl.sync.idx" in made.ptx
    assert warps[0] % 4 == (0 if name in BY_REGISTERS else 1)
    assert not made.warnings
    verdict = runner.simulate_case(name, made)
    assert verdict.ok, verdict.detail


@pytest.mark.parametrize("name", [BY_ENGINE[0], BY_REGISTERS[0]])
def test_without_agents(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEIRAS_WITHOUT", "agents")
    made = runner.compile_case(name, "sm_90", 3, verify_each=True)
    assert made.entries[0].threads // 32 in (4, 8)
    verdict = runner.simulate_case(name, made)
    assert verdict.ok, verdict.detail


@pytest.mark.parametrize("sm", ["sm_90", "sm_120"])
def test_two_blocks_that_are_asked_for_have_the_registers_of_each_part_of_the_sm(sm: str) -> None:
    """One part of the SM holds three of two times five warps, 168 registers each. Where a loop's products leave too few of these,
    the load agent is padded to a warpgroup and lends its own."""
    _, made = programs.compiled(programs.load_all()["attention_of_two_blocks_0"].launch(), sm, 3)
    assert made.entries[0].threads == 160 and ".maxnreg 168" in made.ptx
    _, made = programs.compiled(programs.load_all()["attention_of_two_blocks_2"].launch(), sm, 3)
    assert made.entries[0].threads == 256 and ".maxnreg 128" in made.ptx and made.entries[0].spill_stores == 0
    for change, registers in (("inc", 216), ("dec", 40)):
        assert re.search(rf"setmaxnreg.{change}.sync.aligned.u32\s+{registers};", made.ptx)
    programs.run("attention_of_two_blocks_2", sm, orders=(1, 2))


def test_rings_beyond_what_14_bits_of_a_descriptor_reach() -> None:
    """An SM of sm_107 has 328 KiB of shared memory; its descriptors' addresses have a bit more."""
    name = "gemm_persistent_bf16_ragged"
    made = runner.compile_case(name, "sm_107", 3, verify_each=True)
    assert made.entries[0].shared_bytes > 1 << 18 and "tcgen05.mma" in made.ptx
    verdict = runner.simulate_case(name, made)
    assert verdict.ok, verdict.detail
    assert re.search(r"bfe\.u32 .*, 4, 15;", made.ptx)      # of a ring's address, in 16 bytes
    older = runner.compile_case(name, "sm_100", 3)
    assert re.search(r"bfe\.u32 .*, 4, 14;", older.ptx) and not re.search(r"bfe\.u32 .*, 4, 15;", older.ptx)
