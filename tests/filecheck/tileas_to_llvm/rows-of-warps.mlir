// Means by a body with a division: each warp has rows of its own, so that no body is spent on parts of several warps, though the
// first operand is a constant, which has any layout.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_80 | filecheck %s

// CHECK: "nv_tileas.tiled_load"
// CHECK-NOT: "nv_tileas.store_shared"
// CHECK: "nv_tileas.reduce"
// CHECK-NOT: parts
// CHECK: "scf.yield"
cuda_tile.module @m {
  entry @means(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
    %x, %y, %z = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %ones = constant <f32: 1.0> : tile<8x1024xf32>
    %t = make_token : token
    %a = assume div_by<16>, %p : tile<ptr<f32>>
    %b = assume div_by<16>, %q : tile<ptr<f32>>
    %w = make_tensor_view %a, shape = [4096, 1024], strides = [1024, 1] : tensor_view<4096x1024xf32, strides=[1024,1]>
    %v = make_partition_view %w : partition_view<tile=(8x1024), tensor_view<4096x1024xf32, strides=[1024,1]>>
    %o = make_tensor_view %b, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %u = make_partition_view %o : partition_view<tile=(8), tensor_view<4096xf32, strides=[1]>>
    %g, %h = load_view_tko weak %v[%x, %zero] token = %t : partition_view<tile=(8x1024), tensor_view<4096x1024xf32, strides=[1024,1]>>, tile<i32> -> tile<8x1024xf32>, token
    %n, %mean = reduce %ones, %g dim=1 identities=[0.0 : f32, 0.0 : f32] : tile<8x1024xf32>, tile<8x1024xf32> -> tile<8xf32>, tile<8xf32>
    (%n1: tile<f32>, %n2: tile<f32>, %m1: tile<f32>, %m2: tile<f32>) {
      %both = addf %n1, %n2 : tile<f32>
      %share = divf %n2, %both : tile<f32>
      %delta = subf %m2, %m1 : tile<f32>
      %part = mulf %delta, %share : tile<f32>
      %m = addf %m1, %part : tile<f32>
      yield %both, %m : tile<f32>, tile<f32>
    }
    %e = store_view_tko weak %mean, %u[%x] token = %t : tile<8xf32>, partition_view<tile=(8), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
