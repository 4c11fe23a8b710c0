"""`carry-as-loaded`: tiles that branches and loops hand on stay the words that their loads give until somebody uses them.

    scf.for ... (%x = %x0) {                             scf.for ... (%x = %x0) {
      %next = scf.if %more {                     ->        %next = scf.if %more {
        tiled_load %v[%i + %s]                               tiled_load %v[%i + %s]
      } else { 0 }                                         } else { 0 } {as_loaded = [16]}
      ... %x ... ; yield %next }                           ... %x ... ; yield %next } {as_loaded = [16]}

What a loop loads for its next iteration is carried as one vector otherwise, which LLVM makes of pairs of registers (two halves; two
floats from sm_100 on), and where what stands instead of the load is a constant it computes with a value as soon as it is loaded, to
compute the constant's part ahead: an instruction right behind the load, that waits a memory's latency in each iteration. As words,
by accesses of so many bytes, nothing is done to it before its use.

It is for elements of at most 32 bits: wider ones have registers of their own as it is. It runs when loops and branches stand.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.access import access_width
from tileiras.dialects.element import REGISTER_BYTES, element_bytes
from tileiras.dialects.nv_tileaa import PtrType, int_array, int_values
from tileiras.dialects.nv_tileas import LOADS, layout_of


def run(module: Operation, context: Any = None) -> None:
    """Mark branches and loops, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            carrying = [op for op in func.walk() if op.name in ("scf.if", "scf.for") and op.results]
            for op in reversed(carrying):       # inner ones first
                nbytes = [max(map(loaded_by, values), default=0) for values in _sources(op)]
                if any(nbytes):
                    op.properties["as_loaded"] = int_array(nbytes)


def _sources(op: Any) -> Iterable[tuple[SSAValue, ...]]:
    """For each result of a branch or loop the values that it is by one way or another."""
    ends = [region.block.last_op for region in op.regions if region.blocks]
    given = [end.operands for end in ends if end.name == "scf.yield"]
    if op.name == "scf.for":
        given.append(op.carried_inits())
    return zip(*given, strict=True) if given else [()] * len(op.results)


def loaded_by(v: SSAValue) -> int:
    """The bytes of the accesses that load a value, also behind a branch; 0 where it isn't loaded, or its elements aren't such."""
    op, t = v.owner, v.type
    if not isinstance(op, Operation) or not isinstance(t, TensorType) or isinstance(t.element_type, PtrType):
        return 0
    if op.name == "scf.if":
        found: Any = op.properties.get("as_loaded")
        return int_values(found)[v.index] if found is not None else 0      # type: ignore[attr-defined]
    size = element_bytes(t.element_type)
    if op.name not in LOADS or size > REGISTER_BYTES or t.element_type == IntegerType(1):
        return 0
    return size * access_width(op, layout_of(v))
