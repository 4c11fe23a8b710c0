// Rings of loops without products: of a tile of 64 rows blocks are taken to be few, so that one lives on what two rings fill of an
// SM; of 16 rows they are many, and share it. What barriers and other buffers take beside the ring costs it a stage, not the SM a
// block.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 -O3 | filecheck %s
cuda_tile.module @m {
  // CHECK: sym_name = "many_rows"
  // CHECK: "nv_tileas.create_pipeline"{{.*}} -> !nv_tileas.pipe<"tma", #builtin.int<14>>
  entry @many_rows(%p: tile<ptr<f16>>, %x: tile<ptr<f16>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<64x64xf32>
    %row, %by, %bz = get_tile_block_id : tile<i32>
    %pa = assume div_by<16>, %p : tile<ptr<f16>>
    %w = make_tensor_view %pa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %o = make_tensor_view %q, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(64x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %ov = make_partition_view %o : partition_view<tile=(64), tensor_view<4096xf32, strides=[1]>>
    %sums = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<64x64xf32>) {
      %a, %ta = load_view_tko weak %v[%row, %k] token = %t : partition_view<tile=(64x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
      %wide = ftof %a : tile<64x64xf16> -> tile<64x64xf32>
      %more = addf %acc, %wide : tile<64x64xf32>
      continue %more : tile<64x64xf32>
    }
    %sum = reduce %sums dim=1 identities=[0.0 : f32] : tile<64x64xf32> -> tile<64xf32>
      (%a: tile<f32>, %b: tile<f32>) {
        %s = addf %a, %b : tile<f32>
        yield %s : tile<f32>
      }
    %e = store_view_tko weak %sum, %ov[%row] token = %t : tile<64xf32>, partition_view<tile=(64), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
    return
  }
  // CHECK: sym_name = "some_rows"
  // CHECK: "nv_tileas.create_pipeline"{{.*}} -> !nv_tileas.pipe<"tma", #builtin.int<6>>
  entry @some_rows(%p: tile<ptr<f16>>, %x: tile<ptr<f16>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<16x256xf32>
    %row, %by, %bz = get_tile_block_id : tile<i32>
    %pa = assume div_by<16>, %p : tile<ptr<f16>>
    %w = make_tensor_view %pa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %o = make_tensor_view %q, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(16x256), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %ov = make_partition_view %o : partition_view<tile=(16), tensor_view<4096xf32, strides=[1]>>
    %sums = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<16x256xf32>) {
      %a, %ta = load_view_tko weak %v[%row, %k] token = %t : partition_view<tile=(16x256), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<16x256xf16>, token
      %wide = ftof %a : tile<16x256xf16> -> tile<16x256xf32>
      %more = addf %acc, %wide : tile<16x256xf32>
      continue %more : tile<16x256xf32>
    }
    %sum = reduce %sums dim=1 identities=[0.0 : f32] : tile<16x256xf32> -> tile<16xf32>
      (%a: tile<f32>, %b: tile<f32>) {
        %s = addf %a, %b : tile<f32>
        yield %s : tile<f32>
      }
    %e = store_view_tko weak %sum, %ov[%row] token = %t : tile<16xf32>, partition_view<tile=(16), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
    return
  }
  // CHECK: sym_name = "times_a_vector"
  // CHECK-NOT: "group"
  // CHECK: "nv_tileas.create_pipeline"{{.*}} -> !nv_tileas.pipe<"tma", #builtin.int<4>>
  // CHECK-COUNT-2: nv_tileas.tma_load
  entry @times_a_vector(%p: tile<ptr<f16>>, %x: tile<ptr<f16>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<64x128xf32>
    %row, %by, %bz = get_tile_block_id : tile<i32>
    %pa = assume div_by<16>, %p : tile<ptr<f16>>
    %w = make_tensor_view %pa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %o = make_tensor_view %q, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(64x128), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %ov = make_partition_view %o : partition_view<tile=(64), tensor_view<4096xf32, strides=[1]>>
    %xa = assume div_by<16>, %x : tile<ptr<f16>>
    %xt = make_tensor_view %xa, shape = [1, 4096], strides = [4096, 1] : tensor_view<1x4096xf16, strides=[4096,1]>
    %xv = make_partition_view %xt : partition_view<tile=(1x128), tensor_view<1x4096xf16, strides=[4096,1]>>
    %sums = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<64x128xf32>) {
      %a, %ta = load_view_tko weak %v[%row, %k] token = %t : partition_view<tile=(64x128), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x128xf16>, token
      %wide = ftof %a : tile<64x128xf16> -> tile<64x128xf32>
      %y, %ty = load_view_tko weak %xv[%zero, %k] token = %t : partition_view<tile=(1x128), tensor_view<1x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<1x128xf16>, token
      %yw = ftof %y : tile<1x128xf16> -> tile<1x128xf32>
      %ys = broadcast %yw : tile<1x128xf32> -> tile<64x128xf32>
      %product = mulf %wide, %ys : tile<64x128xf32>
      %more = addf %acc, %product : tile<64x128xf32>
      continue %more : tile<64x128xf32>
    }
    %sum = reduce %sums dim=1 identities=[0.0 : f32] : tile<64x128xf32> -> tile<64xf32>
      (%a: tile<f32>, %b: tile<f32>) {
        %s = addf %a, %b : tile<f32>
        yield %s : tile<f32>
      }
    %e = store_view_tko weak %sum, %ov[%row] token = %t : tile<64xf32>, partition_view<tile=(64), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
