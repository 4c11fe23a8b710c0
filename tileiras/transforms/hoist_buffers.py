"""`hoist-buffers`: what a loop would write to shared memory anew in each iteration is written once before it.

    scf.for ... {                                      %b = nv_tileas.alloc_tensor
      %b = nv_tileas.alloc_tensor                      nv_tileas.store_shared %q, %b
      nv_tileas.store_shared %q, %b              ->    scf.for ... {
      nv_tileas.dot %b, ... }                            nv_tileas.dot %b, ... }

The queries of an attention kernel then wait in shared memory, not in registers. Such a buffer lives as long as the
loop; where the block's shared memory has no room for that, it stays where it was.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from tileiras.analysis.shared_lives import SharedLives
from tileiras.analysis.tensor_dots import changes_operands
from tileiras.dialects import nv_tileas
from tileiras.transforms.hoist_conversions import loops_of
from tileiras.transforms.structure import is_defined_in, only_store


def run(module: Operation, context: Any) -> None:
    """Move the buffers of loop-invariant values out of loops, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            lives = SharedLives(func)
            for loop in reversed(loops_of(func)):
                _loop(loop, context.target, lives)


def _loop(loop: Operation, target: Any, lives: SharedLives) -> None:
    body = loop.regions[0].block
    for op in tuple(body.ops):
        if isinstance(op, nv_tileas.AllocTensor):
            store = only_store(op)
            if store is not None and not lives.spent and store.parent is body and not any(
                    v is not op.results[0] and is_defined_in(v, body) for v in store.operands) and \
                    not any(changes_operands(use.operation) for use in op.results[0].uses):
                _move_if_it_fits(loop, op, store, target, lives)


def _move_if_it_fits(loop: Operation, alloc: Operation, store: Operation, target: Any, lives: SharedLives) -> None:
    outside, body = loop.parent, loop.regions[0].block
    assert outside is not None
    first = alloc.next_op
    after_store = store.next_op
    for op in (alloc, store):
        op.detach()
        outside.insert_op_before(op, loop)
    lives.update((alloc,), moved=(alloc, store))
    if lives.size <= target.max_static_smem:
        return
    for op, before in ((store, after_store), (alloc, store if first is store else first)):
        op.detach()
        assert before is not None
        body.insert_op_before(op, before)
    lives.update((alloc,), moved=(alloc, store))
