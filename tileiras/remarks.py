"""What a remark is: one thing that the compiler did, or could not do, told to the program's author.

Passes append remarks to `CompileOptions.remarks` where that is a list; it is None unless the user asked for them.
`driver/remarks.py` shows them.
"""
from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation

from tileiras.dialects.cuda_tile.debug import source_position
from tileiras.dialects.element import element_name

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


def remark(func: Operation, op: Operation, kind: str, category: str, name: str, text: str,
           notes: dict[str, str | int] | None = None, reasons: list[str] | None = None) -> Remark:
    """A remark on an op of a function; `name` without the prefix that all have."""
    function: str = func.properties["sym_name"].data  # type: ignore[attr-defined]
    return Remark(kind, category, f"Remark{name}", function, text, source_position(op.location),
                  tuple((notes or {}).items()), tuple(reasons or ()))


def tile_text(t: Attribute) -> str:
    """A tensor type as programs write it: `tile<128x64xf16>`; of a number, `tile<f16>`."""
    if not isinstance(t, TensorType):
        return f"tile<{element_name(t)}>"
    return f"tile<{''.join(f'{n}x' for n in t.get_shape())}{element_name(t.element_type)}>"
