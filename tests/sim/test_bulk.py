"""Bulk copies, reductions, groups, cp.async and their mbarriers, by the PTX ISA's definitions."""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.sim.asynckit import run
from tileiras.sim import InvalidInstruction, Misaligned, OutOfBounds, UninitializedRead

SHARED = ".shared .align 128 .b8 s[1024]; .shared .align 8 .b64 bar;"
START = """setp.ne.u32 %p1, %t, 0; @%p1 bra READY;
 mbarrier.init.shared::cta.b64 [bar], 1; fence.mbarrier_init.release.cluster;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
"""
WAIT = """READY: bar.sync 0;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; @!%p2 bra WAIT;
"""
OUT = """mul.wide.u32 %d1, %t, 4; add.u64 %d1, %g1, %d1; mov.u32 %r1, s; mad.lo.u32 %r1, %t, 4, %r1;
 ld.shared.u32 %r2, [%r1]; st.global.u32 [%d1], %r2; ld.shared.u32 %r2, [%r1 + 128]; st.global.u32 [%d1 + 128], %r2;
"""


@pytest.mark.parametrize("space", ["shared::cta", "shared::cluster"])
@pytest.mark.parametrize("seed", range(3))
def test_a_bulk_load_lands_before_its_mbarrier_completes(space, seed):
    x, y = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    load = f"cp.async.bulk.{space}.global.mbarrier::complete_tx::bytes [s], [%g0], 256, [bar];\n"
    report = run(START + load + WAIT + OUT, [x, y], SHARED, seed=seed)
    assert np.array_equal(x, y) and not report.findings


@pytest.mark.parametrize("seed", range(3))
def test_a_bulk_store_is_complete_after_its_wait(seed):
    x, y = np.zeros(64, np.uint32), np.zeros(32, np.uint32)
    body = """mov.u32 %r1, s; mad.lo.u32 %r1, %t, 8, %r1; st.shared.v2.u32 [%r1], {%t, %t};
 fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %p1, %t, 0; @%p1 ret;
 cp.async.bulk.global.shared::cta.bulk_group [%g0], [s], 256;
 cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ld.global.u32 %r2, [%g0 + 252]; st.global.u32 [%g1], %r2;"""
    report = run(body, [x, y], SHARED, seed=seed)
    assert np.array_equal(x, np.repeat(np.arange(32), 2)) and y[0] == 31 and not report.findings


def test_a_masked_store_copies_the_bytes_of_its_mask():
    x = np.full(64, 0xEE, np.uint8)
    body = """mov.u32 %r1, s; mad.lo.u32 %r1, %t, 2, %r1; mov.u16 %h1, 0x0201; st.shared.u16 [%r1], %h1;
 fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %p1, %t, 0; @%p1 ret; mov.u16 %h2, 0x8421;
 cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%g0], [s], 64, %h2;
 cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    run(body, [x], SHARED)
    expected = np.full((4, 16), 0xEE, np.uint8)
    for k in (0, 5, 10, 15):
        expected[:, k] = 2 if k % 2 else 1
    assert np.array_equal(x.reshape(4, 16), expected)


TYPES = {"u32": np.uint32, "s32": np.int32, "u64": np.uint64, "s64": np.int64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
         "f32": np.float32, "f64": np.float64, "b32": np.uint32, "b64": np.uint64}


@pytest.mark.parametrize(("op", "type_"), [
    ("add", "u32"), ("add", "s32"), ("add", "u64"), ("add", "f32"), ("add", "f64"), ("add.noftz", "f16"), ("add.noftz", "bf16"),
    ("min", "u32"), ("max", "s32"), ("min", "u64"), ("max", "s64"), ("min", "f16"), ("max", "bf16"), ("inc", "u32"),
    ("dec", "u32"), ("and", "b32"), ("or", "b64"), ("xor", "b32")])
def test_bulk_reductions(op, type_):
    dtype = TYPES[type_]
    rng = np.random.default_rng(3)
    n = 256 // np.dtype(dtype).itemsize
    a: Any = rng.integers(-20 if dtype in (np.int32, np.int64) else 0, 40, n).astype(dtype)
    b: Any = rng.integers(0, 40, n).astype(dtype)
    if dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64):
        a, b = (a / 7).astype(dtype), (b / 11).astype(dtype)
    x = a.copy()
    body = f"""mov.u32 %r1, s; mad.lo.u32 %r1, %t, 8, %r1; mul.wide.u32 %d1, %t, 8; add.u64 %d1, %d1, %g1;
 ld.global.v2.u32 {{%r2, %r3}}, [%d1]; st.shared.v2.u32 [%r1], {{%r2, %r3}};
 fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %p1, %t, 0; @%p1 ret;
 cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{type_} [%g0], [s], 256;
 cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    run(body, [x, b], SHARED)
    kind = op.split(".")[0]
    with np.errstate(over="ignore"):
        expected = {"add": lambda: (a.astype(np.float64) + b.astype(np.float64)) if dtype == ml_dtypes.bfloat16 else a + b,
                    "min": lambda: np.minimum(a, b), "max": lambda: np.maximum(a, b),
                    "inc": lambda: np.where(a >= b, 0, a + 1), "dec": lambda: np.where((a == 0) | (a > b), b, a - 1),
                    "and": lambda: a & b, "or": lambda: a | b, "xor": lambda: a ^ b}[kind]().astype(dtype)
    assert np.array_equal(x.view(np.uint8), expected.view(np.uint8))


def test_sums_of_f32_flush_subnormals_and_those_of_f16_dont():
    tiny = np.full(64, 1e-39, np.float32)
    x = np.full(64, np.float32(-1e-39), np.float32)
    body = """mov.u32 %r1, s; mad.lo.u32 %r1, %t, 8, %r1; mul.wide.u32 %d1, %t, 8; add.u64 %d1, %d1, %g1;
 ld.global.v2.u32 {%r2, %r3}, [%d1]; st.shared.v2.u32 [%r1], {%r2, %r3};
 fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %p1, %t, 0; @%p1 ret;
 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.TYPE [%g0], [s], 256;
 cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    run(body.replace("TYPE", "f32"), [x, tiny], SHARED)
    assert (x == 0).all()
    half = np.full(128, 6e-8, np.float16)
    y = half.copy()
    run(body.replace("TYPE", "noftz.f16"), [y, half], SHARED)
    assert np.array_equal(y, half + half)


def test_what_the_isa_doesnt_allow():
    x, y = np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    load = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], [%g0], 256, [bar];\n"
    with pytest.raises(Misaligned):
        run(START + load.replace("256", "250") + WAIT, [x, y], SHARED)
    with pytest.raises(Misaligned):
        run(START + load.replace("[%g0]", "[%g0 + 8]") + WAIT, [x, y], SHARED)
    with pytest.raises(Misaligned):
        run(START + load.replace("[s]", "[s + 4]") + WAIT, [x, y], SHARED)
    with pytest.raises(OutOfBounds):
        run(START + load.replace("256", "272") + WAIT, [x, y], SHARED)
    store = "cp.async.bulk.global.shared::cta.bulk_group [%g0], [s], 64;\n"
    with pytest.raises(UninitializedRead):
        run("setp.ne.u32 %p1, %t, 0; @%p1 ret;" + store, [x, y], SHARED)
    for bad in ("add.f16", "add.noftz.f32", "inc.s32", "and.u32", "min.f32"):
        with pytest.raises(InvalidInstruction):
            run(f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{bad} [%g0], [s], 64;", [x, y], SHARED)
    with pytest.raises(InvalidInstruction):
        run("cp.async.bulk.shared::cta.global.bulk_group [s], [%g0], 64;", [x, y], SHARED)


@pytest.mark.parametrize("noinc", ["", ".noinc"])
@pytest.mark.parametrize("seed", range(3))
def test_cp_async_arrives_at_an_mbarrier_when_its_copies_have_landed(noinc, seed):
    x, y = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    arrive = "" if noinc else "mbarrier.arrive.shared.b64 %d5, [bar];"
    body = f"""setp.ne.u32 %p1, %t, 0; @%p1 bra READY; mbarrier.init.shared::cta.b64 [bar], 32;
READY: bar.sync 0; mov.u32 %r1, s; mad.lo.u32 %r1, %t, 8, %r1; mul.wide.u32 %d1, %t, 8; add.u64 %d1, %d1, %g0;
 cp.async.ca.shared.global [%r1], [%d1], 8; cp.async.mbarrier.arrive{noinc}.shared.b64 [bar]; {arrive}
WAIT: mbarrier.test_wait.parity.shared::cta.b64 %p2, [bar], 0; @!%p2 bra WAIT;
""" + OUT
    report = run(body, [x, y], SHARED, seed=seed)
    assert np.array_equal(x, y) and not report.findings


def test_a_copy_group_lands_at_its_wait_and_not_before():
    x, y = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    body = """mov.u32 %r1, s; mad.lo.u32 %r1, %t, 8, %r1; mul.wide.u32 %d1, %t, 8; add.u64 %d1, %d1, %g0;
 cp.async.ca.shared.global [%r1], [%d1], 8; cp.async.commit_group; cp.async.wait_group N;\nbar.warp.sync -1;
""" + OUT
    run(body.replace("N;", "0;"), [x, y], SHARED)
    assert np.array_equal(x, y)
    with pytest.raises(UninitializedRead):
        run(body.replace("N;", "1;"), [x, y], SHARED)
