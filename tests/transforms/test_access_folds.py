"""Folds of accesses, pointers, products and shapes: which ops are gone, which must stay, and that memory is the same afterwards."""
from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import tileiras
from tests.transforms.test_folds import simplified
from tileiras.bytecode import write
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.sim import simulate

FLOATS, INTS, POINTERS = "tile<16xf32>", "tile<16xi32>", "tile<16xptr<f32>>"
HEAD = """cuda_tile.module @m {
  entry @k(%a: tile<ptr<f32>>, %b: tile<ptr<i32>>, %n: tile<i32>) {
    %i = iota : tile<16xi32>
    %a1 = reshape %a : tile<ptr<f32>> -> tile<1xptr<f32>>
    %as = broadcast %a1 : tile<1xptr<f32>> -> tile<16xptr<f32>>
    %p = offset %as, %i : tile<16xptr<f32>>, tile<16xi32> -> tile<16xptr<f32>>
    %b1 = reshape %b : tile<ptr<i32>> -> tile<1xptr<i32>>
    %bs = broadcast %b1 : tile<1xptr<i32>> -> tile<16xptr<i32>>
    %q = offset %bs, %i : tile<16xptr<i32>>, tile<16xi32> -> tile<16xptr<i32>>
    %no = constant <i1: false> : tile<16xi1>
    %all = constant <i1: true> : tile<16xi1>
    %zero = constant <i32: 0> : tile<16xi32>
    %ones = constant <i32: -1> : tile<16xi32>
    %five = constant <i32: 5> : tile<16xi32>
    %seven = constant <f32: 7.0> : tile<16xf32>
"""
END = "\n    return\n  }\n}\n"
LOAD = "%x, %t = load_ptr_tko {} %p, %no, %seven : tile<16xptr<f32>>, tile<16xi1>, tile<16xf32> -> tile<16xf32>, token"
STORE = "%u = store_ptr_tko {} %p, %seven, %no : tile<16xptr<f32>>, tile<16xf32>, tile<16xi1> -> token"
ATOMIC = "%old, %t = atomic_rmw_tko {} %q, {}, {} : tile<16xptr<i32>>, tile<16xi32> -> tile<16xi32>, token"
KEEP = "%u = store_ptr_tko weak %p, %x : tile<16xptr<f32>>, tile<16xf32> -> token"


def ops_of(body: str) -> Counter[str]:
    return Counter(op.name.partition(".")[2] for op in simplified(HEAD + body + END).walk())


def test_a_load_behind_an_empty_mask_is_what_stands_for_it() -> None:
    assert ops_of(f"{LOAD.format('weak')}\n{KEEP}")["load"] == 0
    assert ops_of(f"{LOAD.format('relaxed device')}\n{KEEP}")["load"] == 0
    assert ops_of(f"{LOAD.format('acquire device')}\n{KEEP}")["load"] == 1


def test_a_store_behind_an_empty_mask_is_none() -> None:
    assert ops_of(STORE.format("weak"))["store"] == 0
    assert ops_of(STORE.format("release device"))["store"] == 1


@pytest.mark.parametrize("mode, operand, gone", [
    ("add", "%zero", True), ("or", "%zero", True), ("xor", "%zero", True), ("umax", "%zero", True), ("and", "%ones", True),
    ("umin", "%ones", True), ("max", "%zero", False), ("and", "%zero", False), ("add", "%five", False), ("xchg", "%zero", False)])
def test_atomics_that_change_nothing(mode: str, operand: str, gone: bool) -> None:
    assert ops_of(ATOMIC.format("relaxed device", mode, operand))["atomic_rmw"] == (not gone)
    assert ops_of(ATOMIC.format("acq_rel device", mode, operand))["atomic_rmw"] == 1
    reads = f"%u = store_ptr_tko weak %q, %old : {POINTERS.replace('f32', 'i32')}, {INTS} -> token"
    assert ops_of(f"{ATOMIC.format('relaxed device', mode, operand)}\n{reads}")["atomic_rmw"] == 1


def test_two_known_ways_are_one() -> None:
    two = f"""%p1 = offset %p, %five : {POINTERS}, {INTS} -> {POINTERS}
    %p2 = offset %p1, {{}} : {POINTERS}, {INTS} -> {POINTERS}
    %u = store_ptr_tko weak %p2, %seven : {POINTERS}, {FLOATS} -> token"""
    assert ops_of(two.format("%five"))["addptr"] + 1 == ops_of(two.format("%i"))["addptr"]
    most = "%most = constant <i32: 2147483647> : tile<16xi32>\n"
    assert ops_of(most + two.format("%most"))["addptr"] == ops_of(two.format("%i"))["addptr"]       # the sum isn't an i32


SQUARE = "tile<16x16x{}>"


@pytest.mark.parametrize("kind, into, op, gone", [("i8", "i32", "mmai", True), ("f16", "f32", "mmaf", False)])
def test_products_with_zero(kind: str, into: str, op: str, gone: bool) -> None:
    """Of integers nothing is left; a float zero times infinity is NaN."""
    narrow, wide = SQUARE.format(kind), SQUARE.format(into)
    zero = "0" if kind == "i8" else "0.0"
    body = f"""%z = constant <{kind}: {zero}> : {narrow}
    %v = make_tensor_view %a, shape = [256], strides = [1] : tensor_view<256xf32, strides=[1]>
    %x2 = reshape %i : tile<16xi32> -> tile<16x1xi32>
    %y2 = broadcast %x2 : tile<16x1xi32> -> tile<16x16xi32>
    %lhs = {"trunci %y2 : tile<16x16xi32> -> tile<16x16xi8>" if kind == "i8" else
            "itof %y2 signed rounding<nearest_even> : tile<16x16xi32> -> tile<16x16xf16>"}
    %acc = constant <{into}: {"1" if kind == "i8" else "1.0"}> : {wide}
    %d = {op} %lhs, %z, %acc {"signed signed" if op == "mmai" else ""} : {narrow}, {narrow}, {wide}
    %f = reshape %d : {wide} -> tile<256x{into}>
    print_tko "%d", %f : tile<256x{into}> -> token"""
    assert ops_of(body)["dot"] == (not gone)


def test_what_is_the_same_is_negated_once() -> None:
    body = f"""%l, %t = load_ptr_tko weak %p : {POINTERS} -> {FLOATS}, token
    %c = reshape %l : {FLOATS} -> tile<16x1xf32>
    %w = broadcast %c : tile<16x1xf32> -> tile<16x64xf32>
    %g = {{}} %w : tile<16x64xf32>
    print_tko "%f", %g : tile<16x64xf32> -> token"""
    for op, name in (("negf", "arith.negf"), ("exp", "math.exp")):
        found = next(o for o in simplified(HEAD + body.format(op) + END).walk() if o.name == name)
        assert tuple(found.results[0].type.get_shape()) == (16, 1)


def test_only_what_is_extracted_is_computed() -> None:
    body = f"""%l, %t = load_ptr_tko weak %p : {POINTERS} -> {FLOATS}, token
    %g = mulf %l, %seven rounding<nearest_even> : {FLOATS}
    %one = constant <i32: 1> : tile<i32>
    %e = extract %g[%one] : {FLOATS} -> tile<4xf32>
    print_tko "%f", %e : tile<4xf32> -> token"""
    found = next(o for o in simplified(HEAD + body + END).walk() if o.name == "arith.mulf")
    assert tuple(found.results[0].type.get_shape()) == (4,)


def test_a_fact_about_a_splat_is_one_about_its_scalar() -> None:
    body = f"""%n1 = reshape %n : tile<i32> -> tile<1xi32>
    %ns = broadcast %n1 : tile<1xi32> -> {INTS}
    %k = assume bounded<0, 100>, %ns : {INTS}
    %r = addi %k, %i : {INTS}
    %u = store_ptr_tko weak %q, %r : {POINTERS.replace("f32", "i32")}, {INTS} -> token"""
    found: Any = next(o for o in simplified(HEAD + body + END).walk() if o.name == "nv_tileaa.assume")
    assert str(found.results[0].type) == "i32"


CAS = "%old, %t = atomic_cas_tko {} %q, {}, {} : tile<16xptr<i32>>, tile<16xi32> -> tile<16xi32>, token"


@pytest.mark.parametrize(("compare", "value", "gone"), [("%five", "%five", True), ("%i", "%i", True), ("%five", "%zero", False),
                                                        ("%i", "%five", False)])
def test_a_swap_with_what_is_there_changes_nothing(compare: str, value: str, gone: bool) -> None:
    assert ops_of(CAS.format("relaxed device", compare, value))["atomic_cas"] == (not gone)
    assert ops_of(CAS.format("acq_rel device", compare, value))["atomic_cas"] == 1
    reads = f"%u = store_ptr_tko weak %q, %old : {POINTERS.replace('f32', 'i32')}, {INTS} -> token"
    assert ops_of(f"{CAS.format('relaxed device', compare, value)}\n{reads}")["atomic_cas"] == 1


@pytest.mark.parametrize(("mode", "operand", "gone"), [("max", -(1 << 31), True), ("min", (1 << 31) - 1, True),
                                                       ("max", (1 << 31) - 1, False), ("min", -(1 << 31), False)])
def test_signed_extremes(mode: str, operand: int, gone: bool) -> None:
    body = f"%end = constant <i32: {operand}> : {INTS}\n{ATOMIC.format('relaxed device', mode, '%end')}"
    assert ops_of(body)["atomic_rmw"] == (not gone)


PRODUCT = """%l = constant <i8: {l}> : tile<16x32xi8>
    %r = constant <i8: {r}> : tile<32x16xi8>
    %x2 = reshape %i : tile<16xi32> -> tile<16x1xi32>
    %acc = broadcast %x2 : tile<16x1xi32> -> tile<16x16xi32>
    %d = mmai %l, %r, %acc {signs} : tile<16x32xi8>, tile<32x16xi8>, tile<16x16xi32>
    %at = constant <i32: 16> : tile<16x1xi32>
    %row = muli %x2, %at : tile<16x1xi32>
    %rows = broadcast %row : tile<16x1xi32> -> tile<16x16xi32>
    %y2 = reshape %i : tile<16xi32> -> tile<1x16xi32>
    %ys = broadcast %y2 : tile<1x16xi32> -> tile<16x16xi32>
    %o = addi %rows, %ys : tile<16x16xi32>
    %b2 = reshape %b : tile<ptr<i32>> -> tile<1x1xptr<i32>>
    %b3 = broadcast %b2 : tile<1x1xptr<i32>> -> tile<16x16xptr<i32>>
    %b4 = offset %b3, %o : tile<16x16xptr<i32>>, tile<16x16xi32> -> tile<16x16xptr<i32>>
    %u = store_ptr_tko weak %b4, %d : tile<16x16xptr<i32>>, tile<16x16xi32> -> token"""


@pytest.mark.parametrize(("left", "right", "signs"), [(3, 5, "signed signed"), (-3, 5, "signed signed"),
                                                      (-3, -5, "unsigned signed"), (-128, -1, "unsigned unsigned"),
                                                      (-128, -1, "signed unsigned")])
def test_a_product_of_equal_numbers_is_a_sum(left: int, right: int, signs: str) -> None:
    body = PRODUCT.format(l=left, r=right, signs=signs)
    assert ops_of(body)["dot"] == 0
    lhs, rhs = (value % 256 if sign == "unsigned" else value for value, sign in zip((left, right), signs.split()))
    for level in (0, 3):
        code = tileiras.compile(write(parse_module(HEAD + body + END), "13.2"), gpu_name="sm_90", opt_level=level)
        out = np.zeros((16, 16), np.int32)
        simulate(code.ptx, "k", (1, 1, 1), [np.zeros(16, np.float32), out, np.int32(0)])
        assert out.tolist() == [[row + 32 * lhs * rhs] * 16 for row in range(16)]


PARTS = f"""%l, %tl = load_ptr_tko weak %p : {POINTERS} -> {FLOATS}, token
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %g = extract %l[%two] : {FLOATS} -> tile<4xf32>
    %h = exp %g : tile<4xf32>
"""
OF_FOUR = "tile<4xf32>"


@pytest.mark.parametrize(("body", "kept"), [
    # a part of what was put together: the part that was put there, or a part of the rest
    (f"%w = insert %h , %l[%n] : {OF_FOUR}, {FLOATS}\n%e = extract %w[%n] : {FLOATS} -> {OF_FOUR}",
     {"extract": 1, "insert": 0}),
    (f"%w = insert %h , %l[%one] : {OF_FOUR}, {FLOATS}\n%e = extract %w[%two] : {FLOATS} -> {OF_FOUR}",
     {"extract": 2, "insert": 0}),
    (f"%w = insert %h , %l[%n] : {OF_FOUR}, {FLOATS}\n%e = extract %w[%two] : {FLOATS} -> {OF_FOUR}",
     {"extract": 2, "insert": 1}),
    # put back where it was
    (f"%v = extract %l[%n] : {FLOATS} -> {OF_FOUR}\n%w = insert %v , %l[%n] : {OF_FOUR}, {FLOATS}\n"
     f"%e = extract %w[%two] : {FLOATS} -> {OF_FOUR}", {"extract": 2, "insert": 0}),
])
def test_parts_of_what_is_put_together(body: str, kept: dict[str, int]) -> None:
    counted = ops_of(f'{PARTS}{body}\nprint_tko "%f %f", %e, %h : {OF_FOUR}, {OF_FOUR} -> token')
    assert {name: counted[name] for name in kept} == kept


def test_a_part_is_taken_before_extents_of_one_are_added() -> None:
    body = f"""%l, %t = load_ptr_tko weak %p : {POINTERS} -> {FLOATS}, token
    %s = mulf %l, %seven rounding<nearest_even> : {FLOATS}
    %c = reshape %s : {FLOATS} -> tile<1x16x1xf32>
    %zero0 = constant <i32: 0> : tile<i32>
    %e = extract %c[%zero0, %n, %zero0] : tile<1x16x1xf32> -> tile<1x4x1xf32>
    print_tko "%f", %e : tile<1x4x1xf32> -> token"""
    found = next(o for o in simplified(HEAD + body + END).walk() if o.name == "arith.mulf")
    assert tuple(found.results[0].type.get_shape()) == (4,)


@pytest.mark.parametrize("level", [0, 3])
def test_memory_is_the_same(level: int) -> None:
    """All of it in one kernel, at both levels, against what is written out here."""
    body = f"""{LOAD.format("weak")}
    {ATOMIC.format("relaxed device", "add", "%zero").replace("%t ", "%t1 ").replace("%old, %t =", "%old, %t1 =")}
    %l, %t2 = load_ptr_tko weak %p token=%t : {POINTERS} -> {FLOATS}, token
    %s = addf %x, %l rounding<nearest_even> : {FLOATS}
    %g = negf %s : {FLOATS}
    {STORE.format("weak")}
    %far = constant <i32: 8> : {INTS}
    %p1 = offset %p, %far : {POINTERS}, {INTS} -> {POINTERS}
    %p2 = offset %p1, %far : {POINTERS}, {INTS} -> {POINTERS}
    %w = store_ptr_tko weak %p2, %g : {POINTERS}, {FLOATS} -> token"""
    code = tileiras.compile(write(parse_module(HEAD + body + END), "13.2"), gpu_name="sm_90", opt_level=level)
    a, b = np.arange(32, dtype=np.float32), np.arange(16, dtype=np.int32)
    report = simulate(code.ptx, "k", (1, 1, 1), [a, b, np.int32(0)])
    assert not report.findings
    assert a[:16].tolist() == list(range(16)) and a[16:].tolist() == [-(7.0 + i) for i in range(16)]
    assert b.tolist() == list(range(16))
