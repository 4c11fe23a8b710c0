"""How many warps a block has: few with large parts of a chain of products where shared memory's port is what they wait for, many
where tensor cores are; a hint decides first."""
from __future__ import annotations

from typing import Any

import pytest

from tileiras import pipeline
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target


def chain(rows: int, columns: int, width: int) -> str:
    """Scores of `rows` x `columns` from queries of `width`, rounded, times as many values."""
    q, k, v, s, o = (f"tile<{m}x{n}x{t}>" for m, n, t in (
        (rows, width, "f16"), (width, columns, "f16"), (columns, width, "f16"), (rows, columns, "f32"), (rows, width, "f32")))
    p = f"tile<{rows}x{columns}xf16>"
    return f"""cuda_tile.module @m {{
  entry @chain() {{
    %q = constant <f16: 1.0> : {q}
    %k = constant <f16: 2.0> : {k}
    %v = constant <f16: 3.0> : {v}
    %zero = constant <f32: 0.0> : {s}
    %sums = constant <f32: 0.0> : {o}
    %scores = mmaf %q, %k, %zero : {q}, {k}, {s}
    %weights = exp2 %scores : {s}
    %p = ftof %weights : {s} -> {p}
    %o = mmaf %p, %v, %sums : {p}, {v}, {o}
    print_tko "%f", %o : {o} -> token
    return
  }}
}}
"""


def product(hint: str = "") -> str:
    """One product of 128 x 128."""
    return f"""cuda_tile.module @m {{
  entry @product() {hint} {{
    %a = constant <f16: 1.0> : tile<128x64xf16>
    %b = constant <f16: 2.0> : tile<64x128xf16>
    %zero = constant <f32: 0.0> : tile<128x128xf32>
    %o = mmaf %a, %b, %zero : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
    print_tko "%f", %o : tile<128x128xf32> -> token
    return
  }}
}}
"""


def warps(program: str, gpu: str, **wishes: Any) -> int:
    options = CompileOptions(find_target(gpu), **wishes)
    module: Any = pipeline.run(parse_module(program), options, stop_at="nv_tileaa")
    from tileiras.conversion.tileaa_to_tileas import entry
    func: Any = next(op for op in entry.run(module, options).body.block.ops if op.name == "nv_tileas.func")
    return func.properties["num_warps"].data


@pytest.mark.parametrize(("gpu", "shape", "expected"), [
    ("sm_80", (64, 64, 64), 2), ("sm_75", (64, 64, 64), 2), ("sm_80", (64, 64, 128), 4), ("sm_80", (128, 64, 64), 4),
    ("sm_90", (64, 64, 64), 4), ("sm_120", (64, 64, 64), 4)])
def test_rows_of_scores_a_warp(gpu: str, shape: tuple[int, int, int], expected: int) -> None:
    assert warps(chain(*shape), gpu) == expected


def test_small_parts_where_they_are_asked_for() -> None:
    assert warps(chain(64, 64, 64), "sm_80", large_parts=False) == 4
    assert warps(chain(64, 64, 64), "sm_80", opt_level=0) == 4
    assert warps(product(), "sm_80", large_parts=False) == 8


def test_small_parts_where_no_ring_brings_the_operands() -> None:
    """Then it is memory that products wait for, and more warps wait better: attention_d64_f16 on an A100 took 1.5 times as long."""
    assert warps(chain(64, 64, 64), "sm_80", without=frozenset({"pipelines"})) == 4


@pytest.mark.parametrize(("gpu", "expected"), [("sm_80", 4), ("sm_120", 8), ("sm_90", 8)])
def test_two_warps_a_scheduler_where_tensor_cores_are_slow(gpu: str, expected: int) -> None:
    assert warps(product(), gpu) == expected


def test_a_hint_decides() -> None:
    hint = "optimization_hints = <sm_120 = {num_worker_warps_per_cta = 4}>"
    assert warps(product(hint), "sm_120") == 4
