"""Notes the launches of a test suite of cuTile programs without running them: a pytest plugin (see `launches.py`).

It imports nothing of this project's tests, as suites have packages of that name, too.
"""
from __future__ import annotations

import hashlib
import pathlib
import pickle
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np

from tileiras.sim.run.launch import PointerTable

LARGEST = 8 << 20
"""Bytes of an array that is kept as it is."""


def kept(value: Any) -> Any:
    """A launch parameter as it is pickled: an array by the words that it spans, (dtype, their number) where it is large."""
    if isinstance(value, PointerTable):
        return PointerTable([kept(w) for w in value.words])
    if not isinstance(value, np.ndarray):
        return value
    first, end = np.lib.array_utils.byte_bounds(value) if value.size else (0, 0)
    words = (end - first) // value.itemsize
    if end - first > LARGEST:
        return ("zeros", value.dtype, words)
    if value.flags.c_contiguous:
        return value.reshape(-1).copy()
    plain = value.view(f"u{value.itemsize}") if value.dtype.kind == "V" else value      # types that NumPy doesn't know
    return np.lib.stride_tricks.as_strided(plain, (words,), (value.itemsize,)).copy().view(value.dtype)


class Recorder:
    """In place of launches: a file for each specialization."""

    def __init__(self, folder: pathlib.Path, gpu: str) -> None:
        self.folder, self.gpu = folder, gpu
        folder.mkdir(parents=True, exist_ok=True)
        self.largest: dict[str, int] = {}

    def launch(self, kernel: Any, blocks: tuple[int, ...], args: tuple) -> Any:
        from tileiras.sim.cutile import export, torchcuda

        with torchcuda.plain():
            made = export(kernel, args, self.gpu)
            name = getattr(getattr(kernel, "_pyfunc", None), "__name__", "kernel")
            key = f"{name}-{hashlib.sha256(made.bytecode).hexdigest()[:8]}"
            if (count := int(np.prod(blocks))) > self.largest.get(key, 0):
                self.largest[key] = count
                record = {"symbol": made.symbol, "bytecode": made.bytecode, "grid": (*blocks, 1, 1)[:3],
                          "flat": [kept(p) for p in made.flat]}
                (self.folder / f"{key}.pickle").write_bytes(pickle.dumps(record))
        return SimpleNamespace(issued=0, findings=[], estimate=None)


def first_configuration(search_space: Iterable[Any], *_: Any, **__: Any) -> Any:
    """In place of `cuda.tile.tune.exhaustive_search`."""
    from cuda.tile.tune._tune import Measurement, TuningResult

    best = Measurement(config=next(iter(search_space)), mean_us=1.0, num_samples=1, error_margin_us=0.0)
    return TuningResult(best=best, successes=[best], failures=[])


def pytest_addoption(parser: Any) -> None:
    parser.getgroup("tileiras").addoption("--launches", metavar="FOLDER", help="note launches there instead of running them")


def pytest_load_initial_conftests(early_config: Any) -> None:
    import cuda.tile.tune as tune

    from tileiras.sim.cutile import standin
    from tileiras.sim.cutile.patches import Patches

    folder = early_config.known_args_namespace.launches
    if folder:
        recorder = Recorder(pathlib.Path(folder), standin.gpu_name())
        patches = Patches()
        patches.set(standin, "_run", recorder.launch)
        patches.set(standin, "_keep", lambda report: None)
        patches.set(tune, "exhaustive_search", first_configuration)
