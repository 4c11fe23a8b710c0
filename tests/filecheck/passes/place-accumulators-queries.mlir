// Attention's gradient of queries, two blocks an SM: scores and what multiplies them have the same columns in turn, so that 256 of
// tensor memory do. Threads hold the exponentials, and load the second product's rows by parts where these meet them.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --verify-each | filecheck %s
// CHECK: "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<1>], registers = [
// CHECK: "scf.for"
// CHECK: [[S:%[0-9]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<64>}> : () -> !nv_tileas.tmem<f32
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, {{%[0-9]+}}, [[S]],
// CHECK: [[X:%[0-9]+]] = "nv_tileas.load_tmem"([[S]]) :
// CHECK: [[E:%[0-9]+]] = "math.exp2"([[X]])
// CHECK: [[D:%[0-9]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<64>}> : () -> !nv_tileas.tmem<f32
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, {{%[0-9]+}}, [[D]],
// CHECK: "nv_tileas.load_tmem"([[D]]) <{first = #builtin.int<0>}>
// CHECK: "nv_tileas.extract"([[E]],
// CHECK: "nv_tileas.load_tmem"([[D]]) <{first = #builtin.int<96>}>
// CHECK: "nv_tileas.alloc_tensor"() <{offset = #builtin.int<64>}> : () -> !nv_tileas.tmem<f16
// CHECK-COUNT-4: "nv_tileas.store_tmem"
// CHECK: "nv_tileas.tensor_dot"
cuda_tile.module @m {
  entry @queries(%pq: tile<ptr<f16>>, %pg: tile<ptr<f16>>, %pk: tile<ptr<f16>>, %pv: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) optimization_hints=<sm_100 = {occupancy = 2}> {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x128xf32>
    %wide = constant <f32: 0.0> : tile<128x64xf32>
    %half = constant <f32: 0.5> : tile<128x128xf32>
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
    %vk = make_partition_view %tk : partition_view<tile=(128x64), tensor_view<8192x64xf16, strides=[64,1]>>
    %vv = make_partition_view %tv : partition_view<tile=(128x64), tensor_view<8192x64xf16, strides=[64,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>
    %q, %uq = load_view_tko weak %vq[%zero, %zero] token = %t : partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>, tile<i32> -> tile<128x64xf16>, token
    %g, %ug = load_view_tko weak %vg[%zero, %zero] token = %t : partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>, tile<i32> -> tile<128x64xf16>, token
    %o = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %wide) -> (tile<128x64xf32>) {
      %k, %uk = load_view_tko weak %vk[%i, %zero] token = %t : partition_view<tile=(128x64), tensor_view<8192x64xf16, strides=[64,1]>>, tile<i32> -> tile<128x64xf16>, token
      %v, %uv = load_view_tko weak %vv[%i, %zero] token = %t : partition_view<tile=(128x64), tensor_view<8192x64xf16, strides=[64,1]>>, tile<i32> -> tile<128x64xf16>, token
      %kt = permute %k [1, 0] : tile<128x64xf16> -> tile<64x128xf16>
      %s = mmaf %q, %kt, %none : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      %e = exp2 %s : tile<128x128xf32>
      %vt = permute %v [1, 0] : tile<128x64xf16> -> tile<64x128xf16>
      %d = mmaf %g, %vt, %none : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      %less = subf %d, %half rounding<nearest_even> : tile<128x128xf32>
      %w = mulf %e, %less rounding<nearest_even> : tile<128x128xf32>
      %h = ftof %w : tile<128x128xf32> -> tile<128x128xf16>
      %next = mmaf %h, %k, %acc : tile<128x128xf16>, tile<128x64xf16>, tile<128x64xf32>
      continue %next : tile<128x64xf32>
    }
    %w = store_view_tko weak %o, %vo[%zero, %zero] token = %t : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
