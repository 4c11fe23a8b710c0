"""How much of the kernel suite is joined to its machine code? A table by SM, ours and the original's, and the kernels left over.

    python -m tests.sim.timing.suite_join [--sm sm_90 ...] [--who ours] [--minutes M] --write docs/timing-join.md

What was joined stays in bench/results/join.json, so that a run goes on where the last one stopped. A row counts as long as the
machine code and the join's own sources are the same; `make test-all` keeps such rows, too, in build/join.json. Kernels come in
strides, so that a part of a run is a sample of all families.
"""
from __future__ import annotations

import argparse
import functools
import hashlib
import json
import pathlib
import time
from collections.abc import Generator, Iterable

from tests.kernels import runner
from tests.sim import reference
from tests.sim.timing.kernels import case_cubin, cubin_streams
from tileiras.errors import TileirasError
from tileiras.sim.errors import SimulationError
from tileiras.sim.timing.streams import SHARE, TOLERATED

ROOT = pathlib.Path(__file__).resolve().parents[3]
STORE = ROOT / "bench" / "results" / "join.json"
KEPT = runner.BUILD / "join.json"
SMS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120")
WHO = ("ours", "original")
SOURCES = ("anchors", "cubin", "join", "line_table", "lines", "path", "record", "sass", "streams", "trace")
STRIDE = 16
EVERY = 20
"""Rows after which they are written down."""

Row = dict
"""Of a kernel: "of" stands for its machine code, "join" for the join's sources; "nothing" says why there is nothing to join."""


@functools.cache
def join_key() -> str:
    """Changes with what joins."""
    folder = ROOT / "tileiras" / "sim" / "timing"
    return hashlib.sha256(b"".join((folder / f"{name}.py").read_bytes() for name in SOURCES)).hexdigest()[:12]


def joined(name: str, sm: str, who: str, known: Row | None = None) -> Row:
    """One kernel's row; the known one where neither the code nor the join has changed since."""
    row: Row = {"name": name, "sm": sm, "who": who, "join": join_key()}
    if who == "original" and (sm == "sm_75" or reference.original() is None):
        return row | {"nothing": "the original isn't installed or has no such target"}
    try:
        cubin = case_cubin(name, sm, who == "original")
        row["of"] = hashlib.sha256(cubin).hexdigest()[:12]
        if known is not None and (known.get("of"), known.get("join")) == (row["of"], row["join"]):
            return known
        if not cubin:
            return row | {"nothing": "isn't compiled"}
        streams = cubin_streams(name, sm, who == "original", cubin)
    except (SimulationError, TileirasError, RuntimeError) as error:
        return row | {"nothing": f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"}
    j = streams.joined
    return row | {"solved": streams.is_joined or bool(j.residual), "residual": round(j.residual, 3), "anchors": j.anchors,
                  "searched": round(j.share_searched, 5), "reason": streams.reason}


def verdict(row: Row) -> str:
    """"good": at most TOLERATED anchors unexplained; "small": at most SHARE of them; "worse"; "none": no way was found."""
    if row["reason"].startswith("no way"):
        return "none"
    if row["residual"] <= TOLERATED:
        return "good"
    return "small" if row["residual"] <= SHARE * row["anchors"] else "worse"


def in_strides(names: Iterable[str]) -> list[str]:
    names = list(names)
    return [name for first in range(STRIDE) for name in names[first::STRIDE]]


def rows(names: Iterable[str], sms: Iterable[str], who: Iterable[str], store: pathlib.Path,
         end: float = float("inf")) -> Generator[Row, None, None]:
    """Rows that have something to join, until a time; what the store lacks is added to it."""
    sms, who = list(sms), list(who)
    found: dict[str, Row] = {}
    known: dict[str, Row | None] = json.loads(store.read_text()) if store.exists() else {}
    try:
        for name in names:
            for sm in sms:
                for w in who:
                    if time.monotonic() > end:
                        return
                    key = f"{name} {sm} {w}"
                    row = joined(name, sm, w, known.get(key))
                    if row is not known.get(key):
                        found[key] = row
                    if len(found) >= EVERY:
                        keep(store, found)
                        found = {}
                    if "nothing" not in row:
                        yield row
    finally:
        keep(store, found)


def keep(store: pathlib.Path, found: dict[str, Row]) -> None:
    """Put rows beside those that the store has."""
    if found:
        both = (json.loads(store.read_text()) if store.exists() else {}) | found
        runner.write_atomically(store, (json.dumps(both, indent=0, sort_keys=True) + "\n").encode())


def page(every: list[Row]) -> str:
    """The page."""
    found = [r for r in every if "nothing" not in r]
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
    old = sum(r.get("join") != join_key() for r in found)
    if old:
        out += ["", f"{old} of these rows are by an earlier join."]
    faults = [f"- {r['name']}, {r['sm']}, {r['who']}: {r['nothing']}" for r in every
              if ":" in r.get("nothing", "")]
    out += ["", "Without a run to join:", "", *(faults or ["- none"])]
    return "\n".join(out) + "\n"


def main() -> None:
    """Run, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sm", nargs="+", default=list(SMS), choices=SMS)
    parser.add_argument("--who", nargs="+", default=list(WHO), choices=WHO)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no kernel after so long")
    parser.add_argument("--store", type=pathlib.Path, default=STORE)
    parser.add_argument("--write", type=pathlib.Path)
    given = parser.parse_args()
    for row in rows(in_strides(runner.cases()), given.sm, given.who, given.store, time.monotonic() + 60 * given.minutes):
        if verdict(row) != "good":
            print(row["name"], row["sm"], row["who"], row["residual"], row["reason"], flush=True)
    if given.write:
        given.write.write_text(page([r for r in json.loads(given.store.read_text()).values() if r is not None]))


if __name__ == "__main__":
    main()
