"""Published ladders: kernels whose speed was measured at each step of their optimization, predicted from the same source.

    python -m bench.speed.ladders sgemm /path/to/SGEMM_CUDA
    python -m bench.speed.ladders wgmma /path/to/fast.cu --include /path/to/cccl/include
    python -m bench.speed.ladders tcgen05 /path/to/learn-cuda/02e_matmul_sm100 --include /path/to/cccl/include

Sources come from a checkout and aren't kept; nvcc makes PTX of them, ptxas the cubin. What is shown is the published figure, the
predicted one, whether the steps stand in the published order, and the mean error.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import re
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
from tileiras.layout.tensormap import TensorMap
from tileiras.machine.machines import Machine, machine_of
from tileiras.sim import SimulationError
from tileiras.sim.copy.tensormap import MapArgument, tensor_map
from tileiras.sim.run.launch import choose_entry, parse_cached
from tileiras.sim.timing.errors import NotTimed
from tileiras.sim.timing.predictor import argument_bytes, predict_streams
from tileiras.sim.timing.replay import ReplayDeadlock, ReplayLimit
from tileiras.sim.timing.streams import streams_of

N, DEPTH = 4096, 1024
"""Products of N x N x N, of which an inner extent of DEPTH is run: rounds of the inner loop are alike, and rates count."""
SWIZZLED = 128
TIMEOUT = 240
NOT_NEEDED = {"cublas_v2.h": "", "torch/library.h": "#include <cuda_bf16.h>\n#include <tuple>\n#define TORCH_CHECK(...)\n"}
"""Headers that the sources include for what stands beside their kernels, and what is put in their place."""
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
    box: tuple[int, ...] = ()
    """Of tensor maps: rows of A and of B, and columns of both; of "maps last", rows of both and, but for 2, dimensions."""


@dataclass(frozen=True)
class Ladder:
    machine: str
    arch: str
    steps: tuple[Step, ...]
    kind: str
    """How the kernel is launched: "sgemm" (M, N, K, alpha, A, B, beta, C), or "maps" (maps of A and B, C, M, N, K,
    and in some sources a buffer for a profile and its length)."""
    about: str


_S = "src/kernels/"
_M = "examples/matmul/matmul_"
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
    "wgmma": Ladder("H100", "90a", (
        Step("producer and consumer", _M + "4.cuh", "M4::matmulKernel4<128, 128, 64, 256, 5>", (1024, 1, 1), (256, 1, 1), 498,
             256 * 64 * 2 * 5, (128, 128)),
        Step("two consumers, 128 x 256", _M + "5.cuh", "M5::matmulKernel5<128, 256, 64, 384, 3>", (512, 1, 1), (384, 1, 1), 610,
             384 * 64 * 2 * 3, (128, 256)),
        Step("persistent", _M + "6.cuh", "M6::matmulKernel6<128, 256, 64, 384, 3, 128>", (128, 1, 1), (384, 1, 1), 660,
             384 * 64 * 2 * 3, (128, 256)),
        Step("mbarriers by PTX", _M + "7.cuh", "M7::matmulKernel7<128, 256, 64, 384, 3, 128>", (128, 1, 1), (384, 1, 1), 704,
             384 * 64 * 2 * 3, (128, 256, 5)),
        Step("clusters of two, multicast", _M + "8.cuh", "M8::matmulKernel8<128, 256, 64, 384, 3, 128, 2, 1>", (128, 1, 1),
             (384, 1, 1), 734, 384 * 64 * 2 * 3, (128, 256, 3)),
    ), "maps last", "github.com/pranjalssh/fast.cu, bf16, H100"),
    "tcgen05": Ladder("B200", "100a", (
        Step("one stage", "matmul_v2.cu", "matmul_v2_kernel<256, 256, true>", (512, 1, 1), (128, 1, 1), 721, 384 * 256 * 2,
             (128, 256, 256)),
        Step("two stages", "matmul_v3.cu", "matmul_v3_kernel<256, 128, 2>", (512, 1, 1), (128, 1, 1), 914, 384 * 128 * 2 * 2,
             (128, 256, 128)),
        Step("specialised", "matmul_v4.cu", "matmul_v4_kernel<128, 64, 7>", (1024, 1, 1), (128, 1, 1), 1054, 256 * 64 * 2 * 7,
             (128, 128, 64)),
        Step("pairs of CTAs", "matmul_v5.cu", "matmul_v5_kernel<256, 64, 2, 7, false>", (512, 1, 1), (128, 1, 1), 1170,
             256 * 64 * 2 * 7, (128, 128, 64)),
        Step("persistent", "matmul_v6.cu", "matmul_v6_kernel<256, 64, 2, 7, false>", (148, 1, 1), (192, 1, 1), 1273,
             256 * 64 * 2 * 7, (128, 128, 64)),
    ), "maps", "github.com/gau-nernst/learn-cuda 02e, bf16, B200"),
}
PROFILED = ("matmul_v5.cu", "matmul_v6.cu")
"""Sources whose kernels take a buffer for a profile, too."""


HEAD = """#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda/barrier>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cassert>
typedef __nv_bfloat16 bf16;
#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))
"""
"""What the sources of "maps last" expect before them."""


class NotBuilt(Exception):
    """nvcc or ptxas refuses."""


def build(ladder: Ladder, step: Step, checkout: pathlib.Path, include: str = "") -> tuple[str, bytes]:
    """(PTX, cubin) of a step."""
    nvcc = toolchain.find_tool("nvcc")
    if nvcc is None:
        raise NotBuilt("nvcc isn't installed")
    with tempfile.TemporaryDirectory() as folder:
        source, out = pathlib.Path(folder) / "step.cu", pathlib.Path(folder) / "step.ptx"
        instance = f"template __global__ void {step.call}({', '.join(_parameters(ladder.kind, step, checkout))});\n"
        instance = instance if "<" in step.call else ""
        whole = _by_value((checkout / step.source).read_text()) if ladder.kind == "maps last" else None
        source.write_text((whole or f'#include "{(checkout / step.source).resolve()}"\n') + instance)
        for header, text in NOT_NEEDED.items():
            stub = pathlib.Path(folder) / header
            stub.parent.mkdir(exist_ok=True)
            stub.write_text(text)
        options = ["-ptx", f"-I{folder}", "-O3", f"-arch=compute_{ladder.arch}", "-std=c++17", "--expt-relaxed-constexpr",
                   *([f"-I{include}"] if include else []), "-o", str(out)]
        done = subprocess.run([nvcc, *options, str(source)], capture_output=True, text=True, timeout=TIMEOUT)
        if done.returncode:
            raise NotBuilt(done.stderr.strip()[:400])
        ptx = out.read_text()
    return ptx, ptxas.assemble(ptx, ptxas.arguments(f"sm_{ladder.arch}", 3, lineinfo=True)).cubin


def _by_value(source: str) -> str:
    """A source without its launching code, whose kernel takes its maps by value: the launch is ours, and has no other memory for
    them."""
    if "const CUtensorMap* tensorMapA" in source:
        source = re.sub(r"const CUtensorMap\* tensorMap([AB])", r"const __grid_constant__ CUtensorMap tensorMap\1", source)
        source = re.sub(r", tensorMap([AB]),", r", &tensorMap\1,", source)
    source = re.sub(r"void runKernel.*?\n}\n", "", source, flags=re.DOTALL)
    return HEAD + re.sub(r"using M\d+::runKernel\d+;", "", source)


def _parameters(kind: str, step: Step, checkout: pathlib.Path) -> list[str]:
    """Types, for an instance's line."""
    if kind == "maps":
        return ["const __grid_constant__ CUtensorMap"] * 2 + ["nv_bfloat16 *", *["int"] * 3,
                                                             *(["int64_t *", "int"] if step.source in PROFILED else [])]
    if kind == "maps last":
        return ["int"] * 3 + ["bf16 *"] + ["const __grid_constant__ CUtensorMap"] * 2
    signature = (checkout / step.source).read_text().split(f" {step.call.split('<')[0]}(")[-1].split("{")[0]
    constant = "const " if "const float" in signature else ""
    return ["int"] * 3 + ["float", f"{constant}float *", f"{constant}float *", "float", "float *"]


def entry_of(ptx: str, call: str) -> str:
    """The kernel that an instance was made of: sources hold others, whose names differ in their arguments."""
    name, _, rest = call.partition("::")[2].partition("<") if "::" in call else call.partition("<")
    asked = [word.strip() for word in rest.rstrip(">").split(",")] if rest else []
    wanted = [f"Lb{int(word == 'true')}" if word in ("true", "false") else f"Li{word}" for word in asked]
    found = [k for k in re.findall(r"\.entry (\w+)", ptx) if name in k]
    for kernel in found:
        if re.findall(r"L[ib]\d+", kernel) == wanted:
            return kernel
    return found[0] if found else choose_entry(parse_cached(ptx), None).name


def arguments(kind: str, step: Step) -> list[Any]:
    if kind == "maps":
        a, b, c = (np.zeros((N, N), np.uint16) for _ in range(3))
        n = np.int32(N)
        rest = [np.int64(0), np.int32(0)] if step.source in PROFILED else []
        return [_panels(a, step.box[0], step.box[2]), _panels(b, step.box[1], step.box[2]), c, n, n, n, *rest]
    if kind == "maps last":
        a, b, c = (np.zeros((N, N), np.uint16) for _ in range(3))
        n, rank = np.int32(N), step.box[2] if len(step.box) > 2 else 2
        return [n, n, n, c, *(_boxes(array, rows, rank) for array, rows in zip((a, b), step.box))]
    a, b, c = (np.zeros(shape, np.float32) for shape in ((N, DEPTH), (DEPTH, N), (N, N)))
    n = np.int32(N)
    return [n, n, np.int32(DEPTH), np.float32(1), a, b, np.float32(0), c]


def _panels(array: np.ndarray, rows: int, columns: int, more: int = 0) -> MapArgument:
    """A map of boxes of rows x columns, in panels of 128 swizzled bytes, with so many dimensions of size 1 more."""
    height, width = array.shape
    panel = SWIZZLED // array.itemsize

    def encode(address: int) -> bytes:
        return TensorMap(address, "bf16", (panel, height, width // panel, *[1] * more),
                         (width * array.itemsize, SWIZZLED, *[0] * more), (panel, rows, columns // panel, *[1] * more),
                         swizzle=SWIZZLED).encode()
    return MapArgument(array, encode)


def _boxes(array: np.ndarray, rows: int, rank: int) -> MapArgument:
    """A map of boxes of some rows and 128 swizzled bytes, in two dimensions or, with panels, in more."""
    panel = SWIZZLED // array.itemsize
    if rank == 2:
        return tensor_map(array, (rows, panel), element="bf16", swizzle=SWIZZLED)
    return _panels(array, rows, panel, rank - 3)


def predicted(ladder: Ladder, step: Step, checkout: pathlib.Path, machine: Machine, include: str = "") -> dict[str, Any]:
    ptx, cubin = build(ladder, step, checkout, include)
    flat = arguments(ladder.kind, step)
    kernel = entry_of(ptx, step.call)
    x, y, _ = step.grid
    middle = [x * (y // 2) + x // 2] if ladder.kind == "sgemm" else None
    found = streams_of(ptx, cubin, kernel, step.grid, flat, middle, block=step.block, dynamic_shared=step.dynamic)
    if not found.is_joined:
        raise NotTimed(found.reason)
    owned = [value.array if isinstance(value, MapArgument) else value for value in flat]
    p = predict_streams(found, machine, argument_bytes(owned), ptx)
    depth = DEPTH if ladder.kind == "sgemm" else N
    return p.record() | {"tflops": 2.0 * N * N * depth / p.seconds / 1e12, "text": p.text(4)}


def run(name: str, checkout: pathlib.Path, include: str = "") -> list[dict[str, Any]]:
    ladder = LADDERS[name]
    machine = machine_of(ladder.machine)
    rows: list[dict[str, Any]] = []
    for step in ladder.steps:
        row: dict[str, Any] = {"ladder": name, "machine": machine.name, "step": step.name, "published": step.published}
        try:
            row |= predicted(ladder, step, checkout, machine, include)
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
    parser.add_argument("--include", default="", help="a folder of headers that nvcc lacks (CCCL's)")
    options = parser.parse_args(argv)
    rows = run(options.ladder, options.checkout, options.include)
    print(summary(rows))
    kept = json.loads(OUT.read_text()) if OUT.exists() else []
    kept = [r for r in kept if r["ladder"] != options.ladder] + rows
    OUT.write_text(json.dumps(kept, indent=1) + "\n")
    text = PAGE.read_text().split(HEADING)[0]
    PAGE.write_text(text + HEADING + section(kept))
    return 0


if __name__ == "__main__":
    sys.exit(main())
