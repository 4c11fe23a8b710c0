"""The attributes by which a schedule is told to the passes that carry it out: i32, on ops of a loop's body.

    nv_tile.aws.stage   the op works on an iteration that began so many intervals ago; loads run ahead of that
    nv_tile.aws.order   its place in an interval of the steady state
    nv_tile.aws.depth   of a load that goes to a buffer: how many stages its ring has
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

ASYNC_LOADS = ("nv_tileas.load", "nv_tileas.tiled_load")
"""Ops whose results the copy engine, or cp.async, can put into a buffer without a trip through registers."""
STAGE, ORDER, DEPTH = "nv_tile.aws.stage", "nv_tile.aws.order", "nv_tile.aws.depth"

LEAST_STAGES = 2
"""Of a ring: one that is filled, one that is read. With one it is a buffer."""
LEAST_LENT = 3
"""Of a ring whose stages products of two iterations read: one is read, one has been asked for behind it, and the next one comes
meanwhile."""
LEAST_IN_TURN = 4
"""Of a ring that several loads of an iteration fill in turn: others leave room for so many."""


def told(op: Operation, name: str) -> int | None:
    """The value of one of these attributes, None where the op has none."""
    attr: Any = op.attributes.get(name)
    return None if attr is None else attr.value.data


def forget(op: Operation) -> None:
    """Take them off an op."""
    for name in (STAGE, ORDER, DEPTH):
        op.attributes.pop(name, None)
