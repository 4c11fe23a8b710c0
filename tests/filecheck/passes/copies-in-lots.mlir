// Copies of later iterations stand among the steps of a product in lots of at least 32 instructions of the block's warps: 64 of 128x64
// and 64x128 in two, 16 of 32x64 and 64x32 in one, where each of the steps could have some. In the prologue they stand where they are.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_80 --print-ir-after=unspecialized-pipeline -o %t.as 2>&1 | filecheck %s
// RUN: tileiras-opt %s --to=llvm --gpu-name=sm_80 -o - | filecheck %s --check-prefix=LLVM
// RUN: sed 's/128x/32x/g; s/x128/x32/g; s/128, /32, /g; s/, 128]/, 32]/g; s/.128,1/[32,1/g; s/.128, 1/[32, 1/g' %s > %t.mlir
// RUN: tileiras-opt %t.mlir --to=nv_tileas --gpu-name=sm_80 --print-ir-after=unspecialized-pipeline -o %t.as 2>&1 | filecheck %s --check-prefix=FEW
// CHECK-NOT: spread
// CHECK: "scf.for"
// CHECK: "nv_tileas.tiled_copy"{{.*}}spread = #builtin.int<2>
// CHECK: "nv_tileas.tiled_copy"{{.*}}spread = #builtin.int<2>
// CHECK: "nv_tileas.dot"
// CHECK: "nv_tileas.producer_commit"
// FEW: "scf.for"
// FEW: "nv_tileas.tiled_copy"{{.*}}spread = #builtin.int<1>
// FEW: "nv_tileas.tiled_copy"{{.*}}spread = #builtin.int<1>
// FEW: "nv_tileas.dot"
// LLVM: ldmatrix
// LLVM: mma.m16n8k16
// LLVM: cp.async.cg
// LLVM: ldmatrix
// LLVM: mma.m16n8k16
// LLVM-NOT: cp.async.cg
// LLVM: ldmatrix
// LLVM: mma.m16n8k16
// LLVM: cp.async.cg
// LLVM: ldmatrix
// LLVM: mma.m16n8k16
// LLVM-NOT: cp.async.cg
// LLVM: cp.async.commit
cuda_tile.module @m {
  entry @product(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %r: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<128x128xf32>
    %a = assume div_by<16>, %p : tile<ptr<f16>>
    %b = assume div_by<16>, %q : tile<ptr<f16>>
    %wa = make_tensor_view %a, shape = [128, 4096], strides = [4096, 1] : tensor_view<128x4096xf16, strides=[4096,1]>
    %wb = make_tensor_view %b, shape = [4096, 128], strides = [128, 1] : tensor_view<4096x128xf16, strides=[128,1]>
    %wo = make_tensor_view %r, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %va = make_partition_view %wa : partition_view<tile=(128x64), tensor_view<128x4096xf16, strides=[4096,1]>>
    %vb = make_partition_view %wb : partition_view<tile=(64x128), tensor_view<4096x128xf16, strides=[128,1]>>
    %vo = make_partition_view %wo : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<128x128xf32>) {
      %x, %u = load_view_tko weak %va[%zero, %i] token = %t : partition_view<tile=(128x64), tensor_view<128x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<128x64xf16>, token
      %y, %w = load_view_tko weak %vb[%i, %zero] token = %t : partition_view<tile=(64x128), tensor_view<4096x128xf16, strides=[128,1]>>, tile<i32> -> tile<64x128xf16>, token
      %d = mmaf %x, %y, %acc : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %d : tile<128x128xf32>
    }
    %e = store_view_tko weak %sum, %vo[%zero, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
