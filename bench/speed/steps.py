"""Where others published what they measured, what does the model say? Steps of published ladders, and the original's own code.

    python -m bench.speed.steps [NAME ...] [--write]

A ladder's own sources are mostly not to be had as kernels of a launch. Here kernels of the suite take its steps: the same tiles and
mechanisms, by our compiler with parts of its asynchronous code turned off. Such a step is as near to the published one as its
remark says, not the same code. Where the original's speed is published, its own code is predicted, at sizes and tiles that the
publication names, or at ours where it names none. Nothing here calibrates the model.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import tileiras
from bench.speed import original, side
from bench.speed.kernels import Kernel, by_name, case_of, launch
from bench.speed.page import table as markdown
from tests.kernels import runner
from tileiras.machine.machines import machine_of
from tileiras.sim import SimulationError
from tileiras.sim.timing import predict

OUT = side.ROOT / "bench" / "results" / "steps.json"
PAGE = side.ROOT / "docs" / "timing.md"
HEADING = "## Steps of published ladders, taken by our own kernels\n"
END = "## Published ladders, predicted\n"
WITHOUT = "TILEIRAS_WITHOUT"
_N = 4096


@dataclass(frozen=True)
class Step:
    """`published` in TFLOP/s, or GB/s where the kernel counts bytes. `without`: parts of our asynchronous code that are turned
    off; `ctas`: of a cluster; `who`: whose code. `remark`: how it differs from what was measured."""

    name: str
    published: float
    kernel: Kernel
    without: str = ""
    ctas: int = 0
    who: str = "ours"
    remark: str = ""


@dataclass(frozen=True)
class Ladder:
    """`ordered`: whether each step was published as faster than the one before."""

    machine: str
    about: str
    steps: tuple[Step, ...]
    ordered: bool = True


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
    "rtx5080": Ladder("RTX 5080", "the original's own code, RTX 5080 (cuTile.jl's README, Julia / Python)", (
        Step("vector addition", 844, by_name()["vector_add_f32"], who="original", remark="844 / 845 GB/s"),
        Step("transposition", 812, by_name()["transpose_f16"], who="original", remark="812 / 814 GB/s; type and tile not named"),
        Step("softmax", 838, by_name()["softmax_4096x4096_f32"], who="original", remark="838 / 843 GB/s"),
        Step("layernorm", 716, by_name()["layer_norm_f16"], who="original",
             remark="986 / 716 GB/s, sizes not named (here 8192 x 1024 of f16)"),
        Step("matmul tf32 4096", 43.5, replace(by_name()["gemm_tf32_2048"], name="gemm_tf32_4096", grid=(64, 64, 1), arguments=(
            "f32[4096,4096] f32[4096,4096] f32[4096,4096] 64 64 32"), flops=2.0 * _N ** 3), who="original",
             remark="47.4 / 43.5; tile not named"),
        Step("attention", 63.3, by_name()["attention_d64_f16"], who="original", remark="102.7 / 63.3; sizes not named")),
        ordered=False),
}


def predicted(ladder: Ladder, step: Step, known: bool = False) -> dict[str, Any]:
    """The prediction's record; with "failed" where there is none. Kept by what it follows from; `known`: only what is kept."""
    machine = machine_of(ladder.machine)
    bytecode = side.bytecode_of(step.kernel)
    sm = f"sm_{machine.sm}"
    before = os.environ.get(WITHOUT)
    os.environ[WITHOUT] = step.without
    try:
        if step.who == "ours":
            made = tileiras.compile(bytecode, gpu_name=sm, opt_level=3, lineinfo=True,
                                    hints={"num_cta_in_cga": step.ctas} if step.ctas else None)
            ptx, cubin = made.ptx, made.cubin
        else:
            ptx, cubin = original.compile_original(bytecode, sm)
        path = side.CACHE / "steps" / f"{step.kernel.name}-{side.key_of(ptx, cubin, machine, step.kernel)}.json"
        if path.exists():
            return json.loads(path.read_text())
        if known:
            return {"failed": "not predicted yet"}
        case, bounds = case_of(step.kernel)
        flat = launch(case, bounds)
        args = flat if step.who == "ours" else original.arguments(ptx, cubin, sm, flat)
        record = predict(ptx, cubin, case.name, case.grid, args, machine.name).record()
    except (tileiras.errors.TileirasError, SimulationError, original.NoOriginal, LookupError) as error:
        return {"failed": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    finally:
        if before is None:
            del os.environ[WITHOUT]
        else:
            os.environ[WITHOUT] = before
    runner.write_atomically(path, json.dumps(record).encode())
    return record


def rate(step: Step, seconds: float) -> float:
    """In the publication's unit."""
    return step.kernel.flops / seconds / 1e12 if step.kernel.flops else step.kernel.bytes / seconds / 1e9


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


def summary(rows: list[dict[str, Any]], ordered: bool = True) -> str:
    """How many steps, how many of them in the published order, and the mean error."""
    good = [r for r in rows if "predicted" in r and not r["estimate"]]
    if not good:
        return "no step predicted"
    error = sum(abs(r["predicted"] / r["published"] - 1) for r in good) / len(good)
    right = sum((a["predicted"] <= b["predicted"]) == (a["published"] <= b["published"]) for a, b in pairwise(good))
    order = f", {right} of {len(good) - 1} in the published order" if ordered and len(good) > 1 else ""
    return f"{len(good)} of {len(rows)} points predicted{order}, mean error {error:.0%}"


def section(rows: list[dict[str, Any]]) -> str:
    """For docs/timing.md."""
    out = ["Made by `python -m bench.speed.steps --write`. The steps are ours, by our compiler with parts of its asynchronous code",
           "turned off, so an error is the model's, our code's and that of the published point together; the last table is the",
           "original's own code. TFLOP/s, or GB/s where the remark says so."]
    for name in dict.fromkeys(r["ladder"] for r in rows):
        mine = [r for r in rows if r["ladder"] == name]
        ladder = LADDERS[name]
        out += ["", f"**{ladder.about}**: {summary(mine, ladder.ordered)}.", ""]
        out.append(markdown(["step", "published", "predicted", "error", "bound", "remark"], [_row(r) for r in mine]))
    return "\n".join(out) + "\n\n"


def _row(r: dict[str, Any]) -> list[Any]:
    if "failed" in r:
        return [r["step"], f"{r['published']:g}", "", "", r["failed"][:90], r["remark"]]
    shown = f"({r['predicted']:.0f}, an estimate)" if r["estimate"] else f"{r['predicted']:.0f}"
    return [r["step"], f"{r['published']:g}", shown, f"{r['predicted'] / r['published'] - 1:+.0%}", r["bound"], r["remark"]]


def write(rows: list[dict[str, Any]], page: pathlib.Path = PAGE) -> None:
    """Put the section in the place of the old one."""
    text = page.read_text()
    before, _, after = text.partition(END)
    before = before.split(HEADING)[0].rstrip() + "\n\n"
    page.write_text(before + HEADING + "\n" + section(rows) + (END + after if after else ""))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.speed.steps", description="published points, predicted")
    parser.add_argument("ladders", nargs="*", choices=[[], *sorted(LADDERS)], help="all where none is named")
    parser.add_argument("--write", action="store_true", help=f"write {OUT.name} and the section of {PAGE.name}")
    parser.add_argument("--known", action="store_true", help="predict nothing, show what earlier runs have")
    options = parser.parse_args(argv)
    rows: list[dict[str, Any]] = json.loads(OUT.read_text()) if OUT.exists() else []
    for name in options.ladders or list(LADDERS):
        made = run(name, options.known)
        print(summary(made, LADDERS[name].ordered))
        rows = [r for r in rows if r["ladder"] != name] + made
    rows.sort(key=lambda r: list(LADDERS).index(r["ladder"]))
    if options.write:
        OUT.write_text(json.dumps(rows, indent=1) + "\n")
        write(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
