"""One side of a comparison: a kernel compiled by us or by the original, predicted on a machine; kept by what it was made of."""
from __future__ import annotations

import functools
import hashlib
import io
import json
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import tileiras
from bench.speed import original
from bench.speed.kernels import Kernel, case_of, launch
from tests.kernels import runner, suite
from tileiras.machine.machines import Machine
from tileiras.machine.targets import REGISTERS_PER_SM
from tileiras.sim.run.launch import PointerTable
from tileiras.sim.timing import predict

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = ROOT / "build" / "speed"
RESULTS = ROOT / "bench" / "results" / "speed.json"
VERSION = "13.4"

EQUAL = {"c87a2afe5f4ec317": "edf61d29be8c19d9", "d93b34eef8c173d4": "edf61d29be8c19d9", "bd9cb8641d62b2f9": "edf61d29be8c19d9",
         "f1d42416476ade99": "edf61d29be8c19d9", "5761e88b9fe11a63": "edf61d29be8c19d9", "61e8d5b7078ac37d": "edf61d29be8c19d9"}
"""A state of the model -> an earlier one by which all launches of the tables take as long. 27 November: tensor memory limits how
many blocks share an SM. No row of docs/speed.md or docs/suite-speed.md has more there than it holds, by their columns and what else
limits them; 204 sides predicted again took the same cycles. Programs are launched with too few blocks for that. 28 November: what
the table of machines says of an H200, which no table is of; then, how often machine code goes around an unrolled loop that accesses
nothing: of docs/speed.md and docs/suite-speed.md (anchors and polarities of all sides compared; not of programs) four cases of the
suite have one, which were predicted again. 29 November: of which CTAs of a launch of clusters an estimate is made; then, that a
warp executes all ways that its lanes go, not the longest alone. Rows of docs/speed.md that noted such warps were predicted again,
and the suite (but 36 cases on an RTX 5090); programs weren't: those with warps at an array's end may take a little longer than
docs/program-speed.md says. Last, of CTAs of different lengths, which of them the SM has that is done last: three kernels of
docs/speed.md, which were predicted again (lengths of all sides compared on an H100); no suite case has more CTAs than SMs. 30
November: atomics of vectors whose type isn't their last word, which were refused before."""
COMPILER_TABLES = {"targets.py", "intrinsics.py", "control.py", "chains.py", "extract.py"}
"""Of tileiras/machine: what targets can do, and what the model's tables were made by. No time follows from these."""


@functools.cache
def model_key() -> str:
    """Changes with the timing model and its tables, and with the order in which a warp's lanes meet again."""
    digest = hashlib.sha256(f"{REGISTERS_PER_SM}".encode())
    digest.update((ROOT / "tileiras" / "sim" / "run" / "precedence.py").read_bytes())
    for folder in ("machine", "sim/timing"):
        for path in sorted((ROOT / "tileiras" / folder).rglob("*.py")):
            if folder != "machine" or path.name not in COMPILER_TABLES:
                digest.update(path.read_bytes())
    found = digest.hexdigest()[:16]
    return EQUAL.get(found, found)


@functools.cache
def published() -> dict[str, dict[str, Any]]:
    """The records that speed.json holds, by their keys: a fresh checkout predicts only what changed."""
    pairs = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    return {record["key"]: record for pair in pairs for record in (pair["ours"], pair["original"]) if "key" in record}


def key_of(ptx: str, cubin: bytes, machine: Machine, kernel: Kernel) -> str:
    """Stands for all that a prediction follows from, whatever the commit."""
    parts = [model_key().encode(), ptx.encode(), cubin, machine.name.encode(), f"{kernel}".encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]


def launch_key(cubin: bytes, grid: tuple[int, ...], flat: Sequence[Any], machine: Machine) -> str:
    """Stands for what a launch's prediction follows from: code, inputs, machine and model."""
    digest = hashlib.sha256(f"{model_key()} {machine.name} {grid}".encode() + cubin)
    for value in (word for p in flat for word in (p.words if isinstance(p, PointerTable) else [p])):
        array = np.asarray(value)
        digest.update(f"{array.dtype} {array.shape} ".encode() + array.tobytes())
    return digest.hexdigest()[:24]


def failure(error: Exception) -> dict[str, Any]:
    """The record of a side that has no prediction, with the reason."""
    return {"failed": f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"}


def bytecode_of(kernel: Kernel) -> bytes:
    """Kept by name, arguments and the suite's sources."""
    key = hashlib.sha256(f"{kernel} {runner._sources_key()}".encode()).hexdigest()[:16]
    path = CACHE / "bytecode" / f"{kernel.name}-{key}.tileirbc"
    if not path.exists():
        from cuda.tile.compilation import export_kernel
        case, _ = case_of(kernel)
        out = io.BytesIO()
        export_kernel(case.kernel, [suite.signature(case)], out, output_format="tileir_bytecode", bytecode_version=VERSION)
        runner.write_atomically(path, out.getvalue())
    return path.read_bytes()


def predicted(kernel: Kernel, machine: Machine, who: str) -> dict[str, Any]:
    """The prediction's record; with "failed" where there is none. `who`: "ours" or "original". "key" stands for what it follows
    from (PTX, cubin, machine, sizes and arguments, the model's sources) whatever the commit, "model" for the last of these."""
    start = time.perf_counter()
    bytecode = bytecode_of(kernel)
    sm = f"sm_{machine.sm}"
    try:
        if who == "ours":
            made = tileiras.compile(bytecode, gpu_name=sm, opt_level=3, lineinfo=True)
            ptx, cubin = made.ptx, made.cubin
        else:
            ptx, cubin = original.compile_original(bytecode, sm)
    except (tileiras.errors.TileirasError, original.NoOriginal) as error:
        return {"failed": str(error).splitlines()[0]}
    key = key_of(ptx, cubin, machine, kernel)
    path = CACHE / who / f"{kernel.name}-{machine.name.replace(' ', '-')}-{key}.json"
    if path.exists():
        return {**json.loads(path.read_text()), "key": key, "model": model_key()}
    if key in published():
        return published()[key]
    case, bounds = case_of(kernel)
    flat = launch(case, bounds)
    try:
        arguments = flat if who == "ours" else original.arguments(ptx, cubin, sm, flat)
        record: dict[str, Any] = predict(ptx, cubin, case.name, case.grid, arguments, machine.name).record()
    except (tileiras.errors.TileirasError, tileiras.sim.SimulationError, original.NoOriginal, LookupError) as error:
        record = {"failed": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    record["took"] = round(time.perf_counter() - start, 2)
    runner.write_atomically(path, json.dumps(record).encode())
    return {**record, "key": key, "model": model_key()}
