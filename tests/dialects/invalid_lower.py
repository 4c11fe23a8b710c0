"""Programs of the levels below cuda_tile that break one rule each: the op, how it is written, what must be said.

A row is (op, operands, attributes, result types, message); `PRELUDES` has the values that operands name. A row whose first
entry is a text of several lines is one as it stands, its bad op marked `// here`. Rows of nv_tileaa hold for nv_tileas too.
"""
from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

Row = tuple[str, str, str, str, str]

PTR, TOKEN = "!nv_tileaa.ptr<f32>", "!nv_tileaa.mem_token"
MEMREF = "!nv_tileaa.memref<?x64xf32, strides = [?, 1]>"
VIEW = f"!nv_tileaa.tiled_view<partition, tile = [16, 16], {MEMREF}>"
GATHER = f"!nv_tileaa.tiled_view<gather_scatter, tile = [16, 16], steps = [1, 1], sparse_dim = 0, {MEMREF}>"

TILE_VALUES: dict[str, str] = {
    "%n": "i32", "%m": "i64", "%b": "i1", "%x": "f32", "%d": "f64", "%p": PTR, "%q": "!nv_tileaa.ptr<i32>", "%t": TOKEN,
    "%i8": "tensor<8xi32>", "%l8": "tensor<8xi64>", "%i16": "tensor<16xi32>", "%f8": "tensor<8xf32>", "%h8": "tensor<8xf16>",
    "%c8": "tensor<8xi8>", "%b8": "tensor<8xi1>", "%b16": "tensor<16xi1>", "%d8": "tensor<8xf64>",
    "%p8": f"tensor<8x{PTR}>", "%q8": "tensor<8x!nv_tileaa.ptr<i32>>", "%s8": "tensor<8x!nv_tileaa.ptr<i8>>",
    "%i44": "tensor<4x4xi32>", "%f44": "tensor<4x4xf32>", "%i48": "tensor<4x8xi32>", "%one": "tensor<1xf32>",
    "%h": "tensor<16x16xf16>", "%f": "tensor<16x16xf32>", "%w": "tensor<16x16xi32>", "%s": "tensor<16x16xi8>",
    "%bf": "tensor<16x16xbf16>", "%g": "tensor<16x32xf16>", "%f3": "tensor<2x16x16xf32>", "%e": "tensor<16x32xf8E4M3FN>",
    "%e2": "tensor<32x16xf8E4M3FN>", "%u": "tensor<16x1xf8E8M0FNU>", "%u2": "tensor<1x16xf8E8M0FNU>",
    "%u3": "tensor<2x16xf8E8M0FNU>", "%mem": MEMREF, "%v": VIEW, "%ga": GATHER,
}
"""What rows of the tile levels may name: parameters of a function that holds nothing else."""

LLVM_VALUES: dict[str, str] = {
    "%n": "i32", "%m": "i64", "%b": "i1", "%x": "f32", "%d": "f64", "%h": "f16", "%p": "!llvm.ptr<1>", "%s": "!llvm.ptr<3>",
    "%v": "vector<4xi32>", "%v2": "vector<2xi32>", "%w": "vector<4xf32>", "%vb": "vector<2xi1>", "%vp": "vector<4x!llvm.ptr<1>>",
    "%l": "vector<4xi64>",
}

BUFFER = "!nv_tileas.buffer<f32, #nv_tileas.shared<shape = [8x16], offset = [1, 2, 4, 8, 16, 32, 64]>>"
SLOT = BUFFER.replace("8x16", "16x16").replace("64]", "64, 128]")
PIPE = '!nv_tileas.pipe<"group", #builtin.int<2>>'
TMEM = "!nv_tileas.tmem<f32, [#builtin.int<64>, #builtin.int<16>], #builtin.int<64>, #builtin.int<1>>"
THREADS = ("#nv_tileas.layout<shape = [16x16], reg = [[0, 1], [0, 8], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], "
           "warp = []>")
"""Two floats side by side a thread."""
ROWS = "contiguous = #builtin.int<1>"
HALF = "!nv_tileas.buffer<f32, #nv_tileas.shared<shape = [8x8], offset = [1, 2, 4, 8, 16, 32]>>"
MAP = '!nv_tileas.tensormap<"f32", [#builtin.int<16>, #builtin.int<16>], #builtin.int<1>, #builtin.int<64>>'
TMA_PIPE = '!nv_tileas.pipe<"tma", #builtin.int<1>>'


class Program(NamedTuple):
    """A program, the line of its bad op, and what must be said there."""

    op: str
    text: str
    line: int
    message: str


def segments(*sizes: int) -> str:
    return f"operandSegmentSizes = array<i32: {', '.join(map(str, sizes))}>"


def ints(*values: int) -> str:
    return "[" + ", ".join(f"#builtin.int<{v}>" for v in values) + "]"


WEAK = 'mem_semantic = "weak"'
RELAXED = 'mem_semantic = "relaxed", mem_scope = "device"'
LOAD, STORE = f"{segments(1, 0, 0, 0)}, {WEAK}", f"{segments(1, 1, 0, 0)}, {WEAK}"

# --- arith, math, scf -------------------------------------------------------------------------------------------------

INTEGER_BINARY = ("addi subi muli mulhiui divsi divui floordivsi ceildivsi ceildivui remsi remui andi ori xori shli shrsi shrui "
                  "maxsi maxui minsi minui").split()
FLOAT_BINARY = ["arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.remf", "arith.maxf", "arith.minf", "math.powf",
                "math.atan2"]
FLOAT_UNARY = ["arith.negf", *(f"math.{m}" for m in (
    "absf ceil floor exp exp2 log log2 sqrt rsqrt sin cos tan sinh cosh tanh").split())]

ARITH: list[Row] = [
    *((f"arith.{m}", "%n, %m", "", "i32", "'lhs' and 'rhs' must have the same type, but have 'i32' and 'i64'")
      for m in INTEGER_BINARY),
    *((op, "%n, %n", "", "i32", "operand #0 ('lhs') must be a float or a tensor of floats, but got 'i32'") for op in FLOAT_BINARY),
    *((op, "%i8", "", "tensor<8xi32>", "operand #0 ('source') must be a float or a tensor of floats") for op in FLOAT_UNARY),
    ("arith.addi", "%x, %x", "", "f32", "operand #0 ('lhs') must be an integer or a tensor of integers, but got 'f32'"),
    ("arith.addi", "%i8, %i16", "", "tensor<8xi32>", "'lhs' and 'rhs' must have the same type"),
    ("arith.addi", "%i8, %i8", "", "tensor<16xi32>", "'lhs' and 'result' must have the same type"),
    ("arith.addi", "%n, %n", 'overflow = "wrap"', "i32", "attribute 'overflow' must be one of none, nsw, nuw, nsw_nuw"),
    ("arith.addi", "%n, %n", "carry", "i32", "has no attribute 'carry'"),
    ("arith.addi", "%n", "", "i32", "op expected 2 operands, but found 1"),
    ("arith.addi", "%n, %n", "", "i32, i32", "op expected 1 results, but found 2"),
    ("arith.addi", "%n, %n", "", TOKEN, "result #0 ('result') must be an integer or a tensor of integers"),
    ("arith.addf", "%x, %x", 'rounding = "up"', "f32", "attribute 'rounding' must be one of nearest_even"),
    ("arith.addf", "%x, %x", 'ftz = "yes"', "f32", "attribute 'ftz' must be a unit"),
    ("arith.maxf", "%x, %x", 'nan = 1 : i32', "f32", "attribute 'nan' must be a unit"),
    ("math.absi", "%x", "", "f32", "operand #0 ('source') must be an integer"),
    ("arith.negi", "%n", "", "i64", "'source' and 'result' must have the same type, but have 'i32' and 'i64'"),
    ("arith.cmpi", "%n, %n", 'predicate = "lt"', "i1", "attribute 'predicate' must be one of eq, ne, slt"),
    ("arith.cmpi", "%n, %n", "", "i1", "requires attribute 'predicate'"),
    ("arith.cmpi", "%i8, %i8", 'predicate = "eq"', "i1", "'lhs' and 'result' must have the same shape"),
    ("arith.cmpi", "%n, %n", 'predicate = "eq"', "i32", "result #0 ('result') must be an i1"),
    ("arith.cmpf", "%x, %x", 'predicate = "lt"', "i1", "attribute 'predicate' must be one of oeq"),
    ("arith.cmpf", "%x, %d", 'predicate = "olt"', "i1", "'lhs' and 'rhs' must have the same type"),
    ("math.fpowi", "%x, %x", "", "f32", "operand #1 ('rhs') must be an integer"),
    ("math.fpowi", "%f8, %n", "", "tensor<8xf32>", "'lhs' and 'rhs' must have the same shape"),
    ("math.fma", "%x, %x, %d", "", "f32", "'lhs' and 'acc' must have the same type"),
    ("arith.extsi", "%m", "", "i32", "must widen, but goes from 'i64' to 'i32'"),
    ("arith.extui", "%i8", "", "tensor<8xi8>", "must widen"),
    ("arith.extui", "%i8", "", "tensor<16xi64>", "'source' and 'result' must have the same shape"),
    ("arith.trunci", "%n", "", "i64", "must narrow, but goes from 'i32' to 'i64'"),
    ("arith.sitofp", "%x", "", "f32", "operand #0 ('source') must be an integer"),
    ("arith.uitofp", "%n", "", "i32", "result #0 ('result') must be a float"),
    ("arith.fptosi", "%n", "", "i32", "operand #0 ('source') must be a float"),
    ("arith.fptoui", "%x", "", "f32", "result #0 ('result') must be an integer"),
    ("arith.fptoui", "%x", "saturating = 3 : i32", "i32", "attribute 'saturating' must be a unit"),
    ("arith.convertf", "%n", "", "f32", "operand #0 ('source') must be a float"),
    ("arith.bitcast", "%m", "", "f32", "must keep the number of bits, but goes from 'i64' to 'f32'"),
    ("arith.bitcast", "%p", "", "i64", "operand #0 ('source') must be an integer or a float"),
    ("arith.select", "%n, %x, %x", "", "f32", "operand #0 ('condition') must be an i1"),
    ("arith.select", "%b, %x, %d", "", "f32", "'true_value' and 'false_value' must have the same type"),
    ("arith.select", "%b16, %f8, %f8", "", "tensor<8xf32>", "the condition must be an i1 or have the result's shape"),
    ("arith.constant", "", "value = 1 : i64", "i32", "the value's type must be 'i32', but is 'i64'"),
    ("arith.constant", "", 'value = "one"', "i32", "attribute 'value' must be a number with its type, or all elements"),
    ("arith.constant", "", "value = 1 : i32", PTR, "result #0 ('result') must be an integer or a float"),
    ("arith.constant", "", 'value = #nv_tileaa.dense<"00000000", #builtin.int<4>>', "tensor<2xi32>",
     "the constant must have 8 bytes in hexadecimal"),
    ("arith.constant", "", 'value = #nv_tileaa.dense<"0000", #builtin.int<1>>', "tensor<2xi32>",
     "elements of 'i32' take 4 bytes, but the constant's take 1"),
    ("arith.constant", "", "value = 1 : i32", "tensor<3xi32>", "has an invalid type 'tensor<3xi32>': extents must be"),
    ("arith.constant", "", "value = 1 : i32", "tensor<33554432xi32>", "a tile has at most 16777216 elements"),
    (""""scf.for"(%n, %m, %n) ({ // here
^bb0(%i: i32):
  "scf.yield"() : () -> ()
}) : (i32, i64, i32) -> ()""", "scf.for", "", "", "'lower' and 'upper' must have the same type"),
    (""""scf.for"(%n, %n, %n) ({ // here
^bb0(%i: i64):
  "scf.yield"() : () -> ()
}) : (i32, i32, i32) -> ()""", "scf.for", "", "", "the body's first argument must be of the bounds' type 'i32'"),
    (""""scf.for"(%n, %n, %n, %x) ({ // here
^bb0(%i: i32, %a: f64):
  "scf.yield"(%a) : (f64) -> ()
}) : (i32, i32, i32, f32) -> ()""", "scf.for", "", "", "initial values must be of types (f64), but got (f32)"),
    (""""scf.for"(%n, %n, %n) ({ // here
^bb0(%i: i32):
  %z = "arith.addi"(%i, %i) : (i32, i32) -> i32
}) : (i32, i32, i32) -> ()""", "scf.for", "", "", "must end in one of yield, return, but ends in 'arith.addi'"),
    (""""scf.if"(%n) ({ // here
  "scf.yield"() : () -> ()
}, {}) : (i32) -> ()""", "scf.if", "", "", "operand #0 ('condition') must be an i1, but got 'i32'"),
    ("""%r = "scf.if"(%b) ({ // here
  "scf.yield"(%n) : (i32) -> ()
}, {}) : (i1) -> i32""", "scf.if", "", "", "must have both regions, for it has results"),
    (""""scf.if"(%b) ({ // here
^bb0(%i: i32):
  "scf.yield"() : () -> ()
}, {}) : (i1) -> ()""", "scf.if", "", "", "regions must have no arguments"),
    (""""scf.if"(%b) ({ // here
}, {}) : (i1) -> ()""", "scf.if", "", "", "region #0 ('then_region') must have one block, but has 0"),
    ("""%r = "scf.if"(%b) ({
  "scf.yield"(%x) : (f32) -> () // here
}, {
  "scf.yield"(%n) : (i32) -> ()
}) : (i1) -> i32""", "scf.yield", "", "", "operands must be of types (i32), but got (f32)"),
    ('"scf.yield"() : () -> () // here', "scf.yield", "", "", "must be inside scf.if"),
    ("""%a = "arith.addi"(%z, %n) : (i32, i32) -> i32 // here
%z = "arith.addi"(%n, %n) : (i32, i32) -> i32""", "arith.addi", "", "", "operand #0 does not dominate this use"),
]

# --- nv_tileaa and nv_tileas ------------------------------------------------------------------------------------------

def collective(op: str, source: str, result: str, message: str, dim: int = 1, identities: str = "0 : i32",
               args: str = "%a: i32, %c: i32") -> Row:
    """A reduction or scan of one source."""
    reverse = ", reverse = false" if op == "scan" else ""
    text = (f'%r = "nv_tileaa.{op}"({source}) <{{dim = {dim} : i32{reverse}, identities = [{identities}]}}> ({{ // here\n'
            f'^bb0({args}):\n  "scf.yield"(%a) : (i32) -> ()\n}}) : ({TILE_VALUES[source]}) -> {result}')
    return text, f"nv_tileaa.{op}", "", "", message


def loop(body: str, op: str, message: str) -> Row:
    """A loop that carries an i32 and holds one op."""
    return f'%r = "nv_tileaa.loop"(%n) ({{\n^bb0(%a: i32):\n{body}\n}}) : (i32) -> i32', op, "", "", message


TILE: list[Row] = [
    ("nv_tileaa.get_program_id", "", "", "i32, i32, i64", "result #2 ('z') must be an i32, but got 'i64'"),
    ("nv_tileaa.cta_exchange", "%n", "peer = #builtin.int<0>", "i32", "attribute 'peer' must be a number of at least 1"),
    ("nv_tileaa.get_cta_rank", "", "", "i64", "result #0 ('rank') must be an i32, but got 'i64'"),
    ("nv_tileaa.get_chain", "", "", "i64", "result #0 ('chain') must be an i32, but got 'i64'"),
    ("nv_tileaa.get_num_programs", "", "", "i32, i32", "op expected 3 results, but found 2"),
    ("""%r = "nv_tileaa.loop"(%n) ({ // here
^bb0(%a: i64):
  "nv_tileaa.break"(%n) : (i32) -> ()
}) : (i32) -> i32""", "nv_tileaa.loop", "", "", "initial values must be of types (i64), but got (i32)"),
    loop('  "nv_tileaa.break"(%x) : (f32) -> () // here', "nv_tileaa.break", "operands must be of types (i32), but got (f32)"),
    ('"nv_tileaa.break"() : () -> () // here', "nv_tileaa.break", "", "", "must be inside a loop, with only scf.if between"),
    (""""scf.for"(%n, %n, %n) ({
^bb0(%i: i32):
  "scf.if"(%b) ({
    "nv_tileaa.break"() : () -> () // here
  }, {}) : (i1) -> ()
  "scf.yield"() : () -> ()
}) : (i32, i32, i32) -> ()""", "nv_tileaa.break", "", "", "does not leave scf.for"),
    loop('  "nv_tileaa.continue"() : () -> () // here', "nv_tileaa.continue", "operands must be of types (i32), but got ()"),
    ('"nv_tileaa.continue"() : () -> () // here', "nv_tileaa.continue", "", "", "must be inside a loop"),
    ('"nv_tileaa.return"(%n) : (i32) -> () // here', "nv_tileaa.return", "", "", "op expected 0 operands, but found 1"),
    ('"nv_tileaa.return"() : () -> () // here', "nv_tileaa.return", "", "", "must be the last op of its block"),
    ("nv_tileaa.splat", "%i8", "", "tensor<8xi32>", "operand #0 ('source') must be a number or a pointer, but got 'tensor<8xi32>'"),
    ("nv_tileaa.splat", "%n", "", "tensor<8xi64>", "source and result must have the same element type"),
    ("nv_tileaa.splat", "%n", "", "tensor<?xi32>", "extents must be powers of two"),
    ("nv_tileaa.make_range", "", "", "tensor<4x4xi32>", "result must have one dimension"),
    ("nv_tileaa.make_range", "", "", "tensor<8xf32>", "result #0 ('result') must be a tensor of integers"),
    ("nv_tileaa.view", "%i8", "", "tensor<64xi32>", "must keep the number of elements, but goes from 8 to 64"),
    ("nv_tileaa.view", "%i8", "", "tensor<2x4xf32>", "source and result must have the same element type"),
    ("nv_tileaa.broadcast", "%f8", "", "tensor<16xf32>", "dimension 0 must be 1 or 16, but is 8"),
    ("nv_tileaa.broadcast", "%one", "", "tensor<4x4xf32>", "must have the same number of dimensions"),
    ("nv_tileaa.permute", "%i44", f"permutation = {ints(0, 0)}", "tensor<4x4xi32>",
     "permutation [0, 0] must name each of 2 dimensions once"),
    ("nv_tileaa.permute", "%i48", f"permutation = {ints(1, 0)}", "tensor<4x8xi32>", "result must be of shape 8x4"),
    ("nv_tileaa.permute", "%i44", "permutation = [1 : i32]", "tensor<4x4xi32>", "attribute 'permutation' must be"),
    ("nv_tileaa.extract", "%i48, %n", "", "tensor<4x4xi32>", "must have 2 indices, one a dimension, but has 1"),
    ("nv_tileaa.extract", "%i44, %n, %n", "", "tensor<8x4xi32>", "extent 8 of dimension 0 must divide 4"),
    ("nv_tileaa.extract", "%i44, %n, %x", "", "tensor<4x4xi32>", "operand #2 ('indices') must be an integer"),
    ("nv_tileaa.insert", "%i48, %i44, %n, %n", "", "tensor<4x4xi32>", "extent 8 of dimension 1 must divide 4"),
    ("nv_tileaa.insert", "%i44, %i48, %n, %n", "", "tensor<4x4xi32>", "result must have the destination's shape"),
    ("nv_tileaa.cat", "%i44, %i48", "dim = 1 : i64", "tensor<4x8xi32>", "4x4 and 4x8 along dimension 1 don't make 4x8"),
    ("nv_tileaa.cat", "%i44, %i44", "dim = 2 : i64", "tensor<4x8xi32>", "dim 2 must be one of 2 dimensions"),
    ("nv_tileaa.cat", "%i44, %i44", "dim = -1 : i64", "tensor<4x8xi32>", "attribute 'dim' must be an integer of at least 0"),
    ("nv_tileaa.pack", "%i8", "", "tensor<16xi8>", "must keep the number of bits, but goes from 256 to 128"),
    ("nv_tileaa.pack", "%i8", "", "tensor<16xi16>", "bytes must be i8, but are 'i16'"),
    ("nv_tileaa.pack", "%i44", "", "tensor<64xi8>", "source and result must have one dimension"),
    ("nv_tileaa.unpack", "%c8", "", "tensor<8xi32>", "must keep the number of bits, but goes from 64 to 256"),
    ("nv_tileaa.addptr", "%p, %x", "", PTR, "operand #1 ('offset') must be an integer"),
    ("nv_tileaa.addptr", "%p, %n", "", "!nv_tileaa.ptr<i32>", "'ptr' and 'result' must have the same type"),
    ("nv_tileaa.addptr", "%p8, %i16", "", f"tensor<8x{PTR}>", "'ptr' and 'offset' must have the same shape"),
    ("nv_tileaa.int_to_ptr", "%x", "", PTR, "operand #0 ('source') must be an integer"),
    ("nv_tileaa.int_to_ptr", "%m", "", "!nv_tileaa.ptr<vector<4xi32>>", "the pointee must be a number or a pointer"),
    ("nv_tileaa.ptr_to_int", "%p8", "", "i64", "'source' and 'result' must have the same shape"),
    ("nv_tileaa.ptr_to_ptr", "%p", "", "i64", "result #0 ('result') must be a pointer"),
    ("nv_tileaa.make_memref", "%q, %n, %n", segments(1, 1, 1), MEMREF, "base must point to 'f32'"),
    ("nv_tileaa.make_memref", "%p, %n", segments(1, 1, 0), MEMREF, "must have 1 strides, one a dynamic dimension, but has 0"),
    ("nv_tileaa.make_memref", "%p, %n, %n", segments(1, 2, 0), MEMREF, "must have 1 sizes, one a dynamic dimension, but has 2"),
    ("nv_tileaa.make_memref", "%p, %n, %n", "", MEMREF, "attribute 'operandSegmentSizes' does not match its operands"),
    ("nv_tileaa.make_memref", "%p, %n, %n", segments(1, 3, -1), MEMREF, "'operandSegmentSizes' does not match its operands"),
    ("nv_tileaa.make_memref", "%p", segments(1, 0, 0), "!nv_tileaa.memref<0xf32, strides = [1]>", "extents must be positive"),
    ("nv_tileaa.make_memref", "%p", segments(1, 0, 0), "!nv_tileaa.memref<4xf32, strides = []>",
     "there must be as many strides as extents"),
    ("nv_tileaa.block_tile", "%n", "", VIEW, "operand #0 ('memref') must be a memref"),
    ("nv_tileaa.block_tile", "%mem", "", VIEW.replace("?x64", "64x64"), "the view must be one of"),
    ("nv_tileaa.block_tile", "%mem", "", VIEW.replace("[16, 16]", "[16, 3]"), "extents must be powers of two"),
    ("nv_tileaa.block_tile", "%mem", "", VIEW.replace("[16, 16]", "[16]"), "tile, steps and dim_map must have 2 entries"),
    ("nv_tileaa.block_tile", "%mem", "", VIEW.replace("partition", "diagonal"), "the kind must be one of partition"),
    ("nv_tileaa.block_tile", "%mem", "", VIEW.replace("16],", "16], dim_map = [1, 1],"), "dim_map must name each dimension once"),
    ("nv_tileaa.block_tile", "%mem", "", VIEW.replace("16],", "16], padding = one,"), "unknown padding 'one'"),
    ("nv_tileaa.block_tile", "%mem", "", GATHER.replace("sparse_dim = 0", "sparse_dim = 2"), "the sparse dimension must be one"),
    ("nv_tileaa.tiled_load", "%v, %n, %n", f"{segments(1, 2, 0)}, {WEAK}", f"tensor<16x16xf16>, {TOKEN}",
     "the tile must be 16x16 of 'f32', but is 'tensor<16x16xf16>'"),
    ("nv_tileaa.tiled_load", "%v, %n", f"{segments(1, 1, 0)}, {WEAK}", f"tensor<16x16xf32>, {TOKEN}",
     "must have 2 coordinates, one a dimension, but has 1"),
    ("nv_tileaa.tiled_load", "%v, %n, %n", f'{segments(1, 2, 0)}, mem_semantic = "release"', f"tensor<16x16xf32>, {TOKEN}",
     "attribute 'mem_semantic' must be one of weak, relaxed, acquire"),
    ("nv_tileaa.tiled_load", "%v, %n, %n", f'{segments(1, 2, 0)}, mem_semantic = "relaxed"', f"tensor<16x16xf32>, {TOKEN}",
     "must have a scope"),
    ("nv_tileaa.tiled_load", "%v, %n, %n", f'{segments(1, 2, 0)}, {WEAK}, mem_scope = "sys"', f"tensor<16x16xf32>, {TOKEN}",
     "is weak and must have no scope"),
    ("nv_tileaa.tiled_load", "%v, %n, %n", f"{segments(1, 2, 0)}, {WEAK}, inbounds = {ints(1)}", f"tensor<16x16xf32>, {TOKEN}",
     "attribute 'inbounds' must have 2 flags, but has 1"),
    ("nv_tileaa.tiled_load", "%ga, %n, %n", f"{segments(1, 2, 0)}, {WEAK}", f"tensor<16x16xf32>, {TOKEN}",
     "coordinate 0 must be a tensor of 16 indices, but is 'i32'"),
    ("nv_tileaa.tiled_load", "%v, %n, %i8", f"{segments(1, 2, 0)}, {WEAK}", f"tensor<16x16xf32>, {TOKEN}",
     "coordinate 1 must be an integer"),
    ("nv_tileaa.tiled_load", "%v, %n, %n, %n", f"{segments(1, 2, 1)}, {WEAK}", f"tensor<16x16xf32>, {TOKEN}",
     "operand #3 ('token') must be a memory token, but got 'i32'"),
    ("nv_tileaa.tiled_store", "%h, %v, %n, %n", f"{segments(1, 1, 2, 0)}, {WEAK}", TOKEN, "the tile must be 16x16 of 'f32'"),
    ("nv_tileaa.tiled_store", "%f, %v, %n, %n", f'{segments(1, 1, 2, 0)}, mem_semantic = "acquire"', TOKEN,
     "attribute 'mem_semantic' must be one of weak, relaxed, release"),
    ("nv_tileaa.tiled_atomic_rmw", "%f, %v, %n, %n", f'{segments(1, 1, 2, 0)}, rmw_mode = "add", {RELAXED}', TOKEN,
     "'add' takes i32, i64, but got 'f32'"),
    ("nv_tileaa.tiled_atomic_rmw", "%f, %v, %n, %n", f'{segments(1, 1, 2, 0)}, rmw_mode = "xchg", {RELAXED}', TOKEN,
     "has no result, and so no exchange"),
    ("nv_tileaa.tiled_atomic_rmw", "%f, %v, %n, %n", f'{segments(1, 1, 2, 0)}, rmw_mode = "times", {RELAXED}', TOKEN,
     "attribute 'rmw_mode' must be one of and, or, xor"),
    ("nv_tileaa.load", "%p", LOAD, f"i32, {TOKEN}", "pointers must be to 'i32', but are to 'f32'"),
    ("nv_tileaa.load", "%p8", LOAD, f"f32, {TOKEN}", "'ptr' and 'result' must have the same shape"),
    ("nv_tileaa.load", "%p8, %b16", f"{segments(1, 1, 0, 0)}, {WEAK}", f"tensor<8xf32>, {TOKEN}",
     "'ptr' and 'mask' must have the same shape"),
    ("nv_tileaa.load", "%p8, %b8, %i8", f"{segments(1, 1, 1, 0)}, {WEAK}", f"tensor<8xf32>, {TOKEN}",
     "'other' and 'result' must have the same type"),
    ("nv_tileaa.load", "%p", LOAD, "f32, i32", "result #1 ('result_token') must be a memory token"),
    ("nv_tileaa.store", "%p, %n", STORE, TOKEN, "pointers must be to 'i32', but are to 'f32'"),
    ("nv_tileaa.store", "%p8, %x", STORE, TOKEN, "'ptr' and 'source' must have the same shape"),
    ("nv_tileaa.store", "%n, %n", STORE, TOKEN, "operand #0 ('ptr') must be a pointer"),
    ("nv_tileaa.atomic_rmw", "%p, %x", f'{segments(1, 1, 0, 0)}, rmw_mode = "and", {RELAXED}', f"f32, {TOKEN}",
     "'and' takes i32, i64, but got 'f32'"),
    ("nv_tileaa.atomic_rmw", "%q, %n", f'{segments(1, 1, 0, 0)}, rmw_mode = "addf", {RELAXED}', f"i32, {TOKEN}",
     "'addf' takes f16, bf16, f32, f64, but got 'i32'"),
    ("nv_tileaa.atomic_rmw", "%s8, %c8", f'{segments(1, 1, 0, 0)}, rmw_mode = "xchg", {RELAXED}', f"tensor<8xi8>, {TOKEN}",
     "'xchg' takes elements of 32 or 64 bits, but got 'i8'"),
    ("nv_tileaa.atomic_rmw", "%q, %n", f'{segments(1, 1, 0, 0)}, rmw_mode = "add", {WEAK}, mem_scope = "sys"', f"i32, {TOKEN}",
     "attribute 'mem_semantic' must be one of relaxed, acquire, release, acq_rel"),
    ("nv_tileaa.atomic_cas", "%s8, %c8, %c8", f"{segments(1, 1, 1, 0, 0)}, {RELAXED}", f"tensor<8xi8>, {TOKEN}",
     "takes elements of 32 or 64 bits"),
    ("nv_tileaa.atomic_cas", "%q, %m, %n", f"{segments(1, 1, 1, 0, 0)}, {RELAXED}", f"i32, {TOKEN}",
     "'compare' and 'source' must have the same type"),
    ("nv_tileaa.create_mem_token", "", "", "i32", "result #0 ('result') must be a memory token"),
    ("nv_tileaa.join_mem_token", "%t, %n", "", TOKEN, "operand #1 ('tokens') must be a memory token"),
    ("nv_tileaa.join_mem_token", "", "", TOKEN, "must have a token to join"),
    ("nv_tileaa.get_global", "", "symbol = @nowhere", PTR, "'nowhere' does not name a global"),
    ("nv_tileaa.get_global", "", 'symbol = "table"', PTR, "attribute 'symbol' must be a symbol"),
    ("nv_tileaa.alloca", "", "num_elem = -1 : i64", PTR, "attribute 'num_elem' must be an integer of at least 0"),
    ("nv_tileaa.alloca", "", "num_elem = 4 : i64, alignment = 3 : i64", PTR, "alignment 3 must be a power of two"),
    ("nv_tileaa.dot", "%i8, %h, %f", "", "tensor<16x16xf32>", "operands must all have 2 or all have 3 dimensions"),
    ("nv_tileaa.dot", "%g, %h, %f", "", "tensor<16x16xf32>", "16x32 times 16x16 does not make 16x16"),
    ("nv_tileaa.dot", "%h, %bf, %f", "", "tensor<16x16xf32>", "lhs and rhs must have the same element type"),
    ("nv_tileaa.dot", "%bf, %bf, %h", "", "tensor<16x16xf16>", "elements 'bf16' can't be summed up in 'f16'"),
    ("nv_tileaa.dot", "%s, %s, %w", 'signedness_lhs = "signed"', "tensor<16x16xi32>", "operands of integers have a signedness"),
    ("nv_tileaa.dot", "%h, %h, %f", "", "tensor<16x16xf16>", "'acc' and 'result' must have the same type"),
    ("nv_tileaa.dot", "%h, %h, %f", 'signedness_lhs = "some"', "tensor<16x16xf32>", "must be one of signed, unsigned"),
    ("nv_tileaa.dot_scaled", "%e, %e2, %f, %u, %u3", "", "tensor<16x16xf32>", "scales must be one for 32 elements"),
    ("nv_tileaa.dot_scaled", "%h, %h, %f, %u, %u2", "", "tensor<16x16xf32>", "no product of 'f16' scaled by 'f8E8M0FNU'"),
    ("nv_tileaa.dot_scaled", "%e, %e2, %f, %u, %u3", "block = #builtin.int<32>", "tensor<16x16xf32>",
     "scales of shape 2x16 aren't 1 for each of 16 rows"),
    ("nv_tileaa.dot_scaled", "%e, %e2, %f, %u, %u2", "block = #builtin.int<16>", "tensor<16x16xf32>",
     "no product of 'f8E4M3FN' has a scale of 'f8E8M0FNU' for 16 elements"),
    collective("reduce", "%i44", "tensor<8xi32>", "result #0 must be 4 of 'i32', but is 'tensor<8xi32>'"),
    collective("reduce", "%i44", "tensor<4xi32>", "dim 2 must be one of 2 dimensions", dim=2),
    collective("reduce", "%i44", "tensor<4xi32>", "must have 1 identities, one a source, but has 2", identities="0 : i32, 0 : i32"),
    collective("reduce", "%i44", "tensor<4xi32>", "identity 0 must be of 'i32', but is 0 : i64", identities="0 : i64"),
    collective("reduce", "%i44", "tensor<4xi32>", "the body must have arguments (i32, i32), but has (i32, i64)",
               args="%a: i32, %c: i64"),
    collective("scan", "%i44", "tensor<4xi32>", "result #0 must be 4x4 of 'i32'"),
    collective("scan", "%f44", "tensor<4x4xf32>", "identity 0 must be of 'f32'"),
    ("nv_tileaa.assume", "%x", "fact = #nv_tileaa.fact<div_by 4>", "f32", "only integers and pointers are divisible, not 'f32'"),
    ("nv_tileaa.assume", "%n", "fact = #nv_tileaa.fact<div_by 0>", "i32", "a div_by fact must have a divisor of at least 1"),
    ("nv_tileaa.assume", "%i8", "fact = #nv_tileaa.fact<div_by 4 every 8 along 1>", "tensor<8xi32>", "along one of 1 dimensions"),
    ("nv_tileaa.assume", "%n", "fact = #nv_tileaa.fact<bounded [4, 2]>", "i32", "a lower and an upper bound, in this order"),
    ("nv_tileaa.assume", "%x", "fact = #nv_tileaa.fact<bounded [0, ?]>", "f32", "only integers are bounded"),
    ("nv_tileaa.assume", "%i8", "fact = #nv_tileaa.fact<same_elements [1, 2]>", "tensor<8xi32>", "must have 1 sizes of groups"),
    ("nv_tileaa.assume", "%n", "fact = #nv_tileaa.fact<div_by 4>", "i64", "'source' and 'result' must have the same type"),
    ("nv_tileaa.assert", "%n", 'message = "m"', "", "operand #0 ('condition') must be an i1"),
    ("nv_tileaa.assert", "%b", "message = 3 : i32", "", "attribute 'message' must be a string"),
    ("nv_tileaa.print", "%n", f'{segments(1, 0)}, format = "%d %d"', "", "the format takes 2 values, but got 1"),
    ("nv_tileaa.print", "%n", f'{segments(1, 0)}, format = "%"', "", "the format has a conversion without an end"),
    ("nv_tileaa.gdc_wait", "%n", "", TOKEN, "operand #0 ('token') must be a memory token"),
    ("nv_tileaa.gdc_launch_dependents", "%t, %t", "", TOKEN, "op expected 0 to 1 operands, but found 2"),
    ("nv_tileaa.fence_alias", "", "", TOKEN, "op expected 1 operands, but found 0"),
]

_LEAVE = '"nv_tileas.return"() : () -> ()'
PLACED: list[Row] = [
    ("nv_tileas.settle", "%f8", f"bytes = {ints(4)[1:-1]}", "tensor<16xf32>", "must have the same type"),
    ("nv_tileas.settle", "%f8", f"bytes = {ints(0)[1:-1]}", "tensor<8xf32>", "attribute 'bytes' must be"),
    ("nv_tileas.convert_layout", "%f8", "", "tensor<16xf32>", "must keep shape and elements"),
    ("nv_tileas.convert_layout", "%f8", "", "tensor<8xf64>", "must keep shape and elements"),
    ("nv_tileas.alloc_tensor", "", "", "tensor<8xf32>", "result #0 ('buffer') must be a buffer, a ring of buffers or an"),
    ("nv_tileas.alloc_tensor", "", f"offset = {ints(-1)[1:-1]}", BUFFER, "attribute 'offset' must be a number of at least 0"),
    ("nv_tileas.alloc_tensor", "", "", BUFFER.replace("f32", "!llvm.ptr<1>"), "elements must be numbers or pointers"),
    ("nv_tileas.store_shared", "%f, %buffer", "", "", "the buffer must be 16x16 or larger, but is 8x16"),
    ("nv_tileas.store_shared", "%h, %buffer", "", "", "the buffer must be of 'f16', but is of 'f32'"),
    ("nv_tileas.store_shared", "%h, %buffer", f"slice = {ints(0, 0, 2)}", "", "the buffer must be 8x16 of 'f16'"),
    ("nv_tileas.store_shared", "%f, %buffer", f"slice = {ints(0, 2, 2)}", "", "slice [0, 2, 2] must be a dimension of 16x16"),
    ("nv_tileas.store_shared", "%f, %f", "", "", "operand #1 ('buffer') must be a buffer"),
    ("nv_tileas.store_shared", "%f44, %half", "", "", "a slice 4x4 of a buffer 8x8 needs 'rounds'"),
    ("nv_tileas.store_shared", "%f44, %half", f"part = {ints(4)[1:-1]}", "", "'part' must be below 4, but is 4"),
    ("nv_tileas.store_shared", "%f44, %half", f"part = {ints(1)[1:-1]}, owners", "",
     "a part of a buffer is written whole, at once"),
    ("nv_tileas.store_shared", "%f, %half", f"part = {ints(0)[1:-1]}", "", "the buffer must have parts 16x16 of 'f32', but is 8x8"),
    ("nv_tileas.store_shared", "%f44, %half", f"rounds = {ints(1)}", "", "'rounds' need a 'round'"),
    ("nv_tileas.store_shared", "%f44, %half", f"round = {ints(1)[1:-1]}", "", "a round needs 'rounds' that number it"),
    ("nv_tileas.store_shared", "%f44, %half", f"rounds = {ints(64)}, round = {ints(0)[1:-1]}", "",
     "rounds [64] must be masks over the index of 8x8"),
    ("nv_tileas.store_shared", "%f44, %half", f"rounds = {ints(1)}, round = {ints(2)[1:-1]}", "", "round 2 isn't one of 2"),
    ("nv_tileas.store_shared", "%f, %buffer", f"turned = {ints(0, 5, 5)}", "", "no words of four bytes along its dimension"),
    ("nv_tileas.load_shared", "%buffer", segments(1, 0, 0), "tensor<16x16xf32>", "the buffer must be 16x16 or larger"),
    ("nv_tileas.load_shared", "%n", segments(1, 0, 0), "tensor<8x16xf32>", "operand #0 ('buffer') must be a buffer"),
    ("nv_tileas.load_shared", "%half, %f", segments(1, 0, 1), "tensor<8x8xf32>", "must go into a tile like its result"),
    ("nv_tileas.load_shared", "%buffer", segments(1, 0, 0) + ", matrices, peer = #builtin.int<1>", "tensor<8x16xf32>",
     "'matrices' are read whole"),
    ("nv_tileas.load_shared", "%half", "", "tensor<8x8xf32>", "'operandSegmentSizes' does not match its operands"),
    ("nv_tileas.fill_outside", "%f, %v, %n, %n", "", "tensor<8x8xf32>", "must have the same type"),
    ("nv_tileas.mask_runs", "%n, %n", 'dim = 2 : i32, predicates = ["slt"]', "tensor<8x16xi1>", "dim 2 must be one of 2"),
    ("nv_tileas.mask_runs", "%n, %n", 'dim = 1 : i32, predicates = ["eq"]', "tensor<8x16xi1>", "predicates must be some of"),
    ("nv_tileas.mask_runs", "%n", 'dim = 1 : i32, predicates = ["slt"]', "tensor<8x16xi1>", "but has 1 terms"),
    ("nv_tileas.mask_runs", "%n, %m", 'dim = 1 : i32, predicates = ["slt"]', "tensor<8x16xi1>", "terms must be of 'i32'"),
    ("nv_tileas.mask_runs", "%n, %i8", 'dim = 1 : i32, predicates = ["slt"]', "tensor<8x16xi1>", "a term of 8 isn't the same"),
    ("nv_tileas.mask_runs", "%n, %n", 'dim = 1 : i32, predicates = ["slt"]', "tensor<8x16xi32>", "a tensor of i1"),
    ("nv_tileas.dealloc", "%n", "", "", "operand #0 ('pointers') must be a pointer"),
    ("nv_tileas.print", "%n, %x", f'{segments(2, 0)}, format = "%d", in_turn', "",
     "tiles printed in turn need a buffer as the last argument"),
    ("nv_tileas.alloca", "", "num_elem = 4 : i64, alignment = 3 : i64, owners", PTR, "alignment 3 must be a power of two"),
    ("""%r0, %r1 = "nv_tileas.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, mem_semantic = "weak", owners}>"""
     f""" : ({PTR}) -> (f32, {TOKEN}) // here
%use = "arith.addf"(%r0, %r0) : (f32, f32) -> f32""", "nv_tileas.load", "", "",
     "only owners have its result, but 'arith.addf' uses it"),
    *(("nv_tileas.tiled_copy", f"%v, %n, %n, {buffer}, %pipe, %n", f"{segments(1, 2, 1, 1, 1, 0, 0)}, {attributes}", "", message)
      for buffer, attributes, message in (
        ("%half", 'atom = "cp.async.16"', "the tile must be 16x16 of 'f32'"),
        ("%slot", 'atom = "cp.async.16"', "the instruction 'cp.async.16' must be of 16, 8, 4 bytes, and needs 'threads'"),
        ("%slot", f'atom = "cp.async.32", threads = {THREADS}, {ROWS}', "the instruction 'cp.async.32' must be of 16, 8, 4 bytes"),
        ("%slot", f'atom = "cp.async.16", threads = {THREADS.replace("16x16", "16x32")}, {ROWS}',
         "'threads' must be a layout of 16x16"),
        ("%slot", f'atom = "cp.async.16", threads = {THREADS}, {ROWS}', "no thread holds 16 bytes that are side by side"),
        ("%slot", f'atom = "cp.async.4", threads = {THREADS}, runs = {ints(1)}, {ROWS}', "attribute 'runs' must have 2"))),
    *(("nv_tileas.async_copy", "%p8, %slot, %pipe, %n", f"{segments(1, 0, 1, 1, 1, 0, 0)}, {attributes}", "", message)
      for attributes, message in (
        (f'atom = "cp.async.32", threads = {THREADS}, {ROWS}', "the instruction 'cp.async.32' must be of 16, 8, 4 bytes"),
        (f'atom = "tma", threads = {THREADS}, {ROWS}', "'tma' is no instruction by which threads copy"),
        (f'atom = "cp.async.4", threads = {THREADS}, {ROWS}', "pointers and mask must be tensors in the layout 'threads'"))),
    ("nv_tileas.make_tiled_tma_desc", "%v", "", MAP.replace("<16>", "<32>", 1), "a map of tiles 32x16 for a view of tiles 16x16"),
    ("nv_tileas.make_tiled_tma_desc", "%v", "", MAP.replace("f32", "u32"), "a map of 'u32' for elements of type 'f32'"),
    ("nv_tileas.make_tiled_tma_desc", "%v", "", MAP.replace("<1>, #builtin.int<64>", "<0>, #builtin.int<64>"),
     "dimension 0 of the view's tile doesn't run along memory"),
    ("nv_tileas.make_tiled_tma_desc", "%v", "", MAP.replace("<64>", "<128>"), "16 elements of 32 bits don't fill the 128 bytes"),
    ("nv_tileas.make_tiled_tma_desc", "%v", "", MAP.replace("f32", "f31"), "the element must be one of u8"),
    (f"""%map = "nv_tileas.make_tiled_tma_desc"(%v) : ({VIEW}) -> {MAP}
%counted = "nv_tileas.create_pipeline"() <{{consumers = #builtin.int<4>, bytes = #builtin.int<1024>}}> : () -> {TMA_PIPE}
"nv_tileas.tma_load"(%map, %n, %n, %buffer, %counted, %n) : ({MAP}, i32, i32, {BUFFER}, {TMA_PIPE}, i32) -> () // here""",
     "nv_tileas.tma_load", "", "", "doesn't lie in a buffer"),
    (f"""%map = "nv_tileas.make_tiled_tma_desc"(%v) : ({VIEW}) -> {MAP}
%counted = "nv_tileas.create_pipeline"() <{{consumers = #builtin.int<4>, bytes = #builtin.int<1024>}}> : () -> {TMA_PIPE}
"nv_tileas.tma_load"(%map, %n, %buffer, %counted, %n) : ({MAP}, i32, {BUFFER}, {TMA_PIPE}, i32) -> () // here""",
     "nv_tileas.tma_load", "", "", "needs 2 coordinates, but got 1"),
    (f"""%counted = "nv_tileas.create_pipeline"() <{{consumers = #builtin.int<4>, bytes = #builtin.int<16>}}> : () -> {TMA_PIPE}
"nv_tileas.cancel_next_program_id"(%buffer, %counted, %n) : ({BUFFER}, {TMA_PIPE}, i32) -> () // here""",
     "nv_tileas.cancel_next_program_id", "", "", "an answer has 16 bytes, not 512"),
    (f"""%id0, %id1, %id2, %valid = "nv_tileas.is_valid_program_id"(%buffer) : ({BUFFER}) -> (i32, i32, i32, i1) // here""",
     "nv_tileas.is_valid_program_id", "", "", "an answer has 16 bytes, not 512"),
    (f"""%map = "nv_tileas.make_tiled_tma_desc"(%v) : ({VIEW}) -> {MAP}
"nv_tileas.tma_store"(%map, %n, %n, %buffer) : ({MAP}, i32, i32, {BUFFER}) -> () // here""",
     "nv_tileas.tma_store", "", "", "doesn't lie in a buffer"),
    ("nv_tileas.store_wait", "%n", "pending = #builtin.int<0>", "", "operand #0 ('slots') must be a buffer"),
    ("nv_tileas.prefetch_tma_desc", "%n", "", "", "operand #0 ('map') must be a tensor map"),
    ("nv_tileas.fence_async", "%n", "", "", "op expected 0 operands, but found 1"),
    ("nv_tileas.extract_slice", "%buffer, %n", "", BUFFER, "operand #0 ('ring') must be a ring of buffers"),
    ("nv_tileas.create_pipeline", "", "", '!nv_tileas.pipe<"queue", #builtin.int<2>>', "the kind must be one of group, tma"),
    ("nv_tileas.create_pipeline", "", "", '!nv_tileas.pipe<"group", #builtin.int<0>>', "there are 1 to 64 stages"),
    ("nv_tileas.create_pipeline", "", f"consumers = {ints(4)[1:-1]}", '!nv_tileas.pipe<"tma", #builtin.int<2>>',
     "a pipe of kind 'tma' needs 'bytes'"),
    ("nv_tileas.create_pipeline", "", f"consumers = {ints(4)[1:-1]}", '!nv_tileas.pipe<"group", #builtin.int<2>>',
     "a pipe of kind 'group' has no 'consumers'"),
    *((f"nv_tileas.{op}", "%n", "", result, "operand #0 ('pipe') must be a pipe") for op, result in (
        ("producer_acquire", "i32"), ("producer_commit", ""), ("producer_tail", ""), ("consumer_wait", "i32"),
        ("consumer_release", ""))),
    *((f"""{before}"nv_tileas.agent_switch"() <{{{attributes}}}> ({{ // here
  "nv_tileas.return"() : () -> ()
}}, {{
  {second}
}}) : () -> (){behind}""", "nv_tileas.agent_switch", "", "", message) for before, attributes, second, behind, message in (
        ("", f"warps = {ints(4)}", _LEAVE, "", "2 agents need as many numbers of warps"),
        ("", f"warps = {ints(4, 3)}", _LEAVE, "", "a power of two of warps"),
        ("", f"warps = {ints(4, 1)}, registers = {ints(232, 20)}", _LEAVE, "", "registers must be a multiple of 8 from 24 to 256"),
        ("", f"warps = {ints(32, 1)}", _LEAVE, "", "a block has at most 32 warps"),
        ("", f"warps = {ints(4, 1)}", '"nv_tileas.barrier"() : () -> ()', "", "must end in one of return"),
        ('"scf.if"(%b) ({\n', f"warps = {ints(4, 1)}", _LEAVE, '\n"scf.yield"() : () -> ()\n}, {}) : (i1) -> ()',
         "must be the one switch of a function"))),
    ("nv_tileas.barrier", "%n", "", "", "op expected 0 operands, but found 1"),
    ("nv_tileas.warp_barrier", "%n", "", "", "op expected 0 operands, but found 1"),
    ("nv_tileas.cluster_barrier", "%n", "", "", "op expected 0 operands, but found 1"),
    ("nv_tileas.cluster_arrive", "%n", "", "", "op expected 0 operands, but found 1"),
    ("nv_tileas.cluster_wait", "%n", "", "", "op expected 0 operands, but found 1"),
    ("nv_tileas.fence", "", 'mem_scope = "cta"', "", "attribute 'mem_scope' must be"),
    ("nv_tileas.tiled_load", "%v, %n, %n", f"{segments(1, 2, 0)}, {WEAK}, contiguous = {ints(7)[1:-1]}",
     f"tensor<16x16xf32>, {TOKEN}", "contiguous 7 must be one of 2 dimensions"),
    ("nv_tileas.tiled_load", "%v, %n, %n", f"{segments(1, 2, 0)}, {WEAK}, {ROWS}, neighbours = {ints(0)[1:-1]}",
     f"tensor<16x16xf32>, {TOKEN}", "neighbours 0 must be one of 2 dimensions, where none is contiguous"),
    ("nv_tileas.tiled_load", "%v, %n, %n", f"{segments(1, 2, 0)}, {WEAK}, stretch = {ints(4)[1:-1]}",
     f"tensor<16x16xf32>, {TOKEN}", "attribute 'stretch' must go with a contiguous dimension"),
    ("nv_tileas.tiled_load", "%v, %n, %n", f"{segments(1, 2, 0)}, {WEAK}, narrow = {ints(1)[1:-1]}",
     f"tensor<16x16xf32>, {TOKEN}", "attribute 'narrow' must go with a contiguous dimension"),
    ("nv_tileas.store", "%p8, %f8", f"{STORE}, runs = {ints(1, 1)}", TOKEN, "attribute 'runs' must have 1 positive numbers"),
    ("nv_tileas.dot", "%half, %half, %f", "", "tensor<16x16xf32>", "8x8 times 8x8 does not make 16x16"),
    ("nv_tileas.dot", "%h, %h, %f", f"k_slices = {ints(0)[1:-1]}", "tensor<16x16xf32>", "attribute 'k_slices' must be"),
    ("nv_tileas.begin_flight", "%f", "", "!nv_tileas.flight<tensor<8x8xf32>, #builtin.int<1>>",
     "must begin with a tensor of 'tensor<8x8xf32>'"),
    ("nv_tileas.begin_flight", "%f", "", "!nv_tileas.flight<tensor<16x16xf32>, #builtin.int<0>>", "at least one instruction's"),
    ("nv_tileas.async_dot", "%buffer, %buffer", 'atom = "mma.m16n8k16.row.col.f32.f32"',
     "!nv_tileas.flight<tensor<16x16xf32>, #builtin.int<1>>", "must have the name of a wgmma as its atom"),
    ("nv_tileas.async_dot", "%buffer, %buffer", 'atom = "sm90.mma.m64n7k16.f32.f16.f16.ss"',
     "!nv_tileas.flight<tensor<16x16xf32>, #builtin.int<1>>", "no instruction is called 'sm90.mma.m64n7k16.f32.f16.f16.ss'"),
    ("nv_tileas.async_dot", "%h, %buffer", 'atom = "sm90.mma.m64n8k16.f32.f16.f16.ss"',
     "!nv_tileas.flight<tensor<16x16xf32>, #builtin.int<1>>", "A must be a buffer for"),
    ("""%began = "nv_tileas.begin_flight"(%f) : (tensor<16x16xf32>) -> !nv_tileas.flight<tensor<16x16xf32>, #builtin.int<1>>
%once = "nv_tileas.dot_wait"(%began) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : """
     """(!nv_tileas.flight<tensor<16x16xf32>, #builtin.int<1>>) -> tensor<16x16xf32> // here
%twice = "nv_tileas.dot_wait"(%began) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : """
     """(!nv_tileas.flight<tensor<16x16xf32>, #builtin.int<1>>) -> tensor<16x16xf32>""", "nv_tileas.dot_wait", "", "",
     "a product in flight has several uses"),
    ("""%began = "nv_tileas.begin_flight"(%f) : (tensor<16x16xf32>) -> !nv_tileas.flight<tensor<16x16xf32>, #builtin.int<1>>
%early = "arith.negf"(%began) : (!nv_tileas.flight<tensor<16x16xf32>, #builtin.int<1>>) -> tensor<16x16xf32> // here""",
     "arith.negf", "", "", "operand #0 ('source') must be a float or a tensor of floats"),
    ("nv_tileas.dot_wait", "%f", "operandSegmentSizes = array<i32: 1, 0, 0>", "tensor<16x16xf32>",
     "operand #0 ('flights') must be a product in flight"),
    ("nv_tileas.alloc_tensor", "", "", TMEM.replace("], #builtin.int<64>", "], #builtin.int<32>"),
     "rows of 32 don't make an accumulator of 64x16"),
    ("nv_tileas.alloc_tensor", "", "", TMEM.replace("<16>", "<1024>"), "tensor memory has 512 columns, not 1024"),
    (f"""%acc = "nv_tileas.alloc_tensor"() : () -> {TMEM}
"nv_tileas.store_tmem"(%f, %acc) : (tensor<16x16xf32>, {TMEM}) -> () // here""", "nv_tileas.store_tmem", "", "",
     "moves 'tensor<16x16xf32>' where"),
    (f"""%acc = "nv_tileas.alloc_tensor"() : () -> {TMEM}
"nv_tileas.scale_tmem"(%f, %acc) : (tensor<16x16xf32>, {TMEM}) -> () // here""", "nv_tileas.scale_tmem", "", "",
     "moves 'tensor<16x16xf32>' where"),
    (f"""%acc = "nv_tileas.alloc_tensor"() : () -> {TMEM}
%many = "arith.constant"() <{{value = 0.0 : f32}}> : () -> tensor<64x16xf32>
"nv_tileas.add_tmem"(%many, %acc, %acc) : (tensor<64x16xf32>, {TMEM}, {TMEM}) -> () // here""",
     "nv_tileas.add_tmem", "", "", "adds '"),
    (f"""%acc = "nv_tileas.alloc_tensor"() : () -> {TMEM}
%nth = "nv_tileas.tmem_stage"(%acc, %n) : ({TMEM}, i32) -> {TMEM.replace("f32", "i32")} // here""", "nv_tileas.tmem_stage", "", "",
     "isn't one of several in"),
    (f"""%map = "nv_tileas.build_tma_desc"(%f) <{{recipe = "f32 p0"}}> : (tensor<16x16xf32>) -> {MAP} // here""",
     "nv_tileas.build_tma_desc", "", "", "operand #0 ('sources') must be"),
    *((f"""%acc = "nv_tileas.alloc_tensor"() : () -> {TMEM}
"nv_tileas.tensor_dot"(%buffer, %buffer, %acc, %b) <{{{segments(1, 1, 1, 1, 0, 0, 0)}, atom = "{atom}"}}> : """
       f"({BUFFER}, {BUFFER}, {TMEM}, i1) -> () // here",
       "nv_tileas.tensor_dot", "", "", message)
      for atom, message in (("mma.m16n8k16.row.col.f32.f32", "must have the name of a tcgen05.mma as its atom"),
                            ("sm100.mma.f16.m64n12k16.f32.f16.f16.cg1.ss", "no instruction is called"))),
    (f"""%acc = "nv_tileas.alloc_tensor"() : () -> {TMEM}
%got = "nv_tileas.load_tmem"(%acc) : ({TMEM}) -> tensor<64x8xf32> // here""", "nv_tileas.load_tmem", "", "",
     "moves 'tensor<64x8xf32>' where"),
    (f"""%acc = "nv_tileas.alloc_tensor"() : () -> {TMEM}
%got = "nv_tileas.load_tmem"(%acc) <{{quads, first = {ints(0)[1:-1]}}}> : ({TMEM}) -> tensor<64x16xf32> // here""",
     "nv_tileas.load_tmem", "", "", "threads have no quads of"),
    ("nv_tileas.tmem_alloc", "", f"columns = {ints(48)[1:-1]}, offset = {ints(0)[1:-1]}", "",
     "attribute 'columns' must be a power of two"),
    ("nv_tileas.tmem_free", "", f"columns = {ints(0)[1:-1]}", "", "attribute 'columns' must be a power of two"),
    ("nv_tileas.tmem_base", "%n", f"offset = {ints(0)[1:-1]}", "", "op expected 0 operands, but found 1"),
    ("nv_tileas.consumer_release", "%pipe", "by_dots", "", "products have no part in a pipe of kind 'group'"),
    ("nv_tileas.consumer_release", "%pipe", "with_dots", "", "products have no part in a pipe of kind 'group'"),
    ("nv_tileas.consumer_release", "%pipe", "by_dots, with_dots", "",
     "'by_dots' says that products alone read the stage, 'with_dots' that threads do, too"),
    ("nv_tileas.consumer_wait", "%pipe, %buffer", f"pending = {ints(0)[1:-1]}", "i32",
     "a pipe of kind 'group' tells of no products"),
    ("nv_tileas.splat", "%n", "", "tensor<8xi32, #nv_tileas.layout<shape = [16], reg = [], lane = [[1], [2], [4], [8], [0]], "
                                  "warp = []>>", "the layout is of another shape"),
    ("nv_tileas.splat", "%n", "", "tensor<8xi32, #nv_tileas.layout<shape = [8], reg = [], lane = [[1], [2], [0], [0], [0]], "
                                  "warp = []>>", "the layout doesn't hold every element"),
    ("nv_tileas.splat", "%n", "", "tensor<8xi32, #nv_tileas.layout<shape = [8], reg = [], lane = [[1], [2], [4], [0], [0]], "
                                  "warp = [[0]]>>", "has a layout of 2 warps in a block of 1"),
    ("""%a = "nv_tileas.splat"(%n) : (i32) -> tensor<2xi32> // here
%c = "nv_tileas.splat"(%n) : (i32) -> tensor<2xi32, #nv_tileas.layout<shape = [2], reg = [], lane = [[1], [0], [0], [0], [0]], """
     """warp = []>>""", "nv_tileas.splat", "", "", "has a tensor without a layout ('tensor<2xi32>'), though others have one"),
    ("nv_tileaa.splat", "%n", "", "tensor<8xi32>", "has no place in 'nv_tileas.func'"),
]

# --- llvm -------------------------------------------------------------------------------------------------------------

LLVM: list[Row] = [
    *((f"llvm.{m}", "%n, %m", "", "i32", "'lhs' and 'rhs' must have the same type, but have 'i32' and 'i64'")
      for m in "add sub mul udiv sdiv urem srem and or xor shl lshr ashr".split()),
    *((f"llvm.{m}", "%n, %n", "", "i32", "operand #0 ('lhs') must be a float or a vector of such, but got 'i32'")
      for m in "fadd fsub fmul fdiv frem".split()),
    *((f"llvm.{m}", "%m", "", "i32", "must widen, but goes from 'i64' to 'i32'") for m in ("zext", "sext")),
    ("llvm.fpext", "%d", "", "f32", "must widen, but goes from 'f64' to 'f32'"),
    ("llvm.trunc", "%n", "", "i64", "must narrow, but goes from 'i32' to 'i64'"),
    ("llvm.fptrunc", "%x", "", "f64", "must narrow, but goes from 'f32' to 'f64'"),
    *((f"llvm.{m}", "%n", "", "i32", "operand #0 ('source') must be a float") for m in ("fptosi", "fptoui")),
    *((f"llvm.{m}", "%n", "", "i32", "result #0 ('result') must be a float") for m in ("sitofp", "uitofp")),
    ("llvm.sitofp", "%v", "", "vector<2xf32>", "must have as many elements on both sides"),
    ("llvm.ptrtoint", "%n", "", "i64", "operand #0 ('source') must be a pointer"),
    ("llvm.inttoptr", "%m", "", "i64", "result #0 ('result') must be a pointer"),
    ("llvm.bitcast", "%n", "", "f64", "must keep the number of bits"),
    ("llvm.bitcast", "%p", "", "i64", "must keep the number of bits"),
    ("llvm.addrspacecast", "%p", "", "!llvm.ptr<1>", "must change the address space"),
    ("llvm.add", "%n, %n", 'flags = "fast"', "i32", "has no flag 'fast'"),
    ("llvm.fadd", "%x, %x", 'flags = "nsw"', "f32", "has no flag 'nsw'"),
    ("llvm.add", "%v, %v2", "", "vector<4xi32>", "'lhs' and 'rhs' must have the same type"),
    ("llvm.freeze", "%n", "", "i64", "must have the same type, but have 'i32' and 'i64'"),
    ("llvm.fneg", "%n", "", "i32", "operand #0 ('source') must be a float"),
    ("llvm.icmp", "%n, %n", 'predicate = "lt"', "i1", "attribute 'predicate' must be one of eq, ne"),
    ("llvm.icmp", "%v, %v", 'predicate = "eq"', "i1", "must have as many elements on both sides"),
    ("llvm.icmp", "%x, %x", 'predicate = "eq"', "i1", "compares integers or pointers, but got 'f32'"),
    ("llvm.fcmp", "%x, %x", 'predicate = "lt"', "i1", "attribute 'predicate' must be one of oeq"),
    ("llvm.fcmp", "%w, %w", 'predicate = "olt"', "i1", "must have as many elements on both sides"),
    ("llvm.select", "%vb, %n, %n", "", "i32", "the condition must be an i1 or of as many elements as the result"),
    ("llvm.select", "%b, %n, %m", "", "i32", "'true_value' and 'false_value' must have the same type"),
    ("llvm.getelementptr", "%p, %m", "elem_type = i8", "!llvm.ptr<3>", "must keep the address space"),
    ("llvm.getelementptr", "%p, %l", "elem_type = i8", "!llvm.ptr<1>", "don't make '!llvm.ptr<1>'"),
    ("llvm.getelementptr", "%p, %m", "elem_type = tensor<4xi8>", "!llvm.ptr<1>", "attribute 'elem_type' must be"),
    ("llvm.alloca", "", f"count = {ints(-1)[1:-1]}, elem_type = i64, alignment = {ints(8)[1:-1]}", "!llvm.ptr<0>",
     "attribute 'count' must be a number of at least 0"),
    ("llvm.alloca", "", f"count = {ints(1)[1:-1]}, elem_type = i64, alignment = {ints(3)[1:-1]}", "!llvm.ptr<0>",
     "attribute 'alignment' must be a power of two"),
    ("llvm.load", "%n", f"alignment = {ints(4)[1:-1]}", "i32", "operand #0 ('ptr') must be a pointer"),
    ("llvm.load", "%p", f'alignment = {ints(4)[1:-1]}, flags = "atomic"', "i32", "attribute 'flags' must be one of invariant"),
    ("llvm.store", "%n, %n", f"alignment = {ints(4)[1:-1]}", "", "operand #1 ('ptr') must be a pointer"),
    ("llvm.store", "%n, %p", "", "", "requires attribute 'alignment'"),
    ("llvm.extractelement", "%v, %n", "", "i64", "result must be 'i32', but is 'i64'"),
    ("llvm.extractelement", "%v, %x", "", "i32", "operand #1 ('index') must be an integer"),
    ("llvm.insertelement", "%m, %v, %n", "", "vector<4xi32>", "the value must be 'i32', but is 'i64'"),
    ("llvm.insertelement", "%n, %v, %n", "", "vector<2xi32>", "'vector' and 'result' must have the same type"),
    ("llvm.shufflevector", "%v, %v", f"mask = {ints(0, 8)}", "vector<2xi32>", "mask names element 8 of 8"),
    ("llvm.shufflevector", "%v, %v", f"mask = {ints(0, 1)}", "vector<4xi32>", "result must be 2 of 'i32'"),
    ("llvm.extractvalue", "%n", f"position = {ints(0)[1:-1]}", "i32", "operand #0 ('container') must be a struct of values"),
    ("""%c = "llvm.call"() <{callee = "pair"}> : () -> !llvm.struct<[i32, i1]>
%r = "llvm.extractvalue"(%c) <{position = #builtin.int<2>}> : (!llvm.struct<[i32, i1]>) -> i32 // here""",
     "llvm.extractvalue", "", "", "position 2 must be one of 2 members"),
    ("""%c = "llvm.call"() <{callee = "pair"}> : () -> !llvm.struct<[i32, i1]>
%r = "llvm.extractvalue"(%c) <{position = #builtin.int<1>}> : (!llvm.struct<[i32, i1]>) -> i32 // here""",
     "llvm.extractvalue", "", "", "result must be 'i1', but is 'i32'"),
    ("llvm.call", "%n", "", "i32", "requires attribute 'callee'"),
    ("llvm.call", "%n", 'callee = ""', "i32", "attribute 'callee' must be a name that is not empty"),
    ("llvm.call", "%n", 'callee = "f", fastmath = "quick"', "i32", "has no flag 'quick'"),
    ("llvm.inline_asm", "%n", 'asm = "mov $0, $1;", constraints = "=r,r,r"', "i32", "constraints name 2 operands, but there are 1"),
    ("llvm.inline_asm", "%n", 'asm = "mov $0, $1;", constraints = "=r,=r,r"', "i32", "constraints name 2 results, but there are 1"),
    ("llvm.cmpxchg", "%p, %n, %n", f'success = "monotonic", failure = "monotonic", syncscope = "", alignment = {ints(4)[1:-1]}',
     "!llvm.struct<[i32, i32]>", "result must hold 'i32' and 'i1'"),
    ("llvm.cmpxchg", "%p, %n, %n", f'success = "monotonic", failure = "release", syncscope = "", alignment = {ints(4)[1:-1]}',
     "!llvm.struct<[i32, i1]>", "can't be ordered 'monotonic' and 'release'"),
    ("llvm.fence", "", 'ordering = "monotonic", syncscope = ""', "", "can't be ordered 'monotonic'"),
    ("llvm.mlir.constant", "", f"bits = {ints(256)[1:-1]}", "i8", "bits 256 don't fit in 'i8'"),
    ("llvm.mlir.constant", "", f"bits = {ints(8)[1:-1]}", "!llvm.ptr<1>", "a constant pointer must be null"),
    ("llvm.mlir.constant", "", f"bits = {ints(-1)[1:-1]}", "i8", "attribute 'bits' must be a number of at least 0"),
    ("llvm.mlir.poison", "", "", "!llvm.void", "result #0 ('result') must be an integer, a float, a pointer"),
    ("llvm.mlir.addressof", "", 'symbol = "s"', "i64", "result #0 ('result') must be a pointer"),
    ('"llvm.br"(%n) [^bb1] : (i32) -> () // here\n^bb1(%a: i64):', "llvm.br", "", "", "the block takes (i64), but gets (i32)"),
    ('"llvm.br"() : () -> () // here\n^bb1:', "llvm.br", "", "", "must have 1 successors, but has 0"),
    (f'"llvm.cond_br"(%n) [^bb1, ^bb1] <{{{segments(1, 0, 0)}}}> : (i32) -> () // here\n^bb1:', "llvm.cond_br", "", "",
     "operand #0 ('condition') must be an i1"),
    (f'"llvm.cond_br"(%b, %n) [^bb1, ^bb1] <{{{segments(1, 1, 0)}}}> : (i1, i32) -> () // here\n^bb1(%a: i32):', "llvm.cond_br", "",
     "", "the block takes (i32), but gets ()"),
    ('"llvm.return"(%n) : (i32) -> () // here', "llvm.return", "", "", "op expected 0 operands, but found 1"),
    ('"llvm.unreachable"() : () -> () // here', "llvm.unreachable", "", "", "must be the last op of its block"),
    (""""llvm.br"() [^bb2] : () -> ()
^bb1:
%z = "llvm.add"(%n, %n) : (i32, i32) -> i32
"llvm.br"() [^bb2] : () -> ()
^bb2:
%r = "llvm.add"(%z, %n) : (i32, i32) -> i32 // here""", "llvm.add", "", "", "operand #0 does not dominate this use"),
    ("arith.addi", "%n, %n", "", "i32", "has no place in 'llvm.func'"),
    ("nvvm.inst", "%n", 'instruction = "no.such"', "i32", "knows no instruction"),
    ("nvvm.inst", "%n", "", "i32", "requires attribute 'instruction'"),
]

# --- functions, globals, modules --------------------------------------------------------------------------------------

GLOBAL = 'sym_name = "g", type = tensor<2xi32>, value = #nv_tileaa.dense<"0100000002000000", #builtin.int<4>>'
MODULES: list[tuple[str, str, str]] = [
    *((f'"{dialect}.func"() <{{{warps}}}> ({{ // here\n"{dialect}.return"() : () -> ()\n}}) : () -> ()', f"{dialect}.func",
       "requires attribute 'sym_name'") for dialect, warps in (("nv_tileaa", ""), ("nv_tileas", "num_warps = #builtin.int<1>"))),
    ('"nv_tileas.func"() <{sym_name = "k", num_warps = #builtin.int<3>}> ({ // here\n"nv_tileas.return"() : () -> ()\n'
     '}) : () -> ()', "nv_tileas.func", "attribute 'num_warps' must be a power of two"),
    ('"nv_tileaa.func"() <{sym_name = "k"}> ({}) : () -> () // here', "nv_tileaa.func", "must have one block, but has 0"),
    ('"nv_tileaa.func"() <{sym_name = "k"}> ({ // here\n^bb0(%v: !nv_tileaa.memref<4xf32, strides = [1]>):\n'
     '"nv_tileaa.return"() : () -> ()\n}) : () -> ()', "nv_tileaa.func", "parameter 0 must be a tile or a memory token"),
    ('"nv_tileaa.func"() <{sym_name = "k"}> ({ // here\n%c = "arith.constant"() <{value = 1 : i32}> : () -> i32\n}) : () -> ()',
     "nv_tileaa.func", "must end in one of return, but ends in 'arith.constant'"),
    (f'"nv_tileaa.global"() <{{{GLOBAL.replace("tensor<2xi32>", "i32")}}}> : () -> () // here', "nv_tileaa.global",
     "attribute 'type' must be a tensor of one dimension"),
    (f'"nv_tileaa.global"() <{{{GLOBAL}}}> : () -> ()\n"nv_tileaa.global"() <{{{GLOBAL}}}> : () -> () // here', "nv_tileaa.global",
     "redefinition of symbol named 'g'"),
    (f'"nv_tileas.global"() <{{{GLOBAL.replace("2xi32", "4xi32")}}}> : () -> () // here', "nv_tileas.global",
     "the constant must have 16 bytes in hexadecimal"),
    ('%c = "arith.constant"() <{value = 1 : i32}> : () -> i32 // here', "arith.constant", "must be inside a function"),
    ('"llvm.func"() <{sym_name = "k", arg_attrs = ["align 1"]}> ({ // here\n"llvm.return"() : () -> ()\n}) : () -> ()',
     "llvm.func", "must have attributes of 0 parameters, but has 1"),
    *((f'"llvm.func"() <{{sym_name = "k", maps = ["{recipe}"]}}> ({{ // here\n^bb0(%p: !llvm.ptr<1>, %n: i32{more}):\n'
       '"llvm.return"() : () -> ()\n}) : () -> ()', "llvm.func", why) for recipe, more, why in (
           ("u8 p0 [u32(p1)] [] box [16]", "", "must end with 1 parameters '!llvm.ptr<0>' for its tensor maps"),
           ("u8 p0 [u32(p2)] [] box [16]", ", %m: !llvm.ptr<0>", "has no ordinary parameter 2 of 32 bits"),
           ("u8 p0 [p1] [] box [16]", ", %m: !llvm.ptr<0>", "has no ordinary parameter 1 of 64 bits"),
           ("u8 p0 [] box", ", %m: !llvm.ptr<0>", "is no recipe of a tensor map: '[' expected, not box"))),
    ('"llvm.func"() <{sym_name = "k"}> ({}) : () -> () // here', "llvm.func", "region #0 ('body') must have a block"),
    ('"llvm.mlir.global"() <{sym_name = "g", size = #builtin.int<2>, alignment = #builtin.int<4>, space = #builtin.int<1>, '
     'init = "00", linkage = "internal"}> : () -> () // here', "llvm.mlir.global", "attribute 'init' must be 2 bytes"),
    ('"llvm.mlir.global"() <{sym_name = "g", size = #builtin.int<2>, alignment = #builtin.int<4>, space = #builtin.int<9>, '
     'linkage = "internal"}> : () -> () // here', "llvm.mlir.global", "there is no address space 9"),
]
"""Text at the top of a module, its bad op, what must be said."""


# --- programs ---------------------------------------------------------------------------------------------------------

def _body(row: Row, types: Mapping[str, str]) -> tuple[str, str]:
    """The op and its text, the bad op marked."""
    op, operands, attributes, results, _ = row
    if "// here" in op:
        return operands, op
    given = ", ".join(types[name] for name in operands.replace(" ", "").split(",")) if operands else ""
    made = len(re.findall(r"(?:^|, )(?=[!a-z])", re.sub(r"<.*>|\[.*\]", "", results))) if results else 0
    left = ", ".join(f"%r{i}" for i in range(made)) + " = " if made else ""
    return op, f'{left}"{op}"({operands}){f" <{{{attributes}}}>" if attributes else ""} : ({given}) -> ({results}) // here'


def _definition(dialect: str, name: str, t: str) -> tuple[str, str]:
    """(a parameter, the ops that make the value of it), for a value that rows name."""
    short = name[1:]
    if t.startswith("tensor<"):
        element = re.sub(r"tensor<(?:\d+x)+(.*)>", r"\1", t)
        return f"%of_{short}: {element}", f'{name} = "{dialect}.splat"(%of_{short}) : ({element}) -> {t}\n'
    if t == TOKEN:
        return "", f'{name} = "{dialect}.create_mem_token"() : () -> {t}\n'
    if t in (MEMREF, VIEW, GATHER):
        source = name if t == MEMREF else f"%m_{short}"
        made = (f'{source} = "{dialect}.make_memref"(%p_{short}, %n_{short}, %n_{short}) <{{{segments(1, 1, 1)}}}> : '
                f"({PTR}, i32, i32) -> {MEMREF}\n")
        tile = "" if t == MEMREF else f'{name} = "{dialect}.block_tile"({source}) : ({MEMREF}) -> {t}\n'
        return f"%p_{short}: {PTR}, %n_{short}: i32", made + tile
    if t in (BUFFER, HALF, SLOT):
        return "", f'{name} = "{dialect}.alloc_tensor"() : () -> {t}\n'
    if t == PIPE:
        return "", f'{name} = "{dialect}.create_pipeline"() : () -> {t}\n'
    return f"{name}: {t}", ""


def _function(row: Row, dialect: str, types: Mapping[str, str], attributes: str = "") -> Program:
    """A function of a dialect that holds what the row names and then its op."""
    op, body = _body(row, types)
    used = [name for name in types if re.search(rf"{re.escape(name)}\b", row[0] + " " + row[1])]
    if dialect == "llvm":
        parts = [(f"{name}: {types[name]}", "") for name in used]
    else:
        parts = [_definition(dialect, name, types[name]) for name in used]
    parameters = ", ".join(parameter for parameter, _ in parts if parameter)
    text = (f'"{dialect}.func"() <{{sym_name = "k"{attributes}}}> ({{\n^bb0({parameters}):\n{"".join(made for _, made in parts)}'
            f'{body}\n"{dialect}.return"() : () -> ()\n}}) : () -> ()')
    return _module(op, text, row[-1])


def _module(op: str, text: str, message: str) -> Program:
    text = f'"builtin.module"() ({{\n{text}\n}}) : () -> ()\n'
    line = next(i for i, line in enumerate(text.split("\n"), 1) if line.endswith("// here"))
    return Program(op, text, line, message)


def _placed(row: Row) -> Row:
    """A row of nv_tileaa for nv_tileas; types and attributes keep their names."""
    op, operands, attributes, results, message = row
    ops = re.compile(r'(?<!!)(?<!#)nv_tileaa\.(?=[a-z_]+)')
    return ops.sub("nv_tileas.", op), ops.sub("nv_tileas.", operands), attributes, results, message


def programs() -> list[Program]:
    """All of them."""
    warps = ", num_warps = #builtin.int<1>"
    shared = {**TILE_VALUES, "%buffer": BUFFER, "%half": HALF, "%slot": SLOT, "%pipe": PIPE}
    return [*(_function(row, "nv_tileaa", TILE_VALUES) for row in (*ARITH, *TILE)),
            *(_function(_placed(row), "nv_tileas", TILE_VALUES, warps) for row in TILE),
            *(_function(row, "nv_tileas", shared, warps) for row in PLACED),
            *(_function(row, "llvm", LLVM_VALUES) for row in LLVM),
            *(_module(op, text, message) for text, op, message in MODULES)]
