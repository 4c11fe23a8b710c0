// RUN: tileiras-opt %s --passes=synthesize-debug-info-scopes --mlir-print-debuginfo -o %t.mlir
// RUN: filecheck %s --input-file=%t.mlir
// RUN: tileiras-translate --mlir-to-cudatilebc %t.mlir -o %t.tileirbc
// RUN: tileirdisasm -g %t.tileirbc | filecheck %s --check-prefix=KEPT

// CHECK: print_tko "x" -> token loc(#[[PRINT:loc.*]])
// CHECK: } loc(#[[ENTRY:loc.*]])
// CHECK-DAG: #[[FILE:.*]] = #cuda_tile.di_file<"k.py" in "/src">
// CHECK-DAG: #[[SCOPE:.*]] = #cuda_tile.di_subprogram<file = #[[FILE]], line = 10, name = "k", linkageName = "k",{{.*}} scopeLine = 10>
// CHECK-DAG: loc("/src/k.py":12:4)
// KEPT: print_tko "x" -> token loc(#
// KEPT: loc("/src/k.py":12:4)
cuda_tile.module @m {
  entry @k() {
    print_tko "x" -> token loc("/src/k.py":12:4)
    return
  } loc("/src/k.py":10:1)
} loc("/src/k.py":1:1)
