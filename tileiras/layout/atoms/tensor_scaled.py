"""tcgen05.mma with block scaling: which instruction a block-scaled product takes, and where its operands and scale factors lie
(sm_100, sm_103, sm_110).

    kind        A, B                        K   scale factors a row     of type
    mxf8f6f4    e4m3, e5m2                  32  1                       ue8m0
    mxf4        e2m1, two a byte            64  2                       ue8m0
    mxf4nvf4    e2m1, two a byte            64  4                       ue4m3 or ue8m0, on sm_107 ue5m3

An instruction multiplies 128 rows of one operand (M) by up to 256 columns of the other (N), which have K contiguous, or those of
8 bits M or N. A tile of 64 rows stands in runs of 16 with as much room behind each, so that its rows' sums come to lanes 0-15 of
each warp's quarter, as those of dense products of 64 rows do; what lies in the room is multiplied, too, and nobody looks at it.
A pair of CTAs multiplies twice as many rows (`.cg2`), as in `umma.py`: each has the scale factors of its rows of A and of all of B.

Scale factors of 128 rows are pieces of 512 bytes in shared memory, four factors a row, and four columns of tensor memory:

    factor s of row r       byte  16 (r % 32) + 4 (r / 32) + s   ->   lane r % 32 of every quarter, column r / 32, byte s

An instruction takes 1, 2 or 4 of a word's factors from a byte on, so a piece serves 4, 2 or 1 steps of k.
"""
from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from tileiras.layout.atoms import block_scaled
from tileiras.layout.atoms.block_scaled import ELEMENTS
from tileiras.layout.atoms.umma import LEAST_N, PAIR
from tileiras.layout.descriptors import instruction_descriptor
from tileiras.layout.linear import LinearLayout, dim_bits, log2
from tileiras.layout.shared import PADDED_RUN, SharedLayout

FEATURE, E5M3_FEATURE = "has_tcgen05", "takes_e5m3_scales"
SCALES = {**block_scaled.SCALES, "fnv8E5M3FNU": "ue5m3"}
"""From the IR's names of the scale factors' types."""
PREFIX = "sm100.mma_bs."
M, PADDED_M = 128, 64
"""Rows of an instruction; of a tile that is padded to as many."""
MIN_N, MAX_N, MIN_TRANSPOSED_N = 8, 256, 16
PIECE_ROWS, PIECE_FACTORS, PIECE_COLUMNS = 128, 4, 4
"""Rows and factors a row of a piece of scale factors, and its columns of tensor memory."""
PIECE_BYTES = PIECE_ROWS * PIECE_FACTORS
LANES = 32
"""Rows of a piece that have a column of tensor memory together."""
_KINDS: dict[tuple[bool, str, int], str] = {
    (False, "ue8m0", 32): "mxf8f6f4", (True, "ue8m0", 32): "mxf4", (True, "ue4m3", 16): "mxf4nvf4", (True, "ue8m0", 16): "mxf4nvf4",
    (True, "ue5m3", 16): "mxf4nvf4"}
"""(elements of 4 bits, type of the scale factors, elements that share one) -> kind."""
_NAME = re.compile(r"sm100\.mma_bs\.(\w+)\.m(?:128|256)n(\d+)k(\d+)\.f32\.(\w+)\.(\w+)\.(\d)x\.(\w+)\.cg([12])\.ss((?:\.r64)?)")


@dataclass(frozen=True)
class TensorScaledAtom:
    """One instruction. `kind`: after `.kind::`; `scale`: type of the scale factors, of which a row has `vectors`. `m`: the tile's
    rows that one instruction takes (64: padded). `ctas`: that multiply together."""

    kind: str
    m: int
    n: int
    a: str
    b: str
    scale: str
    vectors: int
    ctas: int = 1

    acc = "f32"
    widen = ""
    feature = FEATURE
    a_in_shared = True
    folded = False

    @property
    def rows(self) -> int:
        """Of the tile that a CTA has."""
        return self.m // self.ctas

    @property
    def packed(self) -> bool:
        """Whether operands have two elements a byte."""
        return self.kind != "mxf8f6f4"

    @property
    def k(self) -> int:
        return 64 if self.packed else 32

    @property
    def has_signs(self) -> bool:
        """Whether the language's scales of this type have a sign; the instruction's have none."""
        return self.scale == "ue4m3"

    @property
    def elements(self) -> int:
        """Of a byte of an operand."""
        return 2 if self.packed else 1

    @property
    def block(self) -> int:
        """Elements that share a scale factor."""
        return self.k // self.vectors

    @property
    def intrinsic(self) -> str:
        """The atom's name in the IR."""
        return (f"{PREFIX}{self.kind}.m{M * self.ctas}n{self.n}k{self.k}.f32.{self.a}.{self.b}.{self.vectors}x.{self.scale}."
                f"cg{self.ctas}.ss{'' if self.rows == M else '.r64'}")

    @property
    def instruction(self) -> str:
        """The row of the nvvm dialect."""
        return f"tcgen05.mma.shared.{self.kind}.block_scale.block{self.block}"

    @property
    def run(self) -> int:
        """Rows of A that lie together in shared memory, 0: all."""
        return 0 if self.rows == M else PADDED_RUN

    def contiguous(self, of_a: bool) -> int:
        """How many rows of A, or columns of B, may lie contiguous in a CTA's shared memory, instead of K; 0: K must."""
        columns = self.n // self.ctas
        if self.packed or (of_a and self.rows != M) or columns < MIN_TRANSPOSED_N:
            return 0
        return M if of_a else columns

    def with_a_in(self, shared: bool) -> TensorScaledAtom:
        assert shared
        return self

    def descriptor(self, step: int, a_transposed: bool, b_transposed: bool) -> int:
        """The instruction descriptor of step `step` of k, for tiles whose M (of A), N (of B) is contiguous or isn't."""
        byte = step * self.vectors % PIECE_FACTORS
        return instruction_descriptor(self.kind, M * self.ctas, self.n, self.a, self.b, "f32", a_mn_major=a_transposed,
                                      b_mn_major=b_transposed, scale=self.scale, scale_a=byte, scale_b=byte)


@lru_cache(maxsize=256)
def named(name: str) -> TensorScaledAtom:
    """The atom that IR calls `name`. Raises KeyError."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise KeyError(name)
    kind, n, _, a, b, vectors, scale, ctas, padded = match.groups()
    atom = TensorScaledAtom(kind, PADDED_M if padded else M * int(ctas), int(n), a, b, scale, int(vectors), int(ctas))
    narrow = a == b == "e2m1"
    if atom.vectors not in (1, 2, 4) or atom.intrinsic != name or not MIN_N <= atom.n <= MAX_N or atom.n & atom.n - 1 or \
            _KINDS.get((narrow, scale, atom.block)) != kind or not {a, b} <= set(ELEMENTS.values()):
        raise KeyError(name)
    return atom


@lru_cache(maxsize=256)
def choose(target: Any, element: str, scale: str, block: int, m: int, n: int, k: int, ctas: int = 1) -> TensorScaledAtom | None:
    """The instruction for a tile product of elements of an IR type with a scale factor of IR type `scale` for `block` of them along
    K; None if the target, the types, the block or the extents have none. `m`, `n`: of the accumulator that each of so many CTAs
    has."""
    if not getattr(target, FEATURE) or element not in ELEMENTS or scale not in SCALES:
        return None
    if SCALES[scale] == "ue5m3" and not getattr(target, E5M3_FEATURE):
        return None
    name = ELEMENTS[element]
    kind = _KINDS.get((name == "e2m1", SCALES[scale], block))
    if kind is None or m < PADDED_M or n < MIN_N:
        return None
    if ctas == PAIR and (m < M or n < LEAST_N[M]):
        return None
    atom = TensorScaledAtom(kind, min(m, M) * ctas, min(n, MAX_N), name, name, SCALES[scale], 1, ctas)
    atom = replace(atom, vectors=atom.k // block)
    return atom if k >= atom.k else None


def units(atom: TensorScaledAtom, m: int, n: int, batch: int = 0) -> tuple[int, int, int]:
    """How many instructions a step of k takes: over the batch, rows, columns of a CTA's accumulator."""
    return max(batch, 1), m // atom.rows, n // atom.n


# --- scale factors ------------------------------------------------------------------------------------------------------


def widened(rows: int, factors: int) -> tuple[int, int]:
    """Rows and factors a row of whole pieces: a tile with less has each several times, one copy behind the other."""
    return max(rows, PIECE_ROWS), max(factors, PIECE_FACTORS)


def whole(shape: tuple[int, ...], k_dim: int) -> tuple[int, ...]:
    """The shape of scale factors, of which dimension `k_dim` goes along k, as whole pieces."""
    row_dim = 2 * len(shape) - 3 - k_dim
    rows, factors = widened(shape[row_dim], shape[k_dim])
    return tuple(rows if d == row_dim else factors if d == k_dim else n for d, n in enumerate(shape))


@lru_cache(maxsize=256)
def scale_buffer(shape: tuple[int, ...], k_dim: int, run: int = 0) -> SharedLayout:
    """Where scale factors of whole pieces lie in shared memory: (batch,) rows and factors a row, which are dimension `k_dim`.
    Pieces go by k, then by rows, then by batch.

    run: rows that lie together in the operand (`TensorScaledAtom.run`): these are 64 rows and their copies."""
    rank = len(shape)
    rows, factors = shape[2 * rank - 3 - k_dim], shape[k_dim]
    words = [1 << i for i in range(log2(PIECE_FACTORS))]
    lanes = [PIECE_FACTORS * PIECE_COLUMNS << i for i in range(log2(LANES))]
    columns = [PIECE_FACTORS << i for i in range(log2(PIECE_COLUMNS))]
    first = log2(run) if run else len(lanes)
    by_k = words + [PIECE_BYTES << i for i in range(log2(factors // PIECE_FACTORS))]
    by_row = lanes[:first] + columns + lanes[first:]
    by_row += [PIECE_ROWS * factors << i for i in range(log2(rows // PIECE_ROWS))]
    batch = [rows * factors << i for i in range(log2(shape[0]) if rank > 2 else 0)]
    return SharedLayout(shape, tuple([*by_k, *by_row, *batch] if k_dim == rank - 1 else [*by_row, *by_k, *batch]))


def word_layout(shape: tuple[int, ...], k_dim: int, num_warps: int) -> LinearLayout | None:
    """Threads that hold a row's word of factors each, as a piece has it, neighbours next to each other; None where a tile has fewer
    words than threads."""
    fields = dim_bits(shape)
    row_dim = 2 * len(shape) - 3 - k_dim
    free = {d: [1 << low + i for i in range(bits)] for d, (low, bits) in enumerate(fields)}
    reg, free[k_dim] = free[k_dim][:log2(PIECE_FACTORS)], free[k_dim][log2(PIECE_FACTORS):]
    lane, free[row_dim] = free[row_dim][:log2(LANES)], free[row_dim][log2(LANES):]
    rest = [basis for d in (row_dim, k_dim, *range(len(shape) - 2)) for basis in free[d]]
    apart = len(rest) - log2(num_warps)
    if len(reg) < log2(PIECE_FACTORS) or len(lane) < log2(LANES) or apart < 0:
        return None
    return LinearLayout(shape, tuple(reg + rest[:apart]), tuple(lane), tuple(rest[apart:]))


def pieces(shape: tuple[int, ...]) -> int:
    """How many pieces scale factors of this (widened) shape are."""
    n = 1
    for extent in shape:
        n *= extent
    return n // PIECE_BYTES


def column_of(piece: int, groups: int, beside: int) -> int:
    """The column of tensor memory, from the operand's first, for a piece of a buffer: an instruction's `beside` pieces of rows lie
    beside each other there, for each of `groups` along k."""
    unit, rest = divmod(piece, groups * beside)
    row, group = divmod(rest, groups)
    return PIECE_COLUMNS * ((unit * groups + group) * beside + row)


def beside(n: int) -> int:
    """How many pieces of rows an instruction of `n` columns takes of B's scale factors."""
    return max(1, n // PIECE_ROWS)


def factor_columns(*shapes: tuple[int, ...]) -> int:
    """Columns of tensor memory for the scale factors of a product: a power of two, as all extents are."""
    return max(LEAST_N[M], PIECE_COLUMNS << (sum(map(pieces, shapes)) - 1).bit_length())
