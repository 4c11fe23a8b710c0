// Each step's product begins anew and counts by factors of its row and of its block: the products of steps run ahead by a warp of
// their own, which gives the ring's stages back before it tells, and the factors are loaded an iteration ahead, multiplied at the
// body's head.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --verify-each | filecheck %s

// CHECK: [[DONE:%[0-9]+]] = "nv_tileas.create_pipeline"() <{consumers = #builtin.int<4>, {{.*}} -> !nv_tileas.pipe<"umma", #builtin.int<2>>
// CHECK: "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<1>, #builtin.int<1>]}>
// CHECK: "scf.for"
// CHECK: [[WIDE:%[0-9]+]] = "nv_tileas.broadcast"(%{{[0-9]+}}) {{.*}}-> tensor<128x1xf32
// CHECK-NEXT: "arith.mulf"(%{{[0-9]+}}, [[WIDE]])
// CHECK: "scf.if"
// CHECK-NEXT: "nv_tileas.tiled_load"
// CHECK-NEXT: "nv_tileas.tiled_load"
// CHECK: [[I:%[0-9]+]] = "nv_tileas.consumer_wait"([[DONE]])
// CHECK-NEXT: [[READ:%[0-9]+]] = "nv_tileas.tmem_stage"(%{{[0-9]+}}, [[I]])
// CHECK-NEXT: "nv_tileas.load_tmem"([[READ]])
// CHECK-NEXT: "nv_tileas.consumer_release"([[DONE]])
// CHECK: "arith.addf"
// CHECK: "nv_tileas.tma_load"
// CHECK: "nv_tileas.producer_acquire"([[DONE]])
// CHECK: "nv_tileas.tensor_dot"
// CHECK-NEXT: "nv_tileas.consumer_release"({{.*}}by_dots
// CHECK-NEXT: "nv_tileas.producer_commit"([[DONE]])
// CHECK-NEXT: "scf.yield"
cuda_tile.module @m {
  entry @steps(%p: tile<ptr<f8E4M3FN>>, %q: tile<ptr<f8E4M3FN>>, %r: tile<ptr<f32>>, %s: tile<ptr<f32>>, %o: tile<ptr<f32>>, %n: tile<i32>) optimization_hints=<sm_100 = {occupancy = 1}> {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x128xf32>
    %pa = assume div_by<16>, %p : tile<ptr<f8E4M3FN>>
    %qa = assume div_by<16>, %q : tile<ptr<f8E4M3FN>>
    %ra = assume div_by<16>, %r : tile<ptr<f32>>
    %sa = assume div_by<16>, %s : tile<ptr<f32>>
    %oa = assume div_by<16>, %o : tile<ptr<f32>>
    %vp = make_tensor_view %pa, shape = [128, 8192], strides = [8192, 1] : tensor_view<128x8192xf8E4M3FN, strides=[8192,1]>
    %vq = make_tensor_view %qa, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xf8E4M3FN, strides=[128,1]>
    %vr = make_tensor_view %ra, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf32, strides=[64,1]>
    %vs = make_tensor_view %sa, shape = [64, 1], strides = [1, 1] : tensor_view<64x1xf32, strides=[1,1]>
    %vo = make_tensor_view %oa, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %tp = make_partition_view %vp : partition_view<tile=(128x128), tensor_view<128x8192xf8E4M3FN, strides=[8192,1]>>
    %tq = make_partition_view %vq : partition_view<tile=(128x128), tensor_view<8192x128xf8E4M3FN, strides=[128,1]>>
    %tr = make_partition_view %vr : partition_view<tile=(128x1), tensor_view<128x64xf32, strides=[64,1]>>
    %ts = make_partition_view %vs : partition_view<tile=(1x1), tensor_view<64x1xf32, strides=[1,1]>>
    %to = make_partition_view %vo : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %sum = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<128x128xf32>) {
      %a, %u0 = load_view_tko weak %tp[%zero, %k] token = %t : partition_view<tile=(128x128), tensor_view<128x8192xf8E4M3FN, strides=[8192,1]>>, tile<i32> -> tile<128x128xf8E4M3FN>, token
      %b, %u1 = load_view_tko weak %tq[%k, %zero] token = %t : partition_view<tile=(128x128), tensor_view<8192x128xf8E4M3FN, strides=[128,1]>>, tile<i32> -> tile<128x128xf8E4M3FN>, token
      %d = mmaf %a, %b, %none : tile<128x128xf8E4M3FN>, tile<128x128xf8E4M3FN>, tile<128x128xf32>
      %f, %u2 = load_view_tko weak %tr[%zero, %k] token = %t : partition_view<tile=(128x1), tensor_view<128x64xf32, strides=[64,1]>>, tile<i32> -> tile<128x1xf32>, token
      %g, %u3 = load_view_tko weak %ts[%k, %zero] token = %t : partition_view<tile=(1x1), tensor_view<64x1xf32, strides=[1,1]>>, tile<i32> -> tile<1x1xf32>, token
      %h = broadcast %g : tile<1x1xf32> -> tile<128x1xf32>
      %both = mulf %f, %h : tile<128x1xf32>
      %wide = broadcast %both : tile<128x1xf32> -> tile<128x128xf32>
      %e = mulf %d, %wide : tile<128x128xf32>
      %z = addf %acc, %e : tile<128x128xf32>
      continue %z : tile<128x128xf32>
    }
    %w = store_view_tko weak %sum, %to[%zero, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
