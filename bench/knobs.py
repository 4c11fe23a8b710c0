"""What do the original's pragmas for ptxas do to our code? `python -m bench.knobs [KERNEL ...] [--machines M,N] [--write FILE]`

The original marks code with two of ptxas' knobs. `next knob 0x1790`, behind the arrival that hands on what a thread has stored,
keeps ptxas from moving code across that place; `global knob 0x3290=1`, in kernels for sm_100 that compute exponentials, changes
how the scheduler counts the unit for them. Each is put into our PTX where the original has it, ptxas assembles both texts with
the options that it always gets, and the timing model predicts both. docs/knobs.md has a row for each kernel.
"""
from __future__ import annotations

import argparse
import pathlib
import re
import sys
from collections.abc import Callable
from typing import Any

import tileiras
from bench.cubin import inspect
from bench.speed import side
from bench.speed.kernels import Kernel, by_name, case_of, launch
from tileiras.codegen import ptxas
from tileiras.machine.machines import Machine, machine_of
from tileiras.machine.targets import find_target
from tileiras.sim.timing import predict

CODE_FENCE = '.pragma "next knob 0x1790";'
BUSY_EXPONENTIALS = '.pragma "global knob 0x3290=1";'
_FENCE = re.compile(r"^(?=[ \t]*(?:fence\.proxy\.async|mbarrier\.arrive|barrier\.cluster\.arrive))", re.MULTILINE)
_ARRIVAL = re.compile(r"^[ \t]*(?:@!?%\w+[ \t]+)?mbarrier\.arrive\S*[^;\n]*;", re.MULTILINE)
_EXPONENTIAL = re.compile(r"\b(?:ex2|tanh|lg2)\.approx")
_BODY = re.compile(r"^\{", re.MULTILINE)


def behind_arrivals(ptx: str) -> str:
    """A fence of code behind every arrival, in a line of its own."""
    return _ARRIVAL.sub(lambda match: f"{match[0]}\n{CODE_FENCE}", ptx)


def before_fences(ptx: str) -> str:
    """One before every arrival and every fence for asynchronous engines: where the specification has it."""
    return _FENCE.sub(f"{CODE_FENCE}\n", ptx)


def in_every_kernel(ptx: str) -> str:
    """The scheduler's knob at the beginning of kernels that compute exponentials."""
    return _BODY.sub(lambda match: f"{{\n{BUSY_EXPONENTIALS}", ptx) if _EXPONENTIAL.search(ptx) else ptx


KNOBS: dict[str, Callable[[str], str]] = {
    "0x1790 behind": behind_arrivals, "0x1790 before": before_fences, "0x3290=1": in_every_kernel}
KERNELS = ("matmul_f16_4096", "matmul_f16_f32_4096", "matmul_bf16_4096_wide", "gemm_tf32_2048", "gemm_u8_i8_4096",
           "attention_d64_f16", "attention_d128_f16", "softmax_4096x4096_f32", "softmax_streamed_bf16", "gelu_tanh_f16",
           "swiglu_bf16")
MACHINES = "H100,B200"


def predicted(kernel: Kernel, machine: Machine) -> dict[str, dict[str, Any]]:
    """By knob ("" for none): machine instructions, registers, microseconds. A knob that has no place in the code is left out."""
    target = find_target(f"sm_{machine.sm}")
    plain = tileiras.compile(side.bytecode_of(kernel), gpu_name=target.name, lineinfo=True).ptx
    case, bounds = case_of(kernel)
    found: dict[str, dict[str, Any]] = {}
    for name, put in {"": str, **KNOBS}.items():
        ptx = put(plain)
        if name and ptx == plain:
            continue
        cubin = ptxas.assemble(ptx, ptxas.arguments(target.ptx, 3, lineinfo=True)).cubin
        facts = next(iter(inspect(cubin).values()))
        made = predict(ptx, cubin, case.name, case.grid, launch(case, bounds), machine.name)
        found[name] = {"instructions": facts.instructions, "registers": facts.registers, "us": made.seconds * 1e6,
                       "estimated": made.is_estimate}
    return found


def row(kernel: Kernel, machine: Machine, found: dict[str, dict[str, Any]]) -> str:
    plain = found[""]
    cells = [f"{plain['us']:.1f} us, {plain['instructions']}, {plain['registers']}"]
    for name in KNOBS:
        other = found.get(name)
        if other is not None and other["estimated"] != plain["estimated"]:
            cells.append("not comparable: an estimate")
            continue
        changes = [] if other is None else [f"{other['us'] / plain['us'] - 1:+.2%}",
                                            *(f"{other[what] - plain[what]:+d}" for what in ("instructions", "registers"))]
        cells.append(", ".join(changes) or "-")
    return f"| {kernel.name} | {machine.name} | {' | '.join(cells)} |"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.knobs", description="what ptxas' knobs do to our code, predicted")
    parser.add_argument("kernels", nargs="*", help="names; a dozen where none is given")
    parser.add_argument("--machines", default=MACHINES, help=f"names with commas between ({MACHINES})")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE", help="add the table to this file")
    options = parser.parse_args(argv)
    known = by_name()
    lines = [f"| kernel | on | none: time, instructions, registers | {' | '.join(KNOBS)} |", "|" + "---|" * (3 + len(KNOBS))]
    print("\n".join(lines))
    for name in options.kernels or KERNELS:
        for machine in options.machines.split(","):
            lines.append(row(known[name], machine_of(machine), predicted(known[name], machine_of(machine))))
            print(lines[-1], flush=True)
    if options.write:
        with options.write.open("a") as page:
            page.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
