"""`make bench`: compile time, memory and code, beside the original's on the same files in the same run.

The original (`nvidia-cuda-tileiras`) lives in an environment of its own; only its command is run. For each kernel and
target: the whole command of ours and of the original, in turn, `--repeat` times, medians; then one warm process of ours
(`tileiras.compile`) beside the original's command, which has no such mode. Peak memory is that of the command and all it
starts, measured in a run of its own. Registers, spills and instructions are read from both cubins in the same way.
"""
from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from bench import cubin, table
from bench.memory import peak_bytes
from tests.kernels import runner

ROOT = pathlib.Path(__file__).resolve().parents[1]

# One kernel for each kind of work in the suite.
KERNELS = (
    "vector_add_float32", "vector_add_ragged", "saxpy_2d", "softmax_1x1024_f32_ragged", "softmax_16x256_f16",
    "matmul_float16_float16", "matmul_bfloat16_bfloat16", "matmul_float16_float32", "gelu_tanh_f16",
    "layer_norm_f16_ragged", "add_rms_norm_in_place_f16", "attention_d64_f16", "attention_causal_d64_bf16",
    "transpose_tile_float16", "cross_entropy_f16_ragged", "adamw_step_float32", "rope_halves_in_place_bf16",
)


@dataclasses.dataclass
class Run:
    """A command's outcome: seconds, the cubin (None where it failed) and what it said."""

    seconds: float
    cubin: bytes | None
    message: str


def run(command: list[str]) -> Run:
    """Run `command ... -o FILE` and measure it whole."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "kernel.cubin"
        said = pathlib.Path(folder) / "stderr"
        start = time.perf_counter()
        with said.open("wb") as stderr:
            code = subprocess.run([*command, "-o", str(out)], stdout=subprocess.DEVNULL, stderr=stderr,
                                  env={**os.environ, "TILEIRAS_LINGER": "0"}).returncode
        seconds = time.perf_counter() - start
        ok = code == 0 and out.exists()
        return Run(seconds, out.read_bytes() if ok else None, said.read_text(errors="replace").strip())


def median_runs(commands: dict[str, list[str]], repeat: int) -> dict[str, Run]:
    """Run the commands in turn, `repeat` times each; the median time of each. A first round is for the disk's cache."""
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for round_number in range(repeat + 1):
        for name, command in commands.items():
            if round_number == 0 or runs[name][0].cubin is not None:
                runs[name].append(run(command))
    return {name: dataclasses.replace(done[-1], seconds=statistics.median(r.seconds for r in done[1:] or done))
            for name, done in runs.items()}


def reference_command(python: pathlib.Path) -> str:
    """The original's executable in the environment of that Python."""
    found = sorted((python.parent.parent / "lib").glob("python*/site-packages/nvidia/*/bin/tileiras"))
    if not found:
        raise SystemExit(f"nvidia-cuda-tileiras isn't installed beside {python}; run `make bench`")
    return str(found[0])


def milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:.0f}"


def ratio(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours and theirs else None


def two(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def progress(text: str) -> None:
    """Say what is being measured, where somebody watches."""
    if sys.stderr.isatty():
        print("\r" + text.ljust(70) + "\r", end="", file=sys.stderr, flush=True)


def measure(names: list[str], targets: list[str], level: int, repeat: int, original: str) -> dict[str, Any]:
    ours = str(pathlib.Path(sys.executable).parent / "tileiras")
    if not pathlib.Path(ours).exists():
        raise SystemExit("the `tileiras` command isn't installed in this environment: pip install -e '.[bench]'")
    rows: list[dict[str, Any]] = []
    jobs = []
    for name in names:
        path = str(runner.bytecode_path(name))
        for target in targets:
            progress(f"{name} {target}")
            options = [path, "--gpu-name", target, f"-O{level}"]
            commands = {"ours": [ours, *options], "original": [original, *options]}
            done = median_runs(commands, repeat)
            row: dict[str, Any] = {"kernel": name, "target": target}
            for who, outcome in done.items():
                facts = cubin.inspect(outcome.cubin).get(name) if outcome.cubin else None
                with tempfile.TemporaryDirectory() as folder:
                    peak = peak_bytes([*commands[who], "-o", os.path.join(folder, "kernel.cubin")])
                row[who] = {"seconds": outcome.seconds if outcome.cubin else None, "peak": peak,
                            "message": outcome.message.replace(f"{ROOT}/", "")[:500] if not outcome.cubin else "",
                            "code": dataclasses.asdict(facts) if facts else None}
            rows.append(row)
            jobs.append([path, target, level])
    progress("one warm process")
    warm = subprocess.run([sys.executable, "-m", "bench.warm"], cwd=ROOT, capture_output=True, text=True,
                          input=json.dumps({"jobs": jobs, "repeat": repeat}))
    if warm.returncode:
        print(f"the warm process failed:\n{warm.stderr}", file=sys.stderr)
        answer: dict[str, Any] = {"seconds": [None] * len(jobs), "memory": {}}
    else:
        answer = json.loads(warm.stdout)
    progress("")
    for row, seconds in zip(rows, answer["seconds"]):
        row["warm"] = seconds
    return {"rows": rows, "warm_memory": answer["memory"]}


def print_time(rows: list[dict[str, Any]], warm_memory: dict[str, int]) -> None:
    head = ("kernel", "target", "ours ms", "original ms", "ratio", "warm ms", "warm ratio", "ours MiB", "original MiB")
    body, ratios, warm_ratios = [], [], []
    for row in rows:
        ours, theirs = row["ours"]["seconds"], row["original"]["seconds"]
        if (r := ratio(ours, theirs)) is not None:
            ratios.append(r)
        if (w := ratio(row["warm"], theirs)) is not None:
            warm_ratios.append(w)
        body.append((row["kernel"], row["target"], milliseconds(ours), milliseconds(theirs), two(r),
                     milliseconds(row["warm"]), two(w), row["ours"]["peak"] >> 20, row["original"]["peak"] >> 20))
    print("Compile time and peak memory (whole command, medians; warm: one process of ours)\n")
    print(table.render(head, body))
    for title, values, goal in (("whole command", ratios, 4.0), ("warm process", warm_ratios, 2.0)):
        if values:
            print(f"\n  {title}: median ratio {statistics.median(values):.2f} over {len(values)} kernels "
                  f"(goal: at most {goal:g}), best {min(values):.2f}, worst {max(values):.2f}", end="")
    ours = statistics.median(row["ours"]["peak"] for row in rows) / 2**20
    theirs = statistics.median(row["original"]["peak"] for row in rows) / 2**20
    print(f"\n  peak memory: median {ours:.0f} MiB, the original {theirs:.0f} MiB; the warm process, after all of them, "
          f"{warm_memory.get('process', 0) >> 20} MiB and {warm_memory.get('worker', 0) >> 20} MiB in its LLVM worker")


def print_code(rows: list[dict[str, Any]]) -> None:
    head = ("kernel", "target", "spills", "original", "registers", "original", "instructions", "original", "ratio",
            "shared", "original")
    body = []
    for row in rows:
        mine, other = row["ours"]["code"] or {}, row["original"]["code"] or {}
        r = ratio(mine.get("instructions"), other.get("instructions"))
        body.append((row["kernel"], row["target"], *(d.get(key) for key in ("spills", "registers", "instructions")
                     for d in (mine, other)), two(r), mine.get("shared"), other.get("shared")))
    print("\nCode (spills: local loads and stores; instructions: SASS without padding; shared: bytes)\n")
    print(table.render(head, body))
    ratios = [r for row in rows if (r := ratio((row["ours"]["code"] or {}).get("instructions"),
                                               (row["original"]["code"] or {}).get("instructions"))) is not None]
    if ratios:
        print(f"\n  instructions: median ratio {statistics.median(ratios):.2f} over {len(ratios)} kernels")
    for who, title in (("ours", "ours"), ("original", "the original")):
        for row in rows:
            if row[who]["code"] is None:
                said = (row[who]["message"] or "no cubin").splitlines()[0]
                print(f"  {title} failed on {row['kernel']} for {row['target']}: {said[:160]}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--reference", type=pathlib.Path, required=True, metavar="PYTHON",
                        help="the Python of the environment that holds nvidia-cuda-tileiras")
    parser.add_argument("--gpu-name", action="append", metavar="sm_XX", help="default: sm_80, sm_90, sm_100, sm_120")
    parser.add_argument("-k", "--cases", metavar="REGEX", help="other cases of the suite")
    parser.add_argument("-O", dest="level", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="keep the figures in bench/results/")
    a = parser.parse_args(argv)
    if a.cases:
        names = [name for name in runner.cases() if re.search(a.cases, name)]
    else:
        names = [name for name in KERNELS if name in runner.cases()]
    targets = a.gpu_name or ["sm_80", "sm_90", "sm_100", "sm_120"]
    # A kernel's compile must not depend on what the shell allows.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    result = measure(names, targets, a.level, a.repeat, reference_command(a.reference))
    print_time(result["rows"], result["warm_memory"])
    print_code(result["rows"])
    if a.write:
        stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d-%H%M%S")
        path = ROOT / "bench" / "results" / f"{stamp}.json"
        path.parent.mkdir(exist_ok=True)
        for row in result["rows"]:
            for who in ("ours", "original"):
                if row[who]["code"]:
                    row[who]["code"].pop("opcodes")
        facts = {"machine": platform.machine(), "cpus": os.cpu_count(), "python": platform.python_version()}
        path.write_text(json.dumps({"facts": facts, "level": a.level, "repeat": a.repeat, **result}, indent=1) + "\n")
        print(f"\nwrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
