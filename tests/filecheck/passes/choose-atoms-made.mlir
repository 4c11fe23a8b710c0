// Rows that threads make of what a loop loads, for a product into tensor memory: they go there, a row where the accumulator has it,
// not through shared memory. What the copy engine rounds as it brings it, or what is multiplied as it lies, stays in shared memory.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 -o %t.as
// RUN: filecheck %s < %t.as
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 -O0 | filecheck %s --check-prefix=O0

// CHECK: sym_name = "summed"
// CHECK: "scf.for"
// CHECK: "nv_tileas.store_tmem"({{%[0-9]+}}, [[A:%[0-9]+]]){{.*}}(tensor<64x64xtf32, #nv_tileas.layout<shape = [64x64], reg = {{\[\[}}0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], lane = {{\[\[}}1, 0], [2, 0], [4, 0], [8, 0], [0, 32]]
// CHECK: "nv_tileas.tensor_dot"([[A]], {{.*}}"sm100.mma.tf32.m64n32k8.f32.tf32.tf32.cg1.ts"
// CHECK: sym_name = "rounded"
// CHECK: "nv_tileas.tensor_dot"({{.*}}"sm100.mma.tf32.m64n32k8.f32.tf32.tf32.cg1.ss"
// O0: "mma.m16n8k
cuda_tile.module @m {
  entry @summed(%pa: tile<ptr<bf16>>, %pb: tile<ptr<f32>>, %po: tile<ptr<f32>>, %ps: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x32xf32>
    %nought = constant <f32: 0.0> : tile<64xf32>
    %aa = assume div_by<16>, %pa : tile<ptr<bf16>>
    %ab = assume div_by<16>, %pb : tile<ptr<f32>>
    %ta = make_tensor_view %aa, shape = [64, 8192], strides = [8192, 1] : tensor_view<64x8192xbf16, strides=[8192,1]>
    %tb = make_tensor_view %ab, shape = [8192, 32], strides = [32, 1] : tensor_view<8192x32xf32, strides=[32,1]>
    %to = make_tensor_view %po, shape = [64, 32], strides = [32, 1] : tensor_view<64x32xf32, strides=[32,1]>
    %ts = make_tensor_view %ps, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
    %va = make_partition_view %ta : partition_view<tile=(64x64), tensor_view<64x8192xbf16, strides=[8192,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(64x32), tensor_view<8192x32xf32, strides=[32,1]>>
    %vo = make_partition_view %to : partition_view<tile=(64x32), tensor_view<64x32xf32, strides=[32,1]>>
    %vs = make_partition_view %ts : partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>
    %sum, %squares = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none, %all = %nought) -> (tile<64x32xf32>, tile<64xf32>) {
      %a, %u0 = load_view_tko weak %va[%zero, %i] token = %t : partition_view<tile=(64x64), tensor_view<64x8192xbf16, strides=[8192,1]>>, tile<i32> -> tile<64x64xbf16>, token
      %b, %u1 = load_view_tko weak %vb[%i, %zero] token = %t : partition_view<tile=(64x32), tensor_view<8192x32xf32, strides=[32,1]>>, tile<i32> -> tile<64x32xf32>, token
      %x = ftof %a : tile<64x64xbf16> -> tile<64x64xtf32>
      %y = ftof %b : tile<64x32xf32> -> tile<64x32xtf32>
      %p = mmaf %x, %y, %acc : tile<64x64xtf32>, tile<64x32xtf32>, tile<64x32xf32>
      %wide = ftof %a : tile<64x64xbf16> -> tile<64x64xf32>
      %square = mulf %wide, %wide rounding<nearest_even> : tile<64x64xf32>
      %row = reduce %square dim=1 identities=[0.0 : f32] : tile<64x64xf32> -> tile<64xf32>
      (%g: tile<f32>, %h: tile<f32>) {
        %gh = addf %g, %h rounding<nearest_even> : tile<f32>
        yield %gh : tile<f32>
      }
      %more = addf %all, %row rounding<nearest_even> : tile<64xf32>
      continue %p, %more : tile<64x32xf32>, tile<64xf32>
    }
    %u2 = store_view_tko weak %sum, %vo[%zero, %zero] token = %t : tile<64x32xf32>, partition_view<tile=(64x32), tensor_view<64x32xf32, strides=[32,1]>>, tile<i32> -> token
    %u3 = store_view_tko weak %squares, %vs[%zero] token = %t : tile<64xf32>, partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>, tile<i32> -> token
    return
  }
  entry @rounded(%pa: tile<ptr<f32>>, %pb: tile<ptr<f32>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x32xf32>
    %aa = assume div_by<16>, %pa : tile<ptr<f32>>
    %ab = assume div_by<16>, %pb : tile<ptr<f32>>
    %ta = make_tensor_view %aa, shape = [64, 8192], strides = [8192, 1] : tensor_view<64x8192xf32, strides=[8192,1]>
    %tb = make_tensor_view %ab, shape = [8192, 32], strides = [32, 1] : tensor_view<8192x32xf32, strides=[32,1]>
    %to = make_tensor_view %po, shape = [64, 32], strides = [32, 1] : tensor_view<64x32xf32, strides=[32,1]>
    %va = make_partition_view %ta : partition_view<tile=(64x64), tensor_view<64x8192xf32, strides=[8192,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(64x32), tensor_view<8192x32xf32, strides=[32,1]>>
    %vo = make_partition_view %to : partition_view<tile=(64x32), tensor_view<64x32xf32, strides=[32,1]>>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<64x32xf32>) {
      %a, %u0 = load_view_tko weak %va[%zero, %i] token = %t : partition_view<tile=(64x64), tensor_view<64x8192xf32, strides=[8192,1]>>, tile<i32> -> tile<64x64xf32>, token
      %b, %u1 = load_view_tko weak %vb[%i, %zero] token = %t : partition_view<tile=(64x32), tensor_view<8192x32xf32, strides=[32,1]>>, tile<i32> -> tile<64x32xf32>, token
      %x = ftof %a : tile<64x64xf32> -> tile<64x64xtf32>
      %y = ftof %b : tile<64x32xf32> -> tile<64x32xtf32>
      %p = mmaf %x, %y, %acc : tile<64x64xtf32>, tile<64x32xtf32>, tile<64x32xf32>
      continue %p : tile<64x32xf32>
    }
    %u2 = store_view_tko weak %sum, %vo[%zero, %zero] token = %t : tile<64x32xf32>, partition_view<tile=(64x32), tensor_view<64x32xf32, strides=[32,1]>>, tile<i32> -> token
    return
  }
}
