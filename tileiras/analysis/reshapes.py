"""Does a reshape only leave out dimensions of one element, or add such? Then it keeps the others, in their order."""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation, SSAValue


def kept(op: object) -> list[tuple[int, int]] | None:
    """The dimensions of more than one element, in front of a reshape and behind it; None for any other op."""
    if not isinstance(op, Operation) or op.name.partition(".")[2] != "view":
        return None
    old, new = (_longer(v) for v in (op.operands[0], op.results[0]))
    if [extent for _, extent in old] != [extent for _, extent in new]:
        return None
    return [(d, e) for (d, _), (e, _) in zip(old, new)]


def _longer(v: SSAValue) -> list[tuple[int, int]]:
    t: Any = v.type
    return [(d, extent) for d, extent in enumerate(t.get_shape()) if extent > 1] if hasattr(t, "get_shape") else []
