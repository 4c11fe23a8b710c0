// A program asks for two blocks an SM, and loads what it makes its queries of in front of a loop with rings: beside these, of two
// stages, shared memory has room for two of the tiles that the copy engine might bring; the third comes by registers.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --print-ir-after=materialize-schedule -o %t.as 2>&1 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_103 --print-ir-after=materialize-schedule -o %t.one 2>&1 | filecheck %s --check-prefix=ONE
// CHECK: "nv_tileas.alloc_tensor"() : () -> !nv_tileas.ring<!nv_tileas.buffer<f16{{.*}}#builtin.int<2>>
// CHECK-NEXT: "nv_tileas.alloc_tensor"() : () -> !nv_tileas.ring<!nv_tileas.buffer<f16{{.*}}#builtin.int<2>>
// CHECK-NEXT: "nv_tileas.alloc_tensor"() : () -> !nv_tileas.ring<!nv_tileas.buffer<f32{{.*}}#builtin.int<1>>
// CHECK-NEXT: "nv_tileas.alloc_tensor"() : () -> !nv_tileas.ring<!nv_tileas.buffer<f16{{.*}}#builtin.int<1>>
// CHECK: "nv_tileas.tiled_load"
// CHECK-NOT: "nv_tileas.tiled_load"
// CHECK: "scf.for"

// Where it asks for none, the engine brings them.
// ONE: "nv_tileas.alloc_tensor"() : () -> !nv_tileas.ring<!nv_tileas.buffer<f16{{.*}}#builtin.int<3>>
// ONE: "nv_tileas.alloc_tensor"() : () -> !nv_tileas.ring<!nv_tileas.buffer<f32{{.*}}#builtin.int<1>>
// ONE-NEXT: "nv_tileas.alloc_tensor"() : () -> !nv_tileas.ring<!nv_tileas.buffer<f32{{.*}}#builtin.int<1>>
// ONE-NOT: "nv_tileas.tiled_load"
// ONE: "scf.for"
cuda_tile.module @m {
  entry @turned(%pq: tile<ptr<f16>>, %pc: tile<ptr<f32>>, %pk: tile<ptr<f16>>, %pv: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) optimization_hints=<sm_100 = {occupancy = 2}> {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %wide = constant <f32: 0.0> : tile<64x128xf32>
    %aq = assume div_by<16>, %pq : tile<ptr<f16>>
    %ac = assume div_by<16>, %pc : tile<ptr<f32>>
    %ak = assume div_by<16>, %pk : tile<ptr<f16>>
    %av = assume div_by<16>, %pv : tile<ptr<f16>>
    %ao = assume div_by<16>, %po : tile<ptr<f32>>
    %m = assume div_by<16>, %n : tile<i32>
    %tc = make_tensor_view %ac, shape = [%m, %m], strides = [%m, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %tk = make_tensor_view %ak, shape = [128, 8192], strides = [8192, 1] : tensor_view<128x8192xf16, strides=[8192,1]>
    %tv = make_tensor_view %av, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xf16, strides=[128,1]>
    %to = make_tensor_view %ao, shape = [64, 128], strides = [128, 1] : tensor_view<64x128xf32, strides=[128,1]>
    %tq = make_tensor_view %aq, shape = [%m, %m], strides = [%m, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %vc = make_partition_view %tc : partition_view<tile=(64x64), tensor_view<?x?xf32, strides=[?,1]>>
    %vq = make_partition_view %tq : partition_view<tile=(64x128), tensor_view<?x?xf16, strides=[?,1]>>
    %vk = make_partition_view %tk : partition_view<tile=(128x64), tensor_view<128x8192xf16, strides=[8192,1]>>
    %vv = make_partition_view %tv : partition_view<tile=(64x128), tensor_view<8192x128xf16, strides=[128,1]>>
    %vo = make_partition_view %to : partition_view<tile=(64x128), tensor_view<64x128xf32, strides=[128,1]>>
    %raw, %uraw = load_view_tko weak %vq[%zero, %zero] token = %t : partition_view<tile=(64x128), tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x128xf16>, token
    %c, %uc = load_view_tko weak %vc[%zero, %zero] token = %t : partition_view<tile=(64x64), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> tile<64x64xf32>, token
    %s1, %us1 = load_view_tko weak %vc[%one, %zero] token = %t : partition_view<tile=(64x64), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> tile<64x64xf32>, token
    %r0 = extract %raw[%zero, %zero] : tile<64x128xf16> -> tile<64x64xf16>
    %r1 = extract %raw[%zero, %one] : tile<64x128xf16> -> tile<64x64xf16>
    %f0 = ftof %r0 : tile<64x64xf16> -> tile<64x64xf32>
    %f1 = ftof %r1 : tile<64x64xf16> -> tile<64x64xf32>
    %a0 = mulf %f0, %c rounding<nearest_even> : tile<64x64xf32>
    %b0 = mulf %f1, %s1 rounding<nearest_even> : tile<64x64xf32>
    %y0 = subf %a0, %b0 rounding<nearest_even> : tile<64x64xf32>
    %a1 = mulf %f1, %c rounding<nearest_even> : tile<64x64xf32>
    %b1 = mulf %f0, %s1 rounding<nearest_even> : tile<64x64xf32>
    %y1 = addf %a1, %b1 rounding<nearest_even> : tile<64x64xf32>
    %y = cat %y0, %y1 dim = 1 : tile<64x64xf32>, tile<64x64xf32> -> tile<64x128xf32>
    %q = ftof %y : tile<64x128xf32> -> tile<64x128xf16>
    %o = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %wide) -> (tile<64x128xf32>) {
      %k, %uk = load_view_tko weak %vk[%zero, %i] token = %t : partition_view<tile=(128x64), tensor_view<128x8192xf16, strides=[8192,1]>>, tile<i32> -> tile<128x64xf16>, token
      %v, %uv = load_view_tko weak %vv[%i, %zero] token = %t : partition_view<tile=(64x128), tensor_view<8192x128xf16, strides=[128,1]>>, tile<i32> -> tile<64x128xf16>, token
      %s = mmaf %q, %k, %none : tile<64x128xf16>, tile<128x64xf16>, tile<64x64xf32>
      %e = exp2 %s : tile<64x64xf32>
      %p = ftof %e : tile<64x64xf32> -> tile<64x64xf16>
      %x = mmaf %p, %v, %wide : tile<64x64xf16>, tile<64x128xf16>, tile<64x128xf32>
      %next = addf %acc, %x rounding<nearest_even> : tile<64x128xf32>
      continue %next : tile<64x128xf32>
    }
    %w = store_view_tko weak %o, %vo[%zero, %zero] token = %t : tile<64x128xf32>, partition_view<tile=(64x128), tensor_view<64x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
