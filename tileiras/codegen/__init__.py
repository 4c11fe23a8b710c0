"""From LLVM IR text to a cubin: feature gate, LLVM in a worker process, PTX fix-ups, ptxas.

    result = compile_llvm(llvm_text, "sm_90", 3, lineinfo=True)
    result.ptx, result.cubin, result.entries

This layer knows LLVM IR and PTX only; nothing in it reads a tile dialect. Its names load on first use, so that
the worker process, which lives in this package too, starts without them.
"""
from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.codegen.compile import CodegenResult, compile_llvm, compile_llvm_to_ptx
    from tileiras.codegen.resources import Entry

__all__ = ["CodegenResult", "Entry", "compile_llvm", "compile_llvm_to_ptx"]


def __getattr__(name: str) -> Any:
    if name == "Entry":
        from tileiras.codegen.resources import Entry
        return Entry
    if name in __all__:
        from tileiras.codegen import compile as implementation
        return getattr(implementation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
