"""`back-and-forth`: a loop that reads again what the loop before it has read begins with what that has read last.

    scf.for %i = 0 to %n step 1 (%m) {              the same
      %x = tiled_load %v[%row, %i] ; %m + exp(%x)
    }                                         ->
    scf.for %i = 0 to %n step 1 {                   scf.for %i = 0 to %n step 1 {
      %x = tiled_load %v[%row, %i]                    %j = %n - 1 - %i
      tiled_store ..., %o[%row, %i]                   %x = tiled_load %v[%row, %j] ; tiled_store ..., %o[%row, %j]
    }                                               }

Where the rows that an SM's blocks are about don't fit a cache, what a loop has read first is what it no longer holds when the next
loop comes: read in the same order, all comes from memory again; read backwards, what is still there does not. Softmax of 16,384
f32 by tiles of 1,024: H100 178.4 us, 141.9 so; of 65,536 f16 by 4,096: 89.2, 73.4; A100 311.1, 267.5.

Only loops whose iterations may come in any order, to the bit: what they carry are maxima, minima and sums of integers, no order is
asked for by tokens, and nothing is printed. Sums of floating-point numbers stay, and the loops beside them turn.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.invariant_loads import LOADS
from tileiras.analysis.read_again import readings
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.base import TileOp
from tileiras.transforms.rules import build, int_constant

LEAST_BYTES = 1024
"""Of a tile: smaller ones are small rows', or brought several at a time (`following_tiles`), in the order of memory."""
ANY_ORDER = (arith.Maxf, arith.Minf, arith.Maxsi, arith.Maxui, arith.Minsi, arith.Minui, arith.Addi, arith.Andi, arith.Ori,
             arith.Xori)
"""What of several numbers gives the same in any order."""
STORES = frozenset({"nv_tileaa.store", "nv_tileaa.tiled_store"})
WEAK = "weak"


def run(module: Operation, context: Any) -> None:
    """Turn the loops, in place."""
    for func in module.regions[0].block.ops:
        if isinstance(func, aa.Func):
            for chain in readings(func):
                if chain.tile_bytes >= LEAST_BYTES:
                    for loop in _turning(chain.loops):
                        _turn(loop)
                        if context.remarks is not None:
                            from tileiras.remarks import MEMORY, PASSED, remark
                            context.remarks.append(remark(func, loop, PASSED, MEMORY, "ReadsBackwards",
                                                          "The loop begins with what the one before has read last"))


def _turning(loops: list[arith.For]) -> list[arith.For]:
    """The loops of a chain that are to run backwards: each that may goes against the one before it, those in front of the first
    that may not against the one behind."""
    may = [_may_turn(loop) for loop in loops]
    backwards = [False] * len(loops)
    fixed = may.index(False) if False in may else 0
    for i in [*range(fixed - 1, -1, -1), *range(fixed + 1, len(loops))]:
        beside = i + 1 if i < fixed else i - 1
        backwards[i] = may[i] and not backwards[beside]
    return [loop for loop, turns in zip(loops, backwards) if turns]


def _may_turn(loop: arith.For) -> bool:
    """Whether a loop from 0 on by steps of a power of two gives the same in any order of its iterations."""
    step = int_constant(loop.operands[2])
    if "unsigned_cmp" in loop.properties or int_constant(loop.operands[0]) != 0 or step is None or step < 1 or step & (step - 1):
        return False
    body = loop.regions[0].block
    end = body.last_op
    return isinstance(end, arith.Yield) and all(map(_is_collected, body.args[1:], end.operands)) and \
        all(map(_has_no_order, body.ops))


def _is_collected(carried: SSAValue, following: SSAValue) -> bool:
    op: Any = following.owner
    return carried is following or (isinstance(op, ANY_ORDER) and "overflow" not in op.properties and
                                    [use.operation for use in carried.uses] == [op] and len(list(following.uses)) == 1)


def _has_no_order(op: Any) -> bool:
    if op.name in LOADS or op.name in STORES:
        return op.properties["mem_semantic"].data == WEAK
    if isinstance(op, arith.If):
        return all(map(_has_no_order, (inner for region in op.regions for block in region.blocks for inner in block.ops)))
    return isinstance(op, TileOp) and (op.PURE or isinstance(op, arith.Yield))


def _turn(loop: arith.For) -> None:
    """Let the counter's users have what it is as many iterations from the end."""
    body = loop.regions[0].block
    counter, first = body.args[0], body.first_op
    assert first is not None
    _, end, step = loop.operands[:arith.BOUNDS]
    users, width = list(counter.uses), int_constant(step)
    assert width is not None

    def number(n: int) -> SSAValue:
        return build(loop, arith.Constant, (), end.type, {"value": IntegerAttr(n, end.type)})       # type: ignore[arg-type]
    last = build(loop, arith.Subi, (end, step if width == 1 else number(1)), end.type)
    if width > 1:
        last = build(loop, arith.Muli, (build(loop, arith.Shrui, (last, number(width.bit_length() - 1)), end.type), step), end.type)
    place = build(first, arith.Subi, (last, counter), counter.type)
    for use in users:
        use.operation.operands[use.index] = place
