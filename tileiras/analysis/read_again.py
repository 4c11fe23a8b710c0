"""Which loops read what a loop before them has read: the passes of a norm or of a softmax over a long row.

    scf.for %i { %x = tiled_load %v[%row, %i] ; ... }      the maximum
    scf.for %i { %x = tiled_load %v[%row, %i] ; ... }      the sum: of the same tiles
    scf.for %i { %x = tiled_load %v[%row, %i] ; ... }      what is stored

Loops of one block and of the same counts, whose loads go by the same view, or by pointers that are computed alike. Of nv_tileaa.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, OpResult, SSAValue

from tileiras.analysis.invariant_loads import LOADS
from tileiras.dialects import arith
from tileiras.dialects.base import TileOp
from tileiras.dialects.element import tile_bytes
from tileiras.dialects.nv_tileaa import MemTokenType, TiledViewType

MOST_OPS = 64
"""Of the ops that compute an address, at most: longer ones aren't compared."""
PRODUCTS = frozenset({"nv_tileaa.dot", "nv_tileaa.dot_scaled"})


@dataclass(eq=False)
class Reading:
    """A chain: `loops` in the program's order, each of which reads what one before it has read. `tile_bytes`: what an iteration
    reads again, the least of them."""

    loops: list[arith.For] = field(default_factory=list)
    tile_bytes: int = 0


def readings(func: Operation) -> list[Reading]:
    """The chains of two loops and more of a function without products."""
    if any(op.name in PRODUCTS for op in func.walk()):
        return []
    return [chain for op in func.walk() for region in op.regions for block in region.blocks for chain in _chains(block)
            if len(chain.loops) > 1]


def _chains(block: Block) -> list[Reading]:
    """The chains of a block's loops, those of one loop with them."""
    loops = [op for op in block.ops if isinstance(op, arith.For)]
    found: list[Reading] = []
    known: dict[Any, Reading] = {}
    for loop in loops if len(loops) > 1 else ():
        read = {(*loop.operands[:arith.BOUNDS], *address): size for op in loop.regions[0].block.ops
                if op.name in LOADS and (size := _bytes(op.results[0].type)) and (address := _address(op, loop)) is not None}
        again = [key for key in read if key in known]
        chain = known[again[0]] if again else Reading()
        if again:
            size = sum(read[key] for key in again)
            chain.tile_bytes = min(chain.tile_bytes or size, size)
        else:
            found.append(chain)
        chain.loops.append(loop)
        known.update(dict.fromkeys(read, chain))
    return found


def _bytes(t: Any) -> int:
    return tile_bytes(t) if isinstance(t, TensorType) else 0


def _address(load: Any, loop: arith.For) -> tuple[Any, ...] | None:
    """What a load reads as a function of the loop's counter: equal for loads of the same places. None if that isn't one, or the
    same in each iteration."""
    body = loop.regions[0].block
    said: list[Any] = [load.name, load.results[0].type]
    seen: dict[Operation, int] = {}

    def number_of(value: SSAValue) -> int:
        return value.index if isinstance(value, OpResult) else 0

    def say(value: SSAValue) -> bool:
        if isinstance(value.type, MemTokenType):
            return True
        owner = value.owner
        if value is body.args[0]:
            said.append("counter")
        elif owner is body:
            return False
        elif not isinstance(owner, Operation) or owner.parent is not body:
            said.append(_walked(value))
        elif not isinstance(owner, TileOp) or not owner.PURE or owner.regions or len(seen) >= MOST_OPS:
            return False
        elif owner in seen:
            said.append((seen[owner], number_of(value)))
        else:
            seen[owner] = len(seen)
            properties = sorted(owner.properties.items(), key=lambda item: item[0])
            said.append((owner.name, number_of(value), *properties, *(r.type for r in owner.results)))
            return all(map(say, owner.operands))
        return True

    return tuple(said) if all(map(say, load.operands)) and "counter" in said else None


def _walked(value: SSAValue) -> Any:
    """What stands for a value: for a view what it walks in which way, as programs make one a loop and pad them differently."""
    t: Any = value.type
    if isinstance(t, TiledViewType) and isinstance(value.owner, Operation):
        return value.owner.name, *value.owner.operands, t.kind, t.tile_shape, t.dim_map, t.steps
    return value
