"""tcgen05.mma in all its forms: decoded, checked and issued as an operation of the tensor core.

Operands in shared memory are read, and the accumulator is written, when the operation happens, which may be as late as
a wait for its commit; descriptors, bounds and the state of tensor memory are checked when it is issued. Rows of A of which
nothing was ever written, or whose sums nobody has begun, pad a tile that has fewer: the accumulator's rows that they make count
as not written, either.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tileiras.machine.tensor import DEPTH_F16
from tileiras.sim.errors import InvalidInstruction, TensorMemoryError
from tileiras.sim.matrix import descriptors
from tileiras.sim.ptx import module as ptx
from tileiras.sim.tcgen05 import product as arithmetic
from tileiras.sim.tcgen05.descriptor import SCALED, ColumnMask, Product, decode_column_mask, decode_instruction
from tileiras.sim.tcgen05.layout import DataPath, data_path, metadata_cells, scale_cells
from tileiras.sim.tcgen05.memory import LANES, Places, tensor_memory
from tileiras.sim.tcgen05.pipe import check_shared, issue, members_of, require_target, shared_places, tensor_address

_instruction = lru_cache(maxsize=1024)(decode_instruction)


@dataclass
class Task:
    """One product of one issuing thread. Offsets are byte offsets in the batch's shared memory: `a` [ctas][chunks] or
    None when A is in tensor memory at `a_column`; `b` [ctas][chunks]."""
    product: Product
    path: DataPath
    ctas: list[int]
    a: list[np.ndarray] | None
    a_column: int
    b: list[np.ndarray]
    column: int
    accumulate: bool
    scale_d: int
    enabled: np.ndarray                  # [ctas, 128] lanes that are updated
    shifted: bool = False
    mask: ColumnMask | None = None
    metadata: int = 0
    scale_a: int = 0
    scale_b: int = 0
    padding: np.ndarray | None = None    # [ctas, 128] lanes whose row of A, or of sums, nobody has written


def _kind(ins) -> str:
    for part in ins.parts:
        if part.startswith("kind::"):
            return part[6:]
    raise InvalidInstruction(f"{ins.opcode} needs a kind")


def _vectors(ins) -> str:
    for part in ins.parts:
        if part.startswith("scale_vec::"):
            return part[11:]
        if part in ("block16", "block32"):
            return part
    return ""


def decode_mma(decoder, ins):
    """A closure that issues the products of the active threads."""
    parts, kind = ins.parts, _kind(ins)
    group = 2 if "cta_group::2" in parts else 1
    ws, sparse, ashift = "ws" in parts, "sp" in parts, "ashift" in parts
    scaled = kind in SCALED
    if scaled != ("block_scale" in parts) or (ws and (scaled or group == 2)) or (ashift and (scaled or ws)):
        raise InvalidInstruction(ins.opcode)
    collector = next((p for p in parts if p.startswith("collector::")), "")
    if ashift and collector.endswith(("::use", "::fill")):
        raise InvalidInstruction(f"{ins.opcode}: .ashift can't use or fill the collector")
    require_target(decoder, ins, kind)
    rest = list(ins.operands)
    d = tensor_address(decoder, rest.pop(0))
    a_operand = rest.pop(0)
    in_tensor = isinstance(a_operand, ptx.Memory)
    if ashift and not in_tensor:
        raise InvalidInstruction(f"{ins.opcode}: .ashift needs A in tensor memory")
    a = tensor_address(decoder, a_operand) if in_tensor else decoder.source(a_operand, "b64")
    b = decoder.source(rest.pop(0), "b64")
    zero = tensor_address(decoder, ptx.Immediate(0))
    meta = tensor_address(decoder, rest.pop(0)) if sparse else zero
    idesc = decoder.source(rest.pop(0), "b32")
    scale_a = tensor_address(decoder, rest.pop(0)) if scaled else zero
    scale_b = tensor_address(decoder, rest.pop(0)) if scaled else zero
    lanes_off = []
    if rest and isinstance(rest[0], ptx.Vector):
        vector = rest.pop(0)
        if scaled or ws or len(vector.items) != 4 * group:
            raise InvalidInstruction(f"{ins.opcode}: disable-output-lane of {len(vector.items)} words")
        lanes_off = [decoder.source(o, "b32") for o in vector.items]
    enable = decoder.source(rest.pop(0), "pred")
    scale_d, column_mask = 0, None
    if rest and ws:
        column_mask = decoder.source(rest.pop(0), "b64")
    elif rest:
        operand = rest.pop(0)
        if kind not in ("f16", "tf32") or not isinstance(operand, ptx.Immediate) or not 0 <= operand.value <= 15:
            raise InvalidInstruction(f"{ins.opcode}: scale-input-d")
        scale_d = operand.value
    if rest:
        raise InvalidInstruction(f"{ins.opcode}: too many operands")
    vectors, name = _vectors(ins), ".".join(("tcgen05.mma", *(p for p in ("ws", "sp") if p in parts), f"kind::{kind}"))

    def run(st):
        given = [np.broadcast_to(st.gathered(get(st)), st.lanes.shape) for get in
                 (d, a, b, meta, idesc, scale_a, scale_b, enable)]
        off = [np.broadcast_to(st.gathered(get(st)), st.lanes.shape) for get in lanes_off]
        masks = None if column_mask is None else np.broadcast_to(st.gathered(column_mask(st)), st.lanes.shape)
        for i, lane in enumerate(st.lanes):
            at_d, at_a, at_b, at_meta, word, at_sa, at_sb, accumulate = (v[i] for v in given)
            product = _instruction(int(word), kind, group=group, ws=ws, sparse=sparse, vectors=vectors)
            path = data_path(product.m, product.n, group, ws, sparse, int(at_d) >> 16)
            ctas = members_of(st, int(lane), group)
            bits = np.array([[int(o[i]) for o in off[4 * c:4 * c + 4]] or [0] * 4 for c in range(len(ctas))], np.uint32)
            enabled = ~np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little").astype(bool) & (path.rows >= 0)
            mask = None if masks is None else decode_column_mask(int(masks[i]), product.m, product.n)
            task = Task(product, path, ctas, None, int(at_a) & 0xFFFF, [], int(at_d) & 0xFFFF, bool(accumulate), scale_d,
                        enabled, ashift, mask, int(at_meta) & 0xFFFF, int(at_sa) & 0xFFFF, int(at_sb) & 0xFFFF)
            if ashift and product.m // group != 128:
                raise InvalidInstruction("tcgen05.mma.ashift needs M of 128, or 256 with a pair", thread=int(lane))
            if in_tensor:
                _check_tensor_a(task, int(at_a), int(at_d), int(lane))
            else:
                task.a = _operand(st, int(at_a), product, True, ctas, product.m // group)
            rows = product.n // group
            if mask is not None and mask.shift:
                rows = -(-(rows + mask.shift) // 16) * 16
            task.b = _operand(st, int(at_b), product, False, ctas, rows)
            _start(st, int(lane), task, name)
    return run


def _check_tensor_a(task: Task, at_a: int, at_d: int, lane: int) -> None:
    if task.product.transpose_a:
        raise InvalidInstruction("a transposed A can't be in tensor memory", thread=lane)
    if at_a >> 16 != at_d >> 16:
        raise TensorMemoryError(f"A starts at lane {at_a >> 16} of tensor memory, the accumulator at lane {at_d >> 16}",
                                thread=lane)


def _operand(st, bits: int, p: Product, of_a: bool, ctas: list[int], rows: int) -> list[np.ndarray]:
    """Offsets of an operand's 16-byte chunks in each CTA's part of the batch's shared memory."""
    descriptor = descriptors.decode(bits, "tcgen05", st.program.shared_size)
    size = arithmetic.row_bytes(p, of_a)
    major = "mn" if (p.transpose_a if of_a else p.transpose_b) else "k"
    width = 4 if p.kind in ("mxf4", "mxf4nvf4") else 8 * arithmetic.CONTAINER.get(p.kind, 1)
    if (descriptor.atom == 32) != (p.kind == "tf32" and major == "mn"):
        raise descriptors.DescriptorError(f"matrix descriptor {bits:#018x}: 32-byte atoms are for transposed tf32, and "
                                          "transposed tf32 is for them")
    chunks = descriptors.chunk_addresses(descriptor, major, rows, size * 8 // width, width)
    return [shared_places(st, cta, chunks, 16) for cta in ctas]


def _tensor_places(task: Task, cta: int, index: int) -> tuple[list[Places], list[Places]]:
    """(cells read, cells written) in one CTA; the accumulator, when it is read, last of the former."""
    p, path = task.product, task.path
    lanes = np.flatnonzero(task.enabled[index])
    cells = Places(cta, lanes[:, None], task.column + np.arange(path.columns)[None, :])
    reads: list[Places] = []
    if task.a is None:
        used = np.flatnonzero(path.rows >= 0)
        reads.append(Places(cta, used[:, None], task.a_column + np.arange(arithmetic.row_bytes(p, True) // 4)[None, :]))
    for partition in range(4):
        if p.vectors:
            for of_b in (False, True):
                at, column = _scale_places(task, partition, of_b)
                reads.append(Places(cta, at[:, None], column))
        if p.sparse:
            at, column, _ = metadata_cells(p.kind, path, partition, p.k, p.selector)
            reads.append(Places(cta, at, task.metadata + column))
    if task.accumulate:
        kept = lanes if task.padding is None else lanes[~task.padding[index][lanes]]
        reads.append(Places(cta, kept[:, None], cells.columns))
    return reads, [cells]


def _start(st, lane: int, task: Task, name: str) -> None:
    """Check a product's operands and issue it."""
    tensor = tensor_memory(st)
    task.padding = _padding(st, task)
    reads, writes = [], []
    for index, cta in enumerate(task.ctas):
        r, w = _tensor_places(task, cta, index)
        fine = all(tensor.check_cells(places, lane, name, True) for places in r)
        fine = fine and all(tensor.check_cells(places, lane, name, False) for places in w)
        reads += r
        writes += w
    p = task.product
    for type_, operand, transposed in ((p.a, task.a, p.transpose_a), (p.b, task.b, p.transpose_b)):
        used = np.ones(16, bool) if transposed else arithmetic.used_bytes(p, type_, 16)
        for index, chunks in enumerate(operand or ()):
            if operand is task.a and task.padding is not None:
                chunks = np.delete(chunks, task.path.rows[task.padding[index]], axis=0)
            check_shared(st, chunks, used, lane, name)
    shared = [chunks for operand in (task.a, task.b) for chunks in operand or ()]
    st.launch.statistics.flops += 2 * p.m * p.n * p.k
    st.launch.statistics.tensor_work += 2 * p.m * p.n * DEPTH_F16
    issue(st, lane, name, shared, reads, writes, lambda st: _perform(st, task))
    if task.padding is not None:
        for index, cta in enumerate(task.ctas):
            lanes = np.flatnonzero(task.padding[index] & task.enabled[index])
            tensor.written[cta, lanes[:, None], writes[index].columns] = False


def _padding(st, task: Task) -> np.ndarray | None:
    """[ctas, 128]: the lanes whose row of A, which lies in shared memory with K contiguous, has no byte that was ever written, or
    (the room may hold what another buffer left there) whose sums so far have no column that was, though others have; None where
    there are none, or nothing else."""
    if task.a is None or task.product.transpose_a:
        return None
    written = st.written_views["shared"].of(8, 2)
    rows = [written[chunks // 16].view(np.uint8).reshape(len(chunks), -1).any(axis=1) for chunks in task.a]
    found = np.stack([~have[task.path.rows] & (task.path.rows >= 0) for have in rows])
    if task.accumulate:
        columns = task.column + np.arange(task.path.columns)
        cells = tensor_memory(st).written
        sums = np.stack([np.take(cells[cta], columns, axis=1, mode="clip").any(axis=1) for cta in task.ctas])
        found |= ~sums & sums.any(axis=1, keepdims=True) & (task.path.rows >= 0)
    return found if found.any() and any(have.any() for have in rows) else None


def _matrix(st, offsets: np.ndarray, p: Product, of_a: bool, rows: int) -> np.ndarray:
    """An operand in shared memory as float64 [rows, k]."""
    data = st.views["shared"].of(8, 2)[offsets // 16]
    major = "mn" if (p.transpose_a if of_a else p.transpose_b) else "k"
    size = arithmetic.row_bytes(p, of_a)
    if major == "k":
        raw = np.ascontiguousarray(data).view(np.uint8).reshape(rows, size)
    else:
        width = 8 * arithmetic.CONTAINER.get(p.kind, 1)
        codes = descriptors.unpack(data, "mn", rows, size * 8 // width, width)
        raw = np.ascontiguousarray(codes).view(np.uint8).reshape(rows, size)
    return arithmetic.values(raw, p, p.a if of_a else p.b)


def _perform(st, task: Task) -> None:
    tensor = tensor_memory(st)
    p, path = task.product, task.path
    group = len(task.ctas)
    b = np.concatenate([_matrix(st, part, p, False, part.shape[0] if not p.transpose_b else part.shape[0] * 128 //
                                (8 * arithmetic.CONTAINER.get(p.kind, 1))) for part in task.b])
    if task.mask is not None:
        b = b[task.mask.shift:task.mask.shift + p.n].copy()
        b[task.mask.zero] = 0.0
    for index, cta in enumerate(task.ctas):
        cells = tensor.data[cta]
        whole = None if task.a is None else _matrix(st, task.a[index], p, True, p.m // group)
        for partition in range(4):
            lanes = np.arange(32 * partition, 32 * partition + 32)
            lanes = lanes[path.rows[lanes] >= 0]
            keep = task.enabled[index][lanes]
            if not keep.any():
                continue
            if whole is None:
                source = np.minimum(lanes + 1, LANES - 1) if task.shifted else lanes
                words = cells[source[:, None], task.a_column + np.arange(arithmetic.row_bytes(p, True) // 4)]
                a = arithmetic.values(words.view(np.uint8), p, p.a, True)
            else:
                a = whole[path.rows[lanes]]
            if p.sparse:
                at, column, bit = metadata_cells(p.kind, path, partition, p.k, p.selector)
                chunks = cells[at, task.metadata + column] >> bit.astype(np.uint32) & np.uint32(15)
                a = arithmetic.spread_sparse(a, chunks.astype(np.int64), p.kind)
            first = int(path.first[lanes[0]])
            part = b[first:first + path.columns]
            if p.vectors:
                a = a * _scale_factors(cells, task, partition, False)
                part = part * _scale_factors(cells, task, partition, True)
            columns = task.column + np.arange(path.columns)
            old = cells[lanes[:, None], columns] if task.accumulate else None
            new = arithmetic.multiply(p, a, part.T, old, task.scale_d)
            cells[lanes[keep][:, None], columns] = new[keep]


def _scale_places(task: Task, partition: int, of_b: bool) -> tuple[np.ndarray, np.ndarray]:
    """(lanes [rows], columns [rows, words]) of the words with one partition's scale factors. A row's second word, where
    its factors need two, lies behind the first words of 128 (of a B with N above 128: of 256) rows."""
    p = task.product
    at, column = scale_cells(task.path, partition, of_b)
    words = -(-(p.vectors + (p.scale_b if of_b else p.scale_a)) // 4)
    step = 8 if of_b and task.path.columns > 128 else 4
    return at, (task.scale_b if of_b else task.scale_a) + column[:, None] + step * np.arange(words)


def _scale_factors(cells: np.ndarray, task: Task, partition: int, of_b: bool) -> np.ndarray:
    """[rows, k]: what the elements of A's rows, or B's columns, are multiplied by in one partition."""
    p = task.product
    at, column = _scale_places(task, partition, of_b)
    return arithmetic.scales(cells[at[:, None], column], p, p.scale_b if of_b else p.scale_a)
