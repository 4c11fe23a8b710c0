// Two warpgroups widen and turn an operand that the tensor core multiplies; of fewer rows than it takes warps multiply, and each
// reads all rows: four do.
// RUN: tileiras-opt %s --pass-pipeline='builtin.module(convert-cudatile-to-tileaa,convert-tileaa-to-tileas,plan-agents)' --gpu-name=sm_100 | filecheck %s
// RUN: sed 's/16x128/64x128/g; s/16x64/64x64/g' %s | tileiras-opt - --pass-pipeline='builtin.module(convert-cudatile-to-tileaa,convert-tileaa-to-tileas,plan-agents)' --gpu-name=sm_100 | filecheck %s --check-prefix=TWO

// CHECK: sym_name = "scores", num_warps = #builtin.int<4>
// TWO: sym_name = "scores", num_warps = #builtin.int<8>
cuda_tile.module @m {
  entry @scores(%p: tile<ptr<f16>>, %b: tile<ptr<i8>>, %o: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<16x64xf32>
    %w = make_tensor_view %p, shape = [4096, 128], strides = [128, 1] : tensor_view<4096x128xf16, strides=[128,1]>
    %k = make_tensor_view %b, shape = [4096, 128], strides = [128, 1] : tensor_view<4096x128xi8, strides=[128,1]>
    %to = make_tensor_view %o, shape = [4096, 64], strides = [64, 1] : tensor_view<4096x64xf32, strides=[64,1]>
    %vw = make_partition_view %w : partition_view<tile=(16x128), tensor_view<4096x128xf16, strides=[128,1]>>
    %vk = make_partition_view %k : partition_view<tile=(64x128), tensor_view<4096x128xi8, strides=[128,1]>>
    %vo = make_partition_view %to : partition_view<tile=(16x64), tensor_view<4096x64xf32, strides=[64,1]>>
    %q, %u0 = load_view_tko weak %vw[%zero, %zero] token = %t : partition_view<tile=(16x128), tensor_view<4096x128xf16, strides=[128,1]>>, tile<i32> -> tile<16x128xf16>, token
    for %j in (%zero to %n, step %one) : tile<i32> {
      %x, %u1 = load_view_tko weak %vk[%j, %zero] token = %t : partition_view<tile=(64x128), tensor_view<4096x128xi8, strides=[128,1]>>, tile<i32> -> tile<64x128xi8>, token
      %y = itof %x signed rounding<nearest_even> : tile<64x128xi8> -> tile<64x128xf16>
      %z = permute %y [1, 0] : tile<64x128xf16> -> tile<128x64xf16>
      %s = mmaf %q, %z, %none : tile<16x128xf16>, tile<128x64xf16>, tile<16x64xf32>
      %u2 = store_view_tko weak %s, %vo[%j, %zero] token = %t : tile<16x64xf32>, partition_view<tile=(16x64), tensor_view<4096x64xf32, strides=[64,1]>>, tile<i32> -> token
      continue
    }
    return
  }
}
