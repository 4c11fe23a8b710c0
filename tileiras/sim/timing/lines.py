"""Which source line and which loop does a line of PTX belong to?"""
from __future__ import annotations

import re
from dataclasses import dataclass

_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"')
_LABEL = re.compile(r"^\s*([$\w.]+):")
_BRANCH = re.compile(r"^\s*(?:@!?%\w+\s+)?bra(?:\.uni)?\s+([$\w.]+)\s*;")


@dataclass(frozen=True)
class Place:
    """`source`: "file:line", or "" where no directive says it. `loop`: the PTX line at which the innermost loop begins; 0: none."""

    source: str
    loop: int


def places(ptx: str) -> dict[int, Place]:
    """For each line of the text, counted from 1."""
    text = ptx.splitlines()
    files = {m[1]: m[2] for line in text if (m := _FILE.match(line))}
    sources, source = {}, ""
    labels: dict[str, int] = {}
    loops: list[tuple[int, int]] = []
    for number, line in enumerate(text, 1):
        if m := _LOC.match(line):
            source = f"{files.get(m[1], '?').rsplit('/', 1)[-1]}:{m[2]}"
        elif m := _LABEL.match(line):
            labels[m[1]] = number
        elif (m := _BRANCH.match(line)) and m[1] in labels:
            loops.append((labels[m[1]], number))
        sources[number] = source
    inner: dict[int, int] = {}
    for begin, end in sorted(loops, key=lambda pair: pair[0] - pair[1]):
        for number in range(begin, end + 1):
            inner[number] = begin
    return {number: Place(sources[number], inner.get(number, 0)) for number in sources}
