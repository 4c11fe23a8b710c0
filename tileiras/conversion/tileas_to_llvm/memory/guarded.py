"""Accesses that are wide where all of a thread's elements are in bounds, and narrow where some aren't.

    br %all, wide, narrow
    wide:    %w0.. = ld.global.v4.b32 [%p]                                  (as many as a tile takes)
    narrow:  @%m0 ld.global.b16 %e0, [%p]; @%m1 ld.global.b16 %e1 ...       packed into the same words
    join:    words of the tile

The ways meet in words, so that nothing is done with what was loaded before somebody wants it. Loads one behind the other, of which
none needs another's tile, take their ways together: on the narrow one elements are packed, which waits for them.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.access import access_width, sure_width
from tileiras.conversion.tileas_to_llvm.builder import width_of
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, storage_type
from tileiras.conversion.tileas_to_llvm.memory import access
from tileiras.conversion.tileas_to_llvm.memory.words import groups, set_tile, word_types
from tileiras.conversion.tileas_to_llvm.registers import to_plain
from tileiras.dialects.llvm import vec
from tileiras.layout.linear import LinearLayout

Pointer = Callable[[int], SSAValue]
Predicate = Callable[[int], SSAValue | None]


@dataclass(frozen=True)
class GuardedLoad:
    """A load to be made. moved: the registers of each wide access; pointers: its own. predicate: of a register. inside: whether all
    of them hold. other: what a register has where its own doesn't."""

    op: Operation
    moved: list[list[int]]
    pointers: list[SSAValue]
    predicate: Predicate
    inside: SSAValue
    other: Sequence[SSAValue]


def guarded_load(low: Lowering, op: Operation, pointer: Pointer, predicate: Predicate, inside: SSAValue,
                 other: Sequence[SSAValue]) -> None:
    """Load a tile, together with those that are asked for next: whoever packs words of narrow elements waits for them."""
    result = op.results[0]
    layout = low.layout(result)
    moved = groups(low, layout, access_width(op, layout))
    low.asked[result] = GuardedLoad(op, moved, [pointer(group[0]) for group in moved], predicate, inside, other)
    low.ask = _ask


def _ask(low: Lowering) -> None:
    """Make the loads that are asked for: all wide or all narrow."""
    b, loads = low.b, list(low.asked.values())
    low.asked, low.ask = {}, None
    sizes = [_bytes(low, load) for load in loads]
    types = [word_types(low, load.op.results[0], size) for load, size in zip(loads, sizes)]
    wide, some, join = b.new_block(), b.new_block(), b.new_block([t for words in types for t in words])
    b.cond_br(reduce(b.and_, [load.inside for load in loads]), wide, some)
    b.at(wide)
    b.br(join, [word for load, size in zip(loads, sizes) for word in _wide(low, load, size)])
    b.at(some)
    parts = [_narrow(low, load) for load in loads]
    b.br(join, [word for load, values in zip(loads, parts) for word in _packed(low, load, values)])
    b.at(join)
    words = iter(join.args)
    for load, size, mine in zip(loads, sizes, types):
        set_tile(low, load.op.results[0], [next(words) for _ in mine], size)


def _bytes(low: Lowering, load: GuardedLoad) -> int:
    """Of a wide access."""
    return width_of(storage_type(low.element(load.op.results[0]))) // 8 * len(load.moved[0])


def _wide(low: Lowering, load: GuardedLoad, size: int) -> list[SSAValue]:
    b = low.b
    words: list[SSAValue] = []
    n, _, word = _words(low, load)
    for pointer in load.pointers:
        p, space = access.address(low, pointer)
        flags = "invariant" if "early" in load.op.properties and space else ""
        words += [b.load(word, p, size, flags)] if n == 1 else b.unpack(b.load(vec(n, word), p, size, flags))
    return words


def _narrow(low: Lowering, load: GuardedLoad) -> list[list[SSAValue]]:
    """The elements of each wide access."""
    layout, t = low.layout(load.op.results[0]), storage_type(low.element(load.op.results[0]))
    narrow = sure_width(load.op, layout)
    out = []
    for group, pointer in zip(load.moved, load.pointers):
        values: list[SSAValue] = []
        for first in group[::narrow]:
            p = low.b.gep(pointer, (first - group[0]) * width_of(t) // 8)
            values += access.load(low, p, narrow, t, load.predicate(first), list(load.other[first:first + narrow]), "",
                                  "early" in load.op.properties)
        out.append(values)
    return out


def _packed(low: Lowering, load: GuardedLoad, parts: list[list[SSAValue]]) -> list[SSAValue]:
    n, _, word = _words(low, load)
    return [w for values in parts for w in access.to_words(low, [to_plain(low.b, x) for x in values], n, word)]


def _words(low: Lowering, load: GuardedLoad) -> tuple[int, int, IntegerType]:
    """What a wide access moves (`access.words_of`)."""
    return access.words_of(len(load.moved[0]), width_of(storage_type(low.element(load.op.results[0]))) // 8, False)


def guarded_store(low: Lowering, op: Operation, layout: LinearLayout, pointer: Pointer, predicate: Predicate, inside: SSAValue,
                  values: Sequence[SSAValue], owner: SSAValue | None) -> None:
    """Store a tile; `owner`: which threads do."""
    b = low.b
    width, narrow = access_width(op, layout), sure_width(op, layout)
    size = width_of(to_plain(b, values[0]).type) // 8
    moved = groups(low, layout, width)
    pointers = {group[0]: pointer(group[0]) for group in moved}
    wide, some, join = b.new_block(), b.new_block(), b.new_block()
    b.cond_br(inside, wide, some)
    b.at(wide)
    for group in moved:
        access.store(low, pointers[group[0]], [values[r] for r in group], owner)
    b.br(join)
    b.at(some)
    for group in moved:
        for first in group[::narrow]:
            stores = access.both(low, owner, predicate(first))
            access.store(low, b.gep(pointers[group[0]], (first - group[0]) * size), list(values[first:first + narrow]), stores)
    b.br(join)
    b.at(join)
