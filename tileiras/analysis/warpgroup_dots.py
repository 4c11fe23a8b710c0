"""What a dot by `wgmma` is made of: its instruction, whether it adds to what was there, which tiles it takes from where."""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr, TensorType
from xdsl.ir import Operation, SSAValue

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
