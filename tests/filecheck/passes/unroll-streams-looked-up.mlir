// A row of a matrix is loaded whose number is loaded, too: the numbers of eight iterations come first, then their rows, then the
// iterations' own work. A list that is followed from one number to the next stays as it is.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s

// CHECK-LABEL: sym_name = "rows"
// CHECK: "scf.for"
// CHECK: tiled_load{{.*}}tensor<1xi32
// CHECK: tiled_load{{.*}}tensor<1xi32
// CHECK: tiled_load{{.*}}tensor<1xi32
// CHECK: tiled_load{{.*}}tensor<1xi32
// CHECK: tiled_load{{.*}}tensor<1x64xf32
// CHECK-NOT: tiled_load{{.*}}tensor<1xi32
// CHECK: tiled_load{{.*}}tensor<1x64xf32
// CHECK: tiled_load{{.*}}tensor<1x64xf32
// CHECK: tiled_load{{.*}}tensor<1x64xf32
// CHECK: "arith.addf"
// CHECK: "scf.yield"
// CHECK-LABEL: sym_name = "list"
// CHECK: "scf.for"
// CHECK: tiled_load
// CHECK: tiled_load
// CHECK-NOT: tiled_load
// CHECK: "scf.yield"
cuda_tile.module @m {
  entry @rows(%p: tile<ptr<i32>>, %x: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %nothing = constant <f32: 0.0> : tile<1x64xf32>
    %iw = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xi32, strides=[1]>
    %iv = make_partition_view %iw : partition_view<tile=(1), tensor_view<?xi32, strides=[1]>>
    %xw = make_tensor_view %x, shape = [%n, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf32, strides=[64,1]>
    %xv = make_partition_view %xw : partition_view<tile=(1x64), tensor_view<?x64xf32, strides=[64,1]>>
    %ow = make_tensor_view %q, shape = [1, 64], strides = [64, 1] : tensor_view<1x64xf32, strides=[64,1]>
    %ov = make_partition_view %ow : partition_view<tile=(1x64), tensor_view<1x64xf32, strides=[64,1]>>
    %s = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %nothing) -> (tile<1x64xf32>) {
      %i, %t0 = load_view_tko weak %iv[%k] : partition_view<tile=(1), tensor_view<?xi32, strides=[1]>>, tile<i32> -> tile<1xi32>, token
      %r = reshape %i : tile<1xi32> -> tile<i32>
      %l, %t1 = load_view_tko weak %xv[%r, %zero] : partition_view<tile=(1x64), tensor_view<?x64xf32, strides=[64,1]>>, tile<i32> -> tile<1x64xf32>, token
      %a = addf %acc, %l : tile<1x64xf32>
      continue %a : tile<1x64xf32>
    }
    %e = store_view_tko weak %s, %ov[%zero, %zero] : tile<1x64xf32>, partition_view<tile=(1x64), tensor_view<1x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
  entry @list(%p: tile<ptr<i32>>, %x: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %nothing = constant <f32: 0.0> : tile<1x64xf32>
    %iw = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xi32, strides=[1]>
    %iv = make_partition_view %iw : partition_view<tile=(1), tensor_view<?xi32, strides=[1]>>
    %xw = make_tensor_view %x, shape = [%n, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf32, strides=[64,1]>
    %xv = make_partition_view %xw : partition_view<tile=(1x64), tensor_view<?x64xf32, strides=[64,1]>>
    %ow = make_tensor_view %q, shape = [1, 64], strides = [64, 1] : tensor_view<1x64xf32, strides=[64,1]>
    %ov = make_partition_view %ow : partition_view<tile=(1x64), tensor_view<1x64xf32, strides=[64,1]>>
    %s, %f = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %nothing, %at = %zero) -> (tile<1x64xf32>, tile<i32>) {
      %i, %t0 = load_view_tko weak %iv[%at] : partition_view<tile=(1), tensor_view<?xi32, strides=[1]>>, tile<i32> -> tile<1xi32>, token
      %r = reshape %i : tile<1xi32> -> tile<i32>
      %l, %t1 = load_view_tko weak %xv[%r, %zero] : partition_view<tile=(1x64), tensor_view<?x64xf32, strides=[64,1]>>, tile<i32> -> tile<1x64xf32>, token
      %a = addf %acc, %l : tile<1x64xf32>
      continue %a, %r : tile<1x64xf32>, tile<i32>
    }
    %e = store_view_tko weak %s, %ov[%zero, %zero] : tile<1x64xf32>, partition_view<tile=(1x64), tensor_view<1x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
