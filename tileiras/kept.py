"""What is kept from run to run? Values that take long to make and that `marshal` can write, each in a file beside the package's
bytecode, in `__pycache__`, as Python keeps modules. (Compiled modules are kept by `cache.py`, where the user names a folder.)

A value is kept under a key, which says what it was made from; another Python or another key makes it anew. Where nothing can
be written everything works as before.
"""
from __future__ import annotations

import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


CACHE_VARIABLE = "TILEIRAS_CACHE_DIR"
"""Names the folder of compiled modules."""


def cache_folder() -> str:
    """Where compiled modules are kept, "" where they aren't."""
    return os.environ.get(CACHE_VARIABLE, "")


def path_of(name: str) -> str:
    """The file of what is kept by a name."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__pycache__")
    return os.path.join(folder, f"{name}.{sys.implementation.cache_tag}.marshal")


def load(name: str, key: Any = None) -> Any:
    """What was kept by that name and key, or None."""
    try:
        with open(path_of(name), "rb") as file:
            kept = marshal.loads(file.read())
        version, kept_key, value = kept
        return value if (version, kept_key) == (sys.version, key) else None
    except (OSError, ValueError, EOFError, TypeError):
        return None


def save(name: str, value: Any, key: Any = None) -> None:
    """Keep a value. Another process may do so at the same time: the file is whole at any moment."""
    path = path_of(name)
    temporary = f"{path}.{os.getpid()}"
    try:
        with open(temporary, "wb") as file:
            file.write(marshal.dumps((sys.version, key, value)))
        os.replace(temporary, path)
    except (OSError, ValueError):  # a read-only installation, a full disk
        try:
            os.unlink(temporary)
        except OSError:
            pass
