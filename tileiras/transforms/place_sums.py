"""`place-sums`: sums that threads keep beside attention's products lie in tensor memory, and are added to an iteration later.

    for %i (%sum = 0) {                                store_tmem 0, %o ; store_tmem 0, %s
      %x = load_tmem (scores) ...                      %l = for %i (%r' = 1) {
      store_tmem %w, %p                                  %x = load_tmem (scores) ...
      tensor_dot %p, %v, %o                    ->        store_tmem %w, %p
      %next = %sum * %r + load_tmem %o                   add_tmem %r', %o, %s
      yield %next                                        tensor_dot %p, %v, %o
    }                                                    yield %r
                                                       }
                                                       add_tmem %l, %o, %s ; load_tmem %s

A thread that has a row of scores and one of sums has no registers left for anything else (128 rows, 128 keys, 128 features: 256 of
255), and with half as many two blocks don't share an SM. In tensor memory sums take none but while they are added to, some columns
at a time, once the weights are stored. The same is computed; the first iteration adds a product of zeros to sums of zeros.

Left alone where tensor memory has no room for both.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import Float32Type, FloatAttr, UnitAttr
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.warpgroup_dots import is_zero
from tileiras.dialects import arith, nv_tileas
from tileiras.layout.atoms.umma import COLUMNS
from tileiras.remarks import PASSED, TENSOR_CORE, Remark, remark
from tileiras.schedule.depth import registers_of
from tileiras.transforms.advance_dots import LOAD, change_on_trial, fits, shares_an_sm
from tileiras.transforms.iterations import Iterations
from tileiras.transforms.late_sums import LateSums, late_sums
from tileiras.transforms.rules import attr_splat, element_type
from tileiras.transforms.rules.floats import plain
from tileiras.transforms.structure import carry_no_longer
from tileiras.transforms.tma_common import erase

LITTLE, MUCH = 128, 128
"""Registers of a thread for scores and sums: below so many these stay in them (64x64 tiles of 128 features, B200: 44.7 us, 53.3
placed); up to so many they do where tensor memory would have room for fewer blocks (64x128 tiles of 128, two: 47.2, 55.2)."""


def run(module: Operation, context: Any) -> None:
    """Place such sums, in place."""
    change_on_trial(module, context, _found, lambda func: _place, _has_room, _told_of)


def _told_of(func: Operation, loop: Operation) -> Remark:
    return remark(func, loop, PASSED, TENSOR_CORE, "TensorCoreSumsPlaced",
                  "Sums beside products lie in tensor memory, and are added to an iteration later")


def _found(loop: Any) -> LateSums | None:
    """Sums that are multiplied by one number a row, then added to."""
    late = late_sums(loop)
    if late is None or len(late.factors) != 1 or "quads" in late.load.properties or \
            not (is_zero(loop.carried_inits()[late.place]) or _left_there(loop, late)):
        return None
    if _held(loop, late) < LITTLE:
        return None
    sums, loaded, (factor,) = loop.carried_args()[late.place], late.load.results[0], late.factors
    if not isinstance(sums.type.element_type, Float32Type) or not all(map(plain, late.ops)):
        return None
    *before, last = late.ops
    if isinstance(last, arith.Fma):
        return late if not before and last.operands[2] is loaded and set(last.operands[:2]) == {sums, factor} else None
    if not isinstance(last, arith.Addf) or len(before) != 1 or not isinstance(before[0], arith.Mulf):
        return None
    scaled = before[0]
    return late if set(scaled.operands) == {sums, factor} and set(last.operands) == {scaled.results[0], loaded} else None


def _held(loop: Any, late: LateSums) -> int:
    """Registers of a thread for the scores and the sums."""
    scores = max((registers_of(op.results[0]) for op in loop.walk() if op.name == LOAD and op is not late.load), default=0)
    return scores + registers_of(late.load.results[0])


def _left_there(loop: Any, late: LateSums) -> nv_tileas.AddTmem | None:
    """What adds an earlier loop's last product to sums, with which this one goes on, by the same roundings, and which nobody else
    wants."""
    load = loop.carried_inits()[late.place].owner
    add = load.prev_op if isinstance(load, nv_tileas.LoadTmem) else None
    return add if isinstance(add, nv_tileas.AddTmem) and add.buffer is load.buffer and load.results[0].has_one_use() and \
        add.added.type == late.load.buffer.type and add.factor.has_one_use() and add.parent is loop.parent and \
        ("fused" in add.properties) == (len(late.ops) == 1) else None


def _place(loop: Any, late: LateSums) -> Operation:
    """Let them lie there; the loop."""
    body = loop.regions[0].block
    iterations = Iterations(loop)
    t = late.load.results[0].type
    (wide, narrow), = late.factors.items()
    left = _left_there(loop, late)
    product = late.load.buffer
    gone: list[Operation] = []
    if left is not None:        # this loop's first iteration adds the earlier one's last product
        load, spread = left.next_op, left.factor.owner
        home, first = left.buffer, spread.operands[0]
        product.replace_all_uses_with(left.added)
        gone, product = [load, left, spread, product.owner], left.added
    else:
        product.owner.detach()
        iterations.insert(product.owner)
        made = nv_tileas.AllocTensor.make([], [product.type])
        iterations.insert(made)
        home = made.results[0]
        zeros = iterations.zeros(t)
        for place in (product, home):
            iterations.insert(nv_tileas.StoreTmem.make([zeros, place]))
        first = attr_splat(loop, narrow.type, FloatAttr(1.0, element_type(narrow.type)))      # type: ignore[arg-type]

    def add(factor: SSAValue) -> None:
        fused = {"fused": UnitAttr()} if len(late.ops) == 1 else {}
        factors = iterations.make(nv_tileas.Broadcast, [factor], wide.type)
        iterations.insert(nv_tileas.AddTmem.make([factors, product, home], [], fused))
    iterations.before = late.stored.next_op     # type: ignore[assignment]
    add(body.insert_arg(narrow.type, len(body.args)))
    loop = iterations.carry([first], [narrow])
    iterations.before = loop.next_op
    add(loop.results[-1])
    loop.results[late.place].replace_all_uses_with(iterations.make(nv_tileas.LoadTmem, [home], t))
    body.last_op.operands[late.place] = loop.carried_inits()[late.place]
    erase(*reversed(late.ops), late.load)
    loop = carry_no_longer(loop, [late.place])
    erase(*gone)
    return loop


def _has_room(before: Operation, after: Operation, target: Any) -> bool:
    """Whether tensor memory holds all of it; of another block on the SM, too, unless threads have hardly registers for that."""
    if not fits(after, COLUMNS, target):
        return False
    if shares_an_sm(after, target) or not shares_an_sm(before, target):
        return True
    loops = [(op, _found(op)) for op in before.walk() if op.name == "scf.for"]
    return any(late is not None and _held(loop, late) > MUCH for loop, late in loops)
