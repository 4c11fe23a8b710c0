"""`tileiras-opt` runs each pass alone on text, and each of its options has a test.

Passes whose own file of filecheck/passes runs them alone are checked there. For the others a kernel goes down the pipeline to the
pass, is written, and the tool runs the one pass on the text: it must leave what the pipeline leaves, and change something.
"""
from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from tileiras.dialects.module_text import module_text
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.pipeline import PIPELINE, Pass
from tileiras.tools import tileiras_opt
from tileiras.tools.lower_text import parse_lower

TESTS = pathlib.Path(__file__).resolve().parents[1]
PASSES = TESTS / "filecheck" / "passes"
KERNELS: dict[tuple[str, str], str] = {
    ("stage-operands", "sm_80"): "choose-atoms stage-operands",
    ("stage-slices", "sm_80"): "assign-load-store-layouts stage-slices allocate-buffers order-memory convert-tileas-to-llvm "
                               "convert-tileaa-to-tileas",
    ("split-reductions", "sm_80"): "split-reductions materialize-convert-layout",
    ("share-results", "sm_80"): "share-results", ("provide-scratch", "sm_80"): "provide-scratch",
    ("join-steps", "sm_90"): "join-steps", ("join-stages", "sm_90"): "join-stages", ("split-steps", "sm_80"): "split-steps",
    ("split-tiles", "sm_90"): "split-tiles", ("split-streams", "sm_90"): "split-streams",
    ("split-operands", "sm_100"): "split-operands",
    ("plan-cta", "sm_90"): "plan-cta", ("plan-agents", "sm_90"): "plan-agents", ("plan-chains", "sm_100"): "plan-chains",
    ("plan-blocks", "sm_120"): "plan-blocks", ("turn-dots", "sm_100"): "turn-dots",
    ("hold-fragments", "sm_80"): "hold-fragments", ("stage-tiles", "sm_90"): "stage-tiles",
    ("unspecialized-pipeline", "sm_80"): "generate-schedule materialize-async unspecialized-pipeline",
    ("separate-host-tma", "sm_90"): "lower-tma-load-store-to-async separate-host-tma",
    ("stage-streams", "sm_90"): "stage-streams", ("register-streams", "sm_90"): "materialize-schedule",
    ("prefetch-to-registers", "sm_75"): "prefetch-to-registers", ("overlap-iterations", "sm_90"): "overlap-iterations",
    ("wgmma", "sm_90"): "overlap-dots", ("tcgen05-copies", "sm_100"): "place-accumulators commit-dots",
    ("fence-atomics", "sm_90"): "fence-atomics", ("tell-agents", "sm_100"): "tell-agents", ("early-loads", "sm_90"): "early-loads",
    ("carry-as-loaded", "sm_90"): "carry-as-loaded", ("settle-loads", "sm_80"): "settle-loads",
    ("wide-inside", "sm_90"): "wide-inside", ("flatten-dots", "sm_100"): "flatten-dots",
    ("negate-dots", "sm_90"): "negate-dots",
    ("unroll-streams", "sm_80"): "unroll-streams", ("early-copies", "sm_120"): "early-copies",
    ("overlap-epilogues", "sm_100"): "overlap-epilogues", ("advance-dots", "sm_100"): "advance-dots commit-dots",
    ("separate-products", "sm_100"): "separate-products", ("separate-made-rows", "sm_100"): "separate-made-rows",
    ("late-results", "sm_100"): "late-results", ("late-sums", "sm_100"): "late-sums", ("place-sums", "sm_100"): "place-sums",
    ("take-turns", "sm_100"): "take-turns",
    ("keep-branches", "sm_90"): "keep-branches", ("mask-runs", "sm_100"): "mask-runs",
    ("count-loops", "sm_90"): "count-loops",
    ("bound-blocks", "sm_120"): "bound-blocks back-and-forth",
    ("early-dots", "sm_100"): "early-dots", ("list-schedule", "sm_100"): "list-schedule",
    ("meet-in-clusters", "sm_90"): "meet-in-clusters", ("read-operands", "sm_100"): "read-operands",
    ("untie-stores", "sm_80"): "untie-stores", ("fragments-ahead", "sm_120"): "fragments-ahead",
    ("addresses-first", "sm_100"): "addresses-first",
}
"""By a file of filecheck/passes and an SM: passes that change its kernel."""


def known() -> list[str]:
    return tileiras_opt.known_passes()


def runs() -> Iterator[tuple[pathlib.Path, str]]:
    """The RUN lines of all files of filecheck."""
    for path in sorted((TESTS / "filecheck").rglob("*")):
        if path.suffix in (".mlir", ".test"):
            yield from ((path, line) for line in re.findall(r"RUN: (.*)", path.read_text()))


def alone_by_filecheck() -> set[str]:
    """Passes that a RUN line runs with no other."""
    found = set()
    for _, line in runs():
        for option in re.findall(r"--passes=([\w,-]+)|--pass-pipeline='?builtin.module\(([\w-]+)(?:\{[^}]*\})?\)", line):
            names = (option[0] or option[1]).split(",")
            found |= set(names) if len(names) == 1 else set()
    return found


CASES = [(name, gpu, one) for (name, gpu), names in KERNELS.items() for one in names.split()]


def test_every_pass_is_run_alone() -> None:
    """A new pass wants a RUN line that runs it alone, or a place in KERNELS."""
    assert not sorted(set(known()) - alone_by_filecheck() - {one for _, _, one in CASES})


@cache
def around(name: str, gpu: str) -> dict[str, tuple[str, str]]:
    """By pass: a kernel's text before its last run that changes something, and after it."""
    options = CompileOptions(target=find_target(gpu), opt_level=3)
    text = (PASSES / f"{name}.mlir").read_bytes().split(b"// -----\n")[0]
    ir: Any = tileiras_opt.read_ir(text, name)
    found = {}
    for entry in PIPELINE:
        before = module_text(ir)
        ir = entry.apply(ir, options)
        after = module_text(ir)
        if after != before:
            found[entry.name] = before, after
    return found


@pytest.mark.parametrize(("name", "gpu", "one"), CASES, ids=[one for _, _, one in CASES])
def test_a_pass_alone_does_what_it_does_in_the_pipeline(name: str, gpu: str, one: str, tmp_path: pathlib.Path) -> None:
    before, after = around(name, gpu)[one]
    (tmp_path / "in.mlir").write_text(before)
    assert tileiras_opt.main([str(tmp_path / "in.mlir"), f"--passes={one}", f"--gpu-name={gpu}", "--verify-each",
                              "-o", str(tmp_path / "out.mlir")]) == 0
    assert same((tmp_path / "out.mlir").read_text()) == same(after) != same(before)


def same(text: str) -> str:
    """A text with its values numbered anew: text that was read keeps the numbers that it had."""
    return module_text(parse_lower(re.sub(r"%(?=\d)", "%v", text))) if "cuda_tile.module" not in text else text


def options_of_the_tool() -> list[tuple[str, ...]]:
    """The spellings of each option."""
    return [tuple(action.option_strings) for action in tileiras_opt._arguments()._actions if action.option_strings
            and "--help" not in action.option_strings]


@pytest.mark.parametrize("spellings", options_of_the_tool(), ids=lambda spellings: spellings[0].lstrip("-"))
def test_every_option_is_used_by_a_test(spellings: tuple[str, ...]) -> None:
    """In a RUN line, or in a test of the tools."""
    text = "\n".join(line for _, line in runs()) + "".join(
        path.read_text() for path in (TESTS / "tools").glob("*.py") if path != pathlib.Path(__file__))
    assert any(re.search(rf"[\s\"']{re.escape(spelling)}(?![\w-])", text) for spelling in spellings if len(spelling) > 2) or \
        any(re.search(rf"[\s\"']{re.escape(spelling)}(?=[\s\"'\d])", text) for spelling in spellings)


def test_passes_of_the_list_have_names_that_the_tool_knows() -> None:
    assert {entry.name for entry in PIPELINE} <= set(known()) and all(isinstance(entry, Pass) for entry in PIPELINE)
