// Rows for the next product that meet another tile which threads hold are loaded, computed and stored a part at a time; the two
// products whose rows threads load have their columns in turn, so that a block asks for 256.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s

// CHECK: "nv_tileas.tmem_alloc"() <{columns = #builtin.int<256>
// CHECK: "math.exp2"
// CHECK: [[HOME:%[0-9]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<128>}> : () -> !nv_tileas.tmem<f32
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, {{%[0-9]+}}, [[HOME]]
// CHECK: "nv_tileas.load_tmem"([[HOME]]) <{first = #builtin.int<0>}> {{.*}} -> tensor<128x32xf32
// CHECK: "nv_tileas.load_tmem"([[HOME]]) <{first = #builtin.int<96>}>
// CHECK: [[ROWS:%[0-9]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<192>}> : () -> !nv_tileas.tmem<f16
// CHECK-NEXT: "nv_tileas.store_tmem"({{%[0-9]+}}, [[ROWS]]) <{first = #builtin.int<0>}>
// CHECK-NEXT: "nv_tileas.store_tmem"({{%[0-9]+}}, [[ROWS]]) <{first = #builtin.int<32>}>
// CHECK: "nv_tileas.tensor_dot"([[ROWS]]
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
    %z, %t3 = load_view_tko weak %vp[%one, %zero] token = %t : partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>, tile<i32>, tile<i32> -> tile<128x64xf16>, token
    %sum, %other = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%x = %empty, %y = %empty) -> (tile<128x64xf32>, tile<128x64xf32>) {
      %m, %t2 = load_view_tko weak %vq[%i, %zero] token = %t : partition_view<tile=(128x64), tensor_view<?x64xf16, strides=[64,1]>>, tile<i32>, tile<i32> -> tile<128x64xf16>, token
      %mt = permute %m [1, 0] : tile<128x64xf16> -> tile<64x128xf16>
      %s = mmaf %k, %mt, %none : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      %e = exp2 %s : tile<128x128xf32>
      %h = ftof %e : tile<128x128xf32> -> tile<128x128xf16>
      %d = mmaf %h, %m, %x : tile<128x128xf16>, tile<128x64xf16>, tile<128x64xf32>
      %u = mmaf %z, %mt, %none : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      %v = mulf %e, %u : tile<128x128xf32>
      %w = ftof %v : tile<128x128xf32> -> tile<128x128xf16>
      %g = mmaf %w, %m, %y : tile<128x128xf16>, tile<128x64xf16>, tile<128x64xf32>
      continue %d, %g : tile<128x64xf32>, tile<128x64xf32>
    }
    %total = addf %sum, %other : tile<128x64xf32>
    %f = store_view_tko weak %total, %vr[%zero, %zero] token = %t : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>, tile<i32>, tile<i32> -> token
    return
  }
}
