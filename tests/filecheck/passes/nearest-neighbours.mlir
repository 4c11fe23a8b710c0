// Tiles that are one element wide along memory: an access's lanes lie along the dimension that is nearest otherwise, by the strides
// that are known, or an array's last; CTAs that share a tile block take parts that leave rows of both arrays whole.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 --verify-each | filecheck %s

cuda_tile.module @m {
  // CHECK: sym_name = "unknown"
  // CHECK: "nv_tileas.tiled_store"({{.*}}neighbours = #builtin.int<1>, apart = #builtin.int<4>{{.*}}lane = {{\[\[}}0, 1, 0], [0, 2, 0], [0, 4, 0], [0, 8, 0], [0, 16, 0]]
  entry @unknown(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %s: tile<i32>, %u: tile<i32>) {
    %x, %y, %z = get_tile_block_id : tile<i32>
    %m = make_tensor_view %p, shape = [64, 64, 64], strides = [%s, %u, 1] : tile<i32> -> tensor_view<64x64x64xf32, strides=[?,?,1]>
    %o = make_tensor_view %q, shape = [64, 64, 64], strides = [%s, %u, 1] : tile<i32> -> tensor_view<64x64x64xf32, strides=[?,?,1]>
    %v = make_partition_view %m : partition_view<tile=(1x32x32), tensor_view<64x64x64xf32, strides=[?,?,1]>>
    %w = make_partition_view %o : partition_view<tile=(32x32x1), tensor_view<64x64x64xf32, strides=[?,?,1]>>
    %t, %k = load_view_tko weak %v[%x, %y, %z] : partition_view<tile=(1x32x32), tensor_view<64x64x64xf32, strides=[?,?,1]>>, tile<i32> -> tile<1x32x32xf32>, token
    %r = permute %t [2, 1, 0] : tile<1x32x32xf32> -> tile<32x32x1xf32>
    %e = store_view_tko weak %r, %w[%z, %y, %x] : tile<32x32x1xf32>, partition_view<tile=(32x32x1), tensor_view<64x64x64xf32, strides=[?,?,1]>>, tile<i32> -> token
    return
  }
  // CHECK: sym_name = "known"
  // CHECK: "nv_tileas.tiled_store"({{.*}}neighbours = #builtin.int<0>, apart = #builtin.int<4>
  entry @known(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
    %x, %y, %z = get_tile_block_id : tile<i32>
    %m = make_tensor_view %p, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %o = make_tensor_view %q, shape = [64, 64, 3], strides = [3, 192, 1] : tensor_view<64x64x3xf32, strides=[3,192,1]>
    %v = make_partition_view %m : partition_view<tile=(32x32), tensor_view<64x64xf32, strides=[64,1]>>
    %w = make_partition_view %o : partition_view<tile=(32x32x1), tensor_view<64x64x3xf32, strides=[3,192,1]>>
    %t, %k = load_view_tko weak %v[%x, %y] : partition_view<tile=(32x32), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> tile<32x32xf32>, token
    %r = reshape %t : tile<32x32xf32> -> tile<32x32x1xf32>
    %e = store_view_tko weak %r, %w[%x, %y, %z] : tile<32x32x1xf32>, partition_view<tile=(32x32x1), tensor_view<64x64x3xf32, strides=[3,192,1]>>, tile<i32> -> token
    return
  }
  // CHECK: sym_name = "shared", {{.*}}cluster = #builtin.int<2>
  // CHECK: tile = [16, 4, 32]
  // CHECK: tile = [32, 4, 16]
  entry @shared(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %s: tile<i32>, %u: tile<i32>) optimization_hints=<default = {num_cta_in_cga = 2}> {
    %x, %y, %z = get_tile_block_id : tile<i32>
    %m = make_tensor_view %p, shape = [64, 64, 64], strides = [%s, %u, 1] : tile<i32> -> tensor_view<64x64x64xf16, strides=[?,?,1]>
    %o = make_tensor_view %q, shape = [64, 64, 64], strides = [%s, %u, 1] : tile<i32> -> tensor_view<64x64x64xf16, strides=[?,?,1]>
    %v = make_partition_view %m : partition_view<tile=(16x8x32), tensor_view<64x64x64xf16, strides=[?,?,1]>>
    %w = make_partition_view %o : partition_view<tile=(32x8x16), tensor_view<64x64x64xf16, strides=[?,?,1]>>
    %t, %k = load_view_tko weak %v[%x, %y, %z] : partition_view<tile=(16x8x32), tensor_view<64x64x64xf16, strides=[?,?,1]>>, tile<i32> -> tile<16x8x32xf16>, token
    %r = permute %t [2, 1, 0] : tile<16x8x32xf16> -> tile<32x8x16xf16>
    %e = store_view_tko weak %r, %w[%z, %y, %x] : tile<32x8x16xf16>, partition_view<tile=(32x8x16), tensor_view<64x64x64xf16, strides=[?,?,1]>>, tile<i32> -> token
    return
  }

  // Columns of a matrix that are gathered lie in rows, wherever that is.
  // CHECK: sym_name = "columns"
  // CHECK: "nv_tileas.tiled_load"({{.*}}neighbours = #builtin.int<1>, apart = #builtin.int<4>
  entry @columns(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %c: tile<ptr<i32>>, %s: tile<i32>) {
    %x, %y, %z = get_tile_block_id : tile<i32>
    %m = make_tensor_view %p, shape = [64, 64], strides = [%s, 1] : tile<i32> -> tensor_view<64x64xf32, strides=[?,1]>
    %n = make_tensor_view %c, shape = [16], strides = [1] : tensor_view<16xi32, strides=[1]>
    %o = make_tensor_view %q, shape = [64, 16], strides = [16, 1] : tensor_view<64x16xf32, strides=[16,1]>
    %v = make_gather_scatter_view %m : gather_scatter_view<tile=(16x16), tensor_view<64x64xf32, strides=[?,1]>, sparse_dim=1>
    %u = make_partition_view %n : partition_view<tile=(16), tensor_view<16xi32, strides=[1]>>
    %w = make_partition_view %o : partition_view<tile=(16x16), tensor_view<64x16xf32, strides=[16,1]>>
    %i, %k0 = load_view_tko weak %u[%y] : partition_view<tile=(16), tensor_view<16xi32, strides=[1]>>, tile<i32> -> tile<16xi32>, token
    %t, %k1 = load_view_tko weak %v[%x, %i] : gather_scatter_view<tile=(16x16), tensor_view<64x64xf32, strides=[?,1]>, sparse_dim=1>, tile<i32>, tile<16xi32> -> tile<16x16xf32>, token
    %e = store_view_tko weak %t, %w[%x, %y] : tile<16x16xf32>, partition_view<tile=(16x16), tensor_view<64x16xf32, strides=[16,1]>>, tile<i32> -> token
    return
  }
}
