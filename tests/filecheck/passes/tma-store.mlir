// A product's result that threads would exchange through shared memory to store whole rows is stored from there by the copy engine:
// behind a fence, so that the engine sees what the threads wrote, and a barrier. Where something waits for the store, it isn't.
// RUN: env TILEIRAS_WITHOUT=agents,pipelines tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s
// RUN: env TILEIRAS_WITHOUT=agents,pipelines,tma tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s --check-prefix=PLAIN

// CHECK: sym_name = "stored"
// CHECK: tensor_maps = ["f16 p0 [64, umax(u32(p1), 1)] [mul(u32(p2), 2)] box [64, 64] swizzle 128"]
// CHECK: "nv_tileas.dot"
// CHECK: [[B:%[0-9]+]] = "nv_tileas.alloc_tensor"{{.*}}shape = [64x64], offset = [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048]
// CHECK: "nv_tileas.store_shared"(%{{[0-9]+}}, [[B]])
// CHECK: "nv_tileas.fence_async"
// CHECK-NEXT: "nv_tileas.barrier"
// CHECK-NEXT: "nv_tileas.tma_store"(%{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}}, [[B]])
// CHECK: sym_name = "waited_for"
// CHECK-NOT: tma_store
// PLAIN-NOT: tma_store
cuda_tile.module @m {
  entry @stored(%p: tile<ptr<f16>>, %n: tile<i32>, %s: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %t = make_token : token
    %start = constant <f32: 0.0> : tile<64x64xf32>
    %a = constant <f16: 1.0> : tile<64x64xf16>
    %p1 = assume div_by<16>, %p : tile<ptr<f16>>
    %s1 = assume div_by<8>, %s : tile<i32>
    %w = make_tensor_view %p1, shape = [%n, 64], strides = [%s1, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[?,1]>
    %v = make_partition_view %w : partition_view<tile=(64x64), tensor_view<?x64xf16, strides=[?,1]>>
    %d = mmaf %a, %a, %start : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
    %h = ftof %d : tile<64x64xf32> -> tile<64x64xf16>
    %e = store_view_tko weak %h, %v[%zero, %zero] token = %t : tile<64x64xf16>, partition_view<tile=(64x64), tensor_view<?x64xf16, strides=[?,1]>>, tile<i32>, tile<i32> -> token
    return
  }
  entry @waited_for(%p: tile<ptr<f16>>, %n: tile<i32>, %s: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %t = make_token : token
    %start = constant <f32: 0.0> : tile<64x64xf32>
    %a = constant <f16: 1.0> : tile<64x64xf16>
    %p1 = assume div_by<16>, %p : tile<ptr<f16>>
    %s1 = assume div_by<8>, %s : tile<i32>
    %w = make_tensor_view %p1, shape = [%n, 64], strides = [%s1, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[?,1]>
    %v = make_partition_view %w : partition_view<tile=(64x64), tensor_view<?x64xf16, strides=[?,1]>>
    %d = mmaf %a, %a, %start : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
    %h = ftof %d : tile<64x64xf32> -> tile<64x64xf16>
    %e = store_view_tko weak %h, %v[%zero, %zero] token = %t : tile<64x64xf16>, partition_view<tile=(64x64), tensor_view<?x64xf16, strides=[?,1]>>, tile<i32>, tile<i32> -> token
    %f = store_view_tko weak %a, %v[%zero, %zero] token = %e : tile<64x64xf16>, partition_view<tile=(64x64), tensor_view<?x64xf16, strides=[?,1]>>, tile<i32>, tile<i32> -> token
    return
  }
}
