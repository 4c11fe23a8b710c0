"""mma beyond the plain shapes: sparse A, block scales against exact fractions, narrow floats, f64 rounding, illegal forms."""
from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.sim.ptxkit import evaluate, rounded
from tests.sim.test_matrix import c_place, fragment, run_mma, words
from tileiras import sim

RNG = np.random.default_rng(21)
NARROW = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e2m3": ml_dtypes.float6_e2m3fn,
          "e3m2": ml_dtypes.float6_e3m2fn, "e2m1": ml_dtypes.float4_e2m1fn}
WIDTH = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "s4": 4, "u4": 4, **dict.fromkeys(NARROW, 8)}


def place(kind: str, width: int, lane: int, i: int, of_b: bool) -> tuple[int, int]:
    """(row, column) of element i of A's 16-row fragment, or of B's, by the rule common to the ISA's figures: registers
    hold the rows group and group + 8 in turn, and go 16 bytes along K after every second (A) or every (B) register."""
    e = 32 // width
    register, inside = divmod(i, e)
    group, t = lane >> 2, lane & 3
    if of_b:
        return t * e + inside + 4 * e * register, group
    return group + 8 * (register & 1), t * e + inside + 4 * e * (register >> 1)


def registers(codes: np.ndarray, width: int, of_b: bool) -> np.ndarray:
    """A matrix of codes as its fragment's registers [32, n]."""
    count = codes.size // 32
    return words(fragment(codes, lambda lane, i: place("", width, lane, i, of_b), count), width)


def draw(kind: str, shape):
    """(values, codes) of an element type; 6- and 4-bit floats in their byte containers."""
    if kind in NARROW:
        codes = RNG.integers(0, 1 << {"e2m1": 4, "e2m3": 6, "e3m2": 6}.get(kind, 8), shape).astype(np.uint8)
        values = codes.view(NARROW[kind]).astype(np.float64) if kind not in ("e2m1", "e2m3", "e3m2") else \
            codes.astype(np.uint8).view(NARROW[kind]).astype(np.float64)
        codes = np.where(np.isfinite(values), codes, 0).astype(np.uint8)
        values = np.where(np.isfinite(values), values, 0.0)
        return values, codes << 2 if kind == "e2m1" else codes
    if kind[0] in "su":
        width = int(kind[1:])
        low = -(1 << width - 1) if kind[0] == "s" else 0
        values = RNG.integers(low, low + (1 << width), shape)
        return values.astype(np.float64), values & ((1 << width) - 1)
    dtype = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32}[kind]
    values = RNG.integers(-6, 7, shape).astype(dtype)
    return values.astype(np.float64), values.view({2: np.uint16, 4: np.uint32}[values.dtype.itemsize])


# ---- sparse A

SPARSE = [("f16", 16), ("f16", 32), ("bf16", 16), ("bf16", 32), ("tf32", 8), ("tf32", 16), ("s8", 32), ("u8", 64), ("s8", 64),
          ("u4", 64), ("s4", 128), ("e4m3", 64), ("e5m2", 64), ("e3m2", 64), ("e2m3", 64), ("e2m1", 64)]


def sparsity(kind: str, k: int, selector: int):
    """(columns [16, k / 2] of the stored elements, metadata registers [32])."""
    chunk = 2 if kind == "tf32" else 8 if kind in ("s4", "u4", "packed") else 4
    chunks, bits = k // chunk, 4 * (k // chunk)
    columns, field = [], np.zeros((16, chunks), np.int64)
    for row in range(16):
        mine = []
        for c in range(chunks):
            if chunk == 2:
                pick = int(RNG.integers(2))
                mine.append(c * 2 + pick)
                field[row, c] = 0b1110 if pick else 0b0100
            else:
                first, second = sorted(RNG.choice(4, 2, replace=False).tolist())
                field[row, c] = first | second << 2
                mine += [c * 4 + first, c * 4 + second] if chunk == 4 else \
                    [c * 8 + 2 * first, c * 8 + 2 * first + 1, c * 8 + 2 * second, c * 8 + 2 * second + 1]
        columns.append(mine)
    meta = np.full(32, 0xFFFFFFFF, np.uint64)
    for row in range(16):
        group, high = row % 8, row // 8
        for c in range(chunks):
            if bits == 16:                                      # one thread has both rows
                thread, at = selector, 16 * high + 4 * c
            elif bits == 32 and kind in ("f16", "bf16", "tf32"):  # a pair: halves of both rows
                thread, at = 2 * selector + c // 4, 16 * high + 4 * (c % 4)
            elif bits == 32:                                    # a pair: a row each
                thread, at = 2 * selector + high, 4 * c
            else:                                               # the quad: rows by halves
                thread, at = 2 * (c // 8) + high, 4 * (c % 8)
            lane = 4 * group + thread
            meta[lane] = int(meta[lane]) & ~(15 << at) | int(field[row, c]) << at
    return np.array(columns), meta.astype(np.uint32)


@pytest.mark.parametrize("kind,k", SPARSE)
@pytest.mark.parametrize("ordered", [True, False])
def test_sparse_products(kind, k, ordered):
    if not ordered and kind in ("e3m2", "e2m3", "e2m1"):
        pytest.skip("only with ordered metadata")
    width = WIDTH[kind]
    fields = k // (2 if kind == "tf32" else 8 if width == 4 else 4)
    for selector in range({4: 4, 8: 2, 16: 1}[fields]):
        columns, meta = sparsity(kind, k, selector)
        a, ca = draw(kind, (16, k // 2))
        b, cb = draw(kind, (k, 8))
        full = np.zeros((16, k))
        np.put_along_axis(full, columns, a, 1)
        integer = kind[0] in "su"
        c = RNG.integers(-50, 50, (16, 8)).astype(np.int32 if integer else np.float32)
        form = "::ordered_metadata" if ordered else ""
        words_a, words_b = registers(ca, width, False), registers(cb, width, True)
        words_c = words(fragment(c.view(np.uint32), lambda lane, i: c_place(None, lane, i), 4), 32)
        d = "s32" if integer else "f32"
        op = f"mma.sp{form}.sync.aligned.m16n8k{k}.row.col{'.kind::f8f6f4' if kind[1:] in ('3m2', '2m3', '2m1') else ''}" \
             f".{d}.{kind}.{kind}.{d}"
        got = multiply(op, words_a, words_b, words_c, f"%x{words_a.shape[1] + words_b.shape[1] + 4}, {selector}", [meta])
        want = (full @ b + c).astype(c.dtype)
        np.testing.assert_array_equal(got.view(c.dtype), fragment(want, lambda lane, i: c_place(None, lane, i), 4))


def multiply(op, a, b, c, tail, more):
    """One mma with operands behind C; registers [32, 4] of D."""
    ins = [a[:, i] for i in range(a.shape[1])] + [b[:, i] for i in range(b.shape[1])] + [c[:, i] for i in range(4)] + more
    na, nb = a.shape[1], b.shape[1]
    names = [f"%x{i}" for i in range(len(ins))]
    body = f"{op} {{%y0, %y1, %y2, %y3}}, {{{', '.join(names[:na])}}}, {{{', '.join(names[na:na + nb])}}}, " \
           f"{{{', '.join(names[na + nb:na + nb + 4])}}}, {tail};"
    return np.stack(evaluate(body, [("b32", np.ascontiguousarray(x)) for x in ins], [("b32", np.uint32)] * 4), axis=1)


def test_unordered_metadata_may_fall():
    meta = np.full(32, 0b0001_0001_0001_0001_0001_0001_0001_0001, np.uint32)      # column 1, then column 0
    a, ca = draw("f16", (16, 8))
    b, cb = draw("f16", (16, 8))
    full = np.zeros((16, 16))
    full[:, 1::4], full[:, 0::4] = a[:, ::2], a[:, 1::2]
    zero = np.zeros((32, 4), np.uint32)
    op = "mma.sp{}.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    args = registers(ca, 16, False), registers(cb, 16, True), zero, "%x8, 0", [meta]
    got = multiply(op.format(""), *args)
    want = fragment((full @ b).astype(np.float32), lambda lane, i: c_place(None, lane, i), 4)
    np.testing.assert_array_equal(got.view(np.float32), want)
    with pytest.raises(sim.InvalidInstruction, match="metadata"):
        multiply(op.format("::ordered_metadata"), *args)


# ---- narrow floats

@pytest.mark.parametrize("ta", list(NARROW))
@pytest.mark.parametrize("tb", ["e4m3", "e2m3", "e2m1"])
def test_mixed_narrow_floats(ta, tb):
    a, ca = draw(ta, (16, 32))
    b, cb = draw(tb, (32, 8))
    got = run_mma(f"m16n8k32.row.col.kind::f8f6f4.f32.{ta}.{tb}.f32", registers(ca, 8, False), registers(cb, 8, True),
                  np.zeros((32, 4), np.uint32), 4)
    want = fragment((a @ b).astype(np.float32), lambda lane, i: c_place(None, lane, i), 4)
    np.testing.assert_array_equal(got.view(np.float32), want)


# ---- block scales, by exact fractions

def scale(code: int, kind: str) -> Fraction:
    """The value of a scale factor."""
    if kind == "ue8m0":
        return Fraction(2) ** (code - 127)
    e, m = code >> 3 & 15, code & 7
    return Fraction(m, 8) * Fraction(2) ** -6 if e == 0 else (1 + Fraction(m, 8)) * Fraction(2) ** (e - 7)


SCALED = [("mxf8f6f4", 1, "ue8m0", "e4m3", "e5m2"), ("mxf8f6f4", 1, "ue8m0", "e2m1", "e3m2"),
          ("mxf8f6f4", 1, "ue8m0", "e2m3", "e4m3"), ("mxf4", 2, "ue8m0", "e2m1", "e2m1"),
          ("mxf4nvf4", 2, "ue8m0", "e2m1", "e2m1"), ("mxf4nvf4", 4, "ue8m0", "e2m1", "e2m1"),
          ("mxf4nvf4", 4, "ue4m3", "e2m1", "e2m1")]


@pytest.mark.parametrize("kind,vectors,stype,ta,tb", SCALED)
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("in_registers", [False, True])
def test_block_scaled_products_are_exact(kind, vectors, stype, ta, tb, is_sparse, in_registers):
    packed = kind != "mxf8f6f4"
    k = (64 if packed else 32) * (1 + is_sparse)
    width = 4 if packed else 8
    stored = k // 2 if is_sparse else k
    a, ca = draw(ta, (16, stored))
    b, cb = draw(tb, (k, 8))
    if packed:
        ca, cb = ca >> 2, cb >> 2
    columns, meta = np.tile(np.arange(k), (16, 1)), np.zeros(32, np.uint32)
    if is_sparse:
        columns, meta = sparsity("packed" if packed else ta, k, 0)
    low, high = (118, 136) if stype == "ue8m0" else (1, 0x7F)
    selectors = {1: [(0, 0, 3, 2), (2, 1, 1, 0)], 2: [(0, 1, 2, 3), (2, 0, 0, 1)], 4: [(0, 0, 0, 2), (0, 1, 0, 0)]}[vectors]
    for byte_a, thread_a, byte_b, thread_b in selectors:
        sa, sb = (RNG.integers(low, high, (32, 4)).astype(np.uint8) for _ in range(2))
        full = [[Fraction(0)] * k for _ in range(16)]
        for row in range(16):
            for i in range(stored):
                full[row][columns[row][i]] = Fraction(float(a[row, i]))
        want = np.empty((16, 8), np.float32)
        for row in range(16):
            lane = 4 * (row % 8) + 2 * thread_a + row // 8
            fa = [scale(int(sa[lane, byte_a + v]), stype) for v in range(vectors)]
            for column in range(8):
                fb = [scale(int(sb[4 * column + thread_b, byte_b + v]), stype) for v in range(vectors)]
                total = sum((full[row][i] * fa[i * vectors // k] * Fraction(float(b[i, column])) * fb[i * vectors // k]
                             for i in range(k)), Fraction(0))
                want[row, column] = rounded(total, "f32", "rn")
        words_a, words_b = registers(ca, width, False), registers(cb, width, True)
        at = words_a.shape[1] + words_b.shape[1] + 4
        form = ".sp::ordered_metadata" if is_sparse else ""
        op = f"mma{form}.sync.aligned.m16n8k{k}.row.col.kind::{kind}.block_scale.scale_vec::{vectors}X.f32.{ta}.{tb}.f32.{stype}"
        tail = f"%x{at + 2}, 0, " if is_sparse else ""
        chosen = [str(n) for n in (byte_a, thread_a, byte_b, thread_b)]
        before = ""
        if in_registers:
            before = "".join(f"mov.u16 %h{i}, {n};" for i, n in enumerate(chosen))
            chosen = [f"%h{i}" for i in range(4)]
        tail += f"%x{at}, {{{chosen[0]}, {chosen[1]}}}, %x{at + 1}, {{{chosen[2]}, {chosen[3]}}}"
        got = multiply(before + op, words_a, words_b, np.zeros((32, 4), np.uint32), tail,
                       [sa.view(np.uint32)[:, 0], sb.view(np.uint32)[:, 0], meta])
        np.testing.assert_array_equal(got.view(np.float32), fragment(want, lambda lane, i: c_place(None, lane, i), 4))


# ---- f64: fused multiply-adds along K

@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_doubles_round_at_every_step(mode):
    from tests.sim.test_matrix import a_place, b_place
    shape = (8, 8, 4)
    a, b, c = RNG.standard_normal((8, 4)), RNG.standard_normal((4, 8)), RNG.standard_normal((8, 8))
    fa = fragment(a, lambda lane, i: a_place(shape, "f64", lane, i), 1).view(np.uint64)
    fb = fragment(b, lambda lane, i: b_place(shape, "f64", lane, i), 1).view(np.uint64)
    fc = fragment(c, lambda lane, i: c_place(shape, lane, i), 2)
    op = f"m8n8k4.row.col{'.' + mode if mode != 'rn' else ''}.f64.f64.f64.f64"
    got = run_mma(op, fa, fb, fc.view(np.uint64), 2, True, np.uint64)
    want = c.copy()
    for i in range(8):
        for j in range(8):
            for step in range(4):
                want[i, j] = rounded(Fraction(a[i, step]) * Fraction(b[step, j]) + Fraction(want[i, j]), "f64", mode)
    np.testing.assert_array_equal(got.view(np.float64), fragment(want, lambda lane, i: c_place(shape, lane, i), 2))


@pytest.mark.parametrize("k", [128, 256])
@pytest.mark.parametrize("logic", ["xor", "and"])
def test_single_bits_of_tall_tiles(k, logic):
    a, b = RNG.integers(0, 2, (16, k)).astype(np.uint8), RNG.integers(0, 2, (8, k)).astype(np.uint8)
    rows = np.packbits(a, axis=1, bitorder="little").view(np.uint32)
    columns = np.packbits(b, axis=1, bitorder="little").view(np.uint32)
    lane = np.arange(32)
    fa = np.stack([rows[lane // 4 + 8 * (r & 1), lane % 4 + 4 * (r >> 1)] for r in range(k // 64)], axis=1)
    fb = np.stack([columns[lane // 4, lane % 4 + 4 * r] for r in range(k // 128)], axis=1)
    got = run_mma(f"m16n8k{k}.row.col.s32.b1.b1.s32.{logic}.popc", fa, fb, np.zeros((32, 4), np.uint32), 4)
    f = np.bitwise_xor if logic == "xor" else np.bitwise_and
    want = f(a[:, None], b[None]).sum(axis=2).astype(np.int32)
    np.testing.assert_array_equal(got.view(np.int32), fragment(want, lambda la, i: c_place(None, la, i), 4))


@pytest.mark.parametrize("op,na,nb", [
    ("m16n8k8.row.col.f32.f16.f16.f16", 2, 1), ("m16n8k32.row.col.f32.f16.f16.f32", 8, 4),
    ("m16n8k16.row.col.f16.bf16.bf16.f16", 4, 2), ("m16n8k16.col.row.f32.f16.f16.f32", 4, 2),
    ("m16n8k32.row.col.f32.e2m1.e2m1.f32", 4, 2), ("m8n8k32.row.col.s32.s8.s8.s32", 2, 2),
    ("m16n8k16.row.col.s32.s8.s4.s32", 2, 1), ("m16n8k128.row.col.s32.b1.b1.s32", 2, 1),
    ("m16n8k16.row.col.f32.f16.bf16.f32", 4, 2)])
def test_forms_the_isa_does_not_have(op, na, nb):
    zero = np.zeros((32, 8), np.uint32)
    with pytest.raises(sim.InvalidInstruction):
        run_mma(op, zero[:, :na], zero[:, :nb], zero[:, :4], 4)
