"""How the command ends: at once, for tearing down an interpreter full of IR costs as much as a small compile; and when a
signal ends it, without leaving a child or a file behind."""
from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

_SIGNALS = ("SIGTERM", "SIGHUP")


class Killed(BaseException):
    """A signal that ends the command, on its way through whatever must be tidied up."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


def _raise(number: int, _frame: object) -> NoReturn:
    for name in _SIGNALS:  # a second one doesn't disturb the tidying
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    raise Killed(number)


def tidy_up_when_killed() -> None:
    """From here on a signal that ends the command raises Killed, so that child processes and temporary files go too."""
    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:  # `nohup` stays what it says
            signal.signal(number, _raise)


def hold_standard_files() -> None:
    """Put /dev/null where the caller closed standard input, output or error, so that no pipe of ours takes its number."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: `fd`


def flush() -> None:
    """Write what the standard streams still hold, if somebody takes it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            pass


def leave(code: int, ended_by: int = 0) -> None:
    """Flush, end the worker, and exit with `code` without running destructors; or end by the signal `ended_by`."""
    flush()
    client = sys.modules.get("tileiras.codegen.client")
    if client is not None:
        client.stop(reap=False)
    if ended_by:
        signal.signal(ended_by, signal.SIG_DFL)
        os.kill(os.getpid(), ended_by)
    os._exit(code)
