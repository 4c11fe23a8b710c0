"""`prepare-dot-scaled`: block-scaled products as their instructions take them, by tcgen05 or by mma.sync.

    %d = dot_scaled %a, %b, %c, %sa, %sb : tensor<128x128xf4E2M1FN>, tensor<128x64xf4E2M1FN>, ...
->  %x, %y = %a and %b as bytes, two elements along k in each : tensor<128x64xi8>, tensor<64x64xi8>
    %d = dot_scaled %x, %y, %c, %sa, %sb {packed, block = 16}

Elements that come out of bytes (`unpack`) are those bytes; only others are packed. 8-bit products by mma.sync stay as they are. One
by tcgen05 with too few rows is turned, and so is the accumulator that a loop carries for it:

    %d = dot_scaled %a, %b, %c, %sa, %sb : 64x32, 32x128 -> 64x128      ->      %e = dot_scaled %b', %a', %c', %sb', %sa' ; %d = %e'
"""
from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.dialects.builtin import Float4E2M1FNType, IntAttr, IntegerType, TensorType, UnitAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue

from tileiras.analysis.axis_info import shape_of
from tileiras.analysis.layout_rules import permutation_of
from tileiras.dialects import arith, nv_tileaa
from tileiras.dialects.nv_tileaa import int_array
from tileiras.layout.atoms.tensor_scaled import M
from tileiras.transforms import dce

BYTE = IntegerType(8)
PAIR = 2
MOST_STEPS = 64
"""Ops looked through, at most, from a product's operand to the bytes that it was made of."""


def is_turned(m: int, n: int) -> bool:
    """Whether a product of m rows and n columns is computed with its columns as the rows."""
    return m < M and n > m


def run(module: Operation, context: Any) -> None:
    """Prepare what `decompose-dot-scaled` left, in place."""
    into_tensor_memory = context.target.has_tcgen05 and context.uses("tcgen05")
    if not (into_tensor_memory or context.target.has_block_scaled_mma):
        return
    products = [op for op in module.walk() if op.name == "nv_tileaa.dot_scaled" and "block" not in op.properties]
    products = [op for op in products if into_tensor_memory or _is_packable(op)]
    for op in products:
        prepare(op, into_tensor_memory)
    if products:
        dce.run(module, context)


def _is_packable(op: Any) -> bool:
    """Whether both operands are 4-bit floats."""
    return all(isinstance(v.type.element_type, Float4E2M1FNType) for v in op.operands[:2])


def prepare(op: Any, into_tensor_memory: bool) -> None:
    """Rewrite one product."""
    if into_tensor_memory and is_turned(*shape_of(op.results[0].type)[-2:]):
        op = _turn(op)
    lhs, rhs, acc, lhs_scale, rhs_scale = op.operands
    rank = len(shape_of(lhs.type))
    k_dims = rank - 1, rank - 2
    block = shape_of(lhs.type)[-1] // shape_of(lhs_scale.type)[-1]
    packed = _is_packable(op)
    factors = [v if not packed else _packed(v, dim, op) for v, dim in zip((lhs, rhs), k_dims)]
    new = nv_tileaa.DotScaled.make([*factors, acc, lhs_scale, rhs_scale], [op.results[0].type], {
        "packed": UnitAttr() if packed else None, "block": IntAttr(block), "pair": op.properties.get("pair")})
    _insert(new, op)
    op.results[0].replace_all_uses_with(new.results[0])
    op.detach()
    op.erase()


def _like(v: SSAValue, shape: Sequence[int]) -> TensorType:
    assert isinstance(v.type, TensorType)
    return TensorType(v.type.element_type, shape)


def _insert(new: Any, before: Operation) -> SSAValue:
    new.location = before.location
    assert before.parent is not None
    before.parent.insert_op_before(new, before)
    return new.results[0]


# --- turning ------------------------------------------------------------------------------------------------------------


def _turn(op: Any) -> Operation:
    """The product with rows and columns exchanged."""
    lhs, rhs, acc, lhs_scale, rhs_scale = op.operands
    number = _carried(op)
    if number is not None:
        _turn_carried(op.parent.parent_op(), number)
    else:
        acc = _turned(acc, op)
    operands = [_turned(rhs, op), _turned(lhs, op), acc, _turned(rhs_scale, op), _turned(lhs_scale, op)]
    new = nv_tileaa.DotScaled.make(operands, [acc.type])
    result = _insert(new, op)
    if number is None:
        result = _turned(result, op)
    op.results[0].replace_all_uses_with(result)
    op.detach()
    op.erase()
    return new


def _exchange(shape: Sequence[int]) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2])


def _turned(v: SSAValue, before: Operation) -> SSAValue:
    """A matrix (or a batch of them) transposed."""
    shape = shape_of(v.type)
    last = len(shape) - 1
    order = int_array((*range(last - 1), last, last - 1))
    owner = v.owner
    if isinstance(owner, nv_tileaa.Permute) and owner.properties["permutation"] == order:
        return owner.operands[0]
    t = _like(v, _exchange(shape))
    if isinstance(owner, arith.Constant) and not isinstance(owner.properties["value"], nv_tileaa.DenseTileAttr):
        return _insert(arith.Constant.make([], [t], {"value": owner.properties["value"]}), before)     # one value everywhere
    return _insert(nv_tileaa.Permute.make([v], [t], {"permutation": order}), before)


def _carried(op: Any) -> int | None:
    """The number under which the loop around carries the product's accumulator, if it does and nothing else in it uses that."""
    acc, result = op.operands[2], op.results[0]
    body = op.parent
    loop = body.parent_op()
    if loop is None or loop.name != "scf.for" or not isinstance(acc, BlockArgument) or acc.owner is not body:
        return None
    number = acc.index - 1
    if number < 0 or not acc.has_one_use() or not result.has_one_use():
        return None
    use = result.first_use
    return number if use.operation is body.last_op and use.index == number else None


def _turn_carried(loop: Any, number: int) -> None:
    """A loop carries the transpose of what it did."""
    body: Block = loop.regions[0].block
    first = len(loop.operands) - len(loop.results)
    init, result, arg = loop.operands[first + number], loop.results[number], body.args[1 + number]
    loop.operands[first + number] = turned = _turned(init, loop)
    old = result.type
    arg._type = result._type = turned.type
    if result.first_use is not None:
        last = len(shape_of(result.type)) - 1
        order = int_array((*range(last - 1), last, last - 1))
        back = nv_tileaa.Permute.make([result], [old], {"permutation": order})
        back.location = loop.location
        loop.parent.insert_op_after(back, loop)
        result.replace_uses_with_if(back.results[0], lambda use: use.operation is not back)


# --- bytes --------------------------------------------------------------------------------------------------------------


def _packed(v: SSAValue, dim: int, before: Operation) -> SSAValue:
    """4-bit elements as bytes, two neighbours along `dim` in each, the first in the low half."""
    steps = _way_from_bytes(v, dim)
    if steps is None:
        return _pack(v, dim, before)
    source = steps[-1].operands[0]
    for op in reversed(steps[:-1]):
        shape = list(shape_of(op.results[0].type))
        shape[_dim_behind(steps, op, dim)] //= PAIR
        if isinstance(op, nv_tileaa.View) and isinstance(source.owner, nv_tileaa.View):
            source = source.owner.operands[0]
        source = _insert(type(op).make([source], [_like(source, shape)], dict(op.properties)), before)
    return source


def _way_from_bytes(v: SSAValue, dim: int) -> list[Any] | None:
    """The ops that lead from bytes to these elements, last one first, none of which parts a byte's two; None where others do."""
    found: list[Any] = []
    while len(found) < MOST_STEPS and isinstance(v, OpResult):
        op: Any = v.owner
        found.append(op)
        if isinstance(op, nv_tileaa.Unpack):
            t = op.operands[0].type
            return found if isinstance(t, TensorType) and t.element_type == BYTE else None
        before = _dim_before(op, dim)
        if before is None:
            return None
        v, dim = op.operands[0], before
    return None


def _dim_before(op: Any, dim: int) -> int | None:
    """The dimension of an op's operand along which pairs lie that are pairs along `dim` of its result, None if they don't."""
    if isinstance(op, nv_tileaa.Permute):
        return permutation_of(op)[dim]
    if not isinstance(op, (nv_tileaa.View, nv_tileaa.Broadcast)) or not isinstance(op.operands[0].type, TensorType):
        return None
    have, shape = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    if isinstance(op, nv_tileaa.Broadcast):
        return dim if have[dim] == shape[dim] else None
    return len(have) - 1 if dim == len(shape) - 1 and have and have[-1] % PAIR == 0 else None


def _dim_behind(steps: list[Any], op: Any, dim: int) -> int:
    """The dimension of an op's result along which the pairs lie, `dim` being that of the last op's."""
    for step in steps:
        if step is op:
            return dim
        before = _dim_before(step, dim)
        assert before is not None
        dim = before
    raise AssertionError("the op is on the way")


def _pack(v: SSAValue, dim: int, before: Operation) -> SSAValue:
    """The elements of a tile packed: `pack` takes them row by row."""
    shape = shape_of(v.type)
    last = len(shape) - 1
    order = [*(d for d in range(last + 1) if d != dim), dim]
    if dim != last:
        v = _permuted(v, order, before)
    rows = shape_of(v.type)
    v = _insert(nv_tileaa.View.make([v], [_like(v, (prod(rows),))]), before)
    v = _insert(nv_tileaa.Pack.make([v], [TensorType(BYTE, (prod(rows) // PAIR,))]), before)
    v = _insert(nv_tileaa.View.make([v], [_like(v, (*rows[:-1], rows[-1] // PAIR))]), before)
    return v if dim == last else _permuted(v, [order.index(d) for d in range(last + 1)], before)


def _permuted(v: SSAValue, order: Sequence[int], before: Operation) -> SSAValue:
    shape = shape_of(v.type)
    numbers: Attribute = int_array(order)
    return _insert(nv_tileaa.Permute.make([v], [_like(v, [shape[d] for d in order])], {"permutation": numbers}), before)
