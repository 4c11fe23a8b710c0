// A gather at an index less a shift: nothing says that the difference doesn't wrap, so that each thread makes accesses of one element;
// that they are neighbours is likely all the same, and the lanes of a warp get them, two by two, since sums are stored four at a time.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 --verify-each | filecheck %s

// CHECK: "nv_tileas.load"({{.*}} runs = [#builtin.int<1>], neighbours = #builtin.int<0>
// CHECK-SAME: reg = {{\[\[1\], }}
// CHECK-SAME: lane = {{\[\[2\], \[4\], \[8\], \[16\], \[32\]\]}}
cuda_tile.module @m {
  entry @shifted(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %x, %y, %z = get_tile_block_id : tile<i32>
    %width = constant <i32: 1024> : tile<i32>
    %first = muli %x, %width : tile<i32>
    %f1 = reshape %first : tile<i32> -> tile<1xi32>
    %fs = broadcast %f1 : tile<1xi32> -> tile<1024xi32>
    %lanes = iota : tile<1024xi32>
    %at = addi %fs, %lanes : tile<1024xi32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<1024xf32>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<1024xf32>) {
    %i1 = reshape %i : tile<i32> -> tile<1xi32>
    %shift = broadcast %i1 : tile<1xi32> -> tile<1024xi32>
    %from = subi %at, %shift : tile<1024xi32>
    %wide = exti %from signed : tile<1024xi32> -> tile<1024xi64>
    %p1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %ps = broadcast %p1 : tile<1xptr<f32>> -> tile<1024xptr<f32>>
    %pp = offset %ps, %wide : tile<1024xptr<f32>>, tile<1024xi64> -> tile<1024xptr<f32>>
    %v, %u = load_ptr_tko weak %pp token=%t : tile<1024xptr<f32>> -> tile<1024xf32>, token
    %more = addf %acc, %v : tile<1024xf32>
    continue %more : tile<1024xf32>
    }
    %qa = assume div_by<16>, %q : tile<ptr<f32>>
    %w = make_tensor_view %qa, shape = [1048576], strides = [1] : tensor_view<1048576xf32, strides=[1]>
    %to = make_partition_view %w : partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>
    %s = store_view_tko weak %sum, %to[%x] token = %t : tile<1024xf32>, partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>, tile<i32> -> token
    return
  }
  // Of every fourth number nothing is known: lanes get one element behind another, as if four lay between them.
  // CHECK: sym_name = "strided"
  // CHECK: "nv_tileas.load"({{.*}} runs = [#builtin.int<1>], neighbours = #builtin.int<0>, apart = #builtin.int<4>
  // CHECK-SAME: lane = {{\[\[1\], \[2\], \[4\], \[8\], \[16\]\]}}
  entry @strided(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %x, %y, %z = get_tile_block_id : tile<i32>
    %lanes = iota : tile<1024xi32>
    %four = constant <i32: 4> : tile<1024xi32>
    %at = muli %lanes, %four : tile<1024xi32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<1024xf32>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<1024xf32>) {
      %i1 = reshape %i : tile<i32> -> tile<1xi32>
      %shift = broadcast %i1 : tile<1xi32> -> tile<1024xi32>
      %from = subi %at, %shift : tile<1024xi32>
      %wide = exti %from signed : tile<1024xi32> -> tile<1024xi64>
      %p1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
      %ps = broadcast %p1 : tile<1xptr<f32>> -> tile<1024xptr<f32>>
      %pp = offset %ps, %wide : tile<1024xptr<f32>>, tile<1024xi64> -> tile<1024xptr<f32>>
      %v, %u = load_ptr_tko weak %pp token=%t : tile<1024xptr<f32>> -> tile<1024xf32>, token
      %more = addf %acc, %v : tile<1024xf32>
      continue %more : tile<1024xf32>
    }
    %qa = assume div_by<16>, %q : tile<ptr<f32>>
    %w = make_tensor_view %qa, shape = [1048576], strides = [1] : tensor_view<1048576xf32, strides=[1]>
    %to = make_partition_view %w : partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>
    %s = store_view_tko weak %sum, %to[%x] token = %t : tile<1024xf32>, partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>, tile<i32> -> token
    return
  }
  // A remainder begins anew once in a row: its numbers are neighbours like those that it is of.
  // CHECK: sym_name = "torus"
  // CHECK: "nv_tileas.load"({{.*}} runs = [#builtin.int<1>], neighbours = #builtin.int<0>, invariant
  entry @torus(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %x, %y, %z = get_tile_block_id : tile<i32>
    %lanes = iota : tile<1024xi32>
    %period = constant <i32: 1024> : tile<1024xi32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<1024xf32>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<1024xf32>) {
      %i1 = reshape %i : tile<i32> -> tile<1xi32>
      %shift = broadcast %i1 : tile<1xi32> -> tile<1024xi32>
      %moved = addi %lanes, %shift : tile<1024xi32>
      %from = remi %moved, %period unsigned : tile<1024xi32>
      %wide = exti %from signed : tile<1024xi32> -> tile<1024xi64>
      %p1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
      %ps = broadcast %p1 : tile<1xptr<f32>> -> tile<1024xptr<f32>>
      %pp = offset %ps, %wide : tile<1024xptr<f32>>, tile<1024xi64> -> tile<1024xptr<f32>>
      %v, %u = load_ptr_tko weak %pp token=%t : tile<1024xptr<f32>> -> tile<1024xf32>, token
      %more = addf %acc, %v : tile<1024xf32>
      continue %more : tile<1024xf32>
    }
    %qa = assume div_by<16>, %q : tile<ptr<f32>>
    %w = make_tensor_view %qa, shape = [1048576], strides = [1] : tensor_view<1048576xf32, strides=[1]>
    %to = make_partition_view %w : partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>
    %s = store_view_tko weak %sum, %to[%x] token = %t : tile<1024xf32>, partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
