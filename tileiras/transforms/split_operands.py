"""`split-operands`: operands of a loop's products that shared memory doesn't hold at once come in parts, by turns in one ring.

    scf.for %j (%acc) {                                      scf.for %j (%acc0, %acc1) {
      %k = tiled_load %vk[%j, 0]   : 128x512                   %k0 = tiled_load %wk[%j, 0] {in_turn = 1} : 128x256
      %s = dot %k, %q, zeros       : 128x16                    %k1 = tiled_load %wk[%j, 1] {in_turn = 1} : 128x256
      ...                                                      %s0 = dot %k0, %q0, zeros
      %v = tiled_load %vv[0, %j]   : 512x128           ->      %s = dot %k1, %q1, %s0
      %n = dot %v, %p, %acc        : 512x16                    ...
      yield %n                                                 %v0 = tiled_load %wv[0, %j] {in_turn = 1} : 256x128
    }                                                          %v1 = tiled_load %wv[1, %j] {in_turn = 1} : 256x128
                                                               %n0 = dot %v0, %p, %acc0    : 256x16
                                                               %n1 = dot %v1, %p, %acc1    : 256x16
                                                               yield %n0, %n1
                                                             }

Otherwise they'd come by way of registers, one after the other, with nothing on its way meanwhile. A tile is split along an axis of
the function (analysis/cta_axes.py) that is a product's rows, columns or k, and everything that goes with it: first as for one of
several CTAs (cta_split.py), then what depends on the part's number is written once for each part, side by side. Products along a
split k add up one after the other. What doesn't depend on it is computed once, as before. Sums are as before but for the order that
products have inside of an instruction. `in_turn` numbers the loads of a loop that share a ring, which
`lower-tma-load-store-to-async` makes.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Operation, SSAValue

from tileiras.dialects.element import tile_bytes
from tileiras.dialects.nv_tileaa import MemTokenType

FUNC, LOOP = "nv_tileaa.func", "scf.for"
LOAD, DOT = "nv_tileaa.tiled_load", "nv_tileaa.dot"
MOVES = ("nv_tileaa.permute", "nv_tileaa.view")
TURN = "in_turn"
PIECE = 32 * 1024
"""Bytes of a part, at most: tensor cores have work with it for about as long as the copy engine needs for the next one."""
LEAST_RING = 4
"""Parts that shared memory should hold at once."""
LEAST_ROWS, LEAST_ROWS_UMMA, LEAST_OTHERS = 64, 128, 64
"""Rows of a part's product, those of one by tcgen05, and its columns or its k."""
ALONE = frozenset({"alloca", "print", "assert", "atomic_rmw", "atomic_cas", "tiled_atomic_rmw", "load", "store", "loop", "break",
                   "continue", "return", "dot_scaled", "scan", "cta_exchange"})
"""What isn't written once for each part."""


def run(module: Operation, context: Any) -> None:
    """Split such operands, in place."""
    if not (context.target.has_tma and context.uses("tma") and context.uses("pipelines")):
        return
    for func in module.regions[0].block.ops:
        if func.name != FUNC or {"cluster", "chains"} & func.properties.keys():
            continue
        for number in range(sum(op.name == LOOP for op in func.walk())):
            loop = _loop(func, number)
            loads = _operands(loop)
            if sum(map(_bytes, loads)) > context.target.most_static_smem and _has_room_for_sums(loop, context):
                _in_parts(func, number, loads, context)


def _loop(func: Operation, number: int) -> Operation:
    """A counted loop of a function, by its number: ops change when what they carry is split."""
    return [op for op in func.walk() if op.name == LOOP][number]


def _operands(loop: Any) -> list[Any]:
    """The loads of a loop's body that a product of the same body multiplies, and nobody else uses."""
    return [op for op in loop.body.block.ops if op.name == LOAD and op.results[1].first_use is None and _is_multiplied(op)]


def _is_multiplied(load: Operation) -> bool:
    v: SSAValue = load.results[0]
    while v.has_one_use():
        use = v.first_use
        assert use is not None
        op = use.operation
        if op.name == DOT:
            return use.index < 2 and op.parent is load.parent
        if op.name not in MOVES:
            return False
        v = op.results[0]
    return False


def _bytes(load: Any) -> int:
    return tile_bytes(load.results[0].type)


def _has_room_for_sums(loop: Any, context: Any) -> bool:
    """Whether tensor memory, where there is some, has columns for the loop's sums: parts of those that registers hold spill more
    (128 x 512 beside scores of 128 x 128, sm_100: 8.7 kB a thread instead of 6.7)."""
    if not (context.target.has_tcgen05 and context.uses("tcgen05")):
        return True
    from tileiras.layout.atoms.umma import COLUMNS, LANES
    shapes: list[Any] = [op.results[0].type.get_shape() for op in loop.body.block.ops if op.name == DOT]
    return sum(max(1, shape[-2] // LANES) * shape[-1] for shape in shapes) <= COLUMNS


def _in_parts(func: Operation, number: int, loads: list[Any], context: Any) -> None:
    """Split operands of one of a function's loops, as far as that can be."""
    from tileiras.analysis.cta_axes import Axes, extents
    from tileiras.analysis.cta_plan import Plan
    from tileiras.transforms.side_by_side import write_parts
    most = PIECE
    while most * LEAST_RING > context.target.most_static_smem:
        most //= 2
    notes: dict[str, str | int] = {}
    for load in loads:
        count = _bytes(load) // most if load.parent is not None else 1
        if count < 2:
            continue
        axes = Axes(func, sums=True)
        free = set(axes.free())
        tile = load.results[0]
        for dim in sorted(range(len(extents(tile))), key=lambda d: -extents(tile)[d]):
            axis = axes.of(tile, dim)
            most_parts = min(count, axes.most[axis]) if axis in free else 1
            parts = next((n for n in _halves(most_parts) if _is_wide(func, axes, axis, n, context)), 1)
            plan = Plan(axes, {axis: parts - 1}, parts)
            if parts > 1 and all(_by_parts(op, plan) for op in func.walk() if op is not func):
                _take_turns(func, plan)
                notes.update({f"Parts{len(notes) + 1}": text for text in plan.notes().values()})
                write_parts(func, plan)
                break
    if notes and context.remarks is not None:
        from tileiras.remarks import PASSED, TENSOR_CORE, remark
        context.remarks.append(remark(func, _loop(func, number), PASSED, TENSOR_CORE, "OperandsInParts",
                                      "Operands that shared memory doesn't hold at once come in parts, by one ring", notes))


def _take_turns(func: Operation, plan: Any) -> None:
    """Number the loads that a plan splits, by their loop."""
    for number, loop in enumerate([op for op in func.walk() if op.name == LOOP]):
        for load in _operands(loop):
            if plan.used(load):
                load.properties[TURN] = IntAttr(number + 1)


def _halves(count: int) -> list[int]:
    """Powers of two from `count` on down to 2."""
    return [1 << n for n in range(count.bit_length() - 1, 0, -1)]


def _is_wide(func: Operation, axes: Any, axis: Any, parts: int, context: Any) -> bool:
    """Whether products of such parts along an axis are as good as whole ones."""
    rows = LEAST_ROWS_UMMA if context.target.has_tcgen05 and context.uses("tcgen05") else LEAST_ROWS
    for op in func.walk():
        if op.name == DOT:
            lhs, rhs, *_ = op.operands
            for v, dim, least in ((lhs, -2, rows), (lhs, -1, LEAST_OTHERS), (rhs, -1, LEAST_OTHERS)):
                t: Any = v.type
                place = len(t.get_shape()) + dim
                if v not in axes.cheap and axes.of(v, place) == axis and t.get_shape()[place] // parts < least:
                    return False
    return True


def _by_parts(op: Operation, plan: Any) -> bool:
    """Whether what an op does may be done for each part, if it has to do with them."""
    from tileiras.analysis.cta_axes import mnemonic
    from tileiras.analysis.tma import is_unwritten
    if not plan.used(op):
        return True
    name = mnemonic(op)
    if name in ("tiled_load", "tiled_store"):
        semantic: Any = op.properties["mem_semantic"]
        in_order = op.results[-1].first_use is None or any(isinstance(v.type, MemTokenType) for v in op.operands)
        return semantic.data == "weak" and in_order and (name == "tiled_store" or is_unwritten(op))
    if name == "reduce":
        return not plan.splits_sums(op)
    return name not in ALONE
