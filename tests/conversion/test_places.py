"""argmax and argmin: which bodies of reductions are told to be such, and that their few instructions find the places that the
bodies would, among ties, zeros of either sign and what is no number."""
from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, StringAttr, i1
from xdsl.ir import Operation, SSAValue

from tests.conversion.test_moves import any_layout
from tests.conversion.test_reduce import arg_max, reduce_op
from tests.conversion.tiles import TYPES, Tile, run, tensor
from tileiras.analysis.places import Places, places_of
from tileiras.dialects import arith
from tileiras.layout.linear import blocked


class Spelled:
    """A body in the making: comparisons and logic on its arguments."""

    def __init__(self, args: list[SSAValue]) -> None:
        self.ops: list[Operation] = []
        self.a, self.b, self.i, self.j = args

    def _add(self, op: Any) -> SSAValue:
        self.ops.append(op)
        return op.results[0]

    def compare(self, predicate: str, x: SSAValue, y: SSAValue) -> SSAValue:
        cls = arith.Cmpi if isinstance(x.type, IntegerType) else arith.Cmpf
        return self._add(cls.make([x, y], [i1], {"predicate": StringAttr(predicate)}))

    def both(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self._add(arith.Andi.make([x, y], [i1]))

    def either(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self._add(arith.Ori.make([x, y], [i1]))

    def take(self, first: SSAValue) -> tuple[list[Operation], list[SSAValue]]:
        """What the body yields: the first pair or the second."""
        out = [self._add(arith.Select.make([first, x, y], [x.type])) for x, y in ((self.a, self.b), (self.i, self.j))]
        return self.ops, out


def numbers(better: str, nan: str, places: str = "slt") -> Any:
    """Floats: `better` than the other, or as good at the smaller place; NaN "loses" or "wins" against numbers."""
    def combine(args: list[SSAValue]) -> tuple[list[Operation], list[SSAValue]]:
        s = Spelled(args)
        odd, other = s.compare("une", s.a, s.a), s.compare("une", s.b, s.b)
        fine, other_fine = s.compare("oeq", s.a, s.a), s.compare("oeq", s.b, s.b)
        ahead = s.either(s.compare(f"o{better}", s.a, s.b), s.both(fine, other) if nan == "loses" else s.both(odd, other_fine))
        alike = s.either(s.compare("oeq", s.a, s.b), s.both(odd, other))
        return s.take(s.either(ahead, s.both(alike, s.compare(places, s.i, s.j))))
    return combine


def whole(better: str, places: str = "slt") -> Any:
    """Integers."""
    def combine(args: list[SSAValue]) -> tuple[list[Operation], list[SSAValue]]:
        s = Spelled(args)
        return s.take(s.either(s.compare(better, s.a, s.b), s.both(s.compare("eq", s.a, s.b), s.compare(places, s.i, s.j))))
    return combine


def built(combine: Any, values: Any = np.float32, places: Any = np.int32) -> Operation:
    """A reduction of which nothing is used."""
    layout = blocked((16, 32), 4, 2)
    sources: Any = [arith.Constant.create(result_types=[tensor(layout, TYPES[np.dtype(t)])]).results[0] for t in (values, places)]
    out = layout.drop(1).compact_regs()
    return reduce_op(sources, 1, combine, [tensor(out, TYPES[np.dtype(t)]) for t in (values, places)])


@pytest.mark.parametrize(("combine", "values", "told"), [
    (numbers("gt", "loses"), np.float32, Places(True, True, True, True, "loses")),
    (numbers("lt", "wins"), np.float64, Places(False, True, True, True, "wins")),
    (numbers("gt", "loses", "sgt"), np.float16, Places(True, False, True, True, "loses")),
    (numbers("gt", "loses", "ult"), np.float32, Places(True, True, True, False, "loses")),
    (whole("sgt"), np.int32, Places(True, True, True, True, "")),
    (whole("ult", "sle"), np.uint8, Places(False, True, False, True, ""))])
def test_what_is_told(combine: Any, values: Any, told: Places) -> None:
    assert places_of(built(combine, values)) == told


def sums(args: list[SSAValue]) -> tuple[list[Operation], list[SSAValue]]:
    ops: list[Any] = [arith.Addf.make([args[0], args[1]], [args[0].type]), arith.Addi.make([args[2], args[3]], [args[2].type])]
    return ops, [op.results[0] for op in ops]


def crossed(args: list[SSAValue]) -> tuple[list[Operation], list[SSAValue]]:
    """The larger value with the other one's place."""
    ops, (value, _) = whole("sgt")(args)
    place = arith.Select.make([ops[-1].operands[0], args[3], args[2]], [args[2].type])
    return [*ops, place], [value, place.results[0]]


def mixed(args: list[SSAValue]) -> tuple[list[Operation], list[SSAValue]]:
    """Signed one way and unsigned the other."""
    s = Spelled(args)
    greater = s.both(s.compare("sgt", s.a, s.b), s.compare("ugt", s.a, s.b))
    return s.take(s.either(greater, s.both(s.compare("eq", s.a, s.b), s.compare("slt", s.i, s.j))))


@pytest.mark.parametrize(("combine", "values"), [
    (arg_max, np.int32), (sums, np.float32), (crossed, np.int32), (mixed, np.int32), (numbers("ge", "loses"), np.float32)])
def test_what_isnt(combine: Any, values: Any) -> None:
    assert places_of(built(combine, values)) is None


def test_a_reduction_whose_value_is_used_is_none() -> None:
    op = built(numbers("gt", "loses"))
    assert places_of(op) is not None
    user = arith.Negf.make([op.results[0]], [op.results[0].type])
    assert places_of(op) is None and user.operands[0] is op.results[0]


def drawn(dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(4)
    x = rng.integers(0 if np.dtype(dtype).kind == "u" else -3, 4, shape).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x[x == 0] = rng.choice([0.0, -0.0], int((x == 0).sum()))
        x[rng.random(shape) < 0.1] = np.nan
        x[1] = np.nan
    return x


def wanted(x: np.ndarray, better: str, nan: str, last: bool) -> list[int]:
    out = []
    for row in x.astype(np.float64):
        best = 0
        for k in range(1, len(row)):
            a, b = row[best], row[k]
            if np.isnan(a) or np.isnan(b):
                ahead = np.isnan(a) != np.isnan(b) and np.isnan(b) == (nan == "wins")
                alike = np.isnan(a) and np.isnan(b)
            else:
                ahead, alike = (b > a if better == "gt" else b < a), a == b
            best = k if ahead or (alike and last) else best
        out.append(best)
    return out


@pytest.mark.parametrize("kind", ["blocked", "random"])
@pytest.mark.parametrize("gpu", ["sm_75", "sm_80"])
@pytest.mark.parametrize(("dtype", "better", "nan", "places"), [
    (np.float32, "gt", "loses", "slt"), (np.float32, "lt", "wins", "slt"), (np.float64, "lt", "loses", "sgt"),
    (np.float16, "gt", "wins", "ult"), (np.int32, "sgt", "", "slt"), (np.uint8, "ult", "", "sgt")])
def test_places_found(kind: str, gpu: str, dtype: Any, better: str, nan: str, places: str) -> None:
    shape, warps = (8, 64), 4
    layout = blocked(shape, warps, 2) if kind == "blocked" else any_layout(random.Random(f"{dtype} {better}"), shape, warps, 0)
    x, at = drawn(dtype, shape), np.broadcast_to(np.arange(64, dtype=np.int32), shape).copy()
    combine = numbers(better, nan, places) if nan else whole(better, places)
    out = layout.drop(1).compact_regs()

    def ops(v: list[SSAValue]) -> list[Operation]:
        types: list[Any] = [tensor(out, TYPES[np.dtype(t)]) for t in (dtype, np.int32)]
        op = reduce_op(v, 1, combine, types)
        return [op, arith.Ori.make([op.results[1], op.results[1]], [types[1]])]
    stats: dict[str, int] = {}
    [found] = run([Tile(x, layout), Tile(at, layout)], ops, warps, [np.int32], gpu, stats)
    assert found.tolist() == wanted(x, better.removeprefix("s").removeprefix("u"), nan, places == "sgt")
