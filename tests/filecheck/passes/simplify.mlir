// Identities and constants: what is added to nothing, multiplied by one, or chosen by a constant; loops that run once or never.
// RUN: tileiras-opt %s --passes=simplify --verify-each | filecheck %s

// CHECK: "nv_tileaa.store"(%p, %x)
// CHECK: "nv_tileaa.store"(%p, %c)
// CHECK-NOT: scf.if
// CHECK: "nv_tileaa.return"
// CHECK: nv_tileaa.func
// CHECK-NOT: scf.for
// CHECK: [[A:%[0-9a-z]+]] = "arith.addi"(%x_1, %three)
// CHECK-NEXT: "nv_tileaa.store"(%p_1, [[A]])
// CHECK: "scf.for"(%one_1, %three, %one_1, %x_1)
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
  "nv_tileaa.func"() <{sym_name = "loops"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %x: i32):
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %three = "arith.constant"() <{value = 3 : i32}> : () -> i32
    %five = "arith.constant"() <{value = 5 : i32}> : () -> i32
    %never = "scf.for"(%five, %three, %one, %x) ({
    ^bb0(%i: i32, %c: i32):
      %n = "arith.muli"(%c, %c) : (i32, i32) -> i32
      "scf.yield"(%n) : (i32) -> ()
    }) : (i32, i32, i32, i32) -> i32
    %once = "scf.for"(%three, %five, %five, %never) ({
    ^bb0(%i: i32, %c: i32):
      %n = "arith.addi"(%c, %i) : (i32, i32) -> i32
      "scf.yield"(%n) : (i32) -> ()
    }) : (i32, i32, i32, i32) -> i32
    %t = "nv_tileaa.store"(%p, %once) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
    %twice = "scf.for"(%one, %three, %one, %x) ({
    ^bb0(%i: i32, %c: i32):
      %n = "arith.muli"(%c, %c) : (i32, i32) -> i32
      "scf.yield"(%n) : (i32) -> ()
    }) : (i32, i32, i32, i32) -> i32
    %u = "nv_tileaa.store"(%p, %twice) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
