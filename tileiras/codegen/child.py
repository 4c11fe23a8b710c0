"""How is a tool run whose output is wanted? As `subprocess.run` would, without that module: importing it takes a fifth of the
time that ptxas takes for a small kernel."""
from __future__ import annotations

import os
import select
import signal
import time

_WAITING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_OF_PYTHON = [signal.SIGPIPE, signal.SIGXFSZ]
"""Signals that Python ignores, and a tool shouldn't."""
_CHUNK = 1 << 16


class TimeoutExpired(Exception):
    """The command took too long, and was ended."""


def run(command: list[str], environment: dict[str, str], timeout: float) -> tuple[int, bytes, bytes]:
    """Exit code (minus the signal that ended it), standard output and standard error of a command, which doesn't outlive an
    exception here: signals wait until its process is known. Raises TimeoutExpired, and OSError where it can't be started."""
    ours, theirs = _pipes()
    actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
               *((os.POSIX_SPAWN_DUP2, end, fd) for end, fd in zip(theirs, (1, 2)))]
    try:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITING)
        try:
            pid = os.posix_spawn(command[0], command, environment, file_actions=actions, setsigmask=before, setsigdef=_OF_PYTHON)
            try:
                for fd in theirs:
                    os.close(fd)
                theirs = ()
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
                output = _read_all(ours, time.monotonic() + timeout)
                status = os.waitpid(pid, 0)[1]
            except BaseException:
                _end(pid)
                raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    finally:
        for fd in (*ours, *theirs):
            os.close(fd)
    return os.waitstatus_to_exitcode(status), output[0], output[1]


def _pipes() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The reading and the writing ends of two pipes, none of which takes the place of a standard file."""
    first = os.pipe()
    try:
        second = os.pipe()
    except OSError:
        for fd in first:
            os.close(fd)
        raise
    return (first[0], second[0]), (first[1], second[1])


def _read_all(fds: tuple[int, ...], deadline: float) -> list[bytes]:
    """What comes from each descriptor until all have ended."""
    chunks: dict[int, list[bytes]] = {fd: [] for fd in fds}
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN | select.POLLHUP)
    open_fds = set(fds)
    while open_fds:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutExpired
        for fd, _ in poll.poll(left * 1000):
            chunk = os.read(fd, _CHUNK)
            if chunk:
                chunks[fd].append(chunk)
            else:
                poll.unregister(fd)
                open_fds.discard(fd)
    return [b"".join(chunks[fd]) for fd in fds]


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except OSError:
        pass  # it has ended
