// Tensors get layouts. Accesses of one element each: neighbours lie in neighbouring lanes, then in the four warps; what is
// left, in registers. The sum has the layout of what it adds.
// RUN: tileiras-opt %s --to=nv_tileaa -O0 -o %t.aa
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,assign-load-store-layouts --gpu-name=sm_80 | filecheck %s

// CHECK: "nv_tileas.tiled_load"
// CHECK-SAME: reg = {{\[\[}}128], [256], [512]], lane = {{\[\[}}1], [2], [4], [8], [16]], warp = {{\[\[}}32], [64]]>
// CHECK-NEXT: "arith.addf"
// CHECK-SAME: -> tensor<1024xf32, #nv_tileas.layout<shape = [1024], reg = {{\[\[}}128], [256], [512]], lane
// CHECK-NEXT: "nv_tileas.tiled_store"
cuda_tile.module @m {
  entry @double(%p: tile<ptr<f32>>) {
    %t = make_token : token
    %w = make_tensor_view %p, shape = [1024], strides = [1] : tensor_view<1024xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(1024), tensor_view<1024xf32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %d, %l = load_view_tko weak %v[%x] token = %t : partition_view<tile=(1024), tensor_view<1024xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
    %s = addf %d, %d : tile<1024xf32>
    %o = store_view_tko weak %s, %v[%x] token = %l : tile<1024xf32>, partition_view<tile=(1024), tensor_view<1024xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
