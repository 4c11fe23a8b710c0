// Columns of bf16 that threads widen to tf32 for a product into tensor memory: a thread has four numbers side by side along k, as many
// as one of its stores to shared memory takes, not the eight that it could read at once. Two stores of half of them would meet in
// their banks. The rows, which threads widen, too, go to tensor memory.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s

// CHECK: "nv_tileas.store_tmem"({{.*}}tensor<64x128xtf32
// CHECK: "nv_tileas.store_shared"(
// CHECK-SAME: (tensor<128x64xtf32, #nv_tileas.layout<shape = [128x64], reg = {{\[\[}}1, 0], [2, 0], [0, 8], [0, 16], [0, 32]], lane = {{\[\[}}4, 0], [8, 0], [16, 0], [32, 0], [64, 0]]
// CHECK: "nv_tileas.tensor_dot"
cuda_tile.module @m {
  entry @widened(%pa: tile<ptr<bf16>>, %pb: tile<ptr<bf16>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %part = constant <f32: 0.7> : tile<64x128xf32>
    %aa = assume div_by<16>, %pa : tile<ptr<bf16>>
    %ab = assume div_by<16>, %pb : tile<ptr<bf16>>
    %ao = assume div_by<16>, %po : tile<ptr<f32>>
    %ta = make_tensor_view %aa, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xbf16, strides=[128,1]>
    %tb = make_tensor_view %ab, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xbf16, strides=[128,1]>
    %to = make_tensor_view %ao, shape = [8192, 64], strides = [64, 1] : tensor_view<8192x64xf32, strides=[64,1]>
    %va = make_partition_view %ta : partition_view<tile=(64x128), tensor_view<8192x128xbf16, strides=[128,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(64x128), tensor_view<8192x128xbf16, strides=[128,1]>>
    %vo = make_partition_view %to : partition_view<tile=(64x64), tensor_view<8192x64xf32, strides=[64,1]>>
    for %i in (%zero to %n, step %one) : tile<i32> {
      %a, %u0 = load_view_tko weak %va[%i, %zero] token = %t : partition_view<tile=(64x128), tensor_view<8192x128xbf16, strides=[128,1]>>, tile<i32> -> tile<64x128xbf16>, token
      %b, %u1 = load_view_tko weak %vb[%i, %zero] token = %t : partition_view<tile=(64x128), tensor_view<8192x128xbf16, strides=[128,1]>>, tile<i32> -> tile<64x128xbf16>, token
      %wa = ftof %a : tile<64x128xbf16> -> tile<64x128xf32>
      %wb = ftof %b : tile<64x128xbf16> -> tile<64x128xf32>
      %ws = mulf %wa, %part rounding<nearest_even> : tile<64x128xf32>
      %x = ftof %ws : tile<64x128xf32> -> tile<64x128xtf32>
      %wt = permute %wb [1, 0] : tile<64x128xf32> -> tile<128x64xf32>
      %y = ftof %wt : tile<128x64xf32> -> tile<128x64xtf32>
      %p = mmaf %x, %y, %none : tile<64x128xtf32>, tile<128x64xtf32>, tile<64x64xf32>
      %u2 = store_view_tko weak %p, %vo[%i, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<8192x64xf32, strides=[64,1]>>, tile<i32> -> token
    }
    return
  }
}
