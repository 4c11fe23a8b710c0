// Memory that a program takes for other elements is loaded and stored as these: by views (one for an array, however often it's
// accessed), by pointers as far back as they're computed, and with the elements' names changed in between.
// RUN: tileiras-opt %s --passes=retype-accesses --verify-each | filecheck %s

// CHECK: sym_name = "views"
// CHECK: [[P:%[0-9a-z_]+]] = "nv_tileaa.ptr_to_ptr"(%p) : (!nv_tileaa.ptr<i16>) -> !nv_tileaa.ptr<bf16>
// CHECK: [[M:%[0-9a-z_]+]] = "nv_tileaa.make_memref"([[P]], %h, %w, %w)
// CHECK: [[V:%[0-9a-z_]+]] = "nv_tileaa.block_tile"([[M]])
// CHECK: [[X:%[0-9a-z_]+]], [[K:%[0-9a-z_]+]] = "nv_tileaa.tiled_load"([[V]], %zero, %zero, %t) {{.*}} -> (tensor<16x32xbf16>, !nv_tileaa.mem_token)
// CHECK-NEXT: [[Y:%[0-9a-z_]+]] = "nv_tileaa.permute"([[X]])
// CHECK-NEXT: {{%[0-9a-z_]+}} = "nv_tileaa.permute"
// CHECK-NEXT: {{%[0-9a-z_]+}} = "nv_tileaa.tiled_store"({{%[0-9a-z_]+}}, [[V]], %zero, %zero, [[K]])
// CHECK-NOT: bitcast

// CHECK: sym_name = "pointers"
// CHECK: [[Q:%[0-9a-z_]+]] = "nv_tileaa.ptr_to_ptr"(%p{{[_0-9]*}})
// CHECK: [[S:%[0-9a-z_]+]] = "nv_tileaa.splat"([[Q]])
// CHECK: [[A:%[0-9a-z_]+]] = "nv_tileaa.addptr"([[S]], %at)
// CHECK: [[O:%[0-9a-z_]+]] = "arith.bitcast"(%other)
// CHECK-NEXT: "nv_tileaa.load"([[A]], %mask, [[O]], %t{{[_0-9]*}})
// CHECK-NOT: bitcast

// Taken for two types, read in order with others, or padded with an infinity, it stays what it is.
// CHECK: sym_name = "left"
// CHECK-COUNT-4: "arith.bitcast"
// CHECK-NOT: ptr_to_ptr
builtin.module {
  "nv_tileaa.func"() <{sym_name = "views"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i16>, %h: i32, %w: i32, %q: !nv_tileaa.ptr<bf16>):
    %t = "nv_tileaa.create_mem_token"() : () -> !nv_tileaa.mem_token
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %m = "nv_tileaa.make_memref"(%p, %h, %w, %w) <{operandSegmentSizes = array<i32: 1, 2, 1>}> : (!nv_tileaa.ptr<i16>, i32, i32, i32) -> !nv_tileaa.memref<?x?xi16, strides = [?, 1]>
    %v = "nv_tileaa.block_tile"(%m) : (!nv_tileaa.memref<?x?xi16, strides = [?, 1]>) -> !nv_tileaa.tiled_view<partition, tile = [16, 32], !nv_tileaa.memref<?x?xi16, strides = [?, 1]>>
    %i, %k = "nv_tileaa.tiled_load"(%v, %zero, %zero, %t) <{mem_semantic = "weak", operandSegmentSizes = array<i32: 1, 2, 1>}> : (!nv_tileaa.tiled_view<partition, tile = [16, 32], !nv_tileaa.memref<?x?xi16, strides = [?, 1]>>, i32, i32, !nv_tileaa.mem_token) -> (tensor<16x32xi16>, !nv_tileaa.mem_token)
    %turned = "nv_tileaa.permute"(%i) <{permutation = [#builtin.int<1>, #builtin.int<0>]}> : (tensor<16x32xi16>) -> tensor<32x16xi16>
    %x = "arith.bitcast"(%turned) : (tensor<32x16xi16>) -> tensor<32x16xbf16>
    %y = "nv_tileaa.permute"(%x) <{permutation = [#builtin.int<1>, #builtin.int<0>]}> : (tensor<32x16xbf16>) -> tensor<16x32xbf16>
    %z = "arith.bitcast"(%y) : (tensor<16x32xbf16>) -> tensor<16x32xi16>
    %done = "nv_tileaa.tiled_store"(%z, %v, %zero, %zero, %k) <{mem_semantic = "weak", operandSegmentSizes = array<i32: 1, 1, 2, 1>}> : (tensor<16x32xi16>, !nv_tileaa.tiled_view<partition, tile = [16, 32], !nv_tileaa.memref<?x?xi16, strides = [?, 1]>>, i32, i32, !nv_tileaa.mem_token) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "pointers"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i16>, %at: tensor<8xi32>, %mask: tensor<8xi1>, %other: tensor<8xi16>):
    %t = "nv_tileaa.create_mem_token"() : () -> !nv_tileaa.mem_token
    %s = "nv_tileaa.splat"(%p) : (!nv_tileaa.ptr<i16>) -> tensor<8x!nv_tileaa.ptr<i16>>
    %a = "nv_tileaa.addptr"(%s, %at) : (tensor<8x!nv_tileaa.ptr<i16>>, tensor<8xi32>) -> tensor<8x!nv_tileaa.ptr<i16>>
    %i, %k = "nv_tileaa.load"(%a, %mask, %other, %t) <{mem_semantic = "weak", operandSegmentSizes = array<i32: 1, 1, 1, 1>}> : (tensor<8x!nv_tileaa.ptr<i16>>, tensor<8xi1>, tensor<8xi16>, !nv_tileaa.mem_token) -> (tensor<8xi16>, !nv_tileaa.mem_token)
    %x = "arith.bitcast"(%i) : (tensor<8xi16>) -> tensor<8xf16>
    "nv_tileaa.print"(%x) <{format = "%f", operandSegmentSizes = array<i32: 1, 0>, resultSegmentSizes = array<i32: 0>}> : (tensor<8xf16>) -> ()
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "left"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i16>, %q: !nv_tileaa.ptr<f16>, %h: i32):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %two, %k = "nv_tileaa.load"(%p) <{mem_semantic = "weak", operandSegmentSizes = array<i32: 1, 0, 0, 0>}> : (!nv_tileaa.ptr<i16>) -> (i16, !nv_tileaa.mem_token)
    %a = "arith.bitcast"(%two) : (i16) -> f16
    %b = "arith.bitcast"(%two) : (i16) -> bf16
    %in_order, %k2 = "nv_tileaa.load"(%p) <{mem_scope = "device", mem_semantic = "acquire", operandSegmentSizes = array<i32: 1, 0, 0, 0>}> : (!nv_tileaa.ptr<i16>) -> (i16, !nv_tileaa.mem_token)
    %c = "arith.bitcast"(%in_order) : (i16) -> f16
    %m = "nv_tileaa.make_memref"(%q, %h) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (!nv_tileaa.ptr<f16>, i32) -> !nv_tileaa.memref<?xf16, strides = [1]>
    %v = "nv_tileaa.block_tile"(%m) : (!nv_tileaa.memref<?xf16, strides = [1]>) -> !nv_tileaa.tiled_view<partition, tile = [8], padding = neg_inf, !nv_tileaa.memref<?xf16, strides = [1]>>
    %i, %k3 = "nv_tileaa.tiled_load"(%v, %zero) <{mem_semantic = "weak", operandSegmentSizes = array<i32: 1, 1, 0>}> : (!nv_tileaa.tiled_view<partition, tile = [8], padding = neg_inf, !nv_tileaa.memref<?xf16, strides = [1]>>, i32) -> (tensor<8xf16>, !nv_tileaa.mem_token)
    %d = "arith.bitcast"(%i) : (tensor<8xf16>) -> tensor<8xi16>
    "nv_tileaa.print"(%a, %b, %c, %d) <{format = "%f %f %f %i", operandSegmentSizes = array<i32: 4, 0>, resultSegmentSizes = array<i32: 0>}> : (f16, bf16, f16, tensor<8xi16>) -> ()
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
}
