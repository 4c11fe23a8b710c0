"""cuTile Python without a GPU: an unmodified program's `ct.launch` takes NumPy arrays or CPU tensors and simulates.

    python -m tileiras.sim.cutile program.py [ARGUMENT ...]        # or, at the top of a program:

    import tileiras.sim.cutile
    tileiras.sim.cutile.install(gpu_name="sm_90")
"""
from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tileiras.errors import ConfigError, TileirasError
from tileiras.launcher import launch as simulated
from tileiras.machine.targets import find_target
from tileiras.sim.run.signature import DEFAULT_GPU, as_array, export

if TYPE_CHECKING:
    from tileiras.sim.run.launch import Report

__all__ = ["as_array", "export", "install", "main", "reports", "uninstall"]

reports: list[Report] = []
"""The report of every launch since `install` or the last `reports.clear()`, at most MAX_REPORTS."""
MAX_REPORTS = 1000
_installed: list[tuple[Any, str, Any]] = []


def install(gpu_name: str | None = None, **options: Any) -> None:
    """Make `ct.launch` simulate from now on. `gpu_name`: by default the environment's TILEIRAS_SIM_GPU, or sm_90.
    `options`: as of `tileiras.launch`."""
    import cuda.tile as ct
    from cuda.tile import _cext

    name = gpu_name or os.environ.get("TILEIRAS_SIM_GPU") or DEFAULT_GPU
    find_target(name)
    uninstall()
    digits = name.removeprefix("sm_").rstrip("af")
    capability = int(digits[:-1]), int(digits[-1])

    def launch(stream: Any, grid: Any, kernel: Any, kernel_args: tuple, /, *,
               programmatic_dependent_launch: bool = False) -> None:
        """In place of the frontend's launch: compile, simulate, write the arrays."""
        report = simulated(kernel, grid, kernel_args, gpu_name=name, **options)
        if len(reports) < MAX_REPORTS:
            reports.append(report)

    _replace(_cext.launch, launch)
    _replace(_cext.get_compute_capability, lambda device_id=0: capability)
    assert ct.launch is launch
    _stand_in_for_streams()


def _replace(old: Callable, new: Callable) -> None:
    """Bind `new` wherever a loaded module holds `old`."""
    for module in list(sys.modules.values()):
        names = [n for n, v in list(getattr(module, "__dict__", {}).items()) if v is old]
        for n in names:
            setattr(module, n, new)
            _installed.append((module, n, old))


def _stand_in_for_streams() -> None:
    """Programs ask PyTorch for a stream to launch on, which one built for the CPU can't give."""
    torch = sys.modules.get("torch")
    if torch is None or torch.cuda.is_available():
        return
    for name, stand_in in (("current_stream", lambda device=None: None), ("synchronize", lambda device=None: None)):
        _installed.append((torch.cuda, name, getattr(torch.cuda, name)))
        setattr(torch.cuda, name, stand_in)


def uninstall() -> None:
    """Give the frontend its own launcher back."""
    while _installed:
        module, name, old = _installed.pop()
        setattr(module, name, old)


def main(arguments: list[str] | None = None) -> int:
    """Run a program with the launcher in place; exit code 5 for a fault or finding in a kernel."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if given else 1
    try:
        import importlib.util
        if importlib.util.find_spec("torch") is not None:
            importlib.import_module("torch")
        install()
    except ImportError:
        print("error: cuTile Python isn't installed: pip install cuda-tile", file=sys.stderr)
        return 2
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if not os.path.isfile(given[0]):
        print(f"error: unable to read input file '{given[0]}'", file=sys.stderr)
        return 4
    sys.argv = given
    sys.path.insert(0, os.path.dirname(os.path.abspath(given[0])))
    try:
        runpy.run_path(given[0], run_name="__main__")
    except TileirasError as error:
        print(f"error: {error}{_launched_at(error)}", file=sys.stderr)
        return error.exit_code
    return 0


def _launched_at(error: BaseException) -> str:
    """Where the program called what ended in `error`: the last of its lines before this package's."""
    import traceback
    from itertools import pairwise
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<")]
    for before, frame in reversed(list(pairwise(frames))):
        if frame.filename.startswith(ours) and not before.filename.startswith(ours):
            return f"\n  launched at {before.filename}:{before.lineno}"
    return ""


if __name__ == "__main__":
    from tileiras.sim import cutile  # one module, not this file's copy under the name __main__

    sys.exit(cutile.main())
