"""Mistakes planted in a cubin's control fields change the prediction the right way, and by what they should."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.sim.timing.kernels import LOOP, assembled, needs_disassembler
from tileiras.sim.timing import sass
from tileiras.sim.timing.cubin import Cubin
from tileiras.sim.timing.predictor import predict
from tileiras.sim.timing.stream import Instruction

pytestmark = needs_disassembler
ROUNDS = 40
STALL, WAIT = 105, 116          # first bits of the fields; behind the stall stands the yield bit, which must be 0 for the longest


def slowest(word: int) -> int:
    return word & ~(0x1F << STALL) | 15 << STALL


def cycles(cubin: bytes, stride: int = 4) -> float:
    found = predict(LOOP, cubin, "k", 1, [np.ones(64 * ROUNDS, np.float32), np.zeros(64, np.float32), ROUNDS, stride], "H100")
    assert not found.is_estimate
    return found.cycles


def patched(change: Callable[[Instruction, int], int]) -> bytes:
    """LOOP's cubin with every instruction's 128 bits given to `change`."""
    cubin = assembled(LOOP)
    section = Cubin(cubin).section(".text.k")
    assert section is not None
    data = bytearray(cubin)
    for i in sass.read(cubin).instructions:
        at = section.offset + i.address
        data[at:at + 16] = change(i, int.from_bytes(data[at:at + 16], "little")).to_bytes(16, "little")
    return bytes(data)


@pytest.fixture(scope="module")
def right() -> float:
    return cycles(assembled(LOOP))


def test_unchanged_bits_give_the_same(right):
    assert cycles(patched(lambda i, word: word)) == right


def test_a_longer_stall_behind_each_load_is_paid_each_round(right):
    def longer(i: Instruction, word: int) -> int:
        return slowest(word) if i.base == "LDS" else word
    less = min(i.stall for i in sass.read(assembled(LOOP)).instructions if i.base == "LDS")
    # what follows a load waits for it anyway; the stall can only add up to what it is longer by
    assert right <= cycles(patched(longer)) <= right + ROUNDS * (15 - less) + 15


def test_long_stalls_everywhere_are_paid_by_every_instruction(right):
    slow = cycles(patched(lambda i, word: slowest(word)))
    executed = 8 * ROUNDS       # at least: a load, a store, two barriers, a load, a sum, and two of the loop's four
    assert slow > right
    assert slow >= 15 * executed / 2


def test_a_missing_wait_is_quicker(right):
    assert cycles(patched(lambda i, word: word & ~(0x3F << WAIT))) < 0.7 * right


def test_bank_conflicts_cost_their_passes(right):
    # a store and a load of two warps, 31 passes more each, behind each other
    more = cycles(assembled(LOOP), stride=128) - right
    assert ROUNDS * 31 * 2 * 0.8 < more < ROUNDS * 31 * 4 * 1.3
