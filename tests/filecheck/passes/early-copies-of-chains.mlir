// Products one behind the other, without a loop, add to the same sums: the tensor core waits for each one's tiles, and all of them
// are asked for before the first wait.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s

// CHECK-COUNT-10: "nv_tileas.tma_load"
// CHECK-NOT: "nv_tileas.tma_load"
// CHECK: "nv_tileas.consumer_wait"
// CHECK: "nv_tileas.tensor_dot"
// CHECK-NOT: "nv_tileas.tma_load"
// CHECK: "nv_tileas.tensor_dot"
cuda_tile.module @m {
  entry @chain(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %po: tile<ptr<f32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %three = constant <i32: 3> : tile<i32>
    %four = constant <i32: 4> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x64xf32>
    %aa = assume div_by<16>, %pa : tile<ptr<f16>>
    %ab = assume div_by<16>, %pb : tile<ptr<f16>>
    %ao = assume div_by<16>, %po : tile<ptr<f32>>
    %ta = make_tensor_view %aa, shape = [128, 320], strides = [320, 1] : tensor_view<128x320xf16, strides=[320,1]>
    %tb = make_tensor_view %ab, shape = [320, 64], strides = [64, 1] : tensor_view<320x64xf16, strides=[64,1]>
    %to = make_tensor_view %ao, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf32, strides=[64,1]>
    %va = make_partition_view %ta : partition_view<tile=(128x64), tensor_view<128x320xf16, strides=[320,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(64x64), tensor_view<320x64xf16, strides=[64,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>
    %a0, %u0 = load_view_tko weak %va[%zero, %zero] : partition_view<tile=(128x64), tensor_view<128x320xf16, strides=[320,1]>>, tile<i32> -> tile<128x64xf16>, token
    %b0, %v0 = load_view_tko weak %vb[%zero, %zero] : partition_view<tile=(64x64), tensor_view<320x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %s0 = mmaf %a0, %b0, %none : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
    %a1, %u1 = load_view_tko weak %va[%zero, %one] : partition_view<tile=(128x64), tensor_view<128x320xf16, strides=[320,1]>>, tile<i32> -> tile<128x64xf16>, token
    %b1, %v1 = load_view_tko weak %vb[%one, %zero] : partition_view<tile=(64x64), tensor_view<320x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %s1 = mmaf %a1, %b1, %s0 : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
    %a2, %u2 = load_view_tko weak %va[%zero, %two] : partition_view<tile=(128x64), tensor_view<128x320xf16, strides=[320,1]>>, tile<i32> -> tile<128x64xf16>, token
    %b2, %v2 = load_view_tko weak %vb[%two, %zero] : partition_view<tile=(64x64), tensor_view<320x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %s2 = mmaf %a2, %b2, %s1 : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
    %a3, %u3 = load_view_tko weak %va[%zero, %three] : partition_view<tile=(128x64), tensor_view<128x320xf16, strides=[320,1]>>, tile<i32> -> tile<128x64xf16>, token
    %b3, %v3 = load_view_tko weak %vb[%three, %zero] : partition_view<tile=(64x64), tensor_view<320x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %s3 = mmaf %a3, %b3, %s2 : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
    %a4, %u4 = load_view_tko weak %va[%zero, %four] : partition_view<tile=(128x64), tensor_view<128x320xf16, strides=[320,1]>>, tile<i32> -> tile<128x64xf16>, token
    %b4, %v4 = load_view_tko weak %vb[%four, %zero] : partition_view<tile=(64x64), tensor_view<320x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %s4 = mmaf %a4, %b4, %s3 : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
    %e = store_view_tko weak %s4, %vo[%zero, %zero] : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
