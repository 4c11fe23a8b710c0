"""`early-loads`: loads that needn't wait for the barriers and writes in front of them say so.

    barrier                                        %x = tiled_load %v[%i] {invariant, early}
    %x = tiled_load %v[%i] {invariant}      ->     barrier

Its memory nobody writes while the kernel runs (analysis/invariant_loads.py), so the load becomes `ld.global.nc`, which may be
made before a barrier or a store that stands in front of it, so that one wait for memory covers both sides' loads. Where nothing
in the same straight piece of code holds a load back it stays an ordinary one: ptxas would only order its instructions otherwise,
and not better. So does a load that is small beside the function's others: its values would only take registers for longer (A100,
cross entropy: 44.8 us would become 48.2).

A load of few registers moves in front of the first op that holds it back, with the addresses that it needs: ptxas moves no load
over a branch, as a division has one. A large one stays where it is, and ptxas moves it where registers allow. What the kernel
writes only later, as tokens say (rows that are changed where they lie), is moved too, but is no `ld.global.nc`. Nothing moves over
an assertion, which may be about its address.

What a loop loads ahead of its first iteration stands behind a branch, and so may other loads: ptxas moves none of them. If they
take few registers they move in front of the first op that waits for another load, so that there is one wait for both.

    %n = load ; %x = if %some { load } ; for %i = %a to %n      ->      the second load in front of what needs %n

A load behind a branch that does nothing but load (an ignored label's weight) moves in front of the first op that waits for another
load, too: a row's losses wait for its label, and shall not wait for its scores behind that (TileGym's gradient of cross entropy,
512 rows of 4,000, A100: 6.45 us, 4.77, B200: 2.36, 1.94; of rows that leave the memory idle 0.98 and 1.28 on an A100).

So does a load that goes one of two ways (`wide-inside`): loads one behind another take them together (`memory/guarded.py`), and one
behind an op that needs another's tile would be made when that has come (Adam with a gradient of bf16, H100: 2.41 us, 2.03).

It runs behind `order-memory` and `fence-atomics`, when every barrier and fence stands.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.agents import warps_of, words_of
from tileiras.analysis.effects import effects_of
from tileiras.analysis.tensor_dots import DOTS
from tileiras.dialects.base import TileOp
from tileiras.dialects.element import elements_in
from tileiras.dialects.nv_tileas import LOADS, LOOPS
from tileiras.transforms.structure import is_movable, move_up, needed_of

BRANCHES = frozenset({"scf.if", "scf.for", "nv_tileas.loop", "nv_tileas.agent_switch", "nv_tileas.assert"})
"""Ops behind which another piece of code begins, but for a choice of values: that becomes selects."""
SMALL = 4
"""Beside a load of so many times its elements a load is small."""
FEW = 16
"""Registers that a thread may give a load which moves."""
ALL = 32
"""Registers that a thread may give all loads which move to one place."""
MOST_GUARDED = 4
"""The same, of loads behind branches, which may be held as long as a loop runs."""
HOLDING = frozenset({*DOTS, "nv_tileas.async_dot", "nv_tileas.assert", "nv_tileas.return"})
"""Ops that keep loads behind a loop in which they are: registers are for products, and what is behind may not come."""
MEETINGS = frozenset({"nv_tileas.barrier", "nv_tileas.warp_barrier", "nv_tileas.cluster_barrier", "nv_tileas.fence"})


def run(module: Operation, context: Any = None) -> None:
    """Mark the loads, and move what is small, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            most = max((elements_in(op.results[0].type) for op in func.walk() if op.name in LOADS), default=0)
            for block in [block for op in func.walk() for region in op.regions for block in region.blocks] if most else ():
                _move_guarded(block)
                _Pieces(block, most // SMALL).run()


def _is_choice(op: Operation) -> bool:
    """Whether an `scf.if` does nothing but compute values."""
    inside = [inner for region in op.regions for block in region.blocks for inner in block.ops]
    return op.name == "scf.if" and all(inner.name == "scf.yield" or (isinstance(inner, TileOp) and inner.PURE) for inner in inside)


def _registers(load: Operation) -> int:
    """How many a thread needs for what it loads."""
    t = load.results[0].type
    return words_of(t, warps_of(load)) if isinstance(t, TensorType) else 1


def _is_guarded(op: Operation) -> bool:
    """Whether an `scf.if` does nothing but load what nobody writes, and compute values."""
    inside = [inner for region in op.regions for block in region.blocks for inner in block.ops]
    return op.name == "scf.if" and any(inner.name in LOADS for inner in inside) and all(
        inner.name == "scf.yield" or (inner.name in LOADS and "invariant" in inner.properties) or
        (isinstance(inner, TileOp) and inner.PURE) for inner in inside)


class _Place:
    """Where loads may move to: in front of the first op that holds them back, or waits for another load."""

    def __init__(self) -> None:
        self.holding: Operation | None = None
        self.behind: dict[Operation, int] = {}      # it, and what stands between it and where we are, by place
        self.taken = 0                              # registers of loads that moved

    def move(self, load: Operation) -> bool:
        """Put a load there, if it is small, and what it needs can be there too."""
        registers = _registers(load)
        if self.holding is None or registers > FEW or self.taken + registers > ALL:
            return False
        return self._put(load, needed_of(load, self.behind, is_movable), registers)

    def move_guarded(self, branch: Operation) -> bool:
        """The same of a branch that loads few registers."""
        registers = sum(_registers(inner) for inner in branch.walk() if inner.name in LOADS)
        if self.taken + registers > MOST_GUARDED:
            return False
        needed = [needed_of(inner, self.behind, is_movable) for inner in branch.walk()]
        return self._put(branch, None if None in needed else {one for some in needed for one in some or ()}, registers)

    def _put(self, op: Operation, needed: set[Operation] | None, registers: int) -> bool:
        if self.holding is None or needed is None or self.holding in needed:
            return False
        self.taken += registers
        for moved in move_up(op, needed, self.behind, self.holding):
            self.behind.pop(moved, None)
        return True


def _move_guarded(block: Block) -> None:
    """Put loads of few registers that stand behind a branch (a loop's first ones, made ahead of it) in front of the first op that
    waits for another load, also over a loop that multiplies nothing; and loads behind a branch that does nothing but load."""
    loaded: set[SSAValue] = set()
    waiter, parts = _Place(), False     # the first op that waits; whether such a branch stands behind it
    for place, op in enumerate(list(block.ops)):
        is_branch = op.name in BRANCHES and not _is_choice(op)
        if waiter.holding is not None and is_branch and _is_guarded(op):
            if waiter.move_guarded(op):
                continue
            parts = True
        elif is_branch and not (op.name in LOOPS and not any(inner.name in HOLDING for inner in op.walk())):
            loaded, waiter, parts = set(), _Place(), False
            continue
        if op.name in LOADS:
            loaded.add(op.results[0])
            if parts and ("invariant" in op.properties or "first" in op.properties) and waiter.move(op):
                continue
        elif waiter.holding is None and any(v in loaded for v in op.operands):
            waiter.holding = op
        if waiter.holding is not None:
            waiter.behind[op] = place


class _Pieces:
    """The straight pieces of code of one block. `least`: elements of a load that isn't small."""

    def __init__(self, block: Block, least: int) -> None:
        self.block, self.least = block, least
        self._begin()

    def _begin(self) -> None:
        self.before = _Place()      # the first barrier or write
        self.met = _Place()         # what needs a tile that comes on two ways
        self.parted: set[SSAValue] = set()

    def run(self) -> None:
        for place, op in enumerate(list(self.block.ops)):
            if op.name in BRANCHES and not _is_choice(op):
                self._begin()
                continue
            if op.name in LOADS:
                if ("invariant" in op.properties or "first" in op.properties) and self._moves(op):
                    continue
                if "narrow" in op.properties:
                    self.parted.add(op.results[0])
                    if self.before.holding is None and self.met.move(op):
                        continue
            else:
                effects = effects_of(op)
                if self.before.holding is None and (op.name in MEETINGS or effects.inside or effects.token_write):
                    self.before.holding = op
                if self.met.holding is None and not self.parted.isdisjoint(op.operands):
                    self.met.holding = op
            for found in (self.before, self.met):
                if found.holding is not None:
                    found.behind[op] = place

    def _moves(self, load: Operation) -> bool:
        """Say of a load that it needn't wait for a barrier or write in front of it, and put it there."""
        count = elements_in(load.results[0].type)
        if self.before.holding is None or (count < self.least and count != 1):
            return False
        if "invariant" in load.properties:
            load.properties["early"] = UnitAttr()
        return self.before.move(load)
