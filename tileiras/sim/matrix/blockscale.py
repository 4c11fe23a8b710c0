"""mma.sync with block scaling: products of narrow floats whose blocks along K carry scale factors.

The selectors, {byte-id, thread-id}, are constants or registers. The scale registers of A are read from one thread pair
of each quad (`thread-id` 0 or 1): its first thread holds the scales of row group, its second those of row group + 8. The
scales of B come from thread `thread-id` of the quad, for column group. A scale vector of 1, 2 or 4 bytes starts at
`byte-id` of the register.
"""
from __future__ import annotations

import numpy as np

from tileiras.sim.errors import InvalidInstruction
from tileiras.sim.matrix import sparse
from tileiras.sim.matrix.fragments import (
    accumulate,
    accumulator,
    elements,
    fragment_map,
    gather_map,
    items_of,
    matrix,
    metadata_of,
    warps_of,
)
from tileiras.sim.scalar import smallfloat

_VECTORS = {"1X": 1, "2X": 2, "4X": 4}
_DEFAULT = {"kind::mxf8f6f4": "1X", "kind::mxf4": "2X", "kind::mxf4nvf4": ""}
_KINDS = {"kind::mxf8f6f4": ((1, "ue8m0"),), "kind::mxf4": ((2, "ue8m0"),),
          "kind::mxf4nvf4": ((2, "ue8m0"), (4, "ue8m0"), (4, "ue4m3"))}
"""Kind -> (scale factors a row, their type): PTX ISA, "Block Scaling for mma.sync"."""


def _narrow(registers, operand: str, rows: int, columns: int) -> np.ndarray:
    """A fragment of packed e2m1 elements to its matrix."""
    codes = elements(registers, "u4")[:, gather_map(operand, rows, columns, 4)]
    return smallfloat.decode(codes, "e2m1").reshape(-1, rows, columns)


def _selectors(decoder, operand) -> list:
    """Getters of {byte-id, thread-id}: constants or registers."""
    items = items_of(operand)
    if len(items) != 2:
        raise InvalidInstruction(f"a block-scale selector has two parts, not {len(items)}")
    return [decoder.source(o, "u16") for o in items]


def decode_block_scaled(decoder, ins):
    """m16n8k32 of kind mxf8f6f4 and m16n8k64 of kinds mxf4 and mxf4nvf4, or sparse of twice the depth."""
    parts = ins.parts
    kind = next((p for p in parts if p in _KINDS), "")
    is_sparse = "sp::ordered_metadata" in parts
    if not kind or "sp" in parts:
        raise InvalidInstruction(ins.opcode)
    packed = kind != "kind::mxf8f6f4"
    m, n, k = 16, 8, (64 if packed else 32) * (1 + is_sparse)
    types = [p for p in parts if p in ("e4m3", "e5m2", "e2m1", "e2m3", "e3m2")]
    scale_type = parts[-1]
    size = next((p[11:] for p in parts if p.startswith("scale_vec::")), _DEFAULT[kind])
    vector = _VECTORS.get(size, 0)
    if f"m{m}n{n}k{k}" not in parts or len(types) != 2 or (packed and types != ["e2m1", "e2m1"]) or \
            (vector, scale_type) not in _KINDS[kind] or [p for p in parts if p in ("row", "col")] != ["row", "col"]:
        raise InvalidInstruction(f"{ins.opcode}: no such kind, types, shape or scale factors")
    rest = ins.operands[6 if is_sparse else 4:]
    if len(rest) != 4:
        raise InvalidInstruction(f"{ins.opcode} needs scale operands and their selectors")
    scale_a, select_a, scale_b, select_b = rest
    stored = k // 2 if is_sparse else k
    get_a, get_b = ([decoder.source(o, "b32") for o in items_of(ins.operands[i])] for i in (1, 2))
    e = 8 if packed else 4
    if len(get_a) != m * stored // 32 // e or len(get_b) != n * k // 32 // e:
        raise InvalidInstruction(f"{ins.opcode}: wrong number of fragment registers")
    get_c, put_d = accumulator(decoder, items_of(ins.operands[3]), items_of(ins.operands[0]), "f32", "f32", m * n // 32)
    get_scales = [decoder.source(items_of(o)[0], "b32") for o in (scale_a, scale_b)]
    get_selectors = _selectors(decoder, select_a) + _selectors(decoder, select_b)
    get_meta, metadata = metadata_of(decoder, ins, types[0], k, packed) if is_sparse else (None, None)

    def scales(register: np.ndarray, byte: np.ndarray, thread: np.ndarray, of_a: bool, st) -> np.ndarray:
        """[warps, rows, k]: every element's scale. `byte`, `thread`: the selectors, [warps]."""
        group = np.arange(8) * 4
        if of_a:
            lanes = np.concatenate([group + 2 * thread[:, None], group + 2 * thread[:, None] + 1], axis=1)
        else:
            lanes = group + thread[:, None]
        wrong = (thread > (1 if of_a else 3)) | (byte + vector > 4) | (byte % vector != 0)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise InvalidInstruction(f"{ins.opcode}: block-scale selector {{{byte[i]}, {thread[i]}}} is out of range",
                                     thread=int(st.lanes[32 * i]))
        data = np.ascontiguousarray(register).view(np.uint8).reshape(-1, 32, 4)
        warp = np.arange(len(data))[:, None, None]
        codes = data[warp, lanes[:, :, None], byte[:, None, None] + np.arange(vector)]
        if scale_type == "ue4m3":
            return np.repeat(smallfloat.decode(codes & np.uint8(0x7F), "e4m3"), k // vector, axis=2)
        return np.repeat(smallfloat.decode(codes, "ue8m0"), k // vector, axis=2)

    def run(st):
        ra, rb = warps_of(st, get_a), warps_of(st, get_b)
        if not len(ra[0]):
            return
        sa, sb = warps_of(st, get_scales)
        chosen = [w.astype(np.int64) for w in warps_of(st, get_selectors)]
        for w in chosen:
            if (w != w[:, :1]).any():
                raise InvalidInstruction(f"{ins.opcode}: a block-scale selector differs within a warp")
        byte_a, thread_a, byte_b, thread_b = (w[:, 0] for w in chosen)
        if packed:
            x, y = _narrow(ra, "a", m, stored), _narrow(rb, "b", k, n)
        else:
            x, y = matrix(ra, "a", m, stored, types[0]), matrix(rb, "b", k, n, types[1])
        if metadata is not None:
            word, = warps_of(st, [get_meta])
            x = sparse.expand(x, metadata.columns(word, st), k)
        x = x * scales(sa, byte_a, thread_a, True, st)
        y = y * scales(sb, byte_b, thread_b, False, st).transpose(0, 2, 1)
        product = np.matmul(x, y).reshape(len(x), -1)[:, fragment_map("c", m, n, 32)]
        put_d(st, accumulate(product, get_c(st), "f32", False, False))
    return run
