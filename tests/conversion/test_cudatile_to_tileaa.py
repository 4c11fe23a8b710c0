"""cuda_tile to nv_tileaa: every op has a lowering, every family lowers as documented, real kernels convert whole."""
from __future__ import annotations

import struct
from typing import Any

import pytest
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FileLineColLoc,
    FloatAttr,
    FunctionType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    bf16,
    f16,
    f32,
    i32,
    i64,
)
from xdsl.ir import Block, Region

from tileiras.conversion.cudatile_to_tileaa.converter import LOWERINGS
from tileiras.conversion.cudatile_to_tileaa.entry import run as convert
from tileiras.dialects.cuda_tile import attrs, ops, types
from tileiras.driver.options import CompileOptions
from tileiras.errors import CompileError
from tileiras.machine.targets import find_target

I1 = IntegerType(1)
SIGNED, UNSIGNED = attrs.SignednessAttr("signed"), attrs.SignednessAttr("unsigned")
NEAREST, WRAP = attrs.RoundingAttr("nearest_even"), attrs.OverflowAttr("none")
WEAK = attrs.MemoryOrderingSemanticsAttr("weak")


class Target:
    def __init__(self, name: str = "sm_90") -> None:
        self.name = name


class Context:
    def __init__(self, target: Target) -> None:
        self.target = target


def tile(*shape_and_element):
    *shape, element = shape_and_element
    return types.TileType(shape, element)


class Entry:
    """An entry under construction in a module; `e(cls, operands, types, attrs)` appends an op."""

    def __init__(self, *arg_types, name: str = "k", hints=None) -> None:
        self.block: Any = Block(arg_types=arg_types)
        self.args = self.block.args
        properties: dict[str, Any] = {"sym_name": StringAttr(name),
                                      "function_type": FunctionType.from_lists(arg_types, [])}
        if hints is not None:
            properties["optimization_hints"] = hints
        self.entry = ops.Entry.make((), (), properties, [Region(self.block)])
        self.body = Block([self.entry])

    def __call__(self, cls, operands=(), result_types=(), properties=None, regions=()):
        op = cls.make(operands, result_types, properties, regions)
        self.block.add_op(op)
        return op.results[0] if len(op.results) == 1 else op

    def constant(self, t, raw: bytes):
        return self(ops.Constant, (), [t], {"value": attrs.DenseElementsAttr(t, raw)})

    def convert(self, target: str = "sm_90") -> tuple[list[Any], Any]:
        """The ops of the converted function, and the function."""
        if self.block.last_op is None or not self.block.last_op.TERMINATOR:
            self(ops.Return, [[]])
        module = ops.Module.make((), (), {"sym_name": StringAttr("m")}, [Region(self.body)])
        result = convert(module, Context(Target(target)))
        result.verify()
        str(result)
        func = next(op for op in result.body.block.ops if op.name == "nv_tileaa.func")
        return list(func.regions[0].block.ops), func


def names(ops_) -> list[str]:
    return [op.name for op in ops_]


def text_of(op, attribute: str) -> str | None:
    found = op.properties.get(attribute)
    return None if found is None else found.data


def test_every_op_of_the_language_lowers():
    missing = {op.name for op in ops.OPS} - set(LOWERINGS) - {"cuda_tile.module"}
    assert not missing


def test_rank_0_tiles_are_scalars_and_pointers_keep_their_pointee():
    e = Entry(tile(f32), tile(types.PointerType(f16)), tile(4, 8, types.PointerType(i32)))
    _, func = e.convert()
    assert [str(a.type) for a in func.regions[0].block.args] == \
        ["f32", "!nv_tileaa.ptr<f16>", "tensor<4x8x!nv_tileaa.ptr<i32>>"]


@pytest.mark.parametrize(("cls", "properties", "name"), [
    (ops.DivI, {"signedness": SIGNED, "rounding": attrs.RoundingAttr("zero")}, "arith.divsi"),
    (ops.DivI, {"signedness": SIGNED, "rounding": attrs.RoundingAttr("negative_inf")}, "arith.floordivsi"),
    (ops.DivI, {"signedness": SIGNED, "rounding": attrs.RoundingAttr("positive_inf")}, "arith.ceildivsi"),
    (ops.DivI, {"signedness": UNSIGNED, "rounding": attrs.RoundingAttr("zero")}, "arith.divui"),
    (ops.DivI, {"signedness": UNSIGNED, "rounding": attrs.RoundingAttr("positive_inf")}, "arith.ceildivui"),
    (ops.RemI, {"signedness": SIGNED}, "arith.remsi"), (ops.RemI, {"signedness": UNSIGNED}, "arith.remui"),
    (ops.ShRI, {"signedness": SIGNED}, "arith.shrsi"), (ops.ShRI, {"signedness": UNSIGNED}, "arith.shrui"),
    (ops.MaxI, {"signedness": SIGNED}, "arith.maxsi"), (ops.MinI, {"signedness": UNSIGNED}, "arith.minui"),
    (ops.AddI, {"overflow": WRAP}, "arith.addi"), (ops.XOrI, {}, "arith.xori"), (ops.MulhiI, {}, "arith.mulhiui"),
])
def test_signedness_and_rounding_choose_the_op(cls, properties, name):
    e = Entry(tile(8, i32), tile(8, i32))
    e(cls, e.args, [tile(8, i32)], properties)
    body, _ = e.convert()
    assert names(body) == [name, "nv_tileaa.return"]
    assert list(body[0].operands) == list(body[0].parent.args)


def test_unsigned_division_that_rounds_down_is_refused_with_its_location():
    e = Entry(tile(i32), tile(i32))
    e(ops.DivI, e.args, [tile(i32)], {"signedness": UNSIGNED, "rounding": attrs.RoundingAttr("negative_inf")})
    e.block.first_op.location = FileLineColLoc(StringAttr("k.py"), IntAttr(7), IntAttr(3))
    with pytest.raises(CompileError) as error:
        e.convert()
    assert error.value.loc == '"k.py":7:3'


@pytest.mark.parametrize(("predicate", "signedness", "word"), [
    ("equal", SIGNED, "eq"), ("not_equal", UNSIGNED, "ne"), ("less_than", SIGNED, "slt"),
    ("less_than_or_equal", UNSIGNED, "ule"), ("greater_than", SIGNED, "sgt"),
    ("greater_than_or_equal", UNSIGNED, "uge")])
def test_integer_predicates(predicate, signedness, word):
    e = Entry(tile(8, i32), tile(8, i32))
    e(ops.CmpI, e.args, [tile(8, I1)],
      {"comparison_predicate": attrs.ComparisonPredicateAttr(predicate), "signedness": signedness})
    assert text_of(e.convert()[0][0], "predicate") == word


@pytest.mark.parametrize(("predicate", "ordering", "word"), [
    ("equal", "ordered", "oeq"), ("not_equal", "unordered", "une"), ("less_than", "unordered", "ult"),
    ("greater_than_or_equal", "ordered", "oge")])
def test_float_predicates(predicate, ordering, word):
    e = Entry(tile(8, f32), tile(8, f32))
    e(ops.CmpF, e.args, [tile(8, I1)], {"comparison_predicate": attrs.ComparisonPredicateAttr(predicate),
                                        "comparison_ordering": attrs.ComparisonOrderingAttr(ordering)})
    assert text_of(e.convert()[0][0], "predicate") == word


def test_rounding_flush_nan_and_overflow_are_kept():
    e = Entry(tile(8, f32), tile(8, f32), tile(8, i32))
    x, y, i = e.args
    e(ops.MulF, [x, y], [tile(8, f32)], {"rounding_mode": attrs.RoundingAttr("zero"), "flush_to_zero": UnitAttr()})
    e(ops.MaxF, [x, y], [tile(8, f32)], {"propagate_nan": UnitAttr()})
    e(ops.SubI, [i, i], [tile(8, i32)], {"overflow": attrs.OverflowAttr("no_wrap")})
    e(ops.FToI, [x], [tile(8, i32)], {"signedness": UNSIGNED, "saturating": UnitAttr(),
                                      "rounding_mode": attrs.RoundingAttr("nearest_int_to_zero")})
    e(ops.FToF, [x], [tile(8, bf16)], {"rounding_mode": NEAREST})
    mul, maximum, sub, to_int, to_bf16, _ = e.convert()[0]
    assert text_of(mul, "rounding") == "zero" and "ftz" in mul.properties
    assert "nan" in maximum.properties and "ftz" not in maximum.properties
    assert text_of(sub, "overflow") == "nsw_nuw"
    assert to_int.name == "arith.fptoui" and "saturating" in to_int.properties
    assert to_bf16.name == "arith.convertf" and text_of(to_bf16, "rounding") == "nearest_even"


def test_constants():
    """A splat holds one scalar, other tiles all bytes; a NaN with a payload arrives bit by bit."""
    e = Entry()
    e.constant(tile(4, i32), struct.pack("<i", -3))
    e.constant(tile(4, i32), struct.pack("<4i", 5, 5, 5, 5))
    e.constant(tile(2, i32), struct.pack("<2i", 1, -1))
    e.constant(tile(f16), struct.pack("<e", 1.5))
    e.constant(tile(f32), struct.pack("<I", 0x7FC00001))
    e.constant(tile(64, f32), struct.pack("<I", 0xFFC00000))
    e.constant(tile(4, I1), b"\x0d")          # packed by the bit, low bit first: 1, 0, 1, 1
    splat, equal, dense, scalar, bits, cast, many, _, mask, _ = e.convert()[0]
    assert splat.properties["value"] == IntegerAttr(-3, i32)
    assert equal.properties["value"] == IntegerAttr(5, i32)
    assert dense.properties["value"].data.data == "01000000ffffffff"
    assert scalar.properties["value"] == FloatAttr(1.5, f16)
    assert bits.properties["value"].value.data == 0x7FC00001 and cast.name == "arith.bitcast"
    assert str(many.results[0].type) == "tensor<64xi32>" and many.properties["value"].value.data == -0x400000
    assert mask.properties["value"].data.data == "01000101" and mask.properties["value"].width.data == 1


def test_shapes():
    """Scalars become tiles by splat, tiles of one element scalars by view; what changes nothing disappears."""
    e = Entry(tile(f32), tile(1, 8, f32), tile(1, f32))
    x, line, one = e.args
    small = e(ops.Reshape, [x], [tile(1, 1, f32)])
    e(ops.Broadcast, [small], [tile(4, 8, f32)])
    e(ops.Broadcast, [line], [tile(4, 8, f32)])
    e(ops.Reshape, [line], [tile(8, f32)])
    e(ops.Reshape, [one], [tile(f32)])
    e(ops.Reshape, [line], [tile(1, 8, f32)])
    e(ops.Permute, [line], [tile(1, 8, f32)], {"permutation": DenseArrayBase.from_list(i32, [0, 1])})
    body, _ = e.convert()
    assert names(body) == ["nv_tileaa.splat", "nv_tileaa.splat", "nv_tileaa.broadcast", "nv_tileaa.view",
                           "nv_tileaa.view", "nv_tileaa.return"]
    assert body[1].operands[0] is body[0].operands[0]
    assert str(body[4].results[0].type) == "f32"


def view_types(extent=None, stride=None):
    memref = types.TensorViewType(f16, [extent, 64], [stride, 1])
    partition = types.PartitionViewType([32, 16], memref, None, attrs.PaddingValueAttr("zero"))
    return memref, partition


def test_views_become_memrefs_and_tiled_views():
    memref, partition = view_types()
    e = Entry(tile(types.PointerType(f16)), tile(i32), tile(i64))
    p, n, stride = e.args
    known = e(ops.MakeTensorView, [p, [n], [stride]], [memref])
    known = e(ops.Assume, [known], [memref], {"predicate": attrs.DivByAttr(16)})
    view = e(ops.MakePartitionView, [known], [partition])
    hints = attrs.OptimizationHintsAttr({})
    load = e(ops.LoadViewTko, [view, [n, n], None], [tile(32, 16, f16), types.TokenType()],
             {"memory_ordering_semantics": WEAK, "optimization_hints": hints,
              "inbounds": DenseArrayBase.from_list(I1, [1, 0])})
    e(ops.StoreViewTko, [load.results[0], view, [n, n], load.results[1]], [types.TokenType()],
      {"memory_ordering_semantics": attrs.MemoryOrderingSemanticsAttr("release"),
       "memory_scope": attrs.MemoryScopeAttr("device"), "inbounds": DenseArrayBase.from_list(I1, [1, 1])})
    first, assumed, again, block_tile, loaded, stored, _ = e.convert()[0]
    assert [first.name, assumed.name, again.name] == \
        ["nv_tileaa.make_memref", "nv_tileaa.assume", "nv_tileaa.make_memref"]
    assert again.base is assumed.results[0]                      # a view's alignment is its base pointer's
    assert [len(again.sizes), len(again.strides)] == [1, 1]
    t = block_tile.results[0].type
    assert [a.data for a in t.tile_shape] == [32, 16] == [a.data for a in t.steps]
    assert t.kind.data == "partition" and t.padding.data == "zero" and t.sparse_dim.data == -1
    assert [a.data for a in t.memref.shape] == [-1, 64]
    assert [a.data for a in loaded.properties["inbounds"].data] == [1, 0]
    assert loaded.token is None and len(loaded.coords) == 2
    assert stored.token is loaded.results[1]
    assert isinstance(stored.properties["inbounds"], UnitAttr)
    assert text_of(stored, "mem_semantic") == "release" and text_of(stored, "mem_scope") == "device"


def test_promises_that_a_length_contradicts_are_not_believed():
    """Of 100 rows in tiles of 32 the last one reaches past the end; 64 columns are four of 16, and of an unknown length one may be
    told anything."""
    memref = types.TensorViewType(f16, [100, 64, None], [None, 16, 1])
    e = Entry(tile(types.PointerType(f16)), tile(i32), tile(i64))
    p, n, stride = e.args
    known = e(ops.MakeTensorView, [p, [n], [stride]], [memref])
    view = e(ops.MakePartitionView, [known], [types.PartitionViewType((32, 16, 8), memref)])
    e(ops.LoadViewTko, [view, [n, n, n], None], [tile(32, 16, 8, f16), types.TokenType()],
      {"memory_ordering_semantics": WEAK, "optimization_hints": attrs.OptimizationHintsAttr({}),
       "inbounds": DenseArrayBase.from_list(I1, [1, 1, 1])})
    loaded = next(op for op in e.convert()[0] if op.name == "nv_tileaa.tiled_load")
    assert [a.data for a in loaded.properties["inbounds"].data] == [0, 1, 1]


def test_strided_and_gathered_views():
    memref = types.TensorViewType(f16, [128, 64], [64, 1])
    e = Entry(tile(types.PointerType(f16)))
    view = e(ops.MakeTensorView, [e.args[0], [], []], [memref])
    e(ops.MakeStridedView, [view], [types.StridedViewType([4, 8], [3, 5], memref, [1, 0])])
    e(ops.MakeGatherScatterView, [view], [types.GatherScatterViewType([8, 16], memref, 0)])
    _, strided, gathered, _ = e.convert()[0]
    t = strided.results[0].type
    assert t.kind.data == "strided" and [a.data for a in t.steps] == [3, 5] and [a.data for a in t.dim_map] == [1, 0]
    t = gathered.results[0].type
    assert t.kind.data == "gather_scatter" and t.sparse_dim.data == 0 and [a.data for a in t.dim_map] == [0, 1]


def test_shape_queries_become_arithmetic():
    """Of a ?x64 tensor in tiles of 32x16: ceil(n / 32) = (n + 31) >> 5 tiles by 4."""
    memref, partition = view_types()
    e = Entry(tile(types.PointerType(f16)), tile(i32), tile(i64))
    view = e(ops.MakeTensorView, [e.args[0], [e.args[1]], [e.args[2]]], [memref])
    e(ops.GetTensorShape, [view], [[tile(i64), tile(i64)]])
    tiles = e(ops.MakePartitionView, [view], [partition])
    e(ops.GetIndexSpaceShape, [tiles], [[tile(i32), tile(i32)]])
    body, func = e.convert()
    assert names(body) == ["nv_tileaa.make_memref", "arith.extui", "arith.constant", "nv_tileaa.block_tile",
                           "arith.constant", "arith.addi", "arith.constant", "arith.shrui", "arith.constant",
                           "nv_tileaa.return"]
    values = [op.properties["value"].value.data for op in body if op.name == "arith.constant"]
    assert values == [64, 31, 5, 4]
    assert body[1].operands[0] is func.regions[0].block.args[1]


def test_tokens():
    e = Entry()
    a = e(ops.MakeToken, (), [types.TokenType()])
    b = e(ops.MakeToken, (), [types.TokenType()])
    one = e(ops.JoinTokens, [[a, a]], [types.TokenType()])
    two = e(ops.JoinTokens, [[one, b]], [types.TokenType()])
    e(ops.PrintTko, [[], two], [types.TokenType()], {"str": StringAttr("x")})
    body, _ = e.convert()
    assert names(body) == ["nv_tileaa.create_mem_token", "nv_tileaa.create_mem_token", "nv_tileaa.join_mem_token",
                           "nv_tileaa.print", "nv_tileaa.return"]
    assert list(body[2].operands) == [body[0].results[0], body[1].results[0]]


def test_pointer_memory_ops_keep_their_groups():
    pointers = tile(8, types.PointerType(f32))
    e = Entry(pointers, tile(8, I1), tile(8, f32), types.TokenType())
    p, mask, value, token = e.args
    e(ops.LoadPtrTko, [p, mask, value, None], [tile(8, f32), types.TokenType()], {"memory_ordering_semantics": WEAK})
    e(ops.StorePtrTko, [p, value, None, token], [types.TokenType()], {"memory_ordering_semantics": WEAK})
    e(ops.AtomicRMWTko, [p, value, mask, token], [tile(8, f32), types.TokenType()],
      {"memory_ordering_semantics": attrs.MemoryOrderingSemanticsAttr("acq_rel"),
       "memory_scope": attrs.MemoryScopeAttr("sys"), "mode": attrs.AtomicRMWModeAttr("addf")})
    load, store, rmw, _ = e.convert()[0]
    args = load.parent.args
    assert load.mask is args[1] and load.other is args[2] and load.token is None
    assert store.mask is None and store.token is args[3]
    assert text_of(rmw, "rmw_mode") == "addf" and text_of(rmw, "mem_scope") == "sys"


def test_hints_of_the_target():
    hints = attrs.OptimizationHintsAttr({
        "default": DictionaryAttr({"occupancy": IntegerAttr(2, i32)}),
        "sm_90": DictionaryAttr({"num_cta_in_cga": IntegerAttr(4, i32)})})
    _, func = Entry(hints=hints).convert("sm_90")
    assert {k: v.value.data for k, v in func.properties["hints"].data.items()} == {"occupancy": 2, "num_cta_in_cga": 4}
    _, func = Entry(hints=hints).convert("sm_120")
    assert {k: v.value.data for k, v in func.properties["hints"].data.items()} == {"occupancy": 2}


def loop_with_exits():
    """for i: if c: continue x  else: yield; continue y. And a loop that breaks in an if."""
    e = Entry(tile(i32), tile(I1))
    n, c = e.args
    body = Block(arg_types=[tile(i32), tile(i32)])
    then = Block([ops.Continue.make([[body.args[0]]])])
    body.add_ops([ops.If.make([c], [[]], {}, [Region(then), Region()]), ops.Continue.make([[body.args[1]]])])
    e(ops.For, [n, n, n, [n]], [[tile(i32)]], {"unsignedCmp": UnitAttr()}, [Region(body)])
    body = Block(arg_types=[tile(i32)])
    then = Block([ops.Break.make([[body.args[0]]])])
    other = Block([ops.Yield.make([[]])])
    body.add_ops([ops.If.make([c], [[]], {}, [Region(then), Region(other)]), ops.Continue.make([[body.args[0]]])])
    e(ops.Loop, [[n]], [[tile(i32)]], {}, [Region(body)])
    return e


def test_loops_and_early_exits():
    (loop, endless, _), _ = loop_with_exits().convert()
    assert loop.name == "scf.for" and "unsigned_cmp" in loop.properties
    branch, last = loop.regions[0].block.ops
    assert branch.name == "scf.if" and last.name == "scf.yield"
    assert branch.regions[0].block.last_op.name == "nv_tileaa.continue"
    assert not branch.regions[1].blocks
    assert endless.name == "nv_tileaa.loop"
    branch, last = endless.regions[0].block.ops
    assert names(branch.regions[0].block.ops) == ["nv_tileaa.break"] and last.name == "nv_tileaa.continue"
    assert names(branch.regions[1].block.ops) == ["scf.yield"]


def test_deep_nesting_costs_no_stack():
    e = Entry(tile(I1))
    outer = e.block
    for _ in range(1200):
        then = Block()
        branch = ops.If.make([e.args[0]], [[]], {}, [Region(then), Region()])
        outer.add_op(branch)
        if outer is not e.block:
            outer.add_op(ops.Yield.make([[]]))
        outer = then
    outer.add_op(ops.Yield.make([[]]))
    e(ops.Return, [[]])
    module = ops.Module.make((), (), {"sym_name": StringAttr("m")}, [Region(e.body)])
    func: Any = convert(module, Context(Target())).body.block.first_op
    block = func.regions[0].block
    depth = 0
    while (branch := block.first_op).name == "scf.if":
        block, depth = branch.regions[0].block, depth + 1
    assert depth == 1200


def test_collectives():
    """Bodies keep (element, accumulated) pairs as scalars; an identity takes its operand's type."""
    e = Entry(tile(4, 8, f16), tile(8, 16, f16), tile(4, 16, f32))
    a, b, acc = e.args
    body = Block(arg_types=[tile(f16), tile(f16)])
    add = ops.AddF.make(body.args, [tile(f16)], {"rounding_mode": NEAREST})
    body.add_ops([add, ops.Yield.make([add.results])])
    e(ops.Reduce, [[a]], [[tile(4, f16)]],
      {"dim": IntegerAttr(1, i32), "identities": ArrayAttr([FloatAttr(0.0, f32)])}, [Region(body)])
    e(ops.MmaF, [a, b, acc], [tile(4, 16, f32)], {"fast_acc": UnitAttr()})
    reduce, dot, _ = e.convert()[0]
    assert [str(x.type) for x in reduce.regions[0].block.args] == ["f16", "f16"]
    assert names(reduce.regions[0].block.ops) == ["arith.addf", "scf.yield"]
    assert reduce.properties["identities"].data[0] == FloatAttr(0.0, f16)
    assert reduce.properties["dim"].value.data == 1
    assert dot.name == "nv_tileaa.dot" and "fast_acc" in dot.properties


def test_globals_hold_their_bytes():
    from xdsl.dialects.builtin import Float4E2M1FNType
    e = Entry()
    t = tile(2, i32)
    value = attrs.DenseElementsAttr(t, struct.pack("<2i", 1, 2))
    e.body.insert_op_before(ops.Global.make((), (), {
        "sym_name": StringAttr("g"), "value": value, "alignment": IntegerAttr(16, i64)}), e.entry)
    t = tile(4, Float4E2M1FNType())
    value = attrs.DenseElementsAttr(t, bytes([1, 3, 5, 15]))
    e.body.insert_op_before(ops.Global.make((), (), {
        "sym_name": StringAttr("h"), "value": value, "alignment": IntegerAttr(0, i64)}), e.entry)
    _, func = e.convert()
    first, second = [op for op in func.parent.ops if op.name == "nv_tileaa.global"]
    assert first.properties["value"].data.data == "0100000002000000"
    assert first.properties["alignment"].value.data == 16 and str(first.properties["type"]) == "tensor<2xi32>"
    assert second.properties["value"].data.data == "31f5"         # two elements a byte, the first one low
    assert "alignment" not in second.properties


def test_entry_name_with_a_dot_is_refused_by_name():
    with pytest.raises(CompileError, match=r"a\.b"):
        Entry(name="a.b").convert()


def test_locations_are_carried_over():
    e = Entry(tile(f32))
    e(ops.AbsF, e.args, [tile(f32)])
    loc = FileLineColLoc(StringAttr("k.py"), IntAttr(7), IntAttr(3))
    e.block.first_op.location = loc
    assert e.convert()[0][0].location == loc


SAMPLE = ("vector_add_float32", "matmul_f16", "softmax", "attention_causal_d64_bf16", "scan_sum", "control_loop_break",
          "memory_gather_rows", "conv2d_depthwise_3x3_f16", "fft_128_butterflies_f32", "life_on_a_torus_int8",
          "moe_route_top6_of_64", "embedding_bag_mean_f32", "histogram", "quant", "atomic", "blockscaled", "transpose")
"""Beginnings of case names: the first case of the suite that begins so is taken."""


def sample() -> list[str]:
    from tests.kernels.runner import cases
    known = list(cases())
    found = [next((name for name in known if name.startswith(s)), None) for s in SAMPLE]
    return list(dict.fromkeys([name for name in found if name] + known[::40]))


def text_context():
    """A context that parses what nv_tileaa modules print."""
    from xdsl.context import Context
    from xdsl.dialects.builtin import Builtin
    from xdsl.ir import Dialect

    from tileiras.dialects import arith, nv_tileaa
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(Dialect("nv_tileaa", list(nv_tileaa.OPS.values()), [*nv_tileaa.TYPES, *nv_tileaa.ATTRS]))
    every = (*arith.ARITH_OPS, *arith.MATH_OPS, *arith.SCF_OPS)
    for name in ("arith", "math", "scf"):
        context.load_dialect(Dialect(name, [op for op in every if op.name.startswith(f"{name}.")]))
    return context


def test_real_kernels_convert_whole(kernel_bytecode):
    """They convert, verify, canonicalize, and print what parses back to the same text."""
    from xdsl.parser import Parser

    import tileiras.bytecode as bytecode
    from tileiras.dialects.nv_tileaa import OPS
    from tileiras.pipeline import PIPELINE
    context = text_context()
    for name in sample():
        module = convert(bytecode.read(kernel_bytecode(name)), Context(Target()))
        module.verify()
        assert str(Parser(context, str(module)).parse_module()) == str(module), name
        assert all(op.name.startswith(("arith.", "math.", "scf.", "builtin.")) or op.name in OPS
                   for op in module.walk()), name
        for entry in PIPELINE:
            if entry.level == "nv_tileaa" and not entry.name.startswith("convert-"):
                entry.apply(module, CompileOptions(find_target("sm_90")))
        module.verify()
