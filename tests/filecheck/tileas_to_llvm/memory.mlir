// Memory ops to PTX: the fence between aliases, memory of the heap, an atomic without an instruction of its own; and a
// function with a long way, which stands behind one branch.
// RUN: tileiras-translate --mlir-to-cudatilebc --bytecode-version 13.4 %s -o %t.tileirbc
// RUN: tileiras --gpu-name sm_80 -O3 --emit ptx %t.tileirbc | filecheck %s
// RUN: tileiras --gpu-name sm_90 -O3 --emit ptx %t.tileirbc | filecheck %s --check-prefix=SM90

cuda_tile.module @m {
  // CHECK: .entry alias(
  // CHECK: st.global
  // CHECK: fence.proxy.alias;
  // CHECK: bar
  // CHECK: ld.global
  entry @alias(%p: tile<ptr<f32>>) {
    %c = constant <f32: 1.0> : tile<256xf32>
    %w = make_tensor_view %p, shape = [512], strides = [1] : tensor_view<512xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(256), tensor_view<512xf32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %s = store_view_tko weak %c, %v[%x] : tile<256xf32>, partition_view<tile=(256), tensor_view<512xf32, strides=[1]>>, tile<i32> -> token
    %f = memory_fence_alias_tko %s
    %d, %l = load_view_tko weak %v[%x] token = %f : partition_view<tile=(256), tensor_view<512xf32, strides=[1]>>, tile<i32> -> tile<256xf32>, token
    %e = store_view_tko weak %d, %v[%y] token = %l : tile<256xf32>, partition_view<tile=(256), tensor_view<512xf32, strides=[1]>>, tile<i32> -> token
    return
  }

  // CHECK: .entry heap(
  // CHECK: call.uni (retval0), __cuda_syscall_aligned_malloc
  // CHECK: trap;
  // CHECK: call.uni free
  // CHECK: ret;
  entry @heap(%p: tile<ptr<i64>>) {
    %a = alloca num_elem = 64, alignment = 128 global : tile<ptr<f32>>
    %i = ptr_to_int %a : tile<ptr<f32>> -> tile<i64>
    %s = store_ptr_tko release device %p, %i : tile<ptr<i64>>, tile<i64> -> token
    return
  }

  // CHECK: .entry add(
  // CHECK: ld.relaxed.gpu.global.b16
  // CHECK: add.rn.f32
  // CHECK: cvt.rn.bf16.f32
  // CHECK: atom.acq_rel.gpu.global.cas.b16
  // SM90: .entry add(
  // SM90: atom.acq_rel.gpu.global.add.noftz.bf16
  entry @add(%p: tile<ptr<bf16>>, %x: tile<bf16>) {
    %o, %t = atomic_rmw_tko acq_rel device %p, addf, %x : tile<ptr<bf16>>, tile<bf16> -> tile<bf16>, token
    return
  }

  // CHECK: .entry sine(
  // CHECK: .pragma "nounroll";
  // CHECK-NOT: .pragma "nounroll";
  // CHECK: ret;
  entry @sine(%p: tile<ptr<f32>>) {
    %w = make_tensor_view %p, shape = [1024], strides = [1] : tensor_view<1024xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(1024), tensor_view<1024xf32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %d, %l = load_view_tko weak %v[%x] : partition_view<tile=(1024), tensor_view<1024xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
    %r = sin %d : tile<1024xf32>
    %e = store_view_tko weak %r, %v[%x] token = %l : tile<1024xf32>, partition_view<tile=(1024), tensor_view<1024xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
