"""A kernel that multiplies two matrices tile by tile, in every type and order, with inputs whose products and sums are exact.

    Product("f16", "f32", tile=(64, 64, 32), steps=3, b_order="nk")

One block computes one tile of C from `steps` tiles of A and B along k, in a loop; A lies as (m, k) or (k, m) in memory, B as
(k, n) or (n, k).
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import tileiras
from tileiras.bytecode import write
from tileiras.bytecode.version import CURRENT_VERSION
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.sim import simulate

TYPES: dict[str, tuple[str, Any]] = {
    "f16": ("f16", np.float16), "bf16": ("bf16", ml_dtypes.bfloat16), "tf32": ("tf32", np.float32), "f32": ("f32", np.float32),
    "e4m3": ("f8E4M3FN", ml_dtypes.float8_e4m3fn), "e5m2": ("f8E5M2", ml_dtypes.float8_e5m2), "s8": ("i8", np.int8),
    "u8": ("i8", np.uint8), "s32": ("i32", np.int32)}
"""The IR's name and NumPy's type."""


@dataclass(frozen=True)
class Product:
    """`tile`: m, n, k of a tile. `start`: what the accumulator begins with. `aligned`: the matrices lie at multiples of 16
    bytes. `warps`, `ctas`: as a hint asks for (0: there is none). `missing`: rows, columns and k that the matrices lack of whole
    tiles."""

    kind: str
    acc: str
    tile: tuple[int, int, int]
    steps: int = 2
    a_order: str = "mk"
    b_order: str = "kn"
    fast: bool = False
    start: int = 0
    aligned: bool = True
    warps: int = 0
    ctas: int = 0
    missing: tuple[int, int, int] = (0, 0, 0)

    def __str__(self) -> str:
        m, n, k = self.tile
        extra = ("-fast" if self.fast else "") + ("" if self.aligned else "-unaligned")
        extra += (f"-{self.warps}warps" if self.warps else "") + (f"-{self.ctas}ctas" if self.ctas else "")
        extra += "-missing" + "x".join(map(str, self.missing)) if any(self.missing) else ""
        return f"{self.kind}-{self.acc}-{m}x{n}x{k}-{self.steps}-{self.a_order}-{self.b_order}{extra}"

    @property
    def extents(self) -> tuple[int, int, int]:
        """Of the matrices: m, n, k."""
        m, n, k = self.tile
        lacks = self.missing
        return m - lacks[0], n - lacks[1], k * max(self.steps, 1) - lacks[2]

    @property
    def text(self) -> str:
        """The program."""
        m, n, k = self.tile
        t, c = TYPES[self.kind][0], TYPES[self.acc][0]
        rows, columns, whole = self.extents
        padding = "padding_value = zero, " if any(self.missing) else ""

        def view(name: str, rows: int, columns: int, order: bool, tile: tuple[int, int], element: str) -> tuple[str, str]:
            """A matrix of rows x columns, rows contiguous or (`order`) columns."""
            strides = f"[{columns},1]" if order else f"[1,{rows}]"
            tensor = f"tensor_view<{rows}x{columns}x{element}, strides={strides}>"
            partition = f"partition_view<tile=({tile[0]}x{tile[1]}), {padding}{tensor}>"
            made = f"[{columns}, 1]" if order else f"[1, {rows}]"
            return (f"%{name}t = make_tensor_view %{name}, shape = [{rows}, {columns}], strides = {made} : {tensor}\n"
                    f"%{name}v = make_partition_view %{name}t : {partition}\n", partition)
        a, av = view("a", rows, whole, self.a_order == "mk", (m, k), t)
        b, bv = view("b", whole, columns, self.b_order == "kn", (k, n), t)
        d, dv = view("d", rows, columns, True, (m, n), c)
        signed = {"s8": " signed signed", "u8": " unsigned unsigned"}.get(self.kind, "")
        op = "mmai" if self.acc == "s32" else "mmaf"
        start = f"{self.start}" if self.acc == "s32" else f"{self.start}.0"
        hinted = {"num_worker_warps_per_cta": self.warps, "num_cta_in_cga": self.ctas}
        given = ", ".join(f"{name} = {n}" for name, n in hinted.items() if n)
        asked = ", ".join(f"sm_{sm} = {{{given}}}" for sm in (90, 100, 103, 110))
        hints = f" optimization_hints=<{asked}>" if given else ""
        assume = "".join(f"%{x} = assume div_by<16>, %{x}p : tile<ptr<{e}>>\n" if self.aligned else
                         f"%{x} = assume div_by<1>, %{x}p : tile<ptr<{e}>>\n" for x, e in (("a", t), ("b", t), ("d", c)))
        return f"""cuda_tile.module @m {{
  entry @product(%ap: tile<ptr<{t}>>, %bp: tile<ptr<{t}>>, %dp: tile<ptr<{c}>>, %steps: tile<i32>){hints} {{
    {assume}
    {a}{b}{d}
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = make_token : token
    %start = constant <{c}: {start}> : tile<{m}x{n}x{c}>
    %sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<{m}x{n}x{c}>) {{
      %x, %xt = load_view_tko weak %av[%zero, %i] token = %none : {av}, tile<i32> -> tile<{m}x{k}x{t}>, token
      %y, %yt = load_view_tko weak %bv[%i, %zero] token = %none : {bv}, tile<i32> -> tile<{k}x{n}x{t}>, token
      %z = {op} %x, %y, %acc{signed}{' fast_acc' if self.fast else ''} : tile<{m}x{k}x{t}>, tile<{k}x{n}x{t}>, tile<{m}x{n}x{c}>
      continue %z : tile<{m}x{n}x{c}>
    }}
    %stored = store_view_tko weak %sum, %dv[%zero, %zero] token = %none : tile<{m}x{n}x{c}>, {dv}, tile<i32> -> token
    return
  }}
}}
"""

    def compiled(self, gpu: str = "sm_90", opt_level: int = 3, **options: Any) -> Any:
        """The compiled module."""
        return tileiras.compile(write(parse_module(self.text), CURRENT_VERSION), gpu_name=gpu, opt_level=opt_level, **options)

    def inputs(self) -> tuple[np.ndarray, np.ndarray]:
        """A as (m, k), B as (k, n)."""
        m, n, k = self.tile
        rows, columns, whole = self.extents
        rng = np.random.default_rng(m + n + k)
        dtype = TYPES[self.kind][1]
        low = 0 if self.kind == "u8" else -3
        a, b = (rng.integers(low, 4, s).astype(dtype) for s in ((rows, whole), (whole, columns)))
        return a, b

    def expected(self) -> np.ndarray:
        a, b = (x.astype(np.float64) for x in self.inputs())
        return (a @ b if self.steps else 0) + np.full(self.extents[:2], float(self.start))

    def simulated(self, ptx: str, seed: int = 0, inputs: tuple[np.ndarray, np.ndarray] | None = None) -> np.ndarray:
        """What the program computes (from `inputs`, if others are given). The first finding is raised."""
        a, b = inputs or self.inputs()
        d = np.zeros(self.extents[:2], TYPES[self.acc][1])
        a, b = (np.ascontiguousarray(x if o in ("mk", "kn") else x.T) for x, o in ((a, self.a_order), (b, self.b_order)))
        report = simulate(ptx, kernel="product", args=[a, b, d, self.steps], seed=seed)
        if report.findings:
            raise report.findings[0]
        return d.astype(np.float64)
