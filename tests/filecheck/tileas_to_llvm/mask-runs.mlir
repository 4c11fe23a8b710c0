// A diagonal's mask, of two constants that are added to scores: a word for 32 columns, whose bits are tested one by one, each in front
// of its choice, and two choices in front of their sums: all tests first would want 128 truth values, all choices 128 registers.
// RUN: tileiras-translate --mlir-to-cudatilebc --bytecode-version 13.4 %s -o %t.tileirbc
// RUN: tileiras --gpu-name sm_100 -O3 --emit llvm %t.tileirbc | filecheck %s
// RUN: tileiras --gpu-name sm_100 -O3 --emit ptx %t.tileirbc | filecheck %s --check-prefix=PTX

// CHECK: call i32 asm "bmsk.clamp.b32
// CHECK: [[A:%v[0-9]+]] = call i1 asm
// CHECK-NEXT: select i1 [[A]]
// CHECK-NEXT: [[B:%v[0-9]+]] = call i1 asm
// CHECK-NEXT: select i1 [[B]]
// CHECK: fadd <2 x float>
// CHECK: call i1 asm
// CHECK-NOT: icmp sle i32

// PTX: and.b32 t
// PTX: selp.f32
// PTX: and.b32 t
// PTX: selp.f32
// PTX: add.rn.f32x2
// PTX: and.b32 t
cuda_tile.module @m {
  entry @diagonal(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %first: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x128xf32>
    %low = constant <f32: -1.0e6> : tile<128x128xf32>
    %w = make_tensor_view %p, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %v = make_partition_view %w : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>
    %o = make_tensor_view %q, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %u = make_partition_view %o : partition_view<tile=(128), tensor_view<65536xf32, strides=[1]>>
    %a, %t = load_view_tko weak %v[%zero, %zero] : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
    %s = mmaf %a, %a, %none : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
    %i = iota : tile<128xi32>
    %f1 = reshape %first : tile<i32> -> tile<1xi32>
    %fs = broadcast %f1 : tile<1xi32> -> tile<128xi32>
    %c = addi %i, %fs : tile<128xi32>
    %c2 = reshape %c : tile<128xi32> -> tile<1x128xi32>
    %columns = broadcast %c2 : tile<1x128xi32> -> tile<128x128xi32>
    %r2 = reshape %i : tile<128xi32> -> tile<128x1xi32>
    %rows = broadcast %r2 : tile<128x1xi32> -> tile<128x128xi32>
    %m = cmpi less_than_or_equal %columns, %rows, signed : tile<128x128xi32> -> tile<128x128xi1>
    %k = select %m, %none, %low : tile<128x128xi1>, tile<128x128xf32>
    %sum = addf %s, %k : tile<128x128xf32>
    %g = reduce %sum dim=1 identities=[-1.0e30 : f32] : tile<128x128xf32> -> tile<128xf32>
    (%g0: tile<f32>, %g1: tile<f32>) {
      %g2 = maxf %g0, %g1 : tile<f32>
      yield %g2 : tile<f32>
    }
    %e = store_view_tko weak %g, %u[%zero] token = %t : tile<128xf32>, partition_view<tile=(128), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
