// Each warp turns its own 16 rows of a tile: its threads meet, not the block's. The next buffer at that place is filled warp by warp,
// too; a tile whose rows go to other warps makes the block meet, and only where somebody reads or writes what another warp touched.
// RUN: tileiras-opt %s --passes=order-memory | filecheck %s

#mine = #nv_tileas.layout<shape = [64x8], reg = [[1, 0], [2, 0]], lane = [[0, 1], [0, 2], [0, 4], [4, 0], [8, 0]], warp = [[16, 0], [32, 0]]>
#turned = #nv_tileas.layout<shape = [64x8], reg = [[0, 1], [0, 2]], lane = [[0, 4], [1, 0], [2, 0], [4, 0], [8, 0]], warp = [[16, 0], [32, 0]]>
#others = #nv_tileas.layout<shape = [64x8], reg = [[0, 1], [0, 2]], lane = [[0, 4], [1, 0], [2, 0], [16, 0], [32, 0]], warp = [[4, 0], [8, 0]]>
#rows = #nv_tileas.shared<shape = [64x8], offset = [1, 2, 4, 8, 16, 32, 64, 128, 256]>

"builtin.module"() ({
  // CHECK: sym_name = "own"
  // CHECK: "nv_tileas.store_shared"(%x, [[A:%[0-9a-z]+]])
  // CHECK-NEXT: "nv_tileas.warp_barrier"
  // CHECK-NEXT: "nv_tileas.load_shared"([[A]])
  // CHECK-NEXT: "nv_tileas.alloc_tensor"
  // CHECK-NEXT: "nv_tileas.warp_barrier"
  // CHECK-NEXT: "nv_tileas.store_shared"
  // CHECK-NEXT: "nv_tileas.warp_barrier"
  // CHECK-NEXT: "nv_tileas.load_shared"
  // CHECK-NOT: barrier
  // CHECK: "nv_tileas.return"
  "nv_tileas.func"() <{sym_name = "own", num_warps = #builtin.int<4>}> ({
  ^bb0(%p: f32):
    %x = "nv_tileas.splat"(%p) : (f32) -> tensor<64x8xf32, #mine>
    %a = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<0>}> : () -> !nv_tileas.buffer<f32, #rows>
    "nv_tileas.store_shared"(%x, %a) : (tensor<64x8xf32, #mine>, !nv_tileas.buffer<f32, #rows>) -> ()
    %y = "nv_tileas.load_shared"(%a) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<f32, #rows>) -> tensor<64x8xf32, #turned>
    %b = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<0>}> : () -> !nv_tileas.buffer<f32, #rows>
    "nv_tileas.store_shared"(%y, %b) : (tensor<64x8xf32, #turned>, !nv_tileas.buffer<f32, #rows>) -> ()
    %z = "nv_tileas.load_shared"(%b) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<f32, #rows>) -> tensor<64x8xf32, #mine>
    "nv_tileas.return"() : () -> ()
  }) : () -> ()

  // CHECK: sym_name = "crossing"
  // CHECK: "nv_tileas.store_shared"
  // CHECK-NEXT: "nv_tileas.warp_barrier"
  // CHECK-NEXT: "nv_tileas.load_shared"
  // CHECK-NEXT: "nv_tileas.barrier"
  // CHECK-NEXT: "nv_tileas.load_shared"
  // CHECK-NEXT: "nv_tileas.barrier"
  // CHECK-NEXT: "nv_tileas.store_shared"
  // CHECK-NOT: barrier
  // CHECK: "nv_tileas.return"
  "nv_tileas.func"() <{sym_name = "crossing", num_warps = #builtin.int<4>}> ({
  ^bb0(%p: f32):
    %x = "nv_tileas.splat"(%p) : (f32) -> tensor<64x8xf32, #mine>
    %a = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<0>}> : () -> !nv_tileas.buffer<f32, #rows>
    "nv_tileas.store_shared"(%x, %a) : (tensor<64x8xf32, #mine>, !nv_tileas.buffer<f32, #rows>) -> ()
    %y = "nv_tileas.load_shared"(%a) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<f32, #rows>) -> tensor<64x8xf32, #turned>
    %z = "nv_tileas.load_shared"(%a) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<f32, #rows>) -> tensor<64x8xf32, #others>
    "nv_tileas.store_shared"(%y, %a) : (tensor<64x8xf32, #turned>, !nv_tileas.buffer<f32, #rows>) -> ()
    "nv_tileas.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
