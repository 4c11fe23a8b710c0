"""Functions of nv_tileaa become functions of nv_tileas: the same ops under the other name, tensors without layouts yet, and
what is known of each memory access as attributes.

    %x = nv_tileaa.tiled_load %view[%i] : tensor<1024xf32>
->  %x = nv_tileas.tiled_load %view[%i] {contiguous = 0, runs = [4], check = [0]} : tensor<1024xf32>
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import IntAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.entry_hints import worker_warps
from tileiras.conversion.tileaa_to_tileas.facts import access_facts
from tileiras.dialects import nv_tileas
from tileiras.dialects.element import element_bytes

if TYPE_CHECKING:
    from tileiras.machine.targets import Target


def choose_num_warps(func: Operation, target: Target) -> int:
    """Warps of a block: the entry's hint, else enough that a thread holds a few elements of the largest tile, 4 at most,
    8 and 16 when a thread would otherwise hold 64 registers (an accumulator: more than 128; 128 where a warpgroup multiplies)
    or more of one tile. Few warps with large parts of an accumulator read less of the operands from shared memory."""
    wanted = worker_warps(func)
    if wanted is not None:
        return wanted
    largest, cross = 1, False
    for op in func.walk():
        for r in op.results:
            if isinstance(r.type, TensorType):
                n = 1
                for extent in r.type.get_shape():
                    n *= extent
                n = n * element_bytes(r.type.element_type) // 4
                largest = max(largest, n)
        cross |= op.name in ("nv_tileaa.dot", "nv_tileaa.dot_scaled")
    if largest >= 32 * 8 * 128:
        return 16
    if largest >= 32 * 4 * (64 if not cross else 128 if target.has_wgmma else 129):
        return 8
    warps = 1
    while warps < 4 and largest > 32 * warps * 4:
        warps *= 2
    return 4 if cross else warps


def renamed_function(func: Operation, target: Target) -> Operation:
    """The nv_tileas function."""
    values: dict[SSAValue, SSAValue] = {}
    axis = AxisAnalysis(func)

    def block(old: Block) -> Block:
        new = Block(arg_types=[a.type for a in old.args])
        values.update(zip(old.args, new.args))
        for op in old.ops:
            regions = [Region([block(b) for b in region.blocks]) for region in op.regions]
            copy = renamed(op, [values[v] for v in op.operands], regions, access_facts(op, axis, target))
            values.update(zip(op.results, copy.results))
            new.add_op(copy)
        return new
    body = Region([block(b) for b in func.regions[0].blocks])
    return renamed(func, [], [body], {"num_warps": IntAttr(choose_num_warps(func, target))})


def renamed(op: Operation, operands: list[SSAValue], regions: list[Region],
            extra: dict[str, Attribute] | None = None) -> Operation:
    """The nv_tileas op of the same name; arith, math and scf ops stay what they are."""
    cls: Any = nv_tileas.OPS["nv_tileas." + op.name[10:]] if op.name.startswith("nv_tileaa.") else type(op)
    properties = {**op.properties, **extra} if extra else dict(op.properties)
    new = cls.create(operands=operands, result_types=[r.type for r in op.results], properties=properties, regions=regions)
    new.location = op.location
    return new
