"""A `continue` ends its loop only if all later iterations would come to it, and change nothing on their way."""
from __future__ import annotations

from typing import Any

import pytest

from tileiras import pipeline
from tileiras.analysis.idle_iterations import ends_the_loop
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target

NOTHING = ""
PRINTS = 'print_tko "%d", %i : tile<i32> -> token'


def ends(condition: str, carried: str, before: str = NOTHING, last: str = "%x, %over") -> list[bool]:
    """Whether the `continue` under a condition ends the loop, and whether the body's end does."""
    program = f"""cuda_tile.module @m {{
  entry @k(%n: tile<i32>, %flag: tile<i1>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %false = constant <i1: false> : tile<i1>
    %true = constant <i1: true> : tile<i1>
    %r, %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%x = %zero, %over = %false) -> (tile<i32>, tile<i1>) {{
      {before}
      %late = cmpi greater_than %i, %one, signed : tile<i32> -> tile<i1>
      if {condition} {{
        continue {carried} : tile<i32>, tile<i1>
      }}
      print_tko "%d", %x : tile<i32> -> token
      continue {last} : tile<i32>, tile<i1>
    }}
    print_tko "%d", %r : tile<i32> -> token
    return
  }}
}}
"""
    module: Any = pipeline.run(parse_module(program), CompileOptions(find_target("sm_80"), opt_level=0), stop_at="nv_tileas")
    loop = next(op for op in module.walk() if op.name == "scf.for")
    return [ends_the_loop(op) for op in loop.walk() if op.name == "nv_tileas.continue" or op is loop.regions[0].block.last_op]


def test_a_loop_that_is_over() -> None:
    assert ends("%over", "%x, %over") == [True, False]
    assert ends("%flag", "%x, %over") == [True, False]
    assert ends("%over", "%x, %over", last="%i, %true") == [True, True]


@pytest.mark.parametrize(("condition", "carried", "before", "last"), [
    ("%over", "%i, %over", NOTHING, "%i, %true"),       # it carries something else
    ("%late", "%x, %over", NOTHING, "%i, %true"),       # a later iteration decides anew
    ("%over", "%x, %over", PRINTS, "%i, %true"),        # it does something first
    ("%flag", "%x, %over", NOTHING, "%i, %true"),       # nobody asks the carried value
    ("%over", "%x, %over", NOTHING, "%i, %false")])
def test_a_loop_that_goes_on(condition: str, carried: str, before: str, last: str) -> None:
    assert not ends(condition, carried, before, last)[-1]


def test_what_an_iteration_changes_or_does_first_counts() -> None:
    assert not ends("%over", "%i, %over")[0]
    assert not ends("%late", "%x, %over")[0]
    assert not ends("%over", "%x, %over", PRINTS)[0]
