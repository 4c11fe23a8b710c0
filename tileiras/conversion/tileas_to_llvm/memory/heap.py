"""Memory of the tile block that other tile blocks may reach: `alloca ... global`, from the device heap.

    %p = nv_tileas.alloca {num_elem, alignment, global, owners}
->  first thread:  %p = __cuda_syscall_aligned_malloc(bytes, alignment); trap if null
    (share-results hands it to the others)

    nv_tileas.dealloc %p, ...       ->  first thread: free, last allocated first
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from tileiras.conversion.tileas_to_llvm.builder import I64
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers
from tileiras.dialects import llvm
from tileiras.dialects.element import element_bytes
from tileiras.dialects.llvm import ptr

ALLOCATE, FREE = "__cuda_syscall_aligned_malloc", "free"


def allocate(low: Lowering, op: Operation) -> None:
    """Let the first thread allocate what the alloca asks for; only its pointer is one."""
    b = low.b
    properties: dict[str, Any] = op.properties
    pointee: Any = op.results[0].type
    size = max(element_bytes(pointee.pointee) * properties["num_elem"].value.data, 1)
    alignment = properties["alignment"].value.data if "alignment" in properties else 1
    first, none, go_on = b.new_block(), b.new_block(), b.new_block([I64])
    b.cond_br(low.first_thread(), first, go_on, (), [b.i64(0)])
    b.at(first)
    made = b.call(ALLOCATE, I64, [b.i64(size), b.i64(alignment)])
    b.cond_br(b.icmp("eq", made, b.i64(0)), none, go_on, (), [made])
    b.at(none)
    b.nvvm("trap")
    b.br(go_on, [made])
    b.at(go_on)
    low.set(op.results[0], b.cast("inttoptr", go_on.args[0], ptr(llvm.GLOBAL)))


@lowers("nv_tileas.dealloc")
def dealloc(low: Lowering, op: Operation) -> None:
    b = low.b
    first, go_on = b.new_block(), b.new_block()
    b.cond_br(low.first_thread(), first, go_on)
    b.at(first)
    for p in reversed(op.operands):
        b.call(FREE, llvm.VOID, [b.cast("ptrtoint", low.scalar(p), I64)])
    b.br(go_on)
    b.at(go_on)
