"""Any legal schedule computes right: depths of rings, orders and agents drawn by seed (`enable-random-delay`), each run in the
simulator against the kernel's reference, in several orders of asynchronous operations.

A draw counts only if the code has a ring of two or more stages, or agents; what was refused is listed.
`python -m tests.schedule.test_random_schedules [blackwell] [COUNT [SEED]]` draws more (`blackwell`: tensor memory and clusters).
"""
from __future__ import annotations

import os
import random
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from tests.kernels import runner
from tests.kernels.cluster_cases import any_parts, compile_on
from tileiras.analysis.pipes import RIGHT, check_pipes
from tileiras.driver.options import WITHOUT
from tileiras.schedule.options import ScheduleOptions
from tileiras.transforms import generate_schedule, order_memory, overlap_iterations

KERNELS = ("gemm_f16_f16acc_64x64x32", "gemm_gated_pair_f16", "gemm_f16_f32_few_rows", "misc_hint_opt_level_1",
           "gemm_f32_64x64x32", "attention_d64_f16", "attention_d64_f16_twin", "gemm_f16_f32_16x16x16", "matmul_float16_float32")
GPUS = ("sm_80", "sm_89", "sm_90", "sm_120")
IN_TENSOR_MEMORY = ("gemm_persistent_bf16_ragged", "gemm_persistent_bf16_ragged_twin", "attention_d64_f16_twin",
                    "gemm_a_column_major_view", "gemm_gated_pair_f16_twin", "scaled_gemm_fp8_128_blocks",
                    "gemm_bf16_f32_256x128x64_twin")
"""Kernels for sm_100: two accumulators in turn, loads by threads and by the copy engine, two products a loop, sums in pieces."""
BY_CLUSTERS = (("gemm_bf16_f32_256x128x64_twin", "sm_100", 2), ("gemm_bf16_f32_256x128x64_twin", "sm_90", 2),
               ("matmul_float16_float32_twin", "sm_100", 4), ("matmul_float16_float32_twin", "sm_90", 4))
"""Kernel, SM, CTAs: a pair multiplies together, and CTAs load for each other."""
SWITCHES = ("", "", "tma", "wgmma", "agents")
"""What is turned off: mostly nothing."""
ORDERS = 3
FEW, SOME = 3, 40


@dataclass(frozen=True)
class Draw:
    kernel: str
    gpu: str
    without: str
    seed: int
    ctas: int = 1

    def __str__(self) -> str:
        ctas = f" by {self.ctas} CTAs" if self.ctas > 1 else ""
        return f"{self.kernel} {self.gpu}{ctas} without '{self.without}' seed {self.seed}"


@dataclass(frozen=True)
class Outcome:
    """`rings`: stages of the pipes. `agents`: whether there are several. `trouble`: what went wrong, ""."""

    rings: tuple[int, ...]
    agents: bool
    trouble: str

    @property
    def counts(self) -> bool:
        return self.agents or any(n > 1 for n in self.rings)


def draws(count: int, seed: int) -> list[Draw]:
    dice = random.Random(seed)
    return [Draw(dice.choice(KERNELS), dice.choice(GPUS), dice.choice(SWITCHES), dice.randrange(10**6)) for _ in range(count)]


def blackwell_draws(count: int, seed: int) -> list[Draw]:
    """Of kernels whose sums lie in tensor memory, and of ones that clusters share: in turn, so that few draws meet all."""
    dice = random.Random(seed)
    rows = [*((kernel, "sm_100", 1) for kernel in IN_TENSOR_MEMORY), *BY_CLUSTERS]
    start = dice.randrange(len(rows))
    turns = [rows[(start + 4 * n) % len(rows)] for n in range(count)]       # four on: of both kinds soon
    return [Draw(kernel, gpu, "", dice.randrange(10**6), ctas) for kernel, gpu, ctas in turns]


def carried_out(draw: Draw) -> Outcome:
    """A kernel compiled with that schedule, checked and run."""
    rings: list[int] = []
    agents, trouble = False, ""
    scheduled, ordered, pays = generate_schedule.run, order_memory.run, overlap_iterations.Expansion.pays

    def by_chance(module: Any, context: Any) -> None:
        context.schedule = ScheduleOptions(seed=draw.seed)
        scheduled(module, context)

    def looked_at(module: Any, context: Any = None) -> None:
        nonlocal agents, trouble
        ordered(module, context)
        for func in module.body.block.ops:
            rings.extend(op.results[0].type.stages.data for op in func.walk() if op.name == "nv_tileas.create_pipeline")
            agents = agents or any(op.name == "nv_tileas.agent_switch" for op in func.walk())
            verdict = check_pipes(func)
            if verdict.kind != RIGHT:
                trouble = f"{verdict.kind}: {verdict.message}"
    before = os.environ.get(WITHOUT)
    os.environ[WITHOUT] = draw.without
    generate_schedule.run, order_memory.run = by_chance, looked_at
    overlap_iterations.Expansion.pays = lambda self, target, threads: True     # whatever the schedule says is carried out
    try:
        with any_parts():
            compiled = compile_on(draw.kernel, draw.ctas, draw.gpu) if draw.ctas > 1 else \
                runner.compile_case(draw.kernel, draw.gpu)
    finally:
        generate_schedule.run, order_memory.run, overlap_iterations.Expansion.pays = scheduled, ordered, pays
        if before is None:
            del os.environ[WITHOUT]
        else:
            os.environ[WITHOUT] = before
    if not trouble:
        try:
            verdict = runner.simulate_case(draw.kernel, compiled, orders=range(ORDERS))
            trouble = "" if verdict.ok else f"wrong values: {verdict.detail}"
        except Exception as error:      # a finding, or a kernel that doesn't end
            trouble = f"{type(error).__name__}: {error}"
    return Outcome(tuple(rings), agents, trouble)


def campaign(drawn: list[Draw]) -> tuple[Counter[str], list[str], list[str]]:
    """How many draws had rings or agents, those that had neither, those that went wrong."""
    tally: Counter[str] = Counter()
    idle, wrong = [], []
    for draw in drawn:
        found = carried_out(draw)
        if found.trouble:
            wrong.append(f"{draw} {found.rings}: {found.trouble}")
        elif not found.counts:
            idle.append(str(draw))
        tally["counted" if found.counts else "idle"] += 1
        for n in found.rings:
            tally[f"{n} stages"] += 1
        tally["agents"] += found.agents
    return tally, idle, wrong


def test_a_few_random_schedules_with_tensor_memory_and_clusters_compute_right() -> None:
    tally, _, wrong = campaign(blackwell_draws(FEW, seed=5))
    assert not wrong
    assert tally["counted"] == FEW


def test_a_few_random_schedules_compute_right() -> None:
    tally, _, wrong = campaign(draws(FEW, seed=3))
    assert not wrong
    assert tally["counted"] >= FEW // 2


@pytest.mark.slow
def test_random_schedules_compute_right() -> None:
    tally, _, wrong = campaign(draws(SOME, seed=5))
    assert not wrong
    assert tally["counted"] >= SOME // 2


@pytest.mark.slow
def test_random_schedules_with_tensor_memory_and_clusters_compute_right() -> None:
    tally, _, wrong = campaign(blackwell_draws(SOME, seed=7))
    assert not wrong
    assert tally["counted"] >= SOME * 3 // 4


if __name__ == "__main__":
    asked = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    draw_them = blackwell_draws if "blackwell" in sys.argv else draws
    counts, not_counted, bad = campaign(draw_them(asked[0] if asked else SOME, asked[1] if len(asked) > 1 else 0))
    print(dict(counts))
    print("without a ring:", *not_counted, sep="\n  ")
    print("wrong:", *bad, sep="\n  ")
