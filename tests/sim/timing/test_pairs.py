"""Pairs of CTAs (cta_group::2) and blocks that take over others (clusterlaunchcontrol): what they take, by published formulas and
arithmetic."""
from __future__ import annotations

import numpy as np
import pytest

from tests.sim import tcgen05kit
from tests.sim.asynckit import kernel
from tests.sim.test_cluster import CANCEL
from tests.sim.timing import streamkit as kit
from tests.sim.timing.streamkit import step
from tests.sim.timing.test_predict import NEEDED, assemble
from tileiras.sim.timing import predict
from tileiras.sim.timing.stream import AsyncGroup, BulkCopy, CtaStreams, MbarrierOp, Mma, Step, WarpStream
from tileiras.sim.timing.streams import streams_of

PRODUCT = Mma("tcgen05", (256, 256, 16), 16, ctas=2)


def cluster(*streams: list[Step]) -> CtaStreams:
    """CTAs of one warp each; the first, which stands for all."""
    ctas = [CtaStreams((i, 0, 0), 1, (WarpStream(0, steps),), 32, 32, 0, i) for i, steps in enumerate(streams)]
    return CtaStreams((0, 0, 0), 1, ctas[0].warps, 32, 32, 0, 0, tuple(ctas))


def products(count: int, ranks: tuple[int, ...], told: int = 1) -> list[Step]:
    """Products of a pair, and who waits for them."""
    return [step("SYNCS", MbarrierOp("init", 0, 0, 0, told)), *[step("UTCHMMA.2CTA", PRODUCT)] * count,
            step("UTCBAR.2CTA.MULTICAST", AsyncGroup("tcgen05", "commit", offset=0, ctas=ranks))]


def wait(rank: int) -> list[Step]:
    return [step("SYNCS", MbarrierOp("init", 0, rank, 0, 1)), step("SYNCS", MbarrierOp("wait", 0, rank, 1))]


def test_a_pair_multiplies_once_for_both_and_both_hear_of_it():
    # SA: an m256n256 of a pair takes 128 cycles of both tensor cores, and N/2 + 170 from issue to the wait's end.
    found = kit.replay("B200", [cluster([*products(40, (0, 1)), *wait(0)[1:]], wait(1))])
    assert found.cycles == pytest.approx(40 * 128 + 170, rel=0.05)
    assert found.tensor_busy == pytest.approx(40 * 128)


def test_two_pairs_of_a_cluster_multiply_beside_each_other():
    one = kit.replay("B200", [cluster([*products(40, (0, 1)), *wait(0)[1:]], wait(1))]).cycles
    first, second = products(40, (0, 1)), [step("SYNCS", MbarrierOp("init", 0, 2, 0, 1)), *products(40, (2, 3))[1:]]
    two = kit.replay("B200", [cluster([*first, *wait(0)[1:]], wait(1), [*second, *wait(2)[1:]], wait(3))]).cycles
    assert two == pytest.approx(one, rel=0.01)


def test_what_a_ctas_own_shared_memory_gets_may_be_told_to_its_pair():
    """Each CTA loads 32 KiB for itself and tells the first one's mbarrier: that takes as long as one such load, since each has its
    own way in, and the word to the other."""
    sectors = tuple(range(1024))
    mine = BulkCopy("load", 32768, sectors, 0, 0, (0,))
    other = BulkCopy("load", 32768, tuple(s + 4096 for s in sectors), 0, 0, (0,), to=(1,))
    alone = [step("SYNCS", MbarrierOp("init", 0, 0, 0, 1)), step("SYNCS", MbarrierOp("arrive", 0, 0, 0, 1, 32768)),
             step("UTMALDG", mine), step("SYNCS", MbarrierOp("wait", 0, 0, 1))]
    both = [step("SYNCS", MbarrierOp("init", 0, 0, 0, 1)), step("SYNCS", MbarrierOp("arrive", 0, 0, 0, 1, 65536)),
            step("UTMALDG.2CTA", mine), step("SYNCS", MbarrierOp("wait", 0, 0, 1))]
    one = kit.replay("B200", [cluster(alone, [step("NOP")])])
    two = kit.replay("B200", [cluster(both, [step("UTMALDG.2CTA", other)])])
    assert two.ingress_bytes == pytest.approx(2 * one.ingress_bytes)
    assert one.cycles < two.cycles < one.cycles + 250


@NEEDED
@pytest.mark.parametrize("m,n,interval", [(256, 256, 128), (256, 128, 64), (256, 64, 44), (128, 256, 64), (128, 128, 33)])
def test_one_more_product_of_a_pair_takes_what_is_published(m, n, interval):
    """max(N/2, (4096 + 16 N)/128 + 4) cycles with 256 rows, max(N/4, (2048 + 16 N)/128 + 1) with 128."""
    def cycles(count: int) -> float:
        rows = 128 * n // 256 * 32
        body = "\n".join([tcgen05kit.matrix_at("%d0", 0, tcgen05kit.descriptor(128, 256)),
                          tcgen05kit.matrix_at("%d1", 8192, tcgen05kit.descriptor(128, 256)),
                          f"mov.b32 %t5, {tcgen05kit.instruction(m, n)};",
                          *["tcgen05.mma.cta_group::2.kind::f16 [%tm], %d0, %d1, %t5, %go;"] * count])
        columns, image = n if m == 256 else n // 2, 8192 + rows
        text = tcgen05kit.kernel(body, columns=columns, image=image, group=2)
        args = [np.zeros((2, 128, columns), np.uint32), np.zeros(2 * image, np.uint8)]
        found = predict(text, assemble(text, sm="sm_100a"), "k", 2, args, "B200")
        assert not found.is_estimate, found.reason
        return found.cycles

    assert (cycles(72) - cycles(8)) / 64 == pytest.approx(interval, rel=0.05)


# ---- blocks that take over others

SPIN = """ mov.u32 %i, 0; mov.u32 %r1, s;
AGAIN:
 .pragma "nounroll";
 ld.volatile.shared.u32 %r2, [%r1];
 add.u32 %i, %i, 1; setp.lt.u32 %p1, %i, 200; @%p1 bra AGAIN;
"""
WORK = CANCEL.replace("%z;", "%z, %i;", 1).replace(" mul.wide", SPIN + " mul.wide", 1)
SHARED = ".shared .align 16 .b8 answer[16]; .shared .align 8 .b64 bar; .shared .align 4 .b32 s;"


@pytest.fixture(scope="module")
def taking_over() -> tuple[str, bytes]:
    text = kernel(WORK, SHARED, pointers=1, threads=1).replace("mov.u32 %r9, 0;", "mov.u32 %r9, 0; st.shared.u32 [s], %r9;")
    text = text.replace("; ", ";\n").replace("WAIT: ", "WAIT:\n")         # the line table tells lines apart, not statements
    return text, assemble(text, sm="sm_100a")


@NEEDED
def test_blocks_that_take_over_others_take_time_by_what_each_does(taking_over):
    text, cubin = taking_over
    each = 148 * 32                                            # blocks that the machine holds

    def cycles(blocks: int) -> float:
        found = predict(text, cubin, "k", blocks, [np.zeros(blocks, np.uint32)], "B200")
        assert not found.is_estimate, found.reason
        return found.cycles

    first, second, third = cycles(6 * each), cycles(12 * each), cycles(24 * each)
    assert third - second == pytest.approx(2 * (second - first), rel=0.01)
    # 200 loads of shared memory in a chain of volatile ones: no block's work is quicker than that of 200 issues of 32 warps.
    assert (second - first) / 6 > 200 * 32 / 4


@NEEDED
def test_samples_take_over_few_and_many(taking_over):
    text, cubin = taking_over
    found = streams_of(text, cubin, "k", 10_000, [np.zeros(10_000, np.uint32)])
    assert found.is_joined and sorted({c.tiles for c in found.ctas}) == [3, 6]
    answers = {c.tiles: sum(isinstance(p, BulkCopy) and p.direction == "answer" for w in c.warps for _, p in w.steps)
               for c in found.ctas}
    assert answers == {3: 3, 6: 6}                             # the last answer says that there is no more
