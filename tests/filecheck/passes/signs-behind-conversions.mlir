// What a loop loads goes to other threads before its sign changes, where a sum takes the sign for nothing: a copy to shared memory then
// brings it. Behind a conversion of what isn't loaded nothing changes.
// RUN: tileiras-opt %s --passes=remove-layout-conversions --verify-each | filecheck %s

// CHECK: [[X:%[0-9a-z]+]], {{%[0-9a-z]+}} = "nv_tileas.load"
// CHECK: [[Y:%[0-9a-z]+]] = "nv_tileas.convert_layout"([[X]])
// CHECK-NEXT: [[Z:%[0-9a-z]+]] = "arith.negf"([[Y]])
// CHECK-NEXT: "arith.addf"([[Z]]
// CHECK: [[N:%[0-9a-z]+]] = "arith.negf"
// CHECK-NEXT: "nv_tileas.convert_layout"([[N]])
"builtin.module"() ({
  "nv_tileas.func"() <{sym_name = "k", num_warps = #builtin.int<1>}> ({
  ^bb0(%p: !nv_tileaa.ptr<f32>, %n: i32):
    %t = "nv_tileas.create_mem_token"() : () -> !nv_tileaa.mem_token
    %r = "nv_tileas.make_range"() : () -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>
    %s = "nv_tileas.splat"(%p) : (!nv_tileaa.ptr<f32>) -> tensor<64x!nv_tileaa.ptr<f32>, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>
    %a = "nv_tileas.addptr"(%s, %r) : (tensor<64x!nv_tileaa.ptr<f32>, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>, tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>) -> tensor<64x!nv_tileaa.ptr<f32>, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %start = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> tensor<64xf32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>
    %sum = "scf.for"(%zero, %n, %one, %start) ({
    ^bb1(%i: i32, %acc: tensor<64xf32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>):
      %x, %u = "nv_tileas.load"(%a, %t) <{mem_semantic = "weak", operandSegmentSizes = array<i32: 1, 0, 0, 1>, runs = [#builtin.int<2>], contiguous = #builtin.int<0>}> : (tensor<64x!nv_tileaa.ptr<f32>, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>, !nv_tileaa.mem_token) -> (tensor<64xf32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>, !nv_tileaa.mem_token)
      %neg = "arith.negf"(%x) : (tensor<64xf32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>) -> tensor<64xf32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>
      %c = "nv_tileas.convert_layout"(%neg) : (tensor<64xf32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>) -> tensor<64xf32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>
      %d = "arith.addf"(%c, %acc) <{rounding = "nearest_even"}> : (tensor<64xf32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>, tensor<64xf32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>) -> tensor<64xf32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>
      "scf.yield"(%d) : (tensor<64xf32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>) -> ()
    }) : (i32, i32, i32, tensor<64xf32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>) -> tensor<64xf32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>
    %m = "arith.negf"(%sum) : (tensor<64xf32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>) -> tensor<64xf32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>
    %o = "nv_tileas.convert_layout"(%m) : (tensor<64xf32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>) -> tensor<64xf32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>
    %v = "nv_tileas.print"(%o) <{format = "%f", operandSegmentSizes = array<i32: 1, 0>}> : (tensor<64xf32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>) -> !nv_tileaa.mem_token
    "nv_tileas.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
