"""The order of memory: races are found in every memory and by every way past a barrier, and ordered accesses aren't accused."""
from __future__ import annotations

import time

import numpy as np
import pytest

from tests.sim.asynckit import kernel
from tileiras.sim import DataRace, simulate
from tileiras.sim.errors import MissingProxyFence

SHARED = ".shared .align 16 .b8 s[1024]; .shared .align 8 .b64 bar;"


def findings(body: str, args: int = 1, threads: int = 64, grid=1, size: int = 256, **options):
    """What simulating a body finds."""
    arrays = [np.zeros(size, np.uint32) for _ in range(args)]
    text = kernel(body, SHARED, pointers=args, threads=threads, cluster=options.pop("cluster", 1))
    return simulate(text, args=arrays, grid=grid, **options).findings


# warp 0 writes a word, warp 1 reads it; SYNC between
HANDED = """
 setp.ne.u32 %p1, %w, 0; setp.ne.u32 %p3, %t, 0;
 @%p3 bra INITIALIZED; mbarrier.init.shared::cta.b64 [bar], 32; st.shared.u32 [s + 512], 0;
INITIALIZED: bar.sync 0;
 @%p1 bra TAKE;
 st.shared.u32 [s], 5;
 GIVEN
 bra END;
TAKE:
 TAKEN
 ld.shared.u32 %r1, [s]; st.global.u32 [%g0], %r1;
END:
"""
ORDERED = {
    "a named barrier": ("bar.arrive 1, 64;", "bar.sync 1, 64;"),
    "an mbarrier": ("mbarrier.arrive.shared::cta.b64 _, [bar];",
                    "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; @!%p2 bra W;"),
    "release and acquire": ("st.release.cta.shared.u32 [s + 512], 1;",
                            "W: ld.acquire.cta.shared.u32 %r2, [s + 512]; setp.eq.u32 %p2, %r2, 0; @%p2 bra W;"),
    "fences and relaxed accesses": (
        "fence.acq_rel.cta; st.relaxed.cta.shared.u32 [s + 512], 1;",
        "W: ld.relaxed.cta.shared.u32 %r2, [s + 512]; setp.eq.u32 %p2, %r2, 0; @%p2 bra W; fence.acq_rel.cta;"),
    "fences and volatile accesses": (
        "membar.cta; st.volatile.shared.u32 [s + 512], 1;",
        "W: ld.volatile.shared.u32 %r2, [s + 512]; setp.eq.u32 %p2, %r2, 0; @%p2 bra W; membar.cta;"),
    "atomics": ("atom.release.cta.shared.add.u32 %r3, [s + 512], 1;",
                "W: atom.acquire.cta.shared.add.u32 %r2, [s + 512], 0; setp.lt.u32 %p2, %r2, 32; @%p2 bra W;"),
}


@pytest.mark.parametrize("way", list(ORDERED))
def test_ordered_accesses_of_shared_memory(way):
    given, taken = ORDERED[way]
    assert not findings(HANDED.replace("GIVEN", given).replace("TAKEN", taken))


UNORDERED = {
    "an arrival that releases nothing": ("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [bar];", ORDERED["an mbarrier"][1]),
    "a wait that acquires nothing": (ORDERED["an mbarrier"][0], "W: mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p2, "
                                                                "[bar], 0; @!%p2 bra W;"),
    "no release": (ORDERED["release and acquire"][0].replace("release", "relaxed"), ORDERED["release and acquire"][1]),
    "no acquire": (ORDERED["release and acquire"][0], ORDERED["release and acquire"][1].replace("acquire", "relaxed")),
    "the fence behind the store": ("st.relaxed.cta.shared.u32 [s + 512], 1; fence.acq_rel.cta;",
                                   ORDERED["fences and relaxed accesses"][1]),
}


@pytest.mark.parametrize("way", list(UNORDERED))
def test_unordered_accesses_of_shared_memory(way):
    given, taken = UNORDERED[way]
    found = findings(HANDED.replace("GIVEN", given).replace("TAKEN", taken))
    assert [type(e) for e in found] == [DataRace]
    assert (found[0].tid, found[0].warp, found[0].lane) == ((32, 0, 0), 1, 0)
    assert "warp 1 reads byte" in str(found[0]) and found[0].line and found[0].kernel == "k"


def test_a_barrier_of_two_warps_orders_those_two():
    body = """
    mul.lo.u32 %r1, %w, 4; mov.u32 %r2, s; add.u32 %r2, %r2, %r1; st.shared.u32 [%r2], %w;
    setp.eq.u32 %p1, %w, 2; @%p1 bra SKIP; barrier.sync 1, 64; SKIP:
    setp.ne.u32 %p2, %w, 0; @%p2 bra END; ld.shared.u32 %r3, [s + OTHER]; st.global.u32 [%g0], %r3; END:"""
    assert not findings(body.replace("OTHER", "4"), threads=96)
    assert [type(e) for e in findings(body.replace("OTHER", "8"), threads=96)] == [DataRace]


# block 0 writes global memory, block 1 reads it when a flag says so
BLOCKS = """
 mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra TAKE;
 st.global.u32 [%g0], 9; st.RELEASE.gpu.global.u32 [%g1], 1; ret;
TAKE: ld.ACQUIRE.gpu.global.u32 %r2, [%g1]; setp.eq.u32 %p2, %r2, 0; @%p2 bra TAKE;
 ld.global.u32 %r3, [%g0]; st.global.u32 [%g0 + 64], %r3;
"""


@pytest.mark.parametrize(("release", "acquire", "count"), [
    ("release", "acquire", 0), ("relaxed", "acquire", 1), ("release", "relaxed", 1)])
def test_blocks_hand_global_memory_over(release, acquire, count):
    found = findings(BLOCKS.replace("RELEASE", release).replace("ACQUIRE", acquire), args=2, threads=32, grid=2)
    assert [type(e) for e in found] == [DataRace] * count


def test_three_blocks_in_a_chain():
    """The order is handed on: block 2 reads what block 0 wrote, told by block 1."""
    body = """
    mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bra FIRST;
    mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %g1;
    W: ld.acquire.gpu.global.u32 %r2, [%d1]; setp.eq.u32 %p2, %r2, 0; @%p2 bra W;
    setp.eq.u32 %p3, %r1, 2; @%p3 bra LAST; st.release.gpu.global.u32 [%g1 + 8], 1; ret;
    FIRST: st.global.u32 [%g0], 9; st.release.gpu.global.u32 [%g1 + 4], 1; ret;
    LAST: ld.global.u32 %r3, [%g0]; st.global.u32 [%g0 + 64], %r3;"""
    assert not findings(body, args=2, threads=32, grid=3)


@pytest.mark.parametrize(("body", "count"), [
    ("st.global.u32 [%g0], 7;", 0),                                                     # all of one value
    ("mov.u32 %r1, %ctaid.x; st.global.u32 [%g0], %r1;", 1),
    ("red.global.add.u32 [%g0], 1;", 0),
    ("red.global.add.u32 [%g0], 1; ld.global.u32 %r1, [%g0]; st.global.u32 [%g0 + 64], 1;", 1),
    ("mov.u32 %r1, %ctaid.x; ld.global.u32 %r2, [%g0]; setp.eq.u32 %p1, %r1, 1; @%p1 st.global.u32 [%g0], 5;", 1),
    ("st.global.u32 [%g0], 7; ld.global.u32 %r1, [%g0]; st.global.u32 [%g0 + 64], %r1;", 0),
], ids=["one value", "two values", "atomics", "a read among atomics", "a write behind a read", "its own write"])
def test_blocks_that_share_a_word(body, count):
    assert [type(e) for e in findings(body, threads=32, grid=3)] == [DataRace] * count


def test_several_warps_in_global_memory():
    body = """mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %g0; st.global.u32 [%d1], %t; BARRIER
    xor.b32 %r1, %t, 32; mul.wide.u32 %d2, %r1, 4; add.u64 %d2, %d2, %g0; ld.global.u32 %r2, [%d2];
    st.global.u32 [%d1 + 512], %r2;"""
    assert not findings(body.replace("BARRIER", "bar.sync 0;"))
    assert [type(e) for e in findings(body.replace("BARRIER", ""))] == [DataRace]


BULK = """
 mul.lo.u32 %r1, %t, 4; mov.u32 %r2, s; add.u32 %r2, %r2, %r1; st.shared.u32 [%r2], %t;
 FENCE
 bar.sync 0;
 setp.ne.u32 %p1, %t, 0; @%p1 ret;
 cp.async.bulk.global.shared::cta.bulk_group [%g0], [s], 256; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
"""


@pytest.mark.parametrize(("fence", "kinds"), [
    ("fence.proxy.async;", []), ("fence.proxy.async.shared::cta;", []), ("fence.proxy.async.global;", [MissingProxyFence]),
    ("", [MissingProxyFence]), ("fence.acq_rel.cta;", [MissingProxyFence])])
def test_the_fence_between_proxies(fence, kinds):
    assert [type(e) for e in findings(BULK.replace("FENCE", fence))] == kinds


def test_races_need_not_be_watched():
    body = "mov.u32 %r1, %ctaid.x; st.global.u32 [%g0], %r1;"
    assert not findings(body, threads=32, grid=3, races=False)


# ---- blocks that hand a lock on

WORK = """
IN: bar.sync 0; mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %g0; ld.global.u32 %r3, [%d1]; add.u32 %r3, %r3, 1;
 st.global.u32 [%d1], %r3; bar.sync 0; @%p1 bra OUT;
"""
LOCKS = {
    "a turn": ("W: ld.acquire.gpu.global.u32 %r2, [%g1]; setp.ne.u32 %p2, %r2, %r1; @%p2 bra W;",
               "st.release.gpu.global.u32 [%g1], %r4;"),
    "compare and swap": ("W: atom.acquire.gpu.global.cas.b32 %r2, [%g1], 0, 1; setp.ne.u32 %p2, %r2, 0; @%p2 bra W;",
                         "st.release.gpu.global.u32 [%g1], 0;"),
    "exchange": ("W: atom.acq_rel.gpu.global.exch.b32 %r2, [%g1], 1; setp.ne.u32 %p2, %r2, 0; @%p2 bra W;",
                 "atom.release.gpu.global.exch.b32 %r5, [%g1], 0;"),
    "fences": ("W: atom.relaxed.gpu.global.cas.b32 %r2, [%g1], 0, 1; setp.ne.u32 %p2, %r2, 0; @%p2 bra W; fence.acq_rel.gpu;",
               "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%g1], 0;"),
}


def locked(take: str, give: str, blocks: int, **options) -> list:
    """Blocks add one to 64 numbers under a lock, without atomics; what that finds."""
    body = f"mov.u32 %r1, %ctaid.x; add.u32 %r4, %r1, 1; setp.ne.u32 %p1, %t, 0; @%p1 bra IN; {take} {WORK} {give} OUT:"
    numbers = np.zeros(64, np.uint32)
    report = simulate(kernel(body, "", pointers=2, threads=64), args=[numbers, np.zeros(1, np.uint32)], grid=blocks, **options)
    assert (numbers == blocks).all()
    return report.findings


@pytest.mark.parametrize("batch", [128, 1 << 14])
@pytest.mark.parametrize("way", list(LOCKS))
def test_blocks_hand_a_lock_on(way, batch):
    """All in one batch, or two at a time."""
    assert not locked(*LOCKS[way], 40, batch_threads=batch)


@pytest.mark.parametrize(("way", "old", "new"), [
    ("a turn", "acquire", "relaxed"), ("a turn", "release", "relaxed"), ("a turn", "release.gpu", "release.cta"),
    ("compare and swap", "acquire", "relaxed"), ("compare and swap", "release", "relaxed"),
    ("exchange", "acq_rel", "relaxed"), ("exchange", "atom.release", "atom.relaxed"),
    ("fences", "bra W; fence.acq_rel.gpu;", "bra W;"), ("fences", "fence.acq_rel.gpu; st", "st"),
    ("fences", "fence.acq_rel.gpu; st", "fence.acq_rel.cta; st")])
def test_locks_that_hand_nothing_on(way, old, new):
    take, give = LOCKS[way]
    assert old in take + give
    assert {type(f) for f in locked(take.replace(old, new), give.replace(old, new), 8)} == {DataRace}


def test_a_thousand_blocks_hand_a_lock_on_in_seconds():
    """Processor time grows with the blocks times those that wait, by little: this takes some three seconds."""
    start = time.process_time()
    assert not locked(*LOCKS["compare and swap"], 1024)
    assert time.process_time() - start < 20


@pytest.mark.parametrize(("place", "count"), [(0, 0), (4, 1)])
def test_news_that_one_warp_takes_twice_reaches_the_others_as_far_as_they_met(place, count):
    """Warp 0 of block 1 hears of a word, meets warp 1 at a barrier and hears of another: warp 1 knows of the first."""
    body = f"""
    mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra TAKE; setp.ne.u32 %p1, %t, 0; @%p1 bra OUT;
    st.global.u32 [%g0], 7; st.release.gpu.global.u32 [%g1], 1;
    A: ld.relaxed.gpu.global.u32 %r2, [%g1 + 128]; setp.eq.u32 %p2, %r2, 0; @%p2 bra A;
    st.global.u32 [%g0 + 4], 8; st.release.gpu.global.u32 [%g1], 2; bra OUT;
    TAKE: setp.eq.u32 %p3, %w, 1; @%p3 bra OTHER; setp.ne.u32 %p4, %t, 0; st.volatile.shared.u32 [s], 0; @%p4 bra MET;
    B: ld.acquire.gpu.global.u32 %r2, [%g1]; setp.eq.u32 %p2, %r2, 0; @%p2 bra B;
    MET: bar.warp.sync -1; bar.sync 0; @%p4 bra OUT; st.relaxed.gpu.global.u32 [%g1 + 128], 1;
    C: ld.acquire.gpu.global.u32 %r2, [%g1]; setp.ne.u32 %p2, %r2, 2; @%p2 bra C; st.volatile.shared.u32 [s], 1; bra OUT;
    OTHER: bar.sync 0; setp.ne.u32 %p4, %t, 32; @%p4 bra OUT;
    D: ld.volatile.shared.u32 %r2, [s]; setp.eq.u32 %p2, %r2, 0; @%p2 bra D;
    ld.global.u32 %r3, [%g0 + {place}]; st.global.u32 [%g0 + 64], %r3;
    OUT:"""
    assert [type(f) for f in findings(body, args=2, threads=64, grid=2)] == [DataRace] * count


@pytest.mark.parametrize(("body", "count"), [
    ("ld.global.nc.u32 %r1, [%g0]; st.global.u32 [%g0 + 64], 1;", 0),
    ("ld.global.nc.u32 %r1, [%g0]; bar.sync 0; st.global.u32 [%g0], 1;", 1),
    ("st.global.u32 [%g0], 1; bar.sync 0; ld.global.nc.v2.u32 {%r1, %r2}, [%g0];", 1),
    ("ld.global.nc.v2.u32 {%r1, %r2}, [%g0]; bar.sync 0; red.global.add.u32 [%g0 + 4], 1;", 1),
    ("ld.global.u32 %r1, [%g0]; bar.sync 0; st.global.u32 [%g0], 1;", 0),
], ids=["what nobody writes", "written behind it", "written before it", "changed by atomics", "an ordinary load"])
def test_what_is_read_as_constant_nobody_writes(body, count):
    """In whatever order: a compiler may make such a load earlier or later."""
    assert [type(e) for e in findings(body)] == [DataRace] * count
