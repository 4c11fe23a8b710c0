// A stage that threads have read is given back to the copy engine behind a fence: without, the engine fills it again while ldmatrix
// is still reading (seen on an H100). What tensor cores themselves read needs none.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_120 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s --check-prefix=ENGINE

// CHECK: "nv_tileas.consumer_wait"
// CHECK: "nv_tileas.dot"
// CHECK-NOT: "nv_tileas.consumer_release"
// CHECK: "nv_tileas.fence_async"
// CHECK: "nv_tileas.consumer_release"
// CHECK: "scf.yield"
// ENGINE: "nv_tileas.consumer_wait"
// ENGINE: "nv_tileas.async_dot"
// ENGINE-NOT: "nv_tileas.fence_async"
// ENGINE: "nv_tileas.consumer_release"
// ENGINE-NOT: "nv_tileas.fence_async"
// ENGINE: "scf.yield"
cuda_tile.module @m {
  entry @product(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<64x64xf32>
    %r = assume div_by<16>, %p : tile<ptr<f16>>
    %w = make_tensor_view %r, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %v = make_partition_view %w : partition_view<tile=(64x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %s = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<64x64xf32>) {
      %a, %u0 = load_view_tko weak %v[%zero, %k] : partition_view<tile=(64x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
      %b, %u1 = load_view_tko weak %v[%k, %zero] : partition_view<tile=(64x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
      %d = mmaf %a, %b, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      continue %d : tile<64x64xf32>
    }
    %x = make_tensor_view %q, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %y = make_partition_view %x : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %e = store_view_tko weak %s, %y[%zero, %zero] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
