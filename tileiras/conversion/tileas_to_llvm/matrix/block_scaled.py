"""Operands of block-scaled products: scale factors as the instruction selects them, and pairs of 4-bit floats in bytes.

    %d = nv_tileas.dot_scaled %a, %b, %c, %sa, %sb {atom = "mma.block.scale.m16n8k32..."}

One register holds four bytes of scale factors of a row (of A) or column (of B): those of the next instructions along k
lie beside each other, and each instruction names the byte at which its own begin.

The language's f8E4M3FN scales have a sign, the instruction's ue4m3 haven't. So elements take their block's sign: with t the
lane's place in its quad, register r of a fragment holds eight elements of block t / 2 + 2 * (r's half of k); XOR with the
sign of that byte of the row's word, spread by `prmt`, flips all eight.
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
MAGNITUDES, SIGNS = 0x7F7F7F7F, 0x88888888
"""Four f8E4M3FN without their signs; the signs of eight 4-bit floats."""
SIGN_OF_BYTE_0, EVERY_BYTE = 0x8888, 0x1111
"""prmt's selectors: the sign of byte 0, in all four bytes; what takes the next byte instead."""
BLOCKS_OF_HALF = 2
"""Blocks of 16 in half of an instruction's k of 64."""


class Scales:
    """The scale factors of A or B, a tensor in the instruction's layout (layout/atoms/block_scaled.py, scale_layouts).

    `k_bits`: log2 of how many instructions follow one another along k; their scale factors have neighbouring registers."""

    def __init__(self, low: Lowering, v: SSAValue, atom: BlockScaledAtom, k_bits: int) -> None:
        self.b, self.v, self.atom, self.k_bits = low.b, low.vec(v), atom, k_bits
        self.together = min(SCALES_PER_WORD, atom.vectors << k_bits)
        self.low = low
        self.words: dict[int, SSAValue] = {}
        self.is_signed = atom.scale == "ue4m3"

    def operand(self, number: int, step: int) -> list[SSAValue]:
        """What the instruction takes for row (or column) block `number` at step `step` of k: a register, the byte at which
        its scale factors begin, and the thread of the quad that has them."""
        b = self.b
        word, byte = self._word(number, step)
        if self.is_signed:
            word = b.and_(word, b.i32(MAGNITUDES))
        return [word, b.bits(byte, I16), b.bits(0, I16)]

    def _word(self, number: int, step: int) -> tuple[SSAValue, int]:
        """The register that holds an instruction's scale factors, and the byte at which they begin."""
        b = self.b
        first = (number << self.k_bits | step) * self.atom.vectors
        start = first - first % self.together
        word = self.words.get(start)
        if word is None:
            found = gather(b, self.v, range(start, start + self.together))
            packed = b.cast("bitcast", found, integer(8 * self.together))
            word = self.words[start] = b.cast("zext", packed, I32)
        return word, first - start

    def with_signs(self, fragment: list[SSAValue], number: int, step: int, of_a: bool) -> list[SSAValue]:
        """A fragment's registers with the signs of its scale factors. A's registers come row half by row half, then along
        k; B's along k."""
        b = self.b
        word, _ = self._word(number, step)
        rows = [word]
        if of_a:
            # lanes with even t hold the word of row t / 4, those with odd t that of eight rows below
            other = b.nvvm("shfl.sync.bfly.i32", [b.i32(-1), word, b.i32(1), b.i32(31)])[0]
            even = b.icmp("eq", b.and_(self.low.lane, b.i32(1)), b.i32(0))
            rows = [b.select(even, word, other), b.select(even, other, word)]
        block = b.lshr(b.and_(self.low.lane, b.i32(3)), 1)
        spread = b.add(b.mul(block, b.i32(EVERY_BYTE)), b.i32(SIGN_OF_BYTE_0))
        out = []
        for r, x in enumerate(fragment):
            selector = b.add(spread, b.i32(BLOCKS_OF_HALF * (r // len(rows)) * EVERY_BYTE))
            signs = b.nvvm("prmt", [rows[r % len(rows)], b.i32(0), selector])[0]
            out.append(b.xor(x, b.and_(signs, b.i32(SIGNS))))
        return out


def pack_pairs(b: Builder, word: SSAValue) -> SSAValue:
    """Eight 4-bit elements, one a byte of an i64, as an i32 with the first lowest."""
    halves = [b.cast("trunc", word, I32), b.cast("trunc", b.lshr(word, 32), I32)]
    # bytes 0 and 2 of each half then hold a pair
    pairs = [b.or_(x, b.lshr(x, NIBBLE)) for x in halves]
    return b.nvvm("prmt", [*pairs, b.i32(LOW_BYTES_OF_PAIRS)])[0]
