// Operands of a dot go to buffers of their own, whose rows ldmatrix can read.
// RUN: tileiras-opt %s --to=nv_tileaa -O0 -o %t.aa
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,choose-atoms,assign-load-store-layouts,stage-operands --gpu-name=sm_80 | filecheck %s

// CHECK: [[A:%[0-9]+]] = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<f16, #nv_tileas.shared<shape = [64x32]
// CHECK-NEXT: "nv_tileas.store_shared"(%{{[0-9]+}}, [[A]])
// CHECK-NEXT: [[B:%[0-9]+]] = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<f16, #nv_tileas.shared<shape = [32x64]
// CHECK-NEXT: "nv_tileas.store_shared"(%{{[0-9]+}}, [[B]])
// CHECK-NEXT: "nv_tileas.dot"([[A]], [[B]], %{{[0-9]+}}) <{atom = "mma.m16n8k16.row.col.f32.f32"}>
cuda_tile.module @m {
  entry @dots(%p: tile<ptr<f32>>) {
    %a = constant <f16: 1.0> : tile<64x32xf16>
    %b = constant <f16: 2.0> : tile<32x64xf16>
    %c = constant <f32: 0.0> : tile<64x64xf32>
    %d = mmaf %a, %b, %c : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
    print_tko "%f", %d : tile<64x64xf32> -> token
    return
  }
}
