// Two CTAs multiply together: each has half of A's rows and of B's columns; the lower one begins the products, commits reach both.
// That pipes are set up is told by their fence: who meets behind it needn't wait for other writes.
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_100 --verify-each | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --verify-each | filecheck %s --check-prefix=AGENTS
// RUN: env TILEIRAS_WITHOUT=pairs tileiras-opt %s --to=nv_tileaa --gpu-name=sm_100 | filecheck %s --check-prefix=ALONE
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_90 | filecheck %s --check-prefix=ALONE

// CHECK: sym_name = "product", {{.*}}cluster = #builtin.int<2>
// CHECK: "scf.for"
// CHECK: "nv_tileaa.tiled_load"({{.*}} -> (tensor<128x64xf16>
// CHECK: "nv_tileaa.tiled_load"({{.*}} -> (tensor<64x64xf16>
// CHECK: "nv_tileaa.dot"({{.*}}<{pair}> : (tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x128xf32>) -> tensor<128x128xf32>

// AGENTS: [[DONE:%[0-9]+]] = "nv_tileas.create_pipeline"() {{.*}}pair{{.*}} -> !nv_tileas.pipe<"umma"
// AGENTS: "nv_tileas.create_pipeline"() {{.*}}consumers = #builtin.int<1>{{.*}}pair{{.*}} -> !nv_tileas.pipe<"tma"
// AGENTS: "nv_tileas.cluster_barrier"() <{relaxed}>
// AGENTS-NEXT: "nv_tileas.agent_switch"
// AGENTS-NEXT: "nv_tileas.tmem_alloc"() <{columns = #builtin.int<128>, pair
// AGENTS: "nv_tileas.tensor_dot"({{.*}}sm100.mma.f16.m256n128k16.f32.f16.f16.cg2.ss
// AGENTS: "nv_tileas.producer_commit"([[DONE]])
// AGENTS: "nv_tileas.load_tmem"
// AGENTS-NEXT: "nv_tileas.cluster_arrive"() <{relaxed}>
// AGENTS: "nv_tileas.tiled_store"
// AGENTS: "nv_tileas.cluster_wait"
// AGENTS-NEXT: "nv_tileas.tmem_free"() <{columns = #builtin.int<128>, pair}>
// AGENTS-NEXT: "nv_tileas.return"
// AGENTS: "nv_tileas.tma_load"
// AGENTS: "nv_tileas.producer_tail"
// AGENTS-NEXT: "nv_tileas.cluster_arrive"() <{relaxed}>
// AGENTS-NEXT: "nv_tileas.cluster_wait"
// AGENTS-NEXT: "nv_tileas.return"

// ALONE: "nv_tileaa.dot"
// ALONE-NOT: pair}>

cuda_tile.module @m {
  entry @product(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) optimization_hints=<default = {num_cta_in_cga = 2}> {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %start = constant <f32: 0.0> : tile<256x128xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %ta = make_tensor_view %qa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %tb = make_tensor_view %qb, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %to = make_tensor_view %po, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
    %va = make_partition_view %ta : partition_view<tile=(256x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(64x128), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vo = make_partition_view %to : partition_view<tile=(256x128), tensor_view<4096x4096xf32, strides=[4096,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<256x128xf32>) {
      %a, %u = load_view_tko weak %va[%x, %i] token = %t : partition_view<tile=(256x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<256x64xf16>, token
      %b, %v = load_view_tko weak %vb[%i, %y] token = %t : partition_view<tile=(64x128), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x128xf16>, token
      %c = mmaf %a, %b, %acc : tile<256x64xf16>, tile<64x128xf16>, tile<256x128xf32>
      continue %c : tile<256x128xf32>
    }
    %w = store_view_tko weak %sum, %vo[%x, %y] token = %t : tile<256x128xf32>, partition_view<tile=(256x128), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> token
    return
  }
}
