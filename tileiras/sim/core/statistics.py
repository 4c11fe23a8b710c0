"""What a run moved and what that would cost: bytes by space, bank conflicts, and an estimate of time on an SM.

Bank conflicts and sectors are sampled: the first SAMPLES executions of each line that accesses memory, of up to WARPS
warps; totals count the other executions at the same rate. Global memory moves in sectors of 32 bytes, each once a warp's
access. Shared memory has 32 banks of four bytes; a warp's access of 4, 8 or 16 bytes a thread goes in groups of 32, 16 or 8
threads, and a group takes as many passes as its busiest bank has different words.

The estimate is a roofline: for each unit, work divided by what all SMs in use do in a cycle; the slowest unit is the
kernel's least time. Latencies and dependences aren't in it, so it is a lower bound that tells which unit limits. Everything
that moves comes through L2; from DRAM no more than the arrays hold. Figures are those of `tileiras/machine`.
"""
from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from tileiras.machine.machines import Machine, machine_of
from tileiras.machine.tensor import DEPTH_F16
from tileiras.machine.throughput import throughput

SAMPLES, WARPS = 4, 64
BANKS = 32
SECTOR_BYTES = 32


_SPECIAL = {"ex2", "lg2", "sin", "cos", "rcp", "rsqrt", "sqrt", "tanh", "cvt", "popc", "brev", "bfind", "redux"}
_MEMORY = {"ld", "st", "atom", "red", "ldmatrix", "stmatrix", "cp", "ldu", "shfl", "mbarrier"}
_INTEGER = {"and", "or", "xor", "not", "shl", "shr", "shf", "lop3", "bfe", "bfi", "prmt", "mad", "mul24", "mad24", "dp4a",
            "dp2a", "sad", "clz", "isspacep", "cvta", "mapa"}
_TENSOR = {"mma": 32, "wmma": 32, "wgmma": 128}
_SHAPE = re.compile(r"\.m(\d+)n(\d+)k(\d+)")
_TYPE = re.compile(r"\.(?:b1|e2m1|e[23]m[23]|e4m3|e5m2|[su][48]|bf16|f16|tf32|f64|f32)(?![\w])")
_BITS = {"b1": 1, "e2m1": 4, "s4": 4, "u4": 4, "bf16": 16, "f16": 16, "tf32": 32, "f32": 32, "f64": 64}


def machine_for(target: str) -> Machine:
    """The machine that stands for a `.target`."""
    found = re.match(r"sm_(\d+)", target)
    return machine_of(int(found[1]) if found else 90)


@dataclass
class Estimate:
    """`cycles` at least, `limit`: the unit that needs them, `units`: cycles of each, `seconds` on `machine`."""
    machine: str
    cycles: float
    limit: str
    seconds: float
    units: dict[str, float]


@dataclass
class Sampled:
    """Accesses of one PTX line. `work`: passes or sectors of the accesses that were looked at, `least`: what they would
    need at least; `samples` executions, of `seen` of the `threads` thread-accesses."""
    work: int = 0
    least: int = 0
    samples: int = 0
    seen: int = 0
    threads: int = 0

    @property
    def total(self) -> float:
        """The work of all accesses, the others at the rate of those seen."""
        return self.work * self.threads / max(self.seen, 1)


@dataclass
class Statistics:
    """Kept by a launch. `bytes`: by "global read", "shared write", ...; `passes`, `sectors`: of shared and of global memory
    by PTX line; `flops`, `tensor_work`: of products whose shape isn't in their line (tcgen05.mma)."""
    bytes: dict[str, int] = field(default_factory=dict)
    passes: dict[int, Sampled] = field(default_factory=dict)
    sectors: dict[int, Sampled] = field(default_factory=dict)
    flops: int = 0
    tensor_work: int = 0

    def move(self, space: str, write: bool, amount: int) -> None:
        """Some bytes were read or written."""
        key = f"{space} {'write' if write else 'read'}"
        self.bytes[key] = self.bytes.get(key, 0) + amount

    def operation(self, op) -> None:
        """An asynchronous operation happened."""
        for places, write in ((op.reads, False), (op.writes, True)):
            for place in places:
                self.move(place[0], write, (int(place[2]) if len(place) == 3 else 16) * int(np.size(place[1])))

    def banks(self, line: int, off: np.ndarray, width: int, lanes: np.ndarray) -> None:
        """Threads access `width` bytes of shared memory at offsets."""
        found = _next_sample(self.passes, line, lanes)
        if found is None:
            return
        off, lanes = np.broadcast_to(off, lanes.shape)[:32 * WARPS], lanes[:32 * WARPS]
        words = max(width // 4, 1)
        group = lanes // (32 // min(words, 4))
        each = (off[:, None] // 4 + np.arange(words)).astype(np.int64)
        keys = _distinct((group[:, None] << 40 | each).reshape(-1))
        groups = keys >> 40
        busy = np.bincount((groups - groups[0]) * BANKS + keys % BANKS)
        busy = np.maximum.reduceat(busy, np.arange(0, len(busy), BANKS))
        found.work += int(busy.sum())
        found.least += int(np.count_nonzero(busy))

    def global_access(self, line: int, off: np.ndarray, width: int, lanes: np.ndarray) -> None:
        """Threads access `width` bytes of global memory at offsets."""
        found = _next_sample(self.sectors, line, lanes)
        if found is None:
            return
        off, lanes = np.broadcast_to(off, lanes.shape)[:32 * WARPS], lanes[:32 * WARPS]
        first = off.astype(np.int64) // SECTOR_BYTES
        last = (off.astype(np.int64) + width - 1) // SECTOR_BYTES
        warp = lanes // 32 << 44
        found.work += len(_distinct(np.concatenate([warp | first, warp | last])))
        found.least += len(_distinct(warp))

    def conflicts(self) -> dict[int, float]:
        """Passes of an access on average, by PTX line, where there is more than one."""
        return {line: s.work / s.least for line, s in sorted(self.passes.items()) if s.least and s.work > s.least}


def _distinct(keys: np.ndarray) -> np.ndarray:
    """The keys that occur, ascending. (`np.unique` is slower for the few thousands here.)"""
    keys = np.sort(keys)
    return keys[np.concatenate([[True], keys[1:] != keys[:-1]])]


def _next_sample(table: dict[int, Sampled], line: int, lanes: np.ndarray) -> Sampled | None:
    """The line's record if this execution is to be looked at, else None."""
    found = table.get(line)
    if found is None:
        found = table[line] = Sampled()
    found.threads += len(lanes)
    if found.samples >= SAMPLES:
        return None
    found.samples += 1
    found.seen += min(len(lanes), 32 * WARPS)
    return found


def total(table: dict[int, Sampled]) -> int:
    """The work of all lines."""
    return round(sum(s.total for s in table.values()))


def tensor_flops(module, blocks, hits) -> tuple[int, int]:
    """Multiplications and additions of matrix instructions, by the shapes in their lines, and what the tensor cores could do of f16
    in the time that these take."""
    total = work = 0
    for block, n in zip(blocks, hits):
        for kind, line in zip(block.kinds, block.lines) if n else ():
            if kind in _TENSOR and 0 < line <= len(module.lines):
                text = module.lines[line - 1]
                shape = _SHAPE.search(text)
                if shape:
                    m, n_, k = (int(shape[i]) for i in (1, 2, 3))
                    times = n // _TENSOR[kind]
                    total += times * 2 * m * n_ * k
                    work += round(times * 2 * m * n_ * (DEPTH_F16 if kind == "wgmma" else _depth(text, k)))
    return total, work


def _depth(text: str, k: int) -> float:
    """How deep a product in f16 takes as long as the mma.sync of a line, of depth `k`: one with as many bytes along K. A sparse one
    takes the bytes that are stored."""
    opcode = next(word for word in text.split() if _SHAPE.search(word))
    types = [t[1:] for t in _TYPE.findall(opcode)]
    named_result = len(types) == 2 and types[1] in ("f16", "f32")           # wmma of f16 names result and accumulator alone
    bits = 16 if named_result or len(types) < 2 else 8 if "f8f6f4" in opcode else _BITS.get(types[1], 8)
    return k * bits / 16 / (2 if ".sp" in opcode else 1)


def estimate(machine: Machine, kinds: dict[str, int], moved: dict[str, int], tensor_work: int, ctas: int, footprint: int = 0,
             clock: float = 0.0) -> Estimate:
    """The least time of a kernel on a machine. `tensor_work`: of its products, in operations of f16 that take as long; `footprint`:
    bytes of its arrays (0: unknown); `clock`: in Hz, the machine's at boost where it isn't given."""
    clock = clock or machine.clock
    able = throughput(machine)
    sms = max(min(machine.sms, ctas), 1)
    work: dict[str, float] = {}
    for kind, n in kinds.items():
        pipe = ("special" if kind in _SPECIAL else "memory" if kind in _MEMORY else "int32" if kind in _INTEGER else
                "control" if kind in ("bar", "bra", "setp") else "" if kind in (*_TENSOR, "tcgen05") else "fp32")
        if pipe:
            work[pipe] = work.get(pipe, 0) + n
    work["issue"] = sum(kinds.values())
    units = {pipe: n / able.threads[pipe] / sms for pipe, n in work.items() if n}
    if tensor_work:
        units["tensor"] = tensor_work / able.flops / sms
    shared = moved.get("shared read", 0) + moved.get("shared write", 0)
    if shared:
        units["shared memory"] = shared / 128 / sms
    far = moved.get("global read", 0) + moved.get("global write", 0)
    if far:
        units["L2"] = far * clock / machine.l2_rate
        units["DRAM"] = (min(far, footprint) if footprint else far) * clock / machine.dram
    limit = max(units, key=lambda u: units[u], default="")
    cycles = units.get(limit, 0.0)
    return Estimate(machine.name, cycles, limit, cycles / clock, dict(sorted(units.items())))
