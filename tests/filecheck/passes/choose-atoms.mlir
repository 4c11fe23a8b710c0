// A dot gets the largest instruction that its types and extents have on the target; without one it multiplies and adds.
// RUN: tileiras-opt %s --to=nv_tileaa -O0 -o %t.aa
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,choose-atoms --gpu-name=sm_80 | filecheck %s
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,choose-atoms --gpu-name=sm_75 | filecheck %s --check-prefix=SM75

// CHECK: "nv_tileas.dot"({{.*}}) <{atom = "mma.m16n8k16.row.col.f32.f32", k_slices = #builtin.int<1>}> : (tensor<64x32xf16>
// CHECK: "nv_tileas.dot"({{.*}}) <{k_slices = #builtin.int<1>}> : (tensor<64x32xf32>
// SM75: "nv_tileas.dot"({{.*}}) <{atom = "mma.m16n8k8.row.col.f32.f32", k_slices = #builtin.int<1>}> : (tensor<64x32xf16>
cuda_tile.module @m {
  entry @dots(%p: tile<ptr<f32>>) {
    %a = constant <f16: 1.0> : tile<64x32xf16>
    %b = constant <f16: 2.0> : tile<32x64xf16>
    %c = constant <f32: 0.0> : tile<64x64xf32>
    %d = mmaf %a, %b, %c : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
    %e = constant <f32: 1.0> : tile<64x32xf32>
    %f = constant <f32: 2.0> : tile<32x64xf32>
    %g = mmaf %e, %f, %d : tile<64x32xf32>, tile<32x64xf32>, tile<64x64xf32>
    print_tko "%f", %g : tile<64x64xf32> -> token
    return
  }
}
