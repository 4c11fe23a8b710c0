// A load of what nobody writes needn't wait for the barriers of the reduction in front of it, and few registers' worth moves in
// front of them; the one that a token puts behind a write, and the one that nothing stands before, stay ordinary loads.
// RUN: tileiras-opt %s --to=nv_tileas -O3 --gpu-name=sm_90 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas -O0 --gpu-name=sm_90 | filecheck %s --check-prefix=PLAIN

// CHECK: "nv_tileas.tiled_load"
// CHECK-SAME: invariant}
// CHECK-NOT: "nv_tileas.barrier"
// CHECK: "nv_tileas.tiled_load"
// CHECK-SAME: invariant, early
// CHECK: "nv_tileas.barrier"
// CHECK: "nv_tileas.tiled_store"
// CHECK: "nv_tileas.tiled_load"
// CHECK-NOT: invariant

// PLAIN-NOT: invariant
cuda_tile.module @m {
  entry @sums(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %c: tile<ptr<f32>>) {
    %t = make_token : token
    %x, %y, %z = get_tile_block_id : tile<i32>
    %wa = make_tensor_view %a, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %va = make_partition_view %wa : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>
    %wb = make_tensor_view %b, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %vb = make_partition_view %wb : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>
    %wc = make_tensor_view %c, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %vc = make_partition_view %wc : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>
    %p, %pt = load_view_tko weak %va[%x] token = %t : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
    %s = reduce %p dim=0 identities=[0.0 : f32] : tile<1024xf32> -> tile<f32>
      (%l: tile<f32>, %r: tile<f32>) {
        %sum = addf %l, %r : tile<f32>
        yield %sum : tile<f32>
      }
    %q, %qt = load_view_tko weak %vb[%x] token = %t : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
    %s1 = reshape %s : tile<f32> -> tile<1xf32>
    %sb = broadcast %s1 : tile<1xf32> -> tile<1024xf32>
    %v = mulf %q, %sb : tile<1024xf32>
    %e = store_view_tko weak %v, %vc[%x] token = %t : tile<1024xf32>, partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
    %u, %ut = load_view_tko weak %vc[%x] token = %e : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
    %w = addf %u, %u : tile<1024xf32>
    %f = store_view_tko weak %w, %vc[%x] token = %ut : tile<1024xf32>, partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
