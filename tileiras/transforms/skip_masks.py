"""`skip-masks`: where a condition on scalars says that a mask selects every element, a tile isn't masked.

    scf.for %j ... {                                   scf.for %j ... {
      %s = dot ...                                       %s = dot ...
      %m = cmpi slt, %cols + splat(%j * 64), %n          %all = %n - %j * 64 - 64 >= 0
      %t = select %m, %s, %low                  ->       %t = scf.if %all { yield %s }
    }                                                         else { %m = ... ; yield select %m, %s, %low }
                                                       }

A mask that selects one of two constants to be added is left out with the choice: the addition stays.
The scores of attention are masked in every iteration, though only the last ones have keys beyond the end or, where it is causal,
behind the query: comparing and selecting are a quarter of such a loop's instructions. The branch is the whole block's. Loops with
products are looked at, and masks of so many elements that a branch costs less than they do; on targets whose tiles the copy engine
brings. Before those the warps that multiply copy, too, between one instruction of a product and the next: a branch would part what
stands between two products (A100, attention without causal mask: 1.27 of the original's speed would become 0.99).
"""
from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, TensorType, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.analysis.tile_extremes import Condition, Least, conditions
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.transforms.rules import build

LEAST_ELEMENTS = 2048
"""Of a tile: sixteen a thread, where a block has 128."""
PRODUCTS = ("nv_tileaa.dot", "nv_tileaa.dot_scaled")
BOOL = IntegerType(1)


def run(module: Operation, context: Any) -> None:
    """Put the masks of loops with products under conditions, in place."""
    if not context.target.has_tma:
        return
    for loop in [op for op in module.walk() if isinstance(op, (arith.For, aa.Loop)) and _multiplies(op)]:
        for select in [op for op in loop.regions[0].block.ops if isinstance(op, arith.Select)]:
            _skip(select)


def _multiplies(loop: Operation) -> bool:
    return any(op.name in PRODUCTS for op in loop.regions[0].block.ops)


def _skip(select: Any) -> None:
    mask, chosen, other = select.operands
    t = mask.type
    if not isinstance(t, TensorType) or prod(t.get_shape()) < LEAST_ELEMENTS:
        return
    last = _user(select) if _is_constant(chosen) and _is_constant(other) else select
    if last is None or (last is select and _is_constant(chosen) == _is_constant(other)):
        return
    wanted, found = _usual(select)
    if not found:
        return
    condition = _emit(found, last)
    then, masked = Block(), Block()
    plain: Any = chosen if wanted else other
    if last is not select:
        user = last.clone({select.results[0]: plain})
        then.add_op(user)
        plain = user.results[0]
    then.add_op(_yield(plain, last))
    made = arith.If.create(operands=[condition], result_types=[last.results[0].type], regions=[Region(then), Region(masked)],
                           location=last.location)
    last.parent.insert_op_before(made, last)
    last.results[0].replace_all_uses_with(made.results[0])
    for op in dict.fromkeys((select, last)):
        op.detach()
        masked.add_op(op)
    masked.add_op(_yield(last.results[0], last))
    _sink(made, masked)


def _usual(select: Any) -> tuple[bool, list[Condition] | None]:
    """What a mask is in most iterations, and under which conditions: what selects a tile rather than a constant, and of two
    constants what can be known."""
    mask, chosen, other = select.operands
    if _is_constant(chosen) != _is_constant(other):
        wanted = _is_constant(other)
        return wanted, conditions(mask, wanted)
    found = conditions(mask, True)
    return (True, found) if found else (False, conditions(mask, False))


def _user(select: Any) -> Any:
    """The op that adds what a mask selects of two constants to a tile (0 or a large negative number to scores), None if there is
    none."""
    result = select.results[0]
    use = result.first_use if result.has_one_use() else None
    user = use.operation if use is not None else None
    return user if isinstance(user, arith.Addf) and user.parent is select.parent else None


def _sink(made: Operation, masked: Block) -> None:
    """What only makes the mask, or what it selects, goes along."""
    body = made.parent
    assert body is not None
    op = made.prev_op
    while op is not None:
        before = op.prev_op
        if getattr(op, "PURE", False) and not op.regions and op.results and \
                all(use.operation.parent is masked for r in op.results for use in r.uses) and _is_part(op):
            op.detach()
            assert masked.first_op is not None
            masked.insert_op_before(op, masked.first_op)
        op = before


def _is_part(op: Operation) -> bool:
    """Whether an op makes bits or integers, or a constant: what a mask is made of."""
    def is_cheap(v: SSAValue) -> bool:
        t: Any = v.type.element_type if isinstance(v.type, TensorType) else v.type
        return isinstance(t, IntegerType)
    return isinstance(op, arith.Constant) or all(is_cheap(r) for r in op.results)


def _is_constant(v: SSAValue) -> bool:
    return isinstance(v.owner, arith.Constant) or (isinstance(v.owner, Operation) and v.owner.name == "nv_tileaa.splat")


def _yield(v: SSAValue, like: Operation) -> Operation:
    return arith.Yield.create(operands=[v], location=like.location)


def _emit(found: list[Condition], before: Operation) -> SSAValue:
    """The conditions' conjunction, put before an op."""
    def constant(n: int) -> SSAValue:
        return build(before, arith.Constant, (), i64, {"value": IntegerAttr(n, i64)})

    def holds(condition: Condition) -> SSAValue:
        if not isinstance(condition, Least):
            return condition
        total = constant(condition.number)
        for v, factor in condition.terms:
            wide = build(before, arith.Extsi, (v,), i64)
            if abs(factor) != 1:
                wide = build(before, arith.Muli, (wide, constant(abs(factor))), i64)
            total = build(before, arith.Addi if factor > 0 else arith.Subi, (total, wide), i64)
        return build(before, arith.Cmpi, (total, constant(0)), BOOL, {"predicate": StringAttr("sge")})
    result, *others = map(holds, dict.fromkeys(found))
    for other in others:
        result = build(before, arith.Andi, (result, other), BOOL)
    return result
