// Two arrays' loads: all the second one's addresses and bounds are computed before the first load is made, from sm_100 on, where
// parameters come by counted loads of their own. What is computed with the first tile, and the first array's other places, which need
// no further parameter, stay behind its load.
// RUN: tileiras-opt %s --to=llvm --gpu-name=sm_100 | filecheck %s
// RUN: tileiras-opt %s --to=llvm --gpu-name=sm_90 | filecheck %s --check-prefix=BEFORE

// CHECK: "llvm.icmp"({{.*}}, [[N:%[0-9]+]])
// CHECK-COUNT-4: "llvm.icmp"({{.*}}, [[M:%[0-9]+]])
// CHECK: "ld.global.b32.if"
// CHECK: "llvm.icmp"({{.*}}, [[N]])
// CHECK: "ld.global.b32.if"
// CHECK: "llvm.fmul"
// CHECK-NOT: llvm.getelementptr
// CHECK-NOT: llvm.icmp
// CHECK-COUNT-4: "ld.global.b32.if"

// BEFORE: "ld.global.b32.if"
// BEFORE: "llvm.getelementptr"
// BEFORE: "ld.global.b32.if"
cuda_tile.module @m {
  entry @two(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %c: tile<ptr<f32>>, %n: tile<i32>, %m: tile<i32>) {
    %t = make_token : token
    %x, %y, %z = get_tile_block_id : tile<i32>
    %wa = make_tensor_view %a, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %va = make_partition_view %wa : partition_view<tile=(256), tensor_view<?xf32, strides=[1]>>
    %wb = make_tensor_view %b, shape = [%m], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %vb = make_partition_view %wb : partition_view<tile=(256), tensor_view<?xf32, strides=[1]>>
    %wc = make_tensor_view %c, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %vc = make_partition_view %wc : partition_view<tile=(256), tensor_view<?xf32, strides=[1]>>
    %p, %pt = load_view_tko weak %va[%x] token = %t : partition_view<tile=(256), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<256xf32>, token
    %p2 = mulf %p, %p : tile<256xf32>
    %q, %qt = load_view_tko weak %vb[%x] token = %t : partition_view<tile=(256), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<256xf32>, token
    %r = addf %p2, %q : tile<256xf32>
    %e = store_view_tko weak %r, %vc[%x] token = %t : tile<256xf32>, partition_view<tile=(256), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
