// What nobody uses goes, with what only it used, and loops that hold nothing else; stores stay.
// RUN: tileiras-opt %s --passes=dce --verify-each | filecheck %s

// CHECK: ^bb0(
// CHECK-NEXT: "nv_tileaa.store"(%p, %x)
// CHECK-NEXT: "nv_tileaa.return"
"builtin.module"() ({
  "nv_tileaa.func"() <{sym_name = "k"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %x: i32):
    %a = "arith.addi"(%x, %x) : (i32, i32) -> i32
    %b = "arith.muli"(%a, %x) : (i32, i32) -> i32
    "scf.for"(%x, %b, %x) ({
    ^bb0(%i: i32):
      %l, %t = "nv_tileaa.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>) -> (i32, !nv_tileaa.mem_token)
      "scf.yield"() : () -> ()
    }) : (i32, i32, i32) -> ()
    %w = "nv_tileaa.store"(%p, %x) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
