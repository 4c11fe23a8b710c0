// A tile that products want in both roles, as it is and transposed, comes once: its ring's stage is both buffers, by other names.
// RUN: env TILEIRAS_WITHOUT=agents tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s
// RUN: env TILEIRAS_WITHOUT=tma,agents tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=PLAIN

// PLAIN: "nv_tileas.tiled_load"
// PLAIN-NOT: tma_load
// CHECK: "scf.for"
// CHECK: "nv_tileas.tma_load"
// CHECK-NEXT: "nv_tileas.producer_commit"
// CHECK: [[I:%[0-9]+]] = "nv_tileas.consumer_wait"
// CHECK-NEXT: [[TURNED:%[0-9]+]] = "nv_tileas.extract_slice"(%{{[0-9]+}}, [[I]]){{.*}}buffer<f16, #nv_tileas.shared<shape = [64x128]
// CHECK-NEXT: [[ASIS:%[0-9]+]] = "nv_tileas.extract_slice"(%{{[0-9]+}}, [[I]]){{.*}}buffer<f16, #nv_tileas.shared<shape = [128x64]
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, [[TURNED]]
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, [[ASIS]]
cuda_tile.module @m {
  entry @chain(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %r: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %none = constant <f32: 0.0> : tile<128x128xf32>
    %empty = constant <f32: 0.0> : tile<128x64xf32>
    %ap = assume div_by<16>, %p : tile<ptr<f16>>
    %aq = assume div_by<16>, %q : tile<ptr<f16>>
    %ar = assume div_by<16>, %r : tile<ptr<f32>>
    %wp = make_tensor_view %ap, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf16, strides=[64,1]>
    %wq = make_tensor_view %aq, shape = [%n, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %wr = make_tensor_view %ar, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf32, strides=[64,1]>
    %vp = make_partition_view %wp : partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>
    %vq = make_partition_view %wq : partition_view<tile=(128x64), tensor_view<?x64xf16, strides=[64,1]>>
    %vr = make_partition_view %wr : partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>
    %k, %t1 = load_view_tko weak %vp[%zero, %zero] token = %t : partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>, tile<i32>, tile<i32> -> tile<128x64xf16>, token
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%x = %empty) -> (tile<128x64xf32>) {
      %m, %t2 = load_view_tko weak %vq[%i, %zero] token = %t : partition_view<tile=(128x64), tensor_view<?x64xf16, strides=[64,1]>>, tile<i32>, tile<i32> -> tile<128x64xf16>, token
      %mt = permute %m [1, 0] : tile<128x64xf16> -> tile<64x128xf16>
      %s = mmaf %k, %mt, %none : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      %e = exp2 %s : tile<128x128xf32>
      %h = ftof %e : tile<128x128xf32> -> tile<128x128xf16>
      %d = mmaf %h, %m, %x : tile<128x128xf16>, tile<128x64xf16>, tile<128x64xf32>
      continue %d : tile<128x64xf32>
    }
    %e = store_view_tko weak %sum, %vr[%zero, %zero] token = %t : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>, tile<i32>, tile<i32> -> token
    return
  }
}
