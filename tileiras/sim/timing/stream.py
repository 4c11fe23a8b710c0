"""What does the timing engine replay? Streams of machine instructions, a warp each, with what every execution did.

The machine code says which instruction, with which control fields; the functional run says what an execution of it
touched. `Instruction` holds the first, once for each instruction of the code, and is shared by all its executions; a
payload holds the second. Offsets of barriers are bytes in the shared memory of the CTA with rank `cta` in the cluster.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

SECTOR_BYTES = 32


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """An instruction of the machine code. Compared by identity: there is one object for each place in the code.

    `index` counts within the function, `address` is the offset in its section. Registers are written as in the listing
    ("R4", "UR5", "P0", "UP1"); vectors are spelled out ("R4", "R5", "R6", "R7"). `operands` is the listing's text, for
    instructions that carry counts there (DEPBAR, BAR). `stall` is in cycles; `yield_flag` is the bit as encoded (0: may
    switch). Scoreboards are None or 0 to 5; `wait_mask` has a bit a scoreboard; `reuse` a bit an operand slot.
    """
    index: int
    address: int
    opcode: str                     # "LDG.E.128"
    base: str                       # "LDG"
    guard: str | None               # "P0", "!P0", "UP1"; None: always
    dst: tuple[str, ...]
    src: tuple[str, ...]
    operands: tuple[str, ...]
    stall: int
    yield_flag: int
    write_sb: int | None
    read_sb: int | None
    wait_mask: int
    reuse: int
    ptx_line: int                   # 0: the line table says nothing
    function: str


# ---- payloads

@dataclass(frozen=True, slots=True)
class Skipped:
    """The guard was false for all lanes: issued, without effect."""


@dataclass(frozen=True, slots=True)
class GlobalAccess:
    """A load, store or atomic on global memory. `sectors`: different absolute sector numbers (address // 32), sorted.
    `bytes`: what the lanes asked for. `cp.async` is an access with `to_shared`. `waves`: passes through the banks of L1 (as of
    shared memory); of an atomic, the most lanes at one word; 0: isn't known."""
    sectors: tuple[int, ...]
    bytes: int
    is_store: bool = False
    atomic: bool = False
    to_shared: bool = False
    passes: int = 0                 # of shared memory, where `to_shared`
    waves: int = 0


@dataclass(frozen=True, slots=True)
class SharedAccess:
    """ld, st, atom, ldmatrix, stmatrix on shared memory. `passes`: cycles of the 32-bank port. `cta`: the owner's rank
    where that is another CTA of the cluster, else None."""
    passes: int
    bytes: int
    is_store: bool = False
    atomic: bool = False
    cta: int | None = None


@dataclass(frozen=True, slots=True)
class BarrierOp:
    """bar.sync, bar.arrive, bar.red. `threads`: how many threads complete it. Cluster barriers have id CLUSTER."""
    id: int
    threads: int
    arrive_only: bool = False
    wait_only: bool = False         # barrier.cluster.wait


CLUSTER_BARRIER = -1


@dataclass(frozen=True, slots=True)
class MbarrierOp:
    """An operation on an mbarrier. `count`: arrivals (init: expected ones), all lanes together. `bytes`: expected
    transaction bytes added (negative: completed by complete_tx). `phase` of a wait: how many phases the barrier must have
    completed since its init; of other operations: the phase that was under way."""
    kind: Literal["init", "arrive", "expect", "wait", "inval"]
    offset: int
    cta: int
    phase: int
    count: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class BulkCopy:
    """cp.async.bulk and cp.async.bulk.tensor. A load completes `bytes` on the mbarrier at `offset` of each CTA in `ctas`
    in its phase `phase`; stores have no mbarrier and belong to the next bulk group. `sectors` are those of global memory;
    `boxes` counts the pieces the engine is given (one an instruction and lane). `to`: the CTAs that get the data, where those
    aren't `ctas`: with cta_group::2 a CTA's data may be told to its pair's mbarrier. An answer is what
    clusterlaunchcontrol.try_cancel writes."""
    direction: Literal["load", "store", "reduce", "prefetch", "shared", "answer"]
    bytes: int
    sectors: tuple[int, ...] = ()
    offset: int | None = None
    phase: int = 0
    ctas: tuple[int, ...] = ()
    boxes: int = 1
    to: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AsyncGroup:
    """Commit or wait of a group. A wait leaves at most `n` groups under way; `read`: only their reads must be done.
    A commit to an mbarrier (tcgen05.commit, cp.async.mbarrier.arrive) has its `offset`, `phase` and `ctas`."""
    family: Literal["cp.async", "bulk", "wgmma", "tcgen05"]
    kind: Literal["commit", "wait"]
    n: int = 0
    read: bool = False
    offset: int | None = None
    phase: int = 0
    ctas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Mma:
    """A matrix product given to an asynchronous tensor core. `shape`: m, n, k in elements of the whole instruction.
    `bits`: of an element of A. `a_from`, `b_from`: where operands are read. `ctas`: 2 for cta_group::2."""
    family: Literal["wgmma", "tcgen05"]
    shape: tuple[int, int, int]
    bits: int
    a_from: Literal["shared", "registers", "tensor"] = "shared"
    b_from: Literal["shared", "tensor"] = "shared"
    ctas: int = 1
    sparse: bool = False
    kind: str = ""                  # "f16", "tf32", "i8", "f8f6f4", "mxf4", ...


@dataclass(frozen=True, slots=True)
class TensorAccess:
    """tcgen05.ld, .st and .cp: columns of 32 bits moved by this warp, or bytes copied (`ctas` 2: in each of the pair)."""
    kind: Literal["ld", "st", "cp", "shift"]
    columns: int = 0
    bytes: int = 0
    ctas: int = 1


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What the lanes of a warp tell several mbarriers in one instruction: each its own, a CTA of the cluster each, say."""
    each: tuple[MbarrierOp | AsyncGroup, ...]


Payload: TypeAlias = (Skipped | GlobalAccess | SharedAccess | BarrierOp | MbarrierOp | BulkCopy | AsyncGroup | Mma | TensorAccess
                      | Arrivals | None)


# ---- streams

class Step(NamedTuple):
    """One execution. `payload` None: the functional run has nothing to say about it (arithmetic, spills, constants)."""
    instruction: Instruction
    payload: Payload


@dataclass(frozen=True, slots=True, eq=False)
class WarpStream:
    """A warp's instructions in the order of execution. `warp`: its number in the CTA."""
    warp: int
    steps: list[Step]


@dataclass(frozen=True, slots=True, eq=False)
class CtaStreams:
    """A CTA that was run and stands for `count` CTAs of the grid. `cta`: its place in the grid, x, y, z.

    `registers` a thread and `shared_bytes` (static, dynamic and reserved) are what occupancy needs. `peers`: the other
    CTAs of its cluster in the order of their ranks, itself included; empty without clusters. `tiles`: CTAs whose work it did,
    its own included; more than one where it took over others that hadn't started (clusterlaunchcontrol.try_cancel).
    `tensor_columns`: of tensor memory, at most at a time."""
    cta: tuple[int, int, int]
    count: int
    warps: tuple[WarpStream, ...]
    threads: int
    registers: int
    shared_bytes: int
    rank: int = 0
    peers: tuple[CtaStreams, ...] = ()
    tiles: int = 1
    tensor_columns: int = 0


@dataclass(frozen=True, slots=True)
class Joined:
    """How well the machine code's path explains the run: for every trace that was solved, anchors missed (`residual`) of
    `anchors`, and instructions executed where the path was searched rather than known, of all."""
    residual: float
    anchors: int
    searched: int
    instructions: int

    @property
    def share_searched(self) -> float:
        return self.searched / max(self.instructions, 1)


@dataclass(frozen=True, slots=True, eq=False)
class KernelStreams:
    """What a launch executes, by sampled CTAs. `is_joined` False: the machine code's path wasn't found (`reason` says
    why); `ctas` is then empty, and only the bound estimate is left. `arrays`: where the launch's memory lies, (address, bytes)."""
    kernel: str
    sm: int
    grid: tuple[int, int, int]
    cluster: tuple[int, int, int]
    ctas: tuple[CtaStreams, ...]
    joined: Joined
    is_joined: bool
    reason: str = ""
    notes: tuple[str, ...] = field(default=())
    arrays: tuple[tuple[int, int], ...] = ()
