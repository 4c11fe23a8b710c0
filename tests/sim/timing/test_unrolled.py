"""Unrolled and merged accesses are joined; arrivals at several mbarriers in one instruction, and reductions, are replayed."""
from __future__ import annotations

from collections import Counter
from typing import Literal

import numpy as np
import pytest

from tests.sim.timing import streamkit as kit
from tests.sim.timing.kernels import assembled, needs_disassembler
from tileiras.machine.machines import machine_of
from tileiras.sim.timing import anchors, predict
from tileiras.sim.timing.sharing import read_sectors
from tileiras.sim.timing.stream import Arrivals, BulkCopy, KernelStreams, MbarrierOp, Step, TensorAccess
from tileiras.sim.timing.streams import streams_of

HEAD = ".version 8.7\n.target {target}\n.address_size 64\n"
ROUNDS = 8
# Rows of 133 floats: 16 bytes from the row's start are aligned in every fourth round only, so that ptxas, which unrolls, makes
# one wide load of the four in some rounds and single loads in the others.
ROWS = HEAD + """
.shared .align 16 .b8 tile[8192];
.visible .entry k(.param .u64 out, .param .u32 rounds)
.reqntid 32
{
  .reg .pred %p<4>;
  .reg .b32 %r<20>;
  .reg .b64 %rd<10>;
  .reg .f32 %f<10>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r9, [rounds];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.u64 %rd1, %rd1, %rd3;
  mov.u32 %r2, tile;
  shl.b32 %r3, %r1, 4;
  add.u32 %r4, %r2, %r3;
  cvt.rn.f32.u32 %f9, %r1;
  mov.f32 %f1, 0f00000000;
  mov.u32 %r8, 0;
  shl.b32 %r3, %r1, 2;
  add.u32 %r6, %r2, %r3;
fill:
  st.shared.f32 [%r6], %f9;
  add.u32 %r6, %r6, 128;
  add.u32 %r8, %r8, 1;
  setp.lt.u32 %p1, %r8, 34;
  @%p1 bra fill;
  mov.u32 %r8, 0;
outer:
  mov.u32 %r7, 0;
  st.shared.f32 [%r4], %f9;
  bar.sync 0;
again:
  mul.lo.u32 %r5, %r7, 532;
  add.u32 %r6, %r4, %r5;
  ld.shared.f32 %f2, [%r6];
  ld.shared.f32 %f3, [%r6+4];
  ld.shared.f32 %f4, [%r6+8];
  ld.shared.f32 %f5, [%r6+12];
  fma.rn.f32 %f1, %f2, %f1, %f3;
  fma.rn.f32 %f1, %f4, %f1, %f5;
  add.u32 %r7, %r7, 1;
  setp.lt.u32 %p1, %r7, 8;
  @%p1 bra again;
  bar.sync 0;
  add.u32 %r8, %r8, 1;
  setp.lt.u32 %p2, %r8, %r9;
  @%p2 bra outer;
  st.global.f32 [%rd1], %f1;
  ret;
}
"""
TENSOR_MEMORY = HEAD + """
.shared .align 16 .b8 place[16];
.visible .entry k(.param .u64 out)
.reqntid 128
{
  .reg .pred %p<4>;
  .reg .b32 %r<20>;
  .reg .b64 %rd<10>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 128;
  add.u64 %rd1, %rd1, %rd3;
  mov.u32 %r2, place;
  setp.lt.u32 %p2, %r1, 32;
  @%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32;
  bar.sync 0;
  ld.shared.u32 %r3, [%r2];
  shl.b32 %r4, %r1, 16;
  and.b32 %r4, %r4, 6291456;
  add.u32 %r4, %r4, %r3;
  mov.u32 %r7, 0;
  mov.u32 %r5, 7;
fill:
  tcgen05.st.sync.aligned.32x32b.x2.b32 [%r4], {%r5, %r5};
  add.u32 %r4, %r4, 2;
  add.u32 %r7, %r7, 1;
  setp.lt.u32 %p1, %r7, 16;
  @%p1 bra fill;
  tcgen05.wait::st.sync.aligned;
  sub.u32 %r4, %r4, 32;
  mov.u32 %r7, 0;
again:
  tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r10, %r11, %r12, %r13}, [%r4];
  tcgen05.wait::ld.sync.aligned;
  st.global.v4.b32 [%rd1], {%r10, %r11, %r12, %r13};
  add.u32 %r4, %r4, 4;
  add.u64 %rd1, %rd1, 16;
  add.u32 %r7, %r7, 1;
  setp.lt.u32 %p1, %r7, 8;
  @%p1 bra again;
  bar.sync 0;
  @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32;
  ret;
}
"""
# Lanes 0 and 1 of each CTA's first warp arrive at the mbarrier of CTA 0 and of CTA 1, in one instruction.
BOTH = HEAD + """
.shared .align 8 .b64 bar;
.visible .entry k(.param .u64 out)
.reqntid 32
.explicitcluster
.reqnctapercluster 2, 1, 1
{
  .reg .pred %p<4>;
  .reg .b32 %r<20>;
  .reg .b64 %rd<10>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, bar;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 mbarrier.init.shared::cta.b64 [%r2], 2;
  barrier.cluster.arrive.release;
  barrier.cluster.wait.acquire;
  setp.lt.u32 %p2, %r1, 2;
  and.b32 %r4, %r1, 1;
  mapa.shared::cluster.u32 %r3, %r2, %r4;
  @%p2 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r2], 0;
  @!%p3 bra wait;
  barrier.cluster.arrive.release;
  barrier.cluster.wait.acquire;
  mul.wide.u32 %rd3, %r1, 4;
  add.u64 %rd1, %rd1, %rd3;
  st.global.u32 [%rd1], %r1;
  ret;
}
"""


def streams(text: str, target: str, *args) -> KernelStreams:
    ptx = text.replace("{target}", target)
    return streams_of(ptx, assembled(ptx, target), "k", 1, args)


def executed(found: KernelStreams, base: str) -> list[Step]:
    return [s for w in found.ctas[0].warps for s in w.steps if s.instruction.base == base]


@needs_disassembler
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_a_load_that_ptxas_makes_wide_in_some_rounds_only_is_explained(target):
    found = streams(ROWS, target, np.zeros(32, np.float32), 3)
    loads = executed(found, "LDS")
    widths = {s.instruction.opcode for s in loads}
    assert "LDS.128" in widths and "LDS" in widths          # else the kernel shows nothing
    assert found.is_joined and found.joined.residual == 0
    places = Counter(s.instruction.address for s in loads)
    assert set(places.values()) == {3} and len(places) < ROUNDS * 4


@needs_disassembler
def test_unrolled_moves_of_tensor_memory_are_executions_each():
    found = streams(TENSOR_MEMORY, "sm_100a", np.zeros(128 * 32, np.uint32))
    assert found.is_joined and found.joined.residual == 0
    loads, stores = executed(found, "LDTM"), executed(found, "STTM")
    assert len({s.instruction.address for s in loads}) > 1   # unrolled, else the kernel shows nothing
    assert [s.payload for s in loads] == [TensorAccess("ld", 4)] * 8 * 4
    assert [s.payload for s in stores] == [TensorAccess("st", 2)] * 16 * 4


def test_a_move_of_two_halves_of_the_lanes_is_two_instructions():
    name = "tcgen05.ld.sync.aligned.16x32bx2.x4.b32"
    assert anchors.pieces(name, "LDTM.16dp32bit_t0_t15.x4", "LDTM") == 2
    assert anchors.pieces(name.replace("16x32bx2", "16x256b"), "LDTM.16dp256bit.x4", "LDTM") == 1


@needs_disassembler
def test_lanes_that_arrive_at_mbarriers_of_several_ctas_are_all_heard():
    ptx = BOTH.replace("{target}", "sm_90")
    out = np.zeros(32, np.uint32)
    found = streams_of(ptx, assembled(ptx, "sm_90"), "k", 2, [out])
    assert found.is_joined and len(found.ctas) == 2
    for cta in found.ctas:
        told = [p for w in cta.warps for s in w.steps if isinstance(p := s.payload, Arrivals)]
        assert len(told) == 1 and {(op.kind, op.cta, op.count) for op in told[0].each if isinstance(op, MbarrierOp)} == {
            ("arrive", 0, 1), ("arrive", 1, 1)}
    forecast = predict(ptx, assembled(ptx, "sm_90"), "k", 2, [out], "H100")
    assert not forecast.is_estimate, forecast.reason


# ---- reductions by the copy engine

def reductions(sectors_each: list[tuple[int, ...]], direction: Literal["reduce", "store"]) -> list[Step]:
    opcode = "UTMAREDG" if direction == "reduce" else "UTMASTG"
    return [kit.step(opcode, BulkCopy(direction, 32 * len(sectors), sectors)) for sectors in sectors_each]


@pytest.mark.parametrize("machine", ["H100", "B200"])
def test_a_reduction_into_the_same_place_does_not_go_to_memory_again(machine):
    """L2 reduces: the sectors come from DRAM once, and each reduction reads and writes them in L2, at L2's own rate."""
    place = tuple(range(128))
    once, often = (kit.replay(machine, [kit.cta([reductions([place] * n, "reduce")])]) for n in (1, 10))
    assert often.dram_bytes == once.dram_bytes == 128 * 32
    stored = kit.replay(machine, [kit.cta([reductions([place] * 10, "store")])])
    rates = machine_of(machine)
    assert often.l2_busy == pytest.approx(2 * stored.l2_busy * rates.l2_write / rates.l2_rate)


def test_a_reduction_s_sectors_are_read_as_those_of_an_atomic():
    cta = kit.cta([reductions([(5, 6)], "reduce")])
    assert read_sectors(cta) == {5, 6} and read_sectors(kit.cta([reductions([(5, 6)], "store")])) == set()


def arithmetic(rounds: int, once: str = "") -> str:
    """A chain of floats around a loop without memory: nothing but lines of arithmetic tells how often it goes around."""
    return HEAD.format(target="sm_90a") + f"""
.visible .entry k(.param .u64 out, .param .u32 rounds)
.reqntid 128
{{
  .reg .pred %p<4>;
  .reg .b32 %r<9>;
  .reg .b64 %rd<5>;
  .reg .f32 %f<9>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r2, [rounds];
  mov.u32 %r1, %tid.x;
  cvt.rn.f32.u32 %f1, %r1;
  mov.f32 %f2, 0f3F000000;
  mov.f32 %f4, 0f3F800000;
  mov.u32 %r3, 0;
again:
{once}
  mul.rn.f32 %f3, %f1, %f1;
  setp.lt.f32 %p1, %f3, %f2;
  fma.rn.f32 %f5, %f3, %f2, %f4;
  selp.f32 %f1, %f5, %f4, %p1;
  add.rn.f32 %f4, %f4, %f1;
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p2, %r3, {rounds or "%r2"};
  @%p2 bra again;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd1, %rd1, %rd2;
  st.global.f32 [%rd1], %f4;
  ret;
}}
"""


@needs_disassembler
@pytest.mark.parametrize("known", [True, False])
def test_rounds_of_an_unrolled_loop_without_accesses_are_counted(known: bool):
    """Also where ptxas leaves rounds over, for a number that it doesn't know."""
    rounds, found = 203 - 3 * known, []
    for once in ("", '.pragma "nounroll";'):
        text = arithmetic(rounds if known else 0, once)
        found.append(predict(text, assembled(text, "sm_90a"), "k", (132,), [np.zeros(128, np.float32), np.uint32(rounds)], "H100"))
    unrolled, kept = found
    assert not unrolled.is_estimate and not kept.is_estimate
    each = [one.counts["warp instructions"] / (132 * 4 * rounds) for one in found]
    assert 7.5 < each[1] < 9.5
    assert 5 < each[0] < each[1]
