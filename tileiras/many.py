"""How are many programs compiled at once? By warm processes, each of which compiles one program after the other.

`compile_many(jobs)` gives results as they are ready. A process that dies fails its job and is replaced; errors are results.
"""
from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from tileiras.compiler import CompiledModule
from tileiras.errors import CompileError, ConfigError

_BOOTSTRAP = "import sys; sys.path[:0] = sys.argv[1:]; from tileiras.many import serve; serve()"
_LENGTH_BYTES = 8
_BAR = 30


@dataclass(frozen=True)
class Result:
    """A job's outcome: its number among the jobs, the job, and the module or the error; how long it took."""

    index: int
    job: Mapping[str, Any]
    module: CompiledModule | None = None
    error: Exception | None = None
    seconds: float = 0.0


def compile_many(jobs: Iterable[Mapping[str, Any] | bytes], workers: int | None = None,
                 progress: bool | None = None) -> Iterator[Result]:
    """Compile jobs side by side; results in the order in which they are ready.

    A job is the arguments of `tileiras.compile` by name, or bytecode alone; what else it holds under "tag" comes back with it.
    `workers`: how many processes, as many as there are processors unless said. `progress`: a bar on standard error, shown on
    terminals unless said. Raises ConfigError for a number of workers below one or a job that is neither.
    """
    todo = [(i, {"bytecode": job} if isinstance(job, (bytes, bytearray, memoryview)) else job) for i, job in enumerate(jobs)]
    for index, job in todo:
        if not isinstance(job, Mapping) or "bytecode" not in job:
            raise ConfigError(f"job {index} has no bytecode")
    count = min(workers if workers is not None else len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity")
                else os.cpu_count() or 1, max(len(todo), 1))
    if count < 1:
        raise ConfigError(f"invalid number of workers: {count}")
    return _results(todo, count, sys.stderr.isatty() if progress is None else progress)


def _results(todo: list[tuple[int, Mapping[str, Any]]], count: int, progress: bool) -> Iterator[Result]:
    waiting: queue.SimpleQueue[tuple[int, Mapping[str, Any]] | None] = queue.SimpleQueue()
    done: queue.SimpleQueue[Result] = queue.SimpleQueue()
    for item in todo:
        waiting.put(item)
    for _ in range(count):
        waiting.put(None)
    processes = [_Process() for _ in range(count)]
    threads = [threading.Thread(target=process.work, args=(waiting, done), daemon=True) for process in processes]
    for thread in threads:
        thread.start()
    failed = 0
    try:
        for number in range(1, len(todo) + 1):
            result = done.get()
            failed += result.error is not None
            if progress:
                _show(number, len(todo), failed)
            yield result
    finally:
        for process in processes:
            process.end()
        if progress and todo:
            print(file=sys.stderr)


def _show(number: int, total: int, failed: int) -> None:
    bar = "#" * (_BAR * number // total)
    print(f"\r[{bar:<{_BAR}}] {number}/{total}{f', {failed} failed' if failed else ''}", end="", file=sys.stderr, flush=True)


class _Process:
    """A process that compiles, and the thread's side of it."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._ended = False
        self._lock = threading.Lock()

    def work(self, waiting: queue.SimpleQueue[tuple[int, Mapping[str, Any]] | None], done: queue.SimpleQueue[Result]) -> None:
        while not self._ended and (item := waiting.get()) is not None:
            index, job = item
            start = time.perf_counter()
            try:
                module, error = self._ask({name: value for name, value in job.items() if name != "tag"})
            except Exception as problem:
                module, error = None, problem
            done.put(Result(index, job, module, error, time.perf_counter() - start))
        self.end()

    def _ask(self, job: dict[str, Any]) -> tuple[CompiledModule | None, Exception | None]:
        job["bytecode"] = bytes(job["bytecode"])
        with self._lock:
            if self._ended:
                raise CompileError("the compilation was given up")
            if self._child is None:
                root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
                self._child = subprocess.Popen([sys.executable, "-c", _BOOTSTRAP, root, *filter(None, sys.path)],
                                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            child = self._child
        assert child.stdin is not None and child.stdout is not None
        try:
            _write(child.stdin, pickle.dumps(job))
            return pickle.loads(_read(child.stdout))
        except (OSError, EOFError):
            self._drop()
            raise CompileError(f"a process that compiles ended with exit status {child.returncode}") from None

    def _drop(self) -> None:
        """End the process; the next job starts another."""
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout):
                try:
                    if pipe is not None:
                        pipe.close()
                except OSError:
                    pass

    def end(self) -> None:
        self._ended = True
        self._drop()


def _write(file: IO[bytes], data: bytes) -> None:
    file.write(len(data).to_bytes(_LENGTH_BYTES, "little") + data)
    file.flush()


def _read(file: IO[bytes]) -> bytes:
    head = file.read(_LENGTH_BYTES)
    body = file.read(int.from_bytes(head, "little"))
    if len(head) < _LENGTH_BYTES or len(body) < int.from_bytes(head, "little"):
        raise EOFError
    return body


def serve() -> None:
    """What such a process does: compile what standard input names until that ends."""
    import signal

    import tileiras

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the owner's to handle
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)   # what is printed doesn't mix with replies
    while True:
        try:
            job = pickle.loads(_read(requests))
        except EOFError:
            return
        try:
            answer: tuple[Any, Any] = tileiras.compile(**job), None
        except Exception as error:
            answer = None, error
        try:
            data = pickle.dumps(answer)
        except Exception:  # an error that can't be handed over as it is
            data = pickle.dumps((None, CompileError(str(answer[1]))))
        _write(replies, data)
