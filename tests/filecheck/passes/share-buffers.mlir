// A tile that is written to shared memory twice in the same form is written once.
// RUN: tileiras-opt %s --passes=share-buffers --verify-each | filecheck %s

// CHECK: %b = "nv_tileas.alloc_tensor"
// CHECK-NEXT: "nv_tileas.store_shared"(%t, %b)
// CHECK-NEXT: %x = "nv_tileas.load_shared"(%b)
// CHECK-NEXT: %y = "nv_tileas.load_shared"(%b)
// CHECK-NEXT: "arith.addi"(%x, %y)
"builtin.module"() ({
  "nv_tileas.func"() <{sym_name = "k", num_warps = #builtin.int<1>}> ({
    %t = "nv_tileas.make_range"() : () -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>
    %b = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>
    "nv_tileas.store_shared"(%t, %b) : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>, !nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>) -> ()
    %x = "nv_tileas.load_shared"(%b) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>) -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>
    %c = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>
    "nv_tileas.store_shared"(%t, %c) : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>, !nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>) -> ()
    %y = "nv_tileas.load_shared"(%c) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>) -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>
    %a = "arith.addi"(%x, %y) : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>, tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>) -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>
    %u = "nv_tileas.print"(%a) <{format = "%d", operandSegmentSizes = array<i32: 1, 0>}> : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>) -> !nv_tileaa.mem_token
    "nv_tileas.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
