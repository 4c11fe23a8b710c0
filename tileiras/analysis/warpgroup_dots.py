"""What a dot by `wgmma` is made of: its instruction, whether it adds to what was there, which tiles it takes from where, what its
sums begin with."""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr, TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.exits import handed_on
from tileiras.dialects import arith
from tileiras.dialects.nv_tileaa import DenseTileAttr
from tileiras.dialects.nv_tileas import BufferType
from tileiras.layout.atoms import warpgroup
from tileiras.layout.atoms.warpgroup import WgmmaAtom
from tileiras.layout.shared import CanonicalTile, described_tile

DOTS = frozenset({"nv_tileas.dot", "nv_tileas.async_dot"})


def wgmma_of(op: Operation) -> WgmmaAtom | None:
    """The instruction of a dot that is computed by wgmma, None for any other op."""
    name = op.properties.get("atom") if op.name in DOTS else None
    return warpgroup.named(name.data) if isinstance(name, StringAttr) and name.data.startswith(warpgroup.PREFIX) else None


def is_synchronous(op: Operation) -> bool:
    """Whether a dot by wgmma is waited for where it stands, and might be later: not one that is joined to its accumulator part by
    part."""
    return op.name == "nv_tileas.dot" and "joined" not in op.properties and wgmma_of(op) is not None


def is_zero(v: SSAValue) -> bool:
    """Whether a tensor is a constant of (positive) zeros."""
    owner = v.owner
    if not isinstance(owner, arith.Constant) or not isinstance(v.type, TensorType):
        return False
    value: Any = owner.properties["value"]
    if isinstance(value, DenseTileAttr):
        return not value.data.data.strip("0")
    if isinstance(value, FloatAttr):
        return str(value.value.data) == "0.0"
    return isinstance(value, IntegerAttr) and value.value.data == 0


_REPEATING = frozenset({"arith.constant", "nv_tileas.splat", "nv_tileas.broadcast"})
"""What gives one value to several elements, whatever it comes from."""
_DISTINCT = frozenset({*DOTS, "nv_tileas.dot_wait", "nv_tileas.make_range", "nv_tileas.load_shared", "nv_tileas.consumer_wait"})
"""What gives every element a value of its own."""


def shared_beginnings(func: Operation) -> set[SSAValue]:
    """The tensors that sums by wgmma begin with, in or outside of loops, and whose elements may be one value in several registers
    of a thread: LLVM then has that value in one register, and copies it where it needs it twice."""
    sums: list[SSAValue] = []
    before: dict[SSAValue, list[SSAValue]] = {}     # what a loop or a branch hands over -> what it may be
    for op in func.walk():
        for sources, targets in handed_on(op):
            for source, target in zip(sources, targets):
                before.setdefault(target, []).append(source)
        if op.name == "nv_tileas.begin_flight":
            sums.append(op.operands[0])
        elif op.name == "nv_tileas.dot" and wgmma_of(op) is not None:
            sums.append(op.operands[2])
    begun = {v for total in sums for v in _sources(total, before) if isinstance(v.owner, Operation) and not v.owner.regions and
             v.owner.name not in DOTS and not is_zero(v)}
    return {v for v in begun if _may_repeat(v, before)}


def _sources(v: SSAValue, before: dict[SSAValue, list[SSAValue]]) -> set[SSAValue]:
    """What a value may be that loops and branches hand over."""
    seen, pending = {v}, [v]
    while pending:
        new = set(before.get(pending.pop(), ())) - seen
        seen |= new
        pending += new
    return {value for value in seen if value not in before}


def _may_repeat(v: SSAValue, before: dict[SSAValue, list[SSAValue]]) -> bool:
    """Whether elements of a tensor may be equal because they are made of the same values."""
    seen: set[SSAValue] = set()
    pending = [v]
    while pending:
        for value in _sources(pending.pop(), before) - seen:
            seen.add(value)
            op = value.owner
            if not isinstance(op, Operation) or op.name in _REPEATING:
                continue
            tensors = [x for x in op.operands if isinstance(x.type, TensorType)]
            if op.name in _DISTINCT or (not tensors and not op.regions):
                return False
            pending += tensors
    return True


def tile_of(v: SSAValue) -> CanonicalTile:
    """The canonical form of a buffer. Raises ValueError for a buffer that no matrix descriptor names."""
    t: Any = v.type
    tile = described_tile(t.layout.data, bits_of(t))
    if tile is None:
        raise ValueError(f"no matrix descriptor names a buffer of layout <{t.layout.data}>")
    return tile


def bits_of(t: BufferType) -> int:
    """Bits of an element of a buffer."""
    from tileiras.dialects.element import element_bytes
    return 8 * element_bytes(t.element_type)
