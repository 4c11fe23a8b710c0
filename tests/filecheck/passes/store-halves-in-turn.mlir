// A tile of 32 KiB that tiles behind one another are stored from would take a stage from the rings of two blocks of an SM: it goes by
// halves from one buffer. With one block, all of it has room beside the ring.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s
// RUN: sed 's/occupancy = 2/occupancy = 1/' %s | tileiras-opt - --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=ALONE

// CHECK: "nv_tileas.alloc_tensor"(){{.*}}nv_tileas.ring<{{.*}}shape = [64x128]{{.*}}#builtin.int<3>>
// CHECK: "nv_tileas.alloc_tensor"(){{.*}}nv_tileas.ring<{{.*}}shape = [128x64]{{.*}}#builtin.int<3>>
// CHECK: [[HALF:%[0-9]+]] = "nv_tileas.alloc_tensor"(){{.*}}nv_tileas.buffer<f16, #nv_tileas.shared<shape = [128x64]
// CHECK: "nv_tileas.tma_store"({{.*}}, [[HALF]]) <{in_flight}>
// CHECK: "nv_tileas.store_wait"([[HALF]]) <{pending = #builtin.int<0>}>
// CHECK: "nv_tileas.tma_store"({{.*}}, [[HALF]]) <{in_flight}>

// ALONE: nv_tileas.buffer<f16, #nv_tileas.shared<shape = [128x128]
// ALONE: "nv_tileas.tma_store"
// ALONE-NOT: "nv_tileas.tma_store"
cuda_tile.module @m {
  entry @products(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %po: tile<ptr<f16>>) optimization_hints=<sm_100 = {occupancy = 2}> {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %steps = constant <i32: 64> : tile<i32>
    %tiles = constant <i32: 1024> : tile<i32>
    %side = constant <i32: 32> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x128xf32>
    %aa = assume div_by<16>, %pa : tile<ptr<f16>>
    %ab = assume div_by<16>, %pb : tile<ptr<f16>>
    %ao = assume div_by<16>, %po : tile<ptr<f16>>
    %ta = make_tensor_view %aa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %tb = make_tensor_view %ab, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %to = make_tensor_view %ao, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %va = make_partition_view %ta : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(64x128), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x128), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %nx, %ny, %nz = get_num_tile_blocks : tile<i32>
    for %p in (%x to %tiles, step %nx) : tile<i32> {
      %i = divi %p, %side signed : tile<i32>
      %j = remi %p, %side signed : tile<i32>
      %sum = for %k in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<128x128xf32>) {
        %a, %u0 = load_view_tko weak %va[%i, %k] token = %t : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<128x64xf16>, token
        %b, %u1 = load_view_tko weak %vb[%k, %j] token = %t : partition_view<tile=(64x128), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x128xf16>, token
        %new = mmaf %a, %b, %acc : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
        continue %new : tile<128x128xf32>
      }
      %h = ftof %sum : tile<128x128xf32> -> tile<128x128xf16>
      %e = store_view_tko weak %h, %vo[%i, %j] token = %t : tile<128x128xf16>, partition_view<tile=(128x128), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> token
      continue
    }
    return
  }
}
