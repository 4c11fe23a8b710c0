// Integers of 32 bits that a mask keeps small become f16 two at a time, below an exponent that the mask's own instruction puts there. Of
// those that may lie further apart, or where f16 doesn't have each number, each is converted.
// RUN: tileiras-translate --mlir-to-cudatilebc --bytecode-version 13.4 %s -o %t.tileirbc
// RUN: tileiras --gpu-name sm_90 -O3 --emit nv_tileas %t.tileirbc -o %t.as
// RUN: filecheck %s --check-prefix=AS --input-file=%t.as
// RUN: tileiras --gpu-name sm_90 -O3 --emit ptx %t.tileirbc -o %t.ptx
// RUN: filecheck %s --check-prefix=PTX --input-file=%t.ptx

// AS: sym_name = "nibbles"
// AS: "arith.sitofp"({{.*}}) <{rounding = "nearest_even", bounds = [#builtin.int<-8>, #builtin.int<7>]}>
// AS: sym_name = "wide"
// AS: "arith.sitofp"({{.*}}) <{rounding = "nearest_even"}>

// PTX: .entry nibbles(
// PTX-NOT: cvt.rn.f16
// PTX: or.b32 {{.*}}, 25600;
// PTX: prmt.b32 {{.*}}, 0x5410U;
// PTX: {{(add|sub).*f16x2}}
// PTX: .entry wide(
// PTX-NOT: prmt
// PTX: cvt.rn.f16.
cuda_tile.module @m {
  entry @nibbles(%p: tile<ptr<i32>>, %q: tile<ptr<f16>>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %most = constant <i32: 15> : tile<256xi32>
    %middle = constant <i32: 8> : tile<256xi32>
    %a = assume div_by<16>, %p : tile<ptr<i32>>
    %b = assume div_by<16>, %q : tile<ptr<f16>>
    %v = make_tensor_view %a, shape = [4096], strides = [1] : tensor_view<4096xi32, strides=[1]>
    %w = make_tensor_view %b, shape = [4096], strides = [1] : tensor_view<4096xf16, strides=[1]>
    %vp = make_partition_view %v : partition_view<tile=(256), tensor_view<4096xi32, strides=[1]>>
    %wp = make_partition_view %w : partition_view<tile=(256), tensor_view<4096xf16, strides=[1]>>
    %x, %u = load_view_tko weak %vp[%zero] token = %t : partition_view<tile=(256), tensor_view<4096xi32, strides=[1]>>, tile<i32> -> tile<256xi32>, token
    %m = andi %x, %most : tile<256xi32>
    %s = subi %m, %middle : tile<256xi32>
    %f = itof %s signed : tile<256xi32> -> tile<256xf16>
    %e = store_view_tko weak %f, %wp[%zero] token = %t : tile<256xf16>, partition_view<tile=(256), tensor_view<4096xf16, strides=[1]>>, tile<i32> -> token
    return
  }
  entry @wide(%p: tile<ptr<i32>>, %q: tile<ptr<f16>>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %most = constant <i32: 2047> : tile<256xi32>
    %a = assume div_by<16>, %p : tile<ptr<i32>>
    %b = assume div_by<16>, %q : tile<ptr<f16>>
    %v = make_tensor_view %a, shape = [4096], strides = [1] : tensor_view<4096xi32, strides=[1]>
    %w = make_tensor_view %b, shape = [4096], strides = [1] : tensor_view<4096xf16, strides=[1]>
    %vp = make_partition_view %v : partition_view<tile=(256), tensor_view<4096xi32, strides=[1]>>
    %wp = make_partition_view %w : partition_view<tile=(256), tensor_view<4096xf16, strides=[1]>>
    %x, %u = load_view_tko weak %vp[%zero] token = %t : partition_view<tile=(256), tensor_view<4096xi32, strides=[1]>>, tile<i32> -> tile<256xi32>, token
    %m = andi %x, %most : tile<256xi32>
    %f = itof %m signed : tile<256xi32> -> tile<256xf16>
    %e = store_view_tko weak %f, %wp[%zero] token = %t : tile<256xf16>, partition_view<tile=(256), tensor_view<4096xf16, strides=[1]>>, tile<i32> -> token
    return
  }
}
