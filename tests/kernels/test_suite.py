"""A fixed cross-section of the kernel suite, which touches every op on every type: interpreted, compiled at -O0 and
-O3, simulated, and compared with NumPy. `make coverage` runs the whole suite on all SMs."""
from __future__ import annotations

import pytest

from tests.kernels import runner
from tests.kernels.coverage import LEVELS, SMS
from tests.kernels.cross_section import CROSS_SECTION, THREE_KERNELS, features_of
from tileiras.compiler import lower
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target

SIMULATED = (80, 90)
PRODUCTS = {"cuda_tile.mmaf", "cuda_tile.mmai", "cuda_tile.mmaf_scaled"}


def test_the_cross_section_touches_every_op_on_every_type() -> None:
    here = {feature for name in CROSS_SECTION for feature in features_of(name)}
    missing = {feature: name for name in runner.cases() for feature in features_of(name) if feature not in here}
    assert not missing, "choose anew with `python -m tests.kernels.cross_section`"


@pytest.mark.parametrize("name", CROSS_SECTION)
def test_interpreted(name: str) -> None:
    verdict = runner.interpret_case(name)
    assert verdict.ok, verdict.detail


@pytest.mark.parametrize("sm", SIMULATED)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", CROSS_SECTION)
def test_compiled_and_simulated(name: str, level: int, sm: int) -> None:
    verdict = runner.simulate_case(name, runner.compile_case(name, f"sm_{sm}", level, verify_each=True))
    assert verdict.ok, verdict.detail


# ptxas takes each case for one of the other SMs.
@pytest.mark.parametrize("index, name", list(enumerate(CROSS_SECTION)))
def test_assembled(index: int, name: str) -> None:
    others = [sm for sm in SMS if sm not in SIMULATED]
    assert runner.compile_case(name, f"sm_{others[index % len(others)]}", LEVELS[index % 2]).cubin


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("sm", SMS)
@pytest.mark.parametrize("name", THREE_KERNELS)
def test_the_three_kernels_on_every_sm(name: str, sm: int, level: int) -> None:
    compiled = runner.compile_case(name, f"sm_{sm}", level)
    entry, = compiled.entries
    assert compiled.cubin[:4] == b"\x7fELF"
    if level:
        assert (entry.spill_stores, entry.spill_loads) == (0, 0)
    if sm in SIMULATED:
        verdict = runner.simulate_case(name, compiled)
        assert verdict.ok, verdict.detail


# What goes wrong around one kind of tensor core shows on few kernels: tensor memory's passes met an atomic's answer, which is no
# tile, in `gemm_split_k_last_adds` alone. TILEIRAS_STRICT, which these tests set, keeps it from being compiled in another way.
@pytest.mark.parametrize("first, every", [(0, 3), *(pytest.param(n, 3, marks=pytest.mark.slow) for n in (1, 2))])
@pytest.mark.parametrize("sm", [90, 100, 120])
def test_every_product_is_lowered(sm: int, first: int, every: int) -> None:
    names = [name for name in runner.cases() if not PRODUCTS.isdisjoint(op for op, _ in features_of(name))]
    assert len(names) > 80
    for name in names[(first + sm // 10) % every::every]:
        assert "define" in lower(runner.export_case(name), CompileOptions(find_target(f"sm_{sm}"))), name
