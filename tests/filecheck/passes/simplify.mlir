// Identities and constants: what is added to nothing, multiplied by one, or chosen by a constant; loops that run once or never. A step
// of zero, which the language doesn't want, tells nothing.
// Two branches on one condition are one, where only values are computed between them, which don't come of the first; what the
// second takes of the first's results it takes from its branch. Behind a branch that leaves nothing moves.
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
// CHECK: "scf.for"(%one_1, %three, %zero_1, %x_1)
// CHECK: sym_name = "branches"
// CHECK: [[S:%[0-9a-z_]+]] = "arith.addi"(%x_2, %x_2)
// CHECK-NEXT: [[R:%[0-9a-z_]+]], [[Q:%[0-9a-z_]+]] = "scf.if"(%c_2) ({
// CHECK-NEXT: [[T:%[0-9a-z_]+]] = "nv_tileaa.store"(%p_2, %x_2)
// CHECK-NEXT: [[U:%[0-9a-z_]+]] = "nv_tileaa.store"(%p_2, [[S]], [[T]])
// CHECK-NEXT: "scf.yield"([[T]], [[U]])
// CHECK-NEXT: }, {
// CHECK-NEXT: "scf.yield"([[N:%[0-9a-z_]+]], [[N]])
// CHECK: [[D:%[0-9a-z_]+]] = "scf.if"(%c_2)
// CHECK: "arith.addi"([[D]], %x_2)
// CHECK: "scf.if"(%c_2)
// CHECK: sym_name = "leaves"
// CHECK: "scf.if"
// CHECK-NEXT: "nv_tileaa.return"
// CHECK: "arith.divsi"
// CHECK: "scf.if"
// CHECK: "nv_tileaa.store"
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
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
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
    %forever = "scf.for"(%one, %three, %zero, %x) ({
    ^bb0(%j: i32, %y: i32):
      %m = "arith.muli"(%y, %y) : (i32, i32) -> i32
      "scf.yield"(%m) : (i32) -> ()
    }) : (i32, i32, i32, i32) -> i32
    %u = "nv_tileaa.store"(%p, %twice) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "branches"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %x: i32, %c: i1):
    %none = "nv_tileaa.create_mem_token"() : () -> !nv_tileaa.mem_token
    %first = "scf.if"(%c) ({
      %t = "nv_tileaa.store"(%p, %x) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
      "scf.yield"(%t) : (!nv_tileaa.mem_token) -> ()
    }, {
      "scf.yield"(%none) : (!nv_tileaa.mem_token) -> ()
    }) : (i1) -> !nv_tileaa.mem_token
    %s = "arith.addi"(%x, %x) : (i32, i32) -> i32
    %second = "scf.if"(%c) ({
      %u = "nv_tileaa.store"(%p, %s, %first) <{operandSegmentSizes = array<i32: 1, 1, 0, 1>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32, !nv_tileaa.mem_token) -> !nv_tileaa.mem_token
      "scf.yield"(%u) : (!nv_tileaa.mem_token) -> ()
    }, {
      "scf.yield"(%first) : (!nv_tileaa.mem_token) -> ()
    }) : (i1) -> !nv_tileaa.mem_token
    %b = "nv_tileaa.store"(%p, %x, %second) <{operandSegmentSizes = array<i32: 1, 1, 0, 1>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32, !nv_tileaa.mem_token) -> !nv_tileaa.mem_token
    %d = "scf.if"(%c) ({
      %l, %lt = "nv_tileaa.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>) -> (i32, !nv_tileaa.mem_token)
      "scf.yield"(%l) : (i32) -> ()
    }, {
      "scf.yield"(%x) : (i32) -> ()
    }) : (i1) -> i32
    %e = "arith.addi"(%d, %x) : (i32, i32) -> i32
    "scf.if"(%c) ({
      %v = "nv_tileaa.store"(%p, %e) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
      "scf.yield"() : () -> ()
    }, {
    }) : (i1) -> ()
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "leaves"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %x: i32, %c: i1):
    "scf.if"(%c) ({
      "nv_tileaa.return"() : () -> ()
    }, {
    }) : (i1) -> ()
    %s = "arith.divsi"(%x, %x) : (i32, i32) -> i32
    "scf.if"(%c) ({
      "scf.yield"() : () -> ()
    }, {
      %u = "nv_tileaa.store"(%p, %s) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
      "scf.yield"() : () -> ()
    }) : (i1) -> ()
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
