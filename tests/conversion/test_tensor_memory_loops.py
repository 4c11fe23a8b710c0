"""What loops carry of accumulators in tensor memory: through inner loops and chains, rescaled, used on the way, begun anew,
conditionally. Against NumPy, at -O3, under several orders of what the tensor core and copies do."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import tileiras
from tileiras.bytecode import write
from tileiras.bytecode.version import CURRENT_VERSION
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.sim import simulate

M, N, K, MOST = 64, 32, 16, 8
TILE = f"tile<{M}x{N}xf32>"
MMA = f"tile<{M}x{K}xf16>, tile<{K}x{N}xf16>, {TILE}"
VIEWS = {"x": (M, MOST * K, M, K), "y": (MOST * K, N, K, N)}


def load(name: str, at: str) -> str:
    """A tile of A (`x`) or B (`y`), number `at` along k, as %name<at>."""
    rows, columns, tile_rows, tile_columns = VIEWS[name]
    tensor = f"tensor_view<{rows}x{columns}xf16, strides=[{columns},1]>"
    index = f"%zero, %{at}" if name == "x" else f"%{at}, %zero"
    return (f"%{name}{at}, %{name}{at}t = load_view_tko weak %{name}v[{index}] token = %none : partition_view<tile=({tile_rows}x"
            f"{tile_columns}), {tensor}>, tile<i32> -> tile<{tile_rows}x{tile_columns}xf16>, token\n")


def product(result: str, at: str, acc: str) -> str:
    return f"{load('x', at)}{load('y', at)}%{result} = mmaf %x{at}, %y{at}, %{acc} : {MMA}\n"


def loop(body: str, yielded: str = "z", carried: str = "acc", init: str = "start", end: str = "n", result: str = "sum",
         counter: str = "i") -> str:
    """A loop that carries one accumulator."""
    return (f"%{result} = for %{counter} in (%zero to %{end}, step %one) : tile<i32> iter_values(%{carried} = %{init}) -> ({TILE}) "
            f"{{\n{body}continue %{yielded} : {TILE}\n}}\n")


class Program(NamedTuple):
    """What computes %sum, and what it is: a function of the steps' products, of what it starts with, and of the number of steps."""

    text: str
    expected: Callable[[list[np.ndarray], np.ndarray, int], np.ndarray]


def nested(products: list[np.ndarray], start: np.ndarray, steps: int) -> np.ndarray:
    """The inner loop's two products in each step."""
    return start + sum(products[i] + products[(i + 1) % MOST] for i in range(steps))


def rescaled(products: list[np.ndarray], start: np.ndarray, steps: int) -> np.ndarray:
    for p in products[:steps]:
        start = start / 2 + p
    return start


def used(products: list[np.ndarray], start: np.ndarray, steps: int) -> np.ndarray:
    total, acc = np.zeros_like(start), start
    for p in products[:steps]:
        acc = acc + p
        total = total + acc
    return total


PROGRAMS = {
    "plain": Program(loop(product("z", "i", "acc")), lambda p, s, n: s + sum(p[:n])),
    "through an inner loop": Program(
        loop(loop("%j1 = addi %i, %j : tile<i32>\n%k = remi %j1, %most signed : tile<i32>\n" + product("w", "k", "in"), "w", "in",
                  "acc", "two", "z", "j")), nested),
    "rescaled": Program(loop(f"%old = mulf %acc, %half : {TILE}\n" + product("z", "i", "old")), rescaled),
    "a chain": Program(loop(product("w", "i", "acc") + f"%z = mmaf %xi, %yi, %w : {MMA}\n"), lambda p, s, n: s + 2 * sum(p[:n])),
    "used on the way": Program(
        f"%both, %total = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start, %t = %nothing) -> "
        f"({TILE}, {TILE}) {{\n"
        + product("z", "i", "acc") + f"%u = addf %t, %z : {TILE}\ncontinue %z, %u : {TILE}, {TILE}\n}}\n"
        f"%sum = addf %total, %nothing : {TILE}\n", used),
    "begun anew": Program(loop(product("w", "i", "nothing") + f"%z = addf %acc, %w : {TILE}\n"), lambda p, s, n: s + sum(p[:n])),
    "in every other step": Program(
        loop("%odd = andi %i, %one : tile<i32>\n%c = cmpi equal %odd, %zero, signed : tile<i32> -> tile<i1>\n"
             f"%z = if %c -> ({TILE}) {{\n{product('w', 'i', 'acc')}yield %w : {TILE}\n}} else {{\nyield %acc : {TILE}\n}}\n"),
        lambda p, s, n: s + sum(p[:n:2])),
    "two of them": Program(
        f"%both, %total = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start, %t = %nothing) -> "
        f"({TILE}, {TILE}) {{\n"
        + product("z", "i", "acc") + f"%u = mmaf %xi, %yi, %t : {MMA}\ncontinue %z, %u : {TILE}, {TILE}\n}}\n"
        f"%sum = subf %both, %total : {TILE}\n", lambda p, s, n: s),
}


def text_of(program: Program, start: int) -> str:
    made = "".join(
        f"%{n}t = make_tensor_view %{n}, shape = [{r}, {c}], strides = [{c}, 1] : tensor_view<{r}x{c}xf16, strides=[{c},1]>\n"
        f"%{n}v = make_partition_view %{n}t : partition_view<tile=({tr}x{tc}), tensor_view<{r}x{c}xf16, strides=[{c},1]>>\n"
        for n, (r, c, tr, tc) in VIEWS.items())
    out = f"tensor_view<{M}x{N}xf32, strides=[{N},1]>"
    view = f"partition_view<tile=({M}x{N}), {out}>"
    constants = {"zero": 0, "one": 1, "two": 2, "most": MOST}
    return f"""cuda_tile.module @m {{
  entry @k(%xp: tile<ptr<f16>>, %yp: tile<ptr<f16>>, %dp: tile<ptr<f32>>, %n: tile<i32>) {{
{''.join(f"%{a} = assume div_by<16>, %{a}p : tile<ptr<{t}>>" + chr(10) for a, t in (("x", "f16"), ("y", "f16"), ("d", "f32")))}
{made}
{''.join(f"%{name} = constant <i32: {value}> : tile<i32>" + chr(10) for name, value in constants.items())}
%none = make_token : token
%start = constant <f32: {start}.0> : {TILE}
%nothing = constant <f32: 0.0> : {TILE}
%half = constant <f32: 0.5> : {TILE}
{program.text}
%dt = make_tensor_view %d, shape = [{M}, {N}], strides = [{N}, 1] : {out}
%dv = make_partition_view %dt : {view}
%stored = store_view_tko weak %sum, %dv[%zero, %zero] token = %none : {TILE}, {view}, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize("start", [0, 4])
@pytest.mark.parametrize("name", PROGRAMS)
def test_accumulators_of_loops(name: str, start: int) -> None:
    program = PROGRAMS[name]
    bytecode = write(parse_module(text_of(program, start)), CURRENT_VERSION)
    ptx = tileiras.compile(bytecode, gpu_name="sm_100", verify_each=True).ptx
    assert "tcgen05.mma" in ptx and "mma.sync" not in ptx
    rng = np.random.default_rng(start)
    x, y = (rng.integers(-2, 3, VIEWS[n][:2]).astype(np.float16) for n in "xy")
    products = [x[:, K * i:K * i + K].astype(np.float64) @ y[K * i:K * i + K].astype(np.float64) for i in range(MOST)]
    for steps, seeds in ((0, [0]), (1, [1]), (4, range(5))):
        for seed in seeds:
            d = np.full((M, N), np.nan, np.float32)
            report = simulate(ptx, kernel="k", args=[x, y, d, steps], seed=seed)
            assert not report.findings, report.findings[0]
            expected = program.expected(products, np.full((M, N), float(start)), steps)
            np.testing.assert_array_equal(d, expected, err_msg=f"{steps} steps, seed {seed}")


@pytest.mark.parametrize("name, stays", [("plain", True), ("through an inner loop", True), ("a chain", True), ("two of them", True),
                                         ("rescaled", False), ("begun anew", False)])
def test_what_only_adds_stays_in_tensor_memory(name: str, stays: bool) -> None:
    """Accumulators are loaded behind the loops, once each, not in them; what begins anew is in a loop, which may be of other warps
    than those that multiply."""
    bytecode = write(parse_module(text_of(PROGRAMS[name], 0)), CURRENT_VERSION)
    lines = [line.strip() for line in tileiras.compile(bytecode, gpu_name="sm_100").ptx.splitlines()]
    labels = {line.rstrip(":"): i for i, line in enumerate(lines) if re.fullmatch(r"\$L\w+:", line)}
    back = [(labels[m[1]], i) for i, line in enumerate(lines) if (m := re.search(r"\bbra(?:\.uni)?\s+(\$L\w+);", line))
            and labels[m[1]] < i]
    dots = [i for i, line in enumerate(lines) if line.startswith("tcgen05.mma")]
    loads = [i for i, line in enumerate(lines) if line.startswith("tcgen05.ld")]
    assert loads and any(a < i < b for i in dots for a, b in back)
    assert not any(a < i < b for i in loads for a, b in back) == stays
