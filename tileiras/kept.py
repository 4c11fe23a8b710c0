"""What is kept from run to run? Values that take long to make and that `marshal` can write, each in a file beside the package's
bytecode, in `__pycache__`, as Python keeps modules; where the user may not write there, in `tileiras` under the user's folder of
caches. (Compiled modules are kept by `cache.py`, where the user names a folder.)

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


PROGRAM = "tileiras"
CACHE_VARIABLE = "TILEIRAS_CACHE_DIR"
"""Names the folder of compiled modules."""


def cache_folder() -> str:
    """Where compiled modules are kept, "" where they aren't."""
    return os.environ.get(CACHE_VARIABLE, "")


def path_of(name: str) -> str:
    """The file of what is kept by a name."""
    return os.path.join(_folder(), f"{name}.{sys.implementation.cache_tag}.marshal")


def _folder() -> str:
    """Where it is: beside the package, if the user may write there, or else a folder of the user's own for this installation."""
    package = os.path.dirname(os.path.abspath(__file__))
    beside = os.path.join(package, "__pycache__")
    if os.access(beside if os.path.isdir(beside) else package, os.W_OK):
        return beside
    caches = os.environ.get("XDG_CACHE_HOME", "")
    caches = caches if os.path.isabs(caches) else os.path.join(os.path.expanduser("~"), ".cache")
    own = os.path.join(caches, PROGRAM, package.strip(os.sep).replace(os.sep, "-"))
    try:
        os.makedirs(own, mode=0o700, exist_ok=True)
        status = os.stat(own)
    except OSError:
        return beside
    # code is loaded from there: it has to be the user's, and nobody else's to write to
    return own if status.st_uid == os.geteuid() and not status.st_mode & 0o022 else beside


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
    try:
        write(path_of(name), marshal.dumps((sys.version, key, value)))
    except ValueError:      # nothing that `marshal` can write
        pass


def write(path: str, *parts: bytes) -> None:
    """Make a file of some parts, in its folder, whole or not at all."""
    temporary = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(temporary, "wb") as file:
            file.writelines(parts)
        os.replace(temporary, path)
    except OSError:  # a read-only installation, a full disk
        try:
            os.unlink(temporary)
        except OSError:
            pass
