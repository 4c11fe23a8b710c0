"""A cuda_tile module to Tile IR bytecode.

Sections stand in the order in which the public frontend writes them, and tables in the order of first use; a module
that came from bytecode of the same version keeps the order of its file's tables. What the asked version can't say is
a BytecodeError.
"""
from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    FunctionType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tileiras.bytecode import attributes, container
from tileiras.bytecode.container import append_header, append_table, section
from tileiras.bytecode.optable import OpRow, WireAttr, rows_by_name
from tileiras.bytecode.tables import BytesTable, DebugTable, TypeTable
from tileiras.bytecode.version import (
    CURRENT_VERSION,
    DEVELOPMENT_VERSIONS,
    SUPPORTED_VERSIONS,
    V13_3,
    V13_5,
    Version,
    supported_range,
)
from tileiras.bytecode.wire import append_int_list, append_signed_varint, append_varint, pad_to
from tileiras.dialects.base import OPERAND_SEGMENTS
from tileiras.dialects.cuda_tile.attrs import (
    BoundedAttr,
    DenseElementsAttr,
    DivByAttr,
    EnumAttr,
    OptimizationHintsAttr,
    SameElementsAttr,
)
from tileiras.dialects.cuda_tile.debug import render_location
from tileiras.dialects.cuda_tile.dense import significant_bits
from tileiras.dialects.cuda_tile.float_bits import float_to_bits
from tileiras.dialects.cuda_tile.ops import Entry, Global, Module
from tileiras.dialects.cuda_tile.types import TileViewType
from tileiras.errors import BytecodeError

_KERNEL, _HAS_HINTS = 2, 4
_EMPTY_DEBUG_ITEM = b"\x00"
"""Stands in an otherwise empty table of debug attributes: public readers refuse a table without items."""


def write(module: Module, version: Version | str | None = None, keep_tables: bool = True) -> bytes:
    """The module's bytecode.

    `version` defaults to the one the module was read from, or else to the newest. With `keep_tables`, a module read
    from bytecode of that version keeps its file's order of strings, types, constants and debug attributes. Raises
    BytecodeError for an unknown version and for what the version can't hold.
    """
    info = module.bytecode_info
    if isinstance(version, str):
        try:
            version = Version.parse(version)
        except (ValueError, TypeError):
            raise BytecodeError(f"unsupported Tile version {version}, this writer supports versions "
                                f"{supported_range()}") from None
    target = version or (info.version if info else CURRENT_VERSION)
    if target not in SUPPORTED_VERSIONS and target not in DEVELOPMENT_VERSIONS:
        raise BytecodeError(f"unsupported Tile version {target}, this writer supports versions {supported_range()}")
    return ModuleWriter(target, info if keep_tables and info and info.version == target else None).write(module)


class ModuleWriter:
    """Writes one module; `original` is the file whose tables to start from."""

    def __init__(self, version: Version, original=None) -> None:
        self.version = version
        self.strings = BytesTable(original.strings if original else ())
        self.types = TypeTable(version, original.types if original else None)
        self.constants = BytesTable(original.constants if original else ())
        self.debug = DebugTable(self.strings, original.debug if original else None, version >= V13_5)
        self.debug_runs: list[list[int]] = []
        self.rows = rows_by_name()
        self._at: Attribute | None = None

    def write(self, module: Module) -> bytes:
        """The file's bytes. An error about an op carries the op's location."""
        self._at = module.location
        try:
            return self._module(module)
        except BytecodeError as error:
            raise BytecodeError(error.message, error.loc or render_location(self._at)) from error

    def _module(self, module: Module) -> bytes:
        out = bytearray()
        append_header(out, self.version)
        top = list(module.body.block.ops)
        functions = [op for op in top if isinstance(op, Entry)]
        global_ops = [op for op in top if isinstance(op, Global)]
        if any(inner.name not in self.rows for op in functions for inner in op.walk()):
            raise BytecodeError("'cuda_tile.module' op only ops from the 'cuda_tile' dialect are allowed")
        if len(functions) + len(global_ops) != len(top):
            raise BytecodeError("'cuda_tile.module' op only function and global ops are allowed in the body")
        with section(out, container.FUNCTION) as payload:
            append_varint(payload, len(functions))
            for function in functions:
                self._function(payload, function)
        if global_ops:
            with section(out, container.GLOBAL) as payload:
                append_varint(payload, len(global_ops))
                for op in global_ops:
                    self._global(payload, op)
        with section(out, container.CONSTANT) as payload:
            append_table(payload, self.constants.items, 8)
        with section(out, container.DEBUG) as payload:
            self._debug_section(payload)
        with section(out, container.TYPE) as payload:
            append_table(payload, self.types.items, 4)
        producer = module.properties.get("producer")
        if isinstance(producer, StringAttr) and self.version >= V13_3:
            with section(out, container.PRODUCER) as payload:
                append_varint(payload, self.strings.add_text(producer.data))
        with section(out, container.STRING) as payload:
            append_table(payload, self.strings.items, 4)
        out.append(container.END)
        return bytes(out)

    def _function(self, out: bytearray, op: Entry) -> None:
        self._at = op.location
        self.debug_runs.append([self.debug.add(op.location)])
        append_varint(out, self.strings.add_text(_text(op, "sym_name")))
        signature = op.properties.get("function_type")
        if not isinstance(signature, FunctionType):
            raise BytecodeError("'cuda_tile.entry' op requires attribute 'function_type'")
        append_varint(out, self.types.add(signature))
        hints = op.properties.get("optimization_hints")
        if self.version >= V13_5:       # hints and attributes of arguments always stand there
            out.append(_KERNEL)
            append_varint(out, len(self.debug_runs))
            self.tagged(out, OptimizationHintsAttr(DictionaryAttr({})) if hints is None else hints)
            self.tagged(out, ArrayAttr([]))
        else:
            out.append(_KERNEL | (0 if hints is None else _HAS_HINTS))
            append_varint(out, len(self.debug_runs))
            if hints is not None:
                self.tagged(out, hints)
        body = bytearray()
        block = op.body.block
        values = {arg: i for i, arg in enumerate(block.args)}
        self._ops(body, block, values)
        append_varint(out, len(body))
        out += body

    def _global(self, out: bytearray, op: Global) -> None:
        value = op.properties["value"]
        if not isinstance(value, DenseElementsAttr):
            raise BytecodeError("'cuda_tile.global' op requires a constant as attribute 'value'")
        name = _text(op, "sym_name")
        append_varint(out, self.strings.add_text(name))
        append_varint(out, self.types.add(value.type))
        append_varint(out, self.constants.add_constant(value.raw))
        append_varint(out, _int(op, "alignment"))
        visibility = op.properties.get("symbol_visibility")
        number = visibility.number if isinstance(visibility, EnumAttr) else 0
        constant = "constant" in op.properties
        if self.version >= V13_3:
            append_varint(out, number)
            append_varint(out, int(constant))
        elif number:
            raise BytecodeError(f"global `{name}` uses non-public symbol visibility, which cannot be encoded in "
                                f"bytecode version {self.version} (requires bytecode 13.3+)")
        elif constant:
            raise BytecodeError(f"constant global `{name}` cannot be encoded in bytecode version {self.version} "
                                "(the `constant` attribute requires bytecode 13.3+)")

    def _debug_section(self, out: bytearray) -> None:
        append_varint(out, len(self.debug_runs))
        pad_to(out, 4)
        offset = 0
        for run in self.debug_runs:
            out += struct.pack("<I", offset)
            offset += len(run)
        append_varint(out, offset)
        pad_to(out, 8)
        for run in self.debug_runs:
            out += struct.pack(f"<{len(run)}Q", *run)
        append_table(out, self.debug.items or [_EMPTY_DEBUG_ITEM], 4)

    def _ops(self, out: bytearray, block: Block, values: dict[SSAValue, int]) -> None:
        for op in block.ops:
            self._op(out, op, values)

    def _op(self, out: bytearray, op: Operation, values: dict[SSAValue, int]) -> None:
        self._at = op.location
        row = self.rows[op.name]
        if row.since > self.version:
            raise BytecodeError(f"operation '{op.name}' is not available in bytecode version {self.version}, it requires "
                                f"bytecode version {row.since}+")
        self.debug_runs[-1].append(self.debug.add(op.location))
        append_varint(out, row.opcode)
        self._result_types(out, row, op)
        if row.flags(self.version):
            append_varint(out, self._flags(row, op))
        for attr in row.attrs:
            self._attribute(out, attr, op)
        self._operands(out, row, op, values)
        if row.regions:
            append_varint(out, len(op.regions))
            for region in op.regions:
                append_varint(out, len(region.blocks))
                for block in region.blocks:
                    self._block(out, block, values)
        if all(f.since <= self.version for f in row.results):
            for result in op.results:
                values[result] = len(values)

    def _block(self, out: bytearray, block: Block, values: dict[SSAValue, int]) -> None:
        append_varint(out, len(block.args))
        inner = dict(values)
        for arg in block.args:
            append_varint(out, self.types.add(arg.type))
            inner[arg] = len(inner)
        append_varint(out, len(block.ops))
        self._ops(out, block, inner)

    def _result_types(self, out: bytearray, row: OpRow, op: Operation) -> None:
        if any(f.since > self.version for f in row.results) and op.results:
            if op.results[0].first_use is not None:
                raise BytecodeError(f"result '{row.results[0].name}' requires bytecode version {row.results[0].since} but "
                                    f"is being used and targeting {self.version}")
            append_varint(out, 0)
            return
        if row.counted_results:
            append_varint(out, len(op.results))
        for result in op.results:
            append_varint(out, self.types.add(result.type))

    def _flags(self, row: OpRow, op: Operation) -> int:
        flags = 0
        for attr in row.attrs:
            if attr.flag is not None and attr.since <= self.version and attr.name in op.properties:
                flags |= 1 << attr.flag
        if row.segmented:
            for operand, size in zip(row.operands, _segments(op)):
                if operand.flag is not None and size and operand.since <= self.version:
                    flags |= 1 << operand.flag
        return flags

    def _attribute(self, out: bytearray, attr: WireAttr, op: Operation) -> None:
        value = op.properties.get(attr.name)
        if attr.since > self.version:
            if not _is_default(attr, value):
                if attr.flag is not None:
                    raise BytecodeError(f"optional attribute '{attr.name}' is provided but requires bytecode version "
                                        f"{attr.since}, targeting {self.version}")
                raise BytecodeError(f"attribute '{attr.name}' requires bytecode version {attr.since}+, but targeting "
                                    f"{self.version}")
            return
        if attr.kind == "unit":
            return
        if value is None:
            if attr.flag is not None:
                return
            if attr.kind == "bools":
                append_int_list(out, _no_flags(op), 1)
                return
            if attr.default is None:
                raise BytecodeError(f"'{op.name}' op requires attribute '{attr.name}'")
            value = attributes.default_of(attr.kind, attr.default)
        self._kind(out, attr.kind, value, op)

    def _kind(self, out: bytearray, kind: str, value: Attribute, op: Operation) -> None:
        if isinstance(value, EnumAttr):
            out.append(value.number)
        elif isinstance(value, IntegerAttr):
            if kind == "bool":
                out.append(value.value.data & 1)
            else:
                append_varint(out, value.value.data & ((1 << _width(value)) - 1))
        elif isinstance(value, StringAttr):
            append_varint(out, self.strings.add_text(value.data))
        elif isinstance(value, SymbolRefAttr):
            append_varint(out, self.strings.add_text(value.root_reference.data))
        elif isinstance(value, DenseElementsAttr) and kind == "dense":
            append_varint(out, self.constants.add_constant(value.raw))
        elif isinstance(value, DenseArrayBase):
            if kind == "bools":
                append_int_list(out, (int(v != 0) for v in value.get_values()), 1)
            else:
                append_int_list(out, (int(v) for v in value.get_values()), 4)
        elif isinstance(value, ArrayAttr):
            self._array(out, value)
        elif isinstance(value, OptimizationHintsAttr) and kind == "hints":
            self._dictionary(out, value.value)
        elif kind == "assume":
            self.tagged(out, value)
        elif kind == "type":
            append_varint(out, self.types.add(value))
        else:
            raise BytecodeError(f"attribute {value} of '{op.name}' op has no place in bytecode")

    def _operands(self, out: bytearray, row: OpRow, op: Operation, values: dict[SSAValue, int]) -> None:
        operands = list(op.operands)
        if not row.segmented:
            if row.counted_operands:
                append_varint(out, len(operands))
            self._values(out, operands, values, op)
            return
        start = 0
        for group, size in zip(row.operands, _segments(op)):
            members = operands[start:start + size]
            start += size
            if group.since > self.version:
                if members:
                    raise BytecodeError(f"optional operand '{group.name}' is provided but requires bytecode version "
                                        f"{group.since}, targeting {self.version}")
                continue
            if group.many == "*":
                append_varint(out, size)
            self._values(out, members, values, op)

    def _values(self, out: bytearray, operands: Sequence[SSAValue], values: dict[SSAValue, int], op: Operation) -> None:
        for operand in operands:
            index = values.get(operand)
            if index is None:
                raise BytecodeError(f"operand of '{op.name}' op is not defined before it")
            append_varint(out, index)

    def _array(self, out: bytearray, value: ArrayAttr) -> None:
        append_varint(out, len(value.data))
        for item in value.data:
            self.tagged(out, item)

    def _dictionary(self, out: bytearray, value: DictionaryAttr) -> None:
        append_varint(out, len(value.data))
        for key, item in value.data.items():
            append_varint(out, self.strings.add_text(key))
            self.tagged(out, item)

    def tagged(self, out: bytearray, value: Attribute) -> None:
        """An attribute behind its tag."""
        for kind, tag, encode in _TAGGED:
            if isinstance(value, kind):
                if tag is not None:
                    out.append(tag)
                encode(self, out, value)
                return
        out.append(attributes.TYPE)
        append_varint(out, self.types.add(value))

    def _tagged_integer(self, out: bytearray, value: IntegerAttr) -> None:
        width = _width(value)
        if width == 1:
            out += bytes([attributes.BOOL, value.value.data & 1])
            return
        out.append(attributes.INTEGER)
        append_varint(out, self.types.add(value.type))
        append_varint(out, value.value.data & ((1 << width) - 1))

    def _tagged_float(self, out: bytearray, value: FloatAttr) -> None:
        append_varint(out, self.types.add(value.type))
        bits, width = float_to_bits(value), significant_bits(value.type)
        if width <= 8:
            out.append(bits)
        else:
            append_signed_varint(out, bits - (1 << 64) if bits >> 63 else bits)

    def _tagged_string(self, out: bytearray, value: StringAttr) -> None:
        append_varint(out, self.strings.add_text(value.data))

    def _tagged_dense(self, out: bytearray, value: DenseElementsAttr) -> None:
        append_varint(out, self.types.add(value.type))
        append_varint(out, self.constants.add_constant(value.raw))

    def _div_by(self, out: bytearray, value: DivByAttr) -> None:
        append_varint(out, value.divisor)
        _append_optional_pair(out, value.every, value.along)

    def _bounded(self, out: bytearray, value: BoundedAttr) -> None:
        _append_optional_pair(out, value.lb, value.ub)

    def _same_elements(self, out: bytearray, value: SameElementsAttr) -> None:
        append_int_list(out, value.values, 8)

    def _hints(self, out: bytearray, value: OptimizationHintsAttr) -> None:
        self._dictionary(out, value.value)


_TAGGED: tuple[tuple[type, int | None, Callable], ...] = (
    (IntegerAttr, None, ModuleWriter._tagged_integer),
    (FloatAttr, attributes.FLOAT, ModuleWriter._tagged_float),
    (StringAttr, attributes.STRING, ModuleWriter._tagged_string),
    (ArrayAttr, attributes.ARRAY, ModuleWriter._array),
    (DictionaryAttr, attributes.DICTIONARY, ModuleWriter._dictionary),
    (DenseElementsAttr, attributes.DENSE, ModuleWriter._tagged_dense),
    (DivByAttr, attributes.DIV_BY, ModuleWriter._div_by),
    (SameElementsAttr, attributes.SAME_ELEMENTS, ModuleWriter._same_elements),
    (OptimizationHintsAttr, attributes.OPTIMIZATION_HINTS, ModuleWriter._hints),
    (BoundedAttr, attributes.BOUNDED, ModuleWriter._bounded),
)
"""Attribute class, its tag (None: the encoder writes one), encoder. Anything else is a type."""


def _append_optional_pair(out: bytearray, first: int | None, second: int | None) -> None:
    out.append((first is not None) | (second is not None) << 1)
    for value in (first, second):
        if value is not None:
            append_signed_varint(out, value)


def _segments(op: Operation) -> tuple[int, ...]:
    sizes = op.properties.get(OPERAND_SEGMENTS)
    if not isinstance(sizes, DenseArrayBase):
        raise BytecodeError(f"'{op.name}' op requires attribute '{OPERAND_SEGMENTS}'")
    return tuple(int(size) for size in sizes.get_values())


def _text(op: Operation, name: str) -> str:
    value = op.properties.get(name)
    if not isinstance(value, StringAttr):
        raise BytecodeError(f"'{op.name}' op requires attribute '{name}'")
    return value.data


def _int(op: Operation, name: str) -> int:
    value = op.properties.get(name)
    return value.value.data if isinstance(value, IntegerAttr) else 0


def _width(value: IntegerAttr) -> int:
    return value.type.width.data if isinstance(value.type, IntegerType) else 64


def _is_default(attr: WireAttr, value: Attribute | None) -> bool:
    if value is None:
        return True
    if isinstance(value, DenseArrayBase):
        return not any(value.get_values())
    if isinstance(value, IntegerAttr):
        return str(value.value.data) == attr.default
    return isinstance(value, EnumAttr) and value.value == attr.default


def _no_flags(op: Operation) -> tuple[int, ...]:
    """`inbounds` where the module doesn't have it: no dimension of the view is known to be in bounds."""
    for operand in op.operands:
        if isinstance(operand.type, TileViewType):
            return (0,) * operand.type.index_rank
    return ()
