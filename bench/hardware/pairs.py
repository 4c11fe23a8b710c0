"""Launches whose sides run on a GPU one after the other with the same inputs: ours, the original's, or several codes of ours.

What `python -m bench.hardware.pairs FOLDER [--programs] [--launches NOTED ...] [--steps] [--sides]` puts into a plan (question 20;
`prepare` does so for all but --launches): whole programs of tests/programs with what must come out, launches that a suite of cuTile
programs made (`bench/speed/record.py`), the steps of a published ladder, and codes of ours for one kernel that docs/hardware.md
asks about. Small arrays and whole numbers are a launch's own, all of a program's are; other arrays of floats are random there.
"""
from __future__ import annotations

import argparse
import contextlib
import pathlib
import re
import sys
import unittest.mock
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tileiras
from bench.knobs import CODE_FENCE
from bench.speed import kernels, launches, original, programs, side, steps
from bench.speed.record import kept
from tests.programs import programs as whole_programs
from tileiras.codegen import ptxas
from tileiras.errors import CompileError
from tileiras.schedule import depth
from tileiras.sim.run.launch import PointerTable
from tileiras.transforms import overlap_dots

QUESTION = 20
SM = "sm_90"
OWN_BYTES = 1 << 16
"""Arrays of floats and bytes up to this size are stored."""
MOST_STORED = 4 << 20
"""Bytes of arrays of whole numbers that are stored; larger ones are random below their largest value."""
SIDES = ("attention_d128_f16", "attention_d64_f16", "attention_d64_causal_f16", "matmul_f16_4096", "matmul_bf16_4096_small",
         "gemm_swizzled_f16", "gemm_batched_f16", "gemm_e4m3_4096", "gemm_u8_i8_4096", "gemm_tf32_2048", "scan_cumsum_long_rows",
         "jacobi_5_point_f32", "layer_norm_backward_sum_parts", "add_rms_norm_f16", "matmul_bf16_64_rows", "matmul_bf16_long_k",
         "gemm_bias_gelu_f16")
"""Kernels of `make speed` that several codes of ours are made of: without agents, without the copy engine, with waits for products
that ptxas can't put elsewhere, with few registers, and as OTHERWISE says."""
OTHERWISE = {"given back late": (overlap_dots, "SHORT_RING", 0), "as many blocks as fit": (depth, "FEW_ROWS", 0)}
"""Who -> what is otherwise in that code: stages of short rings are given back an iteration later, products of few rows have the
rings that others have."""
WAIT = "wgmma.wait_group.sync.aligned 0;"
FEW_REGISTERS = 64
Parameter = list[Any]


@dataclass
class Pair:
    """An experiment, with the contents of its files."""
    name: str
    grid: tuple[int, ...]
    parameters: list[Parameter]
    stored: dict[str, np.ndarray]
    sides: dict[str, tuple[str, bytes]]
    """Who -> (kernel's name, cubin)."""
    failed: dict[str, str] = field(default_factory=dict)
    tolerance: float = 0.0

    def put(self, folder: pathlib.Path) -> dict[str, Any]:
        """Write its files; the plan's entry."""
        sides = []
        for who, (kernel, cubin) in self.sides.items():
            path = f"cubins/pair_{self.name}_{who.replace(' ', '_')}.cubin"
            (folder / path).write_bytes(cubin)
            sides.append({"who": who, "kernel": kernel, "cubin": path})
        entry: dict[str, Any] = {"name": f"pair/{self.name}", "question": QUESTION, "kind": "pair", "grid": list(self.grid),
                                 "parameters": self.parameters, "sides": sides, "tolerance": self.tolerance}
        if self.stored:
            entry["data"] = f"data/pair_{self.name}.npz"
            np.savez_compressed(folder / entry["data"], **self.stored)     # type: ignore[arg-type]
        return entry


class Parameters:
    """A launch's parameters as `run.py` takes them, and the arrays that it is to find. `expected` stands beside `flat`: what must
    come out, where that is known."""

    def __init__(self, flat: Sequence[Any], expected: Sequence[Any] | None = None) -> None:
        self.stored: dict[str, np.ndarray] = {}
        self.count, self.is_judged = 0, expected is not None
        self.list = [self._parameter(value, expected[i] if expected else None) for i, value in enumerate(flat)]

    def _parameter(self, value: Any, expected: Any) -> Parameter:
        if isinstance(value, PointerTable):
            words = expected.words if expected else [None] * len(value.words)
            return ["table", [self._parameter(w, e) for w, e in zip(value.words, words)]]
        if isinstance(value, np.ndarray) and value.ndim:
            return self._array(whole(value), None if expected is None else whole(expected))
        return ["raw", np.asarray(value).tobytes().hex()]

    def _array(self, array: np.ndarray, expected: np.ndarray | None) -> Parameter:
        key, self.count = f"a{self.count}", self.count + 1
        told: Parameter = ["array", array.size, str(array.dtype), 0]
        if expected is not None and expected.tobytes() != array.tobytes():
            self.stored[f"e{key}"] = np.frombuffer(expected.tobytes(), np.uint8)
        elif array.nbytes > (MOST_STORED if counts(array) or self.is_judged else OWN_BYTES):
            return [*told[:3], max(int(array.max()) + 1, 1)] if counts(array) else told
        self.stored[key] = np.frombuffer(array.tobytes(), np.uint8)
        return [*told, key]


def counts(array: np.ndarray) -> bool:
    """Whether its values may be places or lengths, which random ones can't stand for."""
    return array.dtype.kind in "iu" and array.itemsize > 1


def whole(value: Any) -> Any:
    """A parameter that later changes don't reach, an array by all words that it spans."""
    return launches.given(kept(value))


def compiled(bytecode: bytes, symbol: str, **options: Any) -> tuple[dict[str, tuple[str, bytes]], dict[str, str]]:
    """Both sides' kernel and cubin, and why one has none."""
    sides: dict[str, tuple[str, bytes]] = {}
    failed: dict[str, str] = {}
    ways: tuple[tuple[str, Callable[[], bytes]], ...] = (
        ("ours", lambda: tileiras.compile(bytecode, gpu_name=SM, opt_level=3, **options).cubin),
        ("original", lambda: original.compile_original(bytecode, SM)[1]))
    for who, way in ways:
        try:
            sides[who] = symbol, way()
        except programs.NONE as error:
            failed[who] = side.failure(error)["failed"]
    return sides, failed


def program(name: str) -> Pair:
    """A program of tests/programs with what must come out."""
    from tileiras.sim.cutile import export
    drawn = whole_programs.load_all()[name].launch()
    made = export(drawn.kernel, drawn.args, SM)
    arrays = whole_programs.arrays_of(drawn.args)
    before = [whole(p) for p in made.flat]
    for at, want in drawn.expected.items():
        with np.errstate(all="ignore"):
            arrays[at][...] = np.broadcast_to(np.asarray(want), arrays[at].shape).astype(arrays[at].dtype)
    given = Parameters(before, made.flat)
    sides, failed = compiled(made.bytecode, made.symbol)
    return Pair(name, (*drawn.grid, 1, 1)[:3], given.list, given.stored, sides, failed, drawn.tolerance)


def noted(path: str) -> Pair:
    """A launch that `record.py` has noted."""
    row = launches.Noted(pathlib.Path(path), SM)
    given = Parameters(row.flat)
    sides, failed = compiled(row.bytecode, row.symbol)
    return Pair(pathlib.Path(path).stem, row.grid, given.list, given.stored, sides, failed)


def step(number: str) -> Pair:
    """A step of the H100's ladder."""
    one = steps.LADDERS["h100"].steps[int(number)]
    case, bounds = kernels.case_of(one.kernel)
    given = Parameters(kernels.launch(case, bounds))
    with steps.without(one.without):
        sides, failed = compiled(side.bytecode_of(one.kernel), case.name,
                                 **({"hints": {"num_cta_in_cga": one.ctas}} if one.ctas else {}))
    return Pair(f"step_{number}", one.kernel.grid, given.list, given.stored, sides, failed)


def several(name: str) -> Pair:
    """Several codes of ours for a kernel of `make speed`; those that are another's aren't there."""
    kernel = kernels.by_name()[name]
    case, bounds = kernels.case_of(kernel)
    given, bytecode = Parameters(kernels.launch(case, bounds)), side.bytecode_of(kernel)
    made: dict[str, bytes] = {}
    for who, without in (("ours", ""), ("no agents", "agents"), ("no engine", "tma,agents")):
        with steps.without(without):
            module = tileiras.compile(bytecode, gpu_name=SM, opt_level=3)
        made[who] = module.cubin
        if not without:
            flags = ptxas.arguments(f"{SM}a", 3)
            made["waits pinned"] = ptxas.assemble(module.ptx.replace(WAIT, f"{CODE_FENCE}\n\t{WAIT}"), flags).cubin
            few = re.sub(r"\.minnctapersm \d+(\n\.maxnreg \d+)?", f".maxnreg {FEW_REGISTERS}", module.ptx)
            with contextlib.suppress(CompileError):     # a warpgroup's product may need more
                made["few registers"] = ptxas.assemble(few, flags).cubin
    for who, (module_of, constant, value) in OTHERWISE.items():
        with unittest.mock.patch.object(module_of, constant, value):
            made[who] = tileiras.compile(bytecode, gpu_name=SM, opt_level=3).cubin
    found = {who: cubin for who, cubin in made.items() if who == "ours" or cubin != made["ours"]}
    return Pair(f"var_{name}", kernel.grid, given.list, given.stored, {who: (case.name, cubin) for who, cubin in found.items()})


KINDS: dict[str, Callable[[str], Pair]] = {"program": program, "noted": noted, "step": step, "sides": several}


def made(job: tuple[str, str]) -> Pair | str:
    """A job's pair, or why there is none."""
    kind, name = job
    try:
        return KINDS[kind](name)
    except programs.NONE as error:      # a launch that can't be made costs that launch
        return f"{name}: {side.failure(error)['failed']}"


def jobs(with_programs: bool, folders: Sequence[pathlib.Path], with_steps: bool, with_sides: bool) -> list[tuple[str, str]]:
    """(kind, name) of what is asked for."""
    found = [("program", name) for name in programs.rows_of([], "last") if programs.since(name) <= 90] if with_programs else []
    found += [("noted", str(path)) for folder in folders for path in sorted(folder.glob("*.pickle"))]
    found += [("step", str(i)) for i in range(len(steps.LADDERS["h100"].steps) if with_steps else 0)]
    return found + [("sides", name) for name in (SIDES if with_sides else ())]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.hardware.pairs", description=str(__doc__).splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="of a plan that `prepare` made; its pairs are replaced")
    parser.add_argument("--programs", action="store_true")
    parser.add_argument("--launches", type=pathlib.Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--sides", action="store_true")
    parser.add_argument("--only", default="", help="names with this in them")
    options = parser.parse_args()
    from bench.hardware.prepare import Builder
    builder = Builder.again(options.folder)
    asked = [job for job in jobs(options.programs, options.launches, options.steps, options.sides) if options.only in job[1]]
    builder.pairs(asked)
    builder.finish()
    print("\n".join(builder.failed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
