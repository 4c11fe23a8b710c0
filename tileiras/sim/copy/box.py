"""Which bytes of global memory one tensor copy touches, and where in shared memory they lie.

A box is a list of rows, each contiguous in global memory and in shared memory: `rows_of` lists them for every mode of
`cp.async.bulk.tensor` (PTX ISA 5.5). `places` gives the position of each 16 bytes of the box in shared memory, which the
swizzle exchanges by XOR of address bits:

    32 bytes: bit 4 with bit 7       64 bytes: bits 4-5 with bits 7-8     128 bytes: bits 4-6 with bits 7-9
    96 bytes: as 32 bytes            atomicity 32B: bits 5-6 with bits 7-8, 64B: bit 6 with bit 7; 8B flip: bit 3 with bit 7

Where the ISA is silent, this is done (none of it verified on hardware): rows shorter than their swizzle take the whole
width of the swizzle in shared memory; interleaved tensors count slices of 16 or 32 bytes in dimension 0; the halo of
im2col::w goes on behind the last pixel of its row; the NaN that fills has all bits set but the sign.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tileiras.sim.copy.tensormap import Map
from tileiras.sim.errors import DescriptorError
from tileiras.sim.matrix import descriptors

_NAN = {"f16": (2, 0x7FFF), "bf16": (2, 0x7FFF), "f32": (4, 0x7FFFFFFF), "f32.ftz": (4, 0x7FFFFFFF),
        "f64": (8, 0x7FFF_FFFF_FFFF_FFFF)}
_ATOMS = (16, 32, 32, 64)                # bytes that a swizzle keeps together, by atomicity
_PADDED = {"b4x16_p64": (8, 16), "b6x16_p32": (12, 16)}         # bytes of 16 elements: global, shared


@dataclass
class Rows:
    """The rows of a box. `starts`: offset from the tensor's address of the first byte inside, [rows]; `inside`: rows with
    bytes inside the tensor; `skip` and `count`: bytes outside at a row's start, and bytes inside; `width`: bytes of a row."""
    starts: np.ndarray
    inside: np.ndarray
    skip: int
    count: int
    width: int

    @property
    def whole(self) -> bool:
        """Whether all of the box lies inside the tensor."""
        return self.count == self.width and bool(self.inside.all())


def rows_of(m: Map, mode: str, coords: tuple[int, ...], info: tuple[int, ...] = ()) -> Rows:
    """The rows that a copy in `mode` (tile, tile::gather4, im2col, ...) at `coords` touches.

    `info`: the im2col offsets W, H, D, or halo and offset of im2col::w. Raises DescriptorError when the map isn't made
    for the mode."""
    if mode in ("tile", "tile::gather4", "tile::scatter4"):
        if m.mode != "tile":
            raise DescriptorError(f"a tensor map of mode {m.mode} in a copy of mode {mode}")
        if mode == "tile":
            return _tile(m, coords)
        return _four(m, coords, mode)
    wide = mode.startswith("im2col::w")
    if m.mode != ("im2col::w" if wide else "im2col"):
        raise DescriptorError(f"a tensor map of mode {m.mode} in a copy of mode {mode}")
    points = _wide_pixels(m, coords, info, mode) if wide else _pixels(m, coords, info)
    where = np.array(points, np.int64).reshape(len(points), m.rank - 1)
    return _rows(m, coords[0], m.channels, where)


def _tile(m: Map, coords: tuple[int, ...]) -> Rows:
    axes = [c + s * np.arange((b + s - 1) // s, dtype=np.int64) for c, b, s in zip(coords, m.box, m.steps)]
    if m.interleave:
        return _slices(m, axes)
    outer = axes[1:]
    where = np.stack(np.meshgrid(*outer[::-1], indexing="ij"), axis=-1).reshape(-1, len(outer))[:, ::-1] if outer else \
        np.zeros((1, 0), np.int64)
    return _rows(m, coords[0], m.box[0], where)


def _slices(m: Map, axes: list[np.ndarray]) -> Rows:
    """An interleaved box: every slice is a row of its own."""
    where = np.stack(np.meshgrid(*axes[::-1], indexing="ij"), axis=-1).reshape(-1, m.rank)[:, ::-1]
    inside = np.asarray(((where >= 0) & (where < np.array(m.sizes, np.int64))).all(axis=1))
    starts = where @ np.array((m.interleave, *m.strides), np.int64)
    return Rows(starts, inside, 0, m.interleave, m.interleave)


def _four(m: Map, coords: tuple[int, ...], mode: str) -> Rows:
    if m.rank != 2 or m.box[1] != 1 or m.interleave:
        raise DescriptorError(f"{mode} needs a tensor map of 2 dimensions with boxes of one row, without interleave")
    return _rows(m, coords[0], m.box[0], np.array(coords[1:5], np.int64)[:, None])


def _rows(m: Map, first: int, count: int, where: np.ndarray) -> Rows:
    """Rows of `count` elements from element `first` of dimension 0, at positions `where` [rows, rank - 1]."""
    inside = np.asarray(((where >= 0) & (where < np.array(m.sizes[1:], np.int64))).all(axis=1))
    low, high = max(0, -first), min(count, m.sizes[0] - first)
    if high <= low:
        inside, low, high = np.zeros(len(where), bool), 0, 0
    starts = where @ np.array(m.strides, np.int64) + (first + low) * m.bits // 8
    return Rows(starts, inside, low * m.bits // 8, (high - low) * m.bits // 8, count * m.bits // 8)


def _pixels(m: Map, coords: tuple[int, ...], offsets: tuple[int, ...]) -> list[tuple[int, ...]]:
    """im2col: positions (W, H, D, N) of each pixel. The filter's base walks the bounding box, W first."""
    n = m.rank - 2
    low = list(m.lower)
    high = [m.sizes[1 + i] - 1 + m.upper[i] for i in range(n)]
    at, image = list(coords[1:1 + n]), coords[1 + n]
    offsets = tuple(offsets) or (0,) * n
    most = {3: 1 << 16, 4: 1 << 8, 5: 1 << 5}[m.rank]
    if max(offsets) >= most:
        raise DescriptorError(f"an im2col offset of {max(offsets)}; with {m.rank} dimensions it must be below {most}")
    for i in range(n):
        if not low[i] <= at[i] <= high[i]:
            raise DescriptorError(f"im2col starts at {at[i]} of dimension {i + 1}, outside the bounding box "
                                  f"from {low[i]} to {high[i]}")
    out = []
    for _ in range(m.pixels):
        out.append((*(a + o for a, o in zip(at, offsets)), image))
        for i in range(n):
            at[i] += m.steps[1 + i]
            if at[i] <= high[i]:
                break
            at[i] = low[i]
        else:
            image += 1
    return out


def _wide_pixels(m: Map, coords: tuple[int, ...], info: tuple[int, ...], mode: str) -> list[tuple[int, ...]]:
    """im2col::w and ::w::128: pixels along W, then along N; halo pixels behind the last, or behind every 32."""
    halo, offset = info
    if halo >= (512 if mode == "im2col::w" else 32) or offset >= 32:
        raise DescriptorError(f"{mode} with a halo of {halo} and an offset of {offset}")
    low, high = m.lower[0] + offset, m.sizes[1] - 1 + m.upper[0] + offset
    w, rest, image = coords[1] + offset, coords[2:-1], coords[-1]
    if w > high:
        raise DescriptorError(f"{mode} starts at {w} of dimension 1, right of the bounding box from {low} to {high}")
    total, every = (m.pixels, m.pixels) if mode == "im2col::w" else (128, 32)
    out = []
    for i in range(1, total + 1):
        out.append((w, *rest, image))
        if i % every == 0 or i == total:
            out += [(w + m.steps[1] * k, *rest, image) for k in range(1, halo + 1)]
        w += m.steps[1]
        if w > high:
            w, image = low, image + 1
    return out


def shared_width(m: Map, width: int) -> int:
    """Bytes of a row in shared memory, before the swizzle's padding."""
    if m.element in _PADDED:
        given, taken = _PADDED[m.element]
        return width // given * taken
    return width


@lru_cache(maxsize=512)
def places(start: int, rows: int, width: int, swizzle: int, atomicity: int) -> np.ndarray:
    """Where a box lies: the shared address of each 16 bytes (8 with the 8B flip), [rows, units]; `start` is the box's."""
    unit = 8 if atomicity == 2 else 16
    pitch = max(width, swizzle)
    address = start + np.arange(rows, dtype=np.int64)[:, None] * pitch + np.arange(0, width, unit, dtype=np.int64)
    return swizzled(address, swizzle, atomicity)


def swizzled(address: np.ndarray, swizzle: int, atomicity: int = 0) -> np.ndarray:
    """Shared addresses with the swizzle's bits exchanged, as matrix descriptors have it, and the 8B flip."""
    address = descriptors.swizzled(address, 32 if swizzle == 96 else swizzle, _ATOMS[atomicity])
    return address ^ (address >> 4 & 8) if atomicity == 2 else address


def span(m: Map, rows: int, width: int) -> int:
    """Bytes of shared memory from the box's first to behind its last."""
    if rows == 0:
        return 0
    wide = shared_width(m, width)
    return (rows - 1) * max(wide, m.swizzle) + max(wide, m.swizzle if m.swizzle else 0)


def unit_of(*values: int) -> int:
    """The largest of 16, 8, 4, 2, 1 that divides all values."""
    bits = 16
    for v in values:
        bits |= v
    return bits & -bits


def read_rows(data: np.ndarray, base: int, r: Rows) -> np.ndarray:
    """The box's bytes, [rows, width], with zeros where it lies outside; `data` is memory, `base` the tensor's offset."""
    block = np.zeros((len(r.starts), r.width), np.uint8) if not r.whole else np.empty((len(r.starts), r.width), np.uint8)
    if not r.count or not r.inside.any():
        return block
    starts = base + (r.starts if r.whole else r.starts[r.inside])
    unit = unit_of(int(np.bitwise_or.reduce(starts)), r.skip, r.count, r.width)
    index = (starts // unit)[:, None] + np.arange(r.count // unit)
    kind = np.dtype((np.void, unit)) if unit == 16 else np.dtype(f"u{unit}")
    got = data[:len(data) // unit * unit].view(kind)[index]
    target = block.view(kind)[:, r.skip // unit:(r.skip + r.count) // unit]
    if r.whole:
        target[:] = got
    else:
        target[r.inside] = got
    return block


def fill(m: Map, r: Rows, block: np.ndarray) -> None:
    """Put NaNs where the box lies outside, for maps that ask for them."""
    if not m.nan_fill or r.whole or m.element not in _NAN:
        return
    size, bits = _NAN[m.element]
    view = block.view(f"u{size}")
    view[~r.inside] = bits
    view[:, :r.skip // size] = bits
    view[:, (r.skip + r.count) // size:] = bits


def to_tf32(block: np.ndarray) -> None:
    """Round f32 values to tf32, ties to even, in place; infinities and NaNs stay as they are."""
    words = block.view(np.uint32)
    finite = (words & 0x7F800000) != 0x7F800000
    odd = words[finite] >> np.uint32(13) & np.uint32(1)
    words[finite] = (words[finite] + np.uint32(0xFFF) + odd) & np.uint32(0xFFFFE000)


def pad(m: Map, block: np.ndarray) -> np.ndarray:
    """A box as it is in shared memory: types with padding get it (as zeros)."""
    if m.element not in _PADDED:
        return block
    given, taken = _PADDED[m.element]
    out = np.zeros((block.shape[0], block.shape[1] // given, taken), np.uint8)
    out[:, :, :given] = block.reshape(block.shape[0], -1, given)
    return out.reshape(block.shape[0], -1)


def padding_of(m: Map, rows: int, width: int) -> np.ndarray | None:
    """Which bytes of the box in shared memory are padding, [rows, bytes]; None: none."""
    if m.element not in _PADDED:
        return None
    given, taken = _PADDED[m.element]
    mask = np.zeros((rows, width // given, taken), bool)
    mask[:, :, given:] = True
    return mask.reshape(rows, -1)


def unpad(m: Map, block: np.ndarray) -> np.ndarray:
    """A box as a store puts it in global memory: of b6p2x16, the low six bits of each byte."""
    if m.element != "b6x16_p32":
        return block
    bits = np.unpackbits(block.reshape(-1, 1), axis=1, bitorder="little")[:, :6]
    return np.packbits(bits.reshape(block.shape[0], -1), axis=1, bitorder="little")


def write_rows(data: np.ndarray, base: int, r: Rows, block: np.ndarray) -> None:
    """Write the part of a box that lies inside the tensor."""
    if not r.count:
        return
    for i in np.flatnonzero(r.inside):
        at = base + int(r.starts[i])
        data[at:at + r.count] = block[i, r.skip:r.skip + r.count]


def bounds(r: Rows) -> tuple[int, int] | None:
    """First byte and end of all that lies inside the tensor, from its address; None: nothing does."""
    if not r.count or not r.inside.any():
        return None
    starts = r.starts[r.inside]
    return int(starts.min()), int(starts.max()) + r.count
