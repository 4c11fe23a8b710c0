// Two sums, each of one loop and of another one behind it: what both products of an iteration read comes by one pipe, which serves both
// loops, and the sums stay in tensor memory in between. The second loop's first products add if the first loop has run; where neither
// has, zeros are stored behind both.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --verify-each | filecheck %s

// CHECK: "nv_tileas.create_pipeline"() <{bytes = #builtin.int<32768>, consumers
// CHECK-NOT: "nv_tileas.create_pipeline"() <{bytes
// CHECK: "scf.for"
// CHECK: "nv_tileas.tensor_dot"(%{{[0-9]+}}, %{{[0-9]+}}, [[A:%[0-9]+]], [[NOTFIRST:%[0-9]+]])
// CHECK: "nv_tileas.tensor_dot"(%{{[0-9]+}}, %{{[0-9]+}}, [[B:%[0-9]+]],
// CHECK-NOT: "nv_tileas.load_tmem"
// CHECK-NOT: "nv_tileas.store_tmem"
// CHECK: "scf.for"
// CHECK: [[ADD:%[0-9]+]] = "arith.ori"
// CHECK: "nv_tileas.tensor_dot"(%{{[0-9]+}}, %{{[0-9]+}}, [[A]], [[ADD]])
// CHECK: "nv_tileas.tensor_dot"(%{{[0-9]+}}, %{{[0-9]+}}, [[B]],
// CHECK: [[NONE:%[0-9]+]] = "arith.andi"
// CHECK: "scf.if"([[NONE]])
// CHECK-NEXT: "nv_tileas.store_tmem"
cuda_tile.module @m {
  entry @gates(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %r: tile<ptr<f16>>, %s: tile<ptr<f16>>, %o: tile<ptr<f32>>, %n: tile<i32>, %m: tile<i32>) {
    %t = make_token : token
    %i, %j, %g = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x64xf32>
    %pa = assume div_by<16>, %p : tile<ptr<f16>>
    %pt = make_tensor_view %pa, shape = [1024, 1024], strides = [1024, 1] : tensor_view<1024x1024xf16, strides=[1024,1]>
    %qa = assume div_by<16>, %q : tile<ptr<f16>>
    %qt = make_tensor_view %qa, shape = [1024, 1024], strides = [1024, 1] : tensor_view<1024x1024xf16, strides=[1024,1]>
    %ra = assume div_by<16>, %r : tile<ptr<f16>>
    %rt = make_tensor_view %ra, shape = [1024, 1024], strides = [1024, 1] : tensor_view<1024x1024xf16, strides=[1024,1]>
    %sa = assume div_by<16>, %s : tile<ptr<f16>>
    %st = make_tensor_view %sa, shape = [1024, 1024], strides = [1024, 1] : tensor_view<1024x1024xf16, strides=[1024,1]>
    %xv = make_partition_view %pt : partition_view<tile=(128x64), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %wv = make_partition_view %qt : partition_view<tile=(64x64), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %hv = make_partition_view %rt : partition_view<tile=(128x64), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %uv = make_partition_view %st : partition_view<tile=(64x64), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %a1, %b1 = for %k1 in (%zero to %n, step %one) : tile<i32> iter_values(%c1 = %none, %d1 = %none) -> (tile<128x64xf32>, tile<128x64xf32>) {
      %x1, %tx1 = load_view_tko weak %xv[%i, %k1] token = %t : partition_view<tile=(128x64), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<128x64xf16>, token
      %w1, %tw1 = load_view_tko weak %wv[%k1, %j] token = %t : partition_view<tile=(64x64), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<64x64xf16>, token
      %v1, %tv1 = load_view_tko weak %wv[%k1, %g] token = %t : partition_view<tile=(64x64), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<64x64xf16>, token
      %e1 = mmaf %x1, %w1, %c1 : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %f1 = mmaf %x1, %v1, %d1 : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      continue %e1, %f1 : tile<128x64xf32>, tile<128x64xf32>
    }
    %a2, %b2 = for %k2 in (%zero to %m, step %one) : tile<i32> iter_values(%c2 = %a1, %d2 = %b1) -> (tile<128x64xf32>, tile<128x64xf32>) {
      %x2, %tx2 = load_view_tko weak %hv[%i, %k2] token = %t : partition_view<tile=(128x64), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<128x64xf16>, token
      %w2, %tw2 = load_view_tko weak %uv[%k2, %j] token = %t : partition_view<tile=(64x64), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<64x64xf16>, token
      %v2, %tv2 = load_view_tko weak %uv[%k2, %g] token = %t : partition_view<tile=(64x64), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<64x64xf16>, token
      %e2 = mmaf %x2, %w2, %c2 : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %f2 = mmaf %x2, %v2, %d2 : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      continue %e2, %f2 : tile<128x64xf32>, tile<128x64xf32>
    }
    %oa = assume div_by<16>, %o : tile<ptr<f32>>
    %ot = make_tensor_view %oa, shape = [1024, 1024], strides = [1024, 1] : tensor_view<1024x1024xf32, strides=[1024,1]>
    %ov = make_partition_view %ot : partition_view<tile=(128x64), tensor_view<1024x1024xf32, strides=[1024,1]>>
    %sum = addf %a2, %b2 : tile<128x64xf32>
    %to = store_view_tko weak %sum, %ov[%i, %j] token = %t : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<1024x1024xf32, strides=[1024,1]>>, tile<i32> -> token
    return
  }
}
