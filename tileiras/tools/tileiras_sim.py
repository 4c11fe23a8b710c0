"""The command `tileiras-sim`: run a kernel on NumPy arrays, without a GPU, and check what it does.

    tileiras-sim kernel.ptx --grid 16,1 --arg x.npy --arg out:f32:1024 --arg i32:1024 --save 1=result.npy
    tileiras-sim kernel.tileirbc --gpu-name sm_90 --grid 16 --arg ...

Tile IR bytecode is compiled first; its grid counts tile blocks. An argument is, in the kernel's order:
`FILE.npy` (an array; the file stays as it is), `out:TYPE:SHAPE` (an array of zeros, as `out:f32:16x256`), or
`TYPE:VALUE` (a scalar).

    tileiras-sim kernel.tileirbc --gpu-name sm_90 --grid 1024 --arg ... --time --machine H100 --timeline trace.json

`--time` predicts how long the launch takes on a machine instead of running all of it: a sample of the blocks is run, and its
machine code replayed. PTX is assembled for that with line information, unless `--cubin` names its cubin; a cubin with embedded
PTX may also stand in the kernel's place.

Exit codes: 0 success; 1 a malformed command line; 4 a file that can't be read or written; 5 a fault in the kernel, which
is printed with its PTX line, or with `--fail-on-finding` a finding; for bytecode those of `tileiras` too (2, 3, 5). Runs of
more than a second show how far they are on a terminal.
"""
from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tileiras.errors import CompileError, ConfigError, InputError, UsageError
from tileiras.tools.support import PROGRAM_ERRORS, Arguments, ShowVersion, read_bytes, report

if TYPE_CHECKING:
    from tileiras.sim import Progress

_TYPES = {"i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32",
          "u64": "uint64", "f16": "float16", "f32": "float32", "f64": "float64", "bool": "bool"}
SHOWN = 8
BAR = 30                    # characters of the progress bar
FIRST_SHOWN, SHOWN_EVERY = 1.0, 0.25        # seconds


def _arguments() -> argparse.ArgumentParser:
    parser = Arguments(prog="tileiras-sim", description="tileiras-sim: run a PTX kernel on the CPU and check what it does")
    parser.add_argument("input", metavar="<PTX or Tile IR bytecode file>")
    parser.add_argument("--gpu-name", default="sm_90", metavar="SM", help="what bytecode is compiled for (default: sm_90)")
    parser.add_argument("--opt-level", "-O", type=int, default=3, metavar="N", help="bytecode's level (default: 3)")
    parser.add_argument("--kernel", help="the entry to run (default: the only one)")
    parser.add_argument("--grid", default="1", metavar="X,Y,Z", help="blocks in the grid (default: 1)")
    parser.add_argument("--block", metavar="X,Y,Z", help="threads in a block (default: the kernel's .reqntid)")
    parser.add_argument("--arg", action="append", default=[], metavar="ARG",
                        help="a launch argument: FILE.npy, out:TYPE:SHAPE, or TYPE:VALUE, with types "
                             + " ".join(_TYPES))
    parser.add_argument("--save", action="append", default=[], metavar="N=FILE.npy",
                        help="write argument N's array to a file after the run")
    parser.add_argument("--shared", type=int, default=0, metavar="BYTES", help="dynamic shared memory")
    parser.add_argument("--max-instructions", type=int, metavar="N", help="stop after issuing so many instructions")
    parser.add_argument("--strict", action="store_true",
                        help="any arithmetic on a register that was never written is a fault")
    parser.add_argument("--seed", type=int, default=0, metavar="N",
                        help="in which order asynchronous operations happen (0: each as late as may be)")
    parser.add_argument("--fail-on-finding", action="store_true", help="exit with 5 when there are findings")
    parser.add_argument("--counts", action="store_true", help="print the instructions executed by kind")
    parser.add_argument("--time", action="store_true", help="predict how long the launch takes, and run a sample of it only")
    parser.add_argument("--machine", default="", metavar="NAME",
                        help="the machine to predict for, as H100 (default: the usual one of the SM)")
    parser.add_argument("--cubin", metavar="FILE", help="the PTX file's machine code, assembled with -lineinfo")
    parser.add_argument("--timeline", metavar="FILE", help="write the predicted timeline there, in the Chrome trace format")
    parser.add_argument("--no-progress", action="store_true", help="no progress bar")
    parser.add_argument("--version", action=ShowVersion, nargs=0, help="show the version and exit")
    return parser


def _dimensions(text: str) -> tuple[int, ...]:
    try:
        dims = tuple(int(part) for part in text.replace("x", ",").split(","))
    except ValueError:
        raise UsageError(f"'{text}' isn't a list of dimensions") from None
    if not 1 <= len(dims) <= 3:
        raise UsageError(f"'{text}' has {len(dims)} dimensions; there are three at most")
    return dims


def _load(path: str):
    import numpy as np

    try:
        return np.load(path, allow_pickle=False)
    except OSError as error:
        raise InputError(f"unable to read input file '{path}': {error.strerror or error}") from error
    except ValueError as error:
        raise InputError(f"'{path}' holds no plain array: {error}") from error


def _argument(text: str):
    """One launch argument from the command line."""
    import numpy as np

    if text.endswith(".npy"):
        return _load(text)
    kind, _, rest = text.partition(":")
    try:
        if kind == "out":
            name, _, shape = rest.partition(":")
            return np.zeros(tuple(int(n) for n in shape.split("x")), _TYPES[name])
        if kind == "bool":
            return np.bool_(rest.lower() in ("1", "true"))
        return np.dtype(_TYPES[kind]).type(float(rest) if kind[0] == "f" else int(rest, 0))
    except (KeyError, ValueError, OverflowError, MemoryError):
        raise UsageError(f"'{text}' is no argument: give FILE.npy, out:TYPE:SHAPE or TYPE:VALUE") from None


def _save(request: str, args: list) -> None:
    import numpy as np

    number, _, path = request.partition("=")
    if not number.isdigit() or int(number) >= len(args) or not isinstance(args[int(number)], np.ndarray) or not path:
        raise UsageError(f"'{request}' names no array argument and file")
    try:
        np.save(path, args[int(number)])
    except OSError as error:
        raise InputError(f"unable to write output file '{path}': {error.strerror}") from error


def _ptx(path: str, gpu_name: str, level: int) -> str:
    """The PTX to run: the file's, or what its bytecode compiles to. Raises InputError and the compiler's errors."""
    from tileiras.magic import MAGIC

    data = read_bytes(path)
    if data.startswith(MAGIC):
        from tileiras.launcher import compiled

        return compiled(data, gpu_name, level).ptx
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"'{path}' is neither Tile IR bytecode nor UTF-8 text: {error.reason} at byte "
                         f"{error.start}") from error


def _machine_code(given: argparse.Namespace) -> tuple[str, bytes]:
    """The PTX to predict, and its cubin. Raises InputError and the compiler's errors."""
    import re

    from tileiras.codegen.ptxas import arguments, assemble
    from tileiras.magic import MAGIC
    from tileiras.sim.timing.cubin import ELF, Cubin

    data = read_bytes(given.input)
    if data.startswith(MAGIC):
        import tileiras

        module = tileiras.compile(data, given.gpu_name, given.opt_level, lineinfo=True)
        return module.ptx, module.cubin
    if data.startswith(ELF):
        text = Cubin(data).ptx
        if not text:
            raise InputError(f"the cubin '{given.input}' embeds no PTX: compile with --lineinfo")
        return text, data
    text = _ptx(given.input, given.gpu_name, given.opt_level)
    if given.cubin:
        return text, read_bytes(given.cubin)
    target = re.search(r"^\s*\.target\s+(\w+)", text, re.MULTILINE)
    return text, assemble(text, arguments(target[1] if target else given.gpu_name, 3, lineinfo=True)).cubin


def _predict(given: argparse.Namespace, args: list) -> None:
    """Print how long the launch would take."""
    from tileiras.sim.timing.cubin import Cubin
    from tileiras.sim.timing.predictor import predict

    text, cubin = _machine_code(given)
    kernels = Cubin(cubin).kernels
    kernel = given.kernel or (kernels[0] if len(kernels) == 1 else "")
    if not kernel:
        raise UsageError(f"the cubin has {len(kernels)} kernels; name one of: {', '.join(kernels)}")
    try:
        prediction = predict(text, cubin, kernel, _dimensions(given.grid), args, given.machine, dynamic_shared=given.shared,
                             timeline=bool(given.timeline))
    except LookupError as error:
        raise ConfigError(str(error.args[0] if error.args else error)) from error
    print(prediction.text())
    if given.timeline:
        try:
            with open(given.timeline, "w") as file:
                file.write(prediction.timeline())
        except OSError as error:
            raise InputError(f"unable to write output file '{given.timeline}': {error.strerror}") from error


@contextmanager
def _bar(progress: Progress, wanted: bool) -> Iterator[None]:
    """A line on the terminal that says how far a long run is."""
    if not wanted or not sys.stderr.isatty():
        yield
        return
    done = threading.Event()

    def draw() -> None:
        wait = FIRST_SHOWN
        while not done.wait(wait):
            wait = SHOWN_EVERY
            full = BAR * progress.blocks // max(progress.total, 1)
            sys.stderr.write(f"\r[{'#' * full}{'.' * (BAR - full)}] {progress.blocks:,} of {progress.total:,} blocks, "
                             f"{progress.issued:,} instructions issued ")
            sys.stderr.flush()
        if wait == SHOWN_EVERY:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    drawer = threading.Thread(target=draw, daemon=True)
    drawer.start()
    try:
        yield
    finally:
        done.set()
        drawer.join()


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit code."""
    given = _arguments().parse_args(arguments)
    try:
        if (given.timeline or given.machine or given.cubin) and not given.time:
            raise UsageError("--machine, --cubin and --timeline go with --time")
        if given.time:
            _predict(given, [_argument(a) for a in given.arg])
            return 0
        text = _ptx(given.input, given.gpu_name, given.opt_level)
        import numpy as np

        from tileiras.sim import Progress, simulate
        from tileiras.sim.run.launch import DEFAULT_BUDGET

        args = [_argument(a) for a in given.arg]
        start = time.perf_counter()
        progress = Progress()
        with _bar(progress, not given.no_progress):
            result = simulate(text, given.kernel, _dimensions(given.grid), args,
                              _dimensions(given.block) if given.block else None, dynamic_shared=given.shared,
                              max_instructions=given.max_instructions or DEFAULT_BUDGET,
                              undefined="raise" if given.strict else "propagate", seed=given.seed, progress=progress)
        seconds = time.perf_counter() - start
        sys.stdout.write(result.output)
        for finding in result.findings:
            print(f"finding: {finding}")
        for i, a in enumerate(args):
            if isinstance(a, np.ndarray):
                flat = a.reshape(-1)
                more = " ..." if flat.size > SHOWN else ""
                print(f"argument {i}: {a.dtype}{list(a.shape)} = {' '.join(str(x) for x in flat[:SHOWN])}{more}")
        rate = result.instructions / max(seconds, 1e-9) / 1e6
        print(f"{result.kernel}: {result.instructions:,} thread-instructions in {seconds:.2f} s ({rate:.1f} million/s)")
        if given.counts:
            for kind, n in sorted(result.kinds.items(), key=lambda item: (-item[1], item[0])):
                print(f"{n:>16,}  {kind}")
        for request in given.save:
            _save(request, args)
        if given.fail_on_finding and result.findings:
            return CompileError.exit_code
    except PROGRAM_ERRORS as error:
        sys.stdout.write(getattr(error, "output", ""))
        return report(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
