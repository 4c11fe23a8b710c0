"""`settle`: a tile by words that no load gives, as ptxas sees it."""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from tileiras.conversion.tileas_to_llvm.builder import I16, width_of
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers
from tileiras.conversion.tileas_to_llvm.memory.words import set_tile, words_of_tile


@lowers("nv_tileas.settle")
def settle(low: Lowering, op: Operation) -> None:
    """Each word, OR a zero that only the machine knows: the upper half of a number of blocks that has 16 bits."""
    b, nbytes = low.b, op.properties["bytes"].data      # type: ignore[attr-defined]
    zero: Any = b.nvvm("zero.of.b32", b.nvvm("read.ptx.sreg.nctaid.z"))[0]
    short = b.cast("trunc", zero, I16)
    words = [b.nvvm(f"settle.b{width_of(w.type)}", [w, short if w.type == I16 else zero])[0]
             for w in words_of_tile(low, op.operands[0], nbytes)]
    set_tile(low, op.results[0], words, nbytes)
