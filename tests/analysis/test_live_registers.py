"""Registers that tiles take at once: what is alive, not what there is."""
from __future__ import annotations

from typing import Any

import pytest

from tileiras import pipeline
from tileiras.analysis.agents import words_of
from tileiras.analysis.live_registers import most_alive
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target

TILE = "tile<64x64xf32>"
"""32 registers of each thread of four warps."""


def alive(body: str, inside: str | None = None) -> int:
    """Of a kernel with the scalar %n, the tile of zeros %c, three tiles %x, %y and %z that are loaded and a view to store to."""
    view = "partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>"
    load = f"load_view_tko weak %v[%zero, %zero] : {view}, tile<i32> -> {TILE}, token"
    loads = "\n".join(f"%{name}, %u{name} = {load}" for name in "xyz")
    module: Any = pipeline.run(parse_module(f"""cuda_tile.module @m {{ entry @k(%p: tile<ptr<f32>>, %n: tile<i32>) {{
        %zero = constant <i32: 0> : tile<i32>
        %one = constant <i32: 1> : tile<i32>
        %c = constant <f32: 0.0> : {TILE}
        %w = make_tensor_view %p, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
        %v = make_partition_view %w : {view}
        {loads}
        {body}
        %e = store_view_tko weak %r, %v[%zero, %zero] : {TILE}, {view}, tile<i32> -> token
        return }} }}"""), CompileOptions(find_target("sm_80"), opt_level=0), stop_at="nv_tileaa")
    func = module.regions[0].block.first_op
    ops = None if inside is None else {op for op in func.walk() if op.name == inside}
    return most_alive(func.regions[0], lambda v: words_of(v.type, 4), ops)     # type: ignore[arg-type]


def add(name: str, a: str, b: str) -> str:
    return f"%{name} = addf %{a}, %{b} : {TILE}\n"


@pytest.mark.parametrize(("body", "tiles"), [
    (add("r", "x", "x"), 1),                                         # written where it is read
    (add("r", "x", "y"), 2),
    (add("r", "x", "c"), 1),                                         # a constant is made again
    (add("s", "x", "x") + add("t", "s", "s") + add("r", "t", "t"), 1),
    (add("s", "x", "y") + add("r", "s", "z"), 3),                    # all three are loaded first
    (add("s", "x", "y") + add("t", "s", "z") + add("r", "t", "x"), 3),
])
def test_of_a_block(body: str, tiles: int) -> None:
    assert alive(body) == 32 * tiles


def loop(inner: str, init: str = "c") -> str:
    return f"""%r = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %{init}) -> ({TILE}) {{
        {inner} continue %d : {TILE} }}
    """


def test_of_loops() -> None:
    """What a loop uses of what is made around it is alive all the time; what it carries, too."""
    assert alive(loop(add("d", "acc", "x"))) == 64
    assert alive(loop(add("s", "x", "y") + add("d", "acc", "s"))) == 32 * 4       # acc, x, y and their sum
    assert alive(loop(add("s", "x", "y") + add("d", "acc", "s"), "z")) == 32 * 4


def test_only_inside() -> None:
    body = add("s", "x", "y") + add("t", "s", "z") + loop(add("d", "acc", "t"), "t")
    assert alive(body) == 96 and alive(body, "scf.for") == 64
