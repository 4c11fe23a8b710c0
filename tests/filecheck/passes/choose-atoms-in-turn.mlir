// A recurrence's five products of tf32 take 576 columns of tensor memory, which has 512. The last one needs what the first one
// computes, so that threads have loaded that by then: no columns of its own are counted, and none is left to the warps.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 -o %t.as
// RUN: filecheck %s < %t.as
// RUN: filecheck %s --check-prefix=NONE < %t.as

// CHECK: "nv_tileas.tmem_alloc"() <{columns = #builtin.int<
// CHECK: "scf.for"(
// CHECK: "nv_tileas.tensor_dot"({{.*}}) <{atom = "sm100.mma.tf32.m64n128k8.f32.tf32.tf32.cg1.ss"
// CHECK: "nv_tileas.tensor_dot"({{.*}}) <{atom = "sm100.mma.tf32.m64n64k8.f32.tf32.tf32.cg1.ss"
// CHECK: "nv_tileas.tensor_dot"({{.*}}) <{atom = "sm100.mma.tf32.m64n128k8.f32.tf32.tf32.cg1.ss"
// CHECK: "nv_tileas.tensor_dot"({{.*}}) <{atom = "sm100.mma.tf32.m128n128k8.f32.tf32.tf32.cg1.ss"
// CHECK: "nv_tileas.tensor_dot"({{.*}}) <{atom = "sm100.mma.tf32.m64n128k8.f32.tf32.tf32.cg1.ss"
// NONE-NOT: "mma.m16n8k8
cuda_tile.module @m {
  entry @recurrence(%pw: tile<ptr<f32>>, %px: tile<ptr<f32>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x128xf32>
    %few = constant <f32: 0.0> : tile<64x64xf32>
    %all = constant <f32: 0.0> : tile<128x128xf32>
    %aw = assume div_by<16>, %pw : tile<ptr<f32>>
    %ax = assume div_by<16>, %px : tile<ptr<f32>>
    %ao = assume div_by<16>, %po : tile<ptr<f32>>
    %tw = make_tensor_view %aw, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xf32, strides=[128,1]>
    %tx = make_tensor_view %ax, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xf32, strides=[128,1]>
    %to = make_tensor_view %ao, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xf32, strides=[128,1]>
    %vw = make_partition_view %tw : partition_view<tile=(64x128), tensor_view<8192x128xf32, strides=[128,1]>>
    %vx = make_partition_view %tx : partition_view<tile=(64x128), tensor_view<8192x128xf32, strides=[128,1]>>
    %vo = make_partition_view %to : partition_view<tile=(64x128), tensor_view<8192x128xf32, strides=[128,1]>>
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%s0 = %all) -> (tile<128x128xf32>) {
      %lw, %u0 = load_view_tko weak %vw[%i, %zero] token = %t : partition_view<tile=(64x128), tensor_view<8192x128xf32, strides=[128,1]>>, tile<i32> -> tile<64x128xf32>, token
      %lx, %u1 = load_view_tko weak %vx[%i, %zero] token = %t : partition_view<tile=(64x128), tensor_view<8192x128xf32, strides=[128,1]>>, tile<i32> -> tile<64x128xf32>, token
      %w = ftof %lw : tile<64x128xf32> -> tile<64x128xtf32>
      %x = ftof %lx : tile<64x128xf32> -> tile<64x128xtf32>
      %st = ftof %s0 : tile<128x128xf32> -> tile<128x128xtf32>
      %first = mmaf %w, %st, %none : tile<64x128xtf32>, tile<128x128xtf32>, tile<64x128xf32>
      %second = mmaf %x, %st, %none : tile<64x128xtf32>, tile<128x128xtf32>, tile<64x128xf32>
      %wt = permute %w [1, 0] : tile<64x128xtf32> -> tile<128x64xtf32>
      %scores = mmaf %x, %wt, %few : tile<64x128xtf32>, tile<128x64xtf32>, tile<64x64xf32>
      %p = ftof %scores : tile<64x64xf32> -> tile<64x64xtf32>
      %new = ftof %first : tile<64x128xf32> -> tile<64x128xtf32>
      %inside = mmaf %p, %new, %none : tile<64x64xtf32>, tile<64x128xtf32>, tile<64x128xf32>
      %sum = addf %second, %inside rounding<nearest_even> : tile<64x128xf32>
      %u2 = store_view_tko weak %sum, %vo[%i, %zero] token = %t : tile<64x128xf32>, partition_view<tile=(64x128), tensor_view<8192x128xf32, strides=[128,1]>>, tile<i32> -> token
      %xt = permute %x [1, 0] : tile<64x128xtf32> -> tile<128x64xtf32>
      %last = mmaf %xt, %new, %all : tile<128x64xtf32>, tile<64x128xtf32>, tile<128x128xf32>
      %s1 = addf %s0, %last rounding<nearest_even> : tile<128x128xf32>
      continue %s1 : tile<128x128xf32>
    }
    return
  }
}
