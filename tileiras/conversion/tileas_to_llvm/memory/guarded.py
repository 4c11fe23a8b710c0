"""Accesses that are wide wherever all elements of a wide access, or none, are in bounds.

    br %all, wide, some
    wide:    %w0.. = ld.global.v4.b32 [%p]                                  (as many as a tile takes)
    some:    br %cut, narrow, whole                                         (an access has elements in bounds and others not)
    whole:   @%m0 ld.global.v4.b32 %w0, [%p] ...
    narrow:  @%m0 ld.global.b16 %e0, [%p]; @%m1 ld.global.b16 %e1 ...       packed into the same words
    join:    words of the tile

So only a thread whose access the array's end cuts moves single elements: one at the end of a row, none where a row's length is a
multiple that nobody knew of. The ways meet in words, so that nothing is done with what was loaded before somebody wants it. Loads
one behind the other, of which none needs another's tile, take their ways together: on the narrow one elements are packed, which
waits for them.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from tileiras.conversion.tileas_to_llvm.memory.loads_stores import ViewAddress

Pointer = Callable[[int], SSAValue]
Predicate = Callable[[Sequence[int]], SSAValue | None]


@dataclass(frozen=True)
class Bounds:
    """What of a thread's part of a tile is in bounds. whole, some: whether all registers of an access are, or any (None:
    always). all: whether all of the thread's are."""

    whole: Predicate
    some: Predicate
    all: Callable[[], SSAValue]

    def cuts(self, low: Lowering, groups: Sequence[Sequence[int]]) -> SSAValue:
        """Whether one of these accesses has elements in bounds and others that aren't."""
        b = low.b
        pairs = [(self.some(group), self.whole(group)) for group in groups]
        return reduce(b.or_, [b.icmp("ne", some, whole) for some, whole in pairs if some is not None and whole is not None])


def viewed(address: ViewAddress) -> Bounds:
    """Those of a view, which cut a wide access at one place: its first and its last element tell."""
    return Bounds(lambda group: address.predicate(group[-1]), lambda group: address.predicate(group[0]), address.all_inside)


def masked(low: Lowering, masks: Sequence[SSAValue]) -> Bounds:
    """The bounds that a mask's values are."""
    def every(group: Sequence[int]) -> SSAValue:
        return reduce(low.b.and_, [masks[r] for r in group])

    def some(group: Sequence[int]) -> SSAValue:
        return reduce(low.b.or_, [masks[r] for r in group])
    return Bounds(every, some, lambda: every(range(len(masks))))


@dataclass(frozen=True)
class GuardedLoad:
    """A load to be made. moved: the registers of each wide access; pointers: its own. inside: whether all is in bounds. other: what
    a register has that isn't."""

    op: Operation
    moved: list[list[int]]
    pointers: list[SSAValue]
    bounds: Bounds
    inside: SSAValue
    other: Sequence[SSAValue]


def guarded_load(low: Lowering, op: Operation, pointer: Pointer, bounds: Bounds, other: Sequence[SSAValue]) -> None:
    """Load a tile, together with those that are asked for next: whoever packs words of narrow elements waits for them."""
    result = op.results[0]
    layout = low.layout(result)
    moved = groups(low, layout, access_width(op, layout))
    low.asked[result] = GuardedLoad(op, moved, [pointer(group[0]) for group in moved], bounds, bounds.all(), other)
    low.ask = _ask


def _ask(low: Lowering) -> None:
    """Make the loads that are asked for, all in one way."""
    b, loads = low.b, list(low.asked.values())
    low.asked, low.ask = {}, None
    sizes = [_bytes(low, load) for load in loads]
    types = [word_types(low, load.op.results[0], size) for load, size in zip(loads, sizes)]
    wide, some, whole, narrow = (b.new_block() for _ in range(4))
    join = b.new_block([t for words in types for t in words])
    b.cond_br(reduce(b.and_, [load.inside for load in loads]), wide, some)
    b.at(wide)
    b.br(join, [word for load, size in zip(loads, sizes) for word in _wide(low, load, size)])
    b.at(some)
    b.cond_br(reduce(b.or_, [load.bounds.cuts(low, load.moved) for load in loads]), narrow, whole)
    for block, width_of_access in ((whole, access_width), (narrow, sure_width)):
        b.at(block)
        parts = [_loaded(low, load, width_of_access(load.op, low.layout(load.op.results[0]))) for load in loads]
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


def _loaded(low: Lowering, load: GuardedLoad, width: int) -> list[list[SSAValue]]:
    """The elements of each wide access, by accesses of `width` of them, of which all or none are in bounds."""
    t = storage_type(low.element(load.op.results[0]))
    out = []
    for group, pointer in zip(load.moved, load.pointers):
        values: list[SSAValue] = []
        for part in _parts(group, width):
            p = low.b.gep(pointer, (part[0] - group[0]) * width_of(t) // 8)
            values += access.load(low, p, width, t, load.bounds.whole(part), [load.other[r] for r in part], "",
                                  "early" in load.op.properties)
        out.append(values)
    return out


def _parts(group: Sequence[int], width: int) -> list[Sequence[int]]:
    return [group[i:i + width] for i in range(0, len(group), width)]


def _packed(low: Lowering, load: GuardedLoad, parts: list[list[SSAValue]]) -> list[SSAValue]:
    n, _, word = _words(low, load)
    return [w for values in parts for w in access.to_words(low, [to_plain(low.b, x) for x in values], n, word)]


def _words(low: Lowering, load: GuardedLoad) -> tuple[int, int, IntegerType]:
    """What a wide access moves (`access.words_of`)."""
    return access.words_of(len(load.moved[0]), width_of(storage_type(low.element(load.op.results[0]))) // 8, False)


def guarded_store(low: Lowering, op: Operation, layout: LinearLayout, pointer: Pointer, bounds: Bounds, values: Sequence[SSAValue],
                  owner: SSAValue | None) -> None:
    """Store a tile; `owner`: which threads do."""
    b = low.b
    width, narrow = access_width(op, layout), sure_width(op, layout)
    size = width_of(to_plain(b, values[0]).type) // 8
    moved = groups(low, layout, width)
    pointers = {group[0]: pointer(group[0]) for group in moved}
    wide, some, whole, cut, join = (b.new_block() for _ in range(5))
    b.cond_br(bounds.all(), wide, some)
    b.at(wide)
    for group in moved:
        access.store(low, pointers[group[0]], [values[r] for r in group], owner)
    b.br(join)
    b.at(some)
    b.cond_br(bounds.cuts(low, moved), cut, whole)
    for block, elements in ((whole, width), (cut, narrow)):
        b.at(block)
        for group in moved:
            for part in _parts(group, elements):
                stores = access.both(low, owner, bounds.whole(part))
                access.store(low, b.gep(pointers[group[0]], (part[0] - group[0]) * size), [values[r] for r in part], stores)
        b.br(join)
    b.at(join)
