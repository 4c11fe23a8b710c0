"""Random loops whose products hang together: chains, shared operands, accumulators that several products add to.

    python -m tests.fuzz.products --seed 0 --count 50 --gpu sm_90 --level 3

Each program is one loop over tiles of a few matrices. In the loop products of several types multiply what was loaded, carried
or multiplied before, turned or not, narrowed, masked, or scaled by rows; carried tiles grow by them. All numbers are small
integers: what a product takes is clamped, so that every sum is exact and one answer is right. The interpreter says which.
"""
from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tests.fuzz.programs import failure, reference
from tileiras.bytecode import write
from tileiras.bytecode.version import CURRENT_VERSION
from tileiras.dialects.cuda_tile.asm_parse import parse_module

OPERANDS: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32,
                            "f8E4M3FN": ml_dtypes.float8_e4m3fn, "i8": np.int8}
"""What products take, and NumPy's types of it."""
EXTENTS = (16, 32, 64, 128)
MOST = 3
"""Operands lie between -MOST and MOST: exact in every type."""
LEAST_OPS, MOST_OPS = 2, 6
TOO_LARGE = "bytes of shared memory"
"""What programs of many large tiles are told that don't fit with rings (commands then compile them without)."""
Shape = tuple[int, int]
Value = tuple[str, Shape, str]
"""Name, shape, element."""


class Draw:
    """One program's text, line by line."""

    def __init__(self, seed: int, kinds: Sequence[str], extents: Sequence[int]) -> None:
        self.rng = random.Random(seed)
        self.values_of = np.random.default_rng(seed)
        self.kinds = self.rng.sample(list(kinds), min(len(kinds), self.rng.choice((1, 1, 2))))
        self.extents = self.rng.sample(list(extents), min(len(extents), self.rng.choice((1, 2, 2))))
        self.steps = self.trips = self.rng.choice((1, 2, 3, 5))      # tiles of each array, and iterations
        self.count, self.blocks = 0, 1
        self.hints = ""                 # of the entry, as text
        self.parameters: list[tuple[str, str]] = []     # name, element
        self.arrays: list[np.ndarray] = []
        self.head: list[str] = []
        self.body: list[str] = []
        self.tail: list[str] = []
        self.outside: list[str] = []
        self.lines: list[str] = self.body

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def emit(self, text: str) -> str:
        name = self.name()
        self.lines.append(f"{name} = {text}")
        return name

    # --- memory -----------------------------------------------------------------------------------------------------

    def matrix(self, shape: Shape, element: str, tiles: int, out: bool) -> tuple[str, str]:
        """A view of `tiles` tiles, one behind the other along a dimension: its name and type. Some lie aligned, some don't."""
        along = self.rng.randrange(2)
        rows, columns = (n * (tiles if d == along else 1) for d, n in enumerate(shape))
        ragged = 0 if out else self.rng.choice((0, 0, 0, 1, 5))
        pad = self.rng.choice((0, 0, 8))
        extents, pitch = (rows - ragged, columns), columns + pad
        p = f"%p{len(self.parameters)}"
        self.parameters.append((p, element))
        dtype = {**OPERANDS, "i32": np.int32}[element]
        data = np.zeros(rows * pitch, dtype) if out else self.values_of.integers(-MOST, MOST + 1, rows * pitch).astype(dtype)
        self.arrays.append(data)
        tensor = f"tensor_view<{extents[0]}x{extents[1]}x{element}, strides=[{pitch},1]>"
        padding = "" if out else "padding_value = zero, "
        part = f"partition_view<tile=({shape[0]}x{shape[1]}), {padding}{tensor}>"
        by = self.rng.choice((16, 16, 1))
        self.head += [f"{p}a = assume div_by<{by}>, {p} : tile<ptr<{element}>>",
                      f"{p}t = make_tensor_view {p}a, shape = [{extents[0]}, {extents[1]}], strides = [{pitch}, 1] : {tensor}",
                      f"{p}v = make_partition_view {p}t : {part}"]
        at = "%zero, %i" if along else "%i, %zero"
        return f"{p}v[{at}]", part

    def load(self, shape: Shape, element: str) -> Value:
        where, part = self.matrix(shape, element, self.steps, out=False)
        name = self.name()
        self.lines.append(f"{name}, {name}t = load_view_tko weak {where} token = %none : {part}, tile<i32> -> "
                          f"tile<{tile(shape, element)}>, token")
        return name, shape, element

    def store(self, value: Value, tiles: int) -> None:
        name, shape, element = value
        where, part = self.matrix(shape, element, tiles, out=True)
        if tiles == 1:
            where = where.split("[")[0] + "[%zero, %zero]"
        self.lines.append(f"{self.name()} = store_view_tko weak {name}, {where} token = %none : "
                          f"tile<{tile(shape, element)}>, {part}, tile<i32> -> token")

    # --- tiles ------------------------------------------------------------------------------------------------------

    def constant(self, number: int, shape: Shape, element: str) -> str:
        return self.emit(f"constant <{element}: {number}{'' if element.startswith('i') else '.0'}> : tile<{tile(shape, element)}>")

    def clamp(self, name: str, shape: Shape, element: str, bound: int) -> str:
        t = f"tile<{tile(shape, element)}>"
        low, high = self.constant(-bound, shape, element), self.constant(bound, shape, element)
        sign = " signed" if element.startswith("i") else ""
        least, most = ("mini", "maxi") if sign else ("minf", "maxf")
        below = self.emit(f"{least} {name}, {high}{sign} : {t}")
        return self.emit(f"{most} {below}, {low}{sign} : {t}")

    def narrowed(self, value: Value, element: str) -> Value:
        """A sum as an operand: clamped, in another type."""
        name, shape, wide = value
        name = self.clamp(name, shape, wide, MOST)
        a, b = tile(shape, wide), tile(shape, element)
        if wide == element:
            return name, shape, element
        if wide == "i32":
            text = f"trunci {name} : tile<{a}> -> tile<{b}>" if element == "i8" else f"itof {name} signed : tile<{a}> -> tile<{b}>"
        else:
            text = f"ftoi {name} signed : tile<{a}> -> tile<{b}>" if element == "i8" else f"ftof {name} : tile<{a}> -> tile<{b}>"
        return self.emit(text), shape, element

    def turned(self, value: Value) -> Value:
        name, (m, n), element = value
        text = f"permute {name} [1, 0] : tile<{tile((m, n), element)}> -> tile<{tile((n, m), element)}>"
        return self.emit(text), (n, m), element

    def operand(self, pool: list[Value], shape: Shape, element: str) -> Value:
        """A tile to multiply: what is there already, turned or narrowed, or a new load."""
        near = [v for v in pool if v[1] in (shape, shape[::-1]) and (v[2] == element or v[2] in ("f32", "i32"))]
        if near and self.rng.random() < 0.55:
            value = self.rng.choice(near)
            if value[1] != shape:
                value = self.turned(value)
            if value[2] != element or value[2] == "f32":
                value = self.narrowed(value, element)
            return value
        if self.rng.random() < 0.4:
            value = self.turned(self.load((shape[1], shape[0]), element))
        else:
            value = self.load(shape, element)
        pool.append(value)
        return value

    def product(self, pool: list[Value], shape: Shape, acc: str | None, kind: str) -> Value:
        k = self.rng.choice([n for n in self.extents if kind not in ("i8", "f8E4M3FN") or n >= 32] or [32])
        wide = "i32" if kind == "i8" else "f32"
        a, b = self.operand(pool, (shape[0], k), kind), self.operand(pool, (k, shape[1]), kind)
        acc = acc or self.constant(0, shape, wide)
        op, sign = ("mmai", " signed signed") if kind == "i8" else ("mmaf", "")
        text = (f"{op} {a[0]}, {b[0]}, {acc}{sign} : tile<{tile(a[1], kind)}>, tile<{tile(b[1], kind)}>, "
                f"tile<{tile(shape, wide)}>")
        value = self.emit(text), shape, wide
        pool.append(value)
        return value

    def shaped(self, value: Value) -> Value:
        """A sum changed element by element, or by its rows or columns; still small."""
        name, shape, wide = value
        name, t = self.clamp(name, shape, wide, 50), f"tile<{tile(shape, wide)}>"
        real, kind = wide == "f32", self.rng.randrange(4)
        if kind == 0:       # below the diagonal only
            rows, columns = (self.along(shape, d) for d in (0, 1))
            mask = self.emit(f"cmpi {self.rng.choice(('greater_than_or_equal', 'less_than'))} {rows}, {columns}, signed : "
                             f"tile<{tile(shape, 'i32')}> -> tile<{tile(shape, 'i1')}>")
            other = self.constant(self.rng.randrange(3), shape, wide)
            name = self.emit(f"select {mask}, {name}, {other} : tile<{tile(shape, 'i1')}>, {t}")
        elif kind == 1:     # less the greatest of its row or column
            dim = self.rng.randrange(2)
            line = f"tile<{shape[1 - dim]}x{wide}>"
            identity = "-1.0e30 : f32" if real else "-2147483648 : i32"
            got = self.name()
            self.lines.append(f"{got} = reduce {name} dim={dim} identities=[{identity}] : {t} -> {line}\n"
                              f"(%x: tile<{wide}>, %y: tile<{wide}>) {{\n"
                              f"%z = {'maxf %x, %y' if real else 'maxi %x, %y signed'} : tile<{wide}>\nyield %z : tile<{wide}>\n}}")
            thin = (1, shape[1]) if dim == 0 else (shape[0], 1)
            got = self.emit(f"reshape {got} : {line} -> tile<{tile(thin, wide)}>")
            got = self.emit(f"broadcast {got} : tile<{tile(thin, wide)}> -> {t}")
            name = self.emit(f"{'subf' if real else 'subi'} {name}, {got} : {t}")
        elif kind == 2:
            name = self.emit(f"{'absf' if real else 'absi'} {name} : {t}")
        return name, shape, wide

    def along(self, shape: Shape, dim: int) -> str:
        n = shape[dim]
        thin = (n, 1) if dim == 0 else (1, n)
        line = self.emit(f"iota : tile<{n}xi32>")
        line = self.emit(f"reshape {line} : tile<{n}xi32> -> tile<{tile(thin, 'i32')}>")
        return self.emit(f"broadcast {line} : tile<{tile(thin, 'i32')}> -> tile<{tile(shape, 'i32')}>")

    # --- the program ------------------------------------------------------------------------------------------------

    def text(self) -> str:
        carried: list[tuple[Value, str]] = []
        pool: list[Value] = []
        self.lines = self.head
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            shape = (self.rng.choice(self.extents), self.rng.choice(self.extents))
            wide = "i32" if self.kinds == ["i8"] else "f32"
            start = self.constant(self.rng.choice((0, 0, 1)), shape, wide)
            carried.append(((self.name(), shape, wide), start))
        if self.rng.random() < 0.4:         # a tile that all steps share
            self.lines = self.outside
            shape = (self.rng.choice(self.extents), self.rng.choice(self.extents))
            kind = self.rng.choice(self.kinds)
            where, part = self.matrix(shape, kind, 1, out=False)
            name = self.name()
            self.lines.append(f"{name}, {name}t = load_view_tko weak {where.split('[')[0]}[%zero, %zero] token = %none : {part}, "
                           f"tile<i32> -> tile<{tile(shape, kind)}>, token")
            pool.append((name, shape, kind))
        self.lines = self.body
        pool += [v for v, _ in carried]
        for _ in range(self.rng.randrange(LEAST_OPS, MOST_OPS)):
            if self.rng.random() < 0.3:
                sums = [v for v in pool if v[2] in ("f32", "i32") and v[0] not in [c[0][0] for c in carried]]
                if sums:
                    pool.append(self.shaped(self.rng.choice(sums)))
                    continue
            kind = self.rng.choice(self.kinds)
            shape = (self.rng.choice(self.extents), self.rng.choice(self.extents))
            self.product(pool, shape, None, kind)
        ends: list[str] = []
        for value, _ in carried:
            name, shape, wide = value
            kinds = [k for k in self.kinds if (k == "i8") == (wide == "i32")]
            if not kinds:
                ends.append(self.clamp(name, shape, wide, 9))
                continue
            if self.rng.random() < 0.3:     # scaled by rows before more is added
                thin = self.load((shape[0], shape[0] if shape[0] in self.extents else shape[1]), kinds[0])
                line = self.shaped((name, shape, wide))
                name, pool = line[0], [*pool, thin]
            for _ in range(self.rng.choice((1, 1, 2))):
                name = self.product(pool, shape, name, self.rng.choice(kinds))[0]
            ends.append(name)
        if self.rng.random() < 0.4:
            sums = [v for v in pool if v[2] in ("f32", "i32")]
            value = self.rng.choice(sums)
            self.store(value, self.steps)
        self.lines = self.tail
        types = ", ".join(f"tile<{tile(v[1], v[2])}>" for v, _ in carried)
        results = [self.name() for _ in carried]
        for r, (v, _) in zip(results, carried):
            self.store((r, v[1], v[2]), 1)
        given = ", ".join(f"{p}: tile<ptr<{e}>>" for p, e in self.parameters)
        return "\n".join([
            "cuda_tile.module @m {", f"entry @kernel({given}, %steps: tile<i32>){self.hints} {{",
            "%zero = constant <i32: 0> : tile<i32>", "%one = constant <i32: 1> : tile<i32>", "%none = make_token : token",
            *self.head, *self.outside,
            f"{', '.join(results)} = for %i in (%zero to %steps, step %one) : tile<i32> iter_values("
            + ", ".join(f"{v[0]} = {start}" for v, start in carried) + f") -> ({types}) {{",
            *self.body, f"continue {', '.join(ends)} : {types}", "}", *self.tail, "return", "}", "}"])


def tile(shape: Shape, element: str) -> str:
    return "x".join([*map(str, shape), element])


def check(seed: int, configs: Sequence[tuple[str, int]], kinds: Sequence[str] = tuple(OPERANDS),
          extents: Sequence[int] = EXTENTS, drawn: type[Draw] = Draw, hints: str = "") -> list[tuple[tuple[str, int], str]]:
    """What is wrong with a seed's program, by SM and level."""
    draw = drawn(seed, kinds, extents)
    draw.hints = f" optimization_hints=<{hints}>" if hints else ""
    bytecode = write(parse_module(draw.text()), CURRENT_VERSION)
    arguments, grid = [*draw.arrays, np.int32(draw.trips)], (draw.blocks,)
    want = reference(bytecode, grid, arguments)
    found = [(config, failure(bytecode, grid, arguments, want, config, seconds=240)) for config in configs]
    return [(config, wrong) for config, wrong in found if wrong and TOO_LARGE not in wrong]


def main(argv: Sequence[str] | None = None, drawn: type[Draw] = Draw, prog: str = "python -m tests.fuzz.products") -> int:
    parser = argparse.ArgumentParser(prog=prog, description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--gpu", action="append", help="an SM (repeatable; default: sm_80 and sm_90)")
    parser.add_argument("--level", action="append", type=int, help="an optimization level (repeatable; default: 3)")
    parser.add_argument("--kinds", default=",".join(OPERANDS), help="types of operands, with commas between")
    parser.add_argument("--extents", default=",".join(map(str, EXTENTS)), help="of tiles, with commas between")
    parser.add_argument("--hints", default="", help="of each entry, such as 'default = {num_cta_in_cga = 2}'")
    parser.add_argument("--show", action="store_true", help="print each program")
    options = parser.parse_args(argv)
    configs = [(gpu, level) for gpu in options.gpu or ("sm_80", "sm_90")
               for level in (options.level if options.level is not None else (3,))]
    failures = 0
    for seed in range(options.seed, options.seed + options.count):
        kinds, extents = options.kinds.split(","), [int(n) for n in options.extents.split(",")]
        if options.show:
            print(drawn(seed, kinds, extents).text())
        found = check(seed, configs, kinds, extents, drawn, options.hints)
        failures += bool(found)
        for config, wrong in found:
            print(f"seed {seed} {config[0]} -O{config[1]}: {wrong}", flush=True)
    print(f"{options.count} programs, {failures} failed")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
