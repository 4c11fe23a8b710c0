"""Loads and stores of tiles in global memory, through views and through pointers.

A view access computes one address a thread: base + (tile's start) + (thread's place), and adds each register's
constant offset, so that machine accesses use immediate offsets. Registers side by side along the memory's contiguous
dimension go in one access of `vector` elements. Bounds are checked only in the dimensions that `check` names.
Where several threads hold the same element, one of them stores.
"""
from __future__ import annotations

from functools import reduce
from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.analysis.access import access_width, sure_width
from tileiras.analysis.agents import WARP_THREADS
from tileiras.analysis.program_slice import is_made_in, loop_around
from tileiras.conversion.tileas_to_llvm.builder import I64, width_of
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers, storage_type
from tileiras.conversion.tileas_to_llvm.memory import access
from tileiras.conversion.tileas_to_llvm.memory.heap import allocate
from tileiras.conversion.tileas_to_llvm.memory.offsets import LEAST_PACKED, registers_of
from tileiras.conversion.tileas_to_llvm.memory.views import TiledView, as_type, index_type
from tileiras.conversion.tileas_to_llvm.memory.words import groups, spread
from tileiras.dialects import llvm
from tileiras.dialects.element import element_bytes
from tileiras.dialects.llvm import integer, ptr
from tileiras.layout.linear import LinearLayout


def _text(op: Operation, name: str) -> str | None:
    attr = op.properties.get(name)
    if attr is None:
        return None
    return getattr(attr, "data", None) or getattr(attr, "value", None)


def order_of(op: Operation) -> str:
    return access.ordering(_text(op, "mem_semantic") or "weak", _text(op, "mem_scope"))


MANY_BOUNDS = 16
"""From so many comparisons along a dimension on it pays to compute how many elements are left, where they are made once."""


class ViewAddress:
    """Addresses and predicates of one access to a tile through a view. moving: the dimensions whose index another iteration of the
    loop around the access changes."""

    def __init__(self, low: Lowering, view: TiledView, coords: list[SSAValue], layout: LinearLayout, check: list[bool],
                 moving: set[int], in_loop: bool, sparse_index: list[SSAValue] | None = None) -> None:
        self.low, self.view, self.layout, self.check, self.in_loop = low, view, layout, check, in_loop
        b = low.b
        self.size = element_bytes(view.type.memref.element_type)
        extents = [view.memref.extents[d] for d in view.dim_map]
        strides = [view.memref.strides[d] for d in view.dim_map]
        self.sparse = next((i for i, d in enumerate(view.dim_map) if d == view.sparse_dim), None)
        self.sparse_index = sparse_index
        indices = [sparse_index[0] if i == self.sparse and sparse_index else c for i, c in enumerate(coords)]
        self.types = [index_type(pair) for pair in zip(indices, extents)]
        places = low.coordinates(layout)
        self.first: list[SSAValue] = []         # coordinate of this thread's register 0 in the array, by tile dimension
        p = view.memref.base
        uniform, local = b.i64(0), b.i64(0)
        for i, (coord, stride) in enumerate(zip(coords, strides)):
            t = self.types[i]
            if i == self.sparse:
                self.first.append(b.bits(0, t))
                continue
            start = b.mul(as_type(low, coord, t), b.bits(view.steps[i], t))
            self.first.append(b.add(start, as_type(low, places[i], t, signed=False)))
            if b.known(start) is None and i not in moving:
                local = b.add(local, self._scaled(self.first[i], stride, in_loop))
                continue
            uniform = b.add(uniform, self._scaled(start, stride, False))
            local = b.add(local, self._scaled_place(places[i], stride, view.tile_shape[i], in_loop))
        # What changes from iteration to iteration comes last. So does what is known: tiles of one array share what is before it,
        # which LLVM's strength reduction would compare in pairs.
        element = integer(8 * self.size)
        self.p = b.gep(b.gep(p, local, element), uniform, element)
        self.strides, self.extents = strides, extents
        self._bounds: dict[tuple[int, int], SSAValue] = {}
        self._left: dict[int, SSAValue] = {}
        self._often: dict[int, bool] = {}
        self._steps: dict[tuple[int, int], SSAValue] = {}

    def _scaled(self, index: SSAValue, stride: int | SSAValue, hoisted: bool) -> SSAValue:
        """index * stride as i64. `hoisted`: LLVM is to move it out of a loop, which it doesn't do with assembly."""
        b = self.low.b
        if not hoisted and isinstance(stride, SSAValue) and width_of(stride.type) == width_of(index.type) == 32:
            return b.nvvm("mul.wide.s32", [index, stride])[0]
        return b.mul(as_type(self.low, index, I64), as_type(self.low, stride, I64))

    def _scaled_place(self, place: SSAValue, stride: int | SSAValue, extent: int, hoisted: bool) -> SSAValue:
        """The same of a coordinate inside the tile; in 32 bits where that can't overflow."""
        b = self.low.b
        if isinstance(stride, int) and extent * stride * self.size < 2**31:
            return b.cast("zext", b.mul(place, b.i32(stride)), I64)
        return self._scaled(place, stride, hoisted)

    def pointer(self, reg: int) -> SSAValue:
        """Where register `reg`'s element lies."""
        b = self.low.b
        constant, p = 0, self.p
        for i, r in enumerate(self.layout.coords(self.layout.reg_indices[reg])):
            if i == self.sparse:
                assert self.sparse_index is not None
                index = as_type(self.low, self.sparse_index[reg], I64)
                p = b.gep(p, b.mul(b.mul(index, as_type(self.low, self.strides[i], I64)), b.i64(self.size)))
                continue
            if r == 0:
                continue
            stride = self.strides[i]
            if isinstance(stride, int):
                constant += r * stride * self.size
                continue
            key = (i, r)
            if key not in self._steps:
                self._steps[key] = b.mul(as_type(self.low, stride, I64), b.i64(r * self.size))
            p = b.gep(p, self._steps[key])
        return b.gep(p, constant)

    def predicate(self, reg: int) -> SSAValue | None:
        """Whether register `reg`'s element lies in the array; None: always."""
        b = self.low.b
        out = None
        for i, r in enumerate(self.layout.coords(self.layout.reg_indices[reg])):
            if not self.check[i]:
                continue
            t = self.types[i]
            if i == self.sparse:
                assert self.sparse_index is not None
                index = as_type(self.low, self.sparse_index[reg], t)
                inside = b.icmp("ult", index, as_type(self.low, self.extents[i], t))
            else:
                key = (i, r)
                if key not in self._bounds:
                    self._bounds[key] = self._is_inside(i, r)
                inside = self._bounds[key]
            out = inside if out is None else b.and_(out, inside)
        return out

    def all_inside(self) -> SSAValue:
        """Whether all of the thread's elements lie in the array: its first and its last along each dimension do."""
        places = [self.layout.coords(x) for x in self.layout.reg_indices]
        found = []
        for i, checked in enumerate(self.check):
            if not checked:
                continue
            if i == self.sparse:
                assert self.sparse_index is not None
                t = self.types[i]
                extent = as_type(self.low, self.extents[i], t)
                found += [self.low.b.icmp("ult", as_type(self.low, index, t), extent) for index in dict.fromkeys(self.sparse_index)]
                continue
            found += [self._is_inside(i, r) for r in sorted({min(p[i] for p in places), max(p[i] for p in places)})]
        return reduce(self.low.b.and_, found)

    def _is_inside(self, i: int, r: int) -> SSAValue:
        """Whether the element `r` behind the thread's first along dimension i lies in the array."""
        b, t = self.low.b, self.types[i]
        extent = as_type(self.low, self.extents[i], t)
        if self._compares_often(i):
            # How many are left, to compare constants with: none where a tile begins before the array, since it also ends there.
            if i not in self._left:
                first = self.first[i]
                self._left[i] = b.sub(b.select(b.icmp("ugt", extent, first), extent, first), first)
            return b.icmp("ugt", self._left[i], b.bits(r, t))
        # the layout's bits are disjoint from the register's, so adding is or-ing
        return b.icmp("ult", b.add(self.first[i], b.bits(r, t)), extent)

    def _compares_often(self, i: int) -> bool:
        """Whether enough comparisons are made once along a dimension, of tiles that begin where another ends."""
        if i not in self._often:
            self._often[i] = not self.in_loop and self.view.steps[i] == self.view.tile_shape[i] and \
                len({self.layout.coords(x)[i] for x in self.layout.reg_indices}) >= MANY_BOUNDS
        return self._often[i]


def _guarded() -> Any:
    """The accesses that are wide where all is in bounds; imported by kernels that have some."""
    from tileiras.conversion.tileas_to_llvm.memory import guarded
    return guarded


def _flags(op: Operation, rank: int) -> list[bool]:
    attr = op.properties.get("check")
    return [bool(a.data) for a in attr.data] if attr is not None else [True] * rank  # type: ignore[attr-defined]


def view_address(low: Lowering, op: Operation, layout: LinearLayout) -> ViewAddress:
    view: TiledView = low.views[op.view]  # type: ignore[attr-defined]
    coords = list(op.coords)  # type: ignore[attr-defined]
    sparse = None
    if view.sparse_dim >= 0:
        sparse = sparse_indices(low, view, coords, layout)
    scalars = [low.b.i32(0) if low.is_tensor(c) else low.scalar(c) for c in coords]
    loop = loop_around(op)
    moving = {i for i, c in enumerate(coords) if loop is not None and is_made_in(c, loop)}
    return ViewAddress(low, view, scalars, layout, _flags(op, len(view.tile_shape)), moving, loop is not None, sparse)


def sparse_indices(low: Lowering, view: TiledView, coords: list[SSAValue], layout: LinearLayout) -> list[SSAValue]:
    """For each register of the tile, its index along the gathered dimension. The index tile has the tile's layout with
    every other dimension dropped, so each thread holds the indices it needs."""
    where = next(i for i, d in enumerate(view.dim_map) if d == view.sparse_dim)
    index = coords[where]
    have = low.layout(index)
    regs = low.regs(index)
    by_index = dict(zip(have.reg_indices, regs))
    return [by_index[layout.coords(f)[where]] for f in layout.reg_indices]


@lowers("nv_tileas.tiled_load")
def tiled_load(low: Lowering, op: Operation) -> None:
    result = op.results[0]
    layout = low.layout(result)
    address = view_address(low, op, layout)
    element = low.element(result)
    t = storage_type(element)
    width = access_width(op, layout)
    bits = access.padding_bits(low.views[op.view].padding, t, element)  # type: ignore[attr-defined]
    other = [low.b.bits(bits, t)] * width
    if sure_width(op, layout) < width:
        _guarded().guarded_load(low, op, address.pointer, _guarded().viewed(address), [other[0]] * layout.num_regs)
        return
    order = order_of(op)
    owner = low.owner_predicate(layout) if order else None
    values: dict[int, SSAValue] = {}
    for group in groups(low, layout, width):
        predicate = access.both(low, owner, address.predicate(group[0]))
        loaded = access.load(low, address.pointer(group[0]), width, t, predicate, other, order,
                             "early" in op.properties)
        values.update(zip(group, loaded))
    low.set(result, spread(layout, values))


@lowers("nv_tileas.fill_outside")
def fill_outside(low: Lowering, op: Operation) -> None:
    result = op.results[0]
    layout = low.layout(result)
    address = view_address(low, op, layout)
    element = low.element(result)
    t = storage_type(element)
    padding = low.b.bits(access.padding_bits(low.views[op.view].padding, t, element), t)  # type: ignore[attr-defined]
    filled = []
    for reg, value in enumerate(low.regs(op.operands[0])):
        inside = address.predicate(reg)
        filled.append(value if inside is None else low.b.select(inside, value, padding))
    low.set(result, filled)


def _storing(low: Lowering, layout: LinearLayout | None) -> SSAValue | None:
    """Which threads store their elements (without a layout: a scalar); None for all. What all threads of one warp hold they store
    together: one instruction writes one place once, and nobody waits for the thread's number. Not where one thread may tell others
    of it: it would know of its own store only."""
    if low.num_warps == 1 and not low.tells and (layout is None or not any(layout.lane)):
        return None
    return low.first_thread() if layout is None else low.owner_predicate(layout)


@lowers("nv_tileas.tiled_store")
def tiled_store(low: Lowering, op: Operation) -> None:
    source = op.source  # type: ignore[attr-defined]
    layout = low.layout(source)
    address = view_address(low, op, layout)
    width = access_width(op, layout)
    owner = access.both(low, low.chosen(op), _storing(low, layout))
    regs = low.regs(source)
    if sure_width(op, layout) < width:
        _guarded().guarded_store(low, op, layout, address.pointer, _guarded().viewed(address), regs, owner)
        return
    order = order_of(op)
    for group in groups(low, layout, width):
        predicate = access.both(low, owner, address.predicate(group[0]))
        access.store(low, address.pointer(group[0]), [regs[r] for r in group], predicate, order)


@lowers("nv_tileas.load")
def load(low: Lowering, op: Operation) -> None:
    result = op.results[0]
    t = storage_type(low.element(result))
    pointers = low.regs(op.ptr)  # type: ignore[attr-defined]
    mask, other = op.mask, op.other  # type: ignore[attr-defined]
    order = order_of(op)
    width = access_width(op, low.layout(result)) if low.is_tensor(result) else 1
    masks = masks_of(low, mask, len(pointers), width)
    others = _regs_or_repeat(low, other, len(pointers))
    if not low.is_tensor(result):
        first_thread = low.first_thread() if order else None
        predicate = access.both(low, first_thread, masks[0] if masks else None)
        pointer = _by_thread(low, pointers[0]) if "by_thread" in op.properties else pointers[0]
        loaded = access.load(low, pointer, 1, t, predicate, others, order, "early" in op.properties)
        low.set(result, loaded[0])
        return
    layout = low.layout(result)
    if sure_width(op, layout) < width:
        assert masks is not None
        padding = others if others is not None else [low.b.bits(0, t)] * layout.num_regs
        _guarded().guarded_load(low, op, pointers.__getitem__, _guarded().masked(low, masks), padding)
        return
    owner = low.owner_predicate(layout) if order else None
    values: dict[int, SSAValue] = {}
    for group in groups(low, layout, width):
        first = group[0]
        loaded = access.load(low, pointers[first], width, t, access.both(low, owner, masks[first] if masks else None),
                             [others[r] for r in group] if others else None, order, "early" in op.properties)
        values.update(zip(group, loaded))
    low.set(result, spread(layout, values))


def _by_thread(low: Lowering, pointer: SSAValue) -> SSAValue:
    """The same place, by an offset of which only the machine knows that it is 0 in all lanes: none is below the last bit's. What is
    loaded from where all lanes agree ptxas moves to a register of the warp's own at once, and waits for it."""
    return low.b.gep(pointer, low.b.lshr(low.b.nvvm("read.ptx.sreg.lanemask.lt")[0], WARP_THREADS - 1))


def _regs_or_repeat(low: Lowering, v: SSAValue | None, n: int) -> list[SSAValue] | None:
    """A tensor's registers, a scalar n times, or None."""
    if v is None:
        return None
    return low.regs(v) if low.is_tensor(v) else [low.scalar(v)] * n


def masks_of(low: Lowering, mask: SSAValue | None, n: int, width: int) -> list[SSAValue] | None:
    """The same of the mask of an access of `width` elements at a time: where most of its values are wanted by nobody and LLVM would
    pack it, each is computed by itself. Where each is wanted, packed ones take fewer registers."""
    if mask is None or width == 1 or n < LEAST_PACKED or not low.is_tensor(mask) or low.has_list(mask):
        return _regs_or_repeat(low, mask, n)
    return registers_of(low.b, low.vec(mask))


@lowers("nv_tileas.store")
def store(low: Lowering, op: Operation) -> None:
    pointers = low.regs(op.ptr)  # type: ignore[attr-defined]
    values = _regs_or_repeat(low, op.source, len(pointers)) or []  # type: ignore[attr-defined]
    width = access_width(op, low.layout(op.ptr)) if low.is_tensor(op.ptr) else 1  # type: ignore[attr-defined]
    masks = masks_of(low, op.mask, len(pointers), width)  # type: ignore[attr-defined]
    order = order_of(op)
    if not low.is_tensor(op.ptr):  # type: ignore[attr-defined]
        predicate = access.both(low, low.chosen(op), _storing(low, None), masks[0] if masks else None)
        access.store(low, pointers[0], values[:1], predicate, order)
        return
    layout = low.layout(op.ptr)  # type: ignore[attr-defined]
    owner = access.both(low, low.chosen(op), _storing(low, layout))
    if sure_width(op, layout) < width:
        assert masks is not None
        _guarded().guarded_store(low, op, layout, pointers.__getitem__, _guarded().masked(low, masks), values, owner)
        return
    for group in groups(low, layout, width):
        predicate = access.both(low, owner, masks[group[0]] if masks else None)
        access.store(low, pointers[group[0]], [values[r] for r in group], predicate, order)


@lowers("nv_tileas.get_global")
def get_global(low: Lowering, op: Operation) -> None:
    symbol = op.properties["symbol"]
    name = getattr(symbol, "data", None) or symbol.root_reference.data  # type: ignore[attr-defined]
    low.set(op.results[0], low.b.address_of(name, 1))


@lowers("nv_tileas.alloca")
def alloca(low: Lowering, op: Operation) -> None:
    """Memory of the tile block, in shared memory; its pointer is generic (see access.address). Memory that other tile blocks
    may reach is on the heap (heap.py)."""
    if "global" in op.properties:
        allocate(low, op)
        return
    generic = low.b.cast("addrspacecast", low.shared_ptr(op), ptr(llvm.GENERIC))
    low.set(op.results[0], low.b.cast("inttoptr", low.b.cast("ptrtoint", generic, I64), ptr(llvm.GLOBAL)))


@lowers("nv_tileas.addptr")
def addptr(low: Lowering, op: Operation) -> None:
    """Offsets count elements of the pointee and are sign-extended."""
    b = low.b
    p, offset = op.operands
    pointee = low.element(p).pointee  # type: ignore[attr-defined]
    size = element_bytes(pointee)
    step = integer(8 * size)
    if low.places is None:
        from tileiras.analysis.wrapping_offsets import Places  # views need none

        low.places = Places(op)
    is_alone = low.places.may_wrap(op)

    def extended(x: SSAValue) -> SSAValue:
        wide = b.cast("sext", x, I64)
        return b.nvvm("extended.b64", [wide])[0] if is_alone else wide
    if not low.is_tensor(op.results[0]):
        low.set(op.results[0], b.gep(low.scalar(p), extended(low.scalar(offset)), step))
        return
    n = low.layout(op.results[0]).num_regs
    pointers = _regs_or_repeat(low, p, n) or []
    offsets = registers_of(b, low.vec(offset)) if low.is_tensor(offset) else [low.scalar(offset)] * n
    low.set(op.results[0], [b.gep(base, extended(x), step) for base, x in zip(pointers, offsets)])
