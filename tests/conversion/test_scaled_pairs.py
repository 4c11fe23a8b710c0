"""Block-scaled products of pairs of CTAs (`cta_group::2`): whose scales lie in memory as the tensor core copies them, in every
order of what is asynchronous; which products pairs don't do; and that each CTA needs its scales."""
from __future__ import annotations

import numpy as np
import pytest

from tests.programs import p_scaled, programs
from tests.ptx import ORDERS
from tests.seldom import seldom
from tileiras.sim import SimulationError, simulate

MMA, COPY = "tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale", "tcgen05.cp.cta_group::2"
E4M3, E5M2 = programs.e4m3, programs.e5m2


def made(*sizes: object, gpu: str = "sm_100") -> tuple[programs.Launch, object, str]:
    launch = p_scaled.scaled_product_of_pieces(*sizes)
    exported, module = programs.compiled(launch, gpu, 3)
    return launch, exported, module.ptx


def simulated(launch: programs.Launch, exported: object, ptx: str, seed: int) -> None:
    """Raises AssertionError where the values are wrong."""
    arrays = programs.arrays_of(launch.args)
    before = {at: a.copy() for at, a in arrays.items()}
    report = simulate(ptx, kernel=exported.symbol, grid=launch.grid, args=exported.flat, seed=seed)  # type: ignore[attr-defined]
    try:
        assert not report.findings
        programs.judge(launch, before)
    finally:
        for at, a in arrays.items():
            np.copyto(a, before[at])


@pytest.mark.parametrize("sizes, gpu", seldom([
    ((2, E4M3, 256, 256, 128, 1), "sm_100"), ((2, E5M2, 256, 128, 256, 0), "sm_103"), ((4, E4M3, 512, 128, 128, 1), "sm_110"),
    ((4, E5M2, 256, 256, 128, 0), "sm_100")], 2))
def test_pairs_multiply(sizes: tuple, gpu: str) -> None:
    launch, exported, ptx = made(*sizes, gpu=gpu)
    assert MMA in ptx and COPY in ptx and "cta_group::1" not in ptx
    for seed in ORDERS:
        simulated(launch, exported, ptx, seed)


def test_tiles_one_behind_the_other() -> None:
    """An agent of its own begins the products, of a loop over tiles."""
    launch = programs.PROGRAMS["scaled_product_of_pieces_by_few_0"].launch()
    exported, module = programs.compiled(launch, "sm_100", 3)
    assert MMA in module.ptx and not module.warnings
    for seed in ORDERS:
        simulated(launch, exported, module.ptx, seed)


@pytest.mark.parametrize("sizes", [(2, E4M3, 128, 256, 128, 1), (1, E4M3, 256, 256, 128, 1)], ids=["rows", "hint"])
def test_what_pairs_dont_do(sizes: tuple) -> None:
    """Parts of fewer than 128 rows, and what nobody asks for."""
    assert "cta_group::2" not in made(*sizes)[2]


def test_scales_by_rows_are_each_ctas_own() -> None:
    """Threads of two CTAs can't bring them together."""
    launch = programs.PROGRAMS["scaled_product_of_four_bits_2"].launch()
    assert "cta_group::2" not in programs.compiled(launch, "sm_100", 3)[1].ptx


def test_without_what_the_other_loads_it_is_wrong() -> None:
    """The scales of all columns come in two parts, each CTA's for both."""
    launch, exported, ptx = made(2, E4M3, 256, 256, 128, 1)
    simulated(launch, exported, ptx, 0)
    scales = [line for line in ptx.splitlines() if "bulk.tensor.4d" in line and ".multicast::cluster" in line]
    assert len(scales) == 1
    alone = scales[0].replace(".multicast::cluster", "").rsplit(",", 1)[0] + ";"
    with pytest.raises((AssertionError, SimulationError)):
        simulated(launch, exported, ptx.replace(scales[0], alone), 0)
