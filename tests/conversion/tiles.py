"""One nv_tileas op (or a few) lowered to the llvm dialect and executed: tiles in, tiles out.

    run([Tile(x, layout_a)], lambda v: [ConvertLayout.make([v[0]], [type_b])], num_warps=4)  ->  [y]

A tile is given to the threads as its layout says, and the result is put together again from all threads, checking
that every copy of an element is the same.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tests.conversion.legalize import legalize
from tests.conversion.machine import Machine
from tileiras.conversion.tileas_to_llvm import handlers
from tileiras.conversion.tileas_to_llvm.builder import Builder
from tileiras.conversion.tileas_to_llvm.lowering import Lowering
from tileiras.dialects import llvm, nv_tileas
from tileiras.dialects.base import TileOp
from tileiras.dialects.nv_tileas import LayoutAttr
from tileiras.driver.options import CompileOptions
from tileiras.layout.linear import LinearLayout
from tileiras.machine.targets import find_target
from tileiras.pipeline import PIPELINE

TYPES: dict[Any, Attribute] = {
    np.dtype(np.float16): Float16Type(), np.dtype(np.float32): Float32Type(), np.dtype(np.float64): Float64Type(),
    np.dtype(np.int8): IntegerType(8), np.dtype(np.uint8): IntegerType(8), np.dtype(np.int16): IntegerType(16),
    np.dtype(np.int32): IntegerType(32), np.dtype(np.int64): IntegerType(64), np.dtype(np.bool_): IntegerType(1),
    np.dtype(ml_dtypes.bfloat16): BFloat16Type(), np.dtype(ml_dtypes.float8_e4m3fn): Float8E4M3FNType(),
    np.dtype(ml_dtypes.float8_e5m2): Float8E5M2Type()}


@dataclass(frozen=True)
class Tile:
    """A tile's values and who holds them; `element` overrides the IR element type (tf32)."""

    values: np.ndarray
    layout: LinearLayout
    element: Attribute | None = None

    @property
    def type(self) -> TensorType:
        return tensor(self.layout, self.element or TYPES[self.values.dtype])


def tensor(layout: LinearLayout, element: Attribute) -> TensorType:
    return TensorType(element, layout.shape, LayoutAttr.of(layout))  # type: ignore[arg-type]


def indices(layout: LinearLayout, threads: int) -> np.ndarray:
    """(threads, registers): the flat index each register holds."""
    base = [layout.index(0, t % 32, t // 32) for t in range(threads)]
    return np.array(base)[:, None] ^ np.array(layout.reg_indices)[None, :]


def registers(tile: Tile, threads: int) -> np.ndarray:
    raw = tile.values.reshape(-1)[indices(tile.layout, threads)]
    if raw.dtype.kind in "iu" or (raw.dtype.itemsize == 1 and raw.dtype != np.bool_):
        raw = raw.view(f"u{raw.dtype.itemsize}")
    return raw


def assemble(layout: LinearLayout, held: np.ndarray, dtype: Any) -> np.ndarray:
    """The tile put together; fails if copies differ."""
    threads = held.shape[0]
    at = indices(layout, threads)
    held = held if held.dtype == np.bool_ else held.view(dtype)
    out = np.zeros(layout.size, dtype)
    out[at] = held
    same = out[at].view(np.uint8) == np.ascontiguousarray(held).view(np.uint8)
    assert same.all(), "copies of an element differ"
    assert set(at.reshape(-1).tolist()) == set(range(layout.size)), "elements are missing"
    return out.reshape(layout.shape)


class Keep(TileOp):
    """Ends a function and wants these values."""

    name = "test.keep"
    OPERANDS = "values*"
    TERMINATOR = True


def behind(func: Operation, target: Any) -> None:
    """The passes that stand between placed tiles and their lowering, as the pipeline has them."""
    for op in list(func.walk()):
        legalize(op)
    module = ModuleOp([func])
    names = [entry.name for entry in PIPELINE]
    for entry in PIPELINE[names.index("hoist-conversions"):names.index("convert-tileas-to-llvm")]:
        entry.apply(module, CompileOptions(target))
    func.detach()


def run(tiles: Sequence[Tile | int], build: Callable[[list[SSAValue]], list[Operation]], num_warps: int,
        dtypes: Sequence[Any], gpu: str = "sm_80", stats: dict[str, int] | None = None) -> list[Any]:
    """Lower the ops that `build` makes from the tiles (ints: i32 scalars) and execute them.

    The results are those of the last op that has some: arrays of `dtypes`."""
    target = find_target(gpu)
    threads = 32 * num_warps
    old = Block(arg_types=[IntegerType(32) if isinstance(t, int) else t.type for t in tiles])
    for op in build(list(old.args)):
        old.add_op(op)
    old.add_op(Keep.make([next(op for op in reversed(list(old.ops)) if op.results).results]))
    holder = nv_tileas.Func.create(regions=[Region(old)], properties={"sym_name": StringAttr("k")})  # type: ignore[attr-defined]
    behind(holder, target)
    ops = list(old.ops)
    entry = Block(arg_types=[])
    Region(entry)
    builder = Builder(entry)
    low = Lowering(builder, target, num_warps, "k")
    for i, a in enumerate(old.args):
        entry.insert_arg(low.lowered_type(a.type), i)
        low.set(a, entry.args[i])
    handlers.load(dict.fromkeys(op.name for op in holder.walk()))
    shared: Any = holder.properties.get("shared_bytes", IntAttr(0))
    assert shared.data <= target.max_static_smem
    low.shared_base = builder.address_of("smem", llvm.SHARED)
    for op in ops[:-1]:
        low.lower_op(op)
    results = ops[-1].operands
    values = [low.vec(r) for r in results]
    machine = Machine(threads, max(16, shared.data))
    args = [np.full(threads, t, np.int32).view(np.uint32) if isinstance(t, int) else registers(t, threads)
            for t in tiles]
    env = machine.run(entry, args)
    if stats is not None:
        stats.update(machine.counts, shared=shared.data, ops=sum(len(list(b.ops)) for b in entry.parent.blocks))  # type: ignore[union-attr]
    out: list[Any] = []
    for r, v, d in zip(results, values, dtypes):
        if isinstance(r.type, TensorType):
            out.append(assemble(r.type.encoding.data, env[v], d))  # type: ignore[attr-defined]
        else:
            held = env[v].view(d)
            assert (held == held[0]).all()
            out.append(held[0])
    return out
