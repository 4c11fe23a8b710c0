"""Who loads: one agent, or one that tells the copy engine and one whose threads gather; and how many warps each has.

    agent_switch {warps = [4, 4]} {                    agent_switch {warps = [4, 4, 1]} {
      products                                           products
    }, {                                               }, {
      for %k {                                           for %k {
        %i = producer_acquire %gathered                    %i = producer_acquire %gathered
        async_copy %places -> %a[%i]                       async_copy %places -> %a[%i]
        producer_commit %gathered               ->         producer_commit %gathered
        %j = producer_acquire %told                      }
        tma_load -> %b[%j]                             }, {
        producer_commit %told                            for %k {
      }                                                    %j = producer_acquire %told
    }                                                      tma_load -> %b[%j]
                                                           producer_commit %told
                                                         }
                                                       }

What places gathered tiles takes threads as long as a stage takes the tensor core, and what they tell the engine besides, a wait, a
branch and coordinates, a third more (B200, 64x64x32: rows of a list, 64 blocks 7.3 us before, 5.8 so; a convolution, 49 blocks 4.9
and 3.9, 392 blocks 7.3 and 6.0; H100 128x128x64, 26 blocks of 16 warps 17.8 and 14.1, 196 blocks 33.0 and 28.5).
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation

from tileiras.analysis.agent_parts import is_placed, is_told_to_all, kind_of, pipe_at
from tileiras.analysis.agents import WARPGROUP
from tileiras.analysis.few_loaders import MOST_BYTES
from tileiras.analysis.program_slice import Slice, loop_around
from tileiras.dialects.nv_tileas import COPIES_BY_THREADS, PipeType

COPY, TOLD, GATHERED = "nv_tileas.tiled_copy", "nv_tileas.tma_load", "nv_tileas.async_copy"
MOST_CHUNKS = 16
"""Copies that a thread of the load agent makes for a stage: then one warp keeps up with the tensor cores, and leaves registers for
another block on the SM."""
ENGINE_WARPS = 1
"""Of an agent that only tells the copy engine."""


@dataclass
class LoadAgent:
    """What an agent that loads has of a function, and its warps."""
    part: Slice
    warps: int


def load_warps(func: Operation, loader: Slice, warps: int, target: Any) -> int:
    """How many warps the load agent has: where it repeats what is spread over the compute agents' threads, as many as gathering
    wants, or as those have; else as copies by threads need, or one."""
    is_spread = any(is_placed(op, loader) for op in loader.ops)
    if not copies_by_threads(loader):
        return warps if is_spread else 1
    from tileiras.transforms.gathering_warps import gathering_warps  # few kernels do

    return gathering_warps(func, loader, warps, target) if is_spread else copy_warps(loader, warps)


def copy_warps(loader: Slice, warps: int) -> int:
    """How many warps the load agent's copies by threads need, or one."""
    if not copies_by_threads(loader):
        return 1
    from tileiras.transforms.gathering_warps import warps_for_chunks

    return warps_for_chunks(loader, warps, MOST_CHUNKS)


def copies_by_threads(loader: Slice) -> bool:
    return any(op.name in COPIES_BY_THREADS for op in loader.ops)


def is_by_engine(loader: Slice) -> bool:
    """Whether no thread of the load agent brings anything itself."""
    return not any(op.name == COPY or is_placed(op, loader) for op in loader.ops)


def load_agents(func: Operation, parts: Any, warps: int, loading: int, blocks: int, is_narrowed: bool,
                target: Any) -> list[LoadAgent]:
    """One agent of so many warps, or two. `parts`: the function's `Division`; `is_narrowed`: one warp by itself brings what threads
    do; `blocks`: that share registers among their agents, whose load agents are padded to a warpgroup."""
    whole = LoadAgent(parts.loader, loading)
    pipes = [v for op in parts.shared for v in op.results if isinstance(v.type, PipeType)]
    if "cluster" in func.properties or any(map(is_told_to_all, pipes)):
        return [whole]
    by_engine, by_threads = _parted(parts.loads)
    if not by_engine or not by_threads or not (is_narrowed or _gathers_beside(by_engine, by_threads)):
        return [whole]
    engine, threads = (LoadAgent(Slice(func, loads, above=parts.shared, keep_tokens=False), n)
                       for loads, n in ((by_engine, ENGINE_WARPS), (by_threads, loading)))
    if is_narrowed:
        return [engine, threads]
    return [threads, engine] if _costs_no_block(func, threads, engine, warps, blocks, target) else [whole]


def _parted(loads: list[Operation]) -> tuple[list[Operation], list[Operation]]:
    """What the copy engine is told, and what threads bring; neither where it isn't both. Threads' stores to shared memory wait for
    the tensor core's reads, and their places take time."""
    parts: dict[bool, list[Operation]] = {True: [], False: []}
    for op in loads:
        pipe = pipe_at(op)
        for by_engine in (True, False) if pipe is None else (kind_of(pipe) == "tma",):
            parts[by_engine].append(op)
    return parts[True], parts[False]


def _gathers_beside(by_engine: list[Operation], by_threads: list[Operation]) -> bool:
    """Whether threads gather large tiles in a loop for whose stages the engine is told."""
    told = {loop_around(op) for op in by_engine if op.name == TOLD}
    gathered = [op for op in by_threads if op.name == GATHERED and loop_around(op) in told - {None}]
    if not gathered:
        return False
    from tileiras.analysis.async_copies import copied_bytes

    return sum(map(copied_bytes, gathered)) > MOST_BYTES


def _costs_no_block(func: Operation, threads: LoadAgent, engine: LoadAgent, warps: int, blocks: int, target: Any) -> bool:
    """Whether an SM has as many blocks with the warp that tells the engine, which finds by itself what it tells."""
    if any(is_placed(op, engine.part) for op in engine.part.ops):
        return False
    if blocks:
        return threads.warps + engine.warps <= WARPGROUP
    from tileiras.transforms.gathering_warps import leaves_blocks

    return leaves_blocks(func, threads.part, warps, threads.warps, engine.warps, target)
