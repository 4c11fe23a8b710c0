"""Which PTX line does a machine instruction come from? The cubin's .nv_debug_line_sass says, in DWARF's line programs.

ptxas writes it with -lineinfo: a program a code section, addresses in bytes from its begin (filled in by relocation),
lines of the embedded PTX. Rows count until the next row's address.
"""
from __future__ import annotations

import struct
from bisect import bisect_right

from tileiras.sim.timing.cubin import Cubin
from tileiras.sim.timing.errors import NotTimed

SECTION = ".nv_debug_line_sass"
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _CONST_ADD, _FIXED_ADVANCE = 1, 2, 3, 8, 9
_END_SEQUENCE, _SET_ADDRESS = 1, 2


class LineTable:
    """PTX lines of one code section."""

    def __init__(self, rows: list[tuple[int, int]]) -> None:
        rows.sort()
        self._addresses = [a for a, _ in rows]
        self._lines = [n for _, n in rows]

    def line(self, address: int) -> int:
        """The PTX line of the instruction at `address`; 0 where the table says nothing."""
        at = bisect_right(self._addresses, address) - 1
        return self._lines[at] if at >= 0 else 0


def read(cubin: Cubin) -> dict[str, LineTable]:
    """The tables of a cubin by code section. Raises NotTimed where there are none."""
    data = cubin.contents(SECTION)
    if not data:
        raise NotTimed("the cubin doesn't say which PTX lines its instructions come from: compile with --lineinfo "
                       "(ptxas -lineinfo)")
    targets = dict(cubin.relocations(SECTION))
    rows: dict[str, list[tuple[int, int]]] = {}
    at = 0
    try:
        while at < len(data):
            length, = struct.unpack_from("<I", data, at)
            for offset, found in _sequences(data, at, at + 4 + length):
                symbol = targets.get(offset)
                if symbol is not None:
                    section = cubin.sections[symbol.section].name
                    rows.setdefault(section, []).extend((symbol.value + a, n) for a, n in found)
            at += 4 + length
    except (struct.error, IndexError, ValueError) as error:
        raise NotTimed(f"the cubin's line table is damaged: {error}") from error
    return {section: LineTable(found) for section, found in rows.items()}


def _sequences(data: bytes, start: int, end: int) -> list[tuple[int, list[tuple[int, int]]]]:
    """The sequences of one line program: where its address is filled in, and its (address, line) rows."""
    version, header = struct.unpack_from("<HI", data, start + 4)
    at = start + 10 + header
    fields = start + 10 + (1 if version >= 4 else 0)
    step, = struct.unpack_from("<B", data, fields)
    line_base, line_range, opcode_base = struct.unpack_from("<bBB", data, fields + 2)
    if not line_range or not step:
        raise ValueError("a line range of zero")
    operands = data[fields + 5:fields + 4 + opcode_base]
    out = []
    address, line, place, rows = 0, 1, -1, []

    def number(signed: bool) -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value - (1 << shift) if signed and byte & 0x40 else value

    while at < end:
        code = data[at]
        at += 1
        if code >= opcode_base:
            code -= opcode_base
            address += code // line_range * step
            line += line_base + code % line_range
            rows.append((address, line))
        elif code == 0:
            size = number(False)
            kind, nxt = data[at], at + size
            if kind == _SET_ADDRESS:
                place, address = at + 1, int.from_bytes(data[at + 1:nxt], "little")
            elif kind == _END_SEQUENCE:
                out.append((place, rows))
                address, line, place, rows = 0, 1, -1, []
            at = nxt
        elif code == _COPY:
            rows.append((address, line))
        elif code == _ADVANCE_PC:
            address += number(False) * step
        elif code == _ADVANCE_LINE:
            line += number(True)
        elif code == _CONST_ADD:
            address += (255 - opcode_base) // line_range * step
        elif code == _FIXED_ADVANCE:
            address += struct.unpack_from("<H", data, at)[0]
            at += 2
        else:
            for _ in range(operands[code - 1]):
                number(False)
    return out
