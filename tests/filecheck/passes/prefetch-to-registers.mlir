// sm_75 has no asynchronous copies: the next iteration's tile is loaded to registers behind the barrier that the body begins with,
// stored to the other one of two buffers behind the product, and that only where there is a next iteration. The first one stands
// before the loop. Before the pass a load, its store and the product that reads it stand in one iteration.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_75 --print-ir-before=prefetch-to-registers --print-ir-after=prefetch-to-registers -o %t.as 2> %t.ir
// RUN: filecheck %s --input-file=%t.ir

// CHECK: IR dump before prefetch-to-registers
// CHECK: "scf.for"
// CHECK: [[X:%[0-9]+]], %{{[0-9]+}} = "nv_tileas.tiled_load"
// CHECK: "nv_tileas.store_shared"([[X]], [[B:%[0-9]+]])
// CHECK: "nv_tileas.dot"([[B]], [[B]],

// CHECK: IR dump after prefetch-to-registers
// CHECK: [[R:%[0-9]+]] = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.ring<{{.*}}, #builtin.int<2>>
// CHECK: "scf.if"
// CHECK-NEXT: "nv_tileas.tiled_load"
// CHECK-NEXT: "nv_tileas.extract_slice"([[R]],
// CHECK-NEXT: "nv_tileas.store_shared"
// CHECK: "scf.for"
// CHECK-NEXT: ^bb0(%{{[0-9]+}}: i32, %{{[0-9]+}}: tensor<{{.*}}>, [[P:%[0-9]+]]: i32):
// CHECK-NEXT: "nv_tileas.barrier"
// CHECK: [[MORE:%[0-9]+]] = "arith.cmpi"(%{{[0-9]+}}, %{{[0-9]+}}) <{predicate = "ugt"}>
// CHECK: [[NEXT:%[0-9]+]] = "scf.if"([[MORE]])
// CHECK-NEXT: "nv_tileas.tiled_load"
// CHECK: [[SLOT:%[0-9]+]] = "nv_tileas.extract_slice"([[R]], [[P]])
// CHECK-NEXT: "nv_tileas.dot"([[SLOT]], [[SLOT]],
// CHECK: [[OTHER:%[0-9]+]] = "arith.subi"(%{{[0-9]+}}, [[P]])
// CHECK-NEXT: "scf.if"([[MORE]])
// CHECK-NEXT: [[FILL:%[0-9]+]] = "nv_tileas.extract_slice"([[R]], [[OTHER]])
// CHECK-NEXT: "nv_tileas.store_shared"([[NEXT]], [[FILL]])
// CHECK-NOT: nv_tileas.barrier
// CHECK: "scf.yield"(%{{[0-9]+}}, [[OTHER]])
// CHECK: "nv_tileas.barrier"
cuda_tile.module @m {
  entry @product(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<64x64xf32>
    %a = assume div_by<16>, %p : tile<ptr<f16>>
    %w = make_tensor_view %a, shape = [64, 4096], strides = [4096, 1] : tensor_view<64x4096xf16, strides=[4096,1]>
    %o = make_tensor_view %q, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %v = make_partition_view %w : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>
    %ov = make_partition_view %o : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<64x64xf32>) {
      %x, %u = load_view_tko weak %v[%zero, %i] token = %t optimization_hints = <sm_75 = {latency = 1}> : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
      %d = mmaf %x, %x, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      continue %d : tile<64x64xf32>
    }
    %e = store_view_tko weak %sum, %ov[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
