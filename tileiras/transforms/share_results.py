"""`share-results`: a value that one thread got for all that hold it goes to the others through a buffer.

    %old = atomic_rmw add %p, %x       ->      %o = atomic_rmw add %p, %x {owners}
                                               %b = alloc_tensor
                                               store_shared %o, %b {owners}
                                               %old = load_shared %b

So it is with atomics and with loads that other blocks' stores may race: they must happen once an element. If each copy's
thread loaded for itself, threads could see different values and take different ways at a branch, which has to be uniform
over the block. And so it is with memory on the device heap, which the first thread allocates.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Operation

from tileiras.dialects import nv_tileas
from tileiras.dialects.nv_tileas import BufferType, SharedLayoutAttr, layout_of
from tileiras.layout.shared import SharedLayout


def run(module: Operation, context: Any = None) -> None:
    """Insert the buffers, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            for op in [op for op in func.walk() if op.name in _ONCE and _is_shared(op)]:
                _share(op)


_ONCE = ("nv_tileas.atomic_rmw", "nv_tileas.atomic_cas", "nv_tileas.load", "nv_tileas.tiled_load", "nv_tileas.alloca")


def _is_shared(op: Operation) -> bool:
    """Whether an op is done once an element, and threads other than the one that does it want the result."""
    if op.name == "nv_tileas.alloca":
        return "global" in op.properties and "owners" not in op.properties
    semantic: Any = op.properties.get("mem_semantic")
    result = op.results[0]
    if result.first_use is None or "owners" in op.properties:
        return False
    if op.name.endswith("load") and (not isinstance(semantic, StringAttr) or semantic.data == "weak"):
        return False
    if not hasattr(result.type, "encoding"):
        return True
    layout = layout_of(result)
    return any(mask >> len(layout.reg) for mask in layout.copies)


def _share(op: Operation) -> None:
    result = op.results[0]
    t: Any = result.type
    shape = t.get_shape() if hasattr(t, "encoding") else ()
    element = t.element_type if hasattr(t, "encoding") else t
    users = list(result.uses)
    op.properties["owners"] = UnitAttr()
    alloc = nv_tileas.AllocTensor.make([], [BufferType(element, SharedLayoutAttr(SharedLayout.row_major(shape)))])
    buffer = alloc.results[0]
    store = nv_tileas.StoreShared.make([result, buffer, None], [], {"owners": UnitAttr()})
    load = nv_tileas.LoadShared.make([buffer, None, None], [t])
    after = op
    for new in (alloc, store, load):
        new.location = op.location
        assert after.parent is not None
        after.parent.insert_op_after(new, after)
        after = new
    for use in users:
        use.operation.operands[use.index] = load.results[0]
