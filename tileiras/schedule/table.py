"""The reservation table: which units are busy in which cycle of the interval, modulo the interval.

An op keeps the unit that it needs longest. What it needs of others is counted in the interval's bound and not reserved: warps
interleave there, and a reservation in one piece would keep out what in truth fits between.

A row is a cycle (a quantum of cycles where the interval is longer than the threshold); a unit's rows are the bits of one
integer, so that all starts at which an op fits come out of a few shifts, however long the interval is.
"""
from __future__ import annotations

from tileiras.schedule.graph import Node
from tileiras.schedule.options import DEFAULT_THRESHOLD


class Table:
    """`interval`: cycles. `quantum`: cycles of a row. `placed`: by node, the units that it keeps and their rows; `keeps`: the
    same by unit."""

    def __init__(self, interval: int, threshold: int = DEFAULT_THRESHOLD) -> None:
        self.quantum = 1 if threshold <= 0 else -(-interval // threshold)
        self.rows = max(1, interval // self.quantum)
        self.interval = self.rows * self.quantum
        self.all = (1 << self.rows) - 1
        self.busy: dict[str, int] = {}
        self.placed: dict[int, list[tuple[str, int]]] = {}
        self.keeps: dict[str, dict[int, int]] = {}

    def _length(self, cycles: int) -> int:
        return -(-cycles // self.quantum)

    def _run(self, start: int, cycles: int) -> int:
        """The rows that an op keeps from `start` on."""
        length = self._length(cycles)
        bits = ((1 << length) - 1) << start % self.rows
        return (bits & self.all) | bits >> self.rows

    def starts(self, node: Node) -> int:
        """The rows, as bits, at which the node fits."""
        found = self.all
        for unit, cycles in node.kept:
            length = self._length(cycles)
            if length > self.rows:
                return 0
            free = ~self.busy.get(unit, 0) & self.all
            free |= free << self.rows
            have = 1
            while have < length:            # runs of `have` free rows become runs of twice as many
                step = min(have, length - have)
                free &= free >> step
                have += step
            found &= free
        return found

    def first(self, node: Node, earliest: int) -> int | None:
        """The first cycle from `earliest` on, within an interval, at which the node fits."""
        row = -(-earliest // self.quantum)
        free = self.starts(node)
        if not free:
            return None
        turned = (free >> row % self.rows) | (free << self.rows - row % self.rows & self.all)
        return (row + (turned & -turned).bit_length() - 1) * self.quantum

    def last(self, node: Node, earliest: int, latest: int) -> int | None:
        """The last cycle up to `latest`, not before `earliest`, at which the node fits; an interval is looked through."""
        row = latest // self.quantum
        free = self.starts(node)
        if not free:
            return None
        # rows row - rows + 1 .. row, in this order from bit 0 up
        low = (row + 1) % self.rows
        turned = (free >> low) | (free << self.rows - low & self.all)
        found = (row - self.rows + turned.bit_length()) * self.quantum
        return found if found >= earliest else None

    def place(self, node: Node, start: int) -> None:
        rows = self.placed[node.index] = self._rows(node, start)
        for unit, bits in rows:
            self.busy[unit] = self.busy.get(unit, 0) | bits
            self.keeps.setdefault(unit, {})[node.index] = bits

    def remove(self, index: int) -> None:
        """Take a node out again."""
        for unit, bits in self.placed.pop(index):
            self.busy[unit] &= ~bits
            del self.keeps[unit][index]

    def conflicts(self, node: Node, start: int) -> list[int]:
        """The nodes whose rows one at `start` would need."""
        return [i for unit, bits in self._rows(node, start) if bits & self.busy.get(unit, 0)
                for i, taken in self.keeps[unit].items() if bits & taken]

    def _rows(self, node: Node, start: int) -> list[tuple[str, int]]:
        return [(unit, self._run(start // self.quantum, cycles)) for unit, cycles in node.kept]
