// f32 that a product wants as tf32 comes so from the copy engine, which rounds; B lies with N contiguous, 32 bytes together, as
// tcgen05 takes it. Where it is to be rounded otherwise, the engine brings it to threads that do that.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s
// RUN: sed 's/ftof %a rounding<nearest_even>/ftof %a rounding<zero>/' %s | tileiras-opt - --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=ZERO

// CHECK: tensor_maps = ["tf32 p0 {{.*}} box [32, 128] swizzle 128", "tf32 p0 {{.*}} box [32, 32] swizzle 128 atomicity 32B"
// CHECK-NOT: "arith.convertf"
// CHECK: "nv_tileas.tensor_dot"({{.*}} offset = [1, 2, 4, 8, 16, 36, 72, 144, 256, 512, 1024, 2048]>>, {{.*}} offset = [1, 2, 4, 8, 16, 1024, 2048, 40, 80, 128, 256, 512]>>

// ZERO: tensor_maps = ["f32 p0
// ZERO: "arith.convertf"{{.*}}"zero"
// ZERO: "nv_tileas.tensor_dot"
cuda_tile.module @m {
  entry @sum(%pp: tile<ptr<f32>>, %qp: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %p = assume div_by<16>, %pp : tile<ptr<f32>>
    %q = assume div_by<16>, %qp : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<128x128xf32>
    %w = make_tensor_view %p, shape = [128, 4096], strides = [4096, 1] : tensor_view<128x4096xf32, strides=[4096,1]>
    %v = make_partition_view %w : partition_view<tile=(128x32), tensor_view<128x4096xf32, strides=[4096,1]>>
    %u = make_tensor_view %p, shape = [4096, 128], strides = [128, 1] : tensor_view<4096x128xf32, strides=[128,1]>
    %k = make_partition_view %u : partition_view<tile=(32x128), tensor_view<4096x128xf32, strides=[128,1]>>
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<128x128xf32>) {
      %a, %u0 = load_view_tko weak %v[%zero, %i] token = %t : partition_view<tile=(128x32), tensor_view<128x4096xf32, strides=[4096,1]>>, tile<i32> -> tile<128x32xf32>, token
      %b, %u1 = load_view_tko weak %k[%i, %zero] token = %t : partition_view<tile=(32x128), tensor_view<4096x128xf32, strides=[128,1]>>, tile<i32> -> tile<32x128xf32>, token
      %e = ftof %a rounding<nearest_even> : tile<128x32xf32> -> tile<128x32xtf32>
      %f = ftof %b rounding<nearest_even> : tile<32x128xf32> -> tile<32x128xtf32>
      %d = mmaf %e, %f, %acc : tile<128x32xtf32>, tile<32x128xtf32>, tile<128x128xf32>
      continue %d : tile<128x128xf32>
    }
    %x = make_tensor_view %q, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %y = make_partition_view %x : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %z = store_view_tko weak %s, %y[%zero, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
