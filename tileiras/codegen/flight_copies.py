"""What LLVM copies out of registers in flight, it copies behind the wait.

    wgmma.commit_group.sync.aligned;                wgmma.commit_group.sync.aligned;
    mov.b32 %r1, %r9;                          ->   wgmma.wait_group.sync.aligned 0;
    wgmma.wait_group.sync.aligned 0;                mov.b32 %r1, %r9;

A wait gives back what it waits for: its results are tied to its operands. Where LLVM cannot give both one register, because the
result lives on in that of another value (two accumulators that change places in a loop), it copies the operand in front of the
wait, as it may for any instruction. Here that would read what an engine is still to write. The wait names no register in its
text, so that copies go behind it where nothing between needs them.
"""
from __future__ import annotations

import re

WAITS = {"wgmma.wait_group": "wgmma.mma_async", "tcgen05.wait::ld": "tcgen05.ld"}
"""A wait, and what writes registers until then: those in its first braces."""
BEHIND = "// end inline asm"
_COPY = re.compile(r"\tmov\.\w+ \t(%\w+), (%\w+);")
_REGISTER = re.compile(r"%\w+")
_WRITTEN = re.compile(r"\{([^}]*)\}")
_ENDS = re.compile(r"\$?\w+:|\t(?:@|bra|ret)|\}")
"""Where a block ends."""


def copies_behind_waits(ptx: str) -> str:
    """The PTX with such copies behind their waits."""
    for wait, writer in WAITS.items():
        if wait in ptx:
            ptx = _behind(ptx, wait, writer)
    return ptx


def _behind(ptx: str, wait: str, writer: str) -> str:
    lines = ptx.split("\n")
    in_flight: set[str] | None = None
    for at in [i for i, line in enumerate(lines) if line.startswith("\t" + wait)]:
        copies = _copies(lines, at, (wait, writer))
        if not copies:
            continue
        if in_flight is None:
            in_flight = {r for line in lines if line.startswith("\t" + writer) and (match := _WRITTEN.search(line))
                         for r in _REGISTER.findall(match[1])}
        if not any(source in in_flight for _, source in copies):
            continue
        end = at + (lines[at + 1].strip() == BEHIND)
        first = copies[-1][0]
        moved = {i for i, _ in copies}
        lines[first:end + 1] = [lines[i] for i in range(first, end + 1) if i not in moved] + [lines[i] for i in sorted(moved)]
    return "\n".join(lines)


def _copies(lines: list[str], at: int, stops: tuple[str, str]) -> list[tuple[int, str]]:
    """Copies in front of a line that may as well stand behind it, the last one first: where, and of what."""
    out: list[tuple[int, str]] = []
    used: set[str] = set()
    for i in range(at - 1, -1, -1):
        line = lines[i]
        if _ENDS.match(line) or line.lstrip().startswith(stops):
            break
        copy = _COPY.match(line)
        if copy and not used.intersection(copy.groups()):
            out.append((i, copy[2]))
        else:
            used.update(_REGISTER.findall(line))
    return out
