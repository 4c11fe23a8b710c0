"""wgmma: products by four warps together that happen between their issue and the wait for their group.

`wgmma.mma_async` takes the registers' values, issues an `Operation` for every warpgroup, and marks the registers as in
flight. The operation reads its tiles from shared memory when it happens and adds to the `Chain` of its accumulator (all
products of one shape into the same registers); `wgmma.wait_group` makes the operations of the groups it waits for
happen and puts the chains' values into the registers (`warpgroups`).

One instruction rounds once: the products and the accumulator are summed in float64 (the ISA leaves order and rounding
open). Products of 8-bit floats are summed in fewer bits, as is known of Hopper: each summand is cut to FP8_FRACTION bits behind
the leading bit of the largest.
"""
from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileiras.sim.core import memory as mem
from tileiras.sim.core.decode import operation
from tileiras.sim.errors import DescriptorError, InFlight, InvalidInstruction, OutOfBounds
from tileiras.sim.matrix import descriptors, sparse
from tileiras.sim.matrix.fragments import accumulate, elements, gather_map, value_of, warps_of
from tileiras.sim.matrix.warpgroups import (
    GROUP,
    Chain,
    Product,
    Warpgroup,
    Warpgroups,
    commit,
    fence,
    from_registers,
    wait,
    warpgroups,
)
from tileiras.sim.ptx import module as ptx

_SHAPE = re.compile(r"m64n(\d+)k(\d+)$")
_WIDTH = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}
_INTEGERS = ("s8", "u8", "b1")
_FP8 = ("e4m3", "e5m2")
FP8_FRACTION = 13
"""Bits of a sum of products of 8-bit floats behind its leading one (found by others on H100: some 14 bits in all)."""


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
        return fence
    if what == "commit_group":
        return commit
    if what == "wait_group":
        keep = ins.operands[0]
        if not isinstance(keep, ptx.Immediate):
            raise InvalidInstruction("wgmma.wait_group needs a constant")
        return lambda st: wait(st, keep.value)
    if what == "mma_async":
        return _mma(decoder, ins)
    raise InvalidInstruction(ins.opcode)


@dataclass
class Instruction:
    """A wgmma.mma_async, decoded: m64n`n`k`k` of type `td`, its operands' sources and the slots of the registers it uses."""
    opcode: str
    line: int
    n: int
    k: int
    td: str
    tile_a: Tile
    tile_b: Tile
    sign: float
    saturate: bool
    scale_d: Any
    desc_b: Any
    desc_a: Any                     # None where A is in registers
    get_a: list                     # of A's registers
    get_d: list
    slots_d: tuple[int, ...]
    slots: tuple[int, ...]
    metadata: sparse.Metadata | None
    get_metadata: Any

    @property
    def form(self) -> tuple[int, str, int]:
        """What two products have in common that the hardware orders by itself."""
        return self.n, self.td, self.k

    def run(self, st) -> None:
        """Issue a product for every warpgroup."""
        if not len(st.lanes):
            return
        state = warpgroups(st)
        if len(st.lanes) % GROUP or np.ptp(state.of[st.lanes].reshape(-1, GROUP), axis=1).any():
            raise InvalidInstruction("wgmma.mma_async is executed by an incomplete warpgroup", thread=int(st.lanes[0]))
        lanes = st.lanes.reshape(-1, GROUP)
        groups = state.of[lanes[:, 0]]
        state.check_fence(st, groups, lanes, self.slots)
        add = _uniform(st, self.scale_d, lanes, "scale-d")
        bits_b = _uniform(st, self.desc_b, lanes, "B's descriptor")
        bits_a = _uniform(st, self.desc_a, lanes, "A's descriptor") if self.desc_a is not None else None
        held, meta = self._held(st, len(lanes)), self._kept(st, len(lanes))
        self._finish_other_forms(st, state, groups, lanes)
        before = self._sums_so_far(st, state, groups, lanes, add)
        for i, g in enumerate(groups):
            chain = self._chain(st, state.all[g], int(lanes[i, 0]), before[i] if before is not None else None)
            at_b = self.tile_b.places(st, int(bits_b[i]), int(lanes[i, 0]))
            at_a = self.tile_a.places(st, int(bits_a[i]), int(lanes[i, 0])) if bits_a is not None else None
            reads = [at_b] if at_a is None else [at_b, at_a]
            for at in reads:
                mem.check_written(st.written_views["shared"], at.reshape(-1), 8, 2, "shared",
                                  np.broadcast_to(lanes[i, :1], (at.size,)))
            compute = _computation(self.tile_a, self.tile_b, at_a, at_b, None if held is None else held[i],
                                   None if meta is None else meta[i], bool(add[i]), self.sign, self.td,
                                   self.tile_a.kind in _INTEGERS, self.saturate, self.tile_a.kind in _FP8)
            group = state.all[g]
            op = Product("wgmma.mma_async", self.line, lanes[i], chain, self.slots, [("shared", at.reshape(-1)) for at in reads],
                         [group.latest] if group.latest is not None else [], compute)
            chain.pending += 1
            chain.latest = group.latest = op
            group.open.append(op)
            state.fly(int(g), op)
            st.agents.issue(op)

    def _held(self, st, groups: int) -> np.ndarray | None:
        """[groups, 64, stored]: A, where it is in registers."""
        if self.desc_a is not None:
            return None
        element, stored = self.tile_a.kind, self.tile_a.k
        words = [w.reshape(-1, 32) for w in warps_of(st, self.get_a)]
        codes = elements(words, element)[:, gather_map("a", 16, stored, _WIDTH[element])]
        return value_of(codes, element).reshape(groups, 64, stored)

    def _kept(self, st, groups: int) -> np.ndarray | None:
        """[groups, 64, stored]: the columns that a sparse A keeps."""
        if self.metadata is None:
            return None
        word, = warps_of(st, [self.get_metadata])
        return self.metadata.columns(word, st).reshape(groups, 64, self.tile_a.k)

    def _finish_other_forms(self, st, state: Warpgroups, groups: np.ndarray, lanes: np.ndarray) -> None:
        for i, g in enumerate(groups):
            chain = state.all[g].chains.get(self.slots_d)
            if chain is not None and chain.form != self.form:
                st.found(InFlight(f"{self.opcode}: its accumulator holds a product of another shape in flight",
                                  thread=int(lanes[i, 0])))
                state.finish(st, int(g))

    def _sums_so_far(self, st, state: Warpgroups, groups: np.ndarray, lanes: np.ndarray, add: np.ndarray) -> np.ndarray | None:
        """[groups, 64, n]: what the accumulators' registers hold, where a chain begins with that."""
        begun = [i for i, g in enumerate(groups) if add[i] and self.slots_d not in state.all[g].chains]
        if not begun:
            return None
        for slot in self.slots_d:
            if st.I[slot] is not True:
                bad = st.active if st.I[slot] is None else st.active & ~st.I[slot]
                if bad[lanes[begun]].any():
                    st.check(slot)
        return from_registers([np.ascontiguousarray(st.gathered(g(st))) for g in self.get_d], self.n, self.td)

    def _chain(self, st, group: Warpgroup, thread: int, before: np.ndarray | None) -> Chain:
        """The accumulator's chain, begun with `before` where there is none."""
        others = [c for c in group.chains.values() if c.slots != self.slots_d and not set(c.slots).isdisjoint(self.slots)]
        if others:
            slot, latest = min(set(others[0].slots) & set(self.slots)), others[0].latest
            assert latest is not None
            st.found(InFlight(f"register {st.program.names[slot]} belongs to the accumulator of the product of line {latest.line}, "
                              "which is in flight", thread=thread))
        if self.slots_d not in group.chains:
            group.chains[self.slots_d] = Chain(self.slots_d, self.form, before)
        return group.chains[self.slots_d]


def _mma(decoder, ins):
    parts = ins.parts
    shape = next((found for p in parts if (found := _SHAPE.match(p))), None)
    kinds = [p for p in parts if p in _WIDTH or p in ("f32", "s32")]
    if shape is None or len(kinds) != 3 or "sync" not in parts or "aligned" not in parts:
        raise InvalidInstruction(ins.opcode)
    n, k = int(shape[1]), int(shape[2])
    td, ta, tb = kinds
    is_sparse, saturate = "sp" in parts, "satfinite" in parts
    _check_form(ins, n, k, td, ta, tb, is_sparse)
    if saturate and ta not in ("s8", "u8"):
        raise InvalidInstruction(f"{ins.opcode}: .satfinite is for integers")
    d, a, b, *rest = ins.operands
    metadata = get_metadata = None
    if is_sparse:
        get_metadata = decoder.source(rest[0], "b32")
        if not isinstance(rest[1], ptx.Immediate):
            raise InvalidInstruction("the sparsity selector must be a constant")
        metadata = sparse.Metadata(ta, 16, k, rest[1].value)
        rest = rest[2:]
    scale_d = decoder.source(rest[0], "pred")
    sign, major_a, major_b = _flags(ins, rest, ta, isinstance(a, ptx.Vector))
    ds = _accumulator(decoder, ins, d, n // 4 if td == "f16" else n // 2)
    slots_d = tuple(decoder.slot(r) for r in ds)
    get_d = [decoder.raw_source(r, "b32")[0] for r in ds]
    slots_a: tuple[int, ...] = ()
    get_a, desc_a = [], None
    if isinstance(a, ptx.Vector):
        if len(a.items) != 4:
            raise InvalidInstruction(f"{ins.opcode}: A takes four registers")
        get_a = [decoder.source(r, "b32") for r in a.items]
        slots_a = tuple(decoder.slot(r) for r in a.items if isinstance(r, ptx.Register))
    else:
        desc_a = decoder.source(a, "b64")
    return Instruction(ins.opcode, ins.line, n, k, td, Tile(ta, 64, k // 2 if is_sparse else k, major_a), Tile(tb, n, k, major_b),
                       sign, saturate, scale_d, decoder.source(b, "b64"), desc_a, get_a, get_d, slots_d,
                       tuple(dict.fromkeys(slots_d + slots_a)), metadata, get_metadata).run


def _flags(ins, rest: Sequence, ta: str, in_registers: bool) -> tuple[float, str, str]:
    """The product's sign and the operands' major dimensions, from the constants behind scale-d."""
    transposable = ta in ("f16", "bf16")
    expected = 1 if ta in _INTEGERS else 3 + (transposable and (1 if in_registers else 2))
    if len(rest) != expected:
        raise InvalidInstruction(f"{ins.opcode}: {expected} operands from scale-d on are needed, found {len(rest)}")
    sign, major_a, major_b = 1.0, "k", "k"
    if ta not in _INTEGERS:
        sign = float(_flag(rest[1], "imm-scale-a", (1, -1)) * _flag(rest[2], "imm-scale-b", (1, -1)))
    if transposable:
        if not in_registers:
            major_a = "mn" if _flag(rest[3], "imm-trans-a", (0, 1)) else "k"
        major_b = "mn" if _flag(rest[-1], "imm-trans-b", (0, 1)) else "k"
    return sign, major_a, major_b


def _accumulator(decoder, ins, d, count: int) -> list:
    """Its registers, so many."""
    registers = d.items if isinstance(d, ptx.Vector) else [d]
    if len(registers) != count:
        raise InvalidInstruction(f"{ins.opcode}: wrong number of accumulator registers")
    for r in registers:
        if decoder.register_bits(r) != 32:
            raise InvalidInstruction(f"{ins.opcode}: accumulator register {r.name} isn't of 32 bits")
    return registers


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
