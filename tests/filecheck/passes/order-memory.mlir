// A load behind a store to what other threads may have written gets a barrier between; independent ones get none.
// RUN: tileiras-opt %s --to=nv_tileas -O0 | filecheck %s

cuda_tile.module @m {
  // CHECK: sym_name = "ordered"
  // CHECK: "nv_tileas.tiled_store"
  // CHECK-NEXT: "nv_tileas.barrier"
  // CHECK-NEXT: "nv_tileas.tiled_load"
  // CHECK: "nv_tileas.return"
  entry @ordered(%p: tile<ptr<f32>>) {
    %t = make_token : token
    %c = constant <f32: 1.0> : tile<64xf32>
    %w = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %o = store_view_tko weak %c, %v[%x] token = %t : tile<64xf32>, partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>, tile<i32> -> token
    %d, %l = load_view_tko weak %v[%x] token = %o : partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>, tile<i32> -> tile<64xf32>, token
    %e = store_view_tko weak %d, %v[%x] token = %l : tile<64xf32>, partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>, tile<i32> -> token
    return
  }

  // CHECK: sym_name = "unordered"
  // CHECK-NOT: "nv_tileas.barrier"
  // CHECK: "nv_tileas.return"
  entry @unordered(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
    %t = make_token : token
    %c = constant <f32: 1.0> : tile<64xf32>
    %w = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
    %u = make_tensor_view %q, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>
    %r = make_partition_view %u : partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %o = store_view_tko weak %c, %v[%x] token = %t : tile<64xf32>, partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>, tile<i32> -> token
    %e = store_view_tko weak %c, %r[%x] token = %t : tile<64xf32>, partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
