// Where threads multiply columns and rows that the copy engine brings, it brings the small tile that they use besides, too: an
// iteration isn't as long as memory takes. Where nothing else of the loop comes so, it is loaded an iteration ahead.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --print-ir-after=stage-tiles -o %t.as 2>&1 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_120 --print-ir-after=stage-tiles -o %t.as 2>&1 | filecheck %s

// CHECK: sym_name = "rank_one"
// CHECK: "scf.for"
// CHECK: "nv_tileas.tiled_load"{{.*}} engine}>{{.*}}tile = [1, 64]
// CHECK: "nv_tileas.tiled_load"{{.*}}tile = [64, 1]
// CHECK: sym_name = "alone"
// CHECK: "scf.for"
// CHECK-NOT: engine
cuda_tile.module @m {
  entry @rank_one(%pp: tile<ptr<bf16>>, %qp: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %p = assume div_by<16>, %pp : tile<ptr<bf16>>
    %q = assume div_by<16>, %qp : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %ones = constant <bf16: 1.0> : tile<64x1xbf16>
    %w = make_tensor_view %p, shape = [4096, 64], strides = [64, 1] : tensor_view<4096x64xbf16, strides=[64,1]>
    %u = make_tensor_view %p, shape = [64, 4096], strides = [1, 64] : tensor_view<64x4096xbf16, strides=[1,64]>
    %rows = make_partition_view %w : partition_view<tile=(1x64), tensor_view<4096x64xbf16, strides=[64,1]>>
    %columns = make_partition_view %u : partition_view<tile=(64x1), tensor_view<64x4096xbf16, strides=[1,64]>>
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<64x64xf32>) {
      %a, %u0 = load_view_tko weak %rows[%i, %zero] token = %t : partition_view<tile=(1x64), tensor_view<4096x64xbf16, strides=[64,1]>>, tile<i32> -> tile<1x64xbf16>, token
      %b, %u1 = load_view_tko weak %columns[%zero, %i] token = %t : partition_view<tile=(64x1), tensor_view<64x4096xbf16, strides=[1,64]>>, tile<i32> -> tile<64x1xbf16>, token
      %c, %u2 = load_view_tko weak %rows[%i, %one] token = %t : partition_view<tile=(1x64), tensor_view<4096x64xbf16, strides=[64,1]>>, tile<i32> -> tile<1x64xbf16>, token
      %e = ftof %a : tile<1x64xbf16> -> tile<1x64xf32>
      %f = broadcast %e : tile<1x64xf32> -> tile<64x64xf32>
      %d = mmaf %b, %c, %none : tile<64x1xbf16>, tile<1x64xbf16>, tile<64x64xf32>
      %g = mulf %acc, %f : tile<64x64xf32>
      %h = addf %g, %d : tile<64x64xf32>
      continue %h : tile<64x64xf32>
    }
    %o = make_tensor_view %q, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %vo = make_partition_view %o : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %u3 = store_view_tko weak %s, %vo[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }

  entry @alone(%pp: tile<ptr<bf16>>, %qp: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %p = assume div_by<16>, %pp : tile<ptr<bf16>>
    %q = assume div_by<16>, %qp : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<1x64xf32>
    %state = constant <bf16: 1.0> : tile<64x64xbf16>
    %w = make_tensor_view %p, shape = [4096, 64], strides = [64, 1] : tensor_view<4096x64xbf16, strides=[64,1]>
    %rows = make_partition_view %w : partition_view<tile=(1x64), tensor_view<4096x64xbf16, strides=[64,1]>>
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<1x64xf32>) {
      %a, %u0 = load_view_tko weak %rows[%i, %zero] token = %t : partition_view<tile=(1x64), tensor_view<4096x64xbf16, strides=[64,1]>>, tile<i32> -> tile<1x64xbf16>, token
      %e = ftof %a : tile<1x64xbf16> -> tile<1x64xf32>
      %f = ftof %acc : tile<1x64xf32> -> tile<1x64xbf16>
      %d = mmaf %f, %state, %e : tile<1x64xbf16>, tile<64x64xbf16>, tile<1x64xf32>
      continue %d : tile<1x64xf32>
    }
    %o = make_tensor_view %q, shape = [1, 64], strides = [64, 1] : tensor_view<1x64xf32, strides=[64,1]>
    %vo = make_partition_view %o : partition_view<tile=(1x64), tensor_view<1x64xf32, strides=[64,1]>>
    %u3 = store_view_tko weak %s, %vo[%zero, %zero] token = %t : tile<1x64xf32>, partition_view<tile=(1x64), tensor_view<1x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
