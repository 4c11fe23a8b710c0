"""A kernel that multiplies two block-scaled matrices tile by tile, with inputs whose products and sums are exact.

    ScaledProduct("e2m1", "ue4m3", 16, tile=(128, 64, 128))

One block computes one tile of C from `steps` tiles along k, in a loop. 8-bit A lies as (m, k) or (k, m) in memory, B as (k, n) or
(n, k); 4-bit ones lie as bytes of two along k, (m, k / 2) and (n, k / 2). Scales lie as (m, k / block) and (n, k / block).
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

ELEMENTS: dict[str, tuple[str, Any]] = {"e4m3": ("f8E4M3FN", ml_dtypes.float8_e4m3fn), "e5m2": ("f8E5M2", ml_dtypes.float8_e5m2),
                                        "e2m1": ("f4E2M1FN", ml_dtypes.float4_e2m1fn)}
SCALES: dict[str, tuple[str, Any]] = {"ue8m0": ("f8E8M0FNU", ml_dtypes.float8_e8m0fnu), "ue4m3": ELEMENTS["e4m3"],
                                      "ue5m3": ("fnv8E5M3FNU", np.uint8)}


def e5m3_codes(x: np.ndarray) -> np.ndarray:
    """Small positive numbers as unsigned floats of five exponent bits (bias 15) and three mantissa bits."""
    exponent = np.floor(np.log2(x))
    return ((exponent + 15) * 8 + (x / 2 ** exponent - 1) * 8).astype(np.uint8)


def e5m3_values(codes: np.ndarray) -> np.ndarray:
    return 2.0 ** ((codes >> 3) - 15.0) * (1 + (codes & 7) / 8)


@dataclass(frozen=True)
class ScaledProduct:
    """`block`: elements that share a scale. `tile`: m, n, k of a tile. `start`: what the accumulator begins with. `aligned`: the
    matrices lie at multiples of 16 bytes. `signed`: some scales are negative. `warps`: as a hint asks for (0: there is none).
    `from_registers`: 4-bit elements don't come from bytes but from a conversion. `scales_along_n`: B's scales of a step of k lie
    together in memory."""

    element: str
    scale: str
    block: int
    tile: tuple[int, int, int]
    steps: int = 2
    a_order: str = "mk"
    b_order: str = "nk"
    start: int = 0
    batch: int = 0
    aligned: bool = True
    signed: bool = False
    warps: int = 0
    from_registers: bool = False
    scales_along_n: bool = False

    def __str__(self) -> str:
        m, n, k = self.tile
        extra = "".join(f"-{name}" for name in ("signed", "from_registers", "scales_along_n") if getattr(self, name))
        extra += ("" if self.aligned else "-unaligned") + (f"-{self.warps}warps" if self.warps else "")
        orders = f"{self.steps}-{self.a_order}-{self.b_order}{extra}"
        return f"{self.element}-{self.scale}-{self.block}-{self.batch or ''}{m}x{n}x{k}-{orders}"

    @property
    def packed(self) -> bool:
        return self.element == "e2m1" and not self.from_registers

    @property
    def text(self) -> str:
        """The program."""
        m, n, k = self.tile
        t, s = ELEMENTS[self.element][0], SCALES[self.scale][0]
        held = "i8" if self.packed else "f16" if self.from_registers else t
        each = 2 if self.packed else 1
        whole, factors = k * max(self.steps, 1), k // self.block
        lead = f"{self.batch}x" if self.batch else ""
        rank = 3 if self.batch else 2

        def view(name: str, rows: int, columns: int, order: bool, tile: tuple[int, int], element: str) -> tuple[str, str, str]:
            """A matrix (a batch of them) of rows x columns, rows contiguous or (`order`) columns; its partition; a tile's type."""
            strides = [columns, 1] if order else [1, rows]
            shape = [rows, columns]
            if self.batch:
                strides, shape = [rows * columns, *strides], [self.batch, *shape]
            tensor = (f"tensor_view<{'x'.join(map(str, shape))}x{element}, strides=[{','.join(map(str, strides))}]>")
            partition = f"partition_view<tile=({lead}{tile[0]}x{tile[1]}), {tensor}>"
            made = (f"%{name}t = make_tensor_view %{name}, shape = {shape}, strides = {strides} : {tensor}\n"
                    f"%{name}v = make_partition_view %{name}t : {partition}\n")
            return made, partition, f"tile<{lead}{tile[0]}x{tile[1]}x{element}>"
        a, av, at = view("a", m, whole // each, self.a_order == "mk", (m, k // each), held)
        b_rows = self.b_order == "nk"
        b, bv, bt = view("b", n, whole // each, True, (n, k // each), held) if b_rows else view("b", whole, n, True, (k, n), held)
        sa, sav, sat = view("sa", m, whole // self.block, True, (m, factors), s)
        sb, sbv, sbt = view("sb", n, whole // self.block, not self.scales_along_n, (n, factors), s)
        d, dv, dt = view("d", m, n, True, (m, n), "f32")
        zeros = "%zero, " * (rank - 2)

        def elements(name: str, rows: int, order: str, have: str) -> str:
            """From what is loaded to the operand's elements."""
            size = (self.batch or 1) * rows * k
            if self.packed:
                return (f"%{name}1 = reshape %{name}0 : {have} -> tile<{size // 2}xi8>\n"
                        f"%{name}2 = unpack %{name}1 : tile<{size // 2}xi8> -> tile<{size}x{t}>\n"
                        f"%{name}3 = reshape %{name}2 : tile<{size}x{t}> -> tile<{lead}{order}x{t}>\n")
            if self.from_registers:
                return f"%{name}3 = ftof %{name}0 : {have} -> tile<{lead}{order}x{t}>\n"
            return ""

        made = "3" if self.packed or self.from_registers else "0"
        order = "[0, 2, 1]" if self.batch else "[1, 0]"
        ak, bk, qt = f"tile<{lead}{m}x{k}x{t}>", f"tile<{lead}{k}x{n}x{t}>", f"tile<{lead}{factors}x{n}x{s}>"
        turned = f"%y = permute %y{made} {order} : tile<{lead}{n}x{k}x{t}> -> {bk}" if b_rows else ""
        hints = f" optimization_hints=<sm_100 = {{num_worker_warps_per_cta = {self.warps}}}>" if self.warps else ""
        assume = "".join(f"%{x} = assume div_by<{16 if self.aligned else 1}>, %{x}p : tile<ptr<{e}>>\n"
                         for x, e in (("a", held), ("sa", s), ("b", held), ("sb", s), ("d", "f32")))
        args = ", ".join(f"%{x}p: tile<ptr<{e}>>" for x, e in (("a", held), ("sa", s), ("b", held), ("sb", s), ("d", "f32")))
        where = {True: f"{zeros}%zero, %i", False: f"{zeros}%i, %zero"}
        index = ", tile<i32>"
        return f"""cuda_tile.module @m {{
  entry @product({args}, %steps: tile<i32>){hints} {{
    {assume}
    {a}{b}{sa}{sb}{d}
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = make_token : token
    %start = constant <f32: {self.start}.0> : {dt}
    %sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %start) -> ({dt}) {{
      %x0, %xt = load_view_tko weak %av[{where[True]}] token = %none : {av}{index} -> {at}, token
      %y0, %yt = load_view_tko weak %bv[{where[b_rows]}] token = %none : {bv}{index} -> {bt}, token
      %p, %pt = load_view_tko weak %sav[{where[True]}] token = %none : {sav}{index} -> {sat}, token
      %q0, %qt = load_view_tko weak %sbv[{where[True]}] token = %none : {sbv}{index} -> {sbt}, token
      {elements("x", m, f"{m}x{k}", at)}{elements("y", n, f"{n}x{k}" if b_rows else f"{k}x{n}", bt)}
      {turned}
      %q = permute %q0 {order} : {sbt} -> {qt}
      %z = mmaf_scaled %x{made}, %y{"" if b_rows else made}, %acc, %p, %q : {", ".join((ak, bk, dt, sat, qt))}
      continue %z : {dt}
    }}
    %stored = store_view_tko weak %sum, %dv[{zeros}%zero, %zero] token = %none : {dt}, {dv}{index} -> token
    return
  }}
}}
"""

    def compiled(self, gpu: str = "sm_100", opt_level: int = 3, **options: Any) -> Any:
        """The compiled module."""
        return tileiras.compile(write(parse_module(self.text), CURRENT_VERSION), gpu_name=gpu, opt_level=opt_level, **options)

    def inputs(self) -> tuple[np.ndarray, ...]:
        """A as (m, k), its scales, B as (n, k), its scales, each maybe behind a batch dimension."""
        m, n, k = self.tile
        whole = k * max(self.steps, 1)
        rng = np.random.default_rng(m + n + k + self.block)
        lead = (self.batch,) if self.batch else ()
        out: list[np.ndarray] = []
        for rows in (m, n):
            out.append(rng.integers(-3, 4, (*lead, rows, whole)).astype(np.float32).astype(ELEMENTS[self.element][1]))
            shape = (*lead, rows, whole // self.block)
            scales = 2.0 ** rng.integers(-1, 3, shape) if self.scale == "ue8m0" else rng.integers(1, 6, shape).astype(np.float64)
            if self.signed:
                scales = scales * rng.choice([-1, 1], shape, p=[0.1, 0.9])
            out.append(e5m3_codes(scales) if self.scale == "ue5m3" else scales.astype(SCALES[self.scale][1]))
        return tuple(out)

    def expected(self) -> np.ndarray:
        a, sa, b, sb = (e5m3_values(x) if x.dtype == np.uint8 else x.astype(np.float64) for x in self.inputs())
        x, y = a * np.repeat(sa, self.block, -1), b * np.repeat(sb, self.block, -1)
        return (x @ y.swapaxes(-1, -2) if self.steps else np.zeros((*a.shape[:-1], b.shape[-2]))) + float(self.start)

    def simulated(self, ptx: str, seed: int = 0) -> np.ndarray:
        """What the program computes. The first finding is raised."""
        a, sa, b, sb = self.inputs()
        d = np.zeros((*a.shape[:-1], b.shape[-2]), np.float32)
        a, b = (self.lies(x, o) for x, o in ((a, self.a_order[0] == "k"), (b, self.b_order[0] == "k")))
        sb = np.ascontiguousarray(sb.swapaxes(-1, -2)) if self.scales_along_n else sb
        report = simulate(ptx, kernel="product", args=[a, sa, b, sb, d, self.steps], seed=seed)
        if report.findings:
            raise report.findings[0]
        return d.astype(np.float64)

    def lies(self, x: np.ndarray, turned: bool) -> np.ndarray:
        """An operand as it lies in memory."""
        if self.from_registers:
            x = x.astype(np.float16)
        if self.packed:
            codes = x.view(np.uint8)
            return codes[..., 0::2] & 15 | codes[..., 1::2] << 4
        return np.ascontiguousarray(x.swapaxes(-1, -2) if turned else x)
