// A load of what nobody writes needn't wait for the barriers of the reduction in front of it, and few registers' worth moves in
// front of them; the one that a token puts behind a write, and the one that nothing stands before, stay ordinary loads.
// RUN: tileiras-opt %s --to=nv_tileas -O3 --gpu-name=sm_90 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas -O0 --gpu-name=sm_90 | filecheck %s --check-prefix=PLAIN

// CHECK: "nv_tileas.tiled_load"
// CHECK-SAME: invariant}
// CHECK-NOT: "nv_tileas.barrier"
// CHECK: "nv_tileas.tiled_load"
// CHECK-SAME: invariant, early
// CHECK: "nv_tileas.barrier"
// CHECK: "nv_tileas.tiled_store"
// CHECK: "nv_tileas.tiled_load"
// CHECK-NOT: invariant

// Rows that the kernel changes where they lie are loaded before the first of them is stored, by an ordinary load; what an assertion
// stands in front of stays behind it.
// CHECK: sym_name = "in_place"
// CHECK: "nv_tileas.tiled_load"
// CHECK: "nv_tileas.tiled_load"
// CHECK-NOT: early
// CHECK: "nv_tileas.tiled_store"
// CHECK-NOT: "nv_tileas.tiled_load"
// CHECK: "nv_tileas.tiled_store"
// CHECK: "nv_tileas.assert"
// CHECK: "nv_tileas.tiled_load"
// CHECK: "nv_tileas.tiled_store"

// CHECK: sym_name = "any_length"
// CHECK: "nv_tileas.tiled_load"{{.*}}narrow
// CHECK-NOT: arith.mulf
// CHECK: "nv_tileas.tiled_load"{{.*}}narrow
// CHECK: arith.mulf

// PLAIN-NOT: invariant
cuda_tile.module @m {
  entry @sums(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %c: tile<ptr<f32>>) {
    %t = make_token : token
    %x, %y, %z = get_tile_block_id : tile<i32>
    %wa = make_tensor_view %a, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %va = make_partition_view %wa : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>
    %wb = make_tensor_view %b, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %vb = make_partition_view %wb : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>
    %wc = make_tensor_view %c, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %vc = make_partition_view %wc : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>
    %p, %pt = load_view_tko weak %va[%x] token = %t : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
    %s = reduce %p dim=0 identities=[0.0 : f32] : tile<1024xf32> -> tile<f32>
      (%l: tile<f32>, %r: tile<f32>) {
        %sum = addf %l, %r : tile<f32>
        yield %sum : tile<f32>
      }
    %q, %qt = load_view_tko weak %vb[%x] token = %t : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
    %s1 = reshape %s : tile<f32> -> tile<1xf32>
    %sb = broadcast %s1 : tile<1xf32> -> tile<1024xf32>
    %v = mulf %q, %sb : tile<1024xf32>
    %e = store_view_tko weak %v, %vc[%x] token = %t : tile<1024xf32>, partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
    %u, %ut = load_view_tko weak %vc[%x] token = %e : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
    %w = addf %u, %u : tile<1024xf32>
    %f = store_view_tko weak %w, %vc[%x] token = %ut : tile<1024xf32>, partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
    return
  }
  entry @in_place(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %c: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %x, %y, %z = get_tile_block_id : tile<i32>
    %wa = make_tensor_view %a, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %va = make_partition_view %wa : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>
    %wb = make_tensor_view %b, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %vb = make_partition_view %wb : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>
    %wc = make_tensor_view %c, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %vc = make_partition_view %wc : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>
    %p, %pt = load_view_tko weak %va[%x] token = %t : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
    %p2 = mulf %p, %p : tile<1024xf32>
    %d = store_view_tko weak %p2, %va[%x] token = %pt : tile<1024xf32>, partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
    %q, %qt = load_view_tko weak %vb[%x] token = %t : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
    %q2 = mulf %q, %q : tile<1024xf32>
    %e = store_view_tko weak %q2, %vb[%x] token = %qt : tile<1024xf32>, partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
    %ok = cmpi less_than %x, %n, signed : tile<i32> -> tile<i1>
    assert %ok, "a tile too many" : tile<i1>
    %r, %rt = load_view_tko weak %vc[%x] token = %t : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
    %r2 = mulf %r, %r : tile<1024xf32>
    %f = store_view_tko weak %r2, %vc[%x] token = %rt : tile<1024xf32>, partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
    return
  }

  // Arrays of any length: a load goes one of two ways, and so does the next, whose ways are taken together if nothing in between needs
  // the first one's tile.
  entry @any_length(%a: tile<ptr<bf16>>, %b: tile<ptr<bf16>>, %c: tile<ptr<bf16>>, %n: tile<i32>) {
    %t = make_token : token
    %x, %y, %z = get_tile_block_id : tile<i32>
    %aa = assume div_by<16>, %a : tile<ptr<bf16>>
    %ab = assume div_by<16>, %b : tile<ptr<bf16>>
    %ac = assume div_by<16>, %c : tile<ptr<bf16>>
    %wa = make_tensor_view %aa, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xbf16, strides=[1]>
    %va = make_partition_view %wa : partition_view<tile=(2048), tensor_view<?xbf16, strides=[1]>>
    %wb = make_tensor_view %ab, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xbf16, strides=[1]>
    %vb = make_partition_view %wb : partition_view<tile=(2048), tensor_view<?xbf16, strides=[1]>>
    %wc = make_tensor_view %ac, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xbf16, strides=[1]>
    %vc = make_partition_view %wc : partition_view<tile=(2048), tensor_view<?xbf16, strides=[1]>>
    %p, %pt = load_view_tko weak %va[%x] token = %t : partition_view<tile=(2048), tensor_view<?xbf16, strides=[1]>>, tile<i32> -> tile<2048xbf16>, token
    %p2 = mulf %p, %p : tile<2048xbf16>
    %i = addi %x, %y : tile<i32>
    %q, %qt = load_view_tko weak %vb[%i] token = %t : partition_view<tile=(2048), tensor_view<?xbf16, strides=[1]>>, tile<i32> -> tile<2048xbf16>, token
    %r = addf %p2, %q : tile<2048xbf16>
    %e = store_view_tko weak %r, %vc[%x] token = %t : tile<2048xbf16>, partition_view<tile=(2048), tensor_view<?xbf16, strides=[1]>>, tile<i32> -> token
    return
  }
}
