"""How does the command load some 250 modules fast? From one file that holds the bytecode of all, in `__pycache__`.

Python looks for each module in the folders of its path, opens its file and reads it; together that takes as long as carrying
them out. Here a module of a package that was imported by an earlier command comes from the one file, as long as it would come
from the same source and that has the size and time that it had then, which is what Python asks of its own `.pyc` files.
Whether Python may write those (`PYTHONDONTWRITEBYTECODE`, as many images of containers have it) doesn't matter here.
"""
from __future__ import annotations

import marshal
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

import tileiras.kept as kept

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_LENGTH_BYTES = 8           # of the index, at the file's start
_MOST_MODULES = 2000


class _Entry:
    """A module: its source with size and time, whether it is a package, where its code lies in the file."""

    __slots__ = ("at", "length", "package", "path", "size", "time")

    def __init__(self, path: str, size: int, time: int, package: bool, at: int, length: int) -> None:
        self.path, self.size, self.time, self.package, self.at, self.length = path, size, time, package, at, length

    def is_current(self) -> bool:
        try:
            status = os.stat(self.path)
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns) == (self.size, self.time)


class _Loader(SourceFileLoader):
    """Loads a module as from its source, but that its code is at hand."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code: CodeType | None = code

    def get_code(self, fullname: str) -> CodeType | None:
        code, self._code = self._code, None
        return super().get_code(fullname) if code is None else code


class _Noting(SourceFileLoader):
    """Loads a module as Python would, and holds its code, with the state that its source had before."""

    def __init__(self, name: str, path: str) -> None:
        super().__init__(name, path)
        self.noted: tuple[os.stat_result, CodeType] | None = None

    def get_code(self, fullname: str) -> CodeType | None:
        try:
            status = os.stat(self.path)
        except OSError:
            return super().get_code(fullname)
        code = super().get_code(fullname)
        self.noted = None if code is None else (status, code)
        return code


class KeptModules:
    """The finder, for `sys.meta_path`, and what writes the file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._entries: dict[str, _Entry] = {}
        self._fd = -1
        self._start = 0
        self._before = frozenset(sys.modules)
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            length = int.from_bytes(os.read(self._fd, _LENGTH_BYTES), "little")
            if length <= os.fstat(self._fd).st_size:
                version, entries = marshal.loads(os.read(self._fd, length))
                if version == sys.version:
                    self._entries = {name: _Entry(*entry) for name, entry in entries.items()}
                    self._start = _LENGTH_BYTES + length
        except (OSError, ValueError, EOFError, TypeError):
            self._entries = {}

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """A spec for a package's module: from the file, if that holds it and it hasn't changed, or else as Python finds it."""
        if path is None:
            return None
        entry = self._entries.get(name)
        code = None if entry is None else self._code(entry, path)
        if entry is None or code is None:
            return _noted(name, path, target)
        folder = os.path.dirname(entry.path)
        spec = ModuleSpec(name, _Loader(name, entry.path, code), origin=entry.path, is_package=entry.package)
        spec.has_location = True
        if sys.pycache_prefix is None:      # as importlib has it, but that takes as long as finding the module
            stem = os.path.basename(entry.path).partition(".")[0]
            spec.cached = f"{folder}/__pycache__/{stem}.{sys.implementation.cache_tag}.pyc"
        if entry.package:
            spec.submodule_search_locations = [folder]
        return spec

    def _code(self, entry: _Entry, path: Sequence[str]) -> CodeType | None:
        """What the file holds of a module that is looked for in some folders, if that would come from there and hasn't changed."""
        folder = os.path.dirname(entry.path)
        if not entry.is_current() or list(path) != [os.path.dirname(folder) if entry.package else folder]:
            return None
        try:
            code = marshal.loads(os.pread(self._fd, entry.length, self._start + entry.at))
        except (OSError, ValueError, EOFError, TypeError):
            return None
        return code if isinstance(code, CodeType) else None

    def remember(self) -> None:
        """Write what this process has imported to the file, if that has something new."""
        new: dict[str, tuple[str, os.stat_result, bytes, bool]] = {}
        for name, module in list(sys.modules.items()):
            known = _code_of(module) if name not in self._before else None
            if known is not None:
                new[name] = known
        if not new or len(self._entries) + len(new) > _MOST_MODULES:
            return
        entries, parts, at = {}, [], 0
        for name, entry in self._entries.items():
            if name not in new and entry.is_current():
                code = os.pread(self._fd, entry.length, self._start + entry.at)
                entries[name] = (entry.path, entry.size, entry.time, entry.package, at, len(code))
                parts.append(code)
                at += len(code)
        for name, (path, status, code, package) in new.items():
            entries[name] = (path, status.st_size, status.st_mtime_ns, package, at, len(code))
            parts.append(code)
            at += len(code)
        index = marshal.dumps((sys.version, entries))
        kept.write(self._path, len(index).to_bytes(_LENGTH_BYTES, "little"), index, *parts)


def _noted(name: str, path: Sequence[str], target: ModuleType | None) -> ModuleSpec | None:
    """A spec as Python finds it, whose module's code is held."""
    spec = PathFinder.find_spec(name, path, target)
    if spec is not None and type(spec.loader) is SourceFileLoader:
        spec.loader = _Noting(spec.loader.name, spec.loader.path)
    return spec


def _code_of(module: ModuleType) -> tuple[str, os.stat_result, bytes, bool] | None:
    """Source, its state, the marshalled code of a module, and whether it is a package, if this process has loaded it from its
    source as that still is."""
    spec = getattr(module, "__spec__", None)
    loader = getattr(spec, "loader", None)
    if spec is None or type(loader) is not _Noting or loader.noted is None or spec.name != module.__name__:
        return None
    status, code = loader.noted
    try:
        now = os.stat(loader.path)
    except OSError:
        return None
    if (now.st_size, now.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
        return None
    return loader.path, status, marshal.dumps(code), hasattr(module, "__path__")
