"""How a matrix operand lies in shared memory between the threads that load it and those that multiply it."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tileiras.layout.f2 import Span, apply
from tileiras.layout.linear import LANE_BITS, LinearLayout, dim_bits, log2
from tileiras.layout.shape_rules import restrict
from tileiras.layout.shared import (
    GROUP_ROWS,
    SPANS,
    SWIZZLES,
    WIDE_ATOMS,
    CanonicalTile,
    SharedLayout,
    access,
    between,
    canonical,
    canonical_of,
)

ROW_BYTES = 16
"""What one lane gives `ldmatrix`: a row of an 8 x 8 matrix of 16-bit elements (PTX ISA, ldmatrix)."""
COLUMNS_OF_LANES = (1, 2, 4)
"""Where a transposed matrix's columns lie, in elements: lane bits 2 to 4 count them."""
HALF_OF_BYTES = 8
"""Columns from a lane's first register to its second one, of a matrix of 16 x 16 bytes."""
BANKED = 127
"""The bits of an offset in bytes that say which bank it is in."""
TURNS = 2
"""Lane bits that change the order in which a thread stores bytes."""
WIDE_BYTES = 4
"""Of elements that matrix descriptors name only in the form WIDE_ATOMS where K isn't contiguous."""


def operand_buffer(shape: Sequence[int], elem_bytes: int, k_dim: int, writer: LinearLayout,
                   fragment: LinearLayout, atom_k: int = 0, turns_bytes: bool = False) -> SharedLayout:
    """Where the elements of an operand of `shape` ((batch,) m, k or (batch,) k, n) lie in its buffer.

    k_dim: which dimension k is. writer: who stores it (the layout of a tile of `shape`, or of one that it is a slice
    of). fragment: who reads it. Swizzled rows that `ldmatrix` reads where
    that serves the writer too (16-bit elements in either order, others if k is contiguous); else whatever offsets suit
    both sides. atom_k: one instruction's k (0: any); what one access reads then serves one step along k. turns_bytes: as of
    `ldmatrix_plan`; elements of a byte then may lie in either order, too."""
    shape = tuple(shape)
    writer, fragment = restrict(writer, shape), restrict(fragment, shape)
    rank = len(shape)
    fields = dim_bits(shape)
    order = tuple(range(rank - 1, -1, -1))
    first = next((b for b in writer.reg if b), 0)
    low, bits = fields[rank - 2]
    if first >> low & (1 << bits) - 1:
        order = (rank - 2, rank - 1, *order[2:])
    swizzled = SharedLayout.swizzled(shape, elem_bytes, order)
    either = elem_bytes == 2 or (elem_bytes == 1 and turns_bytes)
    if (either or order[0] == k_dim) and ldmatrix_plan(fragment, swizzled, elem_bytes, turns_bytes) is not None:
        return swizzled
    if atom_k:
        low, bits = fields[k_dim]
        later = [1 << low + i for i in range(log2(atom_k), bits)]
        step = tuple(b for b in fragment.reg if b not in later)
        fragment = LinearLayout(fragment.shape, step, fragment.lane, fragment.warp)
    return between(writer, fragment, elem_bytes)


UNROLL_BYTES = 16
"""Each step of a multiply-add dot takes as much of k as this many bytes of an operand."""


@lru_cache(maxsize=512)
def multiply_add_reads(shape: tuple[int, ...], k_dim: int, acc: LinearLayout, unroll: int) -> LinearLayout:
    """How threads that multiply and add without tensor cores read an operand of `shape`: registers run through `unroll` steps of k,
    then through the rows (columns) that a thread's accumulators need. The other steps of k are warp bits behind those of warps: the
    counter of the loop over them takes part in addresses like a warp's number."""
    seen = Span()
    own = [x for x in needed(shape, k_dim, acc, acc.reg) if seen.add(x)]
    first, k_bits = dim_bits(shape)[k_dim]
    steps = [1 << first + i for i in range(k_bits)]
    inner = log2(unroll)
    return LinearLayout(shape, (*steps[:inner], *own), needed(shape, k_dim, acc, acc.lane),
                        (*needed(shape, k_dim, acc, acc.warp), *steps[inner:]))


def needed(shape: tuple[int, ...], k_dim: int, acc: LinearLayout, bases: Sequence[int]) -> tuple[int, ...]:
    """The elements of an operand of `shape`, at k = 0, that accumulators at `bases` are made with."""
    rank = len(shape)
    fields, acc_fields = dim_bits(shape), dim_bits(acc.shape)
    kept = 2 * rank - 3 - k_dim         # the dimension that the accumulators have, too

    def move(basis: int) -> int:
        out = 0
        for d in (*range(rank - 2), kept):
            low_bit, bits = acc_fields[d]
            out |= (basis >> low_bit & (1 << bits) - 1) << fields[d][0]
        return out
    return tuple(map(move, bases))


def unroll_of(k: int, elem_bytes: int) -> int:
    """Steps of k that a multiply-add dot takes at once; `elem_bytes`: of the wider operand."""
    return min(k, max(1, UNROLL_BYTES // max(WORD_BYTES, elem_bytes)))


def multiply_add_passes(side: LinearLayout, shared: SharedLayout, elem_bytes: int) -> int:
    """Wavefronts of a warp's accesses to a buffer, each of its steps along k, and one more each for issuing it."""
    plan = access(side, shared, elem_bytes)
    return len(plan.groups) * (plan.passes(elem_bytes) + 1)


@lru_cache(maxsize=512)
def multiply_add_buffer(shape: tuple[int, ...], elem_bytes: int, k_dim: int, writer: LinearLayout, reader: LinearLayout,
                        steps: int) -> SharedLayout:
    """Where the elements of a multiply-add dot's operand lie: in rows, unless `writer` (once) and `reader` (`steps` times) are
    served in clearly fewer wavefronts otherwise, as where memory holds columns."""
    writer = restrict(writer, shape)
    rows, other = SharedLayout.row_major(shape), between(writer, reader, elem_bytes)

    def cost(shared: SharedLayout) -> int:
        return multiply_add_passes(writer, shared, elem_bytes) + steps * multiply_add_passes(reader, shared, elem_bytes)
    return other if cost(other) * LEAST_GAIN <= cost(rows) else rows


LEAST_GAIN = 1.25
"""How many times as many wavefronts rows take where another order is worth its longer addresses."""


@lru_cache(maxsize=512)
def described_buffer(shape: tuple[int, ...], elem_bytes: int, k_dim: int, writer: LinearLayout, columns: int,
                     run: int = 0) -> CanonicalTile:
    """The buffer of an operand that a matrix descriptor names: K contiguous, or the matrix's other dimension, of which one
    instruction takes `columns` (0: it takes K only), whichever `writer`'s stores like better. run: rows that lie together."""
    writer = restrict(writer, shape)
    rank = len(shape)
    best: tuple[int, CanonicalTile] | None = None
    for major in (k_dim, 2 * rank - 3 - k_dim) if columns else (k_dim,):
        other = 2 * rank - 3 - major
        row = elem_bytes * (shape[major] if major == k_dim else columns)
        wide = elem_bytes == WIDE_BYTES and major != k_dim
        if row < (SPANS[WIDE_ATOMS] if wide else ROW_BYTES) or shape[other] % GROUP_ROWS:
            continue
        tile = canonical(shape, 8 * elem_bytes, major, WIDE_ATOMS if wide else max(s for s in SWIZZLES if s <= row), run)
        stores = access(writer, tile.layout, elem_bytes)
        cost = len(stores.groups) * stores.passes(elem_bytes)
        if best is None or cost < best[0]:
            best = cost, tile
    assert best is not None, "an operand is at least one instruction's"
    return best[1]


def is_described(layout: SharedLayout, elem_bytes: int, k_dim: int, columns: int) -> bool:
    """Whether a matrix descriptor names a buffer in this layout, of an operand that `described_buffer` would place with the
    same `columns`."""
    tile = canonical_of(layout, 8 * elem_bytes)
    if tile is None or tile.shape[2 * len(tile.shape) - 3 - tile.major] % GROUP_ROWS:
        return False
    if (tile.swizzle == WIDE_ATOMS) != (tile.major != k_dim and elem_bytes == WIDE_BYTES):
        return False
    return tile.major == k_dim or tile.span <= columns * elem_bytes


WORD_BYTES = 4


def turning_layouts(shape: tuple[int, ...], elem_bytes: int, k_dim: int, num_warps: int) -> list[LinearLayout]:
    """Layouts in which a tile that lies contiguous along another dimension than k is loaded, so that its stores to rows of k take
    few passes. Of bytes and halves: a thread has 16 bytes (or 8) of a row of memory, and of as many rows as make a word of k; most
    lanes go along k. Of words: a thread has 16 bytes of k, of as many rows of k as its loads have words, and eight lanes are in as
    many chunks of swizzled rows; the others complete lines of memory. Two words at most: with four, eight lanes ask for pieces of
    four lines, which are in the same banks of L1 (tf32 of 2048, 128x128x64, predicted for an H100: 81.7 us, 66.7 by two)."""
    rank = len(shape)
    other = 2 * rank - 3 - k_dim
    fields = dim_bits(shape)
    # (dimension, bits) for a thread's registers, and for lanes
    ways: list[tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]] = []
    if elem_bytes == WORD_BYTES:
        words, group = log2(ROW_BYTES // WORD_BYTES), log2(GROUP_ROWS)
        for wide in range(words - 1, -1, -1):
            ways.append((((other, wide), (k_dim, words)), ((other, group - wide), (k_dim, wide), (other, LANE_BITS - group))))
    else:
        for row_bytes, along_k in ((ROW_BYTES, 4), (ROW_BYTES, 5), (ROW_BYTES // 2, 4)):
            ways.append((((other, log2(row_bytes // elem_bytes)), (k_dim, max(0, log2(WORD_BYTES // elem_bytes)))),
                         ((other, LANE_BITS - along_k), (k_dim, along_k))))
    out = _turning_bytes(shape, k_dim, num_warps) if elem_bytes == 1 else []
    for registers, lanes in ways:
        free = {d: [1 << low + i for i in range(count)] for d, (low, count) in enumerate(fields)}

        def take(d: int, count: int, free: dict[int, list[int]] = free) -> list[int]:
            taken, free[d] = free[d][:count], free[d][count:]
            return taken
        reg = [base for d, count in registers for base in take(d, count)]
        lane = [base for d, count in lanes for base in take(d, count)]
        for d in (other, k_dim):
            lane += take(d, LANE_BITS - len(lane))
        rest = [b for d in (other, k_dim, *range(rank - 2)) for b in free[d]]
        warps = log2(num_warps)
        if len(lane) == LANE_BITS and len(rest) >= warps:
            out.append(LinearLayout(shape, tuple(reg + rest[:len(rest) - warps]), tuple(lane), tuple(rest[len(rest) - warps:])))
    return out


def _turning_bytes(shape: tuple[int, ...], k_dim: int, num_warps: int) -> list[LinearLayout]:
    """Those of bytes whose threads store in turns (layout/turned_bytes.py): lanes go along memory's rows, too, as far as turns keep
    them out of one another's banks."""
    rank = len(shape)
    other = 2 * rank - 3 - k_dim
    (k_low, k_bits), (low, bits) = (dim_bits(shape)[d] for d in (k_dim, other))
    if 1 << k_bits < ROW_BYTES or 1 << bits < GROUP_ROWS:
        return []
    buffer = described_buffer(shape, 1, k_dim, LinearLayout(shape, (), (0,) * LANE_BITS, ()), 0).layout
    banks = Span(buffer.offset(1 << low + i) & BANKED for i in range(TURNS))
    lanes = [b for i in range(2, k_bits) if banks.add(buffer.offset(b := 1 << k_low + i) & BANKED)]
    out = []
    for row_bytes in (ROW_BYTES, ROW_BYTES // 2):
        own = log2(row_bytes)
        columns = [1 << low + i for i in range(bits)]
        lane = [*columns[own:own + TURNS], *lanes][:LANE_BITS]
        reg = [*columns[:own], 1 << k_low, 2 << k_low]
        rest = [b for b in (1 << i for i in range(sum(n for _, n in dim_bits(shape)))) if b not in lane and b not in reg]
        warps = log2(num_warps)
        if len(lane) == LANE_BITS and len(reg) == own + 2 and len(rest) >= warps:
            kept = len(rest) - warps
            out.append(LinearLayout(shape, (*reg, *rest[:kept]), tuple(lane), tuple(rest[kept:])))
    return out


@dataclass(frozen=True)
class LdMatrix:
    """How `ldmatrix` fills a fragment. Offsets in elements.

    trans: each 8 x 8 matrix is transposed on the way. rows: offset bases of the matrix row that lane bits 0, 1, 2 give
    the address of. word_bits: how many low register bits are inside one 32-bit register. reg, warp: offset bases of the
    fragment's register and warp bits. beside: the register number whose bit the second register of each matrix stands for,
    where matrices are 16 x 16 bytes (four bases of rows then); else 0."""

    trans: bool
    rows: tuple[int, ...]
    word_bits: int
    reg: tuple[int, ...]
    warp: tuple[int, ...]
    beside: int = 0


@lru_cache(maxsize=512)
def ldmatrix_plan(fragment: LinearLayout, shared: SharedLayout, elem_bytes: int, turns_bytes: bool = False) -> LdMatrix | None:
    """How `ldmatrix` reads `fragment` from a buffer, or None if the buffer's rows don't suit it.

    With g = lane / 4, t = lane % 4: plain, lane (g, t) receives bytes 4t .. 4t+3 of row g; transposed, 16-bit elements
    2t and 2t+1 of column g. Rows are 16 contiguous, aligned bytes. turns_bytes: whether the target transposes matrices of
    16 x 16 bytes; lane (g, t) then receives bytes 4t .. 4t+3 of column g, and in a second register those of column g + 8."""
    if elem_bytes > 4:
        return None
    word_bits = 2 - log2(elem_bytes)
    reg, lane, warp = (tuple(map(shared.offset, bases)) for bases in (fragment.reg, fragment.lane, fragment.warp))
    if len(reg) < word_bits:
        return None
    unit = 1 << word_bits
    aligned = ROW_BYTES // elem_bytes - 1
    rest = [*reg[word_bits:], *warp]
    if turns_bytes and elem_bytes == 1 and lane[2:] == COLUMNS_OF_LANES and HALF_OF_BYTES in reg[word_bits:] and \
            _counts_up(fragment):
        at = reg.index(HALF_OF_BYTES)
        rows = (*reg[:word_bits], *lane[:2])
        if not any(b & aligned for b in (*rows, *reg[word_bits:at], *reg[at + 1:], *warp)):
            return LdMatrix(True, rows, word_bits, reg, warp, 1 << at)
    if any(b & aligned for b in rest):
        return None
    inside = tuple(1 << i for i in range(word_bits))
    if reg[:word_bits] == inside and lane[:2] == (unit, 2 * unit) and not any(b & aligned for b in lane[2:]):
        return LdMatrix(False, (lane[2], lane[3], lane[4]), word_bits, reg, warp)
    if elem_bytes == 2 and lane[2:] == COLUMNS_OF_LANES and not any(b & aligned for b in (reg[0], *lane[:2])):
        return LdMatrix(True, (reg[0], lane[0], lane[1]), word_bits, reg, warp)
    return None


def _counts_up(fragment: LinearLayout) -> bool:
    """Whether a fragment's registers of four bytes, and the four lanes of a column, follow one another along one dimension (4-bit
    floats, one a byte, are eight a register)."""
    first = fragment.reg[0]
    return first > 0 and (*fragment.reg[:2], *fragment.lane[:2]) == (first, 2 * first, 4 * first, 8 * first)


STMATRIX_BYTES = 2
"""Of the elements that `stmatrix` stores on every target that has it."""


@lru_cache(maxsize=512)
def stmatrix_plan(layout: LinearLayout, shared: SharedLayout, elem_bytes: int) -> LdMatrix | None:
    """How `stmatrix` stores a tensor in `layout` to a buffer, None where it can't, or where its rows would share banks or the
    threads' own stores are as wide."""
    if elem_bytes != STMATRIX_BYTES or layout.shape != shared.shape or 0 in layout.reg or 0 in layout.lane:
        return None
    if access(layout, shared, elem_bytes).vec * elem_bytes >= ROW_BYTES:
        return None
    plan = ldmatrix_plan(layout, shared, elem_bytes)
    if plan is None:
        return None
    banks = {apply(plan.rows, row) * elem_bytes // ROW_BYTES % GROUP_ROWS for row in range(GROUP_ROWS)}
    return plan if len(banks) == GROUP_ROWS else None
