"""Every integer op of arith and math, in every width, against Python's integers."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.conversion.harness import NUMPY, Case, evaluate, inputs_of

WIDTHS = (1, 8, 16, 32, 64)


def signed(x: int, w: int) -> int:
    x &= (1 << w) - 1
    return x - (1 << w) if x >> w - 1 else x


def unsigned(x: int, w: int) -> int:
    return x & (1 << w) - 1


def _truncated(x: int, y: int) -> int:
    q = abs(x) // abs(y)
    return -q if (x < 0) != (y < 0) else q


def _shift_left(x: int, y: int, w: int) -> int:
    return x << y if y < w else 0


# Each takes the operands as the op reads them, and the width; results are taken modulo 2^w.
SIGNED: dict[str, Callable[[int, int, int], int]] = {
    "arith.divsi": lambda x, y, w: _truncated(x, y), "arith.floordivsi": lambda x, y, w: x // y,
    "arith.ceildivsi": lambda x, y, w: -(-x // y), "arith.remsi": lambda x, y, w: x - _truncated(x, y) * y,
    "arith.maxsi": lambda x, y, w: max(x, y), "arith.minsi": lambda x, y, w: min(x, y),
    "arith.shrsi": lambda x, y, w: x >> min(unsigned(y, w), w)}
UNSIGNED: dict[str, Callable[[int, int, int], int]] = {
    "arith.addi": lambda x, y, w: x + y, "arith.subi": lambda x, y, w: x - y, "arith.muli": lambda x, y, w: x * y,
    "arith.mulhiui": lambda x, y, w: x * y >> w, "arith.divui": lambda x, y, w: x // y,
    "arith.ceildivui": lambda x, y, w: -(-x // y), "arith.remui": lambda x, y, w: x % y,
    "arith.andi": lambda x, y, w: x & y, "arith.ori": lambda x, y, w: x | y, "arith.xori": lambda x, y, w: x ^ y,
    "arith.shli": _shift_left, "arith.shrui": lambda x, y, w: x >> y if y < w else 0,
    "arith.maxui": lambda x, y, w: max(x, y), "arith.minui": lambda x, y, w: min(x, y)}
PREDICATES: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y}
DIVISIONS = {op for op in (*SIGNED, *UNSIGNED) if "div" in op or "rem" in op}


def values(w: int, seed: int) -> list[int]:
    """Every pair of corner values meets once over the two operands; then random ones, and small ones."""
    corners = sorted({unsigned(v, w) for v in (0, 1, 2, 3, 7, w - 1, w, w + 1, -1, -2, -7, 1 << w - 1, (1 << w - 1) - 1,
                                               (1 << w - 1) + 1, 0x55555555AAAAAAAA)})
    rng = np.random.default_rng(seed)
    random = [unsigned(int(v), w) for v in rng.integers(0, 1 << 63, 40)]
    small = [unsigned(int(v), w) for v in rng.integers(-9, 9, 40)]
    first = [v for v in corners for _ in corners] if seed == 0 else corners * len(corners)
    return first + random + small


def array(xs: list[int], w: int) -> np.ndarray:
    return np.array([x if w == 1 else signed(x, w) for x in xs], NUMPY[f"i{w}"])


def run(cases: list[Case], columns: dict[tuple[str, int], np.ndarray], gpu: str,
        registers: int = 4) -> list[np.ndarray]:
    return evaluate(cases, {s: columns[s] for s in inputs_of(cases)}, gpu, registers)


@pytest.mark.parametrize("registers", (4, 0))
@pytest.mark.parametrize("w", WIDTHS)
def test_binary(w: int, registers: int) -> None:
    t = f"i{w}"
    pairs = list(zip(values(w, 0), values(w, 1)))
    for divide in (False, True):
        # Division by zero, and of the least number by -1, is undefined.
        kept = [(x, y) for x, y in pairs if y and not (x == 1 << w - 1 and signed(y, w) == -1)] if divide else pairs
        ops = [op for op in (*SIGNED, *UNSIGNED) if (op in DIVISIONS) == divide]
        columns = {(t, i): array([p[i] for p in kept], w) for i in (0, 1)}
        for op, got in zip(ops, run([Case(op, (t, t), t) for op in ops], columns, "sm_90", registers)):
            for (x, y), g in zip(kept, got.tolist()):
                want = SIGNED[op](signed(x, w), signed(y, w), w) if op in SIGNED else UNSIGNED[op](x, y, w)
                assert unsigned(g, w) == unsigned(want, w), f"{op} i{w}: {x}, {y} gave {g}"


@pytest.mark.parametrize("w", (8, 16, 32, 64))
def test_division_by_a_number(w: int) -> None:
    t = f"i{w}"
    numbers = (1, 2, 6, 64, 100, 1 << w - 2, (1 << w - 1) - 1, 1 << w - 1, (1 << w) - 2, (1 << w) - 64)
    xs = sorted({unsigned(v + d, w) for v in (0, 6, 64, 100, 128, -6, -64, -128, 1 << w - 2, 3 << w - 2, 1 << w - 1)
                 for d in (-1, 0, 1)})
    cases = [Case(op, (t,), t, known=y) for op in sorted(DIVISIONS) for y in numbers]
    for case, got in zip(cases, run(cases, {(t, 0): array(xs, w)}, "sm_90")):
        assert case.known is not None
        for x, g in zip(xs, got.tolist()):
            want = (SIGNED[case.op](signed(x, w), signed(case.known, w), w) if case.op in SIGNED else
                    UNSIGNED[case.op](x, case.known, w))
            assert unsigned(g, w) == unsigned(want, w), f"{case.op} i{w}: {x}, {case.known} gave {g}"


@pytest.mark.parametrize("w", WIDTHS)
def test_unary_and_comparison(w: int) -> None:
    t = f"i{w}"
    xs, ys = values(w, 0), values(w, 1)
    predicates = ["eq", "ne", *(s + p for s in "su" for p in ("lt", "le", "gt", "ge"))]
    cases = [Case("arith.negi", (t,), t), Case("math.absi", (t,), t),
             *(Case("arith.cmpi", (t, t), "i1", {"predicate": p}) for p in predicates)]
    negated, absolute, *compared = run(cases, {(t, 0): array(xs, w), (t, 1): array(ys, w)}, "sm_90")
    assert [unsigned(g, w) for g in negated.tolist()] == [unsigned(-x, w) for x in xs]
    assert [unsigned(g, w) for g in absolute.tolist()] == [unsigned(abs(signed(x, w)), w) for x in xs]
    for p, got in zip(predicates, compared):
        read = signed if p[0] == "s" else unsigned
        assert got.tolist() == [PREDICATES[p[-2:]](read(x, w), read(y, w)) for x, y in zip(xs, ys)], p


@pytest.mark.parametrize("kind", ("i1", "i8", "i64", "f16", "bf16", "f32", "f64", "e4m3"))
def test_select(kind: str) -> None:
    condition = np.arange(64, dtype=np.uint8) % 3 // 2
    x, y = (np.arange(64).astype(np.uint8) % (2 if kind == "i1" else 100) ^ i for i in (0, 1))
    columns = {("i1", 0): condition, (kind, 1): x.astype(NUMPY[kind]), (kind, 2): y.astype(NUMPY[kind])}
    (got,) = run([Case("arith.select", ("i1", kind, kind), kind)], columns, "sm_90")
    assert np.array_equal(got, np.where(condition, columns[kind, 1], columns[kind, 2]))


def test_width_changes() -> None:
    cases = [Case(f"arith.ext{s}i", (f"i{a}",), f"i{b}") for a in (1, 8, 16, 32) for b in WIDTHS if b > a for s in "su"]
    cases += [Case("arith.trunci", (f"i{a}",), f"i{b}") for a in WIDTHS for b in WIDTHS if b < a]
    columns = {(f"i{w}", 0): array((values(w, 0) * 225)[:300], w) for w in WIDTHS}
    for case, got in zip(cases, run(cases, columns, "sm_90")):
        a, b = int(case.operands[0][1:]), int(case.result[1:])
        read = signed if case.op == "arith.extsi" else unsigned
        want = [unsigned(read(x, a), b) for x in columns[case.operands[0], 0].tolist()]
        assert [unsigned(g, b) for g in got.tolist()] == want, str(case)


def test_four_bits() -> None:
    """i4 lives in a byte whose upper half doesn't matter."""
    stored = np.arange(-128, 128).astype(np.int8)
    up, down, cut = run([Case("arith.extsi", ("i4",), "i32"), Case("arith.extui", ("i4",), "i8"),
                         Case("arith.trunci", ("i8",), "i4")], {("i4", 0): stored, ("i8", 0): stored}, "sm_90")
    assert up.tolist() == [signed(x, 4) for x in stored.tolist()]
    assert down.tolist() == [unsigned(x, 4) for x in stored.tolist()]
    assert cut.tolist() == [signed(x, 4) for x in stored.tolist()]


def test_undefined_division_is_harmless() -> None:
    """A lane that divides by zero leaves its neighbours alone."""
    x = np.arange(1, 65, dtype=np.int32)
    y = (np.arange(64, dtype=np.int32) % 4)
    ops = sorted(DIVISIONS)
    cases = [Case(op, ("i32", "i32"), "i32") for op in ops]
    for op, got in zip(ops, run(cases, {("i32", 0): x, ("i32", 1): y}, "sm_90")):
        table = SIGNED if op in SIGNED else UNSIGNED
        assert all(g == table[op](a, b, 32) for a, b, g in zip(x.tolist(), y.tolist(), got.tolist()) if b), op
