// Prefixes may be there or not, the generic form and aliases too; it prints one way.
// RUN: tileiras-opt %s | filecheck %s
// RUN: tileiras-opt %s | tileiras-opt - | filecheck %s
// RUN: tileiras-opt %s --mlir-print-op-generic | filecheck %s --check-prefix=GENERIC

!row = !cuda_tile.tile<8xf32>

// CHECK: cuda_tile.module @forms {
// GENERIC: "cuda_tile.module"() <{sym_name = "forms"}> ({
cuda_tile.module @forms {
  // CHECK-NEXT: entry @short(%arg0: tile<ptr<f32>>, %arg1: tile<i32>) {
  cuda_tile.entry @short(%p: !cuda_tile.tile<!cuda_tile.ptr<f32>>, %n: tile<i32>) {
    // CHECK-NEXT: %cst_1_f32 = constant <f32: 1.000000e+00> : tile<8xf32>
    // GENERIC: "cuda_tile.constant"() <{value = #cuda_tile.dense<"0x0000803F"> : !cuda_tile.tile<8xf32>}>
    %one = cuda_tile.constant <f32: 1.0> : !row
    // CHECK-NEXT: %cst_1_f32_0 = constant <f32: 1.000000e+00> : tile<8xf32>
    %two = "cuda_tile.constant"() <{value = dense<1.0> : !row}> : () -> !row
    // CHECK-NEXT: %0 = addf %cst_1_f32, %cst_1_f32_0  : tile<8xf32>
    // GENERIC: "cuda_tile.addf"(%{{[0-9]+}}, %{{[0-9]+}}) <{rounding_mode = #cuda_tile.rounding<nearest_even>}>
    %sum = cuda_tile.addf %one, %two rounding<nearest_even> : !cuda_tile.tile<8xf32>
    // CHECK-NEXT: %assume = assume div_by<16>, %arg1 : tile<i32>
    %known = assume #cuda_tile.div_by<16>, %n : tile<i32>
    // CHECK-NEXT: return
  }
}
