"""tcgen05.mma with block scaling against exact rational arithmetic; scale factors brought by tcgen05.cp."""
from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.sim import tcgen05kit as kit
from tests.sim.test_tcgen05_mma import CODES, FORMATS, k_major, narrow_bytes
from tileiras.sim.errors import DescriptorError


def operand(rows: int, k: int, type_: str, packed: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(bytes of K-major rows, values [rows, k])."""
    rng = np.random.default_rng(seed)
    width = {"e2m1": 4, "e2m3": 6, "e3m2": 6}.get(type_, 8)
    codes = rng.integers(0, 1 << width, (rows, k)).astype(np.uint8)
    values = codes.view(FORMATS[type_][0]).astype(np.float64)
    codes[~np.isfinite(values)] = 0
    values = codes.view(FORMATS[type_][0]).astype(np.float64)
    if packed:
        return codes[:, 0::2] | codes[:, 1::2] << 4, values
    return (codes if width == 8 else narrow_bytes(codes, width)), values


def factors(rows: int, count: int, scale: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(codes [rows, 4], values [rows, count] of the first `count`)."""
    rng = np.random.default_rng(seed)
    if scale == "ue8m0":
        codes = rng.integers(120, 134, (rows, 4)).astype(np.uint8)
        return codes, np.ldexp(1.0, codes.astype(int) - 127)
    if scale == "ue5m3":
        exponent, mantissa = rng.integers(10, 24, (rows, 4)), rng.integers(0, 8, (rows, 4))
        return (exponent << 3 | mantissa).astype(np.uint8), np.ldexp(8.0 + mantissa, exponent - 18)
    codes = rng.integers(0, 0x7F, (rows, 4)).astype(np.uint8)
    return codes, codes.view(ml_dtypes.float8_e4m3fn).astype(np.float64)


def exact_product(a: np.ndarray, sa: np.ndarray, b: np.ndarray, sb: np.ndarray, c: np.ndarray) -> np.ndarray:
    """(A * scale_A) (B * scale_B) + C summed as rationals and rounded once to f32 (some rows and columns only: NaN
    elsewhere)."""
    m, k = a.shape
    n, block = len(b), k // sa.shape[1]
    out = np.full((m, n), np.nan, np.float32)
    for i in range(0, m, 13):
        for j in range(0, n, 7):
            total = Fraction(float(c[i, j]))
            for g in range(sa.shape[1]):
                part = sum(Fraction(float(x)) * Fraction(float(y)) for x, y in
                           zip(a[i, g * block:(g + 1) * block], b[j, g * block:(g + 1) * block]))
                total += part * Fraction(float(sa[i, g])) * Fraction(float(sb[j, g]))
            out[i, j] = np.float32(nearest(total))
    return out


def nearest(x: Fraction) -> float:
    """A rational rounded to f32, to the nearest even."""
    if x == 0:
        return 0.0
    e = 0
    while abs(x) >= Fraction(2) ** (e + 1):
        e += 1
    while abs(x) < Fraction(2) ** e:
        e -= 1
    quantum = Fraction(2) ** (max(e, -126) - 23)
    q = x / quantum
    low = q.numerator // q.denominator
    rest = q - low
    low += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low & 1)
    return float(low * quantum)


def cells_of(codes: np.ndarray, first: int) -> np.ndarray:
    """Scale codes [rows, 4] as 32-bit words in lanes and columns: row r in lane r % 32 of all quarters, column r // 32;
    the first of a row's factors in byte `first`."""
    rows = len(codes)
    turned = np.roll(codes, first, axis=1)
    out = np.zeros((128, -(-rows // 32)), np.uint32)
    for r in range(rows):
        for quarter in range(4):
            out[32 * quarter + r % 32, r // 32] = turned[r].copy().view(np.uint32)[0]
    return out


CASES = [("mxf8f6f4", "e4m3", "e4m3", "ue8m0", 1, "", 32), ("mxf8f6f4", "e5m2", "e2m1", "ue8m0", 1, ".scale_vec::1X", 32),
         ("mxf8f6f4", "e3m2", "e2m3", "ue8m0", 1, ".block32", 32), ("mxf4", "e2m1", "e2m1", "ue8m0", 2, "", 64),
         ("mxf4", "e2m1", "e2m1", "ue8m0", 2, ".block32", 64), ("mxf4nvf4", "e2m1", "e2m1", "ue8m0", 2, ".scale_vec::2X", 64),
         ("mxf4nvf4", "e2m1", "e2m1", "ue4m3", 4, ".block16", 64),
         ("mxf4nvf4", "e2m1", "e2m1", "ue8m0", 4, ".scale_vec::4X", 64),
         ("mxf4nvf4", "e2m1", "e2m1", "ue5m3", 4, ".block16", 64)]
SCALE_NUMBERS = {"ue4m3": 0, "ue8m0": 1, "ue5m3": 2}


IDS = {1: ((0, 0), (2, 0), (1, 3)), 2: ((0, 0), (2, 0), (0, 2)), 4: ((0, 0),)}       # of A and B, by factors a row


@pytest.mark.parametrize("kind,a_type,b_type,scale,count,option,k,a_id,b_id", [(*c, *ids) for c in CASES for ids in IDS[c[4]]])
def test_scaled_products(kind, a_type, b_type, scale, count, option, k, a_id, b_id):
    m, n = 128, 40
    a_bytes, av = operand(m, k, a_type, k == 64, 1)
    b_bytes, bv = operand(n, k, b_type, k == 64, 2)
    sa_codes, sa = factors(m, count, scale, 3)
    sb_codes, sb = factors(n, count, scale, 4)
    a_image, a_bits = k_major(a_bytes, 6)
    b_image, b_bits = k_major(b_bytes, 6)
    image = np.concatenate([a_image, b_image])
    c = np.random.default_rng(5).integers(-99, 99, (128, n)).astype(np.float32)
    cells = np.concatenate([c.view(np.uint32), cells_of(sa_codes, a_id), cells_of(sb_codes, b_id),
                            np.zeros((128, 2), np.uint32)], axis=1)
    codes = (1, 1) if k == 64 else (CODES[a_type], CODES[b_type])
    idesc = kit.scaled_instruction(m, n, a=codes[0], b=codes[1], scale=SCALE_NUMBERS[scale], a_id=a_id, b_id=b_id)
    body = f"""{kit.matrix_at("%d0", 0, a_bits)}
{kit.matrix_at("%d1", len(a_image), b_bits)}
mov.b32 %t5, {idesc};
tcgen05.mma.cta_group::1.kind::{kind}.block_scale{option} [%tm], %d0, %d1, %t5, [%tm+{n}], [%tm+{n + 4}], %go;"""
    out, report = kit.run(body, cells, image)
    want = exact_product(av, sa[:, :count], bv, sb[:, :count], c)
    seen = ~np.isnan(want)
    assert seen.sum() > 50
    assert (out[:, :n].copy().view(np.float32)[seen] == want[seen]).all()
    assert not report.findings


@pytest.mark.parametrize("kind,vectors,k,ids,scale", [
    ("mxf4", ".block32", 64, (1, 0), 1), ("mxf4nvf4", ".block16", 64, (2, 0), 0), ("mxf4", ".block32", 64, (0, 0), 0),
    ("mxf8f6f4", "", 32, (0, 0), 0), ("mxf4nvf4", ".block32", 64, (0, 0), 0), ("mxf4nvf4", ".block16", 64, (0, 0), 3),
    ("mxf4", ".block32", 64, (0, 0), 2)])
def test_scale_selectors_and_types_that_do_not_exist(kind, vectors, k, ids, scale):
    idesc = kit.scaled_instruction(128, 16, a=1, b=1, scale=scale, a_id=ids[0], b_id=ids[1])
    body = f"""{kit.matrix_at("%d0", 0, kit.descriptor(16, 256, 6))}
mov.b32 %t5, {idesc};
tcgen05.mma.cta_group::1.kind::{kind}.block_scale{vectors} [%tm], %d0, %d0, %t5, [%tm+16], [%tm+20], %no;"""
    with pytest.raises(DescriptorError, match="scale"):
        kit.run(body, np.zeros((128, 32), np.uint32), np.zeros(8192, np.uint8))


@pytest.mark.parametrize("count,option", [(6, ".block16"), (3, ".block32")])
@pytest.mark.parametrize("a_id", [0, 2])
def test_products_of_depth_96(count, option, a_id):
    m, n, k = 128, 40, 96
    scale = "ue4m3" if count == 6 else "ue8m0"
    a_bytes, av = operand(m, k, "e2m1", True, 1)
    b_bytes, bv = operand(n, k, "e2m1", True, 2)
    a_image, a_bits = k_major(a_bytes, 0)
    b_image, b_bits = k_major(b_bytes, 0)
    rng = np.random.default_rng(6)
    cells = np.zeros((128, n + 24), np.uint32)
    scales = []
    for rows, base, first in ((m, n, a_id), (n, n + 8, 0)):
        codes = rng.integers(0, 0x7F, (rows, 8)).astype(np.uint8) if scale == "ue4m3" else \
            rng.integers(120, 134, (rows, 8)).astype(np.uint8)
        used = codes[:, first:first + count]
        scales.append(used.copy().view(ml_dtypes.float8_e4m3fn).astype(np.float64) if scale == "ue4m3" else
                      np.ldexp(1.0, used.astype(int) - 127))
        for r in range(rows):
            for quarter in range(4):
                cells[32 * quarter + r % 32, [base + r // 32, base + 4 + r // 32]] = codes[r].view(np.uint32)
    idesc = kit.scaled_instruction(m, n, a=1, b=1, scale=int(scale == "ue8m0"), a_id=a_id, k96=1)
    body = f"""{kit.matrix_at("%d0", 0, a_bits)}
{kit.matrix_at("%d1", len(a_image), b_bits)}
mov.b32 %t5, {idesc};
tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale{option} [%tm], %d0, %d1, %t5, [%tm+{n}], [%tm+{n + 8}], %no;"""
    out, report = kit.run(body, cells, np.concatenate([a_image, b_image]), target="sm_103a")
    want = exact_product(av, scales[0], bv, scales[1], np.zeros((m, n), np.float32))
    seen = ~np.isnan(want)
    assert (out[:, :n].copy().view(np.float32)[seen] == want[seen]).all()
    assert not report.findings


def test_scale_factors_come_by_copies_issued_just_before_the_product():
    m, n, k = 128, 128, 64
    a_bytes, av = operand(m, k, "e2m1", True, 1)
    b_bytes, bv = operand(n, k, "e2m1", True, 2)
    sa_codes, sa = factors(m, 4, "ue4m3", 3)
    sb_codes, sb = factors(n, 4, "ue4m3", 4)
    a_image, a_bits = k_major(a_bytes, 6)
    b_image, b_bits = k_major(b_bytes, 6)
    tiles = [codes.reshape(4, 32, 4).transpose(1, 0, 2).reshape(-1) for codes in (sa_codes, sb_codes)]    # rows of 16 bytes
    image = np.concatenate([a_image, b_image, *tiles])
    at = len(a_image) + len(b_image)
    bits = kit.descriptor(16, 128, 0)
    idesc = kit.scaled_instruction(m, n, a=1, b=1, scale=0)
    body = f"""{kit.matrix_at("%d0", 0, a_bits)}
{kit.matrix_at("%d1", len(a_image), b_bits)}
{kit.matrix_at("%d2", at, bits)}
{kit.matrix_at("%d3", at + 512, bits)}
mov.b32 %t5, {idesc};
tcgen05.cp.cta_group::1.32x128b.warpx4 [%tm+{n}], %d2;
tcgen05.cp.cta_group::1.32x128b.warpx4 [%tm+{n + 4}], %d3;
tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [%tm], %d0, %d1, %t5, [%tm+{n}], [%tm+{n + 4}], %no;"""
    for seed in (0, 1, 2):
        out, report = kit.run(body, np.zeros((128, n + 8), np.uint32), image, seed=seed)
        want = exact_product(av, sa, bv, sb, np.zeros((m, n), np.float32))
        seen = ~np.isnan(want)
        assert (out[:, :n].copy().view(np.float32)[seen] == want[seen]).all()
        assert not report.findings


def test_a_sparse_scaled_product():
    m, n, k = 128, 16, 128
    rng = np.random.default_rng(8)
    a_bytes, av = operand(m, k // 2, "e2m1", True, 1)
    b_bytes, bv = operand(n, k, "e2m1", True, 2)
    sa_codes, sa = factors(m, 2, "ue8m0", 3)
    sb_codes, sb = factors(n, 2, "ue8m0", 4)
    pairs = {4: (0, 1), 8: (0, 2), 12: (0, 3), 9: (1, 2), 13: (1, 3), 14: (2, 3)}
    codes = rng.choice(list(pairs), (m, k // 8))
    full = np.zeros((m, k))
    cells = np.zeros((128, n + 16), np.uint32)
    for r in range(m):
        for c in range(k // 8):
            for i, where in enumerate(pairs[int(codes[r, c])]):
                full[r, 8 * c + 2 * where:8 * c + 2 * where + 2] = av[r, 4 * c + 2 * i:4 * c + 2 * i + 2]
            cells[r, n + 8 + c // 8] |= np.uint32(int(codes[r, c]) << 4 * (c % 8))
    cells[:, n:n + 4] = cells_of(sa_codes, 0)
    cells[:, n + 4:n + 5] = cells_of(sb_codes, 0)
    a_image, a_bits = k_major(a_bytes, 6)
    b_image, b_bits = k_major(b_bytes, 4)
    room = -(-len(a_image) // 1024) * 1024
    image = np.concatenate([a_image, np.zeros(room - len(a_image), np.uint8), b_image])
    idesc = kit.scaled_instruction(m, n, a=1, b=1, sparse=1)
    body = f"""{kit.matrix_at("%d0", 0, a_bits)}
{kit.matrix_at("%d1", room, b_bits)}
mov.b32 %t5, {idesc};
tcgen05.mma.sp.cta_group::1.kind::mxf4.block_scale.block32 [%tm], %d0, %d1, [%tm+{n + 8}], %t5, [%tm+{n}], [%tm+{n + 4}], %no;"""
    out, report = kit.run(body, cells, image)
    want = exact_product(full, sa[:, :2], bv, sb[:, :2], np.zeros((m, n), np.float32))
    seen = ~np.isnan(want)
    assert (out[:, :n].copy().view(np.float32)[seen] == want[seen]).all()
    assert not report.findings


def test_rows_that_nobody_wrote_give_rows_that_nobody_may_read():
    """A tile of 64 rows, with room for 128."""
    m, n = 128, 40
    a_bytes, av = operand(m, 64, "e2m1", True, 1)
    b_bytes, bv = operand(n, 64, "e2m1", True, 2)
    a_image, a_bits = k_major(a_bytes, 6)
    b_image, b_bits = k_major(b_bytes, 6)
    sa_codes, sa = factors(m, 2, "ue8m0", 3)
    sb_codes, sb = factors(n, 2, "ue8m0", 4)
    cells = np.concatenate([cells_of(sa_codes, 0), cells_of(sb_codes, 0), np.zeros((128, n + 2), np.uint32)], axis=1)
    idesc = kit.scaled_instruction(m, n, a=1, b=1)
    image = np.concatenate([a_image, b_image])
    body = f"""{kit.matrix_at("%d0", 0, a_bits)}
{kit.matrix_at("%d1", len(a_image), b_bits)}
mov.b32 %t5, {idesc};
tcgen05.mma.cta_group::1.kind::mxf4.block_scale.block32 [%tm+8], %d0, %d1, %t5, [%tm], [%tm+4], %no;
tcgen05.mma.cta_group::1.kind::mxf4.block_scale.block32 [%tm+8], %d0, %d1, %t5, [%tm], [%tm+4], %go;"""
    skip = """shr.u32 %t9, %t2, 11;
setp.ne.u32 %p3, %t9, 1;
@%p3 st.shared.v4.u32 [%t3], {%v0, %v1, %v2, %v3};"""      # bytes 2048 to 4095 are rows 64 and up
    out, report = kit.run(body, cells, image, store=skip)
    want = exact_product(av, sa[:, :2], bv, sb[:, :2], np.zeros((m, n), np.float32)).astype(np.float64)
    seen = ~np.isnan(want) & (np.arange(m) < 64)[:, None]
    got = out[:, 8:8 + n].copy().view(np.float32)
    assert seen.sum() > 20 and (got[seen] == (2 * want)[seen].astype(np.float32)).all()
    read = [str(f) for f in report.findings]
    assert read and all("of tensor memory is read before it is written" in text for text in read)
    assert all("lane 64, " in text or "lane 96, " in text for text in read)
