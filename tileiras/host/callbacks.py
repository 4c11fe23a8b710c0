"""What does the host do with a launch's parameters? The body of a kernel's callback that builds its tensor maps.

It reads ordinary parameters and writes the first 64 bytes of each hidden map. Offsets are known, so it is straight code; it
checks nothing and can't fail.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tileiras.host.object import AREA, host_module
from tileiras.host.recipe import BITS, COMPARISONS, Apply, Choose, Const, Expr, Extend, HostMap, Param, apply
from tileiras.layout.tensormap import ADDRESS_BITS, LARGE, LARGE_BIT, WORD

MAP_WORDS = 8                                   # of 64 bits, that are written of a map


@dataclass(frozen=True)
class HostKernel:
    """A kernel as the host sees it: `offsets` of all its parameters: the ordinary ones; where it builds `device_maps` on the
    device, a hidden pointer to memory for them; a hidden map for each of `maps`."""
    name: str
    offsets: tuple[int, ...] = ()
    maps: tuple[HostMap, ...] = ()
    device_maps: int = 0


def module_of(kernels: Sequence[HostKernel], triple: str) -> str:
    """The LLVM module of the host object of some kernels."""
    before, bodies = 0, []
    for kernel in kernels:
        bodies.append((kernel.name, _body(kernel, before)))
        before += kernel.device_maps
    return host_module(bodies, triple, before)


def _body(kernel: HostKernel, before: int) -> list[str]:
    """Its instructions. `before`: device-built maps of the kernels before this one, whose memory comes first."""
    body = _Body(kernel)
    first = len(kernel.offsets) - len(kernel.maps)
    if kernel.device_maps:
        memory = body.new(f"load i64, ptr {body.new('getelementptr i64, ptr %runtime, i64 1')}")
        if before:
            skipped = body.new(f"mul i64 {body.new(f'load i64, ptr @{AREA}')}, {before}")
            memory = body.new(f"add i64 {memory}, {skipped}")
        body.lines.append(f"  store i64 {memory}, ptr {body.place(kernel.offsets[first - 1])}, align 1")
    for made, at in zip(kernel.maps, kernel.offsets[first:]):
        for word, value in enumerate(map_words(made)):
            body.store(at + 8 * word, value)
    return body.lines


def map_words(made: HostMap) -> list[Expr]:
    """The eight 64-bit words of a map as expressions: what `TensorMap.unchecked` computes, known before sizes are."""
    fixed = made.at_zeros().words()
    words: list[Expr] = [Const(w) for w in fixed]
    address = apply("and", made.address, Const(ADDRESS_BITS))
    words[0], words[1] = apply("and", address, Const(WORD)), apply("lshr", address, Const(32))
    span = apply("lshr", apply("mul", made.sizes[0], Const(made.bits)), Const(3))
    high: Expr = Const(0)
    for d, (size, stride) in enumerate(zip(made.sizes[1:], made.strides)):
        span = apply("add", span, apply("mul", apply("sub", size, Const(1)), stride))
        words[3 + d] = apply("and", apply("lshr", stride, Const(4)), Const(WORD))
        high = apply("or", high, apply("shl", apply("and", apply("lshr", stride, Const(36)), Const(15)), Const(4 * d)))
    words[7] = high
    large = apply("ule", Const(LARGE), span)
    words[2] = apply("or", Const(fixed[2] & ~(1 << LARGE_BIT)), apply("shl", large, Const(LARGE_BIT)))
    for d, size in enumerate(made.sizes):
        words[8 + d] = apply("and", apply("sub", size, Const(1)), Const(WORD))
    return [apply("or", words[2 * i], apply("shl", words[2 * i + 1], Const(32))) for i in range(MAP_WORDS)]


_SHIFTS = ("shl", "lshr", "ashr")


class _Body:
    """Instructions of one callback; a value that occurs again is computed once."""

    def __init__(self, kernel: HostKernel) -> None:
        self.kernel = kernel
        self.lines: list[str] = []
        self.known: dict[Expr, str] = {}
        self.count = 0

    def new(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def place(self, offset: int) -> str:
        return self.new(f"getelementptr i8, ptr %params, i64 {offset}") if offset else "%params"

    def store(self, offset: int, value: Expr) -> None:
        text = self.value(value)
        self.lines.append(f"  store i64 {text}, ptr {self.place(offset)}, align 1")

    def value(self, expr: Expr) -> str:
        found = self.known.get(expr)
        if found is None:
            found = self.known[expr] = self._compute(expr)
        return found

    def _extended(self, value: str, bits: int, signed: bool) -> str:
        return value if bits == BITS else self.new(f"{'sext' if signed else 'zext'} i{bits} {value} to i64")

    def _compute(self, expr: Expr) -> str:
        if isinstance(expr, Const):
            return str(expr.value)
        if isinstance(expr, Param):
            where = self.place(self.kernel.offsets[expr.index])
            return self._extended(self.new(f"load i{expr.bits}, ptr {where}, align 1"), expr.bits, expr.signed)
        if isinstance(expr, Extend):
            low = self.value(expr.value)
            return self._extended(self.new(f"trunc i64 {low} to i{expr.bits}"), expr.bits, expr.signed) if expr.bits < BITS else low
        if isinstance(expr, Choose):
            condition, lhs, rhs = self.value(expr.condition), self.value(expr.lhs), self.value(expr.rhs)
            return self.new(f"select i1 {self.new(f'icmp ne i64 {condition}, 0')}, i64 {lhs}, i64 {rhs}")
        lhs, rhs, operation = self.value(expr.lhs), self.value(expr.rhs), expr.operation
        if operation in COMPARISONS:
            return self._extended(self.new(f"icmp {operation} i64 {lhs}, {rhs}"), 1, False)
        if operation in _SHIFTS:
            return self._shift(operation, lhs, rhs, expr)
        if operation[1:] in ("min", "max"):
            test = self.new(f"icmp {operation[0]}{'lt' if operation[1:] == 'min' else 'gt'} i64 {lhs}, {rhs}")
            return self.new(f"select i1 {test}, i64 {lhs}, i64 {rhs}")
        return self.new(f"{operation} i64 {lhs}, {rhs}")

    def _shift(self, operation: str, lhs: str, rhs: str, expr: Apply) -> str:
        """LLVM's shifts by 64 or more have no value: here they shift everything out."""
        if isinstance(expr.rhs, Const) and expr.rhs.value < BITS:
            return self.new(f"{operation} i64 {lhs}, {rhs}")
        far = self.new(f"icmp ugt i64 {rhs}, {BITS - 1}")
        near = self.new(f"select i1 {far}, i64 {BITS - 1}, i64 {rhs}")
        shifted = self.new(f"{operation} i64 {lhs}, {near}")
        return shifted if operation == "ashr" else self.new(f"select i1 {far}, i64 0, i64 {shifted}")
