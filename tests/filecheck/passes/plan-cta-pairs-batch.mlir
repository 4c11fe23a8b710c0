// Matrices of a batch, one a tile: a reshape leaves the batch out, and a pair of CTAs multiplies them as it does whole ones. What is
// stored of the sums leaves tensor memory in pieces: the reshape comes behind the piece. One of more dimensions isn't looked through.
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_100 --verify-each | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --verify-each | filecheck %s --check-prefix=PIECES
// RUN: env TILEIRAS_WITHOUT=pairs tileiras-opt %s --to=nv_tileaa --gpu-name=sm_100 | filecheck %s --check-prefix=ALONE
// RUN: sed 's/1x256x64/2x128x64/g' %s | tileiras-opt - --to=nv_tileaa --gpu-name=sm_100 | filecheck %s --check-prefix=ALONE

// CHECK: "nv_tileaa.tiled_load"({{.*}} -> (tensor<1x128x64xf16>
// CHECK: "nv_tileaa.tiled_load"({{.*}} -> (tensor<1x64x64xf16>
// CHECK: "nv_tileaa.dot"({{.*}}<{pair}> : (tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x128xf32>) -> tensor<128x128xf32>

// PIECES: "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<1>, #builtin.int<1>]}>
// PIECES: [[P:%[0-9]+]] = "nv_tileas.load_tmem"([[D:%[0-9]+]]) <{first = #builtin.int<0>}>
// PIECES: [[V:%[0-9]+]] = "nv_tileas.view"([[P]])
// PIECES: "nv_tileas.store_shared"([[V]], [[A:%[0-9]+]])
// PIECES: "nv_tileas.tma_store"({{.*}}, [[A]]) <{in_flight}>
// PIECES: "nv_tileas.load_tmem"([[D]]) <{first = #builtin.int<32>}>
// PIECES: "nv_tileas.load_tmem"([[D]]) <{first = #builtin.int<64>}>
// PIECES: "nv_tileas.load_tmem"([[D]]) <{first = #builtin.int<96>}>
// PIECES-NEXT: "nv_tileas.consumer_release"
// PIECES: sm100.mma.f16.m256n128k16.f32.f16.f16.cg2.ss

// ALONE: "nv_tileaa.dot"
// ALONE-NOT: pair}>

cuda_tile.module @m {
  entry @sums(%pp: tile<ptr<f16>>, %qp: tile<ptr<f32>>, %n: tile<i32>, %tiles: tile<i32>) optimization_hints=<default = {num_cta_in_cga = 2}> {
    %t = make_token : token
    %p = assume div_by<16>, %pp : tile<ptr<f16>>
    %q = assume div_by<16>, %qp : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<256x128xf32>
    %w = make_tensor_view %p, shape = [8, 256, 4096], strides = [1048576, 4096, 1] : tensor_view<8x256x4096xf16, strides=[1048576,4096,1]>
    %v = make_partition_view %w : partition_view<tile=(1x256x64), tensor_view<8x256x4096xf16, strides=[1048576,4096,1]>>
    %u = make_tensor_view %p, shape = [8, 4096, 128], strides = [524288, 128, 1] : tensor_view<8x4096x128xf16, strides=[524288,128,1]>
    %k = make_partition_view %u : partition_view<tile=(1x64x128), tensor_view<8x4096x128xf16, strides=[524288,128,1]>>
    %x = make_tensor_view %q, shape = [8, 256, 128], strides = [32768, 128, 1] : tensor_view<8x256x128xf32, strides=[32768,128,1]>
    %y = make_partition_view %x : partition_view<tile=(1x256x128), tensor_view<8x256x128xf32, strides=[32768,128,1]>>
    for %tile in (%zero to %tiles, step %one) : tile<i32> {
      %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<256x128xf32>) {
        %a, %u0 = load_view_tko weak %v[%tile, %zero, %i] token = %t : partition_view<tile=(1x256x64), tensor_view<8x256x4096xf16, strides=[1048576,4096,1]>>, tile<i32> -> tile<1x256x64xf16>, token
        %b, %u1 = load_view_tko weak %k[%tile, %i, %zero] token = %t : partition_view<tile=(1x64x128), tensor_view<8x4096x128xf16, strides=[524288,128,1]>>, tile<i32> -> tile<1x64x128xf16>, token
        %a2 = reshape %a : tile<1x256x64xf16> -> tile<256x64xf16>
        %b2 = reshape %b : tile<1x64x128xf16> -> tile<64x128xf16>
        %d = mmaf %a2, %b2, %acc : tile<256x64xf16>, tile<64x128xf16>, tile<256x128xf32>
        continue %d : tile<256x128xf32>
      }
      %r = reshape %s : tile<256x128xf32> -> tile<1x256x128xf32>
      %z = store_view_tko weak %r, %y[%tile, %zero, %zero] token = %t : tile<1x256x128xf32>, partition_view<tile=(1x256x128), tensor_view<8x256x128xf32, strides=[32768,128,1]>>, tile<i32> -> token
    }
    return
  }
}
