// A tile block's work is split over the CTAs of a cluster: each is the program of one, whose tiles are as large as its parts.
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_90 --verify-each | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_80 | filecheck %s --check-prefix=WHOLE
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_90 -O0 | filecheck %s --check-prefix=WHOLE
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 --verify-each | filecheck %s --check-prefix=ORDER
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 --verify-each | filecheck %s --check-prefix=SHARE
// WHOLE-NOT: get_cta_rank
// WHOLE-NOT: cluster = #

cuda_tile.module @m {
  // Rows over two CTAs: half of A's and the result's rows each, all of B twice; of B each loads a half for both.
  // CHECK: sym_name = "product", {{.*}}cluster = #builtin.int<2>
  // CHECK: [[RANK:%[0-9]+]] = "nv_tileaa.get_cta_rank"
  // CHECK: "arith.addi"({{.*}}, [[RANK]])
  // CHECK: "scf.for"
  // CHECK: "nv_tileaa.tiled_load"({{.*}}inbounds = [#builtin.int<1>, #builtin.int<1>]{{.*}} : {{.*}}tile = [128, 64]{{.*}} -> (tensor<128x64xf16>
  // CHECK: "nv_tileaa.tiled_load"({{.*}}cta_copies = #builtin.int<1>{{.*}} -> (tensor<64x128xf16>
  // CHECK: "nv_tileaa.dot"({{.*}}) -> tensor<128x128xf32>
  // CHECK: "nv_tileaa.tiled_store"({{.*}} : (tensor<128x128xf32>
  // SHARE: sym_name = "product"
  // SHARE: "nv_tileas.create_pipeline"{{.*}}peers = [#builtin.int<0>, #builtin.int<1>]
  // SHARE: "nv_tileas.cluster_barrier"
  // SHARE: "nv_tileas.agent_switch"
  // SHARE-NOT: "nv_tileas.cluster_{{.*}}
  // SHARE: "nv_tileas.return"
  // SHARE: "nv_tileas.tma_load"({{.*}}) {nv_tile
  // SHARE: "nv_tileas.tma_load"{{.*}}cta_copies = #builtin.int<1>, shared = [#builtin.int<1>, #builtin.int<2>]
  // SHARE: "nv_tileas.producer_tail"
  // SHARE-NEXT: "nv_tileas.return"
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

  // A range begins elsewhere in each CTA; the scalar is stored by one; what a token orders waits for all CTAs.
  // CHECK: sym_name = "pointers", {{.*}}cluster = #builtin.int<4>
  // CHECK: "nv_tileaa.make_range"() : () -> tensor<64xi32>
  // CHECK: "nv_tileaa.splat"
  // CHECK: "arith.addi"({{.*}}) : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi32>
  // CHECK: "nv_tileaa.store"({{.*}}) <{mem_semantic = "weak"{{.*}}tensor<64xf32>
  // CHECK: "nv_tileaa.load"({{.*}}cta_copies = #builtin.int<3>
  // CHECK: "nv_tileaa.store"({{.*}}cta_copies = #builtin.int<3>
  // ORDER: sym_name = "pointers"
  // ORDER: "nv_tileas.store"
  // ORDER: "nv_tileas.cluster_barrier"
  // ORDER-NOT: "nv_tileas.barrier"
  // ORDER: "nv_tileas.load"
  // ORDER: "nv_tileas.cluster_barrier"
  // ORDER-NOT: "nv_tileas.barrier"
  // ORDER: "nv_tileas.store"
  entry @pointers(%p: tile<ptr<f32>>) optimization_hints=<default = {num_cta_in_cga = 4}> {
    %t = make_token : token
    %c = constant <f32: 1.0> : tile<256xf32>
    %i = iota : tile<256xi32>
    %s = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %b = broadcast %s : tile<1xptr<f32>> -> tile<256xptr<f32>>
    %q = offset %b, %i : tile<256xptr<f32>>, tile<256xi32> -> tile<256xptr<f32>>
    %o = store_ptr_tko weak %q, %c token = %t : tile<256xptr<f32>>, tile<256xf32> -> token
    %d, %l = load_ptr_tko weak %p token = %o : tile<ptr<f32>> -> tile<f32>, token
    %e = store_ptr_tko weak %p, %d token = %l : tile<ptr<f32>>, tile<f32> -> token
    return
  }

  // Each CTA reduces its part, and the two tell each other; the lower part comes first in both.
  // CHECK: sym_name = "exchange", {{.*}}cluster = #builtin.int<2>
  // CHECK: [[MINE:%[0-9]+]] = "nv_tileaa.reduce"(
  // CHECK: (tensor<8192xf32>) -> f32
  // CHECK: [[OTHER:%[0-9]+]] = "nv_tileaa.cta_exchange"([[MINE]]) <{peer = #builtin.int<1>}>
  // CHECK: [[LOW:%[0-9]+]] = "arith.select"([[UPPER:%[0-9]+]], [[OTHER]], [[MINE]])
  // CHECK: [[HIGH:%[0-9]+]] = "arith.select"([[UPPER]], [[MINE]], [[OTHER]])
  // CHECK: "arith.addf"([[LOW]], [[HIGH]])
  // SHARE: sym_name = "exchange"
  // SHARE: "nv_tileas.store_shared"(
  // SHARE: "nv_tileas.cluster_barrier"
  // SHARE-NEXT: "nv_tileas.load_shared"{{.*}}peer = #builtin.int<1>
  // SHARE-NEXT: "nv_tileas.cluster_barrier"
  entry @exchange(%p: tile<ptr<f32>>) optimization_hints=<default = {num_cta_in_cga = 2}> {
    %t = make_token : token
    %i = iota : tile<16384xi32>
    %s = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %b = broadcast %s : tile<1xptr<f32>> -> tile<16384xptr<f32>>
    %q = offset %b, %i : tile<16384xptr<f32>>, tile<16384xi32> -> tile<16384xptr<f32>>
    %x, %l = load_ptr_tko weak %q token = %t : tile<16384xptr<f32>> -> tile<16384xf32>, token
    %r = reduce %x dim=0 identities=[0.000000e+00 : f32] : tile<16384xf32> -> tile<f32>
    (%m: tile<f32>, %k: tile<f32>) {
      %a = addf %m, %k : tile<f32>
      yield %a : tile<f32>
    }
    %e = store_ptr_tko weak %p, %r token = %l : tile<ptr<f32>>, tile<f32> -> token
    return
  }

  // A small tile isn't worth an exchange.
  // CHECK: sym_name = "reduction"
  // CHECK-NOT: get_cta_rank
  entry @reduction(%p: tile<ptr<f32>>) optimization_hints=<default = {num_cta_in_cga = 2}> {
    %t = make_token : token
    %i = iota : tile<256xi32>
    %s = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %b = broadcast %s : tile<1xptr<f32>> -> tile<256xptr<f32>>
    %q = offset %b, %i : tile<256xptr<f32>>, tile<256xi32> -> tile<256xptr<f32>>
    %x, %l = load_ptr_tko weak %q token = %t : tile<256xptr<f32>> -> tile<256xf32>, token
    %r = reduce %x dim=0 identities=[0.000000e+00 : f32] : tile<256xf32> -> tile<f32>
    (%m: tile<f32>, %k: tile<f32>) {
      %a = addf %m, %k : tile<f32>
      yield %a : tile<f32>
    }
    %e = store_ptr_tko weak %p, %r token = %l : tile<ptr<f32>>, tile<f32> -> token
    return
  }

  // Parts of 64 x 128 would multiply slower.
  // CHECK: sym_name = "small"
  // CHECK-NOT: get_cta_rank
  entry @small(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) optimization_hints=<default = {num_cta_in_cga = 2}> {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %start = constant <f32: 0.0> : tile<128x128xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %ta = make_tensor_view %qa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %tb = make_tensor_view %qb, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %to = make_tensor_view %po, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
    %va = make_partition_view %ta : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(64x128), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x128), tensor_view<4096x4096xf32, strides=[4096,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<128x128xf32>) {
      %a, %u = load_view_tko weak %va[%x, %i] token = %t : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<128x64xf16>, token
      %b, %v = load_view_tko weak %vb[%i, %y] token = %t : partition_view<tile=(64x128), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x128xf16>, token
      %c = mmaf %a, %b, %acc : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %c : tile<128x128xf32>
    }
    %w = store_view_tko weak %sum, %vo[%x, %y] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> token
    return
  }
}
