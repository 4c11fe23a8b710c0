// The scores of a window's keys: columns that begin at a scalar are compared with rows, with rows and a width, and with an end, and
// once the difference of a row and a column is. What threads hold whole rows of becomes one op; what their rows' bits say of all
// columns is a limit there. Threads of an older mma hold eight columns of a row: too few.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_80 | filecheck %s --check-prefix=FEW
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 -O0 | filecheck %s --check-prefix=FEW

// FEW-NOT: mask_runs
// FEW: "arith.cmpi"
// CHECK-LABEL: sym_name = "window"
// CHECK: [[OFFSET:%[0-9]+]] = "arith.muli"
// CHECK: [[MASK:%[0-9]+]] = "nv_tileas.mask_runs"([[OFFSET]], %{{[0-9]+}}, [[OFFSET]], %{{[0-9]+}}, [[OFFSET]], %{{[0-9]+}})
// CHECK-SAME: <{dim = 1 : i32, predicates = ["sle", "sgt", "slt"]}>
// CHECK-NOT: tensor<128x128xi32
// CHECK: "arith.select"([[MASK]],

// row - (column + offset) < width:  column + (offset + ~row) > ~width
// CHECK-LABEL: sym_name = "distance"
// CHECK: [[LIMIT:%[0-9]+]] = "arith.select"({{.*}}tensor<128x1xi32
// CHECK: "nv_tileas.mask_runs"(%{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}}, [[LIMIT]])
// CHECK-SAME: predicates = ["sgt", "slt"]
cuda_tile.module @m {
  entry @window(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %width: tile<i32>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %tile = constant <i32: 128> : tile<i32>
    %low = constant <f32: -1.0> : tile<128x128xf32>
    %nothing = constant <f32: 0.0> : tile<128x128xf32>
    %w = make_tensor_view %p, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %v = make_partition_view %w : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>
    %o = make_tensor_view %q, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %u = make_partition_view %o : partition_view<tile=(128), tensor_view<65536xf32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %a, %t = load_view_tko weak %v[%zero, %zero] : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
    %s = mmaf %a, %a, %nothing : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
    %i = iota : tile<128xi32>
    %first = muli %x, %tile : tile<i32>
    %f1 = reshape %first : tile<i32> -> tile<1xi32>
    %fs = broadcast %f1 : tile<1xi32> -> tile<128xi32>
    %c = addi %i, %fs : tile<128xi32>
    %c2 = reshape %c : tile<128xi32> -> tile<1x128xi32>
    %columns = broadcast %c2 : tile<1x128xi32> -> tile<128x128xi32>
    %r2 = reshape %i : tile<128xi32> -> tile<128x1xi32>
    %rows = broadcast %r2 : tile<128x1xi32> -> tile<128x128xi32>
    %w2 = reshape %width : tile<i32> -> tile<1x1xi32>
    %ws = broadcast %w2 : tile<1x1xi32> -> tile<128x128xi32>
    %begin = subi %rows, %ws : tile<128x128xi32>
    %n2 = reshape %n : tile<i32> -> tile<1x1xi32>
    %ns = broadcast %n2 : tile<1x1xi32> -> tile<128x128xi32>
    %below = cmpi less_than_or_equal %columns, %rows, signed : tile<128x128xi32> -> tile<128x128xi1>
    %inside = cmpi greater_than %columns, %begin, signed : tile<128x128xi32> -> tile<128x128xi1>
    %there = cmpi less_than %columns, %ns, signed : tile<128x128xi32> -> tile<128x128xi1>
    %m0 = andi %below, %inside : tile<128x128xi1>
    %m = andi %m0, %there : tile<128x128xi1>
    %k = select %m, %s, %low : tile<128x128xi1>, tile<128x128xf32>
    %g = reduce %k dim=1 identities=[-1.0e30 : f32] : tile<128x128xf32> -> tile<128xf32>
    (%g0: tile<f32>, %g1: tile<f32>) {
      %g2 = maxf %g0, %g1 : tile<f32>
      yield %g2 : tile<f32>
    }
    %e = store_view_tko weak %g, %u[%x] token = %t : tile<128xf32>, partition_view<tile=(128), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> token
    return
  }

  entry @distance(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %width: tile<i32>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %tile = constant <i32: 128> : tile<i32>
    %low = constant <f32: -1.0> : tile<128x128xf32>
    %nothing = constant <f32: 0.0> : tile<128x128xf32>
    %w = make_tensor_view %p, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %v = make_partition_view %w : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>
    %o = make_tensor_view %q, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %u = make_partition_view %o : partition_view<tile=(128), tensor_view<65536xf32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %a, %t = load_view_tko weak %v[%zero, %zero] : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
    %s = mmaf %a, %a, %nothing : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
    %i = iota : tile<128xi32>
    %first = muli %x, %tile : tile<i32>
    %f1 = reshape %first : tile<i32> -> tile<1xi32>
    %fs = broadcast %f1 : tile<1xi32> -> tile<128xi32>
    %c = addi %i, %fs : tile<128xi32>
    %c2 = reshape %c : tile<128xi32> -> tile<1x128xi32>
    %columns = broadcast %c2 : tile<1x128xi32> -> tile<128x128xi32>
    %r2 = reshape %i : tile<128xi32> -> tile<128x1xi32>
    %rows = broadcast %r2 : tile<128x1xi32> -> tile<128x128xi32>
    %w2 = reshape %width : tile<i32> -> tile<1x1xi32>
    %ws = broadcast %w2 : tile<1x1xi32> -> tile<128x128xi32>
    %far = subi %rows, %columns : tile<128x128xi32>
    %near = cmpi less_than %far, %ws, signed : tile<128x128xi32> -> tile<128x128xi1>
    %n1 = reshape %n : tile<i32> -> tile<1x1xi32>
    %ns = broadcast %n1 : tile<1x1xi32> -> tile<128x1xi32>
    %valid = cmpi less_than %r2, %ns, signed : tile<128x1xi32> -> tile<128x1xi1>
    %vs = broadcast %valid : tile<128x1xi1> -> tile<128x128xi1>
    %m = andi %near, %vs : tile<128x128xi1>
    %k = select %m, %s, %low : tile<128x128xi1>, tile<128x128xf32>
    %g = reduce %k dim=1 identities=[-1.0e30 : f32] : tile<128x128xf32> -> tile<128xf32>
    (%g0: tile<f32>, %g1: tile<f32>) {
      %g2 = maxf %g0, %g1 : tile<f32>
      yield %g2 : tile<f32>
    }
    %e = store_view_tko weak %g, %u[%x] token = %t : tile<128xf32>, partition_view<tile=(128), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
