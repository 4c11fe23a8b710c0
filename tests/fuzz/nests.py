"""Random nests of loops and branches that load, multiply, change and store tiles of the same few arrays, in place.

    python -m tests.fuzz.nests --seed 0 --count 50 --gpu sm_90 --level 3

Each program has a few matrices that it reads and writes by views of several tiles, turned ones too, and by pointers; tokens order
what meets in one array and nothing else. Loops are counted, or left from their middle by a counter or by what a sum has become;
how often they run is a number, a parameter, an outer loop's counter, or loaded. Indices are counters, sums of them, numbers, or
loaded, and now and then one too far, where bounds are checked: loads give zeros then and stores nothing. Sums live in loops or
around them and are clamped before they are operands or are stored, so that every sum is exact.
"""
from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Sequence

import numpy as np

from tests.fuzz import products
from tests.fuzz.products import MOST, OPERANDS, Draw, Shape, Value, tile

WORK = 1 << 21
"""Multiplications of a program, about: what the simulator does in a second or two."""
MOST_TRIPS = 24
"""Iterations of a nest, at most."""
LEVELS = 3
LEAST = 32
"""Rows and columns of a matrix, at least: no operand is larger."""
MOST_ADDED = 4
"""How often a nest may add to memory, so that operands stay small."""
INDICES = 16
"""Loaded numbers of iterations and tiles."""


@dataclasses.dataclass
class Matrix:
    """A matrix in memory: how many of its rows and columns its views see, how far rows lie apart, whether it is written, and the
    views made of it."""

    name: str
    element: str
    rows: int
    columns: int
    ragged: int
    pitch: int
    written: bool
    views: dict[tuple[Shape, bool], tuple[str, str]]


@dataclasses.dataclass
class Order:
    """What later accesses of a matrix must wait for: the last write, and the reads since then."""

    write: str
    reads: list[str]

    def copy(self) -> Order:
        return Order(self.write, list(self.reads))


@dataclasses.dataclass(frozen=True)
class Leave:
    """The end of an iteration or of a loop, written down when it is known what the loop carries."""

    how: str
    first: tuple[str, ...]
    values: dict[str, str]


@dataclasses.dataclass(frozen=True)
class Counter:
    """A number that counts from none to less than `most`."""

    name: str
    most: int


class Nest(Draw):
    """One program's text: statements in loops in loops."""

    def __init__(self, seed: int, kinds: Sequence[str], extents: Sequence[int]) -> None:
        super().__init__(seed, kinds, extents)
        rng = self.rng
        self.trips = rng.choice((0, 1, 2, 3))           # the parameter
        self.wide = "i32" if self.kinds == ["i8"] else "f32"
        self.kinds = ["i8"] if self.wide == "i32" else [k for k in self.kinds if k != "i8"]
        self.blocks = rng.choice((1, 1, 1, 2))
        self.matrices: list[Matrix] = []
        self.sums: dict[str, Value] = {}
        self.order: dict[str, Order] = {}
        self.counters: list[Counter] = []
        self.repeated, self.work_done = 1, 0

    # --- memory -----------------------------------------------------------------------------------------------------

    def parameter(self, element: str, data: np.ndarray) -> str:
        name = f"%p{len(self.parameters)}"
        self.parameters.append((name, element))
        self.arrays.append(data)
        return name

    def add_matrix(self, element: str) -> None:
        rng, largest = self.rng, max(*self.extents, LEAST)
        rows, columns = largest * rng.choice((1, 2)), largest * rng.choice((1, 2))
        pitch = columns + rng.choice((0, 0, 0, 16, 16, 3))
        dtype = {**OPERANDS, "i32": np.int32, "f32": np.float32}[element]
        size = rows * pitch
        name = self.parameter(element, self.values_of.integers(-MOST, MOST + 1, size * self.blocks).astype(dtype))
        base = name
        if self.blocks > 1:
            base = f"{name}b"
            self.head += [f"{name}s = constant <i32: {size}> : tile<i32>", f"{name}o = muli %block, {name}s : tile<i32>",
                          f"{base} = offset {name}, {name}o : tile<ptr<{element}>>, tile<i32> -> tile<ptr<{element}>>"]
        by = 16 if pitch % 16 == 0 and rng.random() < 0.9 else 1
        self.head.append(f"{name}a = assume div_by<{by}>, {base} : tile<ptr<{element}>>")
        ragged = rng.choice((0, 0, 0, 1, 5))
        self.head.append(f"{name}t = make_tensor_view {name}a, shape = [{rows - ragged}, {columns}], strides = [{pitch}, 1] : "
                         f"{self.tensor(element, rows - ragged, columns, pitch)}")
        self.matrices.append(Matrix(name, element, rows, columns, ragged, pitch, rng.random() < 0.5, {}))
        self.order[name] = Order("%none", [])

    @staticmethod
    def tensor(element: str, rows: int, columns: int, pitch: int) -> str:
        return f"tensor_view<{rows}x{columns}x{element}, strides=[{pitch},1]>"

    def view(self, m: Matrix, shape: Shape, turned: bool) -> tuple[str, str]:
        """A partition of a matrix into such tiles: its name and type."""
        if (shape, turned) not in m.views:
            name, tensor = f"{m.name}v{len(m.views)}", self.tensor(m.element, m.rows - m.ragged, m.columns, m.pitch)
            kind = f"partition_view<tile=({shape[0]}x{shape[1]}), padding_value = zero, {tensor}{', dim_map=[1, 0]' * turned}>"
            self.head.append(f"{name} = make_partition_view {m.name}t : {kind}")
            m.views[shape, turned] = name, kind
        return m.views[shape, turned]

    def place(self, m: Matrix, shape: Shape) -> tuple[str, str, str, bool]:
        """A view and a tile's numbers in it: (view, type, indices, turned)."""
        turned = self.rng.random() < 0.2
        view, kind = self.view(m, shape, turned)
        tiles = [(m.columns if turned else m.rows) // shape[0], (m.rows if turned else m.columns) // shape[1]]
        ends = [turned and m.ragged > 0, not turned and m.ragged > 0]
        return view, kind, ", ".join(self.index(n, end) for n, end in zip(tiles, ends[::-1])), turned

    def index(self, tiles: int, ragged: bool) -> str:
        """A tile's number, one of so many; now and then one too far, where the last one is cut, so that bounds are checked."""
        rng, what = self.rng, self.rng.random()
        if what < 0.05 and ragged:
            return self.number(tiles)
        if tiles == 1 and what < 0.9:
            return self.number(0)
        if what < 0.2 or not self.counters:
            return self.number(rng.randrange(tiles))
        if what < 0.35:
            return self.emit(f"remi {self.loaded()}, {self.number(tiles)} signed : tile<i32>")
        counter = rng.choice(self.counters)
        if counter.most <= tiles and rng.random() < 0.7:
            return counter.name
        name = counter.name
        if rng.random() < 0.4:
            other = rng.choice(self.counters).name if rng.random() < 0.6 else self.number(rng.randrange(1, 4))
            name = self.emit(f"addi {name}, {other} : tile<i32>")
        return self.emit(f"remi {name}, {self.number(tiles)} signed : tile<i32>")

    def number(self, value: int) -> str:
        return self.emit(f"constant <i32: {value}> : tile<i32>")

    def loaded(self) -> str:
        """A small number from memory that nobody writes."""
        at = self.number(self.rng.randrange(INDICES - 4))
        if self.counters and self.rng.random() < 0.7:
            more = self.emit(f"remi {self.rng.choice(self.counters).name}, {self.number(4)} signed : tile<i32>")
            at = self.emit(f"addi {at}, {more} : tile<i32>")
        where = self.emit(f"offset %numbers, {at} : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>")
        name = self.name()
        self.lines.append(f"{name}, {name}t = load_ptr_tko weak {where} token=%none : tile<ptr<i32>> -> tile<i32>, token")
        return name

    def pointers(self, m: Matrix, shape: Shape) -> str:
        """Pointers to a tile of a matrix, also where views end before it."""
        rows, columns = self.index_within(m.rows // shape[0]), self.index_within(m.columns // shape[1])
        t = f"tile<{tile(shape, 'i32')}>"
        places = []
        for d, (at, size, step) in enumerate(((rows, shape[0], m.pitch), (columns, shape[1], 1))):
            first = self.emit(f"muli {at}, {self.number(size)} : tile<i32>")
            one = self.emit(f"reshape {first} : tile<i32> -> tile<1x1xi32>")
            wide = self.emit(f"broadcast {one} : tile<1x1xi32> -> {t}")
            line = self.emit(f"addi {wide}, {self.along(shape, d)} : {t}")
            places.append(self.emit(f"muli {line}, {self.constant(step, shape, 'i32')} : {t}"))
        at = self.emit(f"addi {places[0]}, {places[1]} : {t}")
        p, kind = self.emit(f"reshape {m.name}a : tile<ptr<{m.element}>> -> tile<1x1xptr<{m.element}>>"), f"ptr<{m.element}>"
        wide = self.emit(f"broadcast {p} : tile<1x1x{kind}> -> tile<{tile(shape, kind)}>")
        return self.emit(f"offset {wide}, {at} : tile<{tile(shape, kind)}>, {t} -> tile<{tile(shape, kind)}>")

    def index_within(self, tiles: int) -> str:
        if self.counters and tiles > 1 and self.rng.random() < 0.7:
            return self.emit(f"remi {self.rng.choice(self.counters).name}, {self.number(tiles)} signed : tile<i32>")
        return self.number(self.rng.randrange(tiles))

    def matrix_of(self, element: str) -> Matrix:
        return self.rng.choice([m for m in self.matrices if m.element == element])

    def load(self, shape: Shape, element: str) -> Value:
        m, name = self.matrix_of(element), self.name()
        order = self.order[m.name]
        t = f"tile<{tile(shape, element)}>"
        if self.rng.random() < 0.15:
            p = self.pointers(m, shape)
            self.lines.append(f"{name}, {name}t = load_ptr_tko weak {p} token={order.write} : "
                              f"tile<{tile(shape, f'ptr<{element}>')}> -> {t}, token")
        else:
            view, kind, at, _ = self.place(m, shape)
            self.lines.append(f"{name}, {name}t = load_view_tko weak {view}[{at}] token = {order.write} : {kind}, tile<i32> -> "
                              f"{t}, token")
        order.reads.append(f"{name}t")
        return name, shape, element

    def save(self, value: Value) -> None:
        """A tile, narrowed, to one of the matrices."""
        name, shape, element = value
        kind = self.rng.choice([*self.kinds, *self.kinds, self.wide])
        kind = "f32" if kind == "tf32" else kind
        found = [m for m in self.matrices if m.element == kind and m.written]
        if not found:
            return
        if element != kind:
            if element != self.wide:
                return
            name, shape, element = self.narrowed(value, kind)
        elif element == self.wide:
            name = self.clamp(name, shape, element, MOST)
        m, done = self.rng.choice(found), self.name()
        order, t = self.order[m.name], f"tile<{tile(shape, element)}>"
        before, what = self.settled(m.name), self.rng.random()
        if what < 0.15:
            p = self.pointers(m, shape)
            self.lines.append(f"{done} = store_ptr_tko weak {p}, {name} token={before} : "
                              f"tile<{tile(shape, f'ptr<{element}>')}>, {t} -> token")
        elif what < 0.25 and element == self.wide and self.repeated <= MOST_ADDED:
            p, add = self.pointers(m, shape), "add" if element == "i32" else "addf"
            self.lines.append(f"{done}x, {done} = atomic_rmw_tko relaxed device {p}, {add}, {name} token={before} : "
                              f"tile<{tile(shape, f'ptr<{element}>')}>, {t} -> {t}, token")
        else:
            view, type_of, at, _ = self.place(m, shape)
            self.lines.append(f"{done} = store_view_tko weak {name}, {view}[{at}] token = {before} : {t}, {type_of}, tile<i32> "
                              "-> token")
        order.write, order.reads = done, []

    def settled(self, matrix: str) -> str:
        """One token behind all that has been done to a matrix."""
        order = self.order[matrix]
        if order.reads:
            order.write, order.reads = self.emit(f"join_tokens {', '.join([order.write, *order.reads])} : token"), []
        return order.write

    # --- statements -------------------------------------------------------------------------------------------------

    def statements(self, pool: list[Value], level: int, count: int) -> None:
        rng = self.rng
        for _ in range(count):
            what = rng.random()
            if what < 0.30:
                self.multiply(pool)
            elif what < 0.45:
                self.save(rng.choice([*self.sums.values(), *pool]))
            elif what < 0.53:
                key = rng.choice(list(self.sums))
                self.sums[key] = self.shaped(self.sums[key])
            elif what < 0.58:
                self.exchange()
            elif what < 0.63:
                value = self.load(rng.choice(list(self.sums.values()))[1], self.wide)
                key = rng.choice([k for k, v in self.sums.items() if v[1] == value[1]])
                add = "addf" if self.wide == "f32" else "addi"
                t = f"tile<{tile(value[1], self.wide)}>"
                small = self.clamp(value[0], value[1], self.wide, 50)
                self.sums[key] = self.emit(f"{add} {self.sums[key][0]}, {small} : {t}"), value[1], self.wide
            elif what < 0.78 and level < LEVELS:
                self.branch(pool, level)
            elif level < LEVELS:
                self.loop(pool, level)
            else:
                self.multiply(pool)

    def multiply(self, pool: list[Value]) -> None:
        key = self.rng.choice(list(self.sums))
        name, shape, _ = self.sums[key]
        cost = shape[0] * shape[1] * max(self.extents) * self.repeated
        if self.work_done + cost > WORK:
            return
        self.work_done += cost
        start = name if self.rng.random() < 0.85 else None
        there = [*pool, *self.sums.values()]
        self.sums[key] = self.product(there, shape, start, self.rng.choice(self.kinds))
        pool += [v for v in there if v not in pool and v[2] != self.wide]

    def product(self, pool: list[Value], shape: Shape, acc: str | None, kind: str) -> Value:
        # tf32 operands are converted f32
        if kind != "tf32":
            return super().product(pool, shape, acc, kind)
        k = self.rng.choice(self.extents)
        a, b = (self.emit(f"ftof {v[0]} : tile<{tile(v[1], 'f32')}> -> tile<{tile(v[1], 'tf32')}>")
                for v in (self.operand(pool, (shape[0], k), "f32"), self.operand(pool, (k, shape[1]), "f32")))
        acc = acc or self.constant(0, shape, "f32")
        text = (f"mmaf {a}, {b}, {acc} : tile<{tile((shape[0], k), 'tf32')}>, tile<{tile((k, shape[1]), 'tf32')}>, "
                f"tile<{tile(shape, 'f32')}>")
        return self.emit(text), shape, "f32"

    def exchange(self) -> None:
        """Two sums change places, or one becomes the other, or begins anew."""
        a = self.rng.choice(list(self.sums))
        b = self.rng.choice([k for k, v in self.sums.items() if v[1] == self.sums[a][1]])
        if a == b:
            shape = self.sums[a][1]
            self.sums[a] = self.constant(self.rng.randrange(3), shape, self.wide), shape, self.wide
        elif self.rng.random() < 0.5:
            self.sums[a], self.sums[b] = self.sums[b], self.sums[a]
        else:
            self.sums[a] = self.sums[b]

    def condition(self) -> str:
        """Something that holds at times: of a counter, of a loaded number, of the greatest element of a sum."""
        rng, what = self.rng, self.rng.random()
        if what < 0.2:
            name, shape, wide = rng.choice(list(self.sums.values()))
            for _ in range(2):
                rest = "x".join([*map(str, shape[1:]), wide])
                got, identity = self.name(), "-1.0e30 : f32" if wide == "f32" else "-2147483648 : i32"
                most = "maxf %x, %y" if wide == "f32" else "maxi %x, %y signed"
                whole = "x".join([*map(str, shape), wide])
                self.lines.append(f"{got} = reduce {name} dim=0 identities=[{identity}] : tile<{whole}> -> tile<{rest}>\n"
                                  f"(%x: tile<{wide}>, %y: tile<{wide}>) {{\n%z = {most} : tile<{wide}>\n"
                                  f"yield %z : tile<{wide}>\n}}")
                name, shape = got, shape[1:]
            bound = self.emit(f"constant <{wide}: {rng.choice((0, 3, 20))}{'.0' * (wide == 'f32')}> : tile<{wide}>")
            if wide == "f32":
                return self.emit(f"cmpf greater_than ordered {name}, {bound} : tile<f32> -> tile<i1>")
            return self.emit(f"cmpi greater_than {name}, {bound}, signed : tile<i32> -> tile<i1>")
        name = rng.choice(self.counters).name if self.counters and what < 0.75 else self.loaded()
        predicate = rng.choice(("equal", "not_equal", "greater_than", "less_than"))
        return self.emit(f"cmpi {predicate} {name}, {self.number(rng.randrange(3))}, signed : tile<i32> -> tile<i1>")

    # --- regions ----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, str]:
        """What regions change: sums, and a token for each matrix."""
        return {**{k: v[0] for k, v in self.sums.items()}, **{m: self.settled(m) for m in self.order}}

    def type_of(self, key: str) -> str:
        return "token" if key in self.order else f"tile<{tile(self.sums[key][1], self.sums[key][2])}>"

    def become(self, names: dict[str, str]) -> None:
        for key, name in names.items():
            if key in self.order:
                self.order[key] = Order(name, [])
            else:
                self.sums[key] = name, *self.sums[key][1:]

    def branch(self, pool: list[Value], level: int) -> None:
        condition = self.condition()
        around, before = self.lines, self.state()
        sums = dict(self.sums)
        sides: list[tuple[list, dict[str, str]]] = []
        for number in range(2):
            self.lines, self.sums = [], dict(sums)
            self.become(before)
            if number == 0 or self.rng.random() < 0.5:
                self.statements(list(pool), level + 1, self.rng.choice((1, 2, 3)))
            sides.append((self.lines, self.state()))
        self.lines, self.sums = around, sums
        changed = [k for k in before if any(end[k] != before[k] for _, end in sides)]
        self.become(before)
        types = ", ".join(map(self.type_of, changed))
        made = {k: self.name() for k in changed}
        for _, (lines, end) in enumerate(sides):
            lines.append(f"yield {', '.join(end[k] for k in changed)} : {types}" if changed else "")
        text = f"{', '.join(made.values())} = if {condition} -> ({types}) {{" if changed else f"if {condition} {{"
        self.lines += [text, *sides[0][0], *(["} else {", *sides[1][0], "}"] if changed or sides[1][0][:-1] else ["}"])]
        self.become(made)

    def times(self) -> tuple[Callable[[], str], int]:
        """How often a loop runs: something that makes the number, and the most it can be."""
        rng, what = self.rng, self.rng.random()
        if what < 0.3:
            return lambda: "%steps", self.trips
        if what < 0.45 and self.counters:
            counter = rng.choice(self.counters)
            return lambda: counter.name, counter.most - 1
        if what < 0.65:
            return lambda: self.emit(f"remi {self.loaded()}, {self.number(4)} signed : tile<i32>"), 3
        n = rng.choice((0, 1, 2, 2, 3, 4))
        return lambda: self.number(n), n

    def loop(self, pool: list[Value], level: int) -> None:
        rng = self.rng
        make, most = self.times()
        if self.repeated * max(most, 1) > MOST_TRIPS:
            return
        upper = make()
        before, counted = self.state(), rng.random() < 0.7
        at = self.name()
        args = {k: self.name() for k in before}
        around, sums, repeated = self.lines, dict(self.sums), self.repeated
        self.lines = []
        self.become(args)
        self.counters.append(Counter(at, max(most, 1)))
        self.repeated *= max(most, 1)
        if not counted:
            done = self.emit(f"cmpi greater_than_or_equal {at}, {upper}, signed : tile<i32> -> tile<i1>")
            self.leave(done, "break", ())
        # Now and then with a sum of its own.
        if rng.random() < 0.4:
            shape = rng.choice(self.extents), rng.choice(self.extents)
            self.sums[self.name()] = self.constant(0, shape, self.wide), shape, self.wide
        self.statements(list(pool), level + 1, rng.choice((1, 2, 3, 4)))
        following = "" if counted else self.emit(f"addi {at}, %one : tile<i32>")
        if rng.random() < 0.25:
            how = rng.choice(("continue", "continue", "break")) if not counted else "continue"
            self.leave(self.condition(), how, (following,) if how == "continue" and not counted else ())
            self.statements(list(pool), level + 1, rng.choice((1, 2)))
        inner = self.state()
        end = Leave("continue", () if counted else (following,), {k: inner[k] for k in before})
        body = [*self.lines, end]
        self.counters.pop()
        self.lines, self.sums, self.repeated = around, sums, repeated
        self.become(before)
        leaves = [line for line in body if isinstance(line, Leave)]
        changed = [k for k in before if any(leave.values[k] != args[k] for leave in leaves)]
        same = {args[k]: before[k] for k in before if k not in changed}
        types = [self.type_of(k) for k in changed]
        made = {k: self.name() for k in changed}
        inits = [f"{args[k]} = {before[k]}" for k in changed]
        results = f"{', '.join(made.values())} = " if changed else ""
        if counted:
            carried = f" iter_values({', '.join(inits)}) -> ({', '.join(types)})" if changed else ""
            self.lines.append(f"{results}for {at} in (%zero to {upper}, step %one) : tile<i32>{carried} {{")
        else:
            gives = f" -> {', '.join(types)}" if changed else ""
            given, kinds = ", ".join([f"{at} = %zero", *inits]), ", ".join(["tile<i32>", *types])
            self.lines.append(f"{results}loop iter_values({given}) : {kinds}{gives} {{")
        self.lines += [self.written(line, changed, types, same) for line in body]
        self.lines.append("}")
        self.become(made)

    def leave(self, condition: str, how: str, first: tuple[str, ...]) -> None:
        state = self.state()
        self.lines += [f"if {condition} {{", Leave(how, first, state), "}"]      # type: ignore[list-item]

    @staticmethod
    def written(line: str | Leave, changed: list[str], types: list[str], same: dict[str, str]) -> str:
        if isinstance(line, Leave):
            names = [*line.first, *(line.values[k] for k in changed)]
            kinds = [*["tile<i32>"] * len(line.first), *types]
            line = f"{line.how} {', '.join(names)} : {', '.join(kinds)}" if names else line.how
        return re.sub(r"%v\d+\b", lambda found: same.get(found[0], found[0]), line)

    # --- the program ------------------------------------------------------------------------------------------------

    def text(self) -> str:
        rng = self.rng
        self.lines = self.head
        if self.blocks > 1:
            self.head.append("%block, %blocky, %blockz = get_tile_block_id : tile<i32>")
        numbers = self.parameter("i32", self.values_of.integers(0, 4, INDICES).astype(np.int32))
        for kind in [*self.kinds, rng.choice(self.kinds), self.wide]:
            self.add_matrix("f32" if kind == "tf32" else kind)
        self.lines = self.tail
        for _ in range(rng.choice((1, 2, 2, 3))):
            shape = rng.choice(self.extents), rng.choice(self.extents)
            self.sums[self.name()] = self.constant(rng.choice((0, 0, 1)), shape, self.wide), shape, self.wide
        pool: list[Value] = []
        if rng.random() < 0.4:
            self.multiply(pool)
        for _ in range(rng.choice((1, 1, 2, 3))):
            self.loop(pool, 1)
        self.statements(pool, LEVELS, rng.choice((0, 1, 2)))
        if self.blocks == 1:
            for value in self.sums.values():
                Draw.store(self, value, 1)
        given = ", ".join(f"{p}: tile<ptr<{e}>>" for p, e in self.parameters)
        return "\n".join([
            "cuda_tile.module @m {", f"entry @kernel({given}, %steps: tile<i32>){self.hints} {{",
            "%zero = constant <i32: 0> : tile<i32>", "%one = constant <i32: 1> : tile<i32>", "%none = make_token : token",
            f"%numbers = assume div_by<4>, {numbers} : tile<ptr<i32>>", *self.head, *self.tail, "return", "}", "}"])


def main(argv: Sequence[str] | None = None) -> int:
    return products.main(argv, Nest, "python -m tests.fuzz.nests")


if __name__ == "__main__":
    sys.exit(main())
