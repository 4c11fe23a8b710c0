"""mma.sync with block scaling: products of narrow floats whose blocks along K carry scale factors (sm_120, sm_121).

    kind        A, B                        K   scale factors a row     of type
    mxf8f6f4    8-, 6- and 4-bit floats     32  1                       ue8m0
    mxf4        e2m1                        64  2                       ue8m0
    mxf4nvf4    e2m1                        64  4                       ue4m3

Fragments of A, B and C are those of `mma_sync` with 4 (mxf8f6f4: every element in a byte, e2m1 in its bits 2-5) or 8
elements a register. Where operands are packed, two e2m1 a byte, an atom of the last two kinds counts bytes along k, and
fragments are those of `mma_sync` with 4 bytes a register. A register of scale factors holds one byte each of a row's
(column's), lowest first; an instruction takes 1, 2 or 4 of them from a byte on. With selector thread 0, A's come from lanes
t % 4 = 0 (row t / 4) and 1 (row t / 4 + 8), B's from lanes t % 4 = 0 (column t / 4).
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from tileiras.layout.atoms.mma_sync import MmaAtom, dot_layouts
from tileiras.layout.linear import LinearLayout, log2

SCALES_PER_WORD = 4
"""Bytes of a register of scale factors."""
FEATURE = "has_block_scaled_mma"
PAIR = 2
"""4-bit elements in a byte."""
_PACKED = ".packed"


@dataclass(frozen=True)
class BlockScaledAtom(MmaAtom):
    """One instruction. `kind`: after `.kind::`; `scale`: type of the scale factors, of which a row of A (a column of B)
    has `vectors`, each for k / vectors elements. `packed`: operands have two elements a byte, and k counts bytes."""

    kind: str = ""
    scale: str = ""
    vectors: int = 1
    packed: bool = False

    @property
    def elements(self) -> int:
        """How many elements are what k counts."""
        return PAIR if self.packed else 1

    @property
    def instruction(self) -> str:
        """The row of the nvvm dialect that emits it, whether operands are packed or not."""
        return self.intrinsic.removesuffix(_PACKED)

    @property
    def bits(self) -> int:
        """Bits that what k counts takes in a register."""
        return 4 * self.elements if self.kind.startswith("mxf4") else 8

    @property
    def elements_per_reg(self) -> int:
        return 32 // self.bits

    @property
    def block(self) -> int:
        """How many of what k counts one scale factor stands for."""
        return self.k // self.vectors

    @cached_property
    def sfa_bases(self) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
        """((row, column) of each register bit, of each lane bit) of A's scale factors, m x vectors."""
        return tuple((0, 1 << i) for i in range(log2(self.vectors))), ((8, 0), (0, 0), (1, 0), (2, 0), (4, 0))

    @cached_property
    def sfb_bases(self) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
        """The same of B's, vectors x n."""
        return tuple((1 << i, 0) for i in range(log2(self.vectors))), ((0, 0), (0, 0), (0, 1), (0, 2), (0, 4))


def _table() -> tuple[BlockScaledAtom, ...]:
    rows = []
    narrow = ("e4m3", "e5m2", "e2m1", "e2m3", "e3m2")
    for a in narrow:
        for b in narrow:
            rows.append(BlockScaledAtom(16, 8, 32, a, b, "f32", f"mma.block.scale.m16n8k32.row.col.mxf8f6f4.scale.1x.f32.{a}.{b}"
                                        ".f32.ue8m0", FEATURE, "", "mxf8f6f4", "ue8m0", 1))
    rows.append(BlockScaledAtom(16, 8, 64, "e2m1", "e2m1", "f32", "mma.block.scale.m16n8k64.row.col.mxf4.scale.2x.f32.e2m1.e2m1"
                                ".f32.ue8m0", FEATURE, "", "mxf4", "ue8m0", 2))
    rows.append(BlockScaledAtom(16, 8, 64, "e2m1", "e2m1", "f32", "mma.block.scale.m16n8k64.row.col.mxf4nvf4.scale.4x.f32.e2m1"
                                ".e2m1.f32.ue4m3", FEATURE, "", "mxf4nvf4", "ue4m3", 4))
    return tuple(rows)


BLOCK_SCALED: tuple[BlockScaledAtom, ...] = _table()

PACKED = tuple(replace(atom, intrinsic=atom.intrinsic + _PACKED, k=atom.k // PAIR, packed=True)
               for atom in BLOCK_SCALED if atom.bits == 4)
"""Those that multiply 4-bit elements, of operands that have two in a byte."""

BY_NAME = {atom.intrinsic: atom for atom in (*BLOCK_SCALED, *PACKED)}

ELEMENTS = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2", "f4E2M1FN": "e2m1"}
"""From the IR's names of the types that block-scaled products take."""
SCALES = {"f8E8M0FNU": "ue8m0", "f8E4M3FN": "ue4m3"}


def packed_atom(atom: BlockScaledAtom) -> BlockScaledAtom:
    """The atom of the same instruction for packed operands."""
    return BY_NAME[atom.intrinsic + _PACKED]


@lru_cache(maxsize=256)
def choose_block_scaled(target: Any, a: str, b: str, scale: str, block: int, m: int, n: int, k: int) -> BlockScaledAtom | None:
    """The instruction for a block-scaled product of IR types `a` and `b` with scale factors of IR type `scale`, one for
    `block` elements of K; None if the target, the types, the block or the extents have none."""
    if not getattr(target, FEATURE) or a not in ELEMENTS or b not in ELEMENTS or scale not in SCALES:
        return None
    fitting = [atom for atom in BLOCK_SCALED if (atom.a, atom.b, atom.scale) == (ELEMENTS[a], ELEMENTS[b], SCALES[scale])
               and atom.block == block and atom.m <= m and atom.n <= n and atom.k <= k
               and (atom.bits == 4 or "e2m1" not in (atom.a, atom.b))]
    return max(fitting, key=lambda atom: atom.k, default=None)


def scale_layouts(atom: BlockScaledAtom, m: int, n: int, k: int, num_warps: int,
                  batch: int = 0) -> tuple[LinearLayout, LinearLayout]:
    """Layouts of the scale factors of A (m, k / block) and B (k / block, n) of a tile product whose operands have
    `dot_layouts`: where a warp multiplies a row, it holds the row's scale factors."""
    a, b, _ = dot_layouts(atom, m, n, k, num_warps, batch)
    step = log2(atom.block)
    inside_a, inside_b = len(atom.a_bases[0]), len(atom.b_bases[0])

    def shrink(layout: LinearLayout, k_dim: int, inside: int, fragment: tuple) -> LinearLayout:
        blocks = k // atom.block
        (*lead, rows, cols) = layout.shape
        shape = (*lead, rows, blocks) if k_dim else (*lead, blocks, cols)

        def flat(pair: tuple[int, int]) -> int:
            return pair[0] % shape[-2] * shape[-1] + pair[1] % shape[-1]

        def move(basis: int) -> int:
            *outer, row, col = layout.coords(basis)
            where = [*outer, row, col >> step] if k_dim else [*outer, row >> step, col]
            out = 0
            for extent, i in zip(shape, where):
                out = out * extent + i
            return out
        return LinearLayout(shape, (*map(flat, fragment[0]), *map(move, layout.reg[inside:])), tuple(map(flat, fragment[1])),
                            tuple(map(move, layout.warp)))
    return shrink(a, 1, inside_a, atom.sfa_bases), shrink(b, 0, inside_b, atom.sfb_bases)
