"""Mistakes drawn by seed over every place of the protocol in kernels and in hand-made rings: the checker or the simulator
catches each. What neither catches is no mistake: a barrier or a wait that orders nothing which isn't ordered anyway, a count of
a stage that is filled once. Those are held to that: no finding, right values in five orders of asynchronous operations, and
the kinds below.

`python -m tests.analysis.test_pipe_mutants [COUNT]` draws more and lists what is left.
"""
from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pytest
from xdsl.ir import Operation

from tests.analysis.pipe_mutants import Mutant, mutants_of
from tests.analysis.pipe_programs import function_of, through_a_ring
from tests.kernels import runner
from tileiras.analysis.pipes import RIGHT, WRONG, check_pipes
from tileiras.compiler import read_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.pipeline import run
from tileiras.transforms import order_memory

KERNELS = ("gemm_f16_f16acc_64x64x32", "gemm_gated_pair_f16", "gemm_f16_f32_few_rows", "misc_hint_opt_level_1",
           "gemm_f32_64x64x32", "attention_d64_f16", "scaled_gemm_fp8_128_blocks", "gemm_a_column_major_view")
GPUS = ("sm_80", "sm_90", "sm_120")
FEW, MANY = 24, 300
HARMLESS = ("drop barrier", "drop wait", "pending + 1", "drop commit", "larger pipe", "consumers +1", "drop acquire")
"""What may be no mistake: see the module's docstring. A commit, an acquire and a count matter from the second fill on."""


@dataclass(frozen=True)
class Source:
    """Where mutants come from: a kernel on an SM, or a ring made by hand (`kernel` its kind)."""

    kernel: str
    gpu: str = ""
    stages: int = 0
    agents: bool = False

    def __str__(self) -> str:
        return f"{self.kernel} {self.gpu or f'{self.stages} stages'}{' agents' if self.agents else ''}"


SOURCES = (*(Source(kernel, gpu) for kernel in KERNELS for gpu in GPUS),
           *(Source(kind, "", stages, agents) for kind in ("group", "mbarrier", "cp_async") for stages in (2, 3)
             for agents in (False, True)))


@lru_cache(maxsize=64)
def module_of(source: Source) -> Operation:
    """The module as `order-memory` leaves it."""
    if source.stages:
        return through_a_ring(source.kernel, source.stages, source.agents)
    options = CompileOptions(find_target(source.gpu))
    return run(read_module(runner.export_case(source.kernel), options), options, stop_at="nv_tileas")


def drawn(count: int, seed: int = 0) -> list[tuple[Source, Mutant]]:
    """Different mutants, from all sources in turn."""
    dice = random.Random(seed)
    left = [(source, dice.sample(found, len(found))) for source in SOURCES if (found := mutants_of(module_of(source)))]
    out: list[tuple[Source, Mutant]] = []
    while left and len(out) < count:
        out += [(source, found.pop()) for source, found in left]
        left = [(source, found) for source, found in left if found]
    return out[:count]


def fate(source: Source, mutant: Mutant) -> str:
    """What becomes of a mutant: "checker: ...", "simulator: ..." or "alive"."""
    module: Any = module_of(source).clone()
    mutant.apply(module)
    verdict = check_pipes(function_of(module))
    if verdict.kind == WRONG:
        return f"checker: {verdict.message}"
    return "alive" if source.stages else simulated(source, mutant)


def simulated(source: Source, mutant: Mutant) -> str:
    """The same for a kernel with the mistake in it, compiled and run in five orders."""
    plain = order_memory.run

    def mutated(module: Any, context: Any = None) -> None:
        plain(module, context)
        mutant.apply(module)
    order_memory.run = mutated
    try:
        compiled = runner.compile_case(source.kernel, source.gpu)
    finally:
        order_memory.run = plain
    try:
        verdict = runner.simulate_case(source.kernel, compiled)
    except Exception as error:      # a finding, or a kernel that doesn't end
        return f"simulator: {type(error).__name__}"
    return "alive" if verdict.ok else "simulator: wrong values"


def campaign(count: int, seed: int = 0) -> tuple[Counter[str], list[str], list[str]]:
    """Fates counted by who caught them, who is alive harmlessly, and who shouldn't be."""
    tally: Counter[str] = Counter()
    harmless, alive = [], []
    for source, mutant in drawn(count, seed):
        found = fate(source, mutant)
        tally[found.partition(":")[0]] += 1
        if found == "alive":
            (harmless if mutant.name.startswith(HARMLESS) else alive).append(f"{source}: {mutant.name}")
    return tally, harmless, alive


def test_some_mistakes_are_caught() -> None:
    tally, harmless, alive = campaign(FEW)
    assert not alive
    assert tally["checker"] >= FEW // 2 and tally["checker"] + tally["simulator"] >= FEW * 3 // 4, (tally, harmless)


@pytest.mark.parametrize("kernel", ["gemm_f16_f16acc_64x64x32", "gemm_a_column_major_view", "scaled_gemm_fp8_128_blocks"])
def test_every_mistake_beside_tensor_memory_is_caught(kernel: str) -> None:
    """By the checker, but for barriers that order other things than stages, and a longer pipe whose stages nothing is kept in."""
    source = Source(kernel, "sm_100")
    assert check_pipes(function_of(module_of(source))).kind == RIGHT
    left = []
    for mutant in mutants_of(module_of(source)):
        module: Any = module_of(source).clone()
        mutant.apply(module)
        if check_pipes(function_of(module)).kind != WRONG:
            left.append(mutant.name)
    assert "drop barrier 0" not in left, "what sets up the pipes"
    assert len(left) <= 4 and all(name.startswith(("drop barrier", "larger pipe 0")) for name in left)


@pytest.mark.slow
def test_mistakes_are_caught() -> None:
    tally, harmless, alive = campaign(MANY, seed=1)
    assert sum(tally.values()) == MANY
    assert not alive
    assert tally["checker"] + tally["simulator"] >= MANY * 4 // 5, (tally, harmless)


if __name__ == "__main__":
    counts, without_harm, survivors = campaign(int(sys.argv[1]) if len(sys.argv) > 1 else MANY, seed=1)
    print(dict(counts))
    print("without harm:", *without_harm, sep="\n  ")
    print("alive:", *survivors, sep="\n  ")
