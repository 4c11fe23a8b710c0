"""Clusters: their special registers, addresses in other CTAs, cluster barriers, registers and cancelled clusters."""
from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.sim.asynckit import kernel
from tileiras.sim import BarrierError, DataRace, Deadlock, LaunchError, MissingProxyFence, OutOfBounds, simulate


def test_places_in_a_grid_of_clusters():
    names = ["clusterid.x", "clusterid.y", "nclusterid.x", "nclusterid.y", "cluster_ctaid.x", "cluster_ctaid.y", "cluster_nctaid.x",
             "cluster_ctarank", "cluster_nctarank"]
    body = "".join(f"mov.u32 %r{3 + i}, %{n};" for i, n in enumerate(names))
    body += """.reg .pred %e; .reg .b32 %x, %y; mov.pred %e, %is_explicit_cluster; selp.u32 %r12, 1, 0, %e;
    mov.u32 %x, %ctaid.x; mov.u32 %y, %ctaid.y; mad.lo.u32 %x, %y, 6, %x; mul.wide.u32 %d1, %x, 40; add.u64 %d1, %d1, %g0;"""
    body += "".join(f"st.global.u32 [%d1 + {4 * i}], %r{3 + i};" for i in range(10))
    out = np.zeros((24, 10), np.uint32)
    simulate(kernel(body, "", pointers=1, threads=1).replace("READY:", ""), grid=(6, 4), args=[out], cluster=(2, 2))
    for y, x in itertools.product(range(4), range(6)):
        expected = [x // 2, y // 2, 3, 2, x % 2, y % 2, 2, x % 2 + y % 2 * 2, 4, 1]
        assert out[y * 6 + x].tolist() == expected


@pytest.mark.parametrize(("grid", "cluster", "words"), [
    ((6, 3), (2, 2), "multiple"), ((32, 1), (32, 1), "at most 16"), ((4, 1), (0, 1), "cluster")])
def test_clusters_that_cannot_be(grid, cluster, words):
    with pytest.raises(LaunchError, match=words):
        simulate(kernel("", "", pointers=0), grid=grid, cluster=cluster)


def test_directives_about_clusters():
    text = kernel("", "", pointers=0, cluster=2)
    with pytest.raises(LaunchError, match="reqnctapercluster"):
        simulate(text, grid=4, cluster=4)
    explicit = kernel("", "", pointers=0).replace(".reqntid", ".explicitcluster .maxclusterrank 2 .reqntid")
    with pytest.raises(LaunchError, match="explicitcluster"):
        simulate(explicit, grid=4)
    with pytest.raises(LaunchError, match="maxclusterrank"):
        simulate(explicit, grid=4, cluster=4)
    simulate(explicit, grid=4, cluster=2)


SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"


def test_addresses_of_other_ctas():
    """mapa, getctarank and isspacep of shared and generic addresses; masking bit 24 gives the even CTA of a pair."""
    body = f"""
    mov.u32 %r1, s; add.u32 %r3, %rank, 1; rem.u32 %r3, %r3, 4; st.shared.u32 [s], %rank; {SYNC}
    mapa.shared::cluster.u32 %r4, %r1, %r3; ld.shared::cluster.u32 %r5, [%r4];
    getctarank.shared::cluster.u32 %r6, %r4;
    cvta.shared.u64 %d1, s; mapa.u64 %d2, %d1, %r3; ld.u32 %r7, [%d2]; getctarank.u64 %r8, %d2;
    isspacep.shared::cta %p1, %d1; isspacep.shared::cta %p2, %d2; isspacep.shared::cluster %p3, %d2; isspacep.global %p4, %d2;
    selp.u32 %r9, 1, 0, %p1; selp.u32 %r10, 1, 0, %p2; selp.u32 %r11, 1, 0, %p3; selp.u32 %r12, 1, 0, %p4;
    and.b32 %r13, %r1, 0xFEFFFFFF; ld.shared::cluster.u32 %r14, [%r13];
    {SYNC}
    mul.wide.u32 %d3, %rank, 36; add.u64 %d3, %d3, %g0;
    """ + "".join(f"st.global.u32 [%d3 + {4 * i}], %r{n};" for i, n in enumerate((5, 6, 7, 8, 9, 10, 11, 12, 14)))
    out = np.zeros((4, 9), np.uint32)
    report = simulate(kernel(body, ".shared .align 4 .b32 s;", pointers=1, threads=1, cluster=4), grid=4, args=[out])
    assert not report.findings
    for r in range(4):
        n = (r + 1) % 4
        assert out[r].tolist() == [n, n, n, n, 1, 0, 1, 0, r // 2 * 2]


def test_atomics_in_another_cta():
    body = f"""
    st.shared.u32 [s], 0; {SYNC}
    mov.u32 %r1, s; mapa.shared::cluster.u32 %r2, %r1, 0;
    atom.shared::cluster.add.u32 %r3, [%r2], %rank; red.shared::cluster.add.u32 [%r2], 100;
    {SYNC}
    setp.ne.u32 %p1, %rank, 0; @%p1 ret; ld.shared.u32 %r4, [s]; st.global.u32 [%g0], %r4;"""
    out = np.zeros(1, np.uint32)
    report = simulate(kernel(body, ".shared .align 4 .b32 s;", pointers=1, threads=32, cluster=4).replace(
        "st.shared.u32 [s], 0;", "setp.eq.u32 %p2, %t, 0; @%p2 st.shared.u32 [s], 0;"), grid=4, args=[out])
    assert not report.findings and out[0] == 32 * (0 + 1 + 2 + 3) + 4 * 32 * 100


def test_mapa_outside_the_cluster():
    with pytest.raises(OutOfBounds, match="cluster of 2"):
        simulate(kernel("mov.u32 %r1, s; mapa.shared::cluster.u32 %r2, %r1, 2;", ".shared .align 4 .b32 s;", pointers=0, cluster=2),
                 grid=2)


def test_the_cluster_barrier_waits_for_living_threads_only():
    body = f"setp.eq.u32 %p1, %rank, 1; @%p1 ret; {SYNC} st.global.u32 [%g0], 7;"
    out = np.zeros(1, np.uint32)
    simulate(kernel(body, "", pointers=1, threads=32, cluster=2), grid=2, args=[out])
    assert out[0] == 7


def test_a_cluster_barrier_that_never_completes():
    body = """setp.eq.u32 %p1, %rank, 1; @%p1 bra OTHER; barrier.cluster.arrive; barrier.cluster.wait; ret;
    OTHER: setp.ne.u32 %p2, %w, 0; @%p2 ret; barrier.sync 3, 64;"""
    with pytest.raises(Deadlock, match=r"barrier\.cluster\.wait, 32 threads of their cluster \(CTA 1\)") as caught:
        simulate(kernel(body, "", pointers=0, threads=64, cluster=2), grid=2)
    assert "32 of 64 arrived" in str(caught.value)


def test_arriving_twice():
    with pytest.raises(BarrierError, match="again before"):
        simulate(kernel("barrier.cluster.arrive; barrier.cluster.arrive;", "", pointers=0, cluster=2), grid=2)


REGISTERS = """
 setp.lt.u32 %p1, %t, 128; @%p1 bra GIVE;
 setmaxnreg.inc.sync.aligned.u32 168; bra DONE;
GIVE: setmaxnreg.dec.sync.aligned.u32 40;
DONE: st.global.u32 [%g0], 1;
"""


def test_registers_move_between_warpgroups():
    text = kernel(REGISTERS, "", pointers=1, threads=256).replace(".reqntid", ".maxnreg 104 .reqntid")
    out = np.zeros(1, np.uint32)
    assert not simulate(text, args=[out]).findings
    assert out[0] == 1


@pytest.mark.parametrize(("old", "new", "kind", "words"), [
    ("dec.sync.aligned.u32 40", "dec.sync.aligned.u32 48", Deadlock, "waits for 168 registers"),
    ("inc.sync.aligned.u32 168", "inc.sync.aligned.u32 80", BarrierError, "that has 104")])
def test_registers_that_do_not_add_up(old, new, kind, words):
    text = kernel(REGISTERS, "", pointers=1, threads=256).replace(".reqntid", ".maxnreg 104 .reqntid").replace(old, new)
    try:
        found = simulate(text, args=[np.zeros(1, np.uint32)]).findings
    except kind as error:
        found = [error]
    assert isinstance(found[0], kind) and words in str(found[0])


CANCEL = """
 .reg .b128 %q; .reg .b32 %x, %y, %z;
 mov.u32 %x, %ctaid.x;
 mbarrier.init.shared::cta.b64 [bar], 1; fence.mbarrier_init.release.cluster; mov.u32 %r9, 0;
LOOP:
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [answer], [bar];
 mul.wide.u32 %d1, %x, 4; add.u64 %d1, %d1, %g0; red.global.add.u32 [%d1], 1;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], %r9; @!%p2 bra WAIT;
 xor.b32 %r9, %r9, 1;
 ld.shared.b128 %q, [answer];
 clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q; @!%p3 ret;
 clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%x, %y, %z, _}, %q;
 fence.proxy.async.shared::cta;
 bra LOOP;
"""


@pytest.mark.parametrize("seed", range(3))
def test_cancelled_clusters_are_done_by_others(seed):
    """Every block's work is done once, by itself or by the one that cancelled it."""
    text = kernel(CANCEL, ".shared .align 16 .b8 answer[16]; .shared .align 8 .b64 bar;", pointers=1, threads=1)
    done = np.zeros(40, np.uint32)
    report = simulate(text, grid=40, args=[done], seed=seed)
    assert not report.findings, str(report.findings[0])
    assert (done == 1).all()
    assert report.kinds["mbarrier"] > 0


# CTA 0 initializes a barrier and writes a word; CTA 1 arrives at the one, or reads the other
MET = """
 setp.ne.u32 %p1, %rank, 0; @%p1 bra READY;
 mbarrier.init.shared::cta.b64 [bar], 1; st.shared.u32 [s], 5;
READY: FENCE
 barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;
 setp.ne.u32 %p2, %rank, 1; @%p2 bra OVER;
 mov.u32 %r1, bar; mapa.shared::cluster.u32 %r2, %r1, 0; mov.u32 %r3, s; mapa.shared::cluster.u32 %r4, %r3, 0;
 USE
OVER: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
"""
ARRIVE = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2];"
READ = "ld.shared::cluster.u32 %r5, [%r4]; st.global.u32 [%g0], %r5;"
INIT_FENCE, FENCE = "fence.mbarrier_init.release.cluster;", "fence.acq_rel.cluster;"


@pytest.mark.parametrize(("fence", "use", "kinds"), [
    (INIT_FENCE, ARRIVE, []), (FENCE + INIT_FENCE, ARRIVE, []), ("", ARRIVE, [DataRace, MissingProxyFence]),
    (INIT_FENCE, READ, [DataRace]), (FENCE, READ, []), ("fence.acq_rel.cta;", READ, [DataRace]), ("", READ, [DataRace])])
def test_what_a_relaxed_arrival_hands_to_the_cluster(fence, use, kinds):
    """fence.mbarrier_init releases the initialisations before it and nothing else, another fence all that came before; both
    through the relaxed arrival behind them."""
    text = kernel(MET.replace("FENCE", fence).replace("USE", use),
                  ".shared .align 8 .b64 bar; .shared .align 4 .b32 s;", pointers=1, threads=1, cluster=2)
    found = simulate(text, grid=2, args=[np.zeros(1, np.uint32)]).findings
    assert {type(f) for f in found} <= set(kinds) and bool(found) == bool(kinds)
