"""`hoist-buffers`: what a loop would write to shared memory, or convert, anew in each iteration is done once before it.

    scf.for ... {                                      %b = nv_tileas.alloc_tensor
      %b = nv_tileas.alloc_tensor                      nv_tileas.store_shared %q, %b
      nv_tileas.store_shared %q, %b              ->    scf.for ... {
      nv_tileas.dot %b, ... }                            nv_tileas.dot %b, ... }

The queries of an attention kernel then wait in shared memory, not in registers. Such a buffer lives as long as the
loop; where the block's shared memory has no room for that, it stays where it was.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from tileiras.dialects import arith, nv_tileas


def run(module: Operation, context: Any) -> None:
    """Move the buffers and conversions of loop-invariant values out of loops, in place."""
    target = context.target
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            _function(func, target)


def _function(func: Operation, target: Any) -> None:
    loops = [op for op in func.walk() if isinstance(op, arith.For) or op.name == "nv_tileas.loop"]
    for loop in reversed(loops):
        body = loop.regions[0].block
        outside = loop.parent
        assert outside is not None
        for op in tuple(body.ops):
            if isinstance(op, nv_tileas.ConvertLayout) and not _defined_in(op.operands[0], body):
                op.detach()
                outside.insert_op_before(op, loop)
            elif isinstance(op, nv_tileas.AllocTensor):
                store = only_store(op)
                if store is not None and store.parent is body and not _defined_in(store.operands[0], body):
                    _move_if_it_fits(func, loop, op, store, target)


def only_store(alloc: Operation) -> Operation | None:
    """The one op that writes a buffer, if it is one."""
    stores = [use.operation for use in alloc.results[0].uses if isinstance(use.operation, nv_tileas.StoreShared)]
    return stores[0] if len(stores) == 1 else None


def shared_bytes(func: Operation, target: Any) -> int:
    """Shared memory that a function needs as it stands."""
    from tileiras.conversion.tileas_to_llvm import handlers
    from tileiras.conversion.tileas_to_llvm.shared.shared_memory import plan_shared_memory
    handlers.load(dict.fromkeys(op.name for op in func.walk()))     # they know how much scratch ops need
    return plan_shared_memory(func, target).size


def _move_if_it_fits(func: Operation, loop: Operation, alloc: Operation, store: Operation, target: Any) -> None:
    outside, body = loop.parent, loop.regions[0].block
    assert outside is not None
    first = alloc.next_op
    after_store = store.next_op
    for op in (alloc, store):
        op.detach()
        outside.insert_op_before(op, loop)
    if shared_bytes(func, target) <= target.max_static_smem:
        return
    for op, before in ((store, after_store), (alloc, store if first is store else first)):
        op.detach()
        assert before is not None
        body.insert_op_before(op, before)


def _defined_in(value: SSAValue, body: Block) -> bool:
    """Whether a value that an op of `body` uses is defined in `body`."""
    owner: Any = value.owner
    return owner is body or getattr(owner, "parent", None) is body
