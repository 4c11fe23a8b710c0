// Arrays of a length that nobody knows to be a multiple of anything: where a thread's elements are all in bounds it moves eight at a
// time, also where all of eight are or none, and one after the other elsewhere. Two loads look at bounds together. Through pointers a mask says what is in bounds; one that
// picks elements here and there is left alone, as are accesses of eight bytes, few elements a thread, and what a release tells of.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 -O 0 | filecheck %s --check-prefix=PLAIN
// RUN: tileiras-opt %s --to=llvm --gpu-name=sm_80 | filecheck %s --check-prefix=LLVM

// CHECK: sym_name = "views"
// CHECK: "nv_tileas.tiled_load"{{.*}}runs = [#builtin.int<8>]{{.*}}narrow = #builtin.int<1>
// CHECK: "nv_tileas.tiled_load"{{.*}}runs = [#builtin.int<8>]{{.*}}narrow = #builtin.int<1>
// CHECK: "nv_tileas.tiled_store"{{.*}}runs = [#builtin.int<8>]{{.*}}narrow = #builtin.int<1>
// CHECK: sym_name = "pointers"
// CHECK: "nv_tileas.load"{{.*}}runs = [#builtin.int<4>]{{.*}}narrow = #builtin.int<1>
// CHECK: "nv_tileas.store"{{.*}}runs = [#builtin.int<4>]{{.*}}narrow = #builtin.int<1>
// CHECK: sym_name = "left_alone"
// CHECK-NOT: narrow
// PLAIN-NOT: narrow

// LLVM: sym_name = "views"
// LLVM: llvm.cond_br
// LLVM: "llvm.load"{{.*}}vector<4xi32>
// LLVM: "llvm.load"{{.*}}vector<4xi32>
// LLVM: llvm.br
// LLVM: llvm.cond_br
// LLVM-NOT: ld.global.b16.if
// LLVM: ld.global.v4.b32.if
// LLVM: ld.global.v4.b32.if
// LLVM: llvm.br
// LLVM: ld.global.b16.if
// LLVM: llvm.br
// LLVM: llvm.cond_br
// LLVM: llvm.store
// LLVM: llvm.cond_br
// LLVM-NOT: st.global.b16.if
// LLVM: st.global.v4.b32.if
// LLVM: st.global.b16.if
cuda_tile.module @m {
  entry @views(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %r: tile<ptr<f16>>, %n: tile<i32>) {
    %i, %j, %k = get_tile_block_id : tile<i32>
    %p1 = assume div_by<16>, %p : tile<ptr<f16>>
    %q1 = assume div_by<16>, %q : tile<ptr<f16>>
    %r1 = assume div_by<16>, %r : tile<ptr<f16>>
    %wp = make_tensor_view %p1, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf16, strides=[1]>
    %wq = make_tensor_view %q1, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf16, strides=[1]>
    %wr = make_tensor_view %r1, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf16, strides=[1]>
    %vp = make_partition_view %wp : partition_view<tile=(1024), padding_value = zero, tensor_view<?xf16, strides=[1]>>
    %vq = make_partition_view %wq : partition_view<tile=(1024), padding_value = zero, tensor_view<?xf16, strides=[1]>>
    %vr = make_partition_view %wr : partition_view<tile=(1024), tensor_view<?xf16, strides=[1]>>
    %x, %tx = load_view_tko weak %vp[%i] : partition_view<tile=(1024), padding_value = zero, tensor_view<?xf16, strides=[1]>>, tile<i32> -> tile<1024xf16>, token
    %y, %ty = load_view_tko weak %vq[%i] : partition_view<tile=(1024), padding_value = zero, tensor_view<?xf16, strides=[1]>>, tile<i32> -> tile<1024xf16>, token
    %z = addf %x, %y : tile<1024xf16>
    %t = store_view_tko weak %z, %vr[%i] : tile<1024xf16>, partition_view<tile=(1024), tensor_view<?xf16, strides=[1]>>, tile<i32> -> token
    return
  }
  entry @pointers(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %i, %j, %k = get_tile_block_id : tile<i32>
    %size = constant <i32: 2048> : tile<i32>
    %p1 = assume div_by<16>, %p : tile<ptr<f32>>
    %first = muli %i, %size : tile<i32>
    %r = reshape %first : tile<i32> -> tile<1xi32>
    %b = broadcast %r : tile<1xi32> -> tile<2048xi32>
    %iota = iota : tile<2048xi32>
    %at = addi %b, %iota : tile<2048xi32>
    %nr = reshape %n : tile<i32> -> tile<1xi32>
    %nb = broadcast %nr : tile<1xi32> -> tile<2048xi32>
    %mask = cmpi less_than %at, %nb, signed : tile<2048xi32> -> tile<2048xi1>
    %pr = reshape %p1 : tile<ptr<f32>> -> tile<1xptr<f32>>
    %pb = broadcast %pr : tile<1xptr<f32>> -> tile<2048xptr<f32>>
    %ptrs = offset %pb, %at : tile<2048xptr<f32>>, tile<2048xi32> -> tile<2048xptr<f32>>
    %zero = constant <f32: 0.0> : tile<2048xf32>
    %x, %tx = load_ptr_tko weak %ptrs, %mask, %zero : tile<2048xptr<f32>>, tile<2048xi1>, tile<2048xf32> -> tile<2048xf32>, token
    %y = exp %x : tile<2048xf32>
    %t = store_ptr_tko weak %ptrs, %y, %mask token = %tx : tile<2048xptr<f32>>, tile<2048xf32>, tile<2048xi1> -> token
    return
  }
  entry @left_alone(%p: tile<ptr<f64>>, %q: tile<ptr<f16>>, %n: tile<i32>) {
    %i, %j, %k = get_tile_block_id : tile<i32>
    %p1 = assume div_by<16>, %p : tile<ptr<f64>>
    %q1 = assume div_by<16>, %q : tile<ptr<f16>>
    %wp = make_tensor_view %p1, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf64, strides=[1]>
    %wq = make_tensor_view %q1, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf16, strides=[1]>
    %vp = make_partition_view %wp : partition_view<tile=(1024), padding_value = zero, tensor_view<?xf64, strides=[1]>>
    %vq = make_partition_view %wq : partition_view<tile=(64), padding_value = zero, tensor_view<?xf16, strides=[1]>>
    %vr = make_partition_view %wq : partition_view<tile=(2048), tensor_view<?xf16, strides=[1]>>
    %x, %tx = load_view_tko weak %vp[%i] : partition_view<tile=(1024), padding_value = zero, tensor_view<?xf64, strides=[1]>>, tile<i32> -> tile<1024xf64>, token
    %t = store_view_tko weak %x, %vp[%j] : tile<1024xf64>, partition_view<tile=(1024), padding_value = zero, tensor_view<?xf64, strides=[1]>>, tile<i32> -> token
    %y, %ty = load_view_tko weak %vq[%i] : partition_view<tile=(64), padding_value = zero, tensor_view<?xf16, strides=[1]>>, tile<i32> -> tile<64xf16>, token
    %u = store_view_tko weak %y, %vq[%j] : tile<64xf16>, partition_view<tile=(64), padding_value = zero, tensor_view<?xf16, strides=[1]>>, tile<i32> -> token
    %h = constant <f16: 1.0> : tile<2048xf16>
    %s = store_view_tko release device %h, %vr[%i] : tile<2048xf16>, partition_view<tile=(2048), tensor_view<?xf16, strides=[1]>>, tile<i32> -> token
    return
  }
}
