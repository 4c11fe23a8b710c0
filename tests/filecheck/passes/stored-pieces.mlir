// Sums of 128 columns that threads store by way of a buffer: where four warps gather beside the four that compute, two blocks have 128
// registers a thread, and half a row is loaded, rounded and stored at a time. No warp meets another between the halves.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s

// CHECK: "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<4>]
// CHECK: [[X:%[0-9]+]] = "nv_tileas.load_tmem"([[D:%[0-9]+]]) <{first = #builtin.int<0>
// CHECK-SAME: tensor<128x64xf32
// CHECK: [[H:%[0-9]+]] = "arith.convertf"([[X]])
// CHECK: "nv_tileas.store_shared"([[H]], [[B:%[0-9]+]]) <{{{.*}}part = #builtin.int<0>
// CHECK-NOT: barrier
// CHECK: [[X:%[0-9]+]] = "nv_tileas.load_tmem"([[D]]) <{first = #builtin.int<64>
// CHECK: [[H:%[0-9]+]] = "arith.convertf"([[X]])
// CHECK: "nv_tileas.store_shared"([[H]], [[B]]) <{{{.*}}part = #builtin.int<1>
// CHECK: barrier
// CHECK: "nv_tileas.load_shared"([[B]])
cuda_tile.module @m {
  entry @gathers(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %pi: tile<ptr<i32>>, %pc: tile<ptr<f16>>, %to: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %size = constant <i32: 32> : tile<i32>
    %pitch = constant <i32: 480> : tile<128x32xi32>
    %start = constant <f32: 0.0> : tile<128x128xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %wb = make_tensor_view %qb, shape = [480, 128], strides = [128, 1] : tensor_view<480x128xf16, strides=[128,1]>
    %wc = make_tensor_view %pc, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %vb = make_partition_view %wb : partition_view<tile=(32x128), padding_value = zero, tensor_view<480x128xf16, strides=[128,1]>>
    %vc = make_partition_view %wc : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>
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
    %half = ftof %sum rounding<nearest_even> : tile<128x128xf32> -> tile<128x128xf16>
    %e = store_view_tko weak %half, %vc[%zero, %zero] token = %t : tile<128x128xf16>, partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
