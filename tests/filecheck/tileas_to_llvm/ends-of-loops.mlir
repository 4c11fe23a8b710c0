// A `for` that carries whether it is over, as Python's break makes it, ends where it says so: its later iterations would do nothing. One
// that does something first in each iteration goes on.
// RUN: tileiras-translate --mlir-to-cudatilebc --bytecode-version 13.4 %s -o %t.tileirbc
// RUN: tileiras --gpu-name sm_80 -O3 --emit llvm %t.tileirbc | filecheck %s

cuda_tile.module @m {
  // One way to a next iteration, and three out of the loop.
  // CHECK: define {{.*}}@first(
  // CHECK: phi i1 [ false, {{%b[0-9]+}} ], [ {{%v[0-9]+}}, {{%b[0-9]+}} ], [ true, {{%b[0-9]+}} ], [ {{%v[0-9]+}}, {{%b[0-9]+}} ]
  // CHECK: add i32 {{.*}}, 1
  // CHECK-NOT: add i32
  entry @first(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %none = constant <i32: -1> : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %limit = constant <f32: 2.0> : tile<f32>
    %false = constant <i1: false> : tile<i1>
    %true = constant <i1: true> : tile<i1>
    %w = make_tensor_view %p, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(1), tensor_view<65536xf32, strides=[1]>>
    %place, %over = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%at = %none, %is_over = %false) -> (tile<i32>, tile<i1>) {
      if %is_over {
        continue %at, %is_over : tile<i32>, tile<i1>
      }
      %a, %t = load_view_tko weak %v[%i] : partition_view<tile=(1), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> tile<1xf32>, token
      %x = reshape %a : tile<1xf32> -> tile<f32>
      %c = cmpf greater_than ordered %x, %limit : tile<f32> -> tile<i1>
      if %c {
        continue %i, %true : tile<i32>, tile<i1>
      }
      continue %at, %is_over : tile<i32>, tile<i1>
    }
    print_tko "%d", %place : tile<i32> -> token
    return
  }

  // CHECK: define {{.*}}@says(
  // CHECK: add i32 {{.*}}, 1
  // CHECK: add i32 {{.*}}, 1
  entry @says(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %false = constant <i1: false> : tile<i1>
    %true = constant <i1: true> : tile<i1>
    %over = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%is_over = %false) -> (tile<i1>) {
      print_tko "%d", %i : tile<i32> -> token
      if %is_over {
        continue %is_over : tile<i1>
      }
      continue %true : tile<i1>
    }
    return
  }
}
