"""Locations that text can have and bytecode can't: names around a location, several locations in one.

They stand for their first location everywhere but in the bytecode writer, which refuses them by name.
"""
from __future__ import annotations

from typing import ClassVar

from xdsl.ir import Attribute
from xdsl.irdl import irdl_attr_definition

from tileiras.dialects.cuda_tile.debug import TextLocAttr


class OtherLocAttr(TextLocAttr):
    """The base: data is (location, 0, 0). `LOCATION_NAME` is MLIR's name of the kind."""

    name = "cuda_tile.other_loc"
    LOCATION_NAME: ClassVar[str] = ""

    def __init__(self, location: Attribute) -> None:
        super().__init__(location, 0, 0)

    @property
    def location(self) -> Attribute:
        return self.data[0]


@irdl_attr_definition
class NameLocAttr(OtherLocAttr):
    """`"name"("file":1:2)`."""

    name = "cuda_tile.name_loc"
    LOCATION_NAME = "NameLoc"


@irdl_attr_definition
class FusedLocAttr(OtherLocAttr):
    """`fused["file":1:2, "file":3:4]`."""

    name = "cuda_tile.fused_loc"
    LOCATION_NAME = "FusedLoc"
