// Attention's gradients: of the row of sums by which scores become weights every thread has the whole. It is read where it meets the
// scores, behind what begins the second product, and its stage given back behind that: no thread holds the row beside the scores.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s

// CHECK: "nv_tileas.load_tmem"(
// CHECK-NOT: "nv_tileas.load_shared"
// CHECK: "nv_tileas.tensor_dot"(
// CHECK-NOT: "nv_tileas.consumer_release"
// CHECK: [[L:%[0-9]+]] = "nv_tileas.load_shared"({{%[0-9]+}})
// CHECK-NEXT: [[W:%[0-9]+]] = "nv_tileas.broadcast"([[L]])
// CHECK-NEXT: "arith.subf"({{%[0-9]+}}, [[W]])
// CHECK-NOT: "nv_tileas.consumer_release"
// CHECK: "nv_tileas.store_tmem"(
// CHECK: "nv_tileas.consumer_release"({{%[0-9]+}}) : (!nv_tileas.pipe<"tma"
cuda_tile.module @m {
  entry @weighed(%pq: tile<ptr<f16>>, %pg: tile<ptr<f16>>, %pk: tile<ptr<f16>>, %pv: tile<ptr<f16>>, %po: tile<ptr<f32>>, %pl: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x128xf32>
    %aq = assume div_by<16>, %pq : tile<ptr<f16>>
    %ag = assume div_by<16>, %pg : tile<ptr<f16>>
    %ak = assume div_by<16>, %pk : tile<ptr<f16>>
    %av = assume div_by<16>, %pv : tile<ptr<f16>>
    %ao = assume div_by<16>, %po : tile<ptr<f32>>
    %al = assume div_by<16>, %pl : tile<ptr<f32>>
    %long = assume div_by<16>, %n : tile<i32>
    %tl = make_tensor_view %al, shape = [%n, %n], strides = [%long, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %vl = make_partition_view %tl : partition_view<tile=(1x128), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>
    %tq = make_tensor_view %aq, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xf16, strides=[128,1]>
    %tg = make_tensor_view %ag, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xf16, strides=[128,1]>
    %tk = make_tensor_view %ak, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %tv = make_tensor_view %av, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %to = make_tensor_view %ao, shape = [256, 128], strides = [128, 1] : tensor_view<256x128xf32, strides=[128,1]>
    %vq = make_partition_view %tq : partition_view<tile=(128x128), tensor_view<8192x128xf16, strides=[128,1]>>
    %vg = make_partition_view %tg : partition_view<tile=(128x128), tensor_view<8192x128xf16, strides=[128,1]>>
    %vk = make_partition_view %tk : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>
    %vv = make_partition_view %tv : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x128), tensor_view<256x128xf32, strides=[128,1]>>
    %k, %u0 = load_view_tko weak %vk[%zero, %zero] token = %t : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
    %v, %u1 = load_view_tko weak %vv[%zero, %zero] token = %t : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
    %gk, %gv = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%ak0 = %none, %av0 = %none) -> (tile<128x128xf32>, tile<128x128xf32>) {
      %q, %u2 = load_view_tko weak %vq[%i, %zero] token = %t : partition_view<tile=(128x128), tensor_view<8192x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
      %g, %u3 = load_view_tko weak %vg[%i, %zero] token = %t : partition_view<tile=(128x128), tensor_view<8192x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
      %l, %u4 = load_view_tko weak %vl[%i, %zero] token = %t : partition_view<tile=(1x128), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> tile<1x128xf32>, token
      %lw = broadcast %l : tile<1x128xf32> -> tile<128x128xf32>
      %qt = permute %q [1, 0] : tile<128x128xf16> -> tile<128x128xf16>
      %gt = permute %g [1, 0] : tile<128x128xf16> -> tile<128x128xf16>
      %s = mmaf %k, %qt, %none : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
      %sl = subf %s, %lw : tile<128x128xf32>
      %p = exp2 %sl : tile<128x128xf32>
      %ph = ftof %p : tile<128x128xf32> -> tile<128x128xf16>
      %av1 = mmaf %ph, %g, %av0 : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
      %dp = mmaf %v, %gt, %none : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
      %ds = mulf %p, %dp : tile<128x128xf32>
      %dh = ftof %ds : tile<128x128xf32> -> tile<128x128xf16>
      %ak1 = mmaf %dh, %q, %ak0 : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
      continue %ak1, %av1 : tile<128x128xf32>, tile<128x128xf32>
    }
    %s0 = store_view_tko weak %gk, %vo[%zero, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<256x128xf32, strides=[128,1]>>, tile<i32> -> token
    %s1 = store_view_tko weak %gv, %vo[%one, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<256x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
