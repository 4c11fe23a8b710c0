"""Where the time of one cold command goes: `python -m bench.cold [CASE] [--gpu-name SM] [--repeat N]`.

Seconds of processor time, not of the clock, so that other work on the machine doesn't count; medians over runs, each in a
fresh process. Imports are counted where they happen, each module without what it imports in turn. LLVM's process works
beside the command's own from the first millisecond on; ptxas runs after both.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from tests.kernels import runner

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Runs in the fresh process: the command's own steps, with a stopwatch between them.
_CHILD = """
import time
clock = time.process_time
began = clock()
import importlib._bootstrap as bootstrap, json, os, resource, sys
sys.path.insert(0, {root!r})
spent, inside, load = {{}}, [0.0], bootstrap._load_unlocked

def timed(spec):
    start = clock()
    inside.append(0.0)
    try:
        return load(spec)
    finally:
        whole = clock() - start
        package = spec.name.partition(".")[0]
        group = package if package in ("tileiras", "xdsl") else "others"
        spent[group] = spent.get(group, 0.0) + whole - inside.pop()
        inside[-1] += whole

bootstrap._load_unlocked = timed

def step(name, function, *arguments):
    start, imports = clock(), inside[0]
    result = function(*arguments)
    steps.append((name, clock() - start - (inside[0] - imports)))
    return result

steps = [("Python itself", began)]
from tileiras.driver import startup
step("preparations of `driver/startup.py`", startup.prepare)
from tileiras.driver import main
from tileiras import compiler
for name in ("_read_module", "_lower"):
    def wrap(name=name, inner=getattr(compiler, name)):
        def run(*arguments):
            return step(name, inner, *arguments)
        return run
    setattr(compiler, name, wrap())
start, imports = clock(), inside[0]
code = main.main([{file!r}, "--gpu-name", {gpu!r}, "-o", os.devnull, "--lineinfo"])
assert code == 0, code
whole = clock() - start - (inside[0] - imports)
children = resource.getrusage(resource.RUSAGE_CHILDREN)
named = dict(steps)
read, lower = named["_read_module"], named["_lower"]
worker = sys.modules["tileiras.codegen.client"].worker_pid()
fields = open(f"/proc/{{worker}}/stat").read().rsplit(")", 1)[1].split()
llvm = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
print(json.dumps({{
    "Python itself": began, "preparations (`driver/startup.py`)": named["preparations of `driver/startup.py`"],
    "imports: xDSL": spent.get("xdsl", 0.0), "imports: this project": spent.get("tileiras", 0.0),
    "imports: Python's library": spent.get("others", 0.0), "reading and verifying": read,
    "passes, down to LLVM IR text": lower - read, "options, PTX, files, starting processes": whole - lower,
    "ptxas": children.ru_utime + children.ru_stime, "LLVM's process, beside all but ptxas": llvm}}))
sys.stdout.flush()
startup.remember()
os._exit(0)
"""


def profile(case: str, gpu: str, repeat: int) -> dict[str, float]:
    """Milliseconds by step, medians."""
    script = _CHILD.format(root=str(ROOT), file=str(runner.bytecode_path(case, runner.case_of(case).versions[0])), gpu=gpu)
    runs = []
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        for _ in range(repeat + 1):  # the first fills the cache
            done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120,
                                  env=environment)
            runs.append(json.loads(done.stdout))
    return {step: 1000 * statistics.median(run[step] for run in runs[1:]) for step in runs[0]}


def table(steps: dict[str, float]) -> str:
    """The steps as a Markdown table."""
    return "\n".join(["| step | ms of processor time |", "|---|---:|", *(f"| {step} | {ms:.1f} |" for step, ms in steps.items())])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.cold", description=__doc__)
    parser.add_argument("case", nargs="?", default="reduce_softmax_ragged")
    parser.add_argument("--gpu-name", default="sm_90")
    parser.add_argument("--repeat", type=int, default=9)
    a = parser.parse_args(argv)
    print(table(profile(a.case, a.gpu_name, a.repeat)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
