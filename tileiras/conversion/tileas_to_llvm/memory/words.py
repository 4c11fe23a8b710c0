"""Tiles as the words of the accesses that load them, and the registers that one access moves.

    <4 x half> in accesses of 8 bytes       two i32        what ld.global.v2.b32 gives
    <2 x half> in accesses of 2 bytes       two i16
    <2 x float>                             two i32        no pair, as f32x2 instructions take it

What branches hand on so has had nothing done to it: LLVM puts no instruction right behind the load, which would wait for it.
"""
from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from tileiras.conversion.tileas_to_llvm.builder import width_of
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, storage_type
from tileiras.conversion.tileas_to_llvm.memory import access
from tileiras.layout.linear import LinearLayout


def groups(low: Lowering, layout: LinearLayout, width: int) -> list[list[int]]:
    """Registers in runs of `width`, without those that copy a lower register."""
    owned = set(low.owned_regs(layout))
    return [list(range(r, r + width)) for r in range(0, layout.num_regs, width) if r in owned]


def spread(layout: LinearLayout, values: dict[int, SSAValue]) -> list[SSAValue]:
    """All registers from the owned ones (copies repeat them)."""
    by_index = {layout.reg_indices[r]: v for r, v in values.items()}
    return [by_index[i] for i in layout.reg_indices]


def _shape(low: Lowering, v: SSAValue, nbytes: int) -> tuple[list[list[int]], int, IntegerType]:
    """The registers of each access of `nbytes`, its words and their type."""
    size = width_of(storage_type(low.element(v))) // 8
    n, _, word = access.words_of(nbytes // size, size, False)
    return groups(low, low.layout(v), nbytes // size), n, word


def word_types(low: Lowering, v: SSAValue, nbytes: int) -> list[IntegerType]:
    """The types of a tile's words, in order."""
    accesses, n, word = _shape(low, v, nbytes)
    return [word] * (n * len(accesses))


def words_of_tile(low: Lowering, v: SSAValue, nbytes: int) -> list[SSAValue]:
    """A tile's words. Zeros that stand instead of what is loaded LLVM is not to know: it would compute with what is loaded right
    behind the load, so as to have what comes of the zeros ready."""
    b = low.b
    if (known := low.words(v)) is not None and [w.type for w in known] == word_types(low, v, nbytes):
        return known
    regs = low.regs(v)
    accesses, n, word = _shape(low, v, nbytes)
    if all(b.known(x) == 0 for x in regs):
        return [b.hidden_zero(width_of(word))] * (n * len(accesses))
    return [w for group in accesses for w in access.to_words(low, [regs[r] for r in group], n, word)]


def set_tile(low: Lowering, v: SSAValue, words: Sequence[SSAValue], nbytes: int) -> None:
    """Record a tile that comes as words."""
    def registers() -> list[SSAValue]:
        accesses, n, _ = _shape(low, v, nbytes)
        t, values = storage_type(low.element(v)), dict[int, SSAValue]()
        for i, group in enumerate(accesses):
            values.update(zip(group, access.from_words(low, list(words[n * i:n * (i + 1)]), len(group), t)))
        return spread(low.layout(v), values)
    low.set_words(v, words, registers)
