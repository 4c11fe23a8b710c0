"""mma.sync with block scaling: products of narrow floats whose blocks along K carry scale factors.

The scale registers of A are read from one thread pair of each quad (`thread-id` 0 or 1): its first thread holds the
scales of row group, its second those of row group + 8. The scales of B come from thread `thread-id` of the quad, for
column group. A scale vector of 1, 2 or 4 bytes starts at `byte-id` of the register.
"""
from __future__ import annotations

import numpy as np

from tileiras.sim import parser as ptx
from tileiras.sim import smallfloat
from tileiras.sim.decode import describe
from tileiras.sim.errors import InvalidInstruction, UnsupportedInstruction
from tileiras.sim.matrix import (
    LANE,
    _items,
    accumulate,
    accumulator,
    elements,
    fragment_map,
    gather_map,
    matrix,
    warps_of,
)

_VECTORS = {"1X": 1, "2X": 2, "4X": 4}


def _narrow(registers, operand: str, rows: int, columns: int) -> np.ndarray:
    """A fragment of packed e2m1 elements to its matrix."""
    codes = elements(registers, "u4")[:, gather_map(operand, rows, columns, 4)]
    return smallfloat.decode(codes, "e2m1").reshape(-1, rows, columns)


def _constant(operand) -> int:
    if not isinstance(operand, ptx.Immediate):
        raise UnsupportedInstruction(f"a block-scale selector that isn't constant: {describe(operand)}")
    return operand.value


def decode_block_scaled(decoder, ins):
    """m16n8k32 of kind mxf8f6f4 and m16n8k64 of kinds mxf4 and mxf4nvf4."""
    parts = ins.parts
    packed = any(p in ("kind::mxf4", "kind::mxf4nvf4") for p in parts)
    m, n, k = 16, 8, 64 if packed else 32
    if f"m{m}n{n}k{k}" not in parts:
        raise InvalidInstruction(ins.opcode)
    types = [p for p in parts if p in ("e4m3", "e5m2", "e2m1", "e2m3", "e3m2")]
    scale_type = parts[-1]
    if len(types) != 2 or scale_type not in ("ue8m0", "ue4m3"):
        raise InvalidInstruction(ins.opcode)
    vector = next((_VECTORS[p[11:]] for p in parts if p.startswith("scale_vec::") and p[11:] in _VECTORS),
                  2 if packed else 1)
    if any(p.startswith("block16") for p in parts):
        vector = 4
    operands = ins.operands
    if len(operands) < 6:
        raise InvalidInstruction(f"{ins.opcode} needs scale operands")
    rest = operands[4:]
    scale_a, select_a = rest[0], rest[1] if len(rest) == 4 else ptx.Vector([ptx.Immediate(0), ptx.Immediate(0)])
    scale_b, select_b = (rest[2], rest[3]) if len(rest) == 4 else (rest[1], select_a)
    byte_a, thread_a = (_constant(o) for o in _items(select_a))
    byte_b, thread_b = (_constant(o) for o in _items(select_b))
    get_a, get_b = ([decoder.source(o, "b32") for o in _items(operands[i])] for i in (1, 2))
    if len(get_a) != 4 or len(get_b) != 2:
        raise InvalidInstruction(f"{ins.opcode}: wrong number of fragment registers")
    get_c, put_d = accumulator(decoder, _items(operands[3]), _items(operands[0]), "f32", "f32", m * n // 32)
    get_scales = [decoder.source(_items(o)[0], "b32") for o in (scale_a, scale_b)]
    group = LANE[:8] * 4
    lane_a = np.concatenate([group + 2 * thread_a, group + 2 * thread_a + 1])        # rows 0-7, rows 8-15
    lane_b = group + thread_b
    if not 0 <= thread_a <= 1 or not 0 <= thread_b <= 3 or byte_a + vector > 4 or byte_b + vector > 4:
        raise InvalidInstruction(f"{ins.opcode}: block-scale selector out of range")

    def scales(register: np.ndarray, lanes: np.ndarray, start: int) -> np.ndarray:
        """[warps, rows, k]: every element's scale."""
        codes = np.ascontiguousarray(register).view(np.uint8).reshape(-1, 32, 4)[:, lanes, start:start + vector]
        name = "ue8m0" if scale_type == "ue8m0" else "e4m3"
        if name == "e4m3":
            codes = codes & np.uint8(0x7F)
        return np.repeat(smallfloat.decode(codes, name), k // vector, axis=2)

    def run(st):
        ra, rb = warps_of(st, get_a), warps_of(st, get_b)
        sa, sb = warps_of(st, get_scales)
        if not len(ra[0]):
            return
        if packed:
            x, y = _narrow(ra, "a", m, k), _narrow(rb, "b", k, n)
        else:
            x, y = matrix(ra, "a", m, k, types[0]), matrix(rb, "b", k, n, types[1])
        x = x * scales(sa, lane_a, byte_a)
        y = y * scales(sb, lane_b, byte_b).transpose(0, 2, 1)
        product = np.matmul(x, y).reshape(len(x), -1)[:, fragment_map("c", m, n, 32)]
        put_d(st, accumulate(product, get_c(st), "f32", False, False))
    return run
