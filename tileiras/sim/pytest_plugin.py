"""Whole suites of cuTile programs without a GPU: `pytest -p tileiras.sim.pytest_plugin tests/`.

Launches go to the simulator and 'cuda' tensors live on the CPU, as under `python -m tileiras.sim.cutile`; the suite's own
assertions judge. Nothing is touched unless the plugin is asked for by name, and all is given back at the end.

    --tile-gpu sm_90            the SM to compile for (or TILEIRAS_SIM_GPU)
    --tile-sample N             of each test function at most N parameter sets, spread over all; --tile-seed draws others
    --tile-time SECONDS         of one test;  --tile-instructions N  issued by one test
    --tile-findings keep        races and the like go into the report and don't fail the test
    --tile-cupy                 `import cupy` finds a stand-in on NumPy;  --tile-children: started programs get all this too
    --tile-report FILE          what each test did, as JSON
    --tile-mutate               flip a byte of one array after each launch: tests that still pass don't look at results

Each test ends as one of OUTCOMES; the summary counts them.
"""
from __future__ import annotations

import json
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

import numpy as np
import pytest

from tileiras.errors import ConfigError, TileirasError
from tileiras.sim.cutile import budget, standin
from tileiras.sim.cutile.budget import Ledger, OverBudget
from tileiras.sim.errors import LaunchError, SimulationError

KEY = "tileiras"
OUTCOMES = {
    "passed": "passed, with at least one kernel",
    "no kernel": "passed, and launched nothing",
    "failed": "failed, by an assertion or error of its own",
    "finding": "ended by a fault, race or the like in a kernel",
    "refused": "a kernel that the compiler refused",
    "over budget": "over its time or instructions",
    "skipped": "skipped, or expected to fail",
}
DEFAULT_SECONDS = 60.0
DEFAULT_INSTRUCTIONS = 20_000_000
AGAIN_SECONDS = 5.0               # a test that swallows the alarm hears it again
WRITE_SECONDS = 30.0              # from one report to the next while the suite runs
LINES_SHOWN = 12
LONGEST_MESSAGE = 1000            # characters of an error that the report keeps


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tileiras", "cuTile programs without a GPU")
    add = group.addoption
    add("--tile-gpu", metavar="SM", help="the SM to compile for (default: TILEIRAS_SIM_GPU, or sm_90)")
    add("--tile-sample", type=int, metavar="N", help="at most N parameter sets of each test function")
    add("--tile-seed", type=int, default=0, metavar="N", help="which ones (default 0: spread evenly)")
    add("--tile-time", type=float, default=DEFAULT_SECONDS, metavar="SECONDS",
        help=f"time of one test (default {DEFAULT_SECONDS:.0f}; 0: no limit)")
    add("--tile-instructions", type=int, default=DEFAULT_INSTRUCTIONS, metavar="N",
        help=f"instructions that one test may issue (default {DEFAULT_INSTRUCTIONS}; 0: no limit)")
    add("--tile-findings", choices=("raise", "keep"), default="raise", help="whether findings fail a test (default: raise)")
    add("--tile-cupy", action="store_true", help="let `import cupy` find a stand-in on NumPy where CuPy isn't installed")
    add("--tile-children", action="store_true", help="Python programs that tests start get the stand-in as well")
    add("--tile-report", metavar="FILE", help="write what each test did as JSON")
    add("--tile-mutate", action="store_true", help="flip a byte of one array after each launch")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before any conftest: they ask for devices while they are imported."""
    _begin(early_config)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    _begin(config)
    config.pluginmanager.register(Plugin(config), "tileiras-tests")


def pytest_unconfigure(config: pytest.Config) -> None:
    standin.uninstall()


def _begin(config: pytest.Config) -> None:
    if standin.installed():
        return
    options = config.known_args_namespace
    try:
        standin.install(options.tile_gpu, cupy=options.tile_cupy, children=options.tile_children,
                        findings=options.tile_findings)
    except ConfigError as error:
        raise pytest.UsageError(str(error)) from error
    except ImportError as error:
        raise pytest.UsageError(f"cuTile Python isn't installed ({error})") from error
    if options.tile_mutate:
        standin.flip_outputs(flip_a_byte)


def flip_a_byte(arrays: list[np.ndarray], before: list[bytes]) -> None:
    """Damage one element that the launch changed, by its most significant byte; where it changed nothing, one of the first
    array that can be written."""
    for array, old in zip(arrays, before):
        new = np.frombuffer(array.tobytes(), np.uint8)
        changed = np.flatnonzero(new != np.frombuffer(old, np.uint8)) if len(new) else ()
        if len(changed):
            _flip(array, int(changed[len(changed) // 2]) // array.itemsize)
            return
    for array in arrays:
        if array.size and array.flags.writeable:
            _flip(array, array.size // 2)
            return


def _flip(array: np.ndarray, element: int) -> None:
    data = bytearray(array.tobytes())
    last = element * array.itemsize + (array.itemsize - 1 if sys.byteorder == "little" else 0)
    data[last] ^= 1 if array.dtype.kind == "b" else 0xFF
    array[...] = np.frombuffer(bytes(data), array.dtype).reshape(array.shape)


class Plugin:
    """What happens around the tests of one session. Results travel in the reports, also from xdist's workers."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.options: Any = config.option
        self.tests: dict[str, dict[str, Any]] = {}
        self.left_out = 0
        self.written = time.monotonic()
        self.worker = hasattr(config, "workerinput")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep a sample of each function's parameter sets."""
        n = self.options.tile_sample
        if not n:
            return
        groups: dict[str, list[pytest.Item]] = {}
        for item in items:
            groups.setdefault(item.nodeid.partition("[")[0], []).append(item)
        kept = set()
        for name, group in groups.items():
            kept |= {id(i) for i in sample(group, n, self.options.tile_seed, name)}
        dropped = [i for i in items if id(i) not in kept]
        if dropped:
            self.config.hook.pytest_deselected(items=dropped)
            self.left_out = len(dropped)
            items[:] = [i for i in items if id(i) in kept]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """An account of its own for each test."""
        before = budget.begin(Ledger(self.options.tile_instructions or None))
        item.user_properties.append((KEY, {}))
        try:
            yield
        finally:
            budget.begin(before)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        with _alarm(self.options.tile_time):
            yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        with _alarm(self.options.tile_time):
            yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
        if call.excinfo is not None:
            _with_lines_only(call.excinfo)
        outcome: Any = yield
        report = outcome.get_result()
        ledger = budget.current
        known = _known(item)
        if known is None:
            return
        error = call.excinfo.value if call.excinfo is not None else None
        if error is not None and (call.when == "call" or "why" not in known):
            known["why"], known["reason"] = _why(error, ledger)
            known["message"] = str(error).strip()[:LONGEST_MESSAGE]
        known.update(launches=ledger.launches, instructions=ledger.issued, kernels=ledger.kernels,
                     findings=ledger.findings, simulated_seconds=round(ledger.seconds, 3))
        report.user_properties = list(item.user_properties)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        known = _known(report)
        if known is None or self.worker:
            return
        test = self.tests.setdefault(report.nodeid, {"outcome": None, "seconds": 0.0})
        test["seconds"] = round(test["seconds"] + report.duration, 3)
        test.update({k: v for k, v in known.items() if k != "why"})
        if report.skipped:
            test["outcome"] = "skipped"
            if isinstance(report.longrepr, tuple):
                test["reason"] = str(report.longrepr[2])
        elif report.failed:
            test["outcome"] = known.get("why", "failed")
        elif report.when == "call" and test["outcome"] is None:
            test["outcome"] = "passed" if known["launches"] else "no kernel"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.worker:
            return
        write = terminalreporter.write_line
        tests = {n: t for n, t in self.tests.items() if t["outcome"]}
        terminalreporter.section(f"simulated for {standin.gpu_name()}")
        counts = Counter(t["outcome"] for t in tests.values())
        for outcome, meaning in OUTCOMES.items():
            if counts[outcome]:
                write(f"{counts[outcome]:6}  {outcome:<12} {meaning}")
        if self.left_out:
            write(f"{self.left_out:6}  left out by --tile-sample {self.config.getoption('tile_sample')}")
        write(f"{sum(t.get('launches', 0) for t in tests.values())} launches, "
              f"{sum(t.get('instructions', 0) for t in tests.values())} instructions issued")
        places = Counter(f"{f['kind']} at {f['source'] or f['kernel']}: {f['message']}"
                         for t in tests.values() for f in t.get("findings", ()))
        for place, n in places.most_common(LINES_SHOWN):
            write(f"{n:6}  {place}")
        if len(places) > LINES_SHOWN:
            write(f"        and {len(places) - LINES_SHOWN} more places")

    def pytest_runtest_logfinish(self) -> None:
        """Keep the report up to date: a suite that takes hours may be ended from outside."""
        if time.monotonic() - self.written > WRITE_SECONDS:
            self.write()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.write()

    def write(self) -> None:
        """Write the report as far as it is."""
        self.written = time.monotonic()
        path = self.options.tile_report
        if self.worker or not path:
            return
        counts = Counter(t["outcome"] for t in self.tests.values() if t["outcome"])
        with open(path, "w") as file:
            json.dump({"gpu": standin.gpu_name(), "sample": self.options.tile_sample,
                       "seed": self.options.tile_seed, "left_out": self.left_out,
                       "mutated": self.options.tile_mutate, "counts": dict(counts), "tests": self.tests},
                      file, indent=1)


def _known(holder: pytest.Item | pytest.TestReport) -> dict[str, Any] | None:
    """What was noted of a test, in its properties."""
    found: Any = dict(holder.user_properties).get(KEY)
    return found


def sample(group: list[Any], n: int, seed: int, name: str) -> list[Any]:
    """At most `n` of a function's tests: spread evenly with the first and last (seed 0), or drawn."""
    if len(group) <= n:
        return group
    if seed:
        return [group[i] for i in sorted(random.Random(f"{seed} {name}").sample(range(len(group)), n))]
    return [group[round(i * (len(group) - 1) / max(n - 1, 1))] for i in range(n)]


def _with_lines_only(excinfo: Any) -> None:
    """Leave out of an exception's traceback what has no line, which pytest can't show: a signal may come between two."""
    seen: BaseException | None = excinfo.value
    passed = set()
    while seen is not None and id(seen) not in passed:
        passed.add(id(seen))
        entries = []
        entry = seen.__traceback__
        while entry is not None:
            entries.append(entry)
            entry = entry.tb_next
        if any(e.tb_lineno is None for e in entries):
            kept = None
            for e in reversed([e for e in entries if e.tb_lineno is not None]):
                kept = TracebackType(kept, e.tb_frame, e.tb_lasti, e.tb_lineno)
            seen.__traceback__ = kept
            if seen is excinfo.value:
                excinfo.traceback = type(excinfo.traceback)([] if kept is None else kept)
        seen = seen.__cause__ or seen.__context__


def _why(error: BaseException, ledger: Ledger) -> tuple[str, str]:
    """Which outcome an exception is, and its first line."""
    seen: BaseException | None = error
    chain = []
    while seen is not None and seen not in chain:
        chain.append(seen)
        seen = seen.__cause__ or seen.__context__
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    reason = f"{type(error).__name__}: {text}"
    if any(isinstance(e, OverBudget) for e in chain):
        return "over budget", reason
    if isinstance(error, LaunchError):
        return "failed", reason
    if any(isinstance(e, SimulationError) and not isinstance(e, LaunchError) for e in chain):
        return "finding", reason
    if ledger.refusal is not None or any(isinstance(e, TileirasError) and not isinstance(e, SimulationError) for e in chain):
        return "refused", reason
    return "failed", reason


class _alarm:
    """Ends what runs in the main thread after some seconds, by OverBudget."""

    def __init__(self, seconds: float) -> None:
        possible = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
        self.seconds = seconds if possible else 0

    def __enter__(self) -> None:
        if self.seconds:
            self.before = signal.signal(signal.SIGALRM, self._ring)
            signal.setitimer(signal.ITIMER_REAL, self.seconds, AGAIN_SECONDS)

    def __exit__(self, *_: object) -> None:
        if self.seconds:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self.before)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        raise OverBudget(f"{self.seconds:g} seconds are up")
