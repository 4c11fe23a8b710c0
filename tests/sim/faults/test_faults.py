"""Every planted fault is found under each seed, and the kernels without them are clean."""
from __future__ import annotations

import importlib
import pathlib

import pytest

from tests.sim.faults import harness

for _path in sorted(pathlib.Path(__file__).parent.glob("*_faults.py")):
    if not _path.name.startswith("test_"):
        importlib.import_module(f"tests.sim.faults.{_path.stem}")


@pytest.mark.parametrize("name", list(harness.PROGRAMS))
def test_the_kernel_without_a_fault_is_clean(name):
    of = harness.PROGRAMS[name]
    for seed in harness.SEEDS:
        args, found = harness.run(of, of.ptx, seed)
        assert not found, f"seed {seed}: {found[0]}"
        if of.check is not None:
            of.check(args)


@pytest.mark.parametrize("title", list(harness.FAULTS))
def test_the_fault_is_found(title):
    f = harness.FAULTS[title]
    text = harness.planted(f)
    for seed in harness.SEEDS:
        _, found = harness.run(f.program, text, seed)
        hits = [e for e in found if isinstance(e, f.kinds)]
        wanted = ", ".join(k.__name__ for k in f.kinds)
        assert hits, f"seed {seed}: {wanted} wanted, found {[str(e) for e in found]}"
        assert hits[0].line and hits[0].kernel, str(hits[0])
