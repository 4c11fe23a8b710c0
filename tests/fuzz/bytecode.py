"""Damaged and hostile bytecode: seeded mutations of real files, and files assembled by hand to break a reader.

`mutations` damages bytes anywhere, and on purpose the numbers that sizes, counts and indices are. `HOSTILE` names one
file for each way known to make a reader loop, recurse or allocate without bound.
"""
from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator

MAGIC = b"\x7fTileIR\x00"
STRING, FUNCTION, DEBUG, CONSTANT, TYPE, GLOBAL, PRODUCER = 1, 2, 3, 4, 5, 6, 7
HUGE = (1 << 64) - 1
EXTREMES = (0, 1, 0x7F, 0x80, 0xFF)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def section(out: bytearray, tag: int, payload: bytes, alignment: int = 8) -> None:
    out.append(tag | 0x80)
    out += varint(len(payload)) + varint(alignment)
    out += b"\xcb" * (-len(out) % alignment) + payload


def table(items: list[bytes], width: int) -> bytes:
    out = bytearray(varint(len(items)))
    out += b"\xcb" * (-len(out) % width)
    offset = 0
    for item in items:
        out += offset.to_bytes(width, "little")
        offset += len(item)
    return bytes(out) + b"".join(items)


I1, I8, I32, F32, TOKEN = b"\x00", b"\x01", b"\x03", b"\x07", b"\x11"
NO_TYPES = b"\x10\x00\x00"
"""The function type () -> ()."""
RETURN = b"\x5c\x00\x00"


def function(body: bytes, debug: int = 0, count: int = 1) -> bytes:
    """A function section with one kernel: name string 0, signature type 0."""
    return varint(count) + (b"\x00\x00\x02" + varint(debug) + varint(len(body)) + body) * count


def assemble(function_section: bytes, strings: bytes | list[bytes] = (b"k",),  # type: ignore[assignment]
             types: bytes | list[bytes] = (NO_TYPES,), constants: bytes | None = None,  # type: ignore[assignment]
             debug: bytes | None = None, version: tuple[int, int] = (13, 1), extra: bytes = b"") -> bytes:
    """A file; tables come as items, or as a payload of their own."""
    out = bytearray(MAGIC + struct.pack("<BBH", *version, 0))
    section(out, FUNCTION, function_section)
    if constants is not None:
        section(out, CONSTANT, constants)
    if debug is not None:
        section(out, DEBUG, debug)
    section(out, TYPE, types if isinstance(types, bytes) else table(list(types), 4))
    section(out, STRING, strings if isinstance(strings, bytes) else table(list(strings), 4))
    out += extra
    out.append(0)
    return bytes(out)


def debug_section(attributes: list[bytes], indices: tuple[int, ...] = (1, 1)) -> bytes:
    out = bytearray(b"\x01\xcb\xcb\xcb" + struct.pack("<I", 0) + varint(len(indices)))
    out += b"\xcb" * (-len(out) % 8)
    out += struct.pack(f"<{len(indices)}Q", *indices)
    # The attribute table pads relative to the section's start, which is a multiple of 8 here.
    return bytes(out) + table(attributes, 4)


def _nested_loops(depth: int) -> bytes:
    """Loop in loop: opcode, no results, no operands, one region of one block without arguments holding one op."""
    return b"\x41\x00\x00\x01\x01\x00\x01" * depth + RETURN


def _nested_arrays(depth: int) -> bytes:
    """A reduce whose identities are an array in an array in an array."""
    return b"\x58\x00\x00\x01" + b"\x06\x01" * depth


def _call_sites(levels: int) -> list[bytes]:
    """Each call site's callee and caller are both the one before: 2**levels locations when unfolded."""
    file, unit, subprogram = b"\x02\x00\x00", b"\x01\x01", b"\x05\x01\x01\x00\x00\x02\x01"
    location = b"\x04\x03\x00\x01\x01"
    return [file, unit, subprogram, location, *(b"\x06" + varint(i) * 2 for i in range(4, 4 + levels))]


def _overlapping_constants(count: int) -> bytes:
    """Offsets that run back and forth over the same bytes."""
    out = bytearray(varint(count))
    out += b"\xcb" * (-len(out) % 8)
    for i in range(count):
        out += struct.pack("<Q", 0 if i % 2 == 0 else 1 << 16)
    return bytes(out) + bytes(1 << 16)


HOSTILE: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "magic alone": lambda: MAGIC,
    "header alone": lambda: MAGIC + b"\x0d\x01\x00\x00",
    "no sections": lambda: MAGIC + b"\x0d\x01\x00\x00\x00",
    "section past the end": lambda: MAGIC + b"\x0d\x01\x00\x00" + b"\x02" + varint(HUGE),
    "alignment past the end": lambda: MAGIC + b"\x0d\x01\x00\x00" + b"\x82\x00" + varint(1 << 63) + b"\x00",
    "alignment no power of two": lambda: MAGIC + b"\x0d\x01\x00\x00" + b"\x82\x00\x18\x00",
    "section without alignment": lambda: MAGIC + b"\x0d\x01\x00\x00" + b"\x02\x00\x00",
    "unknown section": lambda: MAGIC + b"\x0d\x01\x00\x00" + b"\x3f\x00\x00",
    "aligned end": lambda: MAGIC + b"\x0d\x01\x00\x00" + b"\x80",
    "endless varint": lambda: MAGIC + b"\x0d\x01\x00\x00" + b"\x02" + b"\xff" * 100_000,
    "bytes behind the end": lambda: assemble(function(RETURN)) + b"\x00",
    "section twice": lambda: assemble(function(RETURN), extra=b"\x81\x00\x04"),
    "huge string count": lambda: assemble(function(RETURN), strings=varint(HUGE)),
    "huge type count": lambda: assemble(function(RETURN), types=varint(1 << 40)),
    "huge constant count": lambda: assemble(function(RETURN), constants=varint(1 << 60)),
    "huge function count": lambda: assemble(varint(HUGE)),
    "huge operation count": lambda: assemble(function(b"\x41\x00\x00\x01\x01\x00" + varint(1 << 50) + RETURN)),
    "huge argument count": lambda: assemble(function(b"\x41\x00\x00\x01\x01" + varint(1 << 50))),
    "huge block count": lambda: assemble(function(b"\x41\x00\x00\x01" + varint(1 << 50))),
    "huge region count": lambda: assemble(function(b"\x41\x00\x00" + varint(1 << 50))),
    "huge result count": lambda: assemble(function(b"\x41" + varint(1 << 50))),
    "huge operand count": lambda: assemble(function(b"\x5c\x00" + varint(1 << 50))),
    "huge array attribute": lambda: assemble(function(b"\x58\x00\x00" + varint(1 << 50))),
    "body past the end": lambda: assemble(b"\x01\x00\x00\x02\x00" + varint(HUGE)),
    "operand of nowhere": lambda: assemble(function(b"\x5c\x00\x01" + varint(HUGE))),
    "type of nowhere": lambda: assemble(function(b"\x44" + varint(HUGE) + RETURN)),
    "string of nowhere": lambda: assemble(function(b"\x2c\x00\x05" + RETURN)),
    "unknown opcode": lambda: assemble(function(varint(HUGE))),
    "reserved opcode": lambda: assemble(function(b"\x19")),
    "no terminator": lambda: assemble(function(b"")),
    "terminator in the middle": lambda: assemble(function(RETURN + RETURN)),
    "string offsets fall": lambda: assemble(
        function(RETURN), strings=b"\x02\xcb\xcb\xcb" + struct.pack("<II", 1, 0) + b"k"),
    "string offsets past the end": lambda: assemble(
        function(RETURN), strings=b"\x02\xcb\xcb\xcb" + struct.pack("<II", 0, 1 << 31) + b"k"),
    "unknown flags": lambda: assemble(function(b"\x29\x00\xff\x7f"), version=(13, 2)),
    "type contains itself": lambda: assemble(function(b"\x3a\x01" + RETURN), types=[NO_TYPES, b"\x0d\x01\x00"]),
    "types contain each other": lambda: assemble(
        function(b"\x3a\x01" + RETURN), types=[NO_TYPES, b"\x0d\x02\x00", b"\x0c\x01"]),
    "function type in a function type": lambda: assemble(
        function(RETURN), types=[b"\x10\x01\x01\x00", b"\x10\x01\x02\x00", NO_TYPES]),
    "tile of 2**1000 elements": lambda: assemble(
        function(b"\x3a\x01" + RETURN),
        types=[NO_TYPES, b"\x0d\x02" + varint(100) + struct.pack("<q", 1024) * 100, I32]),
    "tile of huge rank": lambda: assemble(
        function(b"\x3a\x01" + RETURN),
        types=[NO_TYPES, b"\x0d\x02" + varint(200_000) + struct.pack("<q", 1 << 62) * 200_000, I32]),
    "shape past the end": lambda: assemble(
        function(b"\x3a\x01" + RETURN), types=[NO_TYPES, b"\x0d\x02" + varint(1 << 60), I32]),
    "constants overlap": lambda: assemble(function(RETURN), constants=_overlapping_constants(20_000)),
    "constant shorter than it says": lambda: assemble(
        function(b"\x10\x01\x00" + RETURN), types=[NO_TYPES, b"\x0d\x02\x00", I32], constants=table([varint(HUGE)], 8)),
    "loops in loops": lambda: assemble(function(_nested_loops(100_000))),
    "arrays in arrays": lambda: assemble(function(_nested_arrays(100_000))),
    "scope in itself": lambda: assemble(
        function(RETURN, debug=1), debug=debug_section([b"\x03\x01\x01\x01\x01"])),
    "scopes in each other": lambda: assemble(
        function(RETURN, debug=1),
        debug=debug_section([b"\x03\x02\x03\x01\x01", b"\x03\x01\x03\x01\x01", b"\x02\x00\x00"])),
    "call site in itself": lambda: assemble(function(RETURN, debug=1), debug=debug_section([b"\x06\x01\x01"])),
    "call sites double": lambda: assemble(
        function(RETURN, debug=1), debug=debug_section(_call_sites(60), indices=(60, 60))),
    "call sites in a chain": lambda: assemble(
        function(RETURN, debug=1),
        debug=debug_section([*_call_sites(0), *(b"\x06\x04" + varint(max(4, i)) for i in range(4, 50_000))],
                            indices=(50_000, 50_000))),
    "location is a file": lambda: assemble(function(RETURN, debug=1), debug=debug_section([b"\x02\x00\x00"])),
    "too few locations": lambda: assemble(
        function(RETURN, debug=1), debug=debug_section([b"\x02\x00\x00"], indices=(0,))),
    "debug run of nowhere": lambda: assemble(function(RETURN, debug=9), debug=debug_section([b"\x02\x00\x00"])),
    "many functions, one long debug run": lambda: assemble(
        function(RETURN, debug=1, count=2_000), debug=debug_section([b"\x02\x00\x00"], indices=(0,) * 20_000)),
}
"""Name -> file. Each is refused or read within the same bounds as any other file of its size."""


def _numbers(data: bytearray, rng: random.Random) -> None:
    """A byte becomes a varint of any size."""
    at = rng.randrange(len(data))
    data[at:at + 1] = varint(rng.choice((0, 127, 128, 1 << 14, 1 << 31, 1 << 32, 1 << 63, HUGE, rng.getrandbits(20))))


def _words(data: bytearray, rng: random.Random) -> None:
    """An aligned word, as offsets are, becomes something else."""
    width = rng.choice((4, 8))
    at = rng.randrange(len(data)) // width * width
    data[at:at + width] = rng.choice((0, 1, len(data), (1 << 31) - 1, (1 << 8 * width) - 1)).to_bytes(width, "little")


def _bits(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _bytes(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    for at in range(start, min(len(data), start + rng.randint(1, 8))):
        data[at] = rng.choice((*EXTREMES, rng.randrange(256)))


def _cut(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)):]


def _remove(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    del data[start:start + rng.randint(1, 16)]


def _repeat(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    data[start:start] = data[start:start + rng.randint(1, 32)]


def _version(data: bytearray, rng: random.Random) -> None:
    """The same file under another version: fields shift."""
    data[9] = rng.choice((1, 2, 3, 4))


_KINDS = (_bits, _bits, _bits, _bytes, _numbers, _words, _cut, _remove, _repeat)


def mutations(data: bytes, seed: int, count: int) -> Iterator[bytes]:
    """`count` damaged copies of a file; the same for the same seed."""
    rng = random.Random(seed)
    for _ in range(count):
        changed = bytearray(data)
        if rng.random() < 0.1:
            _version(changed, rng)
        for _ in range(rng.randint(1, 3)):
            # Nearly always behind the header, where the interesting code is.
            head = changed[:12] if rng.random() < 0.95 else bytearray()
            body = changed[len(head):]
            if body:
                rng.choice(_KINDS)(body, rng)
            changed = head + body
        yield bytes(changed)
