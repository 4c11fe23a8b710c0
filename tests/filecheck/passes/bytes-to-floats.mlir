// Bytes become floats of 16 bits four at a time: below the exponent of a power of two, which a subtraction takes away. Shifts of bytes
// are shifts of words.
// RUN: tileiras-opt %s --to=llvm --gpu-name=sm_90 | filecheck %s

// CHECK: 1684300900
// CHECK: "llvm.lshr"
// CHECK: "llvm.and"
// CHECK: instruction = "prmt"
// CHECK: "llvm.fsub"
cuda_tile.module @m {
  entry @halves(%p: tile<ptr<i8>>, %q: tile<ptr<f16>>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %four = constant <i8: 4> : tile<1024xi8>
    %pa = assume div_by<16>, %p : tile<ptr<i8>>
    %qa = assume div_by<16>, %q : tile<ptr<f16>>
    %a = make_tensor_view %pa, shape = [1024], strides = [1] : tensor_view<1024xi8, strides=[1]>
    %b = make_tensor_view %qa, shape = [1024], strides = [1] : tensor_view<1024xf16, strides=[1]>
    %from = make_partition_view %a : partition_view<tile=(1024), tensor_view<1024xi8, strides=[1]>>
    %to = make_partition_view %b : partition_view<tile=(1024), tensor_view<1024xf16, strides=[1]>>
    %x, %u = load_view_tko weak %from[%zero] token = %t : partition_view<tile=(1024), tensor_view<1024xi8, strides=[1]>>, tile<i32> -> tile<1024xi8>, token
    %y = shri %x, %four unsigned : tile<1024xi8>
    %f = itof %y unsigned : tile<1024xi8> -> tile<1024xf16>
    %s = store_view_tko weak %f, %to[%zero] token = %t : tile<1024xf16>, partition_view<tile=(1024), tensor_view<1024xf16, strides=[1]>>, tile<i32> -> token
    return
  }
}
