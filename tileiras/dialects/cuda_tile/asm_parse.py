"""Reading cuda_tile text: the public dialect's syntax, MLIR's generic form, locations and aliases.

    parse_module(text, "kernel.mlir")    one module, with its own `cuda_tile.module` or its contents alone
    parse_ops(text, ...)                 every op at the top level
    parse_ops(..., locations=False)      without locations where the text has none (else they say where an op stands)

Raises TextError, with the position in `loc`. Ops aren't verified.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc, FunctionType, IntAttr, StringAttr, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.base import OPERAND_SEGMENTS, RESULT_SEGMENTS, check_counts
from tileiras.dialects.cuda_tile import edition
from tileiras.dialects.cuda_tile.asm_attributes import AttributeScanner, ForwardLocation
from tileiras.dialects.cuda_tile.asm_parse_op import ATTRIBUTE_KINDS, OpParser, Value, numbers_to_enums
from tileiras.dialects.cuda_tile.asm_print import attribute_text
from tileiras.dialects.cuda_tile.asm_scan import ParseError
from tileiras.dialects.cuda_tile.asm_types import full_type_text
from tileiras.dialects.cuda_tile.op import CudaTileOp
from tileiras.dialects.cuda_tile.ops import OPS, Module
from tileiras.errors import BytecodeError

PREFIX = "cuda_tile."
MAX_REGION_DEPTH = 64

_CLASSES: dict[str, type[CudaTileOp]] = {op.name.removeprefix(PREFIX): op for op in OPS}
_CLASSES.update({spelling: _CLASSES[name] for name, (spelling, _) in edition.SPELLINGS.items()})


class TextError(BytecodeError):
    """Text that isn't a cuda_tile program; `line` counts from 1, `also` are further messages."""

    def __init__(self, message: str, file_name: str, line: int, column: int, also: tuple[str, ...] = ()) -> None:
        super().__init__(message, f'"{file_name}":{line}:{column}')
        self.line = line
        self.also = also


def parse_module(text: str, file_name: str = "-", locations: bool = True,
                 extra_ops: Mapping[str, type[CudaTileOp]] | None = None) -> Module:
    """The one module in a text; globals and entries without a module get one called `kernels`. Raises TextError."""
    ops = parse_ops(text, file_name, locations, extra_ops)
    if len(ops) == 1 and ops[0].name == "builtin.module":
        ops = [op.detach() or op for op in list(ops[0].regions[0].block.ops)]
    if len(ops) == 1 and isinstance(ops[0], Module):
        return ops[0]
    if any(isinstance(op, Module) for op in ops):
        raise TextError("expected one module", file_name, 1, 1)
    for op in ops:
        op.detach()
    return Module.create(properties={"sym_name": StringAttr("kernels")}, regions=[Region(Block(ops))])


def parse_ops(text: str, file_name: str = "-", locations: bool = True,
              extra_ops: Mapping[str, type[CudaTileOp]] | None = None) -> list[Operation]:
    """The ops at the top level. `extra_ops`: more ops, by their name without `cuda_tile.`. Raises TextError."""
    reader = TextReader(text, file_name, locations, extra_ops)
    try:
        return reader.top_level()
    except ParseError as error:
        raise TextError(error.message, file_name, *reader.line_and_column(error.position), error.also) from None


class _Scope:
    """The values visible in a region; `parent` is None where the op is isolated from above."""

    def __init__(self, parent: _Scope | None) -> None:
        self.parent = parent
        self.values: dict[str, tuple[SSAValue, ...]] = {}

    def find(self, name: str) -> tuple[SSAValue, ...] | None:
        scope: _Scope | None = self
        while scope is not None:
            found = scope.values.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None


class TextReader(AttributeScanner):
    """Reads one text; ops of the dialect go without their prefix inside a cuda_tile op."""

    def __init__(self, text: str, file_name: str, locations: bool,
                 extra_ops: Mapping[str, type[CudaTileOp]] | None = None) -> None:
        super().__init__(text)
        self.file_name = file_name
        self.locations = locations
        self.classes: Mapping[str, type[CudaTileOp]] = {**_CLASSES, **extra_ops} if extra_ops else _CLASSES
        self.scope = _Scope(None)
        self.region_depth = 0
        self._file = StringAttr(file_name)
        self._waiting: list[tuple[Operation, str, int]] = []

    def top_level(self) -> list[Operation]:
        block = Block()
        while not self.at_end():
            if not self._alias_definition():
                block.add_op(self.operation(False))
        self._resolve_locations()
        return list(block.ops)

    def _alias_definition(self) -> bool:
        start = self.here()
        for sigil in "#!":
            name = self.optional_alias(sigil)
            if name is not None:
                self.expect("=")
                if name in self.aliases:
                    raise self.error(f"redefinition of attribute alias id '{name}'", start)
                self.aliases[name] = self.attribute() if sigil == "#" else self.type()
                return True
        return False

    # Locations.

    def trailing_location(self, op: Operation, start: int) -> None:
        """The op's `loc(...)`, or where it stands in the text."""
        location = self.optional_location()
        if isinstance(location, ForwardLocation):
            self._waiting.append((op, location.alias, location.start))
        elif location is not None:
            op.location = location  # pyright: ignore[reportAttributeAccessIssue]
        else:
            self.stand_at(op, start)

    def stand_at(self, op: Operation, start: int) -> None:
        """Let the op's location be a position in the text."""
        if self.locations:
            line, column = self.line_and_column(start)
            op.location = FileLineColLoc(self._file, IntAttr(line), IntAttr(column))
        else:
            op.location = UnknownLoc()

    def _resolve_locations(self) -> None:
        for op, alias, start in self._waiting:
            location = self.aliases.get(alias)
            if location is None:
                raise self.error(f"operation location alias was never defined: '#{alias}'", start)
            op.location = location  # pyright: ignore[reportAttributeAccessIssue]

    # Ops.

    def operation(self, short: bool) -> Operation:
        """One op; `short`: inside an op of the dialect, where its prefix may be left out."""
        self.here()
        names = self._result_names()
        start = self.here()
        generic = self.optional_string()
        op = self._generic(generic, start) if generic is not None else self._custom(short, start)
        self.trailing_location(op, start)
        self._bind(op, names, start)
        return op

    def _result_names(self) -> list[tuple[str, int, int]]:
        """(name, how many, position) of what stands before `=`."""
        out: list[tuple[str, int, int]] = []
        if not self.peek("%"):
            return out
        while True:
            name, _, start = self.value()
            count = 1
            if self.accept(":"):
                count = self.optional_integer() or 0
                if count < 1:
                    raise self.error("expected named operation to have at least 1 result", start)
            out.append((name, count, start))
            if not self.accept(","):
                break
        self.expect("=")
        return out

    def _bind(self, op: Operation, names: list[tuple[str, int, int]], start: int) -> None:
        if not names:
            return
        if not op.results:
            raise self.error("cannot name an operation with no results", names[0][2])
        total = sum(count for _, count, _ in names)
        if total != len(op.results):
            raise self.error(f"operation defines {len(op.results)} results but was provided {total} to bind",
                             names[0][2])
        first = 0
        for name, count, position in names:
            self.define(name, tuple(op.results[first:first + count]), position)
            first += count

    def define(self, name: str, values: tuple[SSAValue, ...], position: int) -> None:
        if self.scope.find(name) is not None:
            raise self.error(f"redefinition of SSA value '{name}'", position)
        self.scope.values[name] = values

    def resolve(self, value: Value, type_: Attribute) -> SSAValue:
        """The value of a name, which must have that type."""
        found = self._find(value)
        if found.type != type_:
            raise self.error(f"use of value '{_shown(value)}' expects different type than prior uses: "
                             f"'{full_type_text(type_)}' vs '{full_type_text(found.type)}'", value[2])
        return found

    def _find(self, value: Value) -> SSAValue:
        found = self.scope.find(value[0])
        if found is None:
            raise self.error(f"use of undeclared SSA value name '{value[0]}'", value[2])
        if value[1] >= len(found):
            raise self.error("reference to invalid result number", value[2])
        return found[value[1]]

    def _custom(self, short: bool, start: int) -> Operation:
        word = self.optional_keyword()
        if word is None:
            raise self.error("expected operation name in quotes", start)
        name = word.removeprefix(PREFIX)
        if word in ("module", "builtin.module") and not short:
            return self._builtin_module()
        cls = self.classes.get(name) if word.startswith(PREFIX) or short or self._is_contents(name) else None
        if cls is None:
            raise self.error(f"custom op '{word}' is unknown", start)
        return OpParser(self, cls, start).parse()

    @staticmethod
    def _is_contents(name: str) -> bool:
        """Entries and globals may stand without a module around them, as the disassembler prints them."""
        return name in ("entry", "global")

    def _builtin_module(self) -> Operation:
        from xdsl.dialects.builtin import ModuleOp

        self.optional_symbol()
        if self.accept_word("attributes"):
            self.dictionary()
        return ModuleOp(self.region((), isolated=True, short=False))

    def _generic(self, name: str, start: int) -> Operation:
        """MLIR's generic form, behind the quoted name."""
        self.expect("(")
        operands = self.comma_separated(self.value, ")")
        properties: dict[str, Attribute] = {}
        if self.accept("<"):
            properties = self.dictionary()
            self.expect(">")
        regions = []
        if self.accept("("):
            cls = self.classes.get(name.removeprefix(PREFIX))
            if name == "builtin.module":
                return self._generic_module()
            isolated = cls is not None and any("Isolated" in type(t).__name__ for t in cls.traits)
            regions = self.comma_separated(lambda: self.region(None, isolated, name.startswith(PREFIX)), ")")
        attributes = self.dictionary() if self.peek("{") else {}
        self.expect(":")
        type_start = self.here()
        type_ = self.type()
        if not isinstance(type_, FunctionType):
            raise self.error("expected function type", type_start)
        inputs, outputs = type_.inputs.data, type_.outputs.data
        if len(inputs) != len(operands):
            raise self.error(f"expected {len(operands)} operand types but had {len(inputs)}", type_start)
        values = [self.resolve(value, t) for value, t in zip(operands, inputs)]
        cls = self.classes.get(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None
        if cls is None:
            return self._unregistered(name, values, outputs, attributes | properties, regions)
        inherent = {f.name for f in cls.attr_fields} | {OPERAND_SEGMENTS, RESULT_SEGMENTS}
        for key in list(attributes):
            if key in inherent:
                properties[key] = attributes.pop(key)
        numbers_to_enums(properties)
        if cls is Module and regions and not regions[0].blocks:
            regions[0].add_block(Block())
        op = cls.create(operands=values, result_types=outputs, properties=properties, attributes=attributes,
                        regions=regions)
        self._check_structure(op, start)
        return op

    def _check_structure(self, op: CudaTileOp, start: int) -> None:
        """Refuse an op in generic form that lacks what its declaration promises."""
        try:
            check_counts(op)
        except VerifyException as error:
            raise self.error(str(error), start) from None
        self.check_properties(op.properties, start)

    def check_properties(self, properties: Mapping[str, Attribute], start: int) -> None:
        """Refuse attributes of the wrong kind."""
        for name, attribute in properties.items():
            kinds = ATTRIBUTE_KINDS.get(name)
            if kinds is not None and not isinstance(attribute, kinds):
                raise self.error(f"invalid attribute `{name}` in property conversion: {attribute_text(attribute)}", start)

    def _generic_module(self) -> Operation:
        from xdsl.dialects.builtin import ModuleOp

        region = self.region((), isolated=True, short=False)
        for text in (")", ":", "(", ")", "->", "(", ")"):
            self.expect(text)
        return ModuleOp(region)

    @staticmethod
    def _unregistered(name: str, operands: list[SSAValue], results: Any, attributes: dict[str, Attribute],
                      regions: list[Region]) -> Operation:
        from xdsl.dialects.builtin import UnregisteredOp

        return UnregisteredOp.with_name(name).create(operands=operands, result_types=results, attributes=attributes,
                                                     regions=regions)

    # Regions.

    def region(self, arguments: tuple[tuple[Value, Attribute], ...] | None, isolated: bool, short: bool = True,
               may_be_empty: bool = False) -> Region:
        """`{ ops }` with one block, whose arguments are given, or None: a `^bb0(...)` may say them."""
        self.expect("{")
        self.region_depth += 1
        if self.region_depth > MAX_REGION_DEPTH:
            raise self.error(f"regions nest deeper than {MAX_REGION_DEPTH}")
        outer = self.scope
        self.scope = _Scope(None if isolated else outer)
        region = Region()
        if not ((arguments is None or (may_be_empty and not arguments)) and self.peek("}")):
            if arguments is None:
                arguments = self._block_label()
            block = Block(arg_types=[type_ for _, type_ in arguments])
            region.add_block(block)
            for (value, _), argument in zip(arguments, block.args):
                self.define(value[0], (argument,), value[2])
            while not self.peek("}"):
                if self.at_end():
                    raise self.error("expected '}'")
                if self.peek("^"):
                    raise self.error("expected a region with one block")
                block.add_op(self.operation(short))
        self.expect("}")
        self.scope = outer
        self.region_depth -= 1
        return region

    def _block_label(self) -> tuple[tuple[Value, Attribute], ...]:
        if not self.accept("^"):
            return ()
        self.keyword()
        arguments = []
        if self.accept("("):
            arguments = self.comma_separated(self._argument, ")")
        self.expect(":")
        return tuple(arguments)

    def _argument(self) -> tuple[Value, Attribute]:
        value = self.value()
        self.expect(":")
        type_ = self.type()
        self.optional_location()
        return value, type_


def _shown(value: Value) -> str:
    return value[0]
