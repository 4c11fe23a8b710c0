"""What a remark is: one thing that the compiler did, or could not do, told to the program's author.

Passes append remarks to `CompileOptions.remarks` where that is a list; it is None unless the user asked for them.
`driver/remarks.py` shows them.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from xdsl.ir import Attribute

PASSED, MISSED, FAILED, ANALYSIS = "passed", "missed", "failed", "analysis"
MEMORY, TENSOR_CORE, HINTS, RESOURCES = "Memory", "Tensor-core", "Hints", "Resources"


class Remark(NamedTuple):
    """`kind`: passed, missed, failed or analysis. `notes`: names and values. `reasons`: why, and what would help.
    `place`: file, line and column, None where the bytecode has none."""

    kind: str
    category: str
    name: str
    function: str
    text: str
    place: tuple[str, int, int] | None = None
    notes: tuple[tuple[str, str | int], ...] = ()
    reasons: tuple[str, ...] = ()


def place_of(location: Attribute | None) -> tuple[str, int, int] | None:
    """Where a remark points to: the innermost place of a location."""
    from tileiras.dialects.cuda_tile.debug import source_position
    return source_position(location)
