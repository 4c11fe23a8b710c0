"""Tensor maps that kernels build themselves: of lists of arrays, and of rows between bounds that are loaded. Values are right on
drivers that give blocks memory for maps and on those that give it to SMs, whichever agents there are and in every order."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tileiras
from tests.host.hostcode import HostCode
from tileiras import launcher
from tileiras.host.object import BYTES_AN_SM, MOST_SMS
from tileiras.sim import simulate
from tileiras.sim.timing.cubin import Cubin

SHAPES = ((136, 128, 72), (64, 8, 200), (8, 136, 128))     # rows, columns, what is summed: of no whole tiles
BOUNDS = np.array([0, 40, 40, 41, 100], np.int32)          # of rows: an empty range, too


def lists(rng: np.random.Generator) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    def numbers(rows: int, columns: int) -> np.ndarray:
        return rng.integers(-3, 4, (rows, columns)).astype(np.float16)
    return ([numbers(m, k) for m, _, k in SHAPES], [numbers(k, n) for _, n, k in SHAPES],
            [np.zeros((m, n), np.float32) for m, n, _ in SHAPES])


def assert_products(**options: Any) -> None:
    from tests.host.programs import products_of_lists

    a, b, c = lists(np.random.default_rng(0))
    tileiras.launch(products_of_lists, 2, (a, b, c, 2), **options)
    for x, y, out in zip(a, b, c):
        assert np.array_equal(out, x.astype(np.float32) @ y.astype(np.float32))


def assert_products_of_rows(**options: Any) -> None:
    from tests.host.programs import product_of_rows

    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((100, 192), (4, 192, 64)))
    out, wanted = np.full((100, 64), 7, np.float32), np.full((100, 64), 7, np.float32)
    tileiras.launch(product_of_rows, 4, (a, BOUNDS, b, out), **options)
    for g, (start, stop) in enumerate(itertools.pairwise(BOUNDS)):
        wanted[start:stop] = a[start:stop].astype(np.float32) @ b[g].astype(np.float32)
    assert np.array_equal(out, wanted)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("cta_memory", [True, False], ids=["blocks", "sms"])
def test_products_of_lists_of_arrays(cta_memory: bool, seed: int) -> None:
    pytest.importorskip("cuda.tile")
    assert_products(cta_memory=cta_memory, seed=seed)


@pytest.mark.parametrize("options", [{"gpu_name": "sm_100"}, {"gpu_name": "sm_120"}, {"opt_level": 0}, {"without": "agents"}],
                         ids=["sm_100", "sm_120", "O0", "one agent"])
def test_products_of_lists_of_arrays_otherwise(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cuda.tile")
    options = dict(options)
    monkeypatch.setenv("TILEIRAS_WITHOUT", options.pop("without", ""))
    launcher.compiled.cache_clear()             # it doesn't ask for the environment
    assert_products(**options)
    launcher.compiled.cache_clear()


@pytest.mark.parametrize("options", [*({"seed": seed} for seed in range(5)), {"gpu_name": "sm_100"}, {"gpu_name": "sm_120"}],
                         ids=str)
def test_products_of_rows_between_loaded_bounds(options: dict[str, Any]) -> None:
    pytest.importorskip("cuda.tile")
    assert_products_of_rows(**options)


def compiled_lists(gpu: str = "sm_90") -> tileiras.CompiledModule:
    from tests.host.programs import products_of_lists
    from tileiras.sim.cutile.specialize import export
    return tileiras.compile(export(products_of_lists, (*lists(np.random.default_rng(0)), 2), gpu).bytecode, gpu)


def test_the_host_code_hands_on_memory_for_them() -> None:
    """Three maps: of what is loaded for products, and of the array whose tiles a loop stores."""
    pytest.importorskip("cuda.tile")
    module = compiled_lists()
    [entry] = module.entries
    assert entry.built_maps == 3 and not entry.maps and ".minperctamemory 384\n" in module.ptx
    code = HostCode(Cubin(module.cubin).contents(".nv.host"))
    assert code.table()[2] == 3 * BYTES_AN_SM * MOST_SMS
    memory, at = 0x7E0000000000, entry.param_offsets[-1]
    filled = code.fill(entry.name, bytes(entry.param_bytes), memory)
    assert filled[at:] == memory.to_bytes(8, "little") and not any(filled[:at])


@pytest.mark.parametrize("left_out", ["fence.proxy.tensormap::generic.release.gpu;", "fence.proxy.tensormap::generic.acquire.gpu"])
def test_without_its_fences_the_copy_engine_sees_an_old_map(left_out: str) -> None:
    pytest.importorskip("cuda.tile")
    from tests.host.programs import products_of_lists
    from tileiras.sim.cutile.specialize import export

    exported = export(products_of_lists, (*lists(np.random.default_rng(0)), 2), "sm_90")
    lines = [line for line in compiled_lists().ptx.split("\n") if left_out not in line]
    report = simulate("\n".join(lines), exported.symbol, 2, exported.flat)
    assert any("fence.proxy.tensormap" in str(finding) for finding in report.findings)
