// Products that tensor cores compute beside the warps: those that need nothing of the first one's result begin before it is waited
// for, with what their operands follow from; the one whose accumulator the loop also reads begins behind that. By warps, and where an
// accumulator's registers aren't left, products stay where they were.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --print-ir-after=early-dots -o %t.as 2>&1 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_80 --print-ir-after=early-dots -o %t.warps 2>&1 | filecheck %s --check-prefix=STAY
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 --print-ir-after=early-dots -o %t.groups 2>&1 | filecheck %s --check-prefix=STAY

// CHECK: IR dump after early-dots
// CHECK: "scf.for"
// CHECK: ^bb0({{%[0-9]+}}: i32, [[STATE:%[0-9]+]]: tensor
// CHECK: [[S:%[0-9]+]] = "nv_tileas.dot"
// CHECK: [[HALF:%[0-9]+]] = "arith.convertf"([[STATE]])
// CHECK: [[O:%[0-9]+]] = "nv_tileas.dot"({{%[0-9]+}}, [[HALF]]
// CHECK: "nv_tileas.dot"({{%[0-9]+}}, {{%[0-9]+}}, [[STATE]])
// CHECK: [[E:%[0-9]+]] = "math.exp2"([[S]])
// CHECK: [[P:%[0-9]+]] = "arith.convertf"([[E]])
// CHECK: "nv_tileas.dot"([[P]], {{%[0-9]+}}, [[O]])

// Outside loops the tiles of a second product are asked for in front of the first one.
// CHECK: sym_name = "line"
// CHECK: "nv_tileas.tiled_load"
// CHECK-NOT: "nv_tileas.dot"
// CHECK: "nv_tileas.tiled_load"
// CHECK: "nv_tileas.dot"
// CHECK: math.exp2

// STAY: IR dump after early-dots
// STAY: [[S:%[0-9]+]] = "nv_tileas.dot"
// STAY: math.exp2
// STAY: "nv_tileas.dot"
// STAY: "nv_tileas.dot"
// STAY: "nv_tileas.dot"
cuda_tile.module @m {
  entry @linear(%px: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x128xf32>
    %ax = assume div_by<16>, %px : tile<ptr<f16>>
    %ao = assume div_by<16>, %po : tile<ptr<f32>>
    %tx = make_tensor_view %ax, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xf16, strides=[128,1]>
    %to = make_tensor_view %ao, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xf32, strides=[128,1]>
    %vx = make_partition_view %tx : partition_view<tile=(128x128), tensor_view<8192x128xf16, strides=[128,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x128), tensor_view<8192x128xf32, strides=[128,1]>>
    %end = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%state = %none) -> (tile<128x128xf32>) {
      %x, %u0 = load_view_tko weak %vx[%i, %zero] token = %t : partition_view<tile=(128x128), tensor_view<8192x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
      %xt = permute %x [1, 0] : tile<128x128xf16> -> tile<128x128xf16>
      %s = mmaf %x, %xt, %none : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
      %e = exp2 %s : tile<128x128xf32>
      %p = ftof %e : tile<128x128xf32> -> tile<128x128xf16>
      %half = ftof %state : tile<128x128xf32> -> tile<128x128xf16>
      %o = mmaf %x, %half, %none : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
      %q = mmaf %p, %x, %o : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
      %next = mmaf %xt, %x, %state : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
      %u1 = store_view_tko weak %q, %vo[%i, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<8192x128xf32, strides=[128,1]>>, tile<i32> -> token
      continue %next : tile<128x128xf32>
    }
    return
  }
  entry @line(%px: tile<ptr<f16>>, %po: tile<ptr<f32>>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %ax = assume div_by<16>, %px : tile<ptr<f16>>
    %ao = assume div_by<16>, %po : tile<ptr<f32>>
    %tx = make_tensor_view %ax, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf16, strides=[64,1]>
    %to = make_tensor_view %ao, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %vx = make_partition_view %tx : partition_view<tile=(64x64), tensor_view<128x64xf16, strides=[64,1]>>
    %vo = make_partition_view %to : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %x, %u0 = load_view_tko weak %vx[%zero, %zero] token = %t : partition_view<tile=(64x64), tensor_view<128x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %s = mmaf %x, %x, %none : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
    %e = exp2 %s : tile<64x64xf32>
    %p = ftof %e : tile<64x64xf32> -> tile<64x64xf16>
    %y, %u1 = load_view_tko weak %vx[%one, %zero] token = %t : partition_view<tile=(64x64), tensor_view<128x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %o = mmaf %p, %y, %none : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
    %u2 = store_view_tko weak %o, %vo[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
