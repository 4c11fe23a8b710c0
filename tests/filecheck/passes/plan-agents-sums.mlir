// Sums of 128 x 256 that a loop adds each step's product to are 256 registers a thread of one warpgroup: two hold them. The same sums
// lie in tensor memory where products add to them, and go to where they are stored by one warpgroup, a part at a time.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s
// RUN: sed 's/%a, %b, %c/%a, %b, %acc/; s/continue %d/continue %h/' %s | tileiras-opt - --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=ONE

// CHECK: sym_name = "steps", num_warps = #builtin.int<8>
// ONE: sym_name = "steps", num_warps = #builtin.int<4>
cuda_tile.module @m {
  entry @steps(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<128x256xf32>
    %w = make_tensor_view %p, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %va = make_partition_view %w : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vb = make_partition_view %w : partition_view<tile=(64x256), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %s = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<128x256xf32>) {
      %a, %u0 = load_view_tko weak %va[%zero, %k] : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<128x64xf16>, token
      %b, %u1 = load_view_tko weak %vb[%k, %zero] : partition_view<tile=(64x256), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x256xf16>, token
      %h = mmaf %a, %b, %c : tile<128x64xf16>, tile<64x256xf16>, tile<128x256xf32>
      %d = addf %acc, %h : tile<128x256xf32>
      continue %d : tile<128x256xf32>
    }
    %to = assume div_by<16>, %q : tile<ptr<f32>>
    %x = make_tensor_view %to, shape = [128, 256], strides = [256, 1] : tensor_view<128x256xf32, strides=[256,1]>
    %y = make_partition_view %x : partition_view<tile=(128x256), tensor_view<128x256xf32, strides=[256,1]>>
    %e = store_view_tko weak %s, %y[%zero, %zero] : tile<128x256xf32>, partition_view<tile=(128x256), tensor_view<128x256xf32, strides=[256,1]>>, tile<i32> -> token
    return
  }
}
