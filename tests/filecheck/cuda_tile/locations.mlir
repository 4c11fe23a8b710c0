// Locations are numbered by what they are made of; without --mlir-print-debuginfo there are none.
// RUN: tileiras-opt %s --mlir-print-debuginfo | filecheck %s
// RUN: tileiras-translate --test-cudatile-roundtrip --mlir-print-debuginfo %s | filecheck %s
// RUN: tileiras-opt %s | filecheck %s --check-prefix=PLAIN

#file = #cuda_tile.di_file<"kernel.py" in "/src">
#unit = #cuda_tile.di_compile_unit<file = #file>
#f = #cuda_tile.di_subprogram<file = #file, line = 1, name = "f", linkageName = "f", compileUnit = #unit, scopeLine = 2>
#inner = #cuda_tile.di_lexical_block<scope = #f, file = #file, line = 3, column = 4>
#a = #cuda_tile.di_loc<loc("/src/kernel.py":5:6) in #f>
#b = #cuda_tile.di_loc<loc("/src/kernel.py":7:8) in #inner>

cuda_tile.module @m {
  entry @f() {
    // CHECK: %cst_1_i32 = constant <i32: 1> : tile<i32> loc(#[[INNER:.*]])
    // PLAIN: %cst_1_i32 = constant <i32: 1> : tile<i32>{{$}}
    %0 = constant <i32: 1> : tile<i32> loc(#b)
    // CHECK-NEXT: %cst_2_i32 = constant <i32: 2> : tile<i32> loc(#[[CALL:.*]])
    %1 = constant <i32: 2> : tile<i32> loc(callsite(#b at #a))
    // CHECK-NEXT: return loc(#[[OUTER:.*]])
    return loc(#a)
  } loc(#a)
}
// CHECK: #di_file = #cuda_tile.di_file<"kernel.py" in "/src">
// CHECK: #di_subprogram = #cuda_tile.di_subprogram<file = #di_file, line = 1
// CHECK: #di_lexical_block = #cuda_tile.di_lexical_block<scope = #di_subprogram, file = #di_file, line = 3, column = 4>
// CHECK: #[[OUTER]] = #cuda_tile.di_loc<#{{loc[0-9]*}} in #di_subprogram>
// CHECK: #[[INNER]] = #cuda_tile.di_loc<#{{loc[0-9]*}} in #di_lexical_block>
// CHECK: #[[CALL]] = loc(callsite(#[[INNER]] at #[[OUTER]]))
