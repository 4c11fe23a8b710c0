"""Products into tensor memory: every type and order of operands, from the program to results; where they aren't used; what threads
wait for, and what they don't."""
from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tileiras
from tests.conversion.products import Product
from tests.kernels import runner
from tests.seldom import seldom
from tileiras.bytecode import write
from tileiras.bytecode.version import CURRENT_VERSION
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.layout.atoms import tcgen05, umma
from tileiras.machine.targets import find_target
from tileiras.sim.tcgen05.move import register_cells

KINDS = [("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("tf32", "f32"), ("e4m3", "f32"), ("e5m2", "f32"), ("e4m3", "f16"),
         ("s8", "s32"), ("u8", "s32")]
MMA = "tcgen05.mma.cta_group::1"
SERIAL = "pipelines,tma,agents"


def compiled(p: Product, gpu: str = "sm_100", **options: Any) -> str:
    return p.compiled(gpu, verify_each=True, **options).ptx


def multiplies(p: Product, count: int | None = None, seed: int = 0) -> str:
    """The PTX at -O3, which multiplies by tcgen05 and gives what NumPy does."""
    ptx = compiled(p)
    assert MMA in ptx and "mma.sync" not in ptx
    assert count is None or ptx.count(MMA) == count
    np.testing.assert_array_equal(p.simulated(ptx, seed), p.expected())
    return ptx


def lines_of(ptx: str) -> list[str]:
    return [line.strip() for line in ptx.splitlines()]


@pytest.mark.parametrize("kind, acc", KINDS)
@pytest.mark.parametrize("order", ["mk kn", "mk nk", "km kn", "km nk"])
def test_every_type_in_every_order(kind: str, acc: str, order: str) -> None:
    a, b = order.split()
    p = Product(kind, acc, (128, 64, 64), a_order=a, b_order=b)
    multiplies(p)
    assert "tcgen05" not in p.compiled("sm_100", opt_level=0).ptx


@pytest.mark.parametrize("m, n", [(64, 64), (128, 32), (128, 256)])
@pytest.mark.parametrize("order", ["mk kn", "km kn", "km nk"])
def test_tf32_comes_by_the_copy_engine_as_it_lies(m: int, n: int, order: str) -> None:
    a, b = order.split()
    ptx = multiplies(Product("tf32", "f32", (m, n, 32), a_order=a, b_order=b, steps=4))
    assert "ld.global" not in ptx


def test_few_columns_of_tf32_are_turned() -> None:
    ptx = multiplies(Product("tf32", "f32", (128, 16, 32), steps=4))        # 64 bytes of N; the form takes 128
    assert ptx.count("cp.async.bulk.tensor.2d.shared") == 1


@pytest.mark.parametrize("gpu", ["sm_90", "sm_100"])
def test_what_f32_loses_on_its_way_to_tf32_the_copy_engine_takes_away(gpu: str) -> None:
    p = Product("tf32", "f32", (64, 64, 32), a_order="mk", b_order="nk", steps=4)
    text = p.text.replace("tf32", "f32")
    for x, shape in (("x", "64x32"), ("y", "32x64")):
        text = re.sub(rf"(%{x}, %{x}t = load_view_tko .*)", rf"\1\n%{x}r = ftof %{x} rounding<nearest_even> : "
                      rf"tile<{shape}xf32> -> tile<{shape}xtf32>", text)
    text = text.replace("mmaf %x, %y, %acc : tile<64x32xf32>, tile<32x64xf32>",
                        "mmaf %xr, %yr, %acc : tile<64x32xtf32>, tile<32x64xtf32>")
    ptx = tileiras.compile(write(parse_module(text), CURRENT_VERSION), gpu_name=gpu, opt_level=3).ptx
    assert "cvt.rn.tf32" not in ptx and "cp.async.bulk.tensor" in ptx
    # 1 + 2^-11 and 1 + 3 * 2^-11 lie between two neighbours of 10 fraction bits, 1 + 2^-10 + 2^-12 nearer to the lower one
    rows = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-10 + 2.0**-12, -2.5], np.float32)
    rounded = np.array([1, 1 + 2.0**-9, 1 + 2.0**-10, -2.5])
    a, b = np.tile(rows[:, None], (16, 128)), np.zeros((128, 64), np.float32)
    b[5, :] = 1
    np.testing.assert_array_equal(p.simulated(ptx, inputs=(a, b)), np.tile(rounded[:, None], (16, 64)))


@pytest.mark.parametrize("m", [64, 128, 256])
@pytest.mark.parametrize("n", [8, 16, 32, 64, 128, 256])
def test_every_size(m: int, n: int) -> None:
    rows = 64 if m == 64 or n == 8 else 128
    multiplies(Product("f16", "f32", (m, n, 32), b_order="nk"), count=2 * (m // rows))


@pytest.mark.parametrize("m, n, warps", [(64, 64, 8), (128, 128, 8), (256, 64, 8), (64, 512, 16), (128, 256, 16), (64, 32, 16)])
@pytest.mark.parametrize("order", ["mk kn", "km nk"])
def test_more_warps_share_the_columns(m: int, n: int, warps: int, order: str) -> None:
    a, b = order.split()
    multiplies(Product("bf16", "f32", (m, n, 32), a_order=a, b_order=b, warps=warps))


@pytest.mark.parametrize("gpu, kind", [("sm_103", "f16"), ("sm_110", "f16"), ("sm_103", "e4m3"), ("sm_110", "s8")])
def test_its_kin(gpu: str, kind: str) -> None:
    p = Product(kind, "s32" if kind == "s8" else "f32", (128, 64, 64))
    ptx = compiled(p, gpu)
    assert MMA in ptx
    np.testing.assert_array_equal(p.simulated(ptx), p.expected())


@pytest.mark.parametrize("p, gpu", [
    (Product("f16", "f32", (32, 64, 32)), "sm_100"), (Product("f16", "f32", (64, 4, 32)), "sm_100"),
    (Product("f32", "f32", (64, 64, 32)), "sm_100"), (Product("s8", "s32", (64, 64, 64)), "sm_103"),
    (Product("f16", "f32", (64, 64, 32), warps=2), "sm_100"), (Product("f16", "f32", (64, 64, 32)), "sm_120")], ids=str)
def test_small_tiles_other_types_and_few_warps_do_without(p: Product, gpu: str) -> None:
    ptx = compiled(p, gpu)
    assert "tcgen05" not in ptx
    np.testing.assert_array_equal(p.simulated(ptx), p.expected())


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEIRAS_WITHOUT", "tcgen05")
    p = Product("f16", "f32", (64, 64, 32))
    ptx = compiled(p)
    assert "tcgen05" not in ptx and "mma.sync" in ptx
    np.testing.assert_array_equal(p.simulated(ptx), p.expected())


@pytest.mark.parametrize("without", ["", SERIAL])
@pytest.mark.parametrize("kind, acc, start", [("f16", "f32", 5), ("s8", "s32", -7), ("f16", "f16", 3)])
def test_the_accumulator_begins_with_what_it_is_given(kind: str, acc: str, start: int, without: str,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEIRAS_WITHOUT", without)
    p = Product(kind, acc, (64, 32, 32), start=start)
    multiplies(p)
    ptx = multiplies(replace(p, steps=0), seed=1)
    assert "tcgen05.st" in ptx


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_nothing_is_stored_where_it_begins_with_zeros(steps: int) -> None:
    """The first product doesn't add; only where none is made zeros are stored, in a branch."""
    lines = lines_of(multiplies(Product("f16", "f32", (128, 64, 64), steps=steps)))
    store = next(i for i, line in enumerate(lines) if line.startswith("tcgen05.st"))
    assert any(" bra " in line for line in lines[store - 6:store])
    added = [re.search(r"(%p\d+);$", line) for line in lines if line.startswith(MMA)]
    assert len({found[1] for found in added if found is not None}) == 2


WITHOUT = ["", "agents", "tma", "tma,agents", "pipelines", SERIAL]


@pytest.mark.parametrize("kind, acc", [("f16", "f32"), ("e4m3", "f32")])
@pytest.mark.parametrize("order", ["mk nk", "km kn"])
@pytest.mark.parametrize("without", seldom(WITHOUT, 3))
def test_products_in_flight_over_a_loop(kind: str, acc: str, order: str, without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For any number of iterations, however late the tensor cores and copies are."""
    monkeypatch.setenv("TILEIRAS_WITHOUT", without)
    a, b = order.split()
    p = Product(kind, acc, (64, 64, 64), a_order=a, b_order=b, start=2)
    ptx = compiled(p)
    for steps, seeds in ((0, [0]), (1, [0]), (3, range(5)), (8, [0, 1])):
        for seed in seeds:
            longer = replace(p, steps=steps)
            np.testing.assert_array_equal(longer.simulated(compiled(longer), seed), longer.expected())
    assert MMA in ptx


def test_the_tensor_core_gives_a_rings_stages_back() -> None:
    """In the loop nobody meets, and only the thread that begins the products waits; behind it all wait once."""
    lines = lines_of(multiplies(Product("f16", "f32", (128, 128, 64), steps=8)))
    first, last = (f(i for i, line in enumerate(lines) if line.startswith(MMA)) for f in (min, max))
    waits = [i for i, line in enumerate(lines) if "try_wait" in line]
    commits = [i for i, line in enumerate(lines) if line.startswith("tcgen05.commit")]
    assert len(commits) == 2 and commits[0] > last and not any("bar.sync" in line for line in lines[max(
        w for w in waits if w < first):commits[0]])
    loads = [i for i, line in enumerate(lines) if line.startswith("tcgen05.ld")]
    assert len([w for w in waits if commits[1] < w < loads[0]]) == 1
    assert "mbarrier.arrive.shared" not in "\n".join(lines), "no thread gives a stage back"


@pytest.mark.parametrize("p, columns", [(Product("f16", "f32", (128, 16, 32)), 32), (Product("f16", "f32", (128, 256, 32)), 256),
                                        (Product("f16", "f32", (256, 128, 32)), 256), (Product("f16", "f32", (64, 64, 32)), 64)],
                         ids=str)
def test_a_block_asks_for_as_many_columns_as_it_needs_and_gives_them_back(p: Product, columns: int) -> None:
    ptx = multiplies(p)
    lines = lines_of(ptx)
    at = [i for i, line in enumerate(lines) if re.match(r"tcgen05\.(alloc|relinquish|dealloc)", line)]
    assert [lines[i].split(".")[1] for i in at] == ["alloc", "relinquish_alloc_permit", "dealloc"]
    assert at[1] == at[0] + 1
    assert sum(f"mov.b32 \t{line.split()[-1].rstrip(';')}, {columns};" in ptx for line in (lines[at[0]], lines[at[2]])) == 2


def test_an_accumulators_rows_lie_in_lanes_and_its_columns_in_columns() -> None:
    layout = umma.fragment((128, 32), 128, 4)
    for warp in range(4):
        for lane in range(32):
            for register in range(32):
                assert layout.index(register, lane, warp) == (32 * warp + lane) * 32 + register


@pytest.mark.parametrize("columns", [8, 32, 256])
def test_64_rows_are_held_in_halves(columns: int) -> None:
    """As the simulator says where 16x32bx2's cells lie, whose rows are 16 a warp, the second half of columns behind the first."""
    half = columns // 2
    layout = umma.fragment((64, columns), 64, 4)
    lanes, cells = register_cells("16x32bx2", half, half)
    assert layout.num_regs == half
    for warp, lane, register in itertools.product(range(4), range(32), range(half)):
        row, column = lanes[lane, register, 0], cells[lane, register, 0]
        assert layout.index(register, lane, warp) == (16 * warp + row) * columns + column


def test_more_warps_share_the_columns_of_64_rows() -> None:
    layout = umma.fragment((2, 64, 32), 64, 16)
    assert layout.warp == (16 * 32, 32 * 32, 64 * 32, 8)
    assert (layout.num_regs, layout.lane[-1]) == (8, 16)


def test_every_instruction_that_is_chosen_has_a_row_in_the_table() -> None:
    names = {atom.name for kind in tcgen05.KINDS for atom in tcgen05.products(kind)}
    chosen = [umma.choose(find_target(gpu), a, b, acc, m, n, 64, 4)
              for gpu in ("sm_100", "sm_103") for m in (64, 128, 256) for n in (8, 16, 64, 256)
              for a, b, acc in (("f16", "f16", "f32"), ("bf16", "bf16", "f32"), ("tf32", "tf32", "f32"), ("i8", "i8", "i32"),
                                ("f8E4M3FN", "f8E5M2", "f32"), ("f16", "f16", "f16"))]
    found = {atom.intrinsic for atom in chosen if atom is not None}
    assert len(found) > 30 and found <= names
    assert all(umma.named(name).intrinsic == name for name in found)


def test_what_doesnt_fit_tensor_memory_isnt_multiplied_there() -> None:
    at = {n: umma.choose(find_target("sm_100"), "f16", "f16", "f32", 256, n, 64, 8, 2) for n in (128, 256)}
    assert at[128] is not None and at[256] is None


@pytest.mark.parametrize("kind, acc", [("e4m3", "f32"), ("s8", "s32")])
def test_bytes_needn_t_be_turned(kind: str, acc: str) -> None:
    """M or N may lie contiguous: the copy engine brings both operands as they are in memory."""
    ptx = multiplies(Product(kind, acc, (128, 64, 64), a_order="km", b_order="kn", steps=3))
    assert "ld.global" not in ptx and len(re.findall(r"cp\.async\.bulk\.tensor\.2d\.shared::cta", ptx)) == 2
    multiplies(Product(kind, acc, (64, 8, 32), a_order="km", b_order="kn"))     # too narrow for that


@pytest.mark.parametrize("seed", range(5))
def test_tiles_that_go_through_registers_have_a_load_agent(seed: int) -> None:
    p = Product("f16", "f32", (128, 128, 64), steps=5, aligned=False)
    ptx = compiled(p)
    assert ".reqntid 256" in ptx and ptx.count("tcgen05.commit") == 2
    np.testing.assert_array_equal(p.simulated(ptx, seed), p.expected())


@pytest.mark.parametrize("tile, blocks", [((128, 128, 64), 2), ((128, 64, 64), 2), ((64, 64, 64), 2), ((128, 256, 64), 1)])
def test_rings_leave_room_for_other_blocks(tile: tuple[int, int, int], blocks: int) -> None:
    """As far as registers and tensor memory let them share the SM, and four stages of a ring leave room."""
    ptx = compiled(Product("f16", "f16", tile, b_order="nk", steps=16))
    shared = re.search(r"global_smem_product\[(\d+)\]", ptx)
    assert shared is not None
    assert blocks * (int(shared[1]) + 1024) <= 228 * 1024 < (2 * blocks + 1) * int(shared[1])


def test_sums_of_64_rows_leave_in_boxes_as_wide_as_the_widest_swizzle() -> None:
    """128 columns of f32 are four boxes of 128 bytes a row; threads write them in words of 16 bytes."""
    ptx = runner.compile_case("gemm_e4m3_fast_accumulate", "sm_100").ptx
    assert "tcgen05.ld.sync.aligned.16x32bx2.x32.b32" in ptx
    assert len(re.findall(r"cp\.async\.bulk\.tensor\.2d\.global\.shared::cta", ptx)) == 4
    stores = re.findall(r"st\.shared\.(\S+)", ptx)
    assert len(stores) == 16 and set(stores) <= {"v2.b64", "v4.b32"}
