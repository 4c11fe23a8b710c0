"""The state of one batch of CTAs: registers of all its threads as NumPy arrays, masks, shared and local memory.

A batch holds `ctas` CTAs of `padded` threads each (a multiple of 32; the threads past the real ones never live), so a
register is one array of `ctas * padded` elements in thread order, warp by warp. A register that holds the same value
in every thread may be an array of one element; NumPy's broadcasting makes arithmetic on it cheap.

The threads that execute are described by `mask`: None when all living threads do. With few active threads, `index`
holds their numbers and operands are gathered before the arithmetic instead of masked after it.
"""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tileiras.sim.check.agents import Agents
from tileiras.sim.check.order import Order
from tileiras.sim.check.shadow import Shadow
from tileiras.sim.core.memory import LOCAL_START, SHARED_START, Views
from tileiras.sim.errors import UninitializedRead

COMPACT = 4        # below 1/COMPACT active threads, gather instead of masking
NO_BIT, EVERY_BIT = np.zeros(1, np.uint64), np.full(1, 2**64 - 1, np.uint64)


class Batch:
    """Registers, masks and private memories of a group of CTAs that run in lockstep."""

    def __init__(self, program, launch, first: int, ctas: int) -> None:
        self.program = program
        self.launch = launch
        self.memory = launch.memory
        self.first, self.ctas = first, ctas
        self.cluster_size = launch.cluster_size
        self.threads = launch.threads
        self.padded = launch.padded
        self.size = ctas * self.padded
        n = len(program.storage)
        self.R: list = [None] * n
        self.I: list = [None] * n
        self.lacking: dict[int, np.ndarray] = {}    # of registers in part without a value: the bits that lack one, where I is false
        self.live = np.ones(self.size, bool)
        if self.threads != self.padded:
            self.live.reshape(ctas, self.padded)[:, self.threads:] = False
        self.all_live = self.threads == self.padded
        self.mask: np.ndarray | None = None
        self.index: np.ndarray | None = None
        self._lanes: np.ndarray | None = None
        self.everyone = np.arange(self.size, dtype=np.int64)
        self.cta_of = np.repeat(np.arange(ctas, dtype=np.int64), self.padded)
        self.rank_of = self.cta_of % self.cluster_size          # of each thread's CTA in its cluster
        self.exited: np.ndarray = np.zeros(ctas, bool)                      # CTAs all of whose threads are gone
        self.shared_stride = (program.shared_size - SHARED_START + 127) // 128 * 128
        self.shared = np.zeros(ctas * self.shared_stride, np.uint8)
        self.shared_written = np.zeros(ctas * self.shared_stride, np.uint8)
        self.shared_base = np.repeat(np.arange(ctas, dtype=np.int64) * self.shared_stride - SHARED_START, self.padded)
        self.local_stride = (program.local_size - LOCAL_START + 31) // 32 * 32
        self.local = np.zeros(self.size * self.local_stride, np.uint8)
        self.local_written = np.zeros(self.size * self.local_stride, np.uint8)
        self.local_base = self.everyone * self.local_stride - LOCAL_START
        self.views = {"shared": Views(self.shared), "local": Views(self.local), "global": self.memory.views}
        self.written = {"shared": self.shared_written, "local": self.local_written}
        self.written_views = {"shared": Views(self.shared_written), "local": Views(self.local_written)}
        self.special: dict = {}
        self.yielded = False          # the running fragment polls
        self.moved = False            # what threads may wait for has happened: an mbarrier's phase, columns or registers freed
        self.tainted = None           # threads in which an operand of this instruction had no value
        self.undefined = None         # elements of the last load that had no value
        self.copies = None            # asynccopy state, made on first use
        self.barriers: dict = {}
        self.cluster_barrier = None   # clusters.ClusterState, made on first use
        self.registers = None         # launchcontrol.Registers, made on first use
        self.tensor = None            # tensormemory.TensorMemory, made on first use
        self.wgmma = None             # wgmma.Warpgroups, made on first use
        self.agents = Agents(self, launch.seed, launch.prompt)
        self.mbarriers = None         # mbarrier.Table, made on first use
        self.bulk_groups = None       # bulk.Groups, made on first use
        self.inflight = None          # inflight.Registers, made on first use
        self.found = lambda error, line=0: None
        self.where: Callable[[], int] = lambda: 0
        self.remark = lambda line, slot: None
        self.order: Order | None = None         # both None when races aren't watched
        self.shadow: Shadow | None = None
        if launch.watch_races:
            self.order = Order(self)
            self.shadow = Shadow(self)
            self.visits = np.zeros((ctas, self.order.agents), np.int32)     # last use of a CTA's shared memory by others
        self.clock = 0

    def forget(self) -> None:
        """The batch is over: drop everything, since its parts refer to it and no collector runs meanwhile."""
        self.__dict__.clear()

    # ---- masks
    def set_mask(self, mask: np.ndarray | None) -> None:
        """Make `mask` (or all living threads, for None) the active threads."""
        self.mask = mask
        self._lanes = None
        if mask is None:
            self.index = None
            return
        count = np.count_nonzero(mask)
        if count * COMPACT < self.size:
            self.index = self._lanes = np.flatnonzero(mask)
        else:
            self.index = None

    def within(self, mask: np.ndarray, run) -> None:
        """Call `run(self)` with other active threads."""
        saved = self.mask, self.index, self._lanes
        self.set_mask(mask)
        try:
            run(self)
        finally:
            self.mask, self.index, self._lanes = saved

    @property
    def active(self) -> np.ndarray:
        """The active threads as a boolean array."""
        return self.live if self.mask is None else self.mask

    @property
    def lanes(self) -> np.ndarray:
        """The numbers of the active threads, ascending."""
        if self._lanes is None:
            if self.mask is None and self.all_live:
                self._lanes = self.everyone
            else:
                self._lanes = np.flatnonzero(self.active)
        return self._lanes

    @property
    def everything(self) -> bool:
        """Whether every thread of the batch is active."""
        return self.mask is None and self.all_live

    # ---- registers
    def check(self, slot: int) -> None:
        """Raise UninitializedRead when an active thread has never written register `slot`."""
        written = self.I[slot]
        if written is True:
            return
        active = self.active
        bad = active if written is None else active & ~written
        if bad.any():
            name = self.program.names[slot]
            raise UninitializedRead(f"register {name} is read before it is written", thread=int(np.argmax(bad)))

    def is_written(self, slot: int) -> bool:
        """Whether every active thread has written register `slot`."""
        written = self.I[slot]
        if written is True:
            return True
        return written is not None and not (self.active & ~written).any()

    def write(self, slot: int, value: np.ndarray) -> None:
        """Assign an operation's result, laid out as operands come (whole batch, or gathered when `index` is set)."""
        if self.mask is None:
            self.R[slot] = value
            self.I[slot] = True
            return
        old = self.R[slot]
        if value.ndim == 2:
            new = np.zeros((self.size, 2), np.uint64) if old is None else np.array(old)
            chosen = self.mask if self.index is None else self.index
            new[chosen] = value if self.index is not None else value[chosen]
        elif self.index is not None:
            new = np.zeros(self.size, value.dtype) if old is None else \
                np.array(np.broadcast_to(old, (self.size,)))
            new[self.index] = value
        elif old is None:
            new = np.where(self.mask, value, np.zeros(1, value.dtype))
        else:
            new = np.where(self.mask, value, old)
        self.R[slot] = new
        self._mark(slot)

    def _mark(self, slot: int) -> None:
        written = self.I[slot]
        if written is True:
            return
        assert self.mask is not None
        self.I[slot] = self.mask.copy() if written is None else written | self.mask

    def scatter(self, slot: int, value: np.ndarray) -> None:
        """Assign a result that has one element for each of `lanes` (or one for all)."""
        if self.index is not None or value.size == 1 or self.everything:
            self.write(slot, value)
            return
        whole = np.zeros((self.size, *value.shape[1:]), value.dtype)
        whole[self.lanes] = value
        self.write(slot, whole)

    def gathered(self, value: np.ndarray) -> np.ndarray:
        """An operand reduced to one element for each of `lanes`."""
        if value.size == 1:
            return np.broadcast_to(value, (len(self.lanes),))
        if self.index is not None or self.everything:
            return value
        return value[self.lanes]

    def spread(self, value: np.ndarray) -> np.ndarray:
        """An operand as an array over the whole batch (undefined in inactive threads)."""
        if value.size == self.size:
            return value
        if value.size == 1:
            return np.broadcast_to(value, (self.size,))
        whole = np.zeros(self.size, value.dtype)
        whole[self.index] = value
        return whole

    def unwrite(self, slot: int, bad: np.ndarray, bits: np.ndarray | None = None) -> None:
        """Make register `slot` count as never written in the threads of `bad`; with `bits`, only these bits of it."""
        if bits is not None:
            bad = bad & (bits != 0)
        if bad.any():
            written = self.I[slot]
            if written is not None:
                self.I[slot] = ~bad if written is True else written & ~bad
            if bits is not None or slot in self.lacking:
                lacking = np.where(bad, EVERY_BIT if bits is None else bits, self.lacking.get(slot, EVERY_BIT))
                self.lacking[slot] = lacking

    def missing_bits(self, slot: int) -> np.ndarray:
        """The bits of register `slot` that have no value: a word of 64 bits for each thread, or one for all."""
        written = self.I[slot]
        if written is True:
            return NO_BIT
        lacking = self.lacking.get(slot, EVERY_BIT)
        return lacking if written is None else np.where(written, NO_BIT, lacking)
