"""Mistakes drawn by seed over every place of the protocol in kernels and in hand-made rings: the checker or the simulator
catches each. What neither catches is no mistake: a barrier or a wait that orders nothing which isn't ordered anyway, a count of
a stage that is filled once. Those are held to that: no finding, right values in five orders of asynchronous operations, and
the kinds below.

`python -m tests.analysis.test_pipe_mutants [COUNT [blackwell]]` draws more and lists what is left (`blackwell`: of kernels with
tensor memory and clusters, whose mistakes beside pipes are left to the simulator).
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
from tests.kernels.cluster_cases import any_parts, with_ctas
from tests.kernels.gradient_case import of_queries
from tests.kernels.suite import Case
from tests.kernels.test_store_pieces import persistent
from tileiras.analysis.pipes import RIGHT, WRONG, check_pipes
from tileiras.compiler import compile_module, read_module
from tileiras.driver.options import CompileOptions
from tileiras.errors import CompileError
from tileiras.machine.targets import find_target
from tileiras.pipeline import run
from tileiras.schedule.options import ScheduleOptions
from tileiras.transforms import order_memory

KERNELS = ("gemm_f16_f16acc_64x64x32", "gemm_gated_pair_f16", "gemm_f16_f32_few_rows", "misc_hint_opt_level_1",
           "gemm_f32_64x64x32", "attention_d64_f16", "scaled_gemm_fp8_128_blocks", "gemm_a_column_major_view")
GPUS = ("sm_80", "sm_90", "sm_120")
FEW, MANY = 24, 300
HARMLESS = ("drop barrier", "drop wait", "pending + 1", "drop commit", "larger pipe", "consumers +1", "drop acquire")
"""What may be no mistake: see the module's docstring. A commit, an acquire and a count matter from the second fill on."""
OF_AGENTS = ("drop cluster_", "agents leave alone")
"""One agent's meeting with the other CTAs at its end: other agents stay for it. That of all: the loaders have waited for every
stage to be given back (`producer_tail`), behind which nobody tells another CTA anything; pairs only free tensor memory together."""


OF_TILES = persistent(256, 128, "float32")
"""A kernel whose two blocks go through three tiles each."""
OF_QUERIES = of_queries()
"""One whose products of two iterations read a stage."""
NOT_OF_THE_SUITE = {case.name: case for case in (OF_TILES, OF_QUERIES)}


@dataclass(frozen=True)
class Source:
    """Where mutants come from: a kernel on an SM, by so many CTAs, its rings of `asked` stages if that isn't 0; or a ring made by
    hand (`kernel` its kind)."""

    kernel: str
    gpu: str = ""
    stages: int = 0
    agents: bool = False
    ctas: int = 1
    asked: int = 0

    @property
    def case(self) -> str | Case:
        return NOT_OF_THE_SUITE.get(self.kernel, self.kernel)

    @property
    def options(self) -> CompileOptions:
        return CompileOptions(find_target(self.gpu), schedule=ScheduleOptions(stages=self.asked) if self.asked else None)

    def __str__(self) -> str:
        ctas = f" by {self.ctas} CTAs" if self.ctas > 1 else ""
        return f"{self.kernel} {self.gpu or f'{self.stages} stages'}{' agents' if self.agents else ''}{ctas}"


SOURCES = (*(Source(kernel, gpu) for kernel in KERNELS for gpu in GPUS),
           *(Source(kind, "", stages, agents) for kind in ("group", "mbarrier", "cp_async") for stages in (2, 3)
             for agents in (False, True)))
FEW_STAGES = 3
"""Of rings in the twins, whose loops run more often: each stage is filled again."""
FEWER_STAGES = {"gemm_gated_pair_f16_twin": 2}
"""Where a loop takes its steps along k together, it runs three times."""
IN_TENSOR_MEMORY = tuple(Source(kernel, "sm_100", asked=FEWER_STAGES.get(kernel, FEW_STAGES)) for kernel in (
    "gemm_persistent_bf16_ragged", "gemm_persistent_bf16_ragged_twin", "attention_d64_f16", "gemm_bf16_f32_256x128x64_twin",
    "scaled_gemm_fp8_128_blocks_twin", "mxfp8_e4m3_128x128x128_twin", "gemm_gated_pair_f16_twin", "gemm_a_column_major_view",
    OF_QUERIES.name))
"""Products by tcgen05: operands by threads and by the copy engine, two products a loop, two accumulators in turn, sums in pieces,
scales."""
BY_CLUSTERS = tuple(Source(kernel, gpu, ctas=ctas, asked=FEW_STAGES) for kernel, ctas in (
    ("gemm_bf16_f32_256x128x64_twin", 2), ("matmul_float16_float32_twin", 4), (OF_TILES.name, 2)) for gpu in ("sm_90", "sm_100"))
"""Loads for several CTAs, pairs that multiply together, stages given back by tensor cores of several CTAs."""


@lru_cache(maxsize=64)
def module_of(source: Source) -> Operation:
    """The module as `order-memory` leaves it."""
    if source.stages:
        return through_a_ring(source.kernel, source.stages, source.agents)
    with any_parts():
        return run(read_module(bytecode_of(source), source.options), source.options, stop_at="nv_tileas")


def bytecode_of(source: Source) -> bytes:
    """The kernel's, with the hint for clusters."""
    if source.ctas == 1:
        return runner.export_case(source.case)
    version = runner.latest_version(source.case)
    return with_ctas(runner.export_case(source.case, version), source.ctas, source.gpu, version)


def drawn(count: int, seed: int = 0, sources: tuple[Source, ...] = SOURCES) -> list[tuple[Source, Mutant]]:
    """Different mutants, from all sources in turn."""
    dice = random.Random(seed)
    left = [(source, dice.sample(found, len(found))) for source in sources if (found := mutants_of(module_of(source)))]
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
    plain, programs = order_memory.run, 0

    def mutated(module: Any, context: Any = None) -> None:
        nonlocal programs
        programs += 1
        if programs > 1:        # one that may spill less: the mutant isn't of it
            raise CompileError("the first program is the mutant's")
        plain(module, context)
        mutant.apply(module)
    order_memory.run = mutated
    try:
        with any_parts():
            compiled = compile_module(bytecode_of(source), source.options)
    finally:
        order_memory.run = plain
    try:
        verdict = runner.simulate_case(source.case, compiled)
    except Exception as error:      # a finding, or a kernel that doesn't end
        return f"simulator: {type(error).__name__}"
    return "alive" if verdict.ok else "simulator: wrong values"


def campaign(count: int, seed: int = 0, sources: tuple[Source, ...] = SOURCES) -> tuple[Counter[str], list[str], list[str]]:
    """Fates counted by who caught them, who is alive harmlessly, and who shouldn't be."""
    tally: Counter[str] = Counter()
    harmless, alive = [], []
    for source, mutant in drawn(count, seed, sources):
        found = fate(source, mutant)
        tally[found.partition(":")[0]] += 1
        if found == "alive":
            (harmless if is_harmless(source, mutant) else alive).append(f"{source}: {mutant.name}")
    return tally, harmless, alive


def is_harmless(source: Source, mutant: Mutant) -> bool:
    """Whether a mutant that nobody caught may be no mistake."""
    of_agents = OF_AGENTS if source.gpu == "sm_100" else OF_AGENTS[:1]
    return mutant.name.startswith((*HARMLESS, *(of_agents if source.ctas > 1 else ()))) or (
        mutant.name.startswith("drop fence_async") and is_unseen(source, int(mutant.name.rpartition(" ")[2])))


def is_unseen(source: Source, number: int) -> bool:
    """Whether that fence of a module is one that a run of the kernel doesn't need."""
    fence = [op for op in module_of(source).walk() if op.name == "nv_tileas.fence_async"][number]
    return is_between_threads(fence) or is_before_nothing(source, fence)


def is_before_nothing(source: Source, fence: Operation) -> bool:
    """Whether a fence stands before a stage is given back, in a kernel whose loop ends before stages are filled again; those of the
    twins are."""
    return fence.next_op is not None and fence.next_op.name == "nv_tileas.consumer_release" and not source.kernel.endswith("_twin")


def is_between_threads(fence: Operation) -> bool:
    """Whether a fence follows a store to a buffer that threads alone read, where tensor cores read before."""
    store = fence.prev_op
    while store is not None and store.name != "nv_tileas.store_shared":
        store = store.prev_op
    return store is not None and {use.operation.name for use in store.operands[1].uses} == {
        "nv_tileas.store_shared", "nv_tileas.load_shared"}


def test_some_mistakes_are_caught() -> None:
    tally, harmless, alive = campaign(FEW)
    assert not alive
    assert tally["checker"] >= FEW // 2 and tally["checker"] + tally["simulator"] >= FEW * 3 // 4, (tally, harmless)


LEFT_TO_THE_SIMULATOR = ("drop barrier", "larger pipe 0", "add is", "drop fence_async", "drop tmem_free")
"""Barriers that order other things than stages, a longer pipe whose stages nothing is kept in, and what isn't of pipes."""


@pytest.mark.parametrize("kernel", ["gemm_f16_f16acc_64x64x32", "gemm_a_column_major_view"])
def test_every_mistake_beside_tensor_memory_is_caught(kernel: str) -> None:
    """By the checker, but for what is left to the simulator."""
    source = Source(kernel, "sm_100")
    assert check_pipes(function_of(module_of(source))).kind == RIGHT
    left = []
    for mutant in mutants_of(module_of(source)):
        module: Any = module_of(source).clone()
        mutant.apply(module)
        if check_pipes(function_of(module)).kind != WRONG:
            left.append(mutant.name)
    assert "drop barrier 0" not in left, "what sets up the pipes"
    assert all(name.startswith(LEFT_TO_THE_SIMULATOR) for name in left), left
    assert sum(name.startswith(LEFT_TO_THE_SIMULATOR[:2]) for name in left) <= 4


BY_THE_SIMULATOR = (
    ("gemm_persistent_bf16_ragged_twin", "sm_100", 1, "tmem stage 0 at 0"),         # sums are read in the other accumulator's place
    ("gemm_persistent_bf16_ragged_twin", "sm_100", 1, "larger pipe 0"),             # a third accumulator, where there are two
    ("gemm_persistent_bf16_ragged_twin", "sm_100", 1, "early release 0"),           # before the sums have been read
    ("scaled_gemm_fp8_128_blocks", "sm_100", 1, "tmem stage 0 at 0"),               # a step's sums for another one's
    ("gemm_bf16_f32_256x128x64_twin", "sm_100", 1, "pending + 1 at store_wait 0"),
    ("gemm_bf16_f32_256x128x64_twin", "sm_100", 2, "drop producer_tail 0"),         # CTAs leave while tensor cores tell them
    ("gemm_bf16_f32_256x128x64_twin", "sm_90", 2, "no peers of pipe 0"),            # stages are filled that others still read
    ("persistent", "sm_100", 2, "early release 0"),                                 # a pair's next sums over those still read
    ("matmul_float16_float32_twin", "sm_100", 4, "a peer less of pipe 1"),
    ("gemm_gated_pair_f16_twin", "sm_90", 1, "drop fence_async 0"),                 # a stage is filled again that threads read
    ("matmul_float16_float32_twin", "sm_90", 4, "drop producer_tail 0"))      # threads tell a CTA that has left
"""Mistakes that the checker of pipes doesn't know: of tensor memory, of stores, and between CTAs."""


@pytest.mark.parametrize("kernel, gpu, ctas, name", BY_THE_SIMULATOR)
def test_mistakes_between_ctas_and_in_tensor_memory_are_caught(kernel: str, gpu: str, ctas: int, name: str) -> None:
    source = Source(kernel, gpu, ctas=ctas, asked=FEWER_STAGES.get(kernel, FEW_STAGES))
    [mutant] = [m for m in mutants_of(module_of(source)) if m.name == name]
    assert fate(source, mutant).startswith("simulator")


@pytest.mark.slow
@pytest.mark.parametrize("source", [*IN_TENSOR_MEMORY, *BY_CLUSTERS], ids=str)
def test_every_mistake_in_a_kernel_with_tensor_memory_or_clusters_is_caught(source: Source) -> None:
    found = mutants_of(module_of(source))
    _, harmless, alive = campaign(len(found), sources=(source,))
    assert not alive
    assert len(harmless) <= len(found) // 5, harmless


@pytest.mark.slow
def test_mistakes_are_caught() -> None:
    tally, harmless, alive = campaign(MANY, seed=1)
    assert sum(tally.values()) == MANY
    assert not alive
    assert tally["checker"] + tally["simulator"] >= MANY * 4 // 5, (tally, harmless)


if __name__ == "__main__":
    chosen = (*IN_TENSOR_MEMORY, *BY_CLUSTERS) if "blackwell" in sys.argv else SOURCES
    counts, without_harm, survivors = campaign(int(sys.argv[1]) if len(sys.argv) > 1 else MANY, 1, chosen)
    print(dict(counts))
    print("without harm:", *without_harm, sep="\n  ")
    print("alive:", *survivors, sep="\n  ")
