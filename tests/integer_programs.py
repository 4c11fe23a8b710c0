"""Random integer programs in nv_tileaa, and their values by plain Python arithmetic: an oracle for analyses and folds.

`Program(seed)` builds a function of i32, i64, i8 and i1 scalars and tiles, pointers included; `evaluate` runs it on
given arguments. Elements are Python integers wrapped to their width (signed; i1 is 0 or 1), pointers are addresses.
"""
from __future__ import annotations

import random
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerAttr, IntegerType, NoneAttr, StringAttr, TensorType
from xdsl.ir import Block, Region, SSAValue

from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa

I1, I8, I32, I64 = IntegerType(1), IntegerType(8), IntegerType(32), IntegerType(64)
BINARY = (arith.Addi, arith.Addi, arith.Subi, arith.Muli, arith.Divsi, arith.Divui, arith.FloorDivsi, arith.CeilDivsi,
          arith.CeilDivui, arith.Remsi, arith.Remui, arith.Andi, arith.Ori, arith.Xori, arith.Shli, arith.Shrsi,
          arith.Shrui, arith.Maxsi, arith.Maxui, arith.Minsi, arith.Minui, arith.Mulhiui)
F32_PTR = aa.PtrType(I32)      # four bytes a pointee


def wrap(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if width > 1 and value >> (width - 1) else value


def width(t) -> int:
    t = t.element_type if isinstance(t, TensorType) else t
    return t.width.data if isinstance(t, IntegerType) else 64


def shape(t) -> tuple[int, ...]:
    return t.get_shape() if isinstance(t, TensorType) else ()


def tile(element, dims):
    return TensorType(element, dims) if dims else element


def truncated(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


class Undefined(Exception):
    """The program does what the language leaves undefined."""


def scalar_op(op, args):
    """One element of an element-wise op."""
    name = op.name.split(".")[1]
    w = width(op.operands[0].type)
    mask = (1 << w) - 1
    a = args[0]
    b = args[1] if len(args) > 1 else 0
    ua, ub = a & mask, b & mask
    if name in ("divsi", "divui", "floordivsi", "ceildivsi", "ceildivui", "remsi", "remui"):
        if ub == 0 or (name.endswith("si") and b == -1):
            raise Undefined
    if name in ("shli", "shrsi", "shrui") and ub >= w:
        raise Undefined
    if name == "cmpi":
        predicate = op.properties["predicate"].data
        if predicate[0] == "u":
            a, b = ua, ub
        elif predicate not in ("eq", "ne") and w == 1:
            a, b = -a, -b
        word = predicate if predicate in ("eq", "ne") else predicate[1:]
        return int({"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[word])
    if name == "select":
        return args[1] if args[0] else args[2]
    if name == "addptr":
        return a + 4 * b
    result = {
        "addi": lambda: a + b, "subi": lambda: a - b, "muli": lambda: a * b, "divsi": lambda: truncated(a, b),
        "divui": lambda: ua // ub, "floordivsi": lambda: a // b, "ceildivsi": lambda: -(-a // b),
        "ceildivui": lambda: -(-ua // ub), "remsi": lambda: a - b * truncated(a, b), "remui": lambda: ua % ub,
        "andi": lambda: a & b, "ori": lambda: a | b, "xori": lambda: a ^ b, "shli": lambda: a << ub,
        "shrsi": lambda: (-a if w == 1 else a) >> ub, "shrui": lambda: ua >> ub, "maxsi": lambda: max(a, b),
        "minsi": lambda: min(a, b), "maxui": lambda: max(ua, ub), "minui": lambda: min(ua, ub), "negi": lambda: -a,
        "absi": lambda: abs(a), "extsi": lambda: -a if w == 1 else a, "extui": lambda: ua, "trunci": lambda: a,
        "mulhiui": lambda: ua * ub >> w,
    }[name]()
    return wrap(result, width(op.results[0].type))


def apply(op, values):
    """The NumPy object array of a one-result op."""
    name = op.name.split(".")[1]
    t = op.results[0].type
    dims = shape(t)
    if name == "constant":
        attr = op.properties["value"]
        return np.full(dims, wrap(attr.value.data, width(t)), dtype=object)
    if name == "make_range":
        return np.array([wrap(i, width(t)) for i in range(dims[0])], dtype=object)
    source = values[0]
    if name == "splat":
        return np.full(dims, source[()], dtype=object)
    if name == "view":
        return source.reshape(dims)
    if name == "broadcast":
        return np.broadcast_to(source, dims)
    if name == "permute":
        return source.transpose([p.data for p in op.properties["permutation"].data])
    if name == "assume":
        return source
    if name == "select" and values[0].shape != dims:
        values = [np.broadcast_to(values[0], dims), *values[1:]]
    out = np.empty(dims, dtype=object)
    for i in np.ndindex(*dims):
        out[i] = scalar_op(op, [v[i] for v in values])
    return out


def evaluate(func, arguments, seen=None):
    """Run a function; returns {value: [arrays it had]} of every value, and what its `nv_tileaa.print` op printed."""
    env, printed = {}, []
    seen = {} if seen is None else seen

    def bind(value, array):
        env[value] = array
        seen.setdefault(value, []).append(array)

    def run(block):
        for op in block.ops:
            args = [env[v] for v in op.operands]
            if op.name == "scf.for":
                lower, upper, step = (int(a[()]) for a in args[:3])
                carried = args[3:]
                body = op.regions[0].block
                for i in range(lower, upper, step):
                    for arg, value in zip(body.args, [np.array(i, dtype=object), *carried]):
                        bind(arg, value)
                    carried = run(body)
                for result, value in zip(op.results, carried):
                    bind(result, value)
            elif op.name == "scf.if":
                taken = op.regions[0 if args[0][()] else 1]
                for result, value in zip(op.results, run(taken.block)):
                    bind(result, value)
            elif op.name == "scf.yield":
                return args
            elif op.name == "nv_tileaa.print":
                printed.append([a.tolist() for a in args])
            elif op.name != "nv_tileaa.return":
                bind(op.results[0], apply(op, args))
        return []

    body = func.regions[0].block
    for arg, value in zip(body.args, arguments):
        bind(arg, np.array(value, dtype=object))
    run(body)
    return seen, printed


class Program:
    """A random function over three i32 and one pointer argument; prints some of its values at the end."""

    def __init__(self, seed: int, length: int = 30) -> None:
        self.rng = random.Random(seed)
        self.block = Block(arg_types=[I32, I32, I64, F32_PTR])
        self.func = aa.Func.make((), (), {"sym_name": StringAttr("f")}, [Region(self.block)])
        self.values: list[SSAValue] = list(self.block.args)
        self.divisors = [self.rng.choice((1, 4, 16)) for _ in range(4)]
        self.least = self.rng.choice((None, 0))
        for i, arg in enumerate(self.block.args):
            values = [IntAttr(self.divisors[i]), IntAttr(-1), IntAttr(-1)]
            fact = aa.AssumeAttr(StringAttr("div_by"), ArrayAttr(values))
            known = self.emit(aa.Assume, [arg], arg.type, {"fact": fact})
            if i < 2 and self.least is not None:
                bound = aa.AssumeAttr(StringAttr("bounded"), ArrayAttr([IntAttr(self.least), NoneAttr()]))
                self.emit(aa.Assume, [known], arg.type, {"fact": bound})
        self.grow(length, depth=0)
        printed = list(self.values[-8:])
        self.block.add_op(aa.Print.make([printed, None], [None], {"format": StringAttr("%d" * len(printed))}))
        self.block.add_op(aa.Return.make())

    def arguments(self, rng: random.Random) -> list[int]:
        out = []
        for i, t in enumerate(a.type for a in self.func.regions[0].block.args):
            high = rng.choice((64, 1 << 12, (1 << 31) - 1)) if i < 3 else 1 << 20
            low = 0 if i == 3 or self.least == 0 else -high
            value = rng.randint(low, high) // self.divisors[i] * self.divisors[i]
            out.append(wrap(value, width(t)))
        return out

    def emit(self, cls, operands, t, attrs=None):
        op = cls.create(operands=operands, result_types=[t], properties=attrs or {})
        self.block.add_op(op)
        self.values.append(op.results[0])
        return op.results[0]

    def pick(self, test) -> Any:
        found = [v for v in self.values if test(v.type)]
        return self.rng.choice(found[-12:]) if found else None

    def constant(self, t):
        element = t.element_type if isinstance(t, TensorType) else t
        w = width(t)
        value = self.rng.choice((0, 1, 2, 3, 4, 8, 16, 31, 64, -1, -8, 5, 127, self.rng.randint(-99, 99)))
        return self.emit(arith.Constant, [], t, {"value": IntegerAttr(wrap(value, w), element)})

    def grow(self, length: int, depth: int) -> None:
        for _ in range(length):
            self.step(depth)

    def step(self, depth: int) -> None:
        rng = self.rng
        kind = rng.choice(("binary",) * 10 + ("constant", "range", "splat", "view", "broadcast", "permute", "cmp",
                                              "select", "width", "unary", "addptr", "for", "if"))
        integer = lambda t: width(t) in (8, 32, 64) and not _is_ptr(t)  # noqa: E731
        if kind == "binary":
            a = self.pick(integer)
            same = lambda t: t == a.type  # noqa: E731
            b = self.constant(a.type) if rng.random() < 0.6 else self.pick(same)
            cls = rng.choice(BINARY)
            if cls.name.split(".")[1][:3] in ("div", "rem", "flo", "cei") or cls.name.split(".")[1].startswith("sh"):
                element = a.type.element_type if isinstance(a.type, TensorType) else a.type
                limit = (1, 2, 3, 5, 7) if "sh" in cls.name else (1, 2, 3, 4, 8, 16, 10, 64)
                b = self.emit(arith.Constant, [], a.type, {"value": IntegerAttr(rng.choice(limit), element)})
            if rng.random() < 0.1:
                a, b = (b, a) if "div" not in cls.name and "rem" not in cls.name and "sh" not in cls.name else (a, b)
            self.emit(cls, [a, b], a.type)
        elif kind == "constant":
            self.constant(self.pick(integer).type)
        elif kind == "range":
            self.emit(aa.MakeRange, [], TensorType(rng.choice((I32, I32, I64, I8)), [rng.choice((4, 8, 16))]))
        elif kind == "splat":
            a = self.pick(lambda t: not shape(t))
            self.emit(aa.Splat, [a], TensorType(a.type, rng.choice(([8], [1, 8], [4, 1], [4, 8]))))
        elif kind == "view":
            a = self.pick(lambda t: bool(shape(t)))
            if a is not None:
                n = int(np.prod(shape(a.type)))
                choices = ((n,), (1, n), (n, 1), (2, n // 2), (n // 4, 4))
                dims = rng.choice([d for d in choices if np.prod(d) == n])
                self.emit(aa.View, [a], TensorType(a.type.element_type, list(dims)))
        elif kind == "broadcast":
            a = self.pick(lambda t: len(shape(t)) == 2 and 1 in shape(t))
            if a is not None:
                dims = [4 if n == 1 else n for n in shape(a.type)]
                self.emit(aa.Broadcast, [a], TensorType(a.type.element_type, dims))
        elif kind == "permute":
            a = self.pick(lambda t: len(shape(t)) == 2)
            if a is not None:
                order = rng.choice(((0, 1), (1, 0)))
                dims = [shape(a.type)[p] for p in order]
                self.emit(aa.Permute, [a], TensorType(a.type.element_type, dims),
                          {"permutation": ArrayAttr([IntAttr(p) for p in order])})
        elif kind == "cmp":
            a = self.pick(integer)
            b = self.pick(lambda t: t == a.type) if rng.random() < 0.5 else self.constant(a.type)
            predicate = rng.choice(("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"))
            self.emit(arith.Cmpi, [a, b], tile(I1, list(shape(a.type))), {"predicate": StringAttr(predicate)})
        elif kind == "select":
            a = self.pick(integer)
            b = self.pick(lambda t: t == a.type)
            c = self.pick(lambda t: width(t) == 1 and shape(t) in ((), shape(a.type)))
            if c is not None:
                self.emit(arith.Select, [c, a, b], a.type)
        elif kind == "width":
            a = self.pick(lambda t: not _is_ptr(t))
            want = rng.choice((I1, I8, I32, I64))
            have = width(a.type)
            if want.width.data != have:
                cls = arith.Trunci if want.width.data < have else rng.choice((arith.Extsi, arith.Extui))
                self.emit(cls, [a], tile(want, list(shape(a.type))))
        elif kind == "unary":
            a = self.pick(integer)
            self.emit(arith.Negi if rng.random() < 0.5 else arith.Absi, [a], a.type)
        elif kind == "addptr":
            p = self.pick(_is_ptr)
            o = self.pick(lambda t: width(t) in (32, 64) and not _is_ptr(t) and shape(t) == shape(p.type))
            if o is not None:
                self.emit(aa.Addptr, [p, o], p.type)
        elif kind in ("for", "if") and depth < 2:
            self.nested(kind, depth)

    def nested(self, kind: str, depth: int) -> None:
        rng, outer, visible = self.rng, self.block, list(self.values)
        picked = (self.pick(lambda t: width(t) == 32 and not _is_ptr(t)), self.pick(_is_ptr))
        carried = [v for v in picked if v is not None]
        if kind == "for":
            number = lambda n: self.emit(arith.Constant, [], I32, {"value": IntegerAttr(n, I32)})  # noqa: E731
            bounds = [number(rng.choice((0, 8, -16))), number(rng.choice((0, 16, 33))), number(rng.choice((1, 4, 16)))]
            inner = Block(arg_types=[I32, *(v.type for v in carried)])
            self.block, start = inner, inner.args
        else:
            condition = self.pick(lambda t: t == I1)
            if condition is None:
                return
            inner = Block()
            self.block, start = inner, ()
        visible = list(self.values)
        self.values = visible + list(start)
        self.grow(6, depth + 1)
        new = [self.rng.choice([v for v in self.values if v.type == c.type][-4:]) for c in carried]
        inner.add_op(arith.Yield.make([new]))
        self.block, self.values = outer, visible
        types = [v.type for v in carried]
        if kind == "for":
            op = arith.For.create(operands=[*bounds, *carried], result_types=types, regions=[Region(inner)])
        else:
            other = Block()
            other.add_op(arith.Yield.make([carried]))
            op = arith.If.create(operands=[condition], result_types=types, regions=[Region(inner), Region(other)])
        outer.add_op(op)
        self.values += op.results


def _is_ptr(t) -> bool:
    return isinstance(t.element_type if isinstance(t, TensorType) else t, aa.PtrType)
