"""Invalid programs are refused with the public dialect's words, at the line of the op."""
from __future__ import annotations

import pytest

from tileiras.bytecode import read, write
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.dialects.cuda_tile.verify import VERIFIERS, verify_module, verify_program
from tileiras.dialects.cuda_tile.verify_error import InvalidOp
from tileiras.errors import BytecodeError
from tileiras.tools.diagnostics import Complaint, check, complaints

ARGUMENTS = "%i: tile<i32>, %l: tile<i64>, %b: tile<i1>, %f: tile<f32>, %d: tile<f64>, %p: tile<ptr<f32>>"

PREAMBLE = """
    %v = constant <i32: 1> : tile<8xi32>
    %m = constant <f32: 1.0> : tile<4x8xf32>
    %h = constant <f16: 1.0> : tile<8xf16>
    %t = make_token : token
    %w = make_tensor_view %p, shape = [%i, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf32, strides=[64,1]>
    %q = make_partition_view %w : partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[64,1]>>
    %r = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %s = broadcast %r : tile<1xptr<f32>> -> tile<8xptr<f32>>
    %x = constant <f32: 0.0> : tile<8xf32>
"""

INVALID = [
    # Kinds of operands and results
    ('"cuda_tile.addf"(%v, %v) <{rounding_mode = #cuda_tile.rounding<zero>}> : (tile<8xi32>, tile<8xi32>) -> tile<8xi32>',
     "'cuda_tile.addf' op operand #0 must be tile of f16 or bf16 or f32 or f64 values, but got '!cuda_tile.tile<8xi32>'"),
    ('"cuda_tile.addi"(%f, %f) <{overflow = #cuda_tile.overflow<none>}> : (tile<f32>, tile<f32>) -> tile<f32>',
     "operand #0 must be tile of i1 or i8 or i16 or i32 or i64 values"),
    ('"cuda_tile.join_tokens"(%t, %v) : (token, tile<8xi32>) -> token',
     "operand #1 must be variadic of cuda tile token type, but got '!cuda_tile.tile<8xi32>'"),
    ('"cuda_tile.iota"() : () -> tile<8xf32>', "result #0 must be tile of i1 or i8 or i16 or i32 or i64 values"),
    ('"cuda_tile.addi"(%i, %i) : (tile<i32>, tile<i32>) -> tile<i32>', "requires attribute 'overflow'"),
    # What must agree
    ('"cuda_tile.mulf"(%f, %d) <{rounding_mode = #cuda_tile.rounding<zero>}> : (tile<f32>, tile<f64>) -> tile<f32>',
     "failed to verify that all of {lhs, rhs, result} have same type"),
    ('"cuda_tile.cmpi"(%v, %v) <{comparison_predicate = #cuda_tile.comparison_predicate<equal>, signedness = '
     '#cuda_tile.signedness<signed>}> : (tile<8xi32>, tile<8xi32>) -> tile<i1>',
     "failed to verify that Result type has i1 element type and same shape as operands"),
    ("broadcast %v : tile<8xi32> -> tile<8xi64>", "requires the same element type for all operands and results"),
    ("broadcast %v : tile<8xi32> -> tile<8x8xi32>", "all of {source, result} have same rank"),
    ("offset %s, %i : tile<8xptr<f32>>, tile<i32> -> tile<8xptr<f32>>",
     "requires the same shape for all operands and results"),
    # Roundings
    ("addf %d, %d flush_to_zero : tile<f64>",
     "flush_to_zero modifier only supported for f32 data type, but got: 'f64'"),
    ("divf %d, %d rounding<approx> : tile<f64>", "approx modifier only supported for f32 data type, but got: 'f64'"),
    ("sqrt %f rounding<full> : tile<f32>", "expect one of [nearest_even, zero, negative_inf, positive_inf, approx]"),
    ("tanh %f rounding<zero> : tile<f32>", "invalid rounding mode specified, expect one of [approx, full]"),
    ("divi %i, %i unsigned rounding<negative_inf> : tile<i32>",
     "rounding mode 'negative_inf' is not allowed with 'unsigned' flag"),
    ("negi %i overflow<no_unsigned_wrap> : tile<i32>", "'no_unsigned_wrap' overflow flag is not supported"),
    # Conversions
    ("exti %l signed : tile<i64> -> tile<i32>", "extending to smaller or identical integer"),
    ("trunci %i : tile<i32> -> tile<i64>", "truncating to larger or identical integer"),
    ("ftof %f : tile<f32> -> tile<f32>", "converting tiles must not be a no-op"),
    ("ftof %f : tile<f32> -> tile<f8E8M0FNU>", "Only 'zero' and 'positive_inf' are supported"),
    ("bitcast %f : tile<f32> -> tile<i64>", "types must be equal width, cannot convert '!cuda_tile.tile<f32>' of width "
     "32 to type '!cuda_tile.tile<i64>' of width 64"),
    # Shapes
    ("reshape %v : tile<8xi32> -> tile<4xi32>", "expected source tile and result tile to have the same number"),
    ("permute %m [0, 0] : tile<4x8xf32> -> tile<4x4xf32>", "expect permutation elements to be unique"),
    ("permute %m [1, 0] : tile<4x8xf32> -> tile<4x8xf32>", "result shape invalid at index 0, expected: 8, but got: 4"),
    ("cat %v, %v dim = 1 : tile<8xi32>, tile<8xi32> -> tile<16xi32>", "expect dim to be [0, 1), but got: 1"),
    ("cat %v, %v dim = 0 : tile<8xi32>, tile<8xi32> -> tile<8xi32>",
     "invalid concat at position 0, expected: 16 but got: 8"),
    ("extract %v[%i, %i] : tile<8xi32> -> tile<2xi32>", "expected 1 indices, but got 2"),
    ("iota : tile<512xi8>", "the number of elements 512 exceeds the maximum value of element type 'i8'"),
    ("pack %m : tile<4x8xf32> -> tile<4x32xi8>", "expects source and result to be rank-1 tiles"),
    # Products
    ("mmaf %m, %m, %m : tile<4x8xf32>, tile<4x8xf32>, tile<4x8xf32>",
     " shape error: dim 1 of lhs (8) and dim 0 of rhs (4) must match, but got lhs shape (4, 8) and rhs shape (4, 8)"),
    # Assumptions
    ("assume div_by<3>, %i : tile<i32>", "'cuda_tile.div_by' divisor must be a power of 2"),
    ("assume div_by<4>, %f : tile<f32>", "is valid only for tile of integer/pointer or tensor_view values"),
    ("assume same_elements<[9]>, %v : tile<8xi32>",
     "expected 'cuda_tile.same_elements' value 0 to be within 0 and the size of the respective dimension (8)"),
    ("assume bounded<7, 3>, %i : tile<i32>", "expects lower bound to be less than or equal to upper bound"),
    # Memory
    ("load_ptr_tko relaxed %s : tile<8xptr<f32>> -> tile<8xf32>, token", "memory scope is required for relaxed load"),
    ("load_ptr_tko weak device %s : tile<8xptr<f32>> -> tile<8xf32>, token", "weak load must not have memory scope"),
    ("store_ptr_tko acquire device %s, %x : tile<8xptr<f32>>, tile<8xf32> -> token",
     "expect one of: weak, relaxed, or release, but got: acquire"),
    ("load_ptr_tko weak %s : tile<8xptr<f32>> -> tile<8xi32>, token",
     "`source` type is expected a pointer type of `result` type"),
    ("load_view_tko weak %q[%i] : partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[64,1]>>, tile<i32> -> "
     "tile<4x8xf32>, token", "expected 2 index operands (based on view type), got 1"),
    ("load_view_tko weak %q[%i, %i] : partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[64,1]>>, tile<i32> -> "
     "tile<8x4xf32>, token", "expected tile type to be '!cuda_tile.tile<4x8xf32>' (based on view type), got"),
    ("load_view_tko weak %q[%i, %l] : partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[64,1]>>, tile<i32>, "
     "tile<i64> -> tile<4x8xf32>, token", "expected index type 1 to be the same as other index types"),
    ("atomic_rmw_tko relaxed device %s, add, %x : tile<8xptr<f32>>, tile<8xf32> -> tile<8xf32>, token",
     "'add' works only with integers i32 and i64"),
    ("atomic_rmw_tko weak device %s, addf, %x : tile<8xptr<f32>>, tile<8xf32> -> tile<8xf32>, token",
     "memory ordering semantics must be one of: relaxed, acquire, release, acq_rel"),
    ("join_tokens %t : token", "expect two or more tokens"),
    ('print_tko "%d and %d", %i : tile<i32> -> token', "incorrect number of operands: expected 2, found 1"),
    ('print_tko "100%" -> token', "found unterminated format expression"),
    ("get_global @nothing : tile<ptr<f32>>", "'nothing' does not reference a valid global"),
    # Control flow
    ("yield", "expects parent op to be one of 'cuda_tile.if, cuda_tile.reduce, cuda_tile.scan'"),
    ("if %b { break }", "can only be nested within a ancestor chain of 'cuda_tile.loop', 'cuda_tile.if' operations"),
    ("%k = if %b -> (tile<i32>) { yield %i : tile<i32> }", "has non-empty return type, must define else branch"),
    ("if %b { yield %i : tile<i32> }", "does not return a value, but then branch yields '!cuda_tile.tile<i32>'"),
    ("for %k in (%i to %i, step %i) : tile<i32> { continue %i : tile<i32> }",
     "`for` is missing a valid terminator. `continue` op should have operand types that match"),
    ("loop iter_values(%k = %w) : tensor_view<?x64xf32, strides=[64,1]> { break }",
     "loop-carried value 0 is a tensor_view, which is not supported"),
    ("reduce %m dim=2 identities=[0.0 : f32] : tile<4x8xf32> -> tile<4xf32>\n(%k: tile<f32>, %n: tile<f32>) "
     "{ yield %k : tile<f32> }", "dimension (2) is out of bound [0, 2)"),
    ("reduce %v dim=0 identities=[0.0 : f32] : tile<8xi32> -> tile<i32>\n(%k: tile<i32>, %n: tile<i32>) "
     "{ yield %k : tile<i32> }", "expect same type for operand at index: 0 and identity at index: 0"),
    ("reduce %v dim=0 identities=[0 : i32] : tile<8xi32> -> tile<i32>\n(%k: tile<i32>, %n: tile<i32>) "
     "{ %o = make_token : token\n%z = divi %k, %n signed : tile<i32>\nyield %k : tile<i32> }",
     "only pure operations are allowed inside 'cuda_tile.reduce'"),
]


def program(body: str) -> str:
    return f"cuda_tile.module @m {{ entry @f({ARGUMENTS}) {{ {PREAMBLE}\n{body}\nreturn }} }}"


def test_the_preamble_is_valid() -> None:
    verify_module(parse_module(program("")))


@pytest.mark.parametrize("body, message", INVALID, ids=range(len(INVALID)))
def test_invalid_programs_are_refused(body: str, message: str) -> None:
    text = program(body)
    with pytest.raises(InvalidOp) as caught:
        verify_module(parse_module(text, "f.mlir"))
    assert message in caught.value.message


def test_refusals_name_the_line() -> None:
    text = program("\n%z = exti %l signed : tile<i64> -> tile<i32>")
    line = text[:text.index("%z = exti")].count("\n") + 1
    assert complaints(text) == [Complaint(line, "'cuda_tile.exti' op extending to smaller or identical integer")]


def test_bytecode_is_refused_with_exit_code_3() -> None:
    module = read(write(parse_module(program("exti %l signed : tile<i64> -> tile<i32>"), locations=False)))
    with pytest.raises(BytecodeError, match="extending to smaller") as caught:
        verify_program(module)
    assert caught.value.exit_code == 3


def test_bytecode_errors_carry_the_source_location() -> None:
    scope = ('#f = #cuda_tile.di_file<"k.py" in "/src">\n#u = #cuda_tile.di_compile_unit<file = #f>\n'
             '#s = #cuda_tile.di_subprogram<file = #f, line = 1, name = "f", linkageName = "f", compileUnit = #u>\n'
             '#l = #cuda_tile.di_loc<loc("k.py":7:3) in #s>\n')
    body = "entry @f(%l: tile<i64>) {\n %0 = exti %l signed : tile<i64> -> tile<i32> loc(#l)\n return loc(#l) } loc(#l)"
    module = read(write(parse_module(f"{scope}cuda_tile.module @m {{ {body} }}", locations=False)))
    with pytest.raises(BytecodeError) as caught:
        verify_program(module)
    assert caught.value.render() == ('loc("k.py":7:3): error: \'cuda_tile.exti\' op extending to smaller or identical '
                                     "integer")


@pytest.mark.parametrize("text, message", [
    ("global @a <i32: 1> : tile<1xi32>\nglobal @a <i32: 1> : tile<1xi32>", "redefinition of symbol named 'a'"),
    ("global @a <i32: 1> : tile<i32>", "type must have rank 1"),
    ("entry @f(%a: tile<2xi32>) {}", "entry op must have scalar types (rank 0 !cuda_tile.tile)"),
    ("entry @f() -> tile<i32> {}", "entry op must not return values"),
    ("global @a <i32: 1> : tile<1xi32>\nentry @f() { %0 = get_global @a : tile<ptr<f32>> }",
     "pointee type of result type '!cuda_tile.ptr<f32>' does not match type 'i32' of the global @a"),
])
def test_invalid_modules_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidOp) as caught:
        verify_module(parse_module(text))
    assert message in caught.value.message


def test_xdsl_verification_runs_the_same_checks() -> None:
    module = parse_module(program("exti %l signed : tile<i64> -> tile<i32>"))
    bad = next(op for op in module.walk() if op.name == "cuda_tile.exti")
    with pytest.raises(InvalidOp):
        VERIFIERS[bad.name](bad)


def test_expected_errors_are_compared_by_line_and_text() -> None:
    text = ("cuda_tile.module @m {\n entry @f(%l: tile<i64>) {\n  // expected-error @below {{smaller or identical}}\n"
            "  exti %l signed : tile<i64> -> tile<i32>\n }\n}\n// -----\n// expected-error @+1 {{is unknown}}\nbogus\n")
    assert check(text) == []
    assert len(check(text.replace("smaller or", "larger or"))) == 2
    assert len(check(text.replace("@below", "@above"))) == 2
