"""Where do pairs of several runs meet? In bench/results/speed.json, one row a kernel and machine, and on the page made of it."""
from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable
from typing import Any

from bench.speed import side
from bench.speed.compare import Pair
from bench.speed.kernels import KERNELS, by_name
from bench.speed.page import page
from tests.kernels import runner

RESULTS = side.RESULTS
PAGE = side.ROOT / "docs" / "speed.md"
MACHINES = ("H100", "A100", "B200", "RTX 5090")
"""Those that are compared on, in the order in which they are shown."""


def merge(found: Iterable[Pair]) -> None:
    """Put pairs in the place of what stands for their kernel and machine. Runs may do so at the same time; one that is cut off
    leaves what it has."""
    side.CACHE.mkdir(parents=True, exist_ok=True)
    with open(side.CACHE / "results.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = {(p.kernel, p.machine): p for p in [*read(), *found]}
        order = {k.name: i for i, k in enumerate(KERNELS)}
        last = len(MACHINES)
        pairs = sorted((p for p in rows.values() if p.kernel in order),
                       key=lambda p: (MACHINES.index(p.machine) if p.machine in MACHINES else last, p.machine, order[p.kernel]))
        runner.write_atomically(RESULTS, (json.dumps([_record(p) for p in pairs], indent=1) + "\n").encode())
        runner.write_atomically(PAGE, page(pairs, by_name(), side.model_key()).encode())
        RESULTS.chmod(0o644)
        PAGE.chmod(0o644)


def read() -> list[Pair]:
    """What earlier runs left."""
    if not RESULTS.exists():
        return []
    return [Pair(row["kernel"], row["family"], row["machine"], row["ours"], row["original"], row["ratio"], row["why"])
            for row in json.loads(RESULTS.read_text())]


def _record(p: Pair) -> dict[str, Any]:
    return {"kernel": p.kernel, "family": p.family, "machine": p.machine, "ratio": round(p.ratio, 4), "estimate": p.is_estimate,
            "why": p.why, "ours": p.ours, "original": p.original}
