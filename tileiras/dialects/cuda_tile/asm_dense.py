"""Reading tile constants: `<i32: [[1, 2], [3, 4]]> : tile<2x2xi32>` and MLIR's `dense<[1, 2]> : !cuda_tile.tile<2xi32>`.

Source: public `CudaTile.cpp` (parseDenseTypedElementsAttr), MLIR's dense literals.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile.asm_numbers import bits_of_text
from tileiras.dialects.cuda_tile.asm_scan import ParseError
from tileiras.dialects.cuda_tile.asm_types import full_type_text, type_text
from tileiras.dialects.cuda_tile.attrs import DenseElementsAttr
from tileiras.dialects.cuda_tile.dense import is_valid_buffer, packed
from tileiras.dialects.cuda_tile.float_formats import FORMATS, float_format
from tileiras.dialects.cuda_tile.types import TileType

if TYPE_CHECKING:
    from tileiras.dialects.cuda_tile.asm_attributes import AttributeScanner

_ELEMENTS = ("i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "tf32", "f8E4M3FN", "f8E5M2", "f8E8M0FNU",
             "f4E2M1FN")
_ONE_OF = " or ".join(_ELEMENTS)
_RAGGED = "tensor literal is invalid; ranks are not consistent between elements"


def parse_constant(scanner: AttributeScanner) -> DenseElementsAttr:
    """`<f32: 1.0> : tile<f32>`: the prefix says how to read the elements, the type how many there are."""
    scanner.expect("<")
    try:
        element = scanner.type()
    except ParseError as error:
        raise ParseError(error.message, error.position,
                         (f"expect element type to be one of {_ONE_OF} values, but got '<<NULL TYPE>>'",)) from None
    if type_text(element) not in _ELEMENTS and type(element) not in FORMATS:
        raise scanner.error(f"expect element type to be one of {_ONE_OF} values, but got '{full_type_text(element)}'")
    scanner.expect(":")
    raw = scanner.optional_string() if scanner.peek('"') else None
    literal = _Literal(scanner, element)
    shape = [] if raw is not None else literal.read()
    scanner.expect(">")
    scanner.expect(":")
    start = scanner.here()
    type_ = scanner.type()
    if not isinstance(type_, TileType):
        raise scanner.error(f"result #0 must be tile of {_ONE_OF} values, but got '{full_type_text(type_)}'", start)
    if type_.element_type != element:
        raise scanner.error(f"mismatch between the element type: '{full_type_text(element)}' and the tile element type "
                            f"'{full_type_text(type_.element_type)}'", start)
    if raw is not None:
        return _from_hex(scanner, raw, type_, start)
    _check_shape(scanner, shape, type_, start)
    return packed(literal.patterns, type_)


def parse_dense_builtin(scanner: AttributeScanner) -> Attribute:
    """`dense<...> : type`, behind the word: the elements are read when the type is known."""
    scanner.expect("<")
    body = scanner.here()
    _skip_body(scanner)
    scanner.expect(">")
    scanner.expect(":")
    start = scanner.here()
    type_ = scanner.type()
    if not isinstance(type_, TileType):
        raise scanner.error(f"expected a tile type, but got '{full_type_text(type_)}'", start)
    end = scanner.pos
    scanner.pos = body
    if scanner.peek('"'):
        attribute = _from_hex(scanner, scanner.string(), type_, start)
    else:
        literal = _Literal(scanner, type_.element_type)
        _check_shape(scanner, literal.read(), type_, start)
        attribute = packed(literal.patterns, type_)
    scanner.pos = end
    return attribute


def _skip_body(scanner: AttributeScanner) -> None:
    while not scanner.peek(">"):
        if scanner.at_end():
            raise scanner.error("expected '>'")
        if scanner.peek('"'):
            scanner.string()
        else:
            scanner.pos += 1


def _check_shape(scanner: AttributeScanner, shape: list[int], type_: TileType, position: int) -> None:
    if shape and tuple(shape) != type_.shape:
        inferred, expected = (", ".join(map(str, s)) for s in (shape, type_.shape))
        raise scanner.error(f"inferred shape of elements literal ([{inferred}]) does not match type ([{expected}])",
                            position)


class _Literal:
    """Elements in nested brackets, or one for all; `patterns` are their bits."""

    def __init__(self, scanner: AttributeScanner, element: Attribute) -> None:
        self.scanner = scanner
        self.element = element
        self.patterns: list[int] = []

    def read(self) -> list[int]:
        """The shape that the brackets say, empty for a single element."""
        return self.scanner.nested(self._read)

    def _read(self) -> list[int]:
        if not self.scanner.accept("["):
            self.patterns.append(self._number())
            return []
        if self.scanner.accept("]"):
            return [0]
        inner = self.read()
        count = 1
        while self.scanner.accept(","):
            if self.read() != inner:
                raise self.scanner.error(_RAGGED)
            count += 1
        self.scanner.expect("]")
        return [count, *inner]

    def _number(self) -> int:
        return self._integer(self.element) if isinstance(self.element, IntegerType) else self._float()

    def _integer(self, type_: IntegerType) -> int:
        scanner, width = self.scanner, type_.width.data
        start = scanner.here()
        word = scanner.peek_keyword()
        if word in ("true", "false") and width == 1:
            scanner.pos += len(word)
            return int(word == "true")
        value = None if word in ("true", "false") else scanner.optional_integer()
        if value is None:
            raise scanner.error("expected integer value", start)
        if not -(1 << max(width - 1, 0)) <= value < 1 << width:
            raise scanner.error("integer constant out of range for type", start)
        return int(value != 0) if width == 1 else value & ((1 << width) - 1)

    def _float(self) -> int:
        scanner = self.scanner
        start = scanner.here()
        text = scanner.optional_float()
        if text is not None:
            return bits_of_text(self.element, text)
        value = scanner.optional_integer()
        if value is None:
            raise scanner.error("expected floating point literal", start)
        if not scanner.text.startswith(("0x", "-0x"), start):
            raise scanner.error("unexpected decimal integer literal for a floating point value", start)
        if value >> float_format(self.element).width or value < 0:
            raise scanner.error("float constant out of range for type", start)
        return value


def _from_hex(scanner: Any, text: str, type_: TileType, position: int) -> DenseElementsAttr:
    try:
        if not text.startswith("0x"):
            raise ValueError(text)
        raw = bytes.fromhex(text[2:])
    except ValueError:
        raise scanner.error("elements hex string should start with '0x' and hold whole bytes", position) from None
    if not is_valid_buffer(type_.shape, type_.element_type, raw):
        raise scanner.error("elements hex data size is invalid for provided type: "
                            f"'{full_type_text(type_)}'", position)
    return DenseElementsAttr(type_, raw)
