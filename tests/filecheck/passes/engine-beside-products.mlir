// The copy engine brings what threads use beside a product, too: here what they add to it. What it can round for the product on its way
// is the product's, and rows of a few bytes are carried in registers.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 --print-ir-after=assign-load-store-layouts -o %t.as 2> %t.ir
// RUN: filecheck %s --input-file=%t.ir
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --print-ir-after=assign-load-store-layouts -o %t.as 2> %t.ir
// RUN: filecheck %s --input-file=%t.ir

// CHECK: "nv_tileas.tiled_load"{{.*}}invariant}>{{.*}}tile = [128, 32]
// CHECK: "nv_tileas.tiled_load"{{.*}}invariant}>{{.*}}tile = [32, 128]
// CHECK: "nv_tileas.tiled_load"{{.*}}invariant}>{{.*}}tile = [128]
// CHECK: "nv_tileas.tiled_load"{{.*}}invariant, engine}>{{.*}}tile = [128, 128]
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
    %line = make_tensor_view %p, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %rows = make_partition_view %line : partition_view<tile=(128), tensor_view<4096xf32, strides=[1]>>
    %big = make_partition_view %u : partition_view<tile=(128x128), tensor_view<4096x128xf32, strides=[128,1]>>
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<128x128xf32>) {
      %a, %u0 = load_view_tko weak %v[%zero, %i] token = %t : partition_view<tile=(128x32), tensor_view<128x4096xf32, strides=[4096,1]>>, tile<i32> -> tile<128x32xf32>, token
      %b, %u1 = load_view_tko weak %k[%i, %zero] token = %t : partition_view<tile=(32x128), tensor_view<4096x128xf32, strides=[128,1]>>, tile<i32> -> tile<32x128xf32>, token
      %e = ftof %a rounding<nearest_even> : tile<128x32xf32> -> tile<128x32xtf32>
      %f = ftof %b rounding<nearest_even> : tile<32x128xf32> -> tile<32x128xtf32>
      %d = mmaf %e, %f, %acc : tile<128x32xtf32>, tile<32x128xtf32>, tile<128x128xf32>
      %r, %u2 = load_view_tko weak %rows[%i] token = %t : partition_view<tile=(128), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> tile<128xf32>, token
      %r1 = reshape %r : tile<128xf32> -> tile<1x128xf32>
      %r2 = broadcast %r1 : tile<1x128xf32> -> tile<128x128xf32>
      %g, %u3 = load_view_tko weak %big[%i, %zero] token = %t : partition_view<tile=(128x128), tensor_view<4096x128xf32, strides=[128,1]>>, tile<i32> -> tile<128x128xf32>, token
      %h = addf %g, %r2 : tile<128x128xf32>
      %h1 = addf %d, %h : tile<128x128xf32>
      continue %h1 : tile<128x128xf32>
    }
    %x = make_tensor_view %q, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %y = make_partition_view %x : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %z = store_view_tko weak %s, %y[%zero, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
