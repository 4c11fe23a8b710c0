// Tiles go to other threads together: what is read from the first buffer, and what follows from it, stands behind the writes of the
// second one. The third tile needs both, and nothing passes what prints it. A larger tile that is computed from what is read doesn't
// wait.
// RUN: tileiras-opt %s --passes=meet-once --verify-each | filecheck %s
// RUN: tileiras-opt %s --passes=meet-once,allocate-buffers,order-memory --verify-each | filecheck %s --check-prefix=ONCE

// CHECK: "nv_tileas.store_shared"(%t, %a)
// CHECK-NOT: "nv_tileas.load_shared"
// CHECK: %s = "arith.addi"(%t, %t)
// CHECK: "nv_tileas.store_shared"(%s, %b)
// CHECK-NEXT: %x = "nv_tileas.load_shared"(%a)
// CHECK-NEXT: %u = "arith.addi"(%x, %x)
// CHECK-NEXT: %y = "nv_tileas.load_shared"(%b)
// CHECK-NEXT: %v = "arith.addi"(%u, %y)
// CHECK-NEXT: %c = "nv_tileas.alloc_tensor"
// CHECK-NEXT: "nv_tileas.store_shared"(%v, %c)
// CHECK-NEXT: %z = "nv_tileas.load_shared"(%c)
// CHECK-NEXT: "nv_tileas.print"
// CHECK: "nv_tileas.store_shared"(%t, %d)
// CHECK: %f = "nv_tileas.load_shared"(%e)
// CHECK-NEXT: %g = "nv_tileas.cat"
// CHECK: "nv_tileas.store_shared"(%t, %h)

// ONCE: "nv_tileas.store_shared"
// ONCE-NEXT: "arith.addi"
// ONCE-NEXT: "nv_tileas.alloc_tensor"
// ONCE-NEXT: "nv_tileas.store_shared"
// ONCE-NEXT: "nv_tileas.barrier"
// ONCE-NOT: "nv_tileas.barrier"
// ONCE: "nv_tileas.store_shared"(%v, %c)
// ONCE-NEXT: "nv_tileas.barrier"
"builtin.module"() ({
  "nv_tileas.func"() <{sym_name = "k", num_warps = #builtin.int<2>}> ({
    %t = "nv_tileas.make_range"() : () -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32]]>>
    %a = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>
    "nv_tileas.store_shared"(%t, %a) : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32]]>>, !nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>) -> ()
    %x = "nv_tileas.load_shared"(%a) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>) -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[32], [1], [2], [4], [8]], warp = [[16]]>>
    %u = "arith.addi"(%x, %x) : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[32], [1], [2], [4], [8]], warp = [[16]]>>, tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[32], [1], [2], [4], [8]], warp = [[16]]>>) -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[32], [1], [2], [4], [8]], warp = [[16]]>>
    %s = "arith.addi"(%t, %t) : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32]]>>, tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32]]>>) -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32]]>>
    %b = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>
    "nv_tileas.store_shared"(%s, %b) : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32]]>>, !nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>) -> ()
    %y = "nv_tileas.load_shared"(%b) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>) -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[32], [1], [2], [4], [8]], warp = [[16]]>>
    %v = "arith.addi"(%u, %y) : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[32], [1], [2], [4], [8]], warp = [[16]]>>, tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[32], [1], [2], [4], [8]], warp = [[16]]>>) -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[32], [1], [2], [4], [8]], warp = [[16]]>>
    %c = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>
    "nv_tileas.store_shared"(%v, %c) : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[32], [1], [2], [4], [8]], warp = [[16]]>>, !nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>) -> ()
    %z = "nv_tileas.load_shared"(%c) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>) -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32]]>>
    %p = "nv_tileas.print"(%z) <{format = "%d", operandSegmentSizes = array<i32: 1, 0>}> : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32]]>>) -> !nv_tileaa.mem_token
    %d = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>
    "nv_tileas.store_shared"(%t, %d) : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32]]>>, !nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>) -> ()
    %w = "nv_tileas.load_shared"(%d) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>) -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[32], [1], [2], [4], [8]], warp = [[16]]>>
    %q = "nv_tileas.print"(%w) <{format = "%d", operandSegmentSizes = array<i32: 1, 0>}> : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[32], [1], [2], [4], [8]], warp = [[16]]>>) -> !nv_tileaa.mem_token
    %e = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>
    "nv_tileas.store_shared"(%t, %e) : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32]]>>, !nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>) -> ()
    %f = "nv_tileas.load_shared"(%e) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>) -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[0]], lane = [[32], [1], [2], [4], [8]], warp = [[16]]>>
    %g = "nv_tileas.cat"(%f, %f) <{dim = 0 : i64}> : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[0]], lane = [[32], [1], [2], [4], [8]], warp = [[16]]>>, tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[0]], lane = [[32], [1], [2], [4], [8]], warp = [[16]]>>) -> tensor<128xi32, #nv_tileas.layout<shape = [128], reg = [[64]], lane = [[32], [1], [2], [4], [8]], warp = [[16]]>>
    %h = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>
    "nv_tileas.store_shared"(%t, %h) : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32]]>>, !nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>) -> ()
    %i = "nv_tileas.load_shared"(%h) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>) -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[32], [1], [2], [4], [8]], warp = [[16]]>>
    %j = "nv_tileas.print"(%g, %i) <{format = "%d %d", operandSegmentSizes = array<i32: 2, 0>}> : (tensor<128xi32, #nv_tileas.layout<shape = [128], reg = [[64]], lane = [[32], [1], [2], [4], [8]], warp = [[16]]>>, tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [], lane = [[32], [1], [2], [4], [8]], warp = [[16]]>>) -> !nv_tileaa.mem_token
    "nv_tileas.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
