"""Products by warpgroups: every type and order of operands, from the program to results; where they aren't used; what they wait
for, and what they don't."""
from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.conversion.products import Product
from tileiras.layout.f2 import Span
from tileiras.layout.operands import described_buffer, turning_layouts
from tileiras.layout.shared import access
from tileiras.layout.turned_bytes import NO_LANE, stored, turns

KINDS = [("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("tf32", "f32"), ("e4m3", "f32"), ("e5m2", "f32"), ("e4m3", "f16"),
         ("s8", "s32"), ("u8", "s32")]
WGMMA = "wgmma.mma_async.sync.aligned"
FEW_SPILLED = 16
"""Bytes a thread: four numbers, of more than two hundred."""


@pytest.fixture
def serial(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops as they stand, nothing ahead of its turn."""
    monkeypatch.setenv("TILEIRAS_WITHOUT", "pipelines,tma,agents")


def multiplies(p: Product, count: int | None = None) -> str:
    """The PTX at -O3, which multiplies by wgmma and gives what NumPy does."""
    ptx = p.compiled(verify_each=True).ptx
    assert WGMMA in ptx and "mma.sync" not in ptx
    assert count is None or ptx.count(WGMMA) == count
    np.testing.assert_array_equal(p.simulated(ptx), p.expected())
    return ptx


@pytest.mark.parametrize("kind, acc", KINDS)
@pytest.mark.parametrize("order", ["mk kn", "mk nk", "km kn", "km nk"])
def test_every_type_in_every_order(kind: str, acc: str, order: str) -> None:
    a, b = order.split()
    p = Product(kind, acc, (64, 64, 64), a_order=a, b_order=b)
    multiplies(p)
    plain = p.compiled(opt_level=0).ptx
    assert WGMMA not in plain
    np.testing.assert_array_equal(p.simulated(plain), p.expected())


@pytest.mark.parametrize("n", [8, 16, 32, 64, 128, 256])
@pytest.mark.parametrize("b_order", ["kn", "nk"])
def test_every_width(n: int, b_order: str) -> None:
    ptx = multiplies(Product("f16", "f32", (64, n, 32), b_order=b_order, warps=4))
    assert f"m64n{n}k16" in ptx


@pytest.mark.parametrize("m, n, warps", [(64, 256, 8), (128, 128, 8), (256, 64, 8), (128, 64, 4), (256, 32, 4), (64, 512, 16),
                                         (128, 256, 16)])
@pytest.mark.parametrize("order", ["mk kn", "km nk"])
def test_rows_go_over_warpgroups_then_columns_then_more_instructions(m: int, n: int, warps: int, order: str) -> None:
    a, b = order.split()
    multiplies(Product("bf16", "f32", (m, n, 32), a_order=a, b_order=b, warps=warps))


@pytest.mark.parametrize("k", [16, 32, 128])
@pytest.mark.usefixtures("serial")
def test_one_instruction_takes_32_bytes_of_k(k: int) -> None:
    multiplies(Product("f16", "f32", (64, 64, k)), count=k // 16)
    if k > 16:
        multiplies(Product("e4m3", "f32", (64, 64, k), fast=True), count=k // 32)


def test_the_accumulator_begins_with_what_it_is_given() -> None:
    multiplies(Product("f16", "f32", (64, 32, 32), start=5))
    multiplies(Product("s8", "s32", (64, 32, 32), start=-7))
    multiplies(Product("e5m2", "f32", (64, 32, 32), start=3))


@pytest.mark.usefixtures("serial")
def test_bytes_are_summed_anew_each_step_unless_a_fast_sum_is_asked_for() -> None:
    steps = {fast: multiplies(Product("e4m3", "f32", (64, 32, 64), fast=fast), count=2) for fast in (False, True)}
    added = {fast: re.findall(r"wgmma\S+ \{[^}]*\}, \S+ \S+ (\S+) ", ptx) for fast, ptx in steps.items()}
    assert "add.rn.f32" in steps[False] and "add.rn.f32" not in steps[True]
    assert len(set(added[False])) == 2, "the first instruction of a step doesn't add"
    assert len(set(added[True])) == 1


@pytest.mark.parametrize("acc, tile, order", [("f32", (128, 256, 64), "mk nk"), ("f32", (256, 128, 64), "mk nk"),
                                              ("f32", (256, 128, 64), "mk kn"), ("f32", (128, 256, 32), "mk kn"),
                                              ("f32", (256, 256, 32), "mk nk"),
                                              ("f16", (256, 256, 32), "mk nk")])
def test_sums_that_take_half_of_the_registers_are_joined_part_by_part(acc: str, tile: tuple[int, int, int], order: str) -> None:
    a, b = order.split()
    p = Product("e4m3", acc, tile, steps=3, a_order=a, b_order=b, start=5, warps=8 if acc == "f16" else 0)
    made = p.compiled(verify_each=True)
    assert set(re.findall(r"wgmma\S+(m64n\d+)k32", made.ptx)) == {"m64n128" if b == "nk" else "m64n64"}
    assert made.entries[0].spill_stores <= FEW_SPILLED
    for seed in range(5):
        np.testing.assert_array_equal(p.simulated(made.ptx, seed), p.expected())
    np.testing.assert_array_equal(p.simulated(p.compiled(opt_level=0).ptx), p.expected())


@pytest.mark.parametrize("fast", [False, True])
def test_what_bytes_add_to_a_large_sum_is_kept_unless_a_fast_sum_is_asked_for(fast: bool) -> None:
    """The tensor cores' own sum of 8-bit floats has 14 bits: 3 beside 2**16 is lost there."""
    p = Product("e4m3", "f32", (64, 64, 64), steps=2, b_order="nk", fast=fast)
    a, b = (np.zeros(x.shape, x.dtype) for x in p.inputs())
    a[:, 0] = b[0, :] = 256         # in the first step: 65536
    a[:, 64] = 1                    # in the second: 3
    b[64, :] = 3
    d = p.simulated(p.compiled().ptx, inputs=(a, b))
    np.testing.assert_array_equal(d, 65536.0 if fast else 65539.0)


@pytest.mark.usefixtures("serial")
def test_writes_are_fenced_before_the_tensor_cores_read_them() -> None:
    ptx = multiplies(Product("f16", "f32", (64, 64, 32)))
    lines = [line.strip() for line in ptx.splitlines()]
    barrier = max(i for i, line in enumerate(lines) if line.startswith("bar") and i < next(
        j for j, other in enumerate(lines) if WGMMA in other))
    assert any(line.startswith("fence.proxy.async") for line in lines[:barrier])


@pytest.mark.parametrize("p", [Product("f16", "f32", (32, 64, 32)), Product("f16", "f32", (64, 4, 32)),
                               Product("f32", "f32", (64, 64, 32))], ids=str)
def test_small_tiles_and_other_types_do_without(p: Product) -> None:
    ptx = p.compiled().ptx
    assert WGMMA not in ptx
    np.testing.assert_array_equal(p.simulated(ptx), p.expected())


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    p = Product("f16", "f32", (64, 64, 32))
    monkeypatch.setenv("TILEIRAS_WITHOUT", "wgmma")
    ptx = p.compiled().ptx
    assert WGMMA not in ptx and "mma.sync" in ptx
    np.testing.assert_array_equal(p.simulated(ptx), p.expected())


ORDERS = range(5)
"""Seeds of the simulator: when asynchronous operations happen."""
IN_FLIGHT = [("f16", "f32", False, "agents"), ("f16", "f32", False, "tma"), ("f16", "f32", False, "tma,agents"),
             ("f16", "f32", False, "pipelines"), ("f16", "f32", False, ""), ("e4m3", "f32", True, ""), ("e4m3", "f32", False, ""),
             ("s8", "s32", False, "tma")]


@pytest.mark.parametrize("kind, acc, fast, without", IN_FLIGHT)
def test_products_in_flight_over_a_loop(kind: str, acc: str, fast: bool, without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For any number of iterations, however late the tensor cores and copies are."""
    monkeypatch.setenv("TILEIRAS_WITHOUT", without)
    p = Product(kind, acc, (64, 64, 64), b_order="nk", fast=fast, start=2)
    ptx = p.compiled(verify_each=True).ptx
    if not without and (fast or kind == "f16"):
        assert "wgmma.wait_group.sync.aligned 1" in ptx, "a ring's stage is given back an iteration later"
    for steps, seeds in ((0, [0]), (1, [0]), (3, ORDERS), (8, [0, 1])):
        longer = replace(p, steps=steps)
        ptx = longer.compiled().ptx
        for seed in seeds:
            np.testing.assert_array_equal(longer.simulated(ptx, seed), longer.expected())


@pytest.mark.parametrize("level", [0, 3])
def test_sums_that_begin_with_equal_values_are_not_copied_in_flight(level: int) -> None:
    """A bias for all rows: LLVM has one register for it, and each sum must have its own before the first product."""
    from tests.programs.programs import load_all, run
    load_all()
    assert run("images_convolved_by_products_0", "sm_90", level, ORDERS).asynchronous or level == 0


def test_a_product_is_waited_for_behind_the_loop() -> None:
    lines = [line.strip() for line in Product("f16", "f32", (64, 64, 64), b_order="nk").compiled().ptx.splitlines()]
    products = [i for i, line in enumerate(lines) if line.startswith("wgmma.mma_async")]
    waits = [i for i, line in enumerate(lines) if line.startswith("wgmma.wait_group.sync.aligned 0")]
    branch = next(i for i in range(products[-1], len(lines)) if " bra " in lines[i])
    assert waits and min(waits) > branch


@pytest.mark.parametrize("gpu", ["sm_89", "sm_100", "sm_120"])
def test_other_targets_have_none(gpu: str) -> None:
    assert "wgmma" not in Product("f16", "f32", (64, 64, 32)).compiled(gpu).ptx


@pytest.mark.parametrize("shape, size", [((32, 64), 4), ((32, 128), 4), ((64, 64), 1), ((128, 128), 1), ((128, 64), 1)])
def test_tiles_are_turned_in_few_passes(shape: tuple[int, int], size: int) -> None:
    """B of 8 or 32 bits, whose columns lie contiguous in memory: every element once; of bytes a pass or two for 32 lanes' words, of
    words no pass more than what is stored fills, and the same lines of memory read at once."""
    found = turning_layouts(shape, size, 0, 4)
    assert found
    passes = []
    for layout in found:
        assert sorted(layout.bases) == [1 << i for i in range(len(layout.bases))]
        buffer = described_buffer(shape, size, 0, layout, 0).layout
        way = turns(layout, buffer, size, 0)
        assert (way is None) == (size == 4)
        stores = access(layout if way is None else stored(layout, 0, way), buffer, size)
        assert stores.vec * size == (16 if size == 4 else 4)
        passes.append(stores.passes(size))
        if size == 4:
            lines = {sum(b for i, b in enumerate(layout.lane) if lane >> i & 1) * size // 128 for lane in range(32)}
            assert len(lines) == 1 << layout.reg.index(shape[1])    # as many as there are elements side by side
    assert passes == [4] * 2 if size == 4 else passes[0] == 1


@pytest.mark.parametrize("shape", [(64, 64), (128, 128), (128, 64), (64, 256)])
def test_threads_that_store_bytes_in_turns_read_longer_pieces_of_rows(shape: tuple[int, int]) -> None:
    """Four lanes side by side along memory's rows: without turns their stores would meet in one bank."""
    layout = turning_layouts(shape, 1, 0, 4)[0]
    buffer = described_buffer(shape, 1, 0, layout, 0).layout
    way = turns(layout, buffer, 1, 0)
    assert way is not None and NO_LANE not in way
    assert access(layout, buffer, 1).passes(1) == 4 and access(stored(layout, 0, way), buffer, 1).passes(1) == 1
    own = next(i for i, basis in enumerate(layout.reg) if basis >= shape[1])       # bits of a thread's columns
    assert [basis >> own for basis in layout.lane[:2]] == [1, 2] and all(basis >= shape[1] for basis in layout.lane[2:])
    assert len(Span(stored(layout, 0, way).bases)) == len(layout.bases)


@pytest.mark.parametrize("kind, acc", [("e4m3", "f32"), ("u8", "s32")])
@pytest.mark.parametrize("tile", [(64, 64, 64), (64, 128, 64), (128, 128, 128)])
def test_bytes_are_turned_by_eight_selections_for_four_rows_of_four(kind: str, acc: str, tile: tuple[int, int, int]) -> None:
    ptx = multiplies(Product(kind, acc, tile, steps=3, b_order="kn", fast=kind == "e4m3"))
    turned = tile[1] * tile[2] // (32 * (8 if tile[0] > 64 else 4))
    found = len(re.findall(r"\bprmt\.b32\b", ptx))
    assert found and found % (turned // 2) == 0
