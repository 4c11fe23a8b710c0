// Two chains of 128 rows each compute exponentials by turns: the first one fills the only stage of a pipe with those of an
// iteration, the second one empties it with its own. Those of a row's maximum, one a thread, wait for nobody; nor do 64 a thread.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s
// RUN: sed -e s/256x128x/256x64x/g -e s/64x128/64x64/g -e s/128x64/64x64/g %s | tileiras-opt --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=FEW

// CHECK: [[TURN:%[0-9]+]] = "nv_tileas.create_pipeline"() <{producers = #builtin.int<4>, consumers = #builtin.int<4>, {{.*}}!nv_tileas.pipe<"mbarrier", #builtin.int<1>>
// CHECK: "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<4>, #builtin.int<1>, #builtin.int<1>, #builtin.int<1>], registers = [#builtin.int<232>, #builtin.int<232>, #builtin.int<40>
// CHECK: "scf.for"(
// CHECK: "nv_tileas.producer_acquire"([[TURN]])
// CHECK-NEXT: "math.exp2"({{.*}}tensor<128x128xf32
// CHECK-NEXT: "nv_tileas.producer_commit"([[TURN]])
// CHECK-NOT: [[TURN]])
// CHECK: "math.exp2"({{.*}}tensor<128x1xf32
// CHECK: "scf.for"(
// CHECK: "nv_tileas.consumer_wait"([[TURN]])
// CHECK-NEXT: "math.exp2"({{.*}}tensor<128x128xf32
// CHECK-NEXT: "nv_tileas.consumer_release"([[TURN]])
// CHECK-NOT: [[TURN]])

// FEW: "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<4>, #builtin.int<1>]
// FEW-NOT: "mbarrier"
cuda_tile.module @m {
  entry @attention(%pq: tile<ptr<f16>>, %pk: tile<ptr<f16>>, %pv: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<256x64xf32>
    %empty = constant <f32: 0.0> : tile<256x128xf32>
    %least = constant <f32: -1.0e30> : tile<256x1xf32>
    %aq = assume div_by<16>, %pq : tile<ptr<f16>>
    %ak = assume div_by<16>, %pk : tile<ptr<f16>>
    %av = assume div_by<16>, %pv : tile<ptr<f16>>
    %tq = make_tensor_view %aq, shape = [256, 64], strides = [64, 1] : tensor_view<256x64xf16, strides=[64,1]>
    %tk = make_tensor_view %ak, shape = [64, 8192], strides = [8192, 1] : tensor_view<64x8192xf16, strides=[8192,1]>
    %tv = make_tensor_view %av, shape = [8192, 64], strides = [64, 1] : tensor_view<8192x64xf16, strides=[64,1]>
    %to = make_tensor_view %po, shape = [256, 64], strides = [64, 1] : tensor_view<256x64xf32, strides=[64,1]>
    %vq = make_partition_view %tq : partition_view<tile=(256x64), tensor_view<256x64xf16, strides=[64,1]>>
    %vk = make_partition_view %tk : partition_view<tile=(64x128), tensor_view<64x8192xf16, strides=[8192,1]>>
    %vv = make_partition_view %tv : partition_view<tile=(128x64), tensor_view<8192x64xf16, strides=[64,1]>>
    %vo = make_partition_view %to : partition_view<tile=(256x64), tensor_view<256x64xf32, strides=[64,1]>>
    %q, %u0 = load_view_tko weak %vq[%zero, %zero] token = %t : partition_view<tile=(256x64), tensor_view<256x64xf16, strides=[64,1]>>, tile<i32> -> tile<256x64xf16>, token
    %o, %m = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none, %most = %least) -> (tile<256x64xf32>, tile<256x1xf32>) {
      %k, %u1 = load_view_tko weak %vk[%zero, %i] token = %t : partition_view<tile=(64x128), tensor_view<64x8192xf16, strides=[8192,1]>>, tile<i32> -> tile<64x128xf16>, token
      %s = mmaf %q, %k, %empty : tile<256x64xf16>, tile<64x128xf16>, tile<256x128xf32>
      %r = reduce %s dim=1 identities=[-1.0e30 : f32] : tile<256x128xf32> -> tile<256xf32>
      (%x: tile<f32>, %y: tile<f32>) {
        %z = maxf %x, %y : tile<f32>
        yield %z : tile<f32>
      }
      %r1 = reshape %r : tile<256xf32> -> tile<256x1xf32>
      %more = maxf %most, %r1 : tile<256x1xf32>
      %wide = broadcast %more : tile<256x1xf32> -> tile<256x128xf32>
      %d = subf %s, %wide : tile<256x128xf32>
      %e = exp2 %d : tile<256x128xf32>
      %p = ftof %e : tile<256x128xf32> -> tile<256x128xf16>
      %less = subf %most, %more : tile<256x1xf32>
      %scale = exp2 %less : tile<256x1xf32>
      %scales = broadcast %scale : tile<256x1xf32> -> tile<256x64xf32>
      %old = mulf %acc, %scales : tile<256x64xf32>
      %v, %u2 = load_view_tko weak %vv[%i, %zero] token = %t : partition_view<tile=(128x64), tensor_view<8192x64xf16, strides=[64,1]>>, tile<i32> -> tile<128x64xf16>, token
      %new = mmaf %p, %v, %old : tile<256x128xf16>, tile<128x64xf16>, tile<256x64xf32>
      continue %new, %more : tile<256x64xf32>, tile<256x1xf32>
    }
    %e = store_view_tko weak %o, %vo[%zero, %zero] token = %t : tile<256x64xf32>, partition_view<tile=(256x64), tensor_view<256x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
