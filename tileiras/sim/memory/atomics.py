"""atom and red: every operation and type, in generic, global and shared memory.

Threads of a batch that hit one address are served in thread order. Addresses that are all distinct, the usual case,
take one vector operation; otherwise the threads are sorted by address and served in rounds, or by a running sum or a
segmented scan where the operation allows.
"""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tileiras.sim.core import memory as mem
from tileiras.sim.core.decode import operation
from tileiras.sim.errors import InvalidInstruction
from tileiras.sim.memory.loadstore import Ordering, address_source, note_access, resolve, space_of, visit
from tileiras.sim.ptx import module as ptx
from tileiras.sim.ptx.types import B128, BITS, STORAGE, VALUE
from tileiras.sim.scalar import rounding as rnd
from tileiras.sim.scalar.floating import extreme2, flush, halves

_OPS = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
_SCAN_FROM = 64          # lanes on one address from which a scan pays


def _bf16_add(a, b):
    x = rnd.bf16_to_f32(a).astype(np.float64)
    return rnd.to_bf16(rnd.add_odd(x, rnd.bf16_to_f32(b).astype(np.float64)))


def _bf16_extreme(largest: bool):
    def f(a, b):
        return rnd.f32_to_bf16(extreme2(rnd.bf16_to_f32(a), rnd.bf16_to_f32(b), largest, False, False))
    return f


def _f16_add(a, b):
    return (a.astype(np.float32) + b.astype(np.float32)).astype(np.float16)


def _f32_add(a, b):
    return flush(flush(a) + flush(b))


def combine(op: str, t: str, space: str = "global") -> tuple[Callable, bool]:
    """The function (old, operand) -> new of an atomic, and whether it is an associative integer operation."""
    if op == "add":
        if t == "bf16":
            return _bf16_add, False
        if t == "f16":
            return _f16_add, False
        if t in ("f16x2", "bf16x2"):
            return halves(_f16_add if t == "f16x2" else _bf16_add, t[:-2]), False
        if t == "f32":
            return (_f32_add if space == "global" else lambda a, b: a + b), False
        return np.add, t != "f64"
    if op in ("min", "max"):
        largest = op == "max"
        if t in ("f16x2", "bf16x2"):
            f = _bf16_extreme(largest) if t == "bf16x2" else lambda a, b: extreme2(a, b, largest, False, False)
            return halves(f, t[:-2]), False
        if t == "bf16":
            return _bf16_extreme(largest), False
        if t[0] == "f":
            return (lambda a, b: extreme2(a, b, largest, False, False)), False
        return (np.maximum if largest else np.minimum), True
    if op == "exch":
        return (lambda a, b: b), False
    if op == "inc":
        return (lambda a, b: np.where(a >= b, a.dtype.type(0), a + a.dtype.type(1))), False
    if op == "dec":
        return (lambda a, b: np.where((a == 0) | (a > b), b, a - a.dtype.type(1))), False
    return {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[op], True


def perform(view: np.ndarray, at: np.ndarray, f: Callable, operands: list[np.ndarray], associative: bool,
            want: bool) -> np.ndarray | None:
    """Read-modify-write `view[at]` for each lane in order; returns the old values when `want`.

    view: [elements] or [elements, words] unsigned; operands: per lane, of the view's element type."""
    n = len(at)
    order = np.argsort(at, kind="stable")
    sorted_at = at[order]
    first = np.ones(n, bool)
    first[1:] = sorted_at[1:] != sorted_at[:-1]
    if first.all():
        old = view[at]
        view[at] = f(old, *operands)
        return old
    starts = np.flatnonzero(first)
    lengths = np.diff(np.append(starts, n))
    old = np.zeros((n, *view.shape[1:]), view.dtype) if want else None
    if associative and lengths.max() >= _SCAN_FROM and len(operands) == 1:
        return _scan(view, f, operands[0], order, sorted_at, starts, lengths, old)
    ranked = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[ranked], lengths[ranked]
    where = sorted_at[starts]
    values = view[where]
    count = len(starts)
    if f is swap_if and count == 1 and view.ndim == 1:
        _swaps(values, operands, order[starts[0]:starts[0] + lengths[0]], old)
        view[where] = values
        return old
    for k in range(int(lengths[0])):
        while lengths[count - 1] <= k:
            count -= 1
        lane = order[starts[:count] + k]
        if old is not None:
            old[lane] = values[:count]
        values[:count] = f(values[:count], *[v[lane] for v in operands])
    view[where] = values
    return old


def swap_if(old: np.ndarray, compare: np.ndarray, new: np.ndarray) -> np.ndarray:
    """What atom.cas leaves."""
    return np.where(old == compare, new, old)


def _swaps(value: np.ndarray, operands: list[np.ndarray], lanes: np.ndarray, old: np.ndarray | None) -> None:
    """Compare-and-swaps by many lanes at one address: from one that succeeds to the next."""
    compare, new = (v[lanes] for v in operands)
    at = 0
    while at < len(lanes):
        hit = np.flatnonzero(compare[at:] == value[0])
        end = at + int(hit[0]) + 1 if len(hit) else len(lanes)
        if old is not None:
            old[lanes[at:end]] = value[0]
        if len(hit):
            value[0] = new[end - 1]
        at = end


def _scan(view, f, operand, order, sorted_at, starts, lengths, old):
    """An associative operation by a segmented inclusive scan (Hillis and Steele)."""
    n = len(order)
    v = operand[order].copy()
    position = np.arange(n) - np.repeat(starts, lengths)
    step = 1
    while step < lengths.max():
        reach = np.flatnonzero(position >= step)
        v[reach] = f(v[reach - step], v[reach])
        step *= 2
    before = view[sorted_at]
    after = f(before, v)
    if old is not None:
        previous = np.empty_like(after)
        previous[1:] = after[:-1]
        previous[starts] = before[starts]
        old[order] = previous
    view[sorted_at[starts]] = after[starts + lengths - 1]
    return old


def _typed(f: Callable, t: str) -> Callable:
    """A function of VALUE[t] as a function of its bits."""
    value, storage = VALUE[t], STORAGE[t]
    if value == storage:
        return f
    return lambda *v: np.asarray(f(*[x.view(value) for x in v])).view(storage)


def element_of(parts: tuple[str, ...]) -> str:
    """The type of an atomic's elements: vectors have the operation behind it (`red.global.v4.f32.add.noftz`)."""
    return next((p for p in reversed(parts) if p in VALUE or p == B128), parts[-1])


@operation("atom", "red")
def _atomic(decoder, ins):
    parts = ins.parts
    op = next((p for p in parts[1:] if p in _OPS), None)
    t = element_of(parts)
    if op is None or (t not in VALUE and t != B128):
        raise InvalidInstruction(ins.opcode)
    space = space_of(parts)
    count = next((int(p[1:]) for p in parts if p in ("v2", "v4", "v8")), 1)
    operands = list(ins.operands)
    target = None if parts[0] == "red" else operands.pop(0)
    address, space = address_source(decoder, operands[0], space)
    if t == B128:
        return _wide(decoder, parts, op, target, address, space, operands[1:])
    if count > 1:
        return _vector(decoder, parts, op, t, count, target, address, space, operands[1])
    needed = 2 if op == "cas" else 1
    gets = [decoder.source(o, t) for o in operands[1:1 + needed]]
    if len(gets) != needed:
        raise InvalidInstruction(f"{ins.opcode} needs {needed} operands")
    size, storage = BITS[t] // 8, STORAGE[t]
    note_access(decoder, space, size)
    decoder.cas |= op == "cas" and space in ("global", "")
    ordering = Ordering(parts)
    want = target is not None and not isinstance(target, ptx.Sink)
    put = decoder.scatter_target(target, t) if want else None
    functions = {}
    for name in ("global", "shared"):
        if op == "cas":
            functions[name] = swap_if, False
        else:
            g, associative = combine(op, t, name)
            functions[name] = _typed(g, t), associative
    dtype = VALUE[t]

    def run(st):
        st.yielded = True
        a = st.gathered(address(st))
        values = [np.ascontiguousarray(st.gathered(g(st))).view(storage) for g in gets]
        if not len(a):
            return
        out = np.zeros(len(a), storage) if want else None
        places = resolve(st, space, a, size, True)
        for name, pick, off in places:
            watch_atomic(st, name, off, size, st.lanes if pick is None else st.lanes[pick])
            if name != "global":
                mem.check_written(st.written_views[name], off, size, 1, name,
                                  st.lanes if pick is None else st.lanes[pick])
            view = st.views[name].of(size)
            chosen = values if pick is None else [v[pick] for v in values]
            f, associative = functions["shared" if name != "global" else name]
            old = perform(view, off // size, f, chosen, associative, want)
            if out is not None:
                if pick is None:
                    out = old
                else:
                    out[pick] = old
        ordering.note(st, places, True, True, out == values[0] if op == "cas" and out is not None else None)
        if put is not None and out is not None:
            put(st, out.view(dtype))
    return run


def watch_atomic(st, name: str, off: np.ndarray, size: int, lanes: np.ndarray) -> None:
    """Tell the shadow of an atomic."""
    for write in (False, True):
        st.launch.statistics.move(name, write, size * len(lanes))
    if name == "global":
        st.launch.statistics.global_access(st.where(), off, size, lanes)
    if st.shadow is not None and name != "local":
        off = np.broadcast_to(off, lanes.shape)
        if name == "shared" and st.cluster_size > 1:
            visit(st, off, lanes)
        st.shadow.atomic(name, off, size, lanes)


def _vector(decoder, parts, op, t, count, target, address, space, given):
    """Vector forms are independent atomics on neighbouring elements."""
    size, storage, dtype = BITS[t] // 8, STORAGE[t], VALUE[t]
    gets = [decoder.source(o, t) for o in given.items]
    puts = None
    if isinstance(target, ptx.Vector):
        puts = [decoder.scatter_target(o, t) for o in target.items]
    f, associative = combine(op, t)
    f = _typed(f, t)
    note_access(decoder, space, size)
    ordering = Ordering(parts)

    def run(st):
        a = st.gathered(address(st))
        values = [np.ascontiguousarray(st.gathered(g(st))).view(storage) for g in gets]
        if not len(a):
            return
        places = resolve(st, space, a, size * count, True)
        for name, pick, off in places:
            watch_atomic(st, name, off, size * count, st.lanes if pick is None else st.lanes[pick])
            view = st.views[name].of(size)
            for i in range(count):
                v = values[i] if pick is None else values[i][pick]
                old = perform(view, off // size + i, f, [v], associative, puts is not None)
                if puts is not None and old is not None and pick is None:
                    puts[i](st, old.view(dtype))
        ordering.note(st, places, True, True)
    return run


def _wide(decoder, parts, op, target, address, space, operands):
    """128-bit exch and cas."""
    if op not in ("exch", "cas"):
        raise InvalidInstruction(f"atom.{op}.b128")
    gets = [decoder.source(o, B128) for o in operands[:2 if op == "cas" else 1]]
    put = decoder.scatter_target(target, B128)
    ordering = Ordering(parts)

    def f(old, *given):
        if op == "exch":
            return given[0]
        return np.where((old == given[0]).all(axis=1, keepdims=True), given[1], old)

    def run(st):
        st.yielded = True
        a = st.gathered(address(st))
        values = [v if st.index is not None or st.everything else v[st.lanes] for v in (g(st) for g in gets)]
        if not len(a):
            return
        places = resolve(st, space, a, 16, True)
        for name, pick, off in places:
            watch_atomic(st, name, off, 16, st.lanes if pick is None else st.lanes[pick])
            old = perform(st.views[name].of(8, 2), off // 16, f, values if pick is None else [v[pick] for v in values],
                          False, True)
            if pick is None:
                put(st, old)
        ordering.note(st, places, True, True)
    return run
