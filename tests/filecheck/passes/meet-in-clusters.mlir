// CTAs meet before one stores what another one may still read: rows that all gather, a tile that is shared out. Where each stores the
// part that it has loaded, whatever stands beyond the end for it, and where the loads are of other memory, they don't.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 --print-ir-after=meet-in-clusters -o %t.as 2>&1 | filecheck %s
cuda_tile.module @m {
  // CHECK: sym_name = "in_place"
  // CHECK: "nv_tileas.cluster_barrier"()
  // CHECK-NEXT: "nv_tileas.tiled_store"
  entry @in_place(%pa: tile<ptr<f16>>, %pw: tile<ptr<f16>>, %pc: tile<ptr<f32>>) optimization_hints=<sm_90 = {num_cta_in_cga = 2}> {
    %t = make_token : token
    %a = assume div_by<16>, %pa : tile<ptr<f16>>
    %w = assume div_by<16>, %pw : tile<ptr<f16>>
    %c = assume div_by<16>, %pc : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x64xf32>
    %va = make_tensor_view %a, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %ta = make_partition_view %va : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>
    %vw = make_tensor_view %w, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf16, strides=[64,1]>
    %tw = make_partition_view %vw : partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>
    %x, %u0 = load_view_tko weak %ta[%zero, %zero] token = %t : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
    %y, %u1 = load_view_tko weak %tw[%zero, %zero] token = %t : partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>, tile<i32> -> tile<128x64xf16>, token
    %d = mmaf %x, %y, %none : tile<128x128xf16>, tile<128x64xf16>, tile<128x64xf32>
    %e = ftof %d : tile<128x64xf32> -> tile<128x64xf16>
    %z = store_view_tko weak %e, %tw[%zero, %zero] token = %u1 : tile<128x64xf16>, partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>, tile<i32> -> token
    return
  }

  // CHECK: sym_name = "added_in_place"
  // CHECK-NOT: cluster_barrier
  entry @added_in_place(%pa: tile<ptr<f16>>, %pw: tile<ptr<f16>>, %pc: tile<ptr<f32>>) optimization_hints=<sm_90 = {num_cta_in_cga = 2}> {
    %t = make_token : token
    %a = assume div_by<16>, %pa : tile<ptr<f16>>
    %w = assume div_by<16>, %pw : tile<ptr<f16>>
    %c = assume div_by<16>, %pc : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x64xf32>
    %va = make_tensor_view %a, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %ta = make_partition_view %va : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>
    %vw = make_tensor_view %w, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf16, strides=[64,1]>
    %tw = make_partition_view %vw : partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>
    %vc = make_tensor_view %c, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf32, strides=[64,1]>
    %lc = make_partition_view %vc : partition_view<tile=(128x64), padding_value = zero, tensor_view<128x64xf32, strides=[64,1]>>
    %tc = make_partition_view %vc : partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>
    %x, %u0 = load_view_tko weak %ta[%zero, %zero] token = %t : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
    %y, %u1 = load_view_tko weak %tw[%zero, %zero] token = %t : partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>, tile<i32> -> tile<128x64xf16>, token
    %d = mmaf %x, %y, %none : tile<128x128xf16>, tile<128x64xf16>, tile<128x64xf32>
    %b, %u2 = load_view_tko weak %lc[%zero, %zero] token = %t : partition_view<tile=(128x64), padding_value = zero, tensor_view<128x64xf32, strides=[64,1]>>, tile<i32> -> tile<128x64xf32>, token
    %e = addf %b, %d : tile<128x64xf32>
    %z = store_view_tko weak %e, %tc[%zero, %zero] token = %u2 : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
