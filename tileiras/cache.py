"""Which compiled modules are kept on disk? None, unless TILEIRAS_CACHE_DIR names a folder for them.

A module is kept under all that it depends on: bytecode, options, this program's sources, ptxas and libdevice. Files are written
whole or not at all, so that any number of processes may share a folder; what can't be read or written is compiled as without a
cache. Only files of the user's own are read. Nothing is ever removed: delete the folder, or files in it, at any time.
"""
from __future__ import annotations

import dataclasses
import os
import pickle
import zlib
from typing import TYPE_CHECKING, Any

import tileiras.kept as kept

if TYPE_CHECKING:
    from tileiras.driver.options import CompileOptions

_STATE = ("print_sink", "running", "prefetched", "has_large_parts", "waits_late", "may_lend", "counts_blocks", "in_agents",
          "takes_turns", "target")
_TELLS = {"timing": None, "remarks": None, "print_after": (), "verify_each": False, "schedule": None}
"""Options under which a compilation tells of itself, or writes more than its output: such ones are always made."""
_CHECKSUM_BYTES = 4


def place_of(bytecode: bytes, options: CompileOptions) -> str | None:
    """The file of a compilation's outcome, None where it isn't kept."""
    folder = kept.cache_folder()
    given = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    if not folder or any(given[name] != plain for name, plain in _TELLS.items()):
        return None
    import hashlib

    asked = sorted((name, sorted(value) if isinstance(value, frozenset) else sorted(value.items()) if isinstance(value, dict) else
                    value) for name, value in given.items() if name not in _TELLS and name not in _STATE)
    digest = hashlib.sha256(repr((asked, options.target.name, _program(), _tools(), os.environ.get("TILEIRAS_STRICT"))).encode())
    digest.update(bytecode)
    name = digest.hexdigest()
    return os.path.join(folder, name[:2], name[2:])


def _program() -> str:
    """What this program is, by its sources. The checksum of files that didn't change is kept."""
    from tileiras.driver.version_text import source_digest

    root = os.path.dirname(os.path.abspath(__file__))
    states = [(entry.path, entry.stat().st_size, entry.stat().st_mtime_ns) for folder, folders, _ in os.walk(root)
              if not folder.endswith("__pycache__") for entry in sorted(os.scandir(folder), key=lambda e: e.name)
              if entry.name.endswith(".py")]
    found = kept.load("digest", states)
    if found is None:
        found = source_digest()
        kept.save("digest", found, states)
    return found


def _tools() -> list[tuple[Any, ...]]:
    from tileiras.codegen import toolchain

    llvmlite = toolchain.find_python_package("llvmlite")
    found = []
    for path in (toolchain.find_tool("ptxas"), toolchain.find_libdevice(), llvmlite and os.path.join(llvmlite, "_version.py")):
        status = os.stat(path) if path else None
        found.append((path, status and status.st_size, status and status.st_mtime_ns))
    return found


def load(place: str) -> dict[str, Any] | None:
    """What was kept there, or None."""
    try:
        with open(place, "rb") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return None
            data = file.read()
        if zlib.crc32(data[_CHECKSUM_BYTES:]) != int.from_bytes(data[:_CHECKSUM_BYTES], "little"):
            return None
        found = pickle.loads(data[_CHECKSUM_BYTES:])
        return found if isinstance(found, dict) else None
    except Exception:  # not there, not readable, another version's: it is made anew
        return None


def save(place: str, fields: dict[str, Any]) -> None:
    """Keep it, if the disk takes it."""
    data = pickle.dumps(fields)
    temporary = f"{place}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(zlib.crc32(data).to_bytes(_CHECKSUM_BYTES, "little") + data)
        os.replace(temporary, place)
    except OSError:
        try:
            os.unlink(temporary)
        except OSError:
            pass
