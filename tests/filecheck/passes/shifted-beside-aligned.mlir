// A tile that is read at a shift, one element an access, beside aligned ones that may go four at a time: two lie side by side in a
// thread. A warp's access of single words then touches two lines of the cache, in the time that one would take, while four would
// touch four; and the aligned tile is read and stored by half as many accesses as single words would take.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_80 --verify-each | filecheck %s

// CHECK: "nv_tileas.load"
// CHECK-SAME: reg = {{\[\[1\], \[512\], \[1024\], \[2048\]\]}}, lane = {{\[\[2\], \[4\], \[8\], \[16\], \[32\]\]}}
// CHECK: nv_tileas.tiled_load
// CHECK-SAME: reg = {{\[\[1\], \[512\], \[1024\], \[2048\]\]}}, lane = {{\[\[2\], \[4\], \[8\], \[16\], \[32\]\]}}
// CHECK-NOT: convert_layout
// CHECK: nv_tileas.tiled_store
cuda_tile.module @m {
  entry @shifted(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %shift: tile<i32>) {
    %t = make_token : token
    %x, %y, %z = get_tile_block_id : tile<i32>
    %width = constant <i32: 4096> : tile<i32>
    %first = muli %x, %width : tile<i32>
    %moved = addi %first, %shift : tile<i32>
    %f1 = reshape %moved : tile<i32> -> tile<1xi32>
    %fs = broadcast %f1 : tile<1xi32> -> tile<4096xi32>
    %lanes = iota : tile<4096xi32>
    %at = addi %fs, %lanes : tile<4096xi32>
    %wide = exti %at signed : tile<4096xi32> -> tile<4096xi64>
    %p1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %ps = broadcast %p1 : tile<1xptr<f32>> -> tile<4096xptr<f32>>
    %pp = offset %ps, %wide : tile<4096xptr<f32>>, tile<4096xi64> -> tile<4096xptr<f32>>
    %b, %u = load_ptr_tko weak %pp token=%t : tile<4096xptr<f32>> -> tile<4096xf32>, token
    %pa = assume div_by<16>, %p : tile<ptr<f32>>
    %v = make_tensor_view %pa, shape = [1048576], strides = [1] : tensor_view<1048576xf32, strides=[1]>
    %of = make_partition_view %v : partition_view<tile=(4096), tensor_view<1048576xf32, strides=[1]>>
    %a, %r = load_view_tko weak %of[%x] token = %t : partition_view<tile=(4096), tensor_view<1048576xf32, strides=[1]>>, tile<i32> -> tile<4096xf32>, token
    %sum = addf %a, %b : tile<4096xf32>
    %qa = assume div_by<16>, %q : tile<ptr<f32>>
    %w = make_tensor_view %qa, shape = [1048576], strides = [1] : tensor_view<1048576xf32, strides=[1]>
    %to = make_partition_view %w : partition_view<tile=(4096), tensor_view<1048576xf32, strides=[1]>>
    %s = store_view_tko weak %sum, %to[%x] token = %t : tile<4096xf32>, partition_view<tile=(4096), tensor_view<1048576xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
