"""How attributes lie in bytecode, by the kinds that the op table names, and with a tag inside arrays and dictionaries.

Source: public `BytecodeAttrOpcodes.td` and `BytecodeReader.cpp` (parseOpAttribute); cuTile Python
`_bytecode/attribute.py`.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import cache

from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    DenseArrayBase,
    DictionaryAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerAttr,
    IntegerType,
    ReducedPrecisionFloatType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute

from tileiras.bytecode.types import TypeReader
from tileiras.bytecode.wire import (
    malformed,
    read_count,
    read_int_list,
    read_signed_varint,
    read_varint,
)
from tileiras.dialects.cuda_tile import attrs
from tileiras.dialects.cuda_tile.attrs import (
    BoundedAttr,
    DenseElementsAttr,
    DivByAttr,
    EnumAttr,
    OptimizationHintsAttr,
    SameElementsAttr,
)
from tileiras.dialects.cuda_tile.dense import is_valid_buffer, significant_bits
from tileiras.dialects.cuda_tile.float_bits import float_from_bits
from tileiras.dialects.cuda_tile.types import Float8E5M3FNUType, TileType
from tileiras.errors import BytecodeError

(INTEGER, FLOAT, BOOL, TYPE, STRING, ARRAY, DENSE, DIV_BY, SAME_ELEMENTS, DICTIONARY, OPTIMIZATION_HINTS,
 BOUNDED) = range(1, 13)

MAX_NESTING = 32
"""How deep arrays and dictionaries may nest."""

ENUMS: dict[str, type[EnumAttr]] = {
    "rounding": attrs.RoundingAttr, "overflow": attrs.OverflowAttr, "signedness": attrs.SignednessAttr,
    "predicate": attrs.ComparisonPredicateAttr, "ordering": attrs.ComparisonOrderingAttr,
    "memory_ordering": attrs.MemoryOrderingSemanticsAttr, "memory_scope": attrs.MemoryScopeAttr,
    "rmw_mode": attrs.AtomicRMWModeAttr, "multimem": attrs.MultimemReductionAttr, "visibility": attrs.SymbolVisibilityAttr,
}
UNIT = UnitAttr()


@cache
def enum_cases(kind: str) -> tuple[EnumAttr, ...]:
    """The attributes of an enumeration in the order of their numbers."""
    enum = ENUMS[kind]
    return tuple(enum(case) for case in enum.CASES)


def default_of(kind: str, text: str) -> Attribute:
    """The value that a field's default stands for, as the op table writes it."""
    return ENUMS[kind](text) if kind in ENUMS else IntegerAttr(int(text), i32)


class AttributeReader:
    """Reads attributes of one file: it knows the file's strings, types and constants."""

    def __init__(self, strings: list[bytes], types: TypeReader, constants: list[bytes]) -> None:
        self._raw_strings = strings
        self._strings: dict[int, str] = {}
        self.types = types
        self._constants = constants
        self._dense: dict[tuple[Attribute, int], DenseElementsAttr] = {}
        self._string_attrs: dict[int, StringAttr] = {}
        self._bool_arrays: dict[tuple[int, ...], Attribute] = {}
        self._hints: dict[bytes, tuple[Attribute, int]] = {}

    def string(self, index: int) -> str:
        found = self._strings.get(index)
        if found is None:
            if index >= len(self._raw_strings):
                raise BytecodeError(f"string index {index} out of bounds")
            # Frontends write UTF-8. A byte that is none shows as an escape, as MLIR prints it in another form.
            found = self._strings[index] = self._raw_strings[index].decode(errors="backslashreplace")
        return found

    def dense(self, type_: Attribute, index: int) -> DenseElementsAttr:
        """The constant of that index as elements of a tile type."""
        key = (type_, index)
        found = self._dense.get(key)
        if found is None:
            if not isinstance(type_, TileType) or not _is_number(type_.element_type):
                raise BytecodeError(f"expect Cuda Tile integer or float type but got: {type_}")
            if index >= len(self._constants):
                raise BytecodeError(f"constant index {index} out of bounds")
            data = self._constants[index]
            try:
                size, pos = read_varint(data, 0)
            except IndexError:
                raise BytecodeError("failed to read the size of the data buffer") from None
            if size > len(data) - pos:
                raise BytecodeError("failed to read the raw byte data")
            raw = data[pos:pos + size]
            if not is_valid_buffer(type_.shape, type_.element_type, raw):
                raise BytecodeError("failed to validate buffer size and format")
            found = self._dense[key] = DenseElementsAttr(type_, raw)
        return found

    def read_string(self, data: bytes, pos: int, result: Attribute | None) -> tuple[Attribute, int]:
        index, pos = read_varint(data, pos)
        found = self._string_attrs.get(index)
        if found is None:
            found = self._string_attrs[index] = StringAttr(self.string(index))
        return found, pos

    def read_symbol(self, data: bytes, pos: int, result: Attribute | None) -> tuple[Attribute, int]:
        index, pos = read_varint(data, pos)
        symbol = self.string(index)
        if not symbol:
            raise malformed(pos, "empty symbol reference is invalid")
        return SymbolRefAttr(symbol), pos

    def read_type(self, data: bytes, pos: int, result: Attribute | None) -> tuple[Attribute, int]:
        index, pos = read_varint(data, pos)
        return self.types.get(index), pos

    def read_i32(self, data: bytes, pos: int, result: Attribute | None) -> tuple[Attribute, int]:
        value, pos = read_varint(data, pos)
        return _integer(value, i32, pos), pos

    def read_i64(self, data: bytes, pos: int, result: Attribute | None) -> tuple[Attribute, int]:
        value, pos = read_varint(data, pos)
        return _integer(value, i64, pos), pos

    def read_bool(self, data: bytes, pos: int, result: Attribute | None) -> tuple[Attribute, int]:
        return _integer(int(data[pos] != 0), i1, pos), pos + 1

    def read_dense(self, data: bytes, pos: int, result: Attribute | None) -> tuple[Attribute, int]:
        index, pos = read_varint(data, pos)
        assert result is not None
        return self.dense(result, index), pos

    def read_i32s(self, data: bytes, pos: int, result: Attribute | None) -> tuple[Attribute, int]:
        values, pos = read_int_list(data, pos, 4)
        if -(1 << 31) in values:
            raise malformed(pos, f"array contains unsupported value {-(1 << 31)}")
        return DenseArrayBase.from_list(i32, values), pos

    def read_bools(self, data: bytes, pos: int, result: Attribute | None) -> tuple[Attribute, int]:
        values, pos = read_int_list(data, pos, 1)
        flags = tuple(int(value != 0) for value in values)
        found = self._bool_arrays.get(flags)
        if found is None:
            found = self._bool_arrays[flags] = DenseArrayBase.from_list(i1, flags)
        return found, pos

    def read_array(self, data: bytes, pos: int, result: Attribute | None) -> tuple[Attribute, int]:
        return self._array(data, pos, 0)

    def read_hints(self, data: bytes, pos: int, result: Attribute | None) -> tuple[Attribute, int]:
        value, pos = self._dictionary(data, pos, 0)
        return OptimizationHintsAttr(value), pos

    def read_assume(self, data: bytes, pos: int, result: Attribute | None) -> tuple[Attribute, int]:
        predicate, end = self.read_tagged(data, pos)
        if not isinstance(predicate, attrs.ASSUME_PREDICATES):
            raise malformed(pos, "failed to cast parsed attribute to AssumePredicateAttrInterface")
        return predicate, end

    def _array(self, data: bytes, pos: int, depth: int) -> tuple[ArrayAttr, int]:
        count, pos = read_count(data, pos, 1, "array elements")
        items = []
        for _ in range(count):
            item, pos = self.read_tagged(data, pos, depth + 1)
            items.append(item)
        return ArrayAttr(items), pos

    def _dictionary(self, data: bytes, pos: int, depth: int) -> tuple[DictionaryAttr, int]:
        count, pos = read_count(data, pos, 2, "dictionary entries")
        items: dict[str, Attribute] = {}
        for number in range(count):
            index, pos = read_varint(data, pos)
            key = self.string(index)
            if not key:
                raise malformed(pos, f"invalid empty attribute name for DictionaryAttr element {number}")
            if key in items:
                raise malformed(pos, f"failed to parse DictionaryAttr, duplicate key found: {key}")
            items[key], pos = self.read_tagged(data, pos, depth + 1)
        return DictionaryAttr(items), pos

    def read_tagged(self, data: bytes, pos: int, depth: int = 0) -> tuple[Attribute, int]:
        """An attribute that begins with its tag."""
        if depth > MAX_NESTING:
            raise malformed(pos, f"attributes nest deeper than {MAX_NESTING}")
        tag, pos = read_varint(data, pos)
        if tag == ARRAY:
            return self._array(data, pos, depth)
        if tag == DICTIONARY:
            return self._dictionary(data, pos, depth)
        if tag == OPTIMIZATION_HINTS:
            value, pos = self._dictionary(data, pos, depth)
            return OptimizationHintsAttr(value), pos
        parse = _TAGGED.get(tag)
        if parse is None:
            raise malformed(pos, f"unsupported AttributeTag {tag} for self-contained attribute")
        return parse(self, data, pos)

    def _tagged_integer(self, data: bytes, pos: int) -> tuple[Attribute, int]:
        index, pos = read_varint(data, pos)
        type_ = self.types.get(index)
        if not isinstance(type_, IntegerType):
            raise malformed(pos, "failed to read valid IntegerType for IntegerAttr")
        if type_.width.data == 1:
            return self.read_bool(data, pos, None)
        value, pos = read_varint(data, pos)
        return _integer(value, type_, pos), pos

    def _tagged_float(self, data: bytes, pos: int) -> tuple[Attribute, int]:
        index, pos = read_varint(data, pos)
        type_ = self.types.get(index)
        if not _is_number(type_) or isinstance(type_, (IntegerType, Float8E5M3FNUType)):
            raise malformed(pos, "failed to read valid FloatType for FloatAttr")
        width = significant_bits(type_)
        if width <= 8:
            bits = data[pos]
            pos += 1
        else:
            bits, pos = read_signed_varint(data, pos)
            bits &= (1 << 64) - 1
        if bits >> width:
            raise malformed(pos, f"value {bits} does not fit in {width} bits")
        return float_from_bits(type_, bits), pos

    def _tagged_bool(self, data: bytes, pos: int) -> tuple[Attribute, int]:
        return self.read_bool(data, pos, None)

    def _tagged_type(self, data: bytes, pos: int) -> tuple[Attribute, int]:
        return self.read_type(data, pos, None)

    def _tagged_string(self, data: bytes, pos: int) -> tuple[Attribute, int]:
        return self.read_string(data, pos, None)

    def _tagged_dense(self, data: bytes, pos: int) -> tuple[Attribute, int]:
        index, pos = read_varint(data, pos)
        return self.read_dense(data, pos, self.types.get(index))

    def _div_by(self, data: bytes, pos: int) -> tuple[Attribute, int]:
        divisor, pos = read_varint(data, pos)
        (every, along), pos = _optional_pair(data, pos)
        return DivByAttr(divisor, every, along), pos

    def _same_elements(self, data: bytes, pos: int) -> tuple[Attribute, int]:
        values, pos = read_int_list(data, pos, 8)
        return SameElementsAttr(values), pos

    def _bounded(self, data: bytes, pos: int) -> tuple[Attribute, int]:
        (lb, ub), pos = _optional_pair(data, pos)
        return BoundedAttr(lb, ub), pos


def _is_number(type_: Attribute) -> bool:
    return isinstance(type_, (IntegerType, Float32Type, Float16Type, BFloat16Type, Float64Type,
                              ReducedPrecisionFloatType, Float8E5M3FNUType))


@cache
def _small_integer(value: int, type_: IntegerType) -> IntegerAttr:
    return IntegerAttr(value, type_)


def _integer(value: int, type_: IntegerType, pos: int) -> IntegerAttr:
    """The integer of that two's-complement pattern."""
    width = type_.width.data
    if value >> width:
        raise malformed(pos, f"value {value} does not fit in {width} bits")
    if width > 1 and value >> (width - 1):
        value -= 1 << width
    return _small_integer(value, type_) if -64 <= value <= 1024 else IntegerAttr(value, type_)


def _optional_pair(data: bytes, pos: int) -> tuple[tuple[int | None, int | None], int]:
    flags = data[pos]
    pos += 1
    if flags & ~3:
        raise malformed(pos, "unused bits set in optional parameter flags")
    first = second = None
    if flags & 1:
        first, pos = read_signed_varint(data, pos)
    if flags & 2:
        second, pos = read_signed_varint(data, pos)
    for value in (first, second):
        if value is not None and not -(1 << 63) <= value < 1 << 63:
            raise malformed(pos, f"value {value} does not fit in 64 bits")
    return (first, second), pos


Reader = Callable[[AttributeReader, bytes, int], tuple[Attribute, int]]

_TAGGED: dict[int, Reader] = {
    INTEGER: AttributeReader._tagged_integer, FLOAT: AttributeReader._tagged_float, BOOL: AttributeReader._tagged_bool,
    TYPE: AttributeReader._tagged_type, STRING: AttributeReader._tagged_string, DENSE: AttributeReader._tagged_dense,
    DIV_BY: AttributeReader._div_by, SAME_ELEMENTS: AttributeReader._same_elements, BOUNDED: AttributeReader._bounded,
}

KIND_READERS: dict[str, Callable[[AttributeReader, bytes, int, Attribute | None], tuple[Attribute, int]]] = {
    "string": AttributeReader.read_string, "symbol": AttributeReader.read_symbol, "type": AttributeReader.read_type,
    "i32": AttributeReader.read_i32, "i64": AttributeReader.read_i64, "bool": AttributeReader.read_bool,
    "dense": AttributeReader.read_dense, "i32s": AttributeReader.read_i32s, "bools": AttributeReader.read_bools,
    "array": AttributeReader.read_array, "hints": AttributeReader.read_hints, "assume": AttributeReader.read_assume,
}
"""How each kind of the op table is read: (data, position, type of the op's first result) -> (attribute, position)."""
