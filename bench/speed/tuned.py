"""The original's own code at the configurations that cuTile Python's benchmarks were tuned to, beside their measured times.

    python -m bench.speed.tuned /path/to/cutile-python [NAME ...] [--machine B200] [--write]

Its checkout has, for a B200 and an RTX PRO 6000, the fastest configuration of each benchmark and the mean time of its launches
(test/benchmark_tuning.json; L2 is overwritten before each, and an event stands before and behind it). The kernels are taken from
the checkout and aren't kept; the frontend and the original are those installed. Nothing here calibrates the model. Our code for
the same launches is predicted beside them.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any
from unittest.mock import MagicMock

import numpy as np

from bench.speed import compare, programs, side
from bench.speed.page import put_section
from bench.speed.page import table as markdown
from bench.speed.steps import HEADING as END
from tileiras.machine.machines import Machine, machine_of
from tileiras.sim.cutile import export
from tileiras.sim.timing.streams import IN_PART

OUT = side.ROOT / "bench" / "results" / "tuned.json"
PAGE = side.ROOT / "docs" / "timing.md"
HEADING = "## The original's code on cuTile Python's benchmarks, measured\n"
GPUS = {"NVIDIA B200": "B200", "NVIDIA RTX PRO 6000 Blackwell Server Edition": "PRO 6000"}
"""The publication's names, and the machines' here."""

Config = dict[str, Any]


@dataclass(frozen=True)
class Benchmark:
    """`arguments` and `grid` of a launch, by its configuration, its parameters and the number of SMs."""

    file: str
    kernel: str
    arguments: Callable[[Config, Config], tuple[Any, ...]]
    grid: Callable[[Config, Config, int], tuple[int, ...]]


def _zeros(kind: str, *shape: int) -> np.ndarray:
    import ml_dtypes
    return np.zeros(shape, getattr(ml_dtypes, kind, None) or kind)


_N = 4096
_SPLIT = (256, 256, 4096)
_BATCH = (4, 8192, 8192, 2000)
_TURNED = (2048, 2028)
_HEADS, _DEPTH = 32, 128


def _product(config: Config, params: Config) -> tuple[Any, ...]:
    return *(_zeros("float16", _N, _N) for _ in range(3)), *_tiles(config)


def _tiles(config: Config) -> tuple[int, int, int]:
    return config["tm"], config["tn"], config["tk"]


def _blocks(config: Config, m: int, n: int) -> int:
    return ceil(m / config["tm"]) * ceil(n / config["tn"])


def _split(config: Config, params: Config) -> tuple[Any, ...]:
    m, n, k = _SPLIT
    locks = (m // 16) * (n // 16)
    arrays = [_zeros("float16", *shape) for shape in ((m, k), (k, n), (m, n))]
    return *arrays, _zeros("int32", locks), _zeros("int32", locks), *_tiles(config), config["split_k"]


def _batched(config: Config, params: Config) -> tuple[Any, ...]:
    b, m, n, k = _BATCH
    return _zeros("float8_e4m3fn", b, m, k), _zeros("float8_e4m3fn", b, k, n), _zeros("float32", b, m, n), *_tiles(config)


def _scaled(config: Config, params: Config) -> tuple[Any, ...]:
    scales = (_N // 128, _N // 128, 32, 16)
    return (_zeros("float8_e4m3fn", _N, _N), _zeros("float8_e8m0fnu", *scales), _zeros("float8_e4m3fn", _N, _N).T,
            _zeros("float8_e8m0fnu", *scales), _zeros("float32", _N, _N), *_tiles(config), 32)


def _turned(config: Config, params: Config) -> tuple[Any, ...]:
    m, n = _TURNED
    return _zeros("float16", m, n), _zeros("float16", n, m), config["tm"], config["tn"]


def _queries(params: Config) -> tuple[int, int]:
    """How many queries and keys."""
    return (8192, 8192) if params["is_causal"] else (1, 1024)


def _attention(config: Config, params: Config) -> tuple[Any, ...]:
    queries, keys = _queries(params)
    q, k, v, out = (_zeros("float16", 1, _HEADS, n, _DEPTH) for n in (queries, keys, keys, queries))
    before = 0 if queries == keys else keys - 1
    return (q, k, v, out, _DEPTH ** -0.5, before, _DEPTH, _HEADS, config["tile_m"], config["tile_n"], 1, params["is_causal"],
            keys % config["tile_n"] == 0)


def _norm(config: Config, params: Config) -> tuple[Any, ...]:
    rows, columns = params["shape"]
    x, w, y = (_zeros(params["dtype"], *s) for s in ((rows, columns), (columns,), (rows, columns)))
    if params["algo"] == "persistent":
        return x, y, w, config["tile_size_m"], config["tile_size_n"], columns, 1e-5
    return x, w, y, _zeros("float32", rows), columns, 1e-5, config["tile_size"]


def _norm_grid(config: Config, params: Config, sms: int) -> tuple[int, ...]:
    rows = params["shape"][0]
    return (min(sms, ceil(rows / config["tile_size_m"])) if params["algo"] == "persistent" else rows,)


NORMS = {"persistent": "rms_norm_kernel_static_persistent", "gather": "rms_norm_kernel_gather", "regular": "rms_norm_kernel"}
BENCHMARKS = {
    "matmul": Benchmark("matmul", "matmul_kernel", _product, lambda c, p, sms: (_blocks(c, _N, _N),)),
    "persistent_matmul": Benchmark("matmul", "persistent_matmul_kernel", _product,
                                   lambda c, p, sms: (min(sms, _blocks(c, _N, _N)),)),
    "matmul_split_k": Benchmark("matmul", "matmul_split_k_kernel", _split,
                                lambda c, p, sms: (_blocks(c, *_SPLIT[:2]), c["split_k"])),
    "batch_matmul": Benchmark("matmul", "batch_matmul_kernel", _batched, lambda c, p, sms: (
        _BATCH[0], ceil(_BATCH[1] / c["tm"]), ceil(_BATCH[2] / c["tn"]))),
    "swizzled_scaled_matmul": Benchmark("scaled_matmul", "block_scaled_matmul_kernel", _scaled,
                                        lambda c, p, sms: (_blocks(c, _N, _N),)),
    "fmha": Benchmark("attention", "fmha_kernel", _attention,
                      lambda c, p, sms: (ceil(_queries(p)[0] / c["tile_m"]), _HEADS)),
    "transpose": Benchmark("transpose", "transpose_kernel", _turned,
                           lambda c, p, sms: (ceil(_TURNED[0] / c["tm"]), ceil(_TURNED[1] / c["tn"]))),
    **{f"rms_norm {algo}": Benchmark("rms_norm", kernel, _norm, _norm_grid) for algo, kernel in NORMS.items()},
}


@dataclass(frozen=True)
class Tuned:
    """A measured launch. `measured`: microseconds."""

    benchmark: str
    gpu: str
    config: Config
    params: Config
    measured: float

    @property
    def name(self) -> str:
        """What tells it from others of its machine."""
        said = [*(f"{k} {v}" for k, v in self.config.items())]
        if "shape" in self.params:
            said = ["x".join(map(str, self.params["shape"])), self.params["dtype"], *said]
        if "is_causal" in self.params:
            said.insert(0, "causal, 8192 keys" if self.params["is_causal"] else "a query, 1024 keys")
        return f"{self.benchmark}: {', '.join(said)}"


def tuned(checkout: pathlib.Path) -> Iterator[Tuned]:
    """What the checkout says was measured. Raises OSError, KeyError."""
    found = json.loads((checkout / "test" / "benchmark_tuning.json").read_text())["gpus"]
    for gpu, entries in found.items():
        for name, rows in entries.items():
            for row in rows:
                algo = row["params"].get("algo")
                full = f"{name} {algo}" if algo else name
                if gpu in GPUS and full in BENCHMARKS:
                    yield Tuned(full, gpu, row["config"], row["params"], row["mean_us"])


class Launch(programs.Row):
    """A measured launch as the frontend makes it."""

    def __init__(self, one: Tuned, machine: Machine, checkout: pathlib.Path) -> None:
        kind = BENCHMARKS[one.benchmark]
        sys.path.insert(0, str(checkout / "test"))
        torch = sys.modules.get("torch")
        sys.modules.setdefault("torch", MagicMock())        # which helpers beside the kernels import
        try:
            module: Any = __import__(f"kernels.{kind.file}", fromlist=[kind.kernel])
        finally:
            sys.path.pop(0)
            if torch is None:
                del sys.modules["torch"]
        kernel = getattr(module, kind.kernel)
        hints = {k: one.config[k] for k in ("num_ctas", "occupancy", "num_worker_warps") if k in one.config}
        if hints:
            kernel = kernel.replace_hints(**hints)
        self.sm = f"sm_{machine.sm}"
        made = export(kernel, kind.arguments(one.config, one.params), self.sm)
        grid = kind.grid(one.config, one.params, machine.sms)
        self.symbol, self.grid, self.flat, self.bytecode = made.symbol, (*grid, 1, 1)[:3], made.flat, made.bytecode


def run(one: Tuned, checkout: pathlib.Path) -> dict[str, Any]:
    """A measured launch's row: microseconds measured, predicted of the original's code and of ours; "failed" with the reason."""
    machine = machine_of(GPUS[one.gpu])
    row: dict[str, Any] = {"name": one.name, "machine": machine.name, "measured": round(one.measured, 2)}
    try:
        launch = Launch(one, machine, checkout)
    except programs.NONE as error:
        return row | side.failure(error)
    for who in ("original", "ours"):
        record = launch.predicted(machine, who)
        if "failed" in record:
            row[f"{who} failed"] = record["failed"]
        else:
            row[who] = round(1e6 * record["seconds"], 2)
            row[f"{who} bound"] = record["bound"]
            row["estimate"] = row.get("estimate", False) or record["estimate"]
            row[f"{who} in part"] = any(IN_PART in note for note in record["notes"])
    return row


def section(rows: list[dict[str, Any]]) -> str:
    """For docs/timing.md."""
    good = [r for r in rows if "original" in r and not r["estimate"]]
    ratios = compare.mean([r["original"] / r["measured"] for r in good]) if good else 1.0
    off = sum(abs(r["original"] / r["measured"] - 1) for r in good) / max(len(good), 1)
    head = [
        "cuTile Python's checkout keeps, for two machines, the fastest configuration of its benchmarks and the mean time of its",
        "launches: by the original of that day, L2 overwritten before each launch, what two events take included. Here the same",
        "launches, by the frontend and the original that are installed, predicted by `python -m bench.speed.tuned`. Nothing here",
        f"calibrates the model. {len(good)} of {len(rows)} launches compared: predicted over measured {ratios:.2f} in the",
        f"geometric mean, mean error {off:.0%}. Microseconds; the last column is our code, predicted, in brackets where lanes of a",
        "warp went different ways in the simulation: what they access together may then be counted in part (see above), and the",
        "time be too short.", ""]
    shown = [[r["name"], r["machine"], f"{r['measured']:g}", *_shown(r)] for r in rows]
    table = markdown(["launch", "machine", "measured", "predicted", "error", "bound", "ours"], shown)
    return "\n".join(head) + "\n" + table + "\n\n"


def _shown(r: dict[str, Any]) -> tuple[str, str, str, str]:
    ours = f"{r['ours']:g}" if "ours" in r else "-"
    if r.get("ours in part"):
        ours = f"({ours})"
    if "original" not in r:
        return "", "", str(r.get("failed") or r.get("original failed"))[:90], ours
    if r["estimate"]:
        return f"({r['original']:g}, an estimate)", "", r["original bound"], ours
    return f"{r['original']:g}", f"{r['original'] / r['measured'] - 1:+.0%}", r["original bound"], ours


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.speed.tuned", description="measured launches, predicted")
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help="beginnings of benchmarks' names; all where none is given")
    parser.add_argument("--machine", choices=sorted(GPUS.values()), help="both without")
    parser.add_argument("--write", action="store_true", help=f"write {OUT.name} and the section of {PAGE.name}")
    options = parser.parse_args(argv)
    try:
        wanted = list(tuned(options.checkout))
    except (OSError, KeyError, ValueError) as error:
        print(f"error: {options.checkout}: {error}", file=sys.stderr)
        return 1
    kept = {(r["machine"], r["name"]): r for r in (json.loads(OUT.read_text()) if OUT.exists() else [])}
    for one in wanted:
        machine = GPUS[one.gpu]
        if options.machine not in (None, machine) or not one.benchmark.startswith(tuple(options.names) or ""):
            continue
        row = kept[machine, one.name] = run(one, options.checkout)
        print(f"{one.name:80} {machine:8} {one.measured:8.2f} {' '.join(_shown(row))}", flush=True)
        if options.write:
            rows = [kept[key] for o in wanted if (key := (GPUS[o.gpu], o.name)) in kept]
            OUT.write_text(json.dumps(rows, indent=1) + "\n")
    if options.write:
        put_section(PAGE, HEADING, END, section([kept[key] for o in wanted if (key := (GPUS[o.gpu], o.name)) in kept]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
