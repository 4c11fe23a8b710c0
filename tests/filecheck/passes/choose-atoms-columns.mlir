// Attention's gradients of keys and values, four products of 128 x 128 each: their accumulators are all of tensor memory, so rows that
// go to the next product take the columns of the product that they are made of, which has been read then. None is left to the warps.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 -o %t.as
// RUN: filecheck %s < %t.as
// RUN: filecheck %s --check-prefix=NONE < %t.as

// CHECK: "nv_tileas.tmem_alloc"() <{columns = #builtin.int<512>
// CHECK: [[GK:%[0-9]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<0>}> : () -> !nv_tileas.tmem<f32
// CHECK: [[GV:%[0-9]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<128>}> : () -> !nv_tileas.tmem<f32
// CHECK: "scf.for"(
// CHECK: [[S:%[0-9]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<256>}>
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, {{%[0-9]+}}, [[S]], {{%[0-9]+}}) <{atom = "sm100.mma.f16.m128n128k16.f32.f16.f16.cg1.ss"
// CHECK: "nv_tileas.load_tmem"([[S]])
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, {{%[0-9]+}}, [[DP:%[0-9]+]], {{%[0-9]+}}) <{atom = "sm100.mma.f16.m128n128k16.f32.f16.f16.cg1.ss"
// CHECK: "nv_tileas.tensor_dot"([[P:%[0-9]+]], {{%[0-9]+}}, [[GV]], {{%[0-9]+}}) <{atom = "sm100.mma.f16.m128n128k16.f32.f16.f16.cg1.ts"
// CHECK: "nv_tileas.load_tmem"([[DP]])
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, {{%[0-9]+}}, [[GK]], {{%[0-9]+}}) <{atom = "sm100.mma.f16.m128n128k16.f32.f16.f16.cg1.ts"
// NONE-NOT: "mma.m16n8k16
cuda_tile.module @m {
  entry @gradients(%pq: tile<ptr<f16>>, %pg: tile<ptr<f16>>, %pk: tile<ptr<f16>>, %pv: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x128xf32>
    %aq = assume div_by<16>, %pq : tile<ptr<f16>>
    %ag = assume div_by<16>, %pg : tile<ptr<f16>>
    %ak = assume div_by<16>, %pk : tile<ptr<f16>>
    %av = assume div_by<16>, %pv : tile<ptr<f16>>
    %ao = assume div_by<16>, %po : tile<ptr<f32>>
    %tq = make_tensor_view %aq, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xf16, strides=[128,1]>
    %tg = make_tensor_view %ag, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xf16, strides=[128,1]>
    %tk = make_tensor_view %ak, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %tv = make_tensor_view %av, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %to = make_tensor_view %ao, shape = [256, 128], strides = [128, 1] : tensor_view<256x128xf32, strides=[128,1]>
    %vq = make_partition_view %tq : partition_view<tile=(128x128), tensor_view<8192x128xf16, strides=[128,1]>>
    %vg = make_partition_view %tg : partition_view<tile=(128x128), tensor_view<8192x128xf16, strides=[128,1]>>
    %vk = make_partition_view %tk : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>
    %vv = make_partition_view %tv : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x128), tensor_view<256x128xf32, strides=[128,1]>>
    %k, %u0 = load_view_tko weak %vk[%zero, %zero] token = %t : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
    %v, %u1 = load_view_tko weak %vv[%zero, %zero] token = %t : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
    %gk, %gv = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%ak0 = %none, %av0 = %none) -> (tile<128x128xf32>, tile<128x128xf32>) {
      %q, %u2 = load_view_tko weak %vq[%i, %zero] token = %t : partition_view<tile=(128x128), tensor_view<8192x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
      %g, %u3 = load_view_tko weak %vg[%i, %zero] token = %t : partition_view<tile=(128x128), tensor_view<8192x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
      %qt = permute %q [1, 0] : tile<128x128xf16> -> tile<128x128xf16>
      %gt = permute %g [1, 0] : tile<128x128xf16> -> tile<128x128xf16>
      %s = mmaf %k, %qt, %none : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
      %p = exp2 %s : tile<128x128xf32>
      %ph = ftof %p : tile<128x128xf32> -> tile<128x128xf16>
      %av1 = mmaf %ph, %g, %av0 : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
      %dp = mmaf %v, %gt, %none : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
      %ds = mulf %p, %dp : tile<128x128xf32>
      %dh = ftof %ds : tile<128x128xf32> -> tile<128x128xf16>
      %ak1 = mmaf %dh, %q, %ak0 : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
      continue %ak1, %av1 : tile<128x128xf32>, tile<128x128xf32>
    }
    %s0 = store_view_tko weak %gk, %vo[%zero, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<256x128xf32, strides=[128,1]>>, tile<i32> -> token
    %s1 = store_view_tko weak %gv, %vo[%one, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<256x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
