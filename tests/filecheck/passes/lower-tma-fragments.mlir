// Rows of B that don't run along k: fragments read them in narrower accesses from where the copy engine puts them than from a buffer
// that threads fill as they like, and still take the port of shared memory less than loading, storing and reading. So the engine
// brings them, several iterations ahead.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --verify-each | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 --verify-each | filecheck %s

// CHECK: tensor_maps = ["tf32 p0 {{[^"]*}}", "tf32 p1 {{[^"]*}} box [32, 32] swizzle 128"]
// CHECK-NOT: nv_tileas.tiled_load
// CHECK: "nv_tileas.dot"({{.*}}atom = "mma.m16n8k8.row.col.tf32"
// CHECK-NOT: nv_tileas.tiled_load
// CHECK: "nv_tileas.tma_load"
// CHECK: "nv_tileas.tma_load"
cuda_tile.module @m {
  entry @few_rows(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %o: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<16x128xf32>
    %pa = assume div_by<16>, %p : tile<ptr<f32>>
    %pb = assume div_by<16>, %q : tile<ptr<f32>>
    %ta = make_tensor_view %pa, shape = [16, 2048], strides = [2048, 1] : tensor_view<16x2048xf32, strides=[2048,1]>
    %tb = make_tensor_view %pb, shape = [2048, 8192], strides = [8192, 1] : tensor_view<2048x8192xf32, strides=[8192,1]>
    %to = make_tensor_view %o, shape = [16, 8192], strides = [8192, 1] : tensor_view<16x8192xf32, strides=[8192,1]>
    %va = make_partition_view %ta : partition_view<tile=(16x32), tensor_view<16x2048xf32, strides=[2048,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(32x128), tensor_view<2048x8192xf32, strides=[8192,1]>>
    %vo = make_partition_view %to : partition_view<tile=(16x128), tensor_view<16x8192xf32, strides=[8192,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<16x128xf32>) {
      %a, %u = load_view_tko weak %va[%zero, %i] : partition_view<tile=(16x32), tensor_view<16x2048xf32, strides=[2048,1]>>, tile<i32> -> tile<16x32xf32>, token
      %b, %v = load_view_tko weak %vb[%i, %x] : partition_view<tile=(32x128), tensor_view<2048x8192xf32, strides=[8192,1]>>, tile<i32> -> tile<32x128xf32>, token
      %ra = ftof %a : tile<16x32xf32> -> tile<16x32xtf32>
      %rb = ftof %b : tile<32x128xf32> -> tile<32x128xtf32>
      %c = mmaf %ra, %rb, %acc : tile<16x32xtf32>, tile<32x128xtf32>, tile<16x128xf32>
      continue %c : tile<16x128xf32>
    }
    %e = store_view_tko weak %sum, %vo[%zero, %x] : tile<16x128xf32>, partition_view<tile=(16x128), tensor_view<16x8192xf32, strides=[8192,1]>>, tile<i32> -> token
    return
  }
}
