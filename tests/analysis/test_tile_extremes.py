"""Conditions under which masks have one value everywhere: true of every element, by plain arithmetic, and not needlessly narrow."""
from __future__ import annotations

import random
from typing import Any

import pytest
from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, TensorType
from xdsl.ir import Block, SSAValue

from tests.integer_programs import wrap
from tileiras.analysis.tile_extremes import Least, conditions
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa

I1, I32 = IntegerType(1), IntegerType(32)
ROWS, COLUMNS = 4, 8
TILE = TensorType(I32, [ROWS, COLUMNS])
MASK = TensorType(I1, [ROWS, COLUMNS])
COMPARED = {"slt": int.__lt__, "sle": int.__le__, "sgt": int.__gt__, "sge": int.__ge__}
EDGE = 2**31


class Maker:
    """A mask under construction, with what its elements are for given scalars."""

    def __init__(self, count: int) -> None:
        self.block = Block(arg_types=[I32] * count)
        self.values: dict[SSAValue, Any] = {}

    def __call__(self, cls: Any, operands: list[SSAValue], t: Any, value: Any, attrs: Any = None) -> SSAValue:
        op = cls.create(operands=operands, result_types=[t], properties=attrs or {})
        self.block.add_op(op)
        self.values[op.results[0]] = value
        return op.results[0]

    def scalar(self, number: int) -> SSAValue:
        v = self.block.args[number]
        self.values[v] = lambda given, row, column: given[number]
        return self(aa.Splat, [v], TILE, self.values[v])

    def constant(self, n: int) -> SSAValue:
        return self(arith.Constant, [], TILE, lambda *_: n, {"value": IntegerAttr(n, I32)})

    def rows(self) -> SSAValue:
        line = self(aa.MakeRange, [], TensorType(I32, [ROWS]), lambda given, row, column: row)
        upright = self(aa.View, [line], TensorType(I32, [ROWS, 1]), self.values[line])
        return self(aa.Broadcast, [upright], TILE, self.values[line])

    def columns(self) -> SSAValue:
        line = self(aa.MakeRange, [], TensorType(I32, [COLUMNS]), lambda given, row, column: column)
        flat = self(aa.View, [line], TensorType(I32, [1, COLUMNS]), self.values[line])
        return self(aa.Broadcast, [flat], TILE, self.values[line])

    def of(self, cls: Any, a: SSAValue, b: SSAValue) -> SSAValue:
        f, g = self.values[a], self.values[b]
        compute = {arith.Addi: int.__add__, arith.Subi: int.__sub__, arith.Muli: int.__mul__}[cls]
        return self(cls, [a, b], TILE, lambda *at: wrap(compute(f(*at), g(*at)), 32))

    def compared(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        f, g = self.values[a], self.values[b]
        return self(arith.Cmpi, [a, b], MASK, lambda *at: COMPARED[predicate](f(*at), g(*at)), {"predicate": StringAttr(predicate)})

    def joined(self, cls: Any, a: SSAValue, b: SSAValue) -> SSAValue:
        f, g = self.values[a], self.values[b]
        return self(cls, [a, b], MASK, lambda *at: (f(*at) and g(*at)) if cls is arith.Andi else (f(*at) or g(*at)))

    def elements(self, mask: SSAValue, given: list[int]) -> set[bool]:
        return {bool(self.values[mask](given, row, column)) for row in range(ROWS) for column in range(COLUMNS)}


def hold(found: Any, block: Block, given: list[int]) -> bool:
    numbers = dict(zip(block.args, given))
    for c in found:
        assert isinstance(c, Least)
        if c.number + sum(n * numbers[v] for v, n in c.terms) < 0:      # type: ignore[index]
            return False
    return True


def random_tile(m: Maker, r: random.Random, depth: int) -> SSAValue:
    if depth == 0:
        return r.choice([lambda: m.scalar(r.randrange(3)), m.rows, m.columns, lambda: m.constant(r.randrange(-9, 9))])()
    cls = r.choice([arith.Addi, arith.Addi, arith.Subi, arith.Muli])
    other = m.constant(r.randrange(-4, 5)) if cls is arith.Muli else random_tile(m, r, depth - 1)
    return m.of(cls, random_tile(m, r, depth - 1), other)


def scalars(r: random.Random) -> list[int]:
    near = r.choice([0, 0, EDGE - 1, -EDGE])
    return [min(max(near + r.randrange(-20, 20), -EDGE), EDGE - 1) if r.random() < 0.8 else r.randrange(-30, 30) for _ in range(3)]


@pytest.mark.parametrize("seed", range(60))
def test_where_the_conditions_hold_all_elements_agree(seed: int) -> None:
    """Random sums, also of scalars at the ends of their type, where tiles wrap around."""
    r = random.Random(seed)
    m = Maker(3)
    mask = m.compared(r.choice(list(COMPARED)), random_tile(m, r, r.randrange(3)), random_tile(m, r, r.randrange(3)))
    if r.random() < 0.5:
        other = m.compared(r.choice(list(COMPARED)), random_tile(m, r, 1), random_tile(m, r, 1))
        mask = m.joined(r.choice([arith.Andi, arith.Ori]), mask, other)
    for value in (True, False):
        found = conditions(mask, value)
        if found is None:
            continue
        for _ in range(60):
            given = scalars(r)
            if hold(found, m.block, given):
                assert m.elements(mask, given) == {value}, (value, given)


def test_a_causal_mask_is_left_out_wherever_it_may_be() -> None:
    """Small numbers: nothing wraps, and the condition is no narrower than the mask."""
    m = Maker(3)
    columns = m.of(arith.Addi, m.scalar(0), m.columns())
    rows = m.of(arith.Addi, m.scalar(1), m.rows())
    mask = m.joined(arith.Andi, m.compared("slt", columns, m.scalar(2)), m.compared("sle", columns, rows))
    found = conditions(mask, True)
    seen = set()
    for first in range(0, 40, 4):
        for row in range(0, 40, 4):
            for count in range(0, 40, 4):
                given = [first, row, count]
                everywhere = m.elements(mask, given) == {True}
                assert hold(found, m.block, given) == everywhere
                seen.add(everywhere)
    assert seen == {True, False}


def test_rows_that_wrap_around_keep_their_mask() -> None:
    m = Maker(3)
    rows = m.of(arith.Addi, m.scalar(1), m.rows())
    mask = m.compared("sle", m.constant(5), rows)
    found = conditions(mask, True)
    assert hold(found, m.block, [0, EDGE - ROWS, 0]) and m.elements(mask, [0, EDGE - ROWS, 0]) == {True}
    assert not hold(found, m.block, [0, EDGE - 1, 0]) and m.elements(mask, [0, EDGE - 1, 0]) == {True, False}


def test_what_is_no_sum_is_unknown() -> None:
    m = Maker(3)
    product = m.of(arith.Muli, m.rows(), m.columns())
    assert conditions(m.compared("slt", product, m.constant(99)), True) is None
