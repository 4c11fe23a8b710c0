// Beside products that run by themselves a row of few registers is carried, too, where an iteration computes with it and with what is
// known before the loop only: that stands at the body's head, in front of the next iteration's load. Where another load of the loop
// isn't so, both are carried, and their uses stay: `settle-loads` sees to it that these don't wait for the next iteration's.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --print-ir-after=prefetch-to-registers -o %t.as 2> %t.ir
// RUN: filecheck %s --input-file=%t.ir

// CHECK: IR dump after prefetch-to-registers
// CHECK: sym_name = "weighted"
// CHECK: "scf.for"
// CHECK-NEXT: ^bb0(%{{[0-9]+}}: i32, %{{[0-9]+}}: tensor<64x32xf32, {{.*}}, [[NOW:%[0-9]+]]: tensor<32xf32, {{.*}}, %{{[0-9]+}}: !nv_tileaa.mem_token):
// CHECK-NEXT: "arith.mulf"([[NOW]],
// CHECK: [[NEXT:%[0-9]+]], %{{[0-9]+}} = "scf.if"
// CHECK-NEXT: "nv_tileas.load"
// CHECK: "nv_tileas.dot"
// CHECK: "scf.yield"(%{{[0-9]+}}, [[NEXT]],
// CHECK: sym_name = "late"
// CHECK: "scf.for"
// CHECK-NEXT: ^bb0(%{{[0-9]+}}: i32, %{{[0-9]+}}: tensor<64x32xf32, {{.*}}, [[ONE:%[0-9]+]]: tensor<32xf32, {{.*}}, %{{[0-9]+}}: !nv_tileaa.mem_token, [[OTHER:%[0-9]+]]: tensor<32xf32,
// CHECK: "scf.if"
// CHECK-NEXT: "nv_tileas.load"
// CHECK-NEXT: "nv_tileas.load"
// CHECK: "nv_tileas.dot"
cuda_tile.module @m {
  entry @weighted(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %r: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<64x32xf32>
    %a = assume div_by<16>, %p : tile<ptr<f16>>
    %b = assume div_by<16>, %q : tile<ptr<f32>>
    %c = reshape %b : tile<ptr<f32>> -> tile<1xptr<f32>>
    %s = broadcast %c : tile<1xptr<f32>> -> tile<32xptr<f32>>
    %lanes = iota : tile<32xi32>
    %none = constant <f32: 0.0> : tile<32xf32>
    %rate = constant <f32: 0.5> : tile<32xf32>
    %width = constant <i32: 32> : tile<i32>
    %far = muli %n, %width : tile<i32>
    %bound = assume div_by<16>, %far : tile<i32>
    %n1 = reshape %bound : tile<i32> -> tile<1xi32>
    %limit = broadcast %n1 : tile<1xi32> -> tile<32xi32>
    %w = make_tensor_view %a, shape = [64, 4096], strides = [4096, 1] : tensor_view<64x4096xf16, strides=[4096,1]>
    %o = make_tensor_view %r, shape = [64, 32], strides = [32, 1] : tensor_view<64x32xf32, strides=[32,1]>
    %kv = make_partition_view %w : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>
    %v = make_partition_view %w : partition_view<tile=(64x32), tensor_view<64x4096xf16, strides=[4096,1]>>
    %ov = make_partition_view %o : partition_view<tile=(64x32), tensor_view<64x32xf32, strides=[32,1]>>
    %x, %w0 = load_view_tko weak %kv[%zero, %zero] token = %t : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<64x32xf32>) {
      %y, %u = load_view_tko weak %v[%zero, %i] token = %t : partition_view<tile=(64x32), tensor_view<64x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x32xf16>, token
      %j = muli %i, %width : tile<i32>
      %j1 = reshape %j : tile<i32> -> tile<1xi32>
      %j32 = broadcast %j1 : tile<1xi32> -> tile<32xi32>
      %at = addi %j32, %lanes : tile<32xi32>
      %f = offset %s, %at : tile<32xptr<f32>>, tile<32xi32> -> tile<32xptr<f32>>
      %inside = cmpi less_than %at, %limit, unsigned : tile<32xi32> -> tile<32xi1>
      %l, %k = load_ptr_tko weak %f, %inside, %none token=%t : tile<32xptr<f32>>, tile<32xi1>, tile<32xf32> -> tile<32xf32>, token
      %m = mulf %l, %rate : tile<32xf32>
      %d = mmaf %x, %y, %start : tile<64x64xf16>, tile<64x32xf16>, tile<64x32xf32>
      %g = reshape %m : tile<32xf32> -> tile<1x32xf32>
      %h = broadcast %g : tile<1x32xf32> -> tile<64x32xf32>
      %e = mulf %d, %h : tile<64x32xf32>
      %z = addf %acc, %e : tile<64x32xf32>
      continue %z : tile<64x32xf32>
    }
    %w1 = store_view_tko weak %sum, %ov[%zero, %zero] token = %t : tile<64x32xf32>, partition_view<tile=(64x32), tensor_view<64x32xf32, strides=[32,1]>>, tile<i32> -> token
    return
  }
  entry @late(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %r: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<64x32xf32>
    %a = assume div_by<16>, %p : tile<ptr<f16>>
    %b = assume div_by<16>, %q : tile<ptr<f32>>
    %c = reshape %b : tile<ptr<f32>> -> tile<1xptr<f32>>
    %s = broadcast %c : tile<1xptr<f32>> -> tile<32xptr<f32>>
    %lanes = iota : tile<32xi32>
    %none = constant <f32: 0.0> : tile<32xf32>
    %rate = constant <f32: 0.5> : tile<32xf32>
    %width = constant <i32: 32> : tile<i32>
    %far = muli %n, %width : tile<i32>
    %bound = assume div_by<16>, %far : tile<i32>
    %n1 = reshape %bound : tile<i32> -> tile<1xi32>
    %limit = broadcast %n1 : tile<1xi32> -> tile<32xi32>
    %w = make_tensor_view %a, shape = [64, 4096], strides = [4096, 1] : tensor_view<64x4096xf16, strides=[4096,1]>
    %o = make_tensor_view %r, shape = [64, 32], strides = [32, 1] : tensor_view<64x32xf32, strides=[32,1]>
    %kv = make_partition_view %w : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>
    %v = make_partition_view %w : partition_view<tile=(64x32), tensor_view<64x4096xf16, strides=[4096,1]>>
    %ov = make_partition_view %o : partition_view<tile=(64x32), tensor_view<64x32xf32, strides=[32,1]>>
    %x, %w0 = load_view_tko weak %kv[%zero, %zero] token = %t : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<64x32xf32>) {
      %y, %u = load_view_tko weak %v[%zero, %i] token = %t : partition_view<tile=(64x32), tensor_view<64x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x32xf16>, token
      %j = muli %i, %width : tile<i32>
      %j1 = reshape %j : tile<i32> -> tile<1xi32>
      %j32 = broadcast %j1 : tile<1xi32> -> tile<32xi32>
      %at = addi %j32, %lanes : tile<32xi32>
      %f = offset %s, %at : tile<32xptr<f32>>, tile<32xi32> -> tile<32xptr<f32>>
      %inside = cmpi less_than %at, %limit, unsigned : tile<32xi32> -> tile<32xi1>
      %l, %k = load_ptr_tko weak %f, %inside, %none token=%t : tile<32xptr<f32>>, tile<32xi1>, tile<32xf32> -> tile<32xf32>, token
      %l2, %k2 = load_ptr_tko weak %f, %inside, %rate token=%t : tile<32xptr<f32>>, tile<32xi1>, tile<32xf32> -> tile<32xf32>, token
      %m = mulf %l, %rate : tile<32xf32>
      %d = mmaf %x, %y, %start : tile<64x64xf16>, tile<64x32xf16>, tile<64x32xf32>
      %g = reshape %m : tile<32xf32> -> tile<1x32xf32>
      %h = broadcast %g : tile<1x32xf32> -> tile<64x32xf32>
      %e = mulf %d, %h : tile<64x32xf32>
      %top = extract %d[%zero, %zero] : tile<64x32xf32> -> tile<1x32xf32>
      %row = reshape %top : tile<1x32xf32> -> tile<32xf32>
      %sum32 = addf %row, %l2 : tile<32xf32>
      %g2 = reshape %sum32 : tile<32xf32> -> tile<1x32xf32>
      %h2 = broadcast %g2 : tile<1x32xf32> -> tile<64x32xf32>
      %e2 = addf %e, %h2 : tile<64x32xf32>
      %z = addf %acc, %e2 : tile<64x32xf32>
      continue %z : tile<64x32xf32>
    }
    %w1 = store_view_tko weak %sum, %ov[%zero, %zero] token = %t : tile<64x32xf32>, partition_view<tile=(64x32), tensor_view<64x32xf32, strides=[32,1]>>, tile<i32> -> token
    return
  }
}
