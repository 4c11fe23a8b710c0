"""PTX that the original compiler embeds in cubins of the kernel suite, and the tensor maps its kernels take.

A kernel that uses the tensor copy engine has hidden parameters: tensor maps that the original's launcher makes and
nobody documents. Here they are worked out from what the cubin itself says. The embedded Tile IR names the views and
their tiles, and through its `assume`s which argument holds each size and stride; the PTX says which copies use which
map, in how many pieces, and how many bytes it expects of them. A map's box is the tile divided by the number of
different coordinates in each dimension, with as many rows as the bytes say. It is swizzled, as wide as a row of the box,
when the code says so: by the swizzle in a matrix descriptor, or by addresses whose bits 4 to 6 it exchanges itself.

    ptx = original_ptx("matmul_float16_float32", "sm_90")
    maps = tensor_maps(ptx, launch.flat)                    # arguments for the hidden parameters
"""
from __future__ import annotations

import functools
import os
import pathlib
import re
import struct
import subprocess
import tempfile
from dataclasses import dataclass, replace

import numpy as np

from tests.kernels import runner
from tileiras.layout.tensormap import TensorMap
from tileiras.sim.copy.tensormap import MapArgument
from tileiras.sim.errors import DescriptorError
from tileiras.sim.matrix import descriptors

ROOT = pathlib.Path(__file__).resolve().parents[2]
ELEMENTS = {"i8": ("u8", 1), "f8E4M3FN": ("u8", 1), "f8E5M2": ("u8", 1), "f8E8M0FNU": ("u8", 1), "i16": ("u16", 2),
            "i32": ("s32", 4), "i64": ("s64", 8), "f16": ("f16", 2), "bf16": ("bf16", 2), "f32": ("f32", 4),
            "tf32": ("f32", 4), "f64": ("f64", 8), "i1": ("u8", 1)}


class Unknown(Exception):
    """A map that this file's rules can't work out."""


def original() -> str | None:
    """The original's command: named by TILEIRAS_ORIGINAL, or in the environment that `make bench` makes; else None."""
    found = os.environ.get("TILEIRAS_ORIGINAL")
    places = [pathlib.Path(found)] if found else sorted(
        ROOT.glob(".venv-reference/lib/python*/site-packages/nvidia/cu13/bin/tileiras"))
    return next((str(p) for p in places if p.is_file()), None)


def section(cubin: bytes, wanted: bytes) -> bytes:
    """The contents of an ELF file's section."""
    table, = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    strings, = struct.unpack_from("<Q", cubin, table + names * size + 24)
    for i in range(count):
        name, _, _, _, start, length = struct.unpack_from("<IIQQQQ", cubin, table + i * size)
        if cubin[strings + name:].startswith(wanted + b"\0"):
            return cubin[start:start + length]
    raise AssertionError(f"no section {wanted.decode()}")


@functools.cache
def original_ptx(name: str, sm: str) -> str:
    """What the original makes of a case for an SM. Its lines end in NUL."""
    command = original()
    assert command is not None
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "k.cubin"
        subprocess.run([command, str(runner.bytecode_path(name, runner.case_of(name).versions[0])), "-o", str(file),
                        "--gpu-name", sm, "-O3", "--lineinfo"], check=True, timeout=120, capture_output=True)
        return section(file.read_bytes(), b".nv_debug_ptx_txt").decode().replace("\0", "\n")


# ---- the Tile IR inside

@dataclass
class View:
    """A tensor view: the argument that points to it, and its sizes and strides in elements, outermost first."""
    argument: int
    element: str
    sizes: list[int]
    strides: list[int]


@dataclass
class Access:
    """A load or store of a tile of a view; the tile in the order of the view's dimensions."""
    kind: str
    view: View
    tile: list[int]
    padding: str


def accesses(ptx: str, flat: list) -> list[Access]:
    """The tile accesses of the embedded Tile IR, in order, with the sizes that the launch's arguments give."""
    text = ptx[ptx.index("entry @"):ptx.index(".source_end")]
    values: dict[str, object] = {f"%arg{i}": i for i in range(len(flat))}
    views: dict[str, View] = {}
    parts: dict[str, View] = {}
    found = []

    def number(word: str) -> int:
        if word.startswith("%"):
            argument = values[word]
            assert isinstance(argument, int)
            return int(flat[argument])
        return int(word)

    for line in text.splitlines():
        line = line.strip()
        if m := re.match(r"(%\w+) = assume .*?, (%\w+) : ", line):
            if m[2] in values:
                values[m[1]] = values[m[2]]
        elif m := re.match(r"(%\w+) = make_tensor_view (%\w+), shape = \[(.*?)\], strides = \[(.*?)\].*?-> "
                           r"tensor_view<(?:[\d?]+x)*(\w+),", line):
            try:
                argument = values[m[2]]
                assert isinstance(argument, int)
                views[m[1]] = View(argument, m[5], [number(w.strip()) for w in m[3].split(",")],
                                   [number(w.strip()) for w in m[4].split(",")])
            except KeyError:
                continue
        elif m := re.match(r"(%\w+) = make_partition_view (%\w+) : partition_view<(.*)$", line):
            if m[2] in views:
                parts[m[1]] = views[m[2]]
        elif m := re.match(r"(?:%\w+, %\w+|%\w+) = (load|store)_view_tko .*?(%pview\w*)\[.*?partition_view<tile=\((\S+?)\)"
                           r"(?:, padding_value = (\w+))?", line):
            if m[2] in parts:
                tile = [int(n) for n in m[3].split("x")]
                if order := re.search(r"dim_map=\[(.*?)\]", line):
                    tile = [tile[[int(n) for n in order[1].split(",")].index(i)] for i in range(len(tile))]
                found.append(Access(m[1], parts[m[2]], tile, m[4] or ""))
    return found


# ---- the copies in the PTX

@dataclass
class Copy:
    """One cp.async.bulk.tensor: what it does with which map, its coordinates, the piece of code it stands in and the
    bytes expected there (0: not said)."""
    kind: str
    map: int
    coordinates: tuple[str, ...]
    piece: int
    bytes: int = 0


def copies(ptx: str) -> list[Copy]:
    """All tensor copies. A piece of code ends with what waits for its copies."""
    hidden = re.findall(r"\.hidden\s+\.param\s+\.align 64 \.b8 (\w+)\[128\]", ptx)
    place: dict[str, int] = {}
    constants: dict[str, int] = {}
    found: list[Copy] = []
    piece = 0
    for line in ptx[:ptx.index(".source_begin")].splitlines():
        if m := re.match(r"\s*mov\.b64\s+(%\w+), (\w+);", line):
            if m[2] in hidden:
                place[m[1]] = hidden.index(m[2])
        elif m := re.match(r"\s*(?:mov\.b64|cvta\.param\.u64)\s+(%\w+), (%\w+);", line):
            if m[2] in place:
                place[m[1]] = place[m[2]]
        elif m := re.match(r"\s*mov\.b32\s+(%\w+), (\d+);", line):
            constants[m[1]] = int(m[2])
        elif m := re.match(r"\s*mbarrier\.arrive\.expect_tx\S*\s.*?, (%?\w+);", line):
            amount = constants.get(m[1], 0)
            for copy in found:
                if copy.piece == piece:
                    copy.bytes = amount
            piece += 1
        elif m := re.search(r"cp\.async\.bulk\.tensor\.\dd\.(\S+?)\.tile\S*\s+(.*);", line):
            load = m[1].startswith("shared")
            use = re.search(r"\[(%\w+), \{(.*?)\}\]", m[2])
            if use is None or use[1] not in place:
                raise Unknown(line)
            found.append(Copy("load" if load else "store", place[use[1]],
                              tuple(w.strip() for w in use[2].split(",")), piece))
    return found


def swizzles_in(ptx: str) -> set[int]:
    """The swizzles (bytes) that the kernel knows of: in its matrix descriptors, and where it exchanges address bits."""
    form = "wgmma" if "wgmma.mma_async" in ptx else "tcgen05"
    found = set()
    if "wgmma.mma_async" in ptx or "tcgen05.mma" in ptx:
        words = [int(w) for w in re.findall(r"or\.b64\s+%\w+, %\w+, (-?\d{12,});", ptx)]
        high = dict(re.findall(r"mov\.b32\s+(%\w+), (-?\d+);", ptx))            # or put together of two halves
        words += [int(high[h]) << 32 for h in re.findall(r"mov\.b64\s+%\w+, \{%\w+, (%\w+)\};", ptx) if h in high]
        for word in words:
            try:
                found.add(descriptors.decode(word & (1 << 64) - 1, form).swizzle)
            except DescriptorError:
                continue
    masks = {"112": 128, "48": 64, "16": 32}
    bits = {}
    for line in ptx.splitlines():
        if m := re.match(r"\s*and\.b32\s+(%\w+), %\w+, (112|48|16);", line):
            bits[m[1]] = masks[m[2]]
        elif m := re.match(r"\s*xor\.b32\s+%\w+, (%\w+), (%\w+);", line):
            found.update(bits[w] for w in (m[1], m[2]) if w in bits)
    return found


def transposed_tf32(ptx: str) -> tuple[bool, bool]:
    """Whether a tcgen05 product of tf32 takes A, and B, major in M or N: such operands are swizzled in atoms of 32 bytes."""
    m = re.search(r"tcgen05\.mma\S*kind::tf32\S*\s+\[%\w+\], %\w+, %\w+, (%\w+),", ptx)
    value = re.search(rf"mov\.b32\s+{m[1]}, (\d+);", ptx) if m else None
    word = int(value[1]) if value else 0
    return bool(word >> 15 & 1), bool(word >> 16 & 1)


# ---- the maps

def _box(copies_: list[Copy], every: list[Copy], access: Access) -> tuple[int, ...] | None:
    """The box (innermost first) by which a map's copies take an access's tile; None when they don't. Columns are divided
    by the coordinates in one piece of code (`copies_`), or, where that leaves rows wider than any swizzle, in all."""
    size = ELEMENTS[access.view.element][1]
    found = [_divided(copies_, len({c.coordinates[0] for c in group}), access) for group in (copies_, every)]
    boxes = [b for b in found if b is not None]
    return next((b for b in boxes if b[0] * size <= 128), boxes[0] if boxes else None)


def _divided(copies_: list[Copy], columns: int, access: Access) -> tuple[int, ...] | None:
    tile = access.tile[::-1]
    rank = len(copies_[0].coordinates)
    if rank != len(tile):
        return None
    size = ELEMENTS[access.view.element][1]
    whole = int(np.prod(tile))
    count = copies_[0].bytes // size // len(copies_) if copies_[0].bytes else whole // len(copies_)
    if not count or (copies_[0].bytes and copies_[0].bytes % (size * len(copies_))) or whole % count:
        return None
    if tile[0] % columns or tile[0] // columns * size % 16:
        return None
    box = [tile[0] // columns]
    left = count // box[0]
    for extent in tile[1:]:
        box.append(min(extent, left))
        if not box[-1] or extent % box[-1] or left % box[-1]:
            return None
        left //= box[-1]
    return tuple(box) if left == 1 and int(np.prod(box)) == count else None


def tensor_maps(ptx: str, flat: list) -> list[MapArgument]:
    """Arguments for a kernel's hidden parameters, in order. Raises Unknown."""
    count = len(re.findall(r"\.hidden\s+\.param\s+\.align 64 \.b8 \w+\[128\]", ptx))
    remaining = accesses(ptx, flat)
    every = copies(ptx)
    out = []
    known, transposed, loads = swizzles_in(ptx), transposed_tf32(ptx), 0
    for k in range(count):
        mine = [c for c in every if c.map == k]
        if not mine:
            raise Unknown(f"no copy uses map {k}")
        first = [c for c in mine if c.piece == mine[0].piece] if mine[0].bytes else mine
        if mine[0].bytes and any(c.map != k and c.piece == mine[0].piece for c in every):
            first = [replace(c, bytes=0) for c in first]         # the bytes are those of several maps
        for i, access in enumerate(remaining):
            box = _box(first, mine, access) if access.kind == mine[0].kind else None
            if box is not None:
                del remaining[i]
                break
        else:
            raise Unknown(f"no access fits map {k}")
        view, (element, size) = access.view, ELEMENTS[access.view.element]
        if view.strides[-1] != 1:
            raise Unknown(f"the view of map {k} isn't contiguous")
        row = box[0] * size
        swizzle = row if row in known and len(box) > 1 else 0
        values = {"element": element, "sizes": tuple(view.sizes[::-1]), "box": box, "swizzle": swizzle,
                  "strides": tuple(s * size for s in view.strides[-2::-1]), "nan_fill": access.padding == "nan"}
        if access.kind == "load" and loads < 2 and swizzle == 128 and transposed[loads]:
            values["atomicity"] = "32B"
        loads += access.kind == "load"
        out.append(MapArgument(flat[view.argument], functools.partial(_encode, values)))
    return out


def _encode(values: dict, address: int) -> bytes:
    made = TensorMap(address, **values)
    made.check()
    return made.encode()


def arguments(ptx: str, flat: list) -> list:
    """All launch arguments: the case's, then tensor maps, or null for hidden buffers the kernel doesn't need."""
    return [*flat, *tensor_maps(ptx, flat)]
