// A tile of an aligned view that a dot reads from shared memory is brought there by the copy engine: what one op reads is one
// stage of one pipe. The map is a parameter, made from the others. A view of unknown stride is loaded by threads.
// RUN: env TILEIRAS_WITHOUT=agents,pipelines tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas -O0 --gpu-name=sm_90 | filecheck %s --check-prefix=PLAIN
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_80 | filecheck %s --check-prefix=PLAIN

// PLAIN-NOT: tma
// CHECK: tensor_maps = ["f16 p0 [32, umax(u32(p3), 1)] [mul(u32(p4), 2)] box [32, 64] swizzle 64"]
// CHECK: [[MAP:%[0-9]+]]: !nv_tileas.tensormap<"f16", [#builtin.int<64>, #builtin.int<32>], #builtin.int<1>, #builtin.int<64>>):
// CHECK-NEXT: "nv_tileas.prefetch_tma_desc"([[MAP]])
// CHECK: [[PIPE:%[0-9]+]] = "nv_tileas.create_pipeline"() <{bytes = #builtin.int<4096>
// CHECK: [[RING:%[0-9]+]] = "nv_tileas.alloc_tensor"
// CHECK: "scf.for"
// CHECK: [[I:%[0-9]+]] = "nv_tileas.producer_acquire"([[PIPE]])
// CHECK: [[SLOT:%[0-9]+]] = "nv_tileas.extract_slice"([[RING]], [[I]])
// CHECK: "nv_tileas.tma_load"([[MAP]], %{{[0-9]+}}, %{{[0-9]+}}, [[SLOT]], [[PIPE]], [[I]])
// CHECK: "nv_tileas.producer_commit"([[PIPE]])
// CHECK: "nv_tileas.tiled_load"
// CHECK: [[J:%[0-9]+]] = "nv_tileas.consumer_wait"([[PIPE]])
// CHECK: [[FULL:%[0-9]+]] = "nv_tileas.extract_slice"([[RING]], [[J]])
// CHECK: "nv_tileas.dot"([[FULL]],
// CHECK-NEXT: "nv_tileas.consumer_release"([[PIPE]])
cuda_tile.module @m {
  entry @product(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %r: tile<ptr<f32>>, %n: tile<i32>, %s: tile<i32>, %u: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %start = constant <f32: 0.0> : tile<64x64xf32>
    %p1 = assume div_by<16>, %p : tile<ptr<f16>>
    %s1 = assume div_by<8>, %s : tile<i32>
    %wa = make_tensor_view %p1, shape = [%n, 32], strides = [%s1, 1] : tile<i32> -> tensor_view<?x32xf16, strides=[?,1]>
    %wb = make_tensor_view %q, shape = [32, %n], strides = [%u, 1] : tile<i32> -> tensor_view<32x?xf16, strides=[?,1]>
    %wc = make_tensor_view %r, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %a = make_partition_view %wa : partition_view<tile=(64x32), tensor_view<?x32xf16, strides=[?,1]>>
    %b = make_partition_view %wb : partition_view<tile=(32x64), tensor_view<32x?xf16, strides=[?,1]>>
    %c = make_partition_view %wc : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %acc = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%x = %start) -> (tile<64x64xf32>) {
      %l, %t1 = load_view_tko weak %a[%i, %zero] token = %t : partition_view<tile=(64x32), tensor_view<?x32xf16, strides=[?,1]>>, tile<i32>, tile<i32> -> tile<64x32xf16>, token
      %m, %t2 = load_view_tko weak %b[%zero, %i] token = %t : partition_view<tile=(32x64), tensor_view<32x?xf16, strides=[?,1]>>, tile<i32>, tile<i32> -> tile<32x64xf16>, token
      %d = mmaf %l, %m, %x : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      continue %d : tile<64x64xf32>
    }
    %e = store_view_tko weak %acc, %c[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32>, tile<i32> -> token
    return
  }
}
