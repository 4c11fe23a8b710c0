// 4-bit elements of a block-scaled product stay packed in the copy engine's ring, and the load agent copies scales to one beside it, so that
// no barrier of all warps stands in the loop that multiplies.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_120 | filecheck %s

// CHECK: "nv_tileas.create_pipeline"() <{producers = #builtin.int<32>, consumers = #builtin.int<8>{{.*}} : () -> !nv_tileas.pipe<"cp_async", #builtin.int<2>>
// CHECK: "nv_tileas.agent_switch"() <{warps = [#builtin.int<8>, #builtin.int<1>]}>
// CHECK: "scf.for"
// CHECK-NOT: "nv_tileas.barrier"
// CHECK: "nv_tileas.load_shared"
// CHECK: "nv_tileas.dot_scaled"({{.*}}) <{packed, block = #builtin.int<32>, atom = "mma.block.scale.m16n8k64.row.col.mxf4.scale.2x.f32.e2m1.e2m1.f32.ue8m0.packed"}>
// CHECK-NOT: "nv_tileas.barrier"
// CHECK: "scf.yield"
// CHECK: "nv_tileas.return"
// CHECK: "nv_tileas.tiled_copy"
// CHECK: "nv_tileas.tma_load"
cuda_tile.module @m {
  entry @product(%ap: tile<ptr<i8>>, %sap: tile<ptr<f8E8M0FNU>>, %bp: tile<ptr<i8>>, %sbp: tile<ptr<f8E8M0FNU>>, %dp: tile<ptr<f32>>, %steps: tile<i32>) {
    %a = assume div_by<16>, %ap : tile<ptr<i8>>
%sa = assume div_by<16>, %sap : tile<ptr<f8E8M0FNU>>
%b = assume div_by<16>, %bp : tile<ptr<i8>>
%sb = assume div_by<16>, %sbp : tile<ptr<f8E8M0FNU>>
%d = assume div_by<16>, %dp : tile<ptr<f32>>
    %at = make_tensor_view %a, shape = [128, 1024], strides = [1024, 1] : tensor_view<128x1024xi8, strides=[1024,1]>
%av = make_partition_view %at : partition_view<tile=(128x128), tensor_view<128x1024xi8, strides=[1024,1]>>
%bt = make_tensor_view %b, shape = [128, 1024], strides = [1024, 1] : tensor_view<128x1024xi8, strides=[1024,1]>
%bv = make_partition_view %bt : partition_view<tile=(128x128), tensor_view<128x1024xi8, strides=[1024,1]>>
%sat = make_tensor_view %sa, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf8E8M0FNU, strides=[64,1]>
%sav = make_partition_view %sat : partition_view<tile=(128x8), tensor_view<128x64xf8E8M0FNU, strides=[64,1]>>
%sbt = make_tensor_view %sb, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf8E8M0FNU, strides=[64,1]>
%sbv = make_partition_view %sbt : partition_view<tile=(128x8), tensor_view<128x64xf8E8M0FNU, strides=[64,1]>>
%dt = make_tensor_view %d, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
%dv = make_partition_view %dt : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = make_token : token
    %start = constant <f32: 0.0> : tile<128x128xf32>
    %sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<128x128xf32>) {
      %x0, %xt = load_view_tko weak %av[%zero, %i] token = %none : partition_view<tile=(128x128), tensor_view<128x1024xi8, strides=[1024,1]>>, tile<i32> -> tile<128x128xi8>, token
      %y0, %yt = load_view_tko weak %bv[%zero, %i] token = %none : partition_view<tile=(128x128), tensor_view<128x1024xi8, strides=[1024,1]>>, tile<i32> -> tile<128x128xi8>, token
      %p, %pt = load_view_tko weak %sav[%zero, %i] token = %none : partition_view<tile=(128x8), tensor_view<128x64xf8E8M0FNU, strides=[64,1]>>, tile<i32> -> tile<128x8xf8E8M0FNU>, token
      %q0, %qt = load_view_tko weak %sbv[%zero, %i] token = %none : partition_view<tile=(128x8), tensor_view<128x64xf8E8M0FNU, strides=[64,1]>>, tile<i32> -> tile<128x8xf8E8M0FNU>, token
      %x1 = reshape %x0 : tile<128x128xi8> -> tile<16384xi8>
%x2 = unpack %x1 : tile<16384xi8> -> tile<32768xf4E2M1FN>
%x3 = reshape %x2 : tile<32768xf4E2M1FN> -> tile<128x256xf4E2M1FN>
%y1 = reshape %y0 : tile<128x128xi8> -> tile<16384xi8>
%y2 = unpack %y1 : tile<16384xi8> -> tile<32768xf4E2M1FN>
%y3 = reshape %y2 : tile<32768xf4E2M1FN> -> tile<128x256xf4E2M1FN>
      %y = permute %y3 [1, 0] : tile<128x256xf4E2M1FN> -> tile<256x128xf4E2M1FN>
      %q = permute %q0 [1, 0] : tile<128x8xf8E8M0FNU> -> tile<8x128xf8E8M0FNU>
      %z = mmaf_scaled %x3, %y, %acc, %p, %q : tile<128x256xf4E2M1FN>, tile<256x128xf4E2M1FN>, tile<128x128xf32>, tile<128x8xf8E8M0FNU>, tile<8x128xf8E8M0FNU>
      continue %z : tile<128x128xf32>
    }
    %stored = store_view_tko weak %sum, %dv[%zero, %zero] token = %none : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
