"""cp.async.bulk.tensor, cp.reduce.async.bulk.tensor and their prefetch; tensormap.replace and tensormap.cp_fenceproxy.

A load is one operation for each destination CTA: the box lands, then the mbarrier gets the bytes of the whole box, the
part outside the tensor too. A store is two operations, as in `bulk`. The tensor map is read when the instruction is
issued; a map that the kernel itself wrote must have been released and acquired for the tensormap proxy
(`Maps`): otherwise that is a MissingProxyFence finding.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tileiras.sim.check.agents import Operation
from tileiras.sim.copy import box, tensormap
from tileiras.sim.copy.bulk import bulk_store, check_source, peers, shared_ranges
from tileiras.sim.copy.bulkreduce import reduce as reduce_bytes
from tileiras.sim.copy.tensormap import MAP_BYTES, Map
from tileiras.sim.core import memory as mem
from tileiras.sim.core.decode import SYNCHRONOUS, operation
from tileiras.sim.errors import (
    DescriptorError,
    InvalidInstruction,
    Misaligned,
    MissingProxyFence,
    OutOfBounds,
    UninitializedRead,
    UnsupportedInstruction,
)
from tileiras.sim.memory import mbarrier
from tileiras.sim.memory.loadstore import address_source
from tileiras.sim.ptx import module as ptx

MAP_ALIGN = 64
SHARED_ALIGN = 128
_MODES = ("tile", "tile::gather4", "tile::scatter4", "im2col", "im2col::w", "im2col::w::128", "im2col_no_offs")
_REDUCIBLE = {"add": ("u32", "s32", "u64", "f16", "f32", "f32.ftz", "f64", "bf16"),
              "min": ("u32", "s32", "u64", "s64", "f16", "bf16"), "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
              "inc": ("u32",), "dec": ("u32",)}
_BITWISE = {"u32": "b32", "s32": "b32", "u64": "b64", "s64": "b64", "f32": "b32", "f64": "b64"}


# ---- decoding

@operation("cp.async.bulk.tensor", "cp.async.bulk.prefetch.tensor", "cp.reduce.async.bulk.tensor")
def decode_tensor(decoder, ins) -> Callable:
    """cp{.reduce}.async.bulk{.prefetch}.tensor."""
    parts = ins.parts
    rank = next((int(p[0]) for p in parts if len(p) == 2 and p[1] == "d" and p[0] in "12345"), 0)
    if not rank:
        raise InvalidInstruction(f"{ins.opcode} needs a number of dimensions")
    mode = next((p for p in parts if p in _MODES), "tile")
    if mode.startswith("im2col") and rank < 3:
        raise InvalidInstruction(f"{ins.opcode}: im2col needs 3 dimensions at least")
    if mode.startswith("tile::") and rank != 2:
        raise InvalidInstruction(f"{ins.opcode}: {mode} needs 2 dimensions")
    operands = list(ins.operands)
    if "L2::cache_hint" in parts:
        decoder.source(operands.pop(), "b64")
    if "prefetch" in parts:
        where = _map_and_coords(decoder, operands[0], rank, mode)
        info, _ = _info(decoder, operands[1:], mode, rank)
        return _prefetch(where, info, mode, rank)
    spaces = [p for p in parts if p.split("::")[0] in ("shared", "global")]
    if spaces == ["global", "shared::cta"]:
        if "bulk_group" not in parts:
            raise InvalidInstruction(f"{ins.opcode} needs .bulk_group")
        if mode not in ("tile", "tile::scatter4", "im2col_no_offs"):
            raise InvalidInstruction(f"{ins.opcode}: a store has no mode .{mode}")
        return _store(decoder, ins, operands, rank, mode)
    if spaces in (["shared::cta", "global"], ["shared::cluster", "global"]):
        if "mbarrier::complete_tx::bytes" not in parts:
            raise InvalidInstruction(f"{ins.opcode} needs .mbarrier::complete_tx::bytes")
        if mode in ("tile::scatter4", "im2col_no_offs") or "reduce" in parts:
            raise InvalidInstruction(f"{ins.opcode}: no such load")
        return _load(decoder, ins, operands, rank, mode, spaces[0] == "shared::cluster")
    raise InvalidInstruction(f"{ins.opcode}: no such direction")


def _map_and_coords(decoder, operand, rank: int, mode: str):
    """Getters of the map's address and of the coordinates, [lanes, coordinates]."""
    vector = (getattr(operand, "coordinates", None) or [None])[0]
    if not isinstance(vector, ptx.Vector):
        raise InvalidInstruction("an operand [tensorMap, {coordinates}] is needed")
    address, space = address_source(decoder, ptx.Memory(operand.base, operand.offset), "")
    if space not in ("", "global"):
        raise InvalidInstruction("a tensor map lies in global, constant or parameter memory")
    count = 5 if mode.startswith("tile::") else rank
    if len(vector.items) != count:
        raise InvalidInstruction(f"{len(vector.items)} coordinates where {count} are needed")
    gets = [decoder.source(c, "s32") for c in vector.items]
    return address, gets


def _info(decoder, operands: list, mode: str, rank: int) -> tuple[list, list]:
    """Getters of the im2col operand, and the operands left."""
    if mode not in ("im2col", "im2col::w", "im2col::w::128"):
        return [], operands
    if not operands or not isinstance(operands[0], ptx.Vector):
        raise InvalidInstruction(f"{mode} needs its vector of offsets")
    items = operands[0].items
    count = rank - 2 if mode == "im2col" else 2
    if len(items) != count:
        raise InvalidInstruction(f"{mode} needs {count} offsets, found {len(items)}")
    return [decoder.source(x, "u16") for x in items], operands[1:]


def _vectors(st, gets: list) -> np.ndarray:
    lanes = len(st.lanes)
    return np.stack([st.gathered(g(st)).astype(np.int64) for g in gets], axis=-1) if gets else np.zeros((lanes, 0), np.int64)


# ---- maps

@dataclass
class _Written:
    """A tensor map that the kernel wrote: who may use it."""
    released: bool = False
    acquired: set = field(default_factory=set)      # threads' warps that acquired it


class Maps:
    """The tensor maps that a launch's kernels wrote, by address: what a use of them needs first."""

    def __init__(self) -> None:
        self.written: dict[int, _Written] = {}
        self.released = -1                                      # when anybody last released for the tensormap proxy
        self.acquired: dict[tuple, int] = {}                    # (map, batch, warp) -> when it acquired the map

    def write(self, address: int) -> None:
        """The kernel writes a map in global memory by ordinary accesses."""
        self.written[address] = _Written()

    def release(self, now: int, address: int | None = None) -> None:
        """A release for the tensormap proxy, of one map or of all written before."""
        self.released = now
        for a, w in self.written.items():
            if address is None or a == address:
                w.released = True

    def acquire(self, now: int, address: int, warps) -> None:
        """An acquire for the tensormap proxy."""
        for warp in warps:
            self.acquired[(address, *warp)] = now
        for a, w in self.written.items():
            if address <= a < address + MAP_BYTES and w.released:
                w.acquired.update(warps)


def maps_of(st) -> Maps:
    """The launch's written tensor maps."""
    launch = st.launch
    if launch.tensor_maps is None:
        launch.tensor_maps = Maps()
    return launch.tensor_maps


def _fetch_map(st, address: int, lane: int) -> Map:
    """Decode the map at a generic address; check its place, its fences and its fields."""
    if address < mem.GLOBAL_BASE:
        raise OutOfBounds(f"the tensor map at {address:#x} isn't in global, constant or parameter memory", thread=lane)
    if address % MAP_ALIGN:
        raise Misaligned(f"the tensor map's address {address:#x} isn't a multiple of {MAP_ALIGN}", thread=lane)
    data = st.memory.bytes_at(address, MAP_BYTES)
    what = _missing_fence(st, address, lane)
    if what:
        mbarrier.finding(st, MissingProxyFence(f"the tensor map at {address:#x} was written by the kernel and is used without "
                                               f"fence.proxy.tensormap::generic.{what}"), lane)
    try:
        return tensormap.decode(data.tobytes())
    except DescriptorError as error:
        raise DescriptorError(error.detail, thread=lane) from None


def _missing_fence(st, address: int, lane: int) -> str:
    """The fence, "release" or "acquire", that is missing between the kernel's writes to a map and a use; "" for none."""
    maps = st.launch.tensor_maps
    warp = st.first, lane // 32
    written = maps.written.get(address) if maps is not None else None
    if written is not None:
        return "" if written.released and warp in written.acquired else "acquire" if written.released else "release"
    world = st.launch.world
    if world is None:
        return ""
    first = (address - mem.GLOBAL_BASE) // world.granule
    at = slice(first, first + max(MAP_BYTES // world.granule, 1))
    if not world.writer[at].any():
        return ""
    time = int(world.wtime[at].max())               # of ordinary stores, or of a copy into the map
    if maps is None or maps.released < time:
        return "release"
    return "" if maps.acquired.get((address, *warp), -1) >= time else "acquire"


def _now(st) -> int:
    return st.order.tick() if st.order is not None else 0


def _global_rows(st, m: Map, rows: box.Rows, lane: int, write: bool) -> int:
    """The tensor's offset in global memory; what the box touches must be allocated."""
    base = m.address - mem.GLOBAL_BASE
    ends = box.bounds(rows)
    if ends is None:
        return base
    lanes = np.array([lane])
    first, last = m.address + ends[0], m.address + ends[1] - 1
    if not 0 <= first < last < 1 << 63:
        raise OutOfBounds(f"the tensor map's box reaches {first:#x}", thread=lane)
    low = int(st.memory.offsets(np.array([first], np.uint64), 1, lanes, write)[0])
    high = int(st.memory.offsets(np.array([last], np.uint64), 1, lanes, write)[0])
    if st.memory.allocation(low) != st.memory.allocation(high):
        raise OutOfBounds("the tensor map's box reaches over several allocations: the tensor is larger than its memory"
                          + st.memory.nearest(high), thread=lane)
    return base


BOX_BITS = 128
"""What a box begins at multiples of along memory: an H100 takes another place for an illegal instruction."""


def _rows(st, m: Map, mode: str, rank: int, coords: np.ndarray, info: np.ndarray, lane: int) -> box.Rows:
    if m.rank != rank:
        raise DescriptorError(f"a tensor map of {m.rank} dimensions in an instruction of {rank}", thread=lane)
    step = 128 if m.element in ("b4x16_p64", "b6x16_p32") else 2 if m.bits == 4 else 1
    if int(coords[0]) % step:
        raise Misaligned(f"coordinate {int(coords[0])} of dimension 0 isn't a multiple of {step}, as {m.element} needs",
                         thread=lane)
    if int(coords[0]) * m.bits % BOX_BITS:
        raise Misaligned(f"a box begins at coordinate {int(coords[0])} of dimension 0, which is no multiple of 16 bytes",
                         thread=lane)
    try:
        return box.rows_of(m, "im2col" if mode == "im2col_no_offs" else mode, tuple(int(c) for c in coords),
                           tuple(int(x) for x in info))
    except DescriptorError as error:
        raise DescriptorError(error.detail, thread=lane) from None


def _touched(rows: box.Rows, base: int) -> tuple[str, np.ndarray, int]:
    """The global bytes of a box as a place for the watch: where its rows start, and their size."""
    return "global", base + rows.starts[rows.inside], rows.count


# ---- loads

def _load(decoder, ins, operands: list, rank: int, mode: str, cluster: bool) -> Callable:
    parts = ins.parts
    to, _ = address_source(decoder, operands[0], "shared")
    where, coordinates = _map_and_coords(decoder, operands[1], rank, mode)
    locate = mbarrier.locator(decoder, operands[2], ("shared",), cluster)
    info, rest = _info(decoder, operands[3:], mode, rank)
    mask = None
    if "multicast::cluster" in parts:
        if not cluster or not rest:
            raise InvalidInstruction(f"{ins.opcode}: multicast needs shared::cluster and a mask")
        mask = decoder.source(rest.pop(0), "u16")
    if rest:
        raise InvalidInstruction(f"{ins.opcode} with {len(ins.operands)} operands")
    paired = "cta_group::2" in parts

    def load(st):
        lanes = st.lanes
        if not len(lanes):
            return
        address, coords, offsets = st.gathered(where(st)), _vectors(st, coordinates), _vectors(st, info)
        bars, target = locate(st), st.gathered(to(st))
        masks = None if mask is None else st.gathered(mask(st))
        stride = max(st.shared_stride, 1)
        for i in range(len(lanes)):
            lane = int(lanes[i])
            m = _fetch_map(st, int(address[i]), lane)
            rows = _rows(st, m, mode, rank, coords[i], offsets[i], lane)
            base = _global_rows(st, m, rows, lane, False)
            n = len(rows.starts)
            off = _shared_box(st, target[i:i + 1], box.span(m, n, rows.width), lane, cluster)
            bar = int(bars[i])
            if masks is None:
                pairs = [(off, bar)]
            else:
                targets = peers(st, off, int(masks[i]), lane)
                pairs = [(t, _signal(t, bar, stride, paired)) for t in targets]
            tx = rows.width * n
            for t, b in pairs:
                _check_pair(st, t, b, stride, paired, lane)
                mbarrier.engine_uses(st, b, lane)
                st.agents.issue(TensorLoad(lane, m, rows, base, t, b, tx, stride))
    return load


def _shared_box(st, address: np.ndarray, size: int, lane: int, cluster: bool) -> int:
    """The offset of a box's memory, for one thread."""
    return int(shared_ranges(st, address, np.array([size]), SHARED_ALIGN, cluster, np.array([lane]))[0])


def _signal(target: int, bar: int, stride: int, paired: bool) -> int:
    """The mbarrier that a multicast signals for one destination: in its CTA, or in the CTA of its pair that has the
    parity of the given mbarrier's CTA."""
    cta = target // stride
    if paired:
        cta = cta - cta % 2 + bar // stride % 2
    return cta * stride + bar % stride


def _check_pair(st, target: int, bar: int, stride: int, paired: bool, lane: int) -> None:
    a, b = target // stride, bar // stride
    if a == b or (paired and a // 2 == b // 2):
        return
    where = "the destination's CTA or its peer" if paired else "the destination's CTA"
    raise OutOfBounds(f"the mbarrier of a tensor copy must be in {where}", thread=lane)


class TensorLoad(Operation):
    """A box from global to shared memory, then the bytes of the whole box to an mbarrier."""

    def __init__(self, lane: int, m: Map, rows: box.Rows, base: int, target: int, bar: int, tx: int, stride: int) -> None:
        self.map, self.rows, self.base, self.bar, self.tx = m, rows, base, bar, tx
        self.units = _units(m, rows, target, stride)
        self.unit = 8 if m.atomicity == 2 else 16
        super().__init__("cp.async.bulk.tensor", lane, reads=[_touched(rows, base)],
                         writes=[("shared", _sixteens(self.units, self.unit))])
        self.signals = [bar]

    def begin(self, st) -> None:
        """The destination has no value until the box lands."""
        _view(st.shared_written, self.unit)[self.units] = 0

    def perform(self, st) -> None:
        """Copy."""
        m, rows = self.map, self.rows
        block = box.read_rows(st.memory.data, self.base, rows)
        box.fill(m, rows, block)
        if m.tf32:
            box.to_tf32(block)
        block = np.ascontiguousarray(box.pad(m, block))
        shape = (*self.units.shape, -1)
        _view(st.shared, self.unit)[self.units] = block.view(np.uint64).reshape(shape)
        written = np.full(block.shape, mem.WRITTEN, np.uint8)
        padding = box.padding_of(m, len(rows.starts), rows.width)
        if padding is not None:
            written[padding] = mem.UNDEFINED
        _view(st.shared_written, self.unit)[self.units] = written.view(np.uint64).reshape(shape)

    def complete(self, st) -> None:
        """Tell the mbarrier."""
        mbarrier.engine_brings(st, self.bar, self, self.tx)


def _units(m: Map, rows: box.Rows, target: int, stride: int) -> np.ndarray:
    """The box in units of 16 (or 8) bytes of the batch's shared memory, [rows, units]. The swizzle looks at addresses."""
    unit = 8 if m.atomicity == 2 else 16
    address = target % stride + mem.SHARED_START
    wide = box.shared_width(m, rows.width)
    places = box.places(address, len(rows.starts), wide, m.swizzle, m.atomicity)
    return (places + (target - address)) // unit


def _sixteens(units: np.ndarray, unit: int) -> np.ndarray:
    """Byte offsets of the 16 bytes that units lie in, each once."""
    flat = units.reshape(-1)
    return flat * 16 if unit == 16 else np.unique(flat // 2) * 16


def _view(data: np.ndarray, unit: int) -> np.ndarray:
    return data[:len(data) // 16 * 16].view(np.uint64).reshape(-1, unit // 8)


# ---- stores and reductions

def _store(decoder, ins, operands: list, rank: int, mode: str) -> Callable:
    where, coordinates = _map_and_coords(decoder, operands[0], rank, mode)
    source, _ = address_source(decoder, operands[1], "shared")
    if len(operands) != 2:
        raise InvalidInstruction(f"{ins.opcode} with {len(ins.operands)} operands")
    op = next((p for p in ins.parts if p in (*_REDUCIBLE, "and", "or", "xor")), "") if "reduce" in ins.parts else ""
    if "reduce" in ins.parts and not op:
        raise InvalidInstruction(f"{ins.opcode} needs a reduction")

    def store(st):
        lanes = st.lanes
        if not len(lanes):
            return
        address, coords, at = st.gathered(where(st)), _vectors(st, coordinates), st.gathered(source(st))
        stride = max(st.shared_stride, 1)
        seen = set()
        for i in range(len(lanes)):
            lane = int(lanes[i])
            # threads of a warp that store one box to one place do so once: compilers leave out the election there
            key = lane >> 5, int(address[i]), int(at[i]), coords[i].tobytes()
            if key in seen and not op:
                continue
            seen.add(key)
            m = _fetch_map(st, int(address[i]), lane)
            columns = coords[i][:1] if mode == "tile::scatter4" else coords[i]
            if (columns < 0).any():
                mbarrier.finding(st, OutOfBounds("a tensor store starts at a negative coordinate"), lane)
            if mode == "im2col_no_offs" and (min(m.lower, default=0) < 0 or max(m.upper, default=0) > 0):
                mbarrier.finding(st, DescriptorError("a store's im2col bounding box leaves the tensor"), lane)
            rows = _rows(st, m, mode, rank, coords[i], np.zeros(0, np.int64), lane)
            kind = _reduction(m, op, lane)
            if m.element == "b4x16_p64":
                raise DescriptorError("tensor stores don't take b4x16_p64", thread=lane)
            base = _global_rows(st, m, rows, lane, True)
            off = _shared_box(st, at[i:i + 1], box.span(m, len(rows.starts), rows.width), lane, False)
            units = _units(m, rows, off, stride)
            unit = 8 if m.atomicity == 2 else 16
            _check_units(st, units, unit, lane)
            bulk_store(st, lane, [("shared", _sixteens(units, unit))], [_touched(rows, base)],
                       lambda st, units=units, unit=unit: _view(st.shared, unit)[units].copy(),
                       lambda st, data, m=m, rows=rows, base=base, kind=kind: _put(st, m, rows, base, data, op, kind), bool(op))
    return store


def _check_units(st, units: np.ndarray, unit: int, lane: int) -> None:
    state = _view(st.shared_written, unit)[units]
    if not (state.view(np.uint8) != 0).all():
        first = int(units.reshape(-1)[0]) * unit
        raise UninitializedRead(f"a tensor store's source in shared memory (offset {first} of the batch) wasn't written",
                                thread=lane)


def _reduction(m: Map, op: str, lane: int) -> str:
    """The type in which a reduction works."""
    if not op:
        return ""
    if op in ("and", "or", "xor"):
        if m.element in _BITWISE:
            return _BITWISE[m.element]
    elif m.element in _REDUCIBLE[op]:
        return m.element
    raise DescriptorError(f"a reduction .{op} of elements of type {m.element}", thread=lane)


def _put(st, m: Map, rows: box.Rows, base: int, data: np.ndarray, op: str, kind: str) -> None:
    block = np.ascontiguousarray(data).reshape(len(rows.starts), -1).view(np.uint8)
    block = box.unpad(m, block)
    if op:
        old = box.read_rows(st.memory.data, base, rows)
        block = reduce_bytes(op, kind, old.reshape(-1), block.reshape(-1)).reshape(block.shape)
    box.write_rows(st.memory.data, base, rows, block)


def _prefetch(where, info: list, mode: str, rank: int) -> Callable:
    address, coordinates = where

    def prefetch(st):
        lanes = st.lanes
        if not len(lanes):
            return
        at, coords, offsets = st.gathered(address(st)), _vectors(st, coordinates), _vectors(st, info)
        for i in range(len(lanes)):
            lane = int(lanes[i])
            _rows(st, _fetch_map(st, int(at[i]), lane), mode, rank, coords[i], offsets[i], lane)
    return prefetch


# ---- tensormap.replace and tensormap.cp_fenceproxy

_ORDINALS = {"box_dim": 5, "global_dim": 5, "global_stride": 4, "element_stride": 5}
_CONSTANT = {"elemtype": 16, "interleave_layout": 3, "swizzle_mode": 5, "swizzle_atomicity": 4, "fill_mode": 2}


@operation("tensormap")
def _tensormap(decoder, ins):
    if ins.parts[1] == "replace":
        return _replace(decoder, ins)
    if ins.parts[1] == "cp_fenceproxy":
        return _copy_fence(decoder, ins)
    raise UnsupportedInstruction(ins.opcode)


SYNCHRONOUS["tensormap"] = lambda ins: "aligned" in ins.parts


def _replace(decoder, ins) -> Callable:
    parts = ins.parts
    field_ = parts[3] if len(parts) > 3 else ""
    if parts[2] != "tile" or field_ not in (*tensormap.FIELDS, "global_stride"):
        raise InvalidInstruction(f"{ins.opcode}: no such field")
    wide = field_ in ("global_address", "global_stride")
    if parts[-1] != ("b64" if wide else "b32") or "b1024" not in parts:
        raise InvalidInstruction(f"{ins.opcode}: the type must be .b1024.{'b64' if wide else 'b32'}")
    operands = list(ins.operands)
    ordinal = 0
    if field_ in _ORDINALS:
        which = operands.pop(1)
        if not isinstance(which, ptx.Immediate) or not 0 <= which.value < _ORDINALS[field_]:
            raise InvalidInstruction(f"{ins.opcode}: the ordinal must be a constant below {_ORDINALS[field_]}")
        ordinal = which.value
    if field_ in _CONSTANT and (not isinstance(operands[1], ptx.Immediate) or
                                not 0 <= operands[1].value < _CONSTANT[field_]):
        raise InvalidInstruction(f"{ins.opcode}: the value must be a constant below {_CONSTANT[field_]}")
    space = next((p.split("::")[0] for p in parts if p in ("global", "shared::cta")), "")
    address, _ = address_source(decoder, operands[0], space)
    value = decoder.source(operands[1], "b64" if wide else "b32")

    def replace(st):
        lanes = st.lanes
        at, new = st.gathered(address(st)), st.gathered(value(st))
        for i in range(len(lanes)):
            lane, where = int(lanes[i]), int(at[i])
            shared = space == "shared" or (not space and mem.SHARED_WINDOW <= where < mem.SHARED_WINDOW + mem.WINDOW_SIZE)
            if where % MAP_ALIGN:
                raise Misaligned(f"the tensor map's address {where:#x} isn't a multiple of {MAP_ALIGN}", thread=lane)
            if shared:
                off = int(mem.shared_places(st, at[i:i + 1], 1, lanes[i:i + 1], generic=not space)[0])
                mem.shared_places(st, at[i:i + 1] + np.uint64(MAP_BYTES - 1), 1, lanes[i:i + 1], generic=not space)
                check_source(st, off, MAP_BYTES, lane)
                data = st.shared[off:off + MAP_BYTES]
                _watch(st, "shared", off, lanes[i:i + 1])
            else:
                st.memory.offsets(at[i:i + 1], 1, lanes[i:i + 1], True)
                data = st.memory.bytes_at(where, MAP_BYTES)
                maps_of(st).write(where)
            data[:] = np.frombuffer(tensormap.replace(data.tobytes(), field_, ordinal, int(new[i])), np.uint8)
    return replace


def _watch(st, space: str, off: int, lanes: np.ndarray) -> None:
    """Tell the watch that a thread reads and writes a whole map."""
    shadow = st.shadow
    if shadow is not None:
        where = off + np.arange(0, MAP_BYTES, 16)
        shadow.read(space, where, 16, np.repeat(lanes, len(where)))
        shadow.write(space, where, 16, np.repeat(lanes, len(where)))


def _copy_fence(decoder, ins) -> Callable:
    needed = {"global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"}
    if not needed <= set(ins.parts):
        raise InvalidInstruction(f"{ins.opcode} needs {', '.join(sorted(needed - set(ins.parts)))}")
    to, _ = address_source(decoder, ins.operands[0], "global")
    source, _ = address_source(decoder, ins.operands[1], "shared")
    size = ins.operands[2]
    if not isinstance(size, ptx.Immediate) or size.value != MAP_BYTES:
        raise InvalidInstruction(f"{ins.opcode} copies {MAP_BYTES} bytes")

    def copy(st):
        lanes = st.lanes
        target, origin = st.gathered(to(st)), st.gathered(source(st))
        first = np.unique(np.stack([target, origin, lanes // 32 + 0 * target.astype(np.int64)], 1).astype(np.uint64), axis=0,
                          return_index=True)[1]
        for i in first:                     # the warp copies once
            lane, where = int(lanes[i]), int(target[i])
            if where % MAP_ALIGN or int(origin[i]) % MAP_ALIGN:
                raise Misaligned(f"a tensor map isn't at a multiple of {MAP_ALIGN}", thread=lane)
            off = int(mem.shared_places(st, origin[i:i + 1], 1, lanes[i:i + 1])[0])
            mem.shared_places(st, origin[i:i + 1] + np.uint64(MAP_BYTES - 1), 1, lanes[i:i + 1])
            check_source(st, off, tensormap.MAP_HALF, lane)
            st.memory.offsets(target[i:i + 1], 1, lanes[i:i + 1], True)
            st.memory.bytes_at(where, MAP_BYTES)[:] = st.shared[off:off + MAP_BYTES]
            maps = maps_of(st)
            maps.write(where)
            maps.release(_now(st), where)
    return copy


@operation("fence.proxy.tensormap::generic")
def _fence(decoder, ins):
    """A fence that releases maps that the kernel wrote, or acquires one."""
    if "acquire" not in ins.parts:
        return lambda st: fence(st, False, None)
    address, _ = address_source(decoder, ins.operands[0], "")
    if getattr(ins.operands[1], "value", 0) != MAP_BYTES:
        raise InvalidInstruction(f"{ins.opcode} takes {MAP_BYTES} bytes")
    return lambda st: fence(st, True, st.gathered(address(st)))


def fence(st, acquire: bool, address: np.ndarray | None) -> None:
    """fence.proxy.tensormap::generic by the active threads: a release, or an acquire of `address`."""
    maps = maps_of(st)
    if not acquire:
        maps.release(_now(st))
        return
    assert address is not None
    for a, lane in zip(address, st.lanes):
        maps.acquire(_now(st), int(a), [(st.first, int(lane) // 32)])
