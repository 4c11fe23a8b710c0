"""Hints on entries: what of them reaches the PTX, that others change nothing, and that results stay the same."""
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr, i32

import tileiras
from tests.interp.build import Kernel, pointer
from tests.kernels import runner
from tileiras.bytecode import write
from tileiras.dialects.cuda_tile import attrs, ops
from tileiras.machine.targets import TARGETS, find_target
from tileiras.sim import simulate


def compiled(hints: dict[str, Any], gpu: str, opt_level: int = 3, key: str | None = None) -> Any:
    """A kernel that doubles 1024 numbers, with those hints for `key` (the target by default)."""
    k = Kernel(pointer("f32"), pointer("f32"))
    x = k.load(k.args[0], "f32", (1024,))
    k.store(k.args[1], k.add(ops.AddF.make([x, x], [x.type], {"rounding_mode": attrs.RoundingAttr("nearest_even")})))
    module: Any = k.module()
    entry = next(op for op in module.walk() if op.name == "cuda_tile.entry")
    values = {name: IntegerAttr(v, i32) if isinstance(v, int) else StringAttr(v) for name, v in hints.items()}
    entry.properties["optimization_hints"] = attrs.OptimizationHintsAttr(DictionaryAttr({key or gpu: DictionaryAttr(values)}))
    return tileiras.compile(write(module, "13.4"), gpu_name=gpu, opt_level=opt_level)


def directives(ptx: str) -> list[str]:
    """Between the entry's parameters and its body, without `.language`."""
    head = re.search(r"\.entry kernel\([^)]*\)([^{]*)\{", ptx)
    assert head is not None
    return re.findall(r"\.(?!language)\w+ \d+", head[1])


@pytest.mark.parametrize("warps, threads", [(1, 32), (2, 64), (4, 128), (8, 256), (16, 512), (32, 1024), (64, 1024), (3, 128),
                                            (0, 128), (-4, 128)])
def test_warps(warps: int, threads: int) -> None:
    assert directives(compiled({"num_worker_warps_per_cta": warps}, "sm_90").ptx) == [f".reqntid {threads}", ".minnctapersm 1"]


# 65536 registers an SM over blocks of 128 threads, in steps of 8; sm_90 holds 16 such blocks, sm_120 12.
@pytest.mark.parametrize("gpu, occupancy, registers", [
    ("sm_90", 2, 255), ("sm_90", 3, 168), ("sm_80", 4, 128), ("sm_100", 5, 96), ("sm_90", 8, 64), ("sm_90", 16, 32),
    ("sm_90", 32, 32), ("sm_120", 12, 40), ("sm_120", 32, 40), ("sm_75", 32, 64)])
def test_occupancy(gpu: str, occupancy: int, registers: int) -> None:
    c = compiled({"occupancy": occupancy}, gpu)
    assert directives(c.ptx) == [".reqntid 128", ".minnctapersm 1", f".maxnreg {registers}"]
    assert c.entries[0].registers <= registers


@pytest.mark.parametrize("hints", [{"occupancy": 1}, {"occupancy": 0}, {"occupancy": -1}, {"occupancy": "many"},
                                   {"num_cta_in_cga": 1}, {"num_cta_in_cga": 3}, {"num_cta_in_cga": 32},
                                   {"bogus": 3}, {}])
def test_hints_without_effect(hints: dict[str, Any]) -> None:
    for gpu in ("sm_80", "sm_90"):
        assert directives(compiled(hints, gpu).ptx) == [".reqntid 128", ".minnctapersm 1"]


@pytest.mark.parametrize("gpu", ["sm_90", "sm_100", "sm_110", "sm_120"])
@pytest.mark.parametrize("ctas", [2, 4, 8, 16])
def test_clusters(ctas: int, gpu: str) -> None:
    """Each CTA has a part of the 1024 numbers: two a thread (pointers are 8 bytes), or more."""
    made = compiled({"num_cta_in_cga": ctas}, gpu).ptx
    threads = min(128, 1024 // ctas // 2)
    assert directives(made) == [f".reqntid {threads}", ".minnctapersm 1", f".reqnctapercluster {ctas}"]
    assert ".blocksareclusters" in made
    assert directives(compiled({"num_cta_in_cga": ctas}, gpu, opt_level=0).ptx) == [".reqntid 128", ".minnctapersm 1"]


def test_sm_80_has_no_clusters() -> None:
    assert directives(compiled({"num_cta_in_cga": 2}, "sm_80", key="default").ptx) == [".reqntid 128", ".minnctapersm 1"]


def test_hints_of_other_targets_stay_theirs() -> None:
    assert directives(compiled({"occupancy": 8}, "sm_90", key="sm_100").ptx) == [".reqntid 128", ".minnctapersm 1"]
    assert ".maxnreg 64" in directives(compiled({"occupancy": 8}, "sm_90", key="default").ptx)


@pytest.mark.parametrize("gpu", [t.name for t in TARGETS])
def test_all_together_on_every_sm(gpu: str) -> None:
    hints = {"num_cta_in_cga": 2, "occupancy": 4, "num_worker_warps_per_cta": 8}
    share = 65536 // min(4, find_target(gpu).max_threads_per_sm // 256) // 256
    cluster = [".reqnctapercluster 2"] if find_target(gpu).has_clusters else []
    made = directives(compiled(hints, gpu).ptx)
    assert sorted(made) == sorted([".reqntid 256", ".minnctapersm 1", f".maxnreg {min(share, 255) // 8 * 8}", *cluster])


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("hints", [{"num_cta_in_cga": 4}, {"occupancy": 16}, {"num_worker_warps_per_cta": 1},
                                   {"num_worker_warps_per_cta": 32, "occupancy": 2}])
def test_results_do_not_depend_on_hints(hints: dict[str, Any], opt_level: int) -> None:
    x, y = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    simulate(compiled(hints, "sm_90", opt_level).ptx, args=[x, y])
    assert np.array_equal(y, 2 * x)


def test_accumulators_that_a_hint_leaves_no_registers_for_keep_their_instruction() -> None:
    """Sums of `wgmma` can't be spilled: ptxas refuses the limit, and the hint is what gives way."""
    bytecode = runner.bytecode_path("matmul_float16_float32_twin").read_bytes()
    module = tileiras.compile(bytecode, gpu_name="sm_90", hints={"occupancy": 4})
    assert not module.warnings and "wgmma" in module.ptx
    assert module.ptx == tileiras.compile(bytecode, gpu_name="sm_90", hints={"occupancy": 1}).ptx
