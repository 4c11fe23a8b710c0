// Where no instruction multiplies with scales, operands are widened exactly and scaled before an ordinary product.
// RUN: tileiras-opt %s --passes=decompose-dot-scaled --gpu-name=sm_90 --verify-each | filecheck %s
// RUN: tileiras-opt %s --passes=decompose-dot-scaled --gpu-name=sm_120 --verify-each | filecheck %s --check-prefix=KEPT

// CHECK: [[WIDE:%[0-9a-z]+]] = "arith.convertf"(%a) {{.*}}-> tensor<64x32xbf16>
// CHECK: "nv_tileaa.broadcast"({{.*}} -> tensor<64x1x32xbf16>
// CHECK: [[X:%[0-9a-z]+]] = "arith.mulf"([[WIDE]],
// CHECK: "nv_tileaa.dot"([[X]], {{%[0-9a-z]+}}, %c)
// CHECK-NOT: dot_scaled
// KEPT: "nv_tileaa.dot_scaled"(%a, %b, %c, %sa, %sb)
"builtin.module"() ({
  "nv_tileaa.func"() <{sym_name = "k"}> ({
  ^bb0(%x: f8E4M3FN, %s: f8E8M0FNU, %z: f32):
    %a = "nv_tileaa.splat"(%x) : (f8E4M3FN) -> tensor<64x32xf8E4M3FN>
    %b = "nv_tileaa.splat"(%x) : (f8E4M3FN) -> tensor<32x64xf8E4M3FN>
    %c = "nv_tileaa.splat"(%z) : (f32) -> tensor<64x64xf32>
    %sa = "nv_tileaa.splat"(%s) : (f8E8M0FNU) -> tensor<64x1xf8E8M0FNU>
    %sb = "nv_tileaa.splat"(%s) : (f8E8M0FNU) -> tensor<1x64xf8E8M0FNU>
    %d = "nv_tileaa.dot_scaled"(%a, %b, %c, %sa, %sb) : (tensor<64x32xf8E4M3FN>, tensor<32x64xf8E4M3FN>, tensor<64x64xf32>, tensor<64x1xf8E8M0FNU>, tensor<1x64xf8E8M0FNU>) -> tensor<64x64xf32>
    %u = "nv_tileaa.print"(%d) <{format = "%f", operandSegmentSizes = array<i32: 1, 0>}> : (tensor<64x64xf32>) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
