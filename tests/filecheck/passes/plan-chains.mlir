// Attention of 256 rows is the program of one of two chains of 128. Each becomes an agent, with its own queries, accumulators, columns
// and what tells of its products; they share the stages of keys and values, which are empty when both have multiplied.
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_100 --verify-each | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --verify-each | filecheck %s --check-prefix=AGENTS
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_90 | filecheck %s --check-prefix=WHOLE
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_100 -O0 | filecheck %s --check-prefix=WHOLE
// WHOLE-NOT: get_chain
// WHOLE-NOT: chains = #

// CHECK-NOT: occupancy
// CHECK: chains = #builtin.int<2>
// CHECK: [[N:%[0-9]+]] = "nv_tileaa.get_chain"() : () -> i32
// CHECK: [[ROW:%[0-9]+]] = "arith.addi"({{.*}}, [[N]])
// CHECK: "nv_tileaa.tiled_load"({{%[0-9]+}}, [[ROW]],{{.*}} -> (tensor<128x128xf16>
// CHECK: "scf.for"
// CHECK: "nv_tileaa.tiled_load"({{.*}} -> (tensor<128x128xf16>
// CHECK-NOT: cta_copies
// CHECK: "nv_tileaa.dot"({{.*}} -> tensor<128x128xf32>
// CHECK: "nv_tileaa.tiled_store"({{%[0-9]+}}, {{%[0-9]+}}, [[ROW]],{{.*}} : (tensor<128x128xf16>

// AGENTS: [[V:%[0-9]+]] = "nv_tileas.alloc_tensor"() {{.*}}#builtin.int<2>>
// AGENTS: [[K:%[0-9]+]] = "nv_tileas.alloc_tensor"() {{.*}}#builtin.int<2>>
// AGENTS: [[Q0:%[0-9]+]] = "nv_tileas.alloc_tensor"() {{.*}}#builtin.int<1>>
// AGENTS: [[Q1:%[0-9]+]] = "nv_tileas.alloc_tensor"() {{.*}}#builtin.int<1>>
// AGENTS: [[DONE0:%[0-9]+]] = "nv_tileas.create_pipeline"() {{.*}}pipe<"umma"
// AGENTS: [[DONE1:%[0-9]+]] = "nv_tileas.create_pipeline"() {{.*}}pipe<"umma"
// AGENTS: "nv_tileas.create_pipeline"() {{.*}}consumers = #builtin.int<2>, {{.*}}pipe<"tma", #builtin.int<2>>
// AGENTS: "nv_tileas.create_pipeline"() {{.*}}consumers = #builtin.int<2>, {{.*}}pipe<"tma", #builtin.int<2>>
// AGENTS: "nv_tileas.create_pipeline"() {{.*}}consumers = #builtin.int<4>, once
// AGENTS: "nv_tileas.create_pipeline"() {{.*}}consumers = #builtin.int<4>, once
// AGENTS: "nv_tileas.tmem_alloc"() <{columns = #builtin.int<256>, offset = #builtin.int<144>, several}>
// AGENTS-NEXT: "nv_tileas.tmem_alloc"() <{columns = #builtin.int<256>, offset = #builtin.int<160>}>
// AGENTS-NEXT: "nv_tileas.barrier"
// AGENTS-NEXT: "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<4>, #builtin.int<1>], registers = [#builtin.int<240>, #builtin.int<240>, #builtin.int<24>]}>
// AGENTS-NEXT: "nv_tileas.tmem_base"() <{offset = #builtin.int<144>}>
// AGENTS: "nv_tileas.extract_slice"([[Q0]]
// AGENTS: "nv_tileas.tma_load"
// AGENTS: "nv_tileas.extract_slice"([[K]]
// AGENTS: "nv_tileas.tensor_dot"
// AGENTS-NEXT: "nv_tileas.producer_commit"([[DONE0]])
// AGENTS: "nv_tileas.tmem_free"
// AGENTS-NEXT: "nv_tileas.return"
// AGENTS: "nv_tileas.tmem_base"() <{offset = #builtin.int<160>}>
// AGENTS: "nv_tileas.extract_slice"([[Q1]]
// AGENTS: "nv_tileas.tma_load"
// AGENTS: "nv_tileas.extract_slice"([[K]]
// AGENTS: "nv_tileas.tensor_dot"
// AGENTS-NEXT: "nv_tileas.producer_commit"([[DONE1]])
// AGENTS: "nv_tileas.tmem_free"
// AGENTS-NEXT: "nv_tileas.return"
// AGENTS-NOT: tmem_alloc
// AGENTS: "nv_tileas.extract_slice"([[K]]
// AGENTS: "nv_tileas.extract_slice"([[V]]
cuda_tile.module @m {
  entry @attention(%pq: tile<ptr<f16>>, %pk: tile<ptr<f16>>, %pv: tile<ptr<f16>>, %po: tile<ptr<f16>>, %n: tile<i32>) optimization_hints=<default = {occupancy = 2}> {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<256x128xf32>
    %least = constant <f32: -1.0e30> : tile<256x1xf32>
    %aq = assume div_by<16>, %pq : tile<ptr<f16>>
    %ak = assume div_by<16>, %pk : tile<ptr<f16>>
    %av = assume div_by<16>, %pv : tile<ptr<f16>>
    %tq = make_tensor_view %aq, shape = [256, 128], strides = [128, 1] : tensor_view<256x128xf16, strides=[128,1]>
    %tk = make_tensor_view %ak, shape = [128, 8192], strides = [8192, 1] : tensor_view<128x8192xf16, strides=[8192,1]>
    %tv = make_tensor_view %av, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xf16, strides=[128,1]>
    %ao = assume div_by<16>, %po : tile<ptr<f16>>
    %to = make_tensor_view %ao, shape = [256, 128], strides = [128, 1] : tensor_view<256x128xf16, strides=[128,1]>
    %vq = make_partition_view %tq : partition_view<tile=(256x128), tensor_view<256x128xf16, strides=[128,1]>>
    %vk = make_partition_view %tk : partition_view<tile=(128x128), tensor_view<128x8192xf16, strides=[8192,1]>>
    %vv = make_partition_view %tv : partition_view<tile=(128x128), tensor_view<8192x128xf16, strides=[128,1]>>
    %vo = make_partition_view %to : partition_view<tile=(256x128), tensor_view<256x128xf16, strides=[128,1]>>
    %q, %u0 = load_view_tko weak %vq[%zero, %zero] token = %t : partition_view<tile=(256x128), tensor_view<256x128xf16, strides=[128,1]>>, tile<i32> -> tile<256x128xf16>, token
    %o, %m = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none, %most = %least) -> (tile<256x128xf32>, tile<256x1xf32>) {
      %k, %u1 = load_view_tko weak %vk[%zero, %i] token = %t : partition_view<tile=(128x128), tensor_view<128x8192xf16, strides=[8192,1]>>, tile<i32> -> tile<128x128xf16>, token
      %s = mmaf %q, %k, %none : tile<256x128xf16>, tile<128x128xf16>, tile<256x128xf32>
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
      %scales = broadcast %scale : tile<256x1xf32> -> tile<256x128xf32>
      %old = mulf %acc, %scales : tile<256x128xf32>
      %v, %u2 = load_view_tko weak %vv[%i, %zero] token = %t : partition_view<tile=(128x128), tensor_view<8192x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
      %new = mmaf %p, %v, %old : tile<256x128xf16>, tile<128x128xf16>, tile<256x128xf32>
      continue %new, %more : tile<256x128xf32>, tile<256x1xf32>
    }
    %h = ftof %o : tile<256x128xf32> -> tile<256x128xf16>
    %u3 = store_view_tko weak %h, %vo[%zero, %zero] token = %t : tile<256x128xf16>, partition_view<tile=(256x128), tensor_view<256x128xf16, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
