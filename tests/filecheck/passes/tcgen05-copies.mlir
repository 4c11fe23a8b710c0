// What only products into tensor memory read, and threads can copy, is copied by warps of its own: the pipe counts their copies'
// arrivals, the thread that begins the products says the fence itself, and the tensor core gives the stages back.
// RUN: env TILEIRAS_WITHOUT=tma tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s
// RUN: env TILEIRAS_WITHOUT=tma,agents tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=ALONE

// CHECK: [[PIPE:%[0-9]+]] = "nv_tileas.create_pipeline"() <{producers = #builtin.int<128>, consumers = #builtin.int<1>, {{.*}} -> !nv_tileas.pipe<"cp_async"
// CHECK: "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<4>]
// CHECK: "nv_tileas.consumer_wait"([[PIPE]]) <{by_dots
// CHECK-NEXT: "nv_tileas.fence_async"
// CHECK: "nv_tileas.tensor_dot"
// CHECK-NEXT: "nv_tileas.consumer_release"([[PIPE]]) <{by_dots}>
// CHECK-NEXT: "scf.yield"
// CHECK: "nv_tileas.producer_acquire"([[PIPE]])
// CHECK: "nv_tileas.tiled_copy"({{.*}} atom = "cp.async.16"
// CHECK: "nv_tileas.producer_commit"([[PIPE]])

// ALONE: -> !nv_tileas.pipe<"group"
// ALONE-NOT: "cp_async"
cuda_tile.module @m {
  entry @sum(%pp: tile<ptr<f16>>, %qp: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %p = assume div_by<16>, %pp : tile<ptr<f16>>
    %q = assume div_by<16>, %qp : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<128x128xf32>
    %w = make_tensor_view %p, shape = [128, 4096], strides = [4096, 1] : tensor_view<128x4096xf16, strides=[4096,1]>
    %v = make_partition_view %w : partition_view<tile=(128x64), tensor_view<128x4096xf16, strides=[4096,1]>>
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<128x128xf32>) {
      %a, %u0 = load_view_tko weak %v[%zero, %i] token = %t : partition_view<tile=(128x64), tensor_view<128x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<128x64xf16>, token
      %b, %u1 = load_view_tko weak %v[%one, %i] token = %t : partition_view<tile=(128x64), tensor_view<128x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<128x64xf16>, token
      %e = permute %b [1, 0] : tile<128x64xf16> -> tile<64x128xf16>
      %d = mmaf %a, %e, %acc : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %d : tile<128x128xf32>
    }
    %o = make_tensor_view %q, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %z = make_partition_view %o : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %x = store_view_tko weak %s, %z[%zero, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
