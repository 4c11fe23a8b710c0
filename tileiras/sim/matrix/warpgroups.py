"""What a warpgroup has in flight: products that happen between their issue and the wait for their group, the accumulators that they
add to, and the registers that nobody may touch meanwhile. `wgmma` issues them.

Findings:

- a register of an operation in flight is used by anything but another product into the same accumulator;
- a product uses registers that the program has touched since the warpgroup's last `wgmma.fence`, or no fence came
  before its first product. Compilers put arithmetic between the fence and the first product behind it, and the assembler
  takes care of it: an operation from registers to registers counts only when a group was committed meanwhile, or with
  `strict=True`;
- products that nobody committed and waited for when the kernel ends.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np

from tileiras.sim.check.agents import Operation
from tileiras.sim.core.decode import PURE, destinations
from tileiras.sim.errors import InFlight, MissingFence
from tileiras.sim.ptx import module as ptx

GROUP = 128                                     # threads of a warpgroup
NEVER = -1


class Chain:
    """The accumulator of a warpgroup while products into it are in flight: `value` [64, n]. `form`: n, type, k."""

    def __init__(self, slots: tuple[int, ...], form: tuple, value: np.ndarray | None) -> None:
        self.slots, self.form, self.value = slots, form, value
        self.pending = 0                        # products that nobody has waited for
        self.latest: Operation | None = None


@dataclass
class Warpgroup:
    """What one warpgroup has issued. `groups`: committed groups nobody waited for, oldest first."""
    open: list = field(default_factory=list)
    groups: list[list] = field(default_factory=list)
    chains: dict[tuple[int, ...], Chain] = field(default_factory=dict)
    latest: Operation | None = None


class Warpgroups:
    """The warpgroups of a batch."""

    def __init__(self, st) -> None:
        per_cta = -(-st.padded // GROUP)
        self.count = st.ctas * per_cta
        self.of = st.cta_of * per_cta + st.everyone % st.padded // GROUP        # [threads]
        self.all = [Warpgroup() for _ in range(self.count)]
        self.tick = 1
        self.fenced = np.full(self.count, NEVER)        # ticks of the last fence and the last commit
        self.committed = np.full(self.count, NEVER)
        self.touched: dict[int, np.ndarray] = {}        # slot -> [groups] tick of the last use
        self.computed: dict[int, np.ndarray] = {}       # the same for operations from registers to registers
        self.flying: dict[int, list] = {}               # slot -> [products in flight that use it] by warpgroup
        self.busy = 0                                   # products that nobody has waited for

    def active(self, st) -> np.ndarray:
        """Numbers of the warpgroups with active threads."""
        if st.everything:
            return np.arange(self.count)
        return np.unique(self.of[st.lanes])

    def touch(self, st, slots: tuple[int, ...], pure: bool) -> None:
        """The active threads use registers that some product of the program uses."""
        groups = self.active(st)
        if self.busy:
            for slot in slots:
                users = self.flying.get(slot)
                if users is not None:
                    for g in groups:
                        if users[g]:
                            self._in_flight(st, int(g), slot, users[g][-1])
        kept = self.computed if pure else self.touched
        for slot in slots:
            ticks = kept.get(slot)
            if ticks is None:
                ticks = kept[slot] = np.full(self.count, NEVER)
            ticks[groups] = self.tick

    def _in_flight(self, st, g: int, slot: int, op: Product) -> None:
        lanes = st.lanes
        thread = int(lanes[np.argmax(self.of[lanes] == g)])
        how = "was committed and not waited for" if op.committed else "was never committed"
        what = "the accumulator" if slot in op.chain.slots else "matrix A"
        st.found(InFlight(f"register {st.program.names[slot]} is used while it holds {what} of the wgmma.mma_async of "
                          f"line {op.line}, which {how}", thread=thread))
        self.finish(st, g)                              # go on with what a wait would have given

    def finish(self, st, g: int) -> None:
        """All that a warpgroup has in flight happens now."""
        group = self.all[g]
        ops = [o for ops in [*group.groups, group.open] for o in ops]
        st.agents.finish(ops)
        group.groups, group.open = [], []
        self.settle(st, [(g, ops)])

    def check_fence(self, st, groups: np.ndarray, lanes: np.ndarray, slots: tuple[int, ...]) -> None:
        """A product by `groups` is about to use registers `slots`."""
        fenced = self.fenced[groups]
        bare = fenced == NEVER
        if bare.any():
            st.found(MissingFence("wgmma.mma_async without a wgmma.fence before the warpgroup's first product",
                                  thread=int(lanes[np.argmax(bare), 0])))
            return
        for slot in slots:
            late = None
            if slot in self.touched:
                late = self.touched[slot][groups] >= fenced
            if slot in self.computed:
                used, committed = self.computed[slot][groups], self.committed[groups]
                wrong = (used >= fenced) & st.launch.strict | (committed > fenced) & (used >= committed)
                late = wrong if late is None else late | wrong
            if late is not None and late.any():
                name = st.program.names[slot]
                st.found(MissingFence(f"register {name} was used since the last wgmma.fence: another one is needed before "
                                      "this product", thread=int(lanes[np.argmax(late), 0])))
                return

    def fly(self, g: int, op: Product) -> None:
        """A product's registers are in flight from now on."""
        self.busy += 1
        for slot in op.slots:
            users = self.flying.get(slot)
            if users is None:
                users = self.flying[slot] = [[] for _ in range(self.count)]
            users[g].append(op)

    def settle(self, st, done: list[tuple[int, list]]) -> None:
        """Products that have happened are waited for: put the chains that nothing adds to any more into registers."""
        ready: dict[tuple, list] = {}
        for g, ops in done:
            group = self.all[g]
            for op in ops:
                self.busy -= 1
                if st.order is not None:
                    for thread in op.threads[::32].tolist():
                        st.order.waited(thread, op)
                for slot in op.slots:
                    self.flying[slot][g].remove(op)
                op.chain.pending -= 1
                if op.chain.pending == 0:
                    del group.chains[op.chain.slots]
                    ready.setdefault((op.chain.slots, op.chain.form), []).append((op.threads, op.chain.value))
        for (slots, form), found in ready.items():
            threads = np.concatenate([t for t, _ in found])
            values = np.stack([v for _, v in found])                        # [groups, 64, n]
            for slot, column in zip(slots, to_registers(values, *form[:2])):
                deposit(st, slot, threads, column)


def deposit(st, slot: int, threads: np.ndarray, values: np.ndarray) -> None:
    """Assign a register in some threads of the batch."""
    storage = st.program.storage[slot]
    values = values.view(storage) if values.dtype.itemsize == np.dtype(storage).itemsize else values.astype(storage)
    if len(threads) == st.size:
        whole = np.empty(st.size, storage)
        whole[threads] = values
        st.R[slot], st.I[slot] = whole, True
        return
    old = st.R[slot]
    whole = np.zeros(st.size, storage) if old is None else np.array(np.broadcast_to(old, (st.size,)))
    whole[threads] = values
    st.R[slot] = whole
    if st.I[slot] is not True:
        written = np.zeros(st.size, bool) if st.I[slot] is None else st.I[slot].copy()
        written[threads] = True
        st.I[slot] = written


def warpgroups(st) -> Warpgroups:
    """The batch's warpgroups, made on first use."""
    if st.wgmma is None:
        st.wgmma = Warpgroups(st)
    return st.wgmma


def named(operand) -> list[ptx.Register]:
    """All registers that an operand names."""
    if isinstance(operand, ptx.Negated):
        return named(operand.item)
    if isinstance(operand, ptx.Memory):
        return named(operand.base) + [r for c in operand.coordinates or () for r in named(c)]
    return destinations(operand)


def register_operands(ins) -> list[ptx.Register]:
    """The registers of a wgmma.mma_async that are in flight after it: the accumulator's and A's."""
    if ins.parts[:2] != ("wgmma", "mma_async"):
        return []
    found = named(ins.operands[0])
    return found + named(ins.operands[1]) if isinstance(ins.operands[1], ptx.Vector) else found


def watcher(decoder, instructions: list):
    """A wrapper of closures `wrap(run, instruction)` for the instructions of a kernel: those that name a register of a
    product are watched. `instructions`: (instance of the function, instruction)."""
    slots: set[int] = set()
    for instance, ins in instructions:
        decoder.instance = instance
        slots.update(decoder.slot(r) for r in register_operands(ins))

    def wrap(run, ins):
        names = [r for o in ins.operands for r in named(o)]
        used = tuple(dict.fromkeys(s for s in map(decoder.slot, names) if s in slots))
        return watched(run, used, ins.parts[0] in PURE or ins.parts[0] == "mov") if used else run
    return wrap


def watched(run, slots: tuple[int, ...], pure: bool):
    """An instruction that names registers of products: who touches them is noted and checked."""
    def careful(st):
        if st.wgmma is not None and len(st.lanes):
            st.wgmma.touch(st, slots, pure)
        run(st)
    return careful


# ---- fragments

@cache
def fragment_places(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns [128, n / 2] of the elements of the accumulator that each thread holds."""
    lane, i = np.arange(GROUP)[:, None], np.arange(n // 2)[None, :]
    row = lane // 32 * 16 + lane % 32 // 4 + 8 * (i >> 1 & 1)
    column = 8 * (i >> 2) + 2 * (lane % 4) + (i & 1)
    return row, column


def to_registers(values: np.ndarray, n: int, kind: str) -> list[np.ndarray]:
    """Accumulators [groups, 64, n] to one array [groups * 128] for each register of the fragment."""
    row, column = fragment_places(n)
    held = values[:, row, column].reshape(-1, n // 2)
    if kind == "f16":
        words = np.ascontiguousarray(held.astype(np.float16)).view(np.uint32)
    else:
        words = np.ascontiguousarray(held).view(np.uint32)
    return [np.ascontiguousarray(words[:, i]) for i in range(words.shape[1])]


def from_registers(registers: list[np.ndarray], n: int, kind: str) -> np.ndarray:
    """Registers, each [groups * 128] uint32, to accumulators [groups, 64, n] of the accumulator's type."""
    words = np.stack(registers, axis=-1).reshape(-1, GROUP, len(registers))
    held = np.ascontiguousarray(words).view({"f16": np.float16, "f32": np.float32, "s32": np.int32}[kind])
    row, column = fragment_places(n)
    out = np.empty((len(held), 64, n), held.dtype)
    out[:, row, column] = held
    return out


class Product(Operation):
    """One warpgroup's product in flight. `product(st, old)`: the accumulator's new value from its old one."""

    def __init__(self, name: str, line: int, threads: np.ndarray, chain: Chain, slots: tuple[int, ...], reads: list,
                 after: list, compute) -> None:
        super().__init__(name, int(threads[0]), line, reads=reads, after=after)
        self.threads, self.chain, self.slots, self.product = threads, chain, slots, compute
        self.committed = False

    def perform(self, st) -> None:
        self.chain.value = self.product(st, self.chain.value)


# ---- fences, commits, waits

def fence(st) -> None:
    all_ = warpgroups(st)
    if len(st.lanes):
        all_.tick += 1
        all_.fenced[all_.active(st)] = all_.tick


def commit(st) -> None:
    all_ = warpgroups(st)
    if len(st.lanes):
        all_.tick += 1
        groups = all_.active(st)
        all_.committed[groups] = all_.tick
        for g in groups:
            group = all_.all[g]
            for op in group.open:
                op.committed = True
            group.groups.append(group.open)
            group.open = []


def wait(st, keep: int) -> None:
    all_ = warpgroups(st)
    done = []
    for g in all_.active(st) if len(st.lanes) else ():
        group = all_.all[g]
        count = len(group.groups) - keep
        if count > 0:
            ops = [op for ops in group.groups[:count] for op in ops]
            group.groups = group.groups[count:]
            if ops:
                done.append((int(g), ops))
    st.agents.finish([op for _, ops in done for op in ops])
    all_.settle(st, done)


def leftovers(st) -> None:
    """The batch has ended: products that nobody waited for are findings."""
    for group in st.wgmma.all if st.wgmma is not None else ():
        for op in [o for ops in group.groups for o in ops][:1] + group.open[:1]:
            how = "committed but nobody waited for it" if op.committed else "never committed"
            st.found(InFlight(f"the kernel ends with a product in flight: it was {how}", thread=op.lane), op.line)
