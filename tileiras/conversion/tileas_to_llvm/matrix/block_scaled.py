"""Operands of block-scaled products: scale factors as the instruction selects them, and pairs of 4-bit floats in bytes.

    %d = nv_tileas.dot_scaled %a, %b, %c, %sa, %sb {atom = "mma.block.scale.m16n8k32..."}

One register holds four bytes of scale factors of a row (of A) or column (of B): those of the next instructions along k
lie beside each other, and each instruction names the byte at which its own begin.
"""
from __future__ import annotations

from xdsl.ir import SSAValue

from tileiras.conversion.tileas_to_llvm.builder import I16, I32, Builder
from tileiras.conversion.tileas_to_llvm.lowering import Lowering
from tileiras.conversion.tileas_to_llvm.registers import gather
from tileiras.dialects.llvm import integer
from tileiras.layout.atoms.block_scaled import SCALES_PER_WORD, BlockScaledAtom

LOW_BYTES_OF_PAIRS = 0x6420
"""prmt's selector for bytes 0 and 2 of its first operand, then of its second."""
NIBBLE = 4


class Scales:
    """The scale factors of A or B, a tensor in the instruction's layout (layout/atoms/block_scaled.py, scale_layouts).

    `k_bits`: log2 of how many instructions follow one another along k; their scale factors have neighbouring registers."""

    def __init__(self, low: Lowering, v: SSAValue, atom: BlockScaledAtom, k_bits: int) -> None:
        self.b, self.v, self.atom, self.k_bits = low.b, low.vec(v), atom, k_bits
        self.together = min(SCALES_PER_WORD, atom.vectors << k_bits)
        self.words: dict[int, SSAValue] = {}

    def operand(self, number: int, step: int) -> list[SSAValue]:
        """What the instruction takes for row (or column) block `number` at step `step` of k: a register, the byte at which
        its scale factors begin, and the thread of the quad that has them."""
        b = self.b
        first = (number << self.k_bits | step) * self.atom.vectors
        start = first - first % self.together
        word = self.words.get(start)
        if word is None:
            found = gather(b, self.v, range(start, start + self.together))
            packed = b.cast("bitcast", found, integer(8 * self.together))
            word = self.words[start] = b.cast("zext", packed, I32)
        return [word, b.bits(first - start, I16), b.bits(0, I16)]


def pack_pairs(b: Builder, word: SSAValue) -> SSAValue:
    """Eight 4-bit elements, one a byte of an i64, as an i32 with the first lowest."""
    halves = [b.cast("trunc", word, I32), b.cast("trunc", b.lshr(word, 32), I32)]
    # bytes 0 and 2 of each half then hold a pair
    pairs = [b.or_(x, b.lshr(x, NIBBLE)) for x in halves]
    return b.nvvm("prmt", [*pairs, b.i32(LOW_BYTES_OF_PAIRS)])[0]
