"""wmma.load, wmma.mma and wmma.store: matrix products by a warp on fragments whose layout nobody may know.

The ISA leaves open which thread holds which element; here element i of a thread is number (lane * count + i) of the
matrix, in row-major order, counted around where a fragment holds the matrix several times (f16 A and B do).
"""
from __future__ import annotations

import re

import numpy as np

from tileiras.sim.core.decode import operation
from tileiras.sim.errors import InvalidInstruction, Misaligned, SimulationError
from tileiras.sim.matrix.fragments import LANE, WIDTH, accumulate, accumulator, chained, elements, value_of, warps_of
from tileiras.sim.memory.loadstore import address_source, deposit, fetch, note_access, space_of
from tileiras.sim.ptx import module as ptx

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)$")
_TALL = ((16, 16, 16), (8, 32, 16), (32, 8, 16))
_SHAPES = {"f16": _TALL, "bf16": _TALL, "s8": _TALL, "u8": _TALL, "tf32": ((16, 16, 8),), "f64": ((8, 8, 4),),
           "s4": ((8, 8, 32),), "u4": ((8, 8, 32),), "b1": ((8, 8, 128),)}
_RESULTS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",)}
_BITS = {**WIDTH, "f32": 32, "s32": 32}
_KINDS = frozenset(_BITS)


def _shape(ins) -> tuple[int, int, int]:
    found = next((m for p in ins.parts if (m := _SHAPE.match(p))), None)
    if found is None:
        raise InvalidInstruction(ins.opcode)
    return int(found[1]), int(found[2]), int(found[3])


def _extent(which: str, shape: tuple[int, int, int]) -> tuple[int, int]:
    m, n, k = shape
    return {"a": (m, k), "b": (k, n)}.get(which, (m, n))


def _registers(which: str, kind: str, shape: tuple[int, int, int]) -> int:
    """Registers of a fragment (PTX ISA, "Matrix Fragments for WMMA")."""
    rows, columns = _extent(which, shape)
    if kind == "f16" and which in "ab":
        return 8
    return rows * columns * _BITS[kind] // (64 if kind == "f64" else 32) // 32


def items_of(operand, count: int, ins) -> list:
    items = operand.items if isinstance(operand, ptx.Vector) else [operand]
    if len(items) != count:
        raise InvalidInstruction(f"{ins.opcode}: a fragment of {count} registers, not {len(items)}")
    return items


class _Access:
    """Where the elements of a fragment are in memory: those of A, B or an accumulator, row- or column-major.

    `unit`: bytes moved at once (an element; for 4-bit and 1-bit elements a word of them); `count`: units of a thread."""

    def __init__(self, decoder, ins, which: str, address, stride) -> None:
        self.which, self.shape = which, _shape(ins)
        kind = self.kind = ins.parts[-1]
        layout = next((p for p in ins.parts if p in ("row", "col")), "")
        inputs = [t for t, shapes in _SHAPES.items() if self.shape in shapes]
        fine = inputs if which in "ab" else {r for t in inputs for r in _RESULTS.get(t, ("s32",))}
        if kind not in fine or not layout or (_BITS[kind] < 8 and layout != {"a": "row", "b": "col"}.get(which)):
            raise InvalidInstruction(f"{ins.opcode}: no such shape, type or layout")
        rows, columns = _extent(which, self.shape)
        bits = _BITS[kind]
        self.registers = _registers(which, kind, self.shape)
        self.unit = max(bits // 8, 1) if bits >= 8 else 4
        self.per_unit = 8 * self.unit // bits
        inner = rows if layout == "col" else columns            # elements that lie one behind the other
        self.count = self.registers * (8 if kind == "f64" else 4) // self.unit
        number = (LANE[:, None] * self.count + np.arange(self.count)) * self.per_unit % (rows * columns)
        if bits < 8 and which == "b":                           # counted along columns, so that a word is one column's
            outer, self.inner = number // inner, number % inner
        else:
            row, column = number // columns, number % columns
            outer, self.inner = (column, row) if layout == "col" else (row, column)
        self.outer = outer
        self.bits = bits
        space = space_of(ins.parts)
        if space not in ("", "shared", "global"):
            raise InvalidInstruction(f"{ins.opcode}: no such state space")
        self.address, self.space = address_source(decoder, address, space)
        self.stride = decoder.source(stride, "u32") if stride is not None else lambda st: np.array([inner], np.uint32)
        self.align = min(4 * self.registers * (2 if kind == "f64" else 1), 16)

    def places(self, st) -> np.ndarray:
        """[warps, 32, count] addresses. Raises for operands that differ within a warp."""
        base, step = warps_of(st, [self.address, self.stride])
        if len(base) and ((base != base[:, :1]).any() or (step != step[:, :1]).any()):
            raise SimulationError("the address or stride of a wmma instruction differs within a warp")
        bad = (base[:, 0] | (step[:, 0].astype(np.uint64) * np.uint64(self.bits) // np.uint64(8))) & np.uint64(self.align - 1)
        if bad.any():
            i = int(np.argmax(bad != 0))
            raise Misaligned(f"rows of a wmma fragment at {int(base[i, 0]):#x}, {int(step[i, 0])} elements apart, aren't "
                             f"multiples of {self.align} bytes", thread=int(st.lanes[32 * i]))
        away = (self.outer * step[:, :1, None].astype(np.int64) + self.inner) * self.bits // 8
        return base[:, :1, None] + away.astype(np.uint64)


@operation("wmma")
def _wmma(decoder, ins):
    what = ins.parts[1]
    if what == "load":
        return _load(decoder, ins)
    if what == "store":
        return _store(decoder, ins)
    if what == "mma":
        return _mma(decoder, ins)
    raise InvalidInstruction(ins.opcode)


def _load(decoder, ins):
    which = ins.parts[2]
    if which not in ("a", "b", "c"):
        raise InvalidInstruction(ins.opcode)
    access = _Access(decoder, ins, which, ins.operands[1], ins.operands[2] if len(ins.operands) > 2 else None)
    wide = access.kind == "f64"
    items = items_of(ins.operands[0], access.registers, ins)
    puts = [decoder.scatter_target(o, "b64" if wide else "b32") for o in items]
    note_access(decoder, access.space, access.unit)

    def run(st):
        if not len(st.lanes):
            return
        places = access.places(st)
        units = [fetch(st, access.space, np.ascontiguousarray(places[:, :, i]).reshape(-1), access.unit, 1)
                 for i in range(access.count)]
        words = np.ascontiguousarray(np.stack(units, axis=-1)).view(np.uint64 if wide else np.uint32)
        for i, put in enumerate(puts):
            put(st, np.ascontiguousarray(words[:, i]))
    return run


def _store(decoder, ins):
    if ins.parts[2] != "d":
        raise InvalidInstruction(ins.opcode)
    access = _Access(decoder, ins, "d", ins.operands[0], ins.operands[2] if len(ins.operands) > 2 else None)
    items = items_of(ins.operands[1], access.registers, ins)
    gets = [decoder.source(o, "b64" if access.kind == "f64" else "b32") for o in items]
    kind = {2: np.uint16, 4: np.uint32, 8: np.uint64}[access.unit]
    note_access(decoder, access.space, access.unit)

    def run(st):
        if not len(st.lanes):
            return
        places = access.places(st)
        units = np.ascontiguousarray(np.stack(warps_of(st, gets), axis=-1)).view(kind)
        for i in range(access.count):
            deposit(st, access.space, np.ascontiguousarray(places[:, :, i]).reshape(-1),
                    np.ascontiguousarray(units[:, :, i]).reshape(-1), access.unit, 1)
    return run


def _mma(decoder, ins):
    parts = ins.parts
    shape = _shape(ins)
    m, n, _ = shape
    types = [p for p in parts if p in _KINDS]
    if len(types) == 2:                             # of f16: the accumulators' types only
        td, ta, tb, tc = types[0], "f16", "f16", types[1]
    elif len(types) == 4:
        td, ta, tb, tc = types
    else:
        raise InvalidInstruction(ins.opcode)
    layouts = [p for p in parts if p in ("row", "col")]
    results = _RESULTS.get(ta, ("s32",))
    same = ta == tb or {ta, tb} in ({"s8", "u8"}, {"s4", "u4"})
    if shape not in _SHAPES.get(ta, ()) or td not in results or tc not in results or not same or len(layouts) != 2 or \
            (_BITS[ta] < 8 and layouts != ["row", "col"]) or len(ins.operands) != 4:
        raise InvalidInstruction(f"{ins.opcode}: no such shape, types or layouts")
    logic = [p for p in parts if p in ("xor", "and")]
    if (ta == "b1") != (len(logic) == 1 and "popc" in parts):
        raise InvalidInstruction(ins.opcode)
    integer = td == "s32"
    mode = next((p for p in parts if p in ("rn", "rz", "rm", "rp")), "rn")
    bits = "b64" if ta == "f64" else "b32"
    get_a, get_b = ([decoder.source(o, bits) for o in items_of(ins.operands[i], _registers(w, t, shape), ins)]
                    for i, w, t in ((1, "a", ta), (2, "b", tb)))
    get_c, put_d = accumulator(decoder, items_of(ins.operands[3], _registers("c", tc, shape), ins),
                               items_of(ins.operands[0], _registers("c", td, shape), ins), tc, td, m * n // 32)

    def matrix(registers: list, kind: str, which: str) -> np.ndarray:
        """[warps, rows, columns] float64."""
        rows, columns = _extent(which, shape)
        codes = elements(registers, kind).reshape(len(registers[0]), -1)[:, :rows * columns]
        values = value_of(codes, kind)
        if which == "b" and _BITS[kind] < 8:
            return values.reshape(-1, columns, rows).transpose(0, 2, 1)
        return values.reshape(-1, rows, columns)

    def run(st):
        ra, rb = warps_of(st, get_a), warps_of(st, get_b)
        if not len(ra[0]):
            return
        x, y, c = matrix(ra, ta, "a"), matrix(rb, tb, "b"), get_c(st)
        if ta == "f64":
            put_d(st, chained(x, y, c.reshape(-1, m, n), mode).reshape(c.shape))
            return
        product = np.matmul(x, y)
        if logic == ["xor"]:
            product = x.sum(axis=2, keepdims=True) + y.sum(axis=1, keepdims=True) - 2 * product
        put_d(st, accumulate(product.reshape(c.shape), c, td, integer, "satfinite" in parts))
    return run
