"""Which bytes of a buffer does each warp touch? Where no two warps touch one byte, its threads needn't meet those of other warps.

    store_shared %x, %b        warp 0 writes bytes 0..1023, warp 1 bytes 1024..2047
    load_shared %b             warp 0 reads bytes 0..1023, warp 1 bytes 1024..2047: a warp waits for itself alone

Layouts are linear, so a warp's bytes are one span for all warps, moved by what the bits of the warp's number stand for.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileas import BufferType, layout_of
from tileiras.layout.f2 import Span
from tileiras.layout.linear import log2
from tileiras.layout.slices import of_parts

STORE, LOAD = "nv_tileas.store_shared", "nv_tileas.load_shared"
OF_OTHERS = frozenset({"peer", "slice"})
"""Of an access: to another CTA's buffer, or to one that holds more than its tile."""


@dataclass(frozen=True)
class WarpBytes:
    """Bytes of a buffer, counted from its start: warp w touches the span of `inside`, moved by the XOR of the `warps` of w's set
    bits."""

    inside: tuple[int, ...]
    warps: tuple[int, ...]

    def crosses(self, other: WarpBytes) -> bool:
        """Whether a warp touches here a byte that a different one touches there."""
        if len(self.warps) != len(other.warps):
            return True
        both = [*self.inside, *other.inside]
        base = len(Span(both))
        pairs = 2 * len(self.warps) - (len(Span([*both, *self.warps, *other.warps])) - base)
        moved = [a ^ b for a, b in zip(self.warps, other.warps)]
        own = len(moved) - (len(Span([*both, *moved])) - base)
        return pairs != own     # log2 of how many pairs of warps share a byte, and of how many of these are a warp and itself


def warp_bytes(op: Operation) -> WarpBytes | None:
    """The bytes of its buffer that each warp touches by a store or a load; None where that isn't known."""
    if op.name not in (STORE, LOAD) or not OF_OTHERS.isdisjoint(op.properties):
        return None
    value, buffer = (op.operands[0], op.operands[1]) if op.name == STORE else (op.results[0], op.operands[0])
    if not isinstance(value.type, TensorType) or not isinstance(buffer.type, BufferType):
        return None
    layout, shared = layout_of(value), buffer.type.layout.data
    if "part" in op.properties:
        layout = of_parts(layout, shared.shape)
    if layout.shape != shared.shape:
        return None
    element: Any = value.type.element_type
    size = element_bytes(element)

    def place(flat: int) -> int:
        return shared.offset(flat) * size
    within = tuple(1 << bit for bit in range(log2(size)))
    return WarpBytes(within + tuple(place(b) for b in (*layout.reg, *layout.lane)), tuple(map(place, layout.warp)))
