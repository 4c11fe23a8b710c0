"""A large grid of independent blocks, run by several processes.

Each takes some whole batches and runs them on a copy of memory of its own, which a fork gives it. Afterwards the watch over
global memory knows who wrote and who read what. Where no process wrote what another touched, what they wrote is put
together, and results, findings and counts are those that one process gives; else, or where one found something, the run is
`Dependent` and starts again in one process. Kernels whose blocks wait for each other or meet in atomics aren't shared.
"""
from __future__ import annotations

import mmap
import os
import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tileiras.sim.core.statistics import SAMPLES, Statistics
from tileiras.sim.ptx import module as ptx

LEAST = 4                   # batches from which a run is shared
MOST = 8                    # processes
_STRONG = {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"}
_TOGETHER = {"clusterlaunchcontrol", "tensormap", "multimem", "griddepcontrol"}


class Dependent(Exception):
    """The blocks of a run that was shared depend on each other, or one of the helpers found something."""


def apart(instructions: list[ptx.Instruction]) -> bool:
    """Whether no instruction of a kernel is one by which blocks of different clusters wait for each other or meet."""
    return not any(_meets(ins) for ins in instructions)


def _meets(ins: ptx.Instruction) -> bool:
    parts = ins.parts
    name, words = parts[0], set(parts[1:])
    if name in _TOGETHER or (name == "cp" and words & {"reduce"}):
        return True
    if name == "call":
        return ins.call is None or getattr(ins.call[1], "name", "") != "vprintf"
    near = any(p.split("::")[0] in ("shared", "local", "param", "const") for p in parts[1:])
    return not near and (name in ("atom", "red") or (name in ("ld", "st") and bool(words & _STRONG)))


def processes() -> int:
    """How many processes this one may use: the cores it may run on that others leave idle."""
    if not hasattr(os, "fork") or not hasattr(os, "sched_getaffinity") or threading.active_count() > 1:
        return 1
    busy = max(round(os.getloadavg()[0] - 1), 0)                # but for this process
    return max(min(len(os.sched_getaffinity(0)) - busy, MOST), 1)


@dataclass
class Told:
    """What a helper tells besides what it wrote."""
    hits: list[int]
    issued: int
    statistics: Statistics
    output: dict[int, list[str]]


class Helper:
    """A process that runs the CTAs from `first` to `end` and then tells."""

    def __init__(self, launch, first: int, end: int, granules: int, run: Callable[[], Told]) -> None:
        self.launch, self.granules = launch, granules
        self.bits = (granules + 7) // 8
        self.area = mmap.mmap(-1, 2 * self.bits + len(launch.memory.data))
        reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(writing)
            self.pipe = reading
            return
        status = 1
        try:
            os.close(reading)
            launch.next, launch.end = first, end
            told = run()
            if not launch.findings and launch.world is not None:
                self._leave(launch.world)
                with os.fdopen(writing, "wb") as out:
                    pickle.dump(told, out)
                status = 0
        finally:
            os._exit(status)

    def _masks(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Bits of the granules it wrote, of those it read, and the bytes written, in the memory that both have."""
        whole = np.frombuffer(self.area, np.uint8)
        return whole[:self.bits], whole[self.bits:2 * self.bits], whole[2 * self.bits:]

    def _leave(self, world) -> None:
        written, read, data = self._masks()
        wrote = world.writer != 0
        written[:], read[:] = np.packbits(wrote), np.packbits(world.reader != 0)
        _cells(data, world)[wrote] = _cells(self.launch.memory.data, world)[wrote]

    def finish(self, wrote: np.ndarray, read: np.ndarray) -> Told:
        """Wait for it and put what it wrote into memory; `wrote` and `read` are what is known of the others."""
        with os.fdopen(self.pipe, "rb") as source:
            sent = source.read()
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        if status:
            raise Dependent
        bits_written, bits_read, data = self._masks()
        mine = np.unpackbits(bits_written, count=self.granules).view(bool)
        seen = np.unpackbits(bits_read, count=self.granules).view(bool)
        if (mine & (wrote | read)).any() or (seen & wrote).any():
            raise Dependent
        wrote |= mine
        read |= seen
        world = self.launch.world
        _cells(self.launch.memory.data, world)[mine] = _cells(data, world)[mine]
        return pickle.loads(sent)

    def stop(self) -> None:
        """End it: nobody needs what it does."""
        if self.pid:
            os.close(self.pipe)
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
            self.pid = 0


def _cells(data: np.ndarray, world) -> np.ndarray:
    """Memory as one item a granule."""
    size = world.granule
    return data[:world.count * size].view(f"u{size}" if size <= 8 else "c16")


def run(launch, batches: list[int], count: int, go: Callable[[], Told]) -> list[Told]:
    """Run the grid in `count` processes, this one with the first share; what the others tell. `batches`: the first CTA of
    each batch, and the end. `go()` runs what `launch` says. Raises Dependent, and what `go` raises here."""
    cuts = [batches[(len(batches) - 1) * i // count] for i in range(count)] + [launch.ctas]
    granules = (launch.memory.size + 256) // launch.granule // 32 * 32
    helpers: list[Helper] = []
    try:
        for first, end in pairwise(cuts[1:]):
            helpers.append(Helper(launch, first, end, granules, go))
        launch.end = cuts[1]
        go()
        if launch.world is None:
            raise Dependent
        wrote, read = launch.world.writer != 0, launch.world.reader != 0
        return [helper.finish(wrote, read) for helper in helpers]
    finally:
        for helper in helpers:
            helper.stop()
        launch.end = launch.ctas


def join(mine: Statistics, other: Statistics) -> None:
    """Add what another process counted. Samples of a line stay those of the first batches, as in one process."""
    for key, amount in other.bytes.items():
        mine.bytes[key] = mine.bytes.get(key, 0) + amount
    mine.flops += other.flops
    mine.tensor_work += other.tensor_work
    for own, given in ((mine.passes, other.passes), (mine.sectors, other.sectors)):
        for line, sampled in given.items():
            known = own.setdefault(line, sampled)
            if known is sampled:
                continue
            known.threads += sampled.threads
            if known.samples < SAMPLES:
                known.work, known.least = known.work + sampled.work, known.least + sampled.least
                known.samples, known.seen = known.samples + sampled.samples, known.seen + sampled.seen
