"""mma.sync, dense and sparse: fragments to matrices, products in float64 rounded once, matrices to fragments.

Products of f64 are chains of fused multiply-adds along K, in the instruction's rounding mode. Of a sparse A, which holds
k / 2 columns, `sparse` says which columns they are.
"""
from __future__ import annotations

import re

import numpy as np

from tileiras.sim.core.decode import operation
from tileiras.sim.errors import InvalidInstruction
from tileiras.sim.matrix import sparse
from tileiras.sim.matrix.blockscale import decode_block_scaled
from tileiras.sim.matrix.fragments import (
    LANE,
    WIDTH,
    accumulate,
    accumulator,
    chained,
    fragment_map,
    items_of,
    matrix,
    metadata_of,
    per_register,
    warps_of,
)

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)$")
_INTEGERS = {"s8", "u8", "s4", "u4", "b1"}
_TYPES = set(WIDTH) | {"f32", "s32"}
_DENSE = {"f64": ((8, 4), (16, 4), (16, 8), (16, 16)), "f16": ((16, 8), (16, 16)), "bf16": ((16, 8), (16, 16)),
          "tf32": ((16, 4), (16, 8)), "8": ((8, 16), (16, 16), (16, 32)), "4": ((8, 32), (16, 32), (16, 64)),
          "b1": ((8, 128), (16, 128), (16, 256)), "fp8": ((16, 16), (16, 32)), "fp6": ((16, 32),)}
_SPARSE = {"f16": (16, 32), "bf16": (16, 32), "tf32": (8, 16), "8": (32, 64), "4": (64, 128), "fp8": (64,), "fp6": (64,)}
_FAMILY = {"s8": "8", "u8": "8", "s4": "4", "u4": "4", "e4m3": "fp8", "e5m2": "fp8", "e2m1": "fp6", "e2m3": "fp6",
           "e3m2": "fp6"}


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


@operation("mma")
def _mma(decoder, ins):
    parts = ins.parts
    shape = next((found for p in parts if (found := _SHAPE.match(p))), None)
    if shape is None:
        raise InvalidInstruction(ins.opcode)
    if "block_scale" in parts:
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
    a, b, c = (items_of(o) for o in ins.operands[1:4])
    d = items_of(ins.operands[0])
    if len(a) != m * stored // 32 // per_register(WIDTH[ta]) or len(b) != n * k // 32 // per_register(WIDTH[tb]):
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


# ---- m8n8k4 with f16: four independent products by quads of lanes 0-3 and 16-19, and so on

def _volta(decoder, ins, td: str, tc: str):
    la, lb = [p for p in ins.parts if p in ("row", "col")]
    a, b, c = (items_of(o) for o in ins.operands[1:4])
    d = items_of(ins.operands[0])
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
