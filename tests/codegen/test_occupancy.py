"""Kernels that only move and reduce data are assembled again with fewer registers where more warps then fit an SM."""
from __future__ import annotations

import re

import pytest

from tests.kernels import runner
from tileiras.codegen.occupancy import limits_of, with_more_warps
from tileiras.codegen.ptxas import Assembled
from tileiras.codegen.resources import Entry
from tileiras.errors import CompileError
from tileiras.machine.targets import find_target

H100, ADA = find_target("sm_90"), find_target("sm_89")


@pytest.mark.parametrize("threads, registers, shared, limits", [
    (128, 216, 0, [128, 168]),      # 2 blocks; 4 give 16 warps, 3 are one more
    (128, 168, 0, [128]),           # 3 blocks; 4 are both
    (128, 128, 0, []),              # 4 blocks of 4 warps: enough
    (256, 200, 0, [128]),           # 1 block of 8 warps
    (512, 128, 0, [64]),            # 16 warps in one block, which would be alone
    (512, 64, 0, []),               # 2 blocks of 16
    (128, 216, 100 << 10, []),      # shared memory holds 2 blocks anyway
    (128, 255, 64 << 10, [168]),    # 3 blocks of shared memory
    (32, 255, 0, [128, 168]),       # 8 blocks of one warp, two a scheduler; 16, and 9, with which one scheduler has three
    (160, 130, 0, [128]),           # 2 blocks of five warps: a scheduler's registers hold three warps; 3 blocks
    (160, 128, 0, []),              # 3 blocks
])
def test_limits_that_let_more_blocks_in(threads: int, registers: int, shared: int, limits: list[int]) -> None:
    assert limits_of(Entry("k", (), threads, shared, registers), H100) == limits


def test_what_spills_already_is_left_alone() -> None:
    assert limits_of(Entry("k", (), 128, 0, 255, 8, 8, 8), H100) == []


MEETS = "bar.sync 0;"


def text(body: str) -> str:
    kernels = (f".visible .entry {name}(\n)\n.reqntid 128\n{{\n{inside}\n}}\n" for name, inside in (("a", body), ("b", MEETS)))
    return ".version 9.2\n" + "".join(kernels)


def tried(body: str, spilling: dict[str, set[int]], refused: dict[str, int] | None = None) -> list[dict[str, int]]:
    """The limits by entry of each attempt, where an entry spills at the limits named, or is refused below one; the last is what
    came out."""
    seen: list[dict[str, int]] = []

    def limits(ptx: str) -> dict[str, int]:
        return {name: int(n) for name, n in re.findall(r"\.entry (\w)\(\n\)\n\.reqntid 128\n\.maxnreg (\d+)\n", ptx)}

    def assemble(ptx: str) -> Assembled:
        seen.append(limits(ptx))
        for name, least in (refused or {}).items():
            if seen[-1].get(name, least) < least:
                raise CompileError(f"ptxas failed\nptxas fatal   : (C7602) Insufficient registers ({seen[-1][name]}) to compile "
                                   f"instruction at line 9 in function {name}.")
        spills = {name: 4 * (n in spilling.get(name, ())) for name, n in seen[-1].items()}
        report = "".join(f"Function properties for {name}\n 0 bytes stack frame, {n} bytes spill stores, 0 bytes spill loads\n"
                         for name, n in spills.items())
        return Assembled(b"", report, ())

    entries = (Entry("a", (), 128, 0, 216), Entry("b", (), 128, 0, 216))
    ptx, _ = with_more_warps(text(body), entries, H100, assemble, Assembled(b"", "", ()))
    return [*seen, limits(ptx)]


def test_a_kernel_that_spills_gets_the_next_limit_and_then_none() -> None:
    assert tried(MEETS, {}) == 2 * [{"a": 128, "b": 128}]
    assert tried(MEETS, {"a": {128}}) == [{"a": 128, "b": 128}, *2 * [{"a": 168, "b": 128}]]
    assert tried(MEETS, {"a": {128, 168}}) == [{"a": 128, "b": 128}, {"a": 168, "b": 128}, *2 * [{"b": 128}]]
    assert tried(MEETS, {"a": {128, 168}, "b": {128, 168}}) == [{"a": 128, "b": 128}, {"a": 168, "b": 168}, {}]


def test_what_ptxas_refuses_is_as_what_spills() -> None:
    """Instructions of wgmma have more sums than some limits leave registers."""
    assert tried(MEETS, {}, {"a": 144}) == [{"a": 128, "b": 128}, *2 * [{"a": 168, "b": 128}]]
    assert tried(MEETS, {}, {"a": 200}) == [{"a": 128, "b": 128}, {"a": 168, "b": 128}, *2 * [{"b": 128}]]


LOOPS = "$L__BB0_1:\n\tadd.s32 %r1, %r1, 1;\n@%p1 bra \t$L__BB0_1;"
FORWARD = "@%p1 bra \t$L__BB0_1;\n\tadd.s32 %r1, %r1, 1;\n$L__BB0_1:"


@pytest.mark.parametrize("body, limit", [("add.s32 %r1, %r1, 1;", 80), (FORWARD, 80), (LOOPS, 128), (MEETS, 128)])
def test_warps_that_go_one_way_and_wait_for_no_other_want_more_beside_them(body: str, limit: int) -> None:
    assert tried(body, {}) == 2 * [{"a": limit, "b": 128}]


def test_a_straight_line_that_spills_gets_what_others_get() -> None:
    line = "add.s32 %r1, %r1, 1;"
    assert tried(line, {"a": {80}}) == [{"a": 80, "b": 128}, *2 * [{"a": 128, "b": 128}]]
    assert tried(line, {"a": {80, 128}})[1:] == [{"a": 128, "b": 128}, *2 * [{"a": 168, "b": 128}]]


def test_a_product_gives_up_a_few_registers_for_a_block_more() -> None:
    product = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 ...;"

    def tried_with(body: str, registers: int) -> list[str]:
        seen: list[str] = []

        def assemble(ptx: str) -> Assembled:
            seen.extend(re.findall(r"\.maxnreg (\d+)", ptx))
            return Assembled(b"", "", ())
        with_more_warps(text(body), (Entry("a", (), 128, 0, registers),), H100, assemble, Assembled(b"", "", ()))
        return seen
    assert tried_with(product, 130) == ["128"]
    assert tried_with(product, 136) == ["128"]
    assert tried_with(product, 138) == []
    assert tried_with(product, 170) == ["168"]      # three blocks; far from four
    assert tried_with("wgmma.fence.sync.aligned;", 130) == []
    stored, multiplied = "fence.proxy.async.shared::cta;\n", "wgmma.mma_async.sync.aligned.m64n64k32.s32.u8.s8 ...;\n"
    assert tried_with(stored + multiplied, 115) == ["96"]       # five blocks; far from eight
    assert tried_with(stored + multiplied, 125) == []
    assert tried_with(multiplied + stored, 115) == []           # stored behind the products: the copy engine takes it away
    assert tried_with(stored + multiplied + "setmaxnreg.inc.sync.aligned.u32 168;", 115) == []


def test_products_and_limits_of_the_programs_own_stay() -> None:
    assert tried("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 ...;", {}) == 2 * [{"b": 128}]
    assert tried("wgmma.fence.sync.aligned;", {}) == 2 * [{"b": 128}]
    assert tried(".maxnreg 200", {}) == 2 * [{"b": 128}]


def test_a_stencil_of_many_loads_fits_more_blocks_without_spilling() -> None:
    """Left alone, ptxas brings all 96 loads of a thread to the front: two blocks of four warps an SM."""
    for gpu in (H100, ADA):
        entry, = runner.compile_case("jacobi_5_point_f32", gpu.name).entries
        assert 0 < entry.registers <= gpu.registers_per_sm // (3 * entry.threads) and entry.spill_stores == 0
