"""Which loads read what nobody writes while the kernel runs: those that no token joins to a write."""
from __future__ import annotations

import pytest

from tileiras.analysis.invariant_loads import LOADS, invariant_loads
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.pipeline import PIPELINE

VIEW = "tensor_view<?xf32, strides=[1]>"
TILES = f"partition_view<tile=(64), {VIEW}>"
LOAD = f"load_view_tko weak %v[%i] token = TOKEN : {TILES}, tile<i32> -> tile<64xf32>, token"
STORE = f"store_view_tko weak %c, %v[%i] token = TOKEN : tile<64xf32>, {TILES}, tile<i32> -> token"


def load(name: str, token: str) -> str:
    return f"%{name}, %{name}t = {LOAD.replace('TOKEN', token)}"


def store(name: str, token: str) -> str:
    return f"%{name} = {STORE.replace('TOKEN', token)}"


def number_of_invariant_loads(*lines: str) -> tuple[int, int]:
    """(invariant loads, loads) of a kernel with these lines."""
    body = "\n    ".join(lines)
    ir = parse_module(f"""cuda_tile.module @m {{
  entry @k(%p: tile<ptr<f32>>, %n: tile<i32>) {{
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 1.0> : tile<64xf32>
    %w = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> {VIEW}
    %v = make_partition_view %w : {TILES}
    {body}
    return
  }}
}}
""")
    ir = PIPELINE[0].apply(ir, CompileOptions(find_target("sm_90")))
    func = ir.body.block.first_op
    return len(invariant_loads(func)), sum(op.name in LOADS for op in func.walk())


LOOP = "%o = for %j in (%i to %n, step %one) : tile<i32> iter_values(%h = %t) -> (token) {"
ATOMIC = "%old, %a = atomic_rmw_tko acq_rel device %p, addf, %f token = %t : tile<ptr<f32>>, tile<f32> -> tile<f32>, token"

PROGRAMS = {
    "alone": ((load("x", "%t"),), 1),
    "beside a store": ((load("x", "%t"), store("s", "%t")), 1),
    "before a store": ((load("x", "%t"), store("s", "%xt")), 0),
    "behind a store": ((store("s", "%t"), load("x", "%s")), 0),
    "behind a load that is behind a store": ((store("s", "%t"), load("x", "%s"), load("y", "%xt")), 0),
    "joined with others, then a store": (
        (load("x", "%t"), load("y", "%t"), "%b = join_tokens %xt, %yt : token", store("s", "%b"), load("z", "%t")), 1),
    "in a loop": ((LOOP, load("x", "%h"), "continue %xt : token", "}"), 1),
    "in a loop, before the store of the same iteration": (
        (LOOP, load("x", "%h"), store("s", "%xt"), "continue %s : token", "}"), 0),
    "in a loop, behind the store of the iteration before": (
        (LOOP, load("x", "%h"), store("s", "%t"), "continue %s : token", "}"), 0),
    "behind a loop that stores": ((LOOP, store("s", "%h"), "continue %s : token", "}", load("x", "%o")), 0),
    "before a loop that stores": ((load("x", "%t"), LOOP.replace("%h = %t", "%h = %xt"), store("s", "%h"),
                                   "continue %s : token", "}"), 0),
    "behind a branch that stores": (
        ("%q = constant <i1: 1> : tile<i1>", "%o = if %q -> (token) {", store("s", "%t"), "yield %s : token", "} else {",
         "yield %t : token", "}", load("x", "%o")), 0),
    "behind an atomic that acquires": (("%f = constant <f32: 1.0> : tile<f32>", ATOMIC, load("x", "%a")), 0),
    "in a kernel that waits for another": ((load("x", "%t"), "%g = gdc_wait_tko token = %t -> token"), 0),
}


@pytest.mark.parametrize("where", list(PROGRAMS))
def test_loads_that_no_token_joins_to_a_write(where: str) -> None:
    lines, count = PROGRAMS[where]
    loads = sum("load_view_tko" in line for line in lines)
    assert number_of_invariant_loads(*lines) == (count, loads)


def test_ordered_loads_may_see_what_others_write() -> None:
    ordered = load("x", "%t").replace("weak", "acquire device")
    assert number_of_invariant_loads(ordered, load("y", "%xt")) == (0, 2)
