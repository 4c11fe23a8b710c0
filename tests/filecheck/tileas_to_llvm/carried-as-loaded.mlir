// What a loop loads ahead is carried as words, not as halves or floats: behind the load stands no conversion and no packing, which would
// wait for it. They stand where the next iteration uses it. What it is where nothing is loaded LLVM doesn't know.
// RUN: tileiras-translate --mlir-to-cudatilebc --bytecode-version 13.4 %s -o %t.tileirbc
// RUN: tileiras --gpu-name sm_90 -O3 --emit llvm %t.tileirbc -o %t.ll
// RUN: filecheck %s --input-file=%t.ll
// RUN: tileiras --gpu-name sm_90 -O3 --emit ptx %t.tileirbc -o %t.ptx
// RUN: filecheck %s --check-prefix=PTX --input-file=%t.ptx

// CHECK: define {{.*}}@scale(
// CHECK: [[NONE:%v[0-9]+]] = call i16 asm "mov.b16 $0, 0;", "=h"()
// CHECK: phi i16 [ {{%v[0-9]+}}, {{%b[0-9]+}} ], [ [[NONE]], {{%b[0-9]+}} ]
// CHECK: phi i16 [ {{%v[0-9]+}}, {{%b[0-9]+}} ], [ {{%v[0-9]+}}, {{%b[0-9]+}} ]
// CHECK: phi i16 [ {{%v[0-9]+}}, {{%b[0-9]+}} ], [ [[NONE]], {{%b[0-9]+}} ]
// CHECK: define {{.*}}@rows(
// CHECK: phi i32 [ {{%v[0-9]+}}, {{%b[0-9]+}} ], [ [[NONE:%v[0-9]+]], {{%b[0-9]+}} ]
// CHECK-NEXT: phi i32 [ {{%v[0-9]+}}, {{%b[0-9]+}} ], [ [[NONE]], {{%b[0-9]+}} ]
// CHECK-NOT: phi <4 x half>

// PTX: .entry scale(
// PTX: ld.global.b16 %rs{{[0-9]+}}, [%rd{{[0-9]+}}];
// PTX: ld.global.v4.b32
// PTX: cvt.f32.f16
// PTX: ld.global.b16 %rs{{[0-9]+}}, [%rd{{[0-9]+}}];
// PTX-NOT: cvt.f32.f16
// PTX: .entry rows(
// PTX: ld.global.v2.b32 {%r{{[0-9]+}}, %r{{[0-9]+}}}, [%rd{{[0-9]+}}];
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
