// A step of two products into tensor memory whose sums threads read one behind the other (an adapter of few columns beside a
// product, behind the loop its other half): two blocks share the SM, with three stages each. One block alone would have five.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --print-ir-after=materialize-schedule -o %t.as 2>&1 | filecheck %s

// CHECK: IR dump after materialize-schedule
// CHECK: "nv_tileas.alloc_tensor"{{.*}}!nv_tileas.ring<{{.*}}shape = [64x128]{{.*}}#builtin.int<3>>
// CHECK: "nv_tileas.alloc_tensor"{{.*}}!nv_tileas.ring<{{.*}}shape = [128x64]{{.*}}#builtin.int<3>>
cuda_tile.module @m {
  entry @adapted(%px: tile<ptr<bf16>>, %pw: tile<ptr<bf16>>, %pa: tile<ptr<bf16>>, %py: tile<ptr<bf16>>, %pz: tile<ptr<bf16>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x128xf32>
    %few = constant <f32: 0.0> : tile<128x16xf32>
    %ax = assume div_by<16>, %px : tile<ptr<bf16>>
    %aw = assume div_by<16>, %pw : tile<ptr<bf16>>
    %aa = assume div_by<16>, %pa : tile<ptr<bf16>>
    %ay = assume div_by<16>, %py : tile<ptr<bf16>>
    %az = assume div_by<16>, %pz : tile<ptr<bf16>>
    %tx = make_tensor_view %ax, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xbf16, strides=[4096,1]>
    %tw = make_tensor_view %aw, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xbf16, strides=[4096,1]>
    %ta = make_tensor_view %aa, shape = [4096, 16], strides = [16, 1] : tensor_view<4096x16xbf16, strides=[16,1]>
    %ty = make_tensor_view %ay, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xbf16, strides=[4096,1]>
    %tz = make_tensor_view %az, shape = [16, 4096], strides = [4096, 1] : tensor_view<16x4096xbf16, strides=[4096,1]>
    %vx = make_partition_view %tx : partition_view<tile=(128x64), tensor_view<4096x4096xbf16, strides=[4096,1]>>
    %vw = make_partition_view %tw : partition_view<tile=(64x128), tensor_view<4096x4096xbf16, strides=[4096,1]>>
    %va = make_partition_view %ta : partition_view<tile=(64x16), tensor_view<4096x16xbf16, strides=[16,1]>>
    %vy = make_partition_view %ty : partition_view<tile=(128x128), tensor_view<4096x4096xbf16, strides=[4096,1]>>
    %vz = make_partition_view %tz : partition_view<tile=(16x128), tensor_view<16x4096xbf16, strides=[4096,1]>>
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %sums, %part = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none, %xa = %few) -> (tile<128x128xf32>, tile<128x16xf32>) {
      %x, %ux = load_view_tko weak %vx[%bx, %k] token = %t : partition_view<tile=(128x64), tensor_view<4096x4096xbf16, strides=[4096,1]>>, tile<i32> -> tile<128x64xbf16>, token
      %w, %uw = load_view_tko weak %vw[%k, %by] token = %t : partition_view<tile=(64x128), tensor_view<4096x4096xbf16, strides=[4096,1]>>, tile<i32> -> tile<64x128xbf16>, token
      %a, %ua = load_view_tko weak %va[%k, %zero] token = %t : partition_view<tile=(64x16), tensor_view<4096x16xbf16, strides=[16,1]>>, tile<i32> -> tile<64x16xbf16>, token
      %d = mmaf %x, %w, %acc : tile<128x64xbf16>, tile<64x128xbf16>, tile<128x128xf32>
      %e = mmaf %x, %a, %xa : tile<128x64xbf16>, tile<64x16xbf16>, tile<128x16xf32>
      continue %d, %e : tile<128x128xf32>, tile<128x16xf32>
    }
    %g = ftof %part : tile<128x16xf32> -> tile<128x16xbf16>
    %b, %ub = load_view_tko weak %vz[%zero, %by] token = %t : partition_view<tile=(16x128), tensor_view<16x4096xbf16, strides=[4096,1]>>, tile<i32> -> tile<16x128xbf16>, token
    %f = mmaf %g, %b, %sums : tile<128x16xbf16>, tile<16x128xbf16>, tile<128x128xf32>
    %h = ftof %f : tile<128x128xf32> -> tile<128x128xbf16>
    %s0 = store_view_tko weak %h, %vy[%bx, %by] token = %t : tile<128x128xbf16>, partition_view<tile=(128x128), tensor_view<4096x4096xbf16, strides=[4096,1]>>, tile<i32> -> token
    return
  }
}
