"""Which of several blocks goes first where the threads of a warp stand at different ones?

    rank = ranks([(1, 2), (3,), (3,), ()])

The order in which a block comes behind all from which it can be reached, but for a loop's way back, and in which a loop's blocks
stand together before what follows the loop. Where the first of the threads' blocks always goes first, threads that part meet again
where their ways join, wherever the text has the blocks: a branch's block placed behind the kernel's end, say. (Thread frontiers of
Diamos et al., "SIMD re-convergence at thread frontiers", MICRO 2011, by the weak topological order of Bourdoncle, "Efficient
chaotic iteration strategies with widenings", 1993.)
"""
from __future__ import annotations

import heapq
from collections.abc import Sequence


def ranks(successors: Sequence[Sequence[int]]) -> list[int]:
    """Of each block its place in the order. `successors`: of each block those that may follow; block 0 is the entry. Blocks
    that can be exchanged stand as in the text; those that nothing reaches stand last."""
    placed: list[int] = []
    todo: list[tuple[list[int], int]] = [(_reached(successors), 0)]         # (blocks to be placed, the first of them), on a stack
    while todo:
        inside, head = todo.pop()
        placed.append(head)
        rest = [b for b in inside if b != head]
        if rest:
            todo += reversed(_in_order(successors, rest))
    out = [-1] * len(successors)
    for k, block in enumerate(placed):
        out[block] = k
    unreached = [b for b, place in enumerate(out) if place < 0]
    for k, block in enumerate(unreached, len(placed)):
        out[block] = k
    return out


def _reached(successors: Sequence[Sequence[int]]) -> list[int]:
    seen, stack = {0}, [0]
    while stack:
        for to in successors[stack.pop()]:
            if to not in seen:
                seen.add(to)
                stack.append(to)
    return sorted(seen)


def _in_order(successors: Sequence[Sequence[int]], blocks: list[int]) -> list[tuple[list[int], int]]:
    """Loops and single blocks among some, each behind those that lead to it, with the block by which it is entered."""
    within = set(blocks)
    parts = _components(successors, blocks, within)
    part_of = {b: k for k, part in enumerate(parts) for b in part}
    entered: list[set[int]] = [set() for _ in parts]
    leads: list[set[int]] = [set() for _ in parts]
    for b in blocks:
        for to in successors[b]:
            if to in within and part_of[to] != part_of[b]:
                leads[part_of[b]].add(part_of[to])
                entered[part_of[to]].add(to)
    before = [0] * len(parts)
    for targets in leads:
        for k in targets:
            before[k] += 1
    ready = [(min(part), k) for k, part in enumerate(parts) if not before[k]]
    heapq.heapify(ready)
    out = []
    while ready:
        _, k = heapq.heappop(ready)
        out.append((parts[k], _head(successors, parts[k], entered[k], within)))
        for target in leads[k]:
            before[target] -= 1
            if not before[target]:
                heapq.heappush(ready, (min(parts[target]), target))
    return out


def _head(successors: Sequence[Sequence[int]], part: list[int], entered: set[int], within: set[int]) -> int:
    """By which block a loop is entered: the first of those that others of the same nest lead to, else those from outside of it."""
    if len(part) == 1 or entered:
        return min(entered, default=part[0])
    mine = set(part)
    outside = {to for b, following in enumerate(successors) if b not in within for to in following if to in mine}
    return min(outside, default=min(part))


def _components(successors: Sequence[Sequence[int]], blocks: list[int], within: set[int]) -> list[list[int]]:
    """The strongly connected components of some blocks (Tarjan's algorithm, without recursion)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    open_: list[int] = []
    on: set[int] = set()
    out: list[list[int]] = []
    for root in blocks:
        if root in number:
            continue
        stack = [(root, iter(successors[root]))]
        number[root] = low[root] = len(number)
        open_.append(root)
        on.add(root)
        while stack:
            block, following = stack[-1]
            for to in following:
                if to not in within:
                    continue
                if to not in number:
                    number[to] = low[to] = len(number)
                    open_.append(to)
                    on.add(to)
                    stack.append((to, iter(successors[to])))
                    break
                if to in on:
                    low[block] = min(low[block], number[to])
            else:
                stack.pop()
                if stack:
                    low[stack[-1][0]] = min(low[stack[-1][0]], low[block])
                if low[block] == number[block]:
                    part = []
                    while not part or part[-1] != block:
                        part.append(open_.pop())
                        on.discard(part[-1])
                    out.append(part)
    return out
