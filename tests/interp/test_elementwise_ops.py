"""Every elementwise op gives what NumPy, ml_dtypes or plain arithmetic gives."""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import UnitAttr

from tests.interp.build import ARRAYS, apply, evaluate, pointer, tile
from tileiras.dialects.cuda_tile import attrs, ops

SIGNED, UNSIGNED = attrs.SignednessAttr("signed"), attrs.SignednessAttr("unsigned")
NEAREST = attrs.RoundingAttr("nearest_even")
NONE = attrs.OverflowAttr("none")
RNG = np.random.default_rng(11)
X = np.array([-7, 7, -8, 5, 0, 127, -128, 3], np.int8)
Y = np.array([2, -2, 3, 5, 9, 1, -128, -3], np.int8)


@pytest.mark.parametrize("op, function", [(ops.AddI, np.add), (ops.SubI, np.subtract), (ops.MulI, np.multiply)])
@pytest.mark.parametrize("dtype", (np.int8, np.int16, np.int32, np.int64))
def test_integer_arithmetic_wraps(op: Any, function: Any, dtype: Any) -> None:
    info = np.iinfo(dtype)
    x, y = RNG.integers(info.min, info.max, (2, 16), dtype, endpoint=True)
    assert apply(op, [x, y], overflow=NONE).tolist() == function(x, y).tolist()


@pytest.mark.parametrize("op, function", [(ops.AndI, np.bitwise_and), (ops.OrI, np.bitwise_or),
                                          (ops.XOrI, np.bitwise_xor)])
def test_bitwise(op: Any, function: Any) -> None:
    assert apply(op, [X, Y]).tolist() == function(X, Y).tolist()
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert apply(op, [a, b]).tolist() == function(a, b).tolist()


def test_negate_and_magnitude() -> None:
    assert apply(ops.NegI, [X], overflow=NONE).tolist() == [7, -7, 8, -5, 0, -127, -128, -3]
    assert apply(ops.AbsI, [X]).tolist() == [7, 7, 8, 5, 0, 127, -128, 3]


@pytest.mark.parametrize("rounding, want", [("zero", [-3, -3, -2, 1, 0, 127, 1, -1]),
                                            ("negative_inf", [-4, -4, -3, 1, 0, 127, 1, -1]),
                                            ("positive_inf", [-3, -3, -2, 1, 0, 127, 1, -1])])
def test_signed_division(rounding: str, want: list[int]) -> None:
    got = apply(ops.DivI, [X, Y], signedness=SIGNED, rounding=attrs.RoundingAttr(rounding))
    assert got.tolist() == want


def test_unsigned_division_and_remainder() -> None:
    x, y = np.array([250, 7, 8, 0], np.uint8), np.array([7, 2, 200, 9], np.uint8)
    a, b = x.view(np.int8), y.view(np.int8)
    up = attrs.RoundingAttr("positive_inf")
    zero = attrs.RoundingAttr("zero")
    assert apply(ops.DivI, [a, b], signedness=UNSIGNED, rounding=zero).view(np.uint8).tolist() == [35, 3, 0, 0]
    assert apply(ops.DivI, [a, b], signedness=UNSIGNED, rounding=up).view(np.uint8).tolist() == [36, 4, 1, 0]
    assert apply(ops.RemI, [a, b], signedness=UNSIGNED).view(np.uint8).tolist() == [5, 1, 8, 0]
    assert apply(ops.RemI, [X, Y], signedness=SIGNED).tolist() == [-1, 1, -2, 0, 0, 0, 0, 0]


def test_high_product_is_unsigned() -> None:
    x, y = np.array([-1, 2 ** 62, 3, -5], np.int64), np.array([-1, 8, -1, 7], np.int64)
    want = [((int(a) % 2 ** 64) * (int(b) % 2 ** 64) >> 64) for a, b in zip(x, y)]
    assert apply(ops.MulhiI, [x, y]).view(np.uint64).tolist() == want


def test_shifts() -> None:
    n = np.array([0, 1, 2, 3, 4, 7, 8, 5], np.int8)
    assert apply(ops.ShLI, [X, n], overflow=NONE).tolist() == [-7, 14, -32, 40, 0, -128, 0, 96]
    assert apply(ops.ShRI, [X, n], signedness=SIGNED).tolist() == [-7, 3, -2, 0, 0, 0, -1, 0]
    assert apply(ops.ShRI, [X, n], signedness=UNSIGNED).tolist() == [-7, 3, 62, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("predicate, function", [
    ("equal", np.equal), ("not_equal", np.not_equal), ("less_than", np.less), ("less_than_or_equal", np.less_equal),
    ("greater_than", np.greater), ("greater_than_or_equal", np.greater_equal)])
def test_comparisons(predicate: str, function: Any) -> None:
    p = attrs.ComparisonPredicateAttr(predicate)
    for signedness, a, b in ((SIGNED, X, Y), (UNSIGNED, X.view(np.uint8), Y.view(np.uint8))):
        got = apply(ops.CmpI, [X, Y], ("i1", (8,)), comparison_predicate=p, signedness=signedness)
        assert got.tolist() == function(a, b).tolist()
    f, g = np.array([1, 2, np.nan, -0.0], np.float32), np.array([2, 2, 1, 0.0], np.float32)
    nan = np.array([False, False, True, False])
    for ordering, want in (("ordered", function(f, g) & ~nan), ("unordered", function(f, g) | nan)):
        got = apply(ops.CmpF, [f, g], ("i1", (4,)), comparison_predicate=p,
                    comparison_ordering=attrs.ComparisonOrderingAttr(ordering))
        assert got.tolist() == want.tolist()


def test_one_bit_numbers_are_minus_one_when_signed() -> None:
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    less = attrs.ComparisonPredicateAttr("less_than")
    for signedness, want in ((SIGNED, [False, True, False, False]), (UNSIGNED, [False, False, True, False])):
        assert apply(ops.CmpI, [a, b], comparison_predicate=less, signedness=signedness).tolist() == want
    assert apply(ops.MaxI, [a, b], signedness=SIGNED).tolist() == [True, False, False, False]
    assert apply(ops.AddI, [a, b], overflow=NONE).tolist() == [False, True, True, False]
    assert apply(ops.IToF, [a], ("f32", (4,)), signedness=SIGNED, rounding_mode=NEAREST).tolist() == [-1, -1, 0, 0]


def test_integer_extrema() -> None:
    assert apply(ops.MaxI, [X, Y], signedness=SIGNED).tolist() == np.maximum(X, Y).tolist()
    got = apply(ops.MinI, [X, Y], signedness=UNSIGNED).view(np.uint8)
    assert got.tolist() == np.minimum(X.view(np.uint8), Y.view(np.uint8)).tolist()


@pytest.mark.parametrize("dtype", (np.float16, ml_dtypes.bfloat16, np.float32, np.float64))
def test_float_arithmetic(dtype: Any) -> None:
    x, y = (RNG.standard_normal((2, 16)) * 9).astype(dtype)
    for op, function in ((ops.AddF, np.add), (ops.SubF, np.subtract), (ops.MulF, np.multiply), (ops.DivF, np.divide)):
        assert apply(op, [x, y], rounding_mode=NEAREST).tolist() == function(x, y).tolist()
    assert apply(ops.Sqrt, [abs(x)], rounding_mode=NEAREST).tolist() == np.sqrt(abs(x)).tolist()
    assert apply(ops.RemF, [x, y]).tolist() == np.fmod(x.astype(float), y.astype(float)).astype(dtype).tolist()
    assert apply(ops.NegF, [x]).tolist() == (-x).tolist() and apply(ops.AbsF, [x]).tolist() == abs(x).tolist()
    assert apply(ops.Floor, [x]).tolist() == np.floor(x.astype(float)).tolist()
    assert apply(ops.Ceil, [x]).tolist() == np.ceil(x.astype(float)).tolist()
    assert apply(ops.MaxF, [x, y]).tolist() == np.maximum(x, y).tolist()
    assert apply(ops.MinF, [x, y]).tolist() == np.minimum(x, y).tolist()


def test_fused_multiply_add_rounds_once() -> None:
    e = np.float32(2.0 ** -12)
    x = np.array([1 + e], np.float32)
    got = apply(ops.Fma, [x, x, -np.array([1 + 2 * e], np.float32)], rounding_mode=NEAREST)
    assert got.tolist() == [2.0 ** -24]
    tiny = np.array([2.0 ** -130], np.float32)
    assert apply(ops.Fma, [tiny, tiny, tiny], rounding_mode=NEAREST, flush_to_zero=UnitAttr()).tolist() == [0.0]


def test_directed_rounding_of_sums() -> None:
    x, y = np.array([1.0, -1.0], np.float32), np.array([2.0 ** -30, -2.0 ** -30], np.float32)
    up, down = np.nextafter(np.float32(1), np.float32(2)), np.float32(1)
    for mode, want in (("zero", [1, -1]), ("positive_inf", [up, -down]), ("negative_inf", [down, -up])):
        assert apply(ops.AddF, [x, y], rounding_mode=attrs.RoundingAttr(mode)).tolist() == [float(w) for w in want]


@pytest.mark.parametrize("op, function", [
    (ops.Exp2, np.exp2), (ops.Log, np.log), (ops.Log2, np.log2), (ops.Sin, np.sin), (ops.Cos, np.cos),
    (ops.Tan, np.tan), (ops.SinH, np.sinh), (ops.CosH, np.cosh), (ops.Rsqrt, lambda v: 1 / np.sqrt(v))])
@pytest.mark.parametrize("dtype", (np.float16, ml_dtypes.bfloat16, np.float32, np.float64))
def test_maths_is_correctly_rounded(op: Any, function: Any, dtype: Any) -> None:
    x = (RNG.random(16) * 5 + 0.1).astype(dtype)
    wide = function(x.astype(np.longdouble))
    assert apply(op, [x]).tolist() == wide.astype(np.float64).astype(dtype).tolist()


def test_maths_with_modes_and_two_operands() -> None:
    x, y = (RNG.random((2, 16)) * 3 + 0.1).astype(np.float32)
    full = attrs.RoundingAttr("full")
    wide, other = x.astype(float), y.astype(float)
    assert apply(ops.Exp, [x], rounding_mode=full).tolist() == np.exp(wide).astype(np.float32).tolist()
    assert apply(ops.TanH, [x], rounding_mode=full).tolist() == np.tanh(wide).astype(np.float32).tolist()
    assert apply(ops.Pow, [x, y]).tolist() == np.power(wide, other).astype(np.float32).tolist()
    assert apply(ops.Atan2, [x, -y]).tolist() == np.arctan2(wide, -other).astype(np.float32).tolist()
    n = np.array([-3, -1, 0, 1, 2, 3, 7, 20] * 2, np.int32)
    assert apply(ops.FPowI, [x, n]).tolist() == np.power(wide, n.astype(float)).astype(np.float32).tolist()
    small = np.array([-130.0, -126.0], np.float32)
    assert apply(ops.Exp2, [small], flush_to_zero=UnitAttr()).tolist() == [0.0, 2.0 ** -126]


def test_conversions() -> None:
    wide = np.array([-1, 300, 70000, 2 ** 40 + 5], np.int64)
    assert apply(ops.TruncI, [wide], ("i8", (4,)), overflow=NONE).tolist() == wide.astype(np.int8).tolist()
    assert apply(ops.ExtI, [X], ("i32", (8,)), signedness=SIGNED).tolist() == X.tolist()
    assert apply(ops.ExtI, [X], ("i32", (8,)), signedness=UNSIGNED).tolist() == X.view(np.uint8).tolist()
    f = np.array([1.75, -2.5, 100.99, 0], np.float32)
    toward = attrs.RoundingAttr("nearest_int_to_zero")
    assert apply(ops.FToI, [f], ("i32", (4,)), signedness=SIGNED, rounding_mode=toward).tolist() == [1, -2, 100, 0]
    beyond = np.array([1e20, -1e20, np.nan, 7], np.float32)
    got = apply(ops.FToI, [beyond], ("i32", (4,)), signedness=SIGNED, rounding_mode=toward, saturating=UnitAttr())
    assert got.tolist() == [2 ** 31 - 1, -2 ** 31, 0, 7]
    assert apply(ops.IToF, [wide], ("f16", (4,)), signedness=SIGNED, rounding_mode=NEAREST).tolist() == [
        -1, 300, np.inf, np.inf]
    assert apply(ops.Bitcast, [np.array([1.0, -0.0], np.float32)], ("i32", (2,))).tolist() == [0x3F800000, -2 ** 31]


@pytest.mark.parametrize("name", ("f16", "bf16", "f8E4M3FN", "f8E5M2", "f8E8M0FNU"))
def test_float_to_float(name: str) -> None:
    x = np.array([1.0, 3.14159, 0.001, 200.0], np.float32)
    mode = attrs.RoundingAttr("zero") if name == "f8E8M0FNU" else NEAREST
    want = np.exp2(np.floor(np.log2(x))) if name == "f8E8M0FNU" else x.astype(ARRAYS[name]).astype(float)
    assert apply(ops.FToF, [x], (name, (4,)), rounding_mode=mode).astype(float).tolist() == want.tolist()
    back = want.astype(ARRAYS[name])
    assert apply(ops.FToF, [back], ("f32", (4,)), rounding_mode=NEAREST).tolist() == want.tolist()


@pytest.mark.parametrize("mode, want", [("nearest_even", 1.0), ("nearest_away", 1 + 2.0 ** -10), ("zero", 1.0)])
def test_tf32_has_ten_fraction_bits(mode: str, want: float) -> None:
    x = np.array([1 + 2.0 ** -11], np.float32)

    def through(kernel: Any, t: Any) -> Any:
        narrow = kernel.add(ops.FToF.make([t], [tile("tf32", 1)], {"rounding_mode": attrs.RoundingAttr(mode)}))
        return kernel.add(ops.FToF.make([narrow], [tile("f32", 1)], {"rounding_mode": NEAREST}))
    assert evaluate(through, [x], ("f32", (1,))).tolist() == [want]


def test_four_bit_types_through_bytes() -> None:
    packed = np.array([0x21, 0xF7], np.uint8).view(np.int8)

    def integers(kernel: Any, t: Any) -> Any:
        nibbles = kernel.add(ops.Unpack.make([t], [tile("i4", 4)]))
        return kernel.add(ops.ExtI.make([nibbles], [tile("i32", 4)], {"signedness": SIGNED}))
    assert evaluate(integers, [packed], ("i32", (4,))).tolist() == [1, 2, 7, -1]

    def floats(kernel: Any, t: Any) -> Any:
        values = kernel.add(ops.Unpack.make([t], [tile("f4E2M1FN", 4)]))
        wide = kernel.add(ops.FToF.make([values], [tile("f32", 4)], {"rounding_mode": NEAREST}))
        narrow = kernel.add(ops.FToF.make([wide], [tile("f4E2M1FN", 4)], {"rounding_mode": NEAREST}))
        return wide, kernel.add(ops.Pack.make([narrow], [tile("i8", 2)]))
    wide, again = evaluate(floats, [packed], ("f32", (4,)), ("i8", (2,)))
    assert wide.tolist() == [0.5, 1.0, 6.0, -6.0] and again.tolist() == packed.tolist()


def test_select_and_pointer_casts() -> None:
    cond = np.array([True, False, True, False])
    a, b = np.arange(4, dtype=np.float32), -np.arange(4, dtype=np.float32)
    assert apply(ops.Select, [cond, a, b], ("f32", (4,))).tolist() == [0, -1, 2, -3]

    def round_trip(kernel: Any, t: Any) -> Any:
        base = kernel.args[0]
        number = kernel.add(ops.PtrToInt.make([base], [tile("i64")]))
        again = kernel.add(ops.IntToPtr.make([number], [pointer("i32")]))
        bits = kernel.add(ops.PtrToPtr.make([again], [pointer("f32")]))
        return kernel.load(bits, "f32", (4,))
    assert evaluate(round_trip, [a.view(np.int32)], ("f32", (4,))).tolist() == a.tolist()
