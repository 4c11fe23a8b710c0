"""Which slice of a tile an extract or insert names, and who holds it."""
from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import arith
from tileiras.dialects.nv_tileas import layout_of
from tileiras.layout.linear import LinearLayout, log2
from tileiras.layout.slices import single


def static_number(op: Operation, first: int, shape: tuple[int, ...], part: tuple[int, ...]) -> int | None:
    """The number of the slice, if all indices (operands from `first` on) are constants."""
    number, at = 0, 0
    for d in range(len(shape) - 1, -1, -1):
        owner = op.operands[first + d].owner
        bits = log2(shape[d] // part[d])
        if bits:
            if not isinstance(owner, arith.Constant):
                return None
            number |= (owner.properties["value"].value.data & (1 << bits) - 1) << at  # type: ignore[attr-defined]
        at += bits
    return number


def part_layout(v: SSAValue, whole: LinearLayout) -> LinearLayout:
    """The layout of a slice; one element, held by all, for a scalar."""
    return layout_of(v) if isinstance(v.type, TensorType) else single(whole)
