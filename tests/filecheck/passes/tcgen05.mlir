// An accumulator that a loop carries lies in tensor memory; products run on over the iterations, and the tensor core gives stages back.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s
// RUN: env TILEIRAS_WITHOUT=pipelines,tma,agents tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=SERIAL
// RUN: env TILEIRAS_WITHOUT=tcgen05 tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=WITHOUT

// CHECK: [[DONE:%[0-9]+]] = "nv_tileas.create_pipeline"() {{.*}} -> !nv_tileas.pipe<"umma", #builtin.int<1>>
// CHECK: "nv_tileas.agent_switch"
// CHECK-NEXT: "nv_tileas.tmem_alloc"() <{columns = #builtin.int<128>
// CHECK-NEXT: "nv_tileas.barrier"
// CHECK-NEXT: "nv_tileas.tmem_base"
// CHECK: [[D:%[0-9]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<0>}> : () -> !nv_tileas.tmem<f32
// CHECK: "scf.for"(
// CHECK-NEXT: ^bb0([[I:%[0-9]+]]: i32):
// CHECK: "nv_tileas.consumer_wait"({{%[0-9]+}}) <{by_dots}>
// CHECK: [[ADD:%[0-9]+]] = "arith.cmpi"([[I]], {{.*}}"ne"
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, {{%[0-9]+}}, [[D]], [[ADD]]) <{atom = "sm100.mma.f16.m128n128k16.f32.f16.f16.cg1.ss"
// CHECK-NEXT: "nv_tileas.consumer_release"({{%[0-9]+}}) <{by_dots}>
// CHECK-NEXT: "scf.yield"() : () -> ()
// CHECK: "nv_tileas.producer_commit"([[DONE]])
// CHECK-NEXT: "nv_tileas.consumer_wait"([[DONE]], {{.*}}[[D]])
// CHECK-NEXT: "scf.if"
// CHECK-NEXT: "nv_tileas.store_tmem"({{%[0-9]+}}, [[D]])
// CHECK: "nv_tileas.load_tmem"([[D]])
// CHECK: "nv_tileas.tmem_free"() <{columns = #builtin.int<128>

// SERIAL: "nv_tileas.fence_async"
// SERIAL-NEXT: "nv_tileas.barrier"
// SERIAL: "nv_tileas.tensor_dot"
// SERIAL: "nv_tileas.producer_commit"
// SERIAL-NEXT: "nv_tileas.consumer_wait"
// SERIAL: "scf.yield"

// WITHOUT-NOT: tmem
// WITHOUT: "nv_tileas.dot"({{.*}} <{atom = "mma.m16n8k16
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
    %u = make_tensor_view %p, shape = [4096, 128], strides = [128, 1] : tensor_view<4096x128xf16, strides=[128,1]>
    %k = make_partition_view %u : partition_view<tile=(64x128), tensor_view<4096x128xf16, strides=[128,1]>>
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<128x128xf32>) {
      %a, %u0 = load_view_tko weak %v[%zero, %i] token = %t : partition_view<tile=(128x64), tensor_view<128x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<128x64xf16>, token
      %b, %u1 = load_view_tko weak %k[%i, %zero] token = %t : partition_view<tile=(64x128), tensor_view<4096x128xf16, strides=[128,1]>>, tile<i32> -> tile<64x128xf16>, token
      %d = mmaf %a, %b, %acc : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %d : tile<128x128xf32>
    }
    %x = make_tensor_view %q, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %y = make_partition_view %x : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %z = store_view_tko weak %s, %y[%zero, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
