// Scores of a loop are masked where a condition on scalars doesn't say that the mask is true everywhere; what makes the mask goes
// along. A mask of few elements stays, and one of which nothing is known.
// RUN: tileiras-opt %s --passes=skip-masks --verify-each | filecheck %s

// CHECK: sym_name = "k"
// CHECK: [[S:%[0-9a-z_]+]] = "nv_tileaa.dot"
// CHECK: [[FIRST:%[0-9a-z_]+]] = "arith.muli"
// CHECK: [[LEAST:%[0-9a-z_]+]] = "arith.constant"() <{value = -64 : i64}>
// CHECK: [[ALL:%[0-9a-z_]+]] = "arith.cmpi"({{%[0-9a-z_]+}}, {{%[0-9a-z_]+}}) <{predicate = "sge"}> : (i64, i64) -> i1
// CHECK: "scf.if"([[ALL]]) ({
// CHECK-NEXT: "scf.yield"([[S]])
// CHECK-NEXT: }, {
// CHECK-NEXT: "nv_tileaa.splat"([[FIRST]])
// CHECK-NEXT: "arith.addi"
// CHECK-NEXT: "arith.cmpi"({{%[0-9a-z_]+}}, {{%[0-9a-z_]+}}) <{predicate = "slt"}>
// CHECK-NEXT: "nv_tileaa.broadcast"
// CHECK-NEXT: [[T:%[0-9a-z_]+]] = "arith.select"
// CHECK-NEXT: "scf.yield"([[T]])
// CHECK: sym_name = "small"
// CHECK-NOT: scf.if
// CHECK: sym_name = "unknown"
// CHECK-NOT: scf.if
builtin.module {
  "nv_tileaa.func"() <{sym_name = "k"}> ({
  ^bb0(%n: i32):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %width = "arith.constant"() <{value = 64 : i32}> : () -> i32
    %a = "arith.constant"() <{value = 1.0 : f16}> : () -> tensor<64x16xf16>
    %b = "arith.constant"() <{value = 1.0 : f16}> : () -> tensor<16x64xf16>
    %none = "arith.constant"() <{value = 0.0 : f32}> : () -> tensor<64x64xf32>
    %low = "arith.constant"() <{value = -1.0 : f32}> : () -> tensor<64x64xf32>
    %line = "nv_tileaa.make_range"() : () -> tensor<64xi32>
    %range = "nv_tileaa.view"(%line) : (tensor<64xi32>) -> tensor<1x64xi32>
    %end = "nv_tileaa.splat"(%n) : (i32) -> tensor<1x64xi32>
    %r = "scf.for"(%zero, %n, %one, %none) ({
    ^bb0(%j: i32, %acc: tensor<64x64xf32>):
      %s = "nv_tileaa.dot"(%a, %b, %none) : (tensor<64x16xf16>, tensor<16x64xf16>, tensor<64x64xf32>) -> tensor<64x64xf32>
      %first = "arith.muli"(%j, %width) : (i32, i32) -> i32
      %wide = "nv_tileaa.splat"(%first) : (i32) -> tensor<1x64xi32>
      %columns = "arith.addi"(%wide, %range) : (tensor<1x64xi32>, tensor<1x64xi32>) -> tensor<1x64xi32>
      %seen = "arith.cmpi"(%columns, %end) <{predicate = "slt"}> : (tensor<1x64xi32>, tensor<1x64xi32>) -> tensor<1x64xi1>
      %mask = "nv_tileaa.broadcast"(%seen) : (tensor<1x64xi1>) -> tensor<64x64xi1>
      %t = "arith.select"(%mask, %s, %low) : (tensor<64x64xi1>, tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
      "scf.yield"(%t) : (tensor<64x64xf32>) -> ()
    }) : (i32, i32, i32, tensor<64x64xf32>) -> tensor<64x64xf32>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "small"}> ({
  ^bb0(%n: i32):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %width = "arith.constant"() <{value = 16 : i32}> : () -> i32
    %a = "arith.constant"() <{value = 1.0 : f16}> : () -> tensor<16x16xf16>
    %b = "arith.constant"() <{value = 1.0 : f16}> : () -> tensor<16x16xf16>
    %none = "arith.constant"() <{value = 0.0 : f32}> : () -> tensor<16x16xf32>
    %low = "arith.constant"() <{value = -1.0 : f32}> : () -> tensor<16x16xf32>
    %line = "nv_tileaa.make_range"() : () -> tensor<16xi32>
    %range = "nv_tileaa.view"(%line) : (tensor<16xi32>) -> tensor<1x16xi32>
    %end = "nv_tileaa.splat"(%n) : (i32) -> tensor<1x16xi32>
    %r = "scf.for"(%zero, %n, %one, %none) ({
    ^bb0(%j: i32, %acc: tensor<16x16xf32>):
      %s = "nv_tileaa.dot"(%a, %b, %none) : (tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x16xf32>) -> tensor<16x16xf32>
      %first = "arith.muli"(%j, %width) : (i32, i32) -> i32
      %wide = "nv_tileaa.splat"(%first) : (i32) -> tensor<1x16xi32>
      %columns = "arith.addi"(%wide, %range) : (tensor<1x16xi32>, tensor<1x16xi32>) -> tensor<1x16xi32>
      %seen = "arith.cmpi"(%columns, %end) <{predicate = "slt"}> : (tensor<1x16xi32>, tensor<1x16xi32>) -> tensor<1x16xi1>
      %mask = "nv_tileaa.broadcast"(%seen) : (tensor<1x16xi1>) -> tensor<16x16xi1>
      %t = "arith.select"(%mask, %s, %low) : (tensor<16x16xi1>, tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      "scf.yield"(%t) : (tensor<16x16xf32>) -> ()
    }) : (i32, i32, i32, tensor<16x16xf32>) -> tensor<16x16xf32>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "unknown"}> ({
  ^bb0(%n: i32):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %width = "arith.constant"() <{value = 64 : i32}> : () -> i32
    %a = "arith.constant"() <{value = 1.0 : f16}> : () -> tensor<64x16xf16>
    %b = "arith.constant"() <{value = 1.0 : f16}> : () -> tensor<16x64xf16>
    %none = "arith.constant"() <{value = 0.0 : f32}> : () -> tensor<64x64xf32>
    %low = "arith.constant"() <{value = -1.0 : f32}> : () -> tensor<64x64xf32>
    %line = "nv_tileaa.make_range"() : () -> tensor<64xi32>
    %range = "nv_tileaa.view"(%line) : (tensor<64xi32>) -> tensor<1x64xi32>
    %end = "nv_tileaa.splat"(%n) : (i32) -> tensor<1x64xi32>
    %r = "scf.for"(%zero, %n, %one, %none) ({
    ^bb0(%j: i32, %acc: tensor<64x64xf32>):
      %s = "nv_tileaa.dot"(%a, %b, %none) : (tensor<64x16xf16>, tensor<16x64xf16>, tensor<64x64xf32>) -> tensor<64x64xf32>
      %first = "arith.muli"(%j, %width) : (i32, i32) -> i32
      %wide = "nv_tileaa.splat"(%first) : (i32) -> tensor<1x64xi32>
      %columns = "arith.addi"(%wide, %range) : (tensor<1x64xi32>, tensor<1x64xi32>) -> tensor<1x64xi32>
      %square = "arith.muli"(%columns, %columns) : (tensor<1x64xi32>, tensor<1x64xi32>) -> tensor<1x64xi32>
      %seen = "arith.cmpi"(%square, %end) <{predicate = "slt"}> : (tensor<1x64xi32>, tensor<1x64xi32>) -> tensor<1x64xi1>
      %mask = "nv_tileaa.broadcast"(%seen) : (tensor<1x64xi1>) -> tensor<64x64xi1>
      %t = "arith.select"(%mask, %s, %low) : (tensor<64x64xi1>, tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
      "scf.yield"(%t) : (tensor<64x64xf32>) -> ()
    }) : (i32, i32, i32, tensor<64x64xf32>) -> tensor<64x64xf32>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
}
