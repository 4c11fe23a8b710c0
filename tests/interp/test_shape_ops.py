"""Ops that make tiles and move their elements, reductions and scans, and matrix products."""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects import builtin
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FloatAttr, IntegerAttr

from tests.interp.build import ARRAYS, ELEMENTS, Kernel, apply, evaluate, name_of, pointer, tile
from tileiras.dialects.cuda_tile import attrs, ops
from tileiras.interp import InterpreterError

SIGNED = attrs.SignednessAttr("signed")
UNSIGNED = attrs.SignednessAttr("unsigned")
NEAREST = attrs.RoundingAttr("nearest_even")
NONE = attrs.OverflowAttr("none")
CUBE = np.arange(32, dtype=np.int32).reshape(2, 4, 4)


def test_reshape_broadcast_permute_cat() -> None:
    assert apply(ops.Reshape, [CUBE], ("i32", (8, 4))).tolist() == CUBE.reshape(8, 4).tolist()
    row = CUBE[0, :1]
    assert apply(ops.Broadcast, [row], ("i32", (8, 4))).tolist() == np.broadcast_to(row, (8, 4)).tolist()
    order = DenseArrayBase.from_list(builtin.i32, [2, 0, 1])
    got = apply(ops.Permute, [CUBE], ("i32", (4, 2, 4)), permutation=order)
    assert got.tolist() == CUBE.transpose(2, 0, 1).tolist()
    dim = IntegerAttr(1, 64)
    got = apply(ops.Cat, [CUBE, -CUBE], ("i32", (2, 8, 4)), dim=dim)
    assert got.tolist() == np.concatenate([CUBE, -CUBE], 1).tolist()


def test_iota_counts_unsigned() -> None:
    got = evaluate(lambda k: k.add(ops.Iota.make([], [tile("i8", 256)])), [], ("i8", (256,)))
    assert got.view(np.uint8).tolist() == list(range(256))


def test_extract_and_insert_count_in_slices() -> None:
    def make(kernel: Kernel, source: Any) -> Any:
        at = [kernel.constant("i32", n) for n in (1, 0, 3)]
        part = kernel.add(ops.Extract.make([source, at], [tile("i32", 1, 2, 1)]))
        back = [kernel.constant("i32", n) for n in (0, 1, 0)]
        return part, kernel.add(ops.Insert.make([part, source, back], [tile("i32", 2, 4, 4)]))
    part, whole = evaluate(make, [CUBE], ("i32", (1, 2, 1)), ("i32", (2, 4, 4)))
    assert part.tolist() == CUBE[1:, 0:2, 3:4].tolist()
    want = CUBE.copy()
    want[0:1, 2:4, 0:1] = part
    assert whole.tolist() == want.tolist()


def test_a_slice_that_does_not_exist_is_an_error() -> None:
    def make(kernel: Kernel, source: Any) -> Any:
        at = [kernel.constant("i32", n) for n in (2, 0, 0)]
        return kernel.add(ops.Extract.make([source, at], [tile("i32", 1, 4, 4)]))
    with pytest.raises(InterpreterError, match=r"cuda_tile.extract: slice \[2, 0, 0\]"):
        evaluate(make, [CUBE], ("i32", (1, 4, 4)))


@pytest.mark.parametrize("name, values", [
    ("i1", [True, False, True, True, False, False, True, False, True, True]), ("i8", [-1, 2]), ("i64", [-2 ** 63, 5]),
    ("f16", [1.5, -0.0]), ("bf16", [3.0, np.inf]), ("f64", [0.1, 1e300]), ("f8E4M3FN", [448, -1]), ("f8E5M2", [2, 3]),
    ("f32", [0.1, -7])])
def test_constants(name: str, values: list[Any]) -> None:
    array = np.resize(values, 16).astype(ARRAYS[name])
    got = evaluate(lambda k: k.constant(name, array), [], (name, (16,)))
    assert got.tobytes() == array.tobytes()


def test_splat_and_tf32_constants() -> None:
    def make(kernel: Kernel) -> Any:
        splat = attrs.DenseElementsAttr(tile("i16", 2, 2), b"\x07\x00")
        ones = attrs.DenseElementsAttr(tile("i1", 8), b"\xff")
        # The upper 19 bits of 1.5 and -2 as f32 (0x3FC00000, 0xC0000000), in three bytes each.
        tf32 = attrs.DenseElementsAttr(tile("tf32", 2), (0x3FC00000 >> 13).to_bytes(3, "little")
                                       + (0xC0000000 >> 13).to_bytes(3, "little"))
        values = [kernel.add(ops.Constant.make([], [v.type], {"value": v})) for v in (splat, ones, tf32)]
        return *values[:2], kernel.add(ops.FToF.make([values[2]], [tile("f32", 2)], {"rounding_mode": NEAREST}))
    splat, ones, wide = evaluate(make, [], ("i16", (2, 2)), ("i1", (8,)), ("f32", (2,)))
    assert splat.tolist() == [[7, 7], [7, 7]] and ones.all() and wide.tolist() == [1.5, -2.0]


def folded(kernel: Kernel, op: Any, sources: list[Any], dim: int, identities: list[Any], body: Any,
           results: list[Any], **attributes: Any) -> Any:
    scalars = [tile(s.type.element_type) for s in sources for _ in range(2)]
    region = kernel.region(scalars, lambda *a: ops.Yield.make([body(*a)]))
    return kernel.add(op.make([sources], [results], {"dim": IntegerAttr(dim, 32), "identities": ArrayAttr(identities),
                                                     **attributes}, [region]))


def identity(name: str, value: Any) -> Any:
    element: Any = ELEMENTS[name]
    return FloatAttr(value, element) if "f" in name else IntegerAttr(value, element)


@pytest.mark.parametrize("axis", (0, 1, 2))
@pytest.mark.parametrize("name, op, function, start", [
    ("f32", ops.AddF, np.add, 0.0), ("f16", ops.MaxF, np.maximum, -np.inf), ("i32", ops.AddI, np.add, 0),
    ("i64", ops.MinI, np.minimum, 2 ** 63 - 1), ("f64", ops.MulF, np.multiply, 1.0)])
def test_reduce_along_any_axis(axis: int, name: str, op: Any, function: Any, start: Any) -> None:
    x = ((CUBE % 5) - 2).astype(ARRAYS[name])
    more = {ops.AddF: {"rounding_mode": NEAREST}, ops.MulF: {"rounding_mode": NEAREST}, ops.AddI: {"overflow": NONE},
            ops.MinI: {"signedness": SIGNED}}.get(op, {})
    shape = tuple(n for i, n in enumerate(x.shape) if i != axis)

    def make(kernel: Kernel, t: Any) -> Any:
        return folded(kernel, ops.Reduce, [t], axis, [identity(name, start)],
                      lambda a, b: [kernel.add(op.make([a, b], [tile(name)], more))], [tile(name, *shape)])
    assert evaluate(make, [x], (name, shape)).tolist() == function.reduce(x, axis).tolist()


def test_reduce_of_two_operands_finds_the_place_of_the_maximum() -> None:
    values = np.array([3, 9, -1, 9, 2, 0, 5, 8], np.float32)
    places = np.arange(8, dtype=np.int32)

    def body(kernel: Kernel, v: Any, best: Any, i: Any, at: Any) -> list[Any]:
        def compare(p: str, x: Any, y: Any) -> Any:
            return kernel.add(ops.CmpF.make([x, y], [tile("i1")], {
                "comparison_predicate": attrs.ComparisonPredicateAttr(p),
                "comparison_ordering": attrs.ComparisonOrderingAttr("ordered")}))
        first = kernel.add(ops.CmpI.make([i, at], [tile("i1")], {
            "comparison_predicate": attrs.ComparisonPredicateAttr("less_than"), "signedness": SIGNED}))
        tie = kernel.add(ops.AndI.make([compare("equal", v, best), first], [tile("i1")]))
        better = kernel.add(ops.OrI.make([compare("greater_than", v, best), tie], [tile("i1")]))
        return [kernel.add(ops.Select.make([better, v, best], [tile("f32")])),
                kernel.add(ops.Select.make([better, i, at], [tile("i32")]))]

    def make(kernel: Kernel, v: Any, i: Any) -> Any:
        return folded(kernel, ops.Reduce, [v, i], 0, [identity("f32", -np.inf), identity("i32", 2 ** 31 - 1)],
                      lambda *a: body(kernel, *a), [tile("f32"), tile("i32")])
    best, at = evaluate(make, [values, places], ("f32", ()), ("i32", ()))
    assert (best, at) == (9.0, 1)


def test_a_reduction_body_may_branch() -> None:
    """sum of the even elements: an if in the body is run element by element."""
    def body(kernel: Kernel, x: Any, total: Any) -> list[Any]:
        one = kernel.constant("i32", 1)
        odd = kernel.add(ops.TruncI.make([kernel.add(ops.AndI.make([x, one], [tile("i32")]))], [tile("i1")],
                                         {"overflow": NONE}))
        keep = kernel.region([], lambda: ops.Yield.make([[total]]))
        add = kernel.region([], lambda: ops.Yield.make([[kernel.add(
            ops.AddI.make([x, total], [tile("i32")], {"overflow": NONE}))]]))
        return [kernel.add(ops.If.make([odd], [[tile("i32")]], {}, [keep, add]))]

    def make(kernel: Kernel, t: Any) -> Any:
        return folded(kernel, ops.Scan, [t], 0, [identity("i32", 0)], lambda total, x: body(kernel, x, total),
                      [tile("i32", 8)], reverse=IntegerAttr(0, 1))
    x = np.array([1, 2, 3, 4, 6, 7, 8, 9], np.int32)
    assert evaluate(make, [x], ("i32", (8,))).tolist() == np.cumsum(np.where(x % 2, 0, x)).tolist()


@pytest.mark.parametrize("axis, backwards", [(0, False), (1, False), (1, True), (0, True)])
def test_scan_hands_over_accumulator_then_element(axis: int, backwards: bool) -> None:
    """10 * accumulator + element tells the order and the sides."""
    x = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.int32)

    def body(kernel: Kernel, total: Any, element: Any) -> list[Any]:
        ten = kernel.constant("i32", 10)
        shifted = kernel.add(ops.MulI.make([total, ten], [tile("i32")], {"overflow": NONE}))
        return [kernel.add(ops.AddI.make([shifted, element], [tile("i32")], {"overflow": NONE}))]

    def make(kernel: Kernel, t: Any) -> Any:
        return folded(kernel, ops.Scan, [t], axis, [identity("i32", 0)], lambda *a: body(kernel, *a),
                      [tile("i32", 2, 4)], reverse=IntegerAttr(int(backwards), 1))
    got = evaluate(make, [x], ("i32", (2, 4)))
    rows = np.moveaxis(x, axis, 0)[::-1] if backwards else np.moveaxis(x, axis, 0)
    want, total = [], np.zeros_like(rows[0])
    for row in rows:
        total = total * 10 + row
        want.append(total)
    assert got.tolist() == np.moveaxis(np.stack(want[::-1] if backwards else want), 0, axis).tolist()


@pytest.mark.parametrize("lhs, acc", [("f16", "f16"), ("f16", "f32"), ("bf16", "f32"), ("f32", "f32"), ("f64", "f64"),
                                      ("f8E4M3FN", "f16"), ("f8E5M2", "f32")])
@pytest.mark.parametrize("batch", ((), (2,)))
def test_float_matrix_product(lhs: str, acc: str, batch: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(-4, 5, (*batch, 4, 8)).astype(ARRAYS[lhs])
    b = rng.integers(-4, 5, (*batch, 8, 2)).astype(ARRAYS[lhs])
    c = rng.integers(-4, 5, (*batch, 4, 2)).astype(ARRAYS[acc])
    want = a.astype(float) @ b.astype(float) + c.astype(float)
    assert apply(ops.MmaF, [a, b, c], (acc, c.shape)).astype(float).tolist() == want.tolist()


def test_integer_matrix_product_mixes_signedness() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(-128, 128, (4, 8)).astype(np.int8), rng.integers(-128, 128, (8, 2)).astype(np.int8)
    c = np.array([[2 ** 31 - 1, 0], [0, 1], [2, 3], [4, 5]], np.int32)
    got = apply(ops.MmaI, [a, b, c], ("i32", (4, 2)), signedness_lhs=UNSIGNED, signedness_rhs=SIGNED)
    want = (a.view(np.uint8).astype(np.int64) @ b.astype(np.int64) + c).astype(np.int32)
    assert got.tolist() == want.tolist()


def test_scaled_matrix_product() -> None:
    rng = np.random.default_rng(4)
    e4m3, e8m0 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu
    a, b = rng.integers(-4, 5, (4, 64)).astype(e4m3), rng.integers(-4, 5, (64, 2)).astype(e4m3)
    sa, sb = np.array([[1, 2], [0.5, 4], [1, 1], [8, 2]]).astype(e8m0), np.array([[2, 1], [0.25, 4]]).astype(e8m0)
    c = np.ones((4, 2), np.float32)
    left, right = np.repeat(sa.astype(float), 32, 1), np.repeat(sb.astype(float), 32, 0)
    want = (a.astype(float) * left) @ (b.astype(float) * right) + 1

    def make(kernel: Kernel, *t: Any) -> Any:
        return kernel.add(ops.MmaFScaled.make(list(t), [tile("f32", 4, 2)]))
    assert evaluate(make, [a, b, c, sa, sb], ("f32", (4, 2))).tolist() == want.tolist()


def test_block_indices_and_assumptions() -> None:
    kernel = Kernel(pointer("i32"))
    ids = kernel.add(ops.GetTileBlockId.make([], [tile("i32")] * 3))
    sizes = kernel.add(ops.GetNumTileBlocks.make([], [tile("i32")] * 3))
    x, y, z = ids

    def times(a: Any, b: Any) -> Any:
        return kernel.add(ops.MulI.make([a, b], [tile("i32")], {"overflow": NONE}))

    def plus(a: Any, b: Any) -> Any:
        return kernel.add(ops.AddI.make([a, b], [tile("i32")], {"overflow": NONE}))
    at = plus(x, times(sizes[0], plus(y, times(sizes[1], z))))
    bounded = kernel.add(ops.Assume.make([at], [tile("i32")], {"predicate": attrs.BoundedAttr(0, 23)}))
    place = kernel.add(ops.Offset.make([kernel.args[0], bounded], [pointer("i32")]))
    kernel.add(ops.StorePtrTko.make([place, at, None, None], [ops_token()], {
        "memory_ordering_semantics": attrs.MemoryOrderingSemanticsAttr("weak")}))
    module = kernel.module()
    from tileiras.interp import run
    out = np.zeros(24, np.int32)
    run(module, None, (2, 3, 4), [out])
    assert out.tolist() == list(range(24))
    with pytest.raises(InterpreterError, match="assumption"):
        run(module, None, (5, 5, 1), [np.zeros(25, np.int32)])


def ops_token() -> Any:
    from tileiras.dialects.cuda_tile.types import TokenType
    return TokenType()


@pytest.mark.parametrize("predicate, good, bad", [
    (attrs.DivByAttr(8), [0, 8, 64, -16], [0, 8, 12, 16]),
    (attrs.DivByAttr(4, 2, 0), [4, 5, 12, 13], [4, 5, 13, 14]),
    (attrs.SameElementsAttr([2]), [3, 3, 7, 7], [3, 3, 7, 8]),
    (attrs.BoundedAttr(-1, None), [-1, 5, 9, 0], [-2, 0, 0, 0])])
def test_assumptions_are_checked(predicate: Any, good: list[int], bad: list[int]) -> None:
    def make(kernel: Kernel, t: Any) -> Any:
        return kernel.add(ops.Assume.make([t], [t.type], {"predicate": predicate}))
    assert evaluate(make, [np.array(good, np.int32)], ("i32", (4,))).tolist() == good
    with pytest.raises(InterpreterError, match="is false"):
        evaluate(make, [np.array(bad, np.int32)], ("i32", (4,)))
    assert name_of(np.zeros(1, np.int32)) == "i32"
