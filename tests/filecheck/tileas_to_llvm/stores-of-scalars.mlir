// What all threads of a block's one warp hold they store together: nobody asks for the thread's number. With an order, or in a block of
// several warps, the first thread stores it.
// RUN: tileiras-translate --mlir-to-cudatilebc --bytecode-version 13.4 %s -o %t.tileirbc
// RUN: tileiras --gpu-name sm_80 -O3 --emit ptx %t.tileirbc | filecheck %s

cuda_tile.module @m {
  // CHECK: .entry weak(
  // CHECK: .reqntid 32
  // CHECK-NOT: %tid
  // CHECK-NOT: @%p
  // CHECK: st.global.b32
  // CHECK: ret;
  entry @weak(%p: tile<ptr<i32>>, %x: tile<i32>) {
    %s = store_ptr_tko weak %p, %x : tile<ptr<i32>>, tile<i32> -> token
    return
  }

  // CHECK: .entry ordered(
  // CHECK: %tid.x
  // CHECK: @%p{{.*}} {{bra|st.relaxed}}
  // CHECK: ret;
  entry @ordered(%p: tile<ptr<i32>>, %x: tile<i32>) {
    %s = store_ptr_tko relaxed device %p, %x : tile<ptr<i32>>, tile<i32> -> token
    return
  }

  // One thread may tell others of what is stored: it knows of its own store only.
  // CHECK: .entry told(
  // CHECK: %tid.x
  // CHECK: @%p{{.*}} {{bra|st.global.b32}}
  // CHECK: ret;
  entry @told(%p: tile<ptr<i32>>, %f: tile<ptr<i32>>, %x: tile<i32>) {
    %s = store_ptr_tko weak %p, %x : tile<ptr<i32>>, tile<i32> -> token
    %r = store_ptr_tko release device %f, %x token = %s : tile<ptr<i32>>, tile<i32> -> token
    return
  }

  // CHECK: .entry several(
  // CHECK: .reqntid 128
  // CHECK: %tid.x
  // CHECK: @%p{{.*}} {{bra|st.global.b32}}
  // CHECK: ret;
  entry @several(%p: tile<ptr<i32>>, %x: tile<i32>) {
    %c = constant <i32: 1> : tile<1024xi32>
    %w = make_tensor_view %p, shape = [1024], strides = [1] : tensor_view<1024xi32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(1024), tensor_view<1024xi32, strides=[1]>>
    %i = constant <i32: 0> : tile<i32>
    %t = store_view_tko weak %c, %v[%i] : tile<1024xi32>, partition_view<tile=(1024), tensor_view<1024xi32, strides=[1]>>, tile<i32> -> token
    %s = store_ptr_tko weak %p, %x token = %t : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
