// Two heads' products of 64 rows: all four together would keep another block's out of tensor memory, the two of scores alone don't, so
// the second one begins before the first one is waited for; those with values have columns in turn.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --print-ir-after=early-dots -o %t.as 2>&1 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --print-ir-after=materialize-schedule -o %t.two 2>&1 | filecheck %s --check-prefix=TWO
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 --print-ir-after=materialize-schedule -o %t.groups 2>&1 | filecheck %s --check-prefix=GROUPS
// CHECK: IR dump after early-dots
// CHECK: "scf.for"
// CHECK: [[S0:%[0-9]+]] = "nv_tileas.dot"
// CHECK-NOT: math.exp2
// CHECK: [[S1:%[0-9]+]] = "nv_tileas.dot"
// CHECK: "math.exp2"([[S0]])
// CHECK: [[O0:%[0-9]+]] = "nv_tileas.dot"
// CHECK: "arith.addf"({{%[0-9]+}}, [[O0]])
// CHECK: [[O1:%[0-9]+]] = "nv_tileas.dot"
// CHECK: "arith.addf"({{%[0-9]+}}, [[O1]])

// What the loop carries in registers leaves a thread too few for two blocks, unless the load agent lends some of its own.
// TWO: "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<1>], registers = [#builtin.int<216>, #builtin.int<40>]

// One warpgroup computes 64 rows where two blocks are asked for, however full its registers are.
// GROUPS: "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<1>], registers = [
cuda_tile.module @m {
  entry @heads(%pq: tile<ptr<f16>>, %pk: tile<ptr<f16>>, %pv: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) optimization_hints=<sm_90 = {occupancy = 2}, sm_100 = {occupancy = 2}> {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %wide = constant <f32: 0.0> : tile<64x128xf32>
    %aq = assume div_by<16>, %pq : tile<ptr<f16>>
    %ak = assume div_by<16>, %pk : tile<ptr<f16>>
    %av = assume div_by<16>, %pv : tile<ptr<f16>>
    %tq = make_tensor_view %aq, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %tk = make_tensor_view %ak, shape = [128, 8192], strides = [8192, 1] : tensor_view<128x8192xf16, strides=[8192,1]>
    %tv = make_tensor_view %av, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xf16, strides=[128,1]>
    %to = make_tensor_view %po, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %vq = make_partition_view %tq : partition_view<tile=(64x128), tensor_view<128x128xf16, strides=[128,1]>>
    %vk = make_partition_view %tk : partition_view<tile=(128x64), tensor_view<128x8192xf16, strides=[8192,1]>>
    %vv = make_partition_view %tv : partition_view<tile=(64x128), tensor_view<8192x128xf16, strides=[128,1]>>
    %vo = make_partition_view %to : partition_view<tile=(64x128), tensor_view<128x128xf32, strides=[128,1]>>
    %q0, %uq0 = load_view_tko weak %vq[%zero, %zero] token = %t : partition_view<tile=(64x128), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> tile<64x128xf16>, token
    %q1, %uq1 = load_view_tko weak %vq[%one, %zero] token = %t : partition_view<tile=(64x128), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> tile<64x128xf16>, token
    %o0, %o1 = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc0 = %wide, %acc1 = %wide) -> (tile<64x128xf32>, tile<64x128xf32>) {
      %k, %uk = load_view_tko weak %vk[%zero, %i] token = %t : partition_view<tile=(128x64), tensor_view<128x8192xf16, strides=[8192,1]>>, tile<i32> -> tile<128x64xf16>, token
      %v, %uv = load_view_tko weak %vv[%i, %zero] token = %t : partition_view<tile=(64x128), tensor_view<8192x128xf16, strides=[128,1]>>, tile<i32> -> tile<64x128xf16>, token
      %s0 = mmaf %q0, %k, %none : tile<64x128xf16>, tile<128x64xf16>, tile<64x64xf32>
      %e0 = exp2 %s0 : tile<64x64xf32>
      %s1 = mmaf %q1, %k, %none : tile<64x128xf16>, tile<128x64xf16>, tile<64x64xf32>
      %e1 = exp2 %s1 : tile<64x64xf32>
      %p0 = ftof %e0 : tile<64x64xf32> -> tile<64x64xf16>
      %x0 = mmaf %p0, %v, %wide : tile<64x64xf16>, tile<64x128xf16>, tile<64x128xf32>
      %n0 = addf %acc0, %x0 rounding<nearest_even> : tile<64x128xf32>
      %p1 = ftof %e1 : tile<64x64xf32> -> tile<64x64xf16>
      %x1 = mmaf %p1, %v, %wide : tile<64x64xf16>, tile<64x128xf16>, tile<64x128xf32>
      %n1 = addf %acc1, %x1 rounding<nearest_even> : tile<64x128xf32>
      continue %n0, %n1 : tile<64x128xf32>, tile<64x128xf32>
    }
    %w0 = store_view_tko weak %o0, %vo[%zero, %zero] token = %t : tile<64x128xf32>, partition_view<tile=(64x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    %w1 = store_view_tko weak %o1, %vo[%one, %zero] token = %t : tile<64x128xf32>, partition_view<tile=(64x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
