// Ordered atomics on a tile are relaxed ones between two fences; neighbours go in one reduction where the target has it.
// RUN: tileiras-opt %s --to=nv_tileas -O3 --gpu-name=sm_90 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas -O0 --gpu-name=sm_90 | filecheck %s --check-prefix=PLAIN

// CHECK: "nv_tileas.barrier"()
// CHECK-NEXT: "nv_tileas.fence"() <{mem_scope = "device"}>
// CHECK-NEXT: "nv_tileas.atomic_rmw"
// CHECK-SAME: mem_semantic = "relaxed"
// CHECK-SAME: runs = [#builtin.int<4>]
// CHECK-NEXT: "nv_tileas.fence"() <{mem_scope = "device"}>
// CHECK-NEXT: "nv_tileas.barrier"()

// PLAIN: mem_semantic = "acq_rel"
// PLAIN-NOT: "nv_tileas.fence"
cuda_tile.module @m {
  entry @adds(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>) {
    %t = make_token : token
    %c = constant <f32: 1.0> : tile<256xf32>
    %w = make_tensor_view %a, shape = [256], strides = [1] : tensor_view<256xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(256), tensor_view<256xf32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %s = store_view_tko weak %c, %v[%x] token = %t : tile<256xf32>, partition_view<tile=(256), tensor_view<256xf32, strides=[1]>>, tile<i32> -> token
    %al = assume div_by<16>, %b : tile<ptr<f32>>
    %b1 = reshape %al : tile<ptr<f32>> -> tile<1xptr<f32>>
    %bs = broadcast %b1 : tile<1xptr<f32>> -> tile<256xptr<f32>>
    %i = iota : tile<256xi32>
    %p = offset %bs, %i : tile<256xptr<f32>>, tile<256xi32> -> tile<256xptr<f32>>
    %old, %u = atomic_rmw_tko acq_rel device %p, addf, %c token = %s : tile<256xptr<f32>>, tile<256xf32> -> tile<256xf32>, token
    %d, %l = load_view_tko weak %v[%x] token = %u : partition_view<tile=(256), tensor_view<256xf32, strides=[1]>>, tile<i32> -> tile<256xf32>, token
    %e = store_view_tko weak %d, %v[%x] token = %l : tile<256xf32>, partition_view<tile=(256), tensor_view<256xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
