// Rows that pointers gather go to a ring by cp.async, like tiles of views: pointers and mask of a later iteration are computed there,
// in the layout in which the threads copy. The columns' mask depends on the iteration, the rows' one doesn't.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_80 --print-ir-before=materialize-async --print-ir-after=materialize-async -o %t.as 2> %t.ir
// RUN: filecheck %s --input-file=%t.ir

// CHECK: IR dump before materialize-async
// CHECK: "scf.for"
// CHECK: [[A:%[0-9]+]], %{{[0-9]+}} = "nv_tileas.load"
// CHECK: "nv_tileas.store_shared"([[A]],

// CHECK: IR dump after materialize-async
// CHECK: [[P:%[0-9]+]] = "nv_tileas.create_pipeline"() : () -> !nv_tileas.pipe<"group",
// CHECK: "scf.for"
// CHECK: [[MASK:%[0-9]+]] = "arith.andi"
// CHECK: [[AT:%[0-9]+]] = "nv_tileas.addptr"
// CHECK: "nv_tileas.producer_acquire"([[P]])
// CHECK: "nv_tileas.async_copy"([[AT]], [[MASK]], {{.*}}atom = "cp.async.16"
// CHECK: "nv_tileas.producer_commit"([[P]])
// CHECK: "nv_tileas.consumer_wait"([[P]])
cuda_tile.module @m {
  entry @product(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %pi: tile<ptr<i32>>, %pc: tile<ptr<f32>>, %from: tile<i32>, %to: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %size = constant <i32: 32> : tile<i32>
    %none = constant <i32: 0> : tile<32x32xi32>
    %pitch = constant <i32: 480> : tile<32x32xi32>
    %end = constant <i32: 464> : tile<32x32xi32>
    %outside = constant <f16: 0.0> : tile<32x32xf16>
    %start = constant <f32: 0.0> : tile<32x32xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %wb = make_tensor_view %qb, shape = [480, 32], strides = [32, 1] : tensor_view<480x32xf16, strides=[32,1]>
    %wc = make_tensor_view %pc, shape = [32, 32], strides = [32, 1] : tensor_view<32x32xf32, strides=[32,1]>
    %vb = make_partition_view %wb : partition_view<tile=(32x32), tensor_view<480x32xf16, strides=[32,1]>>
    %vc = make_partition_view %wc : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>
    %n = iota : tile<32xi32>
    %p1 = reshape %qa : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %base = broadcast %p1 : tile<1x1xptr<f16>> -> tile<32x32xptr<f16>>
      %ip = reshape %pi : tile<ptr<i32>> -> tile<1xptr<i32>>
      %ib = broadcast %ip : tile<1xptr<i32>> -> tile<32xptr<i32>>
      %io = offset %ib, %n : tile<32xptr<i32>>, tile<32xi32> -> tile<32xptr<i32>>
      %index, %ti = load_ptr_tko weak %io token=%t : tile<32xptr<i32>> -> tile<32xi32>, token
      %column = reshape %index : tile<32xi32> -> tile<32x1xi32>
      %rows = broadcast %column : tile<32x1xi32> -> tile<32x32xi32>
      %some = cmpi greater_than_or_equal %rows, %none, signed : tile<32x32xi32> -> tile<32x32xi1>
      %starts = muli %rows, %pitch : tile<32x32xi32>
    %sum = for %k in (%from to %to, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<32x32xf32>) {
      %first = muli %k, %size : tile<i32>
      %f1 = reshape %first : tile<i32> -> tile<1xi32>
      %fb = broadcast %f1 : tile<1xi32> -> tile<32xi32>
      %line = addi %fb, %n : tile<32xi32>
      %row = reshape %line : tile<32xi32> -> tile<1x32xi32>
      %cols = broadcast %row : tile<1x32xi32> -> tile<32x32xi32>
      %inside = cmpi less_than %cols, %end, signed : tile<32x32xi32> -> tile<32x32xi1>
      %mask = andi %inside, %some : tile<32x32xi1>
      %far = addi %starts, %cols : tile<32x32xi32>
      %at = offset %base, %far : tile<32x32xptr<f16>>, tile<32x32xi32> -> tile<32x32xptr<f16>>
      %a, %ta = load_ptr_tko weak %at, %mask, %outside token=%t : tile<32x32xptr<f16>>, tile<32x32xi1>, tile<32x32xf16> -> tile<32x32xf16>, token
      %b, %tb = load_view_tko weak %vb[%k, %zero] token = %t : partition_view<tile=(32x32), tensor_view<480x32xf16, strides=[32,1]>>, tile<i32> -> tile<32x32xf16>, token
      %more = mmaf %a, %b, %acc : tile<32x32xf16>, tile<32x32xf16>, tile<32x32xf32>
      continue %more : tile<32x32xf32>
    }
    %e = store_view_tko weak %sum, %vc[%zero, %zero] token = %t : tile<32x32xf32>, partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>, tile<i32> -> token
    return
  }
}
