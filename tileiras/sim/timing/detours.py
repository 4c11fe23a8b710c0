"""What does a warp execute whose lanes go different ways? The way of one lane, and in it what the others do apart from it.

A lane's way through the machine code is found as any warp's (`path.py`). Ways of one warp's lanes are the same blocks but where
lanes part, between BSSY and BSYNC: there the machine executes one side and then the other. Which comes first isn't known
(docs/hardware.md, question 27); here it is what stands first in the code, as behind a branch that isn't taken. Where both ways have
a block, guards may have left out different things of it.
"""
from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

MOST_VISITS = 1_000
"""Visits between the first parting of two ways and the last meeting, up to which they are compared."""


class Place(NamedTuple):
    """A visit of a machine block: by which of a warp's ways, and which of that way's; `also`: the same visit in other ways."""
    way: int
    visit: int
    also: tuple[tuple[int, int], ...] = ()


def merged(ways: Sequence[Sequence[int]]) -> list[Place] | None:
    """The visits that a warp makes whose lanes make these, ways given by their blocks; None where ways differ over so long a
    stretch that it isn't looked at."""
    out, blocks = [Place(0, k) for k in range(len(ways[0]))], list(ways[0])
    for number, way in enumerate(ways[1:], 1):
        found = _with_detours(out, blocks, number, way)
        if found is None:
            return None
        out, blocks = found
    return out


def _with_detours(places: list[Place], blocks: list[int], number: int, way: Sequence[int]) -> tuple[list[Place], list[int]] | None:
    """The same with one more way."""
    shorter = min(len(blocks), len(way))
    head = next((k for k in range(shorter) if blocks[k] != way[k]), shorter)
    tail = next((k for k in range(shorter - head) if blocks[-1 - k] != way[-1 - k]), shorter - head)
    one, two = blocks[head:len(blocks) - tail], way[head:len(way) - tail]
    if len(one) + len(two) > MOST_VISITS:
        return None

    def both(k: int, visit: int) -> Place:
        return places[k]._replace(also=(*places[k].also, (number, visit)))
    out = [both(k, k) for k in range(head)]
    made = list(blocks[:head])
    for kind, i, i_end, j, j_end in SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        if kind == "equal":
            out += [both(head + k, head + j + k - i) for k in range(i, i_end)]
            made += one[i:i_end]
        else:
            sides = [([Place(number, head + k) for k in range(j, j_end)], list(two[j:j_end])),
                     (places[head + i:head + i_end], one[i:i_end])]
            for visits, side in sorted(sides, key=lambda of: of[1][:1]):
                out += visits
                made += side
    out += [both(len(blocks) - k, len(way) - k) for k in range(tail, 0, -1)]
    return out, made + list(blocks[len(blocks) - tail:])
