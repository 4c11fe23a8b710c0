// As overlap-epilogues-steps.mlir, but by two blocks an SM, whose threads borrow registers from those that load: the warp for products
// shares their warpgroup, which gives its registers back before its warps part. One of the factors is a number, which is loaded an
// iteration ahead, too, and by each thread.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --verify-each | filecheck %s
// RUN: tileiras-opt %s --to=llvm --gpu-name=sm_100 | filecheck %s --check-prefix=LLVM

// CHECK: "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<1>, #builtin.int<1>], registers = [#builtin.int<[[MANY:[0-9]+]]>, #builtin.int<[[FEW:[0-9]+]]>, #builtin.int<[[FEW]]>]}>
// CHECK: "scf.for"
// CHECK: "scf.if"
// CHECK: "nv_tileas.load"({{.*}}by_thread
// CHECK: "nv_tileas.consumer_wait"
// CHECK-NEXT: "nv_tileas.tmem_stage"
// CHECK-NEXT: "nv_tileas.load_tmem"
// CHECK-NEXT: "nv_tileas.consumer_release"
// CHECK: "nv_tileas.tma_load"
// CHECK: "nv_tileas.tensor_dot"

// LLVM: setmaxnreg.inc
// LLVM: setmaxnreg.dec
// LLVM-NOT: setmaxnreg
// LLVM: "read.ptx.sreg.lanemask.lt"
cuda_tile.module @m {
  entry @steps_by_two_blocks(%p: tile<ptr<f8E4M3FN>>, %q: tile<ptr<f8E4M3FN>>, %r: tile<ptr<f32>>, %s: tile<ptr<f32>>, %o: tile<ptr<f32>>, %n: tile<i32>) {
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
    %vo = make_tensor_view %oa, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %tp = make_partition_view %vp : partition_view<tile=(128x128), tensor_view<128x8192xf8E4M3FN, strides=[8192,1]>>
    %tq = make_partition_view %vq : partition_view<tile=(128x128), tensor_view<8192x128xf8E4M3FN, strides=[128,1]>>
    %tr = make_partition_view %vr : partition_view<tile=(128x1), tensor_view<128x64xf32, strides=[64,1]>>
    %to = make_partition_view %vo : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %sum = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<128x128xf32>) {
      %a, %u0 = load_view_tko weak %tp[%zero, %k] token = %t : partition_view<tile=(128x128), tensor_view<128x8192xf8E4M3FN, strides=[8192,1]>>, tile<i32> -> tile<128x128xf8E4M3FN>, token
      %b, %u1 = load_view_tko weak %tq[%k, %zero] token = %t : partition_view<tile=(128x128), tensor_view<8192x128xf8E4M3FN, strides=[128,1]>>, tile<i32> -> tile<128x128xf8E4M3FN>, token
      %d = mmaf %a, %b, %none : tile<128x128xf8E4M3FN>, tile<128x128xf8E4M3FN>, tile<128x128xf32>
      %f, %u2 = load_view_tko weak %tr[%zero, %k] token = %t : partition_view<tile=(128x1), tensor_view<128x64xf32, strides=[64,1]>>, tile<i32> -> tile<128x1xf32>, token
      %at = offset %sa, %k : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
      %g, %u3 = load_ptr_tko weak %at token=%t : tile<ptr<f32>> -> tile<f32>, token
      %g1 = reshape %g : tile<f32> -> tile<1x1xf32>
      %h = broadcast %g1 : tile<1x1xf32> -> tile<128x1xf32>
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
