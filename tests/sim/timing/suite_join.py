"""How much of the kernel suite is joined to its machine code? A table by SM, ours and the original's, and the kernels left over.

    python -m tests.sim.timing.suite_join [--every N] [--sm sm_90 ...] [--who ours] [--minutes M] --write docs/timing-join.md

What was joined stays in bench/results/join.json, so that a run goes on where the last one stopped; `--again` begins anew.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import time
from collections.abc import Iterable, Iterator

from tests.kernels import runner
from tests.sim import reference
from tests.sim.timing.kernels import suite_streams
from tileiras.errors import TileirasError
from tileiras.sim.errors import SimulationError
from tileiras.sim.timing.streams import SHARE, TOLERATED

ROOT = pathlib.Path(__file__).resolve().parents[3]
STORE = ROOT / "bench" / "results" / "join.json"
SMS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120")
WHO = ("ours", "original")


def joined(name: str, sm: str, who: str) -> dict | None:
    """One kernel's row; None where there is nothing to join (it isn't compiled, or doesn't run)."""
    if who == "original" and (sm == "sm_75" or reference.original() is None):
        return None
    try:
        streams = suite_streams(name, sm, who == "original")
    except (SimulationError, TileirasError):
        return None
    if streams is None:
        return None
    j = streams.joined
    return {"name": name, "sm": sm, "who": who, "solved": streams.is_joined or bool(j.residual), "residual": round(j.residual, 3),
            "anchors": j.anchors, "searched": round(j.share_searched, 5), "reason": streams.reason}


def verdict(row: dict) -> str:
    """"good": at most TOLERATED anchors unexplained; "small": at most SHARE of them; "worse"; "none": no way was found."""
    if row["reason"].startswith("no way"):
        return "none"
    if row["residual"] <= TOLERATED:
        return "good"
    return "small" if row["residual"] <= SHARE * row["anchors"] else "worse"


def rows(names: Iterable[str], sms: Iterable[str], who: Iterable[str],
         known: dict[str, dict | None]) -> Iterator[tuple[str, dict | None]]:
    """Rows by key, those known first."""
    who = list(who)
    for name in names:
        for sm in sms:
            for w in who:
                key = f"{name} {sm} {w}"
                yield key, known[key] if key in known else joined(name, sm, w)


def page(found: list[dict]) -> str:
    """The page."""
    out = ["# Machine code joined to its run", "",
           "Written by `python -m tests.sim.timing.suite_join`. For every kernel the way through the machine code that explains "
           "the ways of its warps through the PTX is searched ([timing.md](timing.md)). *Good*: at most "
           f"{TOLERATED} anchors of the worst trace stay unexplained; *small*: at most {SHARE:.0%} of them; *worse*; *none*: no "
           "way was found. *Assumed* is the mean share of instructions on sides of branches that nothing in the run tells apart "
           "(slow paths of divisions and roots, taken to be left out).", "",
           "| SM | | kernels | good | small | worse | none | assumed |", "|---|---|---|---|---|---|---|---|"]
    left = []
    for sm in SMS:
        for who in WHO:
            mine = [r for r in found if r["sm"] == sm and r["who"] == who]
            if not mine:
                continue
            counts = {v: sum(verdict(r) == v for r in mine) for v in ("good", "small", "worse", "none")}
            assumed = sum(r["searched"] for r in mine) / len(mine)
            out.append(f"| {sm} | {who} | {len(mine)} | " + " | ".join(str(n) for n in counts.values()) + f" | {assumed:.2%} |")
            left += [f"- {r['name']}, {sm}, {who}: " + (r["reason"] or f"{r['residual']:g} of {r['anchors']} anchors unexplained")
                     for r in mine if verdict(r) != "good"]
    good = sum(verdict(r) == "good" for r in found)
    out += ["", f"{good} of {len(found)} are good ({good / max(len(found), 1):.1%}). The others:", "", *(left or ["- none"])]
    return "\n".join(out) + "\n"


def main() -> None:
    """Run, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="every Nth kernel of the suite")
    parser.add_argument("--sm", nargs="+", default=list(SMS), choices=SMS)
    parser.add_argument("--who", nargs="+", default=list(WHO), choices=WHO)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--again", action="store_true", help="forget what was joined before")
    parser.add_argument("--store", type=pathlib.Path, default=STORE)
    parser.add_argument("--write", type=pathlib.Path)
    given = parser.parse_args()
    known: dict[str, dict | None] = {}
    if given.store.exists() and not given.again:
        known = json.loads(given.store.read_text())
    end = time.monotonic() + 60 * given.minutes
    for key, row in rows(list(runner.cases())[::given.every], given.sm, given.who, known):
        known[key] = row
        if row is not None and verdict(row) != "good":
            print(key, row["residual"], row["reason"], flush=True)
        if time.monotonic() > end:
            break
    runner.write_atomically(given.store, (json.dumps(known, indent=0, sort_keys=True) + "\n").encode())
    if given.write:
        given.write.write_text(page([r for r in known.values() if r is not None]))


if __name__ == "__main__":
    main()
