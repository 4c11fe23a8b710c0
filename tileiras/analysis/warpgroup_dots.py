"""What a dot by `wgmma` is made of: its instruction, whether it adds to what was there, which tiles it takes from where, what its
sums begin with."""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr, TensorType
from xdsl.ir import Block, Operation, SSAValue

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


def shared_beginnings(func: Operation) -> set[SSAValue]:
    """The tensors that sums by wgmma begin with, in or outside of loops, and whose elements may be one value in several registers
    of a thread: LLVM then has that value in one register, and copies it where it needs it twice."""
    begun: set[SSAValue] = set()
    for op in func.walk():
        if op.name == "nv_tileas.begin_flight" or (op.name == "nv_tileas.dot" and wgmma_of(op) is not None):
            begun |= {v for v in _beginnings(op.operands[0 if op.name == "nv_tileas.begin_flight" else 2]) if _may_repeat(v)}
    return begun


_REPEATING = frozenset({"arith.constant", "nv_tileas.splat", "nv_tileas.broadcast"})
"""What gives one value to several elements, whatever it comes from."""
_DISTINCT = frozenset({*DOTS, "nv_tileas.dot_wait", "nv_tileas.make_range", "nv_tileas.load_shared", "nv_tileas.consumer_wait"})
"""What gives every element a value of its own."""


def _beginnings(v: SSAValue) -> set[SSAValue]:
    """Where the values come from that a loop or a branch hands over as `v`: those that some op computes from others."""
    out: set[SSAValue] = set()
    seen: set[SSAValue] = set()
    work = [v]
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        handed = _handed(value)
        if handed:
            work += handed
        elif isinstance(value.owner, Operation) and not value.owner.regions and value.owner.name not in DOTS and not is_zero(value):
            out.add(value)
    return out


def _may_repeat(v: SSAValue) -> bool:
    """Whether elements of a tensor may be equal because they are made of the same values."""
    seen: set[SSAValue] = set()
    work = [v]
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        handed = _handed(value)
        if handed:
            work += handed
            continue
        op = value.owner
        if not isinstance(op, Operation) or op.name in _REPEATING:
            continue
        tensors = [x for x in op.operands if isinstance(x.type, TensorType)]
        if op.name in _DISTINCT or (not tensors and not op.regions):
            return False
        work += tensors
    return True


def _handed(v: SSAValue) -> list[SSAValue]:
    """What a loop's argument or result, or an if's result, may be: the first and the next iteration's, either branch's."""
    owner = v.owner
    if isinstance(owner, Block):
        loop = owner.parent_op()
        at: Any = v
        if loop is None or loop.name not in ("scf.for", "nv_tileas.loop"):
            return []
        first = len(loop.operands) - len(loop.results) if loop.name == "scf.for" else 0
        index = at.index - (loop.name == "scf.for")
        if index < 0 or first + index >= len(loop.operands):
            return []
        last = owner.last_op
        following = [last.operands[index]] if last is not None and index < len(last.operands) else []
        return [loop.operands[first + index], *following]
    at = v
    if owner.name == "scf.for":
        return _handed(owner.regions[0].block.args[at.index + 1])
    if owner.name == "scf.if":
        ends = [region.blocks[-1].last_op for region in owner.regions if region.blocks]
        return [end.operands[at.index] for end in ends if end is not None and at.index < len(end.operands)]
    return []


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
