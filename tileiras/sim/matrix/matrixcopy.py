"""ldmatrix, stmatrix and movmatrix: 8x8 matrices of 16-bit elements between shared memory and fragments.

What stmatrix stores from a register without a value counts as undefined in shared memory, as a store's does."""
from __future__ import annotations

import numpy as np

from tileiras.sim.core import memory as mem
from tileiras.sim.core.decode import operation
from tileiras.sim.errors import InvalidInstruction, UnsupportedInstruction
from tileiras.sim.matrix.fragments import warps_of
from tileiras.sim.memory.loadstore import address_source
from tileiras.sim.ptx import module as ptx

_COUNTS = {"x1": 1, "x2": 2, "x4": 4}


def _count(ins) -> int:
    return next((_COUNTS[p] for p in ins.parts if p in _COUNTS), 1)


def _shared_address(decoder, operand, parts):
    named = any(p.split("::")[0] == "shared" for p in parts)
    get, space = address_source(decoder, operand, "shared" if named else "")
    if space == "shared":
        return get
    if space:
        raise InvalidInstruction("a shared address is needed")
    base = np.uint64(mem.SHARED_WINDOW)
    return lambda st: get(st) - base


def _places(st, address: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Byte offsets of the row addresses that the first `rows` lanes of each warp give, and those lanes: [warps * rows]."""
    lanes = np.ascontiguousarray(st.lanes.reshape(-1, 32)[:, :rows]).reshape(-1)
    chosen = np.ascontiguousarray(address[:, :rows]).reshape(-1)
    off = mem.private_offsets(st, "shared", chosen, 16, lanes)
    return off, lanes


def _rows(st, address: np.ndarray, rows: int) -> np.ndarray:
    """Rows that are read, in 16-byte units: [warps, rows]."""
    off, lanes = _places(st, address, rows)
    mem.check_written(st.written_views["shared"], off, 8, 2, "shared", lanes)
    st.launch.statistics.move("shared", False, 16 * len(off))
    st.launch.statistics.banks(st.where(), off, 16, lanes)
    if st.shadow is not None:
        st.shadow.read("shared", off, 16, lanes, whole=True)
    return (off // 16).reshape(-1, rows)


@operation("ldmatrix")
def _ldmatrix(decoder, ins):
    shape = next((p for p in ins.parts if p in ("m8n8", "m16n16", "m8n16")), "")
    count, trans = _count(ins), "trans" in ins.parts
    target = ins.operands[0]
    items = target.items if isinstance(target, ptx.Vector) else [target]
    get = _shared_address(decoder, ins.operands[1], ins.parts)
    puts = [decoder.scatter_target(o, "b32") for o in items]
    wanted = 2 * count if shape == "m16n16" else count
    if len(items) != wanted:
        raise InvalidInstruction(f"{ins.opcode} writes {wanted} registers")
    if shape == "m8n8" and ins.parts[-1] == "b16":
        def run(st):
            address, = warps_of(st, [get])
            if not len(address):
                return
            at = _rows(st, address, 8 * count)
            data = st.views["shared"].of(8, 2)[at].view(np.uint16).reshape(-1, count, 8, 8)
            for i, put in enumerate(puts):
                block = data[:, i].transpose(0, 2, 1) if trans else data[:, i]
                put(st, np.ascontiguousarray(block).view(np.uint32).reshape(-1))
        return run
    unpack = _unpacker(ins)

    def run_bytes(st):
        address, = warps_of(st, [get])
        if not len(address):
            return
        rows = 16 if shape == "m16n16" else 8
        at = _rows(st, address, rows * count)
        data = unpack(st.views["shared"].of(8, 2)[at].view(np.uint8)).reshape(-1, count, rows, 16)
        for i in range(count):
            block = np.ascontiguousarray(data[:, i].transpose(0, 2, 1) if trans else data[:, i])
            words = block.view(np.uint32)                       # [warps, rows, 4]
            if shape == "m16n16":
                puts[2 * i](st, np.ascontiguousarray(words[:, :8]).reshape(-1))
                puts[2 * i + 1](st, np.ascontiguousarray(words[:, 8:]).reshape(-1))
            else:
                puts[i](st, words.reshape(-1))
    return run_bytes


def _unpacker(ins):
    """Rows of 16 bytes to 16 one-byte elements (packed 6- and 4-bit sources are spread to bytes)."""
    def four(data):
        low = data[..., :8]
        return np.stack([low & np.uint8(15), low >> np.uint8(4)], axis=-1).reshape(*data.shape[:-1], 16)

    def six(data):
        bits = np.unpackbits(data[..., :12], axis=-1, bitorder="little").reshape(*data.shape[:-1], 16, 6)
        return (bits << np.arange(6, dtype=np.uint8)).sum(axis=-1).astype(np.uint8)

    if "b4x16_p64" in ins.parts:
        return four
    if "b6x16_p32" in ins.parts:
        return six
    if ins.parts[-1] == "b8" and "trans" in ins.parts:
        return lambda data: data
    raise UnsupportedInstruction(ins.opcode)


@operation("stmatrix")
def _stmatrix(decoder, ins):
    count, trans = _count(ins), "trans" in ins.parts
    given = ins.operands[1]
    items = given.items if isinstance(given, ptx.Vector) else [given]
    if len(items) != count:
        raise InvalidInstruction(f"{ins.opcode} reads {count} registers")
    get = _shared_address(decoder, ins.operands[0], ins.parts)
    gets, slots = zip(*(decoder.raw_source(o, "b32") for o in items))
    bytes_form = "m16n8" in ins.parts
    if (bytes_form and (ins.parts[-1] != "b8" or not trans)) or (
            not bytes_form and ("m8n8" not in ins.parts or ins.parts[-1] != "b16")):
        raise InvalidInstruction(ins.opcode)

    def arranged(values: list) -> np.ndarray:
        """Fragments, each [warps, 32] uint32, to rows [warps * rows, 2] uint64."""
        blocks = []
        for v in values:
            if bytes_form:                       # a 16x8 matrix of bytes, stored as 8 rows of 16: always transposed
                block = np.ascontiguousarray(v).view(np.uint8).reshape(-1, 8, 4, 2, 2)      # group, t, row half, pair
                block = block.transpose(0, 2, 4, 3, 1).reshape(-1, 8, 16)
            else:
                block = v.view(np.uint16).reshape(-1, 8, 8)
                if trans:
                    block = block.transpose(0, 2, 1)
            blocks.append(np.ascontiguousarray(block).view(np.uint64).reshape(-1, 8, 2))
        return np.stack(blocks, axis=1).reshape(-1, 2)

    def run(st):
        values = warps_of(st, list(gets))
        address, = warps_of(st, [get])
        if not len(address):
            return
        off, lanes = _places(st, address, 8 * count)
        at, data = off // 16, arranged(values)
        view = st.views["shared"].of(8, 2)

        def differs() -> np.ndarray:
            return (view[at] != data).any(axis=1)

        def put() -> None:
            view[at] = data
        st.launch.statistics.move("shared", True, 16 * len(off))
        st.launch.statistics.banks(st.where(), off, 16, lanes)
        if st.shadow is None:
            put()
        else:
            st.shadow.write("shared", off, 16, lanes, differs, differs, store=put, whole=True)
        state = np.uint64(mem._FULL[8])
        if not all(slot is None or st.is_written(slot) for slot in slots):
            state = arranged([_written(st, slot) for slot in slots])
        st.written_views["shared"].of(8, 2)[at] = state
    return run


def _written(st, slot: int | None) -> np.ndarray:
    """Of a register, [warps, 32] uint32: what the bytes stored from it count as, written or undefined."""
    out = np.full(st.size, 0xFFFFFFFF, np.uint32)
    if slot is not None and st.I[slot] is not True:
        out[:] = 0x0F0F0F0F
        if st.I[slot] is not None:
            out[st.I[slot]] = 0xFFFFFFFF
    return out[st.lanes].reshape(-1, 32)


@operation("movmatrix")
def _movmatrix(decoder, ins):
    get, put = decoder.source(ins.operands[1], "b32"), decoder.scatter_target(ins.operands[0], "b32")

    def run(st):
        v, = warps_of(st, [get])
        block = v.view(np.uint16).reshape(-1, 8, 8).transpose(0, 2, 1)
        put(st, np.ascontiguousarray(block).view(np.uint32).reshape(-1))
    return run
