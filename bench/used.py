"""Which engines of an SM does the original use that our code doesn't? `python -m bench.used [CASE ...] [--write]`

Of each kernel of the suite and each aligned twin that loops or multiplies, compiled by both for one SM: the instruction of its
products, how memory comes to the block (tensor maps or else), how it goes back, and the barriers and fences that this takes.
docs/used.md (docs/used-SM.md but for sm_90) has a row for each kernel where the original has an engine at work that ours hasn't,
with what the remarks say of it, and the totals. What was measured of the same sources before isn't measured again, nor the
original of the same bytecode; `--minutes` ends a run early, `--loop-free` looks at all other kernels, too.
"""
from __future__ import annotations

import argparse
import collections
import functools
import hashlib
import json
import pathlib
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

from bench.speed.original import NoOriginal, compile_original
from tests.kernels import runner, twins
from tests.sim import reference

DEFAULT = "sm_90"
PAGE = runner.ROOT / "docs" / "used.md"
KEPT = runner.BUILD / "used.jsonl"
KEPT_ORIGINAL = runner.BUILD / "used-original.jsonl"
"""What the original's code has, by bytecode and SM."""
WANTED = {"cuda_tile.for", "cuda_tile.loop", "cuda_tile.mmaf", "cuda_tile.mmai", "cuda_tile.mmaf_scaled"}
"""A case is looked at if it has one of these."""
ENGINES = {
    "wgmma": r"wgmma\.mma_async", "tcgen05": r"tcgen05\.mma", "TMA loads": r"cp\.async\.bulk\.tensor\.\dd\.shared",
    "TMA stores": r"cp\.(?:reduce\.)?async\.bulk\.tensor\.\dd\.global"}
"""What a kernel may have at work, by the instruction that shows it."""
COUNTED = {
    "mma.sync": r"mma\.sync\.", "cp.async": r"cp\.async\.c[ag]\.", "barriers": r"(?:bar|barrier)\.(?:cta\.)?sync\b",
    "mbarriers": r"mbarrier\.init", "proxy fences": r"fence\.proxy\.async"}
TOLD = ("missed", "failed")
MOST_REASONS = 3


def engines(ptx: str) -> dict[str, int]:
    """How many instructions of each kind code has; tensor maps and threads of a block too."""
    found = {name: len(re.findall(rf"(?m)^\s*(?:@!?%\w+\s+)?{pattern}", ptx)) for name, pattern in (ENGINES | COUNTED).items()}
    threads = re.search(r"\.(?:req|max)ntid\s+(\d+)", ptx)
    return {**found, "maps": len(reference.HIDDEN_MAP.findall(ptx)), "threads": int(threads[1]) if threads else 0}


def reasons(name: str, gpu: str) -> list[str]:
    """What our remarks say of what was not done."""
    from tileiras import bytecode, pipeline
    from tileiras.driver.options import CompileOptions
    from tileiras.machine.targets import find_target
    options = CompileOptions(target=find_target(gpu), remarks=[])
    pipeline.run(bytecode.read(runner.export_case(name)), options, stop_at="nv_tileas")
    told = [reason for r in options.remarks or () if r.kind in TOLD or "Instruction" in dict(r.notes) for reason in r.reasons]
    by_cost = [f"{r.text}, in {notes['ThreadSlots']} issue slots a warp instead of {notes['EngineSlots']}"
               for r in options.remarks or () if r.text.endswith("threads move it") and "EngineSlots" in (notes := dict(r.notes))]
    return list(dict.fromkeys([*by_cost, *told]))[:MOST_REASONS]


@functools.cache
def kept_original() -> dict[str, dict[str, Any]]:
    if not KEPT_ORIGINAL.exists():
        return {}
    records = [json.loads(line) for line in KEPT_ORIGINAL.read_text().splitlines()]
    return {record.pop("key"): record for record in records}


def original(name: str, gpu: str) -> dict[str, Any]:
    """The original's engines, or {"refused": why}."""
    bytecode = runner.export_case(name, runner.case_of(name).versions[0])
    key = hashlib.sha256(gpu.encode() + bytecode).hexdigest()[:24]
    if key not in kept_original():
        try:
            found: dict[str, Any] = dict(engines(compile_original(bytecode, gpu)[0]))
        except NoOriginal as error:
            found = {"refused": str(error)[:120]}
        kept_original()[key] = found
        with KEPT_ORIGINAL.open("a") as log:
            log.write(json.dumps({"key": key, **found}) + "\n")
    return kept_original()[key]


def measured(name: str, gpu: str) -> dict[str, Any]:
    """Both sides of a kernel. `lacks`: engines that the original has at work and we don't."""
    theirs = original(name, gpu)
    if "refused" in theirs:
        return theirs
    ours = engines(runner.compile_case(name, gpu, emit="ptx").ptx)
    lacks = [engine for engine in ENGINES if theirs[engine] and not ours[engine]]
    return {"ours": ours, "theirs": theirs, "lacks": lacks, "beats": [e for e in ENGINES if ours[e] and not theirs[e]],
            "reasons": reasons(name, gpu) if lacks else []}


def chosen(loop_free: bool = False) -> Iterator[str]:
    """The kernels that are looked at, each before its twin."""
    present = set(twins.names())
    for name in runner.cases():
        if loop_free or WANTED & set(runner.ops_of(name)):
            yield name
            if name + twins.SUFFIX in present:
                yield name + twins.SUFFIX


def sources() -> str:
    """Of the compiler and the suite: what was measured of others doesn't count."""
    digest = hashlib.sha256()
    for folder in ("tileiras", "tests/kernels"):
        for path in sorted((runner.ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def measure(names: list[str], gpu: str, minutes: float) -> dict[str, dict[str, Any]]:
    mark, known, start = sources(), {}, time.monotonic()
    if KEPT.exists():
        records = [json.loads(line) for line in KEPT.read_text().splitlines()]
        known = {r["name"]: r for r in records if (r["gpu"], r["sources"]) == (gpu, mark)}
    KEPT.parent.mkdir(exist_ok=True)
    with KEPT.open("a") as log:
        for name in names:
            if name in known:
                continue
            if minutes and time.monotonic() - start > 60 * minutes:
                print(f"stopped after {minutes:g} minutes")
                break
            known[name] = {"name": name, "gpu": gpu, "sources": mark, **measured(name, gpu)}
            log.write(json.dumps(known[name]) + "\n")
            log.flush()
    return {name: known[name] for name in names if name in known}


def page_of(gpu: str) -> pathlib.Path:
    """Where an SM's page lies."""
    return PAGE if gpu == DEFAULT else PAGE.with_name(f"{PAGE.stem}-{gpu}.md")


def cell(side: dict[str, int]) -> str:
    names = [name for name in (*ENGINES, "mma.sync", "cp.async") if side[name]]
    return ", ".join([*names, *([f"{side['maps']} maps"] if side["maps"] else [])]) or "plain"


def page(found: dict[str, dict[str, Any]], gpu: str, whole: int, loop_free: bool = False) -> str:
    compared = {name: r for name, r in found.items() if "ours" in r}
    lines = [
        "# Engines at work, beside the original",
        f"Written by `python -m bench.used {'--loop-free ' if loop_free else ''}"
        f"{'' if gpu == DEFAULT else f'--gpu-name {gpu} '}--write`: kernels of the suite"
        f"{'' if loop_free else ' that loop or multiply'}, and their aligned twins, compiled by both for {gpu} at -O3: "
        f"{len(found)} of {whole} so far. A kernel uses an engine if its PTX has the instruction.",
        "",
        "| | kernels | " + " | ".join(ENGINES) + " | barriers | mbarriers | proxy fences |", "|" + "---|" * (5 + len(ENGINES))]
    for title, side in (("ours", "ours"), ("original", "theirs")):
        counts = [sum(bool(r[side][engine]) for r in compared.values()) for engine in ENGINES]
        sums = [sum(r[side][what] for r in compared.values()) for what in ("barriers", "mbarriers", "proxy fences")]
        lines.append(f"| {title} | {len(compared)} | " + " | ".join(map(str, [*counts, *sums])) + " |")
    lacking = {name: r for name, r in compared.items() if set(r["lacks"]) - {"TMA stores"}}
    only = collections.Counter(engine for r in compared.values() for engine in r["beats"])
    stores = sum("TMA stores" in r["lacks"] for r in compared.values())
    lines += ["", f"Barriers and fences are instructions in the text, summed. {stores} kernels store tiles by tensor map in the "
              "original and by their threads here: remarks say why (tiles that their threads hold in whole sectors need no "
              "trip through shared memory). "
              + (f"Engines that only our code uses: {', '.join(f'{e} in {n} kernels' for e, n in only.items())}." if only else ""),
              "", "## What the original does with an engine and we don't", ""]
    if lacking:
        lines += ["| kernel | original has | ours | original | what our remarks say |", "|---|---|---|---|---|"]
    for name, r in lacking.items():
        missing = ", ".join(engine for engine in r["lacks"] if engine != "TMA stores")
        why = "; ".join(r["reasons"]).replace("|", "\\|")
        lines.append(f"| {name} | {missing} | {cell(r['ours'])} | {cell(r['theirs'])} | {why} |")
    refused = [name for name, r in found.items() if "refused" in r]
    lines += ["", "Nothing." if not lacking else f"{len(lacking)} kernels of {len(compared)}."]
    if refused:
        lines += ["", f"The original refuses {len(refused)}: {', '.join(refused)}."]
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.used", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("case", nargs="*")
    parser.add_argument("--gpu-name", default=DEFAULT)
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after so long")
    parser.add_argument("--loop-free", action="store_true", help="look at all kernels of the suite")
    parser.add_argument("--write", nargs="?", const="", metavar="FILE", help="write the page")
    given = parser.parse_args(argv)
    if reference.original() is None:
        raise SystemExit("the original isn't there: make bench, or TILEIRAS_ORIGINAL")
    every = list(chosen(given.loop_free))
    text = page(measure(given.case or every, given.gpu_name, given.minutes), given.gpu_name, len(every), given.loop_free)
    if given.write is not None:
        (pathlib.Path(given.write) if given.write else page_of(given.gpu_name)).write_text(text)
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
