"""What is a tensor map of a launch made of? Recipes as data: expressions over the kernel's parameters.

A view whose address, sizes and strides are functions of the parameters gets its tensor map before the launch, from host
code. `HostMap` says how; `host/object.py` makes machine code of it for the driver, `HostMap.encode` follows it in Python for
the simulator.

    HostMap(Param(0), "f16", sizes=(Param(2, 32), Param(1, 32)), strides=(apply("mul", Param(3, 32), Const(2)),), box=(64, 128),
            swizzle=128)

Arithmetic is that of 64-bit registers: it wraps, and a value has no sign of its own. Every expression and map has a text
(`str`), which `read_map` reads back: that is how the IR carries them.

    f16 p0 [u32(p2), u32(p1)] [mul(u32(p3), 2)] box [64, 128] swizzle 128
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from tileiras.layout.tensormap import ATOMICITIES, ELEMENTS, MAX_RANK, SWIZZLES, TensorMap

BITS = 64
MASK = (1 << BITS) - 1
DEFAULT_PROMOTION = 128
"""Bytes of L2 that a copy's lines are promoted to: what the original's maps always say."""


def _signed(value: int, bits: int = BITS) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b if b < BITS else 0, "lshr": lambda a, b: a >> b if b < BITS else 0,
    "ashr": lambda a, b: _signed(a) >> min(b, BITS - 1),
    "umin": min, "umax": max,
    "smin": lambda a, b: min(_signed(a), _signed(b)), "smax": lambda a, b: max(_signed(a), _signed(b)),
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "ult": lambda a, b: a < b, "ule": lambda a, b: a <= b,
    "slt": lambda a, b: _signed(a) < _signed(b), "sle": lambda a, b: _signed(a) <= _signed(b)}
"""Operations of two 64-bit values; the result is taken modulo 2**64. Comparisons give 1 or 0. A shift by 64 or more gives
what shifting bit by bit gives."""
COMPARISONS = ("eq", "ne", "ult", "ule", "slt", "sle")


@dataclass(frozen=True)
class Param:
    """The kernel's parameter `index` (among its ordinary ones), of `bits` bits, extended to 64 by zeros or its sign."""
    index: int
    bits: int = BITS
    signed: bool = False

    def __str__(self) -> str:
        return f"p{self.index}" if self.bits == BITS else f"{'i' if self.signed else 'u'}{self.bits}(p{self.index})"


@dataclass(frozen=True)
class Const:
    """A number, kept as 64 bits without a sign."""
    value: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", self.value & MASK)

    def __str__(self) -> str:
        return str(_signed(self.value))


@dataclass(frozen=True)
class Apply:
    """An operation of OPERATIONS on two values."""
    operation: str
    lhs: Expr
    rhs: Expr

    def __str__(self) -> str:
        return f"{self.operation}({self.lhs}, {self.rhs})"


@dataclass(frozen=True)
class Extend:
    """The low `bits` bits of a value, extended to 64 by zeros or, `signed`, by their highest: truncation and extension."""
    value: Expr
    bits: int
    signed: bool = False

    def __str__(self) -> str:
        return f"{'sext' if self.signed else 'zext'}{self.bits}({self.value})"


@dataclass(frozen=True)
class Choose:
    """`lhs` where `condition` isn't 0, else `rhs`."""
    condition: Expr
    lhs: Expr
    rhs: Expr

    def __str__(self) -> str:
        return f"select({self.condition}, {self.lhs}, {self.rhs})"


Expr: TypeAlias = "Param | Const | Apply | Extend | Choose"


def apply(operation: str, lhs: Expr, rhs: Expr) -> Expr:
    """An operation of two expressions, folded where both are known or where one changes nothing."""
    if isinstance(lhs, Const) and isinstance(rhs, Const):
        return Const(int(OPERATIONS[operation](lhs.value, rhs.value)))
    if isinstance(rhs, Const) and (operation, rhs.value) in _NEUTRAL:
        return lhs
    if isinstance(lhs, Const) and operation in _COMMUTES:
        return apply(operation, rhs, lhs)
    if operation == "mul" and isinstance(rhs, Const) and not rhs.value:
        return rhs
    return Apply(operation, lhs, rhs)


_NEUTRAL = {("add", 0), ("sub", 0), ("mul", 1), ("shl", 0), ("lshr", 0), ("ashr", 0), ("or", 0), ("xor", 0), ("and", MASK)}
_COMMUTES = {"add", "mul", "and", "or", "xor", "umin", "umax", "smin", "smax", "eq", "ne"}


def extend(value: Expr, bits: int, signed: bool = False) -> Expr:
    """`Extend`, folded where the value is known or fits already."""
    if isinstance(value, Const):
        return Const(_signed(value.value, bits) if signed else value.value & (1 << bits) - 1)
    fits = isinstance(value, Param | Extend) and (value.bits <= bits if value.signed == signed else
                                                  value.bits < bits and not value.signed)
    return value if fits or bits == BITS else Extend(value, bits, signed)


def choose(condition: Expr, lhs: Expr, rhs: Expr) -> Expr:
    """`Choose`, folded where the condition is known or doesn't matter."""
    if isinstance(condition, Const):
        return lhs if condition.value else rhs
    return lhs if lhs == rhs else Choose(condition, lhs, rhs)


def evaluate(expr: Expr, params: Sequence[int]) -> int:
    """The value of an expression, 0 to 2**64 - 1, for the values of the kernel's parameters."""
    if isinstance(expr, Param):
        value = params[expr.index] & (1 << expr.bits) - 1
        return (_signed(value, expr.bits) if expr.signed else value) & MASK
    if isinstance(expr, Const):
        return expr.value
    if isinstance(expr, Apply):
        return int(OPERATIONS[expr.operation](evaluate(expr.lhs, params), evaluate(expr.rhs, params))) & MASK
    if isinstance(expr, Extend):
        value = evaluate(expr.value, params) & (1 << expr.bits) - 1
        return (_signed(value, expr.bits) if expr.signed else value) & MASK
    return evaluate(expr.lhs if evaluate(expr.condition, params) else expr.rhs, params)


def operands(expr: Expr) -> tuple[Expr, ...]:
    """What an expression is made of."""
    if isinstance(expr, Apply):
        return expr.lhs, expr.rhs
    if isinstance(expr, Choose):
        return expr.condition, expr.lhs, expr.rhs
    return (expr.value,) if isinstance(expr, Extend) else ()


def parameters_of(expr: Expr) -> set[Param]:
    """The parameters that an expression reads."""
    return {expr} if isinstance(expr, Param) else set().union(*map(parameters_of, operands(expr)))


MAX_DEPTH, MAX_NODES = 64, 1000         # of one expression


def _is_large(expr: Expr) -> bool:
    level, count = [expr], 0
    for _ in range(MAX_DEPTH + 1):
        count += len(level)
        if not level or count > MAX_NODES:
            break
        level = [part for e in level for part in operands(e)]
    return bool(level)


@dataclass(frozen=True)
class HostMap:
    """How a launch makes one tensor map, dimension 0 innermost and contiguous.

    `address`: where the tensor begins. `element`: a name of `layout.tensormap.ELEMENTS` ("tf32" is f32 rounded by the
    copy). `sizes`: elements a dimension. `strides`: bytes, of dimensions 1 and up. `box`: elements a dimension. `swizzle`:
    0, 32, 64 or 128 bytes, with `atomicity` one of ATOMICITIES."""
    address: Expr
    element: str
    sizes: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    atomicity: str = ATOMICITIES[0]
    nan_fill: bool = False

    def __post_init__(self) -> None:
        rank = len(self.sizes)
        if self.element not in ELEMENTS or not 1 <= rank <= MAX_RANK or self.swizzle not in SWIZZLES \
                or self.atomicity not in ATOMICITIES or len(self.strides) != rank - 1 or len(self.box) != rank \
                or any(not 1 <= n <= 256 for n in self.box):
            raise ValueError(f"no tensor map is {self}")
        if any(_is_large(e) for e in (self.address, *self.sizes, *self.strides)):
            raise ValueError(f"an expression of over {MAX_DEPTH} levels or {MAX_NODES} parts")

    def at(self, params: Sequence[int]) -> TensorMap:
        """The map for the values of the kernel's parameters, whatever they are (see `TensorMap.unchecked`)."""
        sizes, strides = (tuple(evaluate(e, params) for e in part) for part in (self.sizes, self.strides))
        return TensorMap(evaluate(self.address, params), self.element, sizes, strides, self.box, swizzle=self.swizzle,
                         atomicity=self.atomicity, promotion=DEFAULT_PROMOTION, nan_fill=self.nan_fill)

    def at_zeros(self) -> TensorMap:
        """The map with its box and types, of a tensor that lies nowhere and has no elements."""
        return self.at([0] * (1 + max((p.index for p in self.parameters()), default=0)))

    @property
    def bits(self) -> int:
        """Bits of an element in global memory."""
        return ELEMENTS[self.element][0]

    def encode(self, params: Sequence[int]) -> bytes:
        """Its 128 bytes, as the host object writes them; those that it leaves alone (64 to 127) are 0."""
        return self.at(params).unchecked()

    def parameters(self) -> set[Param]:
        """The parameters that the recipe reads."""
        return set().union(*map(parameters_of, (self.address, *self.sizes, *self.strides)))

    def __str__(self) -> str:
        words = [self.element, str(self.address), *(f"[{', '.join(map(str, part))}]" for part in (self.sizes, self.strides)),
                 f"box [{', '.join(map(str, self.box))}]"]
        if self.swizzle:
            words.append(f"swizzle {self.swizzle}")
        if self.atomicity != ATOMICITIES[0]:
            words.append(f"atomicity {self.atomicity.replace(' ', '_')}")
        return " ".join(words + ["nan"] * self.nan_fill)


# ---- their text

class RecipeError(ValueError):
    """A text that is no recipe."""


MAX_TEXT = 1 << 16


class _Reader:
    """Takes the text of a map apart, from left to right."""

    def __init__(self, text: str) -> None:
        import re
        if len(text) > MAX_TEXT:
            raise RecipeError(f"a recipe of {len(text)} characters")
        self.text = text
        self.words: list[str] = re.findall(r"-?\w+(?:\.\w+)?(?:\+\w+)?|\S", text)
        self.at = 0

    def fail(self, wanted: str) -> NoReturn:
        found = self.words[self.at] if self.at < len(self.words) else "its end"
        raise RecipeError(f"'{self.text}' is no recipe of a tensor map: {wanted} expected, not {found}")

    def next(self, wanted: str) -> str:
        if self.at >= len(self.words):
            self.fail(wanted)
        self.at += 1
        return self.words[self.at - 1]

    def skip(self, word: str) -> bool:
        found = self.at < len(self.words) and self.words[self.at] == word
        self.at += found
        return found

    def take(self, word: str) -> None:
        if not self.skip(word):
            self.fail(f"'{word}'")

    def number(self) -> int:
        word = self.next("a number")
        if not word.lstrip("-").isdecimal() or len(word) > 20:
            self.at -= 1
            self.fail("a number")
        return int(word)

    def list(self, item: Callable[[], Expr | int]) -> tuple:
        self.take("[")
        out = []
        while not self.skip("]"):
            if out:
                self.take(",")
            out.append(item())
        return tuple(out)

    def expression(self, depth: int = 0) -> Expr:
        if depth > MAX_DEPTH:
            self.fail(f"an expression of at most {MAX_DEPTH} levels")
        word = self.next("an expression")
        if word.lstrip("-").isdecimal() and len(word) <= 20:
            return Const(int(word))
        if word[0] == "p" and word[1:].isdecimal() and len(word) <= 6:
            return Param(int(word[1:]))
        if word not in OPERATIONS and word != "select" and (bits := _width(word)) is None:
            self.at -= 1
            self.fail("an expression")
        self.take("(")
        parts = [self.expression(depth + 1)]
        while self.skip(","):
            parts.append(self.expression(depth + 1))
        self.take(")")
        if len(parts) != (2 if word in OPERATIONS else 3 if word == "select" else 1):
            self.fail(f"other operands of {word}")
        if word in OPERATIONS:
            return Apply(word, *parts)
        if word == "select":
            return Choose(*parts)
        if word[0] in "ui":
            if not isinstance(parts[0], Param):
                self.fail(f"a parameter as operand of {word}")
            return Param(parts[0].index, bits, word[0] == "i")
        return Extend(parts[0], bits, word[0] == "s")


def _width(word: str) -> int | None:
    """The bits of `u32`, `i8`, `zext16`, `sext32`; None for other words."""
    for prefix in ("zext", "sext", "u", "i"):
        digits = word.removeprefix(prefix)
        if word.startswith(prefix) and digits.isdecimal() and len(digits) < 3:
            return int(digits) if 1 <= int(digits) <= BITS else None
    return None


def read_map(text: str) -> HostMap:
    """The map of a text. Raises RecipeError."""
    reader = _Reader(text)
    element = reader.next("an element type")
    address, sizes, strides = reader.expression(), reader.list(reader.expression), reader.list(reader.expression)
    reader.take("box")
    box = reader.list(reader.number)
    swizzle = reader.number() if reader.skip("swizzle") else 0
    atomicity = reader.next("an atomicity").replace("_", " ") if reader.skip("atomicity") else ATOMICITIES[0]
    nan = reader.skip("nan")
    if reader.at != len(reader.words):
        reader.fail("nothing more")
    try:
        return HostMap(address, element, sizes, strides, box, swizzle, atomicity, nan)
    except ValueError as error:
        raise RecipeError(str(error)) from None
