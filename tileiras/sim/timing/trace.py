"""Which way did each warp go through the PTX? Block traces from a functional run, reduced to what machine code repeats.

The recorder notes which threads execute which block. A warp's trace is that of its leader: the lane whose way is the longest and
mostly holds those of the others (single-lane code is predicated, the other lanes pass through); where it doesn't, ways of a few
other lanes are `beside` it. Rounds of a loop in which an mbarrier wait only tried in vain are left out, since how often a warp
polls is for the timing engine to say.
"""
from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from tileiras.sim.timing import anchors

MOST_BESIDE = 3
"""Ways of other lanes beside a warp's leader's."""
_POLLING = frozenset(("mbarrier", "bra", "nanosleep", "setp", "selp", "mov", "and", "or", "xor", "add", "not"))


@dataclass(frozen=True, slots=True)
class PtxBlock:
    """A basic block of the PTX as it is executed. `lines`: of its instructions, the closing one included. `branch`: the
    line of its conditional branch (0: it has none), which leads to `taken` (-1: the thread ends) or `falls`."""
    index: int
    lines: tuple[int, ...]
    branch: int
    taken: int
    falls: int
    others: tuple[int, ...] = ()
    repeats: bool = False           # one instruction that is tried until it is through


@dataclass(frozen=True, slots=True, eq=False)
class PtxCode:
    """The PTX side of the join: blocks, and of every line that they hold its operation. `decides`: of lines that compute a
    predicate by which the same block branches, the branch's line."""
    blocks: tuple[PtxBlock, ...]
    operations: dict[int, str]
    guarded: frozenset[int]
    waits: frozenset[int]           # blocks in which an mbarrier is waited for
    idle: frozenset[int]            # blocks that do nothing but poll
    decides: dict[int, int] = field(default_factory=dict)


def ptx_code(program) -> PtxCode:
    """From a decoded program of the simulator."""
    text = program.module.lines
    operations: dict[int, str] = {}
    guarded: set[int] = set()
    decides: dict[int, int] = {}
    blocks = []
    for i, block in enumerate(program.blocks):
        end = block.end
        lines = tuple(block.lines) + ((block.end_line,) if end[0] != "fall" and block.end_line not in block.lines else ())
        branch, taken, falls, others = 0, -2, i + 1, ()
        repeats = end[0] == "bra" and end[1] == i and block.end_line in block.lines
        if end[0] == "bra" and not repeats:
            taken = end[1]
            if end[2] is None:
                falls = -2
            else:
                branch = block.end_line
        elif end[0] == "exit":
            taken = -1
            if end[1] is None:
                falls = -2
            else:
                branch = block.end_line
        elif end[0] == "brx":
            falls, others = -2, tuple(end[2])
        blocks.append(PtxBlock(i, lines, branch, taken, falls, others, repeats))
        decided = _decided(text, lines, branch)
        if decided:
            decides[decided] = branch
        for line in lines:
            if line not in operations and 0 < line <= len(text):
                operations[line] = anchors.operation(text[line - 1])
                if anchors.is_guarded(text[line - 1]):
                    guarded.add(line)
    waits = frozenset(b.index for b in blocks if any(anchors.is_wait(operations.get(n, "")) for n in b.lines))
    idle = frozenset(b.index for b in blocks
                     if all(operations.get(n, "").split(".")[0] in _POLLING and not _acts(operations.get(n, ""))
                            for n in b.lines))
    return PtxCode(tuple(blocks), operations, frozenset(guarded), waits, idle, decides)


_GUARD = re.compile(r"\s*@!?\s*([%$\w]+)")
_COMPARED = re.compile(r"\s*setp\S*\s+([%$\w]+)")


def _decided(text: list[str], lines: tuple[int, ...], branch: int) -> int:
    """The line of a block that computes what its branch asks; 0: none of them."""
    guard = _GUARD.match(text[branch - 1]) if 0 < branch <= len(text) else None
    if guard is None:
        return 0
    found = (n for n in reversed(lines) if 0 < n <= len(text) and (m := _COMPARED.match(text[n - 1])) and m[1] == guard[1])
    return next(found, 0)


def _acts(opcode: str) -> bool:
    """Whether an operation on an mbarrier does more than ask."""
    return opcode.startswith("mbarrier") and not anchors.is_wait(opcode)


@dataclass(eq=False)
class Visits:
    """What one batch of the simulator executed: for every block execution its block and the watched threads that ran."""
    blocks: list[int] = field(default_factory=list)
    masks: list[np.ndarray] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class WarpTrace:
    """A warp's way: `blocks` in order, `visits` their numbers in the batch's log, without polls in vain. `beside`: ways of other
    lanes, for what they did without the leader. `apart`: numbers of visits that are in none of these."""
    warp: int
    blocks: tuple[int, ...]
    visits: np.ndarray
    apart: np.ndarray
    beside: tuple[WarpTrace, ...] = ()


def warp_traces(code: PtxCode, visits: Visits, threads: slice, warps: int) -> list[WarpTrace]:
    """The traces of one CTA's warps, whose threads are `threads` of the masks."""
    if not visits.blocks:
        return []
    ran = np.array([m[threads] for m in visits.masks])                   # visits x threads
    order = np.array(visits.blocks)
    out = []
    for warp in range(warps):
        lanes = ran[:, 32 * warp:32 * warp + 32]
        here = np.flatnonzero(lanes.any(axis=1))
        if not len(here):
            continue
        lanes = lanes[here]
        leader = int(np.argmax(lanes.sum(axis=0)))
        left = ~lanes[:, leader]
        beside = []
        while left.any() and len(beside) < MOST_BESIDE:
            lane = int(np.argmax(lanes[left].sum(axis=0)))
            left &= ~lanes[:, lane]
            beside.append(_way(code, order, warp, here[lanes[:, lane]], here[:0]))
        out.append(_way(code, order, warp, here[lanes[:, leader]], here[left], tuple(beside)))
    return out


def _way(code: PtxCode, order: np.ndarray, warp: int, visits: np.ndarray, apart: np.ndarray,
         beside: tuple[WarpTrace, ...] = ()) -> WarpTrace:
    """The trace of a lane that made these visits."""
    mine = visits[_without_polls(code, order[visits])]
    return WarpTrace(warp, tuple(order[mine].tolist()), mine, apart, beside)


def _without_polls(code: PtxCode, order: np.ndarray) -> np.ndarray:
    """Which visits stay when rounds that only waited in vain are dropped."""
    keep = np.ones(len(order), bool)
    blocks = order.tolist()
    last: dict[int, int] = {}           # wait block -> its last visit, as long as nothing but polling has happened since
    for i, block in enumerate(blocks):
        if code.blocks[block].repeats:
            if i + 1 < len(blocks) and blocks[i + 1] == block:
                keep[i] = False
            last.clear()
            continue
        if block in code.waits:
            before = last.get(block)
            if before is not None:
                keep[before:i] = False
            last[block] = i
            if block not in code.idle:
                last = {block: i}
        elif block not in code.idle:
            last.clear()
    return keep
