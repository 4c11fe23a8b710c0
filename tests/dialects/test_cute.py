"""cute, cute_nvgpu and cutlass: text there and back, and a refusal for everything that an op's rule asks."""
from __future__ import annotations

import pytest

from tileiras.dialects import cute, cute_nvgpu, cutlass
from tileiras.errors import BytecodeError
from tileiras.layout.cute.swizzle import parse_any
from tileiras.layout.cute.tuples import LayoutError
from tileiras.tools.lower_text import parse_lower

TILE = '!cute.memref<f16, "smem", #cute.layout<"S<3,3,3> o 0 o (64,64):(64,1)">>'
ROWS = '!cute.memref<f16, "gmem", #cute.layout<"(64,64):(64,1)">>'
CELLS = '!cute.memref<f32, "tmem", #cute.layout<"(32,8):(1,32)">>'
RING = '!cutlass.pipeline<#builtin.int<4>, "tma", #builtin.int<1>, #builtin.int<128>, #builtin.int<32768>>'
GROUPS = '!cutlass.pipeline<#builtin.int<3>, "group", #builtin.int<1>, #builtin.int<1>, #builtin.int<0>>'
STATE = "!cutlass.pipeline_state"
ARGUMENTS = {
    "%p": "!llvm.ptr<3>", "%g": "!llvm.ptr<1>", "%i": "i32", "%j": "i32", "%on": "i1", "%desc": "i64", "%map": "!llvm.ptr<0>",
    "%tile": TILE, "%rows": ROWS, "%cells": CELLS, "%h": "f16", "%a": "vector<8xf16>", "%b": "vector<4xf16>",
    "%c": "vector<4xf32>", "%r": "vector<8xi32>", "%acc": "vector<8xf32>", "%ring": RING, "%groups": GROUPS, "%s": STATE,
    "%a8": "vector<16xi8>", "%b8": "vector<8xi8>", "%sf": "vector<1xi8>",
    "%frag": '!cute.memref<f16, "rmem", #cute.layout<"8:1">>',
}


def numbers(*values: int) -> str:
    return "[" + ", ".join(f"#builtin.int<{v}>" for v in values) + "]"


def module(line: str) -> str:
    arguments = ", ".join(f"{name} : {t}" for name, t in ARGUMENTS.items())
    return ('builtin.module {\n  "llvm.func"() <{sym_name = "k", kernel}> ({\n  ^bb0(' + arguments + "):\n    " + line +
            '\n    "llvm.return"() : () -> ()\n  }) : () -> ()\n}\n')


def op(name: str, operands: str, result: str = "", attributes: str = "") -> str:
    types = ", ".join(ARGUMENTS[o] for o in operands.split())
    given = ", ".join(operands.split())
    return (f"{'%z = ' if result else ''}\"{name}\"({given}) <{{{attributes}}}> : ({types}) -> "
            f"{result if result else '()'}").replace(" <{}>", "")


def with_layout(layout: str, space: str = "smem", element: str = "f16") -> str:
    return f'!cute.memref<{element}, "{space}", #cute.layout<"{layout}">>'


def atom(name: str) -> str:
    return f'atom = "{name}"'


TILER = f"tiler = {numbers(16, 32)}"
VALID = {
    "cute.make_view": op("cute.make_view", "%p", TILE),
    "cute.get_iter": op("cute.get_iter", "%tile", "!llvm.ptr<3>"),
    "cute.local_tile": op("cute.local_tile", "%tile %i %j", with_layout("S<3,3,3> o 0 o (16,32):(64,1)"), TILER),
    "cute.slice": op("cute.slice", "%rows %i", with_layout("(64):(1)", "gmem"), f"kept = {numbers(0, 1)}"),
    "cute.add_offset": op("cute.add_offset", "%tile %i", TILE, "divisible = #builtin.int<512>"),
    "cute.recast": op("cute.recast", "%tile", with_layout("S<3,2,3> o 0 o (64,32):(32,1)", element="f32")),
    "cute.crd2idx": op("cute.crd2idx", "%i %j", "i32", 'layout = #cute.layout<"(64,64):(64,1)">'),
    "cute.memref.load": op("cute.memref.load", "%tile %i %j", "f16"),
    "cute.memref.store": op("cute.memref.store", "%h %tile %i %j"),
    "cute_nvgpu.arch.mma.SM80": op("cute_nvgpu.arch.mma.SM80", "%a %b %c", "vector<4xf32>",
                                   atom("sm80.mma.m16n8k16.f32.f16.f16")),
    "cute_nvgpu.arch.mma.SM120.block_scaled": op(
        "cute_nvgpu.arch.mma.SM120.block_scaled", "%a8 %b8 %c %sf %sf", "vector<4xf32>",
        atom("SM120.mma_bs.mxf8f6f4.m16n8k32.f32.e4m3.e4m3.1x.ue8m0")),
    "cute_nvgpu.arch.mma.SM90": op("cute_nvgpu.arch.mma.SM90", "%acc %desc %desc %on", "vector<8xf32>",
                                   atom("sm90.mma.m64n16k16.f32.f16.f16.ss")),
    "cute_nvgpu.arch.mma.SM100.umma": op("cute_nvgpu.arch.mma.SM100.umma", "%cells %desc %desc %on", "",
                                         atom("sm100.mma.f16.m128n64k16.f32.f16.f16.cg1.ss")),
    "cute_nvgpu.arch.copy.ldsm": op("cute_nvgpu.arch.copy.ldsm", "%tile", "vector<8xf16>", atom("atom.ldsm.m8n8.x4")),
    "cute_nvgpu.arch.copy.stsm": op("cute_nvgpu.arch.copy.stsm", "%b %tile", "", atom("atom.stsm.m8n8.x2.trans")),
    "cute_nvgpu.universal_copy": op("cute_nvgpu.universal_copy", "%frag %tile", "",
                                    atom("atom.universal_copy.rmem.smem.b128")),
    "cute_nvgpu.arch.copy.SM80.cp_async": op("cute_nvgpu.arch.copy.SM80.cp_async", "%rows %tile", "",
                                             atom("atom.simt_async_copy.cg.b128")),
    "cute_nvgpu.arch.copy.SM90.tma_load": op("cute_nvgpu.arch.copy.SM90.tma_load", "%map %tile %p %i %j", "",
                                             atom("atom.tma_load.tile.2d")),
    "cute_nvgpu.arch.copy.SM90.tma_store": op("cute_nvgpu.arch.copy.SM90.tma_store", "%tile %map %i %j", "",
                                              atom("atom.tma_store.tile.2d")),
    "cute_nvgpu.arch.copy.SM90.tma_reduce": op("cute_nvgpu.arch.copy.SM90.tma_reduce", "%tile %map %i", "",
                                               atom("atom.tma_reduce.add.1d")),
    "cute_nvgpu.arch.copy.SM100.tmem_load": op("cute_nvgpu.arch.copy.SM100.tmem_load", "%cells", "vector<8xf32>",
                                               atom("atom.tmem_load.32x32b.x8")),
    "cute_nvgpu.arch.copy.SM100.tmem_store": op("cute_nvgpu.arch.copy.SM100.tmem_store", "%r %cells", "",
                                                atom("atom.tmem_store.32x32b.x8")),
    "cute_nvgpu.smem_desc_view": op("cute_nvgpu.smem_desc_view", "%tile", "i64", 'form = "wgmma", k = #builtin.int<1>'),
    "cute_nvgpu.make_tma_desc_tiled": op("cute_nvgpu.make_tma_desc_tiled", "%g %i %j %i", "!llvm.ptr<0>",
                                         f'element = "f16", box = {numbers(64, 64)}, swizzle = #builtin.int<128>, '
                                         "operandSegmentSizes = array<i32: 1, 2, 1>"),
    "cute_nvgpu.arch.make_warp_uniform": op("cute_nvgpu.arch.make_warp_uniform", "%i", "i32"),
    "cutlass.pipeline.create": op("cutlass.pipeline.create", "%p", RING),
    "cutlass.pipeline.init": op("cutlass.pipeline.init", "%ring"),
    "cutlass.pipeline.state": op("cutlass.pipeline.state", "", STATE, "producer"),
    "cutlass.pipeline.advance": op("cutlass.pipeline.advance", "%ring %s", STATE),
    **{f"cutlass.pipeline.{m}": op(f"cutlass.pipeline.{m}", "%ring %s") for m in (
        "producer_acquire", "producer_commit", "consumer_wait", "consumer_release", "producer_tail")},
    **{f"cutlass.named_barrier.{m}": op(f"cutlass.named_barrier.{m}", "", "",
                                        "id = #builtin.int<1>, threads = #builtin.int<128>")
       for m in ("arrive", "arrive_and_wait")},
}

INVALID = [
    (op("cute.make_view", "%g", TILE), "must be a pointer into smem"),
    (op("cute.get_iter", "%tile", "!llvm.ptr<1>"), "must be a pointer into smem"),
    (op("cute.local_tile", "%tile %i %j", TILE, TILER), "layout must be S<3,3,3> o 0 o (16,32):(64,1), but is"),
    (op("cute.local_tile", "%tile %i", TILE, TILER), "expected a coordinate of rank 2 but got 1"),
    (op("cute.local_tile", "%tile %i %j", TILE, f"tiler = {numbers(16, 32, 2)}"),
     "expects rank(tiler) <= rank(input), but got input=2"),
    (op("cute.local_tile", "%i %j", TILE, TILER), "expected a view as an input but got 'i32'"),
    (op("cute.slice", "%rows %i", ROWS, f"kept = {numbers(1, 1)}"), "Failed to dice (64,64):(64,1)"),
    (op("cute.add_offset", "%tile %i", TILE, "divisible = #builtin.int<256>"), "doesn't commute with S<3,3,3>, which needs 512"),
    (op("cute.recast", "%tile", with_layout("(64,32):(32,1)", element="f32")), "must be in smem with layout S<3,2,3>"),
    (op("cute.crd2idx", "%i %j %i", "i32", 'layout = #cute.layout<"(64,64):(64,1)">'), "expected a coordinate of rank 2 but got 3"),
    (op("cute.crd2idx", "%i", "i32", "layout = 3 : i32"), "expects an input of type layout or composed layout"),
    (op("cute.memref.load", "%tile %i %j", "f32"), "must be of type 'f16'"),
    (op("cute.memref.store", "%h %cells %i %j"), "must be of type 'f32'"),
    (op("cute_nvgpu.arch.mma.SM80", "%a %b %c", "vector<4xf32>", atom("sm90.mma.m64n16k16.f32.f16.f16.ss")),
     "takes atoms sm80.mma.* or sm89.mma.*"),
    (op("cute_nvgpu.arch.mma.SM80", "%a %b %c", "vector<4xf32>", atom("sm80.mma.m16n8k17.f32.f16.f16")), "there is no atom"),
    (op("cute_nvgpu.arch.mma.SM80", "%a %a %c", "vector<4xf32>", atom("sm80.mma.m16n8k16.f32.f16.f16")),
     "operand B of sm80.mma.m16n8k16.f32.f16.f16 is 64 bits a thread, but 'vector<8xf16>' has 128"),
    (op("cute_nvgpu.arch.mma.SM90", "%acc %i %desc %on", "vector<8xf32>", atom("sm90.mma.m64n16k16.f32.f16.f16.ss")),
     "expects memref/smem_desc_view for operand A, but gets"),
    (op("cute_nvgpu.arch.mma.SM90", "%acc %desc %desc %on", "vector<8xf32>", atom("sm90.mma.m64n16k16.f32.f16.f16.rs")),
     "expects rmem for operand A, but got 'i64'"),
    (op("cute_nvgpu.arch.mma.SM100.umma", "%tile %desc %desc %on", "", atom("sm100.mma.f16.m128n64k16.f32.f16.f16.cg1.ss")),
     "operand D of sm100.mma.f16.m128n64k16.f32.f16.f16.cg1.ss lies in tmem, not in smem"),
    (op("cute_nvgpu.arch.copy.ldsm", "%rows", "vector<8xf16>", atom("atom.ldsm.m8n8.x4")), "lies in smem, not in gmem"),
    (op("cute_nvgpu.universal_copy", "%rows %tile", "", atom("atom.universal_copy.smem.rmem.b32")),
     "copies from smem to rmem, not from"),
    (op("cute_nvgpu.arch.copy.SM90.tma_load", "%map %tile %p %i", "", atom("atom.tma_load.tile.2d")), "takes 2 coordinates, not 1"),
    (op("cute_nvgpu.smem_desc_view", "%rows", "i64", 'form = "wgmma", k = #builtin.int<1>'), "describes a tile in smem"),
    (op("cute_nvgpu.smem_desc_view", "%tile", "i64", 'form = "umma", k = #builtin.int<1>'), "for wgmma or tcgen05"),
    (op("cutlass.pipeline.create", "", RING), "barriers in shared memory"),
    (op("cutlass.pipeline.create", "%p", GROUPS), "barriers in shared memory"),
    (op("cutlass.pipeline.create", "%p", RING.replace("int<4>", "int<0>", 1)), "cutlass.pipeline.init: invalid numStages"),
    (op("cutlass.pipeline.create", "%p", RING.replace("int<128>", "int<0>")), "participants length mismatch"),
    (op("cutlass.pipeline.create", "%p", RING.replace("tma", "dma")), "no producer of kind 'dma'"),
    (op("cutlass.pipeline.create", "%p", RING.replace("32768", "0")), "doesn't receive 0 bytes"),
    (op("cutlass.pipeline.init", "%tile"), "must be a pipeline"),
    (op("cutlass.pipeline.advance", "%ring %i", STATE), "must be a pipeline's state"),
    (op("cutlass.named_barrier.arrive", "", "", "id = #builtin.int<16>, threads = #builtin.int<128>"),
     "named barriers are 1 to 15"),
    (op("cutlass.named_barrier.arrive", "", "", "id = #builtin.int<1>, threads = #builtin.int<48>"), "whole warps"),
]


@pytest.mark.parametrize("name", VALID)
def test_text_there_and_back(name: str) -> None:
    first = parse_lower(module(VALID[name]))
    text = str(first)
    assert f'"{name}"' in text
    assert str(parse_lower(text)) == text


def test_every_op_is_there() -> None:
    assert set(VALID) == {*cute.OPS, *cute_nvgpu.OPS, *cutlass.OPS}


@pytest.mark.parametrize(("line", "message"), INVALID, ids=range(len(INVALID)))
def test_refused(line: str, message: str) -> None:
    with pytest.raises(BytecodeError) as refused:
        parse_lower(module(line), "bad.mlir")
    assert message in refused.value.message
    assert refused.value.loc is not None and refused.value.loc.startswith('"bad.mlir":4:')


@pytest.mark.parametrize("layout", ["S<3,3,3> o 0", "S<3,3> o 0 o 8:1", "S<a,b,c> o 0 o 8:1", "X<3,3,3> o 0 o 8:1", "(8,8):(1"])
def test_malformed_layouts(layout: str) -> None:
    with pytest.raises(LayoutError):
        parse_any(layout)
    with pytest.raises(BytecodeError):
        parse_lower(module(op("cute.make_view", "%p", with_layout(layout))))


def test_known_coordinates_fold() -> None:
    assert cute.index_of(parse_any("S<3,3,3> o 0 o (64,64):(64,1)"), (1, 8)) == 64 + (8 ^ 8)
    assert cute.index_of(parse_any("((2,2),4):((1,8),2)"), ((1, 1), 2)) == 13
