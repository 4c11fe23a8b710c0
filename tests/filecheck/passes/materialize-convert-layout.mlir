// Elements that change warps go through a buffer; two conversions side by side are both written before either is read, at
// different places, and the threads meet once.
// RUN: tileiras-opt %s --passes=materialize-convert-layout,allocate-buffers,order-memory | filecheck %s

// CHECK: [[A:%[0-9a-z]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<0>}>
// CHECK-NEXT: "nv_tileas.store_shared"(%x, [[A]])
// CHECK-NEXT: [[B:%[0-9a-z]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<512>}>
// CHECK-NEXT: "nv_tileas.store_shared"(%y, [[B]])
// CHECK-NEXT: "nv_tileas.barrier"()
// CHECK-NEXT: "nv_tileas.load_shared"([[A]])
// CHECK-NEXT: "nv_tileas.load_shared"([[B]])
// CHECK-NOT: "nv_tileas.barrier"
// CHECK: "nv_tileas.return"
"builtin.module"() ({
  "nv_tileas.func"() <{sym_name = "f", num_warps = #builtin.int<4>}> ({
  ^bb0(%p: f32):
    %x = "nv_tileas.splat"(%p) : (f32) -> tensor<128xf32, #nv_tileas.layout<shape = [128], reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>>
    %y = "nv_tileas.splat"(%p) : (f32) -> tensor<128xf32, #nv_tileas.layout<shape = [128], reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>>
    %u = "nv_tileas.convert_layout"(%x) : (tensor<128xf32, #nv_tileas.layout<shape = [128], reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>>) -> tensor<128xf32, #nv_tileas.layout<shape = [128], reg = [], lane = [[4], [8], [16], [32], [64]], warp = [[1], [2]]>>
    %v = "nv_tileas.convert_layout"(%y) : (tensor<128xf32, #nv_tileas.layout<shape = [128], reg = [], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>>) -> tensor<128xf32, #nv_tileas.layout<shape = [128], reg = [], lane = [[4], [8], [16], [32], [64]], warp = [[1], [2]]>>
    "nv_tileas.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
