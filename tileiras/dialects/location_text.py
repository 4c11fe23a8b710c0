"""Where an op comes from, as diagnostics show it."""
from __future__ import annotations

from xdsl.ir import Operation

from tileiras.dialects.cuda_tile.debug import render_location


def location_text(op: Operation | None) -> str | None:
    """An op's source position as `"file":line:col`; None where it is unknown."""
    return None if op is None else render_location(op.location)
