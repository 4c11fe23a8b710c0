"""Machine instructions are executed as often as the functional run says, each with what it touched."""
from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.kernels import runner
from tests.kernels.cluster_cases import compile_on
from tests.sim import reference
from tests.sim.timing import streamkit as kit
from tests.sim.timing.kernels import LOOP, assembled, needs_disassembler, suite_streams
from tileiras.analysis import cta_plan
from tileiras.sim.timing import predict, record
from tileiras.sim.timing.errors import NotTimed
from tileiras.sim.timing.sharing import read_sectors
from tileiras.sim.timing.stream import BarrierOp, BulkCopy, GlobalAccess, KernelStreams, MbarrierOp, SharedAccess, Skipped
from tileiras.sim.timing.streams import sampled, streams_of

pytestmark = needs_disassembler
needs_original = pytest.mark.skipif(reference.original() is None, reason="the original isn't installed")
ROUNDS = 5


def loop_streams(target: str = "sm_90", rounds: int = ROUNDS, stride: int = 4, **options) -> KernelStreams:
    ptx = LOOP.replace("sm_90", target)
    args = [np.ones(64 * rounds, np.float32), np.zeros(64, np.float32), rounds, stride]
    return streams_of(ptx, assembled(ptx, target), "k", 1, args, **options)


def counts(streams: KernelStreams, warp: int) -> Counter:
    return Counter((s.instruction.base, type(s.payload)) for s in streams.ctas[0].warps[warp].steps)


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_a_loop_is_executed_as_often_as_its_trip_count(target):
    streams = loop_streams(target)
    assert streams.is_joined and streams.joined.residual == 0
    for warp in (0, 1):
        found = counts(streams, warp)
        assert found["LDG", GlobalAccess] == found["STS", SharedAccess] == ROUNDS
        assert found["BAR", BarrierOp] == 2 * ROUNDS


def test_a_guard_that_is_false_for_a_warp_skips():
    streams = loop_streams()
    assert counts(streams, 0)["STG", GlobalAccess] == 1
    assert counts(streams, 1)["STG", GlobalAccess] == 0


def test_payloads_are_what_the_warp_touched():
    streams = loop_streams()
    first, second = (next(s.payload for s in w.steps if s.instruction.base == "LDG") for w in streams.ctas[0].warps)
    assert isinstance(first, GlobalAccess) and isinstance(second, GlobalAccess)
    assert len(first.sectors) == len(second.sectors) == 4
    assert second.sectors[0] == first.sectors[0] + 4
    loads = [s.payload for s in streams.ctas[0].warps[0].steps if s.instruction.base == "LDG"]
    assert [p.sectors[0] - first.sectors[0] for p in loads if isinstance(p, GlobalAccess)] == [8 * i for i in range(ROUNDS)]


STORED = "  st.global.f32 [%rd5], %f1;\n  add.u64 %rd4, %rd4, 256;\n"
ALONE = "  and.b32 %r8, %r3, 31;\n  setp.eq.u32 %p3, %r8, 0;\n  @%p3 bra alone;\n"
ONE_LANE = "alone:\n  st.shared.u32 [tile+8000], %r3;\n"


@pytest.mark.parametrize(("there", "behind"), [
    (f"{ALONE}together:\n{STORED}", f"{ONE_LANE}  bra together;\n"),
    (f"{ALONE}  bra.uni together;\n{ONE_LANE}together:\n{STORED}", "")], ids=["a block behind the end", "others jump over a block"])
def test_lanes_meet_again_behind_a_block_of_one_of_them(there, behind):
    """Wherever the text has that block: each warp stores 32 floats in each round."""
    ptx = LOOP.replace("  add.u64 %rd4, %rd4, 256;\n", there).replace("  ret;\n}", f"  ret;\n{behind}}}")
    streams = streams_of(ptx, assembled(ptx), "k", 1, [np.ones(64 * ROUNDS, np.float32), np.zeros(64, np.float32), ROUNDS, 4])
    assert streams.is_joined and not streams.notes
    for warp in streams.ctas[0].warps:
        stored = [s.payload for s in warp.steps if isinstance(s.payload, GlobalAccess) and s.payload.is_store]
        assert [(p.bytes, len(p.sectors)) for p in stored[:ROUNDS]] == [(128, 4)] * ROUNDS


SPINS = """  mov.u32 %r8, 0;
  st.volatile.shared.u32 [tile+8000], %r8;
  bar.sync 0;
  setp.ne.u32 %p3, %r3, 0;
  @%p3 bra others;
spin:
  ld.volatile.shared.u32 %r9, [tile+8000];
  setp.eq.u32 %p3, %r9, 0;
  @%p3 bra spin;
others:
  st.global.f32 [%rd5], 0f00000000;
  setp.eq.u32 %p3, %r3, TELLS;
  @%p3 st.volatile.shared.u32 [tile+8000], 1;
again:
"""


@pytest.mark.parametrize(("tells", "stored"), [(32, 128), (7, 4)], ids=["another warp", "its own warp"])
def test_lanes_wait_for_one_that_polls_unless_it_waits_for_them(tells, stored):
    ptx = LOOP.replace("again:\n", SPINS.replace("TELLS", str(tells)))
    line = ptx[:ptx.index("[%rd5], 0f00000000")].count("\n") + 1
    streams = streams_of(ptx, assembled(ptx), "k", 1, [np.ones(64 * ROUNDS, np.float32), np.zeros(64, np.float32), ROUNDS, 4])
    assert not streams.notes
    ends = [[s.payload.bytes for s in w.steps if isinstance(s.payload, GlobalAccess) and s.payload.is_store and
             s.instruction.ptx_line == line] for w in streams.ctas[0].warps]
    # one lane stores for itself where the others couldn't wait for it, and so do they
    assert sorted(ends[0]) == ([128] if stored == 128 else [4, 124]) and ends[1] == [128]


WAYS = """  mov.f32 %f1, 0f00000000;
  rem.u32 %r8, %r3, WAYS;
  setp.eq.u32 %p3, %r8, 0;
  @%p3 bra first;
  setp.eq.u32 %p3, %r8, 1;
  @%p3 bra second;
  sqrt.rn.f32 %f1, %f1;
  ld.global.f32 %f1, [%rd4+8];
  add.f32 %f1, %f1, 0f40000000;
  bra.uni join;
first:
  ld.global.f32 %f1, [%rd4];
  mul.f32 %f1, %f1, %f1;
  bra.uni join;
second:
  ld.global.f32 %f1, [%rd4+4];
  ex2.approx.f32 %f1, %f1;
join:
  st.shared.f32 [tile+8000], %f1;
again:
"""


@pytest.mark.parametrize(("ways", "each"), [(2, [64, 64]), (3, [40, 44, 44])])
def test_a_warp_goes_all_ways_that_its_lanes_go(ways, each):
    """A third of the lanes each load behind a branch of their own: the warp executes all loads, and the code around them once."""
    ptx = LOOP.replace("again:\n", WAYS.replace("WAYS", str(ways)))
    streams = streams_of(ptx, assembled(ptx), "k", 1, [np.ones(64 * ROUNDS, np.float32), np.zeros(64, np.float32), ROUNDS, 4])
    assert streams.is_joined and not streams.notes
    for warp in (0, 1):
        steps = streams.ctas[0].warps[warp].steps
        loads = [s.payload.bytes for s in steps if s.instruction.base == "LDG" and isinstance(s.payload, GlobalAccess)]
        before, looped = sorted(loads[:-ROUNDS]), loads[-ROUNDS:]
        assert before == each and looped == [128] * ROUNDS
        assert counts(streams, warp)["BAR", BarrierOp] == 2 * ROUNDS


@pytest.mark.parametrize(("stride", "passes"), [(4, 1), (8, 2), (128, 32)])
def test_bank_conflicts_come_with_the_stores(stride, passes):
    streams = loop_streams(stride=stride)
    stores = [s.payload for s in streams.ctas[0].warps[0].steps if s.instruction.base == "STS"]
    assert stores == [SharedAccess(passes, 128, True)] * ROUNDS


def test_barriers_name_their_threads():
    streams = loop_streams()
    assert {s.payload for s in streams.ctas[0].warps[0].steps if s.instruction.base == "BAR"} == {BarrierOp(0, 64)}


def test_what_a_cta_needs_of_the_machine_comes_from_the_cubin():
    cta = loop_streams().ctas[0]
    assert (cta.threads, len(cta.warps), cta.cta, cta.count) == (64, 2, (0, 0, 0), 1)
    assert 8192 <= cta.shared_bytes <= 8192 + 1024
    assert 8 < cta.registers <= 64


def test_a_run_for_timing_leaves_the_arrays_as_they_are():
    out = np.zeros(64, np.float32)
    streams_of(LOOP, assembled(LOOP), "k", 1, [np.ones(64, np.float32), out, 1, 4])
    assert not out.any()


def test_streams_are_the_same_every_time():
    def flat(streams: KernelStreams) -> list:
        return [(s.instruction.address, s.payload) for c in streams.ctas for w in c.warps for s in w.steps]
    assert flat(loop_streams()) == flat(loop_streams())


@pytest.mark.parametrize(("clusters", "cluster"), [((3, 1, 1), 1), ((7, 1, 1), 1), ((100, 7, 1), 1), ((16, 64, 1), 1),
                                                   ((32, 1, 2), 2), ((1, 1, 1), 1)])
def test_samples_stand_for_the_whole_grid(clusters, cluster):
    chosen = sampled(clusters, cluster)
    total = clusters[0] * clusters[1] * clusters[2] * cluster
    assert sum(chosen.values()) == total
    assert all(0 <= c < total and c % cluster == 0 for c in chosen)


@pytest.mark.parametrize("most", [3, 6])
def test_the_first_and_the_last_block_are_among_the_samples(most):
    chosen = sampled((16, 64, 1), 1, most)
    assert len(chosen) == most and chosen[0] == chosen[16 * 64 - 1] == 1


def test_samples_lie_all_over_each_axis():
    between = sorted(sampled((16, 64, 1)))[1:-1]
    assert sorted(c % 16 // 4 for c in between) == sorted(c // 16 // 16 for c in between) == [0, 1, 2, 3]


def test_our_product_reads_its_tiles_once_a_round():
    streams = suite_streams("matmul_float16_float32", "sm_80", original=False)
    assert streams is not None and streams.is_joined
    found = counts(streams, 0)
    assert found["LDSM", type(None)] == found["LDSM", Skipped] == 0
    # a tile of A and of B, 128 x 64 and 64 x 128 halves, three rounds, eight warps
    stored = sum(s.payload.bytes for w in streams.ctas[0].warps for s in w.steps
                 if isinstance(s.payload, SharedAccess) and s.payload.is_store)
    copied = sum(s.payload.bytes for w in streams.ctas[0].warps for s in w.steps
                 if isinstance(s.payload, GlobalAccess) and s.payload.to_shared)
    assert stored + copied >= 3 * 2 * 128 * 64 * 2


@needs_original
def test_the_original_s_warps_hand_tiles_over_mbarriers():
    streams = suite_streams("matmul_float16_float32", "sm_90", original=True)
    assert streams is not None and streams.is_joined
    payloads = [s.payload for w in streams.ctas[0].warps for s in w.steps]
    loads = [p for p in payloads if isinstance(p, BulkCopy) and p.direction == "load"]
    assert loads and all(p.offset is not None and p.ctas == (0,) for p in loads)
    expected: Counter = Counter()
    for p in payloads:
        if isinstance(p, MbarrierOp):
            expected[p.offset] += p.bytes
    brought: Counter = Counter()
    for p in loads:
        brought[p.offset] += p.bytes
    assert {k: n for k, n in expected.items() if n} == dict(brought)
    waited = [p for p in payloads if isinstance(p, MbarrierOp) and p.kind == "wait"]
    assert any(p.phase > 0 for p in waited)


def test_a_grid_of_clusters_is_replayed_cta_by_cta(monkeypatch):
    """Two CTAs share a tile block, and load an operand for each other."""
    monkeypatch.setattr(cta_plan, "LEAST_PART", 0)      # as if small parts were worth it
    name = "matmul_float16_float32"
    made = compile_on(name, 2, lineinfo=True)
    x, y, z = (*runner.case_of(name).grid, 1, 1)[:3]
    found = streams_of(made.ptx, made.cubin, name, (x, y, z), runner.launch_of(name).flat)
    assert found.is_joined and found.grid == (2 * x, y, z) and found.cluster == (2, 1, 1)
    assert len(found.ctas) == 2 * x * y * z
    assert all(cta.peers[cta.rank] is cta and len(cta.peers) == 2 for cta in found.ctas)
    for cta in found.ctas:
        copies = [s.payload for w in cta.warps for s in w.steps if isinstance(s.payload, BulkCopy) and s.payload.ctas]
        assert {p.ctas for p in copies} == {(cta.rank,), (0, 1)}
        own, both = (sum(p.bytes for p in copies if len(p.ctas) == n) for n in (1, 2))
        assert own == both          # of A's 128 x 64 its own half, of B's 64 x 128 a half for both
    forecast = predict(made.ptx, made.cubin, name, (x, y, z), runner.launch_of(name).flat, "H100")
    assert not forecast.is_estimate and forecast.cycles > 0


def test_an_atomic_without_a_result_reads_what_one_with_a_result_does():
    """`red` and `atom` alike: L2 fetches the sector, and CTAs that add to the same ones share it."""
    atom = kit.cta([[kit.step("ATOMG.E.ADD", GlobalAccess((5, 6), 64, atomic=True), write=0)]])
    red = kit.cta([[kit.step("REDG.E.ADD", GlobalAccess((5, 6), 64, is_store=True, atomic=True))]])
    store = kit.cta([[kit.step("STG.E", GlobalAccess((5, 6), 64, is_store=True))]])
    assert read_sectors(red) == read_sectors(atom) == {5, 6}
    assert read_sectors(store) == set()


BEHIND = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 done)
.reqntid 32
{
  .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %q<4>;
  ld.param.u64 %q0, [done];
  mov.u32 %r0, %ctaid.x;
  mul.wide.u32 %q1, %r0, 4;
  add.s64 %q1, %q0, %q1;
  setp.eq.u32 %p0, %r0, 0;
  @%p0 bra TELL;
WAIT:
  ld.acquire.gpu.u32 %r1, [%q1+-4];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra WAIT;
TELL:
  mov.u32 %r2, 1;
  st.release.gpu.u32 [%q1], %r2;
  ret;
}
"""


def test_blocks_that_wait_for_ones_before_them_are_run_with_those():
    """A sample leaves some out: whoever waits for them gives up after a while, and the whole grid is run."""
    blocks = 40
    cubin = assembled(BEHIND, "sm_90")
    found = streams_of(BEHIND, cubin, "k", blocks, [np.zeros(blocks, np.uint32)])
    assert found.is_joined and len(found.ctas) < blocks
    assert sum(c.count for c in found.ctas) == blocks


def test_a_record_has_a_bound(monkeypatch):
    """Blocks that ask one another for long don't take all memory there is."""
    monkeypatch.setattr(record, "MOST_NOTED", 10_000)
    with pytest.raises(NotTimed, match="too much to be recorded"):
        loop_streams()
