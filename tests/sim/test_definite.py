"""Bits without a value: what the simulator says of each bit of a result, beside all values that the missing bits may have."""
from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from tests.sim.test_execution import REGS, entry
from tileiras.sim import simulate

BITS = 16
ONES = (1 << BITS) - 1


def signed(v: int) -> int:
    return v - (1 << BITS) if v >> (BITS - 1) else v


OPERATIONS = {
    "and.b16 %h3, %h1, %h2;": lambda a, b, c: a & b,
    "or.b16 %h3, %h1, %h2;": lambda a, b, c: a | b,
    "xor.b16 %h3, %h1, %h2;": lambda a, b, c: a ^ b,
    "not.b16 %h3, %h1;": lambda a, b, c: ~a & ONES,
    "and.b16 %h3, %h1, 13260;": lambda a, b, c: a & 13260,
    "or.b16 %h3, %h1, 13260;": lambda a, b, c: a | 13260,
    "shl.b16 %h3, %h1, 3;": lambda a, b, c: a << 3 & ONES,
    "shl.b16 %h3, %h1, 16;": lambda a, b, c: 0,
    "shr.u16 %h3, %h1, 5;": lambda a, b, c: a >> 5,
    "shr.s16 %h3, %h1, 5;": lambda a, b, c: signed(a) >> 5 & ONES,
    "shr.s16 %h3, %h1, 40;": lambda a, b, c: signed(a) >> 15 & ONES,
    "mov.b16 %h3, %h1;": lambda a, b, c: a,
    "and.b16 %h4, %h5, 1; setp.ne.b16 %p2, %h4, 0; selp.b16 %h3, -1, 6, %p2;": lambda a, b, c: ONES if c else 6,
    "and.b16 %h4, %h5, 1; setp.eq.b16 %p2, %h4, 0; selp.b16 %h3, 1, 0, %p2;": lambda a, b, c: 1 - c,
    "setp.eq.b16 %p2, %h1, %h2; selp.b16 %h3, 1, 0, %p2;": lambda a, b, c: int(a == b),
    "setp.ne.s16 %p2, %h1, 77; selp.b16 %h3, 1, 0, %p2;": lambda a, b, c: int(a != 77),
    "cvt.u32.u16 %r2, %h1; shr.b32 %r2, %r2, 4; cvt.u16.u32 %h3, %r2;": None,      # an overwritten operand: all bits
    "cvt.u32.u16 %r2, %h1; shr.b32 %r3, %r2, 4; cvt.u16.u32 %h3, %r3;": lambda a, b, c: a >> 4,
    "cvt.s32.s16 %r2, %h1; shr.b32 %r3, %r2, 12; cvt.u16.u32 %h3, %r3;": lambda a, b, c: signed(a) >> 12 & ONES,
    "cvt.u32.u16 %r2, %h1; bfe.u32 %r3, %r2, 6, 4; cvt.u16.u32 %h3, %r3;": lambda a, b, c: a >> 6 & 15,
    "add.u16 %h3, %h1, %h2;": None,
}


@pytest.mark.parametrize("text", OPERATIONS)
def test_a_bit_lacks_a_value_where_it_depends_on_one_that_does(text):
    rng = random.Random(text)
    f = OPERATIONS[text]
    for _ in range(4):
        missing = [sum(1 << k for k in rng.sample(range(BITS), rng.randint(0, 3))) for _ in range(2)] + [1]
        known = [rng.getrandbits(BITS) & ~m for m in missing[:2]] + [0]
        if rng.random() < .5:
            known[1] = known[0] & ~missing[1]           # so that comparisons meet what is equal but for missing bits
        # %h0 is never written; %h5 lacks its lowest bit.
        body = "".join(f"and.b16 %h6, %h0, {m}; or.b16 %h{r}, %h6, {v};\n" for r, m, v in zip((1, 2, 5), missing, known))
        body += text + "\n" + "".join(f"shr.u16 %h7, %h3, {k}; and.b16 %h8, %h7, 1; setp.ne.b16 %p1, %h8, 0;\n"
                                      f"@%p1 bra A{k};\nA{k}:\n" for k in range(BITS))
        report = simulate(entry(REGS + body), args=[np.zeros(1, np.uint32)])
        lines = entry(REGS + body).splitlines()
        found = {int(lines[(e.line or 0) - 1].split("bra A")[1].rstrip(";")) for e in report.findings}
        if f is None:
            expected = set(range(BITS)) if any(missing[:1 + ("%h2" in text)]) else set()
        else:
            places = [(i, k) for i, m in enumerate(missing) for k in range(BITS) if m >> k & 1]
            values = set()
            for chosen in itertools.product((0, 1), repeat=len(places)):
                operands = list(known)
                for (i, k), bit in zip(places, chosen):
                    operands[i] |= bit << k
                values.add(f(*operands))
            expected = {k for k in range(BITS) if len({v >> k & 1 for v in values}) > 1}
        assert found == expected, (missing, known)
