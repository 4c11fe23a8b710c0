// Rows that products of two warpgroups gather: two warps with eight chunks a thread keep up with them, and leave the registers of
// an SM room for a second block, as eight would not. The ring is as deep as shared memory lets two blocks have it. Where a product
// takes half as long (64 x 64 by 64) as many warps gather as compute, and a ninth tells the copy engine, of whose stages those who
// gather know nothing; it would cost the large tiles' second block its place. Products by warps take longer: one warp gathers, and
// nobody who multiplies waits at a barrier.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=TENSOR
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_120 | filecheck %s --check-prefix=WARPS

// CHECK-LABEL: sym_name = "large"
// CHECK: "nv_tileas.create_pipeline"() <{producers = #builtin.int<64>, consumers = #builtin.int<8>{{.*}} -> !nv_tileas.pipe<"cp_async", #builtin.int<4>>
// CHECK: "nv_tileas.agent_switch"() <{warps = [#builtin.int<8>, #builtin.int<2>]
// CHECK: "nv_tileas.async_copy"({{.*}} threads = #nv_tileas.layout<shape = [128x32], reg = {{\[}}[0, 1], [0, 2], [0, 4], [64, 0], [16, 0], [32, 0]], {{.*}}, warp = {{\[}}[8, 0]]>

// CHECK-LABEL: sym_name = "small"
// CHECK: "nv_tileas.create_pipeline"() <{producers = #builtin.int<128>, consumers = #builtin.int<4>{{.*}} -> !nv_tileas.pipe<"cp_async"
// CHECK: "nv_tileas.create_pipeline"() {{.*}} -> !nv_tileas.pipe<"tma"
// CHECK: "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<4>, #builtin.int<1>]
// CHECK: "nv_tileas.async_dot"
// CHECK: }, {
// CHECK-NOT: "nv_tileas.tma_load"
// CHECK: "nv_tileas.async_copy"
// CHECK-NOT: "nv_tileas.tma_load"
// CHECK: }, {
// CHECK-NOT: tensor<
// CHECK: "nv_tileas.tma_load"

// TENSOR-LABEL: sym_name = "small"
// TENSOR: "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<4>, #builtin.int<1>]
// TENSOR: "nv_tileas.tensor_dot"
// TENSOR: }, {
// TENSOR-NOT: "nv_tileas.tma_load"
// TENSOR: "nv_tileas.async_copy"
// TENSOR: }, {
// TENSOR: "nv_tileas.tma_load"

// WARPS-LABEL: sym_name = "large"
// WARPS: "nv_tileas.create_pipeline"() <{producers = #builtin.int<32>, consumers = #builtin.int<8>{{.*}} -> !nv_tileas.pipe<"cp_async"
// WARPS: "nv_tileas.agent_switch"() <{warps = [#builtin.int<8>, #builtin.int<1>, #builtin.int<1>]
// WARPS: "scf.for"
// WARPS-NOT: "nv_tileas.barrier"
// WARPS: "nv_tileas.dot"
// WARPS: "nv_tileas.async_copy"
cuda_tile.module @m {
  entry @large(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %pi: tile<ptr<i32>>, %pc: tile<ptr<f32>>, %to: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %size = constant <i32: 32> : tile<i32>
    %pitch = constant <i32: 480> : tile<128x32xi32>
    %start = constant <f32: 0.0> : tile<128x128xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %wb = make_tensor_view %qb, shape = [480, 128], strides = [128, 1] : tensor_view<480x128xf16, strides=[128,1]>
    %wc = make_tensor_view %pc, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %vb = make_partition_view %wb : partition_view<tile=(32x128), padding_value = zero, tensor_view<480x128xf16, strides=[128,1]>>
    %vc = make_partition_view %wc : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %rn = iota : tile<128xi32>
    %n = iota : tile<32xi32>
    %p1 = reshape %qa : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %base = broadcast %p1 : tile<1x1xptr<f16>> -> tile<128x32xptr<f16>>
    %ip = reshape %pi : tile<ptr<i32>> -> tile<1xptr<i32>>
    %ib = broadcast %ip : tile<1xptr<i32>> -> tile<128xptr<i32>>
    %io = offset %ib, %rn : tile<128xptr<i32>>, tile<128xi32> -> tile<128xptr<i32>>
    %index, %ti = load_ptr_tko weak %io token=%t : tile<128xptr<i32>> -> tile<128xi32>, token
    %column = reshape %index : tile<128xi32> -> tile<128x1xi32>
    %rows = broadcast %column : tile<128x1xi32> -> tile<128x32xi32>
    %starts = muli %rows, %pitch : tile<128x32xi32>
    %sum = for %k in (%zero to %to, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<128x128xf32>) {
      %first = muli %k, %size : tile<i32>
      %f1 = reshape %first : tile<i32> -> tile<1xi32>
      %fb = broadcast %f1 : tile<1xi32> -> tile<32xi32>
      %line = addi %fb, %n : tile<32xi32>
      %row = reshape %line : tile<32xi32> -> tile<1x32xi32>
      %cols = broadcast %row : tile<1x32xi32> -> tile<128x32xi32>
      %far = addi %starts, %cols : tile<128x32xi32>
      %at = offset %base, %far : tile<128x32xptr<f16>>, tile<128x32xi32> -> tile<128x32xptr<f16>>
      %a, %ta = load_ptr_tko weak %at token=%t : tile<128x32xptr<f16>> -> tile<128x32xf16>, token
      %b, %tb = load_view_tko weak %vb[%k, %zero] token = %t : partition_view<tile=(32x128), padding_value = zero, tensor_view<480x128xf16, strides=[128,1]>>, tile<i32> -> tile<32x128xf16>, token
      %more = mmaf %a, %b, %acc : tile<128x32xf16>, tile<32x128xf16>, tile<128x128xf32>
      continue %more : tile<128x128xf32>
    }
    %e = store_view_tko weak %sum, %vc[%zero, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
  entry @small(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %pi: tile<ptr<i32>>, %pc: tile<ptr<f32>>, %to: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %size = constant <i32: 64> : tile<i32>
    %pitch = constant <i32: 480> : tile<64x64xi32>
    %start = constant <f32: 0.0> : tile<64x64xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %wb = make_tensor_view %qb, shape = [480, 64], strides = [64, 1] : tensor_view<480x64xf16, strides=[64,1]>
    %wc = make_tensor_view %pc, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %vb = make_partition_view %wb : partition_view<tile=(64x64), padding_value = zero, tensor_view<480x64xf16, strides=[64,1]>>
    %vc = make_partition_view %wc : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %rn = iota : tile<64xi32>
    %n = iota : tile<64xi32>
    %p1 = reshape %qa : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %base = broadcast %p1 : tile<1x1xptr<f16>> -> tile<64x64xptr<f16>>
    %ip = reshape %pi : tile<ptr<i32>> -> tile<1xptr<i32>>
    %ib = broadcast %ip : tile<1xptr<i32>> -> tile<64xptr<i32>>
    %io = offset %ib, %rn : tile<64xptr<i32>>, tile<64xi32> -> tile<64xptr<i32>>
    %index, %ti = load_ptr_tko weak %io token=%t : tile<64xptr<i32>> -> tile<64xi32>, token
    %column = reshape %index : tile<64xi32> -> tile<64x1xi32>
    %rows = broadcast %column : tile<64x1xi32> -> tile<64x64xi32>
    %starts = muli %rows, %pitch : tile<64x64xi32>
    %sum = for %k in (%zero to %to, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<64x64xf32>) {
      %first = muli %k, %size : tile<i32>
      %f1 = reshape %first : tile<i32> -> tile<1xi32>
      %fb = broadcast %f1 : tile<1xi32> -> tile<64xi32>
      %line = addi %fb, %n : tile<64xi32>
      %row = reshape %line : tile<64xi32> -> tile<1x64xi32>
      %cols = broadcast %row : tile<1x64xi32> -> tile<64x64xi32>
      %far = addi %starts, %cols : tile<64x64xi32>
      %at = offset %base, %far : tile<64x64xptr<f16>>, tile<64x64xi32> -> tile<64x64xptr<f16>>
      %a, %ta = load_ptr_tko weak %at token=%t : tile<64x64xptr<f16>> -> tile<64x64xf16>, token
      %b, %tb = load_view_tko weak %vb[%k, %zero] token = %t : partition_view<tile=(64x64), padding_value = zero, tensor_view<480x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %more = mmaf %a, %b, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      continue %more : tile<64x64xf32>
    }
    %e = store_view_tko weak %sum, %vc[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
