"""How an op's meaning is registered: by name, as a function that prepares the op once and gives what runs it.

    @meaning("cuda_tile.addi", elementwise=True)
    def addi(op):                     # once an op: reads attributes and types
        fmt = result_format(op)
        return lambda lhs, rhs: integers.wrap(lhs + rhs, fmt)     # at every execution: NumPy arrays in and out

The running function gets one argument for each operand group that the op declares: a value, None where an optional
operand is missing, a tuple for a variadic one. With `block=True` the running block comes first (memory, grid, block
index). It returns the op's first result, or a tuple of all; tokens carry no value and may be left out at the end.

Values: a tile is a NumPy array of its shape (formats.py), views are those of views.py, tokens are None.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Attribute, Operation

from tileiras.dialects.cuda_tile.types import TileType
from tileiras.interp.errors import InterpreterError
from tileiras.interp.formats import FloatFormat, Format, IntFormat, format_of

Run = Callable[..., Any]


@dataclass(frozen=True)
class Meaning:
    """prepare: from the op to its running function. elementwise: it may run on many elements of scalar tiles at once,
    as reductions do. block: it wants the running block. meets_others: other blocks may have to run for it to get on."""

    prepare: Callable[[Any], Run]
    elementwise: bool
    block: bool
    meets_others: Callable[[Any], bool]


MEANINGS: dict[str, Meaning] = {}


def meaning(*names: str, elementwise: bool = False, block: bool = False,
            meets_others: Callable[[Any], bool] = lambda op: False) -> Callable[[Callable[[Any], Run]], Any]:
    """Register the decorated preparing function for the ops named."""
    def register(prepare: Callable[[Any], Run]) -> Callable[[Any], Run]:
        for name in names:
            MEANINGS["cuda_tile." + name] = Meaning(prepare, elementwise, block, meets_others)
        return prepare
    return register


def tile_format(type_: Attribute) -> Format:
    """The element format of a tile type."""
    if not isinstance(type_, TileType):
        raise InterpreterError(f"expected a tile, got {type_}")
    return format_of(type_.element_type)


def float_format(type_: Attribute) -> FloatFormat:
    fmt = tile_format(type_)
    if not isinstance(fmt, FloatFormat):
        raise InterpreterError(f"expected floating-point elements, got {fmt.name}")
    return fmt


def int_format(type_: Attribute) -> IntFormat:
    fmt = tile_format(type_)
    if not isinstance(fmt, IntFormat):
        raise InterpreterError(f"expected integer elements, got {fmt.name}")
    return fmt


def tile_shape(type_: Attribute) -> tuple[int, ...]:
    if not isinstance(type_, TileType):
        raise InterpreterError(f"expected a tile, got {type_}")
    return type_.shape


def enum(attribute: Any, default: str = "") -> str:
    """The mnemonic of an enumeration attribute, or the default where it is absent."""
    return default if attribute is None else attribute.value


def flag(attribute: Any) -> bool:
    """Whether a unit attribute is present."""
    return attribute is not None


def integer(attribute: Any) -> int:
    """The value of an IntegerAttr."""
    return attribute.value.data


def first_operand_type(op: Operation) -> Attribute:
    return op.operands[0].type


def first_result_type(op: Operation) -> Attribute:
    return op.results[0].type
