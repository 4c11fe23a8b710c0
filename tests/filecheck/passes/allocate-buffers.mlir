// Buffers that live at once lie beside each other; one that begins when another has ended takes its place, and must wait for
// those who still read there. Small ones alternate: the second behind takes the place, and the barrier of the one between serves.
// RUN: tileiras-opt %s --passes=allocate-buffers,order-memory | filecheck %s

// CHECK: sym_name = "small"{{.*}}shared_bytes = #builtin.int<1536>
// CHECK: [[A:%[0-9a-z]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<0>}>
// CHECK-NEXT: [[B:%[0-9a-z]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<512>}>
// CHECK-NEXT: "nv_tileas.store_shared"(%x, [[A]])
// CHECK-NEXT: "nv_tileas.store_shared"(%x, [[B]])
// CHECK-NEXT: "nv_tileas.barrier"()
// CHECK-NEXT: "nv_tileas.load_shared"([[A]])
// CHECK-NEXT: "nv_tileas.load_shared"([[B]])
// CHECK-NEXT: [[C:%[0-9a-z]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<1024>}>
// CHECK-NEXT: "nv_tileas.store_shared"(%x, [[C]])
// CHECK-NEXT: "nv_tileas.barrier"()
// CHECK-NEXT: "nv_tileas.load_shared"([[C]])
// CHECK-NEXT: [[D:%[0-9a-z]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<0>}>
// CHECK-NEXT: "nv_tileas.store_shared"(%x, [[D]])
// CHECK-NEXT: "nv_tileas.warp_barrier"()
// CHECK-NEXT: "nv_tileas.load_shared"([[D]])

// CHECK: sym_name = "large"{{.*}}shared_bytes = #builtin.int<4096>
// CHECK: [[A:%[0-9a-z_]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<0>}>
// CHECK-NEXT: [[B:%[0-9a-z_]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<2048>}>
// CHECK: [[C:%[0-9a-z_]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<0>}>
// CHECK-NEXT: "nv_tileas.barrier"()
// CHECK-NEXT: "nv_tileas.store_shared"(%{{[0-9a-z_]+}}, [[C]])
// CHECK-NEXT: "nv_tileas.barrier"()
// CHECK-NEXT: "nv_tileas.load_shared"([[C]])
"builtin.module"() ({
  "nv_tileas.func"() <{sym_name = "small", num_warps = #builtin.int<4>}> ({
  ^bb0(%p: f32):
    %x = "nv_tileas.splat"(%p) : (f32) -> tensor<128xf32, #nv_tileas.layout<shape = [128], reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>>
    %a = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<f32, #nv_tileas.shared<shape = [128], offset = [1, 2, 4, 8, 16, 32, 64]>>
    %b = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<f32, #nv_tileas.shared<shape = [128], offset = [1, 2, 4, 8, 16, 32, 64]>>
    "nv_tileas.store_shared"(%x, %a) : (tensor<128xf32, #nv_tileas.layout<shape = [128], reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>>, !nv_tileas.buffer<f32, #nv_tileas.shared<shape = [128], offset = [1, 2, 4, 8, 16, 32, 64]>>) -> ()
    "nv_tileas.store_shared"(%x, %b) : (tensor<128xf32, #nv_tileas.layout<shape = [128], reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>>, !nv_tileas.buffer<f32, #nv_tileas.shared<shape = [128], offset = [1, 2, 4, 8, 16, 32, 64]>>) -> ()
    %u = "nv_tileas.load_shared"(%a) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<f32, #nv_tileas.shared<shape = [128], offset = [1, 2, 4, 8, 16, 32, 64]>>) -> tensor<128xf32, #nv_tileas.layout<shape = [128], reg = [], lane = [[4], [8], [16], [32], [64]], warp = [[1], [2]]>>
    %v = "nv_tileas.load_shared"(%b) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<f32, #nv_tileas.shared<shape = [128], offset = [1, 2, 4, 8, 16, 32, 64]>>) -> tensor<128xf32, #nv_tileas.layout<shape = [128], reg = [], lane = [[4], [8], [16], [32], [64]], warp = [[1], [2]]>>
    %c = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<f32, #nv_tileas.shared<shape = [128], offset = [1, 2, 4, 8, 16, 32, 64]>>
    "nv_tileas.store_shared"(%x, %c) : (tensor<128xf32, #nv_tileas.layout<shape = [128], reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>>, !nv_tileas.buffer<f32, #nv_tileas.shared<shape = [128], offset = [1, 2, 4, 8, 16, 32, 64]>>) -> ()
    %w = "nv_tileas.load_shared"(%c) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<f32, #nv_tileas.shared<shape = [128], offset = [1, 2, 4, 8, 16, 32, 64]>>) -> tensor<128xf32, #nv_tileas.layout<shape = [128], reg = [], lane = [[4], [8], [16], [32], [64]], warp = [[1], [2]]>>
    %d = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<f32, #nv_tileas.shared<shape = [128], offset = [1, 2, 4, 8, 16, 32, 64]>>
    "nv_tileas.store_shared"(%x, %d) : (tensor<128xf32, #nv_tileas.layout<shape = [128], reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>>, !nv_tileas.buffer<f32, #nv_tileas.shared<shape = [128], offset = [1, 2, 4, 8, 16, 32, 64]>>) -> ()
    %y = "nv_tileas.load_shared"(%d) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<f32, #nv_tileas.shared<shape = [128], offset = [1, 2, 4, 8, 16, 32, 64]>>) -> tensor<128xf32, #nv_tileas.layout<shape = [128], reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>>
    "nv_tileas.return"() : () -> ()
  }) : () -> ()
  "nv_tileas.func"() <{sym_name = "large", num_warps = #builtin.int<4>}> ({
  ^bb0(%p: f32):
    %x = "nv_tileas.splat"(%p) : (f32) -> tensor<512xf32, #nv_tileas.layout<shape = [512], reg = [[128], [256]], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>>
    %a = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<f32, #nv_tileas.shared<shape = [512], offset = [1, 2, 4, 8, 16, 32, 64, 128, 256]>>
    %b = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<f32, #nv_tileas.shared<shape = [512], offset = [1, 2, 4, 8, 16, 32, 64, 128, 256]>>
    "nv_tileas.store_shared"(%x, %a) : (tensor<512xf32, #nv_tileas.layout<shape = [512], reg = [[128], [256]], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>>, !nv_tileas.buffer<f32, #nv_tileas.shared<shape = [512], offset = [1, 2, 4, 8, 16, 32, 64, 128, 256]>>) -> ()
    "nv_tileas.store_shared"(%x, %b) : (tensor<512xf32, #nv_tileas.layout<shape = [512], reg = [[128], [256]], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>>, !nv_tileas.buffer<f32, #nv_tileas.shared<shape = [512], offset = [1, 2, 4, 8, 16, 32, 64, 128, 256]>>) -> ()
    %u = "nv_tileas.load_shared"(%a) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<f32, #nv_tileas.shared<shape = [512], offset = [1, 2, 4, 8, 16, 32, 64, 128, 256]>>) -> tensor<512xf32, #nv_tileas.layout<shape = [512], reg = [[128], [256]], lane = [[4], [8], [16], [32], [64]], warp = [[1], [2]]>>
    %v = "nv_tileas.load_shared"(%b) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<f32, #nv_tileas.shared<shape = [512], offset = [1, 2, 4, 8, 16, 32, 64, 128, 256]>>) -> tensor<512xf32, #nv_tileas.layout<shape = [512], reg = [[128], [256]], lane = [[4], [8], [16], [32], [64]], warp = [[1], [2]]>>
    %c = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<f32, #nv_tileas.shared<shape = [512], offset = [1, 2, 4, 8, 16, 32, 64, 128, 256]>>
    "nv_tileas.store_shared"(%x, %c) : (tensor<512xf32, #nv_tileas.layout<shape = [512], reg = [[128], [256]], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>>, !nv_tileas.buffer<f32, #nv_tileas.shared<shape = [512], offset = [1, 2, 4, 8, 16, 32, 64, 128, 256]>>) -> ()
    %w = "nv_tileas.load_shared"(%c) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<f32, #nv_tileas.shared<shape = [512], offset = [1, 2, 4, 8, 16, 32, 64, 128, 256]>>) -> tensor<512xf32, #nv_tileas.layout<shape = [512], reg = [[128], [256]], lane = [[4], [8], [16], [32], [64]], warp = [[1], [2]]>>
    "nv_tileas.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
