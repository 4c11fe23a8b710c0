"""Random valid tile programs: which ops, on which tiles, in which nests of loops, and on which inputs.

    program = generate(seed)          # .module (cuda_tile), .grid, .arguments() (fresh arrays)

Everything the language leaves open is avoided, so that one answer is right: divisors aren't zero, shifts are narrower
than the type, floats are small integers wherever sums may be taken in any order or converted to integers, padding is
given wherever something is masked, and accesses to the same memory are joined by tokens. Blocks meet only in atomics
that commute. Functions of the maths library go straight to outputs of their own, which may differ by some ulp
(`Program.loose`); where they are exact by what they are, they may go on.
"""
from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue

from tests.interp.build import ARRAYS, ELEMENTS, TOKEN, WEAK, Kernel, dense, pointer, tile
from tileiras.dialects.cuda_tile import attrs, ops, types

INTS = ("i1", "i8", "i16", "i32", "i64")
WIDE_INTS = INTS[1:]
FLOATS = ("f16", "bf16", "f32", "f64")
LOW_FLOATS = ("tf32", "f8E4M3FN", "f8E5M2")
BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}
EXACT = {"f16": 2048, "bf16": 256, "f32": 1 << 24, "f64": 1 << 53}
"""Integers up to here are exact."""
PREDICATES = attrs.ComparisonPredicateAttr.CASES
NO_WRAP = attrs.OverflowAttr("none")
RELAXED = {"memory_ordering_semantics": attrs.MemoryOrderingSemanticsAttr("relaxed"),
           "memory_scope": attrs.MemoryScopeAttr("device")}
NAMES = {e: n for n, e in ELEMENTS.items()}
Shape = tuple[int, ...]
I32 = tile("i32")


def signed(flag: bool) -> attrs.SignednessAttr:
    return attrs.SignednessAttr("signed" if flag else "unsigned")


def rounding(mode: str = "nearest_even") -> attrs.RoundingAttr:
    return attrs.RoundingAttr(mode)


def count_of(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=int))


@dataclasses.dataclass
class Program:
    """A module with one entry `kernel`, its grid and its launch parameters."""

    seed: int
    module: ops.Module
    grid: Shape
    parameters: list[Any]
    loose: dict[int, float] = dataclasses.field(default_factory=dict)
    """Parameters that may differ from the interpreter's, and by how much relative to the value (at least 1)."""

    def arguments(self) -> list[Any]:
        return [p.copy() if isinstance(p, np.ndarray) else p for p in self.parameters]


@dataclasses.dataclass(frozen=True)
class Limits:
    """How large programs get: ops by region at the top, elements of a tile, depth of regions."""

    ops: int = 24
    elements: int = 1024
    depth: int = 3


@dataclasses.dataclass
class Frame:
    """A loop or branch that is being built: what it is and the types that it carries (tokens among them)."""

    kind: str
    carried: list[Attribute]


class Generator:
    """Builds one program; every `make_*` method appends ops and adds what they compute to the values in scope."""

    def __init__(self, seed: int, limits: Limits) -> None:
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.limits = limits
        self.kernel = Kernel()
        self.parameters: list[Any] = []
        self.scopes: list[list[SSAValue]] = [[]]
        self.frames: list[Frame] = []
        self.grid = self.rng.choice(((1,), (1,), (2,), (3,), (2, 2), (1, 2, 2)))
        self.blocks = count_of(self.grid)
        self.most = self.rng.choice((16, 128, 512, limits.elements, limits.elements, 4 * limits.elements))
        self.shapes = [self.random_shape() for _ in range(4)]
        self.token: SSAValue | None = None
        self.makers: list[tuple[int, Callable[[], Any]]] = [
            (14, self.make_integer), (12, self.make_float), (5, self.make_compare), (4, self.make_select),
            (8, self.make_cast), (2, self.make_iota), (3, self.make_constant), (4, self.make_broadcast),
            (5, self.make_reshape), (5, self.make_permute), (4, self.make_extract), (3, self.make_cat),
            (2, self.make_insert), (7, self.make_reduce), (4, self.make_scan), (5, self.make_mmaf), (2, self.make_mmai),
            (4, self.make_if), (4, self.make_for), (3, self.make_loop), (5, self.make_view_load), (3, self.make_load),
            (4, self.make_round_trip), (2, self.make_atomic), (1, self.make_assume), (2, self.make_output),
            (1, self.make_leave), (1, self.make_pack), (2, self.make_view_round_trip), (3, self.make_product_loop),
            (2, self.make_pointer_loop), (1, self.make_scaled_product), (1, self.make_global), (1, self.make_view_atomic),
            (1, self.make_address), (1, self.make_assert), (1, self.make_low_cast), (2, self.make_function),
            (1, self.make_exact_function), (2, self.make_meeting), (1, self.make_view_meeting), (1, self.make_alloca),
            (1, self.make_shape_query), (1, self.make_saturating), (1, self.make_low_round_trip)]
        self.globals: list[Operation] = []
        self.loose: dict[int, float] = {}

    # Basics.

    def add(self, op: Operation) -> Any:
        return self.kernel.add(op)

    def elementwise(self, op: type[Operation], operands: list[SSAValue], element: str | None = None,
                    **attributes: Any) -> SSAValue:
        kind = operands[0].type if element is None else tile(element, *self.shape(operands[0]))
        return self.add(op.make(operands, [kind], attributes))       # type: ignore[attr-defined]

    def keep(self, value: SSAValue) -> SSAValue:
        self.scopes[-1].append(value)
        return value

    @staticmethod
    def shape(value: SSAValue) -> Shape:
        return value.type.shape                                      # type: ignore[attr-defined]

    @staticmethod
    def element(value: SSAValue) -> str:
        return NAMES[value.type.element_type]                        # type: ignore[attr-defined]

    def random_shape(self, most: int | None = None) -> Shape:
        """Rank 0 to 4, powers of two, odd mixes of short and long extents."""
        most = most or self.most
        rank = self.rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))
        shape = [1] * rank
        left = most
        for i in self.rng.sample(range(rank), rank):
            extent = 1 << self.rng.choice((0, 1, 2, 3, 4, 5, 6, 8, 10))
            shape[i] = min(extent, left)
            left //= shape[i]
        return tuple(shape)

    def any_shape(self) -> Shape:
        return self.rng.choice(self.shapes) if self.rng.random() < 0.7 else self.random_shape()

    def parameter(self, kind: Attribute, value: Any) -> SSAValue:
        block = self.kernel.outer[0] if self.kernel.outer else self.kernel.block
        self.parameters.append(value)
        return block.insert_arg(kind, len(block.args))

    def splat(self, element: str, number: float, shape: Shape) -> SSAValue:
        one = dense(element, [number])
        if element == "tf32":
            return self.to_element(self.splat("f32", number, shape), "tf32")
        value = attrs.DenseElementsAttr(tile(element, *shape), one.data[1])
        return self.add(ops.Constant.make([], [value.type], {"value": value}))

    def draw(self, element: str, count: int) -> np.ndarray:
        """Input numbers: mostly small, with the odd extreme."""
        n = self.numbers
        style = self.rng.choice(("small", "small", "any"))
        if element == "i1":
            return n.integers(0, 2, count).astype(np.bool_)
        if element.startswith("i"):
            info = np.iinfo(ARRAYS[element])
            if style == "small":
                return n.integers(-9, 100, count).astype(ARRAYS[element])
            picks = np.array([info.min, info.max, -1, 0, 1], ARRAYS[element])
            wide = n.integers(info.min, info.max, count, endpoint=True, dtype=ARRAYS[element])
            return np.where(n.random(count) < 0.1, n.choice(picks, count), wide).astype(ARRAYS[element])
        if style == "small" or element in LOW_FLOATS:
            return n.integers(-8, 9, count).astype(ARRAYS[element])
        values = n.standard_normal(count) * 2.0 ** n.integers(-12, 12, count)
        with np.errstate(over="ignore"):
            special = n.choice(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 1e30, 0.5]), count)
            return np.where(n.random(count) < 0.1, special, values).astype(ARRAYS[element])

    # Values of wanted shape and type, from values in scope.

    def in_scope(self, wanted: Callable[[SSAValue], bool] = lambda v: True) -> list[SSAValue]:
        return [v for scope in self.scopes for v in scope if wanted(v)]

    def pick(self, element: str | Sequence[str] | None = None, shape: Shape | None = None) -> SSAValue:
        """A value, made from one in scope if there's none as wanted."""
        allowed = (element,) if isinstance(element, str) else element
        good = self.in_scope(lambda v: (allowed is None or self.element(v) in allowed)
                             and (shape is None or self.shape(v) == shape))
        if good and self.rng.random() < 0.9:
            return self.rng.choice(good[-8:] if self.rng.random() < 0.6 else good)
        pool = self.in_scope()
        near = [v for v in pool if allowed is None or self.element(v) in allowed]
        value = self.rng.choice(near or pool)
        if allowed is not None and self.element(value) not in allowed:
            value = self.to_element(value, self.rng.choice(allowed))
        return value if shape is None else self.to_shape(value, shape)

    def to_shape(self, value: SSAValue, shape: Shape) -> SSAValue:
        have = self.shape(value)
        element = self.element(value)
        if have == shape:
            return value
        count, want = count_of(have), count_of(shape)
        if count > want:
            flat = self.reshape(value, (count,))
            at = self.splat("i32", self.rng.randrange(count // want), ())
            value = self.add(ops.Extract.make([flat, [at]], [tile(element, want)]))
        elif count < want:
            rows = self.reshape(value, (1, count) if self.rng.random() < 0.5 else (count, 1))
            spread = (want // count, count) if self.shape(rows)[0] == 1 else (count, want // count)
            value = self.add(ops.Broadcast.make([rows], [tile(element, *spread)]))
        return self.reshape(value, shape)

    def reshape(self, value: SSAValue, shape: Shape) -> SSAValue:
        if self.shape(value) == shape:
            return value
        return self.add(ops.Reshape.make([value], [tile(value.type.element_type, *shape)]))    # type: ignore[attr-defined]

    def to_element(self, value: SSAValue, element: str) -> SSAValue:
        """The value converted, where needed after a clamp that makes the conversion defined."""
        have = self.element(value)
        if have == element:
            return value
        if have in INTS and element in INTS:
            if BITS[element] > BITS[have]:
                return self.elementwise(ops.ExtI, [value], element, signedness=signed(self.rng.random() < 0.5))
            return self.elementwise(ops.TruncI, [value], element, overflow=NO_WRAP)
        if have in INTS:
            target = element if element in FLOATS else "f32"
            value = self.elementwise(ops.IToF, [value], target, signedness=signed(self.rng.random() < 0.6),
                                     rounding_mode=rounding())
            return self.to_element(value, element)
        if element in INTS:
            if have in LOW_FLOATS:
                value = self.to_element(value, "f32")
            if element == "i1":
                return self.elementwise(ops.CmpF, [value, self.splat(self.element(value), 0, self.shape(value))], "i1",
                                        comparison_predicate=attrs.ComparisonPredicateAttr("greater_than"),
                                        comparison_ordering=attrs.ComparisonOrderingAttr("ordered"))
            value, is_signed = self.small(value, 100), self.rng.random() < 0.6
            if not is_signed:
                value = self.elementwise(ops.AbsF, [value])
            return self.elementwise(ops.FToI, [value], element, signedness=signed(is_signed),
                                    rounding_mode=rounding("nearest_int_to_zero"))
        return self.elementwise(ops.FToF, [value], element, rounding_mode=rounding())

    def small(self, value: SSAValue, bound: float) -> SSAValue:
        """Floats clamped to integers in [-bound, bound], without NaN and -0."""
        shape, element = self.shape(value), self.element(value)
        if element in LOW_FLOATS:
            return self.to_element(self.small(self.to_element(value, "f32"), bound), element)
        value = self.elementwise(ops.MinF, [value, self.splat(element, bound, shape)])
        value = self.elementwise(ops.MaxF, [value, self.splat(element, -bound, shape)])
        value = self.elementwise(ops.Floor, [value])
        return self.elementwise(ops.AddF, [value, self.splat(element, 0, shape)], rounding_mode=rounding())

    def scalar(self, below: int, element: str = "i32") -> SSAValue:
        """A scalar in [0, below): a constant or one from data."""
        if self.rng.random() < 0.4:
            return self.splat(element, self.rng.randrange(below), ())
        value = self.pick(element, ())
        return self.elementwise(ops.RemI, [value, self.splat(element, below, ())], signedness=signed(False))

    def condition(self) -> SSAValue:
        if self.rng.random() < 0.3:
            return self.pick("i1", ())
        return self.elementwise(ops.CmpI, [self.scalar(4), self.scalar(4)], "i1", signedness=signed(True),
                                comparison_predicate=attrs.ComparisonPredicateAttr(self.rng.choice(PREDICATES)))

    # Element by element.

    def make_integer(self) -> None:
        r = self.rng
        shape, element = self.any_shape(), r.choice(WIDE_INTS + ("i32", "i1"))
        a, b = self.pick(element, shape), self.pick(element, shape)
        if element == "i1":
            self.keep(self.elementwise(r.choice((ops.AndI, ops.OrI, ops.XOrI)), [a, b]))
            return
        kind = r.choice(("wrap", "wrap", "wrap", "bits", "minmax", "shift", "div", "unary", "mulhi"))
        if kind == "wrap":
            self.keep(self.elementwise(r.choice((ops.AddI, ops.SubI, ops.MulI)), [a, b], overflow=NO_WRAP))
        elif kind == "bits":
            self.keep(self.elementwise(r.choice((ops.AndI, ops.OrI, ops.XOrI)), [a, b]))
        elif kind == "minmax":
            self.keep(self.elementwise(r.choice((ops.MaxI, ops.MinI)), [a, b], signedness=signed(r.random() < 0.5)))
        elif kind == "shift":
            b = self.elementwise(ops.AndI, [b, self.splat(element, BITS[element] - 1, shape)])
            if r.random() < 0.5:
                self.keep(self.elementwise(ops.ShLI, [a, b], overflow=NO_WRAP))
            else:
                self.keep(self.elementwise(ops.ShRI, [a, b], signedness=signed(r.random() < 0.5)))
        elif kind == "div":
            self.make_division(a, b)
        elif kind == "unary":
            if r.random() < 0.5:
                self.keep(self.elementwise(ops.NegI, [a], overflow=NO_WRAP))
            else:
                half = self.elementwise(ops.ShRI, [a, self.splat(element, 1, shape)], signedness=signed(True))
                self.keep(self.elementwise(ops.AbsI, [half]))
        else:
            self.keep(self.elementwise(ops.MulhiI, [a, b]))

    def make_division(self, a: SSAValue, b: SSAValue) -> None:
        """The dividend is halved where it could be the least number, divided by -1."""
        r, shape, element = self.rng, self.shape(a), self.element(a)
        one = self.splat(element, 1, shape)
        is_signed = r.random() < 0.6
        if r.random() < 0.4:
            b = self.splat(element, r.choice((1, 2, 3, 5, 8, 64, -2, -7) if is_signed else (1, 2, 3, 7, 16)), shape)
        b = self.elementwise(ops.OrI, [b, one]) if r.random() < 0.8 else self.splat(element, 4, shape)
        if is_signed:
            a = self.elementwise(ops.ShRI, [a, one], signedness=signed(True))
        if r.random() < 0.4:
            self.keep(self.elementwise(ops.RemI, [a, b], signedness=signed(is_signed)))
            return
        modes = ("zero", "positive_inf", "negative_inf") if is_signed else ("zero", "positive_inf")
        self.keep(self.elementwise(ops.DivI, [a, b], signedness=signed(is_signed), rounding=rounding(r.choice(modes))))

    def make_float(self) -> None:
        r = self.rng
        shape, element = self.any_shape(), r.choice(FLOATS + ("f32",))
        a, b = self.pick(element, shape), self.pick(element, shape)
        mode = rounding(r.choice(("nearest_even",) * 6 + ("zero", "negative_inf", "positive_inf")))
        flush = UnitAttr() if element == "f32" and r.random() < 0.1 else None
        kind = r.choice(("add", "add", "add", "fma", "minmax", "unary", "sqrt", "div", "rem"))
        if kind == "add":
            self.keep(self.elementwise(r.choice((ops.AddF, ops.SubF, ops.MulF)), [a, b], rounding_mode=mode,
                                       flush_to_zero=flush))
        elif kind == "fma":
            self.keep(self.elementwise(ops.Fma, [a, b, self.pick(element, shape)], rounding_mode=mode,
                                       flush_to_zero=flush))
        elif kind == "minmax":
            self.keep(self.elementwise(r.choice((ops.MaxF, ops.MinF)), [a, b],
                                       propagate_nan=UnitAttr() if r.random() < 0.4 else None))
        elif kind == "unary":
            self.keep(self.elementwise(r.choice((ops.AbsF, ops.NegF, ops.Ceil, ops.Floor)), [a]))
        elif kind == "sqrt":
            self.keep(self.elementwise(ops.Sqrt, [self.elementwise(ops.AbsF, [a])], rounding_mode=mode))
        elif kind == "div":
            self.keep(self.elementwise(ops.DivF, [a, b], rounding_mode=mode))
        else:
            self.keep(self.elementwise(ops.RemF, [self.small(a, 64), self.small(b, 9)]))

    def make_compare(self) -> None:
        r, shape = self.rng, self.any_shape()
        predicate = attrs.ComparisonPredicateAttr(r.choice(PREDICATES))
        if r.random() < 0.6:
            element = r.choice(INTS)
            self.keep(self.elementwise(ops.CmpI, [self.pick(element, shape), self.pick(element, shape)], "i1",
                                       comparison_predicate=predicate, signedness=signed(r.random() < 0.5)))
        else:
            element = r.choice(FLOATS)
            ordering = attrs.ComparisonOrderingAttr(r.choice(("ordered", "unordered")))
            self.keep(self.elementwise(ops.CmpF, [self.pick(element, shape), self.pick(element, shape)], "i1",
                                       comparison_predicate=predicate, comparison_ordering=ordering))

    def make_select(self) -> None:
        shape, element = self.any_shape(), self.rng.choice(INTS + FLOATS)
        cond = self.pick("i1", shape)
        a, b = self.pick(element, shape), self.pick(element, shape)
        self.keep(self.add(ops.Select.make([cond, a, b], [a.type])))

    def make_cast(self) -> None:
        r = self.rng
        if r.random() < 0.15:
            ints, floats = r.choice((("i16", "f16"), ("i16", "bf16"), ("i32", "f32"), ("i64", "f64")))
            if r.random() < 0.5:
                self.keep(self.elementwise(ops.Bitcast, [self.pick(ints, self.any_shape())], floats))
            else:
                self.keep(self.elementwise(ops.Bitcast, [self.small(self.pick(floats, self.any_shape()), 100)], ints))
            return
        value = self.pick(None, self.any_shape())
        self.keep(self.to_element(value, r.choice(INTS + FLOATS + LOW_FLOATS)))

    # Tiles without operands.

    def make_iota(self) -> None:
        element = self.rng.choice(WIDE_INTS)
        most = min(self.most, 1 << (7 if element == "i8" else 12))
        self.keep(self.add(ops.Iota.make([], [tile(element, 1 << self.rng.randrange(most.bit_length()))])))

    def make_constant(self) -> None:
        element, shape = self.rng.choice(INTS + FLOATS + LOW_FLOATS), self.any_shape()
        if self.rng.random() < 0.5 or count_of(shape) > 256 or element == "tf32":
            self.keep(self.splat(element, self.rng.choice((0, 1, 2, 3, 7, -1, -5) if element != "i1" else (0, 1)), shape))
        else:
            self.keep(self.kernel.constant(element, self.draw(element, count_of(shape)).reshape(shape)))

    # Shapes.

    def any_tile(self, least_rank: int = 0) -> SSAValue:
        value = self.pick(None, None if self.rng.random() < 0.5 else self.any_shape())
        if len(self.shape(value)) < least_rank:
            count = count_of(self.shape(value))
            value = self.reshape(value, self.split(count, self.rng.randint(least_rank, 4)))
        return value

    def split(self, count: int, rank: int) -> Shape:
        """A shape of this many elements; rank 0 only for one."""
        shape = [1] * max(rank, 1)
        for _ in range(count.bit_length() - 1):
            shape[self.rng.randrange(len(shape))] *= 2
        return tuple(shape) if rank or count > 1 else ()

    def make_broadcast(self) -> None:
        value = self.any_tile(1)
        shape, left = list(self.shape(value)), self.most // max(count_of(self.shape(value)), 1)
        if left > 1 and 1 not in shape:
            shape.insert(self.rng.randrange(len(shape) + 1), 1)
            value = self.reshape(value, tuple(shape))
        for i, extent in enumerate(shape):
            if extent == 1 and left > 1 and self.rng.random() < 0.8:
                shape[i] = 1 << self.rng.randrange(left.bit_length())
                left //= shape[i]
        self.keep(self.add(ops.Broadcast.make([value], [tile(self.element(value), *shape)])))

    def make_reshape(self) -> None:
        value = self.any_tile()
        self.keep(self.reshape(value, self.split(count_of(self.shape(value)), self.rng.randrange(5))))

    def make_permute(self) -> None:
        value = self.any_tile(2)
        order = self.rng.sample(range(len(self.shape(value))), len(self.shape(value)))
        self.keep(self.add(ops.Permute.make([value], [tile(self.element(value), *(self.shape(value)[i] for i in order))],
                                            {"permutation": DenseArrayBase.from_list(i32, order)})))

    def slice_of(self, value: SSAValue) -> tuple[Shape, list[SSAValue]]:
        part = tuple(max(1, extent >> self.rng.choice((0, 0, 1, 1, 2, 5))) for extent in self.shape(value))
        return part, [self.scalar(extent // step) for extent, step in zip(self.shape(value), part)]

    def make_extract(self) -> None:
        value = self.any_tile(1)
        part, at = self.slice_of(value)
        self.keep(self.add(ops.Extract.make([value, at], [tile(self.element(value), *part)])))

    def make_insert(self) -> None:
        value = self.any_tile(1)
        part, at = self.slice_of(value)
        self.keep(self.add(ops.Insert.make([self.pick(self.element(value), part), value, at], [value.type])))

    def make_cat(self) -> None:
        value = self.any_tile(1)
        if count_of(self.shape(value)) * 2 > max(self.most, 2):
            return
        dim = self.rng.randrange(len(self.shape(value)))
        shape = list(self.shape(value))
        shape[dim] *= 2
        self.keep(self.add(ops.Cat.make([value, self.pick(self.element(value), self.shape(value))],
                                        [tile(self.element(value), *shape)], {"dim": IntegerAttr(dim, i64)})))

    def make_pack(self) -> None:
        """Bytes of a tile of numbers, and back to numbers."""
        element = self.rng.choice(("i16", "i32", "i64", "i8"))
        value = self.pick(element)
        count = count_of(self.shape(value))
        if element == "i8" or count * BITS[element] // 8 > 4 * self.most:
            return
        raw = self.add(ops.Pack.make([self.reshape(value, (count,))], [tile("i8", count * BITS[element] // 8)]))
        self.keep(raw)
        bits = self.rng.choice([b for b in (16, 32, 64) if b <= count * BITS[element]])
        self.keep(self.add(ops.Unpack.make([raw], [tile(f"i{bits}", count * BITS[element] // bits)])))

    # Reductions and products.

    def make_reduce(self) -> None:
        self.collective(ops.Reduce, self.rng.choice(("integer", "integer", "float", "argmax", "several")))

    def make_scan(self) -> None:
        self.collective(ops.Scan, self.rng.choice(("integer", "integer", "float", "last", "recurrence")))

    def collective(self, op: type[Operation], style: str) -> None:
        r, shape = self.rng, self.any_shape()
        if not shape:
            shape = (self.rng.choice((1, 2, 64)),)
        dim = r.randrange(len(shape))
        operands, identities, body = getattr(self, f"body_{style}")(shape, dim)
        args = [tile(self.element(v)) for v in operands for _ in range(2)]
        if op is ops.Scan:
            # Bodies of several values are written for pairs; a scan's body gets (accumulated, current) all the same.
            attributes: dict[str, Attribute] = {"reverse": IntegerAttr(r.randrange(2), 1)}
            results = [v.type for v in operands]
        else:
            attributes = {}
            results = [tile(self.element(v), *shape[:dim], *shape[dim + 1:]) for v in operands]
        region = self.kernel.region(args, lambda *a: ops.Yield.make([body(*a)]))
        made = self.add(op.make([operands], [results], {           # type: ignore[attr-defined]
            **attributes, "dim": IntegerAttr(dim, i32), "identities": ArrayAttr(identities)}, [region]))
        for value in made if isinstance(made, tuple) else (made,):
            self.keep(value)

    def identity(self, element: str, number: float) -> Attribute:
        if element.startswith("i"):
            return IntegerAttr(int(number), ELEMENTS[element])            # type: ignore[arg-type]
        return FloatAttr(number, ELEMENTS[element])                       # type: ignore[arg-type]

    def integer_body(self, element: str) -> tuple[float, Callable[[SSAValue, SSAValue], SSAValue]]:
        """(identity, combination of two scalars)."""
        low, high = (0, 1) if element == "i1" else (-(1 << (BITS[element] - 1)), (1 << (BITS[element] - 1)) - 1)
        if element == "i1":
            name, identity = self.rng.choice((("and", 1), ("or", 0), ("xor", 0)))
        else:
            name, identity = self.rng.choice((("add", 0), ("add", 0), ("mul", 1), ("and", -1), ("or", 0), ("xor", 0),
                                              ("max", low), ("min", high), ("umax", 0), ("umin", -1)))
        op, attributes = {
            "add": (ops.AddI, {"overflow": NO_WRAP}), "mul": (ops.MulI, {"overflow": NO_WRAP}), "and": (ops.AndI, {}),
            "or": (ops.OrI, {}), "xor": (ops.XOrI, {}), "max": (ops.MaxI, {"signedness": signed(True)}),
            "min": (ops.MinI, {"signedness": signed(True)}), "umax": (ops.MaxI, {"signedness": signed(False)}),
            "umin": (ops.MinI, {"signedness": signed(False)})}[name]
        return identity, lambda a, b: self.elementwise(op, [a, b], **attributes)

    def body_integer(self, shape: Shape, dim: int) -> Any:
        element = self.rng.choice(INTS)
        identity, combine = self.integer_body(element)
        return [self.pick(element, shape)], [self.identity(element, identity)], lambda a, b: [combine(a, b)]

    def body_several(self, shape: Shape, dim: int) -> Any:
        elements = [self.rng.choice(INTS) for _ in range(self.rng.randint(2, 3))]
        parts = [self.integer_body(e) for e in elements]
        return ([self.pick(e, shape) for e in elements], [self.identity(e, p[0]) for e, p in zip(elements, parts)],
                lambda *a: [p[1](a[2 * i], a[2 * i + 1]) for i, p in enumerate(parts)])

    def body_float(self, shape: Shape, dim: int) -> Any:
        element = self.rng.choice(FLOATS)
        bound = min(4, EXACT[element] // shape[dim])
        if bound and self.rng.random() < 0.6:
            value = self.small(self.pick(element, shape), bound)
            return [value], [self.identity(element, 0.0)], lambda a, b: [
                self.elementwise(ops.AddF, [a, b], rounding_mode=rounding())]
        value = self.elementwise(ops.AddF, [self.pick(element, shape), self.splat(element, 0, shape)],
                                 rounding_mode=rounding())
        largest = self.rng.random() < 0.5
        propagate = UnitAttr() if self.rng.random() < 0.5 else None
        if propagate is None:       # whether the identity wins over rows of NaN is open
            value = self.elementwise(ops.MaxF, [value, self.splat(element, -1000, shape)])
        return [value], [self.identity(element, float("-inf") if largest else float("inf"))], lambda a, b: [
            self.elementwise(ops.MaxF if largest else ops.MinF, [a, b], propagate_nan=propagate)]

    def body_argmax(self, shape: Shape, dim: int) -> Any:
        """The largest key and the least payload that has it."""
        key = self.rng.choice(WIDE_INTS)
        payload = self.rng.choice(WIDE_INTS)
        high = (1 << (BITS[payload] - 1)) - 1
        operands = [self.pick(key, shape), self.pick(payload, shape)]

        def body(a: Any, b: Any, p: Any, q: Any) -> list[SSAValue]:
            def compare(predicate: str, x: Any, y: Any) -> SSAValue:
                return self.elementwise(ops.CmpI, [x, y], "i1", signedness=signed(True),
                                        comparison_predicate=attrs.ComparisonPredicateAttr(predicate))
            tie = self.elementwise(ops.AndI, [compare("equal", a, b), compare("less_than", p, q)])
            first = self.elementwise(ops.OrI, [compare("greater_than", a, b), tie])
            return [self.add(ops.Select.make([first, x, y], [x.type])) for x, y in ((a, b), (p, q))]
        return operands, [self.identity(key, -(1 << (BITS[key] - 1))), self.identity(payload, high)], body

    def body_last(self, shape: Shape, dim: int) -> Any:
        """The current value unless it is 0, else the accumulated one."""
        element = self.rng.choice(WIDE_INTS)

        def body(a: Any, b: Any) -> list[SSAValue]:
            is_zero = self.elementwise(ops.CmpI, [b, self.splat(element, 0, ())], "i1", signedness=signed(True),
                                       comparison_predicate=attrs.ComparisonPredicateAttr("equal"))
            return [self.add(ops.Select.make([is_zero, a, b], [a.type]))]
        return [self.pick(element, shape)], [self.identity(element, 0)], body

    def body_recurrence(self, shape: Shape, dim: int) -> Any:
        """x -> m * x + n, composed: associative, and not commutative."""
        element = self.rng.choice(WIDE_INTS)

        def body(m: Any, m2: Any, n: Any, n2: Any) -> list[SSAValue]:
            product = self.elementwise(ops.MulI, [m, m2], overflow=NO_WRAP)
            moved = self.elementwise(ops.MulI, [n, m2], overflow=NO_WRAP)
            return [product, self.elementwise(ops.AddI, [moved, n2], overflow=NO_WRAP)]
        return ([self.pick(element, shape), self.pick(element, shape)],
                [self.identity(element, 1), self.identity(element, 0)], body)

    def product_shapes(self, least: int = 1) -> tuple[Shape, Shape, Shape]:
        r = self.rng
        while True:
            m, n, k = (r.choice((1, 2, 4, 8, 16, 16, 32, 64, 128)) for _ in range(3))
            batch = (r.choice((1, 2, 4)),) if r.random() < 0.3 else ()
            size = count_of(batch)
            if size * max(m * n, m * k, k * n) <= max(self.most, 64) and size * m * n * k <= 1 << 17:
                return (*batch, m, k), (*batch, k, n), (*batch, m, n)

    def make_mmaf(self) -> None:
        r = self.rng
        element = r.choice(("f16", "f16", "bf16", "tf32", "f32", "f64", "f8E4M3FN", "f8E5M2"))
        out = {"f16": r.choice(("f16", "f32")), "f64": "f64", "f8E4M3FN": r.choice(("f16", "f32")),
               "f8E5M2": r.choice(("f16", "f32"))}.get(element, "f32")
        a, b, c = self.product_shapes()
        lhs, rhs = (self.small(self.pick(element, s), 2) for s in (a, b))
        acc = self.small(self.pick(out, c), 4) if r.random() < 0.7 else self.splat(out, 0, c)
        fast = {"fast_acc": UnitAttr()} if element.startswith("f8") and out == "f32" and r.random() < 0.4 else {}
        self.keep(self.add(ops.MmaF.make([lhs, rhs, acc], [acc.type], fast)))

    def make_mmai(self) -> None:
        a, b, c = self.product_shapes()
        acc = self.pick("i32", c)
        self.keep(self.add(ops.MmaI.make([self.pick("i8", a), self.pick("i8", b), acc], [acc.type], {
            "signedness_lhs": signed(self.rng.random() < 0.5), "signedness_rhs": signed(self.rng.random() < 0.5)})))

    def matrix(self, element: str, tile_shape: Shape, extents: Shape, bound: int) -> Callable[[list[SSAValue]], SSAValue]:
        """A matrix in memory, whose tiles (padded with zeros) the result loads, stored either way round."""
        r = self.rng
        rows, columns = extents
        data = self.numbers.integers(-bound, bound + 1, rows * columns * self.blocks).astype(ARRAYS[element])
        base = self.here(self.parameter(pointer(element), data), element, rows * columns)
        style = r.choice(("plain", "plain", "strides", "dim_map", "permute"))
        shape, strides = (rows, columns), (columns, 1)
        if style == "strides":
            strides = (1, rows)
        elif style != "plain":
            shape, strides = (columns, rows), (rows, 1)
        dynamic = [r.random() < 0.5 for _ in range(2)]
        sizes = [self.parameter(I32, np.int32(n)) for n, d in zip(shape, dynamic) if d]
        kind = types.TensorViewType(ELEMENTS[element], [None if d else n for n, d in zip(shape, dynamic)], strides)
        tensor = self.add(ops.MakeTensorView.make([base, sizes, []], [kind]))
        order = (1, 0) if style == "dim_map" else (0, 1)
        view_tile = tile_shape[::-1] if style == "permute" else tile_shape
        view_type = types.PartitionViewType(view_tile, kind, order, attrs.PaddingValueAttr("zero"))
        view = self.add(ops.MakePartitionView.make([tensor], [view_type]))

        def load(at: list[SSAValue]) -> SSAValue:
            at = at[::-1] if style == "permute" else at
            got = self.add(ops.LoadViewTko.make([view, at, None], [view_type.tile_type, TOKEN],
                                                self.order("load", True)))[0]
            if style != "permute":
                return got
            return self.add(ops.Permute.make([got], [tile(element, *tile_shape)],
                                             {"permutation": DenseArrayBase.from_list(i32, (1, 0))}))
        return load

    def make_product_loop(self) -> None:
        """The loop of a matrix product: tiles of both operands, ragged along k, and an accumulator."""
        r = self.rng
        if len(self.frames) >= 2:
            return
        element = r.choice(("f16", "f16", "bf16", "tf32", "f32", "f64", "f8E4M3FN", "f8E5M2", "i8"))
        out = {"f16": r.choice(("f16", "f32")), "f64": "f64", "i8": "i32"}.get(element, "f32")
        m, n, k = (r.choice((8, 16, 16, 32, 64)) for _ in range(3))
        if m * n * k > 1 << 16:
            n = 16
        trips = r.randint(1, 3)
        depth = k * trips - r.choice((0, 0, r.randrange(k)))
        lhs = self.matrix(element, (m, k), (m, depth), 2)
        rhs = self.matrix(element, (k, n), (depth, n), 2)
        acc = self.splat(out, 0, (m, n))
        zero, one, count = (self.splat("i32", i, ()) for i in (0, 1, trips))

        def body(at: SSAValue, carried: SSAValue) -> Operation:
            a, b = lhs([zero, at]), rhs([at, zero])
            if element in FLOATS and r.random() < 0.3:
                a = self.elementwise(ops.NegF, [a])
            if element == "i8":
                attributes: dict[str, Attribute] = {"signedness_lhs": signed(True), "signedness_rhs": signed(True)}
                return ops.Continue.make([[self.add(ops.MmaI.make([a, b, carried], [acc.type], attributes))]])
            return ops.Continue.make([[self.add(ops.MmaF.make([a, b, carried], [acc.type]))]])
        region = self.kernel.region([I32, acc.type], body)
        self.keep(self.add(ops.For.make([zero, count, one, [acc]], [[acc.type]], {}, [region])))

    def make_scaled_product(self) -> None:
        r = self.rng
        element = r.choice(("f8E4M3FN", "f8E5M2", "f4E2M1FN"))
        m, n, k = r.choice((1, 4, 16, 32)), r.choice((1, 8, 16, 32)), r.choice((32, 64))
        scale = r.choice(("f8E8M0FNU", "f8E4M3FN")) if element == "f4E2M1FN" else "f8E8M0FNU"
        block = 32 if element != "f4E2M1FN" else 16 if scale == "f8E4M3FN" else r.choice((16, 32))
        shapes = {"lhs": (m, k), "rhs": (k, n), "lhs_scale": (m, k // block), "rhs_scale": (k // block, n)}

        def load(what: str) -> SSAValue:
            shape = shapes[what]
            count = count_of(shape)
            if "scale" in what:
                data = 2.0 ** self.numbers.integers(-1, 3, count * self.blocks)
                base = self.here(self.parameter(pointer(scale), data.astype(ARRAYS[scale])), scale, count)
                return self.masked_load(base, scale, shape, None, False)[0]
            if element != "f4E2M1FN":
                data = self.numbers.integers(-4, 5, count * self.blocks).astype(ARRAYS[element])
                base = self.here(self.parameter(pointer(element), data), element, count)
                return self.masked_load(base, element, shape, None, False)[0]
            raw = self.pick("i8", (count // 2,))
            return self.reshape(self.add(ops.Unpack.make([raw], [tile(element, count)])), shape)
        acc = self.small(self.pick("f32", (m, n)), 4)
        self.keep(self.add(ops.MmaFScaled.make([load("lhs"), load("rhs"), acc, load("lhs_scale"), load("rhs_scale")],
                                               [acc.type])))

    # Control flow.

    def region(self, kind: str, arguments: Sequence[Attribute], carried: list[Attribute],
               finish: Callable[..., Operation]) -> Region:
        """A region of random ops; `finish(*arguments)` gives its terminator. The token is the last argument of loops."""
        before = self.token

        def fill(*values: SSAValue) -> Operation:
            self.scopes.append([v for v in values if isinstance(v.type, types.TileType)])
            self.frames.append(Frame(kind, carried))
            if kind != "if" and before is not None:
                self.token = values[-1]
            self.some_ops(self.rng.randint(0, self.limits.ops // (2 * len(self.frames) + 1)))
            end = finish(*values)
            self.frames.pop()
            self.scopes.pop()
            return end
        made = self.kernel.region(arguments, fill)
        self.token = before
        return made

    def leave_values(self, carried: Sequence[Attribute]) -> list[SSAValue]:
        """Values of the carried types; the token that is current."""
        out = []
        for kind in carried:
            if isinstance(kind, types.TokenType):
                assert self.token is not None
                out.append(self.token)
            else:
                assert isinstance(kind, types.TileType)
                out.append(self.pick(NAMES[kind.element_type], kind.shape))
        return out

    def carried(self, with_values: bool) -> tuple[list[Attribute], list[SSAValue]]:
        values = [self.pick(None, self.any_shape()) for _ in range(self.rng.randint(0, 3))] if with_values else []
        if self.token is not None:
            values.append(self.token)
        return [v.type for v in values], values

    def finished(self, made: Any) -> None:
        for value in made if isinstance(made, tuple) else (made,):
            if isinstance(value.type, types.TokenType):
                self.token = value
            else:
                self.keep(value)

    def make_if(self) -> None:
        if len(self.frames) >= self.limits.depth:
            return
        kinds, _ = self.carried(True)
        condition = self.condition()
        regions = [self.region("if", [], kinds, lambda: ops.Yield.make([self.leave_values(kinds)])) for _ in range(2)]
        if not kinds and self.rng.random() < 0.5:
            regions[1] = Region()
        self.finished(self.add(ops.If.make([condition], [kinds], {}, regions)))

    def make_for(self) -> None:
        if len(self.frames) >= self.limits.depth:
            return
        kinds, initial = self.carried(True)
        element = self.rng.choice(("i32", "i32", "i64", "i16"))
        low, trips, step = self.rng.choice((0, 0, 1, -3)), self.scalar(5, element), self.rng.choice((1, 1, 2, 7))
        bounds = [self.splat(element, low, ()), trips, self.splat(element, step, ())]
        if step > 1:
            bounds[1] = self.elementwise(ops.MulI, [trips, bounds[2]], overflow=NO_WRAP)
        region = self.region("for", [tile(element), *kinds], kinds,
                             lambda *_: ops.Continue.make([self.leave_values(kinds)]))
        unsigned = {"unsignedCmp": UnitAttr()} if low >= 0 and self.rng.random() < 0.2 else {}
        self.finished(self.add(ops.For.make([*bounds, initial], [kinds], unsigned, [region])))

    def make_loop(self) -> None:
        """A counter, kept out of what random ops may replace, ends the loop."""
        if len(self.frames) >= self.limits.depth:
            return
        kinds, initial = self.carried(True)
        most = self.splat("i32", self.rng.randint(0, 4), ())
        one = self.splat("i32", 1, ())
        counter = tile("i32")
        made = self.token is not None
        all_kinds = [*kinds[:-1], counter, kinds[-1]] if made else [*kinds, counter]
        place = len(all_kinds) - 2 if made else len(all_kinds) - 1
        start = self.splat("i32", 0, ())
        initial = [*initial[:place], start, *initial[place:]]

        def values() -> list[SSAValue]:
            picked = self.leave_values(kinds)
            return [*picked[:place], self.counters[-1], *picked[place:]]

        before = self.token

        def fill(*arguments: SSAValue) -> Operation:
            self.scopes.append([v for v in arguments if isinstance(v.type, types.TileType)])
            self.frames.append(Frame("loop", kinds))
            if made:
                self.token = arguments[-1]
            # One more for each iteration, however it ends.
            done = self.elementwise(ops.CmpI, [arguments[place], most], "i1", signedness=signed(True),
                                    comparison_predicate=attrs.ComparisonPredicateAttr("greater_than_or_equal"))
            more = self.elementwise(ops.AddI, [arguments[place], one], overflow=NO_WRAP)
            self.counters.append(more)
            self.places.append(place)
            self.unchecked += 1
            if self.rng.random() < 0.5:
                self.some_ops(self.rng.randint(0, 3))
            self.unchecked -= 1
            leave = self.kernel.region([], lambda: self.inner(lambda: ops.Break.make([values()])))
            self.add(ops.If.make([done], [[]], {}, [leave, Region()]))
            self.some_ops(self.rng.randint(0, self.limits.ops // (2 * len(self.frames) + 1)))
            end = ops.Continue.make([values()])
            self.counters.pop()
            self.places.pop()
            self.frames.pop()
            self.scopes.pop()
            return end
        region = self.kernel.region(all_kinds, fill)
        self.token = before
        self.finished(self.add(ops.Loop.make([initial], [all_kinds], {}, [region])))

    unchecked = 0
    """Inside loops, before the check that ends them: to continue there might be for ever."""
    counters: list[SSAValue]
    places: list[int]

    def inner(self, fill: Callable[[], Operation]) -> Operation:
        """Run `fill` in a scope of its own."""
        self.scopes.append([])
        end = fill()
        self.scopes.pop()
        return end

    def make_leave(self) -> None:
        """A branch that breaks, continues or returns."""
        loops = [f for f in self.frames if f.kind != "if"]
        choices = ["return"]
        if loops:
            choices += ["continue"] * 4 + ["break"] * 4 * (loops[-1].kind == "loop")
        if self.unchecked or (not self.frames and self.rng.random() < 0.6):
            return
        kind = self.rng.choice(choices)
        before = self.token

        def end() -> Operation:
            if kind == "return":
                if self.rng.random() < 0.5:
                    self.make_output()
                return ops.Return.make([[]])
            values = self.leave_values(loops[-1].carried)
            if loops[-1].kind == "loop":
                values.insert(self.places[-1], self.counters[-1])
            return (ops.Break if kind == "break" else ops.Continue).make([values])
        condition = self.condition()
        then = self.kernel.region([], lambda: self.inner(end))
        self.token = before
        self.add(ops.If.make([condition], [[]], {}, [then, Region()]))

    # Memory.

    def here(self, base: SSAValue, element: str, count: int) -> SSAValue:
        """The block's own part of an array of `count` elements a block."""
        at = self.elementwise(ops.MulI, [self.block_id, self.splat("i32", count, ())], overflow=NO_WRAP)
        at = self.add(ops.Offset.make([base, at], [pointer(element)]))
        if count * max(BITS.get(element, 8), 8) // 8 % 16 == 0 and self.rng.random() < 0.5:
            at = self.add(ops.Assume.make([at], [at.type], {"predicate": attrs.DivByAttr(16)}))
        return at

    def pointer_tile(self, base: SSAValue, element: str, shape: Shape) -> SSAValue:
        """Pointers to distinct elements of an array as large as the tile, in order, or in another."""
        count = count_of(shape)
        lanes = self.add(ops.Iota.make([], [tile("i32", count)]))
        style = self.rng.randrange(4)
        if style == 0:
            lanes = self.elementwise(ops.XOrI, [lanes, self.splat("i32", self.rng.randrange(count), (count,))])
        elif style == 1:
            lanes = self.elementwise(ops.SubI, [self.splat("i32", count - 1, (count,)), lanes], overflow=NO_WRAP)
        lanes = self.reshape(lanes, shape)
        if style == 2 and len(shape) >= 2 and shape[0] == shape[1]:
            order = [1, 0, *range(2, len(shape))]
            lanes = self.add(ops.Permute.make([lanes], [lanes.type],
                                              {"permutation": DenseArrayBase.from_list(i32, order)}))
        if self.rng.random() < 0.3:
            lanes = self.to_element(lanes, "i64")
        ones = self.add(ops.Reshape.make([base], [pointer(element, *[1] * len(shape))]))
        many = self.add(ops.Broadcast.make([ones], [pointer(element, *shape)]))
        return self.add(ops.Offset.make([many, lanes], [pointer(element, *shape)]))

    def new_input(self, element: str, count: int) -> SSAValue:
        base = self.parameter(pointer(element), self.draw(element, count * self.blocks))
        return self.here(base, element, count)

    def new_scratch(self, element: str, count: int) -> SSAValue:
        return self.new_input(element, count)

    def order(self, access: str = "", view: bool = False) -> dict[str, Any]:
        """How an access ("load", "store", or either) is ordered, and hints for it, which change nothing."""
        r = self.rng
        attributes: dict[str, Any] = {"memory_ordering_semantics": WEAK}
        if access and r.random() < 0.15:
            attributes["memory_ordering_semantics"] = attrs.MemoryOrderingSemanticsAttr(
                r.choice(("relaxed", "acquire" if access == "load" else "release")))
            attributes["memory_scope"] = attrs.MemoryScopeAttr(r.choice(("tl_blk", "device", "sys")))
        if r.random() < 0.15:
            hints: dict[str, Attribute] = {"latency": IntegerAttr(r.randint(1, 10), i32)}
            if view and r.random() < 0.5:
                hints["allow_tma"] = IntegerAttr(r.randrange(2), 1)
            attributes["optimization_hints"] = attrs.OptimizationHintsAttr(
                {r.choice(("default", "sm_80", "sm_90", "sm_100")): DictionaryAttr(hints)})
        return attributes

    def masked_load(self, base: SSAValue, element: str, shape: Shape, token: SSAValue | None,
                    masked: bool = True) -> Any:
        pointers = self.pointer_tile(base, element, shape)
        mask = padding = None
        if masked and self.rng.random() < 0.4:
            mask, padding = self.pick("i1", shape), self.pick(element, shape)
        return self.add(ops.LoadPtrTko.make([pointers, mask, padding, token], [tile(element, *shape), TOKEN],
                                            self.order("load")))

    def make_load(self) -> None:
        element, shape = self.rng.choice(INTS + FLOATS + LOW_FLOATS), self.any_shape()
        self.keep(self.masked_load(self.new_input(element, count_of(shape)), element, shape, None)[0])

    def make_round_trip(self) -> None:
        """A masked store, and a load of the same memory behind it."""
        if self.token is None:
            return
        value = self.pick(None, self.any_shape())
        element, shape = self.element(value), self.shape(value)
        base = self.new_scratch(element, count_of(shape))
        mask = self.pick("i1", shape) if self.rng.random() < 0.4 else None
        self.token = self.add(ops.StorePtrTko.make([self.pointer_tile(base, element, shape), value, mask, self.token],
                                                   [TOKEN], self.order("store")))
        again = self.any_shape() if self.rng.random() < 0.5 else shape
        if count_of(again) > count_of(shape):
            again = shape
        loaded, token = self.masked_load(base, element, again, self.token)
        if self.rng.random() < 0.3:
            other = self.add(ops.MakeToken.make([], [TOKEN]))
            token = self.add(ops.JoinTokens.make([[token, other]], [TOKEN]))
        elif self.rng.random() < 0.1:
            token = self.add(ops.MemoryFenceAliasTko.make([token], [TOKEN]))
        self.token = token
        self.keep(loaded)

    def make_atomic(self) -> None:
        """Atomics on distinct elements, whose old values are used, or on few, whose aren't."""
        if self.token is None:
            return
        r, shape, element = self.rng, self.any_shape(), self.rng.choice(("i32", "i32", "i64", "f32", "f64", "f16"))
        value = self.pick(element, shape)
        mask = None
        count = count_of(shape)
        if element == "f32":        # whose atomic additions flush subnormal numbers
            data = self.numbers.integers(-9, 9, count * self.blocks).astype(np.float32)
            base = self.here(self.parameter(pointer(element), data), element, count)
        else:
            base = self.new_scratch(element, count)
        modes = ("and", "or", "xor", "add", "max", "min", "umax", "umin", "xchg") if element not in FLOATS else ("addf", "xchg")
        mode = r.choice(modes)
        if element in FLOATS:
            value = self.small(value, 9)
            mode = "addf" if element == "f16" else mode
        if r.random() < 0.5 or mode == "xchg" or element in FLOATS:
            pointers, unique = self.pointer_tile(base, element, shape), True
        else:
            slots = self.elementwise(ops.RemI, [self.pick("i32", shape), self.splat("i32", count, shape)],
                                     signedness=signed(False))
            ones = self.add(ops.Reshape.make([base], [pointer(element, *[1] * len(shape))]))
            many = self.add(ops.Broadcast.make([ones], [pointer(element, *shape)]))
            pointers, unique = self.add(ops.Offset.make([many, slots], [many.type])), False
            mask = self.pick("i1", shape) if r.random() < 0.5 else None
        if unique and element not in FLOATS and r.random() < 0.3:
            old, token = self.add(ops.AtomicCASTko.make([pointers, self.pick(element, shape), value, None, self.token],
                                                        [value.type, TOKEN], RELAXED))
        else:
            old, token = self.add(ops.AtomicRMWTko.make(
                [pointers, value, mask, self.token], [value.type, TOKEN],
                {**RELAXED, "mode": attrs.AtomicRMWModeAttr(mode)}))
        if unique:
            self.keep(old)
        loaded, self.token = self.masked_load(base, element, shape, token)
        self.keep(loaded)

    def tensor(self, element: str, scratch: bool, tile_shape: Shape) -> tuple[SSAValue, types.TensorViewType, Shape]:
        """A tensor view with ragged extents over an array of its own; strides in any order of dimensions."""
        r = self.rng
        rank = len(tile_shape)
        shape = [max(1, r.choice((t, t, 2 * t, t + r.randint(1, t), 3 * t, t - r.randrange(t)))) for t in tile_shape]
        order = list(range(rank))
        if r.random() < 0.3:
            r.shuffle(order)
        strides, step = [0] * rank, 1
        for d in reversed(order):
            strides[d] = step
            step *= shape[d] + (r.choice((0, 0, 0, 1, 4)) if rank > 1 else 0)
        if r.random() < 0.15:
            strides, step = [s * 2 for s in strides], step * 2
        count = -(-step // 16) * 16
        base = self.new_input(element, count)
        dynamic_shape = [r.random() < 0.4 for _ in range(rank)]
        dynamic_strides = [r.random() < 0.3 for _ in range(rank)]
        index = r.choice(("i32", "i64"))

        def number(value: int) -> SSAValue:
            out = self.parameter(tile(index), ARRAYS[index](value))
            low = value & -value
            if r.random() < 0.4:
                out = self.add(ops.Assume.make([out], [out.type], {"predicate": attrs.DivByAttr(low)}))
            if r.random() < 0.4:
                out = self.add(ops.Assume.make([out], [out.type], {
                    "predicate": attrs.BoundedAttr(0, r.choice((None, value, 4096)) if value < 4096 else None)}))
            return out
        kind = types.TensorViewType(ELEMENTS[element], [None if d else n for n, d in zip(shape, dynamic_shape)],
                                    [None if d else n for n, d in zip(strides, dynamic_strides)])
        sizes = [number(n) for n, d in zip(shape, dynamic_shape) if d]
        steps = [number(n) for n, d in zip(strides, dynamic_strides) if d]
        return self.add(ops.MakeTensorView.make([base, sizes, steps], [kind])), kind, tuple(shape)

    def view(self, element: str, tile_shape: Shape, scratch: bool) -> tuple[SSAValue, list[SSAValue]]:
        """A tile view whose padding is given, and an index into it."""
        r = self.rng
        rank = len(tile_shape)
        order = r.sample(range(rank), rank) if r.random() < 0.3 else list(range(rank))
        in_tensor = [1] * rank
        for t, d in enumerate(order):
            in_tensor[d] = tile_shape[t]
        padding = attrs.PaddingValueAttr(r.choice(("zero", "zero", "neg_inf", "nan", "pos_inf", "neg_zero"))
                                         if element in FLOATS else "zero")
        style = r.choice(("partition", "partition", "partition", "strided", "gather"))
        if style == "gather":
            order, in_tensor = list(range(rank)), list(tile_shape)
        made, kind, extents = self.tensor(element, scratch, tuple(in_tensor))
        if style == "partition":
            view = types.PartitionViewType(tile_shape, kind, order, padding)
            at = [self.scalar(-(-extents[d] // n)) for d, n in zip(order, tile_shape)]
            return self.add(ops.MakePartitionView.make([made], [view])), at
        if style == "strided":
            steps = [r.choice((n, 1, max(1, n // 2), n + 1, 3)) for n in tile_shape]
            view = types.StridedViewType(tile_shape, steps, kind, order, padding)
            at = [self.scalar(-(-extents[d] // s)) for d, s in zip(order, steps)]
            return self.add(ops.MakeStridedView.make([made], [view])), at
        sparse = r.randrange(rank)
        view = types.GatherScatterViewType(tile_shape, kind, sparse, padding)
        at = []
        for t, n in enumerate(tile_shape):
            if t != sparse:
                at.append(self.scalar(extents[t]))
            elif scratch:
                at.append(self.distinct(n, extents[t]))
            else:
                bound = self.splat("i32", extents[t], (n,))
                at.append(self.elementwise(ops.RemI, [self.pick("i32", (n,)), bound], signedness=signed(False)))
        return self.add(ops.MakeGatherScatterView.make([made], [view])), at

    def distinct(self, count: int, extent: int) -> SSAValue:
        lanes = self.add(ops.Iota.make([], [tile("i32", count)]))
        if self.rng.random() < 0.5:
            return lanes
        return self.elementwise(ops.SubI, [self.splat("i32", count - 1, (count,)), lanes], overflow=NO_WRAP)

    def view_shape(self) -> Shape:
        shape = self.any_shape()
        return shape or (1,)

    def make_view_load(self) -> None:
        element = self.rng.choice(INTS + FLOATS + LOW_FLOATS)
        view, at = self.view(element, self.view_shape(), False)
        self.keep(self.add(ops.LoadViewTko.make([view, at, None], [view.type.tile_type, TOKEN],   # type: ignore[attr-defined]
                                                self.order("load", True)))[0])

    def make_view_round_trip(self) -> None:
        if self.token is None:
            return
        value = self.pick(None, self.view_shape())
        view, at = self.view(self.element(value), self.shape(value), True)
        self.token = self.add(ops.StoreViewTko.make([value, view, at, self.token], [TOKEN], self.order("store", True)))
        loaded, self.token = self.add(ops.LoadViewTko.make([view, at, self.token], [value.type, TOKEN],
                                                           self.order("load", True)))
        self.keep(loaded)

    def make_pointer_loop(self) -> None:
        """Pointers carried by a loop that steps through an array; the last step is masked."""
        r, element = self.rng, self.rng.choice(WIDE_INTS)
        count, trips = 1 << r.randrange(0, 9), r.randint(1, 4)
        length = count * trips - r.choice((0, r.randrange(count)))
        base = self.new_input(element, length)
        lanes = self.add(ops.Iota.make([], [tile("i32", count)]))
        ones = self.add(ops.Reshape.make([base], [pointer(element, 1)]))
        many = self.add(ops.Broadcast.make([ones], [pointer(element, count)]))
        start = self.add(ops.Offset.make([many, lanes], [many.type]))
        step, total = self.splat("i32", count, (count,)), self.splat("i32", length, (count,))
        acc, padding = self.splat(element, 0, (count,)), self.splat(element, 3, (count,))
        zero, one, limit = (self.splat("i32", i, ()) for i in (0, 1, trips))
        kinds = [many.type, lanes.type, acc.type]

        def body(_: SSAValue, pointers: SSAValue, at: SSAValue, value: SSAValue) -> Operation:
            mask = self.elementwise(ops.CmpI, [at, total], "i1", signedness=signed(True),
                                    comparison_predicate=attrs.ComparisonPredicateAttr("less_than"))
            got = self.add(ops.LoadPtrTko.make([pointers, mask, padding, None], [acc.type, TOKEN], self.order()))[0]
            value = self.elementwise(ops.MulI, [value, padding], overflow=NO_WRAP)
            return ops.Continue.make([[self.add(ops.Offset.make([pointers, step], [pointers.type])),
                                       self.elementwise(ops.AddI, [at, step], overflow=NO_WRAP),
                                       self.elementwise(ops.AddI, [value, got], overflow=NO_WRAP)]])
        region = self.kernel.region([I32, *kinds], body)
        made = self.add(ops.For.make([zero, limit, one, [start, lanes, acc]], [kinds], {}, [region]))
        self.keep(made[1])
        self.keep(made[2])

    def make_global(self) -> None:
        r, element = self.rng, self.rng.choice(WIDE_INTS + FLOATS)
        count = 1 << r.randrange(0, 7)
        name = f"table{len(self.globals)}"
        self.globals.append(ops.Global.make([], [], {
            "sym_name": StringAttr(name), "value": dense(element, self.draw(element, count)),
            "alignment": IntegerAttr(r.choice((8, 16, 64)), i64)}))
        base = self.add(ops.GetGlobal.make([], [pointer(element)], {"name": SymbolRefAttr(name)}))
        self.keep(self.masked_load(base, element, (count,), None)[0])

    def make_view_atomic(self) -> None:
        if self.token is None:
            return
        r, element, shape = self.rng, self.rng.choice(("i32", "i64")), self.view_shape()
        made, kind, extents = self.tensor(element, True, shape)
        view_type = types.PartitionViewType(shape, kind)
        view = self.add(ops.MakePartitionView.make([made], [view_type]))
        at = [self.scalar(-(-e // n)) for e, n in zip(extents, shape)]
        mode = attrs.AtomicRMWModeAttr(r.choice(("and", "or", "xor", "add", "max", "min", "umax", "umin")))
        token = self.add(ops.AtomicRedViewTko.make([view, at, self.pick(element, shape), self.token], [TOKEN],
                                                   {**RELAXED, "mode": mode}))
        padded_type = types.PartitionViewType(shape, kind, None, attrs.PaddingValueAttr("zero"))
        padded = self.add(ops.MakePartitionView.make([made], [padded_type]))
        loaded, self.token = self.add(ops.LoadViewTko.make([padded, at, token], [tile(element, *shape), TOKEN],
                                                           self.order()))
        self.keep(loaded)

    def make_address(self) -> None:
        """Addresses as integers and back, and pointers to another type."""
        element, shape = self.rng.choice(("i32", "f32")), self.any_shape()
        base = self.new_input("i64", max(count_of(shape) // 2, 1))
        if self.rng.random() < 0.5:
            number = self.add(ops.PtrToInt.make([base], [tile("i64")]))
            base = self.add(ops.IntToPtr.make([number], [pointer("i64")]))
        base = self.add(ops.PtrToPtr.make([base], [pointer("i32")]))
        value = self.masked_load(base, "i32", shape, None)[0]
        self.keep(self.to_element(value, element))

    def make_assert(self) -> None:
        value = self.pick(WIDE_INTS, self.any_shape())
        self.add(ops.Assert.make([self.elementwise(ops.CmpI, [value, value], "i1", signedness=signed(True),
                                                   comparison_predicate=attrs.ComparisonPredicateAttr("equal"))], [],
                                 {"message": StringAttr("equal")}))

    def make_low_cast(self) -> None:
        """Through a format that only casts know."""
        value = self.small(self.pick("f32", self.any_shape()), 9)
        if self.rng.random() < 0.5 or count_of(self.shape(value)) < 2:
            scale = self.elementwise(ops.FToF, [self.elementwise(ops.AbsF, [value])], "f8E8M0FNU",
                                     rounding_mode=rounding(self.rng.choice(("zero", "positive_inf"))))
            self.keep(self.elementwise(ops.FToF, [scale], "f32", rounding_mode=rounding()))
            return
        count = count_of(self.shape(value))
        narrow = self.elementwise(ops.FToF, [self.reshape(value, (count,))], "f4E2M1FN", rounding_mode=rounding())
        self.keep(self.add(ops.Pack.make([narrow], [tile("i8", count // 2)])))
        self.keep(self.elementwise(ops.FToF, [narrow], "f16", rounding_mode=rounding()))

    def make_saturating(self) -> None:
        """Any float to an integer: beyond the range the nearest end, NaN zero."""
        value = self.pick(FLOATS, self.any_shape())
        self.keep(self.elementwise(ops.FToI, [value], self.rng.choice(WIDE_INTS), signedness=signed(self.rng.random() < 0.5),
                                   rounding_mode=rounding("nearest_int_to_zero"), saturating=UnitAttr()))

    def make_low_round_trip(self) -> None:
        """Floats of any size through a short format, rounded as it may be."""
        r = self.rng
        value = self.pick(FLOATS, self.any_shape())
        target = r.choice(("f8E4M3FN", "f8E5M2", "tf32", "f16", "bf16"))
        if self.element(value) == target:
            return
        directed = target in FLOATS or (target == "tf32" and self.element(value) == "f32")
        mode = "zero" if directed and r.random() < 0.4 else "nearest_even"
        self.keep(self.elementwise(ops.FToF, [value], target, rounding_mode=rounding(mode)))

    FUNCTIONS: dict[str, tuple[Any, float]] = {
        "exp": (ops.Exp, 6), "exp2": (ops.Exp2, 9), "log": (ops.Log, 0), "log2": (ops.Log2, 0), "rsqrt": (ops.Rsqrt, 0),
        "sin": (ops.Sin, 50), "cos": (ops.Cos, 50), "sinh": (ops.SinH, 4), "cosh": (ops.CosH, 4), "tanh": (ops.TanH, 4),
        "tan": (ops.Tan, 1), "atan2": (ops.Atan2, 9), "pow": (ops.Pow, 3)}
    """The largest operand, an integer; 0: positive ones only."""

    def make_function(self) -> None:
        """A function of small integers, a quarter of them, into an output with a tolerance."""
        r, shape = self.rng, self.any_shape()
        if self.frames and self.token is None:
            return
        element, name = r.choice(FLOATS + ("f32",)), r.choice(list(self.FUNCTIONS))
        op, bound = self.FUNCTIONS[name]
        x = self.small(self.pick(element, shape), bound or 50)
        if not bound or name == "pow":
            x = self.elementwise(ops.AddF, [self.elementwise(ops.AbsF, [x]), self.splat(element, 1, shape)],
                                 rounding_mode=rounding())
        if name not in ("tan", "pow"):
            x = self.elementwise(ops.MulF, [x, self.splat(element, 0.25, shape)], rounding_mode=rounding())
        tolerance = {"f16": 2.0 ** -9, "bf16": 2.0 ** -6, "f32": 2.0 ** -19, "f64": 2.0 ** -47}[element]
        attributes: dict[str, Any] = {}
        operands = [x]
        if name == "pow" and r.random() < 0.4:
            op = ops.FPowI
            exponent = self.pick(WIDE_INTS[:3], shape)
            seven = self.splat(self.element(exponent), 7, shape)
            three = self.splat(self.element(exponent), 3, shape)
            exponent = self.elementwise(ops.RemI, [exponent, seven], signedness=signed(False))
            operands.append(self.elementwise(ops.SubI, [exponent, three], overflow=NO_WRAP))
        elif name in ("atan2", "pow"):
            operands.append(self.small(self.pick(element, shape), 3))
        elif name in ("exp", "tanh"):
            approximate = element == "f32" and r.random() < 0.4
            attributes["rounding_mode"] = rounding("approx" if approximate else "full")
            tolerance = 2.0 ** -9 if approximate and name == "tanh" else 2.0 ** -16 if approximate else tolerance
        elif name in ("exp2", "rsqrt") and element == "f32" and r.random() < 0.3:
            attributes["flush_to_zero"] = UnitAttr()
        place = len(self.parameters)
        self.make_output(self.elementwise(op, operands, **attributes))
        assert len(self.parameters) == place + 1
        self.loose[place] = tolerance

    def make_exact_function(self) -> None:
        """exp2 of integers, and rsqrt of powers of four."""
        element, shape = self.rng.choice(("f32", "f64", "f16")), self.any_shape()
        power = self.elementwise(ops.Exp2, [self.small(self.pick(element, shape), 3)])
        if element == "f64":        # whose exp2 and rsqrt may err
            power = self.elementwise(ops.Floor, [self.elementwise(ops.AddF, [power, self.splat(element, 0.5, shape)],
                                                                  rounding_mode=rounding())])
        elif self.rng.random() < 0.5:
            square = self.elementwise(ops.MulF, [power, power], rounding_mode=rounding())
            power = self.elementwise(ops.Rsqrt, [square])
        self.keep(power)

    def common(self, element: str, count: int) -> SSAValue:
        """Memory that all blocks share."""
        values = self.numbers.integers(0, 9, count).astype(ARRAYS[element])
        return self.parameter(pointer(element), values)

    def make_meeting(self) -> None:
        """Atomics of all blocks on the same elements, whose old values nobody looks at; one mode an array."""
        r, shape = self.rng, self.any_shape()
        if self.token is None:
            return
        element = r.choice(("i32", "i32", "i64", "f32", "f64", "f16"))
        count = r.choice((1, 4, 64))
        mode = "addf" if element in FLOATS else r.choice(("and", "or", "xor", "add", "max", "min", "umax", "umin"))
        value = self.pick(element, shape)
        if element in FLOATS:
            value = self.small(value, 1)
            if count_of(shape) * self.blocks * 5 > EXACT[element]:
                return
        slots = self.elementwise(ops.RemI, [self.pick("i32", shape), self.splat("i32", count, shape)],
                                 signedness=signed(False))
        base = self.common(element, count)
        ones = self.add(ops.Reshape.make([base], [pointer(element, *[1] * len(shape))]))
        many = self.add(ops.Broadcast.make([ones], [pointer(element, *shape)]))
        pointers = self.add(ops.Offset.make([many, slots], [many.type]))
        mask = self.pick("i1", shape) if r.random() < 0.4 else None
        order = {"memory_ordering_semantics": attrs.MemoryOrderingSemanticsAttr(r.choice(("relaxed", "acq_rel", "release"))),
                 "memory_scope": attrs.MemoryScopeAttr(r.choice(("device", "sys")))}
        self.token = self.add(ops.AtomicRMWTko.make([pointers, value, mask, self.token], [value.type, TOKEN],
                                                    {**order, "mode": attrs.AtomicRMWModeAttr(mode)}))[1]

    def make_view_meeting(self) -> None:
        """The same through a view that all blocks have."""
        if self.token is None:
            return
        r, element, shape = self.rng, self.rng.choice(("i32", "i64")), self.view_shape()
        extents = [max(1, n - r.choice((0, 0, n // 3))) for n in shape]
        strides = [count_of(extents[i + 1:]) for i in range(len(extents))]
        kind = types.TensorViewType(ELEMENTS[element], extents, strides)
        tensor = self.add(ops.MakeTensorView.make([self.common(element, count_of(extents)), [], []], [kind]))
        view = self.add(ops.MakePartitionView.make([tensor], [types.PartitionViewType(shape, kind)]))
        zeros = [self.splat("i32", 0, ()) for _ in shape]
        mode = attrs.AtomicRMWModeAttr(r.choice(("and", "or", "xor", "add", "max", "min", "umax", "umin")))
        self.token = self.add(ops.AtomicRedViewTko.make([view, zeros, self.pick(element, shape), self.token], [TOKEN],
                                                        {**RELAXED, "mode": mode}))

    def make_alloca(self) -> None:
        """Memory of the block's own, written and read."""
        if self.token is None or self.frames:
            return
        value = self.pick(WIDE_INTS + FLOATS, self.any_shape())
        element, shape = self.element(value), self.shape(value)
        if count_of(shape) > 256:
            return
        base = self.add(ops.Alloca.make([], [pointer(element)], {
            "num_elem": IntegerAttr(count_of(shape), i64), "alignment": IntegerAttr(self.rng.choice((8, 16)), i64)}))
        self.token = self.add(ops.StorePtrTko.make([self.pointer_tile(base, element, shape), value, None, self.token],
                                                   [TOKEN], self.order()))
        loaded, self.token = self.masked_load(base, element, shape, self.token)
        self.keep(loaded)

    def make_shape_query(self) -> None:
        """A tensor's extents, and how many tiles it has."""
        shape = self.view_shape()
        made, kind, extents = self.tensor(self.rng.choice(WIDE_INTS), False, shape)
        index = self.rng.choice(("i32", "i64"))
        found = self.add(ops.GetTensorShape.make([made], [[tile(index)] * len(extents)]))
        view = self.add(ops.MakePartitionView.make([made], [types.PartitionViewType(shape, kind)]))
        tiles = self.add(ops.GetIndexSpaceShape.make([view], [[tile(index)] * len(extents)]))
        for value in (found, tiles):
            for one in value if isinstance(value, tuple) else (value,):
                self.keep(one)

    def make_assume(self) -> None:
        """What holds by the way the value was made."""
        r, shape = self.rng, self.any_shape()
        element = r.choice(("i32", "i64"))
        value, factor = self.pick(element, shape), 1 << r.randint(0, 5)
        style = r.randrange(3)
        if style == 0:
            value = self.elementwise(ops.MulI, [value, self.splat(element, factor, shape)], overflow=NO_WRAP)
            predicate: Attribute = attrs.DivByAttr(factor)
        elif style == 1:
            value = self.elementwise(ops.AndI, [value, self.splat(element, 63, shape)])
            predicate = attrs.BoundedAttr(0, r.choice((63, 64, None)))
        else:
            value = self.to_shape(self.pick(element, ()), shape)
            predicate = attrs.SameElementsAttr(shape)
        self.keep(self.add(ops.Assume.make([value], [value.type], {"predicate": predicate})))

    def make_output(self, value: SSAValue | None = None) -> None:
        value = self.pick(None, None if self.rng.random() < 0.5 else self.any_shape()) if value is None else value
        if self.frames and self.token is None:
            return
        element, shape = self.element(value), self.shape(value)
        count = count_of(shape)
        array = np.zeros(count * self.blocks, ARRAYS[element])
        base = self.here(self.parameter(pointer(element), array), element, count)
        token = self.token if self.frames or self.rng.random() < 0.5 else None
        if shape and self.rng.random() < 0.5:
            strides = [count_of(shape[i + 1:]) for i in range(len(shape))]
            kind = types.TensorViewType(ELEMENTS[element], shape, strides)
            tensor = self.add(ops.MakeTensorView.make([base, [], []], [kind]))
            view = self.add(ops.MakePartitionView.make([tensor], [types.PartitionViewType(shape, kind)]))
            zeros = [self.splat("i32", 0, ())] * len(shape)
            order = self.order("store", True)
            if self.rng.random() < 0.3:
                order["inbounds"] = DenseArrayBase.from_list(i1, [True] * len(shape))
            made = self.add(ops.StoreViewTko.make([value, view, zeros, token], [TOKEN], order))
        else:
            made = self.add(ops.StorePtrTko.make([self.pointer_tile(base, element, shape), value, None, token], [TOKEN],
                                                 self.order("store")))
        if token is not None:
            self.token = made

    # The program.

    def some_ops(self, count: int) -> None:
        weights = [w for w, _ in self.makers]
        for _ in range(count):
            self.rng.choices(self.makers, weights)[0][1]()

    def program(self, seed: int) -> Program:
        self.counters, self.places = [], []
        ids = self.add(ops.GetTileBlockId.make([], [tile("i32")] * 3))
        counts = self.add(ops.GetNumTileBlocks.make([], [tile("i32")] * 3))
        row = self.elementwise(ops.MulI, [ids[2], counts[1]], overflow=NO_WRAP)
        row = self.elementwise(ops.AddI, [row, ids[1]], overflow=NO_WRAP)
        row = self.elementwise(ops.MulI, [row, counts[0]], overflow=NO_WRAP)
        self.block_id = self.elementwise(ops.AddI, [row, ids[0]], overflow=NO_WRAP)
        self.keep(self.block_id)
        self.keep(self.parameter(tile("i32"), np.int32(self.rng.randint(0, 99))))
        self.keep(self.parameter(tile("f32"), np.float32(self.rng.randint(-9, 9))))
        if self.rng.random() < 0.8:
            self.token = self.add(ops.MakeToken.make([], [TOKEN]))
        for _ in range(self.rng.randint(1, 4)):
            self.rng.choice((self.make_load, self.make_view_load))()
        self.some_ops(self.rng.randint(2, self.limits.ops))
        unused = [v for v in self.scopes[0] if not v.uses]
        for value in unused[-6:] or self.scopes[0][-1:]:
            self.make_output(value)
        module = self.kernel.module(self.globals)
        assert isinstance(module, ops.Module)
        if self.rng.random() < 0.3:
            hints: dict[str, Attribute] = {"occupancy": IntegerAttr(self.rng.choice((1, 2)), i32)}
            if self.rng.random() < 0.7:
                hints["num_worker_warps_per_cta"] = IntegerAttr(self.rng.choice((1, 2, 4, 8)), i32)
            entry = next(op for op in module.walk() if isinstance(op, ops.Entry))
            entry.properties["optimization_hints"] = attrs.OptimizationHintsAttr(
                {key: DictionaryAttr(hints) for key in self.rng.sample(("sm_80", "sm_90", "sm_120"), self.rng.randint(1, 3))})
        return Program(seed, module, self.grid, self.parameters, self.loose)


def generate(seed: int, limits: Limits | None = None) -> Program:
    """The program of a seed; the same in every process and on every platform."""
    return Generator(seed, limits or Limits()).program(seed)
