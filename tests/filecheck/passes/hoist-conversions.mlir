// A loop converts the same tile in each iteration: once before it will do. What the loop makes is converted in it.
// RUN: tileiras-opt %s --passes=hoist-conversions --verify-each | filecheck %s

// CHECK: [[T:%[0-9a-z]+]] = "nv_tileas.make_range"
// CHECK: %c = "nv_tileas.convert_layout"(%t)
// CHECK-NEXT: "scf.for"
// CHECK: %a = "arith.addi"(%c, %c)
// CHECK-NEXT: "nv_tileas.convert_layout"(%a)
"builtin.module"() ({
  "nv_tileas.func"() <{sym_name = "k", num_warps = #builtin.int<1>}> ({
  ^bb0(%n: i32):
    %t = "nv_tileas.make_range"() : () -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>
    "scf.for"(%n, %n, %n) ({
    ^bb0(%i: i32):
      %c = "nv_tileas.convert_layout"(%t) : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>) -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>
      %a = "arith.addi"(%c, %c) : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>, tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>) -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>
      %d = "nv_tileas.convert_layout"(%a) : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>) -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>
      %u = "nv_tileas.print"(%d) <{format = "%d", operandSegmentSizes = array<i32: 1, 0>}> : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>) -> !nv_tileaa.mem_token
      "scf.yield"() : () -> ()
    }) : (i32, i32, i32) -> ()
    "nv_tileas.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
