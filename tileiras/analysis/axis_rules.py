"""What each op makes of the facts of its operands: the transfer functions of the axis analysis.

A rule takes the op and its operands' facts (None for values without facts) and gives those of its first result.
Integer arithmetic wraps: bounds that don't fit the type are dropped, and contiguity is then kept only for groups that
start at a multiple of their size, since such a group can't contain the place where numbers wrap.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, IntegerType, TensorType
from xdsl.ir import Operation

from tileiras.analysis.axis_info import (
    MAX_DIVISOR,
    Info,
    constant,
    group_of,
    join,
    limits,
    make,
    power_of_two,
    shape_of,
    uniform,
    unknown,
    width_of,
)
from tileiras.dialects.cuda_tile.types import element_bits
from tileiras.dialects.nv_tileaa import DenseTileAttr, PtrType

Infos = Sequence[Any]
Rule = Callable[[Operation, Infos], Info]

RULES: dict[str, Rule] = {}
"""By op name without its dialect, so that they serve nv_tileaa and nv_tileas."""

MAX_DENSE_ELEMENTS = 4096
"""Constants of more elements are not looked through."""

MAX_GRID = ((1 << 31) - 1, 65535, 65535)
"""Blocks along x, y and z: CUDA's limits of a grid."""


def rule(*mnemonics: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for mnemonic in mnemonics:
            RULES[mnemonic] = function
        return function
    return register


Bounds = tuple[int | None, int | None]


def fit(width: int, bounds: Bounds) -> tuple[Bounds, bool]:
    """Bounds of a result computed without wrap-around, and whether they prove that it doesn't wrap."""
    lo, hi = bounds
    least, most = limits(width)
    if lo is not None and hi is not None and lo >= least and hi <= most:
        return bounds, True
    return (None, None), False


def full(info: Info, width: int) -> tuple[int, int]:
    """The bounds, with the type's limits where there are none."""
    least, most = limits(width)
    return least if info.lo is None else info.lo, most if info.hi is None else info.hi


def cap(divisor: int) -> int:
    return min(divisor, MAX_DIVISOR)


def has_nsw(op: Operation) -> bool:
    overflow = op.properties.get("overflow")
    return overflow is not None and overflow.data in ("nsw", "nsw_nuw")  # type: ignore[attr-defined]


def clip(width: int, bounds: Bounds) -> Bounds:
    """Bounds cut to the type's: where the op promises not to wrap."""
    least, most = limits(width)
    lo, hi = bounds
    return (least if lo is None else max(lo, least)), (most if hi is None else min(hi, most))


def elementwise(op: Operation, divisor: int, bounds: Bounds, infos: Sequence[Info]) -> Info:
    """A result of which only divisor, bounds and the operands' common constancy are known."""
    shape = shape_of(op.results[0].type)
    constancy = infos[0].constancy
    for info in infos[1:]:
        constancy = tuple(map(min, constancy, info.constancy))
    ones = (1,) * len(shape)
    return make(shape, divisor, ones, ones, constancy, *bounds)


def is_signed_bit(op: Operation) -> bool:
    """A signed op on i1, whose numbers are 0 and -1 where the bounds say 0 and 1."""
    return width_of(op.results[0].type) == 1 and not op.name.endswith("ui")


def safe_groups(contiguity: tuple[int, ...], start: tuple[int, ...], wraps: bool) -> tuple[int, ...]:
    """Contiguity that holds although the sum may wrap."""
    return tuple(map(min, contiguity, start)) if wraps else contiguity


# --- sums ------------------------------------------------------------------------------------------------------------

def sum_info(op: Operation, a: Info, b: Info, bounds: Bounds, wraps: bool) -> Info:
    shape = shape_of(op.results[0].type)
    contiguity = tuple(max(min(ca, kb), min(ka, cb)) for ca, ka, cb, kb in
                       zip(a.contiguity, a.constancy, b.contiguity, b.constancy))
    start = tuple(min(a.start_of(d, c), b.start_of(d, c)) for d, c in enumerate(contiguity))
    constancy = tuple(map(min, a.constancy, b.constancy))
    return make(shape, min(a.divisor, b.divisor), safe_groups(contiguity, start, wraps), start, constancy, *bounds)


@rule("addi")
def add(op: Operation, infos: Infos) -> Info:
    a, b = infos
    width = width_of(op.results[0].type)
    (alo, ahi), (blo, bhi) = full(a, width), full(b, width)
    bounds, fits = fit(width, (alo + blo, ahi + bhi))
    if not fits and has_nsw(op):
        bounds, fits = clip(width, (alo + blo, ahi + bhi)), True
    return sum_info(op, a, b, bounds, not fits)


@rule("subi")
def sub(op: Operation, infos: Infos) -> Info:
    a, b = infos
    width = width_of(op.results[0].type)
    (alo, ahi), (blo, bhi) = full(a, width), full(b, width)
    bounds, fits = fit(width, (alo - bhi, ahi - blo))
    if not fits and has_nsw(op):
        bounds, fits = clip(width, (alo - bhi, ahi - blo)), True
    return difference_info(op, a, b, bounds, not fits)


def difference_info(op: Operation, a: Info, b: Info, bounds: Bounds, wraps: bool) -> Info:
    shape = shape_of(op.results[0].type)
    contiguity = tuple(map(min, a.contiguity, b.constancy))
    start = tuple(min(a.start_of(d, c), b.start_of(d, c)) for d, c in enumerate(contiguity))
    constancy = tuple(map(min, a.constancy, b.constancy))
    return make(shape, min(a.divisor, b.divisor), safe_groups(contiguity, start, wraps), start, constancy, *bounds)


@rule("negi")
def negate(op: Operation, infos: Infos) -> Info:
    (a,) = infos
    width = width_of(op.results[0].type)
    lo, hi = full(a, width)
    return elementwise(op, a.divisor, fit(width, (-hi, -lo))[0], infos)


# --- products --------------------------------------------------------------------------------------------------------

def scaled(op: Operation, a: Info, b: Info, factor: int) -> Info:
    """a * b, where b is known to be divisible by `factor`."""
    width = width_of(op.results[0].type)
    (alo, ahi), (blo, bhi) = full(a, width), full(b, width)
    products = (alo * blo, alo * bhi, ahi * blo, ahi * bhi)
    bounds, fits = fit(width, (min(products), max(products)))
    if not fits and has_nsw(op):
        bounds = clip(width, (min(products), max(products)))
    return elementwise(op, cap(a.divisor * factor), bounds, (a, b))


@rule("muli")
def mul(op: Operation, infos: Infos) -> Info:
    a, b = infos
    if a.const == 1:
        return b
    if b.const == 1:
        return a
    return scaled(op, a, b, b.divisor)


@rule("shli")
def shift_left(op: Operation, infos: Infos) -> Info:
    a, b = infos
    k, width = b.const, width_of(op.results[0].type)
    if k is None or not 0 <= k < width:
        return elementwise(op, a.divisor, (None, None), infos)
    if k == 0:
        return a
    return scaled(op, a, constant(shape_of(op.results[0].type), 1 << k)._replace(constancy=b.constancy), 1 << k)


# --- quotients and remainders ----------------------------------------------------------------------------------------

def quotient(op: Operation, a: Info, n: int, floor: bool) -> Info:
    """a / n for a constant n > 0, where either a >= 0, or the division rounds down (`floor`), or it is exact."""
    if n == 1:
        return a
    lo = None if a.lo is None else a.lo // n
    hi = None if a.hi is None else a.hi // n
    shape = shape_of(op.results[0].type)
    p = power_of_two(n)
    exact = p == n and a.divisor >= n
    nonnegative = a.lo is not None and a.lo >= 0
    if not (floor or exact or nonnegative):
        lo = None if a.lo is None else min(-(-a.lo // n), 0) if a.lo < 0 else lo
        hi = None if a.hi is None else max(-(-a.hi // n), 0) if a.hi < 0 else hi
    constancy = list(a.constancy)
    if p == n and (floor or nonnegative):
        for d, c in enumerate(a.contiguity):
            g = min(c, a.start_of(d, c), n)
            constancy[d] = max(constancy[d], g)
    divisor = a.divisor // n if exact else 1
    ones = (1,) * len(shape)
    return make(shape, divisor, ones, ones, tuple(constancy), lo, hi)


@rule("divsi", "floordivsi", "divui", "ceildivsi", "ceildivui")
def divide(op: Operation, infos: Infos) -> Info:
    a, b = infos
    if is_signed_bit(op):
        return elementwise(op, 1, (0, 1), infos)
    n = b.const
    kind = op.name.split(".")[1]
    unsigned = kind.endswith("ui")
    if n is None or n <= 0 or (unsigned and (a.lo is None or a.lo < 0)):
        hi = a.hi if a.lo is not None and a.lo >= 0 and b.lo is not None and b.lo >= 0 else None
        return elementwise(op, 1, (0 if hi is not None else None, hi), infos)
    if kind.startswith("ceil"):
        if power_of_two(n) == n and a.divisor >= n:
            return quotient(op, a, n, True)
        lo = None if a.lo is None else -(-a.lo // n)
        hi = None if a.hi is None else -(-a.hi // n)
        return elementwise(op, 1, (lo, hi), infos)
    return quotient(op, a, n, kind == "floordivsi")


@rule("shrsi")
def shift_right(op: Operation, infos: Infos) -> Info:
    a, b = infos
    k = b.const
    if k is None or not 0 <= k < width_of(op.results[0].type):
        return elementwise(op, 1, (None, None), infos)
    return quotient(op, a, 1 << k, True)


@rule("shrui")
def shift_right_unsigned(op: Operation, infos: Infos) -> Info:
    a, b = infos
    k, width = b.const, width_of(op.results[0].type)
    if k is None or not 0 <= k < width:
        return elementwise(op, 1, (None, None), infos)
    if (a.lo is not None and a.lo >= 0) or k == 0:
        return quotient(op, a, 1 << k, True)
    bounds = (0, (1 << width - k) - 1) if width > 1 else (None, None)
    return elementwise(op, a.divisor >> k if a.divisor >> k else 1, bounds, infos)


def remainder(op: Operation, a: Info, n: int) -> Info:
    """a mod n in [0, n), for a constant n > 0."""
    shape = shape_of(op.results[0].type)
    p = power_of_two(n)
    if p == n and a.divisor >= n:
        return constant(shape, 0)._replace(constancy=shape)
    if a.lo is not None and a.lo >= 0 and a.hi is not None and a.hi < n:
        return a
    contiguity, start = [], []
    for d, c in enumerate(a.contiguity):
        g = min(c, p, a.start_of(d, c)) if p == n else 1
        contiguity.append(g)
        start.append(min(a.start_of(d, g), p))
    hi = n - 1 if a.hi is None or a.lo is None or a.lo < 0 else min(n - 1, a.hi)
    return make(shape, min(a.divisor, p), tuple(contiguity), tuple(start), a.constancy, 0, hi)


@rule("remsi", "remui")
def rem(op: Operation, infos: Infos) -> Info:
    a, b = infos
    if is_signed_bit(op):
        return elementwise(op, 1, (0, 1), infos)
    n = b.const
    nonnegative = a.lo is not None and a.lo >= 0
    if n is not None and n > 0:
        p = power_of_two(n)
        if nonnegative or (op.name == "arith.remui" and p == n):
            return remainder(op, a, n)
        bounds = (-(n - 1), n - 1) if op.name == "arith.remsi" else (0, n - 1)
        return elementwise(op, min(a.divisor, p), bounds, infos)
    divisor = min(a.divisor, b.divisor)
    hi = a.hi if nonnegative else None
    if nonnegative and b.lo is not None and b.lo > 0 and b.hi is not None:
        hi = b.hi - 1 if hi is None else min(hi, b.hi - 1)
    return elementwise(op, divisor, (0 if nonnegative else None, hi), infos)


# --- bits ------------------------------------------------------------------------------------------------------------

@rule("andi")
def bit_and(op: Operation, infos: Infos) -> Info:
    a, b = infos
    if a.const is not None:
        a, b = b, a
    m = b.const
    if m is not None and m >= 0 and m & m + 1 == 0:
        return remainder(op, a, m + 1)
    his = [x.hi for x in (a, b) if x.lo is not None and x.lo >= 0]
    known = [h for h in his if h is not None]
    bounds = (0, min(known) if known else None) if his else (None, None)
    out = elementwise(op, max(a.divisor, b.divisor), bounds, infos)
    if m is not None and m < 0 and -m == power_of_two(m):
        groups = tuple(max(k, min(c, a.start_of(d, c), -m))
                       for d, (k, c) in enumerate(zip(out.constancy, a.contiguity)))
        out = out._replace(constancy=groups)
    return out


@rule("ori", "xori")
def bit_or(op: Operation, infos: Infos) -> Info:
    a, b = infos
    for x, y in ((a, b), (b, a)):
        if y.lo is not None and y.lo >= 0 and y.hi is not None and y.hi < x.divisor:
            lo = None if x.lo is None else x.lo + y.lo
            hi = None if x.hi is None else x.hi + y.hi
            return sum_info(op, x, y, fit(width_of(op.results[0].type), (lo, hi))[0], False)
    bounds: Bounds = (None, None)
    if a.lo is not None and b.lo is not None and a.lo >= 0 and b.lo >= 0:
        lo = max(a.lo, b.lo) if op.name == "arith.ori" else 0
        bounds = (lo, None if a.hi is None or b.hi is None else (1 << max(a.hi, b.hi).bit_length()) - 1)
    return elementwise(op, min(a.divisor, b.divisor), bounds, infos)


# --- choices ---------------------------------------------------------------------------------------------------------

def least(values: Sequence[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return min(known) if known else None


def greatest(values: Sequence[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return max(known) if known else None


@rule("maxsi")
def max_signed(op: Operation, infos: Infos) -> Info:
    a, b = infos
    if is_signed_bit(op):
        return elementwise(op, 1, (0, 1), infos)
    hi = None if a.hi is None or b.hi is None else max(a.hi, b.hi)
    return elementwise(op, min(a.divisor, b.divisor), (greatest((a.lo, b.lo)), hi), infos)


@rule("minsi")
def min_signed(op: Operation, infos: Infos) -> Info:
    a, b = infos
    if is_signed_bit(op):
        return elementwise(op, 1, (0, 1), infos)
    lo = None if a.lo is None or b.lo is None else min(a.lo, b.lo)
    return elementwise(op, min(a.divisor, b.divisor), (lo, least((a.hi, b.hi))), infos)


@rule("maxui", "minui")
def min_max_unsigned(op: Operation, infos: Infos) -> Info:
    a, b = infos
    if a.lo is not None and b.lo is not None and a.lo >= 0 and b.lo >= 0:
        return (max_signed if op.name == "arith.maxui" else min_signed)(op, infos)
    return elementwise(op, min(a.divisor, b.divisor), (None, None), infos)


@rule("absi")
def absolute(op: Operation, infos: Infos) -> Info:
    (a,) = infos
    width = width_of(op.results[0].type)
    if a.lo is not None and a.lo >= 0:
        return a
    bounds: Bounds = (None, None)
    if a.lo is not None and a.lo > limits(width)[0] and a.hi is not None:
        bounds = (0, max(-a.lo, a.hi, 0))
    return elementwise(op, a.divisor, bounds, infos)


@rule("select")
def select(op: Operation, infos: Infos) -> Info:
    condition, a, b = infos
    if condition is not None and condition.const is not None:
        return a if condition.const else b
    out = join(a, b)
    shape = shape_of(op.results[0].type)
    if not shape:
        return out
    if not shape_of(op.operands[0].type):
        return out
    groups = condition.constancy if condition is not None else (1,) * len(shape)
    return make(shape, out.divisor, tuple(map(min, out.contiguity, groups)),
                tuple(out.start_of(d, min(c, g)) for d, (c, g) in enumerate(zip(out.contiguity, groups))),
                tuple(map(min, out.constancy, groups)), out.lo, out.hi)


SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def decided(predicate: str, a: Info, b: Info) -> int | None:
    """A comparison's outcome as far as bounds tell (signed order)."""
    if predicate in ("gt", "ge"):
        return decided(SWAPPED[predicate], b, a)
    below = a.hi is not None and b.lo is not None and a.hi < b.lo
    above = a.lo is not None and b.hi is not None and a.lo > b.hi
    if predicate == "lt":
        return 1 if below else 0 if above or _touch(a.lo, b.hi) else None
    if predicate == "le":
        return 1 if below or _touch(a.hi, b.lo) else 0 if above else None
    if below or above:
        return 0 if predicate == "eq" else 1
    if a.const is not None and a.const == b.const:
        return 1 if predicate == "eq" else 0
    return None


def _touch(x: int | None, y: int | None) -> bool:
    return x is not None and x == y


@rule("cmpi")
def compare(op: Operation, infos: Infos) -> Info:
    """Groups in which x runs from a multiple of g and the bound is a multiple of g lie on one side of the bound."""
    a, b = infos
    shape = shape_of(op.results[0].type)
    predicate: str = op.properties["predicate"].data  # type: ignore[attr-defined]
    unsigned = predicate[0] == "u"
    word = predicate if predicate in ("eq", "ne") else predicate[1:]
    if not unsigned and width_of(op.operands[0].type) == 1:         # the one is -1, and less than zero
        word = SWAPPED[word]
    nonnegative = all(x.lo is not None and x.lo >= 0 for x in (a, b))
    if not unsigned or nonnegative:
        outcome = decided(word, a, b)
        if outcome is not None:
            return constant(shape, outcome)
    constancy = list(map(min, a.constancy, b.constancy))
    for x, y, w in ((a, b, word), (b, a, SWAPPED[word])):
        if w in ("lt", "ge"):
            for d, c in enumerate(x.contiguity):
                g = min(c, x.start_of(d, c), y.constancy[d], y.divisor)
                constancy[d] = max(constancy[d], g)
    ones = (1,) * len(shape)
    return make(shape, 1, ones, ones, tuple(constancy), 0, 1)


# --- widths ----------------------------------------------------------------------------------------------------------

@rule("extsi")
def extend_signed(op: Operation, infos: Infos) -> Info:
    (a,) = infos
    source = op.operands[0].type
    if width_of(source) == 1:
        lo, hi = full(a, 1)
        return elementwise(op, 1, (-hi, -lo), infos)
    lo, hi = full(a, width_of(source))
    return a._replace(lo=lo, hi=hi)


@rule("extui")
def extend_unsigned(op: Operation, infos: Infos) -> Info:
    (a,) = infos
    width = width_of(op.operands[0].type)
    if width == 1:
        lo, hi = full(a, 1)
        return elementwise(op, 1, (lo, hi), infos)
    if a.lo is not None and a.lo >= 0:
        return a._replace(hi=full(a, width)[1])
    groups = tuple(map(min, a.contiguity, a.start))
    return make(shape_of(op.results[0].type), a.divisor, groups,
                tuple(a.start_of(d, c) for d, c in enumerate(groups)), a.constancy, 0, (1 << width) - 1)


@rule("trunci")
def truncate(op: Operation, infos: Infos) -> Info:
    (a,) = infos
    width = width_of(op.results[0].type)
    least_value, most = limits(width)
    if a.lo is not None and a.hi is not None and a.lo >= least_value and a.hi <= most:
        return a
    if width == 1:
        return elementwise(op, a.divisor, (0, 1), infos) if a.divisor == 1 else \
            constant(shape_of(op.results[0].type), 0)
    groups = tuple(min(c, s, 1 << width - 1) for c, s in zip(a.contiguity, a.start))
    return make(shape_of(op.results[0].type), a.divisor, groups,
                tuple(a.start_of(d, c) for d, c in enumerate(groups)), a.constancy, None, None)


# --- sources and shapes ----------------------------------------------------------------------------------------------

@rule("constant")
def constant_rule(op: Operation, infos: Infos) -> Info:
    value, t = op.properties["value"], op.results[0].type
    shape = shape_of(t)
    if isinstance(value, IntegerAttr):
        return constant(shape, value.value.data & 1 if width_of(t) == 1 else value.value.data)
    element = t.element_type if isinstance(t, TensorType) else t
    if isinstance(value, DenseTileAttr) and isinstance(element, IntegerType):
        raw, size, width = bytes.fromhex(value.data.data), value.width.data, element.width.data
        if len(raw) // size <= MAX_DENSE_ELEMENTS:
            signed = width > 1
            numbers = [int.from_bytes(raw[i:i + size], "little", signed=signed) for i in range(0, len(raw), size)]
            ones = (1,) * len(shape)
            return make(shape, min(map(power_of_two, numbers)), ones, ones, ones, min(numbers), max(numbers))
    return unknown(shape)


@rule("make_range")
def make_range(op: Operation, infos: Infos) -> Info:
    shape = shape_of(op.results[0].type)
    n = shape[0]
    width = width_of(op.results[0].type)
    most = limits(width)[1]
    if n - 1 > most:                      # the upper half shows as negative numbers
        return make(shape, 1, (min(n, most + 1),), (most + 1,), (1,), None, None)
    return make(shape, 1, (n,), (MAX_DIVISOR,), (1,), 0, n - 1)


@rule("splat")
def splat(op: Operation, infos: Infos) -> Info:
    (a,) = infos
    return uniform(shape_of(op.results[0].type), a.divisor, a.lo, a.hi)


@rule("view")
def view(op: Operation, infos: Infos) -> Info:
    """Dimensions of extent 1 come and go; else groups along the last dimension stay groups, as far as it reaches."""
    (a,) = infos
    old, new = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    if not new:
        return Info(a.divisor, (), (), (), a.lo, a.hi)
    if a.constancy == old:
        return uniform(new, a.divisor, a.lo, a.hi)
    source = [d for d, n in enumerate(old) if n != 1]
    target = [d for d, n in enumerate(new) if n != 1]
    contiguity, start, constancy = [1] * len(new), [a.divisor] * len(new), [1] * len(new)
    if [old[d] for d in source] == [new[d] for d in target]:
        pairs = list(zip(source, target))
    else:
        pairs = [(source[-1], target[-1])] if source and target else []
    for s, t in pairs:
        c = min(a.contiguity[s], new[t])
        contiguity[t], start[t], constancy[t] = c, a.start_of(s, c), min(a.constancy[s], new[t])
    return make(new, a.divisor, tuple(contiguity), tuple(start), tuple(constancy), a.lo, a.hi)


@rule("broadcast")
def broadcast(op: Operation, infos: Infos) -> Info:
    (a,) = infos
    old, new = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    constancy = tuple(n if o == 1 else k for o, n, k in zip(old, new, a.constancy))
    return make(new, a.divisor, a.contiguity, a.start, constancy, a.lo, a.hi)


@rule("permute")
def permute(op: Operation, infos: Infos) -> Info:
    (a,) = infos
    order = [p.data for p in op.properties["permutation"].data]  # type: ignore[attr-defined]
    pick = lambda values: tuple(values[p] for p in order)  # noqa: E731
    return a._replace(contiguity=pick(a.contiguity), start=pick(a.start), constancy=pick(a.constancy))


@rule("extract")
def extract(op: Operation, infos: Infos) -> Info:
    a = infos[0]
    shape = shape_of(op.results[0].type)
    return make(shape, a.divisor, a.contiguity, a.start, a.constancy, a.lo, a.hi)


@rule("insert")
def insert(op: Operation, infos: Infos) -> Info:
    a, b = infos[0], infos[1]
    shape = shape_of(op.results[0].type)
    out = join(a, b)
    return make(shape, out.divisor, out.contiguity, out.start, out.constancy, out.lo, out.hi)


@rule("cat")
def cat(op: Operation, infos: Infos) -> Info:
    a, b = infos
    out = join(a, b)
    extents = [shape_of(v.type) for v in op.operands]
    if extents[0] != extents[1]:         # groups of the second part may straddle those of the result
        return elementwise(op, out.divisor, (out.lo, out.hi), (unknown(shape_of(op.results[0].type)),))
    return out


# --- pointers --------------------------------------------------------------------------------------------------------

def pointee_bits(op: Operation) -> int:
    t = op.results[0].type
    if isinstance(t, TensorType):
        t = t.element_type
    assert isinstance(t, PtrType)
    return element_bits(t.pointee)


def to_bytes(divisor: int, bits: int) -> int:
    """What divides a distance in bytes when `divisor` divides it in elements of `bits` bits."""
    return cap(max(divisor * bits // 8, 1))


@rule("addptr")
def addptr(op: Operation, infos: Infos) -> Info:
    p, o = infos
    bits = pointee_bits(op)
    contiguity = tuple(max(min(cp, ko), min(kp, co)) for cp, kp, co, ko in
                       zip(p.contiguity, p.constancy, o.contiguity, o.constancy))
    start = tuple(min(p.start_of(d, c), to_bytes(o.start_of(d, c), bits)) for d, c in enumerate(contiguity))
    return make(shape_of(op.results[0].type), min(p.divisor, to_bytes(o.divisor, bits)), contiguity, start,
                tuple(map(min, p.constancy, o.constancy)), None, None)


@rule("int_to_ptr", "ptr_to_int", "ptr_to_ptr")
def pointer_cast(op: Operation, infos: Infos) -> Info:
    return elementwise(op, infos[0].divisor, (None, None), infos)


# --- facts of the program --------------------------------------------------------------------------------------------

@rule("assume")
def assume(op: Operation, infos: Infos) -> Info:
    shape = shape_of(op.results[0].type)
    a = infos[0] if infos[0] is not None else unknown(shape)
    what: Any = op.properties["fact"]
    values: list[Any] = [getattr(v, "data", None) for v in what.values.data]
    kind = what.kind.data
    if kind == "div_by":
        divisor, every, along = values
        if every is None or every <= 1:
            return make(shape, max(a.divisor, divisor), a.contiguity, tuple(max(s, divisor) for s in a.start),
                        a.constancy, a.lo, a.hi)
        group = min(group_of(every), shape[along])
        c = max(group, a.contiguity[along])
        start = max(a.start_of(along, c), divisor)
        return make(shape, a.divisor, (*a.contiguity[:along], c, *a.contiguity[along + 1:]),
                    (*a.start[:along], start, *a.start[along + 1:]), a.constancy, a.lo, a.hi)
    if kind == "bounded":
        lo, hi = greatest((a.lo, values[0])), least((a.hi, values[1]))
        return make(shape, a.divisor, a.contiguity, a.start, a.constancy, lo, hi)
    if kind == "same_elements":
        constancy = tuple(max(k, group_of(v)) for k, v in zip(a.constancy, values))
        return make(shape, a.divisor, a.contiguity, a.start, constancy, a.lo, a.hi)
    return a
