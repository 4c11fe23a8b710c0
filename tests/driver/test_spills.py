"""Where ptxas spills, the kernel is compiled once more with more warps for its products, then with layouts by priority."""
from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import cuda.tile as ct
import numpy as np
import pytest

import tileiras
from tests.kernels import runner
from tests.kernels.suite import Const
from tileiras import compiler
from tileiras.codegen.resources import Entry
from tileiras.compiler import CompiledModule
from tileiras.conversion.tileaa_to_tileas import rename
from tileiras.driver.options import CompileOptions
from tileiras.errors import CompileError
from tileiras.machine.targets import find_target
from tileiras.sim.cutile import export


def spills(module: CompiledModule) -> int:
    return sum(e.spill_stores + e.spill_loads for e in module.entries)


ATTEMPTS: list[dict[str, Any]] = [{}, {"large_parts": False}]
"""What changes from attempt to attempt for the convolution: the second doesn't spill."""


@pytest.fixture
def spilling(monkeypatch: pytest.MonkeyPatch, large_convolution: bytes) -> bytes:
    """The same where warps aren't chosen by what is alive at once, as for kernels whose spills that doesn't foresee."""
    monkeypatch.setattr(rename, "_is_crowded", lambda *_: False)
    return large_convolution


@pytest.fixture(scope="module")
def large_convolution() -> bytes:
    """A convolution of larger tiles than four warps' registers hold on sm_80."""
    case = runner.case_of("conv2d_3x3_relu_f16")
    sizes = iter((128, 64, 32))
    args = [dataclasses.replace(a, value=next(sizes, a.value)) if isinstance(a, Const) else a for a in case.args]
    return runner.export_case(dataclasses.replace(case, name="conv2d_of_large_tiles", args=args))


def test_the_choice_that_spills_less_is_kept(spilling: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    options = [CompileOptions(find_target("sm_80"), **changes) for changes in ATTEMPTS]
    asked: list[tuple[bool, bool]] = []
    lower = compiler.lower

    def watched(data: bytes, options: CompileOptions) -> str:
        asked.append((options.search_layouts, options.large_parts))
        return lower(data, options)
    monkeypatch.setattr(compiler, "lower", watched)
    kept = tileiras.compile(spilling, "sm_80")
    assert asked == [(o.search_layouts, o.large_parts) for o in options]
    alone = [spills(compiler._compiled(spilling, lower(spilling, o), o)) for o in options]
    assert spills(kept) == min(alone) < alone[0]


def test_a_kernel_keeps_its_load_agent(spilling: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever another attempt saves in spills: without the agent all warps wait for each load."""
    lower = compiler.lower

    def watched(data: bytes, options: CompileOptions) -> str:
        llvm = lower(data, options)
        options.in_agents = int(options.search_layouts and options.large_parts)
        return llvm
    monkeypatch.setattr(compiler, "lower", watched)
    first = CompileOptions(find_target("sm_80"))
    assert tileiras.compile(spilling, "sm_80").ptx == compiler._compiled(spilling, lower(spilling, first), first).ptx


@pytest.mark.parametrize(("sm", "without", "expected"), [
    ("sm_90", (), 1), ("sm_100", (), 1), ("sm_80", (), 0), ("sm_90", ("agents",), 0)])
def test_the_pipeline_tells_how_many_kernels_have_a_load_agent(sm: str, without: tuple[str, ...], expected: int) -> None:
    options = CompileOptions(find_target(sm), without=frozenset(without), in_agents=7)
    compiler.lower(runner.bytecode_path("attention_d64_f16", runner.case_of("attention_d64_f16").versions[0]).read_bytes(), options)
    assert options.in_agents == expected


def test_a_second_attempt_that_fails_costs_nothing(spilling: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    lower = compiler.lower

    def only_once(data: bytes, options: CompileOptions) -> str:
        if not (options.search_layouts and options.large_parts):
            raise CompileError("no room")
        return lower(data, options)
    monkeypatch.setattr(compiler, "lower", only_once)
    options = CompileOptions(find_target("sm_80"), timing=[])
    module = compiler.compile_module(spilling, options)
    assert module.cubin and spills(module) > 0
    assert options.timing is not None and "order-memory" in [name for name, _ in options.timing]


def test_all_attempts_are_timed(spilling: bytes) -> None:
    options = CompileOptions(find_target("sm_80"), timing=[])
    compiler.compile_module(spilling, options)
    assert options.timing is not None and [name for name, _ in options.timing].count("order-memory") == len(ATTEMPTS)


@pytest.mark.parametrize(("spilled", "asked"), [
    ([300, 200, 100], [(True, True), (True, False), (False, False)]),       # what helped stays
    ([300, 400, 100], [(True, True), (True, False), (False, True)]),
    ([9000, 8000], [(True, True), (True, False)])])                         # more than layouts help against
def test_attempts_are_made_as_long_as_they_may_help(spilling: bytes, monkeypatch: pytest.MonkeyPatch, spilled: list[int],
                                                    asked: list[tuple[bool, bool]]) -> None:
    seen: list[tuple[bool, bool]] = []

    def compiled(bytecode: bytes, llvm: str, options: CompileOptions) -> CompiledModule:
        seen.append((options.search_layouts, options.large_parts))
        return CompiledModule(llvm=llvm, entries=(Entry("k", (), 1, spill_stores=spilled[len(seen) - 1]),), _bytecode=bytecode,
                              _options=options)
    monkeypatch.setattr(compiler, "_compiled", compiled)
    module = compiler.compile_module(spilling, CompileOptions(find_target("sm_80")))
    assert seen == asked and spills(module) == min(spilled)


def test_the_same_code_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch, kernel_bytecode: Callable[..., bytes]) -> None:
    """A vector addition has one layout either way."""
    count: list[str] = []

    def compiled(bytecode: bytes, llvm: str, options: CompileOptions) -> CompiledModule:
        count.append(llvm)
        return CompiledModule(llvm=llvm, entries=(Entry("k", (), 1, spill_stores=8),), _bytecode=bytecode, _options=options)
    monkeypatch.setattr(compiler, "_compiled", compiled)
    compiler.compile_module(kernel_bytecode("vector_add_float32"), CompileOptions(find_target("sm_80")))
    assert len(count) == 1


def test_a_kernel_that_does_not_spill_is_compiled_once(kernel_bytecode: Callable[..., bytes],
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    lower = compiler.lower
    monkeypatch.setattr(compiler, "lower", lambda data, options: asked.append(options.search_layouts) or lower(data, options))
    module = tileiras.compile(kernel_bytecode("vector_add_float32"), "sm_80")
    assert spills(module) == 0 and asked == [True]


def test_a_load_agent_can_lend_registers(kernel_bytecode: Callable[..., bytes]) -> None:
    """A ninth warp leaves those of two warpgroups 168 registers a thread; with twelve, four give up what eight take."""
    bytecode = kernel_bytecode("gemm_f16_f32_128x256x64")
    kept, lent = (CompileOptions(find_target("sm_90"), lend_registers=lends, emit="ptx") for lends in (False, True))
    plain, other = (compiler.compile_module(bytecode, o).ptx for o in (kept, lent))
    assert kept.may_lend and lent.may_lend
    assert ".reqntid 288" in plain and "setmaxnreg" not in plain
    assert ".reqntid 384" in other
    assert re.findall(r"setmaxnreg\.(\w+)\.sync\.aligned\.u32\s+(\d+)", other) == [("inc", "240"), ("dec", "24")]


def _distances(p, q, out, sums, columns: ct.Constant[int], width: ct.Constant[int]) -> None:
    """A row's distances, and their sum."""
    total = ct.full((width,), 0.0, ct.float32)
    for i in range((columns + width - 1) // width):
        column = ct.arange(width, dtype=ct.int32) + i * width
        x = ct.load(p, index=(ct.bid(0), i), shape=(1, width), padding_mode=ct.PaddingMode.ZERO).reshape((width,))
        y = ct.load(q, index=(ct.bid(0), i), shape=(1, width), padding_mode=ct.PaddingMode.ZERO).reshape((width,))
        ct.scatter(out, (ct.bid(0), column), ct.maximum(x - y, y - x))
        total = total + ct.maximum(x - y, y - x)
    ct.scatter(sums, ct.bid(0), ct.sum(total))


@pytest.mark.parametrize("blocks", (1, 3))
def test_who_streams_in_several_blocks_keeps_them(blocks: int) -> None:
    """A block whose agent lends registers has the SM to itself: no gain where several hide the latency of memory."""
    rows = np.zeros((16, 32000), np.float32)
    made = export(ct.kernel(_distances, occupancy=blocks), (rows, rows, rows, np.zeros(16, np.float32), 32000, 8192), "sm_100")
    options = CompileOptions(find_target("sm_100"), lend_registers=True, emit="ptx")
    ptx = compiler.compile_module(made.bytecode, options).ptx
    assert options.may_lend == ("setmaxnreg" in ptx) == (blocks == 1)
    assert f".reqntid {384 if blocks == 1 else 288}" in ptx


@pytest.mark.parametrize(("occupancy", "stack", "shared", "freed", "followed"), [
    (3, 176, 66000, 0, False),      # three blocks' 149 KiB, and L1 has 54 left
    (3, 32, 66000, 0, True),        # 27 KiB
    (3, 176, 66000, 800, True),     # without the hint it spills as much
    (3, 4000, 66000, 1900, False),  # or not even half
    (None, 176, 66000, 0, True)])   # there is no hint
def test_a_hint_is_left_where_spills_have_no_room_in_l1(monkeypatch: pytest.MonkeyPatch, occupancy: int | None, stack: int,
                                                        shared: int, freed: int, followed: bool) -> None:
    rows = np.zeros((16, 32000), np.float32)
    kernel = ct.kernel(_distances) if occupancy is None else ct.kernel(_distances, occupancy=occupancy)
    made = export(kernel, (rows, rows, rows, np.zeros(16, np.float32), 32000, 8192), "sm_90")

    def compiled(bytecode: bytes, llvm: str, options: CompileOptions) -> CompiledModule:
        spilled, registers = (stack, 72) if options.meet_occupancy else (freed, 124)
        entry = Entry("k", (), 288, shared, registers, spilled, spilled, spilled)
        return CompiledModule(llvm=llvm, entries=(entry,), _bytecode=bytecode, _options=options)
    monkeypatch.setattr(compiler, "_compiled", compiled)
    monkeypatch.setattr(compiler, "CHANGES", ())
    options = CompileOptions(find_target("sm_90"), remarks=[], timing=[])
    module = compiler.compile_module(made.bytecode, options)
    assert (module.entries[0].registers == 72) is followed
    attempts = 2 if stack >= 176 else 1
    assert options.timing is not None and [name for name, _ in options.timing].count("order-memory") == attempts
    assert any(r.name == "RemarkHintIgnored" for r in options.remarks or ()) is not followed


def test_registers_are_lent_where_that_saves_spills(monkeypatch: pytest.MonkeyPatch, kernel_bytecode: Callable[..., bytes]) -> None:
    """The second attempt lends; if it is better, those that follow do, too."""
    asked: list[tuple[bool, bool]] = []

    def compiled(bytecode: bytes, llvm: str, options: CompileOptions) -> CompiledModule:
        asked.append((options.lend_registers, options.search_layouts))
        entry = Entry("k", (), 1, spill_stores=8 if options.lend_registers else 80)
        return CompiledModule(entries=(entry,), _bytecode=bytecode, _options=options)
    monkeypatch.setattr(compiler, "_compiled", compiled)
    module = compiler.compile_module(kernel_bytecode("gemm_f16_f32_128x256x64"), CompileOptions(find_target("sm_90")))
    assert spills(module) == 8
    assert asked[:3] == [(False, True), (True, True), (True, False)]


@pytest.mark.parametrize(("threads", "asked"), [
    (256, [(False, True), (False, False), (True, False)]),      # more warps spill less, and are lent registers, too
    (1024, [(False, True), (False, False)])])                   # each of many more threads spills a little less
def test_more_warps_may_be_lent_registers(monkeypatch: pytest.MonkeyPatch, kernel_bytecode: Callable[..., bytes], threads: int,
                                          asked: list[tuple[bool, bool]]) -> None:
    seen: list[tuple[bool, bool]] = []

    def lower(bytecode: bytes, options: CompileOptions) -> str:
        options.has_large_parts, options.may_lend = True, not options.large_parts
        return f"{options.lend_registers} {options.large_parts}"

    def compiled(bytecode: bytes, llvm: str, options: CompileOptions) -> CompiledModule:
        seen.append((options.lend_registers, options.large_parts))
        each = 0 if options.lend_registers else 900 if options.large_parts else 400
        entry = Entry("k", (), 160 if options.large_parts else threads + 32, spill_stores=each)
        return CompiledModule(llvm=llvm, entries=(entry,), _bytecode=bytecode, _options=options)
    monkeypatch.setattr(compiler, "lower", lower)
    monkeypatch.setattr(compiler, "_compiled", compiled)
    monkeypatch.setattr(compiler, "_has_fewer_blocks", lambda *_: False)
    compiler.compile_module(kernel_bytecode("gemm_f16_f32_128x256x64"), CompileOptions(find_target("sm_100"), search_layouts=False))
    assert seen == asked


@pytest.mark.parametrize(("each", "kept"), [(48, 48), (100, 0)])     # bytes of both kinds: 96, 200
def test_few_spills_are_worth_a_second_block(monkeypatch: pytest.MonkeyPatch, kernel_bytecode: Callable[..., bytes], each: int,
                                             kept: int) -> None:
    """Five warps of 168 registers have room twice, nine of 112 that spill nothing haven't."""
    def lower(bytecode: bytes, options: CompileOptions) -> str:
        options.has_large_parts = True
        return str(options.large_parts)

    def compiled(bytecode: bytes, llvm: str, options: CompileOptions) -> CompiledModule:
        spilled = each if options.large_parts else 0
        entry = Entry("k", (), 160, registers=168, spill_stores=spilled, spill_loads=spilled)
        entry = entry if options.large_parts else dataclasses.replace(entry, threads=288, registers=112)
        return CompiledModule(llvm=llvm, entries=(entry,), _bytecode=bytecode, _options=options)
    monkeypatch.setattr(compiler, "lower", lower)
    monkeypatch.setattr(compiler, "_compiled", compiled)
    module = compiler.compile_module(kernel_bytecode("gemm_f16_f32_128x256x64"), CompileOptions(find_target("sm_100")))
    assert [e.spill_stores for e in module.entries] == [kept]


@pytest.mark.parametrize(("each", "asked", "left"), [
    (100, [True], True),                # worth a second block
    (200, [True, False], False)])       # too many: what was counted on is given up
def test_blocks_that_were_counted_on(monkeypatch: pytest.MonkeyPatch, kernel_bytecode: Callable[..., bytes], each: int,
                                     asked: list[bool], left: bool) -> None:
    """`each`: bytes that a thread stores and loads for want of registers where an SM is to hold two blocks."""
    seen: list[bool] = []

    def lower(bytecode: bytes, options: CompileOptions) -> str:
        options.counts_blocks = options.count_blocks
        return str(options.count_blocks)

    def compiled(bytecode: bytes, llvm: str, options: CompileOptions) -> CompiledModule:
        seen.append(options.count_blocks)
        spilled = each if options.count_blocks else 0
        return CompiledModule(llvm=llvm, entries=(Entry("k", (), 256, spill_stores=spilled, spill_loads=spilled),),
                              _bytecode=bytecode, _options=options)
    monkeypatch.setattr(compiler, "lower", lower)
    monkeypatch.setattr(compiler, "_compiled", compiled)
    module = compiler.compile_module(kernel_bytecode("gemm_f16_f32_128x256x64"), CompileOptions(find_target("sm_120")))
    assert seen == asked and bool(spills(module)) == left


def test_rows_that_are_not_aligned_leave_room_for_two_blocks() -> None:
    """Each warp loads and multiplies in turn, so that a block alone leaves the tensor cores idle half the time."""
    def product(a, b, out, tm: ct.Constant[int], tk: ct.Constant[int]) -> None:
        acc = ct.full((tm, tm), 0.0, ct.float32)
        for k in range(ct.num_tiles(a, axis=1, shape=(tm, tk))):
            x = ct.load(a, (ct.bid(0), k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
            acc = ct.mma(x, ct.load(b, (k, 0), (tk, tm), padding_mode=ct.PaddingMode.ZERO), acc)
        ct.store(out, (ct.bid(0), 0), acc)
    a, b = np.zeros((256, 511), np.float16), np.zeros((511, 127), np.float16)
    made = export(ct.kernel(product), (a, b, np.zeros((256, 127), np.float32), 128, 64), "sm_120")
    entry, = tileiras.compile(made.bytecode, "sm_120").entries
    assert entry.threads == 256 and entry.registers <= 128


def test_rings_take_the_room_of_a_block_that_registers_keep_out() -> None:
    """On an SM whose registers hold one block; at -O2 they leave half of shared memory to another."""
    name = "gemm_split_k_atomics"
    bytecode = runner.export_case(name)
    half = find_target("sm_100").smem_per_sm // 2
    short, longer = (tileiras.compile(bytecode, gpu_name="sm_100", opt_level=level).entries[0] for level in (2, 3))
    assert short.registers == longer.registers and short.registers * short.threads * 2 > find_target("sm_100").registers_per_sm
    assert short.shared_bytes < half < longer.shared_bytes
