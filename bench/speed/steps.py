"""Where others published what they measured of each step, what does the model say of our own kernels that take these steps?

    python -m bench.speed.steps [NAME ...] [--write]

A ladder's own sources are mostly not to be had as kernels of a launch. Here kernels of the suite take its steps: the same tiles and
mechanisms, by our compiler with parts of its asynchronous code turned off. Such a step is as near to the published one as its
remark says, not the same code. Nothing here calibrates the model.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import tileiras
from bench.speed import side
from bench.speed.kernels import Kernel, by_name, case_of, launch
from bench.speed.page import put_section
from bench.speed.page import table as markdown
from tests.kernels import runner
from tileiras.machine.machines import machine_of
from tileiras.sim import SimulationError
from tileiras.sim.timing import predict

OUT = side.ROOT / "bench" / "results" / "steps.json"
PAGE = side.ROOT / "docs" / "timing.md"
HEADING = "## Steps of published ladders, taken by our own kernels\n"
END = "## The original's code on published kernels\n"
WITHOUT = "TILEIRAS_WITHOUT"
_N = 4096


@dataclass(frozen=True)
class Step:
    """`published` in TFLOP/s. `without`: parts of our asynchronous code that are turned off; `ctas`: of a cluster. `remark`: how it
    differs from what was measured."""

    name: str
    published: float
    kernel: Kernel
    without: str = ""
    ctas: int = 0
    remark: str = ""


@dataclass(frozen=True)
class Ladder:
    """Steps that were published as faster one after the other."""

    machine: str
    about: str
    steps: tuple[Step, ...]


def _product(rows: int, columns: int, depth: int, type_: str = "bfloat16", n: int = _N) -> Kernel:
    short = {"bfloat16": "bf16", "float16": "f16"}[type_]
    arrays = " ".join([f"{short}[{n},{n}]"] * 3)
    return Kernel(f"step_{short}_{n}_{rows}x{columns}x{depth}", "product", f"matmul_{type_}_{type_}", (n // rows, n // columns, 1),
                  f"{arrays} {rows} {columns} {depth}", 2.0 * n ** 3)


def _persistent(rows: int, columns: int, depth: int, blocks: int) -> Kernel:
    kernel = by_name()["gemm_persistent_bf16"]
    return replace(kernel, name=f"step_persistent_{rows}x{columns}x{depth}", grid=(blocks, 1, 1),
                   arguments=f"bf16[4096,4096] bf16[4096,4096] f32[4096,4096] {rows} {columns} {depth}")


_SYNC = "agents,pipelines"
_F32_OUT = "stores f32, twice the bytes"
LADDERS: dict[str, Ladder] = {
    "h100": Ladder("H100", "fast.cu (pranjalssh), bf16 4096, H100", (
        Step("wgmma and TMA, 64 x 64", 317, _product(64, 64, 64), _SYNC),
        Step("larger tile, 128 x 128", 423, _product(128, 128, 64), _SYNC),
        Step("producer and consumer", 498, _product(128, 128, 64)),
        Step("two consumers, 128 x 256", 610, _product(128, 256, 64)),
        Step("persistent", 660, _persistent(128, 256, 64, 132), remark=_F32_OUT),
        Step("clusters of two, multicast", 734, _product(128, 256, 64), ctas=2, remark="not persistent"))),
    "a100": Ladder("A100", "gau-nernst, bf16 4096, A100 (40 GB; the table's is the one of 80 GB)", (
        Step("mma.sync, swizzled, loads wait", 191, _product(128, 128, 32), "pipelines"),
        Step("pipelined by cp.async", 221, _product(128, 128, 32)))),
    "rtx5090": Ladder("RTX 5090", "gau-nernst, bf16 4096, RTX 5090 (first of two published versions: 161 by cuBLAS; second: 173)", (
        Step("cp.async", 176, _product(128, 128, 32), "tma,agents"),
        Step("TMA", 183, _product(128, 128, 32)))),
    "b200": Ladder("B200", "gau-nernst, bf16 4096, B200", (
        Step("tcgen05 and TMA of 128 bytes", 710, _product(128, 256, 256), _SYNC, remark="published 699 to 721"),
        Step("specialised", 1054, _product(128, 128, 64)),
        Step("pairs of CTAs", 1170, _product(256, 256, 64), ctas=2, remark="two CTAs with or without cta_group::2"),
        Step("persistent", 1273, _persistent(128, 256, 64, 148), remark="one CTA a product; " + _F32_OUT))),
}


@contextmanager
def without(parts: str) -> Iterator[None]:
    """Code compiled meanwhile lacks these parts."""
    before = os.environ.get(WITHOUT)
    os.environ[WITHOUT] = parts
    try:
        yield
    finally:
        if before is None:
            del os.environ[WITHOUT]
        else:
            os.environ[WITHOUT] = before


def predicted(ladder: Ladder, step: Step, known: bool = False) -> dict[str, Any]:
    """The prediction's record; with "failed" where there is none. Kept by what it follows from; `known`: only what is kept."""
    machine = machine_of(ladder.machine)
    bytecode = side.bytecode_of(step.kernel)
    sm = f"sm_{machine.sm}"
    try:
        with without(step.without):
            made = tileiras.compile(bytecode, gpu_name=sm, opt_level=3, lineinfo=True,
                                    hints={"num_cta_in_cga": step.ctas} if step.ctas else None)
        ptx, cubin = made.ptx, made.cubin
        path = side.CACHE / "steps" / f"{step.kernel.name}-{side.key_of(ptx, cubin, machine, step.kernel)}.json"
        if path.exists():
            return json.loads(path.read_text())
        if known:
            return {"failed": "not predicted yet"}
        case, bounds = case_of(step.kernel)
        record = predict(ptx, cubin, case.name, case.grid, launch(case, bounds), machine.name).record()
    except (tileiras.errors.TileirasError, SimulationError, LookupError) as error:
        return {"failed": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    runner.write_atomically(path, json.dumps(record).encode())
    return record


def rate(step: Step, seconds: float) -> float:
    """TFLOP/s."""
    return step.kernel.flops / seconds / 1e12


def run(name: str, known: bool = False) -> list[dict[str, Any]]:
    ladder = LADDERS[name]
    rows = []
    for step in ladder.steps:
        row: dict[str, Any] = {"ladder": name, "step": step.name, "published": step.published, "remark": step.remark}
        record = predicted(ladder, step, known)
        if "failed" in record:
            row["failed"] = record["failed"]
        else:
            row |= {"predicted": rate(step, record["seconds"]), "estimate": record["estimate"], "bound": record["bound"],
                    "cycles": record["cycles"]}
        rows.append(row)
        shown = row.get("failed") or f"{row['predicted']:8.1f} {row['predicted'] / step.published - 1:+5.0%}  {row['bound']}"
        print(f"{name:8} {step.name:32} {step.published:8.1f} {shown}", flush=True)
    return rows


def summary(rows: list[dict[str, Any]]) -> str:
    """How many steps, how many of them in the published order, and the mean error."""
    good = [r for r in rows if "predicted" in r and not r["estimate"]]
    if not good:
        return "no step predicted"
    error = sum(abs(r["predicted"] / r["published"] - 1) for r in good) / len(good)
    right = sum((a["predicted"] <= b["predicted"]) == (a["published"] <= b["published"]) for a, b in pairwise(good))
    order = f", {right} of {len(good) - 1} in the published order" if len(good) > 1 else ""
    return f"{len(good)} of {len(rows)} points predicted{order}, mean error {error:.0%}"


def section(rows: list[dict[str, Any]]) -> str:
    """For docs/timing.md."""
    out = ["Made by `python -m bench.speed.steps --write`. The steps are ours, by our compiler with parts of its asynchronous code",
           "turned off, so an error is the model's, our code's and that of the published point together. TFLOP/s."]
    for name in dict.fromkeys(r["ladder"] for r in rows):
        mine = [r for r in rows if r["ladder"] == name]
        ladder = LADDERS[name]
        out += ["", f"**{ladder.about}**: {summary(mine)}.", ""]
        out.append(markdown(["step", "published", "predicted", "error", "bound", "remark"], [_row(r) for r in mine]))
    return "\n".join(out) + "\n\n"


def _row(r: dict[str, Any]) -> list[Any]:
    if "failed" in r:
        return [r["step"], f"{r['published']:g}", "", "", r["failed"][:90], r["remark"]]
    shown = f"({r['predicted']:.0f}, an estimate)" if r["estimate"] else f"{r['predicted']:.0f}"
    return [r["step"], f"{r['published']:g}", shown, f"{r['predicted'] / r['published'] - 1:+.0%}", r["bound"], r["remark"]]


def write(rows: list[dict[str, Any]], page: pathlib.Path = PAGE) -> None:
    """Put the section in the place of the old one."""
    put_section(page, HEADING, END, section(rows))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.speed.steps", description="published points, predicted")
    parser.add_argument("ladders", nargs="*", choices=[[], *sorted(LADDERS)], help="all where none is named")
    parser.add_argument("--write", action="store_true", help=f"write {OUT.name} and the section of {PAGE.name}")
    parser.add_argument("--known", action="store_true", help="predict nothing, show what earlier runs have")
    options = parser.parse_args(argv)
    rows: list[dict[str, Any]] = [r for r in (json.loads(OUT.read_text()) if OUT.exists() else []) if r["ladder"] in LADDERS]
    for name in options.ladders or list(LADDERS):
        made = run(name, options.known)
        print(summary(made))
        rows = [r for r in rows if r["ladder"] != name] + made
    rows.sort(key=lambda r: list(LADDERS).index(r["ladder"]))
    if options.write:
        OUT.write_text(json.dumps(rows, indent=1) + "\n")
        write(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
