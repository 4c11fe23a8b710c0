// A loop that only stores isn't unrolled by LLVM: nothing in it waits, and the registers are the other loops'. One that loads may be.
// RUN: tileiras-translate --mlir-to-cudatilebc --bytecode-version 13.4 %s -o %t.tileirbc
// RUN: tileiras --gpu-name sm_80 -O3 --emit llvm %t.tileirbc | filecheck %s
// RUN: tileiras --gpu-name sm_80 -O3 --emit ptx %t.tileirbc | filecheck %s --check-prefix=PTX

cuda_tile.module @m {
  // CHECK: define {{.*}}@clear(
  // CHECK: br i1 {{.*}}, !llvm.loop [[LOOP:![0-9]+]]
  // PTX: .entry clear(
  // PTX-COUNT-4: st.global
  // PTX-NOT: st.global
  // PTX: .entry copy(
  entry @clear(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %c = constant <f32: 0.0> : tile<256xf32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %w = make_tensor_view %p, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(256), tensor_view<65536xf32, strides=[1]>>
    for %i in (%zero to %n, step %one) : tile<i32> {
      %s = store_view_tko weak %c, %v[%i] : tile<256xf32>, partition_view<tile=(256), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> token
    }
    return
  }

  // CHECK: define {{.*}}@copy(
  // CHECK-NOT: !llvm.loop
  // CHECK: [[DISABLED:![0-9]+]] = !{!"llvm.loop.unroll.disable"}
  // CHECK: [[LOOP]] = distinct !{[[LOOP]], [[DISABLED]]}
  entry @copy(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %w = make_tensor_view %p, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(256), tensor_view<65536xf32, strides=[1]>>
    %x = make_tensor_view %q, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %y = make_partition_view %x : partition_view<tile=(256), tensor_view<65536xf32, strides=[1]>>
    for %i in (%zero to %n, step %one) : tile<i32> {
      %a, %t = load_view_tko weak %v[%i] : partition_view<tile=(256), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> tile<256xf32>, token
      %s = store_view_tko weak %a, %y[%i] : tile<256xf32>, partition_view<tile=(256), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> token
    }
    return
  }
}
