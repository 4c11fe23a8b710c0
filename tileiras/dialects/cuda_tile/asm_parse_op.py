"""Reading one op by its format: the counterpart of `asm_print`, over the same table.

What the format doesn't say is inferred as the public dialect infers it: operands and results that must have equal
types, types that can be only one (tokens, scalar i1 and i32), and the attributes' defaults.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FunctionType,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, Region

from tileiras.dialects.base import Field
from tileiras.dialects.cuda_tile import asm_parse_flow, attrs, types
from tileiras.dialects.cuda_tile.asm_dense import parse_constant
from tileiras.dialects.cuda_tile.asm_format import Element, format_of
from tileiras.dialects.cuda_tile.asm_scan import ParseError
from tileiras.dialects.cuda_tile.asm_types import full_type_text
from tileiras.dialects.cuda_tile.op import CudaTileOp
from tileiras.dialects.cuda_tile.verify import equal_type_groups, kind_of_group

if TYPE_CHECKING:
    from tileiras.dialects.cuda_tile.asm_parse import TextReader

Value = tuple[str, int, int]
"""A value's name with `%`, its result number, its position in the text."""

_ENUMS: dict[str, type[attrs.EnumAttr]] = {
    "overflow": attrs.OverflowAttr, "rounding": attrs.RoundingAttr, "rounding_mode": attrs.RoundingAttr,
    "signedness": attrs.SignednessAttr, "signedness_lhs": attrs.SignednessAttr, "signedness_rhs": attrs.SignednessAttr,
    "comparison_predicate": attrs.ComparisonPredicateAttr, "comparison_ordering": attrs.ComparisonOrderingAttr,
    "memory_ordering_semantics": attrs.MemoryOrderingSemanticsAttr, "memory_scope": attrs.MemoryScopeAttr,
    "mode": attrs.AtomicRMWModeAttr,
}
_DEFAULTS: dict[str, Callable[[], Attribute]] = {
    "overflow": lambda: attrs.OverflowAttr("none"), "rounding": lambda: attrs.RoundingAttr("zero"),
    "alignment": lambda: IntegerAttr(0, i64),
}
_SORTED_CASES = {
    "signedness": "expected signedness to be one of: {'signed', 'unsigned'}",
    "comparison_ordering": "expected 'comparison_ordering' to be one of: {'ordered', 'unordered'}",
}
_INTEGERS = {"dim": i32, "num_elem": i64, "alignment": i64}
_IEEE = ("nearest_even", "zero", "negative_inf", "positive_inf")
ROUNDINGS: dict[str, tuple[str, ...]] = {
    "ieee": _IEEE, "full": ("approx", "full"), "sqrt": (*_IEEE, "approx"), "div": (*_IEEE, "approx", "full"),
    "integer": ("nearest_int_to_zero",), "ftof": (*_IEEE, "nearest_away"),
}
_STRICT = ("ieee", "integer", "ftof")
"""Sets of modes whose text form refuses the others; elsewhere the verifier does."""

ATTRIBUTE_KINDS: dict[str, tuple[type[Attribute], ...]] = {
    **{name: (enum,) for name, enum in _ENUMS.items()}, **dict.fromkeys((*_INTEGERS, "reverse"), (IntegerAttr,)),
    **dict.fromkeys(("str", "message", "sym_name", "producer"), (StringAttr,)),
    **dict.fromkeys(("permutation", "inbounds"), (DenseArrayBase,)),
    **dict.fromkeys(("flush_to_zero", "propagate_nan", "fast_acc", "saturating", "unsignedCmp", "global", "constant"),
                    (UnitAttr,)),
    "identities": (ArrayAttr,), "name": (SymbolRefAttr,), "value": (attrs.DenseElementsAttr,),
    "function_type": (FunctionType,), "predicate": attrs.ASSUME_PREDICATES,
    "optimization_hints": (attrs.OptimizationHintsAttr,), "symbol_visibility": (attrs.SymbolVisibilityAttr,),
}
"""What each attribute has to be, by its name: attributes of one name are of one kind in all ops."""

_NUMBERED = ("memory_ordering_semantics", "memory_scope", "mode")
"""Enumerations that the public dialect holds, and writes in generic form, as their numbers."""


def numbers_to_enums(properties: dict[str, Attribute]) -> None:
    """Replace the numbers of enumerations by their cases."""
    for name in _NUMBERED:
        value, cases = properties.get(name), _ENUMS[name].CASES
        if isinstance(value, IntegerAttr) and 0 <= value.value.data < len(cases):
            properties[name] = _ENUMS[name](cases[value.value.data])


_WORDS_BEFORE_SCOPE = "expect one of: tl_blk, device, sys"



class OpParser:
    """Reads one op whose name has been read."""

    def __init__(self, reader: TextReader, cls: type[CudaTileOp], start: int) -> None:
        self.reader = reader
        self.cls = cls
        self.start = start
        self.name = cls.name
        self.operands: dict[str, list[Value]] = {}
        self.types: dict[str, list[Attribute]] = {}
        self.type_starts: dict[str, int] = {}
        self.properties: dict[str, Attribute] = {}
        self.attributes: dict[str, Attribute] = {}
        self.regions: list[Region] = []
        self.operand_fields: dict[str, Field] = {f.name: f for f in cls.operand_fields}
        self.result_count: int | None = None
        self.arguments: tuple[tuple[Value, Attribute], ...] = ()
        self.inner: list[Value] = []
        self.mixed_items: dict[str, tuple[list[tuple[int | Value, int]], int]] = {}

    def parse(self) -> Operation:
        elements = format_of(self.name.removeprefix("cuda_tile."))
        if elements is None:
            elements = format_of("entry") or ()
        self.elements(elements)
        return self._build()

    def fail(self, message: str, position: int | None = None) -> ParseError:
        """A complaint as MLIR's custom parsers make it."""
        return self.reader.error(f"custom op '{self.name}' {message}", position)

    # The elements of a format.

    def elements(self, elements: Sequence[Element]) -> None:
        for element in elements:
            if element.kind == "word":
                self.reader.expect_token(element.arguments[0])
            elif element.kind == "group":
                if self._begins(element.group):
                    self.elements(element.group)
            else:
                _READERS[element.kind](self, *element.arguments)

    def _begins(self, group: Sequence[Element]) -> bool:
        """Whether an optional group comes next: its first element says."""
        first = group[0]
        reader = self.reader
        if first.kind == "word":
            word = first.arguments[0]
            if word == "," and len(group) > 1 and group[1].kind == "T":
                return self._is_given(group[1].arguments[0]) and reader.peek(",")
            if word == ":" and group[-1].kind == "T":
                return reader.peek(":")
            return reader.peek_keyword() == word if word[0].isalpha() else reader.peek(word)
        if first.kind == "$" and first.arguments[0] in self.operand_fields:
            return reader.peek("%")
        if first.kind == "%":
            enum = _ENUMS[first.arguments[0]]
            return reader.peek_keyword() in enum.CASES
        return False

    def _is_given(self, operand: str) -> bool:
        return bool(self.operands.get(operand))

    def field(self, name: str) -> None:
        f = self.operand_fields.get(name)
        if f is not None:
            self.operands[name] = self._operand_group(f)
        else:
            self._attribute_field(name)

    def _operand_group(self, f: Field) -> list[Value]:
        reader = self.reader
        if f.many == "*":
            first = reader.optional_value()
            values = [] if first is None else [first]
            while values and self._comma_before_value():
                values.append(reader.value())
            return values
        return [reader.value()]

    def _comma_before_value(self) -> bool:
        reader = self.reader
        before = reader.here()
        if reader.accept(","):
            if reader.peek("%"):
                return True
            reader.pos = before
        return False

    def _attribute_field(self, name: str) -> None:
        reader = self.reader
        if name in _ENUMS:
            reader.expect("<")
            start = reader.here()
            word = reader.keyword()
            self._enum(name, word, start)
            reader.expect(">")
        elif name in _INTEGERS:
            type_ = _INTEGERS[name]
            self.properties[name] = IntegerAttr(reader.integer32() if type_ is i32 else reader.integer(), type_)
        elif name == "reverse":
            word = reader.keyword()
            if word not in ("true", "false"):
                raise reader.error("expected 'true' or 'false'")
            self.properties[name] = IntegerAttr(int(word == "true"), i1)
        elif name == "permutation":
            reader.expect("[")
            self.properties[name] = DenseArrayBase.from_list(i32, reader.comma_separated(reader.integer32, "]"))
        elif name == "identities":
            self._identities()
        elif name in ("str", "message"):
            self._string(name)
        elif name == "sym_name":
            self.properties[name] = StringAttr(reader.symbol())
        elif name == "name":
            self.properties[name] = SymbolRefAttr(reader.symbol())
        else:
            self.properties[name] = UnitAttr()

    def _string(self, name: str) -> None:
        text = self.reader.optional_string()
        if text is None:
            self.reader.attribute()
            raise self.reader.error("invalid kind of attribute specified")
        self.properties[name] = StringAttr(text)

    def _identities(self) -> None:
        start = self.reader.here()
        value = self.reader.attribute()
        if not isinstance(value, ArrayAttr):
            raise self.reader.error("invalid kind of attribute specified", start)
        self.properties["identities"] = value

    def _enum(self, name: str, word: str, start: int) -> None:
        enum = _ENUMS[name]
        if word not in enum.CASES:
            raise self.reader.error(f"expected {enum.name.removeprefix('cuda_tile.')} to be one of: "
                                    f"{', '.join(enum.CASES)}", start)
        self.properties[name] = enum(word)

    def mnemonic(self, name: str) -> None:
        """A bare word of an enumeration."""
        enum, reader = _ENUMS[name], self.reader
        start = reader.here()
        word = reader.optional_keyword()
        if word in enum.CASES:
            self.properties[name] = enum(word)  # type: ignore[arg-type]
            return
        key = enum.name.removeprefix("cuda_tile.")
        if key in ("memory_ordering_semantics", "memory_scope", "atomic_rmw_mode"):
            raise self.fail(f"expected string or keyword containing one of the following enum values for attribute "
                            f"'{name}' [{', '.join(enum.CASES)}]", start)
        cases = ", ".join(f"'{case}'" for case in enum.CASES)
        error = self.fail(_SORTED_CASES.get(key, f"expected '{key}' to be one of: {{{cases}}}"), start)
        if word is None:
            error.also = (f"custom op '{self.name}' expected valid keyword",)
        raise error

    def type_group(self, name: str) -> None:
        reader = self.reader
        self.type_starts[name] = reader.here()
        many = self.operand_fields[name].many if name in self.operand_fields else self._result_many(name)
        if reader.peek("}"):  # read by the op's own parser, which says so
            raise self.fail("expected valid keyword", reader.here())
        found = [reader.type()]
        while many == "*" and reader.accept(","):
            found.append(reader.type())
        self.types[name] = found

    def _result_many(self, name: str) -> str:
        return next((f.many for f in self.cls.result_fields if f.name == name), "")

    def first_type(self, name: str) -> None:
        """One type for all results of an op whose operand says how many."""
        source = self.types["src"][0]
        type_ = self.reader.type()
        if isinstance(source, types.TileViewType) and "index_space" in self.name:
            count = source.index_rank
        elif isinstance(source, types.TensorViewType) and "tensor_shape" in self.name:
            count = source.rank
        else:
            what = "tile view" if "index_space" in self.name else "tensor_view"
            raise self.fail(f"expected {what}, got '{full_type_text(source)}'", self.type_starts["src"])
        self.types[name] = [type_] * count

    def rounding(self, name: str, default: str, modes: str) -> None:
        reader = self.reader
        if not reader.accept_word("rounding"):
            self.properties[name] = attrs.RoundingAttr(default)
            return
        reader.expect("<")
        word = reader.keyword()
        reader.expect(">")
        allowed = ", ".join(f"'{mode}'" for mode in ROUNDINGS["ieee" if modes == "ftof" else modes])
        if word not in attrs.RoundingAttr.CASES or (modes in _STRICT and word not in ROUNDINGS[modes]):
            got = f", got: '{word}'" if modes in _STRICT else ""
            raise self.fail(f"expected rounding mode to be one of: {allowed}{got}")
        self.properties[name] = attrs.RoundingAttr(word)

    def ordering(self, which: str) -> None:
        reader = self.reader
        start = reader.here()
        word = reader.optional_keyword() or ""
        cases = ", ".join(attrs.MemoryOrderingSemanticsAttr.CASES)
        if word not in attrs.MemoryOrderingSemanticsAttr.CASES:
            if which == "red":
                raise self.fail(f"invalid memory_ordering_semantics: '{word}'; expected one of: {cases}", start)
            raise self.fail("invalid memory_ordering_semantics attribute specification. Got "
                            f"\"{word}\" but expect one of: {cases}", start)
        self.properties["memory_ordering_semantics"] = attrs.MemoryOrderingSemanticsAttr(word)
        start = reader.here()
        scope = reader.optional_keyword()
        if scope is None:
            return
        if which == "view" and word == "weak":
            raise self.fail(f"operation specifies weak memory ordering semantics, but then provides \"{scope}\" scope, "
                            "expected no memory scope.", start)
        if scope not in attrs.MemoryScopeAttr.CASES:
            text = f"invalid memory_scope: '{scope}'; expected one of: tl_blk, device, sys" if which == "red" else \
                f"invalid memory_scope attribute specification. Got \"{scope}\" but {_WORDS_BEFORE_SCOPE}"
            raise self.fail(text, start)
        self.properties["memory_scope"] = attrs.MemoryScopeAttr(scope)

    def oilist(self, *names: str) -> None:
        while (word := self.reader.peek_keyword()) in names and word is not None:
            if word in self.properties:
                raise self.fail(f"`{word}` clause can appear at most once in the expansion of the oilist directive")
            self.reader.expect_word(word)
            self.properties[word] = UnitAttr()

    def predicate(self) -> None:
        reader = self.reader
        start = reader.here()
        if reader.peek("#"):
            value = reader.attribute()
            if not isinstance(value, attrs.ASSUME_PREDICATES):
                raise self.fail("expected assume predicate attribute", start)
            self.properties["predicate"] = value
            return
        word = reader.optional_keyword()
        if word is None:
            reader.attribute()
            raise self.fail("expected assume predicate attribute", start)
        if word not in ("div_by", "same_elements", "bounded"):
            raise self.fail(f"unknown assume predicate attribute: {word} (expected 'div_by', 'same_elements', or "
                            "'bounded')", start)
        self.properties["predicate"] = reader.predicate(word)

    def dense(self) -> None:
        try:
            constant = parse_constant(self.reader)
        except ParseError as error:
            raise ParseError(f"custom op '{self.name}' {error.message}", error.position, error.also) from None
        self.properties["value"] = constant
        if self.cls.result_fields:
            self.types["result"] = [constant.type]

    def visibility(self) -> None:
        word = self.reader.peek_keyword()
        if word in attrs.SymbolVisibilityAttr.CASES:
            self.reader.expect_word(word)  # type: ignore[arg-type]
        else:
            word = "public"
        self.properties["symbol_visibility"] = attrs.SymbolVisibilityAttr(word)  # type: ignore[arg-type]

    def hints(self, name: str) -> None:
        try:
            self.properties[name.lstrip("$")] = self.reader.hints()
        except ParseError as error:
            raise self.fail(error.message, error.position) from None

    def flags(self, name: str) -> None:
        self.reader.expect("[")
        flags = self.reader.comma_separated(self.reader.keyword, "]")
        if any(flag not in ("true", "false") for flag in flags):
            raise self.fail("expected 'true' or 'false'")
        self.properties[name.lstrip("$")] = DenseArrayBase.from_list(i1, [int(flag == "true") for flag in flags])

    def index_types(self) -> None:
        reader = self.reader
        count = len(self.operands["index"])
        found: list[Attribute] = []
        start = reader.here()
        while reader.accept(","):
            start = reader.here() if not found else start
            found.append(reader.type())
        if not found and count:
            raise self.fail("index types must be specified when indices are present")
        if len(found) == 1:
            found *= count
        if len(found) != count:
            raise self.fail(f"expected {count} index types, got {len(found)}", start)
        self.types["index"] = found

    def attr_dict(self) -> None:
        if self.reader.peek("{"):
            self._take_dictionary()

    def attributes_dict(self) -> None:
        if self.reader.accept_word("attributes"):
            self._take_dictionary()

    def _take_dictionary(self) -> None:
        inherent = {f.name for f in self.cls.attr_fields}
        start = self.reader.here()
        for name, value in self.reader.dictionary().items():
            (self.properties if name in inherent else self.attributes)[name] = value
        self.reader.check_properties(self.properties, start)

    # Views.

    def mixed(self, operands: str, extents: str) -> None:
        reader = self.reader
        start = reader.here()
        reader.expect("[")
        items = reader.comma_separated(self._extent_or_value, "]")
        self.operands[operands] = [item for item, _ in items if isinstance(item, tuple)]
        self.mixed_items[extents] = items, start

    def _extent_or_value(self) -> tuple[int | Value, int]:
        reader = self.reader
        start = reader.here()
        number = reader.optional_integer()
        if number is not None:
            return number, start
        value = reader.optional_value()
        if value is None:
            raise self.fail("expected either integer or SSA value", start)
        return value, start

    def view_index(self) -> None:
        reader = self.reader
        dynamic = [*self.operands["dynamicShape"], *self.operands["dynamicStrides"]]
        if dynamic:
            type_ = reader.type()
            reader.expect_token("->")
            for name in ("dynamicShape", "dynamicStrides"):
                self.types[name] = [type_] * len(self.operands[name])

    def _check_view(self, view: types.TensorViewType) -> None:
        for what, extents, values in (("shape", "shape", view.shape), ("stride", "strides", view.strides)):
            items, start = self.mixed_items[extents]
            if len(items) != len(values):
                raise self.fail(f"expected {what} declaration to contain {len(values)} elements due to tensor_view "
                                f"type, but {len(items)} were provided", start)
            for i, ((item, where), expected) in enumerate(zip(items, values)):
                given = item if isinstance(item, int) else None
                if given != expected:
                    texts = ["dynamic" if v is None else str(v) for v in (expected, given)]
                    raise self.fail(f"input {what} dimension {i} does not match tensor_view type (expected {texts[0]}, "
                                    f"got {texts[1]})", where)

    # Putting it together.

    def _build(self) -> Operation:
        self._infer_custom()
        if "paddingValue" in self.operand_fields:
            self._padding_without_mask()
        for f in self.cls.attr_fields:
            if f.name not in self.properties and f.name in _DEFAULTS and not f.many:
                self.properties[f.name] = _DEFAULTS[f.name]()
        for name in self.operand_fields:
            self.operands.setdefault(name, [])
        known = self._infer_types()
        operands = [self._resolved(f, known) for f in self.cls.operand_fields]
        results: list[Any] = []
        for f in self.cls.result_fields:
            found = known.get(f.name)
            if found is None:
                found = [] if f.many else [self._only_type(f.name)]
            results.append(found)
        while len(self.regions) < len(self.cls.region_fields):
            self.regions.append(Region())
        op = self.cls.make(operands, results, self.properties, self.regions)
        op.attributes.update(self.attributes)
        return op

    def _padding_without_mask(self) -> None:
        """A load's only extra operand is its mask by the format, its padding value if it isn't of booleans."""
        mask = self.types.get("mask", [None])[0]
        if "paddingValue" in self.operands or mask is None or mask != self.types["result"][0] or mask == i1:
            return
        for fields in (self.operands, self.types):
            fields["paddingValue"] = fields.pop("mask")  # type: ignore[assignment]

    def _infer_custom(self) -> None:
        result = self.types.get("result", [None])[0]
        short = self.name.removeprefix("cuda_tile.make_")
        if short == self.name or not self.operand_fields.keys() & {"tensor_view", "base"}:
            return
        expected = _MADE_VIEWS[short]
        if not isinstance(result, expected):
            raise self.fail(f"expected '{short}' type, but got '{full_type_text(result)}'",  # type: ignore[arg-type]
                            None if short == "tensor_view" else self.type_starts["result"])
        if isinstance(result, types.TensorViewType):
            self.types["base"] = [types.TileType((), types.PointerType(result.element_type, result.ptr_attr))]
            self._check_view(result)
        else:
            self.types["tensor_view"] = [result.tensor_view]  # type: ignore[union-attr]

    def _infer_types(self) -> dict[str, list[Attribute]]:
        known = dict(self.types)
        for group in equal_type_groups(self.cls):
            given = next((known[name] for name in group if name in known), None)
            if given is not None:
                for name in group:
                    known.setdefault(name, given)
        return known

    def _only_type(self, group: str) -> Attribute:
        """The type of a group that can have no other."""
        kind = kind_of_group(self.cls, group)
        type_ = _BUILDABLE.get(kind)
        if type_ is None:
            raise self.fail(f"type of '{group}' is unknown", self.start)
        return type_()

    def _resolved(self, f: Field, known: dict[str, list[Attribute]]) -> list[Any]:
        values = self.operands[f.name]
        found = known.get(f.name)
        if found is None:
            if not values:
                return []
            found = [self._only_type(f.name)] * len(values)
        if len(found) != len(values):
            raise self.fail(f"number of operands and types do not match: got {len(values)} operands and {len(found)} "
                            "types", self.start)
        return [self.reader.resolve(value, type_) for value, type_ in zip(values, found)]


_MADE_VIEWS: dict[str, type[Attribute]] = {
    "tensor_view": types.TensorViewType, "partition_view": types.PartitionViewType,
    "strided_view": types.StridedViewType, "gather_scatter_view": types.GatherScatterViewType,
}
_BUILDABLE: dict[str, Callable[[], Attribute]] = {
    "token": types.TokenType, "i1_0": lambda: types.TileType((), i1), "i32_0": lambda: types.TileType((), i32),
}

_READERS: dict[str, Callable[..., None]] = {
    "$": OpParser.field, "%": OpParser.mnemonic, "T": OpParser.type_group, "T1": OpParser.first_type,
    "rounding": OpParser.rounding, "ordering": OpParser.ordering, "oilist": OpParser.oilist,
    "predicate": OpParser.predicate, "dense": OpParser.dense, "visibility": OpParser.visibility,
    "hints": OpParser.hints, "flags": OpParser.flags, "index_types": OpParser.index_types, "mixed": OpParser.mixed,
    "view_index": OpParser.view_index, "attr-dict": OpParser.attr_dict, "attributes-dict": OpParser.attributes_dict,
    "body": asm_parse_flow.body, "args_body": asm_parse_flow.args_body, "for_head": asm_parse_flow.for_head,
    "loop_head": asm_parse_flow.loop_head, "signature": asm_parse_flow.signature, "entry_body": asm_parse_flow.entry_body,
    "module_body": asm_parse_flow.module_body,
}
