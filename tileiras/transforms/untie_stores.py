"""`untie-stores`: a loop's store waits no longer for what it stored itself in earlier iterations.

    scf.for ... (%t) {                                       scf.for ... (%t) {
      ...                                             ->       %free = create_mem_token
      %u = tiled_store %x, %v[%i, %j] token %t                 %u = tiled_store %x, %v[%i, %j] token %free
      yield %u                                                 yield %u

The tiles of a partition are each other's neighbours or the same, and of the same tile each element is the same thread's every time,
also where the CTAs of a cluster have parts of it: one thread's stores to one place keep their order by themselves. What would be
a barrier in every iteration, of a cluster's CTAs even, is none; agents of a cluster needn't meet. Stores of the copy engine have
been untied already (`lower-tma-load-store-to-async`).

That rests on tiles that are apart in memory (`analysis/apart.py`). Where strides say that they aren't, the store waits as it did;
where only the launch knows the strides, it is marked `unless_apart`, and `order-memory` has the threads meet if they overlap.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.apart import lies_apart
from tileiras.analysis.program_slice import loop_around
from tileiras.analysis.tma import orders_itself
from tileiras.dialects import nv_tileas
from tileiras.dialects.nv_tileaa import MemTokenType


def run(module: Operation, context: Any = None) -> None:
    """Give such stores tokens of their own, in place."""
    op: Any
    for op in [op for op in module.walk() if op.name == "nv_tileas.tiled_store"]:
        if loop_around(op) is not None and _is_of_a_partition(op) and orders_itself(op) and \
                (apart := lies_apart(op.view)) is not False:
            if apart is None:
                op.properties["unless_apart"] = UnitAttr()
            for i, v in enumerate(op.operands):
                if isinstance(v.type, MemTokenType) and not _is_free(v):
                    fresh = nv_tileas.CreateMemToken.create(result_types=(v.type,), location=op.location)
                    assert op.parent is not None
                    op.parent.insert_op_before(fresh, op)
                    op.operands[i] = fresh.results[0]


def _is_of_a_partition(store: Any) -> bool:
    return store.properties["mem_semantic"].data == "weak" and store.view.type.kind.data == "partition"


def _is_free(token: SSAValue) -> bool:
    return isinstance(token.owner, nv_tileas.CreateMemToken)
