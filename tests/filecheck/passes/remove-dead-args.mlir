// Loops stop carrying what nobody reads: what only leads to itself, or to another dead value. What is read stays, in its order; so
// does what a loop that is left early carries.
// RUN: tileiras-opt %s --passes=remove-dead-args,dce --verify-each | filecheck %s
// RUN: tileiras-opt %s --passes=remove-dead-args --verify-each -o %t.alone

// CHECK: sym_name = "k"
// CHECK: [[R:%[0-9a-z_]+]] = "scf.for"([[L:%[0-9a-z_]+]], {{%[0-9a-z_]+}}, {{%[0-9a-z_]+}}, [[X:%[0-9a-z_]+]]) ({
// CHECK-NEXT: ^bb0([[I:%[0-9a-z_]+]]: i32, [[C:%[0-9a-z_]+]]: i32):
// CHECK-NEXT: [[N:%[0-9a-z_]+]] = "arith.addi"([[C]], [[I]])
// CHECK-NEXT: "scf.yield"([[N]])
// CHECK: "nv_tileaa.store"({{%[0-9a-z_]+}}, [[R]])
// CHECK: sym_name = "early"
// CHECK: "scf.for"({{%[0-9a-z_]+}}, {{%[0-9a-z_]+}}, {{%[0-9a-z_]+}}, {{%[0-9a-z_]+}}) ({
// CHECK: sym_name = "stored"
// CHECK: ^bb0({{%[0-9a-z_]+}}: i32, {{%[0-9a-z_]+}}: i32):
builtin.module {
  "nv_tileaa.func"() <{sym_name = "k"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %n: i32):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %a, %r, %b, %c = "scf.for"(%zero, %n, %one, %zero, %n, %one, %n) ({
    ^bb0(%i: i32, %w: i32, %x: i32, %y: i32, %z: i32):
      %v = "arith.addi"(%x, %i) : (i32, i32) -> i32
      %s = "arith.addi"(%y, %z) : (i32, i32) -> i32
      %t = "arith.muli"(%z, %w) : (i32, i32) -> i32
      "scf.yield"(%w, %v, %s, %t) : (i32, i32, i32, i32) -> ()
    }) : (i32, i32, i32, i32, i32, i32, i32) -> (i32, i32, i32, i32)
    %u = "nv_tileaa.store"(%p, %r) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "early"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %n: i32, %c: i1):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %r = "scf.for"(%zero, %n, %one, %zero) ({
    ^bb0(%i: i32, %w: i32):
      "scf.if"(%c) ({
        "nv_tileaa.continue"(%one) : (i32) -> ()
      }, {
      }) : (i1) -> ()
      %u = "nv_tileaa.store"(%p, %i) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
      "scf.yield"(%zero) : (i32) -> ()
    }) : (i32, i32, i32, i32) -> i32
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "stored"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %n: i32):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %r = "scf.for"(%zero, %n, %one, %zero) ({
    ^bb0(%i: i32, %w: i32):
      %v = "arith.addi"(%w, %i) : (i32, i32) -> i32
      %u = "nv_tileaa.store"(%p, %v) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
      "scf.yield"(%v) : (i32) -> ()
    }) : (i32, i32, i32, i32) -> i32
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
}
