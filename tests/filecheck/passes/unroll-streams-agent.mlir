// Scales that go to their ring by way of registers are brought by a warp of their own, beside the one that tells the copy engine what
// to load: a lane has four rows' words. It asks for four iterations' scales at once, and then fills the ring for each. Where rows lie
// side by side in memory, those of four iterations come by one access a row. A round's scales are loaded while the one before is
// handed on.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 -O3 --print-ir-after=unroll-streams -o %t.as 2> %t.ir
// RUN: filecheck %s --input-file=%t.ir
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 -O3 | filecheck %s --check-prefix=AHEAD
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 -O2 | filecheck %s --check-prefix=ONCE

// CHECK: IR dump after unroll-streams
// CHECK: "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<1>, #builtin.int<1>]}>
// CHECK: "nv_tileas.dot_scaled"
// CHECK: }, {
// CHECK: "scf.for"
// CHECK-NOT: "nv_tileas.tiled_load"
// CHECK-COUNT-2: "nv_tileas.tma_load"
// CHECK-NOT: "nv_tileas.tma_load"
// CHECK: }, {
// CHECK: arith.remui
// CHECK: "scf.for"
// CHECK: [[FOUR:%[0-9]+]] = "arith.constant"() <{value = 4 : i32}>
// CHECK: [[NUMBER:%[0-9]+]] = "arith.divui"(%{{[0-9]+}}, [[FOUR]])
// CHECK: [[ROWS:%[0-9]+]], %{{[0-9]+}} = "nv_tileas.tiled_load"(%{{[0-9]+}}, %{{[0-9]+}}, [[NUMBER]]{{.*}}runs = [#builtin.int<1>, #builtin.int<16>]{{.*}} -> (tensor<128x16xf8E8M0FNU, #nv_tileas.layout<shape = [128x16], reg = {{\[\[}}0, 1], [0, 2], [0, 4], [0, 8], [32, 0], [64, 0]], lane = {{\[\[}}1, 0],
// CHECK: "nv_tileas.extract"([[ROWS]],
// CHECK: "nv_tileas.tiled_load"{{.*}} -> (tensor<128x4xf8E8M0FNU, #nv_tileas.layout<shape = [128x4], reg = {{\[\[}}1, 0], [2, 0], [0, 1], [0, 2]], lane = {{\[\[}}4, 0],
// CHECK: "nv_tileas.extract"([[ROWS]],
// CHECK: "nv_tileas.tiled_load"{{.*}} -> (tensor<128x4xf8E8M0FNU,
// CHECK: "nv_tileas.extract"([[ROWS]],
// CHECK: "nv_tileas.tiled_load"{{.*}} -> (tensor<128x4xf8E8M0FNU,
// CHECK: "nv_tileas.extract"([[ROWS]],
// CHECK: "nv_tileas.tiled_load"{{.*}} -> (tensor<128x4xf8E8M0FNU,
// CHECK-NOT: "nv_tileas.tiled_load"
// CHECK-COUNT-8: "nv_tileas.store_shared"
// CHECK-NOT: "nv_tileas.store_shared"
// CHECK: "scf.for"
// CHECK-COUNT-2: "nv_tileas.tiled_load"{{.*}} -> (tensor<128x4xf8E8M0FNU,
// CHECK-NOT: "nv_tileas.tiled_load"

// AHEAD: "nv_tileas.agent_switch"
// AHEAD-COUNT-2: "nv_tileas.tma_load"
// AHEAD: "nv_tileas.tiled_load"{{.*}} -> (tensor<128x16xf8E8M0FNU,
// AHEAD: "scf.for"
// AHEAD-NEXT: ^{{.*}}tensor<128x16xf8E8M0FNU,
// AHEAD: "nv_tileas.tiled_load"{{.*}} -> (tensor<128x16xf8E8M0FNU,
// AHEAD: "nv_tileas.extract"
// AHEAD-COUNT-8: "nv_tileas.store_shared"

// ONCE-NOT: arith.remui
cuda_tile.module @m {
  entry @product(%ap: tile<ptr<f8E4M3FN>>, %sap: tile<ptr<f8E8M0FNU>>, %bp: tile<ptr<f8E4M3FN>>, %sbp: tile<ptr<f8E8M0FNU>>, %dp: tile<ptr<f32>>, %steps: tile<i32>) {
    %a = assume div_by<16>, %ap : tile<ptr<f8E4M3FN>>
%sa = assume div_by<16>, %sap : tile<ptr<f8E8M0FNU>>
%b = assume div_by<16>, %bp : tile<ptr<f8E4M3FN>>
%sb = assume div_by<16>, %sbp : tile<ptr<f8E8M0FNU>>
%d = assume div_by<16>, %dp : tile<ptr<f32>>
    %at = make_tensor_view %a, shape = [128, 8192], strides = [8192, 1] : tensor_view<128x8192xf8E4M3FN, strides=[8192,1]>
%av = make_partition_view %at : partition_view<tile=(128x128), tensor_view<128x8192xf8E4M3FN, strides=[8192,1]>>
%bt = make_tensor_view %b, shape = [128, 8192], strides = [8192, 1] : tensor_view<128x8192xf8E4M3FN, strides=[8192,1]>
%bv = make_partition_view %bt : partition_view<tile=(128x128), tensor_view<128x8192xf8E4M3FN, strides=[8192,1]>>
%sat = make_tensor_view %sa, shape = [128, 256], strides = [256, 1] : tensor_view<128x256xf8E8M0FNU, strides=[256,1]>
%sav = make_partition_view %sat : partition_view<tile=(128x4), tensor_view<128x256xf8E8M0FNU, strides=[256,1]>>
%sbt = make_tensor_view %sb, shape = [128, 256], strides = [1, 128] : tensor_view<128x256xf8E8M0FNU, strides=[1,128]>
%sbv = make_partition_view %sbt : partition_view<tile=(128x4), tensor_view<128x256xf8E8M0FNU, strides=[1,128]>>
%dt = make_tensor_view %d, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
%dv = make_partition_view %dt : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = make_token : token
    %start = constant <f32: 0.0> : tile<128x128xf32>
    %sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<128x128xf32>) {
      %x0, %xt = load_view_tko weak %av[%zero, %i] token = %none : partition_view<tile=(128x128), tensor_view<128x8192xf8E4M3FN, strides=[8192,1]>>, tile<i32> -> tile<128x128xf8E4M3FN>, token
      %y0, %yt = load_view_tko weak %bv[%zero, %i] token = %none : partition_view<tile=(128x128), tensor_view<128x8192xf8E4M3FN, strides=[8192,1]>>, tile<i32> -> tile<128x128xf8E4M3FN>, token
      %p, %pt = load_view_tko weak %sav[%zero, %i] token = %none : partition_view<tile=(128x4), tensor_view<128x256xf8E8M0FNU, strides=[256,1]>>, tile<i32> -> tile<128x4xf8E8M0FNU>, token
      %q0, %qt = load_view_tko weak %sbv[%zero, %i] token = %none : partition_view<tile=(128x4), tensor_view<128x256xf8E8M0FNU, strides=[1,128]>>, tile<i32> -> tile<128x4xf8E8M0FNU>, token
      %y = permute %y0 [1, 0] : tile<128x128xf8E4M3FN> -> tile<128x128xf8E4M3FN>
      %q = permute %q0 [1, 0] : tile<128x4xf8E8M0FNU> -> tile<4x128xf8E8M0FNU>
      %z = mmaf_scaled %x0, %y, %acc, %p, %q : tile<128x128xf8E4M3FN>, tile<128x128xf8E4M3FN>, tile<128x128xf32>, tile<128x4xf8E8M0FNU>, tile<4x128xf8E8M0FNU>
      continue %z : tile<128x128xf32>
    }
    %stored = store_view_tko weak %sum, %dv[%zero, %zero] token = %none : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
