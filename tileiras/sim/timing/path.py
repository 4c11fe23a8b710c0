"""Which way through the machine code explains a PTX trace? Known polarities lead; where they say nothing, a search does.

A state of the search is a place in the machine code and a place in the trace's sequence of anchors. Executing a block uses up
its anchors: each takes the next occurrence of its line. Occurrences passed over stay open and may be met later at
nearly no cost, since ptxas moves loads up and stores down; what is never met, or met without an occurrence, costs its weight.
Best first, by cost in steps and then by progress, so that right guesses run straight through.
"""
from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise

from tileiras.sim.timing.join import REPRESENTATIVE, Anchor, Join
from tileiras.sim.timing.sass import SassBlock

MAX_STATES = 60_000
CALLED, WITHOUT, INSTRUCTION = 0.5, 0.02, 1e-6
OPEN = 0.004                    # what an anchor costs that was passed over and may be met later
STEPS = (0.5, 2.0, 8.0)         # costs within a step count as equal: progress decides; wider where a search doesn't end
DEARER = (0.02, 0.1)            # OPEN where none of that finds a way: a wrong guess that passes over a loop's rounds looks far on
EXPLAINED = 1.2                 # anchors: what stays unexplained in a way that is taken as it is
NEAR = 64                       # anchors ahead in which an optional one is looked for
FORGET = 400                    # anchors behind the trace's place after which an open one is given up


@dataclass(frozen=True, slots=True)
class Visit:
    """A machine block executed. `used`: for each anchor of the block the trace's anchor that it stands for; -1: none."""
    block: int
    used: tuple[int, ...]
    guess: bool = False         # entered by a guess
    without: bool = False       # with its guards false


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """A way through the machine code. `places`: which visit of the trace each of its anchors stands in. `residual`: weight of
    anchors not explained, of `anchors` in the trace. `searched`: instructions between a guessed branch and where its ways
    meet again, where nothing in the trace tells the ways apart; of `instructions`."""
    visits: list[Visit]
    places: list[int]
    residual: float
    anchors: int
    searched: int
    instructions: int
    states: int
    unexplained: list[int]


@dataclass(slots=True, eq=False)
class Node:
    """Where a stretch of the search begins."""
    block: int
    at: int                     # next anchor of the trace
    open: frozenset[int]        # passed over
    cost: float                 # without what is open
    stack: tuple[int, ...]
    parent: Node | None
    way: list[Visit]
    guess: bool                 # whether the way here was a guess
    without: bool | None = None     # whether what the block does under guards is left out; None: to be tried


class Sequence:
    """A trace as anchors: `items` (line, outcome of the branch there or None, index of the trace's visit)."""

    def __init__(self, join: Join, blocks: tuple[int, ...]) -> None:
        self.lines: list[int] = []
        self.outcomes: list[bool | None] = []
        self.places: list[int] = []
        self.weights: list[float] = []
        ptx = join.ptx.blocks
        known = join.lines
        branches = {s.line for s in join.senses.values()}
        wanted = {b: [n for n in ptx[b].lines if n in known or n in branches] for b in set(blocks)}
        for i, b in enumerate(blocks):
            block = ptx[b]
            for line in wanted[b]:
                outcome = None
                if line == block.branch:
                    after = blocks[i + 1] if i + 1 < len(blocks) else -1
                    if block.taken != block.falls:
                        outcome = True if after == block.taken else False if after == block.falls else None
                self.lines.append(line)
                self.outcomes.append(outcome)
                self.places.append(i)
                self.weights.append(0.0 if line == block.branch else known.get(line, 0.0))
        self.where: dict[int, list[int]] = defaultdict(list)
        for k, line in enumerate(self.lines):
            self.where[line].append(k)
        self.must = [0.0]
        for w in self.weights:
            self.must.append(self.must[-1] + w)

    def __len__(self) -> int:
        return len(self.lines)


def find(join: Join, blocks: tuple[int, ...], max_states: int = MAX_STATES) -> Path | None:
    """The machine code's way for a trace; None where none was found within the states allowed."""
    found = _find(join, blocks, max_states)
    if not _explains(found):
        doubted = unrolled(join) | repeated(join)
        if doubted:
            other = _find(replace(join, senses={b: s for b, s in join.senses.items() if b not in doubted}), blocks, max_states)
            found = _better(found, other)
    if not _explains(found) and REPRESENTATIVE in join.lines.values():
        found = _better(found, _find(without_representatives(join), blocks, max_states))
    return found


def without_representatives(join: Join) -> Join:
    """A join by real anchors alone: ptxas may have moved a line that stands for its block, as a loop's count to the loop's head."""
    kept = {line: weight for line, weight in join.lines.items() if weight != REPRESENTATIVE}
    return replace(join, lines=kept, anchors=[tuple(a for a in mine if a.line in kept) for mine in join.anchors])


def _find(join: Join, blocks: tuple[int, ...], max_states: int) -> Path | None:
    search = _Search(join, Sequence(join, blocks))
    each = max_states // len(STEPS)
    found = next(filter(None, (search.run(each, step) for step in STEPS)), None)
    for dearer in DEARER:
        if _explains(found):
            break
        found = _better(found, search.run(each, STEPS[0], dearer))
    return found


def _explains(found: Path | None) -> bool:
    return found is not None and found.residual <= EXPLAINED


def _better(one: Path | None, other: Path | None) -> Path | None:
    """The way that leaves less unexplained; the first where they are equal."""
    return other if one is None or (other is not None and other.residual < one.residual) else one


def unrolled(join: Join) -> set[int]:
    """Blocks that end in a branch round a loop of which they hold several rounds: ptxas then asks whether as many more are
    left, which isn't what the PTX's branch asks."""
    out = set()
    for b in join.senses:
        block = join.code.blocks[b]
        lines = [a.line for a in join.anchors[b]]
        if len(set(lines)) < len(lines) and min(block.taken, block.falls) <= b:
            out.add(b)
    return out


def repeated(join: Join) -> set[int]:
    """Blocks that end in a branch of the line by which the block before them branched already: where two loops end together, the
    second machine branch asks whether the outer one goes on, under the inner one's line."""
    return {b for b, sense in join.senses.items() for p in join.code.blocks[b].predecessors
            if p != b and p in join.senses and join.senses[p].line == sense.line and not join.anchors[b]}


class _Search:
    def __init__(self, join: Join, sequence: Sequence) -> None:
        self.join, self.sequence = join, sequence
        self.blocks: list[SassBlock] = join.code.blocks
        self.sizes = [len(b.instructions) for b in self.blocks]
        # Blocks in which ptxas turned a branch into guards: whether they hold is to be found out.
        self.converted = [any(not a.extra and a.line not in join.ptx.guarded and join.lines.get(a.line) != REPRESENTATIVE
                              for a in mine) for mine in join.anchors]

    def run(self, max_states: int, step: float, passed: float = OPEN) -> Path | None:
        """Search with costs counted in steps, and `passed` for each anchor passed over."""
        count = states = 0
        weights = self.sequence.weights
        start = Node(0, 0, frozenset(), 0.0, (), None, [], False)
        heap: list[tuple[float, float, int, Node]] = [(0.0, 0.0, 0, start)]
        seen: set[tuple] = set()
        while heap:
            _, _, _, node = heapq.heappop(heap)
            if node.block < 0:
                return self.result(node, states)
            key = (node.block, node.at, node.open, node.stack, node.without)
            if key in seen:
                continue
            seen.add(key)
            states += 1
            if states > max_states:
                return None
            for follower in self.extend(node):
                count += 1
                open_ = sum(1 for k in follower.open if weights[k])
                total = follower.cost + passed * open_
                heapq.heappush(heap, (total // step, -follower.at + 0.01 * open_ + total, count, follower))
        return None

    def extend(self, node: Node) -> list[Node]:
        """Walk on from a node until a guess is due or the path ends."""
        join = self.join
        at, opened, cost, stack, block = node.at, node.open, node.cost, node.stack, node.block
        way: list[Visit] = []
        guess = node.guess
        loops: set[tuple] = set()
        while True:
            if self.converted[block] and (way or node.without is None):
                return [Node(block, at, opened, cost, stack, node, way, guess, False),
                        Node(block, at, opened, cost + WITHOUT, stack, node, way, guess, True)]
            without = bool(node.without) and not way
            place = self.blocks[block]
            low = at
            sense = join.senses.get(block)
            outcome: bool | None = None
            used = []
            mine = join.anchors[block]
            for i, anchor in enumerate(mine):
                if without and not anchor.extra and anchor.line not in join.ptx.guarded:
                    used.append(-1)
                    continue
                at, opened, extra, k = self.use(anchor, at, opened, mine[:i])
                used.append(k)
                cost += extra
            cost += INSTRUCTION * self.sizes[block]
            if sense is not None:
                at, opened, outcome = self.decide(sense.line, at, opened)
            way.append(Visit(block, tuple(used), guess, without))
            guess = False
            if at > low:
                loops.clear()
            state = (block, at, len(opened), stack)
            if state in loops:
                return []                       # round and round without a trace of it
            loops.add(state)
            branch = place.branch
            if branch is None:
                if place.falls < 0:
                    return []
                block = place.falls
                continue
            if branch.kind == "trap":
                return []
            if not branch.conditions and branch.kind in ("jump", "exit", "return"):
                if branch.kind == "exit":
                    return [self.ended(node, at, opened, cost, way)]
                if branch.kind == "return":
                    if not stack:
                        return []
                    block, stack = stack[-1], stack[:-1]
                else:
                    if place.taken < 0:
                        return []
                    block = place.taken
                continue
            if branch.kind == "call" and not branch.conditions:
                cost += CALLED
                stack = (*stack, place.falls)
                block = place.taken
                continue
            if outcome is not None and sense is not None and branch.kind in ("jump", "exit"):
                take = outcome == sense.same
                if take and branch.kind == "exit":
                    return [self.ended(node, at, opened, cost, way)]
                block = place.taken if take else place.falls
                if block < 0:
                    return []
                continue
            return self.guesses(node, place, at, opened, cost, stack, way)

    def guesses(self, node: Node, place: SassBlock, at: int, opened: frozenset[int], cost: float, stack: tuple[int, ...],
                way: list[Visit]) -> list[Node]:
        """Both ways of a branch that nothing is known of."""
        out = []
        branch = place.branch
        assert branch is not None
        if place.falls >= 0:
            out.append(Node(place.falls, at, opened, cost, stack, node, way, True))
        if branch.kind == "exit":
            out.append(self.ended(node, at, opened, cost, way))
        elif branch.kind == "return":
            if stack:
                out.append(Node(stack[-1], at, opened, cost, stack[:-1], node, way, True))
        elif branch.kind == "call":
            out.append(Node(place.taken, at, opened, cost + CALLED, (*stack, place.falls), node, way, True))
        elif branch.kind == "indirect":
            out += [Node(o, at, opened, cost, stack, node, way, True) for o in place.others]
        elif place.taken >= 0:
            out.append(Node(place.taken, at, opened, cost, stack, node, way, True))
        return out

    def ended(self, node: Node, at: int, opened: frozenset[int], cost: float, way: list[Visit]) -> Node:
        sequence = self.sequence
        rest = sequence.must[-1] - sequence.must[at] + sum(sequence.weights[k] for k in opened)
        return Node(-1, at, frozenset(), cost + rest, (), node, way, False)

    def use(self, anchor: Anchor, at: int, opened: frozenset[int],
            before: tuple[Anchor, ...]) -> tuple[int, frozenset[int], float, int]:
        """A machine block executes an anchor, behind others: the trace's next occurrence of it is used up. Returns the new
        place and open ones, the cost, and the occurrence (-1: none)."""
        sequence, line = self.sequence, anchor.line
        mine = [k for k in opened if sequence.lines[k] == line] if opened else None
        if mine:
            k = min(mine)
            return at, opened - {k}, 0.0, k
        where = sequence.where.get(line)
        i = bisect_left(where, at) if where is not None else 0
        if where is None or i == len(where):
            return at, opened, anchor.extra, -1
        k = where[i]
        if anchor.extra == 0 and self.is_later(at, k, before):
            return at, opened, 0.0, -1
        return *self.advance(at, k, opened), k

    def is_later(self, at: int, k: int, before: tuple[Anchor, ...]) -> bool:
        """Whether the optional anchor at `k` belongs to a later round of a loop, so that it didn't happen in this one."""
        if k - at > NEAR:
            return True
        seen = {a.line for a in before if a.extra}
        for line in self.sequence.lines[at:k]:
            if line in seen:
                return True
            seen.add(line)
        return False

    def decide(self, line: int, at: int, opened: frozenset[int]) -> tuple[int, frozenset[int], bool | None]:
        """A branch with known polarity: how the trace's next execution of its line went."""
        sequence = self.sequence
        mine = [k for k in opened if sequence.lines[k] == line] if opened else []
        where = sequence.where.get(line, ())
        i = bisect_left(where, at)
        if i < len(where) and (not mine or sequence.must[where[i]] == sequence.must[at]):
            k = where[i]                        # ptxas unrolls: of several executions passed over the last one counts
            at, opened, _ = self.advance(at, k, opened)
            return at, opened.difference(mine), sequence.outcomes[k]
        if mine:
            return at, opened.difference(mine), sequence.outcomes[max(mine)]
        return at, opened, None

    def advance(self, at: int, k: int, opened: frozenset[int]) -> tuple[int, frozenset[int], float]:
        sequence = self.sequence
        cost = 0.0
        if k > at:
            opened = opened.union(range(at, k))
        if opened and min(opened) < k - FORGET:
            old = [j for j in opened if j < k - FORGET]
            cost = sum(sequence.weights[j] for j in old)
            opened = opened.difference(old)
        return k + 1, opened, cost

    def result(self, node: Node, states: int) -> Path:
        parts = []
        residual = node.cost
        at: Node | None = node
        while at is not None:
            parts.append(at.way)
            at = at.parent
        visits = [v for part in reversed(parts) for v in part]
        count = sum(self.sizes[v.block] for v in visits)
        residual -= INSTRUCTION * count
        residual -= CALLED * sum(1 for v in visits if (b := self.blocks[v.block].branch) is not None and b.kind == "call"
                                 and self.blocks[v.block].taken >= 0) if residual > 0 else 0.0
        searched = self.unsure(visits)
        residual -= self.left_out(visits)
        return Path(visits, self.sequence.places, max(0.0, round(residual, 6)), len(self.sequence), searched, count, states,
                    self.unexplained(visits))

    def left_out(self, visits: list[Visit]) -> float:
        """What guards cost that were taken to be false: no anchor's fault."""
        return WITHOUT * sum(v.without for v in visits)

    def unexplained(self, visits: list[Visit]) -> list[int]:
        """Lines of the trace's anchors that nothing stands for, and, negated, of the machine code's that stand for none."""
        used: set[int] = set()
        out = []
        for v in visits:
            for anchor, k in zip(self.join.anchors[v.block], v.used):
                if k >= 0:
                    used.add(k)
                elif anchor.extra:
                    out.append(-anchor.line)
        return out + [line for k, line in enumerate(self.sequence.lines) if self.sequence.weights[k] and k not in used]

    def unsure(self, visits: list[Visit]) -> int:
        """Instructions executed on a side of a guessed branch that no anchor of either side supports."""
        regions = self.join.regions
        total = 0
        until = -1
        for before, v in pairwise([visits[0], *visits]) if visits else ():
            if until >= 0:
                if v.block == until:
                    until = -1
                else:
                    total += self.sizes[v.block]
            if until < 0 and v.guess:
                region = regions.get(before.block)
                if region is not None and not region.told and v.block != region.meets:
                    until = region.meets
                    total += self.sizes[v.block]
        return total
