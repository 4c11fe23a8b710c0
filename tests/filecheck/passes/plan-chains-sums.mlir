// Threads that add each product to sums beside it have these in tensor memory (`place-sums`), where there is room for them without a
// second chain; products that add to the sums themselves are two chains'.
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_100 | filecheck %s
// RUN: sed 's/v, \(.\)none :/v, \1old :/; s/addf \(.\)step, /maxf \1old, /; s/continue \(.\)new/continue \1step/' %s | tileiras-opt - --to=nv_tileaa --gpu-name=sm_100 | filecheck %s --check-prefix=CHAINS

// CHECK-NOT: chains = #
// CHECK: "nv_tileaa.dot"
// CHECK-NOT: get_chain
// CHAINS: chains = #builtin.int<2>
cuda_tile.module @m {
  entry @attention(%pq: tile<ptr<f16>>, %pk: tile<ptr<f16>>, %pv: tile<ptr<f16>>, %po: tile<ptr<f16>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<256x64xf32>
    %least = constant <f32: -1.0e30> : tile<256x1xf32>
    %aq = assume div_by<16>, %pq : tile<ptr<f16>>
    %ak = assume div_by<16>, %pk : tile<ptr<f16>>
    %av = assume div_by<16>, %pv : tile<ptr<f16>>
    %tq = make_tensor_view %aq, shape = [256, 64], strides = [64, 1] : tensor_view<256x64xf16, strides=[64,1]>
    %tk = make_tensor_view %ak, shape = [64, 8192], strides = [8192, 1] : tensor_view<64x8192xf16, strides=[8192,1]>
    %tv = make_tensor_view %av, shape = [8192, 64], strides = [64, 1] : tensor_view<8192x64xf16, strides=[64,1]>
    %ao = assume div_by<16>, %po : tile<ptr<f16>>
    %to = make_tensor_view %ao, shape = [256, 64], strides = [64, 1] : tensor_view<256x64xf16, strides=[64,1]>
    %vq = make_partition_view %tq : partition_view<tile=(256x64), tensor_view<256x64xf16, strides=[64,1]>>
    %vk = make_partition_view %tk : partition_view<tile=(64x64), tensor_view<64x8192xf16, strides=[8192,1]>>
    %vv = make_partition_view %tv : partition_view<tile=(64x64), tensor_view<8192x64xf16, strides=[64,1]>>
    %vo = make_partition_view %to : partition_view<tile=(256x64), tensor_view<256x64xf16, strides=[64,1]>>
    %q, %u0 = load_view_tko weak %vq[%zero, %zero] token = %t : partition_view<tile=(256x64), tensor_view<256x64xf16, strides=[64,1]>>, tile<i32> -> tile<256x64xf16>, token
    %o, %m = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none, %most = %least) -> (tile<256x64xf32>, tile<256x1xf32>) {
      %k, %u1 = load_view_tko weak %vk[%zero, %i] token = %t : partition_view<tile=(64x64), tensor_view<64x8192xf16, strides=[8192,1]>>, tile<i32> -> tile<64x64xf16>, token
      %s = mmaf %q, %k, %none : tile<256x64xf16>, tile<64x64xf16>, tile<256x64xf32>
      %r = reduce %s dim=1 identities=[-1.0e30 : f32] : tile<256x64xf32> -> tile<256xf32>
      (%x: tile<f32>, %y: tile<f32>) {
        %z = maxf %x, %y : tile<f32>
        yield %z : tile<f32>
      }
      %r1 = reshape %r : tile<256xf32> -> tile<256x1xf32>
      %more = maxf %most, %r1 : tile<256x1xf32>
      %wide = broadcast %more : tile<256x1xf32> -> tile<256x64xf32>
      %d = subf %s, %wide : tile<256x64xf32>
      %e = exp2 %d : tile<256x64xf32>
      %p = ftof %e : tile<256x64xf32> -> tile<256x64xf16>
      %less = subf %most, %more : tile<256x1xf32>
      %scale = exp2 %less : tile<256x1xf32>
      %scales = broadcast %scale : tile<256x1xf32> -> tile<256x64xf32>
      %old = mulf %acc, %scales : tile<256x64xf32>
      %v, %u2 = load_view_tko weak %vv[%i, %zero] token = %t : partition_view<tile=(64x64), tensor_view<8192x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %step = mmaf %p, %v, %none : tile<256x64xf16>, tile<64x64xf16>, tile<256x64xf32>
      %new = addf %step, %old : tile<256x64xf32>
      continue %new, %more : tile<256x64xf32>, tile<256x1xf32>
    }
    %h = ftof %o : tile<256x64xf32> -> tile<256x64xf16>
    %u3 = store_view_tko weak %h, %vo[%zero, %zero] token = %t : tile<256x64xf16>, partition_view<tile=(256x64), tensor_view<256x64xf16, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
