"""`hoist-buffers`: what a loop would write to shared memory anew in each iteration is written once before it.

    scf.for ... {                                      %b = nv_tileas.alloc_tensor
      %b = nv_tileas.alloc_tensor                      nv_tileas.store_shared %q, %b
      nv_tileas.store_shared %q, %b              ->    scf.for ... {
      nv_tileas.dot %b, ... }                            nv_tileas.dot %b, ... }

So is what stands in a branch of the loop that has products (a window's tiles, those outside left out).
The queries of an attention kernel then wait in shared memory, not in registers. Such a buffer lives as long as the
loop; where the block's shared memory has no room for that, it stays where it was.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Block, Operation

from tileiras.analysis.program_slice import is_made_in
from tileiras.analysis.shared_lives import SharedLives
from tileiras.analysis.tensor_dots import changes_operands
from tileiras.dialects import nv_tileas
from tileiras.schedule.depth import shared_budget
from tileiras.transforms.hoist_conversions import loops_of
from tileiras.transforms.structure import only_store

BRANCH = "scf.if"
DOT = "nv_tileas.dot"


def run(module: Operation, context: Any) -> None:
    """Move the buffers of loop-invariant values out of loops, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            lives = SharedLives(func)
            for loop in reversed(loops_of(func)):
                _loop(loop, context.target, lives)


def _loop(loop: Operation, target: Any, lives: SharedLives) -> None:
    body = loop.regions[0].block
    for op in _each_time(body):
        if isinstance(op, nv_tileas.AllocTensor):
            store = only_store(op)
            if store is not None and not lives.spent and store.parent is op.parent and not any(
                    v is not op.results[0] and is_made_in(v, loop) for v in store.operands) and \
                    not any(changes_operands(use.operation) for use in op.results[0].uses):
                _move_if_it_fits(loop, op, store, target, lives)


def _each_time(block: Block) -> list[Operation]:
    """The ops of a block, and of its branches those with a product: what a loop multiplies on a condition it mostly does."""
    found = []
    for op in block.ops:
        found.append(op)
        if op.name == BRANCH:
            found += [inner for region in op.regions if region.blocks and any(inner.name == DOT for inner in region.block.ops)
                      for inner in _each_time(region.block)]
    return found


def _move_if_it_fits(loop: Operation, alloc: Operation, store: Operation, target: Any, lives: SharedLives) -> None:
    outside, body = loop.parent, alloc.parent
    assert outside is not None and body is not None
    first = alloc.next_op
    after_store = store.next_op
    for op in (alloc, store):
        op.detach()
        outside.insert_op_before(op, loop)
    lives.update((alloc,), moved=(alloc, store))
    if lives.size <= max(target.max_static_smem, shared_budget(target, 1)):
        return
    for op, before in ((store, after_store), (alloc, store if first is store else first)):
        op.detach()
        assert before is not None
        body.insert_op_before(op, before)
    lives.update((alloc,), moved=(alloc, store))
