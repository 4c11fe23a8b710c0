// A kernel finds its tile by the register that counts its tile blocks: CTAs, clusters where it asks for these.
// RUN: tileiras-translate --mlir-to-cudatilebc --bytecode-version 13.4 %s -o %t.tileirbc
// RUN: tileiras --gpu-name sm_90 -O3 --emit ptx %t.tileirbc | filecheck %s
// RUN: tileiras --gpu-name sm_90 -O3 --emit ptx %t.tileirbc | filecheck %s --check-prefix=NONE

// CHECK: .entry product(
// CHECK: .reqnctapercluster
// CHECK: %clusterid.x
// CHECK: .entry alone(
// CHECK: %ctaid.x
// NONE: .entry alone(
// NONE-NOT: clusterid
cuda_tile.module @m {
  entry @product(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) optimization_hints=<default = {num_cta_in_cga = 2}> {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %start = constant <f32: 0.0> : tile<256x128xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %ta = make_tensor_view %qa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %tb = make_tensor_view %qb, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %to = make_tensor_view %po, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
    %va = make_partition_view %ta : partition_view<tile=(256x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(64x128), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vo = make_partition_view %to : partition_view<tile=(256x128), tensor_view<4096x4096xf32, strides=[4096,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<256x128xf32>) {
      %a, %u = load_view_tko weak %va[%x, %i] token = %t : partition_view<tile=(256x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<256x64xf16>, token
      %b, %v = load_view_tko weak %vb[%i, %y] token = %t : partition_view<tile=(64x128), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x128xf16>, token
      %c = mmaf %a, %b, %acc : tile<256x64xf16>, tile<64x128xf16>, tile<256x128xf32>
      continue %c : tile<256x128xf32>
    }
    %w = store_view_tko weak %sum, %vo[%x, %y] token = %t : tile<256x128xf32>, partition_view<tile=(256x128), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> token
    return
  }
  entry @alone(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %start = constant <f32: 0.0> : tile<256x128xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %ta = make_tensor_view %qa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %tb = make_tensor_view %qb, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %to = make_tensor_view %po, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
    %va = make_partition_view %ta : partition_view<tile=(256x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(64x128), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vo = make_partition_view %to : partition_view<tile=(256x128), tensor_view<4096x4096xf32, strides=[4096,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<256x128xf32>) {
      %a, %u = load_view_tko weak %va[%x, %i] token = %t : partition_view<tile=(256x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<256x64xf16>, token
      %b, %v = load_view_tko weak %vb[%i, %y] token = %t : partition_view<tile=(64x128), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x128xf16>, token
      %c = mmaf %a, %b, %acc : tile<256x64xf16>, tile<64x128xf16>, tile<256x128xf32>
      continue %c : tile<256x128xf32>
    }
    %w = store_view_tko weak %sum, %vo[%x, %y] token = %t : tile<256x128xf32>, partition_view<tile=(256x128), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> token
    return
  }
}
