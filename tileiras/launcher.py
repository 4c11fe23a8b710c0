"""`launch`: compile a tile kernel for an SM and run it in the simulator, on NumPy arrays, without a GPU."""
from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from operator import index
from typing import TYPE_CHECKING, Any

from tileiras.errors import ConfigError

if TYPE_CHECKING:
    from tileiras.compiler import CompiledModule
    from tileiras.sim import Report
    from tileiras.sim.timing.prediction import Prediction

FINDINGS = ("raise", "keep")


@lru_cache(maxsize=64)
def compiled(bytecode: bytes, gpu_name: str, opt_level: int) -> CompiledModule:
    """The module's PTX, with source lines for the findings; the last few are kept."""
    import tileiras
    return tileiras.compile(bytecode, gpu_name, opt_level, lineinfo=True, emit="ptx")


def dimensions(grid: Any) -> tuple[int, ...]:
    """A grid as a tuple of whole numbers, () being one block. Raises ConfigError where it is none; its range is for the
    simulator to judge."""
    try:
        return tuple(index(n) for n in ((grid,) if hasattr(grid, "__index__") else grid)) or (1,)
    except TypeError:
        raise ConfigError(f"grid is {grid!r}; it may be a whole number, or up to three of them") from None


def launch(kernel: Any, grid: int | Sequence[int], args: Sequence[Any], *, gpu_name: str = "sm_90",
           opt_level: int | None = None, name: str | None = None, findings: str = "raise", time: str | None = None,
           **simulation: Any) -> Report:
    """Compile a kernel for `gpu_name` and run it in the simulator; arrays are written in place.

    `kernel`: a cuTile kernel (`@ct.kernel`), whose `args` are those of `ct.launch` with NumPy arrays or CPU tensors for
    arrays; or Tile IR bytecode, whose `args` are the flat launch parameters of its entry `name` (default: the only
    one): an array for a pointer, then its shape and strides as the frontend passes them. `grid`: tile blocks, up to
    three dimensions. `opt_level`: by default the kernel's own, or 3. `findings`: "raise" raises the first finding (a
    race, a branch on a value that was never written) after the arrays are written; "keep" leaves them in the report.
    `time`: the name of a machine, as "H100"; the report's `prediction` then says how long the launch takes there.
    `simulation`: options of `tileiras.sim.simulate`, such as `seed` and `max_instructions`.

    What the kernel prints goes to the standard output, also what it printed before a fault. Returns the simulator's
    report. Raises the errors of `tileiras.compile`, and a `tileiras.sim.SimulationError` for a fault in the kernel."""
    from tileiras import sim

    if findings not in FINDINGS:
        raise ConfigError(f"findings is {findings!r}; it may be raise or keep")
    blocks = dimensions(grid)
    if isinstance(kernel, bytes | bytearray | memoryview):
        bytecode, flat, called = bytes(kernel), list(args), None
        level = 3 if opt_level is None else opt_level
    else:
        from tileiras.machine.targets import find_target
        from tileiras.sim.cutile.specialize import export
        find_target(gpu_name)                # before the frontend, which asks for less
        exported = export(kernel, args, gpu_name)
        bytecode, flat, name, called = exported.bytecode, exported.flat, exported.symbol, exported.names
        level = exported.opt_level if opt_level is None else opt_level
    module = compiled(bytecode, gpu_name, level)
    prediction = None if time is None else predicted(bytecode, gpu_name, level, name, blocks, flat, time, simulation)
    try:
        report = sim.simulate(module.ptx, name, blocks, flat, names=called, **simulation)
    except sim.SimulationError as error:
        sys.stdout.write(error.output)
        raise
    report.prediction = prediction
    sys.stdout.write(report.output)
    if findings == "raise" and report.findings:
        raise report.findings[0]
    return report


def predicted(bytecode: bytes, gpu_name: str, opt_level: int, name: str | None, grid: tuple[int, ...], flat: list, machine: str,
              simulation: dict[str, Any]) -> Prediction:
    """How long a launch takes on a machine; the arrays stay as they are. Raises ConfigError for a machine that there isn't, or
    that doesn't run code of this SM."""
    import tileiras
    from tileiras.sim.timing.cubin import Cubin
    from tileiras.sim.timing.predictor import predict

    module = tileiras.compile(bytecode, gpu_name, opt_level, lineinfo=True)
    kernel = name or next(iter(Cubin(module.cubin).kernels), "")
    given = {k: simulation[k] for k in ("cluster", "dynamic_shared") if k in simulation}
    try:
        return predict(module.ptx, module.cubin, kernel, grid, flat, machine, **given)
    except LookupError as error:
        raise ConfigError(str(error.args[0] if error.args else error)) from error
