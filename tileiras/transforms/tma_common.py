"""What loads and stores by the copy engine have in common: the tile on its way between a view and a buffer, its coordinates."""
from __future__ import annotations

from typing import Any, TypeAlias

from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, i32
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.tma import ALIGNMENT, Refusal
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileaa import DYNAMIC, TiledViewType, int_array, int_values
from tileiras.layout.linear import LinearLayout
from tileiras.layout.operands import stmatrix_plan
from tileiras.layout.shared import CanonicalTile, SharedLayout, access

Refused: TypeAlias = tuple[Operation, list[Refusal]]
"""An access that isn't the copy engine's, and why."""
MATRICES = 4
"""That one stmatrix stores."""


def before(op: Operation, new: Operation, like: Operation) -> Operation:
    """Put a new op before another, at the place in the source of a third."""
    new.location = like.location
    assert op.parent is not None
    op.parent.insert_op_before(new, op)
    return new


def after(op: Operation) -> Operation:
    assert op.next_op is not None, "a terminator follows"
    return op.next_op


def erase(*ops: Operation) -> None:
    for op in ops:
        op.detach()
        op.erase()


def coordinates(access: Any, at: Operation) -> list[SSAValue]:
    """The first element of an access's tile in each dimension of the tile, as i32, computed before `at`. Where an extent is 0,
    16 bytes further (boxes begin at multiples of these): its map says 1, and so nothing of the tile lies inside."""
    view: Any = access.view
    maker: Any = view.owner.operands[0].owner
    t = view.type
    sizes = iter(maker.sizes)
    extents = [next(sizes) if n == DYNAMIC else n for n in int_values(t.memref.shape)]
    beyond = max(1, ALIGNMENT // element_bytes(t.memref.element_type))
    out = []

    def add(new: Operation) -> SSAValue:
        return before(at, new, access).results[0]

    def constant(value: int, of: Any = i32) -> SSAValue:
        return add(arith.Constant.make([], [of], {"value": IntegerAttr(value, of)}))
    for coord, step, d in zip(access.coords, int_values(t.steps), int_values(t.dim_map)):
        value = add(arith.Extsi.make([coord], [i32])) if coord.type != i32 else coord
        if step != 1:
            value = add(arith.Muli.make([value, constant(step)], [i32]))
        extent = extents[d]
        if isinstance(extent, SSAValue):
            is_zero = arith.Cmpi.make([extent, constant(0, extent.type)], [IntegerType(1)], {"predicate": StringAttr("eq")})
            further = add(arith.Muli.make([add(arith.Extui.make([add(is_zero)], [i32])), constant(beyond)], [i32]))
            value = add(arith.Addi.make([value, further], [i32]))
        elif extent == 0:
            value = add(arith.Addi.make([value, constant(beyond)], [i32]))
        out.append(value)
    return out


def wavefronts(layout: LinearLayout, shared: SharedLayout, size: int) -> int:
    """What a warp's accesses to a buffer cost, issuing them included; `size`: bytes of an element."""
    plan = access(layout, shared, size)
    return len(plan.groups) * (plan.passes(size) + 1)


def store_wavefronts(layout: LinearLayout, shared: SharedLayout, size: int) -> int:
    """What a warp's stores to a buffer cost, by stmatrix where that serves: targets with a copy engine have it."""
    plan = stmatrix_plan(layout, shared, size)
    if plan is None:
        return wavefronts(layout, shared, size)
    matrices = layout.num_regs >> plan.word_bits
    return matrices + -(-matrices // MATRICES)


def view_of_parts(view: SSAValue, part: CanonicalTile) -> Operation:
    """The array of a view, in tiles as large as a part."""
    t: Any = view.type
    shape = int_array(part.shape)
    kind = TiledViewType(t.memref, StringAttr("strided"), shape, t.dim_map, t.steps, t.padding, t.sparse_dim)
    return nv_tileas.BlockTile.make([view.owner.operands[0]], [kind])       # type: ignore[attr-defined,union-attr]
