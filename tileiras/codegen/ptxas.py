"""How ptxas is run: PTX text in, cubin and report out."""
from __future__ import annotations

import os
from dataclasses import dataclass

from tileiras.codegen import toolchain
from tileiras.codegen.location_table import TEXT_VERSION
from tileiras.errors import CompileError

DEFAULT_TIMEOUT = 1800.0
"""Seconds that ptxas may take on one module."""

_NO_DEBUG_SECTIONS = "section not found"
"""What ptxas says of `-g` when the program carries no debug information; nothing a user could act on."""

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
              sanitize: str | None = None, extended_smem: bool = False, extra: tuple[str, ...] = ()) -> list[str]:
    """ptxas' options for a compilation, without its input and output. `extended_smem`: static shared memory beyond the
    48 KiB that every launch may have, up to what the SM has."""
    flags = [f"-arch={ptx_target}", f"-O{opt_level}", "-v"]
    if device_debug:
        flags.append("-g")
    elif lineinfo:
        flags.append("-lineinfo")
    if sanitize:
        flags += _SANITIZER_FLAGS[sanitize]
    if extended_smem:
        flags.append("--enable-extended-smem=true")
    flags += extra
    return flags


def assemble(ptx: str, flags: list[str], timeout: float = DEFAULT_TIMEOUT) -> Assembled:
    """Run ptxas on a text. Raises CompileError with ptxas' own words when it refuses."""
    import subprocess

    ptxas = toolchain.find_tool("ptxas")
    if ptxas is None:
        raise CompileError("cannot find ptxas; install nvidia-cuda-nvcc, or put it on PATH or under CUDA_HOME")
    cubin_path = _reserve_file()
    command = [ptxas, *flags, "-o", cubin_path, "-"]
    try:
        done = subprocess.run(command, input=ptx.encode(), capture_output=True, timeout=timeout, check=False,
                              env={**os.environ, "TMPDIR": os.path.dirname(cubin_path)})
        report = done.stderr.decode(errors="replace")
        if done.returncode != 0:
            refusal = TooOldError if f"version {TEXT_VERSION}" in report else CompileError
            raise refusal(_explain(done.returncode, report + done.stdout.decode(errors="replace")))
        with open(cubin_path, "rb") as file:
            cubin = file.read()
        if not cubin:
            raise CompileError(f"ptxas wrote no cubin\n{report}")
    except subprocess.TimeoutExpired:
        raise CompileError(f"ptxas did not finish within {timeout:g} seconds") from None
    except OSError as error:
        raise CompileError(f"cannot run {ptxas}: {error}") from error
    finally:
        try:
            os.unlink(cubin_path)
        except OSError:
            pass
    warnings = tuple(line for line in report.splitlines() if "warning" in line and _NO_DEBUG_SECTIONS not in line)
    return Assembled(cubin, report, warnings)


def _reserve_file() -> str:
    """An empty file of this process's own for ptxas to write to. (`tempfile` would load a dozen modules more.)"""
    folders = [os.environ.get(variable, "") for variable in ("TMPDIR", "TEMP", "TMP")] + ["/tmp", "/var/tmp", os.curdir]
    problem: OSError | None = None
    for folder in folders:
        if not folder:
            continue
        path = os.path.join(folder, f"tileiras-{os.getpid()}-{os.urandom(8).hex()}.cubin")
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            return path
        except OSError as error:
            problem = problem or error
    raise CompileError(f"cannot make a temporary file: {problem}")


def _explain(returncode: int, text: str) -> str:
    if returncode < 0:
        import signal
        return f"ptxas ended with {signal.Signals(-returncode).name}\n{text}".rstrip()
    lines = [line for line in text.splitlines() if not line.startswith("ptxas info") and line.strip()]
    message = "ptxas failed\n" + "\n".join(lines)
    if "Unsupported .version" in text or ".language" in text:
        message += "\nthis ptxas is too old for tile kernels; version 13.2 or newer is needed"
    return message
