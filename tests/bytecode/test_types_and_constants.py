"""Types, constants, globals, hints and locations as the public frontend's encoder writes them."""
from __future__ import annotations

import math
import struct
from typing import Any, cast

import pytest
from xdsl.dialects.builtin import FloatAttr, FunctionType, IntegerType, bf16, f16, f32, f64, i1, i8, i32
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from tileiras.bytecode import read, write
from tileiras.bytecode.types import SIMPLE
from tileiras.bytecode.version import SUPPORTED_VERSIONS
from tileiras.dialects.cuda_tile import ops
from tileiras.dialects.cuda_tile.attrs import DenseElementsAttr, PaddingValueAttr
from tileiras.dialects.cuda_tile.debug import (
    CallSiteLocAttr,
    DILexicalBlockAttr,
    DILocAttr,
    DISubprogramAttr,
    render_location,
)
from tileiras.dialects.cuda_tile.dense import element_patterns, is_splat
from tileiras.dialects.cuda_tile.float_bits import float_from_bits, float_to_bits
from tileiras.dialects.cuda_tile.op import CudaTileOp
from tileiras.dialects.cuda_tile.types import (
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileType,
)
from tileiras.errors import BytecodeError

bc: Any = pytest.importorskip("cuda.tile._bytecode")

VERSIONS = [str(version) for version in SUPPORTED_VERSIONS]
DYNAMIC = None
SQUARE = TensorViewType(f32, (4, 4), (4, 1))


def version_of(text: str) -> Any:
    return bc.BytecodeVersion[f"V_{text.replace('.', '_')}"]


def signature(version: str, make_types: Any) -> tuple[Attribute, ...]:
    """The argument types of a function whose types `make_types(table)` gives, after a round trip."""
    buffer = bytearray()
    with bc.write_bytecode(1, buffer, version_of(version)) as writer:
        types = make_types(writer.type_table)
        with writer.function("k", types, [], True, {}, bc.MISSING_DEBUG_ATTR_ID) as (code, _):
            bc.encode_ReturnOp(code, ())
    module = read(bytes(buffer))
    assert write(module) == bytes(buffer)
    found = next(iter(module.entries)).function_type
    assert isinstance(found, FunctionType)
    return tuple(found.inputs)


@pytest.mark.parametrize("version", VERSIONS)
def test_element_types(version: str) -> None:
    numbers = {tag: type_ for tag, (type_, since) in SIMPLE.items() if str(since) <= version and tag != 17}
    theirs = [bc.SimpleType(bytes([tag]) if tag < 128 else b"\x82\x01") for tag in numbers]
    found = signature(version, lambda types: [types.tile(types.simple(t), (2,)) for t in theirs])
    assert found == tuple(TileType((2,), type_) for type_ in numbers.values())


def test_element_types_that_came_later_are_refused_before() -> None:
    with pytest.raises(BytecodeError, match=r"requires bytecode version 13\.\d\+, file version is 13\.1"):
        signature("13.1", lambda types: [types.tile(types.simple(bc.SimpleType.F8E8M0FNU), ())])


@pytest.mark.parametrize("padding", [None, *PaddingValueAttr.CASES])
@pytest.mark.parametrize("version", VERSIONS)
def test_views(version: str, padding: str | None) -> None:
    number = 0 if padding is None else 1 + PaddingValueAttr.CASES.index(padding)
    theirs = list(bc.PaddingValue)[number]
    ours = None if padding is None else PaddingValueAttr(padding)

    def make(types: Any) -> list[Any]:
        view = types.tensor_view(types.F32, (bc.DYNAMIC_SHAPE, 64), (bc.DYNAMIC_SHAPE, 1), bc.PtrAttr.Missing)
        made = [types.tile(types.pointer(types.I64, bc.PtrAttr.Missing), ()), view,
                types.partition_view((8, 16), view, (1, 0), theirs)]
        if version >= "13.3":
            made += [types.strided_view((8, 16), (4, 5), view, (0, 1), theirs),
                     types.gather_scatter_view((8, 16), view, 1, theirs)]
        return made

    view = TensorViewType(f32, (DYNAMIC, 64), (DYNAMIC, 1))
    expected = [TileType((), PointerType(IntegerType(64))), view, PartitionViewType((8, 16), view, (1, 0), ours),
                StridedViewType((8, 16), (4, 5), view, (0, 1), ours), GatherScatterViewType((8, 16), view, 1, ours)]
    found = signature(version, make)
    assert found == tuple(expected[:len(found)])


def test_pointer_attributes_since_13_4() -> None:
    def make(types: Any) -> list[Any]:
        return [types.tile(types.pointer(types.F32, bc.PtrAttr.Default), ()),
                types.tensor_view(types.F32, (4,), (1,), bc.PtrAttr.Default)]

    found = signature("13.4", make)
    assert found == (TileType((), PointerType(f32, "none")), TensorViewType(f32, (4,), (1,), "none"))
    assert str(found[0]) == "!cuda_tile.tile<ptr<f32, <none>>>"
    assert str(found[1]) == "!cuda_tile.tensor_view<4xf32, strides=[1], #cuda_tile.ptr_attr<none>>"


@pytest.mark.parametrize(("make", "message"), [
    (lambda: TileType((3,), f32), "all dimensions must be powers of two, got 3"),
    (lambda: TileType((4, 0), f32), "all dimensions must be positive constants, got 4, 0"),
    (lambda: TileType((1 << 13, 1 << 12), f32), "tile would exceed the maximum of 16777216 elements"),
    (lambda: TensorViewType(f32, (4, 4), (1,)), "of same rank but got shape of rank 2 and stride of rank 1"),
    (lambda: TensorViewType(f32, (0,), (1,)), "strictly positive constant sizes but got [0]"),
    (lambda: TensorViewType(f32, (None,), (-1,)), "strictly positive constant strides but got [-1]"),
    (lambda: PartitionViewType((4,), SQUARE), "got tensor_view of rank 2 and tiles of rank 1"),
    (lambda: PartitionViewType((4, 3), SQUARE), "power of two length but got [4, 3]"),
    (lambda: PartitionViewType((4, 4), SQUARE, (0, 0)), "dimension 0 mapped at least twice"),
    (lambda: PartitionViewType((4, 4), SQUARE, (0, 2)), "expected strictly less than 2, got 2"),
    (lambda: PartitionViewType((4,), TensorViewType(i32, (4,), (1,)), None, PaddingValueAttr("nan")),
     "padding_value nan can only be used with floating point element types, got i32"),
    (lambda: StridedViewType((4,), (0,), TensorViewType(f32, (4,), (1,))),
     "traversal strides must be strictly positive"),
    (lambda: GatherScatterViewType((4,), TensorViewType(f32, (4,), (1,)), 1), "gather dimension is outside"),
])
def test_types_check_themselves(make: Any, message: str) -> None:
    with pytest.raises(VerifyException) as caught:
        make()
    assert message in str(caught.value)


@pytest.mark.parametrize(("type_", "value", "bits"), [
    # Patterns by IEEE 754 and the OCP 8-bit formats.
    (f16, -2.0, 0xC000), (bf16, 1.5, 0x3FC0), (f32, -0.0, 0x80000000), (f64, math.inf, 0x7FF << 52),
    (f64, -math.inf, 0xFFF << 52), (SIMPLE[8][0], 1.0, 127 << 10), (SIMPLE[10][0], 448.0, 0x7E),
    (SIMPLE[11][0], 57344.0, 0x7B), (SIMPLE[18][0], 2.0, 128), (SIMPLE[19][0], 6.0, 0x7),
])
def test_float_patterns(type_: Any, value: float, bits: int) -> None:
    attr = float_from_bits(type_, bits)
    assert (attr.value.data, math.copysign(1.0, attr.value.data)) == (value, math.copysign(1.0, value))
    assert float_to_bits(attr) == bits
    assert float_to_bits(FloatAttr(value, type_)) == bits


@pytest.mark.parametrize(("type_", "raw", "patterns", "splat"), [
    (TileType((4,), f32), struct.pack("<f", 1.0), (0x3F800000,), True),
    (TileType((2,), f32), struct.pack("<ff", 1.0, -2.0), (0x3F800000, 0xC0000000), False),
    (TileType((), i32), struct.pack("<i", -1), (0xFFFFFFFF,), True),
    (TileType((8,), i8), bytes(range(8)), tuple(range(8)), False),
    (TileType((16,), i1), b"\xff", (1,), True),
    (TileType((16,), i1), b"\x05\x80", (1, 0, 1, *(0,) * 12, 1), False),
    (TileType((4,), i1), b"\x06", (0, 1, 1, 0), False),
    (TileType((), i1), b"\xff", (1,), True),
    (TileType((2,), SIMPLE[8][0]), bytes([0, 0xFC, 1, 0, 0, 2]), (127 << 10, 128 << 10), False),
])
def test_constants_are_taken_apart(type_: TileType, raw: bytes, patterns: tuple[int, ...], splat: bool) -> None:
    constant = DenseElementsAttr(type_, raw)
    assert element_patterns(constant) == patterns
    assert is_splat(constant) == splat


def constant_file(type_of: Any, raw: bytes) -> bytes:
    buffer = bytearray()
    with bc.write_bytecode(1, buffer, version_of("13.1")) as writer:
        type_ = type_of(writer.type_table)
        with writer.function("k", [], [], True, {}, bc.MISSING_DEBUG_ATTR_ID) as (code, _):
            bc.encode_ConstantOp(code, type_, raw)
            bc.encode_ReturnOp(code, ())
    return bytes(buffer)


@pytest.mark.parametrize("size", [0, 3, 5, 12, 17])
def test_constants_of_the_wrong_size_are_refused(size: int) -> None:
    with pytest.raises(BytecodeError, match="failed to validate buffer size and format"):
        read(constant_file(lambda types: types.tile(types.I32, (4,)), bytes(size)))


def test_constants_of_pointers_are_refused() -> None:
    with pytest.raises(BytecodeError, match="expect Cuda Tile integer or float type"):
        read(constant_file(lambda types: types.tile(types.pointer(types.I32, bc.PtrAttr.Missing), ()), bytes(8)))


@pytest.mark.parametrize("version", VERSIONS)
def test_globals(version: str) -> None:
    later = {"constant": True, "symbol_visibility": bc.SymbolVisibility.Private} if version >= "13.3" else {}
    buffer = bytearray()
    with bc.write_bytecode(0, buffer, version_of(version)) as writer:
        types = writer.type_table
        writer.global_section.define_global("lock", types.tile(types.I32, (1,)), bytes(4), 16, **later)
        writer.global_section.define_global("other", types.tile(types.F32, (2,)), bytes(range(8)))
    module = read(bytes(buffer))
    lock, other = module.globals
    assert (lock.sym_name.data, other.sym_name.data) == ("lock", "other")
    assert lock.alignment.value.data == 16
    assert other.value == DenseElementsAttr(TileType((2,), f32), bytes(range(8)))
    assert (lock.constant is not None, lock.symbol_visibility.value == "private") == (bool(later), bool(later))
    assert other.constant is None and other.symbol_visibility.value == "public"
    assert write(module) == bytes(buffer)
    if later:
        with pytest.raises(BytecodeError, match=r"requires bytecode 13\.3"):
            write(module, "13.2")


def test_an_empty_module_is_a_module() -> None:
    buffer = bytearray()
    with bc.write_bytecode(0, buffer, version_of("13.1")):
        pass
    module = read(bytes(buffer))
    assert list(module.entries) == []
    assert write(module) == bytes(buffer)


def test_hints_of_an_entry() -> None:
    hints = {"sm_90": bc.EntryHints(num_cta_in_cga=2, occupancy=3), "sm_100": bc.EntryHints(num_worker_warps_per_cta=8)}
    buffer = bytearray()
    with bc.write_bytecode(1, buffer, version_of("13.3")) as writer, \
            writer.function("k", [], [], True, hints, bc.MISSING_DEBUG_ATTR_ID) as (code, _):
        bc.encode_ReturnOp(code, ())
    module = read(bytes(buffer))
    found = next(iter(module.entries)).optimization_hints
    assert {key: value.value.data for key, value in found.for_target("sm_90").items()} == {
        "num_cta_in_cga": 2, "occupancy": 3}
    assert set(found.for_target("sm_100")) == {"num_worker_warps_per_cta"}
    assert not found.for_target("sm_80")
    assert write(module) == bytes(buffer)


def test_locations() -> None:
    buffer = bytearray()
    with bc.write_bytecode(1, buffer, version_of("13.1")) as writer:
        debug = writer.debug_attr_table
        file = debug.file("kernel.py", "/home/user")
        unit = debug.compile_unit(file)
        outer = debug.subprogram(file, 10, "outer", "outer_link", unit, 11)
        block = debug.lexical_block(outer, file, 12, 3)
        call = debug.loc(outer, "kernel.py", 14, 7)
        inner = debug.loc(block, "a \"b\".py", 20, 5)
        types = writer.type_table
        scalar = types.tile(types.I32, ())
        with writer.function("k", [scalar], [], True, {}, call) as (code, (x,)):
            with code.debug_attr(debug.call_site(inner, call)):
                bc.encode_AbsIOp(code, scalar, x)
            condition = bc.encode_CmpIOp(code, types.tile(types.I1, ()), x, x, bc.ComparisonPredicate.EQUAL,
                                         bc.Signedness.Signed)
            with code.debug_attr(call):
                branch = bc.encode_IfOp(code, (), condition)
                for _ in range(2):
                    with branch.new_block(()), code.debug_attr(inner):
                        bc.encode_YieldOp(code, ())
                branch.done()
            bc.encode_ReturnOp(code, ())
    module = read(bytes(buffer))
    entry = next(iter(module.entries))
    absolute, compare, branch, _ = (cast(CudaTileOp, op) for op in entry.entry_block.ops)
    assert entry.source_location == '"kernel.py":14:7'
    assert isinstance(absolute.location, CallSiteLocAttr)
    assert absolute.source_location == '"a \\"b\\".py":20:5'
    assert compare.source_location is None
    assert branch.source_location == '"kernel.py":14:7'
    assert [render_location(op.location) for op in branch.walk()][1:] == ['"a \\"b\\".py":20:5'] * 2
    scope = absolute.location.callee
    assert isinstance(scope, DILocAttr) and isinstance(scope.scope, DILexicalBlockAttr)
    subprogram = scope.scope.scope
    assert isinstance(subprogram, DISubprogramAttr)
    assert (subprogram.subprogram_name, subprogram.linkage_name, subprogram.line, subprogram.scope_line) == (
        "outer", "outer_link", 10, 11)
    assert (subprogram.file.file_name, subprogram.compile_unit.file.directory) == ("kernel.py", "/home/user")
    assert write(module) == bytes(buffer)
    assert [render_location(op.location) for op in read(write(module, keep_tables=False)).walk()] == [
        render_location(op.location) for op in module.walk()]


def test_the_producer_is_kept_since_13_3() -> None:
    from xdsl.dialects.builtin import StringAttr
    buffer = bytearray()
    with bc.write_bytecode(0, buffer, version_of("13.3")):
        pass
    module = read(bytes(buffer))
    assert module.producer_name is None
    module.properties["producer"] = StringAttr("a frontend")
    assert read(write(module)).producer_name == "a frontend"
    assert read(write(module, "13.2")).producer_name is None


def test_identities_of_every_element_type() -> None:
    kinds = [bc.SimpleType.F16, bc.SimpleType.BF16, bc.SimpleType.F32, bc.SimpleType.F64]
    buffer = bytearray()
    with bc.write_bytecode(1, buffer, version_of("13.1")) as writer:
        types = writer.type_table
        tiles = [types.tile(types.simple(kind), (4,)) for kind in kinds]
        with writer.function("k", tiles, [], True, {}, bc.MISSING_DEBUG_ATTR_ID) as (code, params):
            scalars = [types.tile(types.simple(kind), ()) for kind in kinds]
            reduce = bc.encode_ReduceOp(code, scalars, params, 0, [bc.Float(-0.25, kind, types) for kind in kinds])
            with reduce.new_block([scalar for scalar in scalars for _ in range(2)]) as args:
                bc.encode_YieldOp(code, args[::2])
            reduce.done()
            bc.encode_ReturnOp(code, ())
    reduction = next(op for op in read(bytes(buffer)).walk() if isinstance(op, ops.Reduce))
    assert list(reduction.identities.data) == [FloatAttr(-0.25, type_) for type_ in (f16, bf16, f32, f64)]
    assert len(reduction.body.block.args) == 8


def test_deep_call_sites() -> None:
    """A helper inlined into itself some hundred times over is an ordinary program."""
    buffer = bytearray()
    with bc.write_bytecode(1, buffer, version_of("13.1")) as writer:
        debug = writer.debug_attr_table
        file = debug.file("kernel.py", "/home/user")
        unit = debug.compile_unit(file)
        outer = debug.subprogram(file, 10, "outer", "outer_link", unit, 11)
        call = place = debug.loc(outer, "kernel.py", 14, 7)
        for _ in range(120):
            place = debug.call_site(call, place)
        types = writer.type_table
        scalar = types.tile(types.I32, ())
        with writer.function("k", [scalar], [], True, {}, call) as (code, (x,)):
            with code.debug_attr(place):
                bc.encode_AbsIOp(code, scalar, x)
            bc.encode_ReturnOp(code, ())
    absolute = next(iter(read(bytes(buffer)).entries)).entry_block.first_op
    assert cast(CudaTileOp, absolute).source_location == '"kernel.py":14:7'
