"""How ptxas is run: PTX text in, cubin and report out.

It gets a fresh folder for a run, with names in it that are always the same: `-g` makes ptxas record them in the cubin.
"""
from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tileiras.codegen import child, toolchain
from tileiras.codegen.location_table import TEXT_VERSION
from tileiras.errors import CompileError

DEFAULT_TIMEOUT = 1800.0
"""Seconds that ptxas may take on one module."""

_NO_DEBUG_SECTIONS = "section not found"
"""What ptxas says of `-g` when the program carries no debug information; nothing a user could act on."""

_ALWAYS = ("-v", "--enable-extended-smem=true", "-uumn")
"""A report; static shared memory beyond the 48 KiB that every launch may have, up to what the SM has; and knobs in pragmas."""

_SANITIZER_FLAGS = {"memcheck": ("-sanitize=memcheck", "-g-tmem-access-check")}


class TooOldError(CompileError):
    """ptxas doesn't know the PTX version that carries a program's text."""


@dataclass(frozen=True)
class Assembled:
    """A cubin, ptxas' resource report (`-v`), and what it warned about."""

    cubin: bytes
    report: str
    warnings: tuple[str, ...]


def arguments(ptx_target: str, opt_level: int, *, lineinfo: bool = False, device_debug: bool = False,
              sanitize: str | None = None, extra: tuple[str, ...] = ()) -> list[str]:
    """ptxas' options for a compilation, without its input and output."""
    flags = [f"-arch={ptx_target}", f"-O{opt_level}", *_ALWAYS]
    if device_debug:
        flags.append("-g")
    elif lineinfo:
        flags.append("-lineinfo")
    if sanitize:
        flags += _SANITIZER_FLAGS[sanitize]
    flags += extra
    return flags


def assemble(ptx: str, flags: list[str], timeout: float = DEFAULT_TIMEOUT, host: bytes = b"") -> Assembled:
    """Run ptxas on a text; `host` is the object that the cubin carries for the driver. Raises CompileError with ptxas' own
    words when it refuses."""
    ptxas = toolchain.find_tool("ptxas")
    if ptxas is None:
        raise CompileError(f"cannot find ptxas; {toolchain.where_tools_are_looked_for()}")
    files = {_PTX_NAME: ptx.encode(errors="surrogateescape"), **({_HOST_NAME: host} if host else {})}
    with _folder_with(files) as folder:
        if host:
            flags = [*flags, f"--nv-host={os.path.join(folder, _HOST_NAME)}"]
        cubin_path = os.path.join(folder, _CUBIN_NAME)
        command = [ptxas, *flags, "-o", cubin_path, os.path.join(folder, _PTX_NAME)]
        try:
            code, out, err = child.run(command, {**os.environ, "TMPDIR": folder}, timeout)
            report = err.decode(errors="replace")
            if code != 0:
                refusal = TooOldError if f"version {TEXT_VERSION}" in report else CompileError
                raise refusal(_explain(code, report + out.decode(errors="replace"), folder))
            cubin = b""
            if os.path.exists(cubin_path):
                with open(cubin_path, "rb") as file:
                    cubin = file.read()
        except child.TimeoutExpired:
            raise CompileError(f"ptxas did not finish within {timeout:g} seconds") from None
        except OSError as error:
            raise CompileError(f"cannot run {ptxas}: {error}") from error
    if not cubin:
        raise CompileError(f"ptxas wrote no cubin\n{report}")
    warnings = tuple(line for line in report.splitlines() if "warning" in line and _NO_DEBUG_SECTIONS not in line)
    return Assembled(cubin, report, warnings)


_PTX_NAME, _CUBIN_NAME, _HOST_NAME = "tile.ptx", "tile.cubin", "tile.o"
_FOLDER_VARIABLES = ("TMPDIR", "TEMP", "TMP")
_FOLDERS = ("/tmp", "/var/tmp", os.curdir)


@contextmanager
def _folder_with(files: dict[str, bytes]) -> Iterator[str]:
    """A folder of this process's own that holds some files, for as long as the context lasts. (`tempfile` would load a
    dozen modules more.) The next place is tried where one can't be written or is full."""
    problem = ""
    for place in [*(os.environ.get(variable, "") for variable in _FOLDER_VARIABLES), *_FOLDERS]:
        if not place:
            continue
        folder = os.path.join(place, f"tileiras-{os.getpid()}-{os.urandom(8).hex()}")
        try:
            os.mkdir(folder, 0o700)
        except OSError as error:
            problem = problem or f"'{place}': {error.strerror}"
            continue
        try:
            try:
                for name, data in files.items():
                    with open(os.path.join(folder, name), "wb") as file:
                        file.write(data)
            except OSError as error:
                problem = problem or f"'{place}': {error.strerror}"
                continue
            yield folder
            return
        finally:
            _remove(folder)
    size = sum(map(len, files.values()))
    raise CompileError(f"cannot write {size} bytes for ptxas to a temporary folder ({problem}); TMPDIR names another one")


def _remove(folder: str) -> None:
    """Remove a folder of files."""
    try:
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)
    except OSError:
        pass  # what can't be removed stays


def _explain(returncode: int, text: str, folder: str) -> str:
    text = text.replace(folder + os.sep, "")
    if returncode < 0:
        import signal
        name = signal.Signals(-returncode).name
        hint = ": the cubin is larger than files may be here (ulimit -f)" if name == "SIGXFSZ" else ""
        return f"ptxas ended with {name}{hint}\n{text}".rstrip()
    lines = [line for line in text.splitlines() if not line.startswith("ptxas info") and line.strip()]
    message = "ptxas failed\n" + "\n".join(lines)
    if "Unsupported .version" in text or ".language" in text:
        message += "\nthis ptxas is too old for tile kernels; version 13.2 or newer is needed"
    return message
