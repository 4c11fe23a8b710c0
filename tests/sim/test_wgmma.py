"""wgmma against products in integer-valued floats, with tiles and fragments laid out by the PTX ISA's tables."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.sim import wgmmakit as kit
from tests.sim.test_matrix import a_place
from tileiras import sim
from tileiras.sim.errors import InFlight, MissingFence

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
         "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8}
WIDTH = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}
BITS = {8: np.uint8, 16: np.uint16, 32: np.uint32}
OUT = {"f16": np.float16, "f32": np.float32, "s32": np.int32}


def draw(kind: str, shape, rng) -> np.ndarray:
    low, high = (0, 9) if kind[0] == "u" else (-4, 5)
    return rng.integers(low, high, shape).astype(TYPES[kind])


def codes(values: np.ndarray) -> np.ndarray:
    return values.view(BITS[8 * values.dtype.itemsize])


def fragment_of_a(values: np.ndarray, kind: str) -> np.ndarray:
    """A, [64, k], as the registers [128, 4] that mma's fragment of 16 rows gives each warp."""
    width = WIDTH[kind]
    shape = (16, 8, values.shape[1])
    name = {16: "16", 32: "tf32", 8: "8"}[width]
    count = 16 * values.shape[1] // 32
    out = np.empty((128, count), values.dtype)
    for lane in range(128):
        for i in range(count):
            row, column = a_place(shape, name, lane % 32, i)
            out[lane, i] = values[16 * (lane // 32) + row, column]
    return kit.words(codes(out))


def check(ta, tb, td, n, *, swizzle=(128, 128), major=("k", "k"), registers=False, signs=(1, 1), add=True, sat=False,
          seed=0):
    rng = np.random.default_rng(n + seed)
    k = 256 // WIDTH[ta]
    a, b = draw(ta, (64, k), rng), draw(tb, (n, k), rng)
    c = rng.integers(-50, 51, (64, n)).astype(OUT[td])
    integer = td == "s32"
    da = kit.descriptor(0, major[0], swizzle[0], WIDTH[ta], 64, k)
    db = kit.descriptor(kit.TILE, major[1], swizzle[1], WIDTH[tb], n, k)
    tail = f", {int(add)}"
    if not integer:
        tail += f", {signs[0]}, {signs[1]}"
    if ta in ("f16", "bf16"):
        tail += ("" if registers else f", {int(major[0] == 'mn')}") + f", {int(major[1] == 'mn')}"
    op = f".sync.aligned.m64n{n}k{k}{'.satfinite' if sat else ''}.{td}.{ta}.{tb}"
    count = n // 4 if td == "f16" else n // 2
    body = kit.product(op, count, kit.vector("a", 4) if registers else str(da), db, tail)
    text = kit.kernel(body, count, 4 if registers else 0)
    images = [kit.image(codes(a), major[0], swizzle[0], WIDTH[ta]), kit.image(codes(b), major[1], swizzle[1], WIDTH[tb])]
    got, report = kit.run(text, images, kit.words(kit.spread(c)), fragment_of_a(a, ta) if registers else None)
    want = signs[0] * signs[1] * (a.astype(np.float64) @ b.astype(np.float64).T) + (c.astype(np.float64) if add else 0)
    np.testing.assert_array_equal(got.view(OUT[td]), kit.spread(want.astype(OUT[td])))
    assert not report.findings, report.findings[0]


@pytest.mark.parametrize("n", range(8, 257, 8))
def test_every_n(n):
    check("f16", "f16", "f32", n, swizzle=(128, 32))
    if n <= 32 or n % 16 == 0:
        check("s8", "u8", "s32", n, swizzle=(64, 128))


@pytest.mark.parametrize("ta,tb,td", [("f16", "f16", "f16"), ("f16", "f16", "f32"), ("bf16", "bf16", "f32"),
                                      ("tf32", "tf32", "f32"), ("e4m3", "e5m2", "f32"), ("e5m2", "e4m3", "f16"),
                                      ("e4m3", "e4m3", "f32"), ("e5m2", "e5m2", "f32"), ("s8", "s8", "s32"),
                                      ("u8", "s8", "s32"), ("u8", "u8", "s32")])
@pytest.mark.parametrize("registers", [False, True])
def test_every_type(ta, tb, td, registers):
    for swizzle in (0, 32, 64, 128):
        check(ta, tb, td, 32, swizzle=(swizzle, swizzle), registers=registers)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("major", [("mn", "k"), ("k", "mn"), ("mn", "mn")])
def test_both_majors(kind, major):
    for swizzle in (0, 32, 64, 128):
        check(kind, kind, "f32", 128, swizzle=(swizzle, swizzle), major=major)
    check(kind, kind, "f32", 64, swizzle=(128, 64), major=("k", major[1]), registers=True)


def test_negation_and_scale_d():
    for signs in ((1, -1), (-1, 1), (-1, -1)):
        check("f16", "f16", "f32", 16, signs=signs)
        check("tf32", "tf32", "f32", 16, signs=signs, registers=True)
    check("e4m3", "e4m3", "f16", 16, add=False)
    check("s8", "s8", "s32", 16, add=False)


def test_single_bits():
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 2, (64, 256)), rng.integers(0, 2, (24, 256))
    body = kit.product(".sync.aligned.m64n24k256.s32.b1.b1.and.popc", 12, str(kit.descriptor(0, "k", 0, 1, 64, 256)),
                       kit.descriptor(kit.TILE, "k", 32, 1, 24, 256), ", 1")
    c = rng.integers(-9, 10, (64, 24)).astype(np.int32)
    lbo = kit.strides("k", 0, 8, 64, 32)
    assert lbo == kit.strides("k", 0, 1, 64, 256)
    got, _ = kit.run(kit.kernel(body, 12), [kit.image(a, "k", 0, 1), kit.image(b, "k", 32, 1)], kit.words(kit.spread(c)))
    np.testing.assert_array_equal(got.view(np.int32), kit.spread((a @ b.T + c).astype(np.int32)))


def test_saturation_and_wrapping():
    a, b = np.full((64, 32), 127, np.int8), np.full((8, 32), 127, np.int8)
    c = np.full((64, 8), 2**31 - 1, np.int32)
    images = [kit.image(codes(a), "k", 128, 8), kit.image(codes(b), "k", 128, 8)]
    descriptors = str(kit.descriptor(0, "k", 128, 8, 64, 32)), kit.descriptor(kit.TILE, "k", 128, 8, 8, 32)
    for form, want in ((".satfinite", 2**31 - 1), ("", (2**31 - 1 + 32 * 127 * 127) - 2**32)):
        body = kit.product(f".sync.aligned.m64n8k32{form}.s32.s8.s8", 4, *descriptors, ", 1")
        got, _ = kit.run(kit.kernel(body, 4), images, kit.words(kit.spread(c)))
        assert (got.view(np.int32) == want).all()


def test_tf32_drops_the_low_bits_and_a_product_rounds_once():
    a = np.zeros((64, 8), np.float32)
    a[:, 0] = np.float32(1 + 2.0 ** -10 + 2.0 ** -11)               # the last bit isn't one of tf32's
    a[:, 1] = a[:, 2] = 2.0 ** -12
    b = np.zeros((8, 8), np.float32)
    b[:, 0], b[:, 1:3] = 1, 2.0 ** -12                              # two halves of the last place of 1
    images = [kit.image(codes(a), "k", 128, 32), kit.image(codes(b), "k", 128, 32)]
    body = kit.product(".sync.aligned.m64n8k8.f32.tf32.tf32", 4, str(kit.descriptor(0, "k", 128, 32, 64, 8)),
                       kit.descriptor(kit.TILE, "k", 128, 32, 8, 8), ", 0, 1, 1")
    got, _ = kit.run(kit.kernel(body, 4), images, np.zeros((128, 4), np.uint32))
    assert (got.view(np.float32) == np.float32(1 + 2.0 ** -10 + 2.0 ** -23)).all()


# ---- sparse A

def metadata(columns: np.ndarray, kind: str, k: int, selector: int) -> np.ndarray:
    """The metadata registers [128] for stored elements in `columns` [64, k / 2], by the ISA's figures."""
    chunk = 2 if kind == "tf32" else 4
    fields = np.zeros((64, k // chunk), np.uint64)
    for row in range(64):
        for i, column in enumerate(columns[row]):
            c, inside = int(column) // chunk, int(column) % chunk
            if kind == "tf32":
                fields[row, c] = 0b1110 if inside else 0b0100
            else:
                fields[row, c] |= inside << 2 * (i % 2)
    out = np.full(128, 0xDEADBEEF, np.uint32)
    for row in range(64):
        warp, group, high = row // 16, row % 8, row % 16 // 8
        for c, field in enumerate(fields[row]):
            if WIDTH[kind] >= 16:
                thread, bit = 2 * selector + c // 4, 16 * high + 4 * (c % 4)
            else:
                thread, bit = 2 * (c // 8) + high, 4 * (c % 8)
            at = 32 * warp + 4 * group + thread
            out[at] = int(out[at]) & ~(15 << bit) & 0xFFFFFFFF | int(field) << bit
    return out


@pytest.mark.parametrize("kind,td,selector", [("f16", "f32", 0), ("f16", "f16", 1), ("bf16", "f32", 1), ("tf32", "f32", 0),
                                              ("tf32", "f32", 1), ("e4m3", "f32", 0), ("e5m2", "f16", 0), ("s8", "s32", 0),
                                              ("u8", "s32", 0)])
@pytest.mark.parametrize("registers", [False, True])
def test_sparse_products(kind, td, selector, registers):
    rng = np.random.default_rng(7)
    k, n = 512 // WIDTH[kind], 40 if td != "s32" else 48
    chunk, keep = (2, 1) if kind == "tf32" else (4, 2)
    stored = draw(kind, (64, k // 2), rng)
    columns = np.empty((64, k // 2), np.int64)
    for row in range(64):
        for c in range(k // chunk):
            columns[row, c * keep:(c + 1) * keep] = c * chunk + np.sort(rng.choice(chunk, keep, replace=False))
    full = np.zeros((64, k))
    np.put_along_axis(full, columns, stored.astype(np.float64), 1)
    b = draw(kind, (n, k), rng)
    c = rng.integers(-50, 51, (64, n)).astype(OUT[td])
    tail = f", %m, {selector}, 1" + ("" if td == "s32" else ", 1, 1")
    if kind in ("f16", "bf16"):
        tail += ", 0" if registers else ", 0, 0"
    count = n // 4 if td == "f16" else n // 2
    da = kit.descriptor(0, "k", 32, WIDTH[kind], 64, k // 2)
    body = kit.product(f".sp.sync.aligned.m64n{n}k{k}.{td}.{kind}.{kind}", count,
                       kit.vector("a", 4) if registers else str(da), kit.descriptor(kit.TILE, "k", 64, WIDTH[kind], n, k), tail)
    images = [kit.image(codes(stored), "k", 32, WIDTH[kind]), kit.image(codes(b), "k", 64, WIDTH[kind])]
    got, _ = kit.run(kit.kernel(body, count, 4 if registers else 0), images, kit.words(kit.spread(c)),
                     fragment_of_a(stored, kind) if registers else None, metadata(columns, kind, k, selector))
    want = full @ b.astype(np.float64).T + c
    np.testing.assert_array_equal(got.view(OUT[td]), kit.spread(want.astype(OUT[td])))


# ---- what it refuses

GOOD = ".sync.aligned.m64n8k16.f32.f16.f16"


@pytest.mark.parametrize("op,tail,count", [
    (GOOD.replace("n8", "n12"), ", 1, 1, 1, 0, 0", 6), (GOOD.replace("k16", "k32"), ", 1, 1, 1, 0, 0", 4),
    (GOOD.replace("f32", "s32"), ", 1, 1, 1, 0, 0", 4), (GOOD, ", 1, 1, 1, 0", 4), (GOOD, ", 1, 2, 1, 0, 0", 4),
    (GOOD, ", 1, 1, 1, 0, 0", 3), (".sync.aligned.m64n40k32.s32.s8.s8", ", 1", 20),
    (".sync.aligned.m64n8k256.s32.b1.b1.xor.popc", ", 1", 4), (".sync.aligned.m64n8k32.f32.e4m3.f16", ", 1, 1, 1", 4)])
def test_forms_the_isa_does_not_have(op, tail, count):
    with pytest.raises(sim.InvalidInstruction):
        kit.run(kit.kernel(kit.product(op, count, "0", 0, tail), count), [np.zeros(2 * kit.TILE, np.uint8)],
                np.zeros((128, count), np.uint32))


def test_targets_without_wgmma_refuse_it():
    text = kit.kernel(kit.product(GOOD, 4, "0", 0, ", 1, 1, 1, 0, 0"), 4, target="sm_100a")
    with pytest.raises(sim.InvalidInstruction, match="sm_90a"):
        kit.run(text, [np.zeros(2 * kit.TILE, np.uint8)], np.zeros((128, 4), np.uint32))


# ---- several warpgroups, blocks and products under way

def test_warpgroups_of_many_blocks():
    """Three blocks of 288 threads: two warpgroups with products of their own, and a warp that has none."""
    rng = np.random.default_rng(3)
    a, b = draw("f16", (2, 64, 16), rng), draw("f16", (32, 16), rng)
    c = rng.integers(-50, 51, (3, 2, 64, 32)).astype(np.float32)
    da, db = kit.descriptor(0, "k", 32, 16, 64, 16), kit.descriptor(kit.TILE, "k", 32, 16, 32, 16)
    body = f"""shr.u32 %r8, %r0, 7; setp.gt.u32 %p1, %r8, 1; @%p1 bra END;
    mul.wide.u32 %d9, %r8, 128; add.s64 %d10, %d2, {da}; add.s64 %d10, %d10, %d9; add.s64 %d11, %d2, {db};
    mov.u32 %r9, %ctaid.x; mad.lo.u32 %r9, %r9, 256, %r0; mul.wide.u32 %d9, %r9, 64; add.s64 %d3, %g1, %d9;
    add.s64 %d4, %g2, %d9;
    {"".join(f"ld.global.b32 %c{i}, [%d3+{4 * i}];" for i in range(16))}
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {kit.vector("c", 16)}, %d10, %d11, 1, 1, 1, 0, 0;
    wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {kit.vector("c", 16)}, %d10, %d11, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
    {"".join(f"st.global.b32 [%d4+{4 * i}], %c{i};" for i in range(16))}
    END:"""
    text = kit.kernel(body, 16, threads=288)
    start = text.index("ld.global.b32 %c0, [%d3+0];")
    text = text[:start] + text[text.index("ld.global.b32 %m"):]           # the body loads and stores by itself
    text = text[:text.index("END:") + 4] + "\nret; }\n"
    images = np.concatenate([kit.image(codes(a[0]), "k", 32, 16)[:2048], kit.image(codes(a[1]), "k", 32, 16)])[:kit.TILE]
    before = np.concatenate([kit.words(kit.spread(c[i, j])) for i in range(3) for j in range(2)])
    for seed in range(3):
        out = np.zeros_like(before)
        report = sim.simulate(text, grid=3, seed=seed, args=[np.concatenate([images, kit.image(codes(b), "k", 32, 16)]),
                                                            before, out, np.zeros(4, np.uint32), np.zeros(288, np.uint32)])
        assert not report.findings, report.findings[0]
        for i in range(3):
            for j in range(2):
                want = c[i, j] + 2 * (a[j].astype(np.float32) @ b.astype(np.float32).T)
                got = out[128 * (2 * i + j):][:128]
                np.testing.assert_array_equal(got.view(np.float32), kit.spread(want))


def test_what_happens_to_shared_memory_after_the_issue_is_what_a_product_sees():
    """A product reads its tiles when it happens, which is as late as may be; writing them meanwhile is the finding."""
    tail = ", 0, 1, 1, 0, 0"
    count = 4
    body = f"""add.s64 %d10, %d2, {kit.descriptor(0, "k", 0, 16, 64, 16)};
    add.s64 %d11, %d2, {kit.descriptor(kit.TILE, "k", 0, 16, 8, 16)};
    wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {kit.vector("c", 4)}, %d10, %d11{tail};
    wgmma.commit_group.sync.aligned; mov.u32 %r9, tile; shl.b32 %r8, %r0, 4; add.u32 %r9, %r9, %r8; mov.u32 %r8, 0;
    st.shared.v4.b32 [%r9], {{%r8, %r8, %r8, %r8}};
    wgmma.wait_group.sync.aligned 0;"""
    one = np.ones((64, 16), np.float16)
    images = [kit.image(codes(one), "k", 0, 16), kit.image(codes(one[:8]), "k", 0, 16)]
    got, report = kit.run(kit.kernel(body, count), images, np.zeros((128, 4), np.uint32))
    assert (got.view(np.float32) == 0).all()
    assert [type(f) for f in report.findings] == [InFlight]
    assert report.findings[0].line and "st.shared" in (report.findings[0].text or "")


def test_a_product_of_another_shape_into_an_accumulator_in_flight_is_found():
    """PTX ISA: without a wait only products of one shape go into it in order. The values are those of the order given."""
    first, second = (f"add.s64 %d10, %d2, {kit.descriptor(0, 'k', 0, 16, 64, width)};"
                     f"add.s64 %d11, %d2, {kit.descriptor(kit.TILE, 'k', 0, 16, 8, width)};"
                     f"wgmma.mma_async.sync.aligned.m64n8{kind} {kit.vector('c', 4)}, %d10, %d11, {tail};"
                     for kind, width, tail in (("k16.f32.f16.f16", 16, "0, 1, 1, 0, 0"), ("k32.f32.e4m3.e4m3", 32, "1, 1, 1")))
    body = f"wgmma.fence.sync.aligned; {first} {second} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
    images = [np.zeros(2 * kit.TILE, np.uint8)]
    got, report = kit.run(kit.kernel(body, 4), images, np.zeros((128, 4), np.uint32))
    assert [type(f) for f in report.findings] == [InFlight] and "another shape" in str(report.findings[0])
    assert (got == 0).all()


def test_arithmetic_behind_the_fence_is_found_in_a_strict_launch():
    body = kit.product(GOOD, 4, str(kit.descriptor(0, "k", 0, 16, 64, 16)), kit.descriptor(kit.TILE, "k", 0, 16, 8, 16),
                       ", 1, 1, 1, 0, 0").replace("wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned; mov.b32 %c0, 0;")
    images = [np.zeros(2 * kit.TILE, np.uint8)]
    for strict in (False, True):
        _, report = kit.run(kit.kernel(body, 4), images, np.zeros((128, 4), np.uint32), strict=strict)
        assert [type(f) for f in report.findings] == [MissingFence] * strict


def test_products_without_a_watch_over_races():
    """`races=False` leaves out the watch and nothing else."""
    body = kit.product(GOOD, 4, str(kit.descriptor(0, "k", 0, 16, 64, 16)), kit.descriptor(kit.TILE, "k", 0, 16, 8, 16),
                       ", 1, 1, 1, 0, 0")
    a, b = (np.random.default_rng(5).integers(-4, 5, shape).astype(np.float16) for shape in ((64, 16), (8, 16)))
    images = [np.concatenate([kit.image(m.view(np.uint16), "k", 0, 16)[:kit.TILE] for m in (a, b)])]
    results = [kit.run(kit.kernel(body, 4), images, np.zeros((128, 4), np.uint32), races=races) for races in (True, False)]
    assert np.array_equal(results[0][0], results[1][0]) and results[0][0].any()
    assert not results[1][1].findings
