"""Who owns the code-generation process: starts it, keeps it, restarts it, and reads its death as a diagnostic.

One worker does for one thread: what runs beside it is Python. Threads that compile at the same time get a worker each, as many
as there are processors. The first is started by `start()` (the command line
does so before it imports anything else) or by the first request, and survives until exit. A fork has none but inside
`shared()`: there it is lent, for as long as the fork lives and its owner keeps away from it (`driver/server.py`).
"""
from __future__ import annotations

import atexit
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tileiras.codegen import toolchain
from tileiras.codegen.worker import read_message, write_message
from tileiras.errors import CompileError

DEFAULT_TIMEOUT = 600.0
"""Seconds that LLVM may take on one module."""

_BOOTSTRAP = ("import sys; sys.path[:0] = sys.argv[2:]; "
              "from tileiras.codegen.worker import main; main(sys.argv[1])")
MAX_REQUESTS = 500
"""After so many modules a worker is replaced: llvmlite keeps some 150 KiB of each optimized module."""
_LOG_TAIL = 4000
_LONGEST_POLL = 3600.0


class _Object:
    """A host object: the worker's reply, once it is there."""

    reply: tuple[Any, ...] | None = None


class _Worker:
    """One child process with its two pipes and the file that its stderr goes to."""

    def __init__(self) -> None:
        llvmlite = toolchain.find_python_package("llvmlite")
        if llvmlite is None:
            raise CompileError("llvmlite is not installed")
        if not sys.executable:
            raise CompileError("cannot start the code generator: sys.executable is not set")
        package_root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        paths = [os.path.dirname(llvmlite)]
        if package_root not in paths:
            paths.append(package_root)
        argv = [sys.executable, "-I", "-S", "-c", _BOOTSTRAP, toolchain.find_libdevice() or "", *paths]
        self.served = 0
        self.owed: _Object | None = None     # what it makes while nobody waits
        self.log = _anonymous_file()
        child_in, self.to_child = os.pipe()
        self.from_child, child_out = os.pipe()
        try:
            self.pid = _spawn(argv, child_in, child_out, self.log)
        except OSError as error:
            os.close(self.to_child)
            os.close(self.from_child)
            os.close(self.log)
            raise CompileError(f"cannot start the code generator: {error}") from error
        finally:
            os.close(child_in)
            os.close(child_out)

    def ask(self, message: tuple[Any, ...], timeout: float) -> tuple[Any, ...]:
        """One request and its reply. Raises CompileError when the process dies or takes too long."""
        self.collect(timeout)
        self.send(message)
        return self._receive(timeout)

    def collect(self, timeout: float) -> None:
        """Take the reply that is still to come, if there is one."""
        if self.owed is not None:
            self.owed.reply = self._receive(timeout)
            self.owed = None

    def send(self, message: tuple[Any, ...]) -> None:
        try:
            write_message(self.to_child, message)
        except OSError:
            raise CompileError(self._death()) from None

    def _receive(self, timeout: float) -> tuple[Any, ...]:
        deadline = time.monotonic() + timeout
        poll = select.poll()
        poll.register(self.from_child, select.POLLIN | select.POLLHUP)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                self.close(kill=True)
                raise CompileError(f"LLVM did not finish within {timeout:g} seconds")
            if poll.poll(min(left, _LONGEST_POLL) * 1000):
                break
        reply = read_message(self.from_child)
        if reply is None:
            raise CompileError(self._death())
        return reply

    def _death(self) -> str:
        """Why the process ended, in LLVM's words where it left any."""
        if self is _lent:
            os._exit(1)  # only its parent can tell: who asked for the work does it again itself
        try:
            status = os.waitpid(self.pid, 0)[1]
        except OSError:
            status = 0
        size = os.fstat(self.log).st_size
        log = os.pread(self.log, _LOG_TAIL, max(0, size - _LOG_TAIL)).decode(errors="replace")
        self.close(kill=False)
        for line in log.splitlines():
            if line.startswith("LLVM ERROR: "):
                detail = log[log.index(line) + len("LLVM ERROR: "):].split("\nPLEASE submit")[0].strip()
                return f"LLVM can't compile this module: {detail}"
        how = f"signal {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else (
            f"exit status {os.WEXITSTATUS(status)}")
        detail = f": {log.strip().splitlines()[-1]}" if log.strip() else ""
        return f"the code generator ended with {how}{detail}"

    def close(self, *, kill: bool, reap: bool = True) -> None:
        for fd in (self.to_child, self.from_child, self.log):
            try:
                os.close(fd)
            except OSError:
                pass
        if kill:
            try:
                os.kill(self.pid, signal.SIGKILL)
                if reap:
                    os.waitpid(self.pid, 0)
            except OSError:
                pass

    def forget(self) -> None:
        """Close this process's copies of the pipes, leaving the worker to the parent that owns it."""
        self.close(kill=False)


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tileiras-llvm", os.MFD_CLOEXEC)
    import tempfile
    fd, path = tempfile.mkstemp(prefix="tileiras-llvm")
    os.unlink(path)
    return fd


def _spawn(argv: list[str], stdin: int, stdout: int, stderr: int) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_DUP2, stdout, 1), (os.POSIX_SPAWN_DUP2, stderr, 2)]
    return os.posix_spawn(argv[0], argv, os.environ, file_actions=actions)


_lock = threading.Lock()
_worker: _Worker | None = None
_lent: _Worker | None = None            # in a fork: the worker that is another process's
_sharing = False
_last: tuple[str, str, int] | None = None


def _current() -> _Worker:
    global _worker
    if _worker is None:
        _worker = _Worker()
    return _worker


def start(cpu: str, features: str, opt_level: int) -> None:
    """Start the worker if there is none and let it warm up for a target, without waiting for it."""
    global _last
    _last = cpu, features, opt_level
    if not _lock.acquire(blocking=False):
        return      # another thread has one
    try:
        if _worker is None:
            write_message(_current().to_child, ("warm", cpu, features, opt_level))
    except OSError:
        pass  # the first request reports it
    finally:
        _lock.release()


def _retire(cpu: str, features: str, opt_level: int) -> None:
    """Replace a worker that has served its time; the new one warms up while nobody waits."""
    global _worker
    worker = _worker
    if worker is None:
        return
    worker.served += 1
    if worker.served >= MAX_REQUESTS:
        _worker = None
        worker.close(kill=True)
        try:
            write_message(_current().to_child, ("warm", cpu, features, opt_level))
        except (OSError, CompileError):
            pass  # the next request reports it


def emit_ptx(llvm_ir: str, *, cpu: str, features: str, opt_level: int, cc: int, verify: bool = False,
             keep_llvm: bool = False, timeout: float = DEFAULT_TIMEOUT) -> tuple[str, str, dict[str, float]]:
    """PTX, optimized LLVM text (empty unless asked for) and seconds by phase.

    Raises CompileError with LLVM's text when it can't compile the module.
    """
    global _worker
    message = "ptx", llvm_ir, cpu, features, opt_level, cc, verify, keep_llvm
    if not _lock.acquire(blocking=False):
        reply = _ask_another(message, timeout)
    else:
        try:
            reply = _current().ask(message, timeout)
            _retire(cpu, features, opt_level)
        except BaseException:  # dead, or in the middle of a reply
            worker, _worker = _worker, None
            if worker is not None:
                worker.close(kill=True)
            raise
        finally:
            _lock.release()
    if reply[0] != "ok":
        raise CompileError(f"LLVM: {reply[1]}")
    return reply[1], reply[2], reply[3]


_others: list[_Worker] = []
"""Idle workers beside the first."""
_others_lock = threading.Lock()
_others_room = threading.BoundedSemaphore(max(1, (os.cpu_count() or 1) - 1))


def _ask_another(message: tuple[Any, ...], timeout: float) -> tuple[Any, ...]:
    """A request to a worker of this thread's own, while another thread has the first. Raises CompileError."""
    with _others_room:
        with _others_lock:
            worker = _others.pop() if _others else None
        worker = worker or _Worker()
        try:
            reply = worker.ask(message, timeout)
        except BaseException:
            worker.close(kill=True)
            raise
        worker.served += 1
        if worker.served >= MAX_REQUESTS:
            worker.close(kill=True)
        else:
            with _others_lock:
                _others.append(worker)
        return reply


_objects: dict[tuple[str, str, str], _Object] = {}
MAX_OBJECTS = 64


def prepare_host_object(llvm_ir: str, triple: str, code_model: str) -> None:
    """Let the worker make a host object when it has nothing else to do; `host_object` will have it. The last few are kept."""
    key = llvm_ir, triple, code_model
    if key in _objects or not _lock.acquire(blocking=False):
        return
    try:
        if _worker is not None and _worker.owed is None:
            _worker.send(("host", *key))
            _worker.owed = _keep(key)
    except CompileError:
        pass  # the next request reports it
    finally:
        _lock.release()


def _keep(key: tuple[str, str, str]) -> _Object:
    while len(_objects) >= MAX_OBJECTS:
        del _objects[next(iter(_objects))]
    made = _objects[key] = _Object()
    return made


def host_object(llvm_ir: str, triple: str, code_model: str, timeout: float = DEFAULT_TIMEOUT) -> bytes:
    """The object file of a module of a host's code. Raises CompileError."""
    global _worker
    key = llvm_ir, triple, code_model
    if not _lock.acquire(blocking=False):
        made = _objects.get(key)
        reply = made.reply if made is not None else None
        reply = reply or _ask_another(("host", *key), timeout)
    else:
        try:
            made = _objects.get(key) or _keep(key)
            if made.reply is None and _worker is not None:
                _worker.collect(timeout)
            if made.reply is None:
                made.reply = _current().ask(("host", *key), timeout)
            reply = made.reply
        except BaseException:
            worker, _worker = _worker, None
            if worker is not None:
                worker.close(kill=True)
            raise
        finally:
            _lock.release()
    assert reply is not None
    if reply[0] != "ok":
        raise CompileError(f"LLVM, of the host's code: {reply[1]}")
    return reply[1]


def worker_pid() -> int | None:
    """The worker's process id, or None while there is none."""
    return _worker.pid if _worker is not None else None


def stop(reap: bool = True) -> None:
    """End the worker; the next request starts another. `reap` waits until it is gone."""
    global _worker
    with _lock:
        worker, _worker = _worker, None
    with _others_lock:
        ended = [*([worker] if worker is not None else []), *_others]
        _others.clear()
    for each in ended:
        each.close(kill=True, reap=reap)


def _after_fork_in_child() -> None:
    global _worker, _lock, _lent, _others_lock, _others_room
    _lock, _others_lock = threading.Lock(), threading.Lock()
    _others_room = threading.BoundedSemaphore(max(1, (os.cpu_count() or 1) - 1))
    for other in _others:
        other.forget()
    _others.clear()
    if _sharing:
        _lent = _worker
        return
    worker, _worker = _worker, None
    if worker is not None:
        worker.forget()


@contextmanager
def shared() -> Iterator[None]:
    """Forks made meanwhile may use this process's worker, one after the other; this process doesn't."""
    global _sharing
    _sharing = True
    try:
        yield
    finally:
        _sharing = False


def take_over() -> None:
    """Make the lent worker this process's own: its owner has left. One that still owes a reply is replaced."""
    global _lent
    _lent = None
    if _worker is not None and _worker.owed is not None:
        restart()


def leave_to_others() -> None:
    """Let the worker live on in a fork that has it."""
    global _worker
    worker, _worker = _worker, None
    if worker is not None:
        worker.forget()


def descriptors() -> tuple[int, ...]:
    """What the worker is talked to by."""
    return (_worker.to_child, _worker.from_child, _worker.log) if _worker is not None else ()


def is_in_order() -> bool:
    """Whether the worker that was lent can go on to the next."""
    return _worker is not None and _worker is _lent and _worker.owed is None


def restart() -> None:
    """Another worker in place of one that may be in the middle of something."""
    stop(reap=False)
    if _last is not None:
        try:
            start(*_last)
        except CompileError:
            pass  # said again where it matters


atexit.register(stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
