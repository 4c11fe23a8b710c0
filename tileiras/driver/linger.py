"""May a command that stayed behind answer? What the command asks before it imports anything, and the rules of staying.

The second command of a user within a minute stays behind when it has answered (`server.py`), idle, for `TILEIRAS_LINGER` seconds
after the last command (20 unless set; 0: never; `always`: the first command stays, too). The user's next commands connect to its
socket, in a folder that only the user may enter, hand over their standard files, working folder, arguments and environment, and
get an exit code. A server is asked only where nothing could differ: of the same user, program, Python, limits and settings, with
unchanged sources. In every other case, and whenever it doesn't answer, the command does its work itself.
"""
from __future__ import annotations

import marshal
import os
import sys
import time

TYPE_CHECKING = False  # this is imported by every command: nothing of weight
if TYPE_CHECKING:
    from typing import Any

VARIABLE = "TILEIRAS_LINGER"
ALWAYS = "always"
DEFAULT_SECONDS = 20.0
MOST_SECONDS = 3600.0
CI = "CI"
"""Where this is set, as on machines that test, nothing stays behind."""
SOON = 60.0
"""A command within so many seconds of another is one of many."""

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended."""
PATIENCE = 0.25
"""Seconds within which a server accepts a request."""
READY, ACCEPTED, GO = b"R", b"A", b"G"
"""The server is awake; a copy has everything; the command still waits for it, and won't do the work itself."""
CODE_BYTES = 4
_LENGTH_BYTES = 4
MOST_BYTES = 1 << 22            # of a request: an environment is at most some 128 KiB a variable
STANDARD_FILES = (0, 1, 2)
_LIMITS = ("RLIMIT_FSIZE", "RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_STACK", "RLIMIT_NOFILE", "RLIMIT_CORE", "RLIMIT_RSS")
_SETTINGS = ("PYTHON", "LD_", "LC_", "LANG", "TILEIRAS_", "MALLOC_", "LLVM", "VIRTUAL_ENV", "TZ")
"""Environment variables (by their beginnings) that act when a process starts."""
_OF_THE_PROCESS = ("/dev/fd", "/proc/")
"""Paths that mean something else in another process."""


def seconds() -> float:
    """How long a command stays behind; 0 for not at all."""
    text = os.environ.get(VARIABLE, "")
    if os.environ.get(CI) or not hasattr(os, "fork") or not sys.platform.startswith("linux"):
        return 0.0
    if text in ("", ALWAYS):
        return DEFAULT_SECONDS
    try:
        return min(max(float(text), 0.0), MOST_SECONDS)
    except ValueError:
        return 0.0


def folder() -> str:
    """Where a user's socket lies."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return os.path.join(runtime, "tileiras") if runtime.startswith("/") else f"/tmp/tileiras-{os.geteuid()}"


def is_mine(path: str) -> bool:
    """Whether a folder is the user's own and nobody else may enter it."""
    import stat

    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def place() -> str:
    """The path of this program's socket, without an ending: one a user and installation."""
    import zlib

    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return os.path.join(folder(), f"{zlib.crc32(f'{root} {sys.executable} {sys.version}'.encode(errors='surrogateescape')):08x}")


def identity() -> tuple[Any, ...]:
    """What must be the same in two commands for one to do the other's work, beside what is handed over."""
    import resource

    settings = sorted((name, value) for name, value in os.environ.items() if name.startswith(_SETTINGS))
    limits = [resource.getrlimit(getattr(resource, name)) for name in _LIMITS]
    namespaces = [os.readlink(f"/proc/self/ns/{name}") for name in ("mnt", "pid", "user")]
    return (os.path.abspath(__file__), sys.executable, sys.version, tuple(sys.flags), tuple(sys.path), os.getuid(), os.geteuid(),
            os.getgid(), os.getegid(), tuple(sorted(os.getgroups())), tuple(limits), tuple(namespaces), tuple(settings),
            tuple(sorted(os.sched_getaffinity(0))), os.getpriority(os.PRIO_PROCESS, 0), os.environ.get("XDG_RUNTIME_DIR", ""))


def ask(arguments: list[str]) -> int | None:
    """The exit code of a command that a server carried out; None where there is none to ask, or none that answers.

    `arguments` is `sys.argv`. Ends this process by the signal that ended the work, if one came.
    """
    if not seconds() or any(path in argument for argument in arguments[1:] for path in _OF_THE_PROCESS):
        return None
    path = place()
    if not os.path.exists(f"{path}.socket") or not is_mine(os.path.dirname(path)):
        return None
    try:
        return _ask(f"{path}.socket", arguments)
    except (OSError, ValueError, EOFError):
        return None


def _ask(path: str, arguments: list[str]) -> int | None:
    import _socket

    for fd in STANDARD_FILES:
        os.fstat(fd)        # a closed one raises: what is to be seen of that only this process can show
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        connection.settimeout(PATIENCE)
        connection.connect(path)
        if peer(connection)[1] != os.geteuid() or connection.recv(1) != READY:
            return None         # files are handed to who is awake: what lies in a queue keeps a reader of theirs waiting
        here = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            mask = os.umask(0o77)
            os.umask(mask)
            body = marshal.dumps((identity(), arguments, dict(os.environb), mask))
            files = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (*STANDARD_FILES, here))
            data = len(body).to_bytes(_LENGTH_BYTES, "little") + body
            sent = connection.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
            connection.sendall(data[sent:])
        finally:
            os.close(here)
        head = _receive(connection, 1 + 4)
        if len(head) != 5 or head[:1] != ACCEPTED:
            return None
        connection.sendall(GO)
        return _wait(connection, int.from_bytes(head[1:], "little"))
    finally:
        connection.close()


def peer(connection: Any) -> tuple[int, int]:
    """Process and user at a connection's other end."""
    import _socket

    data = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return tuple(int.from_bytes(data[at:at + 4], sys.byteorder) for at in (0, 4))  # type: ignore[return-value]


def _receive(connection: Any, size: int) -> bytes:
    """So many bytes, or fewer where the connection ends."""
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            break
        data += chunk
    return data


def receive_request(connection: Any) -> tuple[list[int], bytes]:
    """A request's descriptors and body. Raises ValueError for one that isn't whole."""
    import _socket

    data, ancillary, _, _ = connection.recvmsg(1 << 16, _socket.CMSG_SPACE(4 * 16), _socket.MSG_CMSG_CLOEXEC)
    fds = [int.from_bytes(rights[at:at + 4], sys.byteorder) for level, kind, rights in ancillary
           if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS) for at in range(0, len(rights) - 3, 4)]
    size = int.from_bytes(data[:_LENGTH_BYTES], "little")
    body = data[_LENGTH_BYTES:]
    if size <= MOST_BYTES and len(data) >= _LENGTH_BYTES:
        body += _receive(connection, size - len(body))
    if len(fds) != len(STANDARD_FILES) + 1 or len(body) != size:
        for fd in fds:
            os.close(fd)
        raise ValueError("a request that isn't whole")
    return fds, body


def _wait(connection: Any, worker: int) -> int | None:
    """The exit code. Signals go on to the process that does the work; when it has ended, so does this one."""
    import _signal  # pyright: ignore[reportMissingImports]

    came: list[int] = []

    def forward(number: int, _frame: object) -> None:
        came.append(number)
        try:
            os.kill(worker, number)
        except OSError:
            pass

    ending = _signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP
    signals = [number for number in ending if _signal.getsignal(number) != _signal.SIG_IGN]
    before = {number: _signal.signal(number, forward) for number in signals}
    try:
        connection.settimeout(None)
        answer = _receive(connection, CODE_BYTES)
    finally:
        for number, handler in before.items():
            _signal.signal(number, handler)
    if len(answer) == CODE_BYTES:
        return int.from_bytes(answer, "little")
    if came:
        if came[0] == _signal.SIGINT:
            raise KeyboardInterrupt
        _signal.signal(came[0], _signal.SIG_DFL)
        os.kill(os.getpid(), came[0])
    return None


def stays() -> bool:
    """Whether this command, which did its work itself, is to stay behind. Notes that there was one."""
    if not seconds():
        return False
    path = place()
    note = f"{path}.last"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        if not is_mine(os.path.dirname(path)):
            return False
        try:
            age = time.time() - os.stat(note).st_mtime
        except FileNotFoundError:
            age = None
        os.close(os.open(note, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        os.utime(note)
    except OSError:
        return False
    return os.environ.get(VARIABLE) == ALWAYS or (age is not None and 0 <= age < SOON)
