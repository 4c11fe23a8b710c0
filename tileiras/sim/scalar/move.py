"""mov in all its forms: registers, constants, addresses, special registers, packing and unpacking; cvta.

A mov of an uninitialised register isn't a fault: the destination is uninitialised too, and whatever uses it faults.
"""
from __future__ import annotations

import numpy as np

from tileiras.sim.core import memory as mem
from tileiras.sim.core.decode import apply, operation
from tileiras.sim.errors import InvalidInstruction, UnsupportedInstruction
from tileiras.sim.ptx import module as ptx
from tileiras.sim.ptx.types import B128, BITS, STORAGE


@operation("mov")
def _mov(decoder, ins):
    t = ins.parts[-1]
    to, given = ins.operands[0], ins.operands[1]
    if isinstance(to, ptx.Vector):
        return _unpack(decoder, to, given, t)
    if isinstance(given, ptx.Vector):
        return _pack(decoder, to, given, t)
    if t == "pred":
        return _copy(decoder, to, given, "pred")
    t = f"b{BITS[t]}" if not isinstance(given, ptx.Immediate) else t
    if isinstance(given, ptx.Register):
        return _copy(decoder, to, given, t)
    return apply(lambda a: a, [decoder.source(given, t)], decoder.target(to, t))


def _copy(decoder, to, given, t):
    get, slot = decoder.raw_source(given, t)
    put = decoder.target(to, t)
    _, out = decoder.widening(to, t)
    if slot is None or out is None:
        return apply(lambda a: a, [get], put)

    def run(st):
        put(st, get(st))
        written = st.I[slot]
        if written is not True:
            _unwritten(st, out, written, st.lacking.get(slot))
    return run


def _unwritten(st, out: int, written, bits=None) -> None:
    bad = st.active if written is None else st.active & ~written
    st.unwrite(out, bad, bits)


def _pack(decoder, to, given: ptx.Vector, t: str):
    """mov.b64 d, {a, b}: the first item is the lowest."""
    total = BITS[t]
    n = len(given.items)
    part = total // n
    raw = [decoder.raw_source(o, f"b{part}") for o in given.items]
    put = decoder.target(to, f"b{total}")
    _, out = decoder.widening(to, f"b{total}")
    slots = [s for _, s in raw if s is not None]
    gets = [g for g, _ in raw]
    dtype = STORAGE.get(f"b{total}")

    def build(st):
        if dtype is None:                          # 128 bits
            size = st.size if st.index is None else len(st.lanes)
            words = np.stack([np.broadcast_to(g(st), (size,)) for g in gets], axis=-1)
            return np.ascontiguousarray(words).view(np.uint64)
        r = gets[0](st).astype(dtype)
        for i in range(1, n):
            r = r | (gets[i](st).astype(dtype) << dtype(i * part))
        return r

    def run(st):
        put(st, build(st))
        # LLVM fills the half it doesn't need with any register: the whole is unwritten only where every part is.
        if out is not None and len(slots) == n and all(st.I[s] is not True for s in slots):
            written = np.zeros(st.size, np.bool_)
            for s in slots:
                if st.I[s] is not None:
                    written = written | st.I[s]
            _unwritten(st, out, written)
    return run


def _unpack(decoder, to: ptx.Vector, given, t: str):
    total = BITS[t]
    n = len(to.items)
    part = total // n
    get, slot = decoder.raw_source(given, f"b{total}")
    puts = [decoder.target(o, f"b{part}") for o in to.items]
    outs = [None if isinstance(o, ptx.Sink) else decoder.widening(o, f"b{part}")[1] for o in to.items]
    dtype = STORAGE[f"b{part}"]

    def run(st):
        v = get(st)
        if total == 128:
            pieces = np.ascontiguousarray(v).view(dtype)
            values = [np.ascontiguousarray(pieces[:, i]) for i in range(n)]
        else:
            values = [(v >> v.dtype.type(i * part)).astype(dtype) for i in range(n)]
        for put, value in zip(puts, values):
            put(st, value)
        if slot is not None and st.I[slot] is not True:
            for out in outs:
                if out is not None:
                    _unwritten(st, out, st.I[slot])
    return run


_WINDOWS = {"shared": mem.SHARED_WINDOW, "local": mem.LOCAL_WINDOW, "global": 0, "const": 0, "param": 0}


@operation("cvta")
def _cvta(decoder, ins):
    back = ins.parts[1] == "to"
    space = ins.parts[2 if back else 1].split("::")[0]
    if space not in _WINDOWS:
        raise InvalidInstruction(ins.opcode)
    base = np.uint64(_WINDOWS[space])
    t = ins.parts[-1]
    if t != "u64":
        raise UnsupportedInstruction("32-bit generic addresses")
    if isinstance(ins.operands[1], ptx.Symbol):
        found = decoder.address_of(ins.operands[1].name)
        if found is None:
            raise InvalidInstruction(f"unknown name {ins.operands[1].name}")
    return decoder.simple(ins, ["u64"], "u64", (lambda a: a - base) if back else (lambda a: a + base))


__all__ = ["B128"]
