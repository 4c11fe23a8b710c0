"""Tile IR bytecode to a cuda_tile module.

Reading is a good part of a small kernel's compile time, so the inner loop decodes by flat plans (`plan`), keeps the
position in a local and fills xDSL's objects directly. Nothing is allocated by a count that the file claims before it
is known that so many items fit in the rest of it; attributes, types and scopes nest to bounded depths, regions as deep
as there is stack for them (`tileiras/nesting.py`). What is malformed raises BytecodeError and nothing else.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, FunctionType, StringAttr, i32
from xdsl.ir import Attribute, Block, OpResult, Region, SSAValue, SSAValues, Use

from tileiras.bytecode import container
from tileiras.bytecode.attributes import AttributeReader, enum_cases
from tileiras.bytecode.container import read_header, read_sections, read_table
from tileiras.bytecode.debug import UNKNOWN, DebugReader
from tileiras.bytecode.plan import COUNTED, UNIT, Plan, plans
from tileiras.bytecode.types import TypeReader
from tileiras.bytecode.version import V13_3, V13_5, Version
from tileiras.bytecode.wire import malformed, read_count, read_varint
from tileiras.dialects.base import OPERAND_SEGMENTS
from tileiras.dialects.cuda_tile.attrs import OptimizationHintsAttr
from tileiras.dialects.cuda_tile.debug import render_location
from tileiras.dialects.cuda_tile.ops import Entry, Global, Module
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.errors import BytecodeError
from tileiras.nesting import NestedTooDeeply, levels

MODULE_NAME = "kernels"

_PRIVATE, _KERNEL, _HAS_HINTS = 1, 2, 4
_EXTERNAL = _HAS_HINTS
"""What the bit means since 13.5."""


class BytecodeInfo:
    """What a file says besides the program: its version, and its tables in their order, for writing it back alike."""

    def __init__(self, version: Version, strings: list[bytes], types: TypeReader, constants: list[bytes],
                 debug: DebugReader) -> None:
        self.version = version
        self.strings = strings
        self.types = types
        self.constants = constants
        self.debug = debug


def read(data: bytes) -> Module:
    """The module that `data` holds, unverified. Raises BytecodeError (exit code 3)."""
    return ModuleReader(bytes(data)).module


def check_arguments(module: Module) -> None:
    """A kernel is launched with tiles: tokens and views aren't arguments. (Of which rank the tiles are says the verifier.)"""
    for entry in module.entries:
        for number, argument in enumerate(entry.body.block.args):
            if not isinstance(argument.type, TileType):
                from tileiras.dialects.cuda_tile.verify_error import shown
                raise BytecodeError(f"unsupported type in bytecode for entry argument #{number}: {shown(argument.type)}; "
                                    "expected a rank-0 !cuda_tile.tile type")


class ModuleReader:
    """Reads one file; `module` is the result."""

    def __init__(self, data: bytes) -> None:
        self.version = read_header(data)
        sections = read_sections(data)
        for required, name in ((container.STRING, "string"), (container.FUNCTION, "function")):
            if required not in sections:
                raise malformed(len(data), f"{name} section is mandatory")
        try:
            self._read(sections)
        except IndexError:
            raise malformed(len(data), "unexpected end of data") from None

    def _read(self, sections: dict[int, tuple[int, bytes]]) -> None:
        empty = (0, b"")
        strings = _table(sections[container.STRING][1], 4, "strings")
        self.types = TypeReader(sections.get(container.TYPE, empty)[1], self.version)
        constants = _table(sections.get(container.CONSTANT, empty)[1], 8, "constants")
        self.attributes = AttributeReader(strings, self.types, constants)
        self.debug = DebugReader(sections.get(container.DEBUG, empty)[1], self.attributes.string)
        self.plans = plans(self.version)
        self.segments: dict[tuple[int, ...], Attribute] = {}
        self.body_offset = 0
        self.levels = levels()

        self.block = Block()
        self._globals(*sections.get(container.GLOBAL, empty))
        properties: dict[str, Attribute] = {"sym_name": StringAttr(MODULE_NAME)}
        if container.PRODUCER in sections:
            index, _ = read_varint(sections[container.PRODUCER][1], 0)
            properties["producer"] = StringAttr(self.attributes.string(index))
        self._functions(*sections[container.FUNCTION])
        self.module: Module = Module.create(properties=properties, regions=[Region(self.block)])
        self.module.bytecode_info = BytecodeInfo(self.version, strings, self.types, constants, self.debug)

    def _globals(self, offset: int, data: bytes) -> None:
        if not data:
            return
        later = self.version >= V13_3
        count, pos = read_count(data, 0, 6 if later else 4, "globals")
        visibilities = enum_cases("visibility")
        for _ in range(count):
            name_index, pos = read_varint(data, pos)
            type_index, pos = read_varint(data, pos)
            constant_index, pos = read_varint(data, pos)
            alignment, value_end = self.attributes.read_i64(data, pos, None)
            pos = value_end
            visibility = constant = 0
            if later:
                visibility, pos = read_varint(data, pos)
                constant, pos = read_varint(data, pos)
            name = self.attributes.string(name_index)
            if not name:
                raise malformed(offset + pos, f"global symbol name at index {name_index} is empty")
            if visibility >= len(visibilities):
                raise malformed(offset + pos, f"invalid symbol visibility value: {visibility}")
            properties: dict[str, Attribute] = {
                "sym_name": StringAttr(name),
                "value": self.attributes.dense(self.types.get(type_index), constant_index),
                "alignment": alignment, "symbol_visibility": visibilities[visibility]}
            if constant:
                properties["constant"] = UNIT
            self.block.add_op(Global.create(properties=properties))

    def _functions(self, offset: int, data: bytes) -> None:
        count, pos = read_count(data, 0, 5, "functions")
        for _ in range(count):
            pos = self._function(offset, data, pos)

    def _function(self, offset: int, data: bytes, pos: int) -> int:
        name_index, pos = read_varint(data, pos)
        type_index, pos = read_varint(data, pos)
        flags = data[pos]
        debug_index, pos = read_varint(data, pos + 1)
        name = self.attributes.string(name_index)
        hints = None
        if self.version >= V13_5 and flags & _KERNEL and flags & _EXTERNAL:
            raise malformed(offset + pos, f"function '{name}' cannot be both kernel and external")
        always = self.version >= V13_5      # from then on hints stand in every kernel, and attributes of arguments behind
        if flags & _KERNEL and (always or flags & _HAS_HINTS):
            hints, pos = self.attributes.read_tagged(data, pos)
            if not isinstance(hints, OptimizationHintsAttr):
                raise malformed(offset + pos, f"invalid optimization hints attribute for function '{name}'")
            if always and not hints.value.data:
                hints = None
        if always:
            given, pos = self.attributes.read_tagged(data, pos)
            if not isinstance(given, ArrayAttr) or any(not isinstance(a, DictionaryAttr) or a.data for a in given):
                raise malformed(offset + pos, f"attributes of arguments of function '{name}' are not supported")
        length, pos = read_varint(data, pos)
        if length > len(data) - pos:
            raise malformed(offset + pos, f"function body length {length} exceeds remaining bytecode data "
                                          f"({len(data) - pos} bytes)")
        if not name:
            raise malformed(offset + pos, f"function name at index {name_index} is empty")
        signature = self.types.get(type_index)
        if not flags & _KERNEL:
            raise malformed(offset + pos, f"un-expected non-entry function '{name}'")
        if not isinstance(signature, FunctionType):
            raise malformed(offset + pos, f"function signature index {type_index} does not refer to a function type "
                                          f"for function '{name}', got type: {signature}")
        block = Block(arg_types=signature.inputs.data)
        self.body_offset = offset + pos
        location = self._open_locations(debug_index)
        try:
            self._body(data[pos:pos + length], block)
        except BytecodeError as error:
            raise type(error)(error.message, error.loc or self._place()) from None
        properties: dict[str, Attribute] = {"sym_name": StringAttr(name), "function_type": signature}
        if hints is not None:
            properties["optimization_hints"] = hints
        self.block.add_op(Entry.create(properties=properties, regions=[Region(block)], location=location))
        return pos + length

    def _place(self) -> str | None:
        """Where the source has the op that was being read, as far as the file says."""
        if self.next_location == 0:
            return None
        try:
            return render_location(self.debug.location(self.debug.indices[self.next_location - 1]))
        except (BytecodeError, IndexError):
            return None

    def _open_locations(self, debug_index: int) -> Any:
        """Set up the run of the function's locations (`next_location` is 0 where it has none) and return its own."""
        debug = self.debug
        start = debug.start_of(debug_index)
        self.next_location = 0
        if start is None:
            return UNKNOWN
        if start >= len(debug.indices):
            raise BytecodeError("failed to read operation location.")
        self.next_location = start + 1
        return debug.location(debug.indices[start])

    def _body(self, body: bytes, block: Block) -> None:
        values: list[SSAValue] = list(block.args)
        try:
            end = self._ops(body, 0, None, values, block, 0)
        except IndexError:
            raise malformed(self.body_offset + len(body), "unexpected end of data in a function's body") from None
        assert end == len(body)

    def _ops(self, data: bytes, pos: int, count: int | None, values: list[SSAValue], block: Block, depth: int) -> int:
        """Decode `count` ops (all until the end of `data` for None) into `block`; the position behind them."""
        get_plan = self.plans.__getitem__
        types, get_type = self.types.items, self.types.get
        attributes = self.attributes
        new = object.__new__
        size = len(data)
        known = self.next_location > 0
        indices, seen_locations, get_location = self.debug.indices, self.debug.locations, self.debug.location
        previous: Any = None
        remaining = count
        while pos < size if remaining is None else remaining > 0:
            start = pos
            opcode = data[pos]
            pos += 1
            if opcode > 127:
                opcode, pos = read_varint(data, start)
            plan: Plan | None = get_plan(opcode)
            if plan is None:
                raise malformed(self.body_offset + start,
                                f"unsupported opcode {opcode} for bytecode version {self.version}")
            (cls, n_results, least_results, most_results, known_flags, attr_steps, units, defaults, n_operands,
             least_operands, most_operands, groups, tail, n_regions) = plan
            if known:
                di = self.next_location
                if di >= len(indices):
                    raise malformed(self.body_offset + start, "failed to read operation location.")
                self.next_location = di + 1
                di = indices[di]
                location = (seen_locations[di] if di < len(seen_locations) else None) or get_location(di)
            else:
                location = UNKNOWN

            # Result types.
            if n_results == COUNTED:
                n_results = data[pos]
                pos += 1
                if n_results > 127:
                    n_results, pos = read_count(data, pos - 1, 1, "results")
                if not least_results <= n_results <= most_results:
                    raise malformed(self.body_offset + pos,
                                    f"'{cls.name}' op has an unexpected number of results: {n_results}")
            op: Any = new(cls)
            results = []
            for index in range(n_results):
                t = data[pos]
                pos += 1
                if t > 127:
                    t, pos = read_varint(data, pos - 1)
                result: Any = new(OpResult)
                result._type = (types[t] if t < len(types) else None) or get_type(t)
                result.op = op
                result.index = index
                results.append(result)

            # Flags and attributes.
            properties = dict(defaults)
            flags = 0
            if known_flags:
                flags = data[pos]
                pos += 1
                if flags > 127:
                    flags, pos = read_varint(data, pos - 1)
                if flags & ~known_flags:
                    raise malformed(self.body_offset + pos, "unused bits set in optional parameter flags")
                for name, mask in units:
                    if flags & mask:
                        properties[name] = UNIT
            for name, cases, read_attr, mask in attr_steps:
                if mask and not flags & mask:
                    continue
                if cases is not None:
                    number = data[pos]
                    pos += 1
                    if number >= len(cases):
                        raise malformed(self.body_offset + pos, f"invalid integer value for enum type: {number}")
                    properties[name] = cases[number]
                else:
                    properties[name], pos = read_attr(attributes, data, pos, results[0]._type if results else None)

            # Operands.
            operands: list[Any] = []
            if groups:
                sizes = []
                for many, mask in groups:
                    if many == "*":
                        n_operands, pos = read_count(data, pos, 1, "operands")
                    elif many == "?":
                        n_operands = 1 if flags & mask else 0
                    else:
                        n_operands = 0 if many else 1
                    sizes.append(n_operands)
                    for _ in range(n_operands):
                        v = data[pos]
                        pos += 1
                        if v > 127:
                            v, pos = read_varint(data, pos - 1)
                        if v >= len(values):
                            raise self._bad_operand(v, values, len(operands), pos)
                        operands.append(values[v])
                key = tuple(sizes)
                segments = self.segments.get(key)
                if segments is None:
                    segments = self.segments[key] = DenseArrayBase.from_list(i32, sizes)
                properties[OPERAND_SEGMENTS] = segments
            else:
                if n_operands == COUNTED:
                    n_operands, pos = read_count(data, pos, 1, "operands")
                    if not least_operands <= n_operands <= most_operands:
                        raise malformed(self.body_offset + pos,
                                        f"'{cls.name}' op has an unexpected number of operands: {n_operands}")
                for _ in range(n_operands):
                    v = data[pos]
                    pos += 1
                    if v > 127:
                        v, pos = read_varint(data, pos - 1)
                    if v >= len(values):
                        raise self._bad_operand(v, values, len(operands), pos)
                    operands.append(values[v])

            # The op itself, tied into the use lists and into the block.
            uses = []
            for index, value in enumerate(operands):
                first = value.first_use
                use = Use(op, index, None, first)
                if first is not None:
                    first._prev_use = use
                value.first_use = use
                uses.append(use)
            op._operands = SSAValues(operands)
            op._operand_uses = tuple(uses)
            op.results = SSAValues(results)
            op.properties = properties
            op.attributes = {}
            op.location = location
            op.parent = block
            if previous is None:
                block._first_op = op
            else:
                previous._next_op = op
                op._prev_op = previous
            block._last_op = previous = op

            if remaining is not None:
                remaining -= 1
            if tail:
                if n_regions:
                    pos = self._regions(data, pos, n_regions, values, op, depth + 1)
                elif remaining if remaining is not None else pos < size:
                    raise malformed(self.body_offset + pos, f"'{cls.name}' op must be the last operation in its block")
            values += results
        if previous is None or not type(previous).TERMINATOR:
            what = "it is empty" if previous is None else f"the last operation '{previous.name}' is not a terminator."
            raise malformed(self.body_offset + pos, "invalid block structure: block is expected to have a terminator "
                                                    f"operation, but {what}")
        return pos

    def _regions(self, data: bytes, pos: int, expected: int, values: list[SSAValue], op: Any, depth: int) -> int:
        if depth > self.levels:
            raise NestedTooDeeply(malformed(self.body_offset + pos, f"regions nest deeper than {self.levels}").message)
        count, pos = read_varint(data, pos)
        if count != expected:
            raise malformed(self.body_offset + pos, f"'{op.name}' op expected {expected} regions, but found {count}")
        regions = []
        for _ in range(count):
            blocks, pos = read_varint(data, pos)
            region = Region()
            regions.append(region)
            if blocks > 1:
                raise malformed(self.body_offset + pos,
                                f"region of '{op.name}' op has {blocks} blocks, expected at most 1")
            if blocks:
                n_args, pos = read_count(data, pos, 1, "block arguments")
                arg_types = []
                for _ in range(n_args):
                    index, pos = read_varint(data, pos)
                    arg_types.append(self.types.get(index))
                n_ops, pos = read_count(data, pos, 1, "operations in a block")
                block = Block(arg_types=arg_types)
                region.add_block(block)
                region.parent = op  # after its block: xDSL looks through all the ancestors of a region that gets one
                visible = len(values)
                values.extend(block.args)
                pos = self._ops(data, pos, n_ops, values, block, depth)
                del values[visible:]
            else:
                region.parent = op
        op.regions = tuple(regions)
        return pos

    def _bad_operand(self, index: int, values: list[SSAValue], operand: int, pos: int) -> BytecodeError:
        return malformed(self.body_offset + pos,
                         f"operand index {index} out of bounds (size={len(values)}) for operand {operand}")


def _table(payload: bytes, width: int, what: str) -> list[bytes]:
    return read_table(payload, width, what) if payload else []
