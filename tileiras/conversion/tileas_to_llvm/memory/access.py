"""One machine access to global memory: plain or predicated, of 1 to 16 bytes, with its ordering.

A plain weak access is an LLVM load or store of a small vector. A predicated or ordered one is inline PTX over
untyped words, because LLVM has no predicated access and drops some orderings:

    @%p ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%rd];     the results tied to their values where %p is false

An ordered access moves words of the element's own width, since PTX's memory model makes no promise on accesses of
different widths to one place, and a vector is as many accesses as it has words.
"""
from __future__ import annotations

from functools import reduce

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import I1, I8, I16, I32, I64, width_of
from tileiras.conversion.tileas_to_llvm.lowering import Lowering
from tileiras.conversion.tileas_to_llvm.registers import plain_type, to_plain
from tileiras.dialects import llvm
from tileiras.dialects.llvm import PtrType, ptr, vec

SCOPES = {"tl_blk": "cta", "device": "gpu", "sys": "sys"}

_ORDERED_MOST = 4
"""Words of a vector access narrower than 32 bits: `.v8` exists for 32 bits only."""


def ordering(semantic: str, scope: str | None) -> str:
    """The PTX qualifiers of an access's ordering: "" when weak."""
    return "" if semantic == "weak" else f".{semantic}.{SCOPES[scope or 'sys']}"


def from_memory(low: Lowering, x: SSAValue, t: Attribute) -> SSAValue:
    """The inverse of `to_plain` for an element that comes from outside: any byte but 0 is true."""
    if isinstance(t, PtrType):
        return low.b.cast("inttoptr", x, t)
    return low.b.icmp("ne", x, low.b.bits(0, I8)) if t == I1 else x


_WORDS = {1: I16, 2: I16, 4: I32, 8: I64}


def words_of(count: int, size: int, ordered: bool) -> tuple[int, int, IntegerType]:
    """(number of words, bytes of a word, register type) for `count` elements of `size` bytes, 16 together at most."""
    n, width = (count, size) if ordered else (max(count * size // 4, 1), min(count * size, 4))
    return n, width, _WORDS[width]


def to_words(low: Lowering, values: list[SSAValue], n: int, word: IntegerType) -> list[SSAValue]:
    """Pack memory-typed elements into the `n` words that an access moves."""
    b = low.b
    if width_of(values[0].type) == 8 and len(values) == n:
        return [b.cast("zext", b.cast("bitcast", v, I8), I16) for v in values]
    if len(values) == n and width_of(values[0].type) == word.width.data:
        return [b.cast("bitcast", v, word) for v in values]
    packed = b.pack(values) if len(values) > 1 else values[0]
    if n == 1:
        return [b.cast("bitcast", packed, word)]
    return b.unpack(b.cast("bitcast", packed, vec(n, word)))


def from_words(low: Lowering, words: list[SSAValue], count: int, t: Attribute) -> list[SSAValue]:
    """The inverse of `to_words`: `count` elements of memory type `t`."""
    b = low.b
    if width_of(t) == 8 and len(words) == count:
        return [b.cast("bitcast", b.cast("trunc", w, I8), t) for w in words]
    if len(words) == count and width_of(words[0].type) == width_of(t):
        return [b.cast("bitcast", w, t) for w in words]
    if count == 1:
        return [b.cast("bitcast", b.pack(words) if len(words) > 1 else words[0], t)]
    return b.parts(words, t, count)


def address(low: Lowering, p: SSAValue) -> tuple[SSAValue, str]:
    """A pointer as this function's accesses take it, and their PTX state space.

    Pointers lead to global memory, except in a function with an `alloca`: there they may lead to shared memory, and
    every access through a pointer is generic."""
    if not low.generic_pointers:
        return p, ".global"
    return low.b.cast("inttoptr", low.b.cast("ptrtoint", p, I64), ptr(llvm.GENERIC)), ""


def both(low: Lowering, *predicates: SSAValue | None) -> SSAValue | None:
    """That all of these hold that there are."""
    given = [p for p in predicates if p is not None]
    return reduce(low.b.and_, given) if given else None


def load(low: Lowering, p: SSAValue, count: int, t: Attribute, predicate: SSAValue | None, other: list[SSAValue] | None,
         order: str = "", invariant: bool = False) -> list[SSAValue]:
    """`count` elements of type `t` from p, aligned to their size together. Where `predicate` is false: `other` (default 0).
    `invariant`: nobody writes there while the kernel runs."""
    b = low.b
    m = plain_type(t)
    if order and count > _ORDERED_MOST:
        step = _ORDERED_MOST * width_of(m) // 8
        return [x for i in range(count // _ORDERED_MOST) for x in load(
            low, b.gep(p, i * step), _ORDERED_MOST, t, predicate,
            other[i * _ORDERED_MOST:(i + 1) * _ORDERED_MOST] if other is not None else None, order)]
    size = width_of(m) // 8 * count
    known = b.known(predicate) if predicate is not None else 1
    if known == 0:
        return other if other is not None else [b.bits(0, t) for _ in range(count)]
    p, space = address(low, p)
    if known is not None and not order:
        flags = "invariant" if invariant and space else ""
        if count == 1:
            return [from_memory(low, b.load(m, p, size, flags), t)]
        return [from_memory(low, x, t) for x in b.unpack(b.load(vec(count, m), p, size, flags))]
    n, width, word = words_of(count, width_of(m) // 8, bool(order))
    nc = ".nc" if invariant and space and not order else ""
    name = f"ld{order}{space}{nc}{f'.v{n}' if n > 1 else ''}.b{width * 8}"
    args = [p]
    if known is None:
        assert predicate is not None
        name += ".if"
        args.append(predicate)
        if other is None:
            args += [b.bits(0, word)] * n
        else:
            args += to_words(low, [to_plain(b, x) for x in other], n, word)
    return [from_memory(low, x, t) for x in from_words(low, b.nvvm(name, args), count, m)]


def store(low: Lowering, p: SSAValue, values: list[SSAValue], predicate: SSAValue | None, order: str = "") -> None:
    """Store elements side by side at p, aligned to their size together, where `predicate` holds."""
    b = low.b
    values = [to_plain(b, x) for x in values]
    if order and len(values) > _ORDERED_MOST:
        step = _ORDERED_MOST * width_of(values[0].type) // 8
        for i in range(len(values) // _ORDERED_MOST):
            store(low, b.gep(p, i * step), values[i * _ORDERED_MOST:(i + 1) * _ORDERED_MOST], predicate, order)
        return
    size = width_of(values[0].type) // 8 * len(values)
    known = b.known(predicate) if predicate is not None else 1
    if known == 0:
        return
    p, space = address(low, p)
    if known is not None and not order:
        b.store(values[0] if len(values) == 1 else b.pack(values), p, size)
        return
    n, width, word = words_of(len(values), width_of(values[0].type) // 8, bool(order))
    name = f"st{order}{space}{f'.v{n}' if n > 1 else ''}.b{width * 8}"
    args = [p, *to_words(low, values, n, word)]
    if known is None:
        assert predicate is not None
        name += ".if"
        args.append(predicate)
    b.nvvm(name, args)


def padding_bits(padding: str, t: Attribute, element: Attribute) -> int:
    """The bit pattern of a padding value in storage type `t`; `element` is the tile's element type."""
    from tileiras.dialects.element import element_name
    if padding in ("", "zero"):
        return 0
    name = element_name(element)
    if name == "fnv8E5M3FNU":       # neither sign nor infinities
        return {"neg_zero": 0, "nan": 0xFF, "pos_inf": 0xFE, "neg_inf": 0xFE}[padding]
    exponent, mantissa = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "tf32": (8, 23), "f64": (11, 52), "f8E5M2": (5, 2),
                          "f8E4M3FN": (4, 3)}.get(name, (0, 0))
    sign = 1 << exponent + mantissa
    infinity = (1 << exponent) - 1 << mantissa
    if name == "f8E4M3FN":          # no infinities: all ones is NaN
        infinity = 0x7E
        nan = 0x7F
    else:
        nan = infinity | 1 << max(mantissa - 1, 0)
    return {"neg_zero": sign, "nan": nan, "pos_inf": infinity, "neg_inf": infinity | sign}[padding]


