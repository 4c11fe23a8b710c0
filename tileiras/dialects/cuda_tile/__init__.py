"""The cuda_tile dialect: the public language whose programs come in as bytecode.

    from tileiras.dialects.cuda_tile import ops, types, attrs
    ops.AddF, types.TileType, attrs.RoundingAttr

The submodules stand alone; `dialect()` gives xDSL's registry object for parsing text.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect


def dialect() -> Dialect:
    """The dialect as an xDSL context takes it."""
    from xdsl.ir import Dialect

    from tileiras.dialects.cuda_tile.attrs import ATTRS
    from tileiras.dialects.cuda_tile.debug import DEBUG_ATTRS
    from tileiras.dialects.cuda_tile.ops import OPS
    from tileiras.dialects.cuda_tile.types import TYPES

    return Dialect("cuda_tile", list(OPS), [*TYPES, *ATTRS, *DEBUG_ATTRS])
