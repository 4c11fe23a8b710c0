// What a loop loads ahead of its iteration comes from branches, and is carried, as the words of its accesses: of 2 bytes, of 8 bytes. What
// isn't loaded (a sum, tokens) is carried as it is.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 --print-ir-before=carry-as-loaded --print-ir-after=carry-as-loaded -o %t.as 2> %t.ir
// RUN: filecheck %s --input-file=%t.ir

// CHECK: IR dump before carry-as-loaded
// CHECK-NOT: as_loaded
// CHECK: IR dump after carry-as-loaded
// CHECK: sym_name = "scale"
// CHECK: "scf.if"(%{{[0-9]+}}) <{as_loaded = [#builtin.int<2>, #builtin.int<0>]}> ({
// CHECK-NEXT: "nv_tileas.tiled_load"
// CHECK: "scf.for"({{.*}}) <{as_loaded = [#builtin.int<0>, #builtin.int<2>, #builtin.int<0>]}> ({
// CHECK: "scf.if"(%{{[0-9]+}}) <{as_loaded = [#builtin.int<2>, #builtin.int<0>]}> ({
// CHECK-NEXT: "nv_tileas.tiled_load"
// CHECK: sym_name = "rows"
// CHECK: "scf.for"({{.*}}) <{as_loaded = [#builtin.int<0>, #builtin.int<8>, #builtin.int<0>]}> ({
cuda_tile.module @m {
  entry @scale(%p: tile<ptr<f32>>, %q: tile<ptr<f16>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %a = assume div_by<16>, %p : tile<ptr<f32>>
    %b = assume div_by<16>, %q : tile<ptr<f16>>
    %rows = make_tensor_view %a, shape = [4096, 1024], strides = [1024, 1] : tensor_view<4096x1024xf32, strides=[1024,1]>
    %factors = make_tensor_view %b, shape = [4096], strides = [1] : tensor_view<4096xf16, strides=[1]>
    %rv = make_partition_view %rows : partition_view<tile=(1x1024), tensor_view<4096x1024xf32, strides=[1024,1]>>
    %fv = make_partition_view %factors : partition_view<tile=(1), tensor_view<4096xf16, strides=[1]>>
    %end = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%before = %t) -> (token) {
      %row, %u = load_view_tko weak %rv[%i, %zero] token = %before : partition_view<tile=(1x1024), tensor_view<4096x1024xf32, strides=[1024,1]>>, tile<i32> -> tile<1x1024xf32>, token
      %factor, %v = load_view_tko weak %fv[%i] token = %t : partition_view<tile=(1), tensor_view<4096xf16, strides=[1]>>, tile<i32> -> tile<1xf16>, token
      %wide = ftof %factor : tile<1xf16> -> tile<1xf32>
      %f = reshape %wide : tile<1xf32> -> tile<1x1xf32>
      %g = broadcast %f : tile<1x1xf32> -> tile<1x1024xf32>
      %y = mulf %row, %g : tile<1x1024xf32>
      %w = store_view_tko weak %y, %rv[%i, %zero] token = %u : tile<1x1024xf32>, partition_view<tile=(1x1024), tensor_view<4096x1024xf32, strides=[1024,1]>>, tile<i32> -> token
      continue %w : token
    }
    return
  }

  entry @rows(%p: tile<ptr<f32>>, %q: tile<ptr<f16>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %a = assume div_by<16>, %p : tile<ptr<f32>>
    %b = assume div_by<16>, %q : tile<ptr<f16>>
    %rows = make_tensor_view %a, shape = [4096, 1024], strides = [1024, 1] : tensor_view<4096x1024xf32, strides=[1024,1]>
    %factors = make_tensor_view %b, shape = [4096], strides = [1] : tensor_view<4096xf16, strides=[1]>
    %rv = make_partition_view %rows : partition_view<tile=(4x1024), tensor_view<4096x1024xf32, strides=[1024,1]>>
    %fv = make_partition_view %factors : partition_view<tile=(4), tensor_view<4096xf16, strides=[1]>>
    %end = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%before = %t) -> (token) {
      %row, %u = load_view_tko weak %rv[%i, %zero] token = %before : partition_view<tile=(4x1024), tensor_view<4096x1024xf32, strides=[1024,1]>>, tile<i32> -> tile<4x1024xf32>, token
      %factor, %v = load_view_tko weak %fv[%i] token = %t : partition_view<tile=(4), tensor_view<4096xf16, strides=[1]>>, tile<i32> -> tile<4xf16>, token
      %wide = ftof %factor : tile<4xf16> -> tile<4xf32>
      %f = reshape %wide : tile<4xf32> -> tile<4x1xf32>
      %g = broadcast %f : tile<4x1xf32> -> tile<4x1024xf32>
      %y = mulf %row, %g : tile<4x1024xf32>
      %w = store_view_tko weak %y, %rv[%i, %zero] token = %u : tile<4x1024xf32>, partition_view<tile=(4x1024), tensor_view<4096x1024xf32, strides=[1024,1]>>, tile<i32> -> token
      continue %w : token
    }
    return
  }
}
