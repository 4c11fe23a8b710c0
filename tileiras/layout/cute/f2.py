"""Between CuTe's layouts and the matrices over F2 that this compiler decides with.

Both name a power-of-two tile's elements by bits: a matrix by the bits of the row-major index, CuTe by digits of which
the first counts fastest. A CuTe layout is linear over F2 when adding its strides never carries: each bit of the
coordinate then moves bits of the index that no other does. A swizzle is linear anyhow.

    to_shared(ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1))))      8 rows of 64, 16-byte pieces XORed
    to_linear(Layout((32, 2), (2, 1)), (64,), 1)                                  (thread, value) -> element
"""
from __future__ import annotations

from collections.abc import Sequence

from tileiras.layout.cute.algebra import Layout, make_layout
from tileiras.layout.cute.swizzle import AnyLayout, ComposedLayout, Swizzle
from tileiras.layout.cute.tuples import LayoutError
from tileiras.layout.linear import LANE_BITS, LinearLayout, dim_bits, log2
from tileiras.layout.shared import SharedLayout


def bases(layout: AnyLayout) -> tuple[int, ...]:
    """The indices of the coordinates 1, 2, 4, ...: the matrix's columns. Raises LayoutError if the layout isn't linear
    over F2."""
    plain = layout.layout if isinstance(layout, ComposedLayout) else layout
    if isinstance(layout, ComposedLayout) and layout.offset:
        raise LayoutError(f"{layout} has no matrix: it doesn't begin at 0")
    out: list[int] = []
    moved = 0
    for n, d in plain.leaves:
        if n & n - 1:
            raise LayoutError(f"{layout} has no matrix: {n} is not a power of two")
        for i in range(log2(n)):
            step = d << i
            if step & moved:
                raise LayoutError(f"{layout} has no matrix: its strides carry into each other")
            moved |= step
            out.append(step)
    if isinstance(layout, ComposedLayout):
        return tuple(map(layout.swizzle, out))
    return tuple(out)


def _mode_shape(layout: AnyLayout) -> tuple[int, ...]:
    plain = layout.layout if isinstance(layout, ComposedLayout) else layout
    return tuple(mode.size for mode in plain.modes)


def _row_major(columns: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """Columns for the bits of the first-mode-fastest index, sorted for the bits of the row-major one."""
    out = [0] * len(columns)
    at = 0
    for low, bits in dim_bits(shape):
        out[low:low + bits] = columns[at:at + bits]
        at += bits
    return tuple(out)


def _first_fastest(columns: Sequence[int], shape: Sequence[int]) -> list[tuple[int, ...]]:
    """For each dimension, the columns of its bits."""
    return [tuple(columns[low:low + bits]) for low, bits in dim_bits(shape)]


def to_shared(layout: AnyLayout) -> SharedLayout:
    """The buffer layout of a tile whose dimensions are the layout's modes. Raises LayoutError if it isn't linear."""
    shape = _mode_shape(layout)
    return SharedLayout(shape, _row_major(bases(layout), shape))


def _mode(columns: Sequence[int]) -> Layout:
    """The layout of one mode from columns that are single bits or 0: runs of doubling strides become one extent."""
    leaves: list[tuple[int, int]] = []
    for c in columns:
        if leaves and (c == leaves[-1][1] == 0 or (c and c == leaves[-1][0] * leaves[-1][1])):
            leaves[-1] = leaves[-1][0] * 2, leaves[-1][1]
        else:
            leaves.append((2, c))
    if len(leaves) < 2:
        return Layout(*(leaves or [(1, 0)])[0])
    return Layout(tuple(n for n, _ in leaves), tuple(d for _, d in leaves))


def _unswizzle(columns: Sequence[int]) -> Swizzle:
    """The swizzle after which every column is a single bit or 0. Raises LayoutError if there is none."""
    pairs = sorted({(c.bit_length() - 1, (c ^ 1 << c.bit_length() - 1).bit_length() - 1)
                    for c in columns if c & c - 1})
    if not pairs:
        return Swizzle(0, 0, 0)
    top, low = pairs[0]
    shift = top - low
    found = Swizzle(pairs[-1][0] - top + 1, low, shift) if pairs[-1][0] - top < shift else Swizzle(0, 0, 0)
    if any((x := found(c)) & x - 1 for c in columns):
        raise LayoutError("the matrix is no layout followed by a swizzle")
    return found


def from_shared(shared: SharedLayout) -> AnyLayout:
    """A buffer layout as CuTe's: a mode a dimension, and a swizzle if it has one. Raises LayoutError for a matrix that
    isn't of that form."""
    swizzle = _unswizzle(shared.bases)
    plain = make_layout(*(_mode([swizzle(c) for c in columns]) for columns in _first_fastest(shared.bases, shared.shape)))
    return plain if swizzle.is_identity else ComposedLayout(swizzle, 0, plain)


def to_linear(owners: Layout, shape: Sequence[int], num_warps: int) -> LinearLayout:
    """A layout of (thread, value) -> element of `shape` (numbered first dimension fastest) as who holds what.

    Raises LayoutError if it isn't linear, or has another number of threads."""
    threads, values = owners.modes
    if threads.size != num_warps << LANE_BITS:
        raise LayoutError(f"{owners} is for {threads.size} threads, not {num_warps << LANE_BITS}")
    columns = [_to_row_major(c, shape) for c in bases(owners)]
    n = log2(threads.size)
    return LinearLayout(tuple(shape), tuple(columns[n:n + log2(values.size)]), tuple(columns[:LANE_BITS]),
                        tuple(columns[LANE_BITS:n]))


def from_linear(layout: LinearLayout) -> Layout:
    """Who holds what as a layout of (thread, value) -> element, numbered first dimension fastest.

    Raises LayoutError for a layout in which a bit moves several of the element's (swizzled ones)."""
    moved = [_from_row_major(c, layout.shape) for c in (*layout.lane, *layout.warp, *layout.reg)]
    nonzero = [c for c in moved if c]
    if any(c & c - 1 for c in nonzero) or len(set(nonzero)) != len(nonzero):
        raise LayoutError(f"{layout} is no layout of threads and values: its columns overlap")
    n = len(layout.lane) + len(layout.warp)
    return make_layout(_mode(moved[:n]), _mode(moved[n:]))


def _to_row_major(index: int, shape: Sequence[int]) -> int:
    out = 0
    for low, bits in dim_bits(shape):
        out |= (index & (1 << bits) - 1) << low
        index >>= bits
    return out


def _from_row_major(flat: int, shape: Sequence[int]) -> int:
    out = at = 0
    for low, bits in dim_bits(shape):
        out |= (flat >> low & (1 << bits) - 1) << at
        at += bits
    return out
