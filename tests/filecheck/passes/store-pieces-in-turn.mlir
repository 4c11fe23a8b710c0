// A product's tile of 256 x 256 sums is larger than shared memory: its pieces go to memory by way of as many buffers as half of
// shared memory has room for, which take turns; a batch's tile, which takes another shape before it is stored, as well.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --verify-each | filecheck %s

// CHECK: sym_name = "flat"
// CHECK-COUNT-3: "nv_tileas.alloc_tensor"(){{.*}}shape = [256x32]
// CHECK-NOT: alloc_tensor
// CHECK: "nv_tileas.tma_store"({{.*}}, [[A:%[0-9]+]]) <{in_flight}>
// CHECK-COUNT-2: "nv_tileas.tma_store"({{.*}}) <{in_flight}>
// CHECK: "nv_tileas.store_wait"([[A]]) <{pending = #builtin.int<2>}>
// CHECK: "nv_tileas.tma_store"({{.*}}, [[A]]) <{in_flight}>
// CHECK-COUNT-4: "nv_tileas.tma_store"
// CHECK-NOT: tma_store
// CHECK: "nv_tileas.store_wait"({{.*}}) <{pending = #builtin.int<0>}>
// CHECK: sym_name = "batch"
// CHECK-NOT: nv_tileas.tiled_store
// CHECK-COUNT-8: "nv_tileas.tma_store"
cuda_tile.module @m {
  entry @flat(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %start = constant <f32: 0.0> : tile<256x256xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %qo = assume div_by<16>, %po : tile<ptr<f32>>
    %ta = make_tensor_view %qa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %tb = make_tensor_view %qb, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %to = make_tensor_view %qo, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
    %va = make_partition_view %ta : partition_view<tile=(256x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(64x256), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vo = make_partition_view %to : partition_view<tile=(256x256), tensor_view<4096x4096xf32, strides=[4096,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<256x256xf32>) {
      %a, %u = load_view_tko weak %va[%x, %i] token = %t : partition_view<tile=(256x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<256x64xf16>, token
      %b, %v = load_view_tko weak %vb[%i, %y] token = %t : partition_view<tile=(64x256), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x256xf16>, token
      %c = mmaf %a, %b, %acc : tile<256x64xf16>, tile<64x256xf16>, tile<256x256xf32>
      continue %c : tile<256x256xf32>
    }
    %w = store_view_tko weak %sum, %vo[%x, %y] token = %t : tile<256x256xf32>, partition_view<tile=(256x256), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> token
    return
  }

  entry @batch(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %start = constant <f32: 0.0> : tile<256x256xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %qo = assume div_by<16>, %po : tile<ptr<f32>>
    %ta = make_tensor_view %qa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %tb = make_tensor_view %qb, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %to = make_tensor_view %qo, shape = [8, 4096, 4096], strides = [16777216, 4096, 1] : tensor_view<8x4096x4096xf32, strides=[16777216,4096,1]>
    %va = make_partition_view %ta : partition_view<tile=(256x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(64x256), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vo = make_partition_view %to : partition_view<tile=(1x256x256), tensor_view<8x4096x4096xf32, strides=[16777216,4096,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<256x256xf32>) {
      %a, %u = load_view_tko weak %va[%x, %i] token = %t : partition_view<tile=(256x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<256x64xf16>, token
      %b, %v = load_view_tko weak %vb[%i, %y] token = %t : partition_view<tile=(64x256), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x256xf16>, token
      %c = mmaf %a, %b, %acc : tile<256x64xf16>, tile<64x256xf16>, tile<256x256xf32>
      continue %c : tile<256x256xf32>
    }
    %shaped = reshape %sum : tile<256x256xf32> -> tile<1x256x256xf32>
    %w = store_view_tko weak %shaped, %vo[%z, %x, %y] token = %t : tile<1x256x256xf32>, partition_view<tile=(1x256x256), tensor_view<8x4096x4096xf32, strides=[16777216,4096,1]>>, tile<i32> -> token
    return
  }
}
