// What a kernel makes a tensor map of are functions of its parameters: the map becomes a parameter, made by the launch as the recipe
// says, and equal maps are one.
// RUN: env TILEIRAS_WITHOUT=agents,pipelines tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 --print-ir-before=separate-host-tma --print-ir-after=separate-host-tma -o %t.as 2> %t.ir
// RUN: filecheck %s --input-file=%t.ir

// CHECK: IR dump before separate-host-tma
// CHECK-NOT: tensor_maps
// CHECK: "nv_tileas.make_tiled_tma_desc"
// CHECK: "nv_tileas.make_tiled_tma_desc"
// CHECK: IR dump after separate-host-tma
// CHECK: tensor_maps = ["f16 p0 [64, umax(u32(p1), 1)] [128] box [64, 64] swizzle 128"]
// CHECK-NEXT: [[MAP:%[0-9]+]]: !nv_tileas.tensormap<
// CHECK-NEXT: "nv_tileas.prefetch_tma_desc"([[MAP]])
// CHECK-NOT: prefetch_tma_desc
// CHECK: "nv_tileas.tma_load"([[MAP]],
// CHECK: "nv_tileas.tma_load"([[MAP]],
// CHECK-NOT: make_tiled_tma_desc
cuda_tile.module @m {
  entry @product(%p: tile<ptr<f16>>, %n: tile<i32>, %q: tile<ptr<f32>>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<64x64xf32>
    %a = assume div_by<16>, %p : tile<ptr<f16>>
    %w = make_tensor_view %a, shape = [%n, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %o = make_tensor_view %q, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %v = make_partition_view %w : partition_view<tile=(64x64), tensor_view<?x64xf16, strides=[64,1]>>
    %ov = make_partition_view %o : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %x, %u0 = load_view_tko weak %v[%zero, %zero] token = %t : partition_view<tile=(64x64), tensor_view<?x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %y, %u1 = load_view_tko weak %v[%one, %zero] token = %t : partition_view<tile=(64x64), tensor_view<?x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %d = mmaf %x, %y, %start : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
    %e = store_view_tko weak %d, %ov[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
