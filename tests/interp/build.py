"""Small cuda_tile kernels for tests, built from op classes: inputs come from arrays, results go to arrays."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects import builtin
from xdsl.dialects.builtin import FunctionType, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.dialects.cuda_tile import attrs, ops, types
from tileiras.interp import run

ELEMENTS: dict[str, Attribute] = {
    "i1": builtin.i1, "i4": builtin.IntegerType(4), "i8": builtin.i8, "i16": builtin.i16, "i32": builtin.i32,
    "i64": builtin.i64, "f16": builtin.f16, "bf16": builtin.bf16, "f32": builtin.f32, "f64": builtin.f64,
    "tf32": builtin.FloatTF32Type(), "f8E4M3FN": builtin.Float8E4M3FNType(), "f8E5M2": builtin.Float8E5M2Type(),
    "f8E8M0FNU": builtin.Float8E8M0FNUType(), "f4E2M1FN": builtin.Float4E2M1FNType(),
}
ARRAYS: dict[str, Any] = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f16": np.float16,
    "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "tf32": np.float32,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2, "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
}
TOKEN = types.TokenType()
WEAK = attrs.MemoryOrderingSemanticsAttr("weak")


def tile(element: str | Attribute, *shape: int) -> types.TileType:
    return types.TileType(shape, ELEMENTS[element] if isinstance(element, str) else element)


def pointer(element: str, *shape: int) -> types.TileType:
    return tile(types.PointerType(ELEMENTS[element]), *shape)


def name_of(array: np.ndarray) -> str:
    return next(n for n, d in ARRAYS.items() if n != "tf32" and np.dtype(d) == array.dtype)


def dense(element: str, values: Any) -> attrs.DenseElementsAttr:
    """A constant of a type that NumPy or ml_dtypes has."""
    array = np.asarray(values).astype(ARRAYS[element])
    raw = np.packbits(array.reshape(-1), bitorder="little").tobytes() if element == "i1" else array.tobytes()
    if element == "i1" and array.size == 1:
        raw = b"\xff" if array.reshape(-1)[0] else b"\x00"
    return attrs.DenseElementsAttr(tile(element, *array.shape), raw)


class Kernel:
    """A kernel under construction: `add(op)` appends; parameters are pointers to arrays, then scalars."""

    def __init__(self, *parameters: Attribute) -> None:
        self.block = Block(arg_types=parameters)
        self.outer: list[Block] = []

    @property
    def args(self) -> Sequence[SSAValue]:
        return (self.outer[0] if self.outer else self.block).args

    def add(self, op: Operation) -> Any:
        """Append an op; returns its result, or all results where it has several."""
        self.block.add_op(op)
        return op.results[0] if len(op.results) == 1 else tuple(op.results)

    def constant(self, element: str, values: Any) -> SSAValue:
        value = dense(element, values)
        return self.add(ops.Constant.make([], [value.type], {"value": value}))

    def pointers(self, base: SSAValue, element: str, count: int) -> SSAValue:
        """A tile of pointers to consecutive elements."""
        one = self.add(ops.Reshape.make([base], [pointer(element, 1)]))
        many = self.add(ops.Broadcast.make([one], [pointer(element, count)]))
        lanes = self.add(ops.Iota.make([], [tile("i32", count)]))
        return self.add(ops.Offset.make([many, lanes], [pointer(element, count)]))

    def load(self, base: SSAValue, element: str, shape: Sequence[int]) -> SSAValue:
        count = int(np.prod(shape, dtype=int))
        flat = self.add(ops.LoadPtrTko.make([self.pointers(base, element, count), None, None, None],
                                            [tile(element, count), TOKEN], {"memory_ordering_semantics": WEAK}))[0]
        return self.add(ops.Reshape.make([flat], [tile(element, *shape)]))

    def store(self, base: SSAValue, value: SSAValue) -> None:
        type_ = value.type
        assert isinstance(type_, types.TileType)
        element = next(n for n, e in ELEMENTS.items() if e == type_.element_type)
        count = type_.num_elements
        flat = self.add(ops.Reshape.make([value], [tile(element, count)]))
        self.add(ops.StorePtrTko.make([self.pointers(base, element, count), flat, None, None], [TOKEN],
                                      {"memory_ordering_semantics": WEAK}))

    def region(self, argument_types: Sequence[Attribute], fill: Callable[..., Operation]) -> Region:
        """A region whose block `fill(*arguments)` builds with `add`; it returns the terminator."""
        self.outer.append(self.block)
        self.block = Block(arg_types=argument_types)
        self.block.add_op(fill(*self.block.args))
        inner, self.block = self.block, self.outer.pop()
        return Region(inner)

    def module(self, items: Sequence[Operation] = ()) -> Operation:
        self.add(ops.Return.make([[]]))
        entry = ops.Entry.make([], [], {
            "sym_name": StringAttr("kernel"),
            "function_type": FunctionType.from_lists([a.type for a in self.block.args], [])}, [Region(self.block)])
        return ops.Module.make([], [], {"sym_name": StringAttr("m")}, [Region(Block([*items, entry]))])

    def run(self, *args: Any, grid: Sequence[int] = (1,), items: Sequence[Operation] = (), **options: Any) -> None:
        run(self.module(items), "kernel", grid, args, **options)


def evaluate(make: Callable[..., Any], inputs: Sequence[np.ndarray], *results: tuple[str, tuple[int, ...]]) -> Any:
    """The arrays that `make(kernel, *tiles)` computes: it returns SSA values of the result types (element, shape)."""
    kernel = Kernel(*(pointer(name_of(a)) for a in inputs), *(pointer(e) for e, _ in results))
    tiles = [kernel.load(kernel.args[i], name_of(a), a.shape) for i, a in enumerate(inputs)]
    values = make(kernel, *tiles)
    for base, value in zip(kernel.args[len(inputs):], values if isinstance(values, (tuple, list)) else [values]):
        kernel.store(base, value)
    outputs = [np.zeros(shape, ARRAYS[element]) for element, shape in results]
    kernel.run(*inputs, *outputs)
    return outputs[0] if len(outputs) == 1 else outputs


def apply(op: type[ops.CudaTileOp], inputs: Sequence[np.ndarray], result: tuple[str, tuple[int, ...]] | None = None,
          **attributes: Attribute) -> np.ndarray:
    """The result of one op with one operand for each array."""
    kind = result or (name_of(inputs[0]), inputs[0].shape)
    return evaluate(lambda k, *tiles: k.add(op.make(list(tiles), [tile(kind[0], *kind[1])], attributes)), inputs, kind)
