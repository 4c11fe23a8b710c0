"""Integer identities and constant folding. Nothing is folded whose result the language leaves undefined."""
from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import IntegerType, StringAttr
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import arith
from tileiras.dialects.nv_tileaa import PLACING
from tileiras.transforms.rules import build, element_type, int_constant, int_splat, int_width, rule, with_element, wrap

# --- folding -------------------------------------------------------------------------------------------------------


def truncated(a: int, b: int) -> int:
    """Quotient rounded to zero."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def unsigned(x: int, width: int) -> int:
    return x & (1 << width) - 1


def _divide(op: str, a: int, b: int, width: int) -> int | None:
    ua, ub = unsigned(a, width), unsigned(b, width)
    if ub == 0 or (op.endswith("si") and b == -1 and a == -(1 << width - 1)):
        return None
    return {"divsi": lambda: truncated(a, b), "floordivsi": lambda: a // b, "ceildivsi": lambda: -(-a // b),
            "remsi": lambda: a - b * truncated(a, b), "divui": lambda: ua // ub, "ceildivui": lambda: -(-ua // ub),
            "remui": lambda: ua % ub}[op]()


def _shift(op: str, a: int, b: int, width: int) -> int | None:
    count = unsigned(b, width)
    if count >= width:
        return None
    return {"shli": lambda: a << count, "shrsi": lambda: a >> count,
            "shrui": lambda: unsigned(a, width) >> count}[op]()


FOLDS: dict[str, Callable[[int, int, int], int | None]] = {
    "addi": lambda a, b, w: a + b, "subi": lambda a, b, w: a - b, "muli": lambda a, b, w: a * b,
    "andi": lambda a, b, w: a & b, "ori": lambda a, b, w: a | b, "xori": lambda a, b, w: a ^ b,
    "maxsi": lambda a, b, w: max(a, b), "minsi": lambda a, b, w: min(a, b),
    "maxui": lambda a, b, w: max(a, b, key=lambda x: unsigned(x, w)),
    "minui": lambda a, b, w: min(a, b, key=lambda x: unsigned(x, w)),
    "mulhiui": lambda a, b, w: unsigned(a, w) * unsigned(b, w) >> w,
}
for _name in ("divsi", "floordivsi", "ceildivsi", "remsi", "divui", "ceildivui", "remui"):
    FOLDS[_name] = lambda a, b, w, _op=_name: _divide(_op, a, b, w)
for _name in ("shli", "shrsi", "shrui"):
    FOLDS[_name] = lambda a, b, w, _op=_name: _shift(_op, a, b, w)

SIGNED_AMBIGUOUS = frozenset({"maxsi", "minsi", "divsi", "floordivsi", "ceildivsi", "remsi", "shrsi", "shli", "shrui"})
"""Ops that aren't folded on i1, where the sign bit is the value."""

COMMUTATIVE = frozenset({"addi", "muli", "andi", "ori", "xori", "maxsi", "minsi", "maxui", "minui", "mulhiui"})

ZERO_RIGHT = frozenset({"addi", "subi", "ori", "xori", "shli", "shrsi", "shrui"})
"""Ops for which x op 0 is x."""

ONE_RIGHT = frozenset({"muli", "divsi", "divui", "floordivsi", "ceildivsi", "ceildivui"})
"""Ops for which x op 1 is x (but on i1, where 1 may mean -1, only the unsigned ones)."""


@rule(*(f"arith.{name}" for name in FOLDS))
def fold_binary(op: Operation) -> SSAValue | None:
    lhs, rhs = op.operands
    name = op.name[6:]
    t = op.results[0].type
    width = int_width(t)
    a, b = int_constant(lhs), int_constant(rhs)
    if a is not None and b is not None:
        if width == 1 and name in SIGNED_AMBIGUOUS:
            return None
        folded = FOLDS[name](a, b, width)
        return None if folded is None else int_splat(op, t, folded)
    if a is not None and b is None and name in COMMUTATIVE:
        lhs, rhs, b = rhs, lhs, a
        op.operands = (lhs, rhs)
    if b is not None:
        return _right_constant(op, name, lhs, rhs, b, width)
    if lhs is rhs:
        if name in ("subi", "xori"):
            return int_splat(op, t, 0)
        if name in ("andi", "ori", "maxsi", "minsi", "maxui", "minui"):
            return lhs
    return None


def _right_constant(op: Operation, name: str, lhs: SSAValue, rhs: SSAValue, b: int, width: int) -> SSAValue | None:
    """x op b."""
    t = op.results[0].type
    ones = 1 if width == 1 else -1
    if b == 0:
        if name in ZERO_RIGHT:
            return lhs
        if name in ("muli", "andi", "mulhiui", "minui"):
            return rhs
        if name == "maxui":
            return lhs
    if b == 1 and name in ONE_RIGHT and (width > 1 or name in ("muli", "divui", "ceildivui")):
        return lhs
    if b == 1 and width > 1 and name in ("remsi", "remui", "mulhiui"):
        return int_splat(op, t, 0)
    if b == ones:
        if name in ("andi", "minui"):
            return lhs
        if name in ("ori", "maxui"):
            return rhs
    return _reassociate(op, name, lhs, b, width)


def _reassociate(op: Operation, name: str, lhs: SSAValue, b: int, width: int) -> SSAValue | None:
    """(x + a) + b -> x + (a + b), and so for *, &, |, ^: modulo 2^n, overflow promises dropped."""
    inner = lhs.owner
    if name not in ("addi", "muli", "andi", "ori", "xori") or not isinstance(inner, type(op)):
        return None
    a = int_constant(inner.operands[1])
    if a is None or not lhs.has_one_use():
        return None
    folded = FOLDS[name](a, b, width)
    assert folded is not None
    t = op.results[0].type
    return build(op, type(op), (inner.operands[0], int_splat(op, t, folded)), t)  # type: ignore[arg-type]


@rule("arith.negi")
def fold_negate(op: Operation) -> SSAValue | None:
    (source,) = op.operands
    a = int_constant(source)
    if a is not None:
        return int_splat(op, op.results[0].type, -a)
    inner = source.owner
    return inner.operands[0] if isinstance(inner, arith.Negi) else None


@rule("math.absi")
def fold_absolute(op: Operation) -> SSAValue | None:
    a, width = int_constant(op.operands[0]), int_width(op.results[0].type)
    if a is None or width == 1:
        return None
    return int_splat(op, op.results[0].type, abs(a))


COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}


@rule("arith.cmpi")
def fold_compare(op: Operation) -> SSAValue | None:
    lhs, rhs = op.operands
    predicate: str = op.properties["predicate"].data  # type: ignore[attr-defined]
    word = predicate if predicate in COMPARISONS else predicate[1:]
    t, width = op.results[0].type, int_width(lhs.type)
    if lhs is rhs:
        return int_splat(op, t, word in ("eq", "le", "ge"))
    a, b = int_constant(lhs), int_constant(rhs)
    if b == 0 and width > 1 and predicate in ("eq", "ne"):
        truth = _truth(op, lhs)
        if truth is not None:
            return truth if predicate == "ne" else build(op, arith.Xori, (truth, int_splat(op, t, 1)), t)
    if a is None or b is None:
        return _compare_narrow(op, predicate, lhs, rhs)
    if predicate not in COMPARISONS:
        if predicate[0] == "u":
            a, b = unsigned(a, width), unsigned(b, width)
        elif width == 1:
            a, b = -a, -b
    return int_splat(op, t, COMPARISONS[word](a, b))


def _compare_narrow(op: Operation, predicate: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue | None:
    """ext(a) < ext(b) -> a < b: sign extension keeps the order of signed and of unsigned integers, zero extension that of
    unsigned ones, and its results compare alike either way. Extensions are found behind what only places elements."""
    kind = _extension(lhs) or _extension(rhs)
    if kind is None:
        return None
    cls, width = kind
    signed = cls is arith.Extsi
    narrow: list[SSAValue] = []
    for v in (lhs, rhs):
        c = int_constant(v)
        if c is not None:
            if c != (wrap(c, width) if signed else unsigned(c, width)):
                return None
            narrow.append(int_splat(op, with_element(v.type, IntegerType(width)), c))
        elif _extension(v) == kind:
            narrow.append(_without_extension(op, v))
        else:
            return None
    if not signed and predicate not in COMPARISONS:
        predicate = f"u{predicate[1:]}"
    return build(op, arith.Cmpi, narrow, op.results[0].type, {"predicate": StringAttr(predicate)})


MOST_NESTED = 8
"""Ops on truth values in integers that are looked through, one behind the other."""


def _truth(op: Operation, v: SSAValue, depth: int = MOST_NESTED) -> SSAValue | None:
    """What an integer is a truth value of, 0 where false and odd where true, as C++ keeps them: ext(c) != 0 is c."""
    owner = v.owner
    if not isinstance(owner, Operation) or depth == 0:
        return None
    if isinstance(owner, (arith.Extsi, arith.Extui, arith.Trunci)):
        (source,) = owner.operands
        return source if int_width(source.type) == 1 else _truth(op, source, depth - 1)
    if owner.name in PLACING:
        inner = _truth(op, owner.operands[0], depth - 1)
        return None if inner is None else build(op, type(owner), (inner,), with_element(v.type, IntegerType(1)),    # type: ignore
                                                dict(owner.properties))
    if isinstance(owner, (arith.Andi, arith.Ori)) and v.has_one_use():
        sides = [_truth(op, side, depth - 1) for side in owner.operands]
        if sides[0] is not None and sides[1] is not None:
            return build(op, type(owner), sides, sides[0].type)     # type: ignore[arg-type]
    return None


def _extension(v: SSAValue) -> tuple[type, int] | None:
    """Which op extends an integer, and from how many bits."""
    owner = v.owner
    while isinstance(owner, Operation) and owner.name in PLACING:
        owner = owner.operands[0].owner
    if isinstance(owner, (arith.Extsi, arith.Extui)) and int_width(owner.operands[0].type) > 1:
        return type(owner), int_width(owner.operands[0].type)
    return None


def _without_extension(op: Operation, v: SSAValue) -> SSAValue:
    """What is extended, placed as `v` is."""
    owner = v.owner
    assert isinstance(owner, Operation)
    if owner.name not in PLACING:
        return owner.operands[0]
    source = _without_extension(op, owner.operands[0])
    return build(op, type(owner), (source,), with_element(v.type, element_type(source.type)),  # type: ignore[arg-type]
                 dict(owner.properties))


# --- widths --------------------------------------------------------------------------------------------------------

@rule("arith.extsi", "arith.extui", "arith.trunci")
def fold_width(op: Operation) -> SSAValue | None:
    """Constants; ext of ext; trunc of ext or of trunc."""
    (source,) = op.operands
    t, have = op.results[0].type, int_width(source.type)
    a = int_constant(source)
    if a is not None:
        if isinstance(op, arith.Extui):
            a = unsigned(a, have)
        elif isinstance(op, arith.Extsi) and have == 1:
            a = -a
        return int_splat(op, t, a)
    inner = source.owner
    if not isinstance(inner, (arith.Extsi, arith.Extui, arith.Trunci)):
        return None
    origin = inner.operands[0]
    if isinstance(op, arith.Trunci):
        want, first = int_width(t), int_width(origin.type)
        if isinstance(inner, arith.Trunci) or want < first:
            return build(op, arith.Trunci, (origin,), t)
        return origin if want == first else build(op, type(inner), (origin,), t)
    if isinstance(inner, arith.Trunci):
        return None
    if isinstance(inner, arith.Extui):                 # the sign bit of a zero extension is zero
        return build(op, arith.Extui, (origin,), t)
    return build(op, arith.Extsi, (origin,), t) if isinstance(op, arith.Extsi) else None


__all__ = ["FOLDS", "truncated", "unsigned", "wrap"]
