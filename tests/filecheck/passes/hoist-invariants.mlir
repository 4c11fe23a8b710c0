// What doesn't change in a loop is computed before it; not a division, which might be by zero where the loop doesn't run. Nor are
// tiles: but for what products alone read, in a branch, too.
// RUN: tileiras-opt %s --passes=hoist-invariants --verify-each | filecheck %s

// CHECK: "arith.muli"(%x, %x)
// CHECK-NEXT: "scf.for"
// CHECK-NEXT: ^bb0
// CHECK-NEXT: "arith.divsi"(%x, %n)
// CHECK: "arith.addi"(%i,

// CHECK: sym_name = "products"
// CHECK: [[T:%[0-9a-z_]+]] = "nv_tileaa.permute"(%keys)
// CHECK: "scf.for"
// CHECK: "scf.if"
// CHECK: [[S:%[0-9a-z_]+]] = "nv_tileaa.dot"(%rows, [[T]], %none)
// CHECK: "nv_tileaa.permute"(%squares)
// CHECK: "arith.addf"
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
  "nv_tileaa.func"() <{sym_name = "products"}> ({
  ^bb0(%p: !nv_tileaa.ptr<f32>, %zero: i32, %one: i32, %n: i32):
    %rows = "arith.constant"() <{value = 1.000000e+00 : f16}> : () -> tensor<16x16xf16>
    %keys = "arith.constant"() <{value = 2.000000e+00 : f16}> : () -> tensor<16x16xf16>
    %squares = "arith.constant"() <{value = 3.000000e+00 : f32}> : () -> tensor<16x16xf32>
    %none = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> tensor<16x16xf32>
    %sum = "scf.for"(%zero, %n, %one, %none) ({
    ^bb1(%i: i32, %x: tensor<16x16xf32>):
      %c = "arith.cmpi"(%i, %one) <{predicate = "ne"}> : (i32, i32) -> i1
      %y = "scf.if"(%c) ({
        %t = "nv_tileaa.permute"(%keys) <{permutation = [#builtin.int<1>, #builtin.int<0>]}> : (tensor<16x16xf16>) -> tensor<16x16xf16>
        %s = "nv_tileaa.dot"(%rows, %t, %none) : (tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x16xf32>) -> tensor<16x16xf32>
        %u = "nv_tileaa.permute"(%squares) <{permutation = [#builtin.int<1>, #builtin.int<0>]}> : (tensor<16x16xf32>) -> tensor<16x16xf32>
        %v = "arith.addf"(%s, %u) <{rounding = "nearest_even"}> : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
        "scf.yield"(%v) : (tensor<16x16xf32>) -> ()
      }, {
        "scf.yield"(%x) : (tensor<16x16xf32>) -> ()
      }) : (i1) -> tensor<16x16xf32>
      "scf.yield"(%y) : (tensor<16x16xf32>) -> ()
    }) : (i32, i32, i32, tensor<16x16xf32>) -> tensor<16x16xf32>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
