"""Integer, logic, shift and bit-field instructions against Python's integers."""
from __future__ import annotations

import numpy as np
import pytest

from tests.sim.ptxkit import evaluate

RNG = np.random.default_rng(1)
EDGES32 = np.array([0, 1, 2, 3, 31, 32, 33, 255, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0x80000001,
                    0xFFFFFFFE, 0xFFFFFFFF], np.uint64)


def values(bits: int, n: int = 256) -> np.ndarray:
    edges = EDGES32 & np.uint64((1 << bits) - 1) if bits < 64 else np.concatenate(
        [EDGES32, EDGES32 << np.uint64(32), ~EDGES32])
    wild = RNG.integers(0, 1 << 64, n - len(edges), np.uint64, endpoint=False)
    pool = np.concatenate([edges, wild])
    return RNG.permutation(pool).astype(np.dtype(f"u{bits // 8}"))


def signed(x: int, bits: int) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def as_type(x: int, t: str) -> int:
    bits = int(t[1:])
    return signed(x, bits) if t[0] == "s" else x & ((1 << bits) - 1)


def quotient(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


BINARY = {"add": lambda a, b, w: a + b, "sub": lambda a, b, w: a - b, "mul.lo": lambda a, b, w: a * b,
          "mul.hi": lambda a, b, w: (a * b) >> w, "div": lambda a, b, w: quotient(a, b),
          "rem": lambda a, b, w: a - quotient(a, b) * b, "min": lambda a, b, w: min(a, b),
          "max": lambda a, b, w: max(a, b)}


@pytest.mark.parametrize("t", ["s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("op", BINARY)
def test_two_operand_arithmetic(op, t):
    bits = int(t[1:])
    a, b = values(bits), values(bits)
    if op in ("div", "rem"):
        b[b == 0] = 7
    got = evaluate(f"{op}.{t} %y0, %x0, %x1;", [(t, a), (t, b)], [(t, a.dtype)])
    want = [BINARY[op](as_type(int(x), t), as_type(int(y), t), bits) & ((1 << bits) - 1) for x, y in zip(a, b)]
    assert got.tolist() == want


@pytest.mark.parametrize("t", ["s16", "u16", "s32", "u32"])
def test_wide_products(t):
    bits = int(t[1:])
    a, b = values(bits), values(bits)
    wide = f"{t[0]}{2 * bits}"
    got = evaluate(f"mul.wide.{t} %y0, %x0, %x1;", [(t, a), (t, b)], [(wide, np.dtype(f"u{bits // 4}"))])
    assert got.tolist() == [as_type(int(x), t) * as_type(int(y), t) % (1 << 2 * bits) for x, y in zip(a, b)]


@pytest.mark.parametrize("op,f", [("mad.lo", lambda a, b, c: a * b + c), ("mad.hi", lambda a, b, c: (a * b >> 32) + c),
                                  ("sad", lambda a, b, c: abs(a - b) + c)])
@pytest.mark.parametrize("t", ["s32", "u32"])
def test_three_operand_arithmetic(op, f, t):
    a, b, c = values(32), values(32), values(32)
    got = evaluate(f"{op}.{t} %y0, %x0, %x1, %x2;", [(t, a), (t, b), (t, c)], [(t, np.uint32)])
    assert got.tolist() == [f(as_type(int(x), t), as_type(int(y), t), as_type(int(z), t)) % (1 << 32)
                            for x, y, z in zip(a, b, c)]


def test_saturating_add_and_sub():
    a, b = values(32), values(32)
    for op, f in (("add", lambda x, y: x + y), ("sub", lambda x, y: x - y)):
        got = evaluate(f"{op}.sat.s32 %y0, %x0, %x1;", [("s32", a), ("s32", b)], [("s32", np.int32)])
        assert got.tolist() == [max(-2**31, min(2**31 - 1, f(signed(int(x), 32), signed(int(y), 32))))
                                for x, y in zip(a, b)]


def test_carry_chain_adds_and_subtracts_128_bits():
    a, b, c, d = values(64), values(64), values(64), values(64)
    low, high = evaluate("add.cc.u64 %y0, %x0, %x2;\naddc.u64 %y1, %x1, %x3;",
                         [("u64", a), ("u64", b), ("u64", c), ("u64", d)], [("u64", np.uint64), ("u64", np.uint64)])
    for i in range(len(a)):
        total = (int(a[i]) + (int(b[i]) << 64) + int(c[i]) + (int(d[i]) << 64)) % (1 << 128)
        assert int(low[i]) | int(high[i]) << 64 == total
    low, high = evaluate("sub.cc.u64 %y0, %x0, %x2;\nsubc.u64 %y1, %x1, %x3;",
                         [("u64", a), ("u64", b), ("u64", c), ("u64", d)], [("u64", np.uint64), ("u64", np.uint64)])
    for i in range(len(a)):
        total = (int(a[i]) + (int(b[i]) << 64) - int(c[i]) - (int(d[i]) << 64)) % (1 << 128)
        assert int(low[i]) | int(high[i]) << 64 == total


def test_multiply_add_with_carry_makes_a_64_bit_product():
    a, b = values(32), values(32)
    low, high = evaluate("mov.u32 %r1, 5;\nmad.lo.cc.u32 %y0, %x0, %x1, %r1;\nmadc.hi.u32 %y1, %x0, %x1, 0;",
                         [("u32", a), ("u32", b)], [("u32", np.uint32), ("u32", np.uint32)])
    for i in range(len(a)):
        assert int(low[i]) | int(high[i]) << 32 == int(a[i]) * int(b[i]) + 5


@pytest.mark.parametrize("t", ["s32", "u32"])
def test_24_bit_products(t):
    def low(x):
        x &= 0xFFFFFF
        return x - (1 << 24) if t == "s32" and x >> 23 else x
    a, b = values(32), values(32)
    for form, shift in (("lo", 0), ("hi", 16)):
        got = evaluate(f"mul24.{form}.{t} %y0, %x0, %x1;", [(t, a), (t, b)], [(t, np.uint32)])
        assert got.tolist() == [(low(int(x)) * low(int(y)) >> shift) % (1 << 32) for x, y in zip(a, b)]


UNARY = {"popc.b32": (lambda x: bin(x).count("1"), 32), "popc.b64": (lambda x: bin(x).count("1"), 64),
         "clz.b32": (lambda x: 32 - x.bit_length(), 32), "clz.b64": (lambda x: 64 - x.bit_length(), 64),
         "bfind.u32": (lambda x: x.bit_length() - 1, 32), "bfind.u64": (lambda x: x.bit_length() - 1, 64),
         "bfind.s32": (lambda x: (x if x < 1 << 31 else ~x % (1 << 32)).bit_length() - 1, 32),
         "bfind.shiftamt.u32": (lambda x: 32 - x.bit_length() if x else -1, 32)}


@pytest.mark.parametrize("op", UNARY)
def test_bit_counts(op):
    f, bits = UNARY[op]
    a = values(bits)
    got = evaluate(f"{op} %y0, %x0;", [(f"u{bits}", a)], [("u32", np.uint32)])
    assert got.tolist() == [f(int(x)) % (1 << 32) for x in a]


@pytest.mark.parametrize("bits", [32, 64])
def test_reversal_and_negation_and_complement(bits):
    a = values(bits)
    t = f"b{bits}"
    mask = (1 << bits) - 1
    for op, f in ((f"brev.b{bits}", lambda x: int(f"{x:0{bits}b}"[::-1], 2)), (f"not.b{bits}", lambda x: ~x & mask),
                  (f"cnot.b{bits}", lambda x: int(x == 0)), (f"neg.s{bits}", lambda x: -x & mask),
                  (f"abs.s{bits}", lambda x: abs(signed(x, bits)) & mask)):
        got = evaluate(f"{op} %y0, %x0;", [(t, a)], [(t, a.dtype)])
        assert got.tolist() == [f(int(x)) for x in a], op


@pytest.mark.parametrize("t", ["u32", "s32", "u64", "s64"])
def test_shifts_clamp_their_count(t):
    bits = int(t[1:])
    a = values(bits)
    n = RNG.integers(0, 2 * bits, len(a)).astype(np.uint32)
    n[:4] = 0xFFFFFFFF, bits, bits - 1, 0
    got = evaluate(f"shr.{t} %y0, %x0, %x1;", [(t, a), ("u32", n)], [(t, a.dtype)])
    assert got.tolist() == [(as_type(int(x), t) >> min(int(k), bits)) % (1 << bits) for x, k in zip(a, n)]
    got = evaluate(f"shl.b{bits} %y0, %x0, %x1;", [(t, a), ("u32", n)], [(t, a.dtype)])
    assert got.tolist() == [(int(x) << min(int(k), bits)) % (1 << bits) for x, k in zip(a, n)]
    got = evaluate(f"shr.{t} %y0, %x0, 5;", [(t, a)], [(t, a.dtype)])
    assert got.tolist() == [(as_type(int(x), t) >> 5) % (1 << bits) for x in a]


def test_funnel_shifts():
    a, b = values(32), values(32)
    n = RNG.integers(0, 70, len(a)).astype(np.uint32)
    for mode in ("wrap", "clamp"):
        k = [int(x) & 31 if mode == "wrap" else min(int(x), 32) for x in n]
        both = [int(x) | int(y) << 32 for x, y in zip(a, b)]
        left = evaluate(f"shf.l.{mode}.b32 %y0, %x0, %x1, %x2;", [("u32", a), ("u32", b), ("u32", n)],
                        [("u32", np.uint32)])
        assert left.tolist() == [(w << s) >> 32 & 0xFFFFFFFF for w, s in zip(both, k)]
        right = evaluate(f"shf.r.{mode}.b32 %y0, %x0, %x1, %x2;", [("u32", a), ("u32", b), ("u32", n)],
                         [("u32", np.uint32)])
        assert right.tolist() == [w >> s & 0xFFFFFFFF for w, s in zip(both, k)]


@pytest.mark.parametrize("t", ["u32", "s32", "u64", "s64"])
def test_bit_field_extract_follows_the_isa_loop(t):
    bits = int(t[1:])
    a = values(bits)
    pos = RNG.integers(0, 80, len(a)).astype(np.uint32)
    length = RNG.integers(0, 80, len(a)).astype(np.uint32)

    def extract(x, p, n):
        p, n = p & 255, n & 255
        if t[0] == "u" or n == 0:
            sign = 0
        else:
            sign = x >> min(p + n - 1, bits - 1) & 1
        d = 0
        for i in range(bits):
            d |= (x >> (p + i) & 1 if i < n and p + i < bits else sign) << i
        return d
    got = evaluate(f"bfe.{t} %y0, %x0, %x1, %x2;", [(t, a), ("u32", pos), ("u32", length)], [(t, a.dtype)])
    assert got.tolist() == [extract(int(x), int(p), int(n)) for x, p, n in zip(a, pos, length)]


@pytest.mark.parametrize("bits", [32, 64])
def test_bit_field_insert_follows_the_isa_loop(bits):
    a, b = values(bits), values(bits)
    pos = RNG.integers(0, 80, len(a)).astype(np.uint32)
    length = RNG.integers(0, 80, len(a)).astype(np.uint32)

    def insert(x, y, p, n):
        for i in range(n):
            if p + i < bits:
                y = y & ~(1 << (p + i)) | (x >> i & 1) << (p + i)
        return y
    t = f"b{bits}"
    got = evaluate(f"bfi.{t} %y0, %x0, %x1, %x2, %x3;", [(t, a), (t, b), ("u32", pos), ("u32", length)], [(t, a.dtype)])
    assert got.tolist() == [insert(int(x), int(y), int(p), int(n)) for x, y, p, n in zip(a, b, pos, length)]


def test_masks_and_extensions():
    a = RNG.integers(0, 40, 64).astype(np.uint32)
    b = RNG.integers(0, 40, 64).astype(np.uint32)
    got = evaluate("bmsk.clamp.b32 %y0, %x0, %x1;", [("u32", a), ("u32", b)], [("u32", np.uint32)])
    assert got.tolist() == [(((1 << min(int(n), 32)) - 1) << min(int(p), 32)) & 0xFFFFFFFF for p, n in zip(a, b)]
    x = values(32, 64)
    got = evaluate("szext.wrap.s32 %y0, %x0, %x1;", [("u32", x), ("u32", b)], [("u32", np.uint32)])
    want = []
    for v, n in zip(x.tolist(), b.tolist()):
        n &= 31
        low = v & ((1 << n) - 1)
        want.append((low - (1 << n) if n and low >> (n - 1) else low) & 0xFFFFFFFF)
    assert got.tolist() == want


def test_byte_permute_modes():
    a, b, c = values(32), values(32), values(32)

    def bytes_of(x, y):
        return [(x | y << 32) >> 8 * i & 255 for i in range(8)]

    def general(x, y, s):
        out = 0
        for i in range(4):
            n = s >> 4 * i & 15
            v = bytes_of(x, y)[n & 7]
            out |= (255 * (v >> 7) if n & 8 else v) << 8 * i
        return out
    got = evaluate("prmt.b32 %y0, %x0, %x1, %x2;", [("b32", a), ("b32", b), ("b32", c)], [("b32", np.uint32)])
    assert got.tolist() == [general(int(x), int(y), int(s)) for x, y, s in zip(a, b, c)]
    got = evaluate("prmt.b32 %y0, %x0, %x1, 0x9ac3;", [("b32", a), ("b32", b)], [("b32", np.uint32)])
    assert got.tolist() == [general(int(x), int(y), 0x9AC3) for x, y in zip(a, b)]
    tables = {"f4e": ["3210", "4321", "5432", "6543"], "b4e": ["5670", "6701", "7012", "0123"],
              "rc8": ["0000", "1111", "2222", "3333"], "ecl": ["3210", "3211", "3222", "3333"],
              "ecr": ["0000", "1110", "2210", "3210"], "rc16": ["1010", "3232", "1010", "3232"]}
    for mode, table in tables.items():
        got = evaluate(f"prmt.b32.{mode} %y0, %x0, %x1, %x2;", [("b32", a), ("b32", b), ("b32", c)],
                       [("b32", np.uint32)])
        assert got.tolist() == [general(int(x), int(y), int(table[int(s) & 3], 16)) for x, y, s in zip(a, b, c)], mode


@pytest.mark.parametrize("table", [0x80, 0xFE, 0x96, 0xE8, 0x1A, 0xF0, 0x00, 0xFF])
def test_lop3_is_its_truth_table(table):
    a, b, c = values(32), values(32), values(32)
    got = evaluate(f"lop3.b32 %y0, %x0, %x1, %x2, {table};", [("b32", a), ("b32", b), ("b32", c)], [("b32", np.uint32)])
    want = []
    for x, y, z in zip(a.tolist(), b.tolist(), c.tolist()):
        want.append(sum((table >> ((x >> i & 1) << 2 | (y >> i & 1) << 1 | z >> i & 1) & 1) << i for i in range(32)))
    assert got.tolist() == want


@pytest.mark.parametrize("ta,tb", [("s32", "s32"), ("u32", "u32"), ("s32", "u32")])
def test_dot_products_of_bytes(ta, tb):
    a, b, c = values(32), values(32), values(32)

    def byte(x, i, t):
        return as_type(x >> 8 * i, t[0] + "8")

    def half(x, i, t):
        return as_type(x >> 16 * i, t[0] + "16")
    got = evaluate(f"dp4a.{ta}.{tb} %y0, %x0, %x1, %x2;", [("b32", a), ("b32", b), ("b32", c)], [("b32", np.uint32)])
    assert got.tolist() == [(sum(byte(int(x), i, ta) * byte(int(y), i, tb) for i in range(4)) + int(z)) % (1 << 32)
                            for x, y, z in zip(a, b, c)]
    for part, start in (("lo", 0), ("hi", 2)):
        got = evaluate(f"dp2a.{part}.{ta}.{tb} %y0, %x0, %x1, %x2;", [("b32", a), ("b32", b), ("b32", c)],
                       [("b32", np.uint32)])
        assert got.tolist() == [(sum(half(int(x), i, ta) * byte(int(y), start + i, tb) for i in range(2)) + int(z))
                                % (1 << 32) for x, y, z in zip(a, b, c)]


def test_find_nth_set():
    mask = values(32, 96)
    base = RNG.integers(0, 32, 96).astype(np.uint32)
    offset = RNG.integers(-5, 6, 96).astype(np.int32)

    def find(m, at, n):
        order = [at] if n == 0 else (range(at, 32) if n > 0 else range(at, -1, -1))
        hits = [i for i in order if m >> i & 1]
        k = abs(n) - 1 if n else 0
        return hits[k] if k < len(hits) else 0xFFFFFFFF
    got = evaluate("fns.b32 %y0, %x0, %x1, %x2;", [("b32", mask), ("b32", base), ("b32", offset)], [("b32", np.uint32)])
    assert got.tolist() == [find(int(m), int(b), int(n)) for m, b, n in zip(mask, base, offset)]


def test_packed_16_bit_integers():
    a, b = values(32), values(32)
    for op, f in (("add.u16x2", lambda x, y: x + y), ("min.s16x2", lambda x, y: min(signed(x, 16), signed(y, 16))),
                  ("max.u16x2", max)):
        got = evaluate(f"{op} %y0, %x0, %x1;", [("b32", a), ("b32", b)], [("b32", np.uint32)])
        assert got.tolist() == [sum((f(int(x) >> s & 0xFFFF, int(y) >> s & 0xFFFF) & 0xFFFF) << s for s in (0, 16))
                                for x, y in zip(a, b)], op


def test_selection_and_comparison_of_integers():
    a, b = values(32), values(32)
    for op, t, f in (("lt", "s32", lambda x, y: x < y), ("lo", "u32", lambda x, y: x < y),
                     ("hs", "u32", lambda x, y: x >= y), ("ge", "s32", lambda x, y: x >= y),
                     ("ne", "b32", lambda x, y: x != y)):
        got = evaluate(f"setp.{op}.{t} %p1, %x0, %x1;\nselp.b32 %y0, 17, 4, %p1;", [("b32", a), ("b32", b)],
                       [("u32", np.uint32)])
        kind = t if t[0] == "s" else "u32"
        assert got.tolist() == [17 if f(as_type(int(x), kind), as_type(int(y), kind)) else 4 for x, y in zip(a, b)]
    got = evaluate("setp.lt.s32 %p2, %x1, 0;\nsetp.gt.and.u32 %p0|%p1, %x0, %x1, %p2;\nselp.u32 %y0, 1, 0, %p0;\n"
                   "selp.u32 %y1, 1, 0, %p1;", [("b32", a), ("b32", b)], [("u32", np.uint32), ("u32", np.uint32)])
    assert got[0].tolist() == [int(int(x) > int(y) and int(y) >> 31 == 1) for x, y in zip(a, b)]
    assert got[1].tolist() == [int(int(x) <= int(y) and int(y) >> 31 == 1) for x, y in zip(a, b)]
    got = evaluate("set.gt.u32.s32 %y0, %x0, %x1;", [("b32", a), ("b32", b)], [("u32", np.uint32)])
    assert got.tolist() == [0xFFFFFFFF if signed(int(x), 32) > signed(int(y), 32) else 0 for x, y in zip(a, b)]
