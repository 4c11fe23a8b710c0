"""Which bits of a result have a value where only some bits of its operands have one.

A register that a thread hasn't written has no value, and neither has what arithmetic makes of it. Compilers keep several masks
in one word, though, and cut single bits out of it again: of those only the bit that came of nothing is nothing. So operations that
take bits apart and put them together have a rule here: from the missing bits of the operands to those of the result. A rule is
asked only where an operand lacks a value, after the operation itself; what has no rule lacks all bits.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tileiras.sim.ptx import module as ptx
from tileiras.sim.ptx.types import BITS, SIGNED

Bits: TypeAlias = np.ndarray
"""A word of 64 bits for each thread of the batch, or one for all."""
Operand: TypeAlias = Callable[[Any], tuple[Bits, Bits]]
"""Of a batch: an operand's value and its missing bits."""
Rule: TypeAlias = Callable[[Any], Bits]

INTEGERS = frozenset({f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64)})
_NONE = np.zeros(1, np.uint64)


def rule(decoder, ins: ptx.Instruction) -> Rule | None:
    """The missing bits of an instruction's one result, or None where nothing is known of single bits."""
    make = _RULES.get(ins.parts[0])
    first = ins.operands[0] if ins.operands else None
    if make is None or not isinstance(first, ptx.Register):
        return None
    if any(isinstance(o, ptx.Register) and o.name == first.name for o in ins.operands[1:]):
        return None                                 # the operand is gone when the rule is asked
    return make(decoder, ins)


def _ones(bits: int) -> int:
    return (1 << bits) - 1


def _operand(decoder, operand, bits: int) -> Operand | None:
    """How an operand's value and missing bits are found: a register's or a constant's."""
    width = np.uint64(_ones(bits))
    if isinstance(operand, ptx.Immediate):
        if operand.kind != "int":
            return None
        value = np.array([operand.value & _ones(bits)], np.uint64)
        return lambda st: (value, _NONE)
    if not isinstance(operand, ptx.Register):
        return None
    slot = decoder.slot(operand)
    return lambda st: (st.R[slot].astype(np.uint64) & width, st.missing_bits(slot) & width)


def _of_two(decoder, ins: ptx.Instruction, bits: int, f: Callable[[Bits, Bits, Bits, Bits], Bits]) -> Rule | None:
    """A rule from both operands' values and missing bits."""
    first, second = (_operand(decoder, ins.operands[i], bits) for i in (1, 2))
    return None if first is None or second is None else lambda st: f(*first(st), *second(st))


def _logic(f: Callable[[Bits, Bits, Bits, Bits], Bits]) -> Callable:
    def make(decoder, ins):
        return _of_two(decoder, ins, BITS[ins.parts[-1]], f) if ins.parts[-1] in INTEGERS else None
    return make


def _and(a: Bits, no_a: Bits, b: Bits, no_b: Bits) -> Bits:
    return no_a & no_b | no_a & b | no_b & a


def _or(a: Bits, no_a: Bits, b: Bits, no_b: Bits) -> Bits:
    return no_a & no_b | no_a & ~b | no_b & ~a


def _xor(a: Bits, no_a: Bits, b: Bits, no_b: Bits) -> Bits:
    return no_a | no_b


def _not(decoder, ins):
    source = _operand(decoder, ins.operands[1], BITS[ins.parts[-1]]) if ins.parts[-1] in INTEGERS else None
    return None if source is None else lambda st: source(st)[1]


def _shift(decoder, ins):
    """By a constant; bits that come in at the top are copies of the sign, if any."""
    bits, amount = BITS[ins.parts[-1]], ins.operands[2]
    source = _operand(decoder, ins.operands[1], bits)
    if source is None or not isinstance(amount, ptx.Immediate):
        return None
    n = amount.value & 0xFFFFFFFF
    if ins.parts[0] == "shl":
        return (lambda st: _NONE) if n >= bits else lambda st: source(st)[1] << np.uint64(n) & np.uint64(_ones(bits))
    if ins.parts[-1] not in SIGNED:
        return (lambda st: _NONE) if n >= bits else lambda st: source(st)[1] >> np.uint64(n)
    n = min(n, bits - 1)
    sign, copies = np.uint64(bits - 1), np.uint64(_ones(bits) & ~_ones(bits - n - 1))

    def missing(st):
        lost = source(st)[1]
        return lost >> np.uint64(n) | np.where(lost >> sign, copies, np.uint64(0))
    return missing


def _select(decoder, ins):
    """Bits in which both choices agree are there whatever the predicate is. (What is chosen and lacks a value, `selp` sees to.)"""
    bits = {"f16": 16, "f32": 32, "f64": 64}.get(ins.parts[-1]) or BITS[ins.parts[-1]]
    return _of_two(decoder, ins, bits, lambda a, no_a, b, no_b: a ^ b | no_a | no_b)


def _compare(decoder, ins):
    """Equality: decided where a bit differs that both have."""
    if len(ins.operands) != 3 or ins.parts[1:-1] not in (("eq",), ("ne",)) or ins.parts[-1] not in INTEGERS:
        return None

    def missing(a: Bits, no_a: Bits, b: Bits, no_b: Bits) -> Bits:
        lost = no_a | no_b
        return np.where((a ^ b) & ~lost == 0, lost, np.uint64(0))
    return _of_two(decoder, ins, BITS[ins.parts[-1]], missing)


def _convert(decoder, ins):
    """Between integers: cut off, or widened by zeros or the sign."""
    if len(ins.parts) != 3 or not {*ins.parts[1:]} <= INTEGERS:
        return None
    to, given = ins.parts[1:]
    source = _operand(decoder, ins.operands[1], BITS[given])
    if source is None:
        return None
    kept = np.uint64(_ones(BITS[to]))
    above = np.uint64(_ones(BITS[to]) & ~_ones(BITS[given]) if given in SIGNED else 0)
    sign = np.uint64(BITS[given] - 1)

    def missing(st):
        lost = source(st)[1]
        return lost & kept | np.where(lost >> sign, above, np.uint64(0))
    return missing


def _field(decoder, ins):
    """bfe of constants, unsigned."""
    kind, at, length = ins.parts[-1], *ins.operands[2:4]
    source = _operand(decoder, ins.operands[1], BITS[kind])
    if source is None or kind in SIGNED or not (isinstance(at, ptx.Immediate) and isinstance(length, ptx.Immediate)):
        return None
    shift, mask = at.value & 0xFF, _ones(length.value & 0xFF)
    return (lambda st: _NONE) if shift >= BITS[kind] else \
        lambda st: source(st)[1] >> np.uint64(shift) & np.uint64(mask & _ones(64))


_RULES: dict[str, Callable[..., Rule | None]] = {
    "and": _logic(_and), "or": _logic(_or), "xor": _logic(_xor), "not": _not, "shl": _shift, "shr": _shift, "selp": _select,
    "setp": _compare, "cvt": _convert, "bfe": _field}
