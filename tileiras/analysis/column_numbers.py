"""Which products into tensor memory meet a number for each of their columns, and nothing of their rows?

    %s = dot %k, %q, 0                       64 keys x 64 queries
    %l = broadcast (view (load %lse))        a number for each query, the same for all keys
    %p = exp2 (subf %s, %l)        ->        threads have quads of %s: sixteen numbers of %l each, where half a row has 32
    dot %p, %do, %dv

The gradients of attention. What element-wise ops join is looked at together: all of it lies in threads alike, from products to
those that take it as rows. Sums over rows, stores, and what a loop carries like whole rows better.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, OpResult, SSAValue

from tileiras.analysis.dot_chains import is_row, yielded
from tileiras.analysis.program_slice import loop_around
from tileiras.dialects import arith
from tileiras.dialects.nv_tileas import LOADS

MOST_LOOKED_AT = 256
"""Values that one product's result is joined with."""
DEEPEST = 16
"""Ops from a load to where its numbers are spread."""
DOT, BROADCAST = "nv_tileas.dot", "nv_tileas.broadcast"
MADE_ANYWHERE = frozenset({BROADCAST, "nv_tileas.splat", "nv_tileas.make_range", "nv_tileas.view", "arith.constant"})
"""Ops whose results come in whatever layout is wanted, or that spread a smaller tile."""


@dataclass
class Joined:
    """`sums`: products whose results are joined. `rows`: products that take some of it as their first operand. `meets`: whether a
    number for each column is loaded for it where the products are."""

    sums: list[Operation] = field(default_factory=list)
    rows: list[Operation] = field(default_factory=list)
    meets: bool = False


def joined_by_columns(dot: Operation) -> Joined | None:
    """What a product's result is joined with, if numbers for each column are and nothing minds."""
    if loop_around(dot) is None:
        return None
    result = dot.results[0]
    assert isinstance(result.type, TensorType)
    shape = result.type.get_shape()
    found = Joined()
    pending: list[SSAValue] = [result]
    seen: set[SSAValue] = {result}

    def look_at(*values: SSAValue) -> None:
        for v in values:
            if v not in seen and isinstance(v.type, TensorType) and v.type.get_shape() == shape:
                seen.add(v)
                pending.append(v)

    while pending:
        if len(seen) > MOST_LOOKED_AT:
            return None
        v = pending.pop()
        maker = v.owner
        if not isinstance(maker, Operation) or not isinstance(v, OpResult):
            return None
        if maker.name == DOT:
            found.sums.append(maker)
        elif isinstance(maker, arith.Elementwise):
            look_at(*maker.operands)
        elif isinstance(maker, arith.If):
            look_at(*yielded(v))
        elif maker.name in MADE_ANYWHERE:
            found.meets = found.meets or (maker.name == BROADCAST and _is_loaded_row(maker.operands[0], dot))
            continue
        else:
            return None
        for use in v.uses:
            user = use.operation
            if user.name == DOT and use.index == 0:
                found.rows.append(user)
            elif user.name == DOT and use.index == 1:
                pass        # it goes to shared memory
            elif isinstance(user, arith.Elementwise):
                look_at(*user.results)
            elif isinstance(user, arith.Yield) and isinstance(branch := user.parent_op(), arith.If):
                look_at(branch.results[use.index])
            else:
                return None
    return found if found.meets else None


def _is_loaded_row(v: SSAValue, dot: Operation) -> bool:
    """Whether a tile is one row, which the product's block loads."""
    if not is_row(v.type):
        return False
    for _ in range(DEEPEST):
        maker = v.owner
        if not isinstance(maker, Operation) or maker.parent is not dot.parent:
            return False
        if maker.name in LOADS:
            return True
        tiles = [x for x in maker.operands if isinstance(x.type, TensorType) and isinstance(x.owner, Operation) and
                 x.owner.name not in ("arith.constant", "nv_tileas.splat")]
        if not (isinstance(maker, arith.Elementwise) or maker.name == "nv_tileas.view") or not tiles:
            return False
        v = tiles[0]
    return False
