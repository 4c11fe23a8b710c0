"""Runs the tests of a public checkout of the Tile IR definition against this project's parser and verifiers.

    python -m tests.dialects.public_suite PATH-TO-CHECKOUT [-v]

For every `.mlir` file under `test/Dialect` it counts the announced errors that are raised at their line with their
text, and the parts without announced errors that parse, verify, print and read back. Nothing of the checkout is kept.
The public tests use a function op of their own; it stands here, not in the product.
"""
from __future__ import annotations

import argparse
import pathlib
import re
import sys
from typing import NamedTuple

from tileiras.dialects.cuda_tile.asm_parse import TextError, parse_ops
from tileiras.dialects.cuda_tile.asm_print import print_module
from tileiras.dialects.cuda_tile.ops import Entry, Module
from tileiras.tools.diagnostics import complaints, expectations, split


class TestingFunction(Entry):
    """A function with results: `testing$func`."""

    __test__ = False
    name = "cuda_tile.testing$func"


EXTRA_OPS = {"testing$func": TestingFunction}


class Figures(NamedTuple):
    """Of one file: announced errors, those raised, parts without errors, those that round trip; what went wrong."""

    errors: int
    raised: int
    valid: int
    passed: int
    failures: list[str]


def run_file(path: pathlib.Path) -> Figures:
    text = path.read_text()
    is_refused = "RUN: not " in text  # its errors stand in CHECK lines
    errors = raised = valid = passed = 0
    failures = []
    for before, part in split(text):
        expected = expectations(part, before)
        if not expected and not is_refused and "expected-" in part:
            continue
        try:
            found = complaints(part, path.name, before, EXTRA_OPS)
        except Exception as error:  # a crash is a failure to report, not to stop at
            failures.append(f"{path.name}:{before + 1}: CRASH {type(error).__name__}: {error}")
            errors += len(expected)
            valid += not expected
            continue
        if is_refused:
            said = " ".join(c.message for c in found)
            wanted = re.findall(r"// CHECK: (.*)", part)
            errors += len(wanted)
            raised += sum(text.strip() in said for text in wanted)
            failures += (f"{path.name}:{before + 1}: expected {text!r}, got {said}" for text in wanted
                         if text.strip() not in said)
            continue
        if not expected:
            if not part.strip():
                continue
            valid += 1
            problem = found[0].message + f" (line {found[0].line})" if found else round_trip(part)
            passed += not problem
            if problem:
                failures.append(f"{path.name}:{before + 1}: valid part: {problem}")
            continue
        errors += len(expected)
        for announced in expected:
            match = next((c for c in found if announced.matches(c)), None)
            raised += match is not None
            if match is None:
                got = "; ".join(f"{c.line}: {c.message}" for c in found) or "nothing"
                failures.append(f"{path.name}:{announced.line}: expected {announced.text!r}, got {got}")
    return Figures(errors, raised, valid, passed, failures)


def round_trip(part: str) -> str:
    """What is wrong with printing and reading back the modules of a part, or nothing."""
    for op in parse_ops(part, extra_ops=EXTRA_OPS):
        if not isinstance(op, Module):
            continue
        text = print_module(op)
        try:
            again = print_module(parse_ops(text, extra_ops=EXTRA_OPS)[0])
        except TextError as error:
            return f"printed text doesn't parse: {error.loc}: {error.message}"
        if again != text:
            return "printed text reads back to another module"
    return ""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="public Tile IR tests against this project's dialect")
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("-v", "--verbose", action="store_true", help="say what is missing")
    given = parser.parse_args(arguments)
    totals = [0, 0, 0, 0]
    for path in sorted((given.checkout / "test" / "Dialect").rglob("*.mlir")):
        figures = run_file(path)
        totals = [a + b for a, b in zip(totals, figures[:4])]
        print(f"{path.name:45} errors {figures.raised:4}/{figures.errors:4}   valid {figures.passed:4}/{figures.valid:4}")
        if given.verbose:
            print("".join(f"    {failure}\n" for failure in figures.failures), end="")
    errors, raised, valid, passed = totals
    print(f"{'total':45} errors {raised:4}/{errors:4}   valid {passed:4}/{valid:4}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
