// The first of two ops that compute the same stands for both, also inside of a loop; a load doesn't.
// RUN: tileiras-opt %s --passes=cse --verify-each | filecheck %s

// CHECK: [[A:%[0-9a-z]+]] = "arith.addi"(%x, %x)
// CHECK-NEXT: "scf.for"
// CHECK-NEXT: ^bb0
// CHECK-NEXT: "nv_tileaa.load"
// CHECK-NEXT: "nv_tileaa.load"
// CHECK-NEXT: "arith.addi"
// CHECK-NEXT: "arith.muli"([[A]],
// CHECK-NEXT: "nv_tileaa.store"
"builtin.module"() ({
  "nv_tileaa.func"() <{sym_name = "k"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %x: i32):
    %a = "arith.addi"(%x, %x) : (i32, i32) -> i32
    "scf.for"(%x, %a, %x) ({
    ^bb0(%i: i32):
      %b = "arith.addi"(%x, %x) : (i32, i32) -> i32
      %l, %t = "nv_tileaa.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>) -> (i32, !nv_tileaa.mem_token)
      %m, %u = "nv_tileaa.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>) -> (i32, !nv_tileaa.mem_token)
      %s = "arith.addi"(%l, %m) : (i32, i32) -> i32
      %r = "arith.muli"(%b, %s) : (i32, i32) -> i32
      %w = "nv_tileaa.store"(%p, %r) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
      "scf.yield"() : () -> ()
    }) : (i32, i32, i32) -> ()
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
