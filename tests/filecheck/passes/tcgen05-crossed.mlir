// What an iteration wants of an accumulator that another product goes to is read before that product writes over it.
// RUN: env TILEIRAS_WITHOUT=pipelines,tma,agents tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s

// CHECK: [[P:%[0-9]+]] = "nv_tileas.alloc_tensor"{{.*}}!nv_tileas.tmem<f32
// CHECK: [[Q:%[0-9]+]] = "nv_tileas.alloc_tensor"{{.*}}!nv_tileas.tmem<f32
// CHECK: "scf.for"(
// CHECK: [[OLD:%[0-9]+]] = "nv_tileas.load_tmem"([[P]])
// CHECK: [[OTHER:%[0-9]+]] = "nv_tileas.load_tmem"([[Q]])
// CHECK: "nv_tileas.store_tmem"([[OTHER]], [[P]])
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, {{%[0-9]+}}, [[P]]
// CHECK: "nv_tileas.store_tmem"([[OLD]], [[Q]])
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, {{%[0-9]+}}, [[Q]]
// CHECK: "scf.yield"() : () -> ()
cuda_tile.module @m {
  entry @crossed(%pp: tile<ptr<f16>>, %qp: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %p = assume div_by<16>, %pp : tile<ptr<f16>>
    %q = assume div_by<16>, %qp : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<128x64xf32>
    %c1 = constant <f32: 1.0> : tile<128x64xf32>
    %w = make_tensor_view %p, shape = [128, 4096], strides = [4096, 1] : tensor_view<128x4096xf16, strides=[4096,1]>
    %v = make_partition_view %w : partition_view<tile=(128x64), tensor_view<128x4096xf16, strides=[4096,1]>>
    %u = make_tensor_view %p, shape = [4096, 64], strides = [64, 1] : tensor_view<4096x64xf16, strides=[64,1]>
    %k = make_partition_view %u : partition_view<tile=(64x64), tensor_view<4096x64xf16, strides=[64,1]>>
    %s, %r = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%x0 = %c, %y0 = %c1) -> (tile<128x64xf32>, tile<128x64xf32>) {
      %a, %u0 = load_view_tko weak %v[%zero, %i] token = %t : partition_view<tile=(128x64), tensor_view<128x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<128x64xf16>, token
      %b, %u1 = load_view_tko weak %k[%i, %zero] token = %t : partition_view<tile=(64x64), tensor_view<4096x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %d = mmaf %a, %b, %y0 : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %e = mmaf %a, %b, %x0 : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      continue %d, %e : tile<128x64xf32>, tile<128x64xf32>
    }
    %x = make_tensor_view %q, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %y = make_partition_view %x : partition_view<tile=(128x64), tensor_view<128x128xf32, strides=[128,1]>>
    %z = store_view_tko weak %s, %y[%zero, %zero] token = %t : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    %z1 = store_view_tko weak %r, %y[%zero, %one] token = %z : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
