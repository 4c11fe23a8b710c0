"""Values that one thread got from memory for all that hold a copy: atomics, and loads that other blocks' stores may race.

Such an access must happen once an element. If each copy's thread loaded for itself, threads could see different values
and take different ways at a branch, which has to be uniform over the block.
"""
from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import I8, I16, width_of
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, storage_type
from tileiras.conversion.tileas_to_llvm.memory.access import from_memory, memory_type, to_memory
from tileiras.dialects.llvm import integer
from tileiras.dialects.nv_tileas import layout_of
from tileiras.layout.linear import LinearLayout


def slot_bytes(result: SSAValue) -> int:
    """Scratch that sharing a result takes: a slot an element, none if nobody asks or no two threads hold the same."""
    if result.first_use is None:
        return 0
    size = width_of(memory_type(storage_type(getattr(result.type, "element_type", result.type)))) // 8
    if not hasattr(result.type, "encoding"):
        return size
    layout = layout_of(result)
    return size * layout.size if any(mask >> len(layout.reg) for mask in layout.copies) else 0


def share(low: Lowering, op: Operation, layout: LinearLayout | None, values: dict[int, SSAValue],
          owner: SSAValue | None) -> dict[int, SSAValue]:
    """The values, by element index relative to the thread's first, as the threads where `owner` holds have them.

    layout None: a scalar, index 0. `op` owns the scratch."""
    if owner is None:
        return values
    b = low.b
    t = next(iter(values.values())).type
    size = width_of(memory_type(t)) // 8
    base = low.shared_ptr(op)

    def slot(index: int) -> SSAValue:
        return base if layout is None else b.gep(base, b.mul(b.xor(low.flat_index(layout), b.i32(index)), b.i32(size)))
    low.before_shared_write()
    for index, x in values.items():
        store_if(low, owner, to_memory(low, x), slot(index))
    low.before_shared_read()
    return {index: from_memory(low, b.load(memory_type(t), slot(index), size), t) for index in values}


def store_if(low: Lowering, predicate: SSAValue, x: SSAValue, p: SSAValue) -> None:
    """Store to shared memory where the predicate holds."""
    b = low.b
    width = width_of(x.type)
    word = b.cast("zext", b.cast("bitcast", x, I8), I16) if width == 8 else b.cast("bitcast", x, integer(width))
    b.nvvm(f"st.shared.b{width}.if", [p, word, predicate])
