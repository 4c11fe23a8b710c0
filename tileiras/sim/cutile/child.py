"""What does a Python program do that was started under the stand-in? It puts the stand-in in place itself, when it comes to
import cuTile or PyTorch."""
from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from tileiras.sim.cutile.children import VARIABLE


def start() -> None:
    """In a child: put the stand-in in place once cuTile or PyTorch is imported."""
    gpu_name = os.environ.get(VARIABLE)
    if gpu_name:
        sys.meta_path.insert(0, _After({"torch": lambda: _torch(gpu_name), "cuda.tile": lambda: _tile(gpu_name)}))


def _tile(gpu_name: str) -> None:
    from tileiras.sim.cutile import standin
    standin.install(gpu_name)


def _torch(gpu_name: str) -> None:
    if importlib.util.find_spec("cuda.tile") is not None:
        _tile(gpu_name)


class _After(importlib.abc.MetaPathFinder):
    """Calls a function when a module has been imported, once."""

    def __init__(self, after: dict[str, Callable[[], None]]) -> None:
        self.after = after

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        call = self.after.pop(fullname, None)
        if call is None:
            return None
        spec = importlib.util.find_spec(fullname)
        if spec is None or not isinstance(spec.loader, importlib.abc.Loader):
            return spec
        execute = spec.loader.exec_module

        def loaded(module: ModuleType) -> None:
            execute(module)
            call()
        spec.loader.exec_module = loaded            # type: ignore[method-assign]
        return spec
