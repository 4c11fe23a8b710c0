"""Views of many kinds, as programs: each entry copies a tile of one view to an array, so that its load wants a tensor map.

A `View` says element type, tile, which extents and strides are constants, which axis is contiguous, a slice, padding. Its
recipe but for what a compiler chooses (box, swizzle, the order of dimensions) follows from that by hand (`View.recipe`).
"""
from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tileiras.host.recipe import Const, Expr, HostMap, Param, apply, extend

# element type of the language -> (that of maps, bits)
ELEMENTS: dict[str, tuple[str, int]] = {
    "i8": ("u8", 8), "i16": ("u16", 16), "i32": ("u32", 32), "i64": ("u64", 64), "f16": ("f16", 16), "bf16": ("bf16", 16),
    "f32": ("f32", 32), "tf32": ("tf32", 32), "f64": ("f64", 64), "f8E4M3FN": ("u8", 8), "f8E5M2": ("u8", 8)}
LEAST_ROW = 16                  # bytes of a box's row


@dataclass(frozen=True)
class View:
    """`tile`: its extents, axis by axis. `unit`: the contiguous axis. `sizes`, `strides` (in elements, by
    axis): a constant, or None for a parameter. `start`: whether the first axis is sliced from a parameter on. `padding`: of
    what lies outside. `product`: the tile is an operand of a product, for which boxes are swizzled."""
    element: str
    tile: tuple[int, ...]
    unit: int
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    start: bool = False
    padding: str = ""
    product: bool = False

    @property
    def rank(self) -> int:
        return len(self.tile)

    @property
    def names(self) -> list[str]:
        """Parameters behind the two pointers: of each axis its extent and its stride where they are none, then the start."""
        return [f"{kind}{axis}" for kind, values in (("n", self.sizes), ("s", self.strides))
                for axis, value in enumerate(values) if value is None] + ["start"] * self.start

    def _at(self, kind: str, axis: int, values: tuple[int | None, ...]) -> Expr:
        value = values[axis]
        return Param(2 + self.names.index(f"{kind}{axis}"), 32) if value is None else Const(value)

    def recipe(self, axes: tuple[int, ...], box: tuple[int, ...], swizzle: int, atomicity: str = "16B") -> HostMap:
        """Its map, for an order of axes (the contiguous one first) and a box, which are a compiler's choice."""
        element, bits = ELEMENTS[self.element]
        width = Const(bits // 8)
        sizes = [self._at("n", axis, self.sizes) for axis in axes]
        strides = [apply("mul", self._at("s", axis, self.strides), width) for axis in axes[1:]]
        address: Expr = Param(0)
        if self.start:
            begin = Param(2 + self.names.index("start"), 32, signed=True)
            step = self._at("s", 0, self.strides) if self.unit else Const(1)
            first = extend(apply("mul", begin, step), 32, signed=True)      # as the program computes it
            address = apply("add", address, apply("mul", first, width))
            sizes[axes.index(0)] = apply("sub", self._at("n", 0, self.sizes), begin)
        return HostMap(address, element, tuple(sizes), tuple(strides), box, swizzle, atomicity)

    def entry(self, name: str) -> str:
        """The view's program."""
        e, shape = self.element, "x".join(map(str, self.tile))
        divisor = 128 // ELEMENTS[e][1] if ELEMENTS[e][1] < 128 else 1
        unit = self.unit
        lines, said = [], {}
        for name_ in self.names:
            lines += [f"%{name_}a = assume bounded<0, ?>, %{name_} : tile<i32>"]
            said[name_] = f"%{name_}a"
            if name_[0] == "s":
                lines += [f"%{name_}b = assume div_by<{divisor}>, %{name_}a : tile<i32>"]
                said[name_] = f"%{name_}b"
        lines.append(f"%pa = assume div_by<16>, %p : tile<ptr<{e}>>")
        base, extents = "%pa", [said.get(f"n{a}", str(n)) for a, n in enumerate(self.sizes)]
        steps = ["1" if a == unit else said.get(f"s{a}", str(s)) for a, s in enumerate(self.strides)]
        if self.start:
            lines += [f"%first = muli {said['start']}, {said['s0']} : tile<i32>" if unit else f"%first = addi {said['start']}, "
                      f"{said['start']} : tile<i32>", f"%pb = offset %pa, %first : tile<ptr<{e}>>, tile<i32> -> tile<ptr<{e}>>",
                      f"%left = subi %n0a, {said['start']} : tile<i32>"]
            base, extents[0] = "%pb", "%left"
        typed = ",".join(x if x.isdigit() else "?" for x in steps)
        view = f"tensor_view<{'x'.join(x if x.isdigit() else '?' for x in extents)}x{e}, strides=[{typed}]>"
        padded = f"padding_value = {self.padding}, " if self.padding else ""
        part = f"partition_view<tile=({shape}), {padded}{view}>"
        zero = ", ".join(["%x"] + ["%z"] * (self.rank - 1))
        ints = " : tile<i32> -> " if any(x.startswith("%") for x in [*extents, *steps]) else " : "
        lines += [f"%v = make_tensor_view {base}, shape = [{', '.join(extents)}], strides = [{', '.join(steps)}]{ints}{view}",
                  f"%a = make_partition_view %v : {part}", "%x, %y, %zz = get_tile_block_id : tile<i32>",
                  "%z = constant <i32: 0> : tile<i32>",
                  f"%tile, %k = load_view_tko weak %a[{zero}] : {part}, tile<i32> -> tile<{shape}x{e}>, token"]
        value, wide, left = "%tile", e, self.tile
        if self.product:
            wide, op, signs = ("i32", "mmai", " signed signed") if e == "i8" else ("f64" if e == "f64" else "f32", "mmaf", "")
            left = (self.tile[0], COLUMNS)
            other, sums = f"tile<{self.tile[1]}x{COLUMNS}x{e}>", f"tile<{left[0]}x{COLUMNS}x{wide}>"
            lines += [f"%other = constant <{e}: {_number(e, 1)}> : {other}",
                      f"%sums = constant <{wide}: {_number(wide, 0)}> : {sums}",
                      f"%product = {op} %tile, %other, %sums{signs} : tile<{shape}x{e}>, {other}, {sums}"]
            value = "%product"
        elif e.startswith("f8"):
            wide, value = "f32", "%widened"
            lines.append(f"%widened = ftof %tile : tile<{shape}x{e}> -> tile<{shape}xf32>")
        add = "addi" if wide[0] == "i" else "addf"
        for rank in range(len(left) - 1, -1, -1):       # a reduction: for it the original loads such tiles by maps
            before, after = ("".join(f"{n}x" for n in left[:k]) + wide for k in (rank + 1, rank))
            lines.append(f"%sum{rank} = reduce {value} dim={rank} identities=[{_number(wide, 0)} : {wide}] : tile<{before}> -> "
                         f"tile<{after}> (%e{rank}: tile<{wide}>, %f{rank}: tile<{wide}>) {{ %g{rank} = {add} %e{rank}, %f{rank} : "
                         f"tile<{wide}> yield %g{rank} : tile<{wide}> }}")
            value = f"%sum{rank}"
        lines += [f"%o = store_ptr_tko weak %q, {value} : tile<ptr<{wide}>>, tile<{wide}> -> token", "return"]
        params = ", ".join([f"%p: tile<ptr<{e}>>", f"%q: tile<ptr<{wide}>>", *(f"%{n}: tile<i32>" for n in self.names)])
        return f"  entry @{name}({params}) {{\n    " + "\n    ".join(lines) + "\n  }\n"


COLUMNS = 64                # of a product


def _number(element: str, value: int) -> str:
    return str(value) if element[0] == "i" else f"{value}.0"


def views(count: int, seed: int) -> Iterator[View]:
    """Views drawn by seed, one element type after the other."""
    rng = random.Random(seed)
    for i in range(count):
        element = list(ELEMENTS)[i % len(ELEMENTS)]
        bits = ELEMENTS[element][1]
        rank = rng.choice((1, 2, 2, 2, 3, 3, 4, 5)) if element != "tf32" else 2
        unit = rng.randrange(rank) if rng.random() < 0.3 else rank - 1
        tile = [1 << rng.randrange(0, 6 - rank + 2) for _ in range(rank)]
        tile[unit] = max(8 * LEAST_ROW // bits, 1 << rng.randrange(4, 8))
        sizes: list[int | None] = [rng.choice((None, None, 16 * rng.randrange(1, 90), rng.randrange(1, 3000))) for _ in tile]
        strides: list[int | None] = [rng.choice((None, None, 128 // bits * rng.randrange(0, 5000) + 128 // bits)) for _ in tile]
        strides[unit] = 1
        start = rng.random() < 0.15 and rank > 1 and unit != 0
        if start:
            sizes[0] = strides[0] = None
        product = rank == 2 and element not in ("i16", "i32", "i64") and (element == "tf32" or rng.random() < 0.5)
        if product:
            tile = [128, max(64, tile[1])]
        yield View(element, tuple(tile), unit, tuple(sizes), tuple(strides), start, rng.choice(("", "", "zero")), product)
