"""Terms compute the XOR of a map's bases, and few of them do."""
from __future__ import annotations

import random

import pytest

from tileiras.layout.terms import Term, terms_of


def xor_of(bases: tuple[int, ...], x: int) -> int:
    out = 0
    for i, basis in enumerate(bases):
        if x >> i & 1:
            out ^= basis
    return out


def value(terms: tuple[Term, ...], x: int) -> int:
    out = 0
    for term in terms:
        out ^= ((x & term.mask) >> term.down) * term.factor
    return out


@pytest.mark.parametrize("bases", [
    (), (0, 0, 0), (1, 2, 4, 8, 16, 32, 64), (0, 0, 8, 4, 2, 1), (0x90, 0x120, 0x240, 0, 0, 1, 2),
    (64, 128, 256, 0x210, 0x420, 0x840), (3, 6, 12, 24), (1, 1, 1, 1), (7, 7, 14, 28, 5, 0, 9)])
def test_the_terms_of_bases_give_their_xor(bases):
    terms = terms_of(bases)
    assert all(value(terms, x) == xor_of(bases, x) for x in range(1 << len(bases)))


def test_the_terms_of_any_bases_give_their_xor():
    draw = random.Random(5)
    for _ in range(200):
        bases = tuple(draw.choice((0, 1 << draw.randrange(12), draw.randrange(1 << 12))) for _ in range(draw.randrange(1, 9)))
        terms = terms_of(bases)
        assert all(value(terms, x) == xor_of(bases, x) for x in range(1 << len(bases)))


@pytest.mark.parametrize("bases, terms", [
    ((1, 2, 4, 8), (Term(15, 0, 1),)),                                  # the number itself, masked
    ((0, 0, 0, 1, 2), (Term(0b11000, 3, 1),)),                          # bits that go down
    ((0, 0, 0, 0x90, 0x120, 0x240), (Term(0x38, 0, 0x12),)),            # a swizzle: one multiplication
    ((16, 32, 1, 2), (Term(0b1100, 2, 1), Term(0b11, 0, 16))),          # two fields
    ((3, 6), (Term(3, 0, 1), Term(3, 0, 2)))])                          # products that meet in a bit are XORed
def test_bits_that_move_together_share_a_term(bases, terms):
    assert terms_of(bases) == terms
