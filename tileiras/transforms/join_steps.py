"""`join-steps`: a loop that multiplies narrow tiles takes several of its steps along k at once.

    scf.for %k = 0 to (%n + 31) >> 5 {                       scf.for %k = 0 to ((%n + 31) >> 5) + 1 >> 1 {
      %x = tiled_load %v[%i, %k] : 64x32xf16                   %x = tiled_load %w[%i, %k] : 64x64xf16
      %y = tiled_load %u[%k, %j] : 32x64xf16        ->         %y = tiled_load %t[%k, %j] : 64x64xf16
      %d = dot %x, %y, %acc                                    %d = dot %x, %y, %acc
    }                                                        }

A step is waited for and given back once, whatever its size; rows of 128 bytes are what the copy engine and the banks of shared
memory move at once. (An H100 takes 411 us for a product of 4096 by steps of 64, 494 by steps of 32; 29.7 and 36.2 for one of 2048.)

Words that don't lie along k are brought by threads where warpgroups multiply: these take two such rows at once (tf32 of 2048,
predicted for an H100: 64x64x32 125 us, by steps of 64 109; 64x128 129, 99; 128x128 90, 67; not 128x64, where the other operand is
the larger one: 85, 101).

Where the number of steps isn't a multiple, the last one adds products of zeros: its tiles begin in the arrays and go on behind
their ends, and an array that goes on itself behind the loop's last step is cut there.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.access_facts import promised
from tileiras.analysis.apart import maker_of
from tileiras.analysis.axis import AxisAnalysis
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.element import element_bytes, element_name
from tileiras.dialects.nv_tileaa import int_array
from tileiras.transforms.rules import build, int_constant, int_splat, int_width
from tileiras.transforms.steps import Steps, loops_of_steps, resize, set_extents, sums_apart
from tileiras.transforms.structure import insert_in_front, is_defined_in

LINE = 128
"""Bytes along k of a step that is long enough."""
WORD_BYTES = 4
RING = 4
"""Steps that shared memory is to hold."""
ELEMENTS = frozenset({"f16", "bf16", "tf32", "f8E4M3FN", "f8E5M2", "i8"})
"""Of operands: those that tensor cores take."""


def run(module: Operation, context: Any) -> None:
    """Join steps, in place."""
    for steps in loops_of_steps(module, context):
        _try(steps, context)


def _try(steps: Steps, context: Any) -> None:
    loop, loads = steps.loop, steps.loads
    parts, begin = _parts(steps, context), int_constant(loop.lower)
    if parts == 1 or begin is None or begin < 0 or begin % parts:
        return
    axis = AxisAnalysis(steps.func)
    least, most = axis.bounds(loop.upper)
    if least is None or most is None or least < 0:
        return
    divides = axis.divisor(loop.upper) % parts == 0
    if not divides and (int_constant(loop.upper) is not None or not all(_can_end(loop, load, dim, most) for load, dim in loads)):
        return
    for load, dim in loads:
        view: Any = load.view.type
        extent, array = view.tile_shape.data[dim].data * parts, load.view.owner.operands[0]
        if divides:
            resize(load, dim, extent, array, view.padding.data)
        else:
            resize(load, dim, extent, _ended(loop, load, dim), "zero")
            _may_leave(load, dim)
    set_extents(steps.tiles, parts)
    kind = loop.lower.type
    loop.operands[0] = int_splat(loop, kind, begin // parts)
    more = build(loop, arith.Addi, (loop.upper, int_splat(loop, kind, parts - 1)), kind)
    loop.operands[1] = build(loop, arith.Shrui, (more, int_splat(loop, kind, parts.bit_length() - 1)), kind)


def _parts(steps: Steps, context: Any) -> int:
    """How many steps are joined. What sums of few bits are for 64 elements along k isn't what they are for 128."""
    target = context.target
    if any(element_name(v.type.element_type) not in ELEMENTS for dot in steps.dots for v in dot.operands[:2]) or \
            (target.has_wgmma and any(map(sums_apart, steps.dots))):
        return 1
    types = [(load.results[0].type, dim) for load, dim in steps.loads]
    line, ring = (2 * LINE, RING - 1) if target.has_wgmma and context.uses("wgmma") and _are_turned(steps.loads) else (LINE, RING)
    parts = line // max(element_bytes(t.element_type) * t.get_shape()[dim] for t, dim in types)
    while parts > 1 and steps.bytes_loaded() * parts * ring > target.most_static_smem:
        parts //= 2
    return max(1, parts)


def _are_turned(loads: list[tuple[Any, int]]) -> bool:
    """Whether threads bring the larger part of words, since these don't lie along k: several warps' loads are on their way at once
    then, and each step has barriers besides."""
    size = {True: 0, False: 0}
    for load, dim in loads:
        view: Any = load.view.type
        t = load.results[0].type
        if element_bytes(t.element_type) != WORD_BYTES:
            return False
        size[view.memref.strides.data[view.dim_map.data[dim].data].data != 1] += prod(t.get_shape())
    return size[True] >= size[False]


def _extent(load: Any, dim: int) -> tuple[Any, int, int] | None:
    """The array of a load's tiles, which of its dimensions this one of the tiles runs along, and which operand its extent is."""
    maker = maker_of(load.view)
    if maker is None:
        return None
    shape = [n.data for n in maker.results[0].type.shape]
    along = load.view.type.dim_map.data[dim].data
    return maker, along, 1 + shape[:along].count(aa.DYNAMIC)


def _can_end(loop: Any, load: Any, dim: int, most: int) -> bool:
    """Whether what a load finds behind the loop's last step can be zero."""
    view: Any = load.view.type
    found = _extent(load, dim)
    if found is None or view.padding.data not in ("", "zero"):
        return False
    maker, along, number = found
    is_static = view.memref.shape.data[along].data != aa.DYNAMIC
    width = int_width(loop.upper.type if is_static else maker.operands[number].type)
    return int_width(loop.upper.type) <= width and most * view.tile_shape.data[dim].data < 1 << width


def _ended(loop: Any, load: Any, dim: int) -> SSAValue:
    """The array of a load's tiles, not beyond the loop's last step."""
    found = _extent(load, dim)
    assert found is not None
    maker, along, number = found
    old: Any = maker.results[0].type
    step = load.view.type.tile_shape.data[dim].data
    shape = [n.data for n in old.shape]
    is_static = shape[along] != aa.DYNAMIC
    extent = None if is_static else maker.operands[number]
    if extent is not None and _is_whole(loop.upper, extent, step):
        return maker.results[0]
    place = _place(loop, (maker.results[0], loop.upper))
    end: SSAValue = loop.upper
    kind: Any = end.type if extent is None else extent.type
    if kind != end.type:
        end = build(place, arith.Extui, (end,), kind)
    end = build(place, arith.Muli, (end, int_splat(place, kind, step)), kind)
    end = build(place, arith.Minui, (int_splat(place, kind, shape[along]) if extent is None else extent, end), kind)
    operands, properties = list(maker.operands), dict(maker.properties)
    if is_static:
        shape[along] = aa.DYNAMIC
        operands.insert(number, end)
        counts = list(properties["operandSegmentSizes"].get_values())
        counts[1] += 1
        properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, counts)
    else:
        operands[number] = end
    t = aa.MemRefType(old.element_type, int_array(shape), old.strides)
    new = aa.MakeMemref.create(operands=operands, result_types=(t,), properties=properties, location=maker.location)
    insert_in_front(place, new)
    return new.results[0]


def _is_whole(steps: SSAValue, extent: SSAValue, step: int) -> bool:
    """Whether so many steps go through all of an extent: (extent + step - 1) / step."""
    shift: Any = steps.owner
    if not isinstance(shift, arith.Shrui) or int_constant(shift.operands[1]) != step.bit_length() - 1:
        return False
    total: Any = shift.operands[0].owner
    if not isinstance(total, arith.Addi):
        return False
    return any(int_constant(total.operands[1 - i]) == step - 1 and _bare(total.operands[i]) is _bare(extent) for i in (0, 1))


def _bare(value: SSAValue) -> SSAValue:
    while isinstance(value.owner, Operation) and value.owner.name == "nv_tileaa.assume":
        value = value.owner.operands[0]
    return value


def _place(loop: Operation, values: Sequence[SSAValue]) -> Operation:
    """In front of which op these values are first there: the loop, or one that holds it."""
    place, block, outer = loop, loop.parent, loop.parent_op()
    while block is not None and isinstance(outer, (arith.For, arith.If)) and not any(is_defined_in(v, block) for v in values):
        place, block, outer = outer, outer.parent, outer.parent_op()
    return place


def _may_leave(load: Any, dim: int) -> None:
    """A load's tiles may go on behind their array's end along a dimension."""
    flags = [int(flag) for flag in promised(load, len(load.view.type.tile_shape))]
    if flags[dim]:
        flags[dim] = 0
        load.properties["inbounds"] = int_array(flags)
