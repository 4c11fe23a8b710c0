"""`share-buffers`: a tile that is written to shared memory twice in the same layout is written once.

    %b = alloc_tensor ; store_shared %x, %b                  %b = alloc_tensor ; store_shared %x, %b
    ... dot %a, %b ...                                  ->   ... dot %a, %b ...
    %c = alloc_tensor ; store_shared %x, %c                  ... dot %b, %d ...
    ... dot %c, %d ...

The gradients of attention multiply the same tiles in two roles. The buffer then lives until its last use; where the
block's shared memory has no room for that, the second one stays.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.analysis.shared_lives import SharedLives
from tileiras.analysis.tensor_dots import changes_operands
from tileiras.dialects import nv_tileas
from tileiras.transforms.structure import only_store


def run(module: Operation, context: Any) -> None:
    """Replace repeated buffers of a block by the first, in place."""
    target = context.target
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            lives = SharedLives(func)
            for region in [r for op in func.walk() for r in op.regions]:
                for block in region.blocks:
                    _block(tuple(block.ops), target, lives)


def _block(ops: tuple[Operation, ...], target: Any, lives: SharedLives) -> None:
    first: dict[tuple[tuple[SSAValue, ...], Attribute, frozenset[tuple[str, Attribute]]], Operation] = {}
    for op in ops:
        if not isinstance(op, nv_tileas.AllocTensor):
            continue
        store = only_store(op)
        if store is None or store.parent is not op.parent or any(changes_operands(use.operation) for use in op.results[0].uses):
            continue
        written = (*store.operands[:1], *store.operands[2:])
        key = (written, op.results[0].type, frozenset(store.properties.items()))
        known = first.setdefault(key, op)
        if known is op or lives.spent:
            continue
        readers = [use.operation for use in op.results[0].uses if use.operation is not store]
        _use(readers, op, known)
        lives.update((known, op))
        if lives.size <= target.max_static_smem:
            store.detach()
            store.erase()
            op.detach()
            op.erase()
        else:
            _use(readers, known, op)
        lives.update((known, op))


def _use(readers: list[Operation], old: Operation, new: Operation) -> None:
    for reader in readers:
        for i, v in enumerate(reader.operands):
            if v is old.results[0]:
                reader.operands[i] = new.results[0]
