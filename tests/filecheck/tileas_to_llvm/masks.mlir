// A gather's mask: a truth value for each copy of eight elements, and no bits packed into integers.
// RUN: tileiras-translate --mlir-to-cudatilebc --bytecode-version 13.4 %s -o %t.tileirbc
// RUN: tileiras --gpu-name sm_90 -O3 --emit ptx %t.tileirbc | filecheck %s

// CHECK: .entry product(
// CHECK-NOT: selp.b16
// CHECK: cp.async.cg.shared.global
// CHECK-NOT: selp.b16
// CHECK: ret;
cuda_tile.module @m {
  entry @product(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %pi: tile<ptr<i32>>, %pc: tile<ptr<f32>>, %from: tile<i32>, %to: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %size = constant <i32: 128> : tile<i32>
    %none = constant <i32: 0> : tile<128x128xi32>
    %pitch = constant <i32: 480> : tile<128x128xi32>
    %end = constant <i32: 464> : tile<128x128xi32>
    %outside = constant <f16: 0.0> : tile<128x128xf16>
    %start = constant <f32: 0.0> : tile<128x128xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %wb = make_tensor_view %qb, shape = [480, 128], strides = [128, 1] : tensor_view<480x128xf16, strides=[128,1]>
    %wc = make_tensor_view %pc, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %vb = make_partition_view %wb : partition_view<tile=(128x128), tensor_view<480x128xf16, strides=[128,1]>>
    %vc = make_partition_view %wc : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %n = iota : tile<128xi32>
    %p1 = reshape %qa : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %base = broadcast %p1 : tile<1x1xptr<f16>> -> tile<128x128xptr<f16>>
      %ip = reshape %pi : tile<ptr<i32>> -> tile<1xptr<i32>>
      %ib = broadcast %ip : tile<1xptr<i32>> -> tile<128xptr<i32>>
      %io = offset %ib, %n : tile<128xptr<i32>>, tile<128xi32> -> tile<128xptr<i32>>
      %index, %ti = load_ptr_tko weak %io token=%t : tile<128xptr<i32>> -> tile<128xi32>, token
      %column = reshape %index : tile<128xi32> -> tile<128x1xi32>
      %rows = broadcast %column : tile<128x1xi32> -> tile<128x128xi32>
      %some = cmpi greater_than_or_equal %rows, %none, signed : tile<128x128xi32> -> tile<128x128xi1>
      %starts = muli %rows, %pitch : tile<128x128xi32>
    %sum = for %k in (%from to %to, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<128x128xf32>) {
      %first = muli %k, %size : tile<i32>
      %f1 = reshape %first : tile<i32> -> tile<1xi32>
      %fb = broadcast %f1 : tile<1xi32> -> tile<128xi32>
      %line = addi %fb, %n : tile<128xi32>
      %row = reshape %line : tile<128xi32> -> tile<1x128xi32>
      %cols = broadcast %row : tile<1x128xi32> -> tile<128x128xi32>
      %inside = cmpi less_than %cols, %end, signed : tile<128x128xi32> -> tile<128x128xi1>
      %mask = andi %inside, %some : tile<128x128xi1>
      %far = addi %starts, %cols : tile<128x128xi32>
      %at = offset %base, %far : tile<128x128xptr<f16>>, tile<128x128xi32> -> tile<128x128xptr<f16>>
      %a, %ta = load_ptr_tko weak %at, %mask, %outside token=%t : tile<128x128xptr<f16>>, tile<128x128xi1>, tile<128x128xf16> -> tile<128x128xf16>, token
      %b, %tb = load_view_tko weak %vb[%k, %zero] token = %t : partition_view<tile=(128x128), tensor_view<480x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
      %more = mmaf %a, %b, %acc : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
      continue %more : tile<128x128xf32>
    }
    %e = store_view_tko weak %sum, %vc[%zero, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
