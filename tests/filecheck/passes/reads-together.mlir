// Two rings that threads read in an iteration are given back together, behind one fence.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s

// CHECK: "nv_tileas.agent_switch"
// CHECK: "nv_tileas.consumer_wait"
// CHECK: "nv_tileas.load_shared"
// CHECK-NOT: "nv_tileas.fence_async"
// CHECK: "nv_tileas.dot"
// CHECK-NEXT: "nv_tileas.fence_async"
// CHECK-NEXT: "nv_tileas.consumer_release"
// CHECK-NEXT: "nv_tileas.consumer_release"
// CHECK-NEXT: "scf.yield"
cuda_tile.module @m {
  entry @dequantized(%p: tile<ptr<i8>>, %h: tile<ptr<f16>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<32x64xf32>
    %r = assume div_by<16>, %p : tile<ptr<i8>>
    %g = assume div_by<16>, %h : tile<ptr<f16>>
    %w = make_tensor_view %r, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xi8, strides=[4096,1]>
    %u = make_tensor_view %g, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %va = make_partition_view %u : partition_view<tile=(32x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vb = make_partition_view %w : partition_view<tile=(64x64), tensor_view<4096x4096xi8, strides=[4096,1]>>
    %s = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<32x64xf32>) {
      %a, %u0 = load_view_tko weak %va[%zero, %k] : partition_view<tile=(32x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<32x64xf16>, token
      %b, %u1 = load_view_tko weak %vb[%k, %zero] : partition_view<tile=(64x64), tensor_view<4096x4096xi8, strides=[4096,1]>>, tile<i32> -> tile<64x64xi8>, token
      %y = itof %b signed rounding<nearest_even> : tile<64x64xi8> -> tile<64x64xf16>
      %d = mmaf %a, %y, %acc : tile<32x64xf16>, tile<64x64xf16>, tile<32x64xf32>
      continue %d : tile<32x64xf32>
    }
    %x = make_tensor_view %q, shape = [32, 64], strides = [64, 1] : tensor_view<32x64xf32, strides=[64,1]>
    %y = make_partition_view %x : partition_view<tile=(32x64), tensor_view<32x64xf32, strides=[64,1]>>
    %e = store_view_tko weak %s, %y[%zero, %zero] : tile<32x64xf32>, partition_view<tile=(32x64), tensor_view<32x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
