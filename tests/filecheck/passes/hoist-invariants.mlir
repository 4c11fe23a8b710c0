// What doesn't change in a loop is computed before it; not a division, which might be by zero where the loop doesn't run.
// RUN: tileiras-opt %s --passes=hoist-invariants --verify-each | filecheck %s

// CHECK: "arith.muli"(%x, %x)
// CHECK-NEXT: "scf.for"
// CHECK-NEXT: ^bb0
// CHECK-NEXT: "arith.divsi"(%x, %n)
// CHECK: "arith.addi"(%i,
"builtin.module"() ({
  "nv_tileaa.func"() <{sym_name = "k"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %x: i32, %n: i32):
    "scf.for"(%x, %n, %x) ({
    ^bb0(%i: i32):
      %a = "arith.muli"(%x, %x) : (i32, i32) -> i32
      %b = "arith.divsi"(%x, %n) : (i32, i32) -> i32
      %c = "arith.addi"(%i, %a) : (i32, i32) -> i32
      %d = "arith.addi"(%c, %b) : (i32, i32) -> i32
      %w = "nv_tileaa.store"(%p, %d) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
      "scf.yield"() : () -> ()
    }) : (i32, i32, i32) -> ()
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
