"""Reading attributes and locations of cuda_tile text.

Assume predicates may go without `#cuda_tile.`. Source: public `Attributes.cpp` and MLIR's syntax of builtin attributes.
"""
from __future__ import annotations

from typing import Any, NamedTuple

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FileLineColLoc,
    Float64Type,
    FloatAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    UnknownLoc,
    i1,
    i64,
)
from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile import attrs, debug
from tileiras.dialects.cuda_tile.asm_dense import parse_dense_builtin
from tileiras.dialects.cuda_tile.asm_scan import Scanner
from tileiras.dialects.cuda_tile.asm_type_parse import TypeScanner
from tileiras.dialects.cuda_tile.debug_text import FusedLocAttr, NameLocAttr
from tileiras.dialects.cuda_tile.float_bits import float_from_bits
from tileiras.dialects.cuda_tile.float_formats import FORMATS, float_format

_ENUMS: dict[str, type[attrs.EnumAttr]] = {
    cls.name.removeprefix("cuda_tile."): cls for cls in attrs.ATTRS if issubclass(cls, attrs.EnumAttr)}


class ForwardLocation(NamedTuple):
    """A location alias used before its definition, and where."""

    alias: str
    start: int


class AttributeScanner(TypeScanner):
    """A scanner that reads types, attributes and locations."""

    # Attributes.

    def attribute(self) -> Attribute:
        return self.nested(self._attribute)

    def _attribute(self) -> Attribute:
        start = self.here()
        name = self.optional_alias("#")
        if name is not None:
            return self._hash_attribute(name, start)
        if self.accept("["):
            return ArrayAttr(self.comma_separated(self.attribute, "]"))
        if self.peek("{"):
            return DictionaryAttr(self.dictionary())
        text = self.optional_string()
        if text is not None:
            return StringAttr(text)
        symbol = self.optional_symbol()
        if symbol is not None:
            return SymbolRefAttr(symbol)
        number = self._number()
        if number is not None:
            return number
        word = self.peek_keyword()
        if word in ("true", "false"):
            self.pos += len(word)
            return IntegerAttr(int(word == "true"), i1)
        if word in ("unit", "dense", "array", "loc", "none"):
            self.pos += len(word)
            return self._keyword_attribute(word)
        if word is not None or self.peek("!") or self.peek("("):
            return self.type()
        raise self.error("expected attribute value")

    def _keyword_attribute(self, word: str) -> Attribute:
        if word == "dense":
            return parse_dense_builtin(self)
        if word == "array":
            return self._array()
        if word == "loc":
            return self._in_loc()
        return UnitAttr() if word == "unit" else NoneAttr()

    def _number(self) -> Attribute | None:
        text = self.optional_float()
        if text is not None:
            start = self.here()
            type_ = self.type() if self.accept(":") else Float64Type()
            if type(type_) not in FORMATS:
                raise self.error("floating point value not valid for specified type", start)
            return _float_attribute(type_, text)
        start = self.here()
        value = self.optional_integer()
        if value is None:
            return None
        is_hex = self.text.startswith(("0x", "-0x"), start)
        type_ = self.type() if self.accept(":") else i64
        if isinstance(type_, (IntegerType, IndexType)):
            return _integer_attribute(self, value, type_, start)
        if is_hex and type(type_) in FORMATS:
            if value < 0 or value >> float_format(type_).width:
                raise self.error("hexadecimal float constant out of range for type", start)
            return float_from_bits(type_, value)
        raise self.error("unexpected decimal integer literal for a floating point value", start)

    def _array(self) -> Attribute:
        self.expect("<")
        start = self.here()
        type_ = self.type()
        if not isinstance(type_, IntegerType):
            raise self.error("expected an array of integers", start)
        width = type_.width.data
        values = []
        if self.accept(":"):
            values = self.comma_separated(lambda: self._array_element(width))
        self.expect(">")
        return DenseArrayBase.from_list(type_, values)

    def _array_element(self, width: int) -> int:
        if self.peek_keyword() in ("true", "false"):
            return int(self.keyword() == "true")
        return self.integer(-(1 << (width - 1)) if width > 1 else 0, (1 << max(width - 1, 1)) - 1)

    def dictionary(self) -> dict[str, Attribute]:
        """`{a = 1, b}`; a name alone is a unit attribute."""
        self.expect("{")
        out: dict[str, Attribute] = {}
        if self.accept("}"):
            return out
        while True:
            start = self.here()
            name = self.optional_string()
            if name is None:
                name = self.optional_keyword()
            if not name:
                raise self.error("expected attribute name", start)
            if name in out:
                raise self.error(f"duplicate key '{name}' in dictionary attribute", start)
            out[name] = self.attribute() if self.accept("=") else UnitAttr()
            if not self.accept(","):
                self.expect("}")
                return out

    def _hash_attribute(self, name: str, start: int) -> Attribute:
        if not name.startswith("cuda_tile."):
            if name not in self.aliases:
                raise self.error(f"undefined symbol alias id '{name}'", start)
            return self.aliases[name]
        name = name.removeprefix("cuda_tile.")
        if name in _ENUMS:
            self.expect("<")
            where = self.here()
            word = self.keyword()
            self.expect(">")
            return enum_attribute(self, _ENUMS[name], word, where)
        if name in ("div_by", "same_elements", "bounded"):
            return self.predicate(name)
        if name == "optimization_hints":
            return self.hints()
        if name == "dense":
            return parse_dense_builtin(self)
        if name.startswith("di_"):
            return self._debug_attribute(name)
        raise self.error(f"unknown attribute `{name}` in dialect `cuda_tile`", start)

    def predicate(self, name: str) -> Attribute:
        """`div_by<...>` and its like, behind the name."""
        self.expect("<")
        if name == "div_by":
            return self._div_by()
        if name == "same_elements":
            self.expect("[")
            values = self.comma_separated(self.integer, "]")
            self.expect(">")
            return attrs.SameElementsAttr(values)
        lower = None if self.accept("?") else self.integer()
        self.expect(",")
        upper = None if self.accept("?") else self.integer()
        self.expect(">")
        return attrs.BoundedAttr(lower, upper)

    def _div_by(self) -> Attribute:
        divisor = self.integer(0, (1 << 64) - 1)
        every = along = None
        if self.accept(","):
            self.expect_word("every")
            every = self.integer()
            self.expect_word("along")
            along = self.integer()
        self.expect(">")
        return attrs.DivByAttr(divisor, every, along)

    def hints(self) -> attrs.OptimizationHintsAttr:
        """`<sm_90 = {...}, ...>`."""
        self.expect("<")
        out: dict[str, Attribute] = {}
        if self.accept(">"):
            return attrs.OptimizationHintsAttr(out)
        while True:
            key = self.optional_string() or self.optional_keyword()
            if key is None:
                raise self.error("expected valid keyword or string")
            self.expect("=")
            value = self.attribute()
            if key in out:
                raise self.error(f"duplicate optimization_hints key `{key}`")
            if not isinstance(value, DictionaryAttr):
                from tileiras.dialects.cuda_tile.asm_print import attribute_text
                text = f"{attribute_text(value)} : i64" if isinstance(value, IntegerAttr) and value.type == i64 else \
                    attribute_text(value)
                raise self.error("expected dictionary attribute for optimization_hints entry "
                                 f"`{key}` got value={text}")
            out[key] = value
            if not self.accept(","):
                self.expect(">")
                return attrs.OptimizationHintsAttr(out)

    # Debug attributes and locations.

    def _fields(self) -> dict[str, Any]:
        """`<key = value, ...>` of a debug attribute."""
        self.expect("<")
        out: dict[str, Any] = {}
        while True:
            key = self.optional_keyword()
            if key is None:
                raise self.error("expected a parameter name in struct")
            self.expect("=")
            text = self.optional_string()
            number = self.optional_integer() if text is None else None
            if text is not None:
                out[key] = text
            elif number is not None:
                out[key] = number
            elif self.peek("<"):
                out[key] = self._debug_attribute("di_file" if key == "file" else "di_compile_unit")
            else:
                out[key] = self.attribute()
            if not self.accept(","):
                self.expect(">")
                return out

    def _debug_attribute(self, name: str) -> Attribute:
        start = self.here()
        if name == "di_file":
            self.expect("<")
            file_name = self.string()
            self.expect_word("in")
            directory = self.string()
            self.expect(">")
            return debug.DIFileAttr(file_name, directory)
        if name == "di_loc":
            return self._scoped_location()
        fields = self._fields()
        try:
            if name == "di_compile_unit":
                return debug.DICompileUnitAttr(fields["file"])
            if name == "di_subprogram":
                return debug.DISubprogramAttr(fields["file"], fields["line"], fields["name"], fields["linkageName"],
                                              fields["compileUnit"], fields.get("scopeLine", 0))
            if name == "di_lexical_block":
                return debug.DILexicalBlockAttr(fields["scope"], fields["file"], fields["line"],
                                                fields.get("column", 0))
        except KeyError as missing:
            raise self.error(f"struct is missing required parameter: {missing.args[0]}", start) from None
        raise self.error(f"unknown attribute `{name}` in dialect `cuda_tile`", start)

    def _scoped_location(self) -> Attribute:
        self.expect("<")
        start = self.here()
        location = self._in_loc() if self.accept_word("loc") else self.attribute()
        self.expect_word("in")
        scope = self.attribute()
        self.expect(">")
        if not isinstance(location, FileLineColLoc):
            raise self.error("expected a file location", start)
        return debug.DILocAttr(location.filename.data, location.line.data, location.column.data, scope)

    def optional_location(self) -> Attribute | ForwardLocation | None:
        """A trailing `loc(...)`; an alias that is defined later comes as its name."""
        if not self.accept_word("loc"):
            return None
        before = self.pos
        self.expect("(")
        start = self.here()
        alias = self.optional_alias("#")
        if alias is not None and alias not in self.aliases and not alias.startswith("cuda_tile."):
            self.expect(")")
            return ForwardLocation(alias, start)
        self.pos = before
        return self._in_loc()

    def _in_loc(self) -> Attribute:
        self.expect("(")
        location = self.nested(self.location)
        self.expect(")")
        return location

    def location(self) -> Attribute:
        """What stands inside `loc(...)`."""
        start = self.here()
        name = self.optional_alias("#")
        if name is not None:
            return self._hash_attribute(name, start)
        text = self.optional_string()
        if text is not None:
            return self._file_or_name(text)
        word = self.keyword()
        if word == "unknown":
            return UnknownLoc()
        if word == "callsite":
            self.expect("(")
            callee = self.nested(self.location)
            self.expect_word("at")
            caller = self.nested(self.location)
            self.expect(")")
            return debug.CallSiteLocAttr(callee, caller)
        if word == "fused":
            return self._fused()
        if word == "loc":
            return self._in_loc()
        raise self.error("expected location instance", start)

    def _file_or_name(self, text: str) -> Attribute:
        if self.accept(":"):
            line = self.integer(0)
            column = self.integer(0) if self.accept(":") else 0
            return FileLineColLoc(StringAttr(text), IntAttr(line), IntAttr(column))
        if self.accept("("):  # a name around a location
            inner = self.nested(self.location)
            self.expect(")")
            return inner if isinstance(inner, debug.DebugAttr) else NameLocAttr(inner)
        return UnknownLoc()

    def _fused(self) -> Attribute:
        """Of several locations, the first with a scope stands for all."""
        if self.accept("<"):
            self.attribute()
            self.expect(">")
        self.expect("[")
        parts = self.comma_separated(lambda: self.nested(self.location), "]")
        scoped = [part for part in parts if isinstance(part, debug.DILocAttr)]
        return scoped[0] if scoped else FusedLocAttr(parts[0]) if parts else UnknownLoc()


def enum_attribute(scanner: Scanner, enum: type[attrs.EnumAttr], word: str, position: int) -> attrs.EnumAttr:
    if word not in enum.CASES:
        raise scanner.error(f"expected {enum.name} to be one of: {', '.join(enum.CASES)}", position)
    return enum(word)


def _integer_attribute(scanner: Scanner, value: int, type_: IntegerType | IndexType, position: int) -> Attribute:
    if isinstance(type_, IntegerType):
        width = type_.width.data
        if not -(1 << (width - 1)) <= value < 1 << width:
            raise scanner.error("integer constant out of range for attribute", position)
        if value >= 1 << (width - 1) and width > 1:
            value -= 1 << width
    return IntegerAttr(value, type_)


def _float_attribute(type_: Attribute, text: str) -> Attribute:
    from tileiras.dialects.cuda_tile.asm_numbers import bits_of_text

    if isinstance(type_, Float64Type):
        return FloatAttr(float(text), type_)
    return float_from_bits(type_, bits_of_text(type_, text))
