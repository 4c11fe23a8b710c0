// A dot gets the largest instruction that its types and extents have on the target; without one it multiplies and adds.
// RUN: tileiras-opt %s --to=nv_tileaa -O0 -o %t.aa
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,choose-atoms --gpu-name=sm_80 | filecheck %s
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,choose-atoms --gpu-name=sm_75 | filecheck %s --check-prefix=SM75

// CHECK: "nv_tileas.dot"({{.*}}) <{atom = "mma.m16n8k16.row.col.f32.f32", k_slices = #builtin.int<1>}> : (tensor<64x32xf16>
// CHECK: "nv_tileas.dot"({{.*}}) <{k_slices = #builtin.int<1>}> : (tensor<64x32xf32>
// SM75: "nv_tileas.dot"({{.*}}) <{atom = "mma.m16n8k8.row.col.f32.f32", k_slices = #builtin.int<1>}> : (tensor<64x32xf16>

// Warpgroups multiply on sm_90 unless the kernel prints; sums of bytes begin anew, and are added, without fast_acc.
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,choose-atoms --gpu-name=sm_90 | filecheck %s --check-prefix=SM90
// SM90-LABEL: sym_name = "dots"
// SM90: "nv_tileas.dot"({{.*}}) <{atom = "mma.m16n8k16.row.col.f32.f32", k_slices = #builtin.int<1>}> : (tensor<64x32xf16>
// SM90-LABEL: sym_name = "silent"
// SM90: "nv_tileas.dot"({{.*}}) <{atom = "sm90.mma.m64n64k16.f32.f16.f16.ss", k_slices = #builtin.int<1>}> : (tensor<64x32xf16>
// SM90-LABEL: sym_name = "bytes"
// SM90: [[C:%[0-9]+]], %{{[0-9]+}} = "nv_tileas.tiled_load"
// SM90: [[Z:%[0-9]+]] = "arith.constant"() <{value = 0.000000e+00 : f32}>
// SM90-NEXT: [[P:%[0-9]+]] = "nv_tileas.dot"({{%[0-9]+, %[0-9]+}}, [[Z]]) <{atom = "sm90.mma.m64n64k32.f32.e4m3.e4m3.ss"
// SM90-NEXT: "arith.addf"([[C]], [[P]])
// SM90: "nv_tileas.dot"({{%[0-9]+, %[0-9]+}}, [[C]]) <{fast_acc, atom = "sm90.mma.m64n64k32.f32.e4m3.e4m3.ss"
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

  entry @silent(%p: tile<ptr<f32>>) {
    %a = constant <f16: 1.0> : tile<64x32xf16>
    %b = constant <f16: 2.0> : tile<32x64xf16>
    %c = constant <f32: 0.0> : tile<64x64xf32>
    %d = mmaf %a, %b, %c : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %w = make_tensor_view %p, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %v = make_partition_view %w : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %s = store_view_tko weak %d, %v[%i, %i] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }

  entry @bytes(%p: tile<ptr<f32>>) {
    %a = constant <f8E4M3FN: 1.0> : tile<64x32xf8E4M3FN>
    %b = constant <f8E4M3FN: 2.0> : tile<32x64xf8E4M3FN>
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %w = make_tensor_view %p, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %v = make_partition_view %w : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %c, %u = load_view_tko weak %v[%i, %i] token = %t : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> tile<64x64xf32>, token
    %d = mmaf %a, %b, %c : tile<64x32xf8E4M3FN>, tile<32x64xf8E4M3FN>, tile<64x64xf32>
    %e = mmaf %a, %b, %c fast_acc : tile<64x32xf8E4M3FN>, tile<32x64xf8E4M3FN>, tile<64x64xf32>
    %f = addf %d, %e rounding<nearest_even> : tile<64x64xf32>
    %s = store_view_tko weak %f, %v[%i, %i] token = %u : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
