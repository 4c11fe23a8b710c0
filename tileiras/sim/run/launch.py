"""`simulate`: lay out memory for a launch, decode the kernel, run its CTAs batch by batch, write the arrays back."""
from __future__ import annotations

import ctypes
import gc
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from tileiras.host.object import BYTES_AN_SM
from tileiras.host.recipe import read_map
from tileiras.sim.copy.tensormap import MAP_BYTES, MapArgument
from tileiras.sim.core import heap
from tileiras.sim.core.memory import GLOBAL_BASE, GlobalMemory
from tileiras.sim.core.state import Batch
from tileiras.sim.core.statistics import Estimate, Statistics, estimate, machine_for, tensor_flops, total
from tileiras.sim.errors import LaunchError, SimulationError
from tileiras.sim.ptx import module as ptx
from tileiras.sim.ptx.parser import parse
from tileiras.sim.run import share
from tileiras.sim.run.engine import Engine
from tileiras.sim.run.observe import Observer
from tileiras.sim.run.program import Program, build

BATCH_THREADS = 16384             # threads simulated at once, at most
BATCH_BYTES = 512 << 20           # register and private memory of a batch, at most
DEFAULT_BUDGET = 100_000_000      # issued instructions (one for all threads of a batch that execute it together)
MAX_THREADS = 1024
MAX_CLUSTER = 16
SMS = 132                         # that a launch's tile blocks are spread over, one after the other
MAX_CTA_MEMORY = 1 << 30          # bytes of `.minperctamemory`, of all CTAs
MAX_GRID = (2**31 - 1, 65535, 65535)
FUNCTION_BASE = 0x0F00_0000_0000
CHUNK = 1 << 20                   # bytes compared at once when arrays are written back


@dataclass
class Report:
    """What a simulation found and counted.

    `instructions`: thread-instructions executed; `issued`: instructions issued, one for all threads that execute it
    together; `kinds`: thread-instructions by operation; `output`: what the kernel printed; `findings`: remarks that
    didn't stop it; `bytes`: moved, by "global read", "shared write" and so on; `bank_conflicts`: by PTX line, passes of an
    access to shared memory on average, where more than one; `shared_passes`, `global_sectors`: of all accesses, from
    samples; `flops`: of matrix instructions; `tensor_work`: operations of f16 that take the tensor cores as long; `estimate`:
    the least time on the target (see `statistics`); `prediction`: how long the launch takes, where `tileiras.launch` was asked
    (`timing.prediction.Prediction`)."""
    kernel: str
    instructions: int = 0
    issued: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    output: str = ""
    findings: list[SimulationError] = field(default_factory=list)
    shared_bytes: int = 0
    local_bytes: int = 0
    bytes: dict[str, int] = field(default_factory=dict)
    bank_conflicts: dict[int, float] = field(default_factory=dict)
    shared_passes: int = 0
    global_sectors: int = 0
    flops: int = 0
    tensor_work: int = 0
    estimate: Estimate | None = None
    prediction: Any = None


class Progress:
    """How far a simulation is; another thread may read it meanwhile. `blocks` of `total` are done, `issued`
    instructions so far."""

    def __init__(self) -> None:
        self.total = self.blocks = 0
        self.budget = [0, 0]

    @property
    def issued(self) -> int:
        return self.budget[1] - self.budget[0]


class PointerTable:
    """A launch argument: the address of 64-bit words in memory. An array among the words stands for its own address.

    This is what a list of arrays becomes: for each its address, lengths and strides."""

    def __init__(self, words: Sequence) -> None:
        self.words = list(words)


class Launch:
    """One launch: dimensions, and where arguments and module variables are in memory."""

    def __init__(self, module: ptx.Module, entry: ptx.Function, grid, block, args: Sequence, dynamic_shared: int,
                 undefined: str = "raise", watch_races: bool = True, cluster=None, names: Sequence[str] | None = None,
                 cta_memory: bool = True) -> None:
        self.module, self.entry = module, entry
        self.names = names
        self.grid = _dimensions(grid, "grid")
        x, y, z = (n * c for n, c in zip(self.grid, counted(entry)))
        self.grid = x, y, z
        self.cluster, self.explicit_cluster = _cluster(entry, self.grid, cluster)
        self.cluster_size = self.cluster[0] * self.cluster[1] * self.cluster[2]
        self.block = _dimensions(block, "block")
        for n, top in zip(self.grid, MAX_GRID):
            if not 0 < n <= top:
                raise LaunchError(f"grid {self.grid} is out of range: at least 1, at most {MAX_GRID}")
        self.threads = self.block[0] * self.block[1] * self.block[2]
        if not 0 < self.threads <= MAX_THREADS:
            raise LaunchError(f"a block of {self.threads} threads")
        self.padded = (self.threads + 31) // 32 * 32
        self.ctas = self.grid[0] * self.grid[1] * self.grid[2]
        self.dynamic_shared = dynamic_shared
        self.undefined = undefined
        self.watch_races = watch_races
        self.progress = Progress()
        self.seed, self.strict, self.prompt = 0, False, False
        self.grants: dict[int, list[int]] = {}          # where `choose` says who may cancel whom: by the first CTA of its batch
        self.cancelled: dict[int, int] = {}
        self.tensor_columns = 0                                 # of tensor memory, the most that a CTA has held at a time
        self.memory = GlobalMemory()
        self.output: dict[int, list[str]] = {}                  # what each CTA printed, by its place in the order
        self.findings: dict[int, SimulationError] = {}          # by PTX line
        self.clock = [1]                                        # the time of `order`
        self.messages: dict = {}                                # what was released through global memory, by offset
        self.foreign: dict = {}                                 # what clusters know of others
        self.lenient = False                                    # whether order between clusters can't be followed
        self.statistics = Statistics()
        self.observer: Observer | None = None                   # who watches the run
        self.chosen: list[int] | None = None                    # first CTAs of the clusters to run, last first; None: all
        self.is_part = False                                    # whether CTAs are left out
        self.next, self.end = 0, self.ctas                      # the first CTA that hasn't started, and the end of those to run
        self.granule = 0                                        # bytes of the program's smallest access to global memory
        self.world = None                                       # globalshadow.GlobalWatch
        self.tensor_maps = None                                 # tma.Maps, made on first use
        self.variable_addresses: dict[str, int] = {}
        self.function_variables: dict[tuple[str, str], int] = {}
        self.function_addresses = {n: FUNCTION_BASE + 16 * i for i, n in enumerate(module.functions)}
        self.param_addresses: dict[str, int] = {}
        self._spans: list[tuple[np.ndarray, int, str, bool]] = []
        self.cta_bytes = int((entry.directives.get("minperctamemory") or [0])[0])
        self.cta_base = self.hidden_memory = 0
        self.sms = SMS if cta_memory else self.ctas             # the older way tells CTAs apart by SM
        if self.cta_bytes * self.ctas > MAX_CTA_MEMORY:
            raise LaunchError(f".minperctamemory {self.cta_bytes} for {self.ctas} CTAs is over {MAX_CTA_MEMORY} bytes")
        pointers = self._place_arrays(args)
        self._place_variables()
        if self.cta_bytes and cta_memory:
            self.cta_base = self.memory.add("memory of the CTAs", self.cta_bytes * self.ctas)
        elif self.cta_bytes:
            self.hidden_memory = self.memory.add("memory for tensor maps", BYTES_AN_SM * self.ctas * (self.cta_bytes // MAP_BYTES))
        block_bytes = self._parameters(args, pointers)
        base = self.memory.add("the kernel's parameters", block_bytes, readonly=True)
        for name, offset in self._offsets.items():
            self.param_addresses[name] = base + offset
        self._relocations()
        if heap.ALLOCATE in module.functions:
            self.heap = heap.Heap(self.memory.add("the heap", heap.HEAP_BYTES))
        self.memory.seal()

    def places(self) -> tuple[tuple[int, int], ...]:
        """Where the arrays' memory lies: (address, bytes)."""
        return tuple((address, raw.nbytes) for raw, address, _, _ in self._spans)

    def memory_of_cta(self, position: np.ndarray) -> np.ndarray:
        """Where the memory of some CTAs begins that `.minperctamemory` asks for; 0 where there is none."""
        return (self.cta_base + self.cta_bytes * position * (self.cta_base > 0)).astype(np.uint64)

    def ctaid(self, position):
        """x, y, z of the CTA at a place in the order of execution (an int or an array): cluster after cluster."""
        if self.cluster_size == 1:
            return self.unflatten(position, self.grid)
        clusters = self.grid[0] // self.cluster[0], self.grid[1] // self.cluster[1], self.grid[2] // self.cluster[2]
        outer = self.unflatten(position // self.cluster_size, clusters)
        inner = self.unflatten(position % self.cluster_size, self.cluster)
        return tuple(o * c + i for o, c, i in zip(outer, self.cluster, inner))

    def prints(self, position: int, text: str) -> None:
        """A CTA prints."""
        self.output.setdefault(position, []).append(text)

    def printed(self) -> str:
        """All that was printed, CTA after CTA."""
        return "".join(text for _, texts in sorted(self.output.items()) for text in texts)

    @staticmethod
    def unflatten(i: int, dims: tuple[int, int, int]) -> tuple[int, int, int]:
        """x, y, z of a linear index."""
        return i % dims[0], i // dims[0] % dims[1], i // (dims[0] * dims[1])

    def _called(self, i: int) -> str:
        """What messages call launch parameter `i`."""
        return f"argument {i}" if self.names is None else self.names[i]

    def _place_arrays(self, args: Sequence) -> dict[int, int]:
        """Give every array's memory an allocation; arrays that overlap share one. Returns {argument: address}."""
        spans = []
        tables = {i: a.words for i, a in enumerate(args) if isinstance(a, PointerTable)}
        plain = [a.array if isinstance(a, MapArgument) else a for a in args]
        arrays = [(i, a) for i, a in enumerate(plain) if isinstance(a, np.ndarray)]
        inside = [(i, k) for i, words in tables.items() for k, w in enumerate(words) if isinstance(w, np.ndarray)]
        arrays += [(len(args) + n, tables[i][k]) for n, (i, k) in enumerate(inside)]
        for i, a in arrays:
            if not a.dtype.isnative:
                what = self._called(i) if i < len(args) else f"an array in {self._called(inside[i - len(args)][0])}"
                raise LaunchError(f"{what} is an array of {a.dtype}, not in this machine's byte order")
            low, high = np.lib.array_utils.byte_bounds(a) if a.size else (a.ctypes.data, a.ctypes.data)
            spans.append((low, high, i, a))
        spans.sort(key=lambda s: (s[0], s[1], s[2]))
        out: dict[int, int] = {}
        groups: list[tuple[int, int, list]] = []
        for span in spans:
            if groups and span[0] < groups[-1][1]:
                low, high, members = groups[-1]
                groups[-1] = low, max(high, span[1]), [*members, span]
            else:
                groups.append((span[0], span[1], [span]))
        for low, high, members in sorted(groups, key=lambda g: min(m[2] for m in g[2])):    # the same places in every run
            raw = _bytes_at(low, high - low)
            first = min(m[2] for m in members)
            name = self._called(first) if first < len(args) else f"an array in {self._called(inside[first - len(args)][0])}"
            address = self.memory.add(name, raw)
            self._spans.append((raw, address, name, any(m[3].flags.writeable for m in members)))
            for member in members:
                out[member[2]] = address + (member[3].ctypes.data - low)
        for i, words in tables.items():
            at = {k: out[len(args) + n] for n, (j, k) in enumerate(inside) if j == i}
            content = np.array([at[k] if k in at else int(w) & 2**64 - 1 for k, w in enumerate(words)], np.uint64)
            out[i] = self.memory.add(self._called(i), content.view(np.uint8), readonly=True)
        self._keep = list(args)
        return out

    def _place_variables(self) -> None:
        for v in self.module.variables.values():
            if v.space in ("global", "const") and not v.extern:
                self.variable_addresses[v.name] = self.memory.add(v.name, v.data if v.data is not None else v.size,
                                                                  readonly=v.space == "const")
        for f in self.module.functions.values():
            for v in f.variables.values():
                if v.space in ("global", "const"):
                    data = v.data if v.data is not None else v.size
                    self.function_variables[f.name, v.name] = self.memory.add(v.name, data, readonly=v.space == "const")

    def _relocations(self) -> None:
        everything = [(v, self.variable_addresses.get(v.name)) for v in self.module.variables.values()]
        everything += [(v, self.function_variables[f.name, v.name]) for f in self.module.functions.values()
                       for v in f.variables.values() if (f.name, v.name) in self.function_variables]
        for v, address in everything:
            if not v.relocations or address is None:
                continue
            k = self.memory.starts.index(address - self.memory_base())
            data = np.array(self.memory.contents[k])
            for offset, name, addend in v.relocations:
                value = self.variable_addresses.get(name, self.function_addresses.get(name))
                if value is None:
                    raise LaunchError(f"{v.name} refers to the unknown name {name}")
                width = ptx.SIZES[v.type]
                data[offset:offset + width] = np.frombuffer((value + addend).to_bytes(8, "little")[:width], np.uint8)
            self.memory.contents[k] = data

    @staticmethod
    def memory_base() -> int:
        return GLOBAL_BASE

    def _parameters(self, args: Sequence, pointers: dict[int, int]) -> bytes:
        params = self.entry.params
        made = [p for p in params[len(args):] if p.name in self.module.recipes or (p.hidden and p.pointer)]
        if len(args) + len(made) != len(params):
            raise LaunchError(f"kernel {self.entry.name} takes {len(params)} parameters, {len(args)} were given")
        parts = [_scalar_bytes(i, p, pointers.get(i), a) for i, (p, a) in enumerate(zip(params, args))]
        values = [int.from_bytes(part, "little") for part in parts] if made else []
        for p in made:                                      # by the host
            parts.append(self.hidden_memory.to_bytes(8, "little") if p.pointer else
                         read_map(self.module.recipes[p.name]).encode(values))
        self._offsets: dict[str, int] = {}
        data = bytearray()
        for p, part in zip(self.entry.params, parts):
            data += bytes(-len(data) % max(p.align, 1))
            self._offsets[p.name] = len(data)
            data += part
        return bytes(data)

    def choose(self, only: Sequence[int] | None, cancels: Sequence[int] | None = None) -> None:
        """Run the clusters of these CTAs only. `cancels`: how many others each may cancel, in turn, from all over the grid."""
        if only is None:
            return
        wrong = [c for c in only if not 0 <= c < self.ctas]
        if wrong:
            raise LaunchError(f"CTA {wrong[0]} of a grid of {self.ctas}")
        self.chosen = sorted({c // self.cluster_size * self.cluster_size for c in only}, reverse=True)
        self.is_part = len(self.chosen) * self.cluster_size < self.ctas
        if cancels is not None:
            size, whole = self.cluster_size, self.ctas // self.cluster_size
            for i, first in enumerate(reversed(self.chosen)):
                most = cancels[i % len(cancels)]
                self.grants[first] = [(first // size + (k + 1) * whole // (most + 1)) % whole * size for k in range(most)]

    def cancel(self, first: int) -> int | None:
        """A cluster of the batch that begins with CTA `first` takes over one that hasn't started; None: there is none."""
        if self.grants:
            granted = self.grants[first]
            if not granted:
                return None
            self.cancelled[first] = self.cancelled.get(first, 0) + 1
            return granted.pop(0)
        if self.next >= self.ctas:
            return None
        self.next += self.cluster_size
        return self.next - self.cluster_size

    @property
    def waiting(self) -> bool:
        """Whether there are CTAs to start."""
        return bool(self.chosen) if self.chosen is not None else self.next < self.end

    def start(self, size: int) -> tuple[int, int]:
        """The next CTAs to run together, `size` at most: the first one and how many."""
        if self.chosen is not None:
            first = self.chosen.pop()
            self.next = first + self.cluster_size
            return first, self.cluster_size
        first = self.next
        self.next += min(size, self.end - first)
        return first, self.next - first

    def abandon(self) -> None:
        """Nothing of what the kernel did is to be kept."""
        self._spans.clear()

    def write_back(self) -> str | None:
        """Copy the arrays' memory back to the arrays. Returns the name of a read-only one that the kernel changed."""
        refused = None
        for raw, address, name, writeable in self._spans:
            for start in range(0, len(raw), CHUNK):
                old = raw[start:start + CHUNK]
                new = self.memory.bytes_at(address + start, len(old))
                if np.array_equal(old, new):
                    continue
                if writeable:
                    old[:] = new
                else:
                    refused = refused or name
        return refused


def _bytes_at(address: int, size: int) -> np.ndarray:
    if size == 0:
        return np.zeros(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def counted(entry: ptx.Function) -> tuple[int, int, int]:
    """How many CTAs in x, y, z a launch's grid counts as one: those of a cluster under `.blocksareclusters`. Raises LaunchError."""
    if "blocksareclusters" not in entry.directives:
        return 1, 1, 1
    required = entry.directives.get("reqnctapercluster")
    if not required:
        raise LaunchError(f"kernel {entry.name} is .blocksareclusters without .reqnctapercluster")
    return _dimensions(required[:3], "cluster")


def _cluster(entry: ptx.Function, grid: tuple[int, int, int], given) -> tuple[tuple[int, int, int], bool]:
    """The shape of a cluster, and whether one was asked for at all; raises LaunchError."""
    directives = entry.directives
    required = directives.get("reqnctapercluster")
    fixed = _dimensions(required[:3], "cluster") if required else None
    asked = _dimensions(given, "cluster") if given is not None else None
    if fixed is not None and asked is not None and fixed != asked:
        raise LaunchError(f"a cluster of {asked}, .reqnctapercluster asks for {fixed}")
    shape = fixed or asked
    if shape is None:
        if "explicitcluster" in directives:
            raise LaunchError(f"kernel {entry.name} is .explicitcluster: give `cluster`")
        return (1, 1, 1), False
    size = shape[0] * shape[1] * shape[2]
    if min(shape) < 1 or size > MAX_CLUSTER:
        raise LaunchError(f"a cluster of {size} CTAs; at most {MAX_CLUSTER} are allowed")
    limit = directives.get("maxclusterrank")
    if limit and size > int(limit[0]):
        raise LaunchError(f"a cluster of {size} CTAs, .maxclusterrank allows {int(limit[0])}")
    for axis, g, c in zip("xyz", grid, shape):
        if g % c:
            raise LaunchError(f"grid {grid} in CTAs isn't a multiple of the cluster {shape} in {axis}")
    return shape, True


def _dimensions(given, what: str) -> tuple[int, int, int]:
    dims = (given,) if isinstance(given, int | np.integer) else tuple(given)
    if not 1 <= len(dims) <= 3:
        raise LaunchError(f"{what} has {len(dims)} dimensions")
    x, y, z = (*(int(d) for d in dims), 1, 1)[:3]
    return x, y, z


def _scalar_bytes(i: int, p: ptx.Variable, pointer: int | None, a) -> bytes:
    """The bytes of one launch argument as parameter `p` holds them."""
    if isinstance(a, MapArgument):
        data = a.encode(pointer or 0)
        if p.size == len(data):
            return data
        raise LaunchError(f"argument {i} is a tensor map of {len(data)} bytes, parameter {p.name} has {p.size}")
    if pointer is not None:
        if p.size == 8:
            return pointer.to_bytes(8, "little")
        if isinstance(a, np.ndarray) and a.nbytes == p.size:
            return a.tobytes()
        raise LaunchError(f"argument {i} is an array, parameter {p.name} has {p.size} bytes")
    if isinstance(a, bytes | bytearray):
        if len(a) != p.size:
            raise LaunchError(f"argument {i} has {len(a)} bytes, parameter {p.name} has {p.size}")
        return bytes(a)
    if a is None and p.size == 8:
        return bytes(8)
    if isinstance(a, bool | int | float):
        if isinstance(a, float) and p.type not in ("f32", "f64"):
            a = np.float32(a) if p.size == 4 else np.float64(a)
        else:
            if p.type in ("f32", "f64"):
                return struct.pack("<f" if p.type == "f32" else "<d", a)
            return (int(a) & ((1 << 8 * p.size) - 1)).to_bytes(p.size, "little")
    scalar = np.asarray(a)
    if scalar.ndim or p.size > 8:
        raise LaunchError(f"argument {i} ({type(a).__name__}) doesn't fit parameter {p.name} of {p.size} bytes")
    if scalar.dtype.kind in "biu":
        if p.type in ("f32", "f64"):
            return struct.pack("<f" if p.type == "f32" else "<d", float(scalar))
        return (int(scalar) & ((1 << 8 * p.size) - 1)).to_bytes(p.size, "little")
    if scalar.nbytes == p.size:
        return scalar.tobytes()
    if p.type == "f32" or p.type == "f64":
        return struct.pack("<f" if p.type == "f32" else "<d", float(scalar))
    if scalar.nbytes < p.size:
        return scalar.tobytes().ljust(p.size, b"\0")
    raise LaunchError(f"argument {i} of type {scalar.dtype} doesn't fit parameter {p.name} of {p.size} bytes")


@lru_cache(maxsize=16)
def parse_cached(text: str) -> ptx.Module:
    """Parse PTX, keeping the last few modules."""
    with collection_paused():
        return parse(text)


@contextmanager
def collection_paused() -> Iterator[None]:
    """No cyclic garbage collection meanwhile: making a million small objects would otherwise trigger it again and
    again. Round a whole function, so that these are gone when it may run."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def choose_entry(module: ptx.Module, kernel: str | None) -> ptx.Function:
    """The entry function named, or the only one."""
    entries = [f for f in module.functions.values() if f.entry and f.defined]
    if kernel is None:
        if not entries:
            raise LaunchError("the module has no kernel")
        if len(entries) > 1:
            raise LaunchError(f"the module has {len(entries)} kernels; name one of: " + ", ".join(f.name for f in entries))
        return entries[0]
    for f in entries:
        if f.name == kernel:
            return f
    raise LaunchError(f"no kernel {kernel}; there are: {', '.join(f.name for f in entries) or 'none'}")


@collection_paused()
def simulate(ptx_text: str, kernel: str | None = None, grid=(1, 1, 1), args: Sequence = (), block=None, *,
             cluster=None, dynamic_shared: int = 0, max_instructions: int = DEFAULT_BUDGET, batch_threads: int = BATCH_THREADS,
             undefined: str = "propagate", races: bool = True, seed: int = 0,
             strict: bool = False, progress: Progress | None = None, names: Sequence[str] | None = None,
             cta_memory: bool = True, observer: Observer | None = None,
             only: Sequence[int] | None = None, processes: int | None = None, prompt: bool = False,
             cancels: Sequence[int] | None = None) -> Report:
    """Run a PTX kernel on NumPy arrays.

    `args`: the launch parameters in order (hidden ones behind them are made by their recipes); an array stands for a pointer
    to its memory (written in place), NumPy and Python scalars are converted to the parameter's size. `block` defaults to the
    kernel's `.reqntid`, or one thread.
    `cluster`: CTAs of a cluster in x, y, z, where the kernel has no `.reqnctapercluster`; the grid counts CTAs, or clusters where
    the kernel is `.blocksareclusters`.
    `dynamic_shared`: bytes of `extern .shared`. `max_instructions`: issued instructions before BudgetExceeded.
    `undefined`: "raise" makes any arithmetic on a register without a value a fault; "propagate" lets it pass (the
    result has no value either) until it reaches an address, global memory, an atomic or a matrix product; a branch on
    such a value becomes a finding of the report.
    `races`: watch shared and global memory for accesses of different warps that nothing orders; they become findings.
    `seed`: in which order and how late asynchronous operations happen; 0 is as late as may be.
    `strict`: also find what the ISA forbids and compilers rely on: mbarriers between accesses to tensor memory without
    tcgen05.fence, registers of tcgen05.ld used before tcgen05.wait::ld, and arithmetic between wgmma.fence and its product.
    `progress`: is kept up to date, for others to read. `names`: what messages call the launch parameters.
    `cta_memory`: whether the driver gives CTAs the memory that they ask for; an older one gives memory of SMs instead, by hidden
    pointers. `observer`: is told of every block and instruction (see `observe`). `only`: the CTAs to run, by number in the grid (x
    fastest), with the others of their clusters; the rest of the grid doesn't happen, and arrays keep what they hold.
    `prompt`: asynchronous operations happen when they are issued, and a warp's threads wait for those that poll, which is quicker
    and finds less. `cancels`: with `only`, how many others each of those may take over by clusterlaunchcontrol.try_cancel.
    `processes`: how many may run a large grid of independent blocks together (default: one an idle core, none from a thread);
    results, findings and counts don't depend on it.
    Raises a SimulationError for every fault. Returns a Report."""
    if undefined not in ("raise", "propagate"):
        raise LaunchError(f"undefined is {undefined!r}; it may be raise or propagate")
    module = parse_cached(ptx_text)
    entry = choose_entry(module, kernel)
    if block is None:
        block = (entry.directives.get("reqntid") or [1])[:3]
    try:
        launch = Launch(module, entry, grid, block, args, dynamic_shared, undefined, races, cluster, names, cta_memory)
        launch.observer = observer
        launch.choose(only, cancels)
    except LaunchError as error:
        error.locate(kernel=entry.name)
        raise
    required = entry.directives.get("reqntid")
    if required and int(np.prod(required)) != launch.threads:
        error = LaunchError(f"a block of {launch.threads} threads, .reqntid asks for {int(np.prod(required))}")
        error.locate(kernel=entry.name)
        raise error
    report = Report(entry.name)
    with np.errstate(all="ignore"):
        program = build(module, entry, launch)
        if observer is not None:
            observer.built(program)
        report.shared_bytes, report.local_bytes = program.shared_size, program.local_size
        hits = [0] * len(program.blocks)
        budget = [max_instructions, max_instructions]
        launch.seed, launch.strict, launch.prompt = seed, strict, prompt
        launch.progress = progress or Progress()
        launch.progress.total, launch.progress.budget = launch.ctas, budget
        launch.granule = program.global_granule
        again = False
        try:
            size = batch_size(program, launch, batch_threads)
            helpers = share.processes() if processes is None else processes
            batches = [*range(0, launch.ctas, size), launch.ctas]
            if helpers > 1 and len(batches) > share.LEAST and observer is None and only is None and races and program.apart:
                _share(program, launch, hits, budget, size, batches, helpers)
            else:
                _run_all(program, launch, hits, budget, size)
        except share.Dependent:
            launch.abandon()
            again = True
        except SimulationError as error:
            error.findings = list(launch.findings.values())
            error.output = launch.printed()
            raise
        finally:
            refused = launch.write_back() if only is None else None
            report.output = launch.printed()
            report.findings = list(launch.findings.values())
            report.issued = budget[1] - budget[0]
            report.bytes = launch.statistics.bytes
            report.bank_conflicts = launch.statistics.conflicts()
            report.shared_passes, report.global_sectors = total(launch.statistics.passes), total(launch.statistics.sectors)
            flops, work = tensor_flops(module, program.blocks, hits)
            report.flops = flops + launch.statistics.flops
            report.tensor_work = work + launch.statistics.tensor_work
            for block_, n in zip(program.blocks, hits):
                if n:
                    report.instructions += n * (len(block_.run) + (block_.end[0] != "fall"))
                    for kind in block_.kinds:
                        report.kinds[kind] = report.kinds.get(kind, 0) + n
            report.estimate = estimate(machine_for(module.target), report.kinds, report.bytes, report.tensor_work, launch.ctas,
                                       sum(a.nbytes for a in args if isinstance(a, np.ndarray)))
    if again:
        return simulate(ptx_text, kernel, grid, args, block, cluster=cluster, dynamic_shared=dynamic_shared,
                        max_instructions=max_instructions, batch_threads=batch_threads, undefined=undefined, races=races,
                        cta_memory=cta_memory, seed=seed, strict=strict, progress=progress, names=names, processes=1, prompt=prompt)
    if refused:
        error = LaunchError(f"{refused} is a read-only array, and the kernel changes it")
        error.locate(kernel=entry.name)
        raise error
    return report


def batch_size(program: Program, launch: Launch, batch_threads: int) -> int:
    """How many CTAs run together, so that a batch's arrays stay within BATCH_BYTES."""
    per_thread = sum(np.dtype(d).itemsize + 1 for d in program.storage) + 2 * program.local_size
    per_cta = per_thread * launch.padded + 2 * program.shared_size
    count = min(launch.ctas, batch_threads // launch.padded, BATCH_BYTES // max(per_cta, 1))
    return max(1, count // launch.cluster_size) * launch.cluster_size


def _share(program: Program, launch: Launch, hits: list[int], budget: list[int], size: int, batches: list[int],
           helpers: int) -> None:
    """`_run_all` in several processes. Raises share.Dependent."""
    def go() -> share.Told:
        before = budget[0]
        _run_all(program, launch, hits, budget, size)
        return share.Told(hits, before - budget[0], launch.statistics, launch.output)

    for told in share.run(launch, batches, min(helpers, len(batches) - 1), go):
        hits[:] = [a + b for a, b in zip(hits, told.hits)]
        budget[0] -= told.issued
        launch.output.update(told.output)
        share.join(launch.statistics, told.statistics)
    launch.progress.blocks = launch.ctas
    if budget[0] < 0:
        raise share.Dependent


def _run_all(program: Program, launch: Launch, hits: list[int], budget: list[int], size: int) -> None:
    if program.cancels:                      # leave clusters to cancel
        size = max(min(size, launch.ctas // 4) // launch.cluster_size, 1) * launch.cluster_size
    running: deque = deque()
    while running or launch.waiting:
        if not running:
            _start(running, program, launch, hits, budget, size)
        engine = running.popleft()
        try:
            next(engine)
        except StopIteration:
            continue
        running.append(engine)               # it only polls: let later CTAs run as well
        if launch.waiting and len(running) < MAX_RESIDENT:
            _start(running, program, launch, hits, budget, size)
            running.rotate(1)


MAX_RESIDENT = 64                 # batches that may be under way at once


def _start(running: deque, program, launch, hits, budget, size: int) -> None:
    running.append(Engine(Batch(program, launch, *launch.start(size)), hits, budget).run())
