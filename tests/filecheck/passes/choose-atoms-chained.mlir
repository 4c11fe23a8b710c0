// Scores that two products add up to, in a loop, become the rows of a third one: all three are chained, the first one by the sums
// of the second. What such sums begin with outside of a loop isn't.
// RUN: tileiras-opt %s --to=nv_tileaa -O0 -o %t.aa
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,choose-atoms --gpu-name=sm_80 | filecheck %s

// CHECK: "nv_tileas.dot"({{.*}}) <{atom = "mma.m16n8k16.row.col.f32.f32", k_slices
// CHECK: "nv_tileas.dot"({{.*}}) <{atom = "mma.m16n8k16.row.col.f32.f32", chained
// CHECK: "nv_tileas.dot"({{.*}}) <{atom = "mma.m16n8k16.row.col.f32.f32", chained
// CHECK: "scf.for"
// CHECK-COUNT-3: "nv_tileas.dot"({{.*}}) <{atom = "mma.m16n8k16.row.col.f32.f32", chained
cuda_tile.module @m {
  entry @scores(%n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %q = constant <f16: 1.0> : tile<64x64xf16>
    %k = constant <f16: 2.0> : tile<64x64xf16>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %s = mmaf %q, %k, %none : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
    %r = mmaf %q, %k, %s : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
    %t = ftof %r : tile<64x64xf32> -> tile<64x64xf16>
    %start = mmaf %t, %k, %none : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<64x64xf32>) {
      %heads = mmaf %q, %k, %none : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      %both = mmaf %q, %k, %heads : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      %p = ftof %both : tile<64x64xf32> -> tile<64x64xf16>
      %more = mmaf %p, %k, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      continue %more : tile<64x64xf32>
    }
    print_tko "%f", %sum : tile<64x64xf32> -> token
    return
  }
}
