"""wgmma: products by four warps together that happen between their issue and the wait for their group.

`wgmma.mma_async` takes the registers' values, issues an `Operation` for every warpgroup, and marks the registers as in
flight. The operation reads its tiles from shared memory when it happens and adds to the `Chain` of its accumulator (all
products of one shape into the same registers); `wgmma.wait_group` makes the operations of the groups it waits for
happen and puts the chains' values into the registers. Findings:

- a register of an operation in flight is used by anything but another product into the same accumulator;
- a product uses registers that the program has touched since the warpgroup's last `wgmma.fence`, or no fence came
  before its first product. Compilers put arithmetic between the fence and the first product behind it, and the assembler
  takes care of it: an operation from registers to registers counts only when a group was committed meanwhile, or with
  `strict=True`;
- products that nobody committed and waited for when the kernel ends.

One instruction rounds once: the products and the accumulator are summed in float64 (the ISA leaves order and rounding
open). Products of 8-bit floats are summed in fewer bits, as is known of Hopper: each summand is cut to FP8_FRACTION bits behind
the leading bit of the largest.
"""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from tileiras.sim.check.agents import Operation
from tileiras.sim.core import memory as mem
from tileiras.sim.core.decode import PURE, operation
from tileiras.sim.errors import DescriptorError, InFlight, InvalidInstruction, MissingFence, OutOfBounds
from tileiras.sim.matrix import descriptors, sparse
from tileiras.sim.matrix.fragments import accumulate, elements, gather_map, value_of, warps_of
from tileiras.sim.ptx import module as ptx

GROUP = 128                                     # threads of a warpgroup
_SHAPE = re.compile(r"m64n(\d+)k(\d+)$")
_WIDTH = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}
_INTEGERS = ("s8", "u8", "b1")
_FP8 = ("e4m3", "e5m2")
FP8_FRACTION = 13
"""Bits of a sum of products of 8-bit floats behind its leading one (found by others on H100: some 14 bits in all)."""
NEVER = -1


# ---- which registers products use, and who touches them

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
    if isinstance(operand, ptx.Register):
        return [operand]
    if isinstance(operand, ptx.Pair):
        return named(operand.first) + named(operand.second)
    if isinstance(operand, ptx.Vector):
        return [r for item in operand.items for r in named(item)]
    if isinstance(operand, ptx.Negated):
        return named(operand.item)
    if isinstance(operand, ptx.Memory):
        return named(operand.base) + [r for c in operand.coordinates or () for r in named(c)]
    return []


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


# ---- the product

class Product(Operation):
    """One warpgroup's product in flight. `product(st, old)`: the accumulator's new value from its old one."""

    def __init__(self, name: str, line: int, threads: np.ndarray, chain: Chain, slots: tuple[int, ...], reads: list,
                 after: list, compute) -> None:
        super().__init__(name, int(threads[0]), line, reads=reads, after=after)
        self.threads, self.chain, self.slots, self.product = threads, chain, slots, compute
        self.committed = False

    def perform(self, st) -> None:
        self.chain.value = self.product(st, self.chain.value)


@dataclass
class Tile:
    """An operand in shared memory: element type, `rows` (M or N) by `k`, and its major dimension."""
    kind: str
    rows: int
    k: int
    major: str

    def places(self, st, bits: int, lane: int) -> np.ndarray:
        """Byte offsets of the tile's chunks in the batch's shared memory, for a thread of the CTA. Raises."""
        try:
            d = descriptors.decode(bits, "wgmma")
            at = descriptors.chunk_addresses(d, self.major, self.rows, self.k, _WIDTH[self.kind])
        except DescriptorError as error:
            error.thread = lane
            raise
        low, high = int(at.min()), int(at.max()) + descriptors.CHUNK
        if low < mem.SHARED_START or high > st.program.shared_size:
            raise OutOfBounds(f"the tile of matrix descriptor {bits:#018x} takes shared addresses {low:#x} to {high:#x}; "
                              f"the shared variables take {mem.SHARED_START:#x} to {st.program.shared_size:#x}", thread=lane)
        return at + int(st.shared_base[lane])

    def load(self, st, at: np.ndarray) -> np.ndarray:
        """[rows, k] float64."""
        chunks = st.views["shared"].of(8, 2)[at // descriptors.CHUNK]
        return value_of(descriptors.unpack(chunks, self.major, self.rows, self.k, _WIDTH[self.kind]), self.kind)


def _flag(operand, what: str, allowed: tuple[int, int]) -> int:
    if not isinstance(operand, ptx.Immediate) or operand.value not in allowed:
        raise InvalidInstruction(f"{what} must be the constant {allowed[0]} or {allowed[1]}")
    return operand.value


def _check_form(ins, n: int, k: int, d: str, a: str, b: str, is_sparse: bool) -> None:
    """PTX ISA, the types and shapes of wgmma.mma_async."""
    width = _WIDTH.get(a)
    ok = width is not None and k == 256 // width * (1 + is_sparse)
    if a in ("f16", "bf16", "tf32"):
        ok = ok and b == a and d in (("f16", "f32") if a == "f16" else ("f32",))
    elif a in ("e4m3", "e5m2"):
        ok = ok and b in ("e4m3", "e5m2") and d in ("f16", "f32")
    elif a in ("s8", "u8"):
        ok = ok and b in ("s8", "u8") and d == "s32"
    else:
        ok = ok and b == "b1" and d == "s32" and not is_sparse and "and" in ins.parts and "popc" in ins.parts
    step = 16 if a in _INTEGERS and n > 32 else 8
    if not ok or n % step or not 8 <= n <= 256:
        raise InvalidInstruction(f"{ins.opcode}: no such shape or types")


@operation("wgmma")
def _wgmma(decoder, ins):
    if "sm_90a" not in decoder.module.target:
        raise InvalidInstruction(f"{ins.parts[0]} needs .target sm_90a, not {decoder.module.target}")
    if len(ins.parts) < 4 or ins.parts[-1 if ins.parts[1] != "mma_async" else 3] not in ("aligned", "sync"):
        raise InvalidInstruction(ins.opcode)
    what = ins.parts[1]
    if what == "fence":
        return _fence
    if what == "commit_group":
        return _commit
    if what == "wait_group":
        keep = ins.operands[0]
        if not isinstance(keep, ptx.Immediate):
            raise InvalidInstruction("wgmma.wait_group needs a constant")
        return lambda st: _wait(st, keep.value)
    if what == "mma_async":
        return _mma(decoder, ins)
    raise InvalidInstruction(ins.opcode)


def _fence(st) -> None:
    all_ = warpgroups(st)
    if len(st.lanes):
        all_.tick += 1
        all_.fenced[all_.active(st)] = all_.tick


def _commit(st) -> None:
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


def _wait(st, keep: int) -> None:
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


def _mma(decoder, ins):
    parts = ins.parts
    shape = next((found for p in parts if (found := _SHAPE.match(p))), None)
    kinds = [p for p in parts if p in _WIDTH or p in ("f32", "s32")]
    if shape is None or len(kinds) != 3 or "sync" not in parts or "aligned" not in parts:
        raise InvalidInstruction(ins.opcode)
    n, k = int(shape[1]), int(shape[2])
    td, ta, tb = kinds
    is_sparse = "sp" in parts
    _check_form(ins, n, k, td, ta, tb, is_sparse)
    integer = ta in _INTEGERS
    saturate = "satfinite" in parts
    if saturate and ta not in ("s8", "u8"):
        raise InvalidInstruction(f"{ins.opcode}: .satfinite is for integers")
    operands = list(ins.operands)
    d, a, b = operands[:3]
    rest = operands[3:]
    metadata = None
    if is_sparse:
        get_meta = decoder.source(rest[0], "b32")
        selector = rest[1]
        if not isinstance(selector, ptx.Immediate):
            raise InvalidInstruction("the sparsity selector must be a constant")
        metadata = sparse.Metadata(ta, 16, k, selector.value)
        rest = rest[2:]
    scale_d = decoder.source(rest[0], "pred")
    in_registers = isinstance(a, ptx.Vector)
    transposable = ta in ("f16", "bf16")
    expected = 1 if integer else 3 + (transposable and (1 if in_registers else 2))
    if len(rest) != expected:
        raise InvalidInstruction(f"{ins.opcode}: {expected} operands from scale-d on are needed, found {len(rest)}")
    sign, major_a, major_b = 1.0, "k", "k"
    if not integer:
        sign = float(_flag(rest[1], "imm-scale-a", (1, -1)) * _flag(rest[2], "imm-scale-b", (1, -1)))
    if transposable:
        if not in_registers:
            major_a = "mn" if _flag(rest[3], "imm-trans-a", (0, 1)) else "k"
        major_b = "mn" if _flag(rest[-1], "imm-trans-b", (0, 1)) else "k"
    stored = k // 2 if is_sparse else k
    ds = d.items if isinstance(d, ptx.Vector) else [d]
    if len(ds) != (n // 4 if td == "f16" else n // 2):
        raise InvalidInstruction(f"{ins.opcode}: wrong number of accumulator registers")
    for r in ds:
        if decoder.register_bits(r) != 32:
            raise InvalidInstruction(f"{ins.opcode}: accumulator register {r.name} isn't of 32 bits")
    slots_d = tuple(decoder.slot(r) for r in ds)
    raw_d = [decoder.raw_source(r, "b32")[0] for r in ds]
    slots_a: tuple[int, ...] = ()
    tile_a, tile_b = Tile(ta, 64, stored, major_a), Tile(tb, n, k, major_b)
    get_a = []
    if in_registers:
        if len(a.items) != 4:
            raise InvalidInstruction(f"{ins.opcode}: A takes four registers")
        get_a = [decoder.source(r, "b32") for r in a.items]
        slots_a = tuple(decoder.slot(r) for r in a.items if isinstance(r, ptx.Register))
        desc_a = None
    else:
        desc_a = decoder.source(a, "b64")
    desc_b = decoder.source(b, "b64")
    slots = tuple(dict.fromkeys(slots_d + slots_a))
    form = (n, td, k)
    name, line = "wgmma.mma_async", ins.line
    registers = f"{ins.opcode} "

    def run(st):
        lanes = st.lanes
        if not len(lanes):
            return
        state = warpgroups(st)
        if len(lanes) % GROUP or np.ptp(state.of[lanes].reshape(-1, GROUP), axis=1).any():
            raise InvalidInstruction("wgmma.mma_async is executed by an incomplete warpgroup", thread=int(lanes[0]))
        lanes = lanes.reshape(-1, GROUP)
        groups = state.of[lanes[:, 0]]
        state.check_fence(st, groups, lanes, slots)
        add = _uniform(st, scale_d, lanes, "scale-d")
        bits_b = _uniform(st, desc_b, lanes, "B's descriptor")
        bits_a = _uniform(st, desc_a, lanes, "A's descriptor") if desc_a is not None else None
        held = meta = None
        if in_registers:
            words = [w.reshape(-1, 32) for w in warps_of(st, get_a)]
            codes = elements(words, ta)[:, gather_map("a", 16, stored, _WIDTH[ta])]
            held = value_of(codes, ta).reshape(len(lanes), 64, stored)
        if metadata is not None:
            word, = warps_of(st, [get_meta])
            meta = metadata.columns(word, st).reshape(len(lanes), 64, stored)
        for i, g in enumerate(groups):
            chain = state.all[g].chains.get(slots_d)
            if chain is not None and chain.form != form:
                st.found(InFlight(f"{registers}: its accumulator holds a product of another shape in flight",
                                  thread=int(lanes[i, 0])))
                state.finish(st, int(g))
        fresh = [i for i, g in enumerate(groups) if slots_d not in state.all[g].chains]
        before = None
        if any(add[i] for i in fresh):
            for slot in slots_d:
                if st.I[slot] is not True:
                    bad = st.active if st.I[slot] is None else st.active & ~st.I[slot]
                    if bad[lanes[[i for i in fresh if add[i]]]].any():
                        st.check(slot)
            before = from_registers([np.ascontiguousarray(st.gathered(g(st))) for g in raw_d], n, td)
        for i, g in enumerate(groups):
            group = state.all[g]
            chain = group.chains.get(slots_d)
            others = [c for c in group.chains.values() if c.slots != slots_d and not set(c.slots).isdisjoint(slots)]
            if others:
                st.found(InFlight(f"register {st.program.names[min(set(others[0].slots) & set(slots))]} belongs to the "
                                  f"accumulator of the product of line {others[0].latest.line}, which is in flight",
                                  thread=int(lanes[i, 0])))
            if chain is None:
                chain = group.chains[slots_d] = Chain(slots_d, form, before[i] if before is not None else None)
            reads = []
            at_b = tile_b.places(st, int(bits_b[i]), int(lanes[i, 0]))
            reads.append(at_b)
            if bits_a is not None:
                at_a = tile_a.places(st, int(bits_a[i]), int(lanes[i, 0]))
                reads.append(at_a)
            else:
                at_a = None
            for at in reads:
                mem.check_written(st.written_views["shared"], at.reshape(-1), 8, 2, "shared",
                                  np.broadcast_to(lanes[i, :1], (at.size,)))
            compute = _computation(tile_a, tile_b, at_a, at_b, None if held is None else held[i],
                                   None if meta is None else meta[i], bool(add[i]), sign, td, integer, saturate, ta in _FP8)
            op = Product(name, line, lanes[i], chain, slots,
                         [("shared", at.reshape(-1)) for at in reads],
                         [group.latest] if group.latest is not None else [], compute)
            chain.pending += 1
            chain.latest = group.latest = op
            group.open.append(op)
            state.fly(int(g), op)
            st.agents.issue(op)
    return run


def narrow_sum(x: np.ndarray, y: np.ndarray, old: np.ndarray) -> np.ndarray:
    """x [m, k] times y [n, k] plus old, every summand cut to the bits that sums of 8-bit floats have."""
    products = x.astype(np.float32)[:, None, :] * y.astype(np.float32)[None, :, :]
    largest = np.maximum(np.maximum(products.max(axis=2), -products.min(axis=2)), np.abs(old))
    if not np.isfinite(largest).all():
        return x @ y.T + old
    per_step = np.ldexp(np.float32(1), 1 + FP8_FRACTION - np.frexp(largest)[1])
    products *= per_step[:, :, None]
    np.trunc(products, out=products)
    return (products.sum(axis=2) + np.trunc(old * per_step)) / per_step


def _uniform(st, get, lanes: np.ndarray, what: str) -> np.ndarray:
    """An operand that must be the same in all threads of a warpgroup, [groups]."""
    values = st.gathered(get(st)).reshape(lanes.shape)
    same = (values == values[:, :1]).all(axis=1)
    if not same.all():
        bad = int(np.argmin(same))
        raise InvalidInstruction(f"wgmma.mma_async: {what} differs between the threads of a warpgroup",
                                 thread=int(lanes[bad, np.argmax(values[bad] != values[bad, 0])]))
    return values[:, 0]


def _computation(tile_a: Tile, tile_b: Tile, at_a, at_b, held, meta, add: bool, sign: float, td: str, integer: bool,
                 saturate: bool, narrow: bool):
    """What a product does when it happens: the accumulator's old value to its new one. `narrow`: summed as 8-bit floats are."""
    def compute(st, value):
        x = tile_a.load(st, at_a) if held is None else held
        if meta is not None:
            x = sparse.expand(x, meta, tile_b.k)
        y = tile_b.load(st, at_b)
        old = np.zeros(1) if not add or value is None else value
        if narrow:
            return accumulate(narrow_sum(sign * x, y, old.astype(np.float64)), np.zeros(1), td, integer, saturate)
        product = x @ y.T
        if sign < 0:
            product = -product
        return accumulate(product, old.astype(np.int64 if integer else np.float64), td, integer, saturate)
    return compute
