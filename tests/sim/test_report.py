"""The report: instructions, bytes, bank conflicts, matrix operations and the least time, counted by hand."""
from __future__ import annotations

import numpy as np
import pytest

from tests.sim.asynckit import kernel
from tileiras.sim import BudgetExceeded, simulate

SHARED = ".shared .align 16 .b8 s[16384];"


def report(body: str, args=(), threads: int = 32, **options):
    """Simulate a body that reads and writes shared memory `s`; its words are written first."""
    text = kernel(body, SHARED, pointers=len(args), threads=threads)
    return simulate(text, args=list(args), **options)


def test_bytes_by_space():
    body = """mul.wide.u32 %d1, %t, 16; add.u64 %d1, %d1, %g0; ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d1];
    mov.u32 %r5, s; mad.lo.u32 %r5, %t, 8, %r5; st.shared.v2.u32 [%r5], {%r1, %r2};
    setp.lt.u32 %p1, %t, 10; @%p1 ld.shared.u32 %r6, [%r5]; red.global.add.u32 [%g0 + 512], 1;
    setp.eq.u32 %p2, %t, 0; @!%p2 ret; fence.proxy.async; cp.async.bulk.global.shared::cta.bulk_group [%g0 + 1024], [s], 64;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    got = report(body, [np.zeros(512, np.uint32)])
    assert got.bytes == {"global read": 32 * 16 + 32 * 4, "shared write": 32 * 8, "shared read": 40 + 64,
                         "global write": 32 * 4 + 64}


@pytest.mark.parametrize(("stride", "width", "passes"), [
    (4, 4, 1), (8, 4, 2), (128, 4, 32), (132, 4, 1), (0, 4, 1), (64, 4, 16), (8, 8, 1), (16, 16, 1), (32, 16, 2), (256, 16, 8),
    (16, 8, 2)])
def test_bank_conflicts(stride, width, passes):
    """Thread t accesses `width` bytes at t * stride."""
    values = ", ".join(["%t"] * (width // 4))
    word = f"v{width // 4}." if width > 4 else ""
    operand = f"{{{values}}}" if width > 4 else "%t"
    got = report(f"mov.u32 %r1, s; mad.lo.u32 %r1, %t, {stride}, %r1;\n"
                 f"setp.eq.u32 %p1, %t, 0; @%p1 bra W; setp.eq.u32 %p2, {stride}, 0; @%p2 ret;\nW:\n"
                 f"st.shared.{word}u32 [%r1], {operand};")
    assert list(got.bank_conflicts.values()) == ([passes] if passes > 1 else [])


@pytest.mark.parametrize(("stride", "width", "sectors"), [
    (4, 4, 4), (8, 4, 8), (32, 4, 32), (128, 4, 32), (0, 4, 1), (16, 16, 16), (8, 8, 8), (64, 16, 32)])
def test_sectors_of_global_memory(stride, width, sectors):
    """Thread t stores `width` bytes at t * stride: each warp's store touches so many times 32 bytes."""
    values = ", ".join(["%t"] * (width // 4))
    word, operand = (f"v{width // 4}.", f"{{{values}}}") if width > 4 else ("", "%t")
    got = report(f"and.b32 %r1, %t, 31; mad.lo.u32 %r1, %r1, {stride}, 0; cvt.u64.u32 %d1, %r1; add.u64 %d1, %d1, %g0;\n"
                 f"st.global.{word}u32 [%d1], {operand};", [np.zeros(1024, np.uint32)], threads=64, races=False)
    assert got.global_sectors == 2 * sectors and got.shared_passes == 0


def test_passes_count_every_execution():
    """Ten stores of a loop, each by two warps in two passes, though only the first few are looked at."""
    got = report("mov.u32 %r1, s; mad.lo.u32 %r1, %t, 8, %r1; mov.u32 %r2, 0;\n"
                 "L: st.shared.u32 [%r1], %t; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 10; @%p1 bra L;", threads=64)
    assert got.shared_passes == 10 * 2 * 2


def test_work_of_matrix_instructions():
    body = """mov.b32 %r1, 0; mov.b32 %r2, 0; mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000;
    mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2}, {%r1}, {%f1, %f2, %f1, %f2};"""
    got = report(body, threads=64, grid=3)
    assert got.flops == 2 * 3 * 2 * 16 * 8 * 8 and got.kinds["mma"] == 2 * 3 * 32


def test_the_least_time_is_that_of_the_busiest_unit():
    body = "mov.f32 %f1, 0f3f800000;" + "fma.rn.f32 %f1, %f1, %f1, %f1;" * 1000
    got = report(body, grid=296, threads=128)
    assert got.estimate is not None and got.estimate.machine == "B200" and got.estimate.limit in ("fp32", "issue")
    least = 1000 * 296 * 128 / 128 / 148        # 128 results a cycle on each of 148 SMs
    assert least <= got.estimate.cycles <= 1.01 * least
    assert got.estimate.seconds == pytest.approx(got.estimate.cycles / 1.965e9)
    memory = report("ld.global.u32 %r1, [%g0];" * 8, [np.zeros(4, np.uint32)], grid=2)
    assert memory.bytes["global read"] == 2 * 32 * 4 * 8


def test_the_budget_stops_a_kernel():
    with pytest.raises(BudgetExceeded, match="more than 1000 instructions") as caught:
        report("L: add.u32 %r1, %t, 1; bra L;", max_instructions=1000)
    assert caught.value.kernel == "k" and caught.value.line
