"""What does `ct.launch` do while the simulator stands in for the GPU? And `ct.tune`, and what asks for a device?

`install` puts the stand-in in place for the whole process, `uninstall` takes it away. In the frontend these are replaced:
launch, the benchmark that tuning times kernels with, the device's capability, signatures from arguments, the newest
bytecode version. Outside of it: PyTorch's CUDA (`torchcuda`), the calls of JAX's wrapper (`jaxcalls`), CuPy where a program
wants it and it isn't installed (`cupyarrays`).
"""
from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from tileiras.errors import CompileError
from tileiras.sim.cutile import budget, specialize
from tileiras.sim.cutile.arguments import flatten
from tileiras.sim.cutile.errors import ArgumentTypeError, ArgumentValueError
from tileiras.sim.cutile.imports import After
from tileiras.sim.cutile.patches import Patches
from tileiras.sim.errors import BudgetExceeded
from tileiras.sim.run.launch import MAX_GRID, PointerTable

if TYPE_CHECKING:
    from tileiras.sim import Report

DEFAULT_GPU = "sm_90"
MAX_BLOCKS_AN_AXIS = 2**24 - 1    # the frontend's own limit
MAX_REPORTS = 1000

reports: list[Report] = []
"""The report of every launch since `install` or the last `reports.clear()`, at most MAX_REPORTS."""
_patches = Patches()
_options: dict[str, Any] = {}
_gpu = DEFAULT_GPU


def grid_of(grid: Any) -> tuple[int, ...]:
    """A launch's grid, as the frontend's launcher takes it: a tuple of up to three whole numbers, () for one block."""
    if not isinstance(grid, tuple):
        raise ArgumentTypeError(f"Grid must be a tuple, not {type(grid).__name__}")
    if len(grid) > len(MAX_GRID):
        raise ArgumentValueError(f"Grid dimensions must be at most {len(MAX_GRID)}, got length {len(grid)}")
    for axis, n in enumerate(grid):
        if not hasattr(n, "__index__"):
            raise ArgumentTypeError(f"Grid[{axis}] is {n!r}, no whole number")
        if index(n) > MAX_BLOCKS_AN_AXIS:
            raise ArgumentValueError(f"Grid[{axis}] exceeds 24-bit limit: max={MAX_BLOCKS_AN_AXIS}, got={index(n)}. "
                                     "Use multiple kernel launches for larger workloads.")
        if not 0 < index(n) <= MAX_GRID[axis]:
            raise ArgumentValueError(f"Grid[{axis}] is {index(n)}; it may be 1 to {MAX_GRID[axis]}")
    return tuple(index(n) for n in grid) or (1,)


def launch(stream: Any, grid: Any, kernel: Any, kernel_args: Any, /, *, programmatic_dependent_launch: bool = False) -> None:
    """In place of the frontend's launch: compile, simulate, write the arrays. The stream is taken for any."""
    blocks = grid_of(grid)
    if not isinstance(kernel_args, tuple):
        raise ArgumentTypeError(f"launch() takes the kernel's arguments as a tuple, not as a {type(kernel_args).__name__}")
    _keep(_run(kernel, blocks, kernel_args))


def _run(kernel: Any, blocks: tuple[int, ...], args: tuple) -> Report:
    """A launch of a cuTile kernel."""
    name = getattr(getattr(kernel, "_pyfunc", None), "__name__", "kernel")
    return _simulated(name, kernel, blocks, args, lambda: flatten(kernel, args).parameters, gpu_name=_gpu)


def _run_bytecode(bytecode: bytes, gpu: str, level: int, symbol: str, blocks: tuple[int, ...], flat: list[Any]) -> None:
    """A launch of a kernel's bytecode with its flat launch parameters, as JAX asks for it."""
    _keep(_simulated(symbol, bytecode, blocks, flat, lambda: flat, gpu_name=gpu, opt_level=level, name=symbol))


def _simulated(called: str, kernel: Any, blocks: tuple[int, ...], args: Sequence[Any], parameters: Callable[[], list[Any]],
               **how: Any) -> Report:
    """One launch of any kind, within the budget; `parameters()`: what it is launched with, flat."""
    from tileiras.launcher import launch as simulate
    from tileiras.sim.cutile import torchcuda

    with torchcuda.plain(), budget.current.launch(called):
        arrays = _arrays(parameters()) if _flip is not None else []
        before = [a.tobytes() for a in arrays]
        try:
            report = simulate(kernel, blocks, args, **{**_options, **how, **budget.current.limit()})
        except CompileError as error:
            budget.current.refusal = str(error)
            raise _as_the_frontends(error) from error
    budget.current.issued += report.issued
    for finding in report.findings:
        budget.current.found(finding)
    if _flip is not None:
        _flip(arrays, before)
    return report


def _keep(report: Report) -> None:
    if len(reports) < MAX_REPORTS:
        reports.append(report)


def _arrays(parameters: list[Any]) -> list[np.ndarray]:
    """The arrays among launch parameters, also those in tables."""
    words = [w for p in parameters for w in (p.words if isinstance(p, PointerTable) else [p])]
    return [w for w in words if isinstance(w, np.ndarray)]


def _as_the_frontends(error: CompileError) -> Exception:
    """A refusal as programs know it: tuning, for one, goes on with the next configuration."""
    from cuda.tile._exception import Loc, TileCompilerExecutionError

    from tileiras.version import __version__
    return TileCompilerExecutionError(error.exit_code, str(error), Loc.unknown(), f"--gpu-name {_gpu}", __version__)


def gpu_name() -> str:
    """The SM that launches are compiled for."""
    return _gpu


# ---- tuning

MAX_MEASURED = 4096
MAX_BYTES_KEPT = 1 << 28


@dataclass
class _Measured:
    """What a launch took, in microseconds, and what it wrote: arrays by their number among the launch's."""
    microseconds: float
    written: dict[int, bytes]


_measured: dict[tuple, _Measured] = {}
_bytes_kept = 0


def benchmark(stream: Any, grid: Any, kernel: Any, args: tuple, flush_l2: bool = True, /) -> float:
    """In place of the frontend's timing: the least time in microseconds that the launch's work needs on the target, by
    the simulator's estimate. A launch is run once; asked for again with the same in its arrays, it takes as long and writes the
    same again."""
    blocks = grid_of(grid)
    from tileiras.sim.cutile import torchcuda
    with torchcuda.plain():
        exported = specialize.export(kernel, args, _gpu)
    arrays = _arrays(exported.flat)
    before = [a.tobytes() for a in arrays]
    contents = tuple((a.shape, a.strides, str(a.dtype), hashlib.sha256(data).digest()) for a, data in zip(arrays, before))
    scalars = tuple(repr(p) for p in exported.flat if not isinstance(p, np.ndarray | PointerTable))
    key = exported.bytecode, exported.opt_level, blocks, contents, scalars
    known = _measured.get(key)
    if known is not None:
        for number, data in known.written.items():
            arrays[number][...] = np.frombuffer(data, arrays[number].dtype).reshape(arrays[number].shape)
        return known.microseconds
    estimate = _run(kernel, blocks, args).estimate
    made = _Measured(estimate.seconds * 1e6 if estimate is not None else 0.0,
                     {n: data for n, (a, old) in enumerate(zip(arrays, before)) if (data := a.tobytes()) != old})
    _remember(key, made)
    return made.microseconds


def _remember(key: tuple, made: _Measured) -> None:
    """Keep a measurement, and forget all older ones where there is no more room."""
    global _bytes_kept
    size = sum(map(len, made.written.values()))
    if len(_measured) >= MAX_MEASURED or _bytes_kept + size > MAX_BYTES_KEPT:
        _forget()
    if size <= MAX_BYTES_KEPT:
        _measured[key] = made
        _bytes_kept += size


def _forget() -> None:
    global _bytes_kept
    _measured.clear()
    _bytes_kept = 0


_to_time: dict[bytes, tuple] = {}
"""Launches that are to be timed under a limit, by the payload that stands for each."""


def _payload(*launch: Any) -> bytes:
    """In place of what the frontend hands to a process that times a launch and can be ended: a number for the launch."""
    _to_time.clear()        # the frontend times one at a time
    payload = os.urandom(16)
    _to_time[payload] = launch
    return payload


def _time(runner: Any, payload: bytes, limit: float) -> tuple[float, float]:
    """In place of timing by that process: microseconds, and seconds on the clock. Over the limit is a launch whose estimate is,
    and one that goes over the instructions that a simulation may issue."""
    from cuda.tile.tune._tune_utils import TileLaunchTimeoutError

    start = time.perf_counter()
    try:
        microseconds = benchmark(*_to_time.pop(payload))
    except BudgetExceeded as error:
        raise TileLaunchTimeoutError(f"CUDA kernel launch exceeded timeout {limit} sec: {error}") from error
    if microseconds > limit * 1e6:
        raise TileLaunchTimeoutError(f"CUDA kernel launch exceeded timeout {limit} sec: it takes at least {microseconds / 1e6:g}")
    return microseconds, time.perf_counter() - start


# ---- in place and away

_flip: Callable[[list[np.ndarray], list[bytes]], None] | None = None


def installed() -> bool:
    return bool(_patches)


def flip_outputs(flip: Callable[[list[np.ndarray], list[bytes]], None]) -> None:
    """Let `flip(arrays, their bytes before)` damage an array after each launch: tests that pass all the same check nothing."""
    global _flip
    _flip = flip


def install(gpu_name: str | None = None, *, torch: bool = True, cupy: bool = False, children: bool = False,
            **options: Any) -> None:
    """Make `ct.launch` simulate from now on. `gpu_name`: by default the environment's TILEIRAS_SIM_GPU, or sm_90.

    `torch`: where PyTorch is imported and sees no GPU, its 'cuda' tensors live on the CPU. `cupy`: `import cupy` finds a
    stand-in on NumPy where CuPy isn't installed. `children`: Python programs that this one starts get the same.
    `options`: as of `tileiras.launch`."""
    import cuda.tile as ct
    from cuda.tile import _cext, _compile
    from cuda.tile.tune import _tune, _tune_utils  # noqa: F401  (names are bound now, so that they can be replaced)

    from tileiras.machine.targets import find_target

    global _gpu
    name = gpu_name or os.environ.get("TILEIRAS_SIM_GPU") or DEFAULT_GPU
    find_target(name)
    uninstall()
    _gpu = name
    _options.clear()
    _options.update(options)
    capability = specialize.capability(name)
    _patches.replace(_cext.launch, launch)
    _patches.replace(_cext.get_compute_capability, lambda device_id=0: capability)
    _patches.replace(_cext._benchmark, benchmark)
    _patches.replace(_cext._export_ipc_benchmark_payload, _payload)
    _patches.set(_tune_utils._TimedBenchmarkRunner, "run", _time)
    _patches.replace(_cext._get_max_grid_size, lambda device_id=0: MAX_GRID)
    _patches.replace(_cext.get_parameter_constraints_from_pyargs, _constraints)
    _patches.replace(_cext._synchronize_context, lambda: None)
    _patches.replace(_compile.compile_cubin, specialize.remembering(_compile.compile_cubin))
    _patches.replace(_compile._get_max_supported_bytecode_version, specialize.newest_version)
    _compile.get_sm_arch.cache_clear()
    _commands_on_path()
    assert ct.launch is launch
    if torch:
        from tileiras.sim.cutile import torchcuda
        if "torch" in sys.modules:
            torchcuda.install(_patches, name)
        else:
            _patches.at_end(After({"torch": lambda: torchcuda.install(_patches, name)}).remove)
    from tileiras.sim.cutile import jaxcalls
    jaxcalls.install(_patches, name, _run_bytecode)
    if cupy:
        from tileiras.sim.cutile import cupyarrays
        cupyarrays.install(_patches, name)
    if children:
        from tileiras.sim.cutile import children as processes
        processes.install(_patches, name, cupy)


def _constraints(kernel: Any, args: tuple, convention: Any, /) -> list[Any]:
    """In place of the frontend's signature from example arguments."""
    from tileiras.sim.cutile import torchcuda

    with torchcuda.plain():
        return flatten(kernel, args, shapes=convention.version >= 2).constraints


def _commands_on_path() -> None:
    """Programs that compile to cubins find `tileiras` beside this interpreter."""
    beside = os.path.dirname(sys.executable)
    if shutil.which("tileiras") is None and shutil.which("tileiras", path=beside) is not None:
        _patches.environment("PATH", beside + os.pathsep + os.environ.get("PATH", ""))


def uninstall() -> None:
    """Give the frontend, PyTorch and the environment back what they had."""
    global _flip
    if not _patches:
        return
    from cuda.tile import _compile

    from tileiras.sim.cutile import torchcuda
    torchcuda.uninstall()
    _patches.undo()
    _compile.get_sm_arch.cache_clear()
    _forget()
    _to_time.clear()
    _flip = None
