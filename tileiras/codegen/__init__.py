"""From LLVM IR text to a cubin: feature gate, LLVM in a worker process, PTX fix-ups, ptxas.

    result = compile_llvm(llvm_text, "sm_90", 3, lineinfo=True)
    result.ptx, result.cubin, result.entries

This layer knows LLVM IR and PTX only; nothing in it reads a tile dialect.
"""
from __future__ import annotations

from tileiras.codegen.compile import CodegenResult, compile_llvm, compile_llvm_to_ptx
from tileiras.codegen.resources import Entry

__all__ = ["CodegenResult", "Entry", "compile_llvm", "compile_llvm_to_ptx"]
