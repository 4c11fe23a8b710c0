"""Tensor memory's allocation: sizes, blocking, permits, pairs of CTAs, and what is wrong with it."""
from __future__ import annotations

import numpy as np
import pytest

from tests.sim import tcgen05kit as kit
from tests.sim.faults import tcgen05_faults
from tileiras.sim import Deadlock, simulate
from tileiras.sim.errors import SimulationError, TensorMemoryError


def kernel(body: str, warps: int = 4, group: int = 1) -> str:
    """%w is the warp, %slot the shared address of eight words; the words go to the output at the end."""
    pair = ".reqnctapercluster 2\n" if group == 2 else ""
    return f"""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
.reqntid {32 * warps}
{pair}{{
.reg .b32 %me, %w, %slot, %a<8>, %n;
.reg .b64 %out, %off;
.reg .pred %p<8>;
.shared .align 16 .b8 words[32];
mov.u32 %me, %tid.x;
shr.u32 %w, %me, 5;
mov.u32 %slot, words;
setp.lt.u32 %p7, %me, 8;
mad.lo.u32 %a7, %me, 4, %slot;
@%p7 st.shared.b32 [%a7], 4294967295;
bar.sync 0;
{body}
bar.sync 0;
ld.param.u64 %out, [out];
mov.u32 %n, %ctaid.x;
mad.lo.u32 %n, %n, 8, %me;
mul.wide.u32 %off, %n, 4;
add.u64 %out, %out, %off;
@%p7 ld.shared.b32 %a6, [%a7];
@%p7 st.global.b32 [%out], %a6;
ret;
}}
"""


def alloc(count: int, word: int = 0, group: int = 1, do: str = "alloc") -> str:
    if do == "alloc":
        return f"tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%slot+{4 * word}], {count};"
    return f"ld.shared.b32 %a0, [%slot+{4 * word}];\ntcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %a0, {count};"


def only(warp: int, text: str, label: str) -> str:
    return f"setp.ne.u32 %p0, %w, {warp};\n@%p0 bra {label};\n{text}\n{label}:"


def run(body: str, group: int = 1, warps: int = 4, **options):
    text = kernel(body, warps, group)
    complaint = kit.assembled(text, "sm_100a")
    assert not complaint, complaint
    out = np.zeros(8 * group, np.uint32)
    report = simulate(text, grid=group, args=[out], **options)
    return out, report


@pytest.mark.parametrize("seed", range(4))
def test_allocations_are_columns_of_their_own(seed):
    counts = (256, 128, 64, 32, 32)
    body = only(0, "\n".join(alloc(n, i) for i, n in enumerate(counts)) +
                "\n".join(["", *(alloc(n, i, do="free") for i, n in enumerate(counts))]), "L0")
    out, report = run(body, seed=seed)
    taken = np.zeros(512, int)
    for address, n in zip(out, counts):
        assert address >> 16 == 0
        taken[address:address + n] += 1
    assert (taken == 1).all()
    assert not report.findings


def test_a_seed_moves_allocations_that_a_kernel_must_not_guess():
    body = only(0, alloc(64) + "\n" + alloc(64, do="free"), "L0")
    assert len({int(run(body, seed=s)[0][0]) for s in range(8)}) > 1


def test_a_full_memory_blocks_until_somebody_frees():
    body = only(0, alloc(512, 0) + "\nbar.sync 1, 64;\n" + alloc(512, 0, do="free"), "L0") + "\n" + \
        only(1, "bar.sync 1, 64;\n" + alloc(256, 1) + "\n" + alloc(256, 1, do="free"), "L1")
    out, report = run(body)
    assert out[0] == 0 and out[1] in (0, 256)
    assert not report.findings


def test_an_allocation_that_never_fits_is_a_deadlock():
    with pytest.raises(Deadlock, match="tensor memory"):
        run(only(0, alloc(256, 0) + "\n" + alloc(256, 1) + "\n" + alloc(32, 2), "L0"))


@pytest.mark.parametrize("count", [0, 16, 48, 96, 1024])
def test_counts_that_do_not_exist(count):
    with pytest.raises(TensorMemoryError, match="power of two"):
        out = np.zeros(8, np.uint32)
        simulate(kernel(only(0, alloc(count), "L0")), args=[out])


@pytest.mark.parametrize("body,words", [
    (alloc(32), "never deallocated"),
    (alloc(32) + "\n" + alloc(32, do="free") + "\n" + alloc(32, do="free"), "isn't an allocation's address"),
    (alloc(64) + "\n" + alloc(32, do="free") + "\n", "of 32 columns of an allocation of 64"),
    ("mov.b32 %a0, 64;\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %a0, 32;", "isn't an allocation's address"),
    ("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n" + alloc(32) + "\n" + alloc(32, do="free"),
     "after tcgen05.relinquish_alloc_permit"),
    (alloc(32) + "\n" + alloc(64, 1) + "\n" + alloc(32, do="free") + "\n" + alloc(64, 1, do="free"), "mustn't grow")])
def test_wrong_use_is_found(body, words):
    _, report = run(only(0, body, "L0"))
    assert [words in str(f) for f in report.findings] == [True]
    assert isinstance(report.findings[0], TensorMemoryError)
    assert report.findings[0].line and report.findings[0].text


def test_mixed_cta_groups_are_refused():
    with pytest.raises(SimulationError, match="cta_group"):
        simulate(kernel(only(0, alloc(32) + "\n" + alloc(32, 0, 2, "free"), "L0")), args=[np.zeros(8, np.uint32)])


@pytest.mark.parametrize("seed", range(3))
def test_a_pair_allocates_together(seed):
    body = only(0, alloc(128, 0, 2), "L0") + "\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n" + \
        only(0, alloc(128, 0, 2, "free"), "L1")
    out, report = run(body, 2, seed=seed)
    assert out[0] == out[8]
    assert not report.findings


def test_half_a_pair_waits_for_ever():
    body = "mov.u32 %a1, %cluster_ctarank;\nsetp.ne.u32 %p1, %a1, 0;\n@%p1 bra L9;\n" + only(0, alloc(128, 0, 2), "L0") + "\nL9:"
    with pytest.raises(Deadlock):
        run(body, 2)


@pytest.mark.parametrize("name", ["pipeline", "plain", "pair", "scaled"])
def test_the_kernels_that_faults_are_planted_in_assemble(name):
    complaint = kit.assembled(getattr(tcgen05_faults, name).ptx, "sm_100a")
    assert not complaint, complaint


def test_a_commit_to_the_block_s_own_barrier_needs_no_fence_behind_its_initialisation():
    text = tcgen05_faults.PLAIN.replace("@%one fence.mbarrier_init.release.cluster;", "")
    report = simulate(text, args=tcgen05_faults.plain.args())
    assert not report.findings


def test_mistakes_are_found_at_the_line_and_thread_that_make_them():
    text = tcgen05_faults.PLAIN.replace("@!%p2 bra waiting;", "")
    report = simulate(text, args=tcgen05_faults.plain.args())
    found = report.findings[0]
    assert found.kernel == "k" and found.ctaid == (0, 0, 0) and found.tid is not None
    assert found.text is not None and found.text.startswith("tcgen05.ld.sync.aligned")
    assert "a tcgen05.commit that is waited for" in str(found)


@pytest.mark.parametrize("text", [
    "tcgen05;", "tcgen05.bogus.cta_group::1 %a0;", "tcgen05.alloc.cta_group::1.sync.aligned.b32 [%slot];",
    "tcgen05.ld.sync.aligned.32x32b.x3.b32 {%a0, %a1, %a2}, [%a3];", "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%a0}, [%a3];",
    "tcgen05.st.sync.aligned.16x32bx2.x1.b32 [%a3], {%a0};", "tcgen05.mma.cta_group::1.kind::f16 [%a0], %off;",
    "tcgen05.mma.cta_group::1.kind::f5 [%a0], %off, %off, %a0, %p0;", "tcgen05.cp.cta_group::1.64x128b [%a0], %off;",
    "tcgen05.mma.cta_group::1.kind::mxf4 [%a0], %off, %off, %a0, %p0;", "tcgen05.commit.cta_group::1.b64 [%off];",
    "tcgen05.mma.ws.cta_group::2.kind::f16 [%a0], %off, %off, %a0, %p0;", "tcgen05.shift.cta_group::1.up [%a0];"])
def test_malformed_instructions_are_refused_with_their_line(text):
    with pytest.raises(SimulationError) as found:
        simulate(kernel(text), args=[np.zeros(8, np.uint32)])
    assert found.value.line
