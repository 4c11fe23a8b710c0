"""tcgen05.ld, st, cp and shift: between tensor memory and registers, from shared memory, and within tensor memory.

A load has read its cells and a store has written its when the instruction is executed; that nobody may touch the cells
otherwise before `tcgen05.wait` is what the marks of `tensormemory` are for. The registers of a load may be used before
the wait, since ptxas orders that and compilers rely on it; only a strict launch calls it a finding.
"""
from __future__ import annotations

import numpy as np

from tileiras.sim.check.inflight import registers
from tileiras.sim.errors import InvalidInstruction, TensorMemoryError
from tileiras.sim.matrix import descriptors
from tileiras.sim.matrix.fragments import items_of, warps_of
from tileiras.sim.ptx import module as ptx
from tileiras.sim.scalar.floating import canonical
from tileiras.sim.tcgen05.memory import LANES, LOAD, STORE, Places, tensor_memory
from tileiras.sim.tcgen05.move import COPIES, copy_lanes, register_cells
from tileiras.sim.tcgen05.pipe import check_shared, issue, members_of, require_target, shared_places, tensor_address
from tileiras.sim.tcgen05.product import spread_packed


def _shape(ins) -> tuple[str, int]:
    shape = next((p for p in ins.parts if p in ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")), "")
    count = next((int(p[1:]) for p in ins.parts if p[0] == "x" and p[1:].isdigit()), 0)
    return shape, count


def _immediate(operand, what: str) -> int:
    if not isinstance(operand, ptx.Immediate):
        raise InvalidInstruction(f"{what} must be a constant")
    return operand.value


def _places(st, address, lanes, columns, what: str) -> list[tuple[int, Places]]:
    """[(first thread, cells)] of each warp, [32, registers, cells a register]; checks the warp's quarter."""
    out = []
    tall = int(lanes.max()) >= 16
    for first, given in zip(st.lanes.reshape(-1, 32)[:, 0], address):
        base = int(given[0])
        if (given != given[0]).any():
            raise TensorMemoryError(f"{what}: the threads of a warp give different addresses", thread=int(first))
        quarter = 32 * (int(first) % st.padded // 32 % 4)
        lane = base >> 16
        if lane != quarter and (tall or lane != quarter + 16):
            tensor_memory(st).found(TensorMemoryError(
                f"{what} at lane {lane}: warp {int(first) % st.padded // 32} reaches lanes {quarter} to {quarter + 31}",
                thread=int(first)))
            lane = quarter
        out.append((int(first), Places(int(st.cta_of[first]), lanes + lane, columns + (base & 0xFFFF))))
    return out


def decode_load(decoder, ins):
    """tcgen05.ld: the registers get their values now and can't be used before tcgen05.wait::ld."""
    require_target(decoder, ins)
    shape, count = _shape(ins)
    packed, reducing = "pack::16b" in ins.parts, "red" in ins.parts
    operands = list(ins.operands)
    given = items_of(operands.pop(0))
    reduced = operands.pop(0) if reducing else None
    get = tensor_address(decoder, operands.pop(0))
    split = _immediate(operands.pop(0), "immHalfSplitoff") if shape == "16x32bx2" else 0
    lanes, columns = register_cells(shape, count, split, packed)
    if len(given) != lanes.shape[1] or operands:
        raise InvalidInstruction(f"{ins.opcode} loads {lanes.shape[1]} registers, {len(given)} are given")
    if reducing and (shape not in ("32x32b", "16x32bx2") or count < 2 or
                     decoder.module.target.split(",")[0] in ("sm_100a", "sm_100f")):
        raise InvalidInstruction(ins.opcode)
    puts = [decoder.scatter_target(o, "b32") for o in given]
    slots = [decoder.slot(o) for o in given if isinstance(o, ptx.Register)]
    reduce = _reduction(decoder, ins, reduced) if reduced is not None else None
    if isinstance(reduced, ptx.Register):
        slots.append(decoder.slot(reduced))

    def run(st):
        address, = warps_of(st, [get])
        tensor = tensor_memory(st)
        values = np.zeros((len(address), *lanes.shape), np.uint32)
        for i, (lane, places) in enumerate(_places(st, address, lanes, columns, "tcgen05.ld")):
            if tensor.check_cells(places, lane, "tcgen05.ld", True):
                tensor.use(lane, LOAD, [places], [], "tcgen05.ld")
                values[i] = tensor.data[places.cta, places.lanes, places.columns]
        if packed:
            data = (values[..., 0] & np.uint32(0xFFFF)) | values[..., 1] << np.uint32(16)
        else:
            data = values[..., 0]
        data = data.reshape(-1, data.shape[-1])
        for r, put in enumerate(puts):
            put(st, np.ascontiguousarray(data[:, r]))
        if reduce is not None:
            reduce(st, data)
        if tensor.strict:
            registers(st).begin(slots, "tcgen05.ld", "tcgen05.wait::ld")
    return run


def _reduction(decoder, ins, target):
    """The writer of tcgen05.ld.red's value: the least or greatest of what the thread loaded."""
    kind = next((p for p in ins.parts if p in ("u32", "s32", "f32")), "")
    least, absolute, nan = "min" in ins.parts, "abs" in ins.parts, "NaN" in ins.parts
    if not kind or (least == ("max" in ins.parts)) or ((absolute or nan) and kind != "f32"):
        raise InvalidInstruction(ins.opcode)
    put = decoder.scatter_target(target, "b32")

    def run(st, data):
        x = data.view({"u32": np.uint32, "s32": np.int32, "f32": np.float32}[kind])
        if kind == "f32":
            if absolute:
                x = np.abs(x)
            f = (np.minimum if least else np.maximum) if nan else (np.fmin if least else np.fmax)
            out = canonical(f.reduce(x, axis=1)).view(np.uint32)
        else:
            out = (x.min(axis=1) if least else x.max(axis=1)).view(np.uint32)
        put(st, np.ascontiguousarray(out))
    return run


def decode_store(decoder, ins):
    """tcgen05.st."""
    require_target(decoder, ins)
    shape, count = _shape(ins)
    packed = "unpack::16b" in ins.parts
    operands = list(ins.operands)
    get = tensor_address(decoder, operands.pop(0))
    split = _immediate(operands.pop(0), "immHalfSplitoff") if shape == "16x32bx2" else 0
    given = items_of(operands.pop(0))
    lanes, columns = register_cells(shape, count, split, packed)
    if len(given) != lanes.shape[1] or operands:
        raise InvalidInstruction(f"{ins.opcode} stores {lanes.shape[1]} registers, {len(given)} are given")
    gets = [decoder.source(o, "b32") for o in given]

    def run(st):
        address, = warps_of(st, [get])
        data = np.stack(warps_of(st, gets), axis=-1)[..., None]
        if packed:
            data = np.concatenate([data & np.uint32(0xFFFF), data >> np.uint32(16)], axis=-1)
        tensor = tensor_memory(st)
        for i, (lane, places) in enumerate(_places(st, address, lanes, columns, "tcgen05.st")):
            if tensor.check_cells(places, lane, "tcgen05.st", False):
                tensor.use(lane, STORE, [], [places], "tcgen05.st")
                tensor.data[places.cta, places.lanes, places.columns] = data[i]
                tensor.written[places.cta, places.lanes, places.columns] = True
    return run


def decode_copy(decoder, ins):
    """tcgen05.cp: a matrix of 16-byte rows' pieces from shared memory to tensor memory, perhaps to several quarters."""
    require_target(decoder, ins)
    parts = ins.parts
    shape = next((p for p in parts if p in COPIES), "")
    multicast = next((p for p in parts if p.startswith("warpx")), "")
    lanes = copy_lanes(shape, multicast)
    group = 2 if "cta_group::2" in parts else 1
    width = 6 if "b6x16_p32" in parts else 4 if "b4x16_p64" in parts else 0
    if bool(width) != ("b8x16" in parts):
        raise InvalidInstruction(ins.opcode)
    rows, pieces = COPIES[shape]
    used = np.arange(16) < {0: 16, 6: 12, 4: 8}[width]
    get, desc = tensor_address(decoder, ins.operands[0]), decoder.source(ins.operands[1], "b64")

    def run(st):
        addresses = np.broadcast_to(st.gathered(get(st)), st.lanes.shape)
        words = np.broadcast_to(st.gathered(desc(st)), st.lanes.shape)
        for lane, address, word in zip(st.lanes, addresses, words):
            start(st, int(lane), int(address), int(word))

    def start(st, lane: int, address: int, word: int) -> None:
        tensor = tensor_memory(st)
        descriptor = descriptors.decode(word, "tcgen05", st.program.shared_size)
        chunks = descriptors.chunk_addresses(descriptor, "k", rows, 16 * pieces, 8)
        to, column = lanes + (address >> 16), address & 0xFFFF
        sources, writes, fine = [], [], True
        for cta in members_of(st, lane, group):
            sources.append(shared_places(st, cta, chunks, 16))
            writes.append(Places(cta, to[:, :, None], column + np.arange(4 * pieces)))
            fine = tensor.check_cells(writes[-1], lane, "tcgen05.cp", False) and fine
        for source in sources:
            check_shared(st, source, used, lane, "tcgen05.cp")
        if not fine:
            return

        def perform(st):
            for source, places in zip(sources, writes):
                data = np.ascontiguousarray(st.views["shared"].of(8, 2)[source // 16]).view(np.uint8).reshape(rows, -1)
                if width:
                    data = spread_packed(data, width)
                    if width == 4:
                        data = data << np.uint8(2)
                cells = np.ascontiguousarray(data).view(np.uint32)
                tensor_memory(st).data[places.cta, places.lanes, places.columns] = cells[:, None, :]
        issue(st, lane, "tcgen05.cp", sources, [], writes, perform)
    return run


def decode_shift(decoder, ins):
    """tcgen05.shift.down: in 32 lanes and 8 columns, each lane but the last gets the cells of the lane above it."""
    require_target(decoder, ins)
    if "down" not in ins.parts:
        raise InvalidInstruction(ins.opcode)
    group = 2 if "cta_group::2" in ins.parts else 1
    get = tensor_address(decoder, ins.operands[0])

    def run(st):
        for lane, address in zip(st.lanes, np.broadcast_to(st.gathered(get(st)), st.lanes.shape)):
            start(st, int(lane), int(address))

    def start(st, lane: int, address: int) -> None:
        tensor = tensor_memory(st)
        base, column = address >> 16, address & 0xFFFF
        if base % 32 or base >= LANES:
            raise TensorMemoryError(f"tcgen05.shift at lane {base}, not a multiple of 32", thread=lane)
        reads, writes, fine = [], [], True
        for cta in members_of(st, lane, group):
            columns = column + np.arange(8)
            reads.append(Places(cta, np.arange(base + 1, base + 32)[:, None], columns))
            writes.append(Places(cta, np.arange(base, base + 31)[:, None], columns))
            fine = tensor.check_cells(reads[-1], lane, "tcgen05.shift", True) and fine
        if not fine:
            return

        def perform(st):
            for source, to in zip(reads, writes):
                cells = tensor_memory(st).data[source.cta]
                cells[to.lanes, to.columns] = cells[source.lanes, source.columns].copy()
        issue(st, lane, "tcgen05.shift", [], reads, writes, perform)
    return run
