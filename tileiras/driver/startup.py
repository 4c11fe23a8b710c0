"""How the command starts fast: half of a small kernel's compile would be imports.

Two costs of importing xDSL are cut, for this process only:

- Each of its hundreds of dataclasses compiles the text of its methods at import. Those texts are the same every
  time, so their code is kept beside the package's bytecode, in `__pycache__`, as Python keeps modules.
- `xdsl.dialects` imports, before any dialect, a loader for dialects written in IRDL, which nothing here uses.

Where the cache can't be written everything works as before.
"""
from __future__ import annotations

import marshal
import os
import sys
from types import CodeType
from typing import Any

_MAX_ENTRIES = 20000
_cache: dict[str, CodeType] = {}
_new_entries = 0


def _path() -> str:
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return os.path.join(root, "__pycache__", f"dataclasses.{sys.implementation.cache_tag}.marshal")


def _magic() -> bytes:
    from importlib.util import MAGIC_NUMBER
    return MAGIC_NUMBER


def _execute(text: Any, namespace: Any = None, local: Any = None) -> None:
    """`exec`, with the code of a text compiled at most once a machine."""
    global _new_entries
    if not isinstance(text, str):
        exec(text, namespace, local)
        return
    code = _cache.get(text)
    if code is None:
        code = _cache[text] = compile(text, "<string>", "exec")
        _new_entries += 1
    exec(code, namespace, local)


def prepare() -> None:
    """Call before anything of weight is imported."""
    import dataclasses

    try:
        with open(_path(), "rb") as file:
            data = file.read()
        if data.startswith(_magic()):
            _cache.update(marshal.loads(data[len(_magic()):]))
    except (OSError, ValueError, EOFError, TypeError):
        pass
    dataclasses.exec = _execute  # type: ignore[attr-defined]
    _skip_dialect_loader()


def _skip_dialect_loader() -> None:
    from types import ModuleType

    from tileiras.codegen.toolchain import find_python_package

    xdsl = find_python_package("xdsl")
    if xdsl is not None and "xdsl.dialects" not in sys.modules:
        package = ModuleType("xdsl.dialects")
        package.__path__ = [os.path.join(xdsl, "dialects")]
        sys.modules["xdsl.dialects"] = package


def remember() -> None:
    """Keep what was compiled for the next start. Call at the end."""
    if not _new_entries or sys.dont_write_bytecode or len(_cache) > _MAX_ENTRIES:
        return
    path = _path()
    temporary = f"{path}.{os.getpid()}"
    try:
        with open(temporary, "wb") as file:
            file.write(_magic() + marshal.dumps(_cache))
        os.replace(temporary, path)
    except OSError:
        pass  # a read-only installation
