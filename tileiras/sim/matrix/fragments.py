"""Fragments of matrix instructions: which lane holds which element, elements to values, sums to accumulators.

Every dense shape follows one rule (PTX ISA, "Matrix Fragments for mma"). With group = lane / 4, t = lane % 4 and e
elements in a 32-bit register (1 for tf32 and f64): element j of A's register r is at row group + 8 * (r & 1), column
t * e + j + 4 * e * (r >> 1); of B's register r at row t * e + j + 4 * e * r, column group; accumulator i at row
group + 8 * (i >> 1), column 2 * t + (i & 1).
"""
from __future__ import annotations

from functools import cache

import numpy as np

from tileiras.sim.errors import InvalidInstruction, SimulationError
from tileiras.sim.matrix import sparse
from tileiras.sim.ptx import module as ptx
from tileiras.sim.scalar import rounding as rnd
from tileiras.sim.scalar import smallfloat
from tileiras.sim.scalar.floating import canonical

WIDTH = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "e4m3": 8,
         "e5m2": 8, "e2m1": 8, "e2m3": 8, "e3m2": 8}
LANE = np.arange(32)


def per_register(width: int) -> int:
    """Elements in one register of a fragment."""
    return 1 if width >= 32 else 32 // width


@cache
def fragment_map(operand: str, rows: int, columns: int, width: int) -> np.ndarray:
    """[32, registers * e]: the linear index (row * columns + column) of every element that a lane holds."""
    e = per_register(width)
    if operand == "c":
        count = rows * columns // 32
        i = np.arange(count)
        row = (LANE // 4)[:, None] + 8 * (i >> 1)
        column = (2 * (LANE % 4))[:, None] + (i & 1)
        return row * columns + column
    count = rows * columns // 32
    r, j = np.arange(count) // e, np.arange(count) % e
    group, t = (LANE // 4)[:, None], (LANE % 4)[:, None]
    if operand == "a":
        tall = rows == 16
        row = group + 8 * (r & 1) * tall
        column = t * e + j + 4 * e * (r >> 1 if tall else r)
        return row * columns + column
    row = t * e + j + 4 * e * r
    return row * columns + group


@cache
def gather_map(operand: str, rows: int, columns: int, width: int) -> np.ndarray:
    """[rows * columns]: where in a warp's [32 * elements] fragment each matrix element is."""
    forward = fragment_map(operand, rows, columns, width).reshape(-1)
    back = np.empty(rows * columns, np.int64)
    back[forward] = np.arange(len(forward))
    return back


def elements(registers: list[np.ndarray], kind: str) -> np.ndarray:
    """Registers (each [warps, 32]) to the codes of their elements, [warps, 32 * registers * e]."""
    words = np.stack(registers, axis=-1)
    warps = words.shape[0]
    width = WIDTH[kind]
    if width == 4 or width == 1:
        data = words.view(np.uint8).reshape(warps, -1)
        count = 8 // width
        shifts = np.arange(count, dtype=np.uint8) * np.uint8(width)
        return ((data[..., None] >> shifts) & np.uint8((1 << width) - 1)).reshape(warps, -1)
    return words.view({8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[width]).reshape(warps, -1)


def value_of(code: np.ndarray, kind: str) -> np.ndarray:
    """Element codes to float64."""
    if kind == "f16":
        return code.view(np.float16).astype(np.float64)
    if kind == "bf16":
        return rnd.bf16_to_f32(code).astype(np.float64)
    if kind == "tf32":
        return (code & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    if kind == "f64":
        return code.view(np.float64)
    if kind == "s8":
        return code.view(np.int8).astype(np.float64)
    if kind == "s4":
        return ((code ^ np.uint8(8)).astype(np.float64)) - 8.0
    if kind in ("u8", "u4", "b1"):
        return code.astype(np.float64)
    if kind == "e2m1":                              # bits 2 to 5 of an 8-bit container
        return smallfloat.decode(code >> np.uint8(2), kind)
    return smallfloat.decode(code, kind)


def matrix(registers: list[np.ndarray], operand: str, rows: int, columns: int, kind: str) -> np.ndarray:
    """A fragment's registers to the matrix it holds, [warps, rows, columns] float64."""
    codes = elements(registers, kind)[:, gather_map(operand, rows, columns, WIDTH[kind])]
    return value_of(codes, kind).reshape(-1, rows, columns)


def warps_of(st, getters: list) -> list[np.ndarray]:
    """Registers of the active warps as [warps, 32]; raises when a warp isn't complete."""
    n = len(st.lanes)
    if n % 32 or (n and ((st.lanes.reshape(-1, 32) & 31) != LANE).any()):
        raise SimulationError("a warp-wide instruction is executed by an incomplete warp")
    return [np.ascontiguousarray(st.gathered(g(st))).reshape(-1, 32) for g in getters]


def items_of(operand) -> list:
    return operand.items if isinstance(operand, ptx.Vector) else [operand]


def metadata_of(decoder, ins, kind: str, k: int, packed: bool = False):
    """(getter of the sparsity metadata's register, its meaning): operands e and f of mma.sp."""
    selector = ins.operands[5]
    if not isinstance(selector, ptx.Immediate):
        raise InvalidInstruction("the sparsity selector must be a constant")
    ordered = "sp::ordered_metadata" in ins.parts
    return decoder.source(ins.operands[4], "b32"), sparse.Metadata(kind, 16, k, selector.value, packed, ordered)


def chained(x: np.ndarray, y: np.ndarray, c: np.ndarray, mode: str) -> np.ndarray:
    """[warps, m, n]: c + x @ y in float64 by fused multiply-adds along k, each rounded in `mode`."""
    for i in range(x.shape[-1]):
        a, b = np.broadcast_arrays(x[..., i, None], y[..., i, None, :])
        c = rnd.fma_f64(a.reshape(-1), b.reshape(-1), c.reshape(-1), mode).reshape(c.shape)
    return c


def accumulate(product: np.ndarray, c: np.ndarray, td: str, integer: bool, saturate: bool) -> np.ndarray:
    """product + c, rounded to the accumulator's type."""
    if integer:
        total = product.astype(np.int64) + c.astype(np.int64)
        if saturate:
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
        return (total & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    total = product + c
    if td == "f64":
        return total
    return canonical(total.astype(np.float16 if td == "f16" else np.float32))


def accumulator(decoder, c: list, d: list, tc: str, td: str, count: int):
    """(reader of C as [warps, 32, count], writer of D from it)."""
    gets = [decoder.source(o, "b32" if tc == "f16" else tc) for o in c]

    def read(st):
        words = np.stack(warps_of(st, gets), axis=-1)
        if tc == "f16":
            words = words.view(np.float16)
        return words.astype(np.int64 if tc == "s32" else np.float64)
    expected = count // 2 if tc == "f16" else count
    if len(c) != expected or len(d) != (count // 2 if td == "f16" else count):
        raise InvalidInstruction("wrong number of accumulator registers")
    if td == "f16":
        puts = [decoder.scatter_target(o, "b32") for o in d]

        def write(st, values):
            words = np.ascontiguousarray(values).view(np.uint32)
            for i, put in enumerate(puts):
                put(st, np.ascontiguousarray(words[..., i]).reshape(-1))
    else:
        puts = [decoder.scatter_target(o, td) for o in d]

        def write(st, values):
            for i, put in enumerate(puts):
                put(st, np.ascontiguousarray(values[..., i]).reshape(-1))
    return read, write
