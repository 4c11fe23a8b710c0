// A product that was begun before threads wait for an earlier one is told of where it begins, by a pipe of its own: who waits for
// it later finds it done.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --verify-each | filecheck %s
// CHECK: "scf.for"
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, {{%[0-9]+}}, [[S:%[0-9]+]],
// CHECK: "nv_tileas.producer_commit"([[FIRST:%[0-9]+]]) : (!nv_tileas.pipe<"umma"
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, {{%[0-9]+}}, [[D:%[0-9]+]],
// CHECK-NEXT: "nv_tileas.producer_commit"([[SECOND:%[0-9]+]]) : (!nv_tileas.pipe<"umma"
// CHECK: "nv_tileas.consumer_wait"([[FIRST]],
// CHECK: "nv_tileas.load_tmem"([[S]])
// CHECK: "math.exp2"
// CHECK-NOT: "nv_tileas.producer_commit"
// CHECK: "nv_tileas.consumer_wait"([[SECOND]],
// CHECK: "nv_tileas.load_tmem"([[D]])
cuda_tile.module @m {
  entry @queries(%pq: tile<ptr<f16>>, %pg: tile<ptr<f16>>, %pk: tile<ptr<f16>>, %pv: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) optimization_hints=<sm_100 = {occupancy = 2}> {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x64xf32>
    %wide = constant <f32: 0.0> : tile<128x64xf32>
    %half = constant <f32: 0.5> : tile<128x64xf32>
    %aq = assume div_by<16>, %pq : tile<ptr<f16>>
    %ag = assume div_by<16>, %pg : tile<ptr<f16>>
    %ak = assume div_by<16>, %pk : tile<ptr<f16>>
    %av = assume div_by<16>, %pv : tile<ptr<f16>>
    %ao = assume div_by<16>, %po : tile<ptr<f32>>
    %tq = make_tensor_view %aq, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf16, strides=[64,1]>
    %tg = make_tensor_view %ag, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf16, strides=[64,1]>
    %tk = make_tensor_view %ak, shape = [8192, 64], strides = [64, 1] : tensor_view<8192x64xf16, strides=[64,1]>
    %tv = make_tensor_view %av, shape = [8192, 64], strides = [64, 1] : tensor_view<8192x64xf16, strides=[64,1]>
    %to = make_tensor_view %ao, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf32, strides=[64,1]>
    %vq = make_partition_view %tq : partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>
    %vg = make_partition_view %tg : partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>
    %vk = make_partition_view %tk : partition_view<tile=(64x64), tensor_view<8192x64xf16, strides=[64,1]>>
    %vv = make_partition_view %tv : partition_view<tile=(64x64), tensor_view<8192x64xf16, strides=[64,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>
    %q, %uq = load_view_tko weak %vq[%zero, %zero] token = %t : partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>, tile<i32> -> tile<128x64xf16>, token
    %g, %ug = load_view_tko weak %vg[%zero, %zero] token = %t : partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>, tile<i32> -> tile<128x64xf16>, token
    %o = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %wide) -> (tile<128x64xf32>) {
      %k, %uk = load_view_tko weak %vk[%i, %zero] token = %t : partition_view<tile=(64x64), tensor_view<8192x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %v, %uv = load_view_tko weak %vv[%i, %zero] token = %t : partition_view<tile=(64x64), tensor_view<8192x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %kt = permute %k [1, 0] : tile<64x64xf16> -> tile<64x64xf16>
      %s = mmaf %q, %kt, %none : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %e = exp2 %s : tile<128x64xf32>
      %vt = permute %v [1, 0] : tile<64x64xf16> -> tile<64x64xf16>
      %d = mmaf %g, %vt, %none : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %less = subf %d, %half rounding<nearest_even> : tile<128x64xf32>
      %w = mulf %e, %less rounding<nearest_even> : tile<128x64xf32>
      %h = ftof %w : tile<128x64xf32> -> tile<128x64xf16>
      %next = mmaf %h, %k, %acc : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      continue %next : tile<128x64xf32>
    }
    %w = store_view_tko weak %o, %vo[%zero, %zero] token = %t : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
