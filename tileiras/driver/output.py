"""How a result reaches its file: whole or not at all.

A file that exists is written in place, since it may be all that its owner can write: it keeps its mode, its other names
and whatever is mounted over it, and it gets its old contents back when writing fails. A file that doesn't exist is made,
and goes again when writing fails.
"""
from __future__ import annotations

import errno
import os
import stat
import sys

from tileiras.errors import InputError
from tileiras.magic import MAGIC

STDOUT = "-"
_NEW_FILE_MODE = 0o666
_DESCRIPTOR_FOLDERS = ("/dev/fd/", "/proc/self/fd/")
_DESCRIPTOR_NAMES = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}


def read_input(path: str) -> bytes:
    """The bytes of the input file, of one that isn't bytecode only the first few: a device has no end. Raises InputError."""
    try:
        with open(path, "rb") as file:
            start = file.read(len(MAGIC))
            return start + file.read() if start == MAGIC else start
    except (OSError, ValueError) as error:
        raise InputError(f"unable to read input file '{path}': {_reason(error)}") from None


def write_text(text: str) -> None:
    """Write a text to standard output. Raises OSError where there is none, or where it is full."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    sys.stdout.write(text)
    sys.stdout.flush()


def write_output(path: str, data: bytes) -> None:
    """Write `data` to `path`, or to standard output for "-" (nothing where that is closed).

    What exists and is no regular file (a device, a pipe) is written to as it is; so is a descriptor that the path names
    (/dev/stdout), which keeps what was written to it before. Raises InputError.
    """
    try:
        reservation = Reservation(path)
    except (OSError, ValueError) as error:
        raise _not_written(path, error) from None
    try:
        reservation.write(data)
    finally:
        reservation.close()


def _not_written(path: str, error: Exception) -> InputError:
    return InputError(f"unable to write output file '{path}': {_reason(error)}")


class Reservation:
    """A place where a result will be written: opened now, so that a path that can't be written is known before the work.
    Raises OSError.

    Until `write`, an old file keeps its contents; `close` without one removes a file that wasn't there before.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._made: str | None = None
        self._written = False
        self._descriptor = _descriptor(path)
        self._fd = -1
        if path == STDOUT:
            return
        if self._descriptor is not None:
            self._fd = os.dup(self._descriptor)
            return
        try:
            self._fd = os.open(path, os.O_WRONLY)
        except FileNotFoundError:
            real = os.path.realpath(path) if os.path.islink(path) else path
            self._fd = os.open(real, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _NEW_FILE_MODE)
            self._made = real

    def write(self, data: bytes) -> None:
        """Write the whole result. Raises InputError; BrokenPipeError where it goes to a pipe that nobody reads."""
        try:
            if self._fd < 0:
                _write_stdout(data)
            elif self._made is not None or self._descriptor is not None or not stat.S_ISREG(os.fstat(self._fd).st_mode):
                _write_stdout(b"")  # what is buffered comes first
                _write_all(self._fd, data)
            else:
                _replace_contents(self._fd, data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _not_written(self._path, error) from None
        self._written = True

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._made is not None and not self._written:
            os.unlink(self._made)
            self._made = None


def _replace_contents(fd: int, data: bytes) -> None:
    """Overwrite an open file; on failure give it its old contents back.

    Room for all of `data` is asked for before the first byte is overwritten: a full disk is found out there.
    """
    size = os.fstat(fd).st_size
    old = _contents(fd, min(size, len(data)))
    try:
        if len(data) > size:
            _make_room(fd, size, len(data) - size)
        _write_all(fd, data)
        os.ftruncate(fd, len(data))
    except BaseException:
        _give_back(fd, old, size)
        raise


def _make_room(fd: int, start: int, length: int) -> None:
    try:
        os.posix_fallocate(fd, start, length)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO):
            raise  # others: this file system doesn't know the question


def _contents(fd: int, length: int) -> bytes:
    """The start of a file that is open for writing only."""
    if not length:
        return b""
    try:
        reader = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    except OSError:
        return b""  # a file that may be written and not read
    try:
        with open(reader, "rb", closefd=False) as file:
            return file.read(length)
    finally:
        os.close(reader)


def _give_back(fd: int, old: bytes, size: int) -> None:
    try:
        os.lseek(fd, 0, os.SEEK_SET)
        _write_all(fd, old)
        os.ftruncate(fd, size if old or not size else 0)
    except OSError:
        pass  # the first failure is the one to report


def _write_all(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left):]


def _write_stdout(data: bytes) -> None:
    if sys.stdout is None:
        return
    sys.stdout.flush()
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:      # a caller in this process took standard output for its text
        sys.stdout.write(data.decode(errors="replace"))
        return
    stream.write(data)
    stream.flush()


def _descriptor(path: str) -> int | None:
    """The open descriptor that a path names (/dev/stdout, /dev/fd/3), or None.

    To open such a path would begin the file behind it anew, and what the shell wrote to it would be lost.
    """
    if path in _DESCRIPTOR_NAMES:
        fd = _DESCRIPTOR_NAMES[path]
    else:
        folder = next((folder for folder in _DESCRIPTOR_FOLDERS if path.startswith(folder)), None)
        number = path[len(folder):] if folder else ""
        if not number.isdigit() or not number.isascii() or len(number) > 9:
            return None
        fd = int(number)
    return fd if os.path.exists(path) else None


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
