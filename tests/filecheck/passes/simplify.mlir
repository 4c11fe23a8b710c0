// Identities and constants: what is added to nothing, multiplied by one, or chosen by a constant.
// RUN: tileiras-opt %s --passes=simplify --verify-each | filecheck %s

// CHECK: "nv_tileaa.store"(%p, %x)
// CHECK: "nv_tileaa.store"(%p, %c)
// CHECK-NOT: scf.if
// CHECK: "nv_tileaa.return"
"builtin.module"() ({
  "nv_tileaa.func"() <{sym_name = "k"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %x: i32):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %a = "arith.addi"(%x, %zero) : (i32, i32) -> i32
    %b = "arith.muli"(%a, %one) : (i32, i32) -> i32
    %t = "nv_tileaa.store"(%p, %b) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
    %yes = "arith.constant"() <{value = true}> : () -> i1
    %c = "arith.addi"(%x, %one) : (i32, i32) -> i32
    "scf.if"(%yes) ({
      %u = "nv_tileaa.store"(%p, %c) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
      "scf.yield"() : () -> ()
    }, {
      "scf.yield"() : () -> ()
    }) : (i1) -> ()
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
