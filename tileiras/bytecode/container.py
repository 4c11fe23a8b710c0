"""The file around the program: magic, version, sections, and the tables of variable-length items inside them.

    7F 'TileIR' 00, u8 major, u8 minor, u16 tag, sections..., 0
    section: id with the high bit saying "aligned", varint length, [varint alignment, padding], payload

Sections may stand in any order. A table is a count, padding to its offsets' width, the offsets, then the items'
bytes. Source: public `lib/Bytecode/Reader/BytecodeReader.cpp`; the producer section (7) since 13.3.
"""
from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

from tileiras.bytecode.version import DEVELOPMENT_VERSIONS, SUPPORTED_VERSIONS, Version, supported_range
from tileiras.bytecode.wire import align, append_varint, malformed, pad_to, read_count, read_varint
from tileiras.errors import BytecodeError
from tileiras.magic import MAGIC, not_bytecode

HEADER_BYTES = len(MAGIC) + 4

END, STRING, FUNCTION, DEBUG, CONSTANT, TYPE, GLOBAL, PRODUCER = range(8)
_ALIGNED_FLAG = 0x80
_REQUIRED_ALIGNMENT = {STRING: 4, TYPE: 4, CONSTANT: 8, DEBUG: 8, FUNCTION: 8}
_OFFSET_FORMATS = {4: "I", 8: "Q"}


def read_header(data: bytes) -> Version:
    """The version; raises BytecodeError where this isn't Tile IR bytecode or of a version that isn't known."""
    if data[:len(MAGIC)] != MAGIC:
        raise BytecodeError(f"{not_bytecode(data)}: {_wrong_magic(data)}")
    if len(data) < HEADER_BYTES:
        raise malformed(len(data), "unexpected end of data while reading the version")
    version = Version(*struct.unpack_from("<BBH", data, len(MAGIC)))
    if version not in SUPPORTED_VERSIONS and version not in DEVELOPMENT_VERSIONS:
        raise BytecodeError(f"unsupported Tile version {'.'.join(map(str, version))}, this reader supports versions "
                            f"{supported_range()}")
    return version


def _wrong_magic(data: bytes) -> str:
    """Where the first bytes aren't Tile IR's."""
    for i, (got, expected) in enumerate(zip(data, MAGIC)):
        if got != expected:
            return f"invalid magic number at position {i}, got {got} expected {expected}"
    return f"invalid magic number, of {len(data)} bytes only"


def read_sections(data: bytes) -> dict[int, tuple[int, bytes]]:
    """Section id -> (offset of its payload in the file, payload)."""
    sections: dict[int, tuple[int, bytes]] = {}
    pos = HEADER_BYTES
    try:
        while True:
            tag = data[pos]
            pos += 1
            section, aligned = tag & ~_ALIGNED_FLAG, bool(tag & _ALIGNED_FLAG)
            if section == END:
                if aligned:
                    raise malformed(pos, "end section should not have alignment flag set")
                if pos != len(data):
                    raise malformed(pos, "end section is not the last section")
                return sections
            if section > PRODUCER:
                raise malformed(pos, f"unknown section ID: {section}")
            if section in sections:
                raise malformed(pos, f"section {section} stands twice")
            pos = _read_section(data, pos, section, aligned, sections)
    except IndexError:
        raise malformed(len(data), "unexpected end of data while reading section header") from None


def _read_section(data: bytes, pos: int, section: int, aligned: bool, sections: dict[int, tuple[int, bytes]]) -> int:
    length, pos = read_varint(data, pos)
    if length > len(data) - pos:
        raise malformed(pos, f"section length {length} exceeds remaining data size {len(data) - pos}")
    alignment = 1
    if aligned:
        alignment, pos = read_varint(data, pos)
        if alignment == 0 or alignment & (alignment - 1):
            raise malformed(pos, f"invalid alignment value: {alignment}")
        pos = align(pos, alignment)
    required = _REQUIRED_ALIGNMENT.get(section, 1)
    if alignment % required:
        have = f"has alignment of {alignment}" if aligned else "has no alignment flag set"
        raise malformed(pos, f"section {section} must have alignment that is a multiple of {required} bytes, "
                             f"but {have}")
    if length > len(data) - pos:
        raise malformed(min(pos, len(data)), f"section length {length} exceeds remaining bytecode data. "
                                             f"{max(len(data) - pos, 0)}")
    sections[section] = (pos, data[pos:pos + length])
    return pos + length


def read_offsets(payload: bytes, pos: int, width: int, what: str) -> tuple[tuple[int, ...], int]:
    """A table's offsets (`width` bytes each), checked to rise and to stay inside, and where its items begin.

    One offset is added: the end of the items.
    """
    count, pos = read_count(payload, pos, width, what)
    if count == 0:
        return (0,), pos
    pos = align(pos, width)
    if len(payload) - pos < count * width:
        raise malformed(pos, f"insufficient data for the offsets of {count} {what}")
    offsets = struct.unpack_from(f"<{count}{_OFFSET_FORMATS[width]}", payload, pos)
    pos += count * width
    offsets += (len(payload) - pos,)
    previous = 0
    for i, offset in enumerate(offsets):
        if offset < previous:
            raise malformed(pos, f"invalid offsets of {what}: end ({offset}) is less than start ({previous}) "
                                 f"for item {i - 1}")
        previous = offset
    return offsets, pos


def read_table(payload: bytes, width: int, what: str) -> list[bytes]:
    """The items of a table."""
    offsets, start = read_offsets(payload, 0, width, what)
    return [payload[start + a:start + b] for a, b in pairwise(offsets)]


def append_header(out: bytearray, version: Version) -> None:
    out += MAGIC
    out += struct.pack("<BBH", *version)


@contextmanager
def section(out: bytearray, section_id: int) -> Iterator[bytearray]:
    """Collects a section's payload, then appends it with its header and padding."""
    payload = bytearray()
    yield payload
    alignment = _REQUIRED_ALIGNMENT.get(section_id, 1)
    out.append(section_id | (_ALIGNED_FLAG if alignment > 1 else 0))
    append_varint(out, len(payload))
    if alignment > 1:
        append_varint(out, alignment)
        pad_to(out, alignment)
    out += payload


def append_table(out: bytearray, items: Iterable[bytes], width: int) -> None:
    entries: Sequence[bytes] = tuple(items)
    append_varint(out, len(entries))
    pad_to(out, width)
    offset = 0
    offsets = []
    for entry in entries:
        offsets.append(offset)
        offset += len(entry)
    out += struct.pack(f"<{len(offsets)}{_OFFSET_FORMATS[width]}", *offsets)
    for entry in entries:
        out += entry
