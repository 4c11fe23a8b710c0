"""Which function lowers which cuda_tile op: a table filled by the family files of this folder."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tileiras.conversion.cudatile_to_tileaa.converter import Converter

Lowering = Callable[["Converter", Any], None]

LOWERINGS: dict[str, Lowering] = {}
"""By op name ("cuda_tile.addf"). A lowering emits the new ops and binds the old op's results."""


def lowers(*mnemonics: str) -> Callable[[Lowering], Lowering]:
    """Register a function as the lowering of these cuda_tile ops."""
    def register(function: Lowering) -> Lowering:
        for mnemonic in mnemonics:
            LOWERINGS[f"cuda_tile.{mnemonic}"] = function
        return function
    return register
