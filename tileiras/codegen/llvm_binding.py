"""What of llvmlite does code generation load? Its shared library and the five modules that parse, optimize and emit.

`import llvmlite.binding` brings its JITs, its own IR classes and `importlib.resources` with a dozen modules of Python's: five
sixths of the time that the worker takes to start. Here packages without their `__init__` stand for those while the modules
that are needed load. Where that doesn't work out, llvmlite is imported as it wants to be.
"""
from __future__ import annotations

import os
import sys
from types import ModuleType, SimpleNamespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CALLED = {
    "initfini": ("initialize_all_targets", "initialize_all_asmprinters"), "options": ("set_option",),
    "context": ("create_context",), "module": ("parse_assembly", "parse_bitcode"), "targets": ("Target",),
    "newpassmanagers": ("create_pipeline_tuning_options", "create_pass_builder"),
}
"""Of `llvmlite.binding`: the modules, and what the worker calls of each."""


def load() -> Any:
    """`llvmlite.binding`, or as much of it as the worker needs."""
    if "llvmlite" not in sys.modules:
        try:
            return _lean()
        except Exception:  # another llvmlite than the one that this was written for
            for name in [name for name in sys.modules if name.partition(".")[0] == "llvmlite"]:
                del sys.modules[name]
    import llvmlite.binding
    return llvmlite.binding


def _lean() -> Any:
    from importlib import import_module

    root = next(path for entry in sys.path if os.path.isdir(path := os.path.join(entry, "llvmlite")))
    binding = os.path.join(root, "binding")
    packages = [_package("llvmlite", root), _package("llvmlite.binding", binding), _package("llvmlite.ir", "")]
    sys.modules.update({package.__name__: package for package in packages})
    packages[0].ir = packages[2]  # type: ignore[attr-defined]
    packages[2].__getattr__ = lambda _: None  # type: ignore[method-assign]
    resources = "importlib.resources"
    known = sys.modules.get(resources)
    sys.modules[resources] = known or _resources_in(resources, binding)
    try:
        found = {name: getattr(import_module(f"llvmlite.binding.{module}"), name)
                 for module, names in _CALLED.items() for name in names}
        found["initialize_all_targets"]()  # loads the library
    finally:
        if known is None:
            del sys.modules[resources]
    return SimpleNamespace(**found)


def _package(name: str, folder: str) -> ModuleType:
    package = ModuleType(name)
    package.__path__ = [folder]
    return package


def _resources_in(name: str, folder: str) -> ModuleType:
    """A stand-in for `importlib.resources` that knows one thing: where files of a package lie that has its files in a folder."""
    stand_in = ModuleType(name)
    stand_in.files = lambda _: _Folder(folder)  # type: ignore[attr-defined]
    stand_in.as_file = lambda path: path        # type: ignore[attr-defined]
    return stand_in


class _Folder(str):
    """A folder, or a file in it, that a `with` statement takes."""

    def __truediv__(self, name: str) -> _Folder:
        return _Folder(os.path.join(self, name))

    def __enter__(self) -> str:
        return str(self)

    def __exit__(self, *_: object) -> None:
        pass
