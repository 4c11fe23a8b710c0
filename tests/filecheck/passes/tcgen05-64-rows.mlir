// Of 64 rows a thread holds half a row of the sums: the second half of the columns is the upper 16 lanes', 16 rows a warp's.
// The store's four boxes of 32 columns take them in words of 16 bytes without bank conflicts.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s

// CHECK: "f32 p2 {{.*}} box [32, 64] swizzle 128"
// CHECK: "nv_tileas.load_tmem"{{.*}}, [0, 32{{\]\], lane = \[\[1, 0\], \[2, 0\], \[4, 0\], \[8, 0\], \[0, 64\]\], warp = \[\[16, 0\], \[32, 0\]\]}}
cuda_tile.module @m {
  entry @sum(%pp: tile<ptr<f16>>, %qp: tile<ptr<f16>>, %rp: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %p = assume div_by<16>, %pp : tile<ptr<f16>>
    %q = assume div_by<16>, %qp : tile<ptr<f16>>
    %r = assume div_by<16>, %rp : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<64x128xf32>
    %x = make_tensor_view %r, shape = [64, 128], strides = [128, 1] : tensor_view<64x128xf32, strides=[128,1]>
    %y = make_partition_view %x : partition_view<tile=(64x128), tensor_view<64x128xf32, strides=[128,1]>>
    %w = make_tensor_view %p, shape = [64, 4096], strides = [4096, 1] : tensor_view<64x4096xf16, strides=[4096,1]>
    %v = make_partition_view %w : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>
    %u = make_tensor_view %q, shape = [4096, 128], strides = [128, 1] : tensor_view<4096x128xf16, strides=[128,1]>
    %k = make_partition_view %u : partition_view<tile=(64x128), tensor_view<4096x128xf16, strides=[128,1]>>
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<64x128xf32>) {
      %a, %u0 = load_view_tko weak %v[%zero, %i] token = %t : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
      %b, %u1 = load_view_tko weak %k[%i, %zero] token = %t : partition_view<tile=(64x128), tensor_view<4096x128xf16, strides=[128,1]>>, tile<i32> -> tile<64x128xf16>, token
      %d = mmaf %a, %b, %acc : tile<64x64xf16>, tile<64x128xf16>, tile<64x128xf32>
      continue %d : tile<64x128xf32>
    }
    %z = store_view_tko weak %s, %y[%zero, %zero] token = %t : tile<64x128xf32>, partition_view<tile=(64x128), tensor_view<64x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
