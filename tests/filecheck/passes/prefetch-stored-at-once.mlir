// Weights of 8 bits whose rows lie the other way than the product of a warpgroup wants them: threads turn them on their way to
// shared memory. The next iteration's are loaded behind this one's stores, before the product, which they run beside; the first one's
// stand before the loop. Before the pass an iteration waits for what it has just asked for.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 --print-ir-before=prefetch-to-registers --print-ir-after=prefetch-to-registers -o %t.as 2> %t.ir
// RUN: filecheck %s --input-file=%t.ir

// CHECK: IR dump before prefetch-to-registers
// CHECK: "scf.for"
// CHECK: [[X:%[0-9]+]], %{{[0-9]+}} = "nv_tileas.tiled_load"
// CHECK: "nv_tileas.store_shared"([[X]], [[B:%[0-9]+]])
// CHECK: "nv_tileas.dot"(%{{[0-9]+}}, [[B]],

// CHECK: IR dump after prefetch-to-registers
// CHECK: [[FIRST:%[0-9]+]], %{{[0-9]+}} = "scf.if"
// CHECK-NEXT: "nv_tileas.tiled_load"
// CHECK: "scf.for"
// CHECK: ^bb0({{.*}}[[HELD:%[0-9]+]]: tensor<64x64xi8, {{.*}}):
// CHECK-NEXT: [[B:%[0-9]+]] = "nv_tileas.alloc_tensor"
// CHECK-NEXT: "nv_tileas.store_shared"([[HELD]], [[B]])
// CHECK: [[NEXT:%[0-9]+]], %{{[0-9]+}} = "scf.if"
// CHECK-NEXT: "nv_tileas.tiled_load"
// CHECK: "nv_tileas.dot"(%{{[0-9]+}}, [[B]],
// CHECK: "scf.yield"({{.*}}[[NEXT]]
cuda_tile.module @m {
  entry @product(%p: tile<ptr<i8>>, %r: tile<ptr<i8>>, %q: tile<ptr<i32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <i32: 0> : tile<64x64xi32>
    %a = assume div_by<16>, %p : tile<ptr<i8>>
    %b = assume div_by<16>, %r : tile<ptr<i8>>
    %w = make_tensor_view %a, shape = [64, 4096], strides = [4096, 1] : tensor_view<64x4096xi8, strides=[4096,1]>
    %x = make_tensor_view %b, shape = [4096, 64], strides = [64, 1] : tensor_view<4096x64xi8, strides=[64,1]>
    %o = make_tensor_view %q, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xi32, strides=[64,1]>
    %v = make_partition_view %w : partition_view<tile=(64x64), tensor_view<64x4096xi8, strides=[4096,1]>>
    %y = make_partition_view %x : partition_view<tile=(64x64), tensor_view<4096x64xi8, strides=[64,1]>>
    %ov = make_partition_view %o : partition_view<tile=(64x64), tensor_view<64x64xi32, strides=[64,1]>>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<64x64xi32>) {
      %c, %u = load_view_tko weak %v[%zero, %i] token = %t : partition_view<tile=(64x64), tensor_view<64x4096xi8, strides=[4096,1]>>, tile<i32> -> tile<64x64xi8>, token
      %d, %f = load_view_tko weak %y[%i, %zero] token = %t : partition_view<tile=(64x64), tensor_view<4096x64xi8, strides=[64,1]>>, tile<i32> -> tile<64x64xi8>, token
      %g = mmai %c, %d, %acc signed signed : tile<64x64xi8>, tile<64x64xi8>, tile<64x64xi32>
      continue %g : tile<64x64xi32>
    }
    %e = store_view_tko weak %sum, %ov[%zero, %zero] token = %t : tile<64x64xi32>, partition_view<tile=(64x64), tensor_view<64x64xi32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
