// Threads compute B: each warp the columns that it multiplies, in the product's own layout, so that no buffer is needed for it. A is
// asked for before that, and waited for behind it.
// RUN: tileiras-opt %s --to=nv_tileas -O3 --gpu-name=sm_120 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas -O0 --gpu-name=sm_120 | filecheck %s --check-prefix=PLAIN

// CHECK: "nv_tileas.tma_load"
// CHECK: "nv_tileas.producer_commit"
// CHECK: "arith.xori"
// CHECK-NOT: "nv_tileas.store_shared"
// CHECK: "nv_tileas.consumer_wait"
// CHECK: "nv_tileas.dot"
// CHECK-SAME: by_columns

// PLAIN-NOT: tma_load
// PLAIN: "nv_tileas.dot"
// PLAIN-NOT: by_columns
cuda_tile.module @m {
  entry @signs(%pa: tile<ptr<f16>>, %pc: tile<ptr<f32>>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<64x64xi32>
    %even = constant <i32: 0> : tile<64x64xi32>
    %plus = constant <f16: 1.0> : tile<64x64xf16>
    %minus = constant <f16: -1.0> : tile<64x64xf16>
    %none = constant <f32: 0.0> : tile<32x64xf32>
    %aa = assume div_by<16>, %pa : tile<ptr<f16>>
    %ac = assume div_by<16>, %pc : tile<ptr<f32>>
    %wa = make_tensor_view %aa, shape = [4096, 64], strides = [64, 1] : tensor_view<4096x64xf16, strides=[64,1]>
    %va = make_partition_view %wa : partition_view<tile=(32x64), tensor_view<4096x64xf16, strides=[64,1]>>
    %wc = make_tensor_view %ac, shape = [4096, 64], strides = [64, 1] : tensor_view<4096x64xf32, strides=[64,1]>
    %vc = make_partition_view %wc : partition_view<tile=(32x64), tensor_view<4096x64xf32, strides=[64,1]>>
    %r = iota : tile<64xi32>
    %r0 = reshape %r : tile<64xi32> -> tile<64x1xi32>
    %r1 = reshape %r : tile<64xi32> -> tile<1x64xi32>
    %b0 = broadcast %r0 : tile<64x1xi32> -> tile<64x64xi32>
    %b1 = broadcast %r1 : tile<1x64xi32> -> tile<64x64xi32>
    %x0 = andi %b0, %b1 : tile<64x64xi32>
    %x1 = shri %x0, %one signed : tile<64x64xi32>
    %x2 = xori %x0, %x1 : tile<64x64xi32>
    %x3 = andi %x2, %one : tile<64x64xi32>
    %is = cmpi equal %x3, %even, signed : tile<64x64xi32> -> tile<64x64xi1>
    %b = select %is, %plus, %minus : tile<64x64xi1>, tile<64x64xf16>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %a, %at = load_view_tko weak %va[%x, %zero] token = %t : partition_view<tile=(32x64), tensor_view<4096x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
    %c = mmaf %a, %b, %none : tile<32x64xf16>, tile<64x64xf16>, tile<32x64xf32>
    %e = store_view_tko weak %c, %vc[%x, %zero] token = %t : tile<32x64xf32>, partition_view<tile=(32x64), tensor_view<4096x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
