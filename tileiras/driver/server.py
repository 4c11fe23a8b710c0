"""What does a command do that stays behind? It serves the user's next commands, each in a copy of itself.

The copy (a fork) has everything imported; it takes over the standard files, working folder, environment and arguments of the
command that asks, runs it as that command would have, says the exit code and ends: nothing of one command is left to the next.
LLVM's process is lent to one copy at a time and goes on to the next when that one has left it in order; a second command at the
same time starts its own. The server itself waits: for commands, for their ends, and for its time to be up.
"""
from __future__ import annotations

import fcntl
import marshal
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from tileiras.codegen import toolchain
from tileiras.driver import linger, shutdown

MOST_AT_ONCE = 8
MOST_SERVED = 200
"""Then the server ends: LLVM keeps something of each module."""
_IN_ORDER = b"k"
_BACKLOG = 16


class Copy:
    """A fork that serves a command: its process, what tells how it ended, the command's connection, whether it has the worker."""

    def __init__(self, pid: int, report: int, connection: Any, has_worker: bool) -> None:
        self.pid, self.report, self.connection, self.has_worker = pid, report, connection, has_worker


def stay_behind(main: Callable[[], int]) -> None:
    """Leave a copy of this process behind as the server; returns when that has let go of every file of this one's caller. `main`
    is the command: it reads `sys.argv` and gives the exit code."""
    from tileiras.codegen import client

    released, release = os.pipe()
    identity = linger.identity()
    with client.shared():
        pid = os.fork()
    if pid:
        os.close(release)
        os.read(released, 1)
        client.leave_to_others()
        return
    try:
        os.setsid()
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        for fd in linger.STANDARD_FILES:
            os.dup2(null, fd)
        _close_but({*linger.STANDARD_FILES, release, *client.descriptors()})
        os.write(release, b".")
        os.close(release)
        client.take_over()
        _serve(identity, main)
    except BaseException:
        pass  # nobody to tell; the next command does its work itself
    finally:
        client.stop(reap=False)
        os._exit(0)


def _close_but(kept: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                pass  # the listing's own


def _serve(identity: tuple[Any, ...], main: Callable[[], int]) -> None:
    import _socket

    from tileiras.driver.modules import KeptModules

    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, KeptModules)]     # its file is closed
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN if number != signal.SIGTERM else _end)
    os.umask(0o077)
    path = linger.place()
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return  # there is one
    try:
        try:
            os.unlink(f"{path}.socket")
        except FileNotFoundError:
            pass
        listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        listener.bind(f"{path}.socket")
        listener.listen(_BACKLOG)
        Server(listener, identity, linger.seconds(), main).run()
    except _Ended:
        pass
    finally:
        for ending in ("socket", "last", "lock"):
            try:
                os.unlink(f"{path}.{ending}")
            except OSError:
                pass
        try:
            os.rmdir(os.path.dirname(path))
        except OSError:
            pass  # another version's server is in it


class _Ended(BaseException):
    """Somebody asked the server to end."""


def _end(_number: int, _frame: object) -> NoReturn:
    raise _Ended


class Server:
    """Answers on a listening socket until nobody asked for `seconds`, or sources change."""

    def __init__(self, listener: Any, identity: tuple[Any, ...], seconds: float, main: Callable[[], int]) -> None:
        self.listener, self.identity, self.seconds, self.main = listener, identity, seconds, main
        self.copies: dict[int, Copy] = {}       # by the descriptor of the report
        self.served = 0
        self.sources = _sources()

    def run(self) -> None:
        _import_all()
        self.sources = _sources()
        until = time.monotonic() + self.seconds
        while self.copies or time.monotonic() < until:
            poll = select.poll()
            poll.register(self.listener.fileno(), select.POLLIN)
            for copy in self.copies.values():
                poll.register(copy.report, select.POLLIN | select.POLLHUP)
                if copy.connection is not None:
                    poll.register(copy.connection.fileno(), select.POLLRDHUP | select.POLLHUP)
            left = max(until - time.monotonic(), 0.0)
            ready = dict(poll.poll(None if self.copies else left * 1000))
            for copy in list(self.copies.values()):
                if copy.report in ready:
                    self._ended(copy)
                elif copy.connection is not None and copy.connection.fileno() in ready:
                    copy.connection.close()     # the command was killed
                    copy.connection = None
                    _kill(copy.pid, signal.SIGTERM)
            if self.listener.fileno() in ready:
                if not self._accept():
                    return
                until = time.monotonic() + self.seconds

    def _ended(self, copy: Copy) -> None:
        from tileiras.codegen import client

        in_order = os.read(copy.report, 1) == _IN_ORDER
        os.close(copy.report)
        del self.copies[copy.report]
        try:
            os.waitpid(copy.pid, 0)
        except OSError:
            pass
        if copy.connection is not None:
            copy.connection.close()
        if copy.has_worker and not in_order:
            client.restart()

    def _accept(self) -> bool:
        """Serve who asks; whether the server goes on."""
        from _socket import socket

        fd, _ = self.listener._accept()     # what `socket.accept` is made of: that module has too much in it for the command
        connection = socket(fileno=fd)
        connection.settimeout(linger.PATIENCE)
        try:
            if linger.peer(connection)[1] != os.geteuid():
                return True
            if self.served >= MOST_SERVED or _sources() != self.sources:
                return False        # the next command that does its work itself stays behind
            connection.sendall(linger.READY)
            fds, body = linger.receive_request(connection)
            try:
                identity, arguments, environment, mask = marshal.loads(body)
                if identity == self.identity and len(self.copies) < MOST_AT_ONCE:
                    self._start(connection, fds, arguments, environment, mask)
            finally:
                for fd in fds:
                    os.close(fd)
        except (OSError, ValueError, EOFError, TypeError):
            pass  # not a request
        finally:
            if not any(copy.connection is connection for copy in self.copies.values()):
                connection.close()
        return True

    def _start(self, connection: Any, fds: list[int], arguments: list[str], environment: dict[bytes, bytes], mask: int) -> None:
        from tileiras.codegen import client

        has_worker = not any(copy.has_worker for copy in self.copies.values())
        self.served += 1
        report, said = os.pipe()
        try:
            if has_worker:
                with client.shared():
                    pid = os.fork()
            else:
                pid = os.fork()
        except OSError:
            os.close(report)
            os.close(said)
            return
        if not pid:
            self.listener.close()
            for copy in self.copies.values():
                os.close(copy.report)
            os.close(report)
            _Work(connection, said, self.main).run(fds, arguments, environment, mask)
        os.close(said)
        self.copies[report] = Copy(pid, report, connection, has_worker)


class _Work:
    """In the copy: one command, from taking over its files to saying its exit code."""

    def __init__(self, connection: Any, report: int, main: Callable[[], int]) -> None:
        self.connection, self.report, self.main = connection, report, main

    def run(self, fds: list[int], arguments: list[str], environment: dict[bytes, bytes], mask: int) -> NoReturn:
        try:
            for number in (signal.SIGHUP, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for fd, ours in zip(fds, linger.STANDARD_FILES):
                os.dup2(fd, ours)
            os.fchdir(fds[-1])
            for fd in fds:
                os.close(fd)
            os.umask(mask)
            os.environb.clear()
            os.environb.update(environment)
            toolchain.forget()
            _open_standard_files()
            sys.argv[:] = arguments
            self.connection.settimeout(None)
            self.connection.sendall(linger.ACCEPTED + os.getpid().to_bytes(4, "little"))
            if self.connection.recv(1) != linger.GO:
                os.write(self.report, _IN_ORDER)        # the command has lost patience, and does the work itself
                os._exit(0)
        except BaseException:
            os._exit(1)
        self._command()

    def _command(self) -> NoReturn:
        code, ended_by = linger.INTERRUPTED, 0
        try:
            shutdown.tidy_up_when_killed()
            code = self.main()
        except KeyboardInterrupt:
            pass
        except shutdown.Killed as killed:
            ended_by = killed.signal
        finally:
            self._leave(code, ended_by)

    def _leave(self, code: int, ended_by: int) -> NoReturn:
        from tileiras.codegen import client

        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass
        interrupted = bool(ended_by) or code == linger.INTERRUPTED
        try:
            if client.is_in_order() and not interrupted:
                os.write(self.report, _IN_ORDER)
            else:
                client.stop(reap=False)
        except Exception:
            pass  # the server starts another worker; the exit code must be told, or the command would do its work again
        if not ended_by:
            try:
                self.connection.sendall(code.to_bytes(linger.CODE_BYTES, "little"))
            except OSError:
                pass
        os._exit(0)


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass


def _open_standard_files() -> None:
    """The streams as Python opens them when it starts, on files that weren't there then."""
    sys.stdin = open(0, closefd=False)
    for name, fd, errors in (("stdout", 1, None), ("stderr", 2, "backslashreplace")):
        old = getattr(sys, name)
        buffered = fd == 1 and not os.isatty(fd)
        setattr(sys, name, open(fd, "w", encoding=old.encoding, errors=errors or old.errors, closefd=False,
                                buffering=-1 if buffered else 1))


def _import_all() -> None:
    """What any command may need, so that no copy has to."""
    from importlib import import_module

    from tileiras.pipeline import PIPELINE

    for module in dict.fromkeys(["tileiras.codegen.compile", "tileiras.codegen.ptxas", "tileiras.codegen.occupancy",
                                 "tileiras.driver.remarks", *(entry.module for entry in PIPELINE)]):
        import_module(module)


def _sources() -> dict[str, tuple[int, int] | None]:
    """Sizes and times of the sources of what is loaded."""
    found: dict[str, tuple[int, int] | None] = {}
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if path and module.__name__.partition(".")[0] in ("tileiras", "xdsl"):
            try:
                status = os.stat(path)
                found[path] = status.st_size, status.st_mtime_ns
            except OSError:
                found[path] = None
    return found
