// A product that shares out its tiles over the blocks stores them behind each one's loop, while the load agent fills the ring for the
// next. Where the tile's buffer (64 KB of 99) would leave the ring one stage of 24 KB, threads store it themselves; where there is
// room for two, the copy engine does.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_120 --verify-each | filecheck %s

// CHECK: sym_name = "wide"
// CHECK: "nv_tileas.create_pipeline"{{.*}}pipe<"tma", #builtin.int<2>>
// CHECK-NOT: tma_store
// CHECK: "nv_tileas.tiled_store"
// CHECK: sym_name = "narrow"
// CHECK: "nv_tileas.create_pipeline"{{.*}}pipe<"tma", #builtin.int<{{[2-9]}}>>
// CHECK: "nv_tileas.tma_store"
cuda_tile.module @m {
  entry @wide(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %po: tile<ptr<f16>>, %n: tile<i32>, %all: tile<i32>)
      optimization_hints = <default = {num_worker_warps_per_cta = 16}> {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %start = constant <f32: 0.0> : tile<128x256xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %qo = assume div_by<16>, %po : tile<ptr<f16>>
    %ta = make_tensor_view %qa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %tb = make_tensor_view %qb, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %to = make_tensor_view %qo, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %va = make_partition_view %ta : partition_view<tile=(128x32), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(32x256), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x256), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %gx, %gy, %gz = get_num_tile_blocks : tile<i32>
    for %tile in (%x to %all, step %gx) : tile<i32> {
      %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<128x256xf32>) {
        %a, %u = load_view_tko weak %va[%tile, %i] token = %t : partition_view<tile=(128x32), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<128x32xf16>, token
        %b, %v = load_view_tko weak %vb[%i, %y] token = %t : partition_view<tile=(32x256), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<32x256xf16>, token
        %c = mmaf %a, %b, %acc : tile<128x32xf16>, tile<32x256xf16>, tile<128x256xf32>
        continue %c : tile<128x256xf32>
      }
      %h = ftof %sum : tile<128x256xf32> -> tile<128x256xf16>
      %w = store_view_tko weak %h, %vo[%tile, %y] token = %t : tile<128x256xf16>, partition_view<tile=(128x256), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> token
    }
    return
  }

  entry @narrow(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %po: tile<ptr<f16>>, %n: tile<i32>, %all: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %start = constant <f32: 0.0> : tile<128x128xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %qo = assume div_by<16>, %po : tile<ptr<f16>>
    %ta = make_tensor_view %qa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %tb = make_tensor_view %qb, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %to = make_tensor_view %qo, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %va = make_partition_view %ta : partition_view<tile=(128x32), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(32x128), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x128), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %gx, %gy, %gz = get_num_tile_blocks : tile<i32>
    for %tile in (%x to %all, step %gx) : tile<i32> {
      %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<128x128xf32>) {
        %a, %u = load_view_tko weak %va[%tile, %i] token = %t : partition_view<tile=(128x32), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<128x32xf16>, token
        %b, %v = load_view_tko weak %vb[%i, %y] token = %t : partition_view<tile=(32x128), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<32x128xf16>, token
        %c = mmaf %a, %b, %acc : tile<128x32xf16>, tile<32x128xf16>, tile<128x128xf32>
        continue %c : tile<128x128xf32>
      }
      %h = ftof %sum : tile<128x128xf32> -> tile<128x128xf16>
      %w = store_view_tko weak %h, %vo[%tile, %y] token = %t : tile<128x128xf16>, partition_view<tile=(128x128), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> token
    }
    return
  }
}
