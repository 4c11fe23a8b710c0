"""Calls of the functions that the device runtime provides: vprintf, __assertfail, the heap's two, and nothing else."""
from __future__ import annotations

import re
import struct
from functools import partial

import numpy as np

from tileiras.sim.core import heap
from tileiras.sim.core import memory as mem
from tileiras.sim.core.decode import operation
from tileiras.sim.errors import OutOfBounds, Trap, UnsupportedInstruction
from tileiras.sim.memory.loadstore import deposit, fetch
from tileiras.sim.ptx import module as ptx

_FORMAT = re.compile(r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d+))?"
                     r"(?P<length>hh|h|ll|l|j|z|t)?(?P<kind>[diouxXfFeEgGaAcsp%])")
MAX_STRING = 1 << 16
MAX_FAILURES = 16         # blocks whose failed assertion is told


@operation("call")
def _call(decoder, ins):
    results, target, arguments = ins.call
    name = target.name if isinstance(target, ptx.Symbol) else ""
    if name == "vprintf":
        return _vprintf(decoder, results, arguments)
    if name == "__assertfail":
        return _assertfail(decoder, arguments)
    if name == heap.ALLOCATE:
        return _allocate(decoder, results, arguments)
    if name == "free":
        return _free(decoder, arguments)
    if not name and ins.operands:
        return _function_pointer(decoder, ins)
    raise UnsupportedInstruction(f"call of {name or 'a function pointer'}")


def _function_pointer(decoder, ins):
    """A check of a function's address before an indirect call: the first operand must be one of the others."""
    get = decoder.source(ins.operands[0], "u64")
    known = np.array([o.value for o in ins.operands[1:]], np.uint64)

    def check(st):
        bad = ~np.isin(st.gathered(get(st)), known)
        if bad.any():
            i = int(np.argmax(bad))
            raise OutOfBounds(f"call of {int(st.gathered(get(st))[i]):#x}, which is no function that this call may mean",
                              thread=int(st.lanes[i]))
    return check


def _argument(decoder, operand, bits: int):
    """A getter of one call argument from its .param variable: one element for each active lane."""
    if not isinstance(operand, ptx.Symbol):
        source = decoder.source(operand, f"b{bits}")
        return lambda st: st.gathered(source(st))
    found = decoder.address_of(operand.name)
    if found is None:
        raise UnsupportedInstruction(f"argument {operand.name}")
    address = np.array([found[1]], np.uint64)

    def get(st):
        return fetch(st, found[0], st.gathered(address), bits // 8, 1)
    return get


def read_byte_span(st, thread: int, address: int, size: int) -> bytes:
    """Bytes at a generic address, as one thread sees them."""
    if mem.LOCAL_WINDOW <= address < mem.LOCAL_WINDOW + mem.WINDOW_SIZE:
        start = address - mem.LOCAL_WINDOW + int(st.local_base[thread])
        return st.local[start:start + size].tobytes()
    if mem.SHARED_WINDOW <= address < mem.SHARED_WINDOW + mem.WINDOW_SIZE:
        start = address - mem.SHARED_WINDOW + int(st.shared_base[thread])
        return st.shared[start:start + size].tobytes()
    return st.memory.bytes_at(address, size).tobytes()


def read_string(st, thread: int, address: int) -> str:
    """A NUL-terminated string at a generic address."""
    data = bytearray()
    while len(data) < MAX_STRING:
        try:
            c = read_byte_span(st, thread, address + len(data), 1)
        except OutOfBounds as error:
            error.thread = thread
            raise
        if c in (b"\0", b""):
            break
        data += c
    return data.decode("utf-8", "replace")


MOST_PRINTED = 32
"""Arguments of a `printf` beside its format (CUDA's programming guide)."""


def format_text(template: str, slots, string_at) -> str:
    """printf: `slots(size)` gives the next argument's bytes, `string_at(address)` the text of a %s. What the device takes no more
    arguments for it prints as it is."""
    taken = 0

    def integer(size: int, signed: bool) -> int:
        return int.from_bytes(slots(size), "little", signed=signed)

    def replace(m: re.Match) -> str:
        nonlocal taken
        kind = m["kind"]
        if kind == "%":
            return "%"
        taken += 1 + (m["width"] == "*") + (m["precision"] == "*")
        if taken > MOST_PRINTED:
            return m.group()
        spec = "%" + m["flags"]
        if m["width"]:
            spec += str(integer(4, True)) if m["width"] == "*" else m["width"]
        if m["precision"] is not None:
            spec += "." + (str(integer(4, True)) if m["precision"] == "*" else m["precision"])
        size = 8 if m["length"] in ("l", "ll", "j", "z", "t") else 4
        if kind in "di":
            value = integer(size, True)
            if m["length"] == "hh":
                value = (value + 128 & 255) - 128
            elif m["length"] == "h":
                value = (value + 32768 & 65535) - 32768
            return (spec + "d") % value
        if kind in "ouxX":
            value = integer(size, False)
            value &= {"hh": 255, "h": 65535}.get(m["length"], -1)
            return (spec + ("d" if kind == "u" else kind)) % value
        if kind == "c":
            return (spec + "c") % (integer(4, False) & 255)
        if kind == "s":
            return (spec + "s") % string_at(integer(8, False))
        if kind == "p":
            return f"{integer(8, False):#x}"
        value = struct.unpack("<d", slots(8))[0]
        if kind in "aA":
            text = float.hex(value)
            return text.upper() if kind == "A" else text
        return (spec + kind) % value
    return _FORMAT.sub(replace, template)


def _slots(st, thread: int, start: int):
    """A reader of a printf argument buffer: each call gives the next `size` bytes, aligned to their size."""
    at = start

    def slots(size: int) -> bytes:
        nonlocal at
        at = (at + size - 1) // size * size
        data = read_byte_span(st, thread, at, size)
        at += size
        return data
    return slots


def _vprintf(decoder, results, arguments):
    text, values = (_argument(decoder, a, 64) for a in arguments)
    put = None
    if results:
        found = decoder.address_of(results[0].name) if isinstance(results[0], ptx.Symbol) else None
        if found is None:
            raise UnsupportedInstruction("vprintf's result")
        put = np.array([found[1]], np.uint64)

    def run(st):
        formats, packs = text(st), values(st)
        known: dict[int, str] = {}
        for i, lane in enumerate(st.lanes):
            thread, address = int(lane), int(formats[i])
            if address not in known:
                known[address] = read_string(st, thread, address)
            st.launch.prints(st.first + thread // st.padded,
                             format_text(known[address], _slots(st, thread, int(packs[i])), partial(read_string, st, thread)))
        if put is not None and len(st.lanes):
            deposit(st, "local", st.gathered(put), np.zeros(len(st.lanes), np.uint32), 4, 1)
    return run


def _allocate(decoder, results, arguments):
    size, alignment = (_argument(decoder, a, 64) for a in arguments)
    found = decoder.address_of(results[0].name) if results and isinstance(results[0], ptx.Symbol) else None
    if found is None:
        raise UnsupportedInstruction("the result of an allocation")
    put = np.array([found[1]], np.uint64)

    def run(st):
        sizes, alignments = size(st), alignment(st)
        made = [st.launch.heap.allocate(int(n), int(a)) for n, a in zip(sizes, alignments)]
        if made:
            deposit(st, "local", st.gathered(put), np.array(made, np.uint64), 8, 1)
    return run


def _free(decoder, arguments):
    address = _argument(decoder, arguments[0], 64)

    def run(st):
        for lane, given in zip(st.lanes, address(st)):
            st.launch.heap.free(int(given), int(lane))
    return run


def _assertfail(decoder, arguments):
    gets = [_argument(decoder, a, bits) for a, bits in zip(arguments, (64, 64, 32, 64, 64))]

    def run(st):
        lanes = st.lanes
        if not len(lanes):
            return
        given = [g(st) for g in gets[:4]]
        _, picks = np.unique(lanes // st.padded, return_index=True)          # the first failing thread of each block
        said = []
        for i in picks[:MAX_FAILURES].tolist():
            thread = int(lanes[i])
            message, file, function = (read_string(st, thread, int(given[k][i])) if given[k][i] else "" for k in (0, 1, 3))
            block, place = st.launch.ctaid(st.first + thread // st.padded), st.launch.unflatten(thread % st.padded, st.launch.block)
            said.append(f"{file}:{int(given[2][i])}: {function}: block: [{_commas(block)}], thread: [{_commas(place)}] "
                        f"Assertion `{message}` failed.")
        if len(picks) > MAX_FAILURES:
            said.append(f"and in {len(picks) - MAX_FAILURES} more blocks")
        raise Trap("\n".join(said), thread=int(lanes[0]))
    return run


def _commas(place) -> str:
    return ",".join(str(int(n)) for n in place)
