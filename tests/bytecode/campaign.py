"""Round trip of every file of the kernel suite: `python -m tests.bytecode.campaign [--version 13.1 ...] [FOLDER ...]`.

Without folders it exports the whole suite in the versions asked (by default all that a case is written for). It prints
how many files come back byte for byte, with the file's tables and with tables in order of first use, how many to an
equal module, and the slowest to read.
"""
from __future__ import annotations

import argparse
import pathlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tileiras.bytecode import SUPPORTED_VERSIONS, read, write
from tileiras.dialects.cuda_tile.ops import Module


@dataclass
class Outcome:
    """What one file gave; `read_seconds` is the best of three."""

    same_bytes: bool
    same_bytes_in_first_use_order: bool
    equal_module: bool
    read_seconds: float


def equal_locations(a: Module, b: Module) -> bool:
    """Whether two modules of the same ops have the same source locations."""
    return all(x.location == y.location for x, y in zip(a.walk(), b.walk()))


def check_file(data: bytes) -> Outcome:
    """Read a file, write it both ways, read those again."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        module = read(data)
        best = min(best, time.perf_counter() - start)
    kept, fresh = write(module), write(module, keep_tables=False)
    equal = all(module.is_structurally_equivalent(again) and equal_locations(module, again)
                for again in (read(kept), read(fresh)))
    return Outcome(kept == data, fresh == data, equal, best)


def suite_files(versions: list[str] | None) -> Iterator[tuple[str, bytes]]:
    """The suite's cases in the versions asked, where the frontend can write them."""
    from tests.kernels import runner

    for name, case in runner.cases().items():
        wanted = versions or [str(v) for v in SUPPORTED_VERSIONS if str(v) >= case.versions[0]]
        for version in wanted:
            try:
                yield f"{name}-{version}", runner.export_case(name, version)
            except Exception as error:
                print(f"{name}-{version}: not exported: {str(error).splitlines()[0]}", file=sys.stderr)


def folder_files(folders: list[pathlib.Path]) -> Iterator[tuple[str, bytes]]:
    for folder in folders:
        for path in sorted(folder.glob("*.tileirbc")):
            yield path.stem, path.read_bytes()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="campaign", description=__doc__)
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--version", action="append")
    a = parser.parse_args(argv)
    outcomes: dict[str, Outcome] = {}
    failed = 0
    for name, data in folder_files(a.folders) if a.folders else suite_files(a.version):
        try:
            outcomes[name] = check_file(data)
        except Exception as error:
            failed += 1
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
    for name, outcome in outcomes.items():
        if not (outcome.same_bytes and outcome.equal_module):
            print(f"{name}: {'equal module' if outcome.equal_module else 'ANOTHER MODULE'}, bytes differ")
    print(f"{len(outcomes) + failed} files: {failed} failed, "
          f"{sum(o.equal_module for o in outcomes.values())} equal modules, "
          f"{sum(o.same_bytes for o in outcomes.values())} same bytes, "
          f"{sum(o.same_bytes_in_first_use_order for o in outcomes.values())} also with tables in order of first use")
    slowest = sorted(outcomes, key=lambda name: -outcomes[name].read_seconds)
    if slowest:
        median = outcomes[slowest[len(slowest) // 2]].read_seconds
        print(f"reading: median {median * 1e3:.2f} ms, slowest "
              + ", ".join(f"{name} {outcomes[name].read_seconds * 1e3:.2f} ms" for name in slowest[:3]))
    return 1 if failed or not all(o.equal_module for o in outcomes.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
