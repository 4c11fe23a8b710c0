// Pairs of CTAs in a loop over tiles: a warp of the lower one begins both's products, into the accumulator that the readers of both
// have given back. In a loop around that, or without pairs, each CTA multiplies for itself.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --verify-each | filecheck %s
// RUN: env TILEIRAS_WITHOUT=pairs tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=ALONE
// RUN: sed 's/\/\/ NESTED //' %s | tileiras-opt - --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=NESTED

// CHECK: [[DONE:%[0-9]+]] = "nv_tileas.create_pipeline"() <{pair, consumers = #builtin.int<4>, {{.*}} -> !nv_tileas.pipe<"umma", #builtin.int<2>>
// CHECK: "nv_tileas.tmem_alloc"() <{columns = #builtin.int<256>, pair,
// CHECK: [[BOTH:%[0-9]+]] = "nv_tileas.alloc_tensor"() {{.*}}!nv_tileas.tmem<f32, [#builtin.int<2>, #builtin.int<128>, #builtin.int<128>]
// CHECK: "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<1>, #builtin.int<1>]}>
// CHECK-NOT: cluster_barrier
// CHECK: [[I:%[0-9]+]] = "nv_tileas.consumer_wait"([[DONE]])
// CHECK-NEXT: [[READ:%[0-9]+]] = "nv_tileas.tmem_stage"([[BOTH]], [[I]])
// CHECK: "nv_tileas.consumer_release"([[DONE]])
// CHECK: "nv_tileas.cluster_arrive"() :
// CHECK: "nv_tileas.cluster_wait"
// CHECK: "nv_tileas.tma_load"
// CHECK: [[J:%[0-9]+]] = "nv_tileas.producer_acquire"([[DONE]])
// CHECK-NEXT: [[WRITTEN:%[0-9]+]] = "nv_tileas.tmem_stage"([[BOTH]], [[J]])
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, {{%[0-9]+}}, [[WRITTEN]],{{.*}}.cg2.ss
// CHECK: "nv_tileas.producer_commit"([[DONE]])

// ALONE: "nv_tileas.tensor_dot"
// ALONE-NOT: .cg2.

// NESTED: "nv_tileas.tensor_dot"
// NESTED-NOT: .cg2.
cuda_tile.module @m {
  entry @sums(%pp: tile<ptr<f16>>, %qp: tile<ptr<f32>>, %n: tile<i32>, %tiles: tile<i32>) optimization_hints=<default = {num_cta_in_cga = 2}> {
    %t = make_token : token
    %p = assume div_by<16>, %pp : tile<ptr<f16>>
    %q = assume div_by<16>, %qp : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<256x128xf32>
    %w = make_tensor_view %p, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %v = make_partition_view %w : partition_view<tile=(256x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %u = make_tensor_view %p, shape = [4096, 128], strides = [128, 1] : tensor_view<4096x128xf16, strides=[128,1]>
    %k = make_partition_view %u : partition_view<tile=(64x128), tensor_view<4096x128xf16, strides=[128,1]>>
    %x = make_tensor_view %q, shape = [4096, 128], strides = [128, 1] : tensor_view<4096x128xf32, strides=[128,1]>
    %y = make_partition_view %x : partition_view<tile=(256x128), tensor_view<4096x128xf32, strides=[128,1]>>
    // NESTED for %group in (%zero to %tiles, step %one) : tile<i32> {
    for %tile in (%zero to %tiles, step %one) : tile<i32> {
      %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<256x128xf32>) {
        %a, %u0 = load_view_tko weak %v[%tile, %i] token = %t : partition_view<tile=(256x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<256x64xf16>, token
        %b, %u1 = load_view_tko weak %k[%i, %zero] token = %t : partition_view<tile=(64x128), tensor_view<4096x128xf16, strides=[128,1]>>, tile<i32> -> tile<64x128xf16>, token
        %d = mmaf %a, %b, %acc : tile<256x64xf16>, tile<64x128xf16>, tile<256x128xf32>
        continue %d : tile<256x128xf32>
      }
      %z = store_view_tko weak %s, %y[%tile, %zero] token = %t : tile<256x128xf32>, partition_view<tile=(256x128), tensor_view<4096x128xf32, strides=[128,1]>>, tile<i32> -> token
    }
    // NESTED }
    return
  }
}
