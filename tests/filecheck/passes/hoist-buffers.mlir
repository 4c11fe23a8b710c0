// What a loop writes anew in each iteration is written before it; which round is written may depend on the iteration: that stays.
// RUN: tileiras-opt %s --passes=hoist-buffers --verify-each | filecheck %s

// CHECK: %b = "nv_tileas.alloc_tensor"
// CHECK-NEXT: "nv_tileas.store_shared"(%t, %b)
// CHECK-NEXT: "scf.for"
// CHECK: %c = "nv_tileas.alloc_tensor"
// CHECK-NEXT: "nv_tileas.store_shared"(%t, %c, %part) <{rounds
"builtin.module"() ({
  "nv_tileas.func"() <{sym_name = "k", num_warps = #builtin.int<1>}> ({
  ^bb0(%n: i32):
    %t = "nv_tileas.make_range"() : () -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %three = "arith.constant"() <{value = 3 : i32}> : () -> i32
    "scf.for"(%zero, %n, %one) ({
    ^bb0(%i: i32):
      %b = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>
      "nv_tileas.store_shared"(%t, %b) : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>, !nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>) -> ()
      %x = "nv_tileas.load_shared"(%b) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 16, 32]>>) -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>
      %u = "nv_tileas.print"(%x) <{format = "%d", operandSegmentSizes = array<i32: 1, 0>}> : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>) -> !nv_tileaa.mem_token
      %part = "arith.andi"(%i, %three) : (i32, i32) -> i32
      %c = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 0, 0]>>
      "nv_tileas.store_shared"(%t, %c, %part) <{rounds = [#builtin.int<16>, #builtin.int<32>], round = #builtin.int<0>}> : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>, !nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 0, 0]>>, i32) -> ()
      %y = "nv_tileas.load_shared"(%c) <{rounds = [#builtin.int<16>, #builtin.int<32>], round = #builtin.int<0>, operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<i32, #nv_tileas.shared<shape = [64], offset = [1, 2, 4, 8, 0, 0]>>) -> tensor<16xi32, #nv_tileas.layout<shape = [16], reg = [], lane = [[1], [2], [4], [8], [0]], warp = []>>
      %v = "nv_tileas.print"(%y) <{format = "%d", operandSegmentSizes = array<i32: 1, 0>}> : (tensor<16xi32, #nv_tileas.layout<shape = [16], reg = [], lane = [[1], [2], [4], [8], [0]], warp = []>>) -> !nv_tileaa.mem_token
      "scf.yield"() : () -> ()
    }) : (i32, i32, i32) -> ()
    "nv_tileas.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
