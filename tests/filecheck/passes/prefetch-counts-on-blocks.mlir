// Rows that aren't aligned go through registers to shared memory. Loaded an iteration ahead they would leave an SM room for one block,
// where their own iteration leaves it for two, which hide as much: they stay, and the kernel is held to the registers of two blocks.
// Beside a load agent (rows of one operand are aligned, and the copy engine loads them) an SM has one block of nine warps in any case:
// nothing is counted on, and the others run ahead.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_120 --print-ir-after=prefetch-to-registers -o %t.as 2> %t.ir
// RUN: filecheck %s --input-file=%t.ir
// RUN: tileiras-opt %s --to=llvm --gpu-name=sm_120 -o %t.ll
// RUN: filecheck %s --check-prefix=LLVM --input-file=%t.ll

// CHECK: IR dump after prefetch-to-registers
// CHECK: sym_name = "neither"{{.*}}counted_blocks = #builtin.int<2>
// CHECK: "scf.for"
// CHECK-NOT: "scf.if"
// CHECK: "nv_tileas.store_shared"
// CHECK: "nv_tileas.dot"
// CHECK: sym_name = "one"
// CHECK-NOT: counted_blocks
// CHECK: "scf.if"
// CHECK-NEXT: "nv_tileas.tiled_load"

// LLVM: sym_name = "neither"{{.*}}nvvm.reqntid = "256"{{.*}}nvvm.maxnreg = "128"
// LLVM: sym_name = "one"{{.*}}launch = {nvvm.reqntid = "288", nvvm.minctasm = "1"}
cuda_tile.module @m {
  entry @neither(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %r: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<128x128xf32>
    %a = make_tensor_view %p, shape = [2048, 511], strides = [511, 1] : tensor_view<2048x511xf16, strides=[511,1]>
    %b = make_tensor_view %q, shape = [511, 2047], strides = [2047, 1] : tensor_view<511x2047xf16, strides=[2047,1]>
    %c = make_tensor_view %r, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %va = make_partition_view %a : partition_view<tile=(128x64), padding_value = zero, tensor_view<2048x511xf16, strides=[511,1]>>
    %vb = make_partition_view %b : partition_view<tile=(64x128), padding_value = zero, tensor_view<511x2047xf16, strides=[2047,1]>>
    %vc = make_partition_view %c : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %sum = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<128x128xf32>) {
      %x, %tx = load_view_tko weak %va[%zero, %k] token = %t : partition_view<tile=(128x64), padding_value = zero, tensor_view<2048x511xf16, strides=[511,1]>>, tile<i32> -> tile<128x64xf16>, token
      %y, %ty = load_view_tko weak %vb[%k, %zero] token = %t : partition_view<tile=(64x128), padding_value = zero, tensor_view<511x2047xf16, strides=[2047,1]>>, tile<i32> -> tile<64x128xf16>, token
      %more = mmaf %x, %y, %acc : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %more : tile<128x128xf32>
    }
    %e = store_view_tko weak %sum, %vc[%zero, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
  entry @one(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %r: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<128x128xf32>
    %base = assume div_by<16>, %q : tile<ptr<f16>>
    %a = make_tensor_view %p, shape = [2048, 511], strides = [511, 1] : tensor_view<2048x511xf16, strides=[511,1]>
    %b = make_tensor_view %base, shape = [512, 2048], strides = [2048, 1] : tensor_view<512x2048xf16, strides=[2048,1]>
    %c = make_tensor_view %r, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %va = make_partition_view %a : partition_view<tile=(128x64), padding_value = zero, tensor_view<2048x511xf16, strides=[511,1]>>
    %vb = make_partition_view %b : partition_view<tile=(64x128), padding_value = zero, tensor_view<512x2048xf16, strides=[2048,1]>>
    %vc = make_partition_view %c : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %sum = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<128x128xf32>) {
      %x, %tx = load_view_tko weak %va[%zero, %k] token = %t : partition_view<tile=(128x64), padding_value = zero, tensor_view<2048x511xf16, strides=[511,1]>>, tile<i32> -> tile<128x64xf16>, token
      %y, %ty = load_view_tko weak %vb[%k, %zero] token = %t : partition_view<tile=(64x128), padding_value = zero, tensor_view<512x2048xf16, strides=[2048,1]>>, tile<i32> -> tile<64x128xf16>, token
      %more = mmaf %x, %y, %acc : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %more : tile<128x128xf32>
    }
    %e = store_view_tko weak %sum, %vc[%zero, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
