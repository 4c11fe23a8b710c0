// Scores of 128 rows and keys are 128 registers a thread of one warpgroup: it has the rows to itself, and meets nobody for what is
// summed of them. Where scores become other functions than exponentials, two share the work.
// RUN: tileiras-opt %s --pass-pipeline='builtin.module(convert-cudatile-to-tileaa,convert-tileaa-to-tileas,plan-agents)' --gpu-name=sm_100 | filecheck %s
// RUN: sed '/%e = /s/exp2/tanh/' %s | tileiras-opt - --pass-pipeline='builtin.module(convert-cudatile-to-tileaa,convert-tileaa-to-tileas,plan-agents)' --gpu-name=sm_100 | filecheck %s --check-prefix=TWO

// CHECK: num_warps = #builtin.int<4>
// TWO: num_warps = #builtin.int<8>
cuda_tile.module @m {
  entry @attention(%p: tile<ptr<f16>>, %o: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x128xf32>
    %w = make_tensor_view %p, shape = [4096, 128], strides = [128, 1] : tensor_view<4096x128xf16, strides=[128,1]>
    %t = make_tensor_view %p, shape = [128, 4096], strides = [1, 128] : tensor_view<128x4096xf16, strides=[1,128]>
    %vw = make_partition_view %w : partition_view<tile=(128x128), tensor_view<4096x128xf16, strides=[128,1]>>
    %vt = make_partition_view %t : partition_view<tile=(128x128), tensor_view<128x4096xf16, strides=[1,128]>>
    %q, %u0 = load_view_tko weak %vw[%zero, %zero] : partition_view<tile=(128x128), tensor_view<4096x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
    %sum = for %j in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<128x128xf32>) {
      %k, %u1 = load_view_tko weak %vt[%zero, %j] : partition_view<tile=(128x128), tensor_view<128x4096xf16, strides=[1,128]>>, tile<i32> -> tile<128x128xf16>, token
      %s = mmaf %q, %k, %none : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
      %e = exp2 %s : tile<128x128xf32>
      %h = ftof %e : tile<128x128xf32> -> tile<128x128xf16>
      %v, %u2 = load_view_tko weak %vw[%j, %zero] : partition_view<tile=(128x128), tensor_view<4096x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
      %d = mmaf %h, %v, %acc : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
      continue %d : tile<128x128xf32>
    }
    %to = make_tensor_view %o, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %vo = make_partition_view %to : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %x = store_view_tko weak %sum, %vo[%zero, %zero] : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
