"""mbarriers by the PTX ISA's definition: counts, phases, states, transactions; and what is wrong with their use."""
from __future__ import annotations

import numpy as np
import pytest

from tests.sim.asynckit import run
from tileiras.sim import BarrierError, Deadlock, InvalidInstruction
from tileiras.sim.errors import MissingProxyFence, TransactionMismatch

SHARED = ".shared .align 8 .b64 bar, other;"
ONE = "setp.ne.u32 %p1, %t, 0; @%p1 ret;\n"
INIT = "mbarrier.init.shared::cta.b64 [bar], N; fence.mbarrier_init.release.cluster;\n"


def single(body, count=4, **options):
    """Run a body in one thread behind `mbarrier.init` with `count`; returns 32 words it stored to %g0."""
    out = np.zeros(32, np.uint32)
    report = run(ONE + INIT.replace("N;", f"{count};") + body, [out], SHARED, **options)
    return out, report


def test_pending_counts_before_each_arrival():
    body = ""
    for i, (form, count) in enumerate([("arrive", ""), ("arrive", ", 2"), ("arrive.noComplete", ", 1"), ("arrive", "")]):
        body += f"mbarrier.{form}.shared.b64 %d1, [bar]{count}; mbarrier.pending_count.b64 %r1, %d1;\n"
        body += f"st.global.u32 [%g0 + {4 * i}], %r1;\n"
    out, _ = single(body + "mbarrier.arrive.shared.b64 %d1, [bar], 1;", 5)
    assert out[:4].tolist() == [5, 4, 2, 1]


@pytest.mark.parametrize("wait", ["test_wait", "try_wait"])
def test_states_and_parities_tell_the_phase(wait):
    body = f"""mbarrier.arrive.shared.b64 %d1, [bar];
 mbarrier.{wait}.shared::cta.b64 %p2, [bar], %d1; selp.u32 %r1, 1, 0, %p2; st.global.u32 [%g0], %r1;
 mbarrier.{wait}.parity.shared::cta.b64 %p2, [bar], 0; selp.u32 %r1, 1, 0, %p2; st.global.u32 [%g0 + 4], %r1;
 mbarrier.{wait}.parity.shared::cta.b64 %p2, [bar], 1; selp.u32 %r1, 1, 0, %p2; st.global.u32 [%g0 + 8], %r1;
 mbarrier.arrive.shared.b64 %d2, [bar];
 mbarrier.{wait}.acquire.cta.shared::cta.b64 %p2, [bar], %d1; selp.u32 %r1, 1, 0, %p2; st.global.u32 [%g0 + 12], %r1;
 mbarrier.{wait}.parity.shared::cta.b64 %p2, [bar], 0; selp.u32 %r1, 1, 0, %p2; st.global.u32 [%g0 + 16], %r1;
 mbarrier.{wait}.parity.shared::cta.b64 %p2, [bar], 1; selp.u32 %r1, 1, 0, %p2; st.global.u32 [%g0 + 20], %r1;"""
    out, report = single(body, 2)
    assert out[:6].tolist() == [0, 0, 1, 1, 1, 0] and not report.findings


def test_a_phase_needs_arrivals_and_bytes():
    look = "mbarrier.test_wait.parity.shared::cta.b64 %p2, [bar], 0; selp.u32 %r1, 1, 0, %p2; st.global.u32 [%g0 + AT], %r1;\n"
    steps = ["mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 100;", "mbarrier.arrive.shared.b64 _, [bar];",
             "mbarrier.complete_tx.shared::cta.b64 [bar], 60;", "mbarrier.complete_tx.shared::cta.b64 [bar], 40;"]
    body = "".join(s + "\n" + look.replace("AT", str(4 * i)) for i, s in enumerate(steps))
    out, report = single(body, 1)
    assert out[:4].tolist() == [0, 0, 0, 1] and not report.findings
    out, report = single("".join(steps[i] + "\n" + look.replace("AT", str(4 * k)) for k, i in enumerate((2, 3, 0, 1))), 1)
    assert out[:4].tolist() == [0, 0, 0, 1] and not report.findings          # bytes may come before they are expected


def test_dropped_arrivals_leave_the_next_phases():
    body = """mbarrier.arrive_drop.shared.b64 %d1, [bar]; mbarrier.arrive.shared.b64 %d1, [bar];
 mbarrier.test_wait.shared::cta.b64 %p2, [bar], %d1; selp.u32 %r1, 1, 0, %p2; st.global.u32 [%g0], %r1;
 mbarrier.arrive.shared.b64 %d1, [bar];
 mbarrier.test_wait.shared::cta.b64 %p2, [bar], %d1; selp.u32 %r1, 1, 0, %p2; st.global.u32 [%g0 + 4], %r1;"""
    out, report = single(body, 2)
    assert out[:2].tolist() == [1, 1] and not report.findings


def test_a_barrier_of_all_threads_many_times():
    x = np.zeros(128, np.uint32)
    body = """setp.ne.u32 %p1, %t, 0; @%p1 bra READY; mbarrier.init.shared::cta.b64 [bar], 128;
READY: bar.sync 0; mov.u32 %r5, 0;
LOOP: mbarrier.arrive.shared.b64 %d1, [bar];
WAIT: mbarrier.try_wait.shared::cta.b64 %p2, [bar], %d1, 1000; @!%p2 bra WAIT;
 add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 10; @%p3 bra LOOP;
 mul.wide.u32 %d2, %t, 4; add.u64 %d2, %d2, %g0; st.global.u32 [%d2], %r5;"""
    report = run(body, [x], SHARED, threads=128)
    assert (x == 10).all() and not report.findings


@pytest.mark.parametrize("prompt", [False, True])
def test_two_warps_may_hand_a_stage_to_each_other_as_often_as_they_like(prompt):
    """Each time both wait for the other: that isn't a deadlock, since each round one of the waits ends."""
    x = np.zeros(1, np.uint32)
    body = """setp.ne.u32 %p1, %t, 0; @%p1 bra READY;
 mbarrier.init.shared::cta.b64 [full], 32; mbarrier.init.shared::cta.b64 [empty], 32;
READY: bar.sync 0; mov.u32 %r5, 0; mov.u32 %r6, 0; setp.eq.u32 %p4, %w, 1; @%p4 bra CONSUMER;
PRODUCER: xor.b32 %r7, %r6, 1;
W1: mbarrier.try_wait.parity.shared::cta.b64 %p2, [empty], %r7; @!%p2 bra W1;
 setp.eq.u32 %p5, %lane, 0; @%p5 st.shared.u32 [stage], %r5; mbarrier.arrive.shared.b64 %d1, [full];
 xor.b32 %r6, %r6, 1; add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, ROUNDS; @%p3 bra PRODUCER; ret;
CONSUMER: mov.u32 %r9, 0;
NEXT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], %r6; @!%p2 bra NEXT;
 ld.shared.u32 %r8, [stage]; add.u32 %r9, %r9, %r8; mbarrier.arrive.shared.b64 %d1, [empty];
 xor.b32 %r6, %r6, 1; add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, ROUNDS; @%p3 bra NEXT;
 setp.eq.u32 %p5, %lane, 0; @%p5 st.global.u32 [%g0], %r9;""".replace("ROUNDS", "1000")
    shared = ".shared .align 8 .b64 full, empty; .shared .align 4 .u32 stage;"
    report = run(body, [x], shared, threads=64, prompt=prompt)
    assert x[0] == sum(range(1000)) and not report.findings


@pytest.mark.parametrize(("body", "count", "kind", "words"), [
    ("mbarrier.arrive.shared.b64 %d1, [bar], 3;", 2, BarrierError, "expects 2 more"),
    ("mbarrier.arrive.noComplete.shared.b64 %d1, [bar], 2;", 2, BarrierError, "noComplete"),
    ("mbarrier.inval.shared::cta.b64 [bar]; mbarrier.arrive.shared.b64 %d1, [bar];", 2, BarrierError, "was invalidated"),
    ("mbarrier.expect_tx.shared::cta.b64 [bar], 1048575; mbarrier.expect_tx.shared::cta.b64 [bar], 1;", 2, TransactionMismatch,
     "leaves its range"),
    ("mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;\n"
     "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; @!%p2 bra W;",
     1, TransactionMismatch, "16 bytes were expected in phase 0, 0 arrived"),
    ("mbarrier.arrive.shared.b64 %d1, [bar];\nW: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; @!%p2 bra W;",
     2, Deadlock, "1 of 2 arrivals outstanding"),
    ("mbarrier.init.shared::cta.b64 [bar], 1048576;", 2, BarrierError, "count must be from 1"),
])
def test_faults_end_the_run(body, count, kind, words):
    with pytest.raises(kind, match=words):
        single(body, count, max_instructions=100_000)


def test_an_uninitialized_barrier():
    with pytest.raises(BarrierError, match="wasn't initialized"):
        run(ONE + "mbarrier.arrive.shared.b64 %d1, [bar];", [], SHARED)


@pytest.mark.parametrize(("body", "count", "kind", "words"), [
    ("mbarrier.init.shared::cta.b64 [bar], 2;", 1, BarrierError, "over the live mbarrier"),
    ("mbarrier.arrive.shared.b64 %d1, [bar]; mbarrier.arrive.shared.b64 %d1, [bar];", 1, BarrierError, "before any wait saw"),
    ("mbarrier.arrive.shared.b64 %d1, [bar];", 2, BarrierError, "1 of 2 arrivals have come"),
    ("mbarrier.expect_tx.shared::cta.b64 [bar], 32;", 2, TransactionMismatch, "32 bytes were expected"),
    ("mbarrier.inval.shared::cta.b64 [bar]; mbarrier.inval.shared::cta.b64 [bar];", 2, BarrierError, "was invalidated"),
    ("mbarrier.inval.shared::cta.b64 [other];", 2, BarrierError, "nothing to invalidate"),
    ("mbarrier.inval.shared::cta.b64 [bar]; mbarrier.init.shared::cta.b64 [bar], 0;", 1, BarrierError, "count must be from 1"),
])
def test_findings_that_dont_stop_the_run(body, count, kind, words):
    _, report = single(body, count)
    assert any(isinstance(f, kind) and words in f.detail for f in report.findings), report.findings


def test_an_engine_needs_a_fence_behind_the_initialisation():
    x = np.zeros(64, np.uint32)
    body = ONE + """mbarrier.init.shared::cta.b64 [bar], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;
 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], [%g0], 64, [bar];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; @!%p2 bra WAIT;"""
    report = run(body, [x], SHARED + ".shared .align 128 .b8 s[64];")
    assert [type(f) for f in report.findings] == [MissingProxyFence]


def test_a_copy_over_a_live_barrier():
    x = np.zeros(64, np.uint32)
    body = ONE + INIT.replace("N;", "1;") + """mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 96;
 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], [%g0], 96, [bar];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; @!%p2 bra WAIT;"""
    report = run(body, [x], ".shared .align 128 .b8 s[64]; .shared .align 8 .b64 bar; .shared .align 16 .b8 t[64];")
    assert [type(f) for f in report.findings] == [BarrierError] and "writes over the live" in report.findings[0].detail


@pytest.mark.parametrize("text", [
    "mbarrier.arrive.shared::cluster.b64 %d1, [bar];", "mbarrier.arrive.release.shared.b64 %d1, [bar];",
    "mbarrier.arrive.expect_tx.shared.b64 %d1, [bar];", "mbarrier.try_wait.parity.shared::cluster.b64 %p1, [bar], 0;"])
def test_forms_that_dont_exist(text):
    with pytest.raises(InvalidInstruction):
        run(text, [], SHARED)
