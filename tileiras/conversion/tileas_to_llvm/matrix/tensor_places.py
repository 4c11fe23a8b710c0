"""How LLVM's intrinsics of tcgen05 are told where something lies in tensor memory, and the numbers that are always the same."""
from __future__ import annotations

from xdsl.ir import SSAValue

from tileiras.conversion.tileas_to_llvm.builder import Builder
from tileiras.dialects.llvm import TENSOR, ptr

ONE_CTA, DISCARD = 1, 0
"""The group of CTAs where each multiplies for itself; what becomes of A in the collector."""


def address(b: Builder, at: SSAValue) -> SSAValue:
    """An address (i32) as instructions take it."""
    return b.cast("inttoptr", at, ptr(TENSOR))
