// The gradient of queries: both first products of the next tile are begun as soon as this one's results are loaded. The last product
// reads the tile of keys again that the first has read an iteration before: its number is carried, and its ring has three stages.
// Exponentials that may be subnormal take no predicates.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s

// CHECK: [[DONE:%[0-9]+]] = "nv_tileas.create_pipeline"() {{.*}}!nv_tileas.pipe<"umma"
// CHECK: [[EARLY:%[0-9]+]] = "nv_tileas.create_pipeline"() {{.*}}!nv_tileas.pipe<"umma"
// CHECK: "nv_tileas.create_pipeline"() {{.*}}!nv_tileas.pipe<"tma", #builtin.int<3>>
// CHECK: [[S:%[0-9]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<128>}> : () -> !nv_tileas.tmem<f32
// CHECK: [[G:%[0-9]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<192>}> : () -> !nv_tileas.tmem<f32
// CHECK: [[FIRST:%[0-9]+]] = "scf.if"(
// CHECK-NEXT: [[N:%[0-9]+]] = "nv_tileas.consumer_wait"([[PIPE:%[0-9]+]]) <{by_dots}>
// CHECK-NEXT: [[SLOT:%[0-9]+]] = "nv_tileas.extract_slice"([[RING:%[0-9]+]], [[N]])
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, [[SLOT]], [[S]], {{.*}}.ss"
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, {{%[0-9]+}}, [[G]], {{.*}}.ss"
// CHECK-NEXT: "nv_tileas.consumer_release"([[OTHER:%[0-9]+]]) <{by_dots}>
// CHECK-NEXT: "nv_tileas.producer_commit"([[EARLY]])
// CHECK-NEXT: "scf.yield"([[N]])
// CHECK: "scf.for"({{%[0-9]+}}, {{%[0-9]+}}, {{%[0-9]+}}, [[FIRST]])
// CHECK-NEXT: ^bb0({{%[0-9]+}}: i32, [[NOW:%[0-9]+]]: i32):
// CHECK: [[AGAIN:%[0-9]+]] = "nv_tileas.extract_slice"([[RING]], [[NOW]])
// CHECK: "nv_tileas.consumer_wait"([[EARLY]], {{.*}}[[S]], [[G]])
// CHECK-NEXT: "nv_tileas.load_tmem"([[S]])
// CHECK-NEXT: "nv_tileas.load_tmem"([[G]])
// CHECK: [[NEXT:%[0-9]+]] = "scf.if"(
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, {{%[0-9]+}}, [[S]], {{.*}}.ss"
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, {{%[0-9]+}}, [[G]], {{.*}}.ss"
// CHECK: "nv_tileas.producer_commit"([[EARLY]])
// CHECK: "math.exp2"({{%[0-9]+}}) <{branchless}>
// CHECK: "nv_tileas.consumer_wait"([[DONE]]
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, [[AGAIN]], {{.*}}.ts"
// CHECK-NEXT: "nv_tileas.consumer_release"([[PIPE]]) <{by_dots}>
// CHECK-NEXT: "nv_tileas.producer_commit"([[DONE]])
// CHECK-NEXT: "scf.yield"([[NEXT]])
cuda_tile.module @m {
  entry @gradient(%pq: tile<ptr<bf16>>, %pk: tile<ptr<bf16>>, %pv: tile<ptr<bf16>>, %pg: tile<ptr<bf16>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x128xf32>
    %empty = constant <f32: 0.0> : tile<128x64xf32>
    %most = constant <f32: 7.0> : tile<128x64xf32>
    %delta = constant <f32: 0.5> : tile<128x64xf32>
    %aq = assume div_by<16>, %pq : tile<ptr<bf16>>
    %ak = assume div_by<16>, %pk : tile<ptr<bf16>>
    %av = assume div_by<16>, %pv : tile<ptr<bf16>>
    %ag = assume div_by<16>, %pg : tile<ptr<bf16>>
    %tq = make_tensor_view %aq, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xbf16, strides=[128,1]>
    %tk = make_tensor_view %ak, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xbf16, strides=[128,1]>
    %tv = make_tensor_view %av, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xbf16, strides=[128,1]>
    %tg = make_tensor_view %ag, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xbf16, strides=[128,1]>
    %to = make_tensor_view %po, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %vq = make_partition_view %tq : partition_view<tile=(128x128), tensor_view<128x128xbf16, strides=[128,1]>>
    %vk = make_partition_view %tk : partition_view<tile=(64x128), tensor_view<8192x128xbf16, strides=[128,1]>>
    %vv = make_partition_view %tv : partition_view<tile=(64x128), tensor_view<8192x128xbf16, strides=[128,1]>>
    %vg = make_partition_view %tg : partition_view<tile=(128x128), tensor_view<128x128xbf16, strides=[128,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %q, %u0 = load_view_tko weak %vq[%zero, %zero] token = %t : partition_view<tile=(128x128), tensor_view<128x128xbf16, strides=[128,1]>>, tile<i32> -> tile<128x128xbf16>, token
    %g, %u1 = load_view_tko weak %vg[%zero, %zero] token = %t : partition_view<tile=(128x128), tensor_view<128x128xbf16, strides=[128,1]>>, tile<i32> -> tile<128x128xbf16>, token
    %o = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<128x128xf32>) {
      %k, %u2 = load_view_tko weak %vk[%i, %zero] token = %t : partition_view<tile=(64x128), tensor_view<8192x128xbf16, strides=[128,1]>>, tile<i32> -> tile<64x128xbf16>, token
      %kt = permute %k [1, 0] : tile<64x128xbf16> -> tile<128x64xbf16>
      %s = mmaf %q, %kt, %empty : tile<128x128xbf16>, tile<128x64xbf16>, tile<128x64xf32>
      %d = subf %s, %most : tile<128x64xf32>
      %p = exp2 %d : tile<128x64xf32>
      %v, %u3 = load_view_tko weak %vv[%i, %zero] token = %t : partition_view<tile=(64x128), tensor_view<8192x128xbf16, strides=[128,1]>>, tile<i32> -> tile<64x128xbf16>, token
      %vt = permute %v [1, 0] : tile<64x128xbf16> -> tile<128x64xbf16>
      %dp = mmaf %g, %vt, %empty : tile<128x128xbf16>, tile<128x64xbf16>, tile<128x64xf32>
      %less = subf %dp, %delta : tile<128x64xf32>
      %ds = mulf %p, %less : tile<128x64xf32>
      %w = ftof %ds : tile<128x64xf32> -> tile<128x64xbf16>
      %new = mmaf %w, %k, %acc : tile<128x64xbf16>, tile<64x128xbf16>, tile<128x128xf32>
      continue %new : tile<128x128xf32>
    }
    %e = store_view_tko weak %o, %vo[%zero, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
