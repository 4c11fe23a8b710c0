// A tile of many rows a thread: how many rows are left is computed once and compared with constants. Row and place are one number
// of 32 bits, by which the stride is multiplied once.
// RUN: tileiras-translate --mlir-to-cudatilebc --bytecode-version 13.4 %s -o %t.tileirbc
// RUN: tileiras --gpu-name sm_80 -O3 --emit ptx %t.tileirbc | filecheck %s

// CHECK: .entry copy(
// CHECK: mul.wide.s32
// CHECK: max.u32 %[[MOST:r[0-9]+]]
// CHECK-NEXT: sub.s32 %[[LEFT:r[0-9]+]], %[[MOST]],
// CHECK: setp.gt.u32 {{.*}}, %[[LEFT]], 2;
// CHECK-NOT: mul.lo.s64
// CHECK: ret;
cuda_tile.module @m {
  entry @copy(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %m: tile<i32>, %n: tile<i32>, %s: tile<i32>) {
    %x, %y, %z = get_tile_block_id : tile<i32>
    %t = make_token : token
    %w = make_tensor_view %p, shape = [%m, %n], strides = [%s, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %v = make_partition_view %w : partition_view<tile=(64x64), tensor_view<?x?xf32, strides=[?,1]>>
    %a = make_tensor_view %q, shape = [%m, %n], strides = [%s, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %b = make_partition_view %a : partition_view<tile=(64x64), tensor_view<?x?xf32, strides=[?,1]>>
    %d, %l = load_view_tko weak %v[%x, %y] token = %t : partition_view<tile=(64x64), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> tile<64x64xf32>, token
    %e = store_view_tko weak %d, %b[%x, %y] token = %l : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
    return
  }
}
