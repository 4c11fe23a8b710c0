// There and back is nowhere; a range is made in the layout wanted.
// RUN: tileiras-opt %s --passes=remove-layout-conversions --verify-each | filecheck %s

// CHECK: "nv_tileas.func"
// CHECK-NOT: convert_layout
// CHECK: "nv_tileas.print"({{%[0-9a-z]+}}) {{.*}}reg = {{\[\[}}32]]
// CHECK-NOT: convert_layout
// CHECK: "nv_tileas.return"
"builtin.module"() ({
  "nv_tileas.func"() <{sym_name = "k", num_warps = #builtin.int<1>}> ({
    %t = "nv_tileas.make_range"() : () -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>
    %c = "nv_tileas.convert_layout"(%t) : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>) -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>
    %d = "nv_tileas.convert_layout"(%c) : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>) -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>
    %e = "nv_tileas.convert_layout"(%d) : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>>) -> tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>
    %u = "nv_tileas.print"(%e) <{format = "%d", operandSegmentSizes = array<i32: 1, 0>}> : (tensor<64xi32, #nv_tileas.layout<shape = [64], reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>>) -> !nv_tileaa.mem_token
    "nv_tileas.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
