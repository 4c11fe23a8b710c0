// Rows of 64 KiB that two loops read are read once: both become their iterations, and `cse` finds the loads the same. A loop that
// reads as much alone stays one, as do two of which one goes further.
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_90 -O3 | filecheck %s
cuda_tile.module @m {
  // CHECK: sym_name = "twice"
  // CHECK-COUNT-8: "nv_tileaa.tiled_load"
  // CHECK-NOT: "nv_tileaa.tiled_load"
  // CHECK-COUNT-8: "nv_tileaa.tiled_store"
  // CHECK: sym_name = "once"
  entry @twice(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %eight = constant <i32: 8> : tile<i32>
    %start = constant <f32: 0.0> : tile<2048xf32>
    %x = make_tensor_view %p, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %y = make_tensor_view %q, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %v = make_partition_view %x : partition_view<tile=(2048), tensor_view<65536xf32, strides=[1]>>
    %o = make_partition_view %y : partition_view<tile=(2048), tensor_view<65536xf32, strides=[1]>>
    %sum = for %k in (%zero to %eight, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<2048xf32>) {
      %a, %ta = load_view_tko weak %v[%k] token = %t : partition_view<tile=(2048), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> tile<2048xf32>, token
      %more = addf %acc, %a : tile<2048xf32>
      continue %more : tile<2048xf32>
    }
    for %k in (%zero to %eight, step %one) : tile<i32> {
      %a, %ta = load_view_tko weak %v[%k] token = %t : partition_view<tile=(2048), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> tile<2048xf32>, token
      %less = subf %a, %sum : tile<2048xf32>
      %e = store_view_tko weak %less, %o[%k] token = %t : tile<2048xf32>, partition_view<tile=(2048), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> token
      continue
    }
    return
  }

  // CHECK: "scf.for"
  // CHECK: "nv_tileaa.tiled_load"
  // CHECK-NOT: "nv_tileaa.tiled_load"
  // CHECK: sym_name = "further"
  entry @once(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %eight = constant <i32: 8> : tile<i32>
    %start = constant <f32: 0.0> : tile<2048xf32>
    %x = make_tensor_view %p, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %y = make_tensor_view %q, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %v = make_partition_view %x : partition_view<tile=(2048), tensor_view<65536xf32, strides=[1]>>
    %o = make_partition_view %y : partition_view<tile=(2048), tensor_view<65536xf32, strides=[1]>>
    %sum = for %k in (%zero to %eight, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<2048xf32>) {
      %a, %ta = load_view_tko weak %v[%k] token = %t : partition_view<tile=(2048), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> tile<2048xf32>, token
      %more = addf %acc, %a : tile<2048xf32>
      continue %more : tile<2048xf32>
    }
    %e = store_view_tko weak %sum, %o[%zero] token = %t : tile<2048xf32>, partition_view<tile=(2048), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> token
    return
  }

  // CHECK-COUNT-2: "scf.for"
  entry @further(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %eight = constant <i32: 8> : tile<i32>
    %nine = constant <i32: 9> : tile<i32>
    %start = constant <f32: 0.0> : tile<2048xf32>
    %x = make_tensor_view %p, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %y = make_tensor_view %q, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %v = make_partition_view %x : partition_view<tile=(2048), tensor_view<65536xf32, strides=[1]>>
    %o = make_partition_view %y : partition_view<tile=(2048), tensor_view<65536xf32, strides=[1]>>
    %sum = for %k in (%zero to %nine, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<2048xf32>) {
      %a, %ta = load_view_tko weak %v[%k] token = %t : partition_view<tile=(2048), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> tile<2048xf32>, token
      %more = addf %acc, %a : tile<2048xf32>
      continue %more : tile<2048xf32>
    }
    for %k in (%zero to %eight, step %one) : tile<i32> {
      %a, %ta = load_view_tko weak %v[%k] token = %t : partition_view<tile=(2048), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> tile<2048xf32>, token
      %less = subf %a, %sum : tile<2048xf32>
      %e = store_view_tko weak %less, %o[%k] token = %t : tile<2048xf32>, partition_view<tile=(2048), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> token
      continue
    }
    return
  }
}
