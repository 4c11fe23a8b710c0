// Ops get their nv_tileas names; tensors have no layout yet, accesses say what is known of them.
// RUN: tileiras-opt %s --to=nv_tileaa -O0 -o %t.aa
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas --gpu-name=sm_80 | filecheck %s

// CHECK: "nv_tileas.func"() <{sym_name = "double", num_warps = #builtin.int<[[W:[0-9]+]]>
// CHECK: "nv_tileas.tiled_load"
// CHECK-SAME: check = [#builtin.int<0>], runs = [#builtin.int<1>], contiguous = #builtin.int<0>
// CHECK-SAME: -> (tensor<1024xf32>, !nv_tileaa.mem_token)
// CHECK-NEXT: "arith.addf"
// CHECK-SAME: (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
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
