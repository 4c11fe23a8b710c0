// Quotients of numbers of either sign by a power of two: a shift, and what a rest adds. By other positive numbers one comparison of the
// rest says which way the quotient towards zero was off.
// RUN: tileiras-translate --mlir-to-cudatilebc --bytecode-version 13.4 %s -o %t.tileirbc
// RUN: tileiras --gpu-name sm_90 -O0 --emit llvm %t.tileirbc | filecheck %s

cuda_tile.module @m {
  // CHECK: define {{.*}}@quotients(
  // CHECK-NOT: sdiv
  // CHECK: [[BITS:%.*]] = and i32 [[X:%.*]], 63
  // CHECK-NEXT: ashr i32 [[X]], 6
  // CHECK-NEXT: icmp ne i32 [[BITS]], 0
  // CHECK: [[QUOTIENT:%.*]] = sdiv i32 [[X]], 6
  // CHECK-NEXT: [[PRODUCT:%.*]] = mul i32 [[QUOTIENT]], 6
  // CHECK-NEXT: [[REST:%.*]] = sub i32 [[X]], [[PRODUCT]]
  // CHECK-NEXT: icmp sgt i32 [[REST]], 0
  // CHECK-NOT: icmp ne i32 [[REST]]
  // CHECK: ret void
  entry @quotients(%p: tile<ptr<i32>>, %x: tile<i32>) {
    %c64 = constant <i32: 64> : tile<i32>
    %c6 = constant <i32: 6> : tile<i32>
    %a = divi %x, %c64 signed rounding<positive_inf> : tile<i32>
    %b = divi %x, %c6 signed rounding<positive_inf> : tile<i32>
    %sum = addi %a, %b : tile<i32>
    %t = store_ptr_tko weak %p, %sum : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
