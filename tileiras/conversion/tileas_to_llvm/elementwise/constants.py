"""Lower `arith.constant`: scalars and splats as LLVM constants, other tiles by what the layout makes of them.

A tile whose elements depend on the register only is a vector of constants. Else its bytes go into constant memory, and
every thread loads its own.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import FloatAttr, FloatTF32Type, IntegerAttr, IntegerType
from xdsl.ir import Attribute, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import I1, I8, I64
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers, storage_type
from tileiras.dialects import llvm, nv_tileaa
from tileiras.layout.linear import LinearLayout

TF32_LOW_BITS = 13
"""Mantissa bits of f32 that tf32 lacks."""


def attribute_bits(value: Attribute, t: Attribute) -> int:
    """The bit pattern (in a register) of a scalar attribute of the element type `t`."""
    if isinstance(value, IntegerAttr):
        number = value.value.data
        return number & 1 if isinstance(t, IntegerType) and t.width.data == 1 else number
    assert isinstance(value, FloatAttr)
    raw = t.pack((value.value.data,))  # type: ignore[attr-defined]
    bits = int.from_bytes(raw, "little")
    return bits << TF32_LOW_BITS if isinstance(t, FloatTF32Type) else bits


@lowers("arith.constant")
def constant(low: Lowering, op: Any) -> None:
    value, result = op.value, op.results[0]
    element = low.element(result)
    if not isinstance(value, nv_tileaa.DenseTileAttr):
        low.set(result, low.b.bits(attribute_bits(value, element), low.lowered_type(result.type)))
        return
    width = value.width.data
    raw = bytes.fromhex(value.data.data)
    table = [int.from_bytes(raw[i:i + width], "little") for i in range(0, len(raw), width)]
    if not low.is_tensor(result):
        low.set(result, low.b.bits(table[0], storage_type(element)))
        return
    if table.count(table[0]) == len(table):
        low.set(result, low.b.bits(table[0], low.lowered_type(result.type)))
        return
    low.set(result, dense_registers(low, table, width, low.layout(result), storage_type(element)))


def dense_registers(low: Lowering, table: list[int], width: int, layout: LinearLayout, t: Attribute) -> list[SSAValue]:
    """The registers of a constant tile: `table` in row-major order, elements of `width` bytes and of LLVM type `t`."""
    b = low.b
    moving = [basis for basis in (*layout.lane, *layout.warp) if basis]
    if all(all(table[i] == table[i ^ basis] for i in range(len(table))) for basis in moving):
        return [b.bits(table[i], t) for i in layout.reg_indices]
    base = _table_address(low, table, width)
    flat = low.flat_index(layout)
    reach = 0
    for basis in moving:
        reach |= basis
    loaded: dict[int, SSAValue] = {}
    start: SSAValue | None = None
    for offset in layout.reg_indices:
        if offset in loaded:
            continue
        if offset & reach:
            p = b.gep(base, b.cast("zext", b.mul(b.xor(flat, b.i32(offset)), b.i32(width)), I64))
        else:
            if start is None:
                start = b.gep(base, b.cast("zext", b.mul(flat, b.i32(width)), I64))
            p = b.gep(start, offset * width)
        x = b.load(I8 if t == I1 else t, p, width, "invariant")
        loaded[offset] = b.icmp("ne", x, b.bits(0, I8)) if t == I1 else x
    return [loaded[offset] for offset in layout.reg_indices]


def _table_address(low: Lowering, table: list[int], width: int) -> SSAValue:
    """The address of a read-only array in the module that holds the table."""
    data = b"".join(x.to_bytes(width, "little") for x in table)
    symbol = f"constant_{low.kernel}_{len(low.extra_globals)}"
    low.add_global(symbol, data, 16, constant=True)
    return low.b.address_of(symbol, llvm.GLOBAL)
