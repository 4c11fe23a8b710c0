"""The original's code for a kernel: compiled, with the tensor maps that its launches take in hidden parameters."""
from __future__ import annotations

import hashlib
import pathlib
import re
import subprocess
import tempfile
from typing import Any

from tests.kernels import runner
from tests.sim import reference
from tileiras.sim.timing.cubin import Cubin

TIMEOUT = 180
CUBINS = pathlib.Path(__file__).resolve().parents[2] / "build" / "speed" / "cubins"


class NoOriginal(Exception):
    """The original can't compile it, or its launch can't be made."""


def available() -> bool:
    return reference.original() is not None


def compile_original(bytecode: bytes, sm: str) -> tuple[str, bytes]:
    """(PTX, cubin), kept by what they are made of. Raises NoOriginal."""
    command = reference.original()
    if command is None:
        raise NoOriginal("the original isn't installed")
    made = pathlib.Path(command).resolve().stat()
    key = hashlib.sha256(b"\0".join([bytecode, sm.encode(), f"{made.st_size} {made.st_mtime_ns}".encode()])).hexdigest()[:24]
    kept = CUBINS / f"{key}.cubin"
    if not kept.exists():
        runner.write_atomically(kept, _compile(command, bytecode, sm))
    cubin = kept.read_bytes()
    return Cubin(cubin).ptx, cubin


def _compile(command: str, bytecode: bytes, sm: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, out = pathlib.Path(folder) / "k.tileirbc", pathlib.Path(folder) / "k.cubin"
        source.write_bytes(bytecode)
        try:
            done = subprocess.run([command, str(source), "-o", str(out), "--gpu-name", sm, "-O3", "--lineinfo"],
                                  capture_output=True, timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            raise NoOriginal("the original takes too long") from None
        if done.returncode:
            raise NoOriginal(f"the original refuses: {_words(done.stderr.decode('utf-8', 'replace'))}")
        return out.read_bytes()


def _words(complaint: str) -> str:
    """What it says, without the place: that is a path of whoever exported the bytecode."""
    said = re.search(r"error: (.*)", complaint)
    return (said[1] if said else "no reason given").strip()[:200]


def arguments(ptx: str, cubin: bytes, sm: str, flat: list[Any]) -> list[Any]:
    """All launch arguments: the kernel's own, then tensor maps as the cubin's own host code makes them, and null for buffers of
    older drivers."""
    try:
        return reference.arguments_of(ptx, cubin, sm, flat)
    except (AssertionError, RuntimeError, KeyError) as error:
        raise NoOriginal(f"its host code: {type(error).__name__}: {error}") from error
