"""`convert-tileaa-to-tileas`: give every tensor a layout and every memory access its width.

    %x = nv_tileaa.tiled_load %view[%i] : tensor<1024xf32>
->  %x = nv_tileas.tiled_load %view[%i] {vector = 4, check = [0]} : tensor<1024xf32, #layout>

One walk builds the new function. `classes.py` has decided the layouts; here each op gets its operands in the
layout it needs, by `convert_layout` where that isn't the one they have. Operands of a dot go to shared-memory
buffers (`alloc_tensor`, `store_shared`), from where the dot reads its fragments, unless registers already
hold the fragment.
"""
from __future__ import annotations

from functools import lru_cache
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IntAttr, TensorType, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.analysis.axis import AxisAnalysis
from tileiras.conversion.entry_hints import worker_warps
from tileiras.conversion.tileaa_to_tileas import classes as cl
from tileiras.conversion.tileaa_to_tileas.classes import collect, default_layout, propagate, shape_of
from tileiras.conversion.tileaa_to_tileas.dots import DotPlan, plan_dot
from tileiras.conversion.tileaa_to_tileas.facts import MAX_ACCESS_BYTES, ViewFacts, run_along, view_facts
from tileiras.conversion.tileaa_to_tileas.leaves import clone_leaves
from tileiras.dialects import nv_tileas
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileas import LayoutAttr
from tileiras.layout.linear import LinearLayout

MAX_PER_THREAD_BYTES = 32
"""How many bytes side by side a thread may hold of the widest type of a class: more would scatter a warp's access."""


@lru_cache(maxsize=8192)
def placed(t: TensorType, layout: LinearLayout) -> TensorType:
    """The tensor type with this layout."""
    return TensorType(t.element_type, t.shape, LayoutAttr.of(layout))  # type: ignore[arg-type]


def choose_num_warps(func: Operation) -> int:
    """Warps of a block: the entry's hint, else enough that a thread holds a few elements of the largest tile, 4 at most,
    8 and 16 when a thread would otherwise hold 64 registers (an accumulator: 128) or more of one tile."""
    wanted = worker_warps(func)
    largest, cross = 1, False
    for op in func.walk():
        for r in op.results:
            shape = shape_of(r)
            if shape is not None:
                n = 1
                for extent in shape:
                    n *= extent
                n = n * element_bytes(r.type.element_type) // 4  # type: ignore[attr-defined]
                largest = max(largest, n)
        cross |= op.name == "nv_tileaa.dot"
    if wanted is not None:
        return wanted
    if largest >= 32 * 8 * 128:
        return 16
    if largest >= 32 * 4 * (128 if cross else 64):
        return 8
    warps = 1
    while warps < 4 and largest > 32 * warps * 4:
        warps *= 2
    return 4 if cross else warps


def renamed(op: Operation, operands: list[SSAValue], result_types: list[Attribute], regions: list[Region] | None = None,
            extra: dict[str, Attribute] | None = None) -> Operation:
    """The nv_tileas op of the same name; arith, math and scf ops stay what they are."""
    if op.name.startswith("nv_tileaa."):
        cls: Any = nv_tileas.OPS["nv_tileas." + op.name[10:]]
    else:
        cls = type(op)
    properties = dict(op.properties)
    if extra:
        properties.update(extra)
    new = cls.create(operands=operands, result_types=result_types, properties=properties, regions=regions or [])
    new.location = op.location
    return new


class Placement:
    """One function."""

    def __init__(self, func: Operation, target: Any) -> None:
        self.func = func
        self.target = target
        clone_leaves(func)
        self.axis = AxisAnalysis(func)
        self.num_warps = choose_num_warps(func)
        self.classes, self.ops = collect(func)
        self.facts: dict[Operation, ViewFacts] = {}
        self.dots: dict[Operation, DotPlan] = {}
        self.values: dict[SSAValue, SSAValue] = {}
        self.converted: dict[tuple[SSAValue, LinearLayout], tuple[Block, SSAValue]] = {}
        self.block = Block()
        self.location = func.location

    def convert(self) -> Operation:
        self.decide()
        body = Region(self.new_block(self.func.regions[0].block))
        self.fill(self.func.regions[0].block, body.block)
        extra: dict[str, Attribute] = {"num_warps": IntAttr(self.num_warps)}
        return renamed(self.func, [], [], [body], extra)

    # --- layouts --------------------------------------------------------------------------------------------------

    def decide(self) -> None:
        for op in self.ops:
            if op.name == "nv_tileaa.dot":
                plan = self.dots[op] = plan_dot(op, self.target, self.num_warps)
                self.classes.decide(op.results[0], plan.acc)
        anchors: dict[int, list[tuple[Operation, SSAValue, int, int, int | None]]] = {}
        by_id: dict[int, cl.LayoutClass] = {}
        for op in self.ops:
            found = self.anchor(op)
            if found is not None:
                c = self.classes.get(found[1])
                anchors.setdefault(id(c), []).append(found)
                by_id[id(c)] = c
        for key, group in anchors.items():
            c = by_id[key]
            if c.layout is None:
                c.layout = self.coalesced(c.shape, group)
        propagate(self.classes, self.ops, self.num_warps)

    def anchor(self, op: Operation) -> tuple[Operation, SSAValue, int, int, int | None] | None:
        """(op, tensor, element bytes, possible width in elements, contiguous dimension) of a memory access."""
        name = op.name
        if name in ("nv_tileaa.tiled_load", "nv_tileaa.tiled_store", "nv_tileaa.tiled_atomic_rmw"):
            tensor = op.results[0] if name == "nv_tileaa.tiled_load" else op.operands[0]
            view = op.operands[0] if name == "nv_tileaa.tiled_load" else op.operands[1]
            facts = self.facts[op] = view_facts(op, view, self.axis)
            if shape_of(tensor) is None:
                return None
            size = element_bytes(tensor.type.element_type)  # type: ignore[attr-defined]
            return op, tensor, size, facts.width, facts.contiguous
        if name in ("nv_tileaa.load", "nv_tileaa.store", "nv_tileaa.atomic_rmw", "nv_tileaa.atomic_cas"):
            p = op.operands[0]
            if shape_of(p) is None:
                return None
            size = element_bytes(p.type.element_type.pointee)  # type: ignore[attr-defined]
            contiguity = self.axis.contiguity(p)
            best = max(range(len(contiguity)), key=lambda d: (contiguity[d], d)) if contiguity else None
            if best is None or contiguity[best] <= 1:
                return op, p, size, 1, None
            width = 1 if "atomic" in name else self.pointer_width(op, best)
            return op, p, size, width, best
        return None

    def pointer_width(self, op: Operation, dim: int) -> int:
        """Elements that one access through these pointers may take along `dim`, as far as the analysis knows."""
        p = op.operands[0]
        size = element_bytes(p.type.element_type.pointee)  # type: ignore[attr-defined]
        aligned = self.axis.divisibility(p)[dim]
        width = min(MAX_ACCESS_BYTES // size, max(1, aligned // size), self.axis.contiguity(p)[dim])
        mask = op.mask  # type: ignore[attr-defined]
        if mask is not None and shape_of(mask) is not None:
            width = min(width, self.axis.constancy(mask)[dim])
        return max(1, width)

    def coalesced(self, shape: tuple[int, ...], group: list[tuple[Operation, SSAValue, int, int, int | None]]) -> LinearLayout:
        """The blocked layout for a class with these accesses: the first access that has a contiguous dimension leads."""
        leading = next((g for g in group if g[4] is not None), None)
        if leading is None:
            return default_layout(shape, self.num_warps, 1)
        dim = leading[4]
        assert dim is not None
        widest = max(g[2] for g in group)
        per_thread = max((g[3] for g in group if g[4] == dim), default=1)
        per_thread = min(per_thread, max(1, MAX_PER_THREAD_BYTES // widest))
        order = (dim, *[d for d in range(len(shape) - 1, -1, -1) if d != dim])
        return default_layout(shape, self.num_warps, per_thread, order, _rows_beside(group, dim))

    # --- building -------------------------------------------------------------------------------------------------

    def type_of(self, v: SSAValue) -> Attribute:
        t = v.type
        if isinstance(t, TensorType):
            layout = self.classes.layout(v)
            assert layout is not None
            return placed(t, layout)
        return t

    def new_block(self, old: Block) -> Block:
        new = Block(arg_types=[self.type_of(a) for a in old.args])
        for a, b in zip(old.args, new.args):
            self.values[a] = b
        return new

    def fill(self, old: Block, new: Block) -> None:
        outer, self.block = self.block, new
        for op in old.ops:
            self.location = op.location
            self.visit(op)
        self.block = outer

    def add(self, op: Operation) -> Operation:
        if isinstance(op.location, UnknownLoc):
            op.location = self.location
        self.block.add_op(op)
        return op

    def value(self, v: SSAValue, layout: LinearLayout | None = None) -> SSAValue:
        """The new value of `v`, converted to `layout` if it is a tensor in another one."""
        new = self.values[v]
        if layout is None or not isinstance(new.type, TensorType):
            return new
        return self.to_layout(new, layout)

    def to_layout(self, new: SSAValue, layout: LinearLayout) -> SSAValue:
        assert isinstance(new.type, TensorType)
        if new.type.encoding is LayoutAttr.of(layout) or new.type.encoding.data == layout:  # type: ignore[attr-defined]
            return new
        key = (new, layout)
        known = self.converted.get(key)
        if known is not None and known[0] is self.block:
            return known[1]
        bare = TensorType(new.type.element_type, new.type.shape)
        out = self.add(nv_tileas.ConvertLayout.make([new], [placed(bare, layout)])).results[0]
        self.converted[key] = (self.block, out)
        return out

    def finish(self, old: Operation, new: Operation) -> None:
        """Record results; a result that came out in another layout than its class's is converted."""
        self.add(new)
        for a, b in zip(old.results, new.results):
            self.values[a] = b
        for a, b in zip(old.results, new.results):
            if isinstance(b.type, TensorType):
                layout = self.classes.layout(a)
                assert layout is not None
                self.values[a] = self.to_layout(b, layout)

    def visit(self, op: Operation) -> None:
        special = VISITORS.get(op.name)
        if special is not None:
            special(self, op)
            return
        if op.regions:
            self.structured(op)
            return
        result = next((r for r in op.results if isinstance(r.type, TensorType)), None)
        layout = self.classes.layout(result) if result is not None else None
        if op.name in FREE_OPERANDS:
            layout = None
        elif layout is None and op.operands and op.name in ("nv_tileaa.store",):
            layout = self.classes.layout(op.operands[0]) if shape_of(op.operands[0]) is not None else None
        operands = [self.value(v, layout) for v in op.operands]
        if op in self.facts:
            operands = self.gathered(op, operands)
        extra = self.access(op)
        self.finish(op, renamed(op, operands, [self.type_of(r) for r in op.results], extra=extra))

    def gathered(self, op: Operation, operands: list[SSAValue]) -> list[SSAValue]:
        """A gather's index tile gets the tile's layout with the other dimensions dropped: each thread has its indices."""
        tensor = op.results[0] if op.name == "nv_tileaa.tiled_load" else op.operands[0]
        if shape_of(tensor) is None:
            return operands
        layout = self.classes.layout(tensor)
        assert layout is not None
        coords = list(op.coords)  # type: ignore[attr-defined]
        first = next(i for i, v in enumerate(op.operands) if v is op.view) + 1  # type: ignore[attr-defined]
        for i, coord in enumerate(coords):
            if isinstance(coord.type, TensorType):
                ones = tuple(n if d == i else 1 for d, n in enumerate(layout.shape))
                operands[first + i] = self.value(coord, layout.project(ones).reshape(coord.type.get_shape()).compact_regs())
        return operands

    def access(self, op: Operation) -> dict[str, Attribute] | None:
        """The width and the bounds checks of a memory access, as attributes."""
        facts = self.facts.get(op)
        if facts is not None:
            tensor = op.results[0] if op.name == "nv_tileaa.tiled_load" else op.operands[0]
            width = 1
            if facts.contiguous is not None and shape_of(tensor) is not None:
                layout = self.classes.layout(tensor)
                assert layout is not None
                width = min(facts.width, run_along(layout, facts.contiguous))
            return {"vector": IntAttr(width), "check": ArrayAttr([IntAttr(int(c)) for c in facts.check])}
        if op.name in ("nv_tileaa.load", "nv_tileaa.store") and shape_of(op.operands[0]) is not None:
            p = op.operands[0]
            layout = self.classes.layout(p)
            assert layout is not None
            contiguity = self.axis.contiguity(p)
            width = 1
            for dim in range(len(layout.shape)):
                if contiguity[dim] > 1:
                    width = max(width, min(self.pointer_width(op, dim), run_along(layout, dim)))
            return {"vector": IntAttr(width)}
        return None

    # --- ops with rules of their own -------------------------------------------------------------------------------

    def structured(self, op: Operation) -> None:
        """for, if, loop: operands that enter a carried value take its layout."""
        operands = [self.values[v] for v in op.operands]
        if op.name in ("scf.for", "nv_tileaa.loop"):
            skip = 3 if op.name == "scf.for" else 0
            args = op.regions[0].block.args[1 if skip else 0:]
            for i, arg in enumerate(args):
                if isinstance(arg.type, TensorType):
                    operands[skip + i] = self.value(op.operands[skip + i], self.classes.layout(arg))
        regions = []
        for region in op.regions:
            if not region.blocks:
                regions.append(Region())
                continue
            block = self.new_block(region.block)
            regions.append(Region(block))
            self.fill(region.block, block)
        self.finish(op, renamed(op, operands, [self.type_of(r) for r in op.results], regions))

    def exit(self, op: Operation) -> None:
        """A terminator hands its values over in the layouts of where they go."""
        target = cl.exit_target(op)
        if target is None:
            self.add(renamed(op, [self.values[v] for v in op.operands], []))
            return
        to_results = op.name == "nv_tileaa.break" or (op.name == "scf.yield" and target.name == "scf.if")
        if to_results:
            ends = list(target.results)
        else:
            block = target.regions[0].block
            ends = list(block.args[1:] if target.name == "scf.for" else block.args)
        operands = [self.value(v, self.classes.layout(e) if isinstance(e.type, TensorType) else None)
                    for v, e in zip(op.operands, ends)]
        self.add(renamed(op, operands, []))

    def reshape(self, op: Operation) -> None:
        source = self.value(op.operands[0])
        result = op.results[0]
        t = result.type
        if isinstance(t, TensorType):
            layout = self.classes.layout(result)
            if isinstance(source.type, TensorType):
                layout = source.type.encoding.data.reshape(t.get_shape())  # type: ignore[attr-defined]
            assert layout is not None
            t = placed(t, layout)
        self.finish(op, renamed(op, [source], [t]))

    def permute(self, op: Operation) -> None:
        source = self.value(op.operands[0])
        permutation = [p.data for p in op.properties["permutation"].data]  # type: ignore[attr-defined]
        layout = source.type.encoding.data.permute(permutation)  # type: ignore[attr-defined]
        self.finish(op, renamed(op, [source], [placed(op.results[0].type, layout)]))  # type: ignore[arg-type]

    def broadcast(self, op: Operation) -> None:
        result = op.results[0]
        layout = self.classes.layout(result)
        assert layout is not None
        source = op.operands[0]
        wanted = layout.project(source.type.get_shape()).compact_regs() if isinstance(source.type, TensorType) else None  # type: ignore[attr-defined]
        self.finish(op, renamed(op, [self.value(source, wanted)], [self.type_of(result)]))

    def reduce(self, op: Operation) -> None:
        sources = list(op.operands)
        layout = self.classes.layout(sources[0])
        assert layout is not None
        dim = op.properties["dim"].value.data  # type: ignore[attr-defined]
        operands = [self.value(s, layout) for s in sources]
        types = [placed(r.type, layout.drop(dim).compact_regs()) if isinstance(r.type, TensorType) else r.type
                 for r in op.results]
        self.finish(op, renamed(op, operands, types, [self.scalar_region(op.regions[0])]))

    def scan(self, op: Operation) -> None:
        layout = self.classes.layout(op.results[0])
        assert layout is not None
        operands = [self.value(s, layout) for s in op.operands]
        self.finish(op, renamed(op, operands, [placed(r.type, layout) for r in op.results], [self.scalar_region(op.regions[0])]))  # type: ignore[arg-type]

    def scalar_region(self, region: Region) -> Region:
        block = self.new_block(region.block)
        self.fill(region.block, block)
        return Region(block)

    def dot(self, op: Operation) -> None:
        plan = self.dots[op]
        acc = self.value(op.operands[2], plan.acc)
        lhs, rhs = self.values[op.operands[0]], self.values[op.operands[1]]
        plan.emit(self, op, lhs, rhs, acc)


def _rows_beside(group: list[tuple[Operation, SSAValue, int, int, int | None]], dim: int) -> int:
    """Rows that a thread should load side by side: 4 of a dot's operand of bytes whose rows don't run along k, so that
    the thread holds whole words of four neighbours in k, as fragments have them; else 1."""
    for _, tensor, size, _, _ in group:
        for use in tensor.uses:
            if size == 1 and use.operation.name == "nv_tileaa.dot" and use.index < 2:
                rank = len(shape_of(tensor) or ())
                if dim != (rank - 1 if use.index == 0 else rank - 2):
                    return 4
    return 1


FREE_OPERANDS = {"nv_tileaa." + m for m in (
    "splat", "make_range", "extract", "insert", "cat", "pack", "unpack", "tiled_load", "tiled_store", "tiled_atomic_rmw",
    "make_memref", "block_tile", "print", "assert")}

VISITORS: dict[str, Any] = {
    "scf.yield": Placement.exit, "nv_tileaa.break": Placement.exit, "nv_tileaa.continue": Placement.exit,
    "nv_tileaa.view": Placement.reshape, "nv_tileaa.permute": Placement.permute, "nv_tileaa.broadcast": Placement.broadcast,
    "nv_tileaa.reduce": Placement.reduce, "nv_tileaa.scan": Placement.scan, "nv_tileaa.dot": Placement.dot}
