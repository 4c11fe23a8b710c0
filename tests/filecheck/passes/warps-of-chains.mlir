// Rows that become another product's: two warpgroups share 128 of them where they and the sums need 128 registers of one's threads;
// of 64 rows one warpgroup has all, as far as its registers hold them.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_80 | filecheck %s --check-prefix=SM80

// CHECK: sym_name = "many", num_warps = #builtin.int<8>
// SM80: sym_name = "many", num_warps = #builtin.int<4>
// CHECK: sym_name = "fewer", num_warps = #builtin.int<4>
// CHECK: sym_name = "of_one", num_warps = #builtin.int<4>
// SM80: sym_name = "of_one", num_warps = #builtin.int<8>
// CHECK: sym_name = "too_many_for_one", num_warps = #builtin.int<8>
cuda_tile.module @m {
  entry @many(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<128x64xf32>
    %c = constant <f32: 0.0> : tile<128x64xf32>
    %w = make_tensor_view %p, shape = [4096, 64], strides = [64, 1] : tensor_view<4096x64xf16, strides=[64,1]>
    %vq = make_partition_view %w : partition_view<tile=(128x64), tensor_view<4096x64xf16, strides=[64,1]>>
    %vk = make_partition_view %w : partition_view<tile=(64x64), tensor_view<4096x64xf16, strides=[64,1]>>
    %rows, %u = load_view_tko weak %vq[%zero, %zero] : partition_view<tile=(128x64), tensor_view<4096x64xf16, strides=[64,1]>>, tile<i32> -> tile<128x64xf16>, token
    %s = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<128x64xf32>) {
      %b, %u1 = load_view_tko weak %vk[%k, %zero] : partition_view<tile=(64x64), tensor_view<4096x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %t = permute %b [1, 0] : tile<64x64xf16> -> tile<64x64xf16>
      %e = mmaf %rows, %t, %z : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %f = ftof %e : tile<128x64xf32> -> tile<128x64xf16>
      %g = mmaf %f, %b, %acc : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      continue %g : tile<128x64xf32>
    }
    %x = make_tensor_view %q, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf32, strides=[64,1]>
    %y = make_partition_view %x : partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>
    %h = store_view_tko weak %s, %y[%zero, %zero] : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
  entry @fewer(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<128x32xf32>
    %c = constant <f32: 0.0> : tile<128x64xf32>
    %w = make_tensor_view %p, shape = [4096, 64], strides = [64, 1] : tensor_view<4096x64xf16, strides=[64,1]>
    %vq = make_partition_view %w : partition_view<tile=(128x64), tensor_view<4096x64xf16, strides=[64,1]>>
    %vk = make_partition_view %w : partition_view<tile=(32x64), tensor_view<4096x64xf16, strides=[64,1]>>
    %rows, %u = load_view_tko weak %vq[%zero, %zero] : partition_view<tile=(128x64), tensor_view<4096x64xf16, strides=[64,1]>>, tile<i32> -> tile<128x64xf16>, token
    %s = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<128x64xf32>) {
      %b, %u1 = load_view_tko weak %vk[%k, %zero] : partition_view<tile=(32x64), tensor_view<4096x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
      %t = permute %b [1, 0] : tile<32x64xf16> -> tile<64x32xf16>
      %e = mmaf %rows, %t, %z : tile<128x64xf16>, tile<64x32xf16>, tile<128x32xf32>
      %f = ftof %e : tile<128x32xf32> -> tile<128x32xf16>
      %g = mmaf %f, %b, %acc : tile<128x32xf16>, tile<32x64xf16>, tile<128x64xf32>
      continue %g : tile<128x64xf32>
    }
    %x = make_tensor_view %q, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf32, strides=[64,1]>
    %y = make_partition_view %x : partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>
    %h = store_view_tko weak %s, %y[%zero, %zero] : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
  entry @of_one(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<64x64xf32>
    %c = constant <f32: 0.0> : tile<64x256xf32>
    %w = make_tensor_view %p, shape = [4096, 256], strides = [256, 1] : tensor_view<4096x256xf16, strides=[256,1]>
    %vq = make_partition_view %w : partition_view<tile=(64x256), tensor_view<4096x256xf16, strides=[256,1]>>
    %vk = make_partition_view %w : partition_view<tile=(64x256), tensor_view<4096x256xf16, strides=[256,1]>>
    %rows, %u = load_view_tko weak %vq[%zero, %zero] : partition_view<tile=(64x256), tensor_view<4096x256xf16, strides=[256,1]>>, tile<i32> -> tile<64x256xf16>, token
    %s = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<64x256xf32>) {
      %b, %u1 = load_view_tko weak %vk[%k, %zero] : partition_view<tile=(64x256), tensor_view<4096x256xf16, strides=[256,1]>>, tile<i32> -> tile<64x256xf16>, token
      %t = permute %b [1, 0] : tile<64x256xf16> -> tile<256x64xf16>
      %e = mmaf %rows, %t, %z : tile<64x256xf16>, tile<256x64xf16>, tile<64x64xf32>
      %f = ftof %e : tile<64x64xf32> -> tile<64x64xf16>
      %g = mmaf %f, %b, %acc : tile<64x64xf16>, tile<64x256xf16>, tile<64x256xf32>
      continue %g : tile<64x256xf32>
    }
    %x = make_tensor_view %q, shape = [64, 256], strides = [256, 1] : tensor_view<64x256xf32, strides=[256,1]>
    %y = make_partition_view %x : partition_view<tile=(64x256), tensor_view<64x256xf32, strides=[256,1]>>
    %h = store_view_tko weak %s, %y[%zero, %zero] : tile<64x256xf32>, partition_view<tile=(64x256), tensor_view<64x256xf32, strides=[256,1]>>, tile<i32> -> token
    return
  }
  entry @too_many_for_one(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %z = constant <f32: 0.0> : tile<64x128xf32>
    %c = constant <f32: 0.0> : tile<64x256xf32>
    %w = make_tensor_view %p, shape = [4096, 256], strides = [256, 1] : tensor_view<4096x256xf16, strides=[256,1]>
    %vq = make_partition_view %w : partition_view<tile=(64x256), tensor_view<4096x256xf16, strides=[256,1]>>
    %vk = make_partition_view %w : partition_view<tile=(128x256), tensor_view<4096x256xf16, strides=[256,1]>>
    %rows, %u = load_view_tko weak %vq[%zero, %zero] : partition_view<tile=(64x256), tensor_view<4096x256xf16, strides=[256,1]>>, tile<i32> -> tile<64x256xf16>, token
    %s = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<64x256xf32>) {
      %b, %u1 = load_view_tko weak %vk[%k, %zero] : partition_view<tile=(128x256), tensor_view<4096x256xf16, strides=[256,1]>>, tile<i32> -> tile<128x256xf16>, token
      %t = permute %b [1, 0] : tile<128x256xf16> -> tile<256x128xf16>
      %e = mmaf %rows, %t, %z : tile<64x256xf16>, tile<256x128xf16>, tile<64x128xf32>
      %f = ftof %e : tile<64x128xf32> -> tile<64x128xf16>
      %g = mmaf %f, %b, %acc : tile<64x128xf16>, tile<128x256xf16>, tile<64x256xf32>
      continue %g : tile<64x256xf32>
    }
    %x = make_tensor_view %q, shape = [64, 256], strides = [256, 1] : tensor_view<64x256xf32, strides=[256,1]>
    %y = make_partition_view %x : partition_view<tile=(64x256), tensor_view<64x256xf32, strides=[256,1]>>
    %h = store_view_tko weak %s, %y[%zero, %zero] : tile<64x256xf32>, partition_view<tile=(64x256), tensor_view<64x256xf32, strides=[256,1]>>, tile<i32> -> token
    return
  }
}
