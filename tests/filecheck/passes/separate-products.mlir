// A warp of its own begins both products: the next tile's scores as soon as this one's are loaded and their keys are there, the second
// product when each warp has stored its rows' weights, rescaled its sums and said so. Scores, weights and sums have columns of their
// own, and the load agent's registers are enough for descriptors. Threads wait for the queries, too, behind the loop: where it has no
// iteration nothing else tells them that these have come, and what they store may lie there.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s

// CHECK: [[S:%[0-9]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<0>}> : () -> !nv_tileas.tmem<f32
// CHECK-NEXT: [[P:%[0-9]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<64>}> : () -> !nv_tileas.tmem<f16
// CHECK-NEXT: [[O:%[0-9]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<96>}> : () -> !nv_tileas.tmem<f32
// CHECK-NEXT: [[SCORES:%[0-9]+]] = "nv_tileas.create_pipeline"() <{consumers = #builtin.int<8>, {{.*}}!nv_tileas.pipe<"umma"
// CHECK-NEXT: [[WEIGHTS:%[0-9]+]] = "nv_tileas.create_pipeline"() <{producers = #builtin.int<8>, consumers = #builtin.int<1>, {{.*}}!nv_tileas.pipe<"mbarrier"
// CHECK: warps = [#builtin.int<8>, #builtin.int<1>, #builtin.int<1>], registers = [#builtin.int<232>, #builtin.int<40>, #builtin.int<40>]
// CHECK: "nv_tileas.store_tmem"({{%[0-9]+}}, [[O]])
// CHECK-NEXT: "scf.for"(
// CHECK-NOT: tensor_dot
// CHECK: "nv_tileas.consumer_wait"([[SCORES]], [[S]])
// CHECK-NEXT: "nv_tileas.load_tmem"([[S]])
// CHECK-NEXT: "nv_tileas.consumer_release"([[SCORES]])
// CHECK: "math.exp2"
// CHECK: "nv_tileas.producer_acquire"([[WEIGHTS]], [[X:%[0-9]+]])
// CHECK-NEXT: "nv_tileas.store_tmem"([[X]], [[P]])
// CHECK: "nv_tileas.scale_tmem"({{%[0-9]+}}, [[O]])
// CHECK-NEXT: "nv_tileas.producer_commit"([[WEIGHTS]])
// CHECK-NEXT: "scf.yield"
// CHECK: "nv_tileas.producer_acquire"([[WEIGHTS]])
// CHECK-NEXT: "nv_tileas.load_tmem"([[O]])
// CHECK: "nv_tileas.consumer_wait"([[QUERIES:%[0-9]+]]) :
// CHECK-NEXT: "nv_tileas.consumer_release"([[QUERIES]])
// CHECK: "nv_tileas.consumer_wait"([[QUERIES]]) <{by_dots}>
// CHECK: "scf.if"(
// CHECK-NEXT: "nv_tileas.consumer_wait"([[KEYS:%[0-9]+]]) <{by_dots}>
// CHECK: "nv_tileas.producer_acquire"([[SCORES]])
// CHECK-NEXT: "nv_tileas.tensor_dot"({{%[0-9]+}}, {{%[0-9]+}}, [[S]], {{.*}}.ss"{{.*}}told
// CHECK-NEXT: "nv_tileas.producer_commit"([[SCORES]])
// CHECK-NEXT: "nv_tileas.consumer_release"([[KEYS]]) <{by_dots}>
// CHECK: "scf.for"(
// CHECK: "scf.if"(
// CHECK-NEXT: "nv_tileas.consumer_wait"([[KEYS]]) <{by_dots}>
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, {{%[0-9]+}}, [[S]], {{.*}}.ss"
// CHECK: "nv_tileas.consumer_wait"([[WEIGHTS]]) <{by_dots}>
// CHECK-NEXT: "nv_tileas.tensor_dot"([[P]], {{%[0-9]+}}, [[O]], {{.*}}.ts"{{.*}}told
// CHECK-NEXT: "nv_tileas.consumer_release"([[VALUES:%[0-9]+]]) <{by_dots}>
// CHECK-NEXT: "nv_tileas.consumer_release"([[WEIGHTS]]) <{by_dots}>
cuda_tile.module @m {
  entry @attention(%pq: tile<ptr<f16>>, %pk: tile<ptr<f16>>, %pv: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x256xf32>
    %empty = constant <f32: 0.0> : tile<128x64xf32>
    %least = constant <f32: -1.0e30> : tile<128x1xf32>
    %aq = assume div_by<16>, %pq : tile<ptr<f16>>
    %ak = assume div_by<16>, %pk : tile<ptr<f16>>
    %av = assume div_by<16>, %pv : tile<ptr<f16>>
    %tq = make_tensor_view %aq, shape = [128, 256], strides = [256, 1] : tensor_view<128x256xf16, strides=[256,1]>
    %tk = make_tensor_view %ak, shape = [256, 8192], strides = [8192, 1] : tensor_view<256x8192xf16, strides=[8192,1]>
    %tv = make_tensor_view %av, shape = [8192, 256], strides = [256, 1] : tensor_view<8192x256xf16, strides=[256,1]>
    %to = make_tensor_view %po, shape = [128, 256], strides = [256, 1] : tensor_view<128x256xf32, strides=[256,1]>
    %vq = make_partition_view %tq : partition_view<tile=(128x256), tensor_view<128x256xf16, strides=[256,1]>>
    %vk = make_partition_view %tk : partition_view<tile=(256x64), tensor_view<256x8192xf16, strides=[8192,1]>>
    %vv = make_partition_view %tv : partition_view<tile=(64x256), tensor_view<8192x256xf16, strides=[256,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x256), tensor_view<128x256xf32, strides=[256,1]>>
    %q, %u0 = load_view_tko weak %vq[%zero, %zero] token = %t : partition_view<tile=(128x256), tensor_view<128x256xf16, strides=[256,1]>>, tile<i32> -> tile<128x256xf16>, token
    %o, %m = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none, %most = %least) -> (tile<128x256xf32>, tile<128x1xf32>) {
      %k, %u1 = load_view_tko weak %vk[%zero, %i] token = %t : partition_view<tile=(256x64), tensor_view<256x8192xf16, strides=[8192,1]>>, tile<i32> -> tile<256x64xf16>, token
      %s = mmaf %q, %k, %empty : tile<128x256xf16>, tile<256x64xf16>, tile<128x64xf32>
      %r = reduce %s dim=1 identities=[-1.0e30 : f32] : tile<128x64xf32> -> tile<128xf32>
      (%x: tile<f32>, %y: tile<f32>) {
        %z = maxf %x, %y : tile<f32>
        yield %z : tile<f32>
      }
      %r1 = reshape %r : tile<128xf32> -> tile<128x1xf32>
      %more = maxf %most, %r1 : tile<128x1xf32>
      %wide = broadcast %more : tile<128x1xf32> -> tile<128x64xf32>
      %d = subf %s, %wide : tile<128x64xf32>
      %e = exp2 %d : tile<128x64xf32>
      %p = ftof %e : tile<128x64xf32> -> tile<128x64xf16>
      %less = subf %most, %more : tile<128x1xf32>
      %scale = exp2 %less : tile<128x1xf32>
      %scales = broadcast %scale : tile<128x1xf32> -> tile<128x256xf32>
      %old = mulf %acc, %scales : tile<128x256xf32>
      %v, %u2 = load_view_tko weak %vv[%i, %zero] token = %t : partition_view<tile=(64x256), tensor_view<8192x256xf16, strides=[256,1]>>, tile<i32> -> tile<64x256xf16>, token
      %new = mmaf %p, %v, %old : tile<128x64xf16>, tile<64x256xf16>, tile<128x256xf32>
      continue %new, %more : tile<128x256xf32>, tile<128x1xf32>
    }
    %e = store_view_tko weak %o, %vo[%zero, %zero] token = %t : tile<128x256xf32>, partition_view<tile=(128x256), tensor_view<128x256xf32, strides=[256,1]>>, tile<i32> -> token
    return
  }
}
