// An iteration's result is stored behind the first product of the next one: the store stands in a branch, for the first iteration has
// none before it, and once more behind the loop. Threads wait for it in front of its load.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s
// RUN: env TILEIRAS_WITHOUT=pipelines tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=NONE

// CHECK: [[O:%[0-9]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<0>}> : () -> !nv_tileas.tmem<f32
// CHECK: "nv_tileas.store_tmem"({{%[0-9]+}}, [[O]])
// CHECK-NEXT: "nv_tileas.producer_commit"([[LATE:%[0-9]+]])
// CHECK-NEXT: [[LAST:%[0-9]+]] = "scf.for"([[LO:%[0-9]+]], {{.*}}, [[LO]])
// CHECK-NEXT: ^bb0([[I:%[0-9]+]]: i32, [[BEFORE:%[0-9]+]]: i32):
// CHECK: "nv_tileas.tensor_dot"({{.*}}.ss"
// CHECK: [[OTHERS:%[0-9]+]] = "arith.cmpi"([[I]], [[LO]]) <{predicate = "ne"}>
// CHECK: "arith.muli"([[BEFORE]],
// CHECK: "nv_tileas.consumer_wait"([[LATE]], {{.*}}[[O]])
// CHECK-NEXT: "nv_tileas.load_tmem"([[O]])
// CHECK: "nv_tileas.fence_async"()
// CHECK-NEXT: "nv_tileas.barrier"()
// CHECK-NEXT: "scf.if"([[OTHERS]])
// CHECK-NEXT: "nv_tileas.tma_store"(
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, {{%[0-9]+}}, [[O]], {{.*}}.ts"
// CHECK-NEXT: "nv_tileas.producer_commit"([[LATE]])
// CHECK-NEXT: "scf.yield"([[I]])
// CHECK: "nv_tileas.consumer_wait"([[LATE]], {{.*}}[[O]])
// CHECK: "scf.if"(
// CHECK: "arith.muli"([[LAST]],
// CHECK: "nv_tileas.tma_store"(

// NONE: "nv_tileas.tensor_dot"({{.*}}.ts"
// NONE-NOT: "scf.if"
cuda_tile.module @m {
  entry @layers(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x64xf32>
    %aa = assume div_by<16>, %pa : tile<ptr<f16>>
    %ab = assume div_by<16>, %pb : tile<ptr<f16>>
    %ao = assume div_by<16>, %po : tile<ptr<f32>>
    %wa = make_tensor_view %aa, shape = [65536, 64], strides = [64, 1] : tensor_view<65536x64xf16, strides=[64,1]>
    %wb = make_tensor_view %ab, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf16, strides=[64,1]>
    %wo = make_tensor_view %ao, shape = [65536, 64], strides = [64, 1] : tensor_view<65536x64xf32, strides=[64,1]>
    %va = make_partition_view %wa : partition_view<tile=(128x64), tensor_view<65536x64xf16, strides=[64,1]>>
    %vb = make_partition_view %wb : partition_view<tile=(64x64), tensor_view<128x64xf16, strides=[64,1]>>
    %vo = make_partition_view %wo : partition_view<tile=(128x64), tensor_view<65536x64xf32, strides=[64,1]>>
    %b, %u0 = load_view_tko weak %vb[%zero, %zero] token = %t : partition_view<tile=(64x64), tensor_view<128x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %c, %u1 = load_view_tko weak %vb[%one, %zero] token = %t : partition_view<tile=(64x64), tensor_view<128x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    for %i in (%zero to %n, step %one) : tile<i32> {
      %a, %u2 = load_view_tko weak %va[%i, %zero] token = %t : partition_view<tile=(128x64), tensor_view<65536x64xf16, strides=[64,1]>>, tile<i32> -> tile<128x64xf16>, token
      %x = mmaf %a, %b, %none : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %y = maxf %x, %none : tile<128x64xf32>
      %h = ftof %y : tile<128x64xf32> -> tile<128x64xf16>
      %z = mmaf %h, %c, %none : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %u3 = store_view_tko weak %z, %vo[%i, %zero] token = %t : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<65536x64xf32, strides=[64,1]>>, tile<i32> -> token
      continue
    }
    return
  }
}
