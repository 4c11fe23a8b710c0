"""Which accesses may go by the copy engine, and what is said of the others; values of the launch as recipes."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.host_values import MAX_OPS, host_value
from tileiras.analysis.tma import MapFacts, map_facts
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import CompileOptions
from tileiras.host.recipe import evaluate
from tileiras.machine.targets import find_target
from tileiras.pipeline import PIPELINE


def placed(program: str) -> Any:
    """The function at the level of accesses whose facts are known."""
    options, ir = CompileOptions(find_target("sm_90")), parse_module(program)
    for entry in PIPELINE:
        if entry.level != "nv_tileas" or entry.name == "convert-tileaa-to-tileas":
            ir = entry.apply(ir, options)
        else:
            return ir.body.block.first_op
    raise AssertionError


def load_of(element: str = "f16", tile: str = "64x32", strides: str = "?,1", padding: str = "", base: int = 16, stride: int = 8,
            semantics: str = "weak", hint: str = "", index: str = "i32", from_memory: bool = False, steps: str = "") -> Any:
    """What is said of a load of a tile of a matrix."""
    view = f"tensor_view<?x?x{element}, strides=[{strides}]>"
    pad = f", padding_value = {padding}" if padding else ""
    kind = "strided" if steps else "partition"
    tiled = f"{kind}_view<tile=({tile}){', traversal_strides=' + steps if steps else ''}{pad}, {view}>"
    n = "%loaded" if from_memory else "%n"
    given = ", ".join("%s1" if s == "?" else s for s in strides.split(","))
    func = placed(f"""cuda_tile.module @m {{
  entry @k(%p: tile<ptr<{element}>>, %n: tile<{index}>, %s: tile<{index}>, %q: tile<ptr<{index}>>) {{
    %zero = constant <{index}: 0> : tile<{index}>
    %loaded, %lt = load_ptr_tko weak %q : tile<ptr<{index}>> -> tile<{index}>, token
    %p1 = assume div_by<{base}>, %p : tile<ptr<{element}>>
    %s1 = assume div_by<{stride}>, %s : tile<{index}>
    %w = make_tensor_view %p1, shape = [{n}, %n], strides = [{given}] : tile<{index}> -> {view}
    %a = make_{kind}_view %w : {tiled}
    %x, %t = load_view_tko {semantics} %a[%zero, %zero]{hint} : {tiled}, tile<{index}>, tile<{index}>
      -> tile<{tile}x{element}>, token
    %e = store_view_tko weak %x, %a[%zero, %zero] : tile<{tile}x{element}>, {tiled}, tile<{index}>, tile<{index}> -> token
    return
  }}
}}
""")
    op = next(op for op in func.walk() if op.name == "nv_tileas.tiled_load")
    return map_facts(op, AxisAnalysis(func))


def test_an_aligned_view_has_a_map() -> None:
    facts = load_of()
    assert isinstance(facts, MapFacts) and facts.element == "f16" and not facts.nan
    assert (facts.tile.shape, facts.tile.major, facts.tile.swizzle) == ((64, 32), 1, 64)
    assert load_of(padding="zero") == facts
    assert load_of(steps="[30, 40]") == facts
    padded = load_of(padding="nan")
    assert isinstance(padded, MapFacts) and padded.nan


@pytest.mark.parametrize("given, said", [
    ({"base": 8}, "the base {name} isn't known to be aligned to 16 bytes"),
    ({"stride": 4}, "stride {name} of dimension 0 isn't known to be a multiple of 8 elements (16 bytes)"),
    ({"strides": "100,1"}, "stride 100 of dimension 0 isn't a multiple of 8 elements (16 bytes)"),
    ({"strides": "1,100"}, "stride 100 of dimension 1 isn't a multiple of 8 elements (16 bytes)"),
    ({"strides": "?,2"}, "no dimension of the tile is known to have stride 1"),
    ({"padding": "neg_inf"}, "the copy engine pads with zero, not with neg_inf; select behind the load"),
    ({"semantics": "relaxed device"}, "the copy engine knows no relaxed accesses"),
    ({"hint": " optimization_hints = <sm_90 = {allow_tma = false}>"}, "the hint allow_tma = false"),
    ({"index": "i64"}, "sizes or indices have more than 32 bits"),
    ({"tile": "64x4"}, "a row of the tile has 8 bytes, copies have 16 at least; use a wider tile"),
    ({"steps": "[64, 36]"}, "tiles lie 72 bytes apart along memory, and boxes begin at multiples of 16"),
    ({"element": "i1", "stride": 16}, "the copy engine has no elements of type i1"),
    ({"from_memory": True}, "address, sizes or strides are computed in the kernel, not functions of its parameters, and the map "
                            "would serve one tile")])
def test_the_one_thing_that_stands_against_a_map_is_said(given: dict[str, Any], said: str) -> None:
    assert [r.reason for r in load_of(**given)] == [said]


def test_a_refusal_names_the_value_and_what_would_help() -> None:
    refusal, = load_of(stride=2)
    assert refusal.needs == 8 and refusal.value.owner.name == "nv_tileas.assume"


PREDICATES = {"equal": np.equal, "not_equal": np.not_equal, "less_than": np.less, "less_than_or_equal": np.less_equal,
              "greater_than": np.greater, "greater_than_or_equal": np.greater_equal}


@pytest.mark.parametrize("text, expected", [
    ("addi %a, %b : tile<i32>", lambda a, b: a + b), ("subi %a, %b : tile<i32>", lambda a, b: a - b),
    ("muli %a, %b : tile<i32>", lambda a, b: a * b), ("andi %a, %b : tile<i32>", lambda a, b: a & b),
    ("ori %a, %b : tile<i32>", lambda a, b: a | b), ("xori %a, %b : tile<i32>", lambda a, b: a ^ b),
    ("maxi %a, %b signed : tile<i32>", np.maximum), ("mini %a, %b signed : tile<i32>", np.minimum),
    ("negi %a : tile<i32>", lambda a, b: -a)])
def test_arithmetic_of_parameters_is_a_recipe(text: str, expected: Any) -> None:
    recipe = host_value(_size_of(text))
    assert recipe is not None
    numbers = [0, 1, 5, 63, -1, -7, 2**31 - 1, -2**31]
    for a in numbers:
        for b in numbers:
            with np.errstate(over="ignore"):
                wanted = int(expected(np.int32(a), np.int32(b))) & 0xFFFFFFFF
            assert evaluate(recipe, [0, a, b]) == wanted, (a, b)


@pytest.mark.parametrize("signedness, kind", [("signed", np.int32), ("unsigned", np.uint32)])
@pytest.mark.parametrize("predicate", PREDICATES)
def test_comparisons_and_choices_are_recipes(predicate: str, signedness: str, kind: Any) -> None:
    recipe = host_value(_size_of("select %c, %a, %b : tile<i1>, tile<i32>",
                                 f"%c = cmpi {predicate} %a, %b, {signedness} : tile<i32> -> tile<i1>"))
    assert recipe is not None
    for a in (0, 1, -1, 100):
        for b in (0, 1, -2, 100):
            holds = PREDICATES[predicate](np.array(a).astype(kind), np.array(b).astype(kind))
            assert evaluate(recipe, [0, a, b]) == (a if holds else b) & 0xFFFFFFFF, (a, b)


def _size_of(text: str, before: str = "") -> Any:
    """The value of an extent that is computed from parameters 1 and 2."""
    view = "tensor_view<?xf32, strides=[1]>"
    func = placed(f"""cuda_tile.module @m {{
  entry @k(%p: tile<ptr<f32>>, %a: tile<i32>, %b: tile<i32>) {{
    %zero = constant <i32: 0> : tile<i32>
    {before}
    %n = {text}
    %w = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> {view}
    %v = make_partition_view %w : partition_view<tile=(64), {view}>
    %x, %t = load_view_tko weak %v[%zero] : partition_view<tile=(64), {view}>, tile<i32> -> tile<64xf32>, token
    %e = store_view_tko weak %x, %v[%zero] : tile<64xf32>, partition_view<tile=(64), {view}>, tile<i32> -> token
    return
  }}
}}
""")
    return next(op for op in func.walk() if op.name == "nv_tileas.make_memref").sizes[0]


def test_a_long_way_from_the_parameters_is_no_recipe() -> None:
    steps = [f"%v{i} = muli %{'a' if i == 0 else f'v{i - 1}'}, %b : tile<i32>" for i in range(MAX_OPS + 1)]
    assert host_value(_size_of(f"addi %v{MAX_OPS}, %a : tile<i32>", "\n".join(steps))) is None
