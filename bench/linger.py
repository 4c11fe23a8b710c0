"""A frontend that tunes one kernel by the command, over and over: `python -m bench.linger --reference PYTHON [CASE] [--repeat N]`.

Medians of the whole command, in turn: ours by itself, ours answered by a command that stayed behind, and the original.
"""
from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from bench.__main__ import reference_command
from tests.kernels import runner


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.linger", description=__doc__)
    parser.add_argument("cases", nargs="*", default=["vector_add_float32", "softmax_16x256_f16", "matmul_float16_float16"])
    parser.add_argument("--reference", type=pathlib.Path, required=True, metavar="PYTHON")
    parser.add_argument("--gpu-name", default="sm_90")
    parser.add_argument("--repeat", type=int, default=100)
    a = parser.parse_args(argv)
    ours = str(pathlib.Path(sys.executable).parent / "tileiras")
    without_ci = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTHONDONTWRITEBYTECODE")}
    with tempfile.TemporaryDirectory() as folder:
        place = {**without_ci, "XDG_RUNTIME_DIR": folder}
        ways = {"itself": (ours, {**place, "TILEIRAS_LINGER": "0"}), "answered": (ours, {**place, "TILEIRAS_LINGER": "always"}),
                "original": (reference_command(a.reference), place)}
        print(f"{'kernel':<32}{'itself ms':>10}{'answered ms':>12}{'original ms':>12}{'ratios':>14}")
        for case in a.cases:
            path = str(runner.bytecode_path(case))
            seconds: dict[str, list[float]] = {name: [] for name in ways}
            for turn in range(a.repeat + 2):
                for name, (command, environment) in ways.items():
                    start = time.perf_counter()
                    subprocess.run([command, path, "--gpu-name", a.gpu_name, "-o", os.path.join(folder, "out")], env=environment,
                                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    if turn > 1:
                        seconds[name].append(time.perf_counter() - start)
            itself, answered, original = (statistics.median(seconds[name]) for name in ways)
            print(f"{case:<32}{itself * 1000:>10.0f}{answered * 1000:>12.0f}{original * 1000:>12.0f}"
                  f"{itself / original:>7.2f}{answered / original:>7.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
