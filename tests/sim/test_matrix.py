"""Matrix instructions: fragment layouts from the PTX ISA's tables, written out element by element here."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.sim.ptxkit import evaluate
from tileiras import sim
from tileiras.sim import simulate
from tileiras.sim.errors import TransactionMismatch

RNG = np.random.default_rng(4)


def a_place(shape, kind, lane, i):
    """(row, column) of A's element i in a lane, as the ISA's section of each shape says."""
    m, _, k = shape
    g, t = lane >> 2, lane & 3
    if kind == "16":
        if k == 8:
            return (g if i < 2 else g + 8), 2 * t + (i & 1)
        return (g if i < 2 or 4 <= i < 6 else g + 8), 2 * t + (i & 1) + (8 if i >= 4 else 0)
    if kind == "tf32":
        return g + 8 * (i & 1), t + (4 if i >= 2 else 0)
    if kind == "f64":
        if m == 8:
            return g, t
        return g + 8 * (i & 1), t + 4 * (i >> 1)
    if kind == "8":
        if m == 8:
            return g, 4 * t + (i & 3)
        if k == 16:
            return (g if i < 4 else g + 8), 4 * t + (i & 3)
        return (g if i < 4 or 8 <= i < 12 else g + 8), 4 * t + (i & 3) + (16 if i >= 8 else 0)
    if m == 8:
        return g, 8 * t + i
    if k == 32:
        return (g if i < 8 else g + 8), 8 * t + (i & 7)
    return (g if i < 8 or 16 <= i < 24 else g + 8), 8 * t + (i & 7) + (32 if i >= 16 else 0)


def b_place(shape, kind, lane, i):
    """(row, column) of B's element i in a lane."""
    g, t = lane >> 2, lane & 3
    if kind == "16":
        return 2 * t + (i & 1) + (8 if i >= 2 else 0), g
    if kind in ("tf32", "f64"):
        return t + 4 * i, g
    if kind == "8":
        return 4 * t + (i & 3) + (16 if i >= 4 else 0), g
    return 8 * t + (i & 7) + (32 if i >= 8 else 0), g


def c_place(shape, lane, i):
    """(row, column) of the accumulator's element i in a lane."""
    g, t = lane >> 2, lane & 3
    return (g if i < 2 else g + 8), 2 * t + (i & 1)


def fragment(matrix, place, count):
    return np.stack([[matrix[place(lane, i)] for i in range(count)] for lane in range(32)])


def words(elements, width):
    """[32, n] codes to [32, registers] uint32 (or uint64)."""
    if width == 4:
        low, high = elements[:, 0::2], elements[:, 1::2]
        return np.ascontiguousarray((low | high << 4).astype(np.uint8)).view(np.uint32)
    return np.ascontiguousarray(elements.astype(np.dtype(f"u{width // 8}"))).view(np.uint64 if width == 64 else np.uint32)


def run_mma(opcode, a, b, c, d_count, wide=False, d_type: type[np.generic] = np.uint32):
    """One mma by one warp: registers [32, n] in, [32, n] out."""
    t = "b64" if wide else "b32"
    ct = "b64" if c.dtype.itemsize == 8 else "b32"
    ins = [(t, a[:, i]) for i in range(a.shape[1])] + [(t, b[:, i]) for i in range(b.shape[1])] + \
          [(ct, c[:, i]) for i in range(c.shape[1])]
    names = [f"%x{i}" for i in range(len(ins))]
    na, nb = a.shape[1], b.shape[1]
    groups = [", ".join(names[:na]), ", ".join(names[na:na + nb]), ", ".join(names[na + nb:])]
    ds = ", ".join(f"%y{i}" for i in range(d_count))
    out = evaluate(f"mma.sync.aligned.{opcode} {{{ds}}}, {{{groups[0]}}}, {{{groups[1]}}}, {{{groups[2]}}};", ins,
                   [(ct, d_type)] * d_count)
    return np.stack(out, axis=1) if d_count > 1 else out[:, None]


FLOATS = {"f16": (np.float16, "16"), "bf16": (ml_dtypes.bfloat16, "16"), "tf32": (np.float32, "tf32"),
          "e4m3": (ml_dtypes.float8_e4m3fn, "8"), "e5m2": (ml_dtypes.float8_e5m2, "8")}


@pytest.mark.parametrize("shape,types", [
    ((16, 8, 16), ("f16", "f16")), ((16, 8, 8), ("f16", "f16")), ((16, 8, 16), ("bf16", "bf16")),
    ((16, 8, 8), ("bf16", "bf16")), ((16, 8, 8), ("tf32", "tf32")), ((16, 8, 4), ("tf32", "tf32")),
    ((16, 8, 32), ("e4m3", "e5m2")), ((16, 8, 16), ("e5m2", "e4m3"))])
@pytest.mark.parametrize("accumulator", ["f32", "f16"])
def test_float_products(shape, types, accumulator):
    if accumulator == "f16" and types[0] in ("bf16", "tf32"):
        pytest.skip("no such form")
    m, n, k = shape
    (da, kind), (db, _) = FLOATS[types[0]], FLOATS[types[1]]
    a = RNG.integers(-8, 9, (m, k)).astype(da)
    b = RNG.integers(-8, 9, (k, n)).astype(db)
    c = RNG.integers(-100, 101, (m, n)).astype(np.float64)
    width = np.dtype(da).itemsize * 8 if kind != "tf32" else 32
    bits = np.dtype(f"u{width // 8}")
    fa = words(fragment(a.view(bits), lambda lane, i: a_place(shape, kind, lane, i), m * k // 32), width)
    fb = words(fragment(b.view(bits), lambda lane, i: b_place(shape, kind, lane, i), n * k // 32), width)
    dtype = np.float32 if accumulator == "f32" else np.float16
    fc = np.ascontiguousarray(fragment(c, lambda lane, i: c_place(shape, lane, i), 4).astype(dtype)).view(np.uint32)
    op = f"m{m}n{n}k{k}.row.col.{accumulator}.{types[0]}.{types[1]}.{accumulator}"
    got = run_mma(op, fa, fb, fc, fc.shape[1]).view(dtype)
    want = a.astype(np.float64) @ b.astype(np.float64) + c
    np.testing.assert_array_equal(got, fragment(want, lambda lane, i: c_place(shape, lane, i), 4).astype(dtype))


@pytest.mark.parametrize("shape", [(8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)])
def test_double_products(shape):
    m, n, k = shape
    a, b = RNG.standard_normal((m, k)).round(3), RNG.standard_normal((k, n)).round(3)
    c = RNG.standard_normal((m, n))
    fa = fragment(a, lambda lane, i: a_place(shape, "f64", lane, i), m * k // 32).view(np.uint64)
    fb = fragment(b, lambda lane, i: b_place(shape, "f64", lane, i), n * k // 32).view(np.uint64)
    count = m * n // 32
    fc = fragment(c, lambda lane, i: c_place(shape, lane, i), count)
    got = run_mma(f"m{m}n{n}k{k}.row.col.f64.f64.f64.f64", fa, fb, fc.view(np.uint64), count, True, np.uint64)
    want = fragment(a @ b + c, lambda lane, i: c_place(shape, lane, i), count)
    np.testing.assert_allclose(got.view(np.float64), want, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("ta,tb", [("s8", "s8"), ("u8", "s8"), ("s4", "u4"), ("u4", "u4")])
@pytest.mark.parametrize("size", [0, 1, 2])
def test_integer_products(ta, tb, size):
    width = int(ta[1])
    shape = [(8, 8, 16), (16, 8, 16), (16, 8, 32)][size]
    if width == 4:
        shape = (*shape[:2], 2 * shape[2])
    m, n, k = shape

    def draw(t, dims):
        low = -(1 << width - 1) if t[0] == "s" else 0
        return RNG.integers(low, low + (1 << width), dims)
    a, b = draw(ta, (m, k)), draw(tb, (k, n))
    c = RNG.integers(-1000, 1000, (m, n))
    mask = (1 << width) - 1
    kind = str(width)
    fa = words(fragment(a & mask, lambda lane, i: a_place(shape, kind, lane, i), m * k // 32), width)
    fb = words(fragment(b & mask, lambda lane, i: b_place(shape, kind, lane, i), n * k // 32), width)
    count = m * n // 32
    fc = fragment(c, lambda lane, i: c_place(shape, lane, i), count).astype(np.int32)
    got = run_mma(f"m{m}n{n}k{k}.row.col.satfinite.s32.{ta}.{tb}.s32", fa, fb, fc.view(np.uint32), count)
    np.testing.assert_array_equal(got.view(np.int32), fragment(a @ b + c, lambda lane, i: c_place(shape, lane, i), count))


def test_single_bit_products():
    a, b = RNG.integers(0, 1 << 32, 32, np.uint64).astype(np.uint32), RNG.integers(0, 1 << 32, 32, np.uint64).astype(np.uint32)
    zero = np.zeros((32, 2), np.uint32)
    for op, f in (("and", np.bitwise_and), ("xor", np.bitwise_xor)):
        got = run_mma(f"m8n8k128.row.col.s32.b1.b1.s32.{op}.popc", a[:, None], b[:, None], zero, 2)
        for lane in range(32):
            for i in range(2):
                row, column = lane >> 2, 2 * (lane & 3) + i
                want = sum(bin(int(f(a[4 * row + t], b[4 * column + t]))).count("1") for t in range(4))
                assert got[lane, i] == want


def test_saturation_and_wrapping_of_integer_accumulators():
    ones = np.full((32, 1), 0x7F7F7F7F, np.uint32)
    c = np.full((32, 2), 0x7FFFFFFF, np.uint32)
    assert (run_mma("m8n8k16.row.col.satfinite.s32.s8.s8.s32", ones, ones, c, 2) == 0x7FFFFFFF).all()
    wrapped = (0x7FFFFFFF + 16 * 127 * 127) & 0xFFFFFFFF
    assert (run_mma("m8n8k16.row.col.s32.s8.s8.s32", ones, ones, c, 2) == wrapped).all()


def test_one_rounding_of_the_whole_sum():
    shape = (16, 8, 16)
    a = np.zeros((16, 16), np.float16)
    b = np.zeros((16, 8), np.float16)
    a[:, 0], b[0] = 1, 2.0 ** -24            # c + 2**-24 + 2**-24 reaches the next float32 of 1
    a[:, 1], b[1] = 1, 2.0 ** -24
    fa = words(fragment(a.view(np.uint16), lambda lane, i: a_place(shape, "16", lane, i), 8), 16)
    fb = words(fragment(b.view(np.uint16), lambda lane, i: b_place(shape, "16", lane, i), 4), 16)
    got = run_mma("m16n8k16.row.col.f32.f16.f16.f32", fa, fb, np.ones((32, 4), np.float32).view(np.uint32), 4)
    assert (got.view(np.float32) == np.float32(1 + 2.0 ** -23)).all()


def warp_kernel(body: str, arrays: int, threads: int = 32) -> str:
    params = ", ".join(f".param .u64 a{i}" for i in range(arrays))
    loads = "\n".join(f"ld.param.u64 %g{i}, [a{i}];" for i in range(arrays))
    return f""".version 9.0
.target sm_100a
.address_size 64
.visible .entry k({params})
.reqntid {threads}
{{ .reg .pred %p<8>; .reg .b32 %r<40>; .reg .b64 %d<20>; .reg .b64 %g<8>;
{loads}
mov.u32 %r0, %tid.x;
{body}
ret; }}
"""


FILL = """.shared .align 128 .b8 tile[2048];
mov.u32 %r1, tile; shl.b32 %r2, %r0, 4; mul.wide.u32 %d1, %r0, 16; add.s64 %d1, %g0, %d1; add.u32 %r3, %r1, %r2;
ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d1]; st.shared.v4.u32 [%r3], {%r4, %r5, %r6, %r7}; bar.warp.sync -1;
"""


@pytest.mark.parametrize("trans", [False, True])
def test_ldmatrix_and_stmatrix_move_four_matrices(trans):
    x = RNG.integers(0, 1 << 16, (4, 8, 8)).astype(np.uint16)
    form = ".trans" if trans else ""
    y, z = np.zeros((32, 4), np.uint32), np.zeros((4, 8, 8), np.uint16)
    body = FILL + f"""ldmatrix.sync.aligned.m8n8.x4{form}.shared.b16 {{%r10, %r11, %r12, %r13}}, [%r3];
    mul.wide.u32 %d2, %r0, 16; add.s64 %d2, %g1, %d2; st.global.v4.u32 [%d2], {{%r10, %r11, %r12, %r13}};
    stmatrix.sync.aligned.m8n8.x4{form}.shared.b16 [%r3+1024], {{%r10, %r11, %r12, %r13}};
    ld.shared.v4.u32 {{%r4, %r5, %r6, %r7}}, [%r3+1024]; mul.wide.u32 %d3, %r0, 16; add.s64 %d3, %g2, %d3;
    st.global.v4.u32 [%d3], {{%r4, %r5, %r6, %r7}};"""
    simulate(warp_kernel(body, 3), args=[x, y, z])
    source = x.transpose(0, 2, 1) if trans else x
    for lane in range(32):
        for i in range(4):
            row, column = lane >> 2, 2 * (lane & 3)
            assert y.view(np.uint16).reshape(32, 4, 2)[lane, i].tolist() == source[i, row, column:column + 2].tolist()
    np.testing.assert_array_equal(z, x)


def test_movmatrix_transposes():
    x = RNG.integers(0, 1 << 16, (8, 8)).astype(np.uint16)
    got = evaluate("movmatrix.sync.aligned.m8n8.trans.b16 %y0, %x0;", [("b32", x.reshape(-1).view(np.uint32))],
                   [("b32", np.uint32)])
    np.testing.assert_array_equal(got.view(np.uint16).reshape(8, 8), x.T)


COPY = """.shared .align 16 .b8 tile[1024];
mov.u32 %r1, tile; shl.b32 %r2, %r0, 4; add.u32 %r3, %r1, %r2; mul.wide.u32 %d1, %r0, 16; add.s64 %d2, %g0, %d1;
add.s64 %d3, %g1, %d1;
"""


def test_asynchronous_copies_land_when_waited_for():
    x, y = np.arange(256, dtype=np.uint32), np.zeros(128, np.uint32)
    body = COPY + """cp.async.cg.shared.global [%r3], [%d2], 16; cp.async.commit_group;
    cp.async.ca.shared.global [%r3+512], [%d2+512], 16; cp.async.commit_group;
    cp.async.wait_group 1; ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3]; st.global.v4.u32 [%d3], {%r4, %r5, %r6, %r7};
    cp.async.wait_all;"""
    simulate(warp_kernel(body, 2), args=[x, y])
    assert y.tolist() == list(range(128))
    for fault in (body.replace("cp.async.wait_group 1;", ""), body.replace("wait_group 1", "wait_group 2"),
                  body.replace("ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3]",
                               "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3+512]")):
        with pytest.raises(sim.UninitializedRead, match="shared memory"):
            simulate(warp_kernel(fault, 2), args=[x, y])


def test_asynchronous_copies_fill_with_zeros():
    x, y = np.arange(1, 129, dtype=np.uint32), np.zeros(128, np.uint32)
    body = COPY + """and.b32 %r8, %r0, 3; shl.b32 %r8, %r8, 2;
    cp.async.ca.shared.global [%r3], [%d2], 16, %r8; cp.async.wait_all;
    ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3]; st.global.v4.u32 [%d3], {%r4, %r5, %r6, %r7};"""
    simulate(warp_kernel(body, 2), args=[x, y])
    kept = np.arange(128) % 4 < np.arange(128) // 4 % 4
    np.testing.assert_array_equal(y, np.where(kept, x, 0))


def test_mbarriers_count_arrivals_and_phases():
    y = np.zeros(64, np.uint32)
    body = """.shared .align 8 .b64 bar; .shared .align 4 .u32 s[64];
    setp.ne.u32 %p1, %r0, 0; @%p1 bra READY; mbarrier.init.shared.b64 [bar], 64;
READY: bar.sync 0;
    mov.u32 %r1, s; shl.b32 %r2, %r0, 2; add.u32 %r3, %r1, %r2; st.shared.u32 [%r3], %r0;
    mbarrier.arrive.shared.b64 %d4, [bar];
WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;
    sub.u32 %r4, 252, %r2; add.u32 %r4, %r1, %r4; ld.shared.u32 %r5, [%r4];
    mul.wide.u32 %d1, %r0, 4; add.s64 %d1, %g0, %d1; st.global.u32 [%d1], %r5;"""
    simulate(warp_kernel(body, 1, 64), args=[y])
    assert y.tolist() == list(range(63, -1, -1))


def test_bulk_copies_complete_their_bytes():
    x, y = np.arange(256, dtype=np.uint32), np.zeros(32, np.uint32)
    body = """.shared .align 8 .b64 bar; .shared .align 16 .u32 s[256]; mov.u32 %r1, s;
    setp.ne.u32 %p1, %r0, 0; @%p1 bra READY; mbarrier.init.shared::cta.b64 [bar], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%g0], 1024, [bar];
READY: bar.sync 0;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; @!%p2 bra WAIT;
    mad.lo.u32 %r2, %r0, 32, %r1; ld.shared.u32 %r5, [%r2]; mul.wide.u32 %d1, %r0, 4; add.s64 %d1, %g1, %d1;
    st.global.u32 [%d1], %r5;"""
    simulate(warp_kernel(body, 2), args=[x, y])
    assert y.tolist() == list(range(0, 256, 8))
    short = body.replace("_, [bar], 1024", "_, [bar], 1040")
    with pytest.raises(TransactionMismatch):
        simulate(warp_kernel(short, 2), args=[x, y], max_instructions=20000)


def test_a_product_by_half_a_warp_never_comes_together():
    body = "setp.lt.u32 %p1, %r0, 16; @!%p1 bra OUT; mov.u32 %r1, 0; " \
           "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r4, %r5}, {%r1}, {%r1}, {%r1, %r1};\nOUT: bar.sync 0;"
    with pytest.raises(sim.Deadlock, match="wait for their warp"):
        simulate(warp_kernel(body, 0), args=[])
