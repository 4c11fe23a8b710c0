// Tiles that the copy engine moves between views and registers, because fewer slots count: an array of odd width is read by single
// elements otherwise (narrower ones than these go several at a time, wide-inside.mlir). Both loads are on their way before anything is waited for. Where width is known to be whole chunks, and in
// few slots otherwise, threads do it; and in a loop whose iterations load so little that they would wait longer than they read.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s
// RUN: env TILEIRAS_WITHOUT=tma tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s --check-prefix=PLAIN
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_80 | filecheck %s --check-prefix=PLAIN

// CHECK: sym_name = "odd_columns"
// CHECK: [[PIPE:%[0-9]+]] = "nv_tileas.create_pipeline"() <{bytes = #builtin.int<32768>
// CHECK: "nv_tileas.producer_acquire"([[PIPE]])
// CHECK: "nv_tileas.tma_load"
// CHECK-NOT: consumer_wait
// CHECK: "nv_tileas.tma_load"
// CHECK: "nv_tileas.producer_commit"([[PIPE]])
// CHECK: "nv_tileas.consumer_wait"([[PIPE]])
// CHECK: "nv_tileas.load_shared"
// CHECK: math.exp
// CHECK: "nv_tileas.load_shared"
// CHECK: "nv_tileas.consumer_release"([[PIPE]])
// CHECK: sym_name = "even_columns"
// CHECK-NOT: tma_load
// CHECK: sym_name = "large_steps"
// CHECK: tma_load
// CHECK: sym_name = "small_steps"
// CHECK-NOT: tma_load
// PLAIN-NOT: tma_load
cuda_tile.module @m {
  entry @odd_columns(%p: tile<ptr<f64>>, %q: tile<ptr<f32>>, %n: tile<i32>, %s: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %p1 = assume div_by<16>, %p : tile<ptr<f64>>
    %s1 = assume div_by<2>, %s : tile<i32>
    %w = make_tensor_view %p1, shape = [%n, %n], strides = [%s1, 1] : tile<i32> -> tensor_view<?x?xf64, strides=[?,1]>
    %v = make_partition_view %w : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x?xf64, strides=[?,1]>>
    %u = make_partition_view %w : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x?xf64, strides=[?,1]>>
    %x, %tx = load_view_tko weak %v[%zero, %zero] token = %t : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x?xf64, strides=[?,1]>>, tile<i32>, tile<i32> -> tile<32x64xf64>, token
    %f = exp %x : tile<32x64xf64>
    %y, %ty = load_view_tko weak %u[%one, %zero] token = %t : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x?xf64, strides=[?,1]>>, tile<i32>, tile<i32> -> tile<32x64xf64>, token
    %z = addf %f, %y : tile<32x64xf64>
    %q1 = assume div_by<16>, %q : tile<ptr<f32>>
    %wz = make_tensor_view %q1, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %vz = make_partition_view %wz : partition_view<tile=(32), tensor_view<4096xf32, strides=[1]>>
    %g = ftof %z : tile<32x64xf64> -> tile<32x64xf32>
    %sum = reduce %g dim=1 identities=[0.0 : f32] : tile<32x64xf32> -> tile<32xf32>
    (%a: tile<f32>, %b: tile<f32>) {
      %c = addf %a, %b : tile<f32>
      yield %c : tile<f32>
    }
    %e = store_view_tko weak %sum, %vz[%zero] token = %t : tile<32xf32>, partition_view<tile=(32), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
    return
  }
  entry @even_columns(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %t = make_token : token
    %p1 = assume div_by<16>, %p : tile<ptr<f32>>
    %q1 = assume div_by<16>, %q : tile<ptr<f32>>
    %w = make_tensor_view %p1, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>
    %u = make_tensor_view %q1, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %o = make_partition_view %u : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>
    %x, %tx = load_view_tko weak %v[%zero] token = %t : partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
    %e = store_view_tko weak %x, %o[%zero] token = %t : tile<1024xf32>, partition_view<tile=(1024), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
    return
  }
  entry @large_steps(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %n: tile<i32>, %s: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %p1 = assume div_by<16>, %p : tile<ptr<f16>>
    %s1 = assume div_by<8>, %s : tile<i32>
    %w = make_tensor_view %p1, shape = [%n, %n], strides = [%s1, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %v = make_partition_view %w : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %start = constant <f16: 0.0> : tile<64x64xf16>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<64x64xf16>) {
      %x, %tx = load_view_tko weak %v[%zero, %i] token = %t : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x64xf16>, token
      %d = addf %acc, %x : tile<64x64xf16>
      continue %d : tile<64x64xf16>
    }
    %o = make_tensor_view %q, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf16, strides=[64,1]>
    %vo = make_partition_view %o : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>
    %e = store_view_tko weak %sum, %vo[%zero, %zero] token = %t : tile<64x64xf16>, partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>, tile<i32> -> token
    return
  }
  entry @small_steps(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %n: tile<i32>, %s: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %p1 = assume div_by<16>, %p : tile<ptr<f16>>
    %s1 = assume div_by<8>, %s : tile<i32>
    %w = make_tensor_view %p1, shape = [%n, %n], strides = [%s1, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %v = make_partition_view %w : partition_view<tile=(8x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %start = constant <f16: 0.0> : tile<8x64xf16>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<8x64xf16>) {
      %x, %tx = load_view_tko weak %v[%zero, %i] token = %t : partition_view<tile=(8x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<8x64xf16>, token
      %d = addf %acc, %x : tile<8x64xf16>
      continue %d : tile<8x64xf16>
    }
    %o = make_tensor_view %q, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf16, strides=[64,1]>
    %vo = make_partition_view %o : partition_view<tile=(8x64), tensor_view<64x64xf16, strides=[64,1]>>
    %e = store_view_tko weak %sum, %vo[%zero, %zero] token = %t : tile<8x64xf16>, partition_view<tile=(8x64), tensor_view<64x64xf16, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
