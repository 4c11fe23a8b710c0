// A row behind a branch that loads a label's weight is asked for before the label is waited for: ptxas moves no load over a branch.
// RUN: tileiras-opt %s --to=nv_tileas -O3 --gpu-name=sm_80 | filecheck %s

// CHECK: [[LABEL:%[0-9]+]], %{{[0-9]+}} = "nv_tileas.load"
// CHECK: [[ROW:%[0-9]+]], %{{[0-9]+}} = "nv_tileas.load"({{.*}}-> (tensor<1024xf32
// CHECK: "arith.cmpi"([[LABEL]]
// CHECK: [[WEIGHT:%[0-9]+]] = "scf.if"
// CHECK: "nv_tileas.load"
// CHECK: "nv_tileas.splat"([[WEIGHT]])
// CHECK: "arith.mulf"([[ROW]]
cuda_tile.module @m {
  entry @weighted(%rows: tile<ptr<f32>>, %labels: tile<ptr<i32>>, %weights: tile<ptr<f32>>, %out: tile<ptr<f32>>) {
    %t = make_token : token
    %x, %y, %z = get_tile_block_id : tile<i32>
    %none = constant <i32: -100> : tile<i32>
    %zero = constant <f32: 0.0> : tile<f32>
    %many = constant <i32: 1024> : tile<i32>
    %at = offset %labels, %x : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %label, %lt = load_ptr_tko weak %at token=%t : tile<ptr<i32>> -> tile<i32>, token
    %some = cmpi not_equal %label, %none, signed : tile<i32> -> tile<i1>
    %weight = if %some -> (tile<f32>) {
      %wa = offset %weights, %label : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
      %w, %wt = load_ptr_tko weak %wa token=%t : tile<ptr<f32>> -> tile<f32>, token
      yield %w : tile<f32>
    } else {
      yield %zero : tile<f32>
    }
    %first = muli %x, %many : tile<i32>
    %row = offset %rows, %first : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
    %i = iota : tile<1024xi32>
    %r1 = reshape %row : tile<ptr<f32>> -> tile<1xptr<f32>>
    %rb = broadcast %r1 : tile<1xptr<f32>> -> tile<1024xptr<f32>>
    %p = offset %rb, %i : tile<1024xptr<f32>>, tile<1024xi32> -> tile<1024xptr<f32>>
    %v, %vt = load_ptr_tko weak %p token=%t : tile<1024xptr<f32>> -> tile<1024xf32>, token
    %w1 = reshape %weight : tile<f32> -> tile<1xf32>
    %wb = broadcast %w1 : tile<1xf32> -> tile<1024xf32>
    %m = mulf %v, %wb : tile<1024xf32>
    %o = offset %out, %first : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
    %o1 = reshape %o : tile<ptr<f32>> -> tile<1xptr<f32>>
    %ob = broadcast %o1 : tile<1xptr<f32>> -> tile<1024xptr<f32>>
    %q = offset %ob, %i : tile<1024xptr<f32>>, tile<1024xi32> -> tile<1024xptr<f32>>
    %s = store_ptr_tko weak %q, %m token=%t : tile<1024xptr<f32>>, tile<1024xf32> -> token
    return
  }
}
