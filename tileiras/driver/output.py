"""How a result reaches its file: whole or not at all."""
from __future__ import annotations

import os
import stat
import sys

from tileiras.errors import InputError

STDOUT = "-"
_NEW_FILE_MODE = 0o666


def read_input(path: str) -> bytes:
    """The bytes of the input file. Raises InputError."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError) as error:
        raise InputError(f"unable to read input file '{path}': {_reason(error)}") from None


def write_output(path: str, data: bytes) -> None:
    """Write `data` to `path` by way of a temporary file beside it, or to standard output for "-".

    What exists and is no regular file (a device, a pipe) is written to directly. Raises InputError.
    """
    try:
        if path == STDOUT:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        elif _is_special(path):
            with open(path, "wb") as file:
                file.write(data)
        else:
            _replace(os.path.realpath(path) if os.path.islink(path) else path, data)
    except (OSError, ValueError) as error:
        raise InputError(f"unable to write output file '{path}': {_reason(error)}") from None


def _is_special(path: str) -> bool:
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def _replace(path: str, data: bytes) -> None:
    temporary = f"{path}.{os.getpid()}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _NEW_FILE_MODE)
    try:
        with open(fd, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
