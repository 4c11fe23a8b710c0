"""`decompose-dot-scaled`: a block-scaled product becomes an ordinary one of exactly widened operands.

    %d = nv_tileaa.dot_scaled %a, %b, %c, %sa, %sb : tensor<MxKxf8E4M3FN>, ..., tensor<MxK/Vxf8E8M0FNU>
->  %wa = convertf %a to bf16 ; %ws = convertf %sa to bf16
    %s  = view (broadcast (view %ws : MxK/Vx1) : MxK/VxV) : MxK
    %x  = mulf %wa, %s                               (and so for %b)
    %d  = nv_tileaa.dot %x, %y, %c : tensor<MxKxbf16>, ...

Every 8-bit and 4-bit element and every scale is exact in bf16, and so is their product: at most 3 + 3 significand bits
after the points' ones, and bf16 has the exponents of f32. Only products beyond f32's range differ from scaling in
unbounded precision. Where the target multiplies block-scaled operands itself the product stays: by mma.sync (sm_120 and sm_121),
or from -O1 on by tcgen05 (sm_100 and its kin), which takes it as `prepare-dot-scaled` leaves it.
"""
from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import BFloat16Type, StringAttr, TensorType
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.axis_info import shape_of
from tileiras.analysis.entry_hints import worker_warps
from tileiras.analysis.tensor_dots import ctas_of
from tileiras.dialects import arith, nv_tileaa
from tileiras.dialects.element import element_name
from tileiras.layout.atoms import tensor_scaled
from tileiras.layout.atoms.block_scaled import PAIR, BlockScaledAtom, choose_block_scaled, packed_atom
from tileiras.layout.atoms.tensor_scaled import M
from tileiras.layout.atoms.umma import COLUMNS, GROUP_WARPS, columns_of

_WIDE = BFloat16Type()
NIBBLES = "f4E2M1FN"
SHARED_RESERVE = 1024
"""Bytes of a block's shared memory left to other ops' scratch."""


def run(top: Operation, context: Any = None) -> None:
    """Rewrite every nv_tileaa.dot_scaled of a module or function in place."""
    room: dict[Operation | None, int] = {}
    for op in [op for op in top.walk() if op.name == "nv_tileaa.dot_scaled"]:
        if context is not None and block_scaled_atom(op, context.target, packs=context.opt_level > 0) is not None:
            continue
        func = _function(op)
        columns = _tensor_columns(op, func, context) if context is not None else None
        left = room.get(func, COLUMNS)
        if columns is None or columns > left:
            decompose(op)
        else:
            room[func] = left - columns


def _function(op: Operation) -> Operation | None:
    parent = op.parent_op()
    while parent is not None and parent.name != "nv_tileaa.func":
        parent = parent.parent_op()
    return parent


def _tensor_columns(op: Operation, func: Operation | None, context: Any) -> int | None:
    """The columns of tensor memory that a product takes; None if tcgen05 doesn't compute it."""
    if func is None or not (context.target.has_tcgen05 and context.uses("tcgen05")):
        return None
    if (worker_warps(func) or GROUP_WARPS) % GROUP_WARPS:
        return None
    from tileiras.transforms.prepare_dot_scaled import is_turned
    lhs, _, acc, lhs_scale, _ = op.operands
    *batch, m, n = shape_of(acc.type)
    k, factors, ctas = shape_of(lhs.type)[-1], shape_of(lhs_scale.type)[-1], ctas_of(op)
    if is_turned(m, n):
        m, n = n, m
    element, scale = (element_name(v.type.element_type) for v in (lhs, lhs_scale))  # type: ignore[attr-defined]
    atom = tensor_scaled.choose(context.target, element, scale, k // factors, m, n, k, ctas)
    if atom is None:
        return None
    wide = [(*batch, *tensor_scaled.widened(rows, factors)) for rows in (m, n)]
    nbytes = (batch[0] if batch else 1) * (M // atom.rows * m + n // ctas) * k // atom.elements + sum(map(prod, wide))
    if nbytes > context.target.max_static_smem - SHARED_RESERVE:
        return None
    return columns_of((*batch, m, n), atom.rows) + tensor_scaled.factor_columns(*wide)


def block_scaled_atom(op: Operation, target: Any, packs: bool = False) -> BlockScaledAtom | None:
    """The instruction that computes a dot_scaled (of this level or the next) as it is, if the target has one. `packs`: 4-bit
    elements will be two a byte (`prepare-dot-scaled`), if they aren't yet.

    Both operands must fit a block's shared memory whole."""
    if not target.has_block_scaled_mma:
        return None
    lhs, rhs, _, lhs_scale, _ = op.operands
    types = [v.type for v in (lhs, rhs, lhs_scale)]
    a, b, scale = (element_name(t.element_type) for t in types)  # type: ignore[attr-defined]
    is_packed = "packed" in op.properties
    *batch, m, k = shape_of(lhs.type)
    n = shape_of(rhs.type)[-1]
    nbytes = (batch[0] if batch else 1) * (m + n) * k
    if is_packed:
        a = b = NIBBLES
        k *= PAIR
    elif packs and a == b == NIBBLES:
        nbytes //= PAIR
    if nbytes > target.max_static_smem - SHARED_RESERVE:
        return None
    atom = choose_block_scaled(target, a, b, scale, k // shape_of(lhs_scale.type)[-1], m, n, k)
    return packed_atom(atom) if atom is not None and is_packed else atom


def decompose(op: Operation) -> None:
    """Replace one dot_scaled by widened, scaled operands and a dot."""
    block = op.parent
    assert block is not None
    lhs, rhs, acc, lhs_scale, rhs_scale = op.operands
    x = _scaled(block, op, lhs, lhs_scale, len(shape_of(lhs.type)) - 1)
    y = _scaled(block, op, rhs, rhs_scale, len(shape_of(rhs.type)) - 2)
    dot = _insert(block, op, nv_tileaa.Dot.make([x, y, acc], [op.results[0].type]))
    op.results[0].replace_all_uses_with(dot.results[0])
    block.erase_op(op)


def _insert(block: Block, before: Operation, op: Operation) -> Operation:
    op.location = before.location
    block.insert_op_before(op, before)
    return op


def _scaled(block: Block, before: Operation, x: SSAValue, scale: SSAValue, k: int) -> SSAValue:
    """x * scale in bf16, each scale repeated over its block of elements along dimension `k`."""
    def step(op: Operation) -> SSAValue:
        return _insert(block, before, op).results[0]
    shape, blocks = shape_of(x.type), shape_of(scale.type)
    size = shape[k] // blocks[k]
    wide = step(arith.Convertf.make([x], [TensorType(_WIDE, shape)]))
    s = step(arith.Convertf.make([scale], [TensorType(_WIDE, blocks)]))
    if size > 1:
        s = step(nv_tileaa.View.make([s], [TensorType(_WIDE, (*blocks[:k + 1], 1, *blocks[k + 1:]))]))
        s = step(nv_tileaa.Broadcast.make([s], [TensorType(_WIDE, (*blocks[:k + 1], size, *blocks[k + 1:]))]))
        s = step(nv_tileaa.View.make([s], [TensorType(_WIDE, shape)]))
    return step(arith.Mulf.make([wide, s], [TensorType(_WIDE, shape)], {"rounding": StringAttr("nearest_even")}))
