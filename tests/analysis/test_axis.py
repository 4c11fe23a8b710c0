"""Facts of the axis analysis: expected by arithmetic on small programs, and true of random programs' values."""
from __future__ import annotations

import random
from typing import Any

import pytest
from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerAttr, IntegerType, NoneAttr, StringAttr, TensorType
from xdsl.ir import Block, Region

from tests.integer_programs import Program, Undefined, evaluate, shape
from tileiras.analysis.axis import AxisAnalysis
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa

I1, I32, I64 = IntegerType(1), IntegerType(32), IntegerType(64)
PTR = aa.PtrType(IntegerType(16))


class Builder:
    """A function under construction: `b(cls, operands, type, attrs)` gives a new op's first result."""

    def __init__(self, *types) -> None:
        self.block = Block(arg_types=types)
        self.args = self.block.args
        self.func = aa.Func.make((), (), {"sym_name": StringAttr("f")}, [Region(self.block)])

    def __call__(self, cls, operands, t, attrs=None):
        op = cls.create(operands=operands, result_types=[t], properties=attrs or {})
        self.block.add_op(op)
        return op.results[0]

    def const(self, value, t: Any = I32):
        element = t.element_type if isinstance(t, TensorType) else t
        return self(arith.Constant, [], t, {"value": IntegerAttr(value, element)})

    def assume(self, value, kind, *numbers):
        values = ArrayAttr([NoneAttr() if n is None else IntAttr(n) for n in numbers])
        return self(aa.Assume, [value], value.type, {"fact": aa.AssumeAttr(StringAttr(kind), values)})

    def axis(self) -> AxisAnalysis:
        return AxisAnalysis(self.func)


def row(b: Builder, n: int, element=I32):
    return b(aa.MakeRange, [], TensorType(element, [n]))


def test_tile_of_a_row_of_blocks():
    """pid * 128 + (0..127): groups of 128 that start at multiples of 128; pointers to f16 at multiples of 16 bytes."""
    b = Builder(PTR)
    base = b.assume(b.args[0], "div_by", 16, -1, -1)
    ids = aa.GetProgramId.create(result_types=[I32, I32, I32])
    b.block.add_op(ids)
    first = b(arith.Muli, [ids.results[0], b.const(128)], I32)
    t = TensorType(I32, [128])
    offsets = b(arith.Addi, [b(aa.Splat, [first], t), row(b, 128)], t)
    pointers = b(aa.Addptr, [b(aa.Splat, [base], TensorType(PTR, [128])), offsets], TensorType(PTR, [128]))
    axis = b.axis()
    assert axis.bounds(ids.results[0]) == (0, 2**31 - 2)
    assert axis.divisor(first) == 128
    assert axis.contiguity(offsets) == (128,)
    assert axis.divisibility(offsets) == (128,)
    assert axis.contiguity(pointers) == (128,)
    assert axis.divisibility(pointers) == (16,)       # the base's alignment; 128 * 2 bytes is more
    assert axis.divisor(pointers) == 2                # neighbours are two bytes apart


def test_unaligned_start_keeps_groups_only_if_it_cannot_wrap():
    """x + (0..7) for an unknown x may pass 2^31 - 1 inside the group; for x in [0, 1000] it can't."""
    b = Builder(I32)
    t = TensorType(I32, [8])
    free = b(arith.Addi, [b(aa.Splat, [b.args[0]], t), row(b, 8)], t)
    small = b.assume(b.args[0], "bounded", 0, 1000)
    bounded = b(arith.Addi, [b(aa.Splat, [small], t), row(b, 8)], t)
    axis = b.axis()
    assert axis.contiguity(free) == (1,)
    assert axis.contiguity(bounded) == (8,)
    assert axis.bounds(bounded) == (0, 1007)


def test_mask_against_a_multiple_is_constant_in_groups():
    """16 divides n: i < n has one value in each aligned group of 16 of a range."""
    b = Builder(I32)
    n = b.assume(b.args[0], "div_by", 16, -1, -1)
    t = TensorType(I32, [64])
    mask = b(arith.Cmpi, [row(b, 64), b(aa.Splat, [n], t)], TensorType(I1, [64]), {"predicate": StringAttr("slt")})
    other = b(arith.Cmpi, [row(b, 64), b(aa.Splat, [n], t)], TensorType(I1, [64]), {"predicate": StringAttr("sle")})
    axis = b.axis()
    assert axis.constancy(mask) == (16,)
    assert axis.constancy(other) == (1,)


def test_division_and_remainder_of_a_range():
    """0..63 by 8: quotients repeat 8 times, remainders run 0..7."""
    b = Builder()
    t = TensorType(I32, [64])
    q = b(arith.Divsi, [row(b, 64), b.const(8, t)], t)
    r = b(arith.Remsi, [row(b, 64), b.const(8, t)], t)
    axis = b.axis()
    assert axis.constancy(q) == (8,) and axis.bounds(q) == (0, 7)
    assert axis.contiguity(r) == (8,) and axis.bounds(r) == (0, 7)


def test_rows_of_a_matrix():
    """i * 64 + j over a 16x32 tile: neighbours along j, equal rows along no dimension."""
    b = Builder()
    column, line = TensorType(I32, [16, 1]), TensorType(I32, [1, 32])
    full = TensorType(I32, [16, 32])
    i = b(arith.Muli, [b(aa.View, [row(b, 16)], column), b.const(64, column)], column)
    j = b(aa.View, [row(b, 32)], line)
    wide_i, wide_j = b(aa.Broadcast, [i], full), b(aa.Broadcast, [j], full)
    out = b(arith.Addi, [wide_i, wide_j], full)
    axis = b.axis()
    assert axis.constancy(wide_i) == (1, 32)
    assert axis.constancy(wide_j) == (16, 1)
    assert axis.contiguity(out) == (1, 32)
    assert axis.divisibility(out)[1] == 64
    assert axis.bounds(out) == (0, 15 * 64 + 31)


def test_loop_steps_keep_their_divisor():
    """for i in 0..n step 32 carrying p += i: both stay multiples of 32; a counter += 1 doesn't."""
    b = Builder(I32)
    zero, step = b.const(0), b.const(32)
    body = Block(arg_types=[I32, I32, I32])
    one = arith.Constant.create(result_types=[I32], properties={"value": IntegerAttr(1, I32)})
    add = arith.Addi.create(operands=[body.args[1], body.args[0]], result_types=[I32])
    count = arith.Addi.create(operands=[body.args[2], one.results[0]], result_types=[I32])
    body.add_ops([one, add, count, arith.Yield.make([[add.results[0], count.results[0]]])])
    loop = arith.For.make([zero, b.args[0], step, [zero, zero]], [[I32, I32]], {}, [Region(body)])
    b.block.add_op(loop)
    axis = b.axis()
    assert axis.divisor(body.args[0]) == 32
    assert axis.bounds(body.args[0])[0] == 0
    assert axis.divisor(loop.results[0]) == 32
    assert axis.divisor(loop.results[1]) == 1
    assert axis.const(body.args[1]) is None


def test_memref_facts():
    b = Builder(PTR, I32, I32)
    base = b.assume(b.args[0], "div_by", 32, -1, -1)
    stride = b.assume(b.args[2], "div_by", 8, -1, -1)
    t = aa.MemRefType(IntegerType(16), ArrayAttr([IntAttr(-1), IntAttr(48)]), ArrayAttr([IntAttr(-1), IntAttr(1)]))
    made = aa.MakeMemref.make([base, [b.args[1]], [stride]], [t])
    b.block.add_op(made)
    facts = b.axis().memref(made.results[0])
    assert facts.base_alignment == 32
    assert facts.extents == (None, 48) and facts.extent_divisors == (1, 48)
    assert facts.strides == (None, 1) and facts.stride_divisors == (8, 1)


def test_div_by_every_along():
    """Assumed groups of 4 that start at multiples of 8."""
    b = Builder(TensorType(I32, [4, 8]))
    known = b.assume(b.args[0], "div_by", 8, 4, 1)
    equal = b.assume(b.args[0], "same_elements", 2, 1)
    axis = b.axis()
    assert axis.contiguity(known) == (1, 4) and axis.divisibility(known) == (1, 8)
    assert axis.constancy(equal) == (2, 1)


def groups(array, dim: int, size: int):
    """The elements along `dim` in groups of `size`: an iterator of lists."""
    import numpy as np
    moved = np.moveaxis(array, dim, -1).reshape(-1, array.shape[dim] // size, size)
    return (list(g) for line in moved for g in line)


def holds(axis: AxisAnalysis, value, array) -> None:
    """Assert every fact of a value that had these elements."""
    info = axis.info(value)
    step = 4 if isinstance(getattr(value.type, "element_type", value.type), aa.PtrType) else 1
    for x in array.flatten().tolist():
        assert x % info.divisor == 0, (value, info, array)
        assert info.lo is None or info.lo <= x, (value, info, array)
        assert info.hi is None or x <= info.hi, (value, info, array)
    for dim in range(len(shape(value.type))):
        for g in groups(array, dim, info.contiguity[dim]):
            assert g == [g[0] + step * i for i in range(len(g))], (value, info, array)
            assert g[0] % info.start[dim] == 0, (value, info, array)
        for g in groups(array, dim, info.constancy[dim]):
            assert all(x == g[0] for x in g), (value, info, array)


@pytest.mark.parametrize("seed", range(150))
def test_facts_hold_of_random_programs(seed):
    program = Program(seed)
    axis = AxisAnalysis(program.func)
    rng = random.Random(seed)
    for _ in range(4):
        try:
            seen, _ = evaluate(program.func, program.arguments(rng))
        except Undefined:
            continue
        for value, arrays in seen.items():
            for array in arrays[:40]:
                holds(axis, value, array)
