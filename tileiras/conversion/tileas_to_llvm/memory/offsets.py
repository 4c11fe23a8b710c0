"""The registers of a tile of offsets, one by one: from the scalars that its sums, products and extensions were made of.

    %s = add <32 x i32> %rows, %columns            %s0 = add i32 %rows0, %columns0      (and so on)
    %o = sext <32 x i32> %s to <32 x i64>    ->    %o0 = sext i32 %s0 to i64

LLVM takes constants out of the addresses of scalars only, and gives them to the machine access; what is left is then one address
for all of a thread's registers that lie at known distances.
"""
from __future__ import annotations

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import Builder
from tileiras.dialects import llvm

_SUMS: dict[type, str] = {llvm.BINARY[name]: name for name in ("add", "sub", "mul")}
_EXTENSIONS: dict[type, str] = {llvm.CASTS[name]: name for name in ("sext", "zext")}


def registers_of(b: Builder, v: SSAValue) -> list[SSAValue]:
    """The elements of a vector of integers."""
    made: dict[SSAValue, list[SSAValue]] = {}
    pending = [v]
    while pending:
        x = pending[-1]
        parts = _parts(b, x)
        missing = [p for p in parts if p not in made]
        if missing:
            pending += missing
            continue
        pending.pop()
        if x not in made:
            made[x] = _elements(b, x, [made[p] for p in parts])
    return made[v]


def _parts(b: Builder, x: SSAValue) -> list[SSAValue]:
    """The vectors that x is computed of, an element of each element."""
    owner = x.owner
    if b.known(x) is None and isinstance(owner, Operation) and isinstance(x.type, VectorType) and \
            (type(owner) in _SUMS or type(owner) in _EXTENSIONS):
        return list(owner.operands)
    return []


def _elements(b: Builder, x: SSAValue, parts: list[list[SSAValue]]) -> list[SSAValue]:
    if not parts:
        return _inserted(b, x) or b.unpack(x)
    kind = type(x.owner)
    if kind in _EXTENSIONS:
        return [b.cast(_EXTENSIONS[kind], one, x.type.element_type) for one in parts[0]]    # type: ignore[attr-defined]
    return [b.binary(_SUMS[kind], *pair) for pair in zip(*parts)]


def _inserted(b: Builder, x: SSAValue) -> list[SSAValue]:
    """What was put into a vector that had nothing; empty where it is made otherwise."""
    assert isinstance(x.type, VectorType)
    found: dict[int, SSAValue] = {}
    while isinstance(x.owner, llvm.Insertelement):
        one, x, index = x.owner.operands
        place = b.known(index)
        if place is None:
            return []
        found.setdefault(place, one)
    count = x.type.get_shape()[0]       # type: ignore[attr-defined]
    return [found[i] for i in range(count)] if len(found) == count else []

