"""How a cuda_tile module is written as text: what the reference disassembler prints, and what the parser reads.

    print_module(module)       `cuda_tile.module @kernels { entry @k(...) { ... } }`
    print_contents(module)     globals and entries alone, as `tileirdisasm` shows them

Walks the ops once; each op's format comes from `asm_format`.
"""
from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    Float64Type,
    FloatAttr,
    FunctionType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.dialects.cuda_tile import edition
from tileiras.dialects.cuda_tile.asm_format import Element, format_of
from tileiras.dialects.cuda_tile.asm_names import NameTable, is_unwritten
from tileiras.dialects.cuda_tile.asm_types import PREFIX, bare_type_text, full_type_text, type_text
from tileiras.dialects.cuda_tile.asm_values import dense_text, float_text, quoted
from tileiras.dialects.cuda_tile.attrs import (
    ASSUME_PREDICATES,
    BoundedAttr,
    DenseElementsAttr,
    DivByAttr,
    EnumAttr,
    OptimizationHintsAttr,
    SameElementsAttr,
)
from tileiras.dialects.cuda_tile.op import CudaTileOp
from tileiras.dialects.cuda_tile.ops import Entry

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
_UNWRITTEN_IF: dict[str, str | int] = {"overflow": "none", "rounding": "zero", "alignment": 0}
"""Attributes in `{ word _ $x }?` that go unwritten when they have their default."""


def print_module(module: Operation, locations: bool = False) -> str:
    """The module, or any cuda_tile op, as text that ends in a newline."""
    printer = TextPrinter(module, locations)
    return "".join([printer.op_text(module, 0, False), "\n", printer.aliases()])


def print_contents(module: Operation, locations: bool = False) -> str:
    """What is inside the module, each op on its own line(s)."""
    printer = TextPrinter(module, locations)
    lines = [printer.op_text(op, 0, True) + "\n" for op in module.regions[0].block.ops]
    return "".join([*lines, printer.aliases()])


class TextPrinter:
    """Prints ops under one root; the root's values are named once."""

    def __init__(self, root: Operation, locations: bool = False) -> None:
        self.name_table = NameTable(root)
        self.names = self.name_table.names
        self.locations: Any = None
        if locations:
            from tileiras.dialects.cuda_tile.asm_locations import LocationAliases
            self.locations = LocationAliases(root)

    def aliases(self) -> str:
        """The definitions of the location aliases used, behind the text."""
        return self.locations.definitions() if self.locations is not None else ""

    def op_text(self, op: Operation, indent: int, short: bool) -> str:
        """An op without its own indentation; `short` leaves `cuda_tile.` out."""
        elements = format_of("entry" if isinstance(op, Entry) else op.name.removeprefix(PREFIX)) \
            if isinstance(op, CudaTileOp) else None
        if elements is None:
            return self._foreign(op)
        name = edition.spelling(op.name.removeprefix(PREFIX))
        out = [self._results(op), name if short else PREFIX + name]
        self._elements(elements, op, indent, out)
        if self.locations is not None:
            out.append(self.locations.suffix(op))
        return "".join(out)

    def operand(self, value: SSAValue) -> str:
        return self.name_table.of(value)

    def operands(self, values: Iterable[SSAValue]) -> str:
        return ", ".join(map(self.operand, values))

    def _results(self, op: Operation) -> str:
        groups = self.name_table.groups.get(op)
        if groups is None:
            return ""
        return ", ".join(name if count == 1 else f"{name}:{count}" for name, count in groups) + " = "

    def _elements(self, elements: tuple[Element, ...], op: Any, indent: int, out: list[str]) -> None:
        for element in elements:
            if element.kind == "word":
                out.append(" " + element.arguments[0] if element.space else element.arguments[0])
            elif element.kind == "group":
                if _is_present(element.group, op):
                    self._elements(element.group, op, indent, out)
            else:
                text = _DIRECTIVES[element.kind](self, op, indent, *element.arguments)
                if text:
                    out.append(" " + text if element.space and element.kind not in _OWN_SPACE else text)
                elif element.space and element.kind in _SPACE_ANYWAY:
                    out.append(" ")

    def region(self, region: Region, indent: int, print_terminator: bool = True) -> str:
        """`{`, the ops of the region's first block, and `}` at `indent`."""
        out = ["{\n"]
        for block in region.blocks:
            last = block.last_op
            for op in block.ops:
                if op is last and not print_terminator:
                    break
                out += (" " * (indent + 2), self.op_text(op, indent + 2, True), "\n")
        out += (" " * indent, "}")
        return "".join(out)

    def body(self, op: Operation, region: Region, indent: int) -> str:
        """A region of control flow: its terminator goes unwritten if it has no operands and is the usual one."""
        last = region.block.last_op
        return self.region(region, indent, last is None or not is_unwritten(last))

    def arguments(self, block: Block) -> str:
        return ", ".join(f"{self.operand(a)}: {type_text(a.type)}" for a in block.args)

    def _foreign(self, op: Operation) -> str:
        if op.name == "builtin.module":
            inner = "".join(f"  {self.op_text(part, 2, False)}\n" for part in op.regions[0].block.ops)
            return f"module {{\n{inner}}}"
        from io import StringIO

        from xdsl.printer import Printer

        stream = StringIO()
        Printer(stream, print_generic_format=True).print_op(op)
        return stream.getvalue()


def attribute_text(attribute: Attribute, typed: bool = True) -> str:
    """A builtin or dialect attribute as it stands in text."""
    if isinstance(attribute, IntegerAttr):
        type_ = attribute.type
        if isinstance(type_, IntegerType) and type_.width.data == 1:
            return "true" if attribute.value.data else "false"
        suffix = "" if not typed or (isinstance(type_, IntegerType) and type_.width.data == 64) else f" : {bare_type_text(type_)}"
        return f"{attribute.value.data}{suffix}"
    if isinstance(attribute, FloatAttr):
        text = float_text(attribute.type, float_bits(attribute))
        if not typed or (isinstance(attribute.type, Float64Type) and not text.startswith("0x")):
            return text
        return f"{text} : {bare_type_text(attribute.type)}"
    if isinstance(attribute, ArrayAttr):
        return f"[{', '.join(map(attribute_text, attribute.data))}]"
    if isinstance(attribute, DictionaryAttr):
        return f"{{{dictionary_text(attribute.data.items())}}}"
    if isinstance(attribute, StringAttr):
        return quoted(attribute.data)
    if isinstance(attribute, SymbolRefAttr):
        return symbol_text(attribute.root_reference.data)
    if isinstance(attribute, UnitAttr):
        return "unit"
    if isinstance(attribute, DenseArrayBase):
        return f"[{', '.join(map(_flag_text if _is_flags(attribute) else str, attribute.get_values()))}]"
    if isinstance(attribute, OptimizationHintsAttr):
        return "#cuda_tile.optimization_hints" + hints_text(attribute)
    if isinstance(attribute, EnumAttr):
        return f"#{attribute.name}<{attribute.value}>"
    if isinstance(attribute, DenseElementsAttr):
        return f"dense<{dense_text(attribute)}> : {full_type_text(attribute.type)}"
    if isinstance(attribute, ASSUME_PREDICATES):
        return f"#{PREFIX}{predicate_text(attribute)}"
    return str(attribute)


def _is_flags(attribute: DenseArrayBase) -> bool:
    return isinstance(attribute.elt_type, IntegerType) and attribute.elt_type.width.data == 1


def _flag_text(value: float) -> str:
    return "true" if value else "false"


def float_bits(attribute: FloatAttr) -> int:
    """The bit pattern of a float attribute."""
    from tileiras.dialects.cuda_tile.asm_numbers import bits_of_float

    return bits_of_float(attribute.type, attribute.value.data)


def dictionary_text(items: Iterable[tuple[str, Attribute]]) -> str:
    return ", ".join(name if isinstance(value, UnitAttr) else f"{name} = {attribute_text(value)}"
                     for name, value in items)


def symbol_text(name: str) -> str:
    return "@" + (name if _IDENTIFIER.fullmatch(name) else quoted(name))


def hints_text(hints: OptimizationHintsAttr) -> str:
    """`<sm_90 = {occupancy = 2}>`, integers without their type, keys in order."""
    def entry(key: str, value: Attribute) -> str:
        inner = sorted(value.data.items()) if isinstance(value, DictionaryAttr) else ()
        return f"{key} = {{{', '.join(f'{name} = {attribute_text(v, False)}' for name, v in inner)}}}"

    return f"<{', '.join(entry(key, value) for key, value in sorted(hints.value.data.items()))}>"


def predicate_text(predicate: Attribute) -> str:
    """`div_by<16>`, `same_elements<[1, 4]>`, `bounded<0, ?>`."""
    if isinstance(predicate, DivByAttr):
        groups = "" if predicate.every is None else f", every {predicate.every} along {predicate.along}"
        return f"div_by<{predicate.divisor}{groups}>"
    if isinstance(predicate, SameElementsAttr):
        return f"same_elements<[{', '.join(map(str, predicate.values))}]>"
    if isinstance(predicate, BoundedAttr):
        lb, ub = ("?" if bound is None else bound for bound in predicate.data)
        return f"bounded<{lb}, {ub}>"
    return attribute_text(predicate)


def constant_text(constant: DenseElementsAttr) -> str:
    """`<i32: 1> : tile<i32>`."""
    return f"<{type_text(constant.type.element_type)}: {dense_text(constant)}> : {type_text(constant.type)}"


# The elements of a format.

def group_values(op: Any, name: str) -> tuple[SSAValue, ...]:
    """The values of an operand or result group, empty where absent."""
    if name == "operands":
        return tuple(op.operands)
    if name == "results":
        return tuple(op.results)
    value = getattr(op, name + "_" if name in ("from", "global") else name)
    return value if isinstance(value, tuple) else () if value is None else (value,)


@cache
def is_operand(op: type[CudaTileOp], name: str) -> bool:
    return any(f.name == name for f in op.operand_fields)


def _is_present(group: tuple[Element, ...], op: Any) -> bool:
    """Whether an optional group is written: by its first field."""
    for element in group:
        if element.kind in ("$", "%", "T", "hints", "flags", "body"):
            name = element.arguments[0].lstrip("$")
            if element.kind == "body":
                return bool(getattr(op, name).blocks)
            if element.kind == "T" or is_operand(type(op), name):
                return bool(group_values(op, name))
            attribute: Any = op.properties.get(name)
            if name in _UNWRITTEN_IF and attribute is not None and _plain(attribute) == _UNWRITTEN_IF[name]:
                return False
            if name == "optimization_hints" and isinstance(op, Entry):
                return attribute is not None and bool(attribute.value.data)
            if element.kind == "flags":
                return attribute is not None and any(attribute.get_values())
            return attribute is not None
    return False


def _plain(attribute: Any) -> Any:
    """An enumeration's mnemonic, an integer's value."""
    return attribute.value.data if isinstance(attribute, IntegerAttr) else attribute.value


def _field(printer: TextPrinter, op: Any, indent: int, name: str) -> str:
    if is_operand(type(op), name):
        return printer.operands(group_values(op, name))
    attribute = op.properties.get(name)
    if attribute is None or isinstance(attribute, UnitAttr):
        return ""
    if isinstance(attribute, EnumAttr):
        return f"<{attribute.value}>"
    if name == "sym_name":
        return symbol_text(attribute.data)
    return attribute_text(attribute, typed=False)


def _mnemonic(printer: TextPrinter, op: Any, indent: int, name: str) -> str:
    attribute = op.properties.get(name)
    return attribute.value if isinstance(attribute, EnumAttr) else ""


def _types(printer: TextPrinter, op: Any, indent: int, name: str) -> str:
    values = group_values(op, name)
    if not values and name == "result_token":  # of 13.1's print
        return "token"
    return ", ".join([type_text(value.type) for value in values])


def _first_type(printer: TextPrinter, op: Any, indent: int, name: str) -> str:
    values = group_values(op, name)
    return type_text(values[0].type) if values else ""


def _rounding(printer: TextPrinter, op: Any, indent: int, name: str, default: str, modes: str) -> str:
    attribute = op.properties.get(name)
    return "" if attribute is None or attribute.value == default else f"rounding<{attribute.value}>"


def _ordering(printer: TextPrinter, op: Any, indent: int, which: str) -> str:
    scope = op.properties.get("memory_scope")
    text = op.properties["memory_ordering_semantics"].value
    return text if scope is None else f"{text} {scope.value}"


def _oilist(printer: TextPrinter, op: Any, indent: int, *names: str) -> str:
    return "".join(f" {name}" for name in names if name in op.properties)


def _predicate(printer: TextPrinter, op: Any, indent: int) -> str:
    return predicate_text(op.properties["predicate"])


def _dense(printer: TextPrinter, op: Any, indent: int) -> str:
    value = op.properties["value"]
    return constant_text(value) if isinstance(value, DenseElementsAttr) else attribute_text(value)


def _visibility(printer: TextPrinter, op: Any, indent: int) -> str:
    visibility = op.properties.get("symbol_visibility")
    return "private " if visibility is not None and visibility.value == "private" else ""


def _hints(printer: TextPrinter, op: Any, indent: int, name: str) -> str:
    return hints_text(op.properties[name.lstrip("$")])


def _flags(printer: TextPrinter, op: Any, indent: int, name: str) -> str:
    return attribute_text(op.properties[name.lstrip("$")])


def _index_types(printer: TextPrinter, op: Any, indent: int) -> str:
    types = [type_text(value.type) for value in group_values(op, "index")]
    if len(set(types)) == 1:
        types = types[:1]
    return "".join(f", {text}" for text in types)


def _mixed(printer: TextPrinter, op: Any, indent: int, operands: str, extents: str) -> str:
    dynamic = iter(group_values(op, operands))
    return "[" + ", ".join(str(extent) if extent is not None else printer.operand(next(dynamic))
                           for extent in getattr(op.result.type, extents)) + "]"


def _view_index(printer: TextPrinter, op: Any, indent: int) -> str:
    dynamic = (*op.dynamicShape, *op.dynamicStrides)
    return f" {type_text(dynamic[0].type)} ->" if dynamic else ""


def _attr_dict(printer: TextPrinter, op: Any, indent: int) -> str:
    return f" {{{dictionary_text(op.attributes.items())}}}" if op.attributes else ""


_MODULE_ATTRIBUTES = ("producer",)


def _attributes_dict(printer: TextPrinter, op: Any, indent: int) -> str:
    items = {name: op.properties[name] for name in _MODULE_ATTRIBUTES if name in op.properties}
    items.update(op.attributes)
    return f" attributes {{{dictionary_text(items.items())}}}" if items else ""


def _body(printer: TextPrinter, op: Any, indent: int, name: str) -> str:
    return printer.body(op, getattr(op, name), indent)


def _args_body(printer: TextPrinter, op: Any, indent: int, name: str) -> str:
    region = getattr(op, name)
    return f" \n{' ' * indent}({printer.arguments(region.block)}) {printer.region(region, indent)}"


def _initial_values(printer: TextPrinter, op: Any, arguments: Iterable[SSAValue]) -> str:
    return ", ".join(f"{printer.operand(a)} = {printer.operand(v)}" for a, v in zip(arguments, op.initValues))


def _for_head(printer: TextPrinter, op: Any, indent: int) -> str:
    arguments = op.region.block.args
    lower, upper, step = (printer.operand(value) for value in (op.lowerBound, op.upperBound, op.step))
    unsigned = "unsigned " if op.unsignedCmp is not None else ""
    text = f"{unsigned}{printer.operand(arguments[0])} in ({lower} to {upper}, step {step}) : " \
           f"{type_text(arguments[0].type)}"
    if op.initValues:
        text += f" iter_values({_initial_values(printer, op, arguments[1:])}) -> " \
                f"({_types(printer, op, indent, 'initValues')})"
    return text


def _loop_head(printer: TextPrinter, op: Any, indent: int) -> str:
    results = _types(printer, op, indent, "resultValues")
    if not op.initValues:
        return f": {results}" if results else ""
    text = f"iter_values({_initial_values(printer, op, op.region.block.args)}) : " \
           f"{_types(printer, op, indent, 'initValues')}"
    return f"{text} -> {results}" if results else text


def _signature(printer: TextPrinter, op: Any, indent: int) -> str:
    text = f"{symbol_text(op.sym_name.data)}({printer.arguments(op.body.block)})"
    results = op.function_type.outputs.data if isinstance(op.function_type, FunctionType) else ()
    if results:
        types = ", ".join(map(type_text, results))
        text += f" -> {types}" if len(results) == 1 else f" -> ({types})"
    return text


def _whole_body(printer: TextPrinter, op: Any, indent: int) -> str:
    return printer.region(op.regions[0], indent)


_DIRECTIVES: dict[str, Callable[..., str]] = {
    "$": _field, "%": _mnemonic, "T": _types, "T1": _first_type, "rounding": _rounding, "ordering": _ordering,
    "oilist": _oilist, "predicate": _predicate, "dense": _dense, "visibility": _visibility, "hints": _hints,
    "flags": _flags, "index_types": _index_types, "mixed": _mixed, "view_index": _view_index, "attr-dict": _attr_dict,
    "attributes-dict": _attributes_dict, "body": _body, "args_body": _args_body, "for_head": _for_head,
    "loop_head": _loop_head, "signature": _signature, "entry_body": _whole_body, "module_body": _whole_body,
}
_OWN_SPACE = frozenset(("attr-dict", "attributes-dict", "index_types", "oilist", "args_body", "view_index"))
_SPACE_ANYWAY = frozenset(("rounding", "visibility"))
"""Directives before which a space stands even where they write nothing."""
