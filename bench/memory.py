"""How much memory a command and everything it starts hold at once, at the most.

Linux only: sums the proportional set sizes of the processes of its tree (pages that several of them share count once)
every few milliseconds, in a run of its own, so that timed runs aren't disturbed.
"""
from __future__ import annotations

import os
import subprocess
import time

INTERVAL = 0.004
"""Seconds between two looks."""


def _parents() -> dict[int, int]:
    """Parent of every process that can be seen."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as f:
                    found[int(entry)] = int(f.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
    return found


def _tree(root: int) -> list[int]:
    parents = _parents()
    tree, frontier = [root], [root]
    while frontier:
        frontier = [pid for pid, parent in parents.items() if parent in frontier]
        tree += frontier
    return tree


def _proportional_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as f:
            for line in f:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def now_bytes() -> tuple[int, int]:
    """What this process and what the others of its tree hold now, in bytes."""
    own, *others = map(_proportional_bytes, _tree(os.getpid()))
    return own, sum(others)


def peak_bytes(command: list[str]) -> int:
    """Run the command and give the largest sum seen, in bytes."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(_proportional_bytes, _tree(process.pid))))
        time.sleep(INTERVAL)
    return peak
