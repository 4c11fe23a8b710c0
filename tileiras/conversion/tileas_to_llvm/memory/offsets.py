"""The registers of a tile of offsets or of a mask, one by one: from the scalars that it was computed of.

    %s = add <32 x i32> %rows, %columns            %s0 = add i32 %rows0, %columns0      (and so on)
    %o = sext <32 x i32> %s to <32 x i64>    ->    %o0 = sext i32 %s0 to i64

LLVM takes constants out of the addresses of scalars only, and gives them to the machine access; what is left is then one address
for all of a thread's registers that lie at known distances. Of longer masks it makes the bits of an integer when a truth value is
taken out (four instructions for each, whether anybody wants it or not); where one access serves eight elements, seven of these are
for nothing.
"""
from __future__ import annotations

from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue

from tileiras.conversion.tileas_to_llvm.builder import I1, Builder
from tileiras.dialects import llvm

_SUMS: dict[type, str] = {llvm.BINARY[name]: name for name in ("add", "sub", "mul")}
_LOGIC: dict[type, str] = {llvm.BINARY[name]: name for name in ("and", "or", "xor")}
"""Of truth values."""
LEAST_PACKED = 16
"""Truth values in a vector that LLVM makes the bits of an integer when it takes one out."""
_EXTENSIONS: dict[type, str] = {llvm.CASTS[name]: name for name in ("sext", "zext")}


def registers_of(b: Builder, v: SSAValue) -> list[SSAValue]:
    """The elements of a vector of integers or truth values."""
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
    """The vectors that x is computed of, an element of each element, or the one whose elements it repeats."""
    if not isinstance(x.type, VectorType) or b.known(x) is not None:
        return []
    is_mask = x.type.element_type == I1 and x.type.get_shape()[0] >= LEAST_PACKED
    if is_mask and (repeated := b.repeated(x)) is not None:
        return [repeated[0]]
    kind = type(x.owner)
    taken_apart = kind in _SUMS or kind in _EXTENSIONS or (is_mask and (kind in _LOGIC or kind is llvm.Icmp))
    return list(x.owner.operands) if taken_apart else []        # type: ignore[union-attr]


def _elements(b: Builder, x: SSAValue, parts: list[list[SSAValue]]) -> list[SSAValue]:
    if not parts:
        return _inserted(b, x) or b.unpack(x)
    if isinstance(x.owner, llvm.Shufflevector):
        _, places = b.repeated(x)       # type: ignore[misc]
        return [parts[0][i] for i in places]
    kind = type(x.owner)
    if kind in _EXTENSIONS:
        return [b.cast(_EXTENSIONS[kind], one, x.type.element_type) for one in parts[0]]    # type: ignore[attr-defined]
    pairs = list(zip(*parts))
    if kind is llvm.Icmp:
        predicate = x.owner.properties["predicate"].data        # type: ignore[union-attr]
        made = {pair: b.icmp(predicate, *pair) for pair in dict.fromkeys(pairs)}
    else:
        made = {pair: b.binary(_SUMS.get(kind) or _LOGIC[kind], *pair) for pair in dict.fromkeys(pairs)}
    return [made[pair] for pair in pairs]


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

