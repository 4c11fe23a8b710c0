"""The original's own code on the very kernels whose speed was published with it: the Python examples of cuTile.jl, from a checkout.

    python -m bench.speed.examples /path/to/cuTile.jl [NAME ...] [--write]

cuTile.jl's README lists what its examples and their twins in Python reach on an RTX 5080, by the original of 13.2, with sizes; the
files say tiles and grids. The twins are exported here by the frontend that is installed, compiled by the original that is installed
(both are newer) and predicted. The kernels come from the checkout and aren't kept. Nothing here calibrates the model.
"""
from __future__ import annotations

import argparse
import importlib.util
import io
import json
import pathlib
import sys
import types
from dataclasses import dataclass
from math import ceil
from typing import Any
from unittest.mock import MagicMock

import numpy as np

from bench.speed import original, side
from bench.speed.kernels import launch
from bench.speed.page import put_section
from bench.speed.page import table as markdown
from tests.kernels import suite
from tests.kernels.suite import Array, Case, Const, Scalar
from tileiras.machine.machines import machine_of
from tileiras.sim import SimulationError
from tileiras.sim.timing import predict

MACHINE = "RTX 5080"
OUT = side.ROOT / "bench" / "results" / "examples.json"
PAGE = side.ROOT / "docs" / "timing.md"
HEADING = "## The original's code on published kernels\n"
END = "## Published ladders, predicted\n"
NOT_NEEDED = ("cupy", "nvtx")
"""What the files import for running on a GPU."""


@dataclass(frozen=True)
class Example:
    """`julia`, `python`: published, TFLOP/s or GB/s; `work`: FLOP or bytes, as the publication counts them."""

    name: str
    file: str
    kernel: str
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    work: float
    julia: float
    python: float
    remark: str = ""

    @property
    def unit(self) -> float:
        return 1e12 if self.file in ("matmul.py", "batchmatmul.py", "fmha.py") else 1e9


def _f32(*shape: int) -> Array:
    return Array("float32", shape)


def _f16(*shape: int) -> Array:
    return Array("float16", shape)


_N, _LONG, _WIDE = 4096, 2 ** 25, 8192
_HEADS, _BATCH, _KEYS, _DEPTH = 16, 8, 1024, 64
_Q = _f16(_BATCH, _HEADS, _KEYS, _DEPTH)
_SMS = machine_of(MACHINE).sms
_ROWS = (_f32(_N, _N), _f32(_N, _N), Const(_N), Const(_N))
EXAMPLES: tuple[Example, ...] = (
    Example("vector addition", "vadd.py", "vadd_kernel_1d", (_LONG // 1024,), (*[_f32(_LONG)] * 3, Const(1024)), 12.0 * _LONG,
            844, 845, "2^25 elements instead of 2^27"),
    Example("transposition", "transpose.py", "transpose_cutile_kernel", (_WIDE // 64, _WIDE // 64),
            (_f32(_WIDE, _WIDE), _f32(_WIDE, _WIDE), Const(64), Const(64)), 8.0 * _WIDE ** 2, 812, 814),
    Example("layer norm, forward", "layernorm.py", "layernorm_fwd_kernel", (_N,),
            (_f32(_N, _N), _f32(_N), _f32(_N), _f32(_N, _N), _f32(_N), _f32(_N), Const(1e-5), Const(1024)),
            16.0 * _N ** 2, 986, 716, "three reads of each row are counted"),
    Example("softmax by whole rows", "softmax.py", "softmax_tma_kernel", (2 * _SMS,), (*_ROWS, Const(_N)), 8.0 * _N ** 2, 838, 843),
    Example("softmax by parts", "softmax.py", "softmax_chunked_kernel", (4 * _SMS,), (*_ROWS, Const(1024)), 16.0 * _N ** 2, 1672,
            1636, "three reads of each row are counted"),
    Example("product tf32", "matmul.py", "matmul_cutile_kernel", (ceil(_N / 64) ** 2,), (*[_f32(_N, _N)] * 3, *[Const(64)] * 3),
            2.0 * _N ** 3, 47.4, 43.5),
    Example("batched product tf32", "batchmatmul.py", "batchmatmul_cutile_kernel", (8, 1024 // 128, 2048 // 128),
            (_f32(8, 1024, 512), _f32(8, 512, 2048), _f32(8, 1024, 2048), Const(128), Const(128), Const(64)),
            2.0 * 8 * 1024 * 512 * 2048, 34.2, 30.9),
    Example("causal attention f16", "fmha.py", "fmha_kernel", (_KEYS // 128, _BATCH * _HEADS),
            (_Q, _Q, _Q, _Q, Scalar("float32", 0.125), Scalar("int32", 0), Const(_DEPTH), Const(_HEADS), Const(128), Const(128),
             Const(1), Const(True), Const(True)), 4.0 * _BATCH * _HEADS * _KEYS ** 2 * _DEPTH, 102.7, 63.3,
            "work that the mask spares is counted"),
)


def module_of(path: pathlib.Path) -> types.ModuleType:
    """The file, without what it needs to run on a GPU."""
    kept = {name: sys.modules.get(name) for name in NOT_NEEDED}
    sys.modules.update(dict.fromkeys(NOT_NEEDED, MagicMock()))
    try:
        spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, value in vars(module).items():
            if isinstance(value, np.floating):      # which the frontend of the publication took for Python's
                setattr(module, name, float(value))
        return module
    finally:
        for name, before in kept.items():
            if before is None:
                del sys.modules[name]
            else:
                sys.modules[name] = before


def bytecode_of(case: Case) -> bytes:
    """Raises NoOriginal where the frontend refuses."""
    import cuda.tile as ct
    from cuda.tile.compilation import export_kernel
    out = io.BytesIO()
    try:
        export_kernel(case.kernel, [suite.signature(case)], out, output_format="tileir_bytecode", bytecode_version=side.VERSION)
    except ct.TileError as error:
        raise original.NoOriginal(f"the frontend: {str(error).splitlines()[0]}") from error
    return out.getvalue()


def case_of(example: Example, checkout: pathlib.Path) -> Case:
    """The example as a case of the suite."""
    kernel = getattr(module_of(checkout / "examples" / example.file), example.kernel)
    x, y, z = (*example.grid, 1, 1)[:3]
    return Case(example.kernel, kernel, list(example.arguments), (x, y, z), inputs=lambda rng: {}, reference=lambda *given: {})


def predicted(example: Example, checkout: pathlib.Path) -> dict[str, Any]:
    machine = machine_of(MACHINE)
    sm = f"sm_{machine.sm}"
    case = case_of(example, checkout)
    ptx, cubin = original.compile_original(bytecode_of(case), sm)
    arguments = original.arguments(ptx, cubin, sm, launch(case, {}))
    return predict(ptx, cubin, case.name, case.grid, arguments, machine.name).record()


def run(example: Example, checkout: pathlib.Path) -> dict[str, Any]:
    row: dict[str, Any] = {"name": example.name, "julia": example.julia, "python": example.python, "remark": example.remark}
    try:
        record = predicted(example, checkout)
        row |= {"predicted": example.work / record["seconds"] / example.unit, "bound": record["bound"],
                "estimate": record["estimate"], "cycles": record["cycles"]}
    except (SimulationError, original.NoOriginal, LookupError) as error:
        row["failed"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return row


def section(rows: list[dict[str, Any]]) -> str:
    """For docs/timing.md."""
    good = [r for r in rows if "predicted" in r and not r["estimate"]]
    error = sum(abs(r["predicted"] / r["python"] - 1) for r in good) / max(len(good), 1)
    out = ["cuTile.jl's README, RTX 5080, TFLOP/s or GB/s: what its examples reached in Julia and their twins in Python, by the",
           "original of 13.2 at locked clocks that it doesn't name. Here the twins, from a checkout, by the frontend and the",
           "original that are installed, at the sizes and tiles of the publication, predicted by `python -m bench.speed.examples`.",
           f"The error is the model's and the releases' together: {len(good)} of {len(rows)} predicted, mean error {error:.0%} of",
           "Python's figure.", ""]
    table = [[r["name"], f"{r['julia']:g}", f"{r['python']:g}", *_shown(r), r["remark"]] for r in rows]
    return "\n".join(out) + "\n" + markdown(["kernel", "Julia", "Python", "predicted", "error", "bound", "remark"], table) + "\n\n"


def _shown(r: dict[str, Any]) -> tuple[str, str, str]:
    if "failed" in r:
        return "", "", r["failed"][:90]
    shown = f"{r['predicted']:.4g}"
    return f"({shown}, an estimate)" if r["estimate"] else shown, f"{r['predicted'] / r['python'] - 1:+.0%}", r["bound"]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.speed.examples", description="published kernels, predicted")
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help="all where none is named")
    parser.add_argument("--write", action="store_true", help=f"write {OUT.name} and the section of {PAGE.name}")
    options = parser.parse_args(argv)
    kept = {r["name"]: r for r in (json.loads(OUT.read_text()) if OUT.exists() else [])}
    for example in EXAMPLES:
        if options.names and example.name not in options.names:
            continue
        row = kept[example.name] = run(example, options.checkout)
        print(f"{example.name:24} {example.julia:8g} {example.python:8g} {row.get('failed') or ' '.join(_shown(row))}", flush=True)
        if options.write:
            OUT.write_text(json.dumps([kept[e.name] for e in EXAMPLES if e.name in kept], indent=1) + "\n")
    if options.write:
        rows = [kept[e.name] for e in EXAMPLES if e.name in kept]
        put_section(PAGE, HEADING, END, section(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
