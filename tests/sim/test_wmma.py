"""wmma: whole products through load, mma and store, in every shape, type and layout."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tileiras import sim
from tileiras.sim import simulate

RNG = np.random.default_rng(11)
TALL = [(16, 16, 16), (8, 32, 16), (32, 8, 16)]
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f64": np.float64, "s8": np.int8, "u8": np.uint8,
          "f32": np.float32, "s32": np.int32}
REGISTERS = {"f16": (8, 8)}


def counts(kind: str, shape, result: str) -> tuple[int, int, int]:
    """Registers of A, B and the accumulator, by the tables of the ISA."""
    m, n, k = shape
    size = {"f16": 2, "bf16": 2, "tf32": 4, "s8": 1, "u8": 1, "f64": 8, "s4": 0.5, "u4": 0.5, "b1": 0.125}[kind]
    per = 8 if kind == "f64" else 4
    a, b = (8, 8) if kind == "f16" else (int(m * k * size) // per // 32, int(k * n * size) // per // 32)
    c = m * n // 32 // (2 if result == "f16" else 1)
    return a, b, c


def program(shape, ta, tb, td, layouts=("row", "col", "row"), space="global", extra="", logic="", strides=("", "", "")):
    m, n, k = shape
    a, b, c = counts(ta, shape, td)
    wide = ta == "f64"
    reg = "b64" if wide else "b32"
    form = f"m{m}n{n}k{k}"
    types = f"{td}.{td}" if ta == "f16" else f"{td}.{ta}.{tb}.{td}"
    names = {x: "{" + ", ".join(f"%{x}{i}" for i in range(count)) + "}" for x, count in (("a", a), ("b", b), ("c", c))}
    return f""".version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2)
.reqntid 32
{{ .reg .{reg} %a<{a}>; .reg .{reg} %b<{b}>; .reg .{reg} %c<{c}>; .reg .b64 %g<3>;
ld.param.u64 %g0, [p0]; ld.param.u64 %g1, [p1]; ld.param.u64 %g2, [p2];
wmma.load.a.sync.aligned.{layouts[0]}.{form}.{space}.{ta} {names['a']}, [%g0]{strides[0]};
wmma.load.b.sync.aligned.{layouts[1]}.{form}.{space}.{tb} {names['b']}, [%g1]{strides[1]};
wmma.load.c.sync.aligned.{layouts[2]}.{form}.{space}.{td} {names['c']}, [%g2]{strides[2]};
wmma.mma{logic}.sync.aligned.{layouts[0]}.{layouts[1]}.{form}.{types}{extra} {names['c']}, {names['a']}, {names['b']}, {names['c']};
wmma.store.d.sync.aligned.{layouts[2]}.{form}.{space}.{td} [%g2], {names['c']}{strides[2]};
ret; }}
"""


def draw(kind, shape):
    return RNG.integers(0 if kind[0] == "u" else -5, 6, shape).astype(DTYPES[kind])


def stored(x, layout):
    return np.array(x if layout == "row" else x.T, order="C")


@pytest.mark.parametrize("ta,td", [("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("s8", "s32"), ("u8", "s32")])
@pytest.mark.parametrize("shape", TALL)
def test_products_of_16_deep_tiles(ta, td, shape):
    for layouts in (("row", "col", "row"), ("col", "row", "col"), ("row", "row", "row"), ("col", "col", "col")):
        check(shape, ta, td, layouts)


@pytest.mark.parametrize("layout", ["row", "col"])
def test_products_of_tf32_and_f64(layout):
    check((16, 16, 8), "tf32", "f32", (layout, layout, layout))
    check((8, 8, 4), "f64", "f64", (layout, layout, layout))


def check(shape, ta, td, layouts):
    m, n, k = shape
    a, b, c = draw(ta, (m, k)), draw(ta, (k, n)), RNG.integers(-99, 99, (m, n)).astype(DTYPES[td])
    out = stored(c, layouts[2])
    simulate(program(shape, ta, ta, td, layouts), args=[stored(a, layouts[0]), stored(b, layouts[1]), out])
    want = a.astype(np.float64) @ b.astype(np.float64) + c
    np.testing.assert_array_equal(out, stored(want.astype(DTYPES[td]), layouts[2]))


def test_strides_count_elements():
    a, b = draw("f16", (16, 48)), draw("f16", (64, 16))
    c = np.zeros((16, 32), np.float32)
    text = program((16, 16, 16), "f16", "f16", "f32", ("row", "row", "row"), strides=(", 48", ", 16", ", 32"))
    simulate(text, args=[a, b, c])
    np.testing.assert_array_equal(c[:, :16], a[:, :16].astype(np.float32) @ b[:16].astype(np.float32))
    assert not c[:, 16:].any()


@pytest.mark.parametrize("ta,tb", [("s4", "s4"), ("u4", "s4"), ("u4", "u4")])
def test_products_of_4_bit_integers(ta, tb):
    a = RNG.integers(-8 if ta[0] == "s" else 0, 8 if ta[0] == "s" else 16, (8, 32))
    b = RNG.integers(-8 if tb[0] == "s" else 0, 8 if tb[0] == "s" else 16, (32, 8))
    c = RNG.integers(-99, 99, (8, 8)).astype(np.int32)

    def packed(x):
        x = (x & 15).astype(np.uint8)
        return np.array(x[:, ::2] | x[:, 1::2] << 4, order="C")
    out = c.copy()
    simulate(program((8, 8, 32), ta, tb, "s32"), args=[packed(a), packed(b.T), out])
    np.testing.assert_array_equal(out, a @ b + c)


@pytest.mark.parametrize("logic", ["xor", "and"])
def test_single_bits(logic):
    a, b = RNG.integers(0, 2, (8, 128)), RNG.integers(0, 2, (8, 128))
    out = np.zeros((8, 8), np.int32)
    text = program((8, 8, 128), "b1", "b1", "s32", logic=f".{logic}.popc")
    simulate(text, args=[np.packbits(a.astype(np.uint8), axis=1, bitorder="little"),
                         np.packbits(b.astype(np.uint8), axis=1, bitorder="little"), out])
    f = np.bitwise_xor if logic == "xor" else np.bitwise_and
    np.testing.assert_array_equal(out, f(a[:, None], b[None]).sum(axis=2))


def test_saturation():
    a, b = np.full((16, 16), 127, np.int8), np.full((16, 16), 127, np.int8)
    c = np.full((16, 16), 2**31 - 1, np.int32)
    simulate(program((16, 16, 16), "s8", "s8", "s32", extra=".satfinite"), args=[a, b, c])
    assert (c == 2**31 - 1).all()


@pytest.mark.parametrize("old,new", [("m16n16k16", "m16n16k8"), (".f32.f32 ", ".f64.f64 "),
                                     ("row.m16n16k16.global.f16", "m16n16k16.global.f16"),
                                     ("{%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7}, [", "{%a0, %a1, %a2, %a3}, [")])
def test_forms_the_isa_does_not_have(old, new):
    text = program((16, 16, 16), "f16", "f16", "f32")
    assert old in text
    with pytest.raises(sim.SimulationError):
        simulate(text.replace(old, new), args=[draw("f16", (16, 16)), draw("f16", (16, 16)), np.zeros((16, 16), np.float32)])


def test_misaligned_rows():
    text = program((16, 16, 16), "f16", "f16", "f32", strides=(", 20", "", ""))
    with pytest.raises(sim.Misaligned):
        simulate(text, args=[draw("f16", (16, 32)), draw("f16", (16, 16)), np.zeros((16, 16), np.float32)])
