"""Products of pairs of CTAs (`cta_group::2`): types, orders, sizes, edges; what the two tell each other, and that it is needed."""
from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.conversion.products import Product
from tileiras.bytecode import write
from tileiras.bytecode.version import CURRENT_VERSION
from tileiras.compiler import compile_module
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.sim import SimulationError

MMA = "tcgen05.mma.cta_group::2"
PAIR = Product("f16", "f32", (256, 128, 64), steps=3, ctas=2)


def compiled(p: Product, gpu: str = "sm_100") -> str:
    return p.compiled(gpu, verify_each=True).ptx


def multiplies(p: Product, count: int | None = None, seed: int = 0, gpu: str = "sm_100") -> str:
    """The PTX, by which pairs multiply, and which gives what NumPy does."""
    ptx = compiled(p, gpu)
    assert MMA in ptx and "cta_group::1" not in ptx and ".reqnctapercluster 2" in ptx
    assert count is None or ptx.count(MMA) == count
    np.testing.assert_array_equal(p.simulated(ptx, seed), p.expected())
    return ptx


@pytest.mark.parametrize("kind, acc", [("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("e4m3", "f32"), ("e5m2", "f16"),
                                       ("s8", "s32"), ("u8", "s32")])
@pytest.mark.parametrize("order", ["mk kn", "mk nk", "km kn", "km nk"])
def test_every_type_in_every_order(kind: str, acc: str, order: str) -> None:
    a, b = order.split()
    multiplies(Product(kind, acc, (256, 64, 64), a_order=a, b_order=b, ctas=2))


@pytest.mark.parametrize("order", ["mk kn", "mk nk", "km nk"])
def test_elements_of_32_bits(order: str) -> None:
    """Columns that lie together make 128 bytes in each CTA: 32 of them don't."""
    a, b = order.split()
    p = Product("tf32", "f32", (256, 64, 32), a_order=a, b_order=b, ctas=2)
    multiplies(p)
    assert (MMA in compiled(replace(p, tile=(256, 32, 32)))) == (order == "mk nk")


@pytest.mark.parametrize("m", [256, 512])
@pytest.mark.parametrize("n", [32, 128, 256])
def test_every_size(m: int, n: int) -> None:
    multiplies(Product("f16", "f32", (m, n, 32), b_order="nk", ctas=2), count=2 * (m // 256))


@pytest.mark.parametrize("kind, acc, order", [("f16", "f32", "mk kn"), ("f16", "f16", "km nk"), ("e4m3", "f32", "km kn"),
                                              ("s8", "s32", "mk nk"), ("tf32", "f32", "mk nk")])
def test_64_rows_each(kind: str, acc: str, order: str) -> None:
    """The second half of the columns lies in the lanes behind the rows."""
    a, b = order.split()
    p = Product(kind, acc, (128, 256, 32 if kind == "tf32" else 64), steps=3, missing=(16, 32, 0), a_order=a, b_order=b, ctas=2)
    ptx = multiplies(p)
    assert "tcgen05.ld.sync.aligned.32x32b" in ptx
    for seed in range(1, 5):
        np.testing.assert_array_equal(p.simulated(ptx, seed), p.expected())


@pytest.mark.parametrize("gpu", ["sm_103", "sm_110"])
def test_its_kin(gpu: str) -> None:
    multiplies(PAIR, gpu=gpu)


@pytest.mark.parametrize("steps", [0, 1, 2, 9])
def test_however_late_copies_and_tensor_cores_are(steps: int) -> None:
    p = replace(PAIR, steps=steps, tile=(256, 128, 32))
    ptx = compiled(p)
    for seed in range(5):
        np.testing.assert_array_equal(p.simulated(ptx, seed), p.expected())


@pytest.mark.parametrize("tile, ctas, order", [
    ((256, 512, 32), 4, "mk kn"), ((128, 512, 64), 4, "mk nk"), ((512, 256, 64), 4, "km nk"),
    pytest.param((512, 512, 32), 8, "mk nk", marks=pytest.mark.slow)])
def test_several_pairs_load_for_each_other(tile: tuple[int, int, int], ctas: int, order: str) -> None:
    """What CTAs of several pairs want each loads a part of, for all."""
    a, b = order.split()
    p = Product("f16", "f32", tile, steps=5, a_order=a, b_order=b, ctas=ctas)
    ptx = compiled(p)
    assert MMA in ptx and f".reqnctapercluster {ctas}" in ptx and "complete_tx::bytes.multicast::cluster.cta_group::2" in ptx
    for seed in range(5):
        np.testing.assert_array_equal(p.simulated(ptx, seed), p.expected())


@pytest.mark.parametrize("missing", [(0, 0, 8), (0, 8, 0), (40, 0, 0), (136, 72, 24)])
@pytest.mark.parametrize("order", ["mk kn", "km nk"])
def test_edges(missing: tuple[int, int, int], order: str) -> None:
    """Of rows, columns (more than a CTA's half, too) and k."""
    a, b = order.split()
    multiplies(replace(PAIR, missing=missing, a_order=a, b_order=b))


@pytest.mark.parametrize("p", [replace(PAIR, tile=(128, 128, 64)), replace(PAIR, start=2), replace(PAIR, aligned=False),
                               replace(PAIR, tile=(256, 512, 32))], ids=str)
def test_what_pairs_dont_do(p: Product) -> None:
    """Parts of few rows and columns, sums that begin elsewhere, operands that the copy engine can't bring, more columns than an
    instruction has: each CTA multiplies for itself then."""
    ptx = compiled(p)
    assert "cta_group::2" not in ptx
    np.testing.assert_array_equal(p.simulated(ptx), p.expected())


@pytest.mark.parametrize("without", ["pairs", "tma", "agents", "pipelines", "clusters", "tcgen05"])
def test_it_can_be_turned_off(without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEIRAS_WITHOUT", without)
    assert "cta_group::2" not in compiled(PAIR)


def test_the_remark_tells_of_it() -> None:
    options = CompileOptions(find_target("sm_100"), emit="ptx", remarks=[])
    compile_module(write(parse_module(PAIR.text), CURRENT_VERSION), options)
    assert options.remarks is not None
    [found] = [r for r in options.remarks if "num_cta_in_cga" in r.text]
    assert found.name == "RemarkHintApplied" and ("PairedProducts", 1) in found.notes


def fails(p: Product, ptx: str, seed: int) -> bool:
    try:
        return not np.array_equal(p.simulated(ptx, seed), p.expected())
    except SimulationError:
        return True


def _replaced(text: str, pattern: str, by: str, count: int = 0) -> str:
    other = re.sub(pattern, by, text, count=count)
    assert other != text
    return other


BARRIER = r".*barrier\.cluster\.(arrive|wait).*\n"
BROKEN = {
    "begins before the other's barriers are set up": lambda text: _replaced(text, BARRIER, "bar.sync 0;\n", 2),
    "tells its own barrier": lambda text: _replaced(text, r"(mapa\.shared::cluster\.u32\s+(%r\d+), (%r\d+), \S+;)",
                                                    r"\1\nmov.u32 \2, \3;"),
    "waits for half of the bytes": lambda text: _replaced(
        text, r"mbarrier\.arrive\.expect_tx\.shared\.b64 (%rd\d+), \[(.*)\], (%r\d+);",
        r"shr.u32 \3, \3, 1;\nmbarrier.arrive.expect_tx.shared.b64 \1, [\2], \3;"),
    "tells only itself": lambda text: _replaced(
        text, r"tcgen05\.commit\.cta_group::2(\S+)\.multicast::cluster\.b64\s+\[(.*)\], (%rs\d+);",
        r"tcgen05.commit.cta_group::2\1.b64 [\2];"),
    "both begin products": lambda text: _replaced(text, r"mov\.u32\s+(%r\d+), %cluster_ctarank;", r"mov.u32 \1, 0;"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_cta_that_goes_its_own_way_is_caught(broken: str) -> None:
    p = replace(PAIR, steps=9, tile=(256, 128, 32))
    other = BROKEN[broken](compiled(p))
    assert any(fails(p, other, seed) for seed in range(3))
