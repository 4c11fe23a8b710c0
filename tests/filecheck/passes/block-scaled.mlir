// A block-scaled product stays one where the target multiplies such operands itself, and is widened to bf16 elsewhere.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_120 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_121 -O0 | filecheck %s --check-prefix=PARTED
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_100 -O0 | filecheck %s --check-prefix=WIDE

// CHECK: "nv_tileas.dot_scaled"({{.*}}) <{atom = "mma.block.scale.m16n8k32.row.col.mxf8f6f4.scale.1x.f32.e4m3.e4m3.f32.ue8m0"}>
// CHECK: "nv_tileas.dot_scaled"({{.*}}) <{packed, block = #builtin.int<32>, atom = "mma.block.scale.m16n8k64.row.col.mxf4.scale.2x.f32.e2m1.e2m1.f32.ue8m0.packed"}>
// CHECK: "nv_tileas.dot_scaled"({{.*}}) <{packed, block = #builtin.int<16>, atom = "mma.block.scale.m16n8k64.row.col.mxf4nvf4.scale.4x.f32.e2m1.e2m1.f32.ue4m3.packed"}>
// PARTED: "nv_tileas.dot_scaled"({{.*}}) <{atom = "mma.block.scale.m16n8k32.row.col.mxf8f6f4.scale.1x.f32.e4m3.e4m3.f32.ue8m0"}>
// PARTED: "nv_tileas.dot_scaled"({{.*}}) <{atom = "mma.block.scale.m16n8k64.row.col.mxf4.scale.2x.f32.e2m1.e2m1.f32.ue8m0"}>
// PARTED: "nv_tileas.dot_scaled"({{.*}}) <{atom = "mma.block.scale.m16n8k64.row.col.mxf4nvf4.scale.4x.f32.e2m1.e2m1.f32.ue4m3"}>
// WIDE-NOT: dot_scaled
// WIDE: "nv_tileaa.dot"({{.*}}) : (tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>)
cuda_tile.module @m {
  entry @products(%p: tile<ptr<f32>>) {
    %acc = constant <f32: 0.0> : tile<64x64xf32>
    %a = constant <f8E4M3FN: 1.0> : tile<64x64xf8E4M3FN>
    %b = constant <f8E4M3FN: 2.0> : tile<64x64xf8E4M3FN>
    %sa = constant <f8E8M0FNU: 1.0> : tile<64x2xf8E8M0FNU>
    %sb = constant <f8E8M0FNU: 2.0> : tile<2x64xf8E8M0FNU>
    %d = mmaf_scaled %a, %b, %acc, %sa, %sb : tile<64x64xf8E4M3FN>, tile<64x64xf8E4M3FN>, tile<64x64xf32>, tile<64x2xf8E8M0FNU>, tile<2x64xf8E8M0FNU>
    %x = constant <f4E2M1FN: 1.0> : tile<64x64xf4E2M1FN>
    %y = constant <f4E2M1FN: 2.0> : tile<64x64xf4E2M1FN>
    %e = mmaf_scaled %x, %y, %d, %sa, %sb : tile<64x64xf4E2M1FN>, tile<64x64xf4E2M1FN>, tile<64x64xf32>, tile<64x2xf8E8M0FNU>, tile<2x64xf8E8M0FNU>
    %sc = constant <f8E4M3FN: 1.0> : tile<64x4xf8E4M3FN>
    %sd = constant <f8E4M3FN: 2.0> : tile<4x64xf8E4M3FN>
    %f = mmaf_scaled %x, %y, %e, %sc, %sd : tile<64x64xf4E2M1FN>, tile<64x64xf4E2M1FN>, tile<64x64xf32>, tile<64x4xf8E4M3FN>, tile<4x64xf8E4M3FN>
    print_tko "%f", %f : tile<64x64xf32> -> token
    return
  }
}
