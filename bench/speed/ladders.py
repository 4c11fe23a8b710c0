"""Published ladders: kernels whose speed was measured at each step of their optimization, predicted from the same source.

    python -m bench.speed.ladders sgemm /path/to/SGEMM_CUDA

Sources come from a checkout and aren't kept; nvcc makes PTX of them, ptxas the cubin. What is shown is the published figure, the
predicted one, whether the steps stand in the published order, and the mean error.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from bench.speed.page import table as markdown
from bench.speed.side import ROOT
from tileiras.codegen import ptxas, toolchain
from tileiras.machine.machines import Machine, machine_of
from tileiras.sim import SimulationError
from tileiras.sim.run.launch import choose_entry, parse_cached
from tileiras.sim.timing.errors import NotTimed
from tileiras.sim.timing.predictor import argument_bytes, predict_streams
from tileiras.sim.timing.replay import ReplayDeadlock, ReplayLimit
from tileiras.sim.timing.streams import streams_of

N, DEPTH = 4096, 1024
"""Products of N x N x N, of which an inner extent of DEPTH is run: rounds of the inner loop are alike, and rates count."""
TIMEOUT = 240
NOT_NEEDED = ("cublas_v2.h",)
"""Headers that the sources include for what stands beside their kernels."""
OUT = ROOT / "bench" / "results" / "ladders.json"
PAGE = ROOT / "docs" / "timing.md"
HEADING = "## Published ladders, predicted\n"


@dataclass(frozen=True)
class Step:
    """`published` in TFLOP/s. `source`: a file of the checkout; `call`: the kernel's name with template arguments, instantiated
    by a line of its own. `dynamic`: bytes of dynamic shared memory."""

    name: str
    source: str
    call: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    published: float
    dynamic: int = 0


@dataclass(frozen=True)
class Ladder:
    machine: str
    arch: str
    steps: tuple[Step, ...]
    kind: str
    """How the kernel is launched: "sgemm" (M, N, K, alpha, A, B, beta, C)."""
    about: str


_S = "src/kernels/"
LADDERS = {
    "sgemm": Ladder("A6000", "86", (
        Step("naive", _S + "1_naive.cuh", "sgemm_naive", (128, 128, 1), (32, 32, 1), 0.309),
        Step("coalesced", _S + "2_kernel_global_mem_coalesce.cuh", "sgemm_global_mem_coalesce<32>", (128, 128, 1), (1024, 1, 1),
             1.987),
        Step("shared memory", _S + "3_kernel_shared_mem_blocking.cuh", "sgemm_shared_mem_block<32>", (128, 128, 1), (1024, 1, 1),
             2.980),
        Step("1D tiles", _S + "4_kernel_1D_blocktiling.cuh", "sgemm1DBlocktiling<64, 64, 8, 8>", (64, 64, 1), (512, 1, 1), 8.475),
        Step("2D tiles", _S + "5_kernel_2D_blocktiling.cuh", "sgemm2DBlocktiling<128, 128, 8, 8, 8>", (32, 32, 1), (256, 1, 1),
             15.972),
        Step("bank conflicts, linear", _S + "7_kernel_resolve_bank_conflicts.cuh", "sgemmResolveBankConflicts<128, 128, 8, 8, 8>",
             (32, 32, 1), (256, 1, 1), 16.213),
        Step("bank conflicts, offset", _S + "8_kernel_bank_extra_col.cuh", "sgemmResolveBankExtraCol<128, 128, 8, 8, 8>",
             (32, 32, 1), (256, 1, 1), 16.459),
        Step("vectorized", _S + "6_kernel_vectorize.cuh", "sgemmVectorize<128, 128, 8, 8, 8>", (32, 32, 1), (256, 1, 1), 18.237),
        Step("autotuned", _S + "9_kernel_autotuned.cuh", "sgemmAutotuned<128, 128, 16, 8, 8>", (32, 32, 1), (256, 1, 1), 19.721),
        Step("warp tiles", _S + "10_kernel_warptiling.cuh", "sgemmWarptiling<128, 128, 16, 64, 64, 4, 8, 4, 128>", (32, 32, 1),
             (128, 1, 1), 21.779),
    ), "sgemm", "github.com/siboehm/SGEMM_CUDA, f32, A6000"),
}


class NotBuilt(Exception):
    """nvcc or ptxas refuses."""


def build(ladder: Ladder, step: Step, checkout: pathlib.Path) -> tuple[str, bytes]:
    """(PTX, cubin) of a step."""
    nvcc = toolchain.find_tool("nvcc")
    if nvcc is None:
        raise NotBuilt("nvcc isn't installed")
    with tempfile.TemporaryDirectory() as folder:
        source, out = pathlib.Path(folder) / "step.cu", pathlib.Path(folder) / "step.ptx"
        signature = (checkout / step.source).read_text().split(f" {step.call.split('<')[0]}(")[-1].split("{")[0]
        constant = "const " if "const float" in signature else ""
        pointers = f"{constant}float *, {constant}float *"
        instance = f"template __global__ void {step.call}(int, int, int, float, {pointers}, float, float *);\n"
        instance = instance if "<" in step.call else ""
        source.write_text(f'#include "{(checkout / step.source).resolve()}"\n{instance}')
        for header in NOT_NEEDED:
            (pathlib.Path(folder) / header).touch()
        options = ["-ptx", f"-I{folder}", "-O3", f"-arch=compute_{ladder.arch}", "-std=c++17", "-o", str(out)]
        done = subprocess.run([nvcc, *options, str(source)], capture_output=True, text=True, timeout=TIMEOUT)
        if done.returncode:
            raise NotBuilt(done.stderr.strip()[:400])
        ptx = out.read_text()
    return ptx, ptxas.assemble(ptx, ptxas.arguments(f"sm_{ladder.arch}", 3, lineinfo=True)).cubin


def arguments(kind: str) -> list[Any]:
    a, b, c = (np.zeros(shape, np.float32) for shape in ((N, DEPTH), (DEPTH, N), (N, N)))
    n = np.int32(N)
    assert kind == "sgemm"
    return [n, n, np.int32(DEPTH), np.float32(1), a, b, np.float32(0), c]


def predicted(ladder: Ladder, step: Step, checkout: pathlib.Path, machine: Machine) -> dict[str, Any]:
    ptx, cubin = build(ladder, step, checkout)
    flat = arguments(ladder.kind)
    entry = choose_entry(parse_cached(ptx), None)
    x, y, _ = step.grid
    middle = x * (y // 2) + x // 2
    found = streams_of(ptx, cubin, entry.name, step.grid, flat, [middle], block=step.block, dynamic_shared=step.dynamic)
    if not found.is_joined:
        raise NotTimed(found.reason)
    p = predict_streams(found, machine, argument_bytes(flat), ptx)
    return p.record() | {"tflops": 2.0 * N * N * DEPTH / p.seconds / 1e12, "text": p.text(4)}


def run(name: str, checkout: pathlib.Path) -> list[dict[str, Any]]:
    ladder = LADDERS[name]
    machine = machine_of(ladder.machine)
    rows: list[dict[str, Any]] = []
    for step in ladder.steps:
        row: dict[str, Any] = {"ladder": name, "machine": machine.name, "step": step.name, "published": step.published}
        try:
            row |= predicted(ladder, step, checkout, machine)
        except (NotBuilt, NotTimed, SimulationError, ReplayDeadlock, ReplayLimit) as error:
            row["failed"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        rows.append(row)
        shown = row.get("failed") or f"{row['tflops']:8.2f} {row['tflops'] / step.published - 1:+5.0%}  {row['bound']}"
        print(f"{name} {step.name:26} {step.published:8.2f} {shown}", flush=True)
    return rows


def summary(rows: list[dict[str, Any]]) -> str:
    """How many neighbours stand in the published order, and the mean error."""
    good = [r for r in rows if "tflops" in r]
    if len(good) < 2:
        return "too few steps"
    right = sum((a["tflops"] <= b["tflops"]) == (a["published"] <= b["published"]) for a, b in pairwise(good))
    error = sum(abs(r["tflops"] / r["published"] - 1) for r in good) / len(good)
    return f"{len(good)} of {len(rows)} steps predicted, {right} of {len(good) - 1} in the published order, mean error {error:.0%}"


def section(rows: list[dict[str, Any]]) -> str:
    """The end of docs/timing.md."""
    out = []
    for name in dict.fromkeys(r["ladder"] for r in rows):
        mine = [r for r in rows if r["ladder"] == name]
        out += ["", f"**{LADDERS[name].about}** ({N} x {N} x {N}): {summary(mine)}.", ""]
        table = [[r["step"], f"{r['published']:.2f}", f"{r['tflops']:.2f}", f"{r['tflops'] / r['published'] - 1:+.0%}", r["bound"]]
                 if "tflops" in r else [r["step"], f"{r['published']:.2f}", "", "", r["failed"][:90]] for r in mine]
        out.append(markdown(["step", "published TFLOP/s", "predicted", "error", "bound"], table))
    return "\n".join(out) + "\n"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.speed.ladders", description="published ladders, predicted")
    parser.add_argument("ladder", choices=sorted(LADDERS))
    parser.add_argument("checkout", type=pathlib.Path)
    options = parser.parse_args(argv)
    rows = run(options.ladder, options.checkout)
    print(summary(rows))
    kept = json.loads(OUT.read_text()) if OUT.exists() else []
    kept = [r for r in kept if r["ladder"] != options.ladder] + rows
    OUT.write_text(json.dumps(kept, indent=1) + "\n")
    text = PAGE.read_text().split(HEADING)[0]
    PAGE.write_text(text + HEADING + section(kept))
    return 0


if __name__ == "__main__":
    sys.exit(main())
