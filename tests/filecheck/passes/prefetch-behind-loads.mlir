// A row that is changed where it lies is loaded in its iteration; what is loaded an iteration ahead (a number a row) stands behind that
// load and in front of the first op that uses it: ptxas lets it wait for the last one's arrival. Where there is no next iteration it
// is zero, not the present one, which would be waited for to be copied.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 --print-ir-after=prefetch-to-registers -o %t.as 2> %t.ir
// RUN: filecheck %s --input-file=%t.ir

// CHECK: IR dump after prefetch-to-registers
// CHECK: "scf.for"
// CHECK-NEXT: ^bb0(%{{[0-9]+}}: i32, %{{[0-9]+}}: !nv_tileaa.mem_token, [[NOW:%[0-9]+]]: tensor<1xf32, {{.*}}, %{{[0-9]+}}: !nv_tileaa.mem_token):
// CHECK-NOT: scf.if
// CHECK: [[ROW:%[0-9]+]], %{{[0-9]+}} = "nv_tileas.tiled_load"
// CHECK-NOT: arith.mulf
// CHECK: [[NONE:%[0-9]+]] = "arith.bitcast"
// CHECK: "scf.if"
// CHECK-NEXT: [[NEXT:%[0-9]+]], %{{[0-9]+}} = "nv_tileas.tiled_load"
// CHECK-NEXT: "scf.yield"([[NEXT]],
// CHECK: "scf.yield"([[NONE]],
// CHECK: "arith.mulf"([[ROW]],
cuda_tile.module @m {
  entry @scale(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %a = assume div_by<16>, %p : tile<ptr<f32>>
    %b = assume div_by<16>, %q : tile<ptr<f32>>
    %rows = make_tensor_view %a, shape = [4096, 1024], strides = [1024, 1] : tensor_view<4096x1024xf32, strides=[1024,1]>
    %factors = make_tensor_view %b, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %rv = make_partition_view %rows : partition_view<tile=(1x1024), tensor_view<4096x1024xf32, strides=[1024,1]>>
    %fv = make_partition_view %factors : partition_view<tile=(1), tensor_view<4096xf32, strides=[1]>>
    %end = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%before = %t) -> (token) {
      %row, %u = load_view_tko weak %rv[%i, %zero] token = %before : partition_view<tile=(1x1024), tensor_view<4096x1024xf32, strides=[1024,1]>>, tile<i32> -> tile<1x1024xf32>, token
      %factor, %v = load_view_tko weak %fv[%i] token = %t : partition_view<tile=(1), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> tile<1xf32>, token
      %f = reshape %factor : tile<1xf32> -> tile<1x1xf32>
      %g = broadcast %f : tile<1x1xf32> -> tile<1x1024xf32>
      %y = mulf %row, %g : tile<1x1024xf32>
      %w = store_view_tko weak %y, %rv[%i, %zero] token = %u : tile<1x1024xf32>, partition_view<tile=(1x1024), tensor_view<4096x1024xf32, strides=[1024,1]>>, tile<i32> -> token
      continue %w : token
    }
    return
  }
}
