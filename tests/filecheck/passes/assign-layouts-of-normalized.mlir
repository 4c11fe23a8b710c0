// Rows that are normalized on their way to a product: every thread reads and widens the whole row of factors. By shuffles each would
// take the port of shared memory, which the product reads by; a widening takes one slot, and slots are left over beside a product.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s

// CHECK: "scf.for"
// CHECK: "nv_tileas.load_shared"{{.*}}tensor<64xf16, #nv_tileas.layout<shape = [64], reg = {{\[\[}}1], [2], [4], [8], [16], {{\[}}32]]
// CHECK: "nv_tileas.store_tmem"
// CHECK-NOT: "nv_tileas.convert_layout"
// CHECK: "nv_tileas.tensor_dot"
cuda_tile.module @m {
  entry @normalized(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %pg: tile<ptr<f16>>, %pr: tile<ptr<f32>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x128xf32>
    %r, %j, %z = get_tile_block_id : tile<i32>
    %aa = assume div_by<16>, %pa : tile<ptr<f16>>
    %ab = assume div_by<16>, %pb : tile<ptr<f16>>
    %ag = assume div_by<16>, %pg : tile<ptr<f16>>
    %ar = assume div_by<16>, %pr : tile<ptr<f32>>
    %ao = assume div_by<16>, %po : tile<ptr<f32>>
    %ta = make_tensor_view %aa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %tb = make_tensor_view %ab, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %tg = make_tensor_view %ag, shape = [4096], strides = [1] : tensor_view<4096xf16, strides=[1]>
    %tr = make_tensor_view %ar, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %to = make_tensor_view %ao, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
    %va = make_partition_view %ta : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(64x128), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vg = make_partition_view %tg : partition_view<tile=(64), tensor_view<4096xf16, strides=[1]>>
    %vr = make_partition_view %tr : partition_view<tile=(128), tensor_view<4096xf32, strides=[1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x128), tensor_view<4096x4096xf32, strides=[4096,1]>>
    %rows, %u0 = load_view_tko weak %vr[%r] token = %t : partition_view<tile=(128), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> tile<128xf32>, token
    %rows1 = reshape %rows : tile<128xf32> -> tile<128x1xf32>
    %factors = broadcast %rows1 : tile<128x1xf32> -> tile<128x64xf32>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<128x128xf32>) {
      %a, %u1 = load_view_tko weak %va[%r, %i] token = %t : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<128x64xf16>, token
      %g, %u2 = load_view_tko weak %vg[%i] token = %t : partition_view<tile=(64), tensor_view<4096xf16, strides=[1]>>, tile<i32> -> tile<64xf16>, token
      %b, %u3 = load_view_tko weak %vb[%i, %j] token = %t : partition_view<tile=(64x128), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x128xf16>, token
      %wide = ftof %a : tile<128x64xf16> -> tile<128x64xf32>
      %scaled = mulf %wide, %factors rounding<nearest_even> : tile<128x64xf32>
      %gw = ftof %g : tile<64xf16> -> tile<64xf32>
      %g1 = reshape %gw : tile<64xf32> -> tile<1x64xf32>
      %gain = broadcast %g1 : tile<1x64xf32> -> tile<128x64xf32>
      %y = mulf %scaled, %gain rounding<nearest_even> : tile<128x64xf32>
      %x = ftof %y : tile<128x64xf32> -> tile<128x64xf16>
      %d = mmaf %x, %b, %acc : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %d : tile<128x128xf32>
    }
    %u4 = store_view_tko weak %sum, %vo[%r, %j] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> token
    return
  }
}
