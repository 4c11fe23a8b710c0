"""Warp-wide instructions: shuffles, votes, matches, reductions, elect.

The engine has already brought the members of each warp together; here registers are seen as [warps, 32].
"""
from __future__ import annotations

import numpy as np

from tileiras.sim.core.decode import SYNCHRONOUS, operation
from tileiras.sim.errors import InvalidInstruction
from tileiras.sim.ptx import module as ptx
from tileiras.sim.ptx.types import VALUE
from tileiras.sim.scalar.floating import extreme2

_LANE = np.arange(32, dtype=np.int64)
_BIT = (np.uint32(1) << np.arange(32, dtype=np.uint32))


def member_mask(decoder, ins):
    """A getter of the member mask of a warp-synchronous instruction; None when the whole warp takes part, "warpgroup"
    when four warps do. (The ISA wants all of a warpgroup at one setmaxnreg; compilers give each warp its own.)"""
    name = ins.parts[0]
    if name == "wgmma":
        return "warpgroup"
    if name in ("shfl", "vote", "match", "redux", "elect"):
        return decoder.source(ins.operands[-1], "u32")
    if name in ("bar", "barrier"):
        return decoder.source(ins.operands[0], "u32")
    return None


for _name in ("shfl", "vote", "match"):
    SYNCHRONOUS[_name] = lambda ins: "sync" in ins.parts
for _name in ("redux", "elect", "mma", "wmma", "ldmatrix", "stmatrix", "movmatrix", "wgmma"):
    SYNCHRONOUS[_name] = lambda ins: True


def finish(st, put, value: np.ndarray) -> None:
    """Write a result computed for the whole batch."""
    put(st, value if st.index is None else value[st.index])


def active_bits(st) -> np.ndarray:
    """The active threads of each warp as a bit mask, [warps] uint32."""
    return np.packbits(np.ascontiguousarray(st.active).reshape(-1, 32), axis=1, bitorder="little").view(np.uint32)[:, 0]


@operation("shfl")
def _shfl(decoder, ins):
    mode = next((p for p in ins.parts if p in ("up", "down", "bfly", "idx")), None)
    if mode is None or ins.parts[-1] != "b32":
        raise InvalidInstruction(ins.opcode)
    target = ins.operands[0]
    first, second = (target.first, target.second) if isinstance(target, ptx.Pair) else (target, ptx.Sink())
    raw, slot_a = decoder.raw_source(ins.operands[1], "b32")
    lane, clamp = decoder.source(ins.operands[2], "u32"), decoder.source(ins.operands[3], "u32")
    put, putp = decoder.target(first, "b32"), decoder.target(second, "pred")
    _, slot_d = decoder.widening(first, "b32")

    def place(b, c):
        b = (b & np.uint32(31)).astype(np.int64).reshape(-1, b.size if b.size == 1 else 32)
        c = c.astype(np.int64).reshape(-1, c.size if c.size == 1 else 32)
        cval, mask = c & 31, c >> 8 & 31
        top = (_LANE & mask) | (cval & ~mask)
        low = _LANE & mask
        if mode == "up":
            j = _LANE - b
            ok = j >= top
        elif mode == "down":
            j = _LANE + b
            ok = j <= top
        elif mode == "bfly":
            j = _LANE ^ b
            ok = j <= top
        else:
            j = low | (b & ~mask)
            ok = j <= top
        return np.where(ok, j, _LANE), ok

    fixed = None
    if isinstance(ins.operands[2], ptx.Immediate) and isinstance(ins.operands[3], ptx.Immediate):
        fixed = place(decoder.constant(ins.operands[2], "u32"), decoder.constant(ins.operands[3], "u32"))

    def run(st):
        if fixed is None:
            b, c = lane(st), clamp(st)
            j, ok = place(b if b.size == 1 else st.spread(b), c if c.size == 1 else st.spread(c))
        else:
            j, ok = fixed
        v = st.spread(raw(st)).reshape(-1, 32)
        if j.shape[0] == 1:
            moved = v[:, j[0]]
        else:
            moved = np.take_along_axis(v, j, axis=1)
        before = None if slot_a is None else st.I[slot_a]
        finish(st, put, moved.reshape(-1))
        finish(st, putp, np.broadcast_to(ok, v.shape).reshape(-1))
        if slot_d is None or (st.mask is None and st.all_live and before is True):
            return
        # a value taken from a thread that doesn't take part, or has none, is no value
        have = st.active
        if slot_a is not None and before is not True:
            have = have & (before if before is not None else False)
        have = np.broadcast_to(have, (st.size,)).reshape(-1, 32)
        good = have[:, j[0]] if j.shape[0] == 1 else np.take_along_axis(have, j, axis=1)
        st.unwrite(slot_d, st.active & ~good.reshape(-1))
    return run


@operation("vote")
def _vote(decoder, ins):
    mode = next((p for p in ins.parts[1:] if p in ("all", "any", "uni", "ballot")), None)
    get = decoder.source(ins.operands[1], "pred")
    members = decoder.source(ins.operands[2], "u32") if "sync" in ins.parts else None
    put = decoder.target(ins.operands[0], "b32" if mode == "ballot" else "pred")

    def run(st):
        p = st.spread(get(st)) & st.active
        bits = np.packbits(p.reshape(-1, 32), axis=1, bitorder="little").view(np.uint32)[:, 0]
        here = active_bits(st)
        if members is None:
            asked = here
            value = bits
        else:
            m = members(st)
            whole = np.repeat(here, 32) & (m if m.size == 1 else st.spread(m))
            asked, bits = whole, np.repeat(bits, 32) & whole
            value = bits
        if mode == "ballot":
            out = value
        elif mode == "all":
            out = bits == asked
        elif mode == "any":
            out = bits != 0
        else:
            out = (bits == asked) | (bits == 0)
        finish(st, put, out if out.size == st.size else np.repeat(out, 32))
    return run


@operation("activemask")
def _activemask(decoder, ins):
    put = decoder.target(ins.operands[0], "b32")
    return lambda st: finish(st, put, np.repeat(active_bits(st), 32))


@operation("match")
def _match(decoder, ins):
    t = ins.parts[-1]
    get, members = decoder.source(ins.operands[1], t), decoder.source(ins.operands[2], "u32")
    target = ins.operands[0]
    first, second = (target.first, target.second) if isinstance(target, ptx.Pair) else (target, ptx.Sink())
    put, putp = decoder.target(first, "b32"), decoder.target(second, "pred")
    every = "all" in ins.parts

    def run(st):
        v = st.spread(get(st)).reshape(-1, 32)
        here = np.repeat(active_bits(st), 32) & st.spread(members(st))
        same = (v[:, :, None] == v[:, None, :])
        bits = (same * _BIT).sum(axis=2, dtype=np.uint64).astype(np.uint32).reshape(-1) & here
        if every:
            ok = bits == here
            finish(st, put, np.where(ok, here, np.uint32(0)))
            finish(st, putp, ok)
        else:
            finish(st, put, bits)
    return run


@operation("redux")
def _redux(decoder, ins):
    t = ins.parts[-1]
    op = next((p for p in ins.parts if p in ("add", "min", "max", "and", "or", "xor")), "")
    get, members = decoder.source(ins.operands[1], t), decoder.source(ins.operands[2], "u32")
    put = decoder.target(ins.operands[0], t)
    dtype = VALUE[t]
    nan, magnitude = "NaN" in ins.parts, "abs" in ins.parts

    def reduce(v: np.ndarray, take: np.ndarray) -> np.ndarray:
        if t == "f32":
            if magnitude:
                v = np.abs(v)
            out = None
            for lane in range(32):
                column = v[:, lane]
                if out is None:
                    out, seen = column, take[:, lane]
                    continue
                joined = extreme2(out, column, op == "max", nan, False)
                both = seen & take[:, lane]
                out = np.where(both, joined, np.where(seen, out, column))
                seen = seen | take[:, lane]
            assert out is not None
            return out
        neutral = {"add": 0, "or": 0, "xor": 0, "and": -1, "min": np.iinfo(dtype).max, "max": np.iinfo(dtype).min}[op]
        v = np.where(take, v, np.array(neutral).astype(dtype))
        f = {"add": np.add, "or": np.bitwise_or, "xor": np.bitwise_xor, "and": np.bitwise_and, "min": np.minimum,
             "max": np.maximum}[op]
        return f.reduce(v, axis=1, dtype=dtype)

    def run(st):
        v = st.spread(get(st)).reshape(-1, 32)
        m = st.spread(members(st)).reshape(-1, 32)
        active = st.active.reshape(-1, 32)
        asked = np.where(active, m, 0).max(axis=1, keepdims=True).astype(np.uint32)
        take = active & ((asked & _BIT) != 0)
        finish(st, put, np.repeat(reduce(v, take), 32))
    return run


@operation("elect")
def _elect(decoder, ins):
    target = ins.operands[0]
    first, second = (target.first, target.second) if isinstance(target, ptx.Pair) else (target, ptx.Sink())
    put, putp = decoder.target(first, "b32"), decoder.target(second, "pred")
    members = decoder.source(ins.operands[1], "u32")

    def run(st):
        m = st.spread(members(st)).reshape(-1, 32)
        take = st.active.reshape(-1, 32) & ((m & _BIT) != 0)
        leader = np.repeat(np.argmax(take, axis=1), 32)
        finish(st, put, leader.astype(np.uint32))
        finish(st, putp, leader == st.everyone % 32)
    return run
