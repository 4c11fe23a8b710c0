"""Streamed softmax attention of one block of queries, tile of keys by tile of keys.

    Attention("f16", queries=128, keys=64, features=64, steps=3)
    Attention("f16", queries=128, keys=64, features=64, steps=3, first=1)      # in two loops, one tile in the first

The queries, keys and values lie row by row; keys are read transposed. `rise`: scores grow from tile to tile, so that each one
rescales what was summed before; else the first tile has the greatest and nothing is rescaled any more.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np

import tileiras
from tileiras.bytecode import write
from tileiras.bytecode.version import CURRENT_VERSION
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.sim import simulate

TYPES: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


@dataclass(frozen=True)
class Attention:
    kind: str
    queries: int
    keys: int
    features: int
    steps: int = 3
    rise: bool = True
    first: int | None = None

    def __str__(self) -> str:
        parts = "" if self.first is None else f"-{self.first}"
        return f"{self.kind}-{self.queries}x{self.keys}x{self.features}-{self.steps}{parts}{'' if self.rise else '-falling'}"

    @property
    def text(self) -> str:
        """The program."""
        t, m, n, d = self.kind, self.queries, self.keys, self.features
        whole = n * max(self.steps, 1)

        def view(name: str, rows: int, columns: int, tile: tuple[int, int], element: str, turned: bool = False) -> tuple[str, str]:
            shape, strides = (f"{columns}x{rows}", f"1,{columns}") if turned else (f"{rows}x{columns}", f"{columns},1")
            tensor = f"tensor_view<{shape}x{element}, strides=[{strides}]>"
            part = f"partition_view<tile=({tile[0]}x{tile[1]}), {tensor}>"
            made = f"make_tensor_view %{name}a, shape = [{shape.replace('x', ', ')}], strides = [{strides}] : {tensor}"
            return (f"%{name}a = assume div_by<16>, %{name}p : tile<ptr<{element}>>\n%{name}t = {made}\n"
                    f"%{name}v = make_partition_view %{name}t : {part}\n", part)
        q, qv = view("q", m, d, (m, d), t)
        k, kv = view("k", whole, d, (d, n), t, turned=True)
        v, vv = view("v", whole, d, (n, d), t)
        o, ov = view("o", m, d, (m, d), "f32")
        def loop(name: str, low: str, high: str, acc: str, most: str, weight: str) -> str:
            return f"""    %sum{name}, %last{name}, %total{name} = for %i in ({low} to {high}, step %one) : tile<i32>
        iter_values(%acc = {acc}, %most = {most}, %weight = {weight}) -> (tile<{m}x{d}xf32>, tile<{m}x1xf32>, tile<{m}x1xf32>) {{
      %key, %kt1 = load_view_tko weak %kv[%zero, %i] token = %none : {kv}, tile<i32> -> tile<{d}x{n}x{t}>, token
      %s = mmaf %query, %key, %empty : tile<{m}x{d}x{t}>, tile<{d}x{n}x{t}>, tile<{m}x{n}xf32>
      %r = reduce %s dim=1 identities=[-1.0e30 : f32] : tile<{m}x{n}xf32> -> tile<{m}xf32>
      (%x: tile<f32>, %y: tile<f32>) {{
        %z = maxf %x, %y : tile<f32>
        yield %z : tile<f32>
      }}
      %r1 = reshape %r : tile<{m}xf32> -> tile<{m}x1xf32>
      %more = maxf %most, %r1 : tile<{m}x1xf32>
      %wide = broadcast %more : tile<{m}x1xf32> -> tile<{m}x{n}xf32>
      %less = subf %s, %wide : tile<{m}x{n}xf32>
      %e = exp2 %less : tile<{m}x{n}xf32>
      %w = reduce %e dim=1 identities=[0.0 : f32] : tile<{m}x{n}xf32> -> tile<{m}xf32>
      (%x: tile<f32>, %y: tile<f32>) {{
        %z = addf %x, %y : tile<f32>
        yield %z : tile<f32>
      }}
      %w1 = reshape %w : tile<{m}xf32> -> tile<{m}x1xf32>
      %p = ftof %e : tile<{m}x{n}xf32> -> tile<{m}x{n}x{t}>
      %fall = subf %most, %more : tile<{m}x1xf32>
      %shrink = exp2 %fall : tile<{m}x1xf32>
      %kept = mulf %weight, %shrink : tile<{m}x1xf32>
      %weights = addf %kept, %w1 : tile<{m}x1xf32>
      %shrinks = broadcast %shrink : tile<{m}x1xf32> -> tile<{m}x{d}xf32>
      %old = mulf %acc, %shrinks : tile<{m}x{d}xf32>
      %value, %vt1 = load_view_tko weak %vv[%i, %zero] token = %none : {vv}, tile<i32> -> tile<{n}x{d}x{t}>, token
      %new = mmaf %p, %value, %old : tile<{m}x{n}x{t}>, tile<{n}x{d}x{t}>, tile<{m}x{d}xf32>
      continue %new, %more, %weights : tile<{m}x{d}xf32>, tile<{m}x1xf32>, tile<{m}x1xf32>
    }}
"""
        if self.first is None:
            loops = loop("", "%zero", "%steps", "%nothing", "%least", "%naught")
        else:
            loops = f"%part = constant <i32: {self.first}> : tile<i32>\n" + \
                loop("0", "%zero", "%part", "%nothing", "%least", "%naught") + \
                loop("", "%part", "%steps", "%sum0", "%last0", "%total0")
        return f"""cuda_tile.module @m {{
  entry @attention(%qp: tile<ptr<{t}>>, %kp: tile<ptr<{t}>>, %vp: tile<ptr<{t}>>, %op: tile<ptr<f32>>, %steps: tile<i32>) {{
    {q}{k}{v}{o}
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = make_token : token
    %empty = constant <f32: 0.0> : tile<{m}x{n}xf32>
    %nothing = constant <f32: 0.0> : tile<{m}x{d}xf32>
    %least = constant <f32: -1.0e30> : tile<{m}x1xf32>
    %naught = constant <f32: 0.0> : tile<{m}x1xf32>
    %query, %qt1 = load_view_tko weak %qv[%zero, %zero] token = %none : {qv}, tile<i32> -> tile<{m}x{d}x{t}>, token
    {loops}
    %totals = broadcast %total : tile<{m}x1xf32> -> tile<{m}x{d}xf32>
    %mean = divf %sum, %totals : tile<{m}x{d}xf32>
    %stored = store_view_tko weak %mean, %ov[%zero, %zero] token = %none : tile<{m}x{d}xf32>, {ov}, tile<i32> -> token
    return
  }}
}}
"""

    def compiled(self, gpu: str = "sm_100", opt_level: int = 3, **options: Any) -> Any:
        """The compiled module."""
        return tileiras.compile(write(parse_module(self.text), CURRENT_VERSION), gpu_name=gpu, opt_level=opt_level, **options)

    @cached_property
    def inputs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Queries, keys and values."""
        m, n, d = self.queries, self.keys * self.steps, self.features
        rng = np.random.default_rng(m + n + d)
        q, k, v = (rng.standard_normal(shape) for shape in ((m, d), (n, d), (n, d)))
        tile = np.arange(n) // self.keys
        k *= (1.0 + tile if self.rise else 0.5 ** tile)[:, None] / np.sqrt(d)
        if not self.rise:       # one key of the first tile stands out for all queries
            q[:, 0], k[:, 0], k[0, 0] = 1.0, 0.0, 16.0
        dtype = TYPES[self.kind]
        return q.astype(dtype), k.astype(dtype), v.astype(dtype)

    def expected(self) -> np.ndarray:
        q, k, v = (x.astype(np.float64) for x in self.inputs)
        s = q @ k.T
        e = np.exp2(s - s.max(axis=1, keepdims=True))
        return e @ v / e.sum(axis=1, keepdims=True)

    @property
    def tolerance(self) -> float:
        """Weights are rounded to the inputs' type: half a unit in the last place, of values up to 4."""
        return 4 * float(ml_dtypes.finfo(TYPES[self.kind]).eps) / 2

    def simulated(self, ptx: str, seed: int = 0) -> np.ndarray:
        """What the program computes. The first finding is raised."""
        out = np.full((self.queries, self.features), np.nan, np.float32)
        report = simulate(ptx, kernel="attention", args=[*self.inputs, out, self.steps], seed=seed)
        if report.findings:
            raise report.findings[0]
        return out
