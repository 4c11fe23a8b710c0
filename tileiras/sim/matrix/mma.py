"""mma.sync, dense and sparse: fragments to matrices, products in float64 rounded once, matrices to fragments.

Products of f64 are chains of fused multiply-adds along K, in the instruction's rounding mode. Of a sparse A, which holds
k / 2 columns, `sparse` says which columns they are.

Every dense shape follows one rule (PTX ISA, "Matrix Fragments for mma"). With group = lane / 4, t = lane % 4 and e
elements in a 32-bit register (1 for tf32 and f64): element j of A's register r is at row group + 8 * (r & 1), column
t * e + j + 4 * e * (r >> 1); of B's register r at row t * e + j + 4 * e * r, column group; accumulator i at row
group + 8 * (i >> 1), column 2 * t + (i & 1).
"""
from __future__ import annotations

import re
from functools import cache

import numpy as np

from tileiras.sim.core.decode import operation
from tileiras.sim.errors import InvalidInstruction, SimulationError
from tileiras.sim.matrix import sparse
from tileiras.sim.ptx import parser as ptx
from tileiras.sim.scalar import rounding as rnd
from tileiras.sim.scalar import smallfloat
from tileiras.sim.scalar.floating import canonical

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)$")
_WIDTH = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "e4m3": 8,
          "e5m2": 8, "e2m1": 8, "e2m3": 8, "e3m2": 8}
_INTEGERS = {"s8", "u8", "s4", "u4", "b1"}
_TYPES = set(_WIDTH) | {"f32", "s32"}
_DENSE = {"f64": ((8, 4), (16, 4), (16, 8), (16, 16)), "f16": ((16, 8), (16, 16)), "bf16": ((16, 8), (16, 16)),
          "tf32": ((16, 4), (16, 8)), "8": ((8, 16), (16, 16), (16, 32)), "4": ((8, 32), (16, 32), (16, 64)),
          "b1": ((8, 128), (16, 128), (16, 256)), "fp8": ((16, 16), (16, 32)), "fp6": ((16, 32),)}
_SPARSE = {"f16": (16, 32), "bf16": (16, 32), "tf32": (8, 16), "8": (32, 64), "4": (64, 128), "fp8": (64,), "fp6": (64,)}
_FAMILY = {"s8": "8", "u8": "8", "s4": "4", "u4": "4", "e4m3": "fp8", "e5m2": "fp8", "e2m1": "fp6", "e2m3": "fp6",
           "e3m2": "fp6"}
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
    width = _WIDTH[kind]
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
    codes = elements(registers, kind)[:, gather_map(operand, rows, columns, _WIDTH[kind])]
    return value_of(codes, kind).reshape(-1, rows, columns)


def warps_of(st, getters: list) -> list[np.ndarray]:
    """Registers of the active warps as [warps, 32]; raises when a warp isn't complete."""
    n = len(st.lanes)
    if n % 32 or (n and ((st.lanes.reshape(-1, 32) & 31) != LANE).any()):
        raise SimulationError("a warp-wide instruction is executed by an incomplete warp")
    return [np.ascontiguousarray(st.gathered(g(st))).reshape(-1, 32) for g in getters]


def _items(operand) -> list:
    return operand.items if isinstance(operand, ptx.Vector) else [operand]


def check_form(ins, m: int, n: int, k: int, types: tuple[str, str, str, str], is_sparse: bool) -> None:
    """PTX ISA, the types and shapes of mma and mma.sp."""
    td, ta, tb, tc = types
    family = _FAMILY.get(ta, ta)
    other = _FAMILY.get(tb, tb)
    wide = {family, other} == {"fp8", "fp6"}
    if wide:
        family = "fp6"
    ok = n == 8 and (family == other or wide)
    ok = ok and ((m, k) in _DENSE.get(family, ()) if not is_sparse else m == 16 and k in _SPARSE.get(family, ()))
    if ta in _INTEGERS:
        ok = ok and td == tc == "s32"
    elif ta == "f64":
        ok = ok and td == tb == tc == "f64"
    elif family in ("f16", "fp8", "fp6"):
        ok = ok and td == tc and td in ("f16", "f32")
    else:
        ok = ok and td == tc == "f32" and ta == tb
    if family == "fp6":
        ok = ok and ("kind::f8f6f4" in ins.parts or "kind::mxf8f6f4" in ins.parts)
    if not ok:
        raise InvalidInstruction(f"{ins.opcode}: no such shape or types")


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


@operation("mma")
def _mma(decoder, ins):
    parts = ins.parts
    shape = next((found for p in parts if (found := _SHAPE.match(p))), None)
    if shape is None:
        raise InvalidInstruction(ins.opcode)
    if "block_scale" in parts:
        from tileiras.sim.matrix.blockscale import decode_block_scaled
        return decode_block_scaled(decoder, ins)
    m, n, k = int(shape[1]), int(shape[2]), int(shape[3])
    kinds = [p for p in parts if p in _TYPES]
    if len(kinds) != 4:
        raise InvalidInstruction(ins.opcode)
    td, ta, tb, tc = kinds
    if (m, n, k) == (8, 8, 4) and ta == "f16":
        return _volta(decoder, ins, td, tc)
    is_sparse = any(p == "sp" or p.startswith("sp::") for p in parts)
    check_form(ins, m, n, k, (td, ta, tb, tc), is_sparse)
    layouts = [p for p in parts if p in ("row", "col")]
    if layouts != ["row", "col"]:
        raise InvalidInstruction(ins.opcode)
    if len(ins.operands) != (6 if is_sparse else 4):
        raise InvalidInstruction(f"{ins.opcode}: wrong number of operands")
    stored = k // 2 if is_sparse else k
    bits = "b64" if ta == "f64" else "b32"
    a, b, c = (_items(o) for o in ins.operands[1:4])
    d = _items(ins.operands[0])
    if len(a) != m * stored // 32 // per_register(_WIDTH[ta]) or len(b) != n * k // 32 // per_register(_WIDTH[tb]):
        raise InvalidInstruction(f"{ins.opcode}: wrong number of fragment registers")
    get_a, get_b = [decoder.source(o, bits) for o in a], [decoder.source(o, bits) for o in b]
    get_c, put_d = accumulator(decoder, c, d, tc, td, m * n // 32)
    get_meta, metadata = metadata_of(decoder, ins, ta, k) if is_sparse else (None, None)
    integer = ta in _INTEGERS
    xor = "xor" in parts
    if ta == "b1" and (xor == ("and" in parts) or "popc" not in parts):
        raise InvalidInstruction(ins.opcode)
    saturate = "satfinite" in parts
    mode = next((p for p in parts if p in ("rn", "rz", "rm", "rp")), "rn")

    def run(st):
        ra, rb = warps_of(st, get_a), warps_of(st, get_b)
        if not len(ra[0]):
            return
        x = matrix(ra, "a", m, stored, ta)
        if metadata is not None:
            word, = warps_of(st, [get_meta])
            x = sparse.expand(x, metadata.columns(word, st), k)
        y = matrix(rb, "b", k, n, tb)
        places = fragment_map("c", m, n, 32)
        if ta == "f64":
            full = np.empty((len(x), m * n))
            full[:, places] = get_c(st)
            put_d(st, chained(x, y, full.reshape(-1, m, n), mode).reshape(len(x), -1)[:, places])
            return
        if xor:                                     # popc of xor: a + b - 2ab
            product = x.sum(axis=2, keepdims=True) + y.sum(axis=1, keepdims=True) - 2 * np.matmul(x, y)
        else:
            product = np.matmul(x, y)
        spread = product.reshape(len(product), -1)[:, places]                           # [warps, 32, count]
        put_d(st, accumulate(spread, get_c(st), td, integer, saturate))
    return run


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


# ---- m8n8k4 with f16: four independent products by quads of lanes 0-3 and 16-19, and so on

def _volta(decoder, ins, td: str, tc: str):
    la, lb = [p for p in ins.parts if p in ("row", "col")]
    a, b, c = (_items(o) for o in ins.operands[1:4])
    d = _items(ins.operands[0])
    get_a, get_b = [decoder.source(o, "b32") for o in a], [decoder.source(o, "b32") for o in b]
    get_c, put_d = accumulator(decoder, c, d, tc, td, 8)
    quad = (LANE % 16) // 4
    upper = LANE // 16
    row16 = LANE % 4 + 4 * upper
    i = np.arange(8)
    if tc == "f32":
        crow = (LANE & 1)[:, None] + (i & 2) + 4 * upper[:, None]
        ccol = (i & 4) + (LANE & 2)[:, None] + (i & 1)
    if td == "f16" or tc == "f16":
        hrow = np.broadcast_to(row16[:, None], (32, 8))
        hcol = np.broadcast_to(i, (32, 8))
    e = np.arange(4)

    def operand(registers, is_a: bool, layout: str) -> np.ndarray:
        codes = np.stack(registers, axis=-1).view(np.float16).astype(np.float64)      # [warps, 32, 4]
        out = np.zeros((len(codes), 4, 8, 4))          # quad, row of A / column of B, k
        if (layout == "row") == is_a:                  # a lane holds one row of A (column of B)
            for lane in range(32):
                out[:, quad[lane], row16[lane], :] = codes[:, lane]
        else:                                          # a lane holds four rows at one k
            for lane in range(32):
                out[:, quad[lane], e + 4 * upper[lane], lane % 4] = codes[:, lane]
        return out

    def run(st):
        x = operand(warps_of(st, get_a), True, la)
        y = operand(warps_of(st, get_b), False, lb)
        product = np.einsum("wqmk,wqnk->wqmn", x, y)
        cs = get_c(st)
        row, col = (hrow, hcol) if tc == "f16" else (crow, ccol)
        full = np.zeros_like(product)
        full[:, quad[:, None], row, col] = cs
        product = product + full
        row, col = (hrow, hcol) if td == "f16" else (crow, ccol)
        total = product[:, quad[:, None], row, col]
        put_d(st, accumulate(total, np.zeros(1), td, False, False))
    if td == "f32" and tc == "f16":
        crow = (LANE & 1)[:, None] + (i & 2) + 4 * upper[:, None]
        ccol = (i & 4) + (LANE & 2)[:, None] + (i & 1)
    return run
