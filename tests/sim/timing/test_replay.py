"""The engine: barriers, groups and engines keep their order, mistakes in the code cost what they should, nothing hangs."""
from __future__ import annotations

import pytest

from tests.sim.timing import streamkit as kit
from tests.sim.timing.streamkit import step
from tileiras.machine.machines import machine_of
from tileiras.sim.timing.decoded import Reason
from tileiras.sim.timing.memory import Sharing
from tileiras.sim.timing.replay import Replay, ReplayDeadlock, ReplayLimit
from tileiras.sim.timing.stream import AsyncGroup, BarrierOp, BulkCopy, GlobalAccess, MbarrierOp, SharedAccess, Skipped


def tile_loop(rounds: int, *, stall: int = 4, passes: int = 1, wait: int = 1, stages: int = 1) -> list:
    """A loop of loads to shared memory by cp.async, a read and some arithmetic."""
    body: list = []
    for i in range(rounds + stages - 1):
        if i < rounds:
            sectors = tuple(range(16 * i, 16 * i + 16))
            body += [step("LDGSTS.E.BYPASS.128", GlobalAccess(sectors, 512, to_shared=True, passes=4)),
                     step("LDGDEPBAR", AsyncGroup("cp.async", "commit"))]
        if i >= stages - 1:
            body += [step("DEPBAR.LE", AsyncGroup("cp.async", "wait", min(stages - 1, rounds + stages - 2 - i))),
                     step("BAR.SYNC", BarrierOp(0, 128)), step("LDS.128", SharedAccess(passes * 4, 512), write=0),
                     step("FFMA", stall=stall, wait=wait), step("FFMA", stall=stall), step("BAR.SYNC", BarrierOp(0, 128))]
    return body


BASE = kit.cycles("H100", tile_loop(30))


def test_a_longer_stall_takes_longer_by_what_it_says():
    # Two FFMA a round, each held ten cycles longer.
    assert kit.cycles("H100", tile_loop(30, stall=14)) - BASE == pytest.approx(30 * 20, rel=0.05)


def test_a_missing_wait_is_quicker():
    # Without the wait mask nothing waits for the shared memory's 29 cycles and its passes.
    assert BASE - kit.cycles("H100", tile_loop(30, wait=0)) > 30 * 20


def test_bank_conflicts_take_longer():
    # Eight-way conflicts: 28 more passes an access, four warps.
    assert kit.cycles("H100", tile_loop(30, passes=8)) - BASE == pytest.approx(30 * 28 * 4, rel=0.25)


def test_a_ring_of_stages_hides_the_latency_of_loads():
    one, three = kit.cycles("H100", tile_loop(60)), kit.cycles("H100", tile_loop(60, stages=3))
    assert three < one / 2


def test_the_same_streams_take_the_same_time():
    assert kit.cycles("H100", tile_loop(20)) == kit.cycles("H100", tile_loop(20))


def test_a_skipped_access_costs_its_issue_only():
    load = step("LDG.E", Skipped(), write=0)
    assert kit.cycles("H100", [load, step("MOV", wait=1)] * 50, 1) < 50 * 12


def test_waiting_for_an_arrival_that_never_comes_is_reported_not_endless():
    steps = [step("SYNCS", MbarrierOp("init", 16, 0, 0, 2)), step("SYNCS", MbarrierOp("arrive", 16, 0, 0, 1)),
             step("SYNCS", MbarrierOp("wait", 16, 0, 1))]
    with pytest.raises(ReplayDeadlock, match=r"1 warps wait at mbarrier 0x10 phase 1"):
        kit.cycles("H100", steps, 1)


@pytest.mark.parametrize("threads", [31, 32])
def test_each_thread_that_has_copied_arrives(threads):
    steps = [step("SYNCS", MbarrierOp("init", 0, 0, 0, 32)), step("ARRIVES", AsyncGroup("cp.async", "commit", threads, offset=0)),
             step("SYNCS", MbarrierOp("wait", 0, 0, 1))]
    if threads == 32:
        assert kit.cycles("H100", steps, 1) < 1000
    else:
        with pytest.raises(ReplayDeadlock, match="mbarrier"):
            kit.cycles("H100", steps, 1)


def test_an_arrival_waits_for_copies_that_are_committed_too():
    def copied(committed: bool) -> float:
        copy = GlobalAccess((0,), 32, to_shared=True)
        steps = [step("SYNCS", MbarrierOp("init", 0, 0, 0, 32)), step("LDGSTS.E.BYPASS.128", copy)]
        steps += [step("LDGDEPBAR", AsyncGroup("cp.async", "commit"))] * committed
        return kit.cycles("B200", [*steps, step("ARRIVES", AsyncGroup("cp.async", "commit", 32, offset=0)),
                                   step("SYNCS", MbarrierOp("wait", 0, 0, 1)), step("FFMA")], 1)

    assert copied(True) == pytest.approx(copied(False), abs=8)


def test_bytes_that_are_expected_and_never_come_are_a_deadlock():
    steps = [step("SYNCS", MbarrierOp("init", 0, 0, 0, 1)), step("SYNCS", MbarrierOp("expect", 0, 0, 0, 1, 1024)),
             step("UTMALDG.2D", BulkCopy("load", 512, tuple(range(16)), 0, 0, (0,))), step("SYNCS", MbarrierOp("wait", 0, 0, 1))]
    with pytest.raises(ReplayDeadlock):
        kit.cycles("H100", steps, 1)


def test_a_barrier_with_too_few_threads_is_a_deadlock():
    with pytest.raises(ReplayDeadlock, match="barrier 3"):
        kit.cycles("H100", [step("BAR.SYNC", BarrierOp(3, 256))], 4)


def test_a_stream_beyond_the_limit_ends():
    engine = Replay(machine_of("H100"), Sharing(1), 1, most_steps=1000)
    with pytest.raises(ReplayLimit, match="1000"):
        engine.run([kit.cta([[step("NOP")] * 2000])])


def test_a_depbar_with_a_count_leaves_so_many_loads_under_way():
    def loads(left: int) -> float:
        steps = [step("LDG.E", GlobalAccess((100 * i,), 4), write=0) for i in range(8)]
        return kit.cycles("H100", [*steps, step("DEPBAR.LE", operands=("SB0", hex(left))), step("MOV", stall=1)], 1)

    # Loads start four cycles apart, the pipe's interval; the fourth is back sixteen cycles before the last.
    assert loads(0) - loads(4) == pytest.approx(16, abs=4)


def test_a_wait_for_reads_alone_is_shorter_than_one_for_the_copy():
    def store(read: bool) -> float:
        body = [step("UTMASTG.2D", BulkCopy("store", 4096, tuple(range(128)))), step("UTMACMDFLUSH", AsyncGroup("bulk", "commit")),
                step("DEPBAR.LE", AsyncGroup("bulk", "wait", 0, read=read))]
        return kit.cycles("H100", body * 20, 1)

    assert store(True) < store(False)


def test_two_copies_of_a_cta_share_the_issue_slots_of_an_sm():
    steps = [step("FFMA")] * 2000
    one = kit.replay("H100", [kit.cta([steps] * 4)]).cycles
    two = kit.replay("H100", [kit.cta([steps] * 4)] * 2, resident=2).cycles
    assert one == pytest.approx(2000, rel=0.02)
    assert two == pytest.approx(4000, rel=0.02)


def test_a_cta_that_ends_makes_room_for_the_next():
    steps = [step("FFMA", stall=4)] * 500
    found = kit.replay("H100", [kit.cta([steps])] * 3)
    assert len(found.ends) == 3
    gap = found.starts[1] - found.ends[0]
    assert 0 < gap < 500
    assert found.ends[2] - found.ends[1] == pytest.approx(2000 + gap, rel=0.02)


def test_copies_of_a_cta_touch_other_memory():
    load = [step("LDG.E.128", GlobalAccess(tuple(range(16 * i, 16 * i + 16)), 512), write=0) for i in range(100)]
    found = kit.replay("H100", [kit.cta([load])] * 2)
    assert found.dram_bytes == 2 * 100 * 512


def test_a_second_read_of_a_line_hits_l1_unless_it_says_otherwise():
    touched = GlobalAccess((0, 1, 2, 3), 128)
    cached = [step("LDG.E", touched, write=0), step("MOV", wait=1)] * 20
    strong = [step("LDG.E.STRONG.GPU", touched, write=0), step("MOV", wait=1)] * 20
    assert kit.replay("H100", [kit.cta([cached])]).l1_hits == 19 * 4
    assert kit.replay("H100", [kit.cta([strong])]).l1_hits == 0


def test_lost_cycles_stand_at_the_instruction_that_waited():
    load, use = step("LDG.E", GlobalAccess((0,), 4), write=0), step("IADD3", wait=1)
    found = kit.replay("H100", [kit.cta([[load, use]])])
    lost = {d.base: d.lost for d in found.decoded}
    assert lost["IADD3"][Reason.GLOBAL] > 500
    assert Reason.GLOBAL not in lost["LDG"]


def test_the_timeline_shows_copies_waits_and_ctas():
    steps = [step("SYNCS", MbarrierOp("init", 0, 0, 0, 1)), step("SYNCS", MbarrierOp("expect", 0, 0, 0, 1, 512)),
             step("UTMALDG.2D", BulkCopy("load", 512, tuple(range(16)), 0, 0, (0,))), step("SYNCS", MbarrierOp("wait", 0, 0, 1))]
    events = kit.replay("H100", [kit.cta([steps, steps[-1:]])], timeline=True).events
    assert {e.track for e in events} >= {"TMA of CTA 0", "slot 0", "CTA 0 warp 1"}
    assert all(e.end >= e.start for e in events)
