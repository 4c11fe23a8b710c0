"""How many of a thread's registers tiles take where most of them are alive at once.

    %s = dot ...                 | sums, %s                 (128 + 64)
    %p = convertf (exp2 %s)      | sums, %p                 (128 + 32)
    %o = dot %p, ..., %sums      | %o                       (128)

Elementwise ops write where they read, so that an op's results and operands don't count together. Views, constants and what is
spread from a few numbers take no more than these. Scalars, addresses and fragments on their way aren't counted.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.analysis.cta_axes import mnemonic

SAME_REGISTERS = frozenset({"view", "broadcast", "permute", "splat"})
"""Ops whose results take no registers besides their operands'."""
MADE_AGAIN = frozenset({"constant", "splat", "make_range"})
"""Ops whose results are made again sooner than kept."""


def most_alive(region: Region, held: Callable[[SSAValue], int], inside: Collection[Operation] | None = None) -> int:
    """Registers that tiles take at most at once in a region. `held`: registers of a value that is a tile. `inside`: only what is
    inside these ops counts."""
    return max((_Walk(held, inside).block(block, {}, inside is None) for block in region.blocks), default=0)


def root_of(value: SSAValue) -> SSAValue:
    """The value whose registers hold another one."""
    while isinstance(value.owner, Operation) and mnemonic(value.owner) in SAME_REGISTERS and value.owner.operands:
        value = value.owner.operands[0]
    return value


class _Walk:
    """`alive`, in all methods: the tiles alive at a place with the registers that each takes."""

    def __init__(self, held: Callable[[SSAValue], int], inside: Collection[Operation] | None) -> None:
        self.held = held
        self.inside = inside or ()

    def block(self, block: Block, alive: dict[SSAValue, int], counts: bool) -> int:
        """The most in a block, behind which these are alive; they are what is alive before it then."""
        total = sum(alive.values())
        most = total if counts else 0
        for op in reversed(block.ops):
            for r in op.results:
                total -= alive.pop(r, 0)
            if op.regions:
                for v in from_outside(op):
                    total += self._add(v, alive)
                for region in op.regions:
                    for inner in region.blocks:
                        most = max(most, self.block(inner, dict(alive), counts or op in self.inside))
            if mnemonic(op) not in SAME_REGISTERS:
                for v in op.operands:
                    total += self._add(v, alive)
            if counts:
                most = max(most, total)
        for arg in block.args:
            alive.pop(arg, None)
        return most

    def _add(self, value: SSAValue, alive: dict[SSAValue, int]) -> int:
        """Registers that a value takes in addition, which is alive now."""
        root = root_of(value)
        if root in alive or not isinstance(root.type, TensorType) or (
                isinstance(root.owner, Operation) and mnemonic(root.owner) in MADE_AGAIN):
            return 0
        alive[root] = self.held(root)
        return alive[root]


def from_outside(op: Operation) -> Iterator[SSAValue]:
    """What an op's regions use of what is made around it."""
    inside = {op}
    for inner in op.walk():
        inside.add(inner)
        if inner is op:
            continue
        for v in inner.operands:
            holder = v.owner if isinstance(v.owner, Operation) else v.owner.parent_op()
            if holder not in inside and holder is not op:
                yield v
