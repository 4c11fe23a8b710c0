// What products begin their sums with comes by threads where these are in registers, since its buffer would keep a block from the SM;
// the sums go by the copy engine behind products by warpgroups, whose registers the next block wants. In tensor memory the engine
// brings it, too, also where no loop adds to it.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 --print-ir-after=assign-load-store-layouts -o %t.as 2> %t.ir
// RUN: filecheck %s --input-file=%t.ir --check-prefixes=CHECK,REGISTERS
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_120 --print-ir-after=assign-load-store-layouts -o %t.as 2> %t.ir
// RUN: filecheck %s --input-file=%t.ir --check-prefix=WARPS
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --print-ir-after=assign-load-store-layouts -o %t.as 2> %t.ir
// RUN: filecheck %s --input-file=%t.ir --check-prefixes=CHECK,TENSOR

// REGISTERS: "nv_tileas.tiled_load"
// REGISTERS-NOT: engine
// REGISTERS: "scf.for"
// TENSOR: "nv_tileas.tiled_load"{{.*}}engine
// TENSOR: "scf.for"
// CHECK: "nv_tileas.tiled_store"{{.*}}engine
// REGISTERS: sym_name = "straight"
// REGISTERS-NOT: engine}>{{.*}}-> (tensor<128x128xf32
// TENSOR: sym_name = "straight"
// TENSOR: "nv_tileas.tiled_load"{{.*}}engine}>{{.*}}-> (tensor<128x128xf32
// WARPS-NOT: engine}
cuda_tile.module @m {
  entry @added(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %r: tile<ptr<f32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %steps = constant <i32: 32> : tile<i32>
    %i, %j, %z = get_tile_block_id : tile<i32>
    %p1 = assume div_by<16>, %p : tile<ptr<f16>>
    %q1 = assume div_by<16>, %q : tile<ptr<f16>>
    %r1 = assume div_by<16>, %r : tile<ptr<f32>>
    %wp = make_tensor_view %p1, shape = [2048, 2048], strides = [2048, 1] : tensor_view<2048x2048xf16, strides=[2048,1]>
    %wq = make_tensor_view %q1, shape = [2048, 2048], strides = [2048, 1] : tensor_view<2048x2048xf16, strides=[2048,1]>
    %wr = make_tensor_view %r1, shape = [2048, 2048], strides = [2048, 1] : tensor_view<2048x2048xf32, strides=[2048,1]>
    %vp = make_partition_view %wp : partition_view<tile=(128x64), tensor_view<2048x2048xf16, strides=[2048,1]>>
    %vq = make_partition_view %wq : partition_view<tile=(64x128), tensor_view<2048x2048xf16, strides=[2048,1]>>
    %vr = make_partition_view %wr : partition_view<tile=(128x128), tensor_view<2048x2048xf32, strides=[2048,1]>>
    %c, %tc = load_view_tko weak %vr[%i, %j] : partition_view<tile=(128x128), tensor_view<2048x2048xf32, strides=[2048,1]>>, tile<i32> -> tile<128x128xf32>, token
    %sum = for %k in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<128x128xf32>) {
      %x, %tx = load_view_tko weak %vp[%i, %k] : partition_view<tile=(128x64), tensor_view<2048x2048xf16, strides=[2048,1]>>, tile<i32> -> tile<128x64xf16>, token
      %y, %ty = load_view_tko weak %vq[%k, %j] : partition_view<tile=(64x128), tensor_view<2048x2048xf16, strides=[2048,1]>>, tile<i32> -> tile<64x128xf16>, token
      %d = mmaf %x, %y, %acc : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %d : tile<128x128xf32>
    }
    %u = store_view_tko weak %sum, %vr[%i, %j] token = %tc : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<2048x2048xf32, strides=[2048,1]>>, tile<i32> -> token
    return
  }
  entry @straight(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %r: tile<ptr<f32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %i, %j, %z = get_tile_block_id : tile<i32>
    %p1 = assume div_by<16>, %p : tile<ptr<f16>>
    %q1 = assume div_by<16>, %q : tile<ptr<f16>>
    %r1 = assume div_by<16>, %r : tile<ptr<f32>>
    %wp = make_tensor_view %p1, shape = [2048, 2048], strides = [2048, 1] : tensor_view<2048x2048xf16, strides=[2048,1]>
    %wq = make_tensor_view %q1, shape = [2048, 2048], strides = [2048, 1] : tensor_view<2048x2048xf16, strides=[2048,1]>
    %wr = make_tensor_view %r1, shape = [2048, 2048], strides = [2048, 1] : tensor_view<2048x2048xf32, strides=[2048,1]>
    %vp = make_partition_view %wp : partition_view<tile=(128x64), tensor_view<2048x2048xf16, strides=[2048,1]>>
    %vq = make_partition_view %wq : partition_view<tile=(64x128), tensor_view<2048x2048xf16, strides=[2048,1]>>
    %vr = make_partition_view %wr : partition_view<tile=(128x128), tensor_view<2048x2048xf32, strides=[2048,1]>>
    %c, %tc = load_view_tko weak %vr[%i, %j] : partition_view<tile=(128x128), tensor_view<2048x2048xf32, strides=[2048,1]>>, tile<i32> -> tile<128x128xf32>, token
    %x, %tx = load_view_tko weak %vp[%i, %zero] : partition_view<tile=(128x64), tensor_view<2048x2048xf16, strides=[2048,1]>>, tile<i32> -> tile<128x64xf16>, token
    %y, %ty = load_view_tko weak %vq[%zero, %j] : partition_view<tile=(64x128), tensor_view<2048x2048xf16, strides=[2048,1]>>, tile<i32> -> tile<64x128xf16>, token
    %sum = mmaf %x, %y, %c : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
    %u = store_view_tko weak %sum, %vr[%i, %j] token = %tc : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<2048x2048xf32, strides=[2048,1]>>, tile<i32> -> token
    return
  }
}
