"""Programs must compute what NumPy does, on each SM that stands for a kind of code, in each order of what is asynchronous."""
import zlib

import pytest

from tests.programs.programs import PROGRAMS, load_all, run

SIMULATED = ("sm_80", "sm_90", "sm_100", "sm_120")
"""SMs of each kind of code: cp.async; TMA and wgmma; tensor memory; TMA and mma.sync."""
QUICK = ("sm_90", "sm_100")
"""Of which each program of `make test` runs on one."""


def names(gpu: str, quick: bool) -> list[str]:
    sm = int(gpu.removeprefix("sm_"))
    return [n for n, p in load_all().items() if p.since <= sm and p.quick >= quick]


def one_of(name: str) -> str:
    able = [gpu for gpu in QUICK if name in names(gpu, quick=True)]
    return able[zlib.crc32(name.encode()) % len(able)]


@pytest.mark.parametrize("name", names(QUICK[-1], quick=True))
def test_chosen_programs(name):
    run(name, one_of(name))


@pytest.mark.slow
@pytest.mark.parametrize("gpu, name", [(gpu, name) for gpu in SIMULATED for name in names(gpu, quick=False)])
def test_programs(gpu, name):
    run(name, gpu)


@pytest.mark.slow
@pytest.mark.parametrize("name", names("sm_90", quick=False))
def test_programs_without_optimization(name):
    run(name, "sm_90", level=0)


def test_programs_are_many():
    assert len({p.draw for p in PROGRAMS.values()}) >= 80
