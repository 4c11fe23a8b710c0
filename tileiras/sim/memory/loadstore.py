"""ld, st and their relatives: address spaces, vectors, widths, and the checks every access goes through."""
from __future__ import annotations

import numpy as np

from tileiras.sim.core import memory as mem
from tileiras.sim.core.decode import destinations, operation, ranked
from tileiras.sim.errors import InvalidInstruction, OutOfBounds
from tileiras.sim.memory.clusters import visit
from tileiras.sim.ptx import module as ptx
from tileiras.sim.ptx.types import B128, BITS, STORAGE, VALUE

SPACES = ("global", "shared", "local", "param", "const", "shared::cta", "shared::cluster", "param::entry",
          "param::func")
_VECTOR = {"v2": 2, "v4": 4, "v8": 8}
_UNDEFINED = 0x0F0F_0F0F_0F0F_0F0F
_POLLING = {"volatile", "relaxed", "acquire", "mmio"}


def space_of(parts) -> str:
    """The state space named in an opcode: global, shared, cluster (shared::cluster), local, or "" for generic. const and
    param are global."""
    for p in parts[1:]:
        if p in SPACES:
            if p == "shared::cluster":
                return "cluster"
            base = p.split("::")[0]
            return "global" if base in ("const", "param") else base
    return ""


def address_source(decoder, operand, space: str):
    """(getter of uint64 addresses, space): a variable named in the operand decides the space of a param access."""
    if not isinstance(operand, ptx.Memory):
        raise InvalidInstruction("a memory operand is needed")
    base = operand.base
    if isinstance(base, ptx.Register):
        bits = decoder.register_bits(base)
        get = decoder.source(base, f"u{bits}")
        step = operand.offset
        if bits == 64:
            if step == 0:
                return get, space
            delta = np.uint64(step & (1 << 64) - 1)
            return (lambda st: get(st) + delta), space
        if bits != 32 or space not in ("shared", "cluster", "local", "global"):
            raise InvalidInstruction("an address needs 64 bits")
        return (lambda st: (get(st).astype(np.int64) + step).view(np.uint64)), space
    if isinstance(base, ptx.Immediate):
        value = np.array([(base.value + operand.offset) & (1 << 64) - 1], np.uint64)
        return (lambda st: value), space
    found = decoder.address_of(base.name)
    if found is None:
        raise InvalidInstruction(f"unknown variable {base.name}")
    place, address = found
    if space == "" or (space == "global" and place == "local"):     # generic, or a parameter of a call
        space = place
    elif space == "cluster" and place == "shared":
        pass
    elif space != place:
        raise InvalidInstruction(f"{base.name} isn't in .{space}")
    value = np.array([(address + operand.offset) & (1 << 64) - 1], np.uint64)
    if place == "shared" and decoder.launch.cluster_size > 1:
        return ranked(value), space
    return (lambda st: value), space


def resolve(st, space: str, address: np.ndarray, size: int, write: bool):
    """Check accesses of `size` bytes by the active lanes and find them: [(space, selected lanes or None, offsets)]."""
    lanes = st.lanes
    if space == "global":
        return [("global", None, st.memory.offsets(address, size, lanes, write))]
    if space == "cluster":
        return [("shared", None, mem.shared_places(st, address, size, lanes, cluster=True))]
    if space:
        return [(space, None, mem.private_offsets(st, space, address, size, lanes))]
    low = int(address.min())
    if low >= mem.GLOBAL_BASE:
        return [("global", None, st.memory.offsets(address, size, lanes, write))]
    out = []
    address = np.broadcast_to(address, lanes.shape)
    rest = np.ones(len(lanes), bool)
    for name, base in (("shared", mem.SHARED_WINDOW), ("local", mem.LOCAL_WINDOW)):
        inside = (address >= np.uint64(base)) & (address < np.uint64(base + mem.WINDOW_SIZE))
        if inside.any():
            pick = np.flatnonzero(inside)
            off = _private(st, name, address[pick] - np.uint64(base), size, lanes[pick])
            out.append((name, None if len(pick) == len(lanes) else pick, off))
            rest &= ~inside
    if rest.any():
        pick = np.flatnonzero(rest)
        off = st.memory.offsets(address[pick], size, lanes[pick], write)
        out.append(("global", None if len(pick) == len(lanes) else pick, off))
    return out


def _private(st, space, address, size, lanes):
    if space == "shared":
        return mem.shared_places(st, address, size, lanes, cluster=True)
    return mem.private_offsets(st, space, address, size, lanes)


def fetch(st, space: str, address: np.ndarray, size: int, count: int, strong: bool = False) -> np.ndarray:
    """Load [lanes] or [lanes, count] unsigned elements of `size` bytes. `strong`: not by an ordinary load."""
    width = size * count
    places = resolve(st, space, address, width, False)
    shift = width.bit_length() - 1
    n = len(st.lanes)
    out = None
    statistics = st.launch.statistics
    for name, pick, off in places:
        lanes = st.lanes if pick is None else st.lanes[pick]
        statistics.move(name, False, width * len(lanes))
        if name == "shared":
            statistics.banks(st.where(), off, width, lanes)
        elif name == "global":
            statistics.global_access(st.where(), off, width, lanes)
        if st.shadow is not None and name != "local":
            watch_read(st, name, off, width, lanes, strong)
        if name != "global":
            lost = mem.check_written(st.written_views[name], off, size, count, name, lanes, pick is None)
            if pick is None:
                st.undefined = lost
        got = st.views[name].of(size, count)[off >> shift]
        if pick is None:
            return got
        if out is None:
            out = np.zeros((n, count) if count > 1 else n, mem.UNSIGNED[size])
        out[pick] = got
    assert out is not None
    return out


def watch_read(st, name: str, off: np.ndarray, size: int, lanes: np.ndarray, strong: bool) -> None:
    """Tell the shadow of a read, and of a use of another CTA's shared memory."""
    st.shadow.read(name, off, size, lanes, strong)
    if name == "shared":
        if st.cluster_size > 1:
            visit(st, off, lanes)
        if st.mbarriers is not None:
            st.mbarriers.touched(st, off, size, lanes, "reads")


def deposit(st, space: str, address: np.ndarray, values: np.ndarray, size: int, count: int, strong: bool = False) -> None:
    """Store [lanes] or [lanes, count] unsigned elements of `size` bytes. `strong`: not by an ordinary store."""
    width = size * count
    shift = width.bit_length() - 1
    full = mem.UNSIGNED[size](mem._FULL[size])
    statistics = st.launch.statistics
    for name, pick, off in resolve(st, space, address, width, True):
        at = off >> shift
        view = st.views[name].of(size, count)
        given = values if pick is None else values[pick]
        statistics.move(name, True, width * (len(st.lanes) if pick is None else len(pick)))
        if name == "shared":
            statistics.banks(st.where(), off, width, st.lanes if pick is None else st.lanes[pick])
        elif name == "global":
            statistics.global_access(st.where(), off, width, st.lanes if pick is None else st.lanes[pick])
        if name != "local" and st.shadow is not None:
            lanes = st.lanes if pick is None else st.lanes[pick]
            if name == "shared":
                if st.cluster_size > 1:
                    visit(st, off, lanes)
                if st.mbarriers is not None:
                    st.mbarriers.touched(st, off, width, lanes, "overwrites")

            def differs(view=view, at=at, given=given):
                found = view[at] != given
                return found if count == 1 else found.any(axis=1)

            def store(view=view, at=at, given=given):
                view[at] = given
            st.shadow.write(name, off, width, lanes, differs, differs, strong, store)
        else:
            view[at] = given
        if name != "global":
            st.written_views[name].of(size, count)[at] = full


def note_access(decoder, space: str, size: int) -> None:
    """The kernel accesses `size` bytes of a space at once."""
    if space in ("shared", "cluster", ""):
        decoder.granule = min(decoder.granule, size)
    if space in ("global", ""):
        decoder.global_granule = min(decoder.global_granule, size)


class Ordering:
    """What an access does to the order of memory, from its qualifiers: `st.order` hears of it."""

    def __init__(self, parts) -> None:
        words = set(parts)
        scope = next((p for p in parts if p in ("cta", "cluster", "gpu", "sys")), "gpu")
        self.strong = bool(words & _POLLING) or "release" in words
        self.release = scope if words & {"release", "acq_rel"} else ""
        self.acquire = scope if words & {"acquire", "acq_rel"} else ""

    def note(self, st, places, write: bool, read: bool, wrote: np.ndarray | None = None) -> None:
        """Strong accesses to these places: a store is about to happen, a load or atomic has. `wrote`: which of the active
        lanes wrote, where that isn't all."""
        if st.order is not None:
            for name, pick, off in places:
                if name != "local":
                    lanes = st.lanes if pick is None else st.lanes[pick]
                    st.order.through(lanes, name, np.broadcast_to(off, lanes.shape), write, read, self.release, self.acquire,
                                     wrote if wrote is None or pick is None else wrote[pick])


def _shape(decoder, ins) -> tuple[int, str]:
    count = next((_VECTOR[p] for p in ins.parts if p in _VECTOR), 1)
    t = ins.parts[-1]
    if t not in BITS or t == "pred":
        raise InvalidInstruction(f"{ins.opcode}: no such type")
    if not any(p.startswith(("param", "const")) for p in ins.parts[1:]):
        note_access(decoder, space_of(ins.parts), BITS[t] // 8 * count)
    return count, t


@operation("ld", "ldu")
def _load(decoder, ins):
    run = _plain_load(decoder, ins)
    base = getattr(ins.operands[1], "base", None)
    if decoder.launch.undefined == "raise" or not isinstance(base, ptx.Register):
        return run
    slot, line = decoder.slot(base), ins.line
    outs = [decoder.slot(r) for r in destinations(ins.operands[0])]

    def careful(st):
        written = st.I[slot]
        if written is True:
            run(st)
            return
        bad = st.active if written is None else st.active & ~written
        if not bad.any():
            run(st)
            return
        st.remark(line, slot)               # an address without a value: those threads load nothing
        rest = st.active & ~bad
        if rest.any():
            st.within(rest, run)
        for out in outs:
            st.unwrite(out, bad)
    return careful


def _plain_load(decoder, ins):
    count, t = _shape(decoder, ins)
    space = space_of(ins.parts)
    address, space = address_source(decoder, ins.operands[1], space)
    target = ins.operands[0]
    items = target.items if isinstance(target, ptx.Vector) else [target]
    if len(items) != count:
        raise InvalidInstruction(f"{ins.opcode} writes {count} registers, found {len(items)}")
    polling, constant_read = bool(_POLLING & set(ins.parts)), "nc" in ins.parts
    ordering = Ordering(ins.parts)
    total = BITS[t] // 8 * count
    constant = _parameter(decoder, ins, t, count)
    slots = [decoder.widening(o, t)[1] for o in items]
    if t == B128:
        if count != 1:
            raise InvalidInstruction(ins.opcode)
        put = decoder.scatter_target(target, B128)

        def wide(st):
            a = st.gathered(address(st))
            if len(a):
                put(st, np.ascontiguousarray(fetch(st, space, a, 8, 2, polling)))
                if polling:
                    ordering.note(st, resolve(st, space, a, 16, False), False, True)
                if st.undefined is not None:
                    _forget_loaded(st, slots)
        return wide
    size, dtype = BITS[t] // 8, VALUE[t]
    puts = [decoder.scatter_target(o, t) for o in items]
    if constant is not None:
        values = [constant[i:i + 1].view(dtype) for i in range(count)]

        def known(st):
            for p, v in zip(puts, values):
                p(st, v)
        return known
    if count == 1:
        put = puts[0]

        def single(st):
            if polling:
                st.yielded = True
            a = address(st)
            if a.size == 1 and space == "global" and not polling and (st.shadow is None or st.shadow.world is None):
                put(st, st.views["global"].of(size)[st.memory.offsets(a, size, st.lanes, False) // size].view(dtype))
                return
            a = st.gathered(a)
            if len(a):
                if constant_read:
                    _watch_constant(st, a, total)
                put(st, fetch(st, space, a, size, 1, polling).view(dtype))
                if polling:
                    ordering.note(st, resolve(st, space, a, total, False), False, True)
                if st.undefined is not None:
                    _forget_loaded(st, slots)
        return single

    def vector(st):
        if polling:
            st.yielded = True
        a = st.gathered(address(st))
        if not len(a):
            return
        if constant_read:
            _watch_constant(st, a, total)
        values = fetch(st, space, a, size, count, polling)
        if polling:
            ordering.note(st, resolve(st, space, a, total, False), False, True)
        for i, p in enumerate(puts):
            p(st, np.ascontiguousarray(values[:, i]).view(dtype))
        if st.undefined is not None:
            _forget_loaded(st, slots)
    return vector


def _watch_constant(st, address: np.ndarray, size: int) -> None:
    """Tell the launch's watch of a load of what no one writes."""
    world = st.shadow.world if st.shadow is not None else None
    if world is not None:
        world.read_constant(st, st.memory.offsets(address, size, st.lanes, False), size, st.lanes)


def _forget_loaded(st, slots: list) -> None:
    """Registers loaded from bytes without a value have none."""
    bad, st.undefined = st.undefined, None
    for i, slot in enumerate(slots):
        if slot is not None:
            whole = np.zeros(st.size, bool)
            whole[st.lanes] = bad if len(slots) == 1 and bad.ndim == 1 else \
                (bad.any(axis=1) if len(slots) == 1 else bad[:, i])
            st.unwrite(slot, whole)


def _parameter(decoder, ins, t: str, count: int):
    """The value of a load from a kernel parameter at a constant address, as unsigned elements; else None."""
    operand = ins.operands[1]
    if not any(p.startswith("param") for p in ins.parts) or not isinstance(operand.base, ptx.Symbol) or t == B128:
        return None
    found = decoder.address_of(operand.base.name)
    if found is None or found[0] != "global":
        return None
    size = BITS[t] // 8
    address = found[1] + operand.offset
    if address % (size * count):
        raise InvalidInstruction("misaligned parameter load")
    try:
        data = decoder.launch.memory.bytes_at(address, size * count)
    except OutOfBounds as error:
        raise InvalidInstruction(error.detail) from error
    return data.copy().view(mem.UNSIGNED[size])


@operation("st")
def _store(decoder, ins):
    count, t = _shape(decoder, ins)
    space = space_of(ins.parts)
    address, space = address_source(decoder, ins.operands[0], space)
    given = ins.operands[1]
    items = given.items if isinstance(given, ptx.Vector) else [given]
    if len(items) != count:
        raise InvalidInstruction(f"{ins.opcode} reads {count} registers, found {len(items)}")
    gets, slots = [], []
    for o in items:
        raw, slot = decoder.raw_source(o, t)
        gets.append(raw)
        if slot is not None:
            slots.append(slot)
    ordering = Ordering(ins.parts)
    strong, total = ordering.strong, BITS[t] // 8 * count
    forget = _forgetter(space, address, slots, BITS[t] // 8, items, count) if slots else None
    if t == B128:
        get, = gets

        def wide(st):
            a = st.gathered(address(st))
            v = get(st)
            if len(a):
                if strong:
                    ordering.note(st, resolve(st, space, a, 16, True), True, False)
                deposit(st, space, a, v if st.index is not None or st.everything else v[st.lanes], 8, 2, strong)
                if forget is not None:
                    forget(st, a)
        return wide
    size, dtype = BITS[t] // 8, STORAGE[t]
    if count == 1:
        get = gets[0]
        slot0 = slots[0] if slots else None

        def single(st):
            a = st.gathered(address(st))
            v = st.gathered(get(st)).view(dtype)
            if len(a):
                if strong:
                    ordering.note(st, resolve(st, space, a, total, True), True, False)
                deposit(st, space, a, v, size, 1, strong)
                if forget is not None and st.I[slot0] is not True:
                    forget(st, a)
        return single

    def vector(st):
        a = st.gathered(address(st))
        values = [st.gathered(g(st)).view(dtype) for g in gets]
        if len(a):
            if strong:
                ordering.note(st, resolve(st, space, a, total, True), True, False)
            deposit(st, space, a, np.stack(values, axis=-1), size, count, strong)
            if forget is not None:
                forget(st, a)
    return vector


def _forgetter(space: str, address, slots: list[int], size: int, items: list, count: int):
    """What a store of registers that were never written does: the bytes in shared or local memory count as unwritten
    (they fault when used); in global memory it is a fault itself."""
    positions = []
    k = 0
    for i, item in enumerate(items):
        if isinstance(item, ptx.Register):
            positions.append((slots[k], i))
            k += 1

    def forget(st, a):
        for slot, i in positions:
            if st.is_written(slot):
                continue
            if space not in ("shared", "local"):
                st.check(slot)              # raises
            written = st.I[slot]
            bad = np.ones(len(st.lanes), bool) if written is None else ~written[st.lanes]
            pick = np.flatnonzero(bad)
            width = min(size, 8)
            off = mem.private_offsets(st, space, a[pick], size * count, st.lanes[pick]) + i * size
            for part in range(size // width):
                st.written_views[space].of(width)[off // width + part] = _UNDEFINED & mem._FULL[width]
    return forget
