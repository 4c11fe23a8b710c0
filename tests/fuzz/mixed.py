"""Random nests of loops and branches (`tests/fuzz/nests.py`) with what stands beside products in real kernels mixed in.

    python -m tests.fuzz.mixed --seed 0 --count 50 --gpu sm_90 --level 3

Tiles are also gathered by rows or columns, read through windows that overlap and through views of three dimensions, and unpacked
from 4-bit floats; products are batched, or scaled by blocks; sums are scanned, bits of them changed, and the places of their
rows' greatest elements marked; counters in memory are changed by masked atomics; blocks print, check, and return in the middle.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np

from tests.fuzz import products
from tests.fuzz.nests import Nest, Order
from tests.fuzz.products import Shape, Value, tile

FOURS = (0, 2, 4, 5, 10, 12, 13)
"""4-bit floats (e2m1) that are whole numbers between -MOST and MOST."""
OWN = 64
"""Counters in memory that each block adds to."""
HINTS = ("", "", "default = {num_cta_in_cga = 2}", "default = {num_cta_in_cga = 4}", "default = {occupancy = 2}",
         "default = {num_worker_warps = 8}")
PASS = 32
"""The least extent of a tile that is packed, batched or gathered."""


class Mixed(Nest):
    """One program's text."""

    def __init__(self, seed: int, kinds: Sequence[str], extents: Sequence[int]) -> None:
        super().__init__(seed, kinds, extents)
        self.counters_at = self.fours = self.powers = ""

    # --- loads ------------------------------------------------------------------------------------------------------

    def load(self, shape: Shape, element: str) -> Value:
        what = self.rng.random()
        if what < 0.12:
            return self.gathered(shape, element)
        if what < 0.22:
            return self.windowed(shape, element)
        if what < 0.32:
            return self.of_three(shape, element)
        if what < 0.40 and element in ("f16", "bf16", "f8E4M3FN"):
            return self.unpacked(shape, element)
        return super().load(shape, element)

    def through(self, kind: str, make: str, m_name: str, at: str, types: str, shape: str, element: str) -> str:
        """A tile of a view that is made at the kernel's beginning."""
        view, name, order = self.name(), self.name(), self.order[m_name]
        self.head.append(f"{view} = {make} : {kind}")
        self.lines.append(f"{name}, {name}t = load_view_tko weak {view}[{at}] token = {order.write} : {kind}, {types} -> "
                          f"tile<{shape}x{element}>, token")
        order.reads.append(f"{name}t")
        return name

    def gathered(self, shape: Shape, element: str) -> Value:
        """Rows or columns by loaded places, some of them outside."""
        m, sparse = self.matrix_of(element), self.rng.randrange(2)
        n = shape[sparse]
        line = self.emit(f"iota : tile<{n}xi32>")
        size = m.columns if sparse else m.rows - m.ragged
        step = self.constant_of(self.rng.choice((1, 3, 5)), f"{n}xi32")
        first = self.emit(f"reshape {self.loaded()} : tile<i32> -> tile<1xi32>")
        first = self.emit(f"broadcast {first} : tile<1xi32> -> tile<{n}xi32>")
        far = self.constant_of(size + (self.rng.random() < 0.3), f"{n}xi32")
        at = self.emit(f"muli {line}, {step} : tile<{n}xi32>")
        at = self.emit(f"addi {at}, {first} : tile<{n}xi32>")
        at = self.emit(f"remi {at}, {far} signed : tile<{n}xi32>")
        other = self.number(0)
        kind = (f"gather_scatter_view<tile=({shape[0]}x{shape[1]}), padding_value = zero, "
                f"{self.tensor(element, m.rows - m.ragged, m.columns, m.pitch)}, sparse_dim={sparse}>")
        indices, types = ((f"{other}, {at}", f"tile<i32>, tile<{n}xi32>") if sparse else
                          (f"{at}, {other}", f"tile<{n}xi32>, tile<i32>"))
        name = self.through(kind, f"make_gather_scatter_view {m.name}t", m.name, indices, types, "x".join(map(str, shape)),
                            element)
        return name, shape, element

    def windowed(self, shape: Shape, element: str) -> Value:
        """A window of a matrix whose neighbours overlap it or lie apart."""
        m = self.matrix_of(element)
        steps = [self.rng.choice((n, n // 2, 1, 8)) for n in shape]
        kind = (f"strided_view<tile=({shape[0]}x{shape[1]}), traversal_strides=[{steps[0]}, {steps[1]}], padding_value = zero, "
                f"{self.tensor(element, m.rows - m.ragged, m.columns, m.pitch)}>")
        tiles = [min(2, -(-size // step)) for size, step in zip((m.rows - m.ragged, m.columns), steps)]
        at = ", ".join(map(self.index_within, tiles))
        name = self.through(kind, f"make_strided_view {m.name}t", m.name, at, "tile<i32>", "x".join(map(str, shape)), element)
        return name, shape, element

    def of_three(self, shape: Shape, element: str) -> Value:
        """A tile of a view of three dimensions: the matrix, its rows in groups."""
        m, group = self.matrix_of(element), self.rng.choice((2, 4, 8, 16))
        tensor = f"tensor_view<{m.rows // group}x{group}x{m.columns}x{element}, strides=[{m.pitch * group},{m.pitch},1]>"
        name = f"{m.name}d{group}"
        make = (f"{name} = make_tensor_view {m.name}a, shape = [{m.rows // group}, {group}, {m.columns}], "
                f"strides = [{m.pitch * group}, {m.pitch}, 1] : {tensor}")
        if make not in self.head:
            self.head.append(make)
        if self.rng.random() < 0.5:
            part = f"{shape[0] // group}x{group}x{shape[1]}"
            order, at = "", f"{self.index_within(m.rows // shape[0])}, %zero, {self.index_within(m.columns // shape[1])}"
        else:               # a group's row for all groups, columns before rows
            part = f"{shape[1]}x1x{shape[0]}"
            if m.columns < shape[1] or m.rows // group < shape[0]:
                return super().load(shape, element)
            order, at = ", dim_map=[2, 1, 0]", f"%zero, {self.index_within(group)}, %zero"
        kind = f"partition_view<tile=({part}), padding_value = zero, {tensor}{order}>"
        got = self.through(kind, f"make_partition_view {name}", m.name, at, "tile<i32>", part, element)
        if order:
            got = self.emit(f"permute {got} [2, 1, 0] : tile<{part}x{element}> -> tile<{shape[0]}x1x{shape[1]}x{element}>")
            part = f"{shape[0]}x1x{shape[1]}"
        return self.emit(f"reshape {got} : tile<{part}x{element}> -> tile<{tile(shape, element)}>"), shape, element

    def unpacked(self, shape: Shape, element: str) -> Value:
        """A tile of 4-bit floats, two a byte, widened."""
        four = self.fours_of(shape)
        wide = self.emit(f"ftof {four} : tile<{tile(shape, 'f4E2M1FN')}> -> tile<{tile(shape, 'f16')}>")
        if element != "f16":
            wide = self.emit(f"ftof {wide} : tile<{tile(shape, 'f16')}> -> tile<{tile(shape, element)}>")
        return wide, shape, element

    def fours_of(self, shape: Shape) -> str:
        """A tile of 4-bit floats from bytes."""
        rows, columns = shape
        if not self.fours:
            codes = self.values_of.choice(FOURS, (2, max(*self.extents, PASS) ** 2)).astype(np.uint8)
            self.fours = self.parameter("i8", (codes[0] | codes[1] << 4).view(np.int8))
            self.head.append(f"%fours = assume div_by<16>, {self.fours} : tile<ptr<i8>>")
        half = rows * columns // 2
        first = self.emit(f"muli {self.index_within(2)}, {self.number(half)} : tile<i32>")
        p = self.emit(f"offset %fours, {first} : tile<ptr<i8>>, tile<i32> -> tile<ptr<i8>>")
        tensor = f"tensor_view<{half}xi8, strides=[1]>"
        view = self.emit(f"make_tensor_view {p}, shape = [{half}], strides = [1] : {tensor}")
        part = f"partition_view<tile=({half}), {tensor}>"
        view, name = self.emit(f"make_partition_view {view} : {part}"), self.name()
        self.lines.append(f"{name}, {name}t = load_view_tko weak {view}[%zero] token = %none : {part}, tile<i32> -> "
                          f"tile<{half}xi8>, token")
        four = self.emit(f"unpack {name} : tile<{half}xi8> -> tile<{2 * half}xf4E2M1FN>")
        return self.emit(f"reshape {four} : tile<{2 * half}xf4E2M1FN> -> tile<{tile(shape, 'f4E2M1FN')}>")

    def scales(self, shape: Shape) -> str:
        """Ones and twos."""
        if not self.powers:
            codes = self.values_of.integers(127, 129, 2 * max(*self.extents, PASS) ** 2).astype(np.uint8)
            self.powers = self.parameter("f8E8M0FNU", codes.view(ml_dtypes.float8_e8m0fnu))
            self.head.append(f"%powers = assume div_by<16>, {self.powers} : tile<ptr<f8E8M0FNU>>")
        rows, columns = shape
        tensor = f"tensor_view<{2 * rows}x{columns}xf8E8M0FNU, strides=[{columns},1]>"
        part = f"partition_view<tile=({rows}x{columns}), {tensor}>"
        view = self.name()
        self.head += [f"{view} = make_tensor_view %powers, shape = [{2 * rows}, {columns}], strides = [{columns}, 1] : {tensor}",
                      f"{view}v = make_partition_view {view} : {part}"]
        name, at = self.name(), self.index_within(2)
        self.lines.append(f"{name}, {name}t = load_view_tko weak {view}v[{at}, %zero] token = %none : {part}, tile<i32> -> "
                          f"tile<{tile(shape, 'f8E8M0FNU')}>, token")
        return name

    def scaled_product(self, pool: list[Value], shape: Shape, acc: str | None) -> Value:
        """A block-scaled product, of bytes or of 4-bit floats."""
        (m, n), k = shape, max(PASS, self.rng.choice(self.extents))
        element = self.rng.choice(("f8E4M3FN", "f4E2M1FN"))
        if element == "f4E2M1FN":
            a, b = self.fours_of((m, k)), self.fours_of((n, k))
            b = self.emit(f"permute {b} [1, 0] : tile<{n}x{k}x{element}> -> tile<{k}x{n}x{element}>")
        else:
            a, b = self.operand(pool, (m, k), element)[0], self.operand(pool, (k, n), element)[0]
        u, v, blocks = self.scales((m, k // 32)), self.scales((n, k // 32)), k // 32
        v = self.emit(f"permute {v} [1, 0] : tile<{n}x{blocks}xf8E8M0FNU> -> tile<{blocks}x{n}xf8E8M0FNU>")
        acc = acc or self.constant(0, shape, "f32")
        got = self.emit(f"mmaf_scaled {a}, {b}, {acc}, {u}, {v} : tile<{m}x{k}x{element}>, tile<{k}x{n}x{element}>, "
                        f"tile<{tile(shape, 'f32')}>, tile<{m}x{blocks}xf8E8M0FNU>, tile<{blocks}x{n}xf8E8M0FNU>")
        pool.append((got, shape, "f32"))
        return got, shape, "f32"

    def constant_of(self, number: int, kind: str) -> str:
        return self.emit(f"constant <{kind.split('x')[-1]}: {number}> : tile<{kind}>")

    # --- products ---------------------------------------------------------------------------------------------------

    def product(self, pool: list[Value], shape: Shape, acc: str | None, kind: str) -> Value:
        """Now and then a batch of products of groups of rows, each with operands of its own."""
        if kind == "f8E4M3FN" and self.rng.random() < 0.4:
            return self.scaled_product(pool, shape, acc)
        if kind in ("tf32", "f32") or self.rng.random() > 0.15 or shape[0] < PASS:
            return super().product(pool, shape, acc, kind)
        k, batch = max(32, self.rng.choice(self.extents)), 2
        rows = shape[0] // batch
        wide = "i32" if kind == "i8" else "f32"
        a, b = self.operand(pool, (shape[0], k), kind), self.operand(pool, (batch * k, shape[1]), kind) \
            if batch * k in self.extents else self.load((k, shape[1]), kind)
        acc = acc or self.constant(0, shape, wide)
        lhs = self.emit(f"reshape {a[0]} : tile<{tile(a[1], kind)}> -> tile<{batch}x{rows}x{k}x{kind}>")
        if b[1][0] == batch * k:
            rhs = self.emit(f"reshape {b[0]} : tile<{tile(b[1], kind)}> -> tile<{batch}x{k}x{shape[1]}x{kind}>")
        else:
            one = self.emit(f"reshape {b[0]} : tile<{tile(b[1], kind)}> -> tile<1x{k}x{shape[1]}x{kind}>")
            rhs = self.emit(f"broadcast {one} : tile<1x{k}x{shape[1]}x{kind}> -> tile<{batch}x{k}x{shape[1]}x{kind}>")
        start = self.emit(f"reshape {acc} : tile<{tile(shape, wide)}> -> tile<{batch}x{rows}x{shape[1]}x{wide}>")
        op, sign = ("mmai", " signed signed") if kind == "i8" else ("mmaf", "")
        got = self.emit(f"{op} {lhs}, {rhs}, {start}{sign} : tile<{batch}x{rows}x{k}x{kind}>, "
                        f"tile<{batch}x{k}x{shape[1]}x{kind}>, tile<{batch}x{rows}x{shape[1]}x{wide}>")
        value = self.emit(f"reshape {got} : tile<{batch}x{rows}x{shape[1]}x{wide}> -> tile<{tile(shape, wide)}>"), shape, wide
        pool.append(value)
        return value

    # --- statements -------------------------------------------------------------------------------------------------

    def statements(self, pool: list[Value], level: int, count: int) -> None:
        others: tuple[Callable[[int], None], ...] = (self.scan, self.bits, self.add_to_memory, self.speak, self.check, self.end,
                                                     self.greatest)
        for _ in range(count):
            if self.rng.random() < 0.35:
                self.rng.choice(others)(level)
            else:
                super().statements(pool, level, 1)

    def any_sum(self) -> tuple[str, Value]:
        key = self.rng.choice(list(self.sums))
        return key, self.sums[key]

    def scan(self, level: int) -> None:
        """A sum becomes its running totals, clamped again."""
        key, (name, shape, wide) = self.any_sum()
        name, t = self.clamp(name, shape, wide, 9), f"tile<{tile(shape, wide)}>"
        got, zero = self.name(), "0.0 : f32" if wide == "f32" else "0 : i32"
        self.lines.append(f"{got} = scan {name} dim={self.rng.randrange(2)} reverse={self.rng.choice(('true', 'false'))} "
                          f"identities=[{zero}] : {t} -> {t}\n(%x: tile<{wide}>, %y: tile<{wide}>) {{\n"
                          f"%z = {'addf' if wide == 'f32' else 'addi'} %x, %y : tile<{wide}>\nyield %z : tile<{wide}>\n}}")
        self.sums[key] = self.clamp(got, shape, wide, 50), shape, wide

    def bits(self, level: int) -> None:
        """A sum as integers: shifted, masked, narrowed to bytes and back."""
        key, (name, shape, wide) = self.any_sum()
        name, t = self.clamp(name, shape, wide, 100), f"tile<{tile(shape, 'i32')}>"
        if wide == "f32":
            name = self.emit(f"ftoi {name} signed : tile<{tile(shape, wide)}> -> {t}")
        what = self.rng.randrange(4)
        if what == 0:
            name = self.emit(f"shri {name}, {self.constant(2, shape, 'i32')} signed : {t}")
        elif what == 1:
            name = self.emit(f"xori {name}, {self.constant(5, shape, 'i32')} : {t}")
        elif what == 2:
            byte = self.emit(f"trunci {name} : {t} -> tile<{tile(shape, 'i8')}>")
            three = self.constant(3, shape, "i8")
            byte = self.emit(f"muli {byte}, {three} : tile<{tile(shape, 'i8')}>")
            name = self.emit(f"exti {byte} {self.rng.choice(('signed', 'unsigned'))} : tile<{tile(shape, 'i8')}> -> {t}")
        else:
            name = self.emit(f"remi {name}, {self.constant(7, shape, 'i32')} signed : {t}")
        if wide == "f32":
            name = self.emit(f"itof {name} signed : {t} -> tile<{tile(shape, wide)}>")
        self.sums[key] = name, shape, wide

    def add_to_memory(self, level: int) -> None:
        """Masked atomics on the block's own counters."""
        p, n = self.counters_at, self.rng.choice((1, 8, 32, OWN))
        line = self.emit(f"iota : tile<{n}xi32>")
        one = self.emit(f"reshape {p} : tile<ptr<i32>> -> tile<1xptr<i32>>")
        base = self.emit(f"broadcast {one} : tile<1xptr<i32>> -> tile<{n}xptr<i32>>")
        at = self.emit(f"offset {base}, {line} : tile<{n}xptr<i32>>, tile<{n}xi32> -> tile<{n}xptr<i32>>")
        limit = self.emit(f"reshape {self.loaded()} : tile<i32> -> tile<1xi32>")
        limit = self.emit(f"broadcast {limit} : tile<1xi32> -> tile<{n}xi32>")
        mask = self.emit(f"cmpi greater_than {line}, {limit}, signed : tile<{n}xi32> -> tile<{n}xi1>")
        name, mode = self.name(), self.rng.choice(("add", "max", "xor", "umin"))
        self.lines.append(f"{name}, {name}t = atomic_rmw_tko relaxed device {at}, {mode}, {line}, {mask} "
                          f"token = {self.settled('%own')} : tile<{n}xptr<i32>>, tile<{n}xi32>, tile<{n}xi1> -> "
                          f"tile<{n}xi32>, token")
        self.order["%own"].write = f"{name}t"

    def speak(self, level: int) -> None:
        values = [self.loaded()] + [c.name for c in self.counters]
        value = self.rng.choice(values)
        self.lines.append(f'{self.name()} = print_tko "step %d\\0A", {value} : tile<i32> -> token')

    def check(self, level: int) -> None:
        """Something that holds."""
        _, (name, shape, wide) = self.any_sum()
        name = self.clamp(name, shape, wide, 5)
        bound = self.constant(6, shape, wide)
        compare = (f"cmpf less_than ordered {name}, {bound}" if wide == "f32" else f"cmpi less_than {name}, {bound}, signed")
        ok = self.emit(f"{compare} : tile<{tile(shape, wide)}> -> tile<{tile(shape, 'i1')}>")
        self.lines.append(f'assert {ok}, "too large" : tile<{tile(shape, "i1")}>')

    def end(self, level: int) -> None:
        """The block returns, if something holds."""
        if self.rng.random() < 0.5:
            return
        condition = self.condition()
        self.lines += [f"if {condition} {{", "return", "}"]

    def greatest(self, level: int) -> None:
        """A sum's elements change where their row has its greatest, the first of equal ones."""
        key, (name, shape, wide) = self.any_sum()
        places, t = self.along(shape, 1), tile(shape, wide)
        got = self.name()
        low = "-1.0e30 : f32" if wide == "f32" else "-2147483648 : i32"
        greater = "cmpf greater_than ordered %x, %y" if wide == "f32" else "cmpi greater_than %x, %y, signed"
        equal = "cmpf equal ordered %x, %y" if wide == "f32" else "cmpi equal %x, %y, signed"
        i1 = "tile<i1>"
        self.lines.append(
            f"{got}, {got}i = reduce {name}, {places} dim=1 identities=[{low}, 2147483647 : i32] : tile<{t}>, "
            f"tile<{tile(shape, 'i32')}> -> tile<{shape[0]}x{wide}>, tile<{shape[0]}xi32>\n"
            f"(%x: tile<{wide}>, %y: tile<{wide}>, %p: tile<i32>, %q: tile<i32>) {{\n"
            f"%g = {greater} : tile<{wide}> -> {i1}\n%e = {equal} : tile<{wide}> -> {i1}\n"
            f"%f = cmpi less_than %p, %q, signed : tile<i32> -> {i1}\n%h = andi %e, %f : {i1}\n%k = ori %g, %h : {i1}\n"
            f"%m = select %k, %x, %y : {i1}, tile<{wide}>\n%n = select %k, %p, %q : {i1}, tile<i32>\n"
            f"yield %m, %n : tile<{wide}>, tile<i32>\n}}")
        thin = self.emit(f"reshape {got}i : tile<{shape[0]}xi32> -> tile<{shape[0]}x1xi32>")
        wide_places = self.emit(f"broadcast {thin} : tile<{shape[0]}x1xi32> -> tile<{tile(shape, 'i32')}>")
        here = self.emit(f"cmpi equal {wide_places}, {places}, signed : tile<{tile(shape, 'i32')}> -> tile<{tile(shape, 'i1')}>")
        other = self.constant(self.rng.randrange(2), shape, wide)
        small = self.clamp(name, shape, wide, 50)
        self.sums[key] = (self.emit(f"select {here}, {other}, {small} : tile<{tile(shape, 'i1')}>, tile<{t}>"), shape, wide)

    # --- the program ------------------------------------------------------------------------------------------------

    def text(self) -> str:
        hint = self.rng.choice(HINTS)
        if hint and not self.hints:
            self.hints = f" optimization_hints=<{hint}>"
        name = self.parameter("i32", np.full(OWN * self.blocks, 7, np.int32))
        self.counters_at = "%ownp"
        if self.blocks > 1:
            self.head += ["%ownb, %ownby, %ownbz = get_tile_block_id : tile<i32>",
                          f"%owns = constant <i32: {OWN}> : tile<i32>", "%owno = muli %ownb, %owns : tile<i32>",
                          f"%ownp = offset {name}, %owno : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>"]
        else:
            self.head.append(f"%ownp = assume div_by<16>, {name} : tile<ptr<i32>>")
        self.order["%own"] = Order("%none", [])
        return super().text()


def main(argv: Sequence[str] | None = None) -> int:
    return products.main(argv, Mixed, "python -m tests.fuzz.mixed")


if __name__ == "__main__":
    sys.exit(main())
