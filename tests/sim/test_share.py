"""Large grids in several processes: results, findings, output, faults and counts are those of one process."""
from __future__ import annotations

import os

import numpy as np
import pytest

from tests.sim.asynckit import kernel
from tests.sim.test_execution import DEPOT, PRINT, PRINTING
from tileiras.sim import BudgetExceeded, OutOfBounds, Report, SimulationError, simulate
from tileiras.sim.run import share

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

BLOCKS, THREADS = 24, 32
PLACE = """
mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 32, %t; mul.wide.u32 %d1, %r2, 4; add.u64 %d2, %d1, %g0; add.u64 %d3, %d1, %g1;
"""
DOUBLE = PLACE + "ld.global.u32 %r3, [%d2]; add.u32 %r3, %r3, %r3; st.global.u32 [%d3], %r3;"


@pytest.fixture
def helpers(monkeypatch):
    """How many helpers were started."""
    started = []

    class Counted(share.Helper):
        def __init__(self, *args) -> None:
            started.append(1)
            super().__init__(*args)
    monkeypatch.setattr(share, "Helper", Counted)
    return started


def run(body: str, processes: int, before: str = "", size: int = BLOCKS * THREADS, **options):
    """(what the second array holds, report or error) of a grid in six batches."""
    text = kernel(body, "", pointers=2, threads=THREADS)
    if before:
        text = text.replace(".visible .entry", before + "\n.visible .entry")
    given, out = np.arange(size, dtype=np.uint32), np.zeros(size, np.uint32)
    try:
        report = simulate(text, args=[given, out], grid=BLOCKS, batch_threads=4 * THREADS, processes=processes, **options)
    except SimulationError as error:
        return out, error
    return out, report


@pytest.mark.parametrize("processes", [2, 3, 6])
def test_independent_blocks(helpers, processes):
    out, report = run(DOUBLE, processes)
    assert out.tolist() == [2 * i for i in range(BLOCKS * THREADS)] and len(helpers) == processes - 1
    alone, expected = run(DOUBLE, 1)
    assert report == expected and report.findings == [] and np.array_equal(out, alone)


def test_what_blocks_print(helpers):
    body = f"""{PLACE} .reg .b64 %p0; {DEPOT} setp.gt.u32 %p1, %t, 1; @%p1 bra OUT; {PRINT.replace('NUMBER', '%r2')}
    OUT:""".replace(".reg .b64 %p0;", "")
    _, report = run(body, 2, PRINTING)
    assert report.output == "".join(f"i={32 * b + t} 1.50 abc\n" for b in range(BLOCKS) for t in (0, 1)) and len(helpers) == 1


@pytest.mark.parametrize("body", [
    PLACE + "st.global.u32 [%g1], %r1;",                                                        # all write one word
    PLACE + "ld.global.u32 %r3, [%g1 + 3068]; st.global.u32 [%d3], %r1;",                       # all read the last one's
    PLACE + "st.global.u32 [%d3], %r1; ld.global.u32 %r3, [%g1]; st.global.u32 [%d3], %r3;",    # and the first one's
], ids=["written", "the last", "the first"])
def test_blocks_that_meet_are_found_as_in_one_process(helpers, body):
    out, report = run(body, 2)
    assert len(helpers) == 1
    alone, expected = run(body, 1)
    assert [str(f) for f in report.findings] == [str(f) for f in expected.findings] and report.findings
    assert np.array_equal(out, alone)


@pytest.mark.parametrize("body", [
    PLACE + "red.global.add.u32 [%g1], 1;",
    PLACE + "atom.global.add.u32 %r3, [%g1], 1;",
    PLACE + "W: ld.acquire.gpu.global.u32 %r3, [%g1]; setp.ne.u32 %p1, %r3, %r1; @%p1 bra W; bar.sync 0; "
            "add.u32 %r3, %r3, 1; setp.eq.u32 %p2, %t, 0; @%p2 st.release.gpu.global.u32 [%g1], %r3;",
], ids=["red", "atom", "turns"])
def test_blocks_that_wait_or_count_together_stay_in_one_process(helpers, body):
    out, report = run(body, 2)
    assert not helpers and not report.findings
    assert out[0] == (BLOCKS if "acquire" in body else BLOCKS * THREADS)


@pytest.mark.parametrize("block", [1, 22])
def test_a_fault_of_either_share(helpers, block):
    body = PLACE + f"setp.eq.u32 %p1, %r1, {block}; @%p1 add.u64 %d3, %d3, 1048576; st.global.u32 [%d3], %r1;"
    (out, error), (alone, expected) = run(body, 2), run(body, 1)
    assert isinstance(error, OutOfBounds) and str(error) == str(expected) and error.ctaid == (block, 0, 0) and len(helpers) == 1
    assert np.array_equal(out, alone)


def test_a_budget_is_for_all():
    _, report = run(DOUBLE, 1)
    assert isinstance(report, Report)
    for budget, kind in ((report.issued, type(report)), (report.issued - 1, BudgetExceeded)):
        _, found = run(DOUBLE, 2, max_instructions=budget)
        assert type(found) is kind


def test_no_helpers_beside_threads_or_for_small_grids(helpers, monkeypatch):
    monkeypatch.setattr(share, "processes", lambda: 2)
    simulate(kernel(DOUBLE, "", pointers=2), args=[np.zeros(96, np.uint32), np.zeros(96, np.uint32)], grid=3)
    assert not helpers
