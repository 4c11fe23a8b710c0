"""Random loops as pipelines want them: tiles loaded through views, multiplied, added up, reduced, stored.

    program = pipelined(seed)         # as tests.fuzz.generate gives them

Trip counts come from parameters or from the views' extents, down to none; extents end within a tile, a vector, or at neither;
bases and rows lie on multiples of 16 bytes, and the code says so, or don't. One loop or two behind each other, alone, repeated,
or inside one that shares tiles out among blocks; loads in a row, joined by tokens or not, some of them behind a condition, some
with their place carried from iteration to iteration. Numbers are small integers, so that every order of adding is exact.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntegerAttr, i32
from xdsl.ir import Operation, SSAValue

from tests.fuzz.generate import I32, NO_WRAP, Generator, Limits, Program, signed
from tests.interp.build import ARRAYS, ELEMENTS, TOKEN, WEAK, pointer, tile
from tileiras.dialects.cuda_tile import attrs, ops, types

PRODUCTS = ("f16", "f16", "bf16", "bf16", "tf32", "f32", "f64", "f8E4M3FN", "f8E5M2", "i8")
STREAMED = ("f32", "f16", "bf16", "f64", "i32", "i8", "i64")
TRIPS = (0, 1, 2, 3, 4, 5, 6, 7, 9, 12)
MOST_WORK = 1 << 21
"""Multiplications of a program's products, about: what the simulator does in a second or two."""
LINE = 16
"""Bytes that aligned bases and rows are multiples of."""


@dataclasses.dataclass(frozen=True)
class Source:
    """A view that tiles are loaded from. `load(at, token)` gives (tile, token)."""

    view: SSAValue
    load: Callable[[list[SSAValue], SSAValue | None], tuple[SSAValue, SSAValue]]


class Loops(Generator):
    """Builds one program around its loops."""

    def program(self, seed: int) -> Program:
        r = self.rng
        self.counters, self.places = [], []
        self.aligned = r.random() < 0.75
        self.grid = r.choice(((1,), (2,), (3,)))
        self.blocks = 1                                     # arrays are common to all blocks
        ids = self.add(ops.GetTileBlockId.make([], [I32] * 3))
        counts = self.add(ops.GetNumTileBlocks.make([], [I32] * 3))
        self.token = self.add(ops.MakeToken.make([], [TOKEN])) if r.random() < 0.8 else None
        kind = r.choice(("product", "product", "product", "stream", "rows", "attention"))
        self.trips = r.choice(TRIPS)
        style = r.choice(("blocks", "blocks", "repeated", "persistent"))
        tiles = self.grid[0] if style == "blocks" else r.choice((1, 2, 3, 5))
        self.build: Callable[[SSAValue], None] = {"product": self.product, "stream": self.stream, "rows": self.rows,
                                                  "attention": self.attention}[kind](tiles)
        if style == "blocks":
            self.build(ids[0])
        else:
            first, step = (ids[0], counts[0]) if style == "persistent" else (self.number(0), self.number(1))
            if style == "repeated":
                self.grid = (1,)
            upper = self.parameter(I32, np.int32(tiles)) if r.random() < 0.7 else self.number(tiles)
            self.loop(first, upper, step, [], lambda at, _: self.build(at) or [])
        module = self.kernel.module([])
        assert isinstance(module, ops.Module)
        if r.random() < 0.2:
            hints = {"num_worker_warps_per_cta": IntegerAttr(r.choice((4, 8)), i32)} if r.random() < 0.5 else \
                {"occupancy": IntegerAttr(r.choice((1, 2)), i32)}
            entry = next(op for op in module.walk() if isinstance(op, ops.Entry))
            entry.properties["optimization_hints"] = attrs.OptimizationHintsAttr({"default": DictionaryAttr(hints)})
        return Program(seed, module, self.grid, self.parameters, self.loose)

    # Basics.

    def number(self, value: int) -> SSAValue:
        return self.splat("i32", value, ())

    def plus(self, a: SSAValue, b: SSAValue) -> SSAValue:
        if self.element(a).startswith("i"):
            return self.elementwise(ops.AddI, [a, b], overflow=NO_WRAP)
        return self.elementwise(ops.AddF, [a, b], rounding_mode=attrs.RoundingAttr("nearest_even"))

    def loop(self, first: SSAValue, last: SSAValue, step: SSAValue, carried: list[SSAValue],
             body: Callable[[SSAValue, list[SSAValue]], list[SSAValue]]) -> list[SSAValue]:
        """A counted loop; `body(counter, carried)` gives what is carried on."""
        kinds = [v.type for v in carried]

        def fill(at: SSAValue, *values: SSAValue) -> Operation:
            before = self.token
            end = ops.Continue.make([body(at, list(values))])
            self.token = before
            return end
        made = self.add(ops.For.make([first, last, step, carried], [kinds], {}, [self.kernel.region([I32, *kinds], fill)]))
        return list(made) if isinstance(made, tuple) else [made]

    def extent(self, tiles: int, size: int) -> int:
        """An extent that has so many tiles: whole ones, or the last one cut within a vector or between two."""
        r = self.rng
        if not tiles:
            return 0
        rest = r.choice((0, 0, 0, 0, size // 2, size // 2, min(8, size - 1), r.randrange(size)))
        return tiles * size - rest

    def source(self, element: str, shape: tuple[int, ...], extents: tuple[int, ...], bound: int = 2, hints: bool = True) -> Source:
        """Tiles of a new array, of rank 2 or 3; padding is zero."""
        base, sizes, steps, kind = self.array(element, extents, bound)
        made = self.add(ops.MakeTensorView.make([base, sizes, steps], [kind]))
        view = types.PartitionViewType(shape, kind, None, attrs.PaddingValueAttr("zero"))
        value = self.add(ops.MakePartitionView.make([made], [view]))
        attributes: dict[str, Any] = {"memory_ordering_semantics": WEAK}
        if hints and self.rng.random() < 0.15:
            attributes["optimization_hints"] = attrs.OptimizationHintsAttr({"default": DictionaryAttr({
                "latency": IntegerAttr(self.rng.randint(1, 10), i32)})})

        def load(at: list[SSAValue], token: SSAValue | None) -> tuple[SSAValue, SSAValue]:
            return self.add(ops.LoadViewTko.make([value, at, token], [view.tile_type, TOKEN], attributes))
        return Source(value, load)

    def array(self, element: str, extents: tuple[int, ...], bound: int) -> tuple[Any, list[SSAValue], list[SSAValue], Any]:
        """A parameter with an array of these extents: (base, dynamic extents, dynamic strides, type of the view)."""
        r, size = self.rng, np.dtype(ARRAYS[element]).itemsize
        unit = max(1, LINE // size)
        row = -(-extents[-1] // unit) * unit + unit * r.choice((0, 0, 1)) if self.aligned else extents[-1] + r.choice((0, 1, 3))
        strides = [1] * len(extents)
        step = row or unit
        for d in reversed(range(len(extents) - 1)):
            strides[d] = step
            step *= max(extents[d], 1)
        count = max(1, strides[0] * max(extents[0], 1))
        if element.startswith("i") and element != "i8":
            data = self.numbers.integers(-50, 50, count).astype(ARRAYS[element])
        else:
            data = self.numbers.integers(-bound, bound + 1, count).astype(ARRAYS[element])
        shift = 0 if self.aligned else r.choice((0, 1))
        base = self.parameter(pointer(element), np.concatenate([data[:shift], data])[shift:])
        if self.aligned:
            base = self.assumed(base, LINE)
        dynamic = [n == 0 or r.random() < 0.6 for n in extents]
        sizes = [self.parameter(I32, np.int32(n)) for n, d in zip(extents, dynamic) if d]
        moving = [d + 1 < len(extents) and r.random() < 0.6 for d in range(len(extents))]
        steps = []
        for n, d in zip(strides, moving):
            if d:
                steps.append(self.parameter(I32, np.int32(n)))
                if self.aligned:
                    steps[-1] = self.assumed(steps[-1], unit)
        if r.random() < 0.5:
            sizes = [self.add(ops.Assume.make([v], [v.type], {"predicate": attrs.BoundedAttr(0, None)})) for v in sizes]
        kind = types.TensorViewType(ELEMENTS[element], [None if d else n for n, d in zip(extents, dynamic)],
                                    [None if d else n for n, d in zip(strides, moving)])
        return base, sizes, steps, kind

    def assumed(self, value: SSAValue, factor: int) -> SSAValue:
        return self.add(ops.Assume.make([value], [value.type], {"predicate": attrs.DivByAttr(factor)}))

    def sink(self, element: str, shape: tuple[int, ...], extents: tuple[int, ...]) -> Callable[[SSAValue, list[SSAValue]], None]:
        """Stores tiles to an array of its own."""
        base, sizes, steps, kind = self.array(element, extents, 2)
        made = self.add(ops.MakeTensorView.make([base, sizes, steps], [kind]))
        view = self.add(ops.MakePartitionView.make([made], [types.PartitionViewType(shape, kind)]))

        def store(value: SSAValue, at: list[SSAValue]) -> None:
            self.add(ops.StoreViewTko.make([value, view, at, self.token], [TOKEN], {"memory_ordering_semantics": WEAK}))
        return store

    def trip_count(self, source: Source, dimension: int, trips: int) -> SSAValue:
        """How often a loop along a dimension of a view runs: asked of the view, a parameter, or a number."""
        style = self.rng.choice(("view", "view", "parameter", "constant"))
        if style == "view":
            rank = len(source.view.type.tile_shape)         # type: ignore[attr-defined]
            return self.add(ops.GetIndexSpaceShape.make([source.view], [[I32] * rank]))[dimension]
        return self.parameter(I32, np.int32(trips)) if style == "parameter" else self.number(trips)

    # What programs do. Each makes its arrays and gives what a block does with tile number `row`.

    def product(self, tiles: int) -> Callable[[SSAValue], None]:
        r = self.rng
        element = r.choice(PRODUCTS)
        out = {"f16": r.choice(("f16", "f32", "f32")), "f64": "f64", "i8": "i32"}.get(element, "f32")
        m, n = r.choice((16, 32, 64, 64, 128)), r.choice((8, 16, 32, 64, 128))
        k = r.choice((32, 64, 128) if ELEMENTS[element].bitwidth == 8 else (16, 32, 64))       # type: ignore[attr-defined]
        while m * n * k * max(1, self.trips) * tiles > MOST_WORK and n > 8:
            n //= 2
        depth = self.extent(self.trips, k)
        bound = 1 if out == "f16" else 2
        array = "f32" if element == "tf32" else element
        permuted = [r.random() < 0.3 and ELEMENTS[array].bitwidth != 64 for _ in range(2)]     # type: ignore[attr-defined]
        rows, columns = self.extent(tiles, m), self.extent(1, n)
        a = self.source(array, (k, m) if permuted[0] else (m, k), (depth, rows) if permuted[0] else (rows, depth), bound)
        b = self.source(array, (n, k) if permuted[1] else (k, n), (columns, depth) if permuted[1] else (depth, columns), bound)
        bias = self.source(out, (m, n), (rows, columns), bound) if r.random() < 0.25 else None
        # A bias in each iteration, sums of the rows beside the product, a change of the left tile, an order of the loads
        each, sums, change, ordered = (r.random() < p for p in (0.3, 0.25, 0.3, 0.3))
        guarded = r.random() < 0.15
        trips = self.trip_count(a, 0 if permuted[0] else 1, self.trips)
        store = self.sink(out, (m, n), (rows, columns))
        sum_store = self.sink("f64", (m,), (rows,)) if sums else None
        zero, one = self.number(0), self.number(1)
        step = self.number(r.choice((1, 1, 1, 2)))
        first = self.number(r.choice((0, 0, 0, 1)))
        carried_place = r.random() < 0.2
        pair = r.random() < 0.2

        def tile_of(source: Source, flipped: bool, at: list[SSAValue], token: SSAValue | None) -> tuple[SSAValue, SSAValue]:
            got, after = source.load(at[::-1] if flipped else at, token)
            if flipped:
                got = self.add(ops.Permute.make([got], [tile(array, *self.shape(got)[::-1])],
                                                {"permutation": DenseArrayBase.from_list(i32, (1, 0))}))
            return got, after

        def body(row: SSAValue, at: SSAValue, values: list[SSAValue]) -> list[SSAValue]:
            acc, rest = values[0], values[1:]
            place = rest.pop(0) if carried_place else at
            token = rest.pop(0) if ordered and self.token is not None else self.token
            left, after = tile_of(a, permuted[0], [row, at], token)
            right, after = tile_of(b, permuted[1], [place, zero], after if ordered else token)
            total = rest.pop(0) if sums else None
            if total is not None:
                wide = self.to_element(left, "f64") if array != "f64" else left
                total = self.plus(total, self.row_sum(wide))
            if change and array in ("f16", "bf16", "f32", "f64"):
                left = self.elementwise(ops.NegF, [left])
            if element == "tf32":
                left, right = self.to_element(left, "tf32"), self.to_element(right, "tf32")
            more = self.multiplied(left, right, acc)
            if each and bias is not None:
                more = self.plus(more, bias.load([row, zero], self.token)[0])
            if guarded:
                even = self.elementwise(ops.CmpI, [self.elementwise(ops.AndI, [at, one]), zero], "i1", signedness=signed(True),
                                        comparison_predicate=attrs.ComparisonPredicateAttr("equal"))
                wide = self.to_shape(even, self.shape(more))
                more = self.add(ops.Select.make([wide, more, acc], [acc.type]))
            out_values = [more]
            if carried_place:
                out_values.append(self.elementwise(ops.AddI, [place, step], overflow=NO_WRAP))
            if ordered and self.token is not None:
                out_values.append(after)
            return [*out_values, *([total] if total is not None else [])]

        def build(row: SSAValue) -> None:
            acc = self.splat(out, 0, (m, n))
            for _ in range(2 if pair else 1):
                inits = [acc, *([first] if carried_place else []), *([self.token] if ordered and self.token is not None else []),
                         *([self.splat("f64", 0, (m,))] if sums else [])]
                results = self.loop(first, trips, step, inits, lambda at, values: body(row, at, values))
                acc = results[0]
            if bias is not None and not each:
                acc = self.plus(acc, bias.load([row, zero], self.token)[0])
            store(acc, [row, zero])
            if sum_store is not None:
                sum_store(results[-1], [row])
        return build

    def multiplied(self, left: SSAValue, right: SSAValue, acc: SSAValue) -> SSAValue:
        if self.element(left) == "i8":
            return self.add(ops.MmaI.make([left, right, acc], [acc.type], {"signedness_lhs": signed(True),
                                                                            "signedness_rhs": signed(True)}))
        return self.add(ops.MmaF.make([left, right, acc], [acc.type]))

    def row_sum(self, value: SSAValue, dimension: int = 1) -> SSAValue:
        """Sums (of integers or of floats that are integers) along a dimension."""
        element = self.element(value)
        shape = tuple(n for d, n in enumerate(self.shape(value)) if d != dimension)
        one = tile(element)

        def add(a: SSAValue, b: SSAValue) -> Operation:
            return ops.Yield.make([[self.plus(a, b)]])
        return self.add(ops.Reduce.make([[value]], [[tile(element, *shape)]], {
            "dim": IntegerAttr(dimension, i32), "identities": self.identities(element)}, [self.kernel.region([one, one], add)]))

    def identities(self, element: str) -> Any:
        from xdsl.dialects.builtin import ArrayAttr
        return ArrayAttr([self.identity(element, 0)])

    def stream(self, tiles: int) -> Callable[[SSAValue], None]:
        """Each iteration loads, computes and stores; sums are carried."""
        r = self.rng
        element = r.choice(STREAMED)
        m, n = r.choice(((1, 128), (8, 64), (16, 32), (32, 32), (4, 256)))
        rows, columns = self.extent(tiles, m), self.extent(self.trips, n)
        x, y = (self.source(element, (m, n), (rows, columns)) for _ in range(2))
        store = self.sink(element, (m, n), (rows, columns))
        total = self.sink(element, (m, n), (rows, n))
        trips = self.trip_count(x, 1, self.trips)
        zero, one = self.number(0), self.number(1)

        def build(row: SSAValue) -> None:
            def body(at: SSAValue, values: list[SSAValue]) -> list[SSAValue]:
                left, right = x.load([row, at], self.token)[0], y.load([row, at], self.token)[0]
                value = self.plus(left, right)
                store(value, [row, at])
                return [self.largest(values[0], value)]
            start = self.splat(element, -9 if not element.startswith("i") else -120, (m, n))
            total(self.loop(zero, trips, one, [start], body)[0], [row, zero])
        return build

    def largest(self, a: SSAValue, b: SSAValue) -> SSAValue:
        if self.element(a).startswith("i"):
            return self.elementwise(ops.MaxI, [a, b], signedness=signed(True))
        return self.elementwise(ops.MaxF, [a, b])

    def rows(self, tiles: int) -> Callable[[SSAValue], None]:
        """Two loops over the same rows: sums first, then every element less its row's sum."""
        r = self.rng
        element = r.choice(("f32", "f64", "i32", "i64"))
        m, n = r.choice(((1, 128), (8, 64), (16, 32), (4, 256)))
        rows, columns = self.extent(tiles, m), self.extent(self.trips, n)
        x = self.source(element, (m, n), (rows, columns))
        store = self.sink(element, (m, n), (rows, columns))
        trips = self.trip_count(x, 1, self.trips)
        zero, one = self.number(0), self.number(1)

        def build(row: SSAValue) -> None:
            def add(at: SSAValue, values: list[SSAValue]) -> list[SSAValue]:
                return [self.plus(values[0], self.row_sum(x.load([row, at], self.token)[0]))]
            sums = self.loop(zero, trips, one, [self.splat(element, 0, (m,))], add)[0]
            wide = self.to_shape(self.reshape(sums, (m, 1)), (m, n))

            def write(at: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
                store(self.plus(x.load([row, at], self.token)[0], wide), [row, at])
                return []
            self.loop(zero, trips, one, [], write)
        return build

    def attention(self, tiles: int) -> Callable[[SSAValue], None]:
        """Two products an iteration, the second of the first one's result made small again."""
        r = self.rng
        element = r.choice(("f16", "bf16"))
        m, n, d = r.choice((16, 64, 64)), r.choice((16, 32, 64)), r.choice((16, 32, 64))
        while m * n * d * 2 * max(1, self.trips) * tiles > MOST_WORK:
            n //= 2
        rows, keys = self.extent(tiles, m), self.extent(self.trips, n)
        q = self.source(element, (m, d), (rows, d), 1)
        k = self.source(element, (d, n), (d, keys), 1) if r.random() < 0.4 else None
        kt = self.source(element, (n, d), (keys, d), 1) if k is None else None
        v = self.source(element, (n, d), (keys, d), 1)
        store = self.sink("f32", (m, d), (rows, d))
        trips = self.trip_count(v, 0, self.trips)
        zero, one = self.number(0), self.number(1)

        def build(row: SSAValue) -> None:
            left = q.load([row, zero], self.token)[0]

            def body(at: SSAValue, values: list[SSAValue]) -> list[SSAValue]:
                if k is not None:
                    key = k.load([zero, at], self.token)[0]
                else:
                    assert kt is not None
                    key = self.add(ops.Permute.make([kt.load([at, zero], self.token)[0]], [tile(element, d, n)],
                                                    {"permutation": DenseArrayBase.from_list(i32, (1, 0))}))
                scores = self.multiplied(left, key, self.splat("f32", 0, (m, n)))
                bounded = self.elementwise(ops.MinF, [self.largest(scores, self.splat("f32", -3, (m, n))),
                                                      self.splat("f32", 3, (m, n))])
                return [self.multiplied(self.to_element(bounded, element), v.load([at, zero], self.token)[0], values[0])]
            store(self.loop(zero, trips, one, [self.splat("f32", 0, (m, d))], body)[0], [row, zero])
        return build


def pipelined(seed: int) -> Program:
    """The program of a seed; the same in every process and on every platform."""
    return Loops(seed, Limits()).program(seed)
