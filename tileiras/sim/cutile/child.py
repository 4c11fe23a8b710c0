"""What does a Python program do that was started under the stand-in? It puts the stand-in in place itself, when it comes to
import cuTile or PyTorch."""
from __future__ import annotations

import importlib.util
import os

from tileiras.sim.cutile.children import VARIABLE
from tileiras.sim.cutile.imports import After


def start() -> None:
    """In a child: put the stand-in in place once cuTile or PyTorch is imported."""
    gpu_name, _, more = os.environ.get(VARIABLE, "").partition(" ")
    if gpu_name:
        After({"torch": lambda: _with_torch(gpu_name), "cuda.tile": lambda: _install(gpu_name)})
    if more == "cupy":
        from tileiras.sim.cutile.cupyarrays import Finder
        Finder(gpu_name)


def _install(gpu_name: str) -> None:
    from tileiras.sim.cutile import standin
    if not standin.installed():
        standin.install(gpu_name)


def _with_torch(gpu_name: str) -> None:
    if importlib.util.find_spec("cuda.tile") is not None:
        _install(gpu_name)
