"""How much shared memory does a function need, while a pass changes it one place at a time?

The plan of analysis/shared_memory.py, kept instead of made anew: a pass that asks once for every buffer or loop of a long program
would number all its ops each time. Pieces that live in different stretches of the program have nothing to do with each other's
places; each stretch is planned for itself, above what lives all the time (barriers, an alloca's memory), and planned again only
where it changed. Sizes are those of `plan_shared_memory`.

    lives = SharedLives(func)
    lives.size                        bytes in all
    lives.beside(loop, without)       bytes that others need where most of them live while the loop runs
    lives.update(allocs, moved)       behind a change of who uses these buffers, of their types, or of where ops stand
"""
from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate

from xdsl.ir import Operation

from tileiras.analysis.shared_memory import (
    SWIZZLE_ALIGNMENT,
    Piece,
    number_ops,
    piece_of,
    place,
    plan_shared_memory,
    users_of,
)

ALLOC, SLICE = "nv_tileas.alloc_tensor", "nv_tileas.extract_slice"
LEAST_STEP = 1e-6
"""Between the numbers of two ops: new ones get numbers between those of their neighbours, as long as there are some."""
MOST_PLACED = 1 << 20
"""Pieces, over all questions: some seconds. Passes that only save a little stop asking then (`spent`)."""


@dataclass(eq=False)
class _Stretch:
    """Pieces that live one into the other, by start. `above`: bytes that they need above a base, by what the base leaves when it is
    divided by the largest alignment."""

    pieces: list[Piece]
    last: float
    above: dict[int, int] = field(default_factory=dict)

    @property
    def first(self) -> float:
        return self.pieces[0].start


class SharedLives:
    """The buffers of a function and how long each lives."""

    def __init__(self, func: Operation) -> None:
        self.func = func
        self.placed = 0
        self.asked = False      # until then nothing is numbered
        self.number: dict[Operation, float] = {}
        self.last_inside: dict[Operation, float] = {}
        self.pieces: dict[Operation, Piece] = {}
        self.always: list[Piece] = []
        self.stretches: list[_Stretch] = []

    @property
    def spent(self) -> bool:
        """Whether so much was asked that a pass should leave what it can leave."""
        return self.placed > MOST_PLACED

    @property
    def size(self) -> int:
        """As `plan_shared_memory(func).size`."""
        self._ask()
        base = self._base()
        if base is None:
            self.placed += len(self.pieces)
            return plan_shared_memory(self.func).size
        rest = base % SWIZZLE_ALIGNMENT
        most = 0
        for stretch in self.stretches:
            above = stretch.above.get(rest)
            if above is None:
                self.placed += len(stretch.pieces)
                above = stretch.above[rest] = place(stretch.pieces, rest) - rest
            most = max(most, above)
        return base + most

    def size_without(self, gone: Iterable[Operation]) -> int:
        """The size when these buffers, which are about to go, have gone."""
        self._ask()
        pieces = [self.pieces[op] for op in gone if op in self.pieces]
        for piece in pieces:
            self._remove(piece)
        size = self.size
        for piece in pieces:
            self._add(piece)
        return size

    def beside(self, loop: Operation, without: list[Operation]) -> int:
        """How much shared memory other buffers than `without` need while a loop runs, at the op where most of them live."""
        self._ask()
        self._number(loop)
        first, last = self.number[loop], self.last_inside[loop]
        found = [p for p in self.always if p.start <= last and p.end >= first]
        for stretch in self.stretches[self._at(first):]:
            if stretch.first > last:
                break
            found += [p for p in stretch.pieces if p.start <= last and p.end >= first]
        events = []         # (when, whether it ends there, bytes); both are of its life
        for p in found:
            if p.op not in without:
                size = -(-p.size // p.alignment) * p.alignment
                events += [(p.start, False, size), (p.end, True, -size)]
        return max(accumulate(size for _, _, size in sorted(events)), default=0)

    def update(self, allocs: Iterable[Operation], moved: Iterable[Operation] = ()) -> None:
        """Behind a change of who uses these buffers, or of their types, or of whether there are any. Other ops among them are
        passed over. `moved`: ops that stand at another place now."""
        if not self.asked:
            return
        for op in moved:
            self.number.pop(op, None)
        touched = dict.fromkeys(allocs)
        for op in tuple(touched):
            if op.parent is not None and op.name == ALLOC:
                touched.update(self._number(op))
                for user in users_of(op.results[0]):
                    while user.parent is not op.parent and (above := user.parent_op()) is not None:
                        user = above
                    touched.update(self._number(user))
        for op in touched:
            old = self.pieces.pop(op, None)
            new = piece_of(op, self.func, self.number, self.last_inside) if op.parent is not None else None
            if old is not None:
                self._remove(old)
            if new is not None:
                self.pieces[op] = new
                self._add(new)

    def _number(self, op: Operation) -> dict[Operation, None]:
        """Give an op that has no number yet, and all that such neighbours hold, numbers between those of the others. The buffers
        that they use."""
        if op in self.number:
            return {}
        block = op.parent
        assert block is not None
        left, right = op.prev_op, op.next_op
        while left is not None and left not in self.number:
            left = left.prev_op
        while right is not None and right not in self.number:
            right = right.next_op
        parent = block.parent_op()
        assert parent is not None
        if right is None or parent not in self.number or (left is None and block is not parent.regions[0].blocks[0]):
            self._renumber()
            return {}
        low, high = self.number[parent] if left is None else self.last_inside[left], self.number[right]
        new: list[Operation] = []
        at = block.first_op if left is None else left.next_op
        while at is not None and at is not right:
            new += at.walk()
            at = at.next_op
        step = (high - low) / (len(new) + 1)
        if step < LEAST_STEP:
            self._renumber()
            return {}
        for i, inner in enumerate(new, 1):
            self.number[inner] = self.last_inside[inner] = low + i * step
        for inner in reversed(new):     # whoever holds an op ends no sooner than it does
            above = inner.parent_op()
            assert above is not None
            self.last_inside[above] = max(self.last_inside[above], self.last_inside[inner])
        used = {v.owner: None for inner in new for v in inner.operands if isinstance(v.owner, Operation)}
        used.update({op.operands[0].owner: None for op in tuple(used) if op.name == SLICE})     # type: ignore[misc]
        return {op: None for op in used if op in self.pieces}

    # --- stretches -----------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        if not self.asked:
            self.asked = True
            self._renumber()

    def _renumber(self) -> None:
        numbers, last_inside = number_ops(self.func)
        self.number, self.last_inside = dict(numbers), dict(last_inside)
        self.pieces, self.always, self.stretches = {}, [], []
        for op in self.number:
            piece = piece_of(op, self.func, self.number, self.last_inside)
            if piece is not None:
                self.pieces[op] = piece
                self._add(piece)

    def _base(self) -> int | None:
        """Bytes below all stretches; None where what lives from the start on leaves gaps, or doesn't live to the end."""
        end = self.last_inside[self.func]
        if not self.always:
            return 0
        if any(p.end < end or p.alignment > SWIZZLE_ALIGNMENT for p in self.always) or \
                any(p.alignment > SWIZZLE_ALIGNMENT for p in self.pieces.values()):
            return None
        size = 0
        for p in sorted(self.always, key=lambda p: -p.size):
            if size % p.alignment:
                return None
            size += p.size
        return size

    def _at(self, number: float) -> int:
        """Where the first stretch that ends no sooner than there stands."""
        return bisect_left(self.stretches, number, key=lambda stretch: stretch.last)

    def _add(self, piece: Piece) -> None:
        if piece.start == 0:
            self.always.append(piece)
            return
        at = self._at(piece.start)
        end = bisect_right(self.stretches, piece.end, key=lambda stretch: stretch.first)
        if end - at == 1:
            stretch = self.stretches[at]
            insort(stretch.pieces, piece, key=lambda p: (p.start, -p.size))
            stretch.last = max(stretch.last, piece.end)
            stretch.above.clear()
            return
        joined = self.stretches[at:end]
        pieces = sorted([piece, *(p for stretch in joined for p in stretch.pieces)], key=lambda p: (p.start, -p.size))
        self.stretches[at:end] = [_Stretch(pieces, max(p.end for p in pieces))]

    def _remove(self, piece: Piece) -> None:
        if piece.start == 0:
            self.always.remove(piece)
            return
        at = self._at(piece.start)
        stretch = self.stretches[at]
        rest = [p for p in stretch.pieces if p is not piece]
        parts: list[_Stretch] = []
        for p in rest:
            if parts and p.start <= parts[-1].last:
                parts[-1].pieces.append(p)
                parts[-1].last = max(parts[-1].last, p.end)
            else:
                parts.append(_Stretch([p], p.end))
        self.stretches[at:at + 1] = parts

