"""Reading types in text: `tile<4xf32>`, `!cuda_tile.tensor_view<?xf32, strides=[1]>`, builtin ones.

Types of the dialect may go without `!cuda_tile.`. Source: public `Types.cpp`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
    FunctionType,
    IndexType,
    IntegerType,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cuda_tile import attrs, edition, types
from tileiras.dialects.cuda_tile.asm_scan import ParseError, Scanner
from tileiras.dialects.cuda_tile.asm_types import full_type_text
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


class TypeScanner(Scanner):
    """A scanner that also reads types and lists; it knows the aliases defined so far."""

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
        is_number = shown in names or isinstance(type_, types.Float8E5M3FNUType)
        if not (is_number and edition.has_type(shown.rpartition(".")[2])) and not (
                pointer and isinstance(type_, types.PointerType)):
            numbers = filter(edition.has_type, NUMBER_NAMES)
            small = ("i4",) if "i4" in names and not edition.is_before(edition.NEWEST) else ()
            allowed = " or ".join((*numbers, *((POINTER,) if pointer else ()), *small))
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


def _first_line(error: VerifyException) -> str:
    return str(error).splitlines()[0]
