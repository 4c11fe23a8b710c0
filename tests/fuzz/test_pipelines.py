"""A fixed sample of random loops; `make fuzz` runs campaigns of them."""
from __future__ import annotations

import collections

import pytest

import tileiras
from tests.fuzz.pipelines import pipelined
from tests.fuzz.programs import VERSION, check
from tests.ptx import copies_of, is_asynchronous, products_of
from tileiras.bytecode import write

SMS = ("sm_90", "sm_80", "sm_90", "sm_120")
SAMPLE = range(24)


@pytest.mark.parametrize("seed", SAMPLE)
def test_loops_compute_what_the_interpreter_says(seed: int) -> None:
    assert check(pipelined(seed), [(SMS[seed % len(SMS)], 3)]) == []


def test_every_kind_of_copy_and_product_is_drawn() -> None:
    seen: collections.Counter[str] = collections.Counter()
    for seed in range(40):
        bytecode = write(pipelined(seed).module, VERSION)                 # type: ignore[arg-type]
        ptx = tileiras.compile(bytecode, "sm_90", 3, emit="ptx").ptx
        seen.update([*copies_of(ptx), *products_of(ptx), *["asynchronous"] * is_asynchronous(ptx)])
    assert seen["asynchronous"] >= 16
    assert min(seen[name] for name in ("TMA", "cp.async", "wgmma", "mma.sync")) >= 3


def test_programs_are_the_same_every_time() -> None:
    one, other = (write(pipelined(3).module, VERSION) for _ in range(2))  # type: ignore[arg-type]
    assert one == other
