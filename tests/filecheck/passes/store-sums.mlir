// Sums of a product in f32 go to memory from where the tensor cores leave them: full sectors, and no warp waits for another. On sm_80
// each warp turns its own part, which takes no barrier.
// RUN: tileiras-opt %s --to=nv_tileaa -O1 -o %t.aa
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,choose-atoms,assign-load-store-layouts --gpu-name=sm_90 | filecheck %s
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,choose-atoms,assign-load-store-layouts --gpu-name=sm_80 | filecheck %s --check-prefix=WARPS

// CHECK: "nv_tileas.dot"
// CHECK-NOT: "nv_tileas.convert_layout"
// CHECK: "nv_tileas.tiled_store"
// WARPS: "nv_tileas.convert_layout"
// WARPS-NEXT: "nv_tileas.tiled_store"
cuda_tile.module @m {
  entry @product(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x128xf32>
    %m = assume div_by<16>, %n : tile<i32>
    %aa = assume div_by<16>, %pa : tile<ptr<f16>>
    %ab = assume div_by<16>, %pb : tile<ptr<f16>>
    %ao = assume div_by<16>, %po : tile<ptr<f32>>
    %ta = make_tensor_view %aa, shape = [64, 256], strides = [256, 1] : tensor_view<64x256xf16, strides=[256,1]>
    %tb = make_tensor_view %ab, shape = [256, 128], strides = [128, 1] : tensor_view<256x128xf16, strides=[128,1]>
    %to = make_tensor_view %ao, shape = [%m, %m], strides = [64, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[64,1]>
    %va = make_partition_view %ta : partition_view<tile=(64x64), tensor_view<64x256xf16, strides=[256,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(64x128), tensor_view<256x128xf16, strides=[128,1]>>
    %vo = make_partition_view %to : partition_view<tile=(64x128), tensor_view<?x?xf32, strides=[64,1]>>
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<64x128xf32>) {
      %a, %u0 = load_view_tko weak %va[%zero, %i] token = %t : partition_view<tile=(64x64), tensor_view<64x256xf16, strides=[256,1]>>, tile<i32> -> tile<64x64xf16>, token
      %b, %u1 = load_view_tko weak %vb[%i, %zero] token = %t : partition_view<tile=(64x128), tensor_view<256x128xf16, strides=[128,1]>>, tile<i32> -> tile<64x128xf16>, token
      %d = mmaf %a, %b, %acc : tile<64x64xf16>, tile<64x128xf16>, tile<64x128xf32>
      continue %d : tile<64x128xf32>
    }
    %u2 = store_view_tko weak %s, %vo[%zero, %zero] token = %t : tile<64x128xf32>, partition_view<tile=(64x128), tensor_view<?x?xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
