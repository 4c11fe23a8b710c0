"""Programs that break one rule each, and words of the diagnostic: what `test_verify` and `test_refusals` go through."""
from __future__ import annotations

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
    %on = constant <i1: true> : tile<8xi1>
    %e8 = constant <i8: 1> : tile<8xi8>
    %j4 = constant <f32: 1.0> : tile<4x4xf32>
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
    ("exp %f rounding<zero> : tile<f32>", "invalid rounding mode specified, expect one of [approx, full]"),
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


_TV = "tensor_view<?x64xf32, strides=[64,1]>"
_GSV = f"gather_scatter_view<tile=(8x8), {_TV}, sparse_dim=0>"
_GATHER = f"%g = make_gather_scatter_view %w : {_GSV}\n"
_WEAK = "memory_ordering_semantics = #cuda_tile.memory_ordering_semantics<weak>"
_RED = "%z = atomic_red_view_tko {} : {}, tile<i32>, {} -> token"
_BODY_I = "(%k: tile<i32>, %n: tile<i32>)"


def _reduce(types: str, yielded: str, result: str = "tile<i32>") -> str:
    """A reduction of %v in generic form, whose body has arguments of `types`."""
    names = ", ".join(f"%a{i}: {t}" for i, t in enumerate(types.split()))
    return (f'%z = "cuda_tile.reduce"(%v) <{{dim = 0 : i32, identities = [0 : i32]}}> ({{ ^bb0({names}):\n'
            f'"cuda_tile.yield"({yielded}) : ({types.split()[0]}) -> () }}) : (tile<8xi32>) -> {result}')


INVALID += [
    # What must agree
    ("%z = select %b, %v, %v : tile<i1>, tile<8xi32>", "all of {cond, val_if_true, val_if_false, result} have same shape"),
    ('%z = "cuda_tile.mmai"(%e8, %v, %v) <{signedness_lhs = #cuda_tile.signedness<signed>, signedness_rhs = '
     '#cuda_tile.signedness<signed>}> : (tile<8xi8>, tile<8xi32>, tile<8xi32>) -> tile<8xi32>',
     "operand #1 must be mmai operand tile type of i8 values"),
    ('%y, %z = "cuda_tile.reduce"(%v, %m) <{dim = 0 : i32, identities = [0 : i32, 0.0 : f32]}> ({ ^bb0(%a0: tile<i32>, '
     '%a1: tile<i32>, %a2: tile<f32>, %a3: tile<f32>):\n yield %a0, %a2 : tile<i32>, tile<f32> }) : (tile<8xi32>, '
     'tile<4x8xf32>) -> (tile<i32>, tile<8xf32>)', "requires the same shape for all operands"),
    ('%z = "cuda_tile.for"(%i, %i, %i, %i) ({ ^bb0(%a: tile<i32>, %c: tile<i32>):\n continue %c : tile<i32> }) : '
     '(tile<i32>, tile<i32>, tile<i32>, tile<i32>) -> tile<i64>', "all of {initValues, resultValues} have same type"),
    ("%y, %z = load_ptr_tko weak %s, %b : tile<8xptr<f32>>, tile<i1> -> tile<8xf32>, token",
     "shape of 'mask' must match the shape of 'source'"),
    ("%y, %z = load_ptr_tko weak %s, %on, %f : tile<8xptr<f32>>, tile<8xi1>, tile<f32> -> tile<8xf32>, token",
     "type of 'paddingValue' must match the type of 'result'"),
    ("%z = store_ptr_tko weak %s, %v : tile<8xptr<f32>>, tile<8xi32> -> token",
     "`destination` type is expected a pointer type of `value` type"),
    ("%z = store_ptr_tko weak %s, %x, %b : tile<8xptr<f32>>, tile<8xf32>, tile<i1> -> token",
     "shape of 'destination' must match the shape of 'mask'"),
    # Conversions
    ('%z = "cuda_tile.ftoi"(%f) <{rounding_mode = #cuda_tile.rounding<zero>, signedness = '
     '#cuda_tile.signedness<signed>}> : (tile<f32>) -> tile<i32>', "Only 'nearest_int_to_zero' is supported"),
    ("%z = itof %i signed : tile<i32> -> tile<f8E8M0FNU>", "integer to f8E8M0FNU conversion is not supported"),
    ('%z = "cuda_tile.itof"(%i) <{rounding_mode = #cuda_tile.rounding<zero>, signedness = '
     '#cuda_tile.signedness<signed>}> : (tile<i32>) -> tile<f32>', "Only 'nearest_even' is supported"),
    # Shapes
    ("%z = broadcast %v : tile<8xi32> -> tile<16xi32>", "shape of source tile to be compatible"),
    ("%z = cat %m, %j4 dim = 0 : tile<4x8xf32>, tile<4x4xf32> -> tile<8x8xf32>", "shapes to match at non-concat position 1"),
    ("%z = extract %v[%i] : tile<8xi32> -> tile<4x2xi32>", "all of {source, result} have same rank"),
    ("%z = extract %v[%i] : tile<8xi32> -> tile<4xf32>", "source and result element type do not match"),
    ("%z = extract %v[%i] : tile<8xi32> -> tile<16xi32>", "must be evenly divisible by result dimension 0 size (16)"),
    ("%z = iota : tile<2x2xi32>", "expects result type to be 1-d tile"),
    ("%z = permute %v [0] : tile<8xi32> -> tile<8xi32>", "expects at least rank 2, but got: 1"),
    ("%z = permute %m [0, 1, 2] : tile<4x8xf32> -> tile<4x8xf32>", "expect permutation size (3) to equal the rank"),
    ("%z = permute %m [0, 2] : tile<4x8xf32> -> tile<4x8xf32>", "permutation element at index 1 (2) is out of bound"),
    ("%z = pack %e8 : tile<8xi8> -> tile<8xi8>", "expects source and result to have different element type widths"),
    ("%z = pack %h : tile<8xf16> -> tile<8xi8>", "expects source and result to have the same size in bytes"),
    # Products
    ("%z = mmaf %x, %x, %x : tile<8xf32>, tile<8xf32>, tile<8xf32>", "operands must be 2D or 3D tiles"),
    ("%y = constant <bf16: 1.0> : tile<8x8xbf16>\n%y1 = constant <f16: 1.0> : tile<8x8xf16>\n"
     "%z = mmaf %y, %y, %y1 : tile<8x8xbf16>, tile<8x8xbf16>, tile<8x8xf16>",
     "Input type 'bf16' expects accumulator/result type to be one of {'f32'}, but got 'f16'"),
    # Assumptions
    ("%z = assume div_by<4611686018427387905>, %v : tile<8xi32>", "divisor must be a power of 2"),
    ("%z = assume div_by<9223372036854775808>, %v : tile<8xi32>", "'cuda_tile.div_by' divisor is too large"),
    (f"%z = assume div_by<4, every 2 along 0>, %w : {_TV}", "cannot be used if the constrained value is a tensor_view"),
    ("%z = assume div_by<4>, %t : token", "is valid only for tile of integer/pointer or tensor_view values"),
    ("%z = assume div_by<4, every 2 along 0>, %i : tile<i32>", "cannot be used if the constrained value is a 0D tile"),
    ("%z = assume div_by<4, every 2 along 1>, %v : tile<8xi32>", "every_dim (1) must be >= 0 and < tile rank (1)"),
    ("%z = assume div_by<4, every 16 along 0>, %v : tile<8xi32>", "every_dim to be within 0 and the size"),
    ("%z = assume same_elements<[2]>, %x : tile<8xf32>", "valid only for tile of integer/pointer values"),
    ("%z = assume same_elements<[2, 2]>, %v : tile<8xi32>", "to match rank of constrained tile (1)"),
    ("%z = assume bounded<0, 4>, %x : tile<8xf32>", "valid only for tile of integer values"),
    ("%z = assume bounded<?, 2147483648>, %v : tile<8xi32>", "expects upper bound to be within [-2147483648, 2147483647]"),
    # Reductions
    ('%z = "cuda_tile.reduce"(%v) <{dim = 0 : i32, identities = [0 : i32, 1 : i32]}> ({ ^bb0(%a0: tile<i32>, '
     '%a1: tile<i32>):\n yield %a0 : tile<i32> }) : (tile<8xi32>) -> tile<i32>',
     "expect identities to match the number of operands but got: 1 operands and 2 identities"),
    ('%z = "cuda_tile.scan"(%v) <{dim = 0 : i32, reverse = false, identities = [0 : i32]}> ({ ^bb0(%a0: tile<i32>, '
     '%a1: tile<i32>):\n yield %a0 : tile<i32> }) : (tile<8xi32>) -> tile<4xi32>',
     "expect same type for operand at index: 0 and result at index: 0"),
    (_reduce("tile<i32> tile<i32>", "%a0", "tile<i64>"), "are incompatible with return type(s) of operation"),
    (_reduce("tile<i32> tile<i32> tile<i32>", "%a0"), "expect 2 block arguments but got: 3"),
    (_reduce("tile<8xi32> tile<8xi32>", "%a0"), "expect 0-rank tile type at index: 0"),
    (_reduce("tile<i32> tile<i64>", "%a0"), "expect same element type for block argument at index: 0 and 1"),
    (_reduce("tile<i64> tile<i64>", "%a0"), "expect same type for operand at index: 0 and block argument at index: 0"),
    ('%z = "cuda_tile.reduce"(%v) <{dim = 0 : i32, identities = [0 : i32]}> ({ ^bb0(%a0: tile<i32>, %a1: tile<i32>):\n '
     'yield }) : (tile<8xi32>) -> tile<i32>', "expect number of terminators operands (0) to match number of operands (1)"),
    ('%z = "cuda_tile.reduce"(%v) <{dim = 0 : i32, identities = [0 : i32]}> ({ ^bb0(%a0: tile<i32>, %a1: tile<i32>):\n '
     '%a2 = make_token : token\nyield %a2 : token }) : (tile<8xi32>) -> tile<i32>',
     "expected TileType for operand and terminator types"),
    ('%z = "cuda_tile.reduce"(%v) <{dim = 0 : i32, identities = [0 : i32]}> ({ ^bb0(%a0: tile<i32>, %a1: tile<i32>):\n '
     '%a2 = constant <i64: 0> : tile<i64>\nyield %a2 : tile<i64> }) : (tile<8xi32>) -> tile<i32>',
     "expect same type for operand at index: 0 and terminator argument at index: 0"),
    # Views
    (f"%y, %z = load_view_tko weak %q[%v, %v] : partition_view<tile=(4x8), {_TV}>, tile<8xi32> -> tile<4x8xf32>, token",
     "expected index type to be a scalar tile"),
    (_GATHER + f"%y, %z = load_view_tko weak %g[%i, %i] : {_GSV}, tile<i32>, tile<i32> -> tile<8x8xf32>, token",
     "expected index at sparse_dim position 0 to be a 1D tensor"),
    (_GATHER + "%u = constant <i32: 0> : tile<4xi32>\n"
     f"%y, %z = load_view_tko weak %g[%u, %i] : {_GSV}, tile<4xi32>, tile<i32> -> tile<8x8xf32>, token",
     "expected gather/scatter index size (4) to match tile shape"),
    (_GATHER + f"%y, %z = load_view_tko weak %g[%v, %v] : {_GSV}, tile<8xi32>, tile<8xi32> -> tile<8x8xf32>, token",
     "expected index 1 to be a scalar tile for GatherScatterView"),
    (f'%y = "cuda_tile.get_index_space_shape"(%q) : (partition_view<tile=(4x8), {_TV}>) -> tile<i32>',
     "expected 2 results due to view index space rank, but got 1"),
    (f'%y = "cuda_tile.get_tensor_shape"(%w) : ({_TV}) -> tile<i32>', "expected 2 results due to tensor rank, but got 1"),
    ('%z = "cuda_tile.make_tensor_view"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (tile<ptr<f32>>) -> '
     f'{_TV}', "expected 1 dynamic shape operands, got 0"),
    ('%z = "cuda_tile.make_tensor_view"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (tile<ptr<f32>>) -> '
     'tensor_view<8xf16, strides=[1]>', "expected pointer to 'f16' to build tensor_view"),
    ('%z = "cuda_tile.make_partition_view"(%w) : (' + _TV + ') -> partition_view<tile=(4), tensor_view<8xf32, '
     'strides=[1]>>', "expected the type of the provided tensor_view value"),
    # Atomics
    ("%y, %z = atomic_rmw_tko relaxed device %s, addf, %v : tile<8xptr<f32>>, tile<8xi32> -> tile<8xi32>, token",
     "to match element type of 'arg'"),
    ("%y = ptr_to_ptr %s : tile<8xptr<f32>> -> tile<8xptr<i32>>\n%y1, %z = atomic_rmw_tko relaxed device %y, addf, %v : "
     "tile<8xptr<i32>>, tile<8xi32> -> tile<8xi32>, token", "'addf' works only with floats"),
    ("%y = ptr_to_ptr %s : tile<8xptr<f32>> -> tile<8xptr<f16>>\n%y1, %z = atomic_rmw_tko relaxed device %y, xchg, %h : "
     "tile<8xptr<f16>>, tile<8xf16> -> tile<8xf16>, token", "works only with integers or float of 32 or 64 bitwidth"),
    ("%y = ptr_to_ptr %s : tile<8xptr<f32>> -> tile<8xptr<f16>>\n%y1, %z = atomic_cas_tko relaxed device %y, %h, %h : "
     "tile<8xptr<f16>>, tile<8xf16> -> tile<8xf16>, token", "expect only float or integer types with 32 or 64 bit"),
    ("%y1, %z = atomic_rmw_tko relaxed device %s, addf, %x, %b : tile<8xptr<f32>>, tile<8xf32>, tile<i1> -> tile<8xf32>, "
     "token", "all of {pointers, arg, mask} have same shape"),
    ("%y1, %z = atomic_cas_tko relaxed device %s, %x, %x, %b : tile<8xptr<f32>>, tile<8xf32>, tile<i1> -> tile<8xf32>, "
     "token", "all of {pointers, val, cmp and mask} have same shape"),
    # Control flow
    ("%z = loop : tile<i32> { break %l : tile<i64> }", "operand types must correspond to the parent loop result types"),
    ("if %b { return %i : tile<i32> }", "has 1 operands, but enclosing function (@f) returns 0"),
    (f"loop iter_values(%k = %q) : partition_view<tile=(4x8), {_TV}> {{ break }}",
     "loop-carried value 0 is a tile view, which is not supported"),
    ('"cuda_tile.for"(%i, %i, %i) ({ ^bb0(%a: tile<i32>, %c: tile<i32>):\n continue }) : (tile<i32>, tile<i32>, '
     'tile<i32>) -> ()', "mismatch in number of region iterator values and loop iterator inits: 1 vs 0"),
    ('%z = "cuda_tile.loop"(%i) ({ ^bb0(%a: tile<i64>):\n break %i : tile<i32> }) : (tile<i32>) -> tile<i32>',
     "init value 0 and region iter_value 0 have different type"),
    ('"cuda_tile.for"(%i, %i, %i) ({ continue }) : (tile<i32>, tile<i32>, tile<i32>) -> ()',
     "expected at least one block argument for induction variable"),
    ('"cuda_tile.for"(%i, %i, %i) ({ ^bb0(%a: tile<i64>):\n continue }) : (tile<i32>, tile<i32>, tile<i32>) -> ()',
     "expected induction variable to be same type as bounds and step"),
    ('"cuda_tile.if"(%b) ({ ^bb0(%a: tile<i64>):\n yield }, { }) : (tile<i1>) -> ()',
     "region should have no arguments"),
    ("%z = if %b -> (tile<i32>) { yield } else { yield %i : tile<i32> }", "but then branch does not yield anything"),
    ("%z = if %b -> (tile<i32>) { yield %l : tile<i64> } else { yield %i : tile<i32> }",
     "type does not match yield type, then branch yields"),
]


_PV = f"partition_view<tile=(4x8), {_TV}>"


def _red(mode: str = "addf", order: str = "relaxed device", index: str = "%i, %i", value: str = "%m : tile<4x8xf32>",
         view: str = f"%q : {_PV}", index_type: str = "tile<i32>") -> str:
    name, kind = view.split(" : ", 1)
    operand, type_ = value.split(" : ")
    return f"%z = atomic_red_view_tko {order} {name}[{index}], {mode}, {operand} : {type_}, {kind}, {index_type} -> token"


def _scaled(lhs: str, scale: str, shape: str, scales: tuple[str, str]) -> str:
    rows, columns = scales
    return (f"%y = constant <{lhs}: 1.0> : tile<{shape}x{lhs}>\n%y1 = constant <{scale}: 1.0> : tile<{rows}x{scale}>\n"
            f"%y2 = constant <{scale}: 1.0> : tile<{columns}x{scale}>\n"
            f"%c = constant <f32: 0.0> : tile<{shape}xf32>\n%z = mmaf_scaled %y, %y, %c, %y1, %y2 : tile<{shape}x{lhs}>, "
            f"tile<{shape}x{lhs}>, tile<{shape}xf32>, tile<{rows}x{scale}>, tile<{columns}x{scale}>")


INVALID += [
    (_GATHER + _red(view=f"%g : {_GSV}", index="%v, %i", value="%y : tile<8x8xf32>", index_type="tile<8xi32>, tile<i32>")
     .replace("%z =", "%y = constant <f32: 1.0> : tile<8x8xf32>\n%z ="), "gather_scatter_view is not supported"),
    (f"%y = make_partition_view %w : partition_view<tile=(4x8), padding_value = zero, {_TV}>\n"
     + _red(view=f"%y : partition_view<tile=(4x8), padding_value = zero, {_TV}>"), "views with padding_value"),
    ("%y = constant <i32: 1> : tile<4x8xi32>\n" + _red("add", value="%y : tile<4x8xi32>"), "must match value element type"),
    (_red(value="%j4 : tile<4x4xf32>"), "view tile shape 4, 8 must match value shape 4, 4"),
    (_red("xchg"), "cannot use xchg operation"),
    (_red(order="acquire device"), "only 'relaxed' memory ordering is supported"),
    (_red(order="relaxed sys"), "memory scope 'sys' is not supported"),
    (_red(index="%i"), "expected 2 index operand(s) for view with tile rank 2, got 1"),
    (_red(index="%v, %v", index_type="tile<8xi32>"), "must be a scalar tile (rank 0), got shape 8"),
    (_scaled("f8E4M3FN", "f8E4M3FN", "32x32", ("32x1", "1x32")), "Scale type 'f8E4M3FN' expects lhs and rhs element types"),
    (_scaled("f8E4M3FN", "f8E8M0FNU", "32x32", ("32x64", "64x32")), "must be a divisor of dim 1 of lhs"),
    (_scaled("f8E4M3FN", "f8E8M0FNU", "32x32", ("32x2", "2x32")), "requires block scale factor of lhs_scale and rhs_scale"),
    ("%z = alloca num_elem = -1, alignment = 8 : tile<ptr<f64>>", "attribute 'num_elem' failed to satisfy constraint"),
    ("%z = alloca num_elem = 4, alignment = 12 : tile<ptr<f64>>", "'alignment' must be power of two"),
    ("%z = alloca num_elem = 4, alignment = 4 : tile<ptr<f64>>", "must be at least the natural size (8 bytes)"),
    ("%y = constant <f4E2M1FN: 1.0> : tile<2xf4E2M1FN>\n%y1 = constant <i1: true> : tile<2xi1>\n"
     "%z = select %y1, %y, %y : tile<2xi1>, tile<2xf4E2M1FN>", "cannot operate on sub-byte type F4E2M1FN"),
    ("%z = insert %v, %m[%i, %i] : tile<8xi32>, tile<4x8xf32>", "source and result must have the same rank"),
    ("%z = mmaf %j4, %y, %j4 : tile<4x4xf32>, tile<4x4xf16>, tile<4x4xf32>".replace(
        "%z =", "%y = constant <f16: 1.0> : tile<4x4xf16>\n%z ="), "all of {lhs, rhs} have the same element type"),
    ('%z = "cuda_tile.make_tensor_view"(%p, %i, %l) <{operandSegmentSizes = array<i32: 1, 2, 0>}> : (tile<ptr<f32>>, '
     'tile<i32>, tile<i64>) -> tensor_view<?x?xf32, strides=[64,1]>',
     "expected dynamic shape index 1 to be of the same type as the other dynamic"),
    ('"cuda_tile.reduce"() <{dim = 0 : i32, identities = []}> ({ yield }) : () -> ()', "expect at least 1 operand"),
    ('%y, %z = "cuda_tile.reduce"(%v) <{dim = 0 : i32, identities = [0 : i32]}> ({ ^bb0(%a0: tile<i32>, %a1: tile<i32>):\n'
     ' yield %a0 : tile<i32> }) : (tile<8xi32>) -> (tile<i32>, tile<i32>)',
     "expect same number of operands and results"),
    ('%z = "cuda_tile.reduce"(%v) <{dim = -1 : i32, identities = [0 : i32]}> ({ ^bb0(%a0: tile<i32>, %a1: tile<i32>):\n'
     ' yield %a0 : tile<i32> }) : (tile<8xi32>) -> tile<i32>', "attribute 'dim' failed to satisfy constraint"),
]


INVALID_MODULES: list[tuple[str, str]] = [
    ("cuda_tile.module @m { entry @f(%a: tile<2xi32>) { return } }",
     "entry op must have scalar types (rank 0 !cuda_tile.tile)"),
    ("cuda_tile.module @m { global @g <i32: 1> : tile<i32>\nentry @f() { return } }", "type must have rank 1"),
    ("cuda_tile.module @m { global @f <i32: [1]> : tile<1xi32>\nentry @f() { return } }",
     "redefinition of symbol named 'f'"),
    ("cuda_tile.module @m { global @g <i32: [1]> : tile<1xi32>\nentry @f() { %z = get_global @g : tile<ptr<f32>>\n"
     "return } }", "does not match type 'i32' of the global @g"),
]
"""Whole texts, for what an entry's body can't show."""

_FLOATS = "operand #0 must be tile of f16 or bf16 or f32 or f64 values, but got '!cuda_tile.token'"
_INTEGERS = "operand #0 must be tile of i1 or i8 or i16 or i32 or i64 values, but got '!cuda_tile.token'"
_POINTERS = "operand #0 must be tile of Pointer type values, but got '!cuda_tile.token'"
_TOKEN = "result #0 must be cuda tile token type, but got '!cuda_tile.tile<4xi32>'"
_BLOCKS = "result #0 must be 0D tile of i32 values, but got '!cuda_tile.tile<4xi32>'"
_VIEW = "operand #0 must be tensor view type, but got '!cuda_tile.token'"
OF_WRONG_KINDS = {
    **dict.fromkeys(("absf", "ceil", "cos", "cosh", "exp2", "floor", "log", "log2", "negf", "rsqrt", "sin", "sinh", "tan"),
                    (1, 1, _FLOATS)),
    **dict.fromkeys(("atan2", "fpowi", "maxf", "minf", "pow", "remf"), (2, 1, _FLOATS)),
    "absi": (1, 1, _INTEGERS), **dict.fromkeys(("andi", "mulhii", "ori", "xori"), (2, 1, _INTEGERS)),
    **dict.fromkeys(("muli", "shli", "subi"), (2, 1, "requires attribute 'overflow'")),
    **dict.fromkeys(("maxi", "mini", "remi", "shri"), (2, 1, "requires attribute 'signedness'")),
    "subf": (2, 1, "requires attribute 'rounding_mode'"), "fma": (3, 1, "requires attribute 'rounding_mode'"),
    "cmpf": (2, 1, "requires attribute 'comparison_predicate'"),
    "constant": (0, 1, "requires attribute 'value'"), "get_global": (0, 1, "requires attribute 'name'"),
    "assert": (1, 0, "requires attribute 'message'"),
    **dict.fromkeys(("gdc_launch_dependents_tko", "gdc_wait_tko", "memory_fence_alias_tko"), (1, 1, _TOKEN)),
    "make_token": (0, 1, _TOKEN), **dict.fromkeys(("get_num_tile_blocks", "get_tile_block_id"), (0, 3, _BLOCKS)),
    "int_to_ptr": (1, 1, "operand #0 must be tile of i64 values, but got '!cuda_tile.token'"),
    **dict.fromkeys(("ptr_to_int", "ptr_to_ptr"), (1, 1, _POINTERS)),
    **dict.fromkeys(("make_gather_scatter_view", "make_strided_view"), (1, 1, _VIEW)),
    "unpack": (1, 1, "operand #0 must be tile of i8 values, but got '!cuda_tile.token'"),
}
"""By op: how many tokens it is given, how many tiles it is to give, and what is said of that. Of the ops that no other program here
breaks."""


def of_wrong_kinds(mnemonic: str) -> tuple[str, str]:
    """(an op with tokens for operands and tiles of i32 for results, what is said)."""
    operands, results, message = OF_WRONG_KINDS[mnemonic]
    given, types = ", ".join(["%t"] * operands), ", ".join(["token"] * operands)
    made = ", ".join(["tile<4xi32>"] * results)
    return f'"cuda_tile.{mnemonic}"({given}) : ({types}) -> ({made})', message


INVALID += [of_wrong_kinds(mnemonic) for mnemonic in OF_WRONG_KINDS]
INVALID.append((
    '%u0 = "cuda_tile.store_view_tko"(%f, %q, %i, %i, %t) <{memory_ordering_semantics = '
    '#cuda_tile.memory_ordering_semantics<weak>, operandSegmentSizes = array<i32: 1, 1, 2, 1>}> : '
    '(tile<f32>, partition_view<tile=(4x8), tensor_view<?x64xf32, '
    'strides=[64,1]>>, tile<i32>, tile<i32>, token) -> token',
    "expected tile type to be '!cuda_tile.tile<4x8xf32>' (based on view type), got '!cuda_tile.tile<f32>'"))
