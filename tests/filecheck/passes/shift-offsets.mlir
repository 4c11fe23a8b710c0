// Shifts of an index. Of one whose range is known, and that no shift makes wrap, what it is extended to gets the constants. Of any other it
// is the lowest one, whose neighbours' own checks say that they don't wrap on their way up from there. Where an access isn't checked, or
// another index is, or against what may be negative, or where a product of 32 bits by 32 would be lost, nothing changes.
// RUN: tileiras-opt %s --passes=shift-offsets --verify-each | filecheck %s

// CHECK: sym_name = "ranged"
// CHECK: [[X:%[0-9a-z]+]] = "arith.extsi"(%y)
// CHECK-NEXT: [[M:%[0-9a-z]+]] = "arith.constant"() <{value = -3 : i64}>
// CHECK-NEXT: "arith.addi"([[X]], [[M]])
// CHECK: sym_name = "checked"
// CHECK: [[C:%[0-9a-z]+]] = "arith.constant"() <{value = -1 : i32}>
// CHECK: [[B:%[0-9a-z]+]] = "arith.addi"(%x{{.*}}, [[C]])
// CHECK: [[W:%[0-9a-z]+]] = "arith.extsi"([[B]]) : (i32) -> i64
// CHECK-NEXT: [[D:%[0-9a-z]+]] = "arith.constant"() <{value = 3 : i64}>
// CHECK-NEXT: "arith.addi"([[W]], [[D]])
// CHECK: [[L:%[0-9a-z]+]] = "arith.extsi"([[B]]) : (i32) -> i64
// CHECK-NEXT: "nv_tileaa.addptr"({{.*}}, [[L]])
// CHECK: sym_name = "unchecked"
// CHECK: "arith.extsi"(%s{{_[0-9]+}})
// CHECK: "arith.extsi"(%t{{_[0-9]+}})
// CHECK: sym_name = "negative"
// CHECK: "arith.extsi"(%s{{_[0-9]+}})
// CHECK: "arith.extsi"(%t{{_[0-9]+}})
// CHECK: sym_name = "other"
// CHECK: "arith.extsi"(%s{{_[0-9]+}})
// CHECK: "arith.extsi"(%t{{_[0-9]+}})
// CHECK: sym_name = "rows"
// CHECK: "arith.extsi"(%s{{_[0-9]+}})
// CHECK: "arith.extsi"(%t{{_[0-9]+}})
"builtin.module"() ({
  "nv_tileaa.func"() <{sym_name = "ranged"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>):
    %x, %y, %z = "nv_tileaa.get_program_id"() : () -> (i32, i32, i32)
    %three = "arith.constant"() <{value = 3 : i32}> : () -> i32
    %s = "arith.subi"(%y, %three) : (i32, i32) -> i32
    %a = "arith.extsi"(%s) : (i32) -> i64
    %q = "nv_tileaa.addptr"(%p, %a) : (!nv_tileaa.ptr<i32>, i64) -> !nv_tileaa.ptr<i32>
    %w = "nv_tileaa.store"(%q, %y) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "checked"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %x: i32, %n: i32):
    %limit = "nv_tileaa.assume"(%n) <{fact = #nv_tileaa.fact<bounded [0, ?]>}> : (i32) -> i32
    %two = "arith.constant"() <{value = 2 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %s = "arith.addi"(%x, %two) : (i32, i32) -> i32
    %t = "arith.subi"(%x, %one) : (i32, i32) -> i32
    %a0 = "arith.extsi"(%s) : (i32) -> i64
    %q0 = "nv_tileaa.addptr"(%p, %a0) : (!nv_tileaa.ptr<i32>, i64) -> !nv_tileaa.ptr<i32>
    %c0 = "arith.cmpi"(%s, %limit) <{predicate = "ult"}> : (i32, i32) -> i1
    %w0 = "nv_tileaa.store"(%q0, %x, %c0) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32, i1) -> !nv_tileaa.mem_token
    %a1 = "arith.extsi"(%t) : (i32) -> i64
    %q1 = "nv_tileaa.addptr"(%p, %a1) : (!nv_tileaa.ptr<i32>, i64) -> !nv_tileaa.ptr<i32>
    %c1 = "arith.cmpi"(%t, %limit) <{predicate = "ult"}> : (i32, i32) -> i1
    %w1 = "nv_tileaa.store"(%q1, %x, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32, i1) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "unchecked"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %x: i32, %n: i32):
    %limit = "nv_tileaa.assume"(%n) <{fact = #nv_tileaa.fact<bounded [0, ?]>}> : (i32) -> i32
    %two = "arith.constant"() <{value = 2 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %s = "arith.addi"(%x, %two) : (i32, i32) -> i32
    %t = "arith.subi"(%x, %one) : (i32, i32) -> i32
    %a0 = "arith.extsi"(%s) : (i32) -> i64
    %q0 = "nv_tileaa.addptr"(%p, %a0) : (!nv_tileaa.ptr<i32>, i64) -> !nv_tileaa.ptr<i32>
    %w0 = "nv_tileaa.store"(%q0, %x) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
    %a1 = "arith.extsi"(%t) : (i32) -> i64
    %q1 = "nv_tileaa.addptr"(%p, %a1) : (!nv_tileaa.ptr<i32>, i64) -> !nv_tileaa.ptr<i32>
    %w1 = "nv_tileaa.store"(%q1, %x) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "negative"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %x: i32, %n: i32):
    %limit = "nv_tileaa.assume"(%n) <{fact = #nv_tileaa.fact<bounded [0, ?]>}> : (i32) -> i32
    %two = "arith.constant"() <{value = 2 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %s = "arith.addi"(%x, %two) : (i32, i32) -> i32
    %t = "arith.subi"(%x, %one) : (i32, i32) -> i32
    %a0 = "arith.extsi"(%s) : (i32) -> i64
    %q0 = "nv_tileaa.addptr"(%p, %a0) : (!nv_tileaa.ptr<i32>, i64) -> !nv_tileaa.ptr<i32>
    %c0 = "arith.cmpi"(%s, %n) <{predicate = "ult"}> : (i32, i32) -> i1
    %w0 = "nv_tileaa.store"(%q0, %x, %c0) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32, i1) -> !nv_tileaa.mem_token
    %a1 = "arith.extsi"(%t) : (i32) -> i64
    %q1 = "nv_tileaa.addptr"(%p, %a1) : (!nv_tileaa.ptr<i32>, i64) -> !nv_tileaa.ptr<i32>
    %c1 = "arith.cmpi"(%t, %n) <{predicate = "ult"}> : (i32, i32) -> i1
    %w1 = "nv_tileaa.store"(%q1, %x, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32, i1) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "other"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %x: i32, %n: i32):
    %limit = "nv_tileaa.assume"(%n) <{fact = #nv_tileaa.fact<bounded [0, ?]>}> : (i32) -> i32
    %two = "arith.constant"() <{value = 2 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %s = "arith.addi"(%x, %two) : (i32, i32) -> i32
    %t = "arith.subi"(%x, %one) : (i32, i32) -> i32
    %a0 = "arith.extsi"(%s) : (i32) -> i64
    %q0 = "nv_tileaa.addptr"(%p, %a0) : (!nv_tileaa.ptr<i32>, i64) -> !nv_tileaa.ptr<i32>
    %c0 = "arith.cmpi"(%t, %limit) <{predicate = "ult"}> : (i32, i32) -> i1
    %w0 = "nv_tileaa.store"(%q0, %x, %c0) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32, i1) -> !nv_tileaa.mem_token
    %a1 = "arith.extsi"(%t) : (i32) -> i64
    %q1 = "nv_tileaa.addptr"(%p, %a1) : (!nv_tileaa.ptr<i32>, i64) -> !nv_tileaa.ptr<i32>
    %c1 = "arith.cmpi"(%s, %limit) <{predicate = "ult"}> : (i32, i32) -> i1
    %w1 = "nv_tileaa.store"(%q1, %x, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32, i1) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "rows"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %x: i32, %n: i32):
    %limit = "nv_tileaa.assume"(%n) <{fact = #nv_tileaa.fact<bounded [0, ?]>}> : (i32) -> i32
    %two = "arith.constant"() <{value = 2 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %s = "arith.addi"(%x, %two) : (i32, i32) -> i32
    %t = "arith.subi"(%x, %one) : (i32, i32) -> i32
    %m = "arith.extsi"(%n) : (i32) -> i64
    %a0 = "arith.extsi"(%s) : (i32) -> i64
    %e0 = "arith.muli"(%a0, %m) : (i64, i64) -> i64
    %q0 = "nv_tileaa.addptr"(%p, %e0) : (!nv_tileaa.ptr<i32>, i64) -> !nv_tileaa.ptr<i32>
    %c0 = "arith.cmpi"(%s, %limit) <{predicate = "ult"}> : (i32, i32) -> i1
    %w0 = "nv_tileaa.store"(%q0, %x, %c0) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32, i1) -> !nv_tileaa.mem_token
    %a1 = "arith.extsi"(%t) : (i32) -> i64
    %e1 = "arith.muli"(%a1, %m) : (i64, i64) -> i64
    %q1 = "nv_tileaa.addptr"(%p, %e1) : (!nv_tileaa.ptr<i32>, i64) -> !nv_tileaa.ptr<i32>
    %c1 = "arith.cmpi"(%t, %limit) <{predicate = "ult"}> : (i32, i32) -> i1
    %w1 = "nv_tileaa.store"(%q1, %x, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32, i1) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
