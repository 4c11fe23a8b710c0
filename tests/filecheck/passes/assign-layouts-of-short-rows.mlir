// Rows of a few numbers that are reduced again and again lie in few threads, though neighbouring lanes load them side by side: fewer
// shuffles than numbers in registers cost. Where they are reduced once, or are longer, threads share them as they are loaded.
// RUN: tileiras-opt %s --to=nv_tileaa -O0 -o %t.aa
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,assign-load-store-layouts --gpu-name=sm_80 | filecheck %s

// CHECK: sym_name = "often"
// CHECK: "arith.subf"
// CHECK-SAME: reg = {{\[\[}}0, 1], [0, 2]], lane = {{\[\[}}0, 4], [1, 0], [2, 0], [4, 0], [8, 0]]
// CHECK: sym_name = "once"
// CHECK: "nv_tileas.reduce"
// CHECK: (tensor<16x8xf32, #nv_tileas.layout<shape = [16x8], reg = {{\[\[}}4, 0], [8, 0]], lane = {{\[\[}}0, 1], [0, 2], [0, 4],
// CHECK: sym_name = "long"
// CHECK: "arith.subf"
// CHECK-SAME: lane = {{\[\[}}0, 1], [0, 2], [0, 4], [0, 8], [0, 16]]
cuda_tile.module @m {
  entry @often(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
    %t = make_token : token
    %c = constant <i32: 0> : tile<i32>
    %w = make_tensor_view %p, shape = [64, 8], strides = [9, 1] : tensor_view<64x8xf32, strides=[9,1]>
    %v = make_partition_view %w : partition_view<tile=(16x8), tensor_view<64x8xf32, strides=[9,1]>>
    %m = make_tensor_view %q, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
    %o = make_partition_view %m : partition_view<tile=(16), tensor_view<64xf32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %d, %l = load_view_tko weak %v[%x, %c] token = %t : partition_view<tile=(16x8), tensor_view<64x8xf32, strides=[9,1]>>, tile<i32> -> tile<16x8xf32>, token
    %r0 = reduce %d dim=1 identities=[-1.0e30 : f32] : tile<16x8xf32> -> tile<16xf32>
    (%a: tile<f32>, %b: tile<f32>) {
      %g = maxf %a, %b : tile<f32>
      yield %g : tile<f32>
    }
    %h0 = reshape %r0 : tile<16xf32> -> tile<16x1xf32>
    %i0 = broadcast %h0 : tile<16x1xf32> -> tile<16x8xf32>
    %s0 = subf %d, %i0 : tile<16x8xf32>
    %r1 = reduce %s0 dim=1 identities=[-1.0e30 : f32] : tile<16x8xf32> -> tile<16xf32>
    (%a: tile<f32>, %b: tile<f32>) {
      %g = maxf %a, %b : tile<f32>
      yield %g : tile<f32>
    }
    %h1 = reshape %r1 : tile<16xf32> -> tile<16x1xf32>
    %i1 = broadcast %h1 : tile<16x1xf32> -> tile<16x8xf32>
    %s1 = subf %s0, %i1 : tile<16x8xf32>
    %r2 = reduce %s1 dim=1 identities=[-1.0e30 : f32] : tile<16x8xf32> -> tile<16xf32>
    (%a: tile<f32>, %b: tile<f32>) {
      %g = maxf %a, %b : tile<f32>
      yield %g : tile<f32>
    }
    %h2 = reshape %r2 : tile<16xf32> -> tile<16x1xf32>
    %i2 = broadcast %h2 : tile<16x1xf32> -> tile<16x8xf32>
    %s2 = subf %s1, %i2 : tile<16x8xf32>
    %r3 = reduce %s2 dim=1 identities=[-1.0e30 : f32] : tile<16x8xf32> -> tile<16xf32>
    (%a: tile<f32>, %b: tile<f32>) {
      %g = maxf %a, %b : tile<f32>
      yield %g : tile<f32>
    }
    %h3 = reshape %r3 : tile<16xf32> -> tile<16x1xf32>
    %i3 = broadcast %h3 : tile<16x1xf32> -> tile<16x8xf32>
    %s3 = subf %s2, %i3 : tile<16x8xf32>
    %r4 = reduce %s3 dim=1 identities=[-1.0e30 : f32] : tile<16x8xf32> -> tile<16xf32>
    (%a: tile<f32>, %b: tile<f32>) {
      %g = maxf %a, %b : tile<f32>
      yield %g : tile<f32>
    }
    %h4 = reshape %r4 : tile<16xf32> -> tile<16x1xf32>
    %i4 = broadcast %h4 : tile<16x1xf32> -> tile<16x8xf32>
    %s4 = subf %s3, %i4 : tile<16x8xf32>
    %r5 = reduce %s4 dim=1 identities=[-1.0e30 : f32] : tile<16x8xf32> -> tile<16xf32>
    (%a: tile<f32>, %b: tile<f32>) {
      %g = maxf %a, %b : tile<f32>
      yield %g : tile<f32>
    }
    %e = store_view_tko weak %r5, %o[%x] token = %l : tile<16xf32>, partition_view<tile=(16), tensor_view<64xf32, strides=[1]>>, tile<i32> -> token
    return
  }
  entry @once(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
    %t = make_token : token
    %c = constant <i32: 0> : tile<i32>
    %w = make_tensor_view %p, shape = [64, 8], strides = [9, 1] : tensor_view<64x8xf32, strides=[9,1]>
    %v = make_partition_view %w : partition_view<tile=(16x8), tensor_view<64x8xf32, strides=[9,1]>>
    %m = make_tensor_view %q, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
    %o = make_partition_view %m : partition_view<tile=(16), tensor_view<64xf32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %d, %l = load_view_tko weak %v[%x, %c] token = %t : partition_view<tile=(16x8), tensor_view<64x8xf32, strides=[9,1]>>, tile<i32> -> tile<16x8xf32>, token
    %r0 = reduce %d dim=1 identities=[-1.0e30 : f32] : tile<16x8xf32> -> tile<16xf32>
    (%a: tile<f32>, %b: tile<f32>) {
      %g = maxf %a, %b : tile<f32>
      yield %g : tile<f32>
    }
    %e = store_view_tko weak %r0, %o[%x] token = %l : tile<16xf32>, partition_view<tile=(16), tensor_view<64xf32, strides=[1]>>, tile<i32> -> token
    return
  }
  entry @long(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
    %t = make_token : token
    %c = constant <i32: 0> : tile<i32>
    %w = make_tensor_view %p, shape = [64, 32], strides = [33, 1] : tensor_view<64x32xf32, strides=[33,1]>
    %v = make_partition_view %w : partition_view<tile=(16x32), tensor_view<64x32xf32, strides=[33,1]>>
    %m = make_tensor_view %q, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
    %o = make_partition_view %m : partition_view<tile=(16), tensor_view<64xf32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %d, %l = load_view_tko weak %v[%x, %c] token = %t : partition_view<tile=(16x32), tensor_view<64x32xf32, strides=[33,1]>>, tile<i32> -> tile<16x32xf32>, token
    %r0 = reduce %d dim=1 identities=[-1.0e30 : f32] : tile<16x32xf32> -> tile<16xf32>
    (%a: tile<f32>, %b: tile<f32>) {
      %g = maxf %a, %b : tile<f32>
      yield %g : tile<f32>
    }
    %h0 = reshape %r0 : tile<16xf32> -> tile<16x1xf32>
    %i0 = broadcast %h0 : tile<16x1xf32> -> tile<16x32xf32>
    %s0 = subf %d, %i0 : tile<16x32xf32>
    %r1 = reduce %s0 dim=1 identities=[-1.0e30 : f32] : tile<16x32xf32> -> tile<16xf32>
    (%a: tile<f32>, %b: tile<f32>) {
      %g = maxf %a, %b : tile<f32>
      yield %g : tile<f32>
    }
    %h1 = reshape %r1 : tile<16xf32> -> tile<16x1xf32>
    %i1 = broadcast %h1 : tile<16x1xf32> -> tile<16x32xf32>
    %s1 = subf %s0, %i1 : tile<16x32xf32>
    %r2 = reduce %s1 dim=1 identities=[-1.0e30 : f32] : tile<16x32xf32> -> tile<16xf32>
    (%a: tile<f32>, %b: tile<f32>) {
      %g = maxf %a, %b : tile<f32>
      yield %g : tile<f32>
    }
    %h2 = reshape %r2 : tile<16xf32> -> tile<16x1xf32>
    %i2 = broadcast %h2 : tile<16x1xf32> -> tile<16x32xf32>
    %s2 = subf %s1, %i2 : tile<16x32xf32>
    %r3 = reduce %s2 dim=1 identities=[-1.0e30 : f32] : tile<16x32xf32> -> tile<16xf32>
    (%a: tile<f32>, %b: tile<f32>) {
      %g = maxf %a, %b : tile<f32>
      yield %g : tile<f32>
    }
    %h3 = reshape %r3 : tile<16xf32> -> tile<16x1xf32>
    %i3 = broadcast %h3 : tile<16x1xf32> -> tile<16x32xf32>
    %s3 = subf %s2, %i3 : tile<16x32xf32>
    %r4 = reduce %s3 dim=1 identities=[-1.0e30 : f32] : tile<16x32xf32> -> tile<16xf32>
    (%a: tile<f32>, %b: tile<f32>) {
      %g = maxf %a, %b : tile<f32>
      yield %g : tile<f32>
    }
    %h4 = reshape %r4 : tile<16xf32> -> tile<16x1xf32>
    %i4 = broadcast %h4 : tile<16x1xf32> -> tile<16x32xf32>
    %s4 = subf %s3, %i4 : tile<16x32xf32>
    %r5 = reduce %s4 dim=1 identities=[-1.0e30 : f32] : tile<16x32xf32> -> tile<16xf32>
    (%a: tile<f32>, %b: tile<f32>) {
      %g = maxf %a, %b : tile<f32>
      yield %g : tile<f32>
    }
    %e = store_view_tko weak %r5, %o[%x] token = %l : tile<16xf32>, partition_view<tile=(16), tensor_view<64xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
