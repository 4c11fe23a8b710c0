"""`flatten-dots`: products of one matrix in a batch are products of matrices.

    %s = dot %a, %b, %acc : tensor<1x128x64xf16>, tensor<1x64x256xf16>, tensor<1x128x256xf32>
->  %a2, %b2, %acc2 = view ... ; %s2 = dot %a2, %b2, %acc2 : tensor<128x256xf32> ; %s = view %s2 : tensor<1x128x256xf32>

What a loop carries of it loses the dimension as well, where it is nothing but the product's sums. Programs drop such dimensions as
they load, or multiply as they have loaded: pairs of CTAs, and what else looks at rows and columns, then find the one form.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.transforms.rules import build

MATRIX = 2


def run(module: Operation, context: Any = None) -> None:
    """Flatten the products of each function, in place."""
    dots = [op for op in module.walk() if isinstance(op, aa.Dot) and _is_of_one(op)]
    loops = dict.fromkeys(op.parent_op() for op in dots)
    for op in dots:
        _flatten(op)
    for loop in loops:
        if isinstance(loop, arith.For):
            for number in range(len(loop.results)):
                _carry_flat(loop, number)


def _is_of_one(op: Any) -> bool:
    shape = op.results[0].type.get_shape()
    return len(shape) > MATRIX and all(n == 1 for n in shape[:-MATRIX])


def _flat(t: Any) -> TensorType:
    return TensorType(t.element_type, t.get_shape()[-MATRIX:])


def _flatten(op: Any) -> None:
    views = [build(op, aa.View, (v,), _flat(v.type)) for v in op.operands]
    t = op.results[0].type
    less = aa.Dot.create(operands=views, result_types=(_flat(t),), properties=dict(op.properties), location=op.location)
    block = op.parent
    block.insert_op_before(less, op)
    op.results[0].replace_all_uses_with(build(op, aa.View, less.results, t))
    op.detach()
    op.erase()


def _carry_flat(loop: Any, number: int) -> None:
    """Carry a tile without the dimensions that a view takes from it first and another one gives it last."""
    arg, last, result = loop.carried_args()[number], loop.regions[0].block.last_op, loop.results[number]
    given = last.operands[number].owner
    users = [use.operation for use in arg.uses]
    if not isinstance(given, aa.View) or not users or not all(isinstance(user, aa.View) for user in users):
        return
    t, flat = arg.type, given.operands[0].type
    if any(user.results[0].type != flat for user in users) or t == flat:
        return
    loop.operands[arith.BOUNDS + number] = build(loop, aa.View, (loop.carried_inits()[number],), flat)
    for user in users:
        user.results[0].replace_all_uses_with(arg)
        user.detach()
        user.erase()
    last.operands[number] = given.operands[0]
    arg._type = result._type = flat
    if result.first_use is not None:
        back = aa.View.create(operands=(result,), result_types=(t,), location=loop.location)
        result.replace_uses_with_if(back.results[0], lambda use: use.operation is not back)
        loop.parent.insert_op_after(back, loop)
