"""A fixed sample of random programs, each compiled for one SM after another; `tests.fuzz.programs` runs campaigns."""
from __future__ import annotations

import pytest

from tests.fuzz.generate import generate
from tests.fuzz.programs import VERSION, check
from tileiras.bytecode import read, write

SMS = ("sm_80", "sm_90", "sm_75", "sm_120")


@pytest.mark.parametrize("seed", range(60))
def test_programs_compute_what_the_interpreter_says(seed: int) -> None:
    gpu = SMS[seed % 3 if seed % 12 else 3]
    # ptxas takes a sixth of them too.
    assert check(generate(seed), [(gpu, 0), (gpu, 3)], "cubin" if seed % 6 == 1 else "ptx") == []


def test_programs_are_the_same_every_time() -> None:
    for seed in range(5):
        one, other = (write(generate(seed).module, VERSION) for _ in range(2))  # type: ignore[arg-type]
        assert one == other
        assert write(read(one), VERSION) == one
