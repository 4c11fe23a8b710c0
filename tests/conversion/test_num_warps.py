"""How many warps a block has: few with large parts of a chain of products where shared memory's port is what they wait for, many
where tensor cores are; a hint decides first."""
from __future__ import annotations

from typing import Any

import pytest

from tests.kernels import runner
from tileiras import bytecode, pipeline
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


def gathered(of: str) -> str:
    """A product of 64 x 64 whose left operand, of 64 x 128, is what is "loaded" at offsets of 64 bits, or these "offsets"."""
    a, b, o, i, p, m = (f"tile<{shape}x{t}>" for shape, t in (
        ("64x128", "f16"), ("128x64", "f16"), ("64x64", "f32"), ("64x128", "i64"), ("64x128", "ptr<f16>"), ("64x128", "i1")))
    return f"""cuda_tile.module @m {{
  entry @gathered(%p: tile<ptr<f16>>, %pitch: tile<i64>, %end: tile<i64>) {{
    %t = make_token : token
    %n = iota : tile<128xi64>
    %row = reshape %n : tile<128xi64> -> tile<1x128xi64>
    %columns = broadcast %row : tile<1x128xi64> -> {i}
    %p1 = reshape %pitch : tile<i64> -> tile<1x1xi64>
    %pitches = broadcast %p1 : tile<1x1xi64> -> {i}
    %e1 = reshape %end : tile<i64> -> tile<1x1xi64>
    %ends = broadcast %e1 : tile<1x1xi64> -> {i}
    %offsets = muli %columns, %pitches : {i}
    %mask = cmpi less_than %offsets, %ends, signed : {i} -> {m}
    %b1 = reshape %p : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %base = broadcast %b1 : tile<1x1xptr<f16>> -> {p}
    %at = offset %base, %offsets : {p}, {i} -> {p}
    %outside = constant <f16: 0.0> : {a}
    %loaded, %u = load_ptr_tko weak %at, %mask, %outside token=%t : {p}, {m}, {a} -> {a}, token
    %converted = itof %offsets signed : {i} -> {a}
    %b = constant <f16: 2.0> : {b}
    %zero = constant <f32: 0.0> : {o}
    %o = mmaf {"%loaded" if of == "loaded" else "%converted"}, %b, %zero : {a}, {b}, {o}
    print_tko "%f", %o : {o} -> token
    return
  }}
}}
"""


def warps(program: str | Any, gpu: str, **wishes: Any) -> int:
    options = CompileOptions(find_target(gpu), **wishes)
    source = parse_module(program) if isinstance(program, str) else program
    module: Any = pipeline.run(source, options, stop_at="nv_tileaa")
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


@pytest.mark.parametrize(("of", "expected"), [("loaded", 4), ("offsets", 8)])
def test_offsets_that_only_say_where_to_load_take_no_registers(of: str, expected: int) -> None:
    assert warps(gathered(of), "sm_120") == expected


def test_a_hint_decides() -> None:
    hint = "optimization_hints = <sm_120 = {num_worker_warps_per_cta = 4}>"
    assert warps(product(hint), "sm_120") == 4


def elementwise(body: str, elements: int = 128, kind: str = "f32") -> str:
    """`body` makes %y of %x, a tile of numbers."""
    tile = f"tile<{elements}x{kind}>"
    return f"""cuda_tile.module @m {{
  entry @work() {{
    %x = constant <{kind}: 1.0> : {tile}
    {body.replace("TILE", tile)}
    print_tko "%f", %y : {tile} -> token
    return
  }}
}}
"""


THREE_ROOTS = "%a = sqrt %x rounding<zero> : TILE\n %b = sqrt %a rounding<zero> : TILE\n %y = sqrt %b rounding<zero> : TILE"
POWER, TWO_POWERS = "%y = pow %x, %x : TILE", "%p = pow %x, %x : TILE\n    %y = pow %p, %x : TILE"


@pytest.mark.parametrize(("program", "expected"), [
    (elementwise("%y = addf %x, %x : TILE"), 1), (elementwise(POWER), 2),
    (elementwise(POWER, 512, "f16"), 4), (elementwise("%y = exp2 %x : TILE", 256), 2),
    (elementwise(THREE_ROOTS, 512, "f16"), 4),
    (elementwise("%y = sqrt %x rounding<approx> : TILE"), 1), (elementwise("%y = sqrt %x rounding<zero> : TILE"), 2)])
def test_long_work_is_shared_by_more_warps(program: str, expected: int) -> None:
    """A power is a hundred instructions, an exact root thirty; additions of four numbers, or exponentials of 8, are soon done."""
    assert warps(program, "sm_90") == expected


def test_what_crosses_warps_stays_within_one() -> None:
    body = """%p = pow %x, %x : TILE
    %s = reduce %p dim=0 identities=[0.0 : f32] : TILE -> tile<f32>
      (%a: tile<f32>, %b: tile<f32>) {
        %c = addf %a, %b : tile<f32>
        yield %c : tile<f32>
      }
    %r = reshape %s : tile<f32> -> tile<1xf32>
    %y = broadcast %r : tile<1xf32> -> TILE"""
    assert warps(elementwise(body), "sm_90") == 1
    assert warps(elementwise(POWER), "sm_90", opt_level=0) == 1


@pytest.mark.parametrize(("case", "expected"), [
    ("control_while_tile_condition", 2),    # iterations wait for each other, whatever comes together in them
    ("atomic_add_float16", 4),              # loops of compare-and-swap, one number after the other
    ("atomic_add_float32", 2),
    ("memory_raw_offsets", 2),              # remainders of 64 bits
    ("atomic_raw_offsets", 1),              # nine accesses, each behind another
    ("memory_in_place", 1)])
def test_suite_cases(case: str, expected: int) -> None:
    assert warps(bytecode.read(runner.export_case(case)), "sm_80") == expected
