// A tile that a loop without products reads goes by way of a ring, two stages ahead at least, a large one (sixteen kilobytes) at
// least one ahead; what another place reads too comes from the L1 cache.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 -O3 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 -O0 | filecheck %s --check-prefix=PLAIN
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_75 -O3 | filecheck %s --check-prefix=PLAIN

// PLAIN-NOT: nv_tileas.pipe
cuda_tile.module @m {
  // CHECK: sym_name = "small"
  // CHECK: "nv_tileas.create_pipeline"() : () -> !nv_tileas.pipe<"group"
  // CHECK: "scf.for"
  // CHECK: [[I:%[0-9]+]] = "nv_tileas.consumer_wait"
  // CHECK-NEXT: "nv_tileas.barrier"
  // CHECK: "nv_tileas.tiled_copy"
  // CHECK: [[B:%[0-9]+]] = "nv_tileas.extract_slice"({{%[0-9]+}}, [[I]])
  // CHECK: "nv_tileas.load_shared"([[B]])
  // CHECK: "nv_tileas.return"
  entry @small(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<1024xf32>
    %pa = assume div_by<16>, %p : tile<ptr<f32>>
    %w = make_tensor_view %pa, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %o = make_tensor_view %q, shape = [1024], strides = [1] : tensor_view<1024xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(1024), tensor_view<65536xf32, strides=[1]>>
    %ov = make_partition_view %o : partition_view<tile=(1024), tensor_view<1024xf32, strides=[1]>>
    %sum = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<1024xf32>) {
      %x, %tx = load_view_tko weak %v[%k] token = %t : partition_view<tile=(1024), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
      %more = addf %acc, %x : tile<1024xf32>
      continue %more : tile<1024xf32>
    }
    %e = store_view_tko weak %sum, %ov[%zero] token = %t : tile<1024xf32>, partition_view<tile=(1024), tensor_view<1024xf32, strides=[1]>>, tile<i32> -> token
    return
  }

  // CHECK: sym_name = "large"
  // CHECK: "nv_tileas.create_pipeline"() : () -> !nv_tileas.pipe<"group", #builtin.int<{{[2-9]}}>>
  // CHECK: "nv_tileas.tiled_copy"
  // CHECK: "nv_tileas.return"
  entry @large(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<4096xf32>
    %pa = assume div_by<16>, %p : tile<ptr<f32>>
    %w = make_tensor_view %pa, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %o = make_tensor_view %q, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(4096), tensor_view<65536xf32, strides=[1]>>
    %ov = make_partition_view %o : partition_view<tile=(4096), tensor_view<4096xf32, strides=[1]>>
    %sum = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<4096xf32>) {
      %x, %tx = load_view_tko weak %v[%k] token = %t : partition_view<tile=(4096), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> tile<4096xf32>, token
      %more = addf %acc, %x : tile<4096xf32>
      continue %more : tile<4096xf32>
    }
    %e = store_view_tko weak %sum, %ov[%zero] token = %t : tile<4096xf32>, partition_view<tile=(4096), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
    return
  }

  // CHECK: sym_name = "twice"
  // CHECK-NOT: nv_tileas.pipe
  // CHECK: "nv_tileas.return"
  entry @twice(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<1024xf32>
    %pa = assume div_by<16>, %p : tile<ptr<f32>>
    %w = make_tensor_view %pa, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %o = make_tensor_view %q, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(1024), tensor_view<65536xf32, strides=[1]>>
    %ov = make_partition_view %o : partition_view<tile=(1024), tensor_view<65536xf32, strides=[1]>>
    %sum = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<1024xf32>) {
      %x, %tx = load_view_tko weak %v[%k] token = %t : partition_view<tile=(1024), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
      %more = addf %acc, %x : tile<1024xf32>
      continue %more : tile<1024xf32>
    }
    for %k in (%zero to %n, step %one) : tile<i32> {
      %x, %tx = load_view_tko weak %v[%k] token = %t : partition_view<tile=(1024), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
      %y = mulf %sum, %x : tile<1024xf32>
      %e = store_view_tko weak %y, %ov[%k] token = %t : tile<1024xf32>, partition_view<tile=(1024), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> token
      continue
    }
    return
  }
}
