"""`dce`: ops whose results nobody uses and that do nothing else are removed.

    pure ops; weak loads (what waited for a load waits for what the load waited for)
    scf.for and scf.if whose bodies hold only such ops; nv_tileaa.loop stays, for it may not end

One walk backwards: users come before what they use.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.base import TileOp


def run(top: Operation, context: Any = None) -> None:
    """Remove dead ops of a module or function in place."""
    for op in reversed(list(top.walk())):
        if not isinstance(op, TileOp) or op is top or op.parent is None:
            continue
        results = op.results
        if isinstance(op, (aa.Load, aa.TiledLoad)):
            _drop_load(op)
            continue
        if not results or any(r.first_use is not None for r in results):
            if results or not isinstance(op, (arith.For, arith.If)):
                continue
        if op.PURE or (isinstance(op, (arith.For, arith.If)) and _is_idle(op)):
            op.detach()
            op.erase()


def _is_idle(op: Operation) -> bool:
    """Whether a loop or branch holds nothing but pure ops and yields; nested idle ones are already gone."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                if not isinstance(inner, TileOp) or not (inner.PURE or isinstance(inner, arith.Yield)):
                    return False
    return True


def _drop_load(op: Any) -> None:
    """A weak load of something unused leaves its token's place to the token that it waited for."""
    value, token = op.results
    if value.first_use is not None or op.properties["mem_semantic"].data != "weak":
        return
    if token.first_use is not None:
        before = op.token
        if before is None:
            fresh = aa.CreateMemToken.create(result_types=(token.type,), location=op.location)
            op.parent.insert_op_before(fresh, op)
            before = fresh.results[0]
        token.replace_all_uses_with(before)
    op.detach()
    op.erase()
