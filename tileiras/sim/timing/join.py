"""What do machine code and PTX know of each other before anything runs? Anchors, and what a taken branch means.

An anchor is a machine instruction that is executed if and only if its PTX line is (`anchors.py`), once a basic block. Where
ptxas made it conditional by a predicate it may stay out of a path: such anchors are optional. A conditional machine branch
that carries the line of a PTX branch goes the same way or the opposite one: its polarity follows from which lines lie
behind its two edges and behind those of the PTX branch.
"""
from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from tileiras.sim.timing import anchors
from tileiras.sim.timing.sass import Code, SassBlock, immediate_dominators
from tileiras.sim.timing.stream import Instruction
from tileiras.sim.timing.trace import PtxCode

_UNCONDITIONAL = frozenset(("bra.uni", "bra"))
_END = -1


@dataclass(frozen=True, slots=True)
class Anchor:
    """`weight`: how sure it is, as a cost of its absence; 0 for optional ones."""
    line: int
    weight: float


@dataclass(frozen=True, slots=True)
class Sense:
    """What a conditional machine branch says: it is the PTX branch at `line`, and goes its way (`same`) or the opposite."""
    line: int
    same: bool
    margin: int = 0


@dataclass(frozen=True, slots=True)
class Region:
    """Of a conditional branch of unknown polarity: the block where its ways `meet` again (-1: nowhere), and whether an anchor
    in between has `told` them apart."""
    meets: int
    told: bool


@dataclass(frozen=True, slots=True, eq=False)
class Join:
    """`anchors`: of each machine block, in order. `lines`: PTX lines that are anchors somewhere, with their weight (0: all
    their places are optional). `senses`: of machine blocks that end in a branch with known polarity."""
    code: Code
    ptx: PtxCode
    anchors: list[tuple[Anchor, ...]]
    lines: dict[int, float]
    senses: dict[int, Sense]
    regions: dict[int, Region]


REPRESENTATIVE = 0.25           # weight of a line that stands for a block without real anchors


def join(code: Code, ptx: PtxCode) -> Join:
    """Anchors and polarities of a kernel."""
    found: list[list[Anchor]] = []
    for block in code.blocks:
        mine: dict[int, Anchor] = {}
        for instruction in block.instructions:
            if _is_anchor(instruction, ptx):
                optional = instruction.guard is not None and instruction.base not in ("BRA", "EXIT", "BRX")
                old = mine.get(instruction.ptx_line)
                if old is None or (old.weight == 0 and not optional):
                    mine[instruction.ptx_line] = Anchor(instruction.ptx_line, 0.0 if optional else 1.0)
        found.append(list(mine.values()))
    _drop_branches(code, ptx, found)
    _represent(code, ptx, found)
    lines: dict[int, float] = {}
    for mine_ in found:
        for a in mine_:
            lines[a.line] = max(lines.get(a.line, 0.0), a.weight)
    for mine_ in found:             # a line that is optional anywhere may be missing
        for a in mine_:
            if a.weight == 0:
                lines[a.line] = 0.0
    senses = _senses(code, ptx)
    return Join(code, ptx, [tuple(a) for a in found], lines, senses, _regions(code, found, senses))


def _is_anchor(instruction: Instruction, ptx: PtxCode) -> bool:
    operation = ptx.operations.get(instruction.ptx_line)
    return operation is not None and instruction.base in anchors.machine_operations(operation)


def _drop_branches(code: Code, ptx: PtxCode, found: list[list[Anchor]]) -> None:
    """Branch lines are anchors only where both sides have conditional branches; the machine's jumps come and go."""
    conditional = {b.branch for b in ptx.blocks if b.branch}
    for block, mine in zip(code.blocks, found):
        tail = block.branch
        keep = []
        for a in mine:
            operation = ptx.operations[a.line]
            if operation.startswith("bra") or operation in ("ret", "exit"):
                last = block.instructions[-1]
                if a.line not in conditional or tail is None or not tail.conditions or last.ptx_line != a.line:
                    continue
                a = Anchor(a.line, 0.0)
            keep.append(a)
        mine[:] = keep


def _represent(code: Code, ptx: PtxCode, found: list[list[Anchor]]) -> None:
    """Give PTX blocks without an anchor one: a line whose machine code stands in one block only."""
    have = {a.line for mine in found for a in mine if not ptx.operations[a.line].startswith("bra")}
    places: dict[int, set[int]] = defaultdict(set)
    guarded: set[int] = set()
    for block in code.blocks:
        for instruction in block.instructions:
            places[instruction.ptx_line].add(block.index)
            if instruction.guard is not None:
                guarded.add(instruction.ptx_line)
    owner: dict[int, int] = {}
    for b in ptx.blocks:
        for line in b.lines:
            owner[line] = -1 if line in owner and owner[line] != b.index else b.index
    foreign = _majorities(code, owner)
    for b in ptx.blocks:
        if any(line in have for line in b.lines):
            continue
        for line in b.lines:
            if len(places[line]) == 1 and owner[line] == b.index and line not in guarded:
                at, = places[line]
                if foreign[at] == b.index and not ptx.operations.get(line, "").startswith(("bra", "ret", "exit", "bar")):
                    found[at].append(Anchor(line, REPRESENTATIVE))
                    break


def _majorities(code: Code, owner: dict[int, int]) -> list[int]:
    """For each machine block the PTX block that most of its instructions come from."""
    out = []
    for block in code.blocks:
        counts: dict[int, int] = defaultdict(int)
        for instruction in block.instructions:
            counts[owner.get(instruction.ptx_line, -1)] += 1
        out.append(max(counts, key=lambda k: counts[k]))
    return out


# ---- polarity

def _edge_sets(successors: dict[int, list[int]], edges: dict[int, tuple[int, int]], entry: int) -> dict[int, tuple[set, set]]:
    """For each branching node the nodes dominated by its first and by its second edge. An edge becomes a node of its own."""
    graph: dict[int, list[int]] = {}
    number = max(successors) + 1
    names: dict[tuple[int, int], int] = {}
    for node, to in successors.items():
        if node in edges:
            graph[node] = []
            for side, target in enumerate(edges[node]):
                names[node, side] = number
                graph[node].append(number)
                graph[number] = [target] if target >= 0 else []
                number += 1
            graph[node] += [t for t in to if t not in edges[node]]
        else:
            graph[node] = list(to)
    parent = immediate_dominators(graph, entry)
    children: dict[int, list[int]] = defaultdict(list)
    for node, above in parent.items():
        if node != above:
            children[above].append(node)
    out = {}
    for node in edges:
        sides = []
        for side in (0, 1):
            seen: set[int] = set()
            todo = [names[node, side]] if names[node, side] in parent else []
            while todo:
                at = todo.pop()
                seen.add(at)
                todo += children[at]
            sides.append({n for n in seen if n in successors})
        out[node] = (sides[0], sides[1])
    return out


def ptx_edges(ptx: PtxCode) -> dict[int, tuple[set, set]]:
    """PTX blocks dominated by the taken and by the other edge of each conditional branch, by block."""
    successors = {b.index: [s for s in (b.taken, b.falls, *b.others) if 0 <= s < len(ptx.blocks)] for b in ptx.blocks}
    edges = {b.index: (b.taken, b.falls) for b in ptx.blocks if b.branch and b.taken != b.falls}
    return _edge_sets(successors, edges, 0)


def _senses(code: Code, ptx: PtxCode) -> dict[int, Sense]:
    owner: dict[int, set[int]] = defaultdict(set)
    for b in ptx.blocks:
        for line in b.lines:
            owner[line].add(b.index)
    behind = ptx_edges(ptx)
    by_line: dict[int, list[int]] = defaultdict(list)
    for b in ptx.blocks:
        if b.index in behind:
            by_line[b.branch].append(b.index)
    out: dict[int, Sense] = {}
    for entry in sorted(code.entries):
        mine = {b.index: b.successors for b in code.blocks if b.function == entry}
        if not mine:
            continue
        branching = {b.index: (_target(b), b.falls) for b in code.blocks
                     if b.function == entry and b.branch is not None and b.branch.conditions
                     and b.branch.kind in ("jump", "exit") and _target(b) != b.falls}
        for at, (taken, falls) in _edge_sets(mine, branching, entry).items():
            sense = _sense(code.blocks[at], taken, falls, code, owner, by_line, behind, ptx)
            if sense is not None:
                out[at] = sense
    return out


def _target(block: SassBlock) -> int:
    return _END if block.branch is not None and block.branch.kind == "exit" else block.taken


def _lines(code: Code, blocks: set[int]) -> dict[int, int]:
    counts: dict[int, int] = defaultdict(int)
    for b in blocks:
        for instruction in code.blocks[b].instructions:
            counts[instruction.ptx_line] += 1
    return counts


def _sense(block: SassBlock, taken: set[int], falls: set[int], code: Code, owner: dict[int, set[int]],
           by_line: dict[int, list[int]], behind: dict[int, tuple[set, set]], ptx: PtxCode) -> Sense | None:
    line = block.instructions[-1].ptx_line
    if line not in by_line or (block.branch is not None and len(block.branch.conditions) != 1):
        return None
    one, two = _lines(code, taken), _lines(code, falls)
    score = 0
    for p in by_line[line]:
        yes, no = behind[p]
        for counts, sign in ((one, 1), (two, -1)):
            for n, count in counts.items():
                places = owner.get(n, set())
                if places and places <= yes:
                    score += sign * count
                elif places and places <= no:
                    score -= sign * count
    if not score:
        score = _by_loops(block, code, by_line[line], ptx)
    return Sense(line, score > 0, abs(score)) if score else None


def _by_loops(block: SassBlock, code: Code, branches: list[int], ptx: PtxCode) -> int:
    """Where nothing lies behind either edge: an edge back on one side is the edge back on the other."""
    back, forth = 0 <= block.taken <= block.index, 0 <= block.falls <= block.index
    if back == forth:
        return 0
    score = 0
    for p in branches:
        b = ptx.blocks[p]
        backward, onward = 0 <= b.taken <= p, 0 <= b.falls <= p
        if backward != onward:
            score += 1 if back == backward else -1
    return score


def _regions(code: Code, found: list[list[Anchor]], senses: dict[int, Sense]) -> dict[int, Region]:
    """The regions of all branches of unknown polarity."""
    out: dict[int, Region] = {}
    for entry in code.entries:
        mine = [b for b in code.blocks if b.function == entry]
        end = len(code.blocks)
        backward: dict[int, list[int]] = {end: []}
        for b in mine:
            backward.setdefault(b.index, [])
            leaves = b.branch is not None and b.branch.kind in ("exit", "return", "trap")
            for to in [*b.successors, *([end] if leaves or not b.successors else [])]:
                backward.setdefault(to, []).append(b.index)
        meets = immediate_dominators(backward, end)
        for b in mine:
            if b.branch is None or not b.branch.conditions or b.index in senses:
                continue
            stop = meets.get(b.index, end)
            seen: set[int] = set()
            todo = [s for s in b.successors if s != stop]
            while todo:
                at = todo.pop()
                if at not in seen:
                    seen.add(at)
                    todo += [s for s in code.blocks[at].successors if s != stop]
            told = any(a.weight for at in seen for a in found[at])
            out[b.index] = Region(stop if stop != end else -1, told)
    return out
