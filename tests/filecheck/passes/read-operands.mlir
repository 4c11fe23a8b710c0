// A tile whose rows aren't known to be whole chunks, which one product reads as it is and another without signs: the copy
// engine brings it for both, and threads read it from its ring's stage, in front of the first product. Without the engine threads
// load it, as before.
// RUN: env TILEIRAS_WITHOUT=agents tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s
// RUN: env TILEIRAS_WITHOUT=tma,agents tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=PLAIN

// PLAIN: "scf.for"
// PLAIN: "nv_tileas.tiled_load"
// PLAIN-NOT: tma_load
// CHECK: "scf.for"
// CHECK-NOT: tiled_load
// CHECK: "nv_tileas.tma_load"({{.*}}"f16", [#builtin.int<128>, #builtin.int<32>]
// CHECK: [[X:%[0-9]+]] = "nv_tileas.extract_slice"({{.*}}-> !nv_tileas.buffer<f16, #nv_tileas.shared<shape = [128x32]
// CHECK: [[T:%[0-9]+]] = "nv_tileas.load_shared"([[X]]){{.*}}reg = {{\[\[}}0, 1], [0, 2], [0, 4]
// CHECK: "nv_tileas.tensor_dot"([[X]],
// CHECK: [[N:%[0-9]+]] = "math.absf"([[T]])
// CHECK: "nv_tileas.store_tmem"([[N]], [[B:%[0-9]+]])
// CHECK: "nv_tileas.tensor_dot"([[B]],
// CHECK: "scf.yield"
cuda_tile.module @m {
  entry @both(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %r: tile<ptr<f32>>, %n: tile<i32>, %s: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %none = constant <f32: 0.0> : tile<128x128xf32>
    %ap = assume div_by<16>, %p : tile<ptr<f16>>
    %aq = assume div_by<16>, %q : tile<ptr<f16>>
    %ar = assume div_by<16>, %r : tile<ptr<f32>>
    %as = assume div_by<8>, %s : tile<i32>
    %wp = make_tensor_view %ap, shape = [%n, %n], strides = [%as, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %wq = make_tensor_view %aq, shape = [%n, 128], strides = [128, 1] : tile<i32> -> tensor_view<?x128xf16, strides=[128,1]>
    %wr = make_tensor_view %ar, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %vp = make_partition_view %wp : partition_view<tile=(128x32), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %vq = make_partition_view %wq : partition_view<tile=(32x128), padding_value = zero, tensor_view<?x128xf16, strides=[128,1]>>
    %vr = make_partition_view %wr : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %sum, %other = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%x = %none, %y = %none) -> (tile<128x128xf32>, tile<128x128xf32>) {
      %a, %t1 = load_view_tko weak %vp[%zero, %i] token = %t : partition_view<tile=(128x32), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32>, tile<i32> -> tile<128x32xf16>, token
      %b, %t2 = load_view_tko weak %vq[%i, %zero] token = %t : partition_view<tile=(32x128), padding_value = zero, tensor_view<?x128xf16, strides=[128,1]>>, tile<i32>, tile<i32> -> tile<32x128xf16>, token
      %m = absf %a : tile<128x32xf16>
      %d = mmaf %m, %b, %x : tile<128x32xf16>, tile<32x128xf16>, tile<128x128xf32>
      %e = mmaf %a, %b, %y : tile<128x32xf16>, tile<32x128xf16>, tile<128x128xf32>
      continue %d, %e : tile<128x128xf32>, tile<128x128xf32>
    }
    %both = mulf %sum, %other rounding<nearest_even> : tile<128x128xf32>
    %e = store_view_tko weak %both, %vr[%zero, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32>, tile<i32> -> token
    return
  }
}
