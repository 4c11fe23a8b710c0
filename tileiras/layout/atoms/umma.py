"""Which `tcgen05.mma` a tile product takes, and where its accumulator lies in tensor memory.

The table of all shapes is `tcgen05.py`; a compile asks for one instruction by its types and extents, so that a name is all that
is made:

    choose(target, "f16", "f16", "f32", m=128, n=128, k=64, num_warps=4)   ->  sm100.mma.f16.m128n128k16.f32.f16.f16.cg1.ss

A pair of CTAs multiplies twice as many rows (`.cg2`): each has its rows of A and of the accumulator and half of B's columns, and
the thread of one issues for both. Where each has 64 rows, the accumulator is folded: its second half of columns lies in the lanes
behind those of the first, as a tile of 128 rows and half as many columns does.

One thread issues; B lies in shared memory, and so does A, unless its rows come out of registers: then it lies in tensor memory
(`.ts`), a row where the accumulator has it, as many elements a cell as 32 bits hold. An accumulator has a cell of 32 bits for
each element, whatever its type: row r of 128 in lane r, a column of the tile in a column of tensor memory. Of 64 rows, 16 each
lie in the first lanes of the four warps' parts. What rows and batches remain lie in further columns, and so does what an
instruction's columns leave over.

Threads read and write whole rows where there are 128 (`32x32b`: a row a thread), else halves of rows (`16x32bx2`): what a thread
holds lies side by side in memory, too, so that it is written in words of 16 bytes to rows of any swizzle, and few threads have to
meet to reduce a row. Four warps reach all lanes; more share the columns. Where 64 rows meet a number for each column, threads have
quads (`16x256b`; of packed cells `16x128b`): four share two rows, as in `mma.sync`'s sums, and take half as many of these numbers.
"""
from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from tileiras.layout.atoms.mma_sync import BITS, TYPE_NAMES
from tileiras.layout.linear import LinearLayout, log2
from tileiras.layout.shared import SPANS, WIDE_ATOMS

LANES, COLUMNS = 128, 512
HALF_ROWS = 64
MAX_N, K_BYTES, GROUP_WARPS = 256, 32, 4
LEAST_N = {LANES: 16, HALF_ROWS: 8}
"""Rows of an instruction -> its fewest columns."""
FEATURE = "has_tcgen05"
PREFIX = "sm100.mma."
LEAST_TRANSPOSED_BYTES = {"f16": 16, "bf16": 16, "e4m3": 16, "e5m2": 16, "s8": 16, "u8": 16, "tf32": SPANS[WIDE_ATOMS]}
"""Types whose tiles may have M or N contiguous in shared memory -> the least bytes of M or N then; of others K is."""
IN_CELLS = {"f16": 2, "bf16": 2, "tf32": 1, "e4m3": 4, "e5m2": 4}
"""Types of A that may come from tensor memory by the same threads that hold the rows of an accumulator -> elements of a cell (PTX
ISA, packing formats for matrix A)."""
IN_QUADS = (1, 2)
"""Elements of a cell that a thread has side by side in quads."""
_FP8 = ("e4m3", "e5m2")
_KINDS: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {
    ("f16", "f16"): ("f16", ("f32", "f16")), ("bf16", "bf16"): ("f16", ("f32",)), ("tf32", "tf32"): ("tf32", ("f32",)),
    **{(a, b): ("f8f6f4", ("f32", "f16")) for a in _FP8 for b in _FP8},
    **{(a, b): ("i8", ("s32",)) for a in ("s8", "u8") for b in ("s8", "u8")}}
"""Types of A and B -> the kind, the accumulators it has."""
_NAME = re.compile(r"sm100\.mma\.(\w+)\.m(\d+)n(\d+)k(\d+)\.(\w+)\.(\w+)\.(\w+)\.cg([12])\.([st])s")
PAIR = 2
LEAST_N_OF_PAIRS = {"i8": 32}
"""Kind -> fewest columns of a pair's product; 16 of the others (PTX ISA, tcgen05.mma). Ours are powers of two."""


@dataclass(frozen=True)
class UmmaAtom:
    """D(m x n) = A(m x k) x B(k x n) + D, D in tensor memory, by one thread. `a_in_shared`: A is a tile in shared memory, else in
    tensor memory. `ctas`: that multiply together, each with its part of A's and D's rows and of B's columns."""

    kind: str
    m: int
    n: int
    a: str
    b: str
    acc: str
    a_in_shared: bool = True
    ctas: int = 1

    widen = ""
    feature = FEATURE
    run = 0

    @property
    def k(self) -> int:
        return K_BYTES * 8 // BITS[self.a]

    @property
    def rows(self) -> int:
        """Of A and of the accumulator that a CTA has."""
        return self.m // self.ctas

    @property
    def intrinsic(self) -> str:
        """The atom's name in the IR, and its row's in `tcgen05.py`."""
        form = f"m{self.m}n{self.n}k{self.k}.{self.acc}.{self.a}.{self.b}"
        return f"{PREFIX}{self.kind}.{form}.cg{self.ctas}.{'ss' if self.a_in_shared else 'ts'}"

    def contiguous(self, of_a: bool) -> int:
        """How many rows of A, or columns of B, may lie contiguous in a CTA's shared memory, instead of K; 0: K must."""
        columns, least = self.n // self.ctas, LEAST_TRANSPOSED_BYTES.get(self.a)
        if least is None or columns * BITS[self.a] // 8 < least:
            return 0
        return self.rows if of_a else columns

    @property
    def folded(self) -> bool:
        """Whether an accumulator's second half of columns lies in the lanes behind its rows."""
        return self.ctas == PAIR and self.rows == HALF_ROWS

    def with_a_in(self, shared: bool) -> UmmaAtom:
        return replace(self, a_in_shared=shared)


@lru_cache(maxsize=256)
def named(name: str) -> UmmaAtom:
    """The atom that IR calls `name`. Raises KeyError."""
    match = _NAME.fullmatch(name)
    kind, accumulators = _KINDS.get((match[6], match[7]), ("", ())) if match is not None else ("", ())
    if match is None or match[1] != kind or match[5] not in accumulators:
        raise KeyError(name)
    atom = UmmaAtom(kind, int(match[2]), int(match[3]), match[6], match[7], match[5], match[9] == "s", int(match[8]))
    if atom.intrinsic != name or not least_columns(kind, atom.rows, atom.ctas) <= atom.n <= MAX_N or atom.n & atom.n - 1:
        raise KeyError(name)
    return atom


def least_columns(kind: str, rows: int, ctas: int) -> int:
    """Of an instruction that takes so many rows of each CTA; more than there are where there is none."""
    if ctas == PAIR:
        return LEAST_N_OF_PAIRS.get(kind, LEAST_N[LANES]) if rows == LANES else PAIR * LEAST_N[LANES]
    return LEAST_N.get(rows, MAX_N + 1)


def choose(target: Any, a: str, b: str, acc: str, m: int, n: int, k: int, num_warps: int, batch: int = 0,
           signed_a: bool = True, signed_b: bool = True) -> UmmaAtom | None:
    """The instruction for a tile product of a block of so many warps, or None. Types are named as the IR prints them."""
    if not getattr(target, FEATURE):
        return None
    found = chosen(target, a, b, acc, m, n, k, num_warps, batch, signed_a, signed_b)
    return found if isinstance(found, UmmaAtom) else None


@lru_cache(maxsize=1024)
def chosen(target: Any, a: str, b: str, acc: str, m: int, n: int, k: int, num_warps: int, batch: int = 0,
           signed_a: bool = True, signed_b: bool = True, ctas: int = 1) -> UmmaAtom | str:
    """The same on a target with tensor memory, or why there is none. `m`, `n`: of the accumulator that each of so many CTAs has."""
    if num_warps % GROUP_WARPS:
        return f"{num_warps} warps don't reach all of tensor memory; ask for {GROUP_WARPS} or {2 * GROUP_WARPS}"
    if m < HALF_ROWS:
        return f"the tile has {m} rows, the smallest instruction {HALF_ROWS}"
    if a == b == "i8" and acc == "i32":
        types, held = ("s8" if signed_a else "u8", "s8" if signed_b else "u8"), "s32"
    else:
        types, held = (TYPE_NAMES.get(a, ""), TYPE_NAMES.get(b, "")), TYPE_NAMES.get(acc, "")
    kind, accumulators = _KINDS.get(types, ("", ()))
    if held not in accumulators or (kind == "i8" and not target.has_tcgen05_i8):
        return f"{target.name} multiplies no {a} x {b} into tensor memory with sums of {acc}"
    rows = LANES if m >= LANES and n >= LEAST_N[LANES] else HALF_ROWS
    atom = UmmaAtom(kind, rows * ctas, min(n, MAX_N), *types, held, ctas=ctas)
    if ctas == PAIR and rows < LANES < m:
        return f"a pair of CTAs multiplies {PAIR * LANES} rows"
    if n < (least := least_columns(kind, rows, ctas)):
        return f"the tile has {n} columns, the smallest instruction {least}"
    if k < atom.k:
        return f"the tile's k of {k} is less than the instruction's {atom.k}"
    shape = (batch, m, n) if batch else (m, n)
    if 0 in fragment_of(atom, shape, num_warps).warp:
        return f"{num_warps} warps would hold the accumulator's elements more than once; ask for {GROUP_WARPS}"
    if (columns := columns_of(*place_of(atom, shape))) > COLUMNS:
        return f"the accumulator takes {columns} columns of tensor memory, {COLUMNS} are there; use a smaller tile"
    return atom


def columns_of(shape: tuple[int, ...], rows: int) -> int:
    """Columns of tensor memory that an accumulator of (batch,) m, n takes, by instructions of so many rows."""
    *batch, m, n = shape
    return (batch[0] if batch else 1) * (m // rows) * n


def place_of(atom: Any, shape: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """The shape of an accumulator in tensor memory, and its rows side by side there. `shape`: of what a CTA adds up by an
    instruction of this module, or a block-scaled one."""
    if not atom.folded:
        return tuple(shape), atom.rows
    *batch, m, n = shape
    return (*batch, PAIR * m, n // PAIR), LANES


def shape_at(atom: Any, place: Sequence[int]) -> tuple[int, ...]:
    """The shape of what a CTA adds up in an accumulator that has this one in tensor memory: `place_of`, turned round."""
    if not atom.folded:
        return tuple(place)
    *batch, m, n = place
    return (*batch, m // PAIR, n * PAIR)


def unfolded(layout: LinearLayout) -> LinearLayout:
    """The layout of a folded accumulator's elements, given that of its place."""
    m, n = layout.shape
    return layout.reshape((PAIR, m // PAIR, n)).permute((1, 0, 2)).reshape((m // PAIR, n * PAIR))


def units(atom: UmmaAtom, m: int, n: int, batch: int = 0) -> tuple[int, int, int]:
    """How many instructions a step of k needs: over the batch, rows, columns of a CTA's accumulator."""
    return max(batch, 1), m // atom.rows, n // atom.n


def fragment_of(atom: Any, shape: Sequence[int], num_warps: int, quads: bool = False) -> LinearLayout:
    """Who holds which element of what an instruction adds up, in registers."""
    held = fragment(*place_of(atom, shape), num_warps, quads)
    return unfolded(held) if atom.folded else held


@lru_cache(maxsize=256)
def fragment(shape: tuple[int, ...], rows: int, num_warps: int, quads: bool = False) -> LinearLayout:
    """Who holds which element of an accumulator of (batch,) m, n in registers: in the order of its columns, of 64 rows the
    second half of them in a warp's second half. `quads`, of 64 rows: a thread has two columns of eight, of two rows."""
    *batch, m, n = shape
    columns = [1 << i for i in range(log2(n))]
    further = [n * rows << i for i in range(log2(m // rows))] + [m * n << i for i in range(log2(batch[0]) if batch else 0)]
    if rows == LANES:
        reg, lane = [*columns, *further], [n << i for i in range(5)]
        warp = [n << 5, n << 6]
    elif quads:
        reg, lane = [1, n << 3, *columns[3:], *further], [2, 4, n, n << 1, n << 2]
        warp = [n << 4, n << 5]
    else:
        reg, lane = [*columns[:-1], *further], [*(n << i for i in range(4)), columns[-1]]
        warp = [n << 4, n << 5]
    for _ in range(log2(num_warps // GROUP_WARPS)):
        warp.append(reg.pop() if reg else 0)
    return LinearLayout(tuple(shape), tuple(reg), tuple(lane), tuple(warp))
