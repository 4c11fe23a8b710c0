// Products of two shapes into one accumulator: the hardware orders those of one shape only, so that the second waits for the first,
// in a loop.
// RUN: env TILEIRAS_WITHOUT=agents tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s
// RUN: env TILEIRAS_WITHOUT=agents tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=TENSOR

// TENSOR: "scf.for"
// TENSOR: "nv_tileas.tensor_dot"{{.*}}.f16.m64n64k16.
// TENSOR: "nv_tileas.consumer_wait"([[PIPE:%[0-9]+]]{{.*}}"umma"
// TENSOR: "nv_tileas.tensor_dot"{{.*}}.tf32.m64n64k8.
// TENSOR: "nv_tileas.consumer_wait"([[PIPE]]
// TENSOR: "scf.yield"

// CHECK: "scf.for"
// CHECK: [[A:%[0-9]+]] = "nv_tileas.async_dot"{{.*}}sm90.mma.m64n64k16.f32.f16.f16.ss
// CHECK: [[W:%[0-9]+]] = "nv_tileas.dot_wait"([[A]]
// CHECK: [[F:%[0-9]+]] = "nv_tileas.begin_flight"([[W]])
// CHECK: [[B:%[0-9]+]] = "nv_tileas.async_dot"({{%[0-9]+, %[0-9]+}}, [[F]]) <{atom = "sm90.mma.m64n64k8.f32.tf32.tf32.{{ss|rs}}"}>
// CHECK: "nv_tileas.dot_wait"([[B]]
// CHECK: "scf.yield"
cuda_tile.module @m {
  entry @sum(%pp: tile<ptr<f16>>, %rr: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %p = assume div_by<16>, %pp : tile<ptr<f16>>
    %r = assume div_by<16>, %rr : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<64x64xf32>
    %w = make_tensor_view %p, shape = [64, 4096], strides = [4096, 1] : tensor_view<64x4096xf16, strides=[4096,1]>
    %v = make_partition_view %w : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>
    %w2 = make_tensor_view %r, shape = [64, 4096], strides = [4096, 1] : tensor_view<64x4096xf32, strides=[4096,1]>
    %v2 = make_partition_view %w2 : partition_view<tile=(64x64), tensor_view<64x4096xf32, strides=[4096,1]>>
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<64x64xf32>) {
      %a, %u0 = load_view_tko weak %v[%zero, %i] token = %t : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
      %b, %u1 = load_view_tko weak %v2[%zero, %i] token = %t : partition_view<tile=(64x64), tensor_view<64x4096xf32, strides=[4096,1]>>, tile<i32> -> tile<64x64xf32>, token
      %b1 = ftof %b : tile<64x64xf32> -> tile<64x64xtf32>
      %bt = permute %b1 [1, 0] : tile<64x64xtf32> -> tile<64x64xtf32>
      %d = mmaf %a, %a, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      %e = mmaf %b1, %bt, %d : tile<64x64xtf32>, tile<64x64xtf32>, tile<64x64xf32>
      continue %e : tile<64x64xf32>
    }
    %x = make_tensor_view %q, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %y = make_partition_view %x : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %z = store_view_tko weak %s, %y[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
