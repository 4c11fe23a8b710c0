"""What the hardware is told of a tile in shared memory: boxes of tensor copies, matrix and instruction descriptors.

Everything derives from one `CanonicalTile` (layout/shared.py), so that the copy engine, the tensor cores and ordinary
accesses agree on where each byte lies. Addresses are those of the tile without its swizzle: the hardware applies the
swizzle to the address that it computes.

    64-bit matrix descriptor        start address, leading and stride offset, all in 16 bytes, at bits 0, 16, 32
                                    wgmma: swizzle at bits 62-63 (1: 128, 2: 64, 3: 32 bytes)
                                    tcgen05: bit 46 set, swizzle at bits 61-63 (2: 128, 4: 64, 6: 32 bytes; 1: 128 bytes, of
                                    which 32 stay together)

    offsets (bytes)                 leading                     stride
    K contiguous, swizzled          (not used: 1)               from 8 rows to the next 8
    K contiguous, no swizzle        from 16 bytes of K on       from 8 rows to the next 8
    M/N contiguous, swizzled        from panel to panel         from 8 rows of K to the next 8
    M/N contiguous, no swizzle      from 8 rows of K on         from panel to panel
    M/N contiguous, WIDE_ATOMS      from panel to panel         from 4 rows of K to the next 4
"""
from __future__ import annotations

from dataclasses import dataclass

from tileiras.layout.shared import CHUNK_BYTES, GROUP_ROWS, MAX_BOX_EXTENT, WHOLE_ROWS, WIDE_ATOMS, CanonicalTile

_FIELD = 0x3FFF
"""Offsets and addresses of matrix descriptors have 14 bits."""
_WGMMA_SWIZZLES = {0: 0, 128: 1, 64: 2, 32: 3}
_TCGEN05_SWIZZLES = {0: 0, 128: 2, 64: 4, 32: 6, WIDE_ATOMS: 1}
_WIDE_GROUP_ROWS = 4
"""That a descriptor steps over at once where 32 bytes stay together."""
_TCGEN05_VERSION = 1 << 46


# --- tensor copies ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BoxCopy:
    """One tensor copy of a tile: `at[d]` is the box's first element in the tile's dimension d, `byte` its place in shared
    memory from the tile's start."""

    at: tuple[int, ...]
    byte: int


@dataclass(frozen=True)
class Boxes:
    """How tensor copies move a tile. `order`: the tile's dimensions as the tensor map numbers them, contiguous one first;
    `box`: elements in each of them, in that order; `swizzle`: bytes, as the map names it, of which `atom` stay together; `copies`:
    one a panel (more where a panel has more rows than a box may have)."""

    order: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    copies: tuple[BoxCopy, ...]
    box_bytes: int
    atom: int = CHUNK_BYTES


def boxes(tile: CanonicalTile) -> Boxes:
    """The boxes of a tile; together they are the whole tile, once. The rows of a box lie one behind the other: where a dimension
    has more than a box may have, the box has one of those outside of it."""
    order = (tile.major, *(d for d in reversed(range(len(tile.shape))) if d != tile.major))
    box, cut = (tile.columns,), False
    for d in order[1:]:
        box += (1 if cut else min(tile.shape[d], MAX_BOX_EXTENT),)
        cut = cut or tile.shape[d] > MAX_BOX_EXTENT
    starts: list[list[int]] = [[0] * len(tile.shape)]
    for d, extent in zip(reversed(order), reversed(box)):
        starts = [[*at[:d], i, *at[d + 1:]] for at in starts for i in range(0, tile.shape[d], extent)]
    copies = tuple(BoxCopy(tuple(at), byte_offset(tile, at)) for at in starts)
    num = tile.bits
    for extent in box:
        num *= extent
    swizzle = tile.span if tile.swizzle not in (0, WHOLE_ROWS) else 0
    return Boxes(order, box, swizzle, copies, num // 8, tile.atom)


def part_of(tile: CanonicalTile, count: int) -> tuple[tuple[int, ...], CanonicalTile] | None:
    """A tile cut into so many parts of equal size that lie one behind the other: into how many along each dimension, and one of
    them. Parts are numbered along the contiguous dimension first, by panels, then by rows. None where it can't be cut: rows go by
    groups of a swizzle."""
    panels = min(tile.panels, count)
    cuts = [panels if d == tile.major else 1 for d in range(len(tile.shape))]
    rows = count // panels
    if rows > 1:
        outer = next((d for d, extent in enumerate(tile.shape) if d != tile.major and extent > 1), None)
        if outer is None or panels < tile.panels or tile.shape[outer] % rows or tile.panel_bytes // rows % tile.alignment:
            return None
        cuts[outer] = rows
    if tile.run or panels * rows != count or tile.panels % panels:
        return None
    return tuple(cuts), CanonicalTile(tuple(n // c for n, c in zip(tile.shape, cuts)), tile.bits, tile.major, tile.swizzle)


def byte_offset(tile: CanonicalTile, at: tuple[int, ...] | list[int]) -> int:
    """Bytes from the tile's start to the element at these coordinates, before the swizzle."""
    flat = 0
    for extent, i in zip(tile.shape, at):
        flat = flat * extent + i
    return tile.plain.offset(flat) * tile.bits // 8


# --- matrix descriptors -----------------------------------------------------------------------------------------------


def matrix_descriptor(tile: CanonicalTile, k_dim: int, form: str) -> int:
    """The descriptor of a tile as an operand of `form` "wgmma" or "tcgen05", with start address 0.

    k_dim: the tile's dimension that is the product's K; the last two dimensions are the matrix. Add `address_field` of
    the shared address of a part (the tile's start plus `byte_offset`). Raises ValueError if the tile has fewer than eight
    rows, its panels are too far apart, or it lies in a form that the instruction doesn't take."""
    if tile.rows % GROUP_ROWS:
        raise ValueError(f"a matrix descriptor steps over {GROUP_ROWS} rows, the tile has {tile.rows}")
    if tile.swizzle == WIDE_ATOMS and (form != "tcgen05" or tile.major == k_dim):
        raise ValueError("only tcgen05 takes tiles of which 32 bytes stay together, where M or N is contiguous")
    group = (_WIDE_GROUP_ROWS if tile.swizzle == WIDE_ATOMS else GROUP_ROWS) * tile.span
    if tile.major == k_dim:
        leading, stride = (CHUNK_BYTES, group) if tile.swizzle else (tile.panel_bytes, group)
    else:
        leading, stride = (tile.panel_bytes, group) if tile.swizzle else (group, tile.panel_bytes)
    if tile.panels == 1 and max(leading, stride) == tile.panel_bytes:
        # never stepped over
        leading, stride = min(leading, group), min(stride, group)
    if max(leading, stride) >> 4 > _FIELD:
        raise ValueError(f"a matrix descriptor can't step over {max(leading, stride)} bytes")
    if form == "tcgen05":
        high = _TCGEN05_SWIZZLES[tile.swizzle] << 61 | _TCGEN05_VERSION
    else:
        high = _WGMMA_SWIZZLES[tile.swizzle] << 62
    return high | stride >> 4 << 32 | leading >> 4 << 16


def address_field(address: int) -> int:
    """A shared address as the lowest bits of a matrix descriptor."""
    return address >> 4 & _FIELD


# --- instruction descriptors of tcgen05.mma -----------------------------------------------------------------------------


_FLOATS = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
_OPERANDS = {"f16": {"f16": 0, "bf16": 1}, "tf32": {"tf32": 2}, "f8f6f4": _FLOATS, "i8": {"u8": 0, "s8": 1},
             "mxf8f6f4": _FLOATS, "mxf4": {"e2m1": 1}, "mxf4nvf4": {"e2m1": 1}}
_RESULTS = {"f16": 0, "f32": 1, "s32": 2}
_SCALES = {"ue4m3": 0, "ue8m0": 1, "ue5m3": 2}
BLOCK_SCALED_KINDS = ("mxf8f6f4", "mxf4", "mxf4nvf4")


def instruction_descriptor(kind: str, m: int, n: int, a: str, b: str, d: str, *, a_mn_major: bool = False,
                           b_mn_major: bool = False, negated: bool = False, scale: str = "", scale_a: int = 0,
                           scale_b: int = 0) -> int:
    """The 32 bits that tell tcgen05.mma its types and shape.

    kind: after `.kind::`. a, b, d: element types. a_mn_major, b_mn_major: whether M of A, N of B is contiguous.
    negated: whether A's sign is changed (floats). scale: type of the scale factors of a block-scaled kind; scale_a, scale_b:
    in which byte of a word of tensor memory they start. Raises ValueError for a type that the kind doesn't have."""
    types = _OPERANDS[kind]
    if a not in types or b not in types or d not in _RESULTS:
        raise ValueError(f"kind::{kind} has no product of {a} and {b} to {d}")
    word = types[a] << 7 | types[b] << 10 | a_mn_major << 15 | b_mn_major << 16 | n >> 3 << 17
    if kind in BLOCK_SCALED_KINDS:
        if d != "f32" or scale not in _SCALES:
            raise ValueError(f"kind::{kind} gives f32 and takes scales of {', '.join(_SCALES)}, not {d} and {scale or 'none'}")
        return word | scale_b << 4 | _SCALES[scale] << 23 | m >> 7 << 27 | scale_a << 29
    return word | _RESULTS[d] << 4 | negated << 13 | m >> 4 << 24
