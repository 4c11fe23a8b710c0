"""Copies, arrivals and stores between the CTAs of a cluster."""
from __future__ import annotations

import numpy as np
import pytest

from tests.sim.asynckit import kernel, run
from tests.sim.tmakit import argument
from tileiras.layout.tensormap import tiled
from tileiras.sim import simulate

SHARED = ".shared .align 128 .b8 s[1024]; .shared .align 8 .b64 bar; .shared .align 8 .b64 other;"
SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
START = """setp.ne.u32 %p1, %t, 0; @%p1 bra READY;
 mbarrier.init.shared::cta.b64 [bar], COUNT; fence.mbarrier_init.release.cluster; EXPECT
READY:
 """ + SYNC
WAIT = "WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0; @!%p2 bra WAIT;\n"
OUT = """mov.u32 %r1, s; mad.lo.u32 %r1, %t, 16, %r1; ld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [%r1];
 mad.lo.u32 %r6, %rank, 32, %t; mul.wide.u32 %d1, %r6, 16; add.u64 %d1, %d1, %g1;
 st.global.v4.u32 [%d1], {%r2, %r3, %r4, %r5};
""" + SYNC


@pytest.mark.parametrize("seed", range(4))
def test_a_multicast_reaches_every_cta_of_its_mask(seed):
    x, y = np.arange(128, dtype=np.uint32), np.zeros((2, 128), np.uint32)
    body = START.replace("COUNT", "1").replace("EXPECT", "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;") + """
 @%p1 bra WAIT;
 mov.u32 %r7, s; mad.lo.u32 %r7, %rank, 256, %r7; mul.wide.u32 %d2, %rank, 256; add.u64 %d2, %d2, %g0; mov.u16 %h1, 3;
 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r7], [%d2], 256, [bar], %h1;
""" + WAIT + OUT
    report = run(body, [x, y], SHARED, cluster=2, seed=seed)
    assert np.array_equal(y, np.stack([x, x])) and not report.findings


@pytest.mark.parametrize("seed", range(4))
def test_a_tensor_multicast_and_a_pair_of_ctas_with_one_barrier(seed):
    array = np.arange(16 * 32, dtype=np.uint32).reshape(16, 32)
    y = np.zeros((2, 8, 16), np.uint32)
    body = START.replace("COUNT", "1").replace("EXPECT", """
 setp.ne.u32 %p4, %rank, 0; @%p4 bra READY; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;""") + """
 @%p1 bra GO;
 mov.u32 %r7, bar; and.b32 %r7, %r7, 0xFEFFFFFF; mov.b64 %d2, m; cvta.param.u64 %d2, %d2; mul.lo.u32 %r8, %rank, 8; mov.u32 %r9, 16;
 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [s], [%d2, {%r9, %r8}], [%r7];
GO: setp.ne.u32 %p4, %rank, 0; @%p4 bra THERE;
""" + WAIT + "THERE:\n" + SYNC + OUT
    text = kernel(body, SHARED).replace(".entry k(", ".entry k(.param .align 64 .b8 m[128], ").replace(
        ".reqntid 32", ".reqntid 32\n.reqnctapercluster 2")
    m = argument(array, tiled(0, "u32", (32, 16), (16, 8)))
    report = simulate(text, grid=(2, 1, 1), args=[m, array, y], seed=seed)
    assert np.array_equal(y[0], array[:8, 16:]) and np.array_equal(y[1], array[8:, 16:]) and not report.findings


@pytest.mark.parametrize("seed", range(4))
def test_arrivals_at_another_ctas_barrier(seed):
    x, y = np.arange(128, dtype=np.uint32), np.zeros((2, 128), np.uint32)
    body = START.replace("COUNT", "32").replace("EXPECT", "") + """
 xor.b32 %r7, %rank, 1; mov.u32 %r8, s; mapa.shared::cluster.u32 %r8, %r8, %r7; mov.u32 %r9, bar;
 mapa.shared::cluster.u32 %r9, %r9, %r7;
 mul.wide.u32 %d2, %t, 16; add.u64 %d2, %d2, %g0; ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%d2]; mad.lo.u32 %r8, %t, 16, %r8;
 st.shared::cluster.v4.u32 [%r8], {%r2, %r3, %r4, %r5};
 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9];
""" + WAIT + OUT
    report = run(body, [x, y], SHARED, cluster=2, seed=seed)
    assert np.array_equal(y, np.stack([x, x])) and not report.findings


@pytest.mark.parametrize("seed", range(4))
def test_copies_and_reductions_into_another_cta(seed):
    y = np.zeros((2, 128), np.uint32)
    fill = "mov.u32 %r1, s; mad.lo.u32 %r1, %t, 16, %r1; add.u32 %r2, %t, %rank; st.shared.v4.u32 [%r1], {%r2, %r2, %r2, %r2};\n" \
           " st.shared.v4.u32 [%r1 + 512], {%t, %t, %t, %t}; fence.proxy.async.shared::cta;\n"
    body = fill + START.replace("COUNT", "1").replace(
        "EXPECT", "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;") + """
 @%p1 bra WAIT;
 xor.b32 %r7, %rank, 1; mov.u32 %r8, s; mov.u32 %r10, s; mapa.shared::cluster.u32 %r8, %r8, %r7; mov.u32 %r9, bar;
 mapa.shared::cluster.u32 %r9, %r9, %r7;
 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r8], [%r10 + 512], 256, [%r9];
 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r8 + 256], [%r10 + 512], 256, [%r9];
""" + WAIT + OUT
    report = run(body, [y, y], SHARED, cluster=2, seed=seed)
    t = np.repeat(np.arange(32), 4)
    for rank in range(2):
        assert np.array_equal(y[rank, :64], (2 * t + rank)[:64]) and np.array_equal(y[rank, 64:], t[:64])
    assert not report.findings


@pytest.mark.parametrize("seed", range(4))
def test_asynchronous_stores_bring_their_bytes(seed):
    y = np.zeros((2, 128), np.uint32)
    body = START.replace("COUNT", "1").replace("EXPECT", "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;") + """
 xor.b32 %r7, %rank, 1; mov.u32 %r8, s; mapa.shared::cluster.u32 %r8, %r8, %r7; mov.u32 %r9, bar;
 mapa.shared::cluster.u32 %r9, %r9, %r7; mad.lo.u32 %r8, %t, 16, %r8; mad.lo.u32 %r2, %rank, 1000, %t;
 st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r8], {%r2, %r2, %r2, %r2}, [%r9];
""" + WAIT + OUT
    report = run(body, [y, y], SHARED, cluster=2, seed=seed)
    for rank in range(2):
        assert np.array_equal(y[rank], np.repeat(np.arange(32), 4) + 1000 * (1 - rank))
    assert not report.findings


def test_arrivals_by_generic_addresses_and_reductions_from_everywhere():
    y = np.zeros((2, 128), np.uint32)
    body = """mov.u32 %r1, s; mad.lo.u32 %r1, %t, 16, %r1; st.shared.v4.u32 [%r1], {%t, %t, %t, %t};
""" + START.replace("COUNT", "33").replace("EXPECT", "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;") + """
 xor.b32 %r7, %rank, 1; mov.u32 %r8, s; mapa.shared::cluster.u32 %r8, %r8, %r7; mov.u32 %r9, bar; cvt.u64.u32 %d2, %r9;
 cvta.shared.u64 %d2, %d2; mapa.u64 %d2, %d2, %r7; mapa.shared::cluster.u32 %r9, %r9, %r7; mov.u32 %r2, 5;
 red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r8], %r2, [%r9];
 mbarrier.arrive.release.cluster.b64 _, [%d2];
""" + WAIT + OUT
    for seed in range(3):
        report = run(body, [y, y], SHARED, cluster=2, seed=seed)
        expected = np.repeat(np.arange(32), 4)
        expected[0] += 5 * 32
        assert np.array_equal(y, np.stack([expected, expected])) and not report.findings, report.findings
