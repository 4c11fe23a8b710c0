"""Where ptxas, the disassemblers and libdevice are.

Looked for in this order: the NVIDIA wheels installed beside this package, next to the running executable,
`PATH`, then the toolkit that CUDA_ROOT, CUDA_HOME or CUDA_PATH names. The frontends remove those variables and
change `PATH` at will, so the wheels come first.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import lru_cache

_CUDA_VARIABLES = ("CUDA_ROOT", "CUDA_HOME", "CUDA_PATH")
_WHEEL_FOLDERS = (("nvidia", "cu13"), ("nvidia", "cuda_nvcc"))


def _site_folders() -> Iterator[str]:
    """Folders that may hold installed packages: the one this package is in, then the import path."""
    yield os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for entry in sys.path:
        if entry:
            yield entry


def find_python_package(name: str) -> str | None:
    """The folder of an installed top-level package, without importing it."""
    for folder in _site_folders():
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            return path
    return None


def toolkit_roots() -> Iterator[str]:
    """CUDA toolkit roots (folders with `bin` and `nvvm`), wheels first."""
    for folder in _site_folders():
        for parts in _WHEEL_FOLDERS:
            root = os.path.join(folder, *parts)
            if os.path.isdir(root):
                yield root
    yield os.path.dirname(os.path.dirname(os.path.realpath(sys.argv[0] or sys.executable or ".")))
    for variable in _CUDA_VARIABLES:
        root = os.environ.get(variable)
        if root:
            yield root


def find_tool(name: str) -> str | None:
    """The path of `ptxas`, `nvdisasm`, ..., or None."""
    return _find_tool(name, os.environ.get("PATH", ""), tuple(os.environ.get(v, "") for v in _CUDA_VARIABLES))


@lru_cache(maxsize=16)
def _find_tool(name: str, path: str, _variables: tuple[str, ...]) -> str | None:
    roots = list(toolkit_roots())
    environment = [r for v in _CUDA_VARIABLES if (r := os.environ.get(v))]
    wheels = roots[:len(roots) - len(environment)]
    folders = [os.path.join(root, "bin") for root in wheels]
    folders += [entry for entry in path.split(os.pathsep) if entry]
    folders += [os.path.join(root, "bin") for root in environment]
    for folder in folders:
        candidate = os.path.join(folder, name)
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    return None


def forget() -> None:
    """Look for tools anew the next time."""
    _find_tool.cache_clear()


def where_tools_are_looked_for() -> str:
    """What to do where a tool isn't found, and which of the variables is set in vain."""
    named = [f"{v}={root}" for v in _CUDA_VARIABLES if (root := os.environ.get(v))]
    hint = f" ({', '.join(named)} holds none)" if named else ""
    return f"install nvidia-cuda-nvcc, or put it on PATH or under CUDA_HOME{hint}"


def find_libdevice() -> str | None:
    """The path of `libdevice.10.bc`, or None."""
    for root in toolkit_roots():
        path = os.path.join(root, "nvvm", "libdevice", "libdevice.10.bc")
        if os.path.isfile(path):
            return path
    return None
