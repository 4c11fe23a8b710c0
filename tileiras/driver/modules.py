"""How does the command load some 250 modules fast? From one file that holds the bytecode of all, in `__pycache__`.

Python looks for each module in the folders of its path, opens its file and reads it; together that takes as long as carrying
them out. Here a module of a package that was imported by an earlier command comes from the one file, as long as it would come
from the same source and that has the size and time that it had then, which is what Python asks of its own `.pyc` files.
"""
from __future__ import annotations

import marshal
import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_PYC_HEADER = 16            # magic number, flags, time and size of the source
_PYC_CHECKED_BY_TIME = 0    # the flags of a file whose source's time and size say whether it holds
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
        """A spec for a module that the file holds and that hasn't changed."""
        entry = self._entries.get(name)
        if entry is None or path is None or not entry.is_current():
            return None
        folder = os.path.dirname(entry.path)
        if list(path) != [os.path.dirname(folder) if entry.package else folder]:
            return None
        try:
            code = marshal.loads(os.pread(self._fd, entry.length, self._start + entry.at))
        except (OSError, ValueError, EOFError, TypeError):
            return None
        if not isinstance(code, CodeType):
            return None
        spec = ModuleSpec(name, _Loader(name, entry.path, code), origin=entry.path, is_package=entry.package)
        spec.has_location = True
        if sys.pycache_prefix is None:      # as importlib has it, but that takes as long as finding the module
            stem = os.path.basename(entry.path).partition(".")[0]
            spec.cached = f"{folder}/__pycache__/{stem}.{sys.implementation.cache_tag}.pyc"
        if entry.package:
            spec.submodule_search_locations = [folder]
        return spec

    def remember(self) -> None:
        """Write what this process has imported to the file, if that has something new."""
        found = {name: module for name, module in sys.modules.items() if name not in self._before}
        new = [name for name, module in found.items() if not isinstance(getattr(module, "__loader__", None), _Loader)
               and _pyc_of(module)]
        if not new or len(self._entries) + len(new) > _MOST_MODULES:
            return
        entries, parts, at = {}, [], 0
        for name, entry in self._entries.items():
            if name not in new and entry.is_current():
                code = os.pread(self._fd, entry.length, self._start + entry.at)
                entries[name] = (entry.path, entry.size, entry.time, entry.package, at, len(code))
                parts.append(code)
                at += len(code)
        for name in new:
            known = _code_of(found[name])
            if known is not None:
                path, status, code = known
                entries[name] = (path, status.st_size, status.st_mtime_ns, hasattr(found[name], "__path__"), at, len(code))
                parts.append(code)
                at += len(code)
        if entries.keys() != self._entries.keys() or any(name in entries for name in new):
            _write(self._path, marshal.dumps((sys.version, entries)), parts)


def _pyc_of(module: ModuleType) -> str | None:
    """The file of the bytecode of a package's module, if Python loaded it from one or wrote one."""
    spec = getattr(module, "__spec__", None)
    if spec is None or type(spec.loader) is not SourceFileLoader or "." not in spec.name or spec.name != module.__name__:
        return None
    return spec.cached


def _code_of(module: ModuleType) -> tuple[str, os.stat_result, bytes] | None:
    """Source, its state, and the marshalled code of a module, if its file of bytecode is that of its source as it is now."""
    path, pyc = str(module.__spec__.origin), _pyc_of(module)  # type: ignore[union-attr]
    try:
        status = os.stat(path)
        with open(str(pyc), "rb") as file:
            data = file.read()
    except OSError:
        return None
    flags, time, size = (int.from_bytes(data[at:at + 4], "little") for at in (4, 8, 12))
    if flags != _PYC_CHECKED_BY_TIME or (time, size) != (int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF):
        return None
    return path, status, data[_PYC_HEADER:]


def _write(path: str, index: bytes, parts: list[bytes]) -> None:
    temporary = f"{path}.{os.getpid()}"
    try:
        with open(temporary, "wb") as file:
            file.write(len(index).to_bytes(_LENGTH_BYTES, "little") + index)
            file.writelines(parts)
        os.replace(temporary, path)
    except OSError:  # a read-only installation, a full disk
        try:
            os.unlink(temporary)
        except OSError:
            pass
