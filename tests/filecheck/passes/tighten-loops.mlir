// A loop whose iterations do nothing unless its counter lies in a range counts in that range alone: from where %a + %i isn't negative
// (%a is a block's id less three, and %i at most three: the sum doesn't wrap), to where 16 * %i is no more than %n. Where a sum may
// wrap, or more than a branch is done, the loop stays.
// RUN: tileiras-opt %s --passes=tighten-loops --verify-each | filecheck %s

// CHECK: sym_name = "below"
// CHECK: [[W:%[0-9a-z_]+]] = "arith.extsi"({{%a[_0-9]*}})
// CHECK: [[R:%[0-9a-z_]+]] = "arith.subi"
// CHECK: [[M:%[0-9a-z_]+]] = "arith.maxsi"
// CHECK: [[N:%[0-9a-z_]+]] = "arith.minsi"([[M]],
// CHECK: [[L:%[0-9a-z_]+]] = "arith.trunci"([[N]])
// CHECK: "scf.for"([[L]], {{%four[_0-9]*}}, {{%one[_0-9]*}}, {{%zero[_0-9]*}})
// CHECK-NOT: "scf.if"
// CHECK: [[Y:%[0-9a-z_]+]] = "arith.addi"({{%x[_0-9]*}}, {{%k[_0-9]*}})
// CHECK: "scf.yield"([[Y]])

// CHECK: sym_name = "above"
// CHECK: "arith.floordivsi"
// CHECK: [[M:%[0-9a-z_]+]] = "arith.minsi"
// CHECK: [[N:%[0-9a-z_]+]] = "arith.maxsi"([[M]],
// CHECK: [[L:%[0-9a-z_]+]] = "arith.trunci"([[N]])
// CHECK: "scf.for"({{%zero[_0-9]*}}, [[L]], {{%two[_0-9]*}}, {{%zero[_0-9]*}})
// CHECK: "scf.if"({{%even[_0-9]*}})

// CHECK: sym_name = "may_wrap"
// CHECK: "scf.for"({{%zero[_0-9]*}}, {{%n[_0-9]*}}, {{%one[_0-9]*}}, {{%zero[_0-9]*}})
// CHECK: "scf.if"

// CHECK: sym_name = "does_more"
// CHECK: "scf.for"({{%zero[_0-9]*}}, {{%n[_0-9]*}}, {{%one[_0-9]*}}, {{%zero[_0-9]*}})
// CHECK: "scf.if"

// CHECK: sym_name = "carries_more"
// CHECK: "scf.for"({{%zero[_0-9]*}}, {{%n[_0-9]*}}, {{%one[_0-9]*}}, {{%zero[_0-9]*}})
// CHECK: "scf.if"

// A step of two would begin elsewhere.
// CHECK: sym_name = "by_steps"
// CHECK: "scf.for"({{%zero[_0-9]*}}, {{%n[_0-9]*}}, {{%two[_0-9]*}}, {{%zero[_0-9]*}})
// CHECK: "scf.if"
"builtin.module"() ({
  "nv_tileaa.func"() <{sym_name = "below"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %three = "arith.constant"() <{value = 3 : i32}> : () -> i32
    %four = "arith.constant"() <{value = 4 : i32}> : () -> i32
    %id, %id1, %id2 = "nv_tileaa.get_program_id"() : () -> (i32, i32, i32)
    %a = "arith.subi"(%id, %three) : (i32, i32) -> i32
    %s = "scf.for"(%zero, %four, %one, %zero) ({
    ^bb1(%i: i32, %x: i32):
      %k = "arith.addi"(%a, %i) : (i32, i32) -> i32
      %c = "arith.cmpi"(%k, %zero) <{predicate = "sge"}> : (i32, i32) -> i1
      %y = "scf.if"(%c) ({
        %z = "arith.addi"(%x, %k) : (i32, i32) -> i32
        "scf.yield"(%z) : (i32) -> ()
      }, {
        "scf.yield"(%x) : (i32) -> ()
      }) : (i1) -> i32
      "scf.yield"(%y) : (i32) -> ()
    }) : (i32, i32, i32, i32) -> i32
    %w = "nv_tileaa.store"(%p, %s) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "above"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %n: i32, %even: i1):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %two = "arith.constant"() <{value = 2 : i32}> : () -> i32
    %sixteen = "arith.constant"() <{value = 16 : i32}> : () -> i32
    %many = "arith.constant"() <{value = 1000 : i32}> : () -> i32
    %s = "scf.for"(%zero, %many, %two, %zero) ({
    ^bb1(%i: i32, %x: i32):
      %k = "arith.muli"(%i, %sixteen) : (i32, i32) -> i32
      %d = "arith.cmpi"(%n, %k) <{predicate = "sge"}> : (i32, i32) -> i1
      %c = "arith.andi"(%d, %even) : (i1, i1) -> i1
      %y = "scf.if"(%c) ({
        %z = "arith.addi"(%x, %k) : (i32, i32) -> i32
        "scf.yield"(%z) : (i32) -> ()
      }, {
        "scf.yield"(%x) : (i32) -> ()
      }) : (i1) -> i32
      "scf.yield"(%y) : (i32) -> ()
    }) : (i32, i32, i32, i32) -> i32
    %w = "nv_tileaa.store"(%p, %s) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "may_wrap"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %n: i32):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %s = "scf.for"(%zero, %n, %one, %zero) ({
    ^bb1(%i: i32, %x: i32):
      %k = "arith.addi"(%n, %i) : (i32, i32) -> i32
      %c = "arith.cmpi"(%k, %zero) <{predicate = "sge"}> : (i32, i32) -> i1
      %y = "scf.if"(%c) ({
        %z = "arith.addi"(%x, %k) : (i32, i32) -> i32
        "scf.yield"(%z) : (i32) -> ()
      }, {
        "scf.yield"(%x) : (i32) -> ()
      }) : (i1) -> i32
      "scf.yield"(%y) : (i32) -> ()
    }) : (i32, i32, i32, i32) -> i32
    %w = "nv_tileaa.store"(%p, %s) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "does_more"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %n: i32):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %s = "scf.for"(%zero, %n, %one, %zero) ({
    ^bb1(%i: i32, %x: i32):
      %c = "arith.cmpi"(%i, %one) <{predicate = "sge"}> : (i32, i32) -> i1
      %y = "scf.if"(%c) ({
        %z = "arith.addi"(%x, %i) : (i32, i32) -> i32
        "scf.yield"(%z) : (i32) -> ()
      }, {
        "scf.yield"(%x) : (i32) -> ()
      }) : (i1) -> i32
      %w = "nv_tileaa.store"(%p, %i) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
      "scf.yield"(%y) : (i32) -> ()
    }) : (i32, i32, i32, i32) -> i32
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "carries_more"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %n: i32):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %s = "scf.for"(%zero, %n, %one, %zero) ({
    ^bb1(%i: i32, %x: i32):
      %c = "arith.cmpi"(%i, %one) <{predicate = "sge"}> : (i32, i32) -> i1
      %y = "scf.if"(%c) ({
        %z = "arith.addi"(%x, %i) : (i32, i32) -> i32
        "scf.yield"(%z) : (i32) -> ()
      }, {
        "scf.yield"(%one) : (i32) -> ()
      }) : (i1) -> i32
      "scf.yield"(%y) : (i32) -> ()
    }) : (i32, i32, i32, i32) -> i32
    %w = "nv_tileaa.store"(%p, %s) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "by_steps"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %n: i32):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %two = "arith.constant"() <{value = 2 : i32}> : () -> i32
    %s = "scf.for"(%zero, %n, %two, %zero) ({
    ^bb1(%i: i32, %x: i32):
      %c = "arith.cmpi"(%i, %two) <{predicate = "sge"}> : (i32, i32) -> i1
      %y = "scf.if"(%c) ({
        %z = "arith.addi"(%x, %i) : (i32, i32) -> i32
        "scf.yield"(%z) : (i32) -> ()
      }, {
        "scf.yield"(%x) : (i32) -> ()
      }) : (i1) -> i32
      "scf.yield"(%y) : (i32) -> ()
    }) : (i32, i32, i32, i32) -> i32
    %w = "nv_tileaa.store"(%p, %s) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
