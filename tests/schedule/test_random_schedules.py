"""Any legal schedule computes right: depths of rings, orders and agents drawn by seed (`enable-random-delay`), each run in the
simulator against the kernel's reference, in several orders of asynchronous operations.

A draw counts only if the code has a ring of two or more stages, or agents; what was refused is listed.
`python -m tests.schedule.test_random_schedules [COUNT]` draws more.
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
from tests.kernels.cluster_cases import compile_on
from tileiras.analysis.pipes import RIGHT, check_pipes
from tileiras.driver.options import WITHOUT
from tileiras.schedule.options import ScheduleOptions
from tileiras.transforms import generate_schedule, order_memory, overlap_iterations

KERNELS = ("gemm_f16_f16acc_64x64x32", "gemm_gated_pair_f16", "gemm_f16_f32_few_rows", "misc_hint_opt_level_1",
           "gemm_f32_64x64x32", "attention_d64_f16", "attention_d64_f16_twin", "gemm_f16_f32_16x16x16", "matmul_float16_float32")
GPUS = ("sm_80", "sm_89", "sm_90", "sm_120")
OF_PAIRS, PAIR = "gemm_bf16_f32_256x128x64", 2
"""A kernel that two CTAs multiply together, where a cluster is asked for (sm_100)."""
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
        return f"{self.kernel} {self.gpu} without '{self.without}' seed {self.seed}"


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


def carried_out(draw: Draw) -> Outcome:
    """A kernel compiled with that schedule, checked and run."""
    rings: list[int] = []
    agents, trouble = False, ""
    scheduled, ordered, pays = generate_schedule.run, order_memory.run, overlap_iterations._Expansion.pays

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
    overlap_iterations._Expansion.pays = lambda self, target, threads: True     # whatever the schedule says is carried out
    try:
        compiled = compile_on(draw.kernel, draw.ctas, draw.gpu) if draw.ctas > 1 else runner.compile_case(draw.kernel, draw.gpu)
    finally:
        generate_schedule.run, order_memory.run, overlap_iterations._Expansion.pays = scheduled, ordered, pays
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


def campaign(count: int, seed: int) -> tuple[Counter[str], list[str], list[str]]:
    """How many draws had rings or agents, those that had neither, those that went wrong."""
    tally: Counter[str] = Counter()
    idle, wrong = [], []
    for draw in draws(count, seed):
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


def test_random_schedules_of_a_pair_of_ctas_compute_right() -> None:
    dice = random.Random(5)
    for _ in range(FEW):
        found = carried_out(Draw(OF_PAIRS, "sm_100", "", dice.randrange(10**6), PAIR))
        assert found.agents and not found.trouble


def test_a_few_random_schedules_compute_right() -> None:
    tally, _, wrong = campaign(FEW, seed=3)
    assert not wrong
    assert tally["counted"] >= FEW // 2


@pytest.mark.slow
def test_random_schedules_compute_right() -> None:
    tally, _, wrong = campaign(SOME, seed=5)
    assert not wrong
    assert tally["counted"] >= SOME // 2


if __name__ == "__main__":
    asked = [int(word) for word in sys.argv[1:]]
    counts, not_counted, bad = campaign(asked[0] if asked else SOME, asked[1] if len(asked) > 1 else 0)
    print(dict(counts))
    print("without a ring:", *not_counted, sep="\n  ")
    print("wrong:", *bad, sep="\n  ")
