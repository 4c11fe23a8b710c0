"""Memory of the tile block that other tile blocks may reach: `alloca ... global`, from the device heap.

    %p = nv_tileas.alloca {num_elem, alignment, global}
->  thread 0:  %p = __cuda_syscall_aligned_malloc(bytes, alignment); trap if null; shared memory <- %p
    all:       meet; %p <- shared memory
    ...
    at each way out of the region that holds the alloca:  all meet; thread 0 frees what it allocated

Such memory lives as long as the region's run; `low.heap` has the pointers of the regions that are open, outermost first.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from tileiras.conversion.tileas_to_llvm.builder import I64
from tileiras.conversion.tileas_to_llvm.lowering import Lowering
from tileiras.conversion.tileas_to_llvm.shared.shared_memory import SLOT_BYTES
from tileiras.dialects import llvm
from tileiras.dialects.element import element_bytes
from tileiras.dialects.llvm import ptr

ALLOCATE, FREE = "__cuda_syscall_aligned_malloc", "free"


def allocate(low: Lowering, op: Operation) -> None:
    """Let thread 0 allocate what the alloca asks for, hand the pointer to all threads, and remember it in `low.heap`."""
    b = low.b
    properties: dict[str, Any] = op.properties
    pointee: Any = op.results[0].type
    size = max(element_bytes(pointee.pointee) * properties["num_elem"].value.data, 1)
    alignment = properties["alignment"].value.data if "alignment" in properties else 1
    slot = low.shared_ptr(op)
    low.before_shared_write()
    first, none, some, go_on = (b.new_block() for _ in range(4))
    b.cond_br(b.icmp("eq", low.tid, b.i32(0)), first, go_on)
    b.at(first)
    made = b.call(ALLOCATE, I64, [b.i64(size), b.i64(alignment)])
    b.cond_br(b.icmp("eq", made, b.i64(0)), none, some)
    b.at(none)
    b.nvvm("trap")
    b.br(go_on)
    b.at(some)
    b.store(made, slot, SLOT_BYTES)
    b.br(go_on)
    b.at(go_on)
    low.before_shared_read()
    p = b.load(I64, slot, SLOT_BYTES)
    low.heap.append(p)
    low.set(op.results[0], b.cast("inttoptr", p, ptr(llvm.GLOBAL)))


def give_back(low: Lowering, depth: int) -> None:
    """Free what was allocated since `low.heap` had that length: control leaves the regions that did it."""
    if len(low.heap) <= depth:
        return
    b = low.b
    low.barrier()
    first, go_on = b.new_block(), b.new_block()
    b.cond_br(b.icmp("eq", low.tid, b.i32(0)), first, go_on)
    b.at(first)
    for p in reversed(low.heap[depth:]):
        b.call(FREE, llvm.VOID, [p])
    b.br(go_on)
    b.at(go_on)
