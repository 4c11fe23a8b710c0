"""What do machine code and PTX know of each other before anything runs? Anchors, and what a taken branch means.

An anchor is a machine instruction that is executed if and only if its PTX line is (`anchors.py`). Where ptxas made it
conditional by a predicate, executing it says nothing; where it moved a load behind a branch, its absence doesn't. A conditional
machine branch
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

_BRANCHES = ("bra", "ret", "exit")
_END = -1
_ONWARD = 3                     # blocks looked at behind an edge
_SPILLS = {"STL", "LDL"}        # carry the line of whatever stands beside them: no evidence of where they belong


@dataclass(frozen=True, slots=True)
class Anchor:
    """`extra`: what an execution costs that the trace has no occurrence for; 0 where the instruction stands under a guard."""
    line: int
    extra: float


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
    """`anchors`: of each machine block, in order. `lines`: PTX lines that are anchors somewhere, with what it costs when an
    execution of theirs isn't found in the machine code. `senses`: of machine blocks that end in a branch with known polarity."""
    code: Code
    ptx: PtxCode
    anchors: list[tuple[Anchor, ...]]
    lines: dict[int, float]
    senses: dict[int, Sense]
    regions: dict[int, Region]


REPRESENTATIVE = 0.25           # weight of a line that stands for a block without real anchors
COUNTED = 0.2                   # and of one that does for the block of an unrolled loop, as often as the loop goes around


def join(code: Code, ptx: PtxCode) -> Join:
    """Anchors and polarities of a kernel."""
    found: list[list[Anchor]] = []
    for block in code.blocks:
        mine = []
        for line, members in rounds(block, ptx):
            if not ptx.operations[line].startswith(_BRANCHES):
                mine.append(Anchor(line, 0.0 if all(i.guard is not None for i in members) else 1.0))
        found.append(mine)
    lines = {a.line: 1.0 for mine in found for a in mine}
    for line in _merged(code, ptx) & set(lines):
        lines[line] = 0.0
    counted = _represent(code, ptx, found, lines)
    senses, machine = _senses(code, ptx)
    senses = {at: sense for at, sense in senses.items() if sense.line not in counted}
    _doubt(ptx, found, lines, senses, machine)
    return Join(code, ptx, [tuple(a) for a in found], lines, senses, _regions(code, found, senses))


def rounds(block: SassBlock, ptx: PtxCode) -> list[tuple[int, list[Instruction]]]:
    """A block's anchors in order: (PTX line, the instructions that carry out one execution of it).

    Where ptxas unrolled a loop, a line is executed several times in a block. What may also be several instructions of one
    execution, in a number that isn't known, counts as one."""
    out: list[tuple[int, list[Instruction]]] = []
    last: dict[int, tuple[int, list[Instruction]]] = {}
    for instruction in block.instructions:
        if not _is_anchor(instruction, ptx):
            continue
        line = instruction.ptx_line
        most = anchors.pieces(ptx.operations[line], instruction.opcode, instruction.base)
        entry = last.get(line)
        if entry is None or (most and len(entry[1]) >= most):
            entry = last[line] = (line, [])
            out.append(entry)
        entry[1].append(instruction)
    return out


def _is_anchor(instruction: Instruction, ptx: PtxCode) -> bool:
    operation = ptx.operations.get(instruction.ptx_line)
    return operation is not None and instruction.base in anchors.machine_operations(operation)


def _merged(code: Code, ptx: PtxCode) -> set[int]:
    """Lines that may have no instruction of their own: ptxas makes one wide access of neighbouring ones, in some rounds of a loop
    that it unrolls, and in others, whose addresses are aligned otherwise, not."""
    wide = {i.ptx_line for block in code.blocks for i in block.instructions
            if _is_anchor(i, ptx) and anchors.is_merged(ptx.operations[i.ptx_line], i.opcode, i.base)}
    out: set[int] = set()
    for b in ptx.blocks:
        operations = {ptx.operations[line] for line in b.lines if line in wide}
        out |= {line for line in b.lines if ptx.operations.get(line) in operations}
    return out


def _represent(code: Code, ptx: PtxCode, found: list[list[Anchor]], lines: dict[int, float]) -> set[int]:
    """Give PTX blocks without an anchor one: a line whose machine code stands in one block only, and in as many loops: what ptxas
    moves out of a loop is executed less often. Of a loop of one block that it unrolled, a line stands in a block once for each
    round, and where rounds come first or are left over, in the blocks for these, too. The lines of such loops' branches: which of
    them a machine branch is doesn't follow from what lies behind it."""
    counted: set[int] = set()
    successors = _successors(ptx)
    rounds_ptx = Depths(successors, 0).loops()
    rounds_machine: dict[int, int] = {}
    for entry in code.entries:
        rounds_machine |= Depths({b.index: b.successors for b in code.blocks if b.function == entry}, entry).loops()
    have = set(lines)
    counts: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))       # of a line, by machine block
    guarded: dict[int, set[int]] = defaultdict(set)                                 # the same, where it stands under guards
    for block in code.blocks:
        for instruction in block.instructions:
            counts[instruction.ptx_line][block.index] += 1
            if instruction.guard is not None:
                guarded[instruction.ptx_line].add(block.index)
    owner: dict[int, int] = {}
    for b in ptx.blocks:
        for line in b.lines:
            owner[line] = -1 if line in owner and owner[line] != b.index else b.index
    foreign = _majorities(code, owner)
    for b in ptx.blocks:
        if any(line in have for line in b.lines):
            continue
        own = [line for line in b.lines if owner[line] == b.index and
               not ptx.operations.get(line, "").startswith(("bra", "ret", "exit", "bar"))]
        inside = {m.index for m in code.blocks if rounds_machine.get(m.index, 0) >= rounds_ptx.get(b.index, 0)}
        counting = _counting(own, counts, inside, ptx) if b.index in (b.taken, b.falls) else None
        if counting is not None:
            counted.add(b.branch)
        line = counting if counting is not None else next(
            (n for n in own if n not in guarded and len(counts[n]) == 1 and all(
                at in inside and foreign[at] == b.index for at in counts[n])), None)
        if line is None:
            continue
        lines[line] = REPRESENTATIVE if counting is None else COUNTED
        for at, n in counts[line].items():
            anchor = Anchor(line, 0.0 if at in guarded[line] else lines[line])
            found[at] += [anchor] * (1 if counting is None else n)
    return counted


def _counting(own: list[int], counts: dict[int, dict[int, int]], inside: set[int], ptx: PtxCode) -> int | None:
    """Of the lines that are one instruction each, one that stands in each machine block as often as most of them do: as often as
    that carries out the loop. None where no block in a loop does so several times. `inside`: those blocks."""
    told = [n for n in own if n not in ptx.decides and anchors.is_one_instruction(ptx.operations.get(n, ""))]
    votes: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for line in told:
        for at, n in counts[line].items():
            votes[at][n] += 1
    copies = {at: max(mine, key=lambda n: (mine[n], -n)) for at, mine in votes.items()}
    if not any(n > 1 and at in inside for at, n in copies.items()):
        return None
    return next((line for line in told if counts[line] == copies), None)


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


def _successors(ptx: PtxCode) -> dict[int, list[int]]:
    return {b.index: [s for s in (b.taken, b.falls, *b.others) if 0 <= s < len(ptx.blocks)] for b in ptx.blocks}


def ptx_edges(ptx: PtxCode) -> dict[int, tuple[set, set]]:
    """PTX blocks dominated by the taken and by the other edge of each conditional branch, by block."""
    successors = _successors(ptx)
    edges = {b.index: (b.taken, b.falls) for b in ptx.blocks if b.branch and b.taken != b.falls}
    return _edge_sets(successors, edges, 0)


def _doubt(ptx: PtxCode, found: list[list[Anchor]], lines: dict[int, float], senses: dict[int, Sense],
           machine: dict[int, tuple[set, set]]) -> None:
    """Ask less of what stands behind other branches in the machine code than in the PTX.

    ptxas sinks a load behind the branch that alone needs it: then it may be missing. And it turns a branch around arithmetic into
    selections: then what stands for the PTX block is executed in any case."""
    before: dict[int, set[tuple[int, bool]]] = defaultdict(set)     # PTX block -> what it is behind
    for p, sides in ptx_edges(ptx).items():
        for taken, blocks in zip((True, False), sides):
            for b in blocks:
                before[b].add((ptx.blocks[p].branch, taken))
    known: dict[int, set[tuple[int, bool]]] = defaultdict(set)      # machine block -> the same
    unknown: dict[int, int] = defaultdict(int)
    for at, sides in machine.items():
        sense = senses.get(at)
        for taken, blocks in zip((True, False), sides):
            for b in blocks:
                if sense is None:
                    unknown[b] += 1
                else:
                    known[b].add((sense.line, taken == sense.same))
    places: dict[int, set[int]] = defaultdict(set)
    for b in ptx.blocks:
        for line in b.lines:
            places[line].add(b.index)
    for at, mine in enumerate(found):
        for i, anchor in enumerate(mine):
            if len(places[anchor.line]) != 1:
                continue
            there = before[next(iter(places[anchor.line]))]
            if not known[at] <= there and (lines[anchor.line] == REPRESENTATIVE or
                                           ptx.operations[anchor.line].startswith("ld")):
                lines[anchor.line] = 0.0
            if lines[anchor.line] == REPRESENTATIVE and len(there - known[at]) > unknown[at]:
                mine[i] = Anchor(anchor.line, 0.0)


def _senses(code: Code, ptx: PtxCode) -> tuple[dict[int, Sense], dict[int, tuple[set, set]]]:
    """Polarities by machine block, and what stands behind the two edges of every conditional branch."""
    machine: dict[int, tuple[set, set]] = {}
    owner: dict[int, set[int]] = defaultdict(set)
    for b in ptx.blocks:
        for line in b.lines:
            owner[line].add(b.index)
    behind = ptx_edges(ptx)
    depths = Depths(_successors(ptx), 0)
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
        shape = Depths(mine, entry)
        for at, (taken, falls) in _edge_sets(mine, branching, entry).items():
            machine[at] = (taken, falls)
            sense = _sense(code.blocks[at], taken, falls, code, owner, by_line, behind, ptx, shape, depths)
            if sense is not None:
                out[at] = sense
    return out, machine


def _target(block: SassBlock) -> int:
    return _END if block.branch is not None and block.branch.kind == "exit" else block.taken


def _lines(code: Code, blocks: set[int], ptx: PtxCode) -> dict[int, int]:
    counts: dict[int, int] = defaultdict(int)
    for b in blocks:
        for instruction in code.blocks[b].instructions:
            if _tells(instruction, ptx):
                counts[instruction.ptx_line] += 1
    return counts


def _tells(instruction: Instruction, ptx: PtxCode) -> bool:
    """Whether an instruction's line says where it comes from. Spills carry any line, and an exit that of the branch before it."""
    if instruction.base == "EXIT":
        return not ptx.operations.get(instruction.ptx_line, "").startswith("bra")
    return instruction.base not in _SPILLS


def _sense(block: SassBlock, taken: set[int], falls: set[int], code: Code, owner: dict[int, set[int]],
           by_line: dict[int, list[int]], behind: dict[int, tuple[set, set]], ptx: PtxCode, machine: Depths,
           depths: Depths) -> Sense | None:
    line = block.instructions[-1].ptx_line
    if line not in by_line or not _goes_back(block, code, by_line[line], ptx):
        line = _deciding(block, ptx)
    if line not in by_line or (block.branch is not None and len(block.branch.conditions) != 1):
        return None
    one, two = _lines(code, taken, ptx), _lines(code, falls, ptx)
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
        score = _by_targets(block, code, by_line[line], ptx) or _by_loops(block, by_line[line], machine, ptx, depths)
    return Sense(line, score > 0, abs(score)) if score else None


def _goes_back(block: SassBlock, code: Code, branches: list[int], ptx: PtxCode) -> bool:
    """Whether a machine branch that carries the line of a PTX branch to its own block leads to that block's code, as its copies do:
    ptxas gives the line of a wait's retry to the branch behind the wait, too, where that one's predicate was computed before."""
    for p in branches:
        b = ptx.blocks[p]
        if b.taken != p:
            return True
        polls = {n for n in b.lines if anchors.is_wait(ptx.operations.get(n, ""))}
        ends = [code.blocks[target] for target in (block.taken, block.falls) if target >= 0]
        if not polls or any(i.ptx_line in polls for end in ends for i in end.instructions):
            return True
    return False


def _deciding(block: SassBlock, ptx: PtxCode) -> int:
    """The PTX branch of a machine branch that carries another line: the one that asks what its predicate was computed for."""
    asked = [c.lstrip("!") for c in block.branch.conditions] if block.branch is not None else []
    for instruction in reversed(block.instructions[:-1]):
        if any(d in asked for d in instruction.dst):
            return ptx.decides.get(instruction.ptx_line, 0)
    return 0


def _by_targets(block: SassBlock, code: Code, branches: list[int], ptx: PtxCode) -> int:
    """Where nothing lies behind the edges alone: what stands right at their ends."""
    score = 0
    for p in branches:
        b = ptx.blocks[p]
        ends = [set(ptx.blocks[t].lines) if 0 <= t < len(ptx.blocks) else set() for t in (b.taken, b.falls)]
        for target, sign in ((block.taken, 1), (block.falls, -1)):
            for _ in range(_ONWARD):
                if target < 0:
                    break
                found = sum((i.ptx_line in ends[0]) - (i.ptx_line in ends[1]) for i in code.blocks[target].instructions
                            if _tells(i, ptx))
                score += sign * found
                onward = code.blocks[target].successors
                target = -1 if found or len(onward) != 1 else onward[0]
    return score


def _by_loops(block: SassBlock, branches: list[int], machine: Depths, ptx: PtxCode, depths: Depths) -> int:
    """Where nothing lies behind either edge: the edge that goes round the innermost loop is the same on both sides."""
    ours = machine.round(block.index, block.taken) - machine.round(block.index, block.falls)
    score = 0
    for p in branches:
        b = ptx.blocks[p]
        theirs = depths.round(p, _onward(ptx, b.taken)) - depths.round(p, _onward(ptx, b.falls))
        score += (ours * theirs > 0) - (ours * theirs < 0)
    return score


def _onward(ptx: PtxCode, target: int) -> int:
    """Where a block leads that does nothing but jump."""
    if 0 <= target < len(ptx.blocks):
        b = ptx.blocks[target]
        if not b.branch and b.taken >= 0 and len(b.lines) == 1:
            return b.taken
    return target


class Depths:
    """How deep nodes are in a dominator tree, and in loops."""

    def __init__(self, successors: dict[int, list[int]], entry: int) -> None:
        self.successors, self.parent = successors, immediate_dominators(successors, entry)
        self.depth: dict[int, int] = {}
        for node in self.parent:
            chain = []
            while node not in self.depth and self.parent[node] != node:
                chain.append(node)
                node = self.parent[node]
            depth = self.depth.setdefault(node, 0)
            for above in reversed(chain):
                depth += 1
                self.depth[above] = depth

    def round(self, node: int, target: int) -> int:
        """The depth of a loop's header, where an edge leads back to it; -1 where the edge leads on."""
        if target not in self.depth or node not in self.depth:
            return -1
        while self.depth[node] > self.depth[target]:
            node = self.parent[node]
        return self.depth[target] if node == target else -1

    def loops(self) -> dict[int, int]:
        """In how many loops each node lies. Loops of one node (waits) don't count."""
        backward: dict[int, list[int]] = defaultdict(list)
        for node, to in self.successors.items():
            for t in to:
                backward[t].append(node)
        counts: dict[int, int] = defaultdict(int)
        for header, before in list(backward.items()):
            body = {header}
            todo = [latch for latch in before if latch != header and self.round(latch, header) >= 0]
            while todo:
                at = todo.pop()
                if at not in body:
                    body.add(at)
                    todo += backward[at]
            for node in body if len(body) > 1 else ():
                counts[node] += 1
        return counts


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
            told = any(a.extra for at in seen for a in found[at])
            out[b.index] = Region(stop if stop != end else -1, told)
    return out
