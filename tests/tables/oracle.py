"""What each cell must give: exact arithmetic rounded once, NumPy's functions in a longer format, or bits.

    expected(cell, operands)    -> Expected: values, which of them count, and the error allowed in ulp

Written from the public definition of the ops. Nothing here knows of the interpreter or the compiler.
"""
from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tests.conversion import reference as ref
from tests.conversion.test_casts import converted
from tests.tables.cells import INTS, POINTER_CASTS, Cell
from tests.tables.inputs import BITS, kind_of


@dataclass(frozen=True)
class Expected:
    """`values`: float64, longdouble (where `ulps` is given), or Python integers. `counts`: False where the language
    leaves the result open. `ulps`: the largest error, None where the result is exact. `source`: who says so."""

    values: np.ndarray
    counts: np.ndarray
    ulps: np.ndarray | None = None
    source: str = ""


BOUNDS: dict[str, tuple[float, float]] = {
    "exp": (2, 1), "exp2": (2, 1), "log": (1, 1), "log2": (1, 1), "rsqrt": (2, 1), "sin": (2, 2), "cos": (2, 2),
    "tan": (4, 2), "sinh": (3, 2), "cosh": (2, 1), "tanh": (2, 1), "pow": (4, 2), "atan2": (3, 2)}
"""Largest errors in ulp for f32 and f64: CUDA C++ Programming Guide, "Mathematical Functions", which counts from the
correctly rounded result; from the exact one it is half an ulp more."""


def integers(x: np.ndarray, element: str, signed: bool) -> list[int]:
    """The numbers that integers in memory mean."""
    values = [int(v) for v in (x.astype(np.int8) if element == "i4" else x)]
    top = 1 << BITS[element]
    return [v - top if signed and v >= top // 2 else v + top if not signed and v < 0 else v for v in (v % top for v in values)]


def _bits(values: list[int], element: str) -> np.ndarray:
    """Integers reduced to the width, without sign."""
    return np.array([v % (1 << BITS[element]) for v in values], object)


def floats(x: np.ndarray, element: str) -> list[float]:
    return ref.numbers(x, element if element not in ("tf32",) else "f32").tolist()


# Exact float ops.

_EXACT: dict[str, Callable[..., float]] = {"addf": ref.add, "subf": ref.sub, "mulf": ref.mul, "divf": ref.div,
                                           "fma": ref.fma, "sqrt": ref.sqrt}


def _rounded(cell: Cell, operands: list[np.ndarray]) -> Expected:
    form = ref.FORMATS[cell.result]
    rows = list(zip(*(floats(x, t) for x, t in zip(operands, cell.operands))))
    counts = np.ones(len(rows), bool)
    ulps = None
    mode = cell.mode
    if mode in ("approx", "full"):
        mode, ulps = "nearest_even", np.full(len(rows), 2.0 if cell.op == "divf" else 1.5)
    out = []
    for i, row in enumerate(rows):
        y = _EXACT[cell.op](*([ref.flush(v, form) for v in row] if cell.ftz else row), form, mode)
        if cell.ftz:
            # Whether what rounds up to the least normal number was subnormal is the machine's choice.
            edge = 2.0 ** form.emin
            counts[i] = abs(y) != edge if ulps is None else not edge / 2 < abs(y) <= edge * (1 + 2.0 ** -21)
            y = ref.flush(y, form)
        if cell.op == "divf" and cell.mode == "approx" and not 2.0 ** -126 <= abs(row[1]) <= 2.0 ** 126:
            counts[i] = False
        out.append(y)
    return Expected(np.array(out), counts, ulps, "PTX ISA" if ulps is not None else "")


def _extreme(cell: Cell, operands: list[np.ndarray]) -> Expected:
    form, largest, out = ref.FORMATS[cell.result], cell.op == "maxf", []
    for x, y in zip(*(floats(v, t) for v, t in zip(operands, cell.operands))):
        if cell.ftz:
            x, y = ref.flush(x, form), ref.flush(y, form)
        if math.isnan(x) or math.isnan(y):
            out.append(math.nan if cell.get("propagate_nan") else y if math.isnan(x) else x)
        else:
            out.append(x if ((x, math.copysign(1, x)) > (y, math.copysign(1, y))) == largest else y)
    return _exact(np.array(out))


def _exact(values: np.ndarray) -> Expected:
    return Expected(values, np.ones(len(values), bool))


def _with_numpy(function: Callable[..., Any]) -> Callable[[Cell, list[np.ndarray]], Expected]:
    def run(cell: Cell, operands: list[np.ndarray]) -> Expected:
        with np.errstate(all="ignore"):
            return _exact(function(*(ref.numbers(x, t) for x, t in zip(operands, cell.operands))))
    return run


_PREDICATES: dict[str, Callable[[Any, Any], Any]] = {
    "equal": operator.eq, "not_equal": operator.ne, "less_than": operator.lt, "less_than_or_equal": operator.le,
    "greater_than": operator.gt, "greater_than_or_equal": operator.ge}


def _compared_floats(cell: Cell, operands: list[np.ndarray]) -> Expected:
    x, y = (ref.numbers(v, t) for v, t in zip(operands, cell.operands))
    nan = np.isnan(x) | np.isnan(y)
    predicate = _PREDICATES[cell.get("comparison_predicate")]
    return _exact(np.where(nan, cell.get("comparison_ordering") == "unordered", predicate(x, y)).astype(int).astype(object))


# Functions.

def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "rsqrt": _rsqrt, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "pow": np.power, "atan2": np.arctan2,
    "fpowi": np.power}


def _function(cell: Cell, operands: list[np.ndarray]) -> Expected:
    wide = []
    for x, t in zip(operands, cell.operands):
        values: Any = np.array(integers(x, t, True)) if t in INTS else x if t == "f64" else ref.numbers(x, t)
        with np.errstate(invalid="ignore"):
            wide.append(values.astype(np.longdouble))
        if cell.ftz and t == "f32":
            wide[-1] = np.where(np.abs(wide[-1]) < np.longdouble(2.0) ** -126, np.copysign(0, wide[-1]), wide[-1])
    with np.errstate(all="ignore"):
        values = _FUNCTIONS[cell.op](*wide)
    counts = np.ones(len(values), bool)
    if cell.op == "fpowi":
        # Negative powers are reciprocals of positive ones, which must be in range.
        with np.errstate(all="ignore"):
            positive = np.abs(np.power(wide[0], np.abs(wide[1])))
        usual = (positive <= ref.FORMATS["f64" if cell.result == "f64" else "f32"].largest) | ~np.isfinite(wide[0])
        counts &= usual | (wide[1] >= 0) | (wide[0] == 0)
    if cell.ftz:
        counts &= ~((np.abs(values) < np.longdouble(2.0) ** -126 * (1 + 2.0 ** -20)) & (np.abs(values) > 0))
    ulps, source = _bound(cell, wide)
    return Expected(values, counts, ulps, source)


def _bound(cell: Cell, wide: list[np.ndarray]) -> tuple[np.ndarray, str]:
    """The error allowed for each element, in ulp."""
    one = np.ones(len(wide[0]))
    kind = cell.result
    if cell.op == "fpowi":
        # One rounding for each of the multiplications and the reciprocal.
        return one * 2 + 2 * np.minimum(np.abs(wide[1]).astype(float), 2.0 ** 32), "2 + 2|n|"
    if kind in ("f16", "bf16"):
        return one, "one rounding of f32"
    if cell.mode == "approx" and cell.op == "exp":
        with np.errstate(invalid="ignore"):
            steps = np.nan_to_num(np.floor(np.abs(1.173 * wide[0].astype(float))), posinf=0.0)
        return 2 + np.minimum(steps, 200), "2 + floor(|1.173 x|), as __expf"
    if cell.mode == "approx" and cell.op == "tanh":
        return one * 2.0 ** 13, "PTX ISA: 2^-11 relative"
    return one * (BOUNDS[cell.op][kind == "f64"] + 0.5), "CUDA guide"


# Conversions.

def _float_to_float(cell: Cell, operands: list[np.ndarray]) -> Expected:
    source, to = kind_of(cell.operands[0]), kind_of(cell.result)
    return _exact(np.array([converted(x, to, cell.mode) for x in ref.numbers(operands[0], source).tolist()]))


def _float_to_int(cell: Cell, operands: list[np.ndarray]) -> Expected:
    """Truncated. Beyond the range and for NaN it is open, but for `saturating`."""
    signed, width = cell.get("signedness") == "signed", BITS[cell.result]
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    out, counts = [], []
    for x in ref.numbers(operands[0], kind_of(cell.operands[0])).tolist():
        if width == 1:
            out.append(int(x != 0))
            counts.append(x in (0.0, 1.0))
            continue
        n = 0 if math.isnan(x) else high if x == math.inf else low if x == -math.inf else int(x)
        inside = low <= n <= high and math.isfinite(x)
        out.append(min(max(n, low), high))
        counts.append(inside or bool(cell.get("saturating")))
    return Expected(_bits(out, cell.result), np.array(counts))


def _int_to_float(cell: Cell, operands: list[np.ndarray]) -> Expected:
    form = ref.FORMATS[kind_of(cell.result)]
    numbers = integers(operands[0], cell.operands[0], cell.get("signedness") == "signed")
    return _exact(np.array([ref.rounded(Fraction(n), form) for n in numbers]))


def _resized(cell: Cell, operands: list[np.ndarray]) -> Expected:
    """exti by its signedness; trunci, open where the flags forbid what is lost."""
    source, to = cell.operands[0], cell.result
    flags = cell.get("overflow")
    numbers = integers(operands[0], source, cell.op == "trunci" or cell.get("signedness") == "signed")
    counts = []
    for n in numbers:
        width = BITS[to]
        signed_fits = -(1 << (width - 1)) <= n < 1 << (width - 1)
        unsigned_fits = 0 <= n < 1 << width
        counts.append(_allowed(flags, not signed_fits, not unsigned_fits))
    return Expected(_bits(numbers, to), np.array(counts))


def _allowed(flags: str, signed_wraps: bool, unsigned_wraps: bool) -> bool:
    return not ((signed_wraps and flags in ("no_signed_wrap", "no_wrap"))
                or (unsigned_wraps and flags in ("no_unsigned_wrap", "no_wrap")))


# Integers.

_WRAPPING: dict[str, Callable[..., Any]] = {"addi": operator.add, "subi": operator.sub, "muli": operator.mul,
                                            "shli": operator.lshift, "negi": operator.neg}


def _wrapping(cell: Cell, operands: list[np.ndarray]) -> Expected:
    """Modulo 2^width; open where a flag says that it doesn't wrap and it does."""
    element, flags = cell.result, cell.get("overflow")
    width = BITS[element]
    function, out, counts = _WRAPPING[cell.op], [], []
    shift = cell.op == "shli"
    columns = [[integers(x, element, signed) for x in operands] for signed in (True, False)]
    for signed_row, unsigned_row in zip(*(zip(*c) for c in columns)):
        s = function(signed_row[0], unsigned_row[1]) if shift else function(*signed_row)
        u = function(*unsigned_row)
        out.append(u)
        counts.append(_allowed(flags, not -(1 << (width - 1)) <= s < 1 << (width - 1), not 0 <= u < 1 << width))
    return Expected(_bits(out, element), np.array(counts))


def _divided(a: int, b: int, rounding: str) -> int:
    q = Fraction(a, b)
    return {"zero": math.trunc, "negative_inf": math.floor, "positive_inf": math.ceil}[rounding](q)


def _integer(cell: Cell, operands: list[np.ndarray]) -> Expected:
    element, op = cell.result, cell.op
    width = BITS[element]
    signed = cell.get("signedness") == "signed"
    rows = zip(*(integers(x, element, signed) for x in operands))
    functions: dict[str, Callable[..., Any]] = {
        "divi": lambda a, b: _divided(a, b, cell.get("rounding")), "remi": lambda a, b: a - b * _divided(a, b, "zero"),
        "mulhii": lambda a, b: a * b >> width, "maxi": max, "mini": min, "andi": operator.and_, "ori": operator.or_,
        "xori": operator.xor, "shri": lambda a, n: a >> (n % (1 << width))}
    return _exact(_bits([functions[op](*row) for row in rows], element))


def _magnitude(cell: Cell, operands: list[np.ndarray]) -> Expected:
    """The result counts as unsigned, so that the least number has a magnitude too."""
    return _exact(_bits([abs(n) for n in integers(operands[0], cell.result, True)], cell.result))


def _compared(cell: Cell, operands: list[np.ndarray]) -> Expected:
    rows = zip(*(integers(x, t, cell.get("signedness") == "signed") for x, t in zip(operands, cell.operands)))
    predicate = _PREDICATES[cell.get("comparison_predicate")]
    return _exact(np.array([int(predicate(a, b)) for a, b in rows], object))


# Bits.

def raw(x: np.ndarray, element: str) -> np.ndarray:
    """The bits of each element as Python integers."""
    if element in INTS:
        return _bits(integers(x, element, False), element)
    return np.array(x.view(f"u{x.itemsize}").tolist(), object)


def _same_bits(cell: Cell, operands: list[np.ndarray]) -> Expected:
    return _exact(raw(operands[0], cell.operands[0]))


def _selected(cell: Cell, operands: list[np.ndarray]) -> Expected:
    return _exact(np.where(operands[0], raw(operands[1], cell.result), raw(operands[2], cell.result)))


_MEANINGS: dict[str, Callable[[Cell, list[np.ndarray]], Expected]] = {
    **dict.fromkeys(_EXACT, _rounded), **dict.fromkeys(("maxf", "minf"), _extreme), **dict.fromkeys(_FUNCTIONS, _function),
    "absf": _with_numpy(np.abs), "negf": _with_numpy(np.negative), "ceil": _with_numpy(np.ceil),
    "floor": _with_numpy(np.floor), "remf": _with_numpy(np.fmod), "cmpf": _compared_floats, "ftof": _float_to_float,
    "ftoi": _float_to_int, "itof": _int_to_float, "exti": _resized, "trunci": _resized, "absi": _magnitude,
    **dict.fromkeys(_WRAPPING, _wrapping), "cmpi": _compared, "select": _selected,
    **dict.fromkeys(("divi", "remi", "mulhii", "maxi", "mini", "andi", "ori", "xori", "shri"), _integer),
    **dict.fromkeys(("bitcast", *POINTER_CASTS), _same_bits)}
BITWISE = ("bitcast", "select", *POINTER_CASTS)
"""Ops whose results are compared bit by bit, NaN included."""


def expected(cell: Cell, operands: list[np.ndarray]) -> Expected:
    return _MEANINGS[cell.op](cell, operands)


# Judging.

def spacing(values: np.ndarray, element: str) -> np.ndarray:
    """The distance of neighbouring numbers of a format at each value."""
    form = ref.FORMATS[element]
    with np.errstate(all="ignore"):
        exponent = np.frexp(np.where(np.isfinite(values), values, 1))[1] - 1
    return np.ldexp(np.longdouble(1), np.maximum(exponent, form.emin) - form.precision + 1)


def error_in_ulp(got: np.ndarray, want: Expected, element: str) -> np.ndarray:
    """How far results are off; infinite where the kind of number is wrong. Beyond the largest number comes infinity."""
    form = ref.FORMATS[element]
    beyond = np.longdouble(form.largest) * (1 + np.longdouble(2.0) ** -form.precision)
    g = got.astype(np.longdouble) if element == "f64" else ref.numbers(got, element).astype(np.longdouble)
    w = want.values.astype(np.longdouble)
    with np.errstate(all="ignore"):
        nan = np.isnan(g) | np.isnan(w)
        g, w = (np.clip(v, -beyond, beyond) for v in (g, w))
        error = (np.abs(g - w) / spacing(w, element)).astype(float)
        error[np.signbit(g) != np.signbit(w)] += np.where((w == 0) & (g == 0), np.inf, 0)[np.signbit(g) != np.signbit(w)]
    error[nan] = np.where(np.isnan(g) & np.isnan(w), 0.0, np.inf)[nan]
    return np.where(want.counts, error, 0.0)


def wrong(cell: Cell, got: np.ndarray, want: Expected) -> np.ndarray:
    """Which elements aren't as they must be."""
    if want.ulps is not None:
        return error_in_ulp(got, want, cell.result) > want.ulps
    if cell.op in BITWISE or cell.result in INTS:
        return want.counts & (raw(got, cell.result) != want.values)
    return want.counts & ~ref.same(got, want.values.astype(float), cell.result if cell.result in ref.FORMATS else "plain")
