// A tile of 128 rows and 256 columns by a pair of CTAs: each has 64 rows, and its accumulator lies folded in tensor memory, the second
// half of the columns in the lanes behind the rows. What is loaded from there takes the tile's shape without moving. A tile of 128
// columns stays whole.
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_100 --verify-each | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --verify-each | filecheck %s --check-prefix=PLACED

// CHECK: sym_name = "wide"
// CHECK: "nv_tileaa.dot"({{.*}}<{pair}> : (tensor<64x64xf16>, tensor<64x128xf16>, tensor<64x256xf32>) -> tensor<64x256xf32>
// CHECK: sym_name = "narrow"
// CHECK: "nv_tileaa.dot"({{.*}}) : (tensor<128x64xf16>, tensor<64x128xf16>, tensor<128x128xf32>) -> tensor<128x128xf32>

// PLACED: sym_name = "wide"
// PLACED: "nv_tileas.tmem_alloc"() <{columns = #builtin.int<128>, pair
// PLACED: "nv_tileas.tensor_dot"({{.*}}sm100.mma.f16.m128n256k16.f32.f16.f16.cg2.ss
// PLACED: [[SUM:%[0-9]+]] = "nv_tileas.load_tmem"({{.*}}) -> tensor<128x128xf32
// PLACED-NEXT: "nv_tileas.cluster_arrive"
// PLACED-NEXT: [[HALVES:%[0-9]+]] = "nv_tileas.view"([[SUM]]) : {{.*}} -> tensor<2x64x128xf32
// PLACED-NEXT: [[BESIDE:%[0-9]+]] = "nv_tileas.permute"([[HALVES]]) {{.*}} -> tensor<64x2x128xf32
// PLACED-NEXT: "nv_tileas.view"([[BESIDE]]) : {{.*}} -> tensor<64x256xf32
// PLACED: sym_name = "narrow"
// PLACED: cg1.ss

cuda_tile.module @m {
  entry @wide(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) optimization_hints=<default = {num_cta_in_cga = 2}> {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %start = constant <f32: 0.0> : tile<128x256xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %qo = assume div_by<16>, %po : tile<ptr<f32>>
    %ta = make_tensor_view %qa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %tb = make_tensor_view %qb, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %to = make_tensor_view %qo, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
    %va = make_partition_view %ta : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(64x256), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x256), tensor_view<4096x4096xf32, strides=[4096,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<128x256xf32>) {
      %a, %u = load_view_tko weak %va[%x, %i] token = %t : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<128x64xf16>, token
      %b, %v = load_view_tko weak %vb[%i, %y] token = %t : partition_view<tile=(64x256), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x256xf16>, token
      %c = mmaf %a, %b, %acc : tile<128x64xf16>, tile<64x256xf16>, tile<128x256xf32>
      continue %c : tile<128x256xf32>
    }
    %w = store_view_tko weak %sum, %vo[%x, %y] token = %t : tile<128x256xf32>, partition_view<tile=(128x256), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> token
    return
  }

  entry @narrow(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) optimization_hints=<default = {num_cta_in_cga = 2}> {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %start = constant <f32: 0.0> : tile<128x128xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %qo = assume div_by<16>, %po : tile<ptr<f32>>
    %ta = make_tensor_view %qa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %tb = make_tensor_view %qb, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %to = make_tensor_view %qo, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
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
