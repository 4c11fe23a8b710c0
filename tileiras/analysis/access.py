"""What is known of a memory access in nv_tileas: the facts that `convert-tileaa-to-tileas` left as attributes, and the
width that follows from them and from the layout.

    runs        for each dimension of the tile, how many neighbours along it may go in one access, as far as alignment,
                strides, bounds and masks are known
    contiguous  the dimension that runs along memory, if there is one
    neighbours  where none is known to, the one that is likely to (analysis/likely.py), or the nearest: costs rest on it, no access
                does
    apart       how many elements from one another those lie, or are thought to, where they don't lie side by side
    check       for each dimension of a view's tile, whether bounds must be checked
    inside      how many neighbours along `contiguous` may go in one access where all of them are in bounds, where that is more
    narrow      of an access whose `runs` are true where all are in bounds only: how many may elsewhere (transforms/wide_inside.py)
    stretch     of loads of tiles that are narrower along `contiguous`: how many elements may go in one access there from any
                multiple of that on, where several tiles behind one another are asked for (transforms/following_tiles.py)
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from tileiras.dialects.nv_tileaa import int_values
from tileiras.layout.linear import LinearLayout

MAX_ACCESS_BYTES = 16


def runs_of(op: Operation) -> tuple[int, ...]:
    """How many neighbours along each dimension may go in one access."""
    attr: Any = op.properties.get("runs")
    return () if attr is None else int_values(attr)


def sure_runs_of(op: Operation) -> tuple[int, ...]:
    """The same wherever they lie, in bounds or not."""
    narrow: Any = op.properties.get("narrow")
    dim = contiguous_of(op)
    return tuple(narrow.data if narrow is not None and d == dim else run for d, run in enumerate(runs_of(op)))


def contiguous_of(op: Operation) -> int | None:
    """The dimension that runs along memory, None if none is known to."""
    attr: Any = op.properties.get("contiguous")
    return None if attr is None else attr.data


def line_of(op: Operation) -> int | None:
    """The dimension that is known to run along memory, or likely to."""
    attr: Any = op.properties.get("contiguous", op.properties.get("neighbours"))
    return None if attr is None else attr.data


def apart_of(op: Operation) -> int:
    """How many elements neighbours along that dimension lie from one another, or are thought to."""
    attr: Any = op.properties.get("apart")
    return 1 if attr is None else attr.data


def access_width(op: Operation, layout: LinearLayout) -> int:
    """Elements (a power of two) that go in one access of a tile in `layout`."""
    return _width(runs_of(op), layout)


def sure_width(op: Operation, layout: LinearLayout) -> int:
    """Elements that go in one access of a tile in `layout` where some are out of bounds."""
    return _width(sure_runs_of(op), layout)


def _width(runs: tuple[int, ...], layout: LinearLayout) -> int:
    return max((min(run, layout.contiguous(d)) for d, run in enumerate(runs) if run > 1), default=1)


def accesses(op: Operation, layout: LinearLayout) -> int:
    """Instructions of a thread that move a tile in `layout`."""
    return layout.num_regs // access_width(op, layout)


def is_checked(op: Operation) -> bool:
    """Whether an access depends on bounds or a mask."""
    check: Any = op.properties.get("check")
    return any(int_values(check)) if check is not None else getattr(op, "mask", None) is not None
