// Block ids aren't negative: their signed divisions by powers of two are shifts and masks. What may be negative keeps its own.
// RUN: tileiras-opt %s --passes=refine-integers --verify-each | filecheck %s

// CHECK: "nv_tileaa.get_program_id"
// CHECK: [[Q:%[0-9a-z]+]] = "arith.shrui"(%x,
// CHECK: [[R:%[0-9a-z]+]] = "arith.andi"(%x,
// CHECK: "arith.remsi"(%n, %eight)
"builtin.module"() ({
  "nv_tileaa.func"() <{sym_name = "k"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %n: i32):
    %x, %y, %z = "nv_tileaa.get_program_id"() : () -> (i32, i32, i32)
    %eight = "arith.constant"() <{value = 8 : i32}> : () -> i32
    %q = "arith.floordivsi"(%x, %eight) : (i32, i32) -> i32
    %r = "arith.remsi"(%x, %eight) : (i32, i32) -> i32
    %m = "arith.remsi"(%n, %eight) : (i32, i32) -> i32
    %a = "arith.addi"(%q, %r) : (i32, i32) -> i32
    %s = "arith.addi"(%a, %m) : (i32, i32) -> i32
    %w = "nv_tileaa.store"(%p, %s) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
