"""Reading types, attributes and locations of cuda_tile text.

Types of the dialect may go without `!cuda_tile.`, assume predicates without `#cuda_tile.`. Source: public `Types.cpp`,
`Attributes.cpp` and MLIR's syntax of builtin attributes.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    DenseArrayBase,
    DictionaryAttr,
    FileLineColLoc,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    FloatTF32Type,
    FunctionType,
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
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cuda_tile import attrs, debug, types
from tileiras.dialects.cuda_tile.asm_dense import parse_dense_builtin
from tileiras.dialects.cuda_tile.asm_scan import ParseError, Scanner
from tileiras.dialects.cuda_tile.asm_types import full_type_text
from tileiras.dialects.cuda_tile.asm_values import FORMATS, float_format
from tileiras.dialects.cuda_tile.verify_kinds import NUMBER_NAMES, POINTER

MAX_NESTING = 64
"""How deep attributes and types may nest."""

I32_LIMIT = (1 << 31) - 1

_BUILTIN: dict[str, type[Any]] = {
    "f16": Float16Type, "bf16": BFloat16Type, "f32": Float32Type, "f64": Float64Type, "tf32": FloatTF32Type,
    "f8E4M3FN": Float8E4M3FNType, "f8E5M2": Float8E5M2Type, "f8E8M0FNU": Float8E8M0FNUType,
    "f4E2M1FN": Float4E2M1FNType, "index": IndexType, "fnv8E5M3FNU": types.Float8E5M3FNUType,
    "token": types.TokenType,
}
_VIEWS = ("partition_view", "strided_view", "gather_scatter_view")
PADDINGS = ", ".join(attrs.PaddingValueAttr.CASES)
_ENUMS: dict[str, type[attrs.EnumAttr]] = {
    cls.name.removeprefix("cuda_tile."): cls for cls in attrs.ATTRS if issubclass(cls, attrs.EnumAttr)}


class ForwardLocation(NamedTuple):
    """A location alias used before its definition, and where."""

    alias: str
    start: int


class AttributeScanner(Scanner):
    """A scanner that also reads types, attributes and locations; it knows the aliases defined so far."""

    def __init__(self, text: str, position: int = 0) -> None:
        super().__init__(text, position)
        self.aliases: dict[str, Attribute] = {}
        self.depth = 0

    def nested(self, read: Callable[[], Any]) -> Any:
        """Read something that may contain its like."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise self.error("nested too deeply")
        try:
            return read()
        finally:
            self.depth -= 1

    def comma_separated(self, read: Callable[[], Any], close: str | None = None) -> list[Any]:
        """One or more items, or none if the closing bracket (taken then) comes at once."""
        out: list[Any] = []
        if close is not None and self.accept(close):
            return out
        out.append(read())
        while self.accept(","):
            out.append(read())
        if close is not None:
            self.expect(close)
        return out

    # Types.

    def type(self) -> Attribute:
        return self.nested(self._type)

    def _type(self) -> Attribute:
        start = self.here()
        alias = self.optional_alias("!")
        if alias is not None:
            if not alias.startswith("cuda_tile."):
                if alias not in self.aliases:
                    raise self.error(f"undefined symbol alias id '{alias}'", start)
                return self.aliases[alias]
            return self._dialect_type(alias.removeprefix("cuda_tile."), start)
        if self.accept("("):
            inputs = self.comma_separated(self.type, ")")
            self.expect("->")
            return FunctionType.from_lists(inputs, self.type_list())
        word = self.optional_keyword()
        if word is None:
            raise self.error("expected valid keyword")
        return self._dialect_type(word, start)

    def type_list(self) -> list[Attribute]:
        """One type, or several in parentheses."""
        return self.comma_separated(self.type, ")") if self.accept("(") else [self.type()]

    def _dialect_type(self, word: str, start: int) -> Attribute:
        if word in _BUILTIN:
            return _BUILTIN[word]()
        if word[0] == "i" and word[1:].isdigit() and len(word) < 9:
            return IntegerType(int(word[1:]))
        if word == "tensor":
            return self._tensor()
        read = {"tile": self._tile, "ptr": self._pointer, "tensor_view": self._tensor_view}.get(word)
        if read is None and word not in _VIEWS:
            raise self.error(f"unknown type: {word}")
        body_start = self.here()
        try:
            return read() if read is not None else self._view(word)
        except VerifyException as error:
            raise ParseError(_first_line(error), body_start) from None

    def _element(self, names: tuple[str, ...], what: str, pointer: bool = False) -> Attribute:
        start = self.here()
        type_ = self.type()
        shown = full_type_text(type_)
        if shown not in names and not isinstance(type_, types.Float8E5M3FNUType) and not (
                pointer and isinstance(type_, types.PointerType)):
            allowed = " or ".join((*NUMBER_NAMES, *((POINTER,) if pointer else ()), *(("i4",) if "i4" in names else ())))
            raise self.error(f"failed to verify '{what}': {allowed}", start)
        return type_

    def _tile(self) -> Attribute:
        self.expect("<")
        start = self.here()
        extents = self.extents()
        if None in extents:
            raise self.error("expected static shape", start)
        element = self._element((*NUMBER_NAMES, "i4"), "elementType", pointer=True)
        self.expect(">")
        return types.TileType((e for e in extents if e is not None), element)

    def _tensor(self) -> Attribute:
        """A builtin tensor: valid MLIR, though nothing of this dialect takes it."""
        from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType

        self.expect("<")
        extents = self.extents()
        element = self.type()
        self.expect(">")
        return TensorType(element, [DYNAMIC_INDEX if e is None else e for e in extents])

    def _pointer(self) -> Attribute:
        self.expect("<")
        pointee = self._element(NUMBER_NAMES, "pointeeType")
        attribute = None
        if self.accept(","):
            self.expect("<")
            attribute = self.keyword()
            self.expect(">")
        self.expect(">")
        return types.PointerType(pointee, attribute)

    def _tensor_view(self) -> Attribute:
        self.expect("<")
        shape = self.extents()
        element = self._element(NUMBER_NAMES, "elementType")
        strides: list[int | None] = []
        if not shape:
            if self.accept(","):
                if self.accept_word("strides"):
                    raise self.error("strides must not be provided for 0-d tiles")
                raise self.error("unexpected token after element type in 0-d tensor_view")
        else:
            if not self.accept(","):
                raise self.error("expected 'strides'")
            self.expect_word("strides")
            self.expect("=")
            self.expect("[")
            strides = self.comma_separated(self._stride, "]")
        attribute = None
        if self.accept(","):
            self.expect("#cuda_tile.ptr_attr")
            self.expect("<")
            attribute = self.keyword()
            self.expect(">")
        self.expect(">")
        return types.TensorViewType(element, shape, strides, attribute)

    def _stride(self) -> int | None:
        start = self.here()
        if self.accept("?"):
            return None
        value = self.optional_integer()
        if value is None:
            raise self.error("expected either 64-bit integer or question mark", start)
        if value <= 0:
            raise self.error(f"expected strictly positive integer, got {value}", start)
        return value

    def _tile_shape(self) -> list[int]:
        self.expect_word("tile")
        self.expect("=")
        start = self.here()
        self.expect("(")
        extents: list[int | None] = self.extents()
        last = self.optional_integer()
        if last is not None:
            extents.append(last)
        self.expect(")")
        out = []
        for i, extent in enumerate(extents):
            if extent is None:
                raise self.error("expected static shape", start)
            if not 0 < extent <= I32_LIMIT:
                raise self.error(f"tile dimension {i} exceeds i32 limitations (got {extent}, expected strictly "
                                 f"positive and less than or equal to {I32_LIMIT})", start)
            out.append(extent)
        return out

    def _view(self, word: str) -> Attribute:
        self.expect("<")
        shape = self._tile_shape()
        self.expect(",")
        traversal: list[int] = []
        if word == "strided_view":
            self.expect_word("traversal_strides")
            self.expect("=")
            self.expect("[")
            traversal = self.comma_separated(self.integer32, "]")
            self.expect(",")
        padding = self._padding()
        view = self.type()
        if not isinstance(view, types.TensorViewType):
            raise self.error(f"expected 'tensor_view' type, but got '{full_type_text(view)}'")
        if word == "gather_scatter_view":
            self.expect(",")
            self.expect_word("sparse_dim")
            self.expect("=")
            dim = self.integer(0, (1 << 32) - 1)
            self.expect(">")
            return types.GatherScatterViewType(shape, view, dim, padding)
        dim_map = None
        if self.accept(","):
            self.expect_word("dim_map")
            self.expect("=")
            self.expect("[")
            dim_map = self.comma_separated(self.integer32, "]")
        self.expect(">")
        if word == "strided_view":
            return types.StridedViewType(shape, traversal, view, dim_map, padding)
        return types.PartitionViewType(shape, view, dim_map, padding)

    def _padding(self) -> attrs.PaddingValueAttr | None:
        if not self.accept_word("padding_value"):
            return None
        start = self.here()
        self.expect("=")
        word = self.keyword()
        if word not in attrs.PaddingValueAttr.CASES:
            raise self.error(f"invalid padding_value attribute specification. Got \"{word}\" but expect one of: "
                             f"{PADDINGS}", start)
        self.expect(",")
        return attrs.PaddingValueAttr(word)

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
            from tileiras.bytecode.attributes import float_from_bits
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
            return inner
        return UnknownLoc()

    def _fused(self) -> Attribute:
        """Of several locations, the first with a scope stands for all."""
        if self.accept("<"):
            self.attribute()
            self.expect(">")
        self.expect("[")
        parts = self.comma_separated(lambda: self.nested(self.location), "]")
        scoped = [part for part in parts if isinstance(part, debug.DILocAttr)]
        return scoped[0] if scoped else parts[0] if parts else UnknownLoc()


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
    from tileiras.bytecode.attributes import float_from_bits
    from tileiras.dialects.cuda_tile.asm_numbers import bits_of_text

    if isinstance(type_, Float64Type):
        return FloatAttr(float(text), type_)
    return float_from_bits(type_, bits_of_text(type_, text))


def _first_line(error: VerifyException) -> str:
    return str(error).splitlines()[0]

