"""What the launches of a cuTile program take, ours beside the original's, predicted: the program runs, its kernels don't.

    python -m bench.speed.program [--machine B200] [--configurations 0,2] program.py

The program finds the simulator's stand-in for a GPU (docs/suites.md). A launch becomes a line; so does each configuration that
`ct.tune` would try, after which the program's call ends by `Tuned`: nothing has been computed that a choice could rest on.
"""
from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import tileiras
from bench.speed import original
from tileiras.machine.machines import Machine, machine_of
from tileiras.sim import SimulationError
from tileiras.sim.cutile import export, install, standin, torchcuda
from tileiras.sim.timing import predict


class Tuned(Exception):
    """All configurations of a tuned launch have been predicted."""


class Predictions:
    """In place of launches. `chosen`: numbers of the configurations that are looked at (None: all)."""

    def __init__(self, machine: Machine, chosen: list[int] | None) -> None:
        self.machine, self.chosen = machine, chosen

    def launch(self, kernel: Any, grid: tuple[int, ...], args: tuple, words: str = "") -> Any:
        name = getattr(getattr(kernel, "_pyfunc", None), "__name__", "kernel")
        with torchcuda.plain():
            made = export(kernel, args, f"sm_{self.machine.sm}")
        ours, theirs = (self._seconds(who, made, (*grid, 1, 1)[:3]) for who in ("ours", "original"))
        ratio = f": {theirs / ours:.2f}" if isinstance(ours, float) and isinstance(theirs, float) else ""
        told = [f"{1e6 * x:.1f} us" if isinstance(x, float) else x for x in (ours, theirs)]
        print(f"{name} {words}{grid}: {told[0]}, original {told[1]}{ratio}", flush=True)
        return SimpleNamespace(issued=0, findings=[])

    def _seconds(self, who: str, made: Any, grid: tuple[int, ...]) -> float | str:
        """Of a launch; why there is no prediction."""
        sm = f"sm_{self.machine.sm}"
        try:
            if who == "ours":
                module = tileiras.compile(made.bytecode, gpu_name=sm, opt_level=3, lineinfo=True)
                ptx, cubin, flat = module.ptx, module.cubin, made.flat
            else:
                ptx, cubin = original.compile_original(made.bytecode, sm)
                flat = original.arguments(ptx, cubin, sm, made.flat)
            found = predict(ptx, cubin, made.symbol, grid, flat, self.machine.name).record()
            return float(found["seconds"]) if not found["estimate"] else f"none ({found['reason']})"
        except (tileiras.errors.TileirasError, SimulationError, original.NoOriginal, LookupError) as error:
            return f"none ({type(error).__name__}: {str(error).partition(chr(10))[0]})"

    def search(self, configurations: Iterable[Any], stream: Any, grid: Callable[[Any], tuple], kernel: Any,
               args: Callable[[Any], tuple], hints: Callable[[Any], dict] | None = None, **options: Any) -> None:
        """In place of `cuda.tile.tune.exhaustive_search`."""
        for number, one in enumerate(configurations):
            if self.chosen is None or number in self.chosen:
                told = kernel if hints is None else kernel.replace_hints(**hints(one))
                self.launch(told, grid(one), args(one), " ".join(map(str, getattr(one, "__dict__", {0: one}).values())) + " ")
        raise Tuned


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.speed.program", description=__doc__)
    parser.add_argument("--machine", default="B200")
    parser.add_argument("--configurations", help="numbers of those that a tuned launch is predicted by; all where none is given")
    parser.add_argument("program")
    options = parser.parse_args()
    machine = machine_of(options.machine)
    chosen = [int(n) for n in options.configurations.split(",")] if options.configurations else None
    predictions = Predictions(machine, chosen)
    install(f"sm_{machine.sm}")
    import cuda.tile.tune
    sys.argv = [options.program]
    with patch.object(standin, "_run", predictions.launch), patch.object(standin, "_keep", lambda report: None), \
            patch.object(cuda.tile.tune, "exhaustive_search", predictions.search), suppress(Tuned):
        runpy.run_path(options.program, run_name="__main__")


if __name__ == "__main__":
    main()
