"""The error that a verifier raises: the public dialect's words, the op, and a note."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cuda_tile import edition
from tileiras.dialects.cuda_tile.asm_types import PREFIX, full_type_text


class InvalidOp(VerifyException):
    """An op that breaks a rule; `message` starts with the op's quoted name, as MLIR's diagnostics do; `also` follow."""

    def __init__(self, op: Operation, text: str, named: bool = True, also: tuple[str, ...] = ()) -> None:
        self.op = op
        self.also = also
        self.message = f"'{spelled_name(op)}' op {text}" if named else text
        super().__init__(self.message)


def spelled_name(op: Operation) -> str:
    """An op's name as the reference writes it."""
    short = op.name.removeprefix(PREFIX)
    return PREFIX + edition.spelling(short) if op.name.startswith(PREFIX) else op.name


def shown(type_: Attribute) -> str:
    """A type as it stands in a diagnostic: quoted, in full."""
    return f"'{full_type_text(type_)}'"


def shown_all(values: Iterable[SSAValue]) -> str:
    """The types of values, quoted."""
    return ", ".join(shown(value.type) for value in values)


def listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def single_block(op: Any, name: str) -> Block:
    """The block of the op's first region, called `name`, which must have exactly one and not be empty."""
    region: Region = op.regions[0]
    if len(region.blocks) != 1:
        raise InvalidOp(op, f"region #0 ('{name}') failed to verify constraint: region with 1 blocks")
    if not region.block.ops:
        raise InvalidOp(op, "expects a non-empty block")
    return region.block
