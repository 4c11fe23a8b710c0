// Two warpgroups share products whose accumulators would fill the registers of one, and take those that four would spread thin.
// Where warps multiply by themselves, a loop's two accumulators of 128 x 128 have eight from the start: four would spill;
// one of 128 x 256 has eight, too, which read less of the operands than sixteen.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_80 | filecheck %s --check-prefix=SM80

// CHECK: sym_name = "wide", num_warps = #builtin.int<8>
// SM80: sym_name = "wide", num_warps = #builtin.int<8>
// CHECK: sym_name = "pair", num_warps = #builtin.int<8>
// SM80: sym_name = "pair", num_warps = #builtin.int<8>
cuda_tile.module @m {
  entry @wide(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<128x256xf32>
    %w = make_tensor_view %p, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %va = make_partition_view %w : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vb = make_partition_view %w : partition_view<tile=(64x256), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %s = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<128x256xf32>) {
      %a, %u0 = load_view_tko weak %va[%zero, %k] : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<128x64xf16>, token
      %b, %u1 = load_view_tko weak %vb[%k, %zero] : partition_view<tile=(64x256), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x256xf16>, token
      %d = mmaf %a, %b, %acc : tile<128x64xf16>, tile<64x256xf16>, tile<128x256xf32>
      continue %d : tile<128x256xf32>
    }
    %x = make_tensor_view %q, shape = [128, 256], strides = [256, 1] : tensor_view<128x256xf32, strides=[256,1]>
    %y = make_partition_view %x : partition_view<tile=(128x256), tensor_view<128x256xf32, strides=[256,1]>>
    %e = store_view_tko weak %s, %y[%zero, %zero] : tile<128x256xf32>, partition_view<tile=(128x256), tensor_view<128x256xf32, strides=[256,1]>>, tile<i32> -> token
    return
  }

  entry @pair(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<64x128xf32>
    %w = make_tensor_view %p, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %va = make_partition_view %w : partition_view<tile=(64x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vb = make_partition_view %w : partition_view<tile=(64x128), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %s, %t, %r = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%f = %c, %g = %c, %h = %c) -> (tile<64x128xf32>, tile<64x128xf32>, tile<64x128xf32>) {
      %a, %u0 = load_view_tko weak %va[%zero, %k] : partition_view<tile=(64x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
      %b, %u1 = load_view_tko weak %vb[%k, %zero] : partition_view<tile=(64x128), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x128xf16>, token
      %d = mmaf %a, %b, %f : tile<64x64xf16>, tile<64x128xf16>, tile<64x128xf32>
      %e = mmaf %a, %b, %g : tile<64x64xf16>, tile<64x128xf16>, tile<64x128xf32>
      %i = mmaf %a, %b, %h : tile<64x64xf16>, tile<64x128xf16>, tile<64x128xf32>
      continue %d, %e, %i : tile<64x128xf32>, tile<64x128xf32>, tile<64x128xf32>
    }
    %x = make_tensor_view %q, shape = [64, 128], strides = [128, 1] : tensor_view<64x128xf32, strides=[128,1]>
    %y = make_partition_view %x : partition_view<tile=(64x128), tensor_view<64x128xf32, strides=[128,1]>>
    %z = addf %s, %t : tile<64x128xf32>
    %o = addf %z, %r : tile<64x128xf32>
    %e = store_view_tko weak %o, %y[%zero, %zero] : tile<64x128xf32>, partition_view<tile=(64x128), tensor_view<64x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
