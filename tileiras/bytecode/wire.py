"""How numbers lie in bytecode: LEB128 varints, zigzag for signed ones, little-endian words, padding.

Readers take (data, position) and return (value, next position); past the end they raise IndexError, which the
container's caller turns into a diagnostic. Source: public `lib/Bytecode`.
"""
from __future__ import annotations

import struct
from collections.abc import Iterable

from tileiras.errors import BytecodeError

PAD_BYTE = 0xCB
_MAX_BITS = 64
_MAX_SHIFT = 63


def malformed(offset: int, message: str) -> BytecodeError:
    return BytecodeError(f"error at offset {offset}: {message}")


def read_varint(data: bytes, pos: int, bits: int = _MAX_BITS) -> tuple[int, int]:
    """An unsigned number of at most `bits` bits."""
    byte = data[pos]
    pos += 1
    if byte < 0x80:
        return byte, pos
    value = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        if shift > _MAX_SHIFT:
            raise malformed(pos, f"varint does not fit in {bits} bits")
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    if value >> bits:
        raise malformed(pos, f"varint does not fit in {bits} bits")
    return value, pos


def read_signed_varint(data: bytes, pos: int) -> tuple[int, int]:
    """A zigzag number of 64 bits, signed or not: cuTile Python writes an f64's unsigned pattern so, in 65 bits."""
    value, pos = read_varint(data, pos, _MAX_BITS + 1)
    return (value >> 1) ^ -(value & 1), pos


def read_count(data: bytes, pos: int, item_bytes: int, what: str) -> tuple[int, int]:
    """A count of items that take at least `item_bytes` each and so must fit in the rest of `data`."""
    count, pos = read_varint(data, pos)
    fit = (len(data) - pos) // item_bytes
    if count > fit:
        raise malformed(pos, f"number of {what} ({count}) exceeds the maximum of {fit} that can fit in the remaining "
                             f"payload of {len(data) - pos} bytes.")
    return count, pos


_LIST_FORMATS = {1: "b", 4: "i", 8: "q"}


def read_int_list(data: bytes, pos: int, width: int) -> tuple[tuple[int, ...], int]:
    """A varint count, then that many signed little-endian integers of `width` bytes."""
    count, pos = read_count(data, pos, width, "array elements")
    end = pos + count * width
    return struct.unpack_from(f"<{count}{_LIST_FORMATS[width]}", data, pos), end


def align(pos: int, alignment: int) -> int:
    return pos + -pos % alignment


def append_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def append_signed_varint(out: bytearray, value: int) -> None:
    append_varint(out, value << 1 if value >= 0 else ~(value << 1))


def append_int_list(out: bytearray, values: Iterable[int], width: int) -> None:
    items = tuple(values)
    append_varint(out, len(items))
    out += struct.pack(f"<{len(items)}{_LIST_FORMATS[width]}", *items)


def pad_to(out: bytearray, alignment: int) -> None:
    out += bytes([PAD_BYTE]) * (-len(out) % alignment)
