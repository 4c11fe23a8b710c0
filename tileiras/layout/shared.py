"""Layouts of buffers in shared memory: at which offset an element lies, as a matrix over F2.

Shared memory has 32 banks of 4 bytes; a warp's access is one wavefront when no bank is asked for two different
words (8-byte accesses go by half warps, 16-byte ones by quarter warps). A row-major buffer of f16 rows of 64 has
all rows in the same banks, so reading a column of 16-byte pieces takes eight wavefronts. XORing bits of the row
into the piece's number spreads a column over all banks and keeps the 16 bytes together:

    SharedLayout.swizzled((8, 64), 2): element (r, c) lies at r*64 + (c ^ (r % 8) * 8)

`between` goes the other way: given who writes and who reads, it chooses offsets that both can use without conflicts.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tileiras.layout.f2 import annihilator, apply, complement, coordinates, independent, intersection, parity, solve
from tileiras.layout.linear import LANE_BITS, LinearLayout, dim_bits, log2

VECTOR_BYTES = 16
"""The widest access of one thread."""
LINE_BITS = 7
"""log2 of the 128 bytes that the banks give in one wavefront."""


@dataclass(frozen=True)
class SharedLayout:
    """A buffer of `shape`: `bases[i]` is the element offset that bit i of the flat (row-major) index stands for;
    an element's offset is the XOR of the bases of its set bits. Row-major without swizzle: bases[i] = 1 << i."""

    shape: tuple[int, ...]
    bases: tuple[int, ...]

    @staticmethod
    def row_major(shape: Sequence[int]) -> SharedLayout:
        """Elements in order of their flat index."""
        return SharedLayout(tuple(shape), tuple(1 << i for i in range(sum(b for _, b in dim_bits(shape)))))

    @staticmethod
    def swizzled(shape: Sequence[int], elem_bytes: int, order: Sequence[int] | None = None) -> SharedLayout:
        """Rows along the fastest dimension in pieces of 16 bytes, the piece's number XORed with the row's.

        order: dimensions, fastest first (default: the last first). Any eight neighbouring rows (along the second
        fastest dimension) have the same piece in eight different places modulo 128 bytes, which is what `ldmatrix`
        and 16-byte accesses along either dimension need. The lowest three bits of the row (of the line of 128 bytes,
        where rows are shorter) are XORed into byte offset bits 4, 5, 6, as far as a row is long enough."""
        order = tuple(range(len(shape) - 1, -1, -1)) if order is None else tuple(order)
        fields = dim_bits(shape)
        bases = [0] * sum(bits for _, bits in fields)
        size = log2(elem_bytes)
        row_bits = fields[order[0]][1] + size if order else 0
        pieces = max(0, min(row_bits - 4, 3))
        first = max(LINE_BITS, row_bits)
        at = 0
        for d in order:
            low, bits = fields[d]
            for i in range(bits):
                piece = at + size - first
                swizzle = 1 << 4 + piece - size if 0 <= piece < pieces else 0
                bases[low + i] = 1 << at | swizzle
                at += 1
        return SharedLayout(tuple(shape), tuple(bases))

    def offset(self, flat: int) -> int:
        """The element offset of a flat index."""
        return apply(self.bases, flat)

    @cached_property
    def extent(self) -> int:
        """How many elements the buffer spans."""
        top = 0
        for basis in self.bases:
            top |= basis
        return 1 << top.bit_length()

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"shape = [{shape}], offset = [{', '.join(map(str, self.bases))}]"


@dataclass(frozen=True)
class Access:
    """How a warp's threads read or write a buffer: each thread `vec` elements at a time.

    groups: (registers, offset, round) of each access: the registers' elements lie at consecutive offsets from the
    thread's own offset XOR `offset`. The thread's own offset is the XOR of `lane` and `warp` bases of its set bits.
    slots[r]: where register r's element is in the sequence of all groups' elements (copies share a slot).
    round, lane_round, warp_round: which round of a conversion the access belongs to, linear alike: it takes part in
    round c if `round` XOR the thread's round == c; all zero when there is one round."""

    vec: int
    groups: tuple[tuple[tuple[int, ...], int, int], ...]
    lane: tuple[int, ...]
    warp: tuple[int, ...]
    slots: tuple[int, ...]
    lane_round: tuple[int, ...] = ()
    warp_round: tuple[int, ...] = ()

    @property
    def is_predicated(self) -> bool:
        """Whether it depends on the thread which accesses belong to a round."""
        return any(self.lane_round) or any(self.warp_round)

    def passes(self, elem_bytes: int) -> int:
        """Wavefronts of one of a warp's accesses."""
        return max(1, self.vec * elem_bytes // 4) * (1 + _conflicts(self, elem_bytes))


@lru_cache(maxsize=2048)
def access(layout: LinearLayout, shared: SharedLayout, elem_bytes: int, rounds: tuple[int, ...] = (),
           max_bytes: int = VECTOR_BYTES) -> Access:
    """The widest accesses by which `layout`'s threads touch each of their elements in `shared` once.

    rounds: masks over the flat index; the parities of the masked index are the number of the element's round."""
    top = shared.extent.bit_length() - 1
    offset_mask = (1 << top) - 1

    def place(flat: int) -> int:
        # the round's number rides above the offset, so that one linear map carries both
        return shared.offset(flat) | sum(parity(flat & m) << top + i for i, m in enumerate(rounds))
    reg = [place(b) for b in layout.reg]
    lane = [place(b) for b in layout.lane]
    warp = [place(b) for b in layout.warp]
    steps: list[int] = []
    for bit in range(max(0, log2(max_bytes) - log2(elem_bytes))):
        if bit >= top or any(b >> bit & 1 for b in lane + warp):
            break
        found = solve(reg, [1 << bit])[0]
        if found is None:
            break
        steps.append(found)
    low = (1 << len(steps)) - 1
    starts: list[tuple[int, int]] = [(0, 0)]
    chosen: list[int] = [1 << i for i in range(len(steps))]
    for i, b in enumerate(reg):
        if independent([b], chosen):
            chosen.append(b)
            start = (1 << i ^ apply(steps, b & low), b & ~low)
            starts += [(r ^ start[0], p ^ start[1]) for r, p in starts]
    groups = tuple((tuple(r ^ apply(steps, i) for i in range(low + 1)), p & offset_mask, p >> top) for r, p in starts)
    slot_of = {p ^ i: n * (low + 1) + i for n, (_, p) in enumerate(starts) for i in range(low + 1)}
    slots = tuple(slot_of[apply(reg, r)] for r in range(layout.num_regs))
    return Access(low + 1, groups, tuple(b & offset_mask for b in lane), tuple(b & offset_mask for b in warp), slots,
                  tuple(b >> top for b in lane), tuple(b >> top for b in warp))


def vector_width(layout: LinearLayout, shared: SharedLayout, elem_bytes: int) -> int:
    """How many elements (a power of two, 16 bytes at most) a thread moves by one access."""
    return access(layout, shared, elem_bytes).vec


def bank_conflicts(layout: LinearLayout, shared: SharedLayout, elem_bytes: int, width: int | None = None) -> int:
    """How many more wavefronts an access takes than its bytes need, for each group of lanes that are served together.

    width: elements an access (default: the widest possible)."""
    return _conflicts(access(layout, shared, elem_bytes, (), VECTOR_BYTES if width is None else width * elem_bytes),
                      elem_bytes)


def _conflicts(plan: Access, elem_bytes: int) -> int:
    # offsets are linear, so the first warp's first access stands for all
    step = plan.vec * elem_bytes
    served = max(0, LANE_BITS - max(0, log2(step) - 2))
    offsets = [0]
    for basis in plan.lane[:served]:
        offsets += [x ^ basis for x in offsets]
    words: dict[int, set[int]] = {}
    for offset in offsets:
        word = offset * elem_bytes // 4
        words.setdefault(word % 32, set()).add(word)
    return max(len(w) for w in words.values()) - 1


def _active(layout: LinearLayout, vec: int, elem_bytes: int) -> tuple[int, ...]:
    """Bases of the lanes that share a wavefront when each moves 2**vec elements."""
    return layout.lane[:LANE_BITS - max(0, vec + log2(elem_bytes) - 2)]


@lru_cache(maxsize=1024)
def between(writer: LinearLayout, reader: LinearLayout, elem_bytes: int, rounds: tuple[int, ...] = ()) -> SharedLayout:
    """Offsets for a buffer that `writer` fills and `reader` reads, wide and without bank conflicts where possible.

    What runs together in memory can be what both sides hold in consecutive registers, and further what either side
    does: the cheapest of the three is taken."""
    n = log2(writer.size)
    inside = annihilator(rounds, n) if rounds else [1 << i for i in range(n)]

    def within(vectors: Sequence[int]) -> list[int]:
        return intersection(vectors, inside) if rounds else independent(vectors)
    widest = log2(VECTOR_BYTES) - log2(elem_bytes)
    reader_regs, writer_regs = within(reader.reg), within(writer.reg)
    both = intersection(reader_regs, writer_regs)
    common = independent([b for b in reader_regs if not independent([b], both)] + both)[:widest]
    wide = {tuple(independent(common + more)[:widest]): None for more in (reader_regs, writer_regs, [])}
    best: tuple[int, SharedLayout] | None = None
    for vector in wide:
        shared = _place(writer, reader, elem_bytes, inside, list(vector))
        cost = sum(_cost(access(side, shared, elem_bytes, rounds), elem_bytes) for side in (writer, reader))
        if best is None or cost < best[0]:
            best = cost, shared
    assert best is not None
    return best[1]


def _cost(plan: Access, elem_bytes: int) -> int:
    """Wavefronts of all of a warp's accesses, and one more each for issuing it."""
    return len(plan.groups) * (plan.passes(elem_bytes) + 1)


def _place(writer: LinearLayout, reader: LinearLayout, elem_bytes: int, inside: list[int],
           vector: list[int]) -> SharedLayout:
    """Offsets within the subspace `inside` (the rest has none), with the directions `vector` lowest.

    The index space gets a basis in three parts: vector, bank, and segment (which 128-byte line). Two lanes conflict
    when their difference has no bank part but a segment part, so the segment directions must avoid the span of
    either side's lanes. Where both sides' spans leave no room, sums of a direction of each do: e + f is in neither."""
    n = log2(writer.size)
    size = log2(elem_bytes)
    whole = len(inside) == n

    def within(vectors: Sequence[int]) -> list[int]:
        return independent(vectors) if whole else intersection(vectors, inside)

    def avoid(side: LinearLayout) -> list[int]:
        regs = within(side.reg)
        run = 0
        while run < len(vector) and not independent([vector[run]], regs):
            run += 1
        return within([*_active(side, run, elem_bytes), *vector[:max(run, 2 - size, 0)]])
    avoid_w, avoid_r = avoid(writer), avoid(reader)
    shared_part = intersection(avoid_w, avoid_r)
    only_w, only_r = independent(avoid_w, shared_part), independent(avoid_r, shared_part)
    outside = [b for b in (*writer.warp, *reader.warp, *writer.reg, *reader.reg) if not independent([b], inside)]
    outside = independent(outside + inside, avoid_w + avoid_r + vector)
    mixed = [e ^ f for e, f in zip(only_w, only_r)]
    count = min(max(0, len(inside) - (LINE_BITS - size)), len(inside) - len(vector))
    segment = independent(outside + mixed + only_w + only_r + inside, vector)[:count]
    bank = independent([*within(writer.lane), *within(reader.lane), *inside], vector + segment)
    basis = vector + bank + segment
    found = coordinates(basis + complement(basis, n), n)
    kept = (1 << len(basis)) - 1
    return SharedLayout(writer.shape, tuple(c & kept for c in found))


CHUNK_BYTES = 16
"""What every swizzle of the hardware keeps together, and how wide a panel without one is."""
SWIZZLES = (0, 32, 64, 128)
"""Bytes that a swizzle of tensor copies and matrix descriptors spans (0: none)."""
WHOLE_ROWS = 1
"""Of a tile that has no swizzle and no panels of 16 bytes either: rows stay whole, or in pieces of MAX_BOX_EXTENT. Copies know this
form, matrix descriptors don't."""
WIDE_ATOMS = 160
"""Of a tile whose swizzle spans 128 bytes and keeps 32 of them together, a pattern of four rows: the one in which tcgen05 takes
32-bit elements with M or N contiguous (PTX ISA, canonical layouts; the copy engine's swizzle of that atomicity)."""
ATOM_BYTES = {WIDE_ATOMS: 32}
"""Swizzle -> what it keeps together, where that isn't CHUNK_BYTES."""
SPANS = {WIDE_ATOMS: 128}
"""Swizzle -> bytes that it spans, where its name isn't that."""
MAX_BOX_EXTENT = 256
"""Elements of a box along one dimension (cuTensorMapEncodeTiled)."""
COPY_ALIGNMENT = 128
"""Bytes that a box's place in shared memory is a multiple of (PTX ISA, cp.async.bulk.tensor)."""
GROUP_ROWS = 8
"""Rows of a panel that matrix descriptors step over at once."""
PADDED_RUN = 16
"""Rows that lie together in a tile with less rows than its instruction takes."""
MATRIX_DIMS = 2
"""Dimensions of a matrix; those in front count matrices."""
KEY_BIT = 7
"""Of an address: from this bit on a swizzle takes its key."""


@dataclass(frozen=True)
class CanonicalTile:
    """A tile in shared memory in the one form that tensor copies, matrix descriptors and stmatrix all can name.

    It is cut along dimension `major` into panels as wide as the swizzle spans (16 bytes without one), one panel after the
    other; a panel holds the rows of the other dimensions, row by row, and the hardware's swizzle exchanges 16-byte chunks
    by address bits 7 and up. bits: of an element. swizzle: one of SWIZZLES, WIDE_ATOMS or WHOLE_ROWS.

        (64, 128) of 16 bits, major 1, swizzle 128: two panels of 64 rows of 64 elements, 8192 bytes each;
        byte address p * 8192 + r * 128 + c, bits 7-9 of it XORed into bits 4-6

    run: rows that lie together, with room for as many behind them (0: all do, without): an operand of instructions that take
    more rows than it has. The buffer must start at a multiple of `alignment`, so that address bits are offset bits."""

    shape: tuple[int, ...]
    bits: int
    major: int
    swizzle: int
    run: int = 0

    @property
    def span(self) -> int:
        """Bytes of a panel's row."""
        if self.swizzle == WHOLE_ROWS:
            return min(self.shape[self.major], MAX_BOX_EXTENT) * self.bits // 8
        return SPANS.get(self.swizzle, self.swizzle) or CHUNK_BYTES

    @property
    def atom(self) -> int:
        """Bytes that the swizzle keeps together."""
        return ATOM_BYTES.get(self.swizzle, CHUNK_BYTES)

    @property
    def columns(self) -> int:
        """Elements of a panel's row."""
        return self.span * 8 // self.bits

    @cached_property
    def rows(self) -> int:
        """Rows of a panel."""
        n = 1
        for d, extent in enumerate(self.shape):
            n *= 1 if d == self.major else extent
        return n

    @property
    def panels(self) -> int:
        return self.shape[self.major] // self.columns

    @property
    def panel_bytes(self) -> int:
        """From one panel to the next."""
        return self.room * self.span

    @property
    def room(self) -> int:
        """Rows that a panel has place for."""
        return 2 * self.rows if self.run else self.rows

    @property
    def num_bytes(self) -> int:
        return self.panels * self.panel_bytes

    @property
    def alignment(self) -> int:
        """Bytes after which the swizzle repeats; 128 without one."""
        return COPY_ALIGNMENT if self.swizzle == WHOLE_ROWS else GROUP_ROWS * self.span

    @cached_property
    def plain(self) -> SharedLayout:
        """Where elements would lie without the swizzle: what the address of a part of the tile is counted in."""
        fields = dim_bits(self.shape)
        bases = [0] * sum(bits for _, bits in fields)
        low, bits = fields[self.major]
        inside = log2(self.columns)
        for i in range(bits):
            bases[low + i] = 1 << i if i < inside else self.room * self.columns << i - inside
        row = self.columns
        for d in reversed(range(len(self.shape))):
            if d != self.major:
                low, bits = fields[d]
                for i in range(bits):
                    bases[low + i] = row
                    row *= 4 if 2 * row == self.run * self.columns else 2
        return SharedLayout(self.shape, tuple(bases))

    @cached_property
    def layout(self) -> SharedLayout:
        """Where each element lies, for ordinary accesses: the swizzle as XORs of the offset's bits."""
        if self.swizzle == WHOLE_ROWS:
            return self.plain
        bytes_to_elements = 3 - log2(self.bits)
        to, key = (bit + bytes_to_elements for bit in (log2(self.atom), KEY_BIT))
        mask = self.span // self.atom - 1
        return SharedLayout(self.shape, tuple(b ^ (b >> key & mask) << to for b in self.plain.bases))


@lru_cache(maxsize=1024)
def canonical(shape: tuple[int, ...], bits: int, major: int, swizzle: int | None = None, run: int = 0) -> CanonicalTile:
    """The canonical form of a tile of `shape` with elements of `bits` bits, contiguous along dimension `major`.

    swizzle: bytes that it spans (None: the widest that the tile's extent along `major` fills). run: rows that lie together.
    Raises ValueError for a swizzle that doesn't exist or is wider than the tile."""
    row = shape[major] * bits // 8
    if swizzle is None:
        swizzle = max((s for s in SWIZZLES if s <= row), default=0)
    if swizzle not in (*SWIZZLES, WIDE_ATOMS, WHOLE_ROWS):
        raise ValueError(f"no swizzle spans {swizzle} bytes")
    least = max(SPANS.get(swizzle, swizzle), CHUNK_BYTES)
    if row < least:
        raise ValueError(f"{shape[major]} elements of {bits} bits don't fill the {least} bytes of a row")
    return CanonicalTile(tuple(shape), bits, major, swizzle, run)


def described_tile(shared: SharedLayout, bits: int) -> CanonicalTile | None:
    """The canonical form that a buffer's layout is, also that of a tile which is padded, None if it is none."""
    return canonical_of(shared, bits) or canonical_of(shared, bits, PADDED_RUN)


@lru_cache(maxsize=1024)
def canonical_of(shared: SharedLayout, bits: int, run: int = 0) -> CanonicalTile | None:
    """The canonical form that a buffer's layout is, with `run` rows together, None if it is none. Of a buffer whose matrices all
    lie at one place, one for each of a batch, the form is that of one matrix, with an extent of 1 in front."""
    batch = len(shared.shape) - MATRIX_DIMS
    first = dim_bits(shared.shape)[0] if batch > 0 else (0, 0)
    if batch > 0 and first[1] and not any(shared.bases[first[0]:first[0] + first[1]]):
        shared = SharedLayout((1, *shared.shape[1:]), shared.bases[:first[0]])
    for major, extent in enumerate(shared.shape):
        for swizzle in (*reversed(SWIZZLES), WIDE_ATOMS):
            if extent * bits // 8 >= (SPANS.get(swizzle, swizzle) or CHUNK_BYTES):
                tile = canonical(shared.shape, bits, major, swizzle, run)
                if tile.layout == shared:
                    return tile
    return None
