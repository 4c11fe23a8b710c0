// Block-scaled products as their instructions take them: 4-bit elements as the bytes that they came from, and by tcgen05 a product with
// too few rows turned, with what the loop carries for it; by mma.sync other products stay as they are.
// RUN: tileiras-opt %s --passes=prepare-dot-scaled --gpu-name=sm_100 | filecheck %s
// RUN: tileiras-opt %s --passes=prepare-dot-scaled --gpu-name=sm_120 | filecheck %s --check-prefix=WARPS
// RUN: tileiras-opt %s --passes=prepare-dot-scaled --gpu-name=sm_90 | filecheck %s --check-prefix=OTHER

// OTHER-NOT: block

// WARPS-LABEL: sym_name = "bytes"
// WARPS-NOT: unpack
// WARPS: [[X:%[0-9a-z_]+]] = "nv_tileaa.view"(%p) : (tensor<64x128xi8>) -> tensor<128x64xi8>
// WARPS: "nv_tileaa.dot_scaled"([[X]], {{.*}}) <{packed, block = #builtin.int<16>}> : (tensor<128x64xi8>, tensor<64x64xi8>, tensor<128x64xf32>
// WARPS-LABEL: sym_name = "others"
// WARPS: "nv_tileaa.pack"({{.*}}) : (tensor<8192xf4E2M1FN>) -> tensor<4096xi8>
// WARPS-LABEL: sym_name = "turned"
// WARPS-NOT: permute
// WARPS: "nv_tileaa.dot_scaled"({{.*}}) : (tensor<32x64xf8E5M2>, tensor<64x128xf8E5M2>, tensor<32x128xf32>

// CHECK-LABEL: sym_name = "bytes"
// CHECK-NOT: unpack
// CHECK: [[X:%[0-9a-z_]+]] = "nv_tileaa.view"(%p) : (tensor<64x128xi8>) -> tensor<128x64xi8>
// CHECK: [[W:%[0-9a-z_]+]] = "nv_tileaa.view"(%q) : (tensor<4096xi8>) -> tensor<64x64xi8>
// CHECK: [[Y:%[0-9a-z_]+]] = "nv_tileaa.permute"([[W]]) {{.*}} : (tensor<64x64xi8>) -> tensor<64x64xi8>
// CHECK: "nv_tileaa.dot_scaled"([[X]], [[Y]], %c, %s, %t) <{packed, block = #builtin.int<16>}>

// CHECK-LABEL: sym_name = "others"
// CHECK: [[F:%[0-9a-z_]+]] = "nv_tileaa.permute"(%b{{[_0-9]*}}) {{.*}} : (tensor<128x64xf4E2M1FN>) -> tensor<64x128xf4E2M1FN>
// CHECK: [[G:%[0-9a-z_]+]] = "nv_tileaa.view"([[F]]) : (tensor<64x128xf4E2M1FN>) -> tensor<8192xf4E2M1FN>
// CHECK: [[H:%[0-9a-z_]+]] = "nv_tileaa.pack"([[G]]) : (tensor<8192xf4E2M1FN>) -> tensor<4096xi8>
// CHECK: [[I:%[0-9a-z_]+]] = "nv_tileaa.view"([[H]]) : (tensor<4096xi8>) -> tensor<64x64xi8>
// CHECK: [[J:%[0-9a-z_]+]] = "nv_tileaa.permute"([[I]]) {{.*}} : (tensor<64x64xi8>) -> tensor<64x64xi8>
// CHECK: "nv_tileaa.dot_scaled"({{.*}}, [[J]], %c{{[_0-9]*}}, {{.*}})

// CHECK-LABEL: sym_name = "turned"
// CHECK: [[Z:%[0-9a-z_]+]] = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> tensor<128x32xf32>
// CHECK: [[R:%[0-9a-z_]+]] = "scf.for"(%i, %j, %k, [[Z]])
// CHECK-NEXT: ^bb0({{.*}}, [[C:%[0-9a-z_]+]]: tensor<128x32xf32>):
// CHECK: [[D:%[0-9a-z_]+]] = "nv_tileaa.dot_scaled"({{.*}}, {{.*}}, [[C]], {{.*}}) <{block = #builtin.int<32>}> : (tensor<128x64xf8E5M2>, tensor<64x32xf8E5M2>, tensor<128x32xf32>, tensor<128x2xf8E8M0FNU>, tensor<2x32xf8E8M0FNU>) -> tensor<128x32xf32>
// CHECK: "scf.yield"([[D]])
// CHECK: "nv_tileaa.permute"([[R]]) {{.*}} : (tensor<128x32xf32>) -> tensor<32x128xf32>
"builtin.module"() ({
  "nv_tileaa.func"() <{sym_name = "bytes"}> ({
  ^bb0(%v: i8, %w: f32, %x: f8E4M3FN):
    %p = "nv_tileaa.splat"(%v) : (i8) -> tensor<64x128xi8>
    %p1 = "nv_tileaa.view"(%p) : (tensor<64x128xi8>) -> tensor<8192xi8>
    %p2 = "nv_tileaa.unpack"(%p1) : (tensor<8192xi8>) -> tensor<16384xf4E2M1FN>
    %a = "nv_tileaa.view"(%p2) : (tensor<16384xf4E2M1FN>) -> tensor<128x128xf4E2M1FN>
    %q = "nv_tileaa.splat"(%v) : (i8) -> tensor<4096xi8>
    %q1 = "nv_tileaa.unpack"(%q) : (tensor<4096xi8>) -> tensor<8192xf4E2M1FN>
    %q2 = "nv_tileaa.view"(%q1) : (tensor<8192xf4E2M1FN>) -> tensor<64x128xf4E2M1FN>
    %b = "nv_tileaa.permute"(%q2) <{permutation = [#builtin.int<1>, #builtin.int<0>]}> : (tensor<64x128xf4E2M1FN>) -> tensor<128x64xf4E2M1FN>
    %c = "nv_tileaa.splat"(%w) : (f32) -> tensor<128x64xf32>
    %s = "nv_tileaa.splat"(%x) : (f8E4M3FN) -> tensor<128x8xf8E4M3FN>
    %t = "nv_tileaa.splat"(%x) : (f8E4M3FN) -> tensor<8x64xf8E4M3FN>
    %d = "nv_tileaa.dot_scaled"(%a, %b, %c, %s, %t) : (tensor<128x128xf4E2M1FN>, tensor<128x64xf4E2M1FN>, tensor<128x64xf32>, tensor<128x8xf8E4M3FN>, tensor<8x64xf8E4M3FN>) -> tensor<128x64xf32>
    %o = "nv_tileaa.print"(%d) <{format = "%f", operandSegmentSizes = array<i32: 1, 0>, resultSegmentSizes = array<i32: 1>}> : (tensor<128x64xf32>) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "others"}> ({
  ^bb0(%v: f4E2M1FN, %w: f32, %x: f8E4M3FN):
    %a = "nv_tileaa.splat"(%v) : (f4E2M1FN) -> tensor<128x128xf4E2M1FN>
    %b = "nv_tileaa.splat"(%v) : (f4E2M1FN) -> tensor<128x64xf4E2M1FN>
    %c = "nv_tileaa.splat"(%w) : (f32) -> tensor<128x64xf32>
    %s = "nv_tileaa.splat"(%x) : (f8E4M3FN) -> tensor<128x8xf8E4M3FN>
    %t = "nv_tileaa.splat"(%x) : (f8E4M3FN) -> tensor<8x64xf8E4M3FN>
    %d = "nv_tileaa.dot_scaled"(%a, %b, %c, %s, %t) : (tensor<128x128xf4E2M1FN>, tensor<128x64xf4E2M1FN>, tensor<128x64xf32>, tensor<128x8xf8E4M3FN>, tensor<8x64xf8E4M3FN>) -> tensor<128x64xf32>
    %o = "nv_tileaa.print"(%d) <{format = "%f", operandSegmentSizes = array<i32: 1, 0>, resultSegmentSizes = array<i32: 1>}> : (tensor<128x64xf32>) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "turned"}> ({
  ^bb0(%i: i32, %j: i32, %k: i32, %v: f8E5M2, %x: f8E8M0FNU):
    %a = "nv_tileaa.splat"(%v) : (f8E5M2) -> tensor<32x64xf8E5M2>
    %b = "nv_tileaa.splat"(%v) : (f8E5M2) -> tensor<64x128xf8E5M2>
    %z = "arith.constant"() <{value = 0.0 : f32}> : () -> tensor<32x128xf32>
    %s = "nv_tileaa.splat"(%x) : (f8E8M0FNU) -> tensor<32x2xf8E8M0FNU>
    %t = "nv_tileaa.splat"(%x) : (f8E8M0FNU) -> tensor<2x128xf8E8M0FNU>
    %r = "scf.for"(%i, %j, %k, %z) ({
    ^bb0(%n: i32, %c: tensor<32x128xf32>):
      %d = "nv_tileaa.dot_scaled"(%a, %b, %c, %s, %t) : (tensor<32x64xf8E5M2>, tensor<64x128xf8E5M2>, tensor<32x128xf32>, tensor<32x2xf8E8M0FNU>, tensor<2x128xf8E8M0FNU>) -> tensor<32x128xf32>
      "scf.yield"(%d) : (tensor<32x128xf32>) -> ()
    }) : (i32, i32, i32, tensor<32x128xf32>) -> tensor<32x128xf32>
    %o = "nv_tileaa.print"(%r) <{format = "%f", operandSegmentSizes = array<i32: 1, 0>, resultSegmentSizes = array<i32: 1>}> : (tensor<32x128xf32>) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
