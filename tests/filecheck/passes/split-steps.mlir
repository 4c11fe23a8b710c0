// Tiles of 96 KB don't fit an SM of 163 KB twice: the loop counts twice as far, by halves along k. The last one may begin behind the end of the arrays.
// RUN: tileiras-opt %s --pass-pipeline='builtin.module(convert-cudatile-to-tileaa,split-steps)' --gpu-name=sm_80 | filecheck %s
// RUN: tileiras-opt %s --pass-pipeline='builtin.module(convert-cudatile-to-tileaa,split-steps)' --gpu-name=sm_90 | filecheck %s --check-prefix=ROOM
// 99 KB hold one of them: the ring would have one stage.
// RUN: tileiras-opt %s --pass-pipeline='builtin.module(convert-cudatile-to-tileaa,split-steps)' --gpu-name=sm_120 | filecheck %s
// By two blocks, 113 KB each, that is so on sm_90.
// RUN: sed '/entry @product/s/ {$/ optimization_hints=<sm_90 = {occupancy = 2}> {/' %s | tileiras-opt - --pass-pipeline='builtin.module(convert-cudatile-to-tileaa,split-steps)' --gpu-name=sm_90 | filecheck %s
// 32 blocks have no room for any part: tiles are split as for one.
// RUN: sed '/entry @product/s/ {$/ optimization_hints=<sm_90 = {occupancy = 32}> {/' %s | tileiras-opt - --pass-pipeline='builtin.module(convert-cudatile-to-tileaa,split-steps)' --gpu-name=sm_90 | filecheck %s --check-prefix=ROOM
// RUN: sed '/entry @product/s/ {$/ optimization_hints=<sm_80 = {occupancy = 32}> {/' %s | tileiras-opt - --pass-pipeline='builtin.module(convert-cudatile-to-tileaa,split-steps)' --gpu-name=sm_80 | filecheck %s

// CHECK: [[TWO:%[0-9]+]] = "arith.constant"() <{value = 2 : i32}>
// CHECK-NEXT: [[FROM:%[0-9]+]] = "arith.muli"({{%[0-9]+}}, [[TWO]])
// CHECK-NEXT: "arith.constant"() <{value = 2 : i32}>
// CHECK-NEXT: [[TO:%[0-9]+]] = "arith.muli"
// CHECK: "scf.for"([[FROM]], [[TO]], {{%[0-9]+}}, {{%[0-9]+}})
// CHECK-NEXT: ^bb0([[K:%[0-9]+]]: i32
// CHECK-NEXT: "nv_tileaa.tiled_load"({{%[0-9]+}}, {{%[0-9]+}}, [[K]], {{%[0-9]+}}) <{{{.*}}outside = [#builtin.int<0>, #builtin.int<1>]}> {{.*}}tile = [256, 64]{{.*}} -> (tensor<256x64xf16>
// CHECK-NEXT: "nv_tileaa.tiled_load"({{%[0-9]+}}, [[K]], {{%[0-9]+}}, {{%[0-9]+}}) <{{{.*}}outside = [#builtin.int<1>, #builtin.int<0>]}> {{.*}}tile = [64, 128]{{.*}} -> (tensor<64x128xf16>
// CHECK-NEXT: "nv_tileaa.dot"({{%[0-9]+, %[0-9]+, %[0-9]+}}) : (tensor<256x64xf16>, tensor<64x128xf16>, tensor<256x128xf32>)

// ROOM-NOT: tile = [256, 64]
// ROOM: "nv_tileaa.dot"({{%[0-9]+, %[0-9]+, %[0-9]+}}) : (tensor<256x128xf16>, tensor<128x128xf16>, tensor<256x128xf32>)
cuda_tile.module @m {
  entry @product(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %r: tile<ptr<f32>>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %n = constant <i32: 16> : tile<i32>
    %c = constant <f32: 0.0> : tile<256x128xf32>
    %a = make_tensor_view %p, shape = [256, 2000], strides = [2048, 1] : tensor_view<256x2000xf16, strides=[2048,1]>
    %b = make_tensor_view %q, shape = [2000, 128], strides = [128, 1] : tensor_view<2000x128xf16, strides=[128,1]>
    %o = make_tensor_view %r, shape = [256, 128], strides = [128, 1] : tensor_view<256x128xf32, strides=[128,1]>
    %va = make_partition_view %a : partition_view<tile=(256x128), padding_value = zero, tensor_view<256x2000xf16, strides=[2048,1]>>
    %vb = make_partition_view %b : partition_view<tile=(128x128), padding_value = zero, tensor_view<2000x128xf16, strides=[128,1]>>
    %vo = make_partition_view %o : partition_view<tile=(256x128), tensor_view<256x128xf32, strides=[128,1]>>
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<256x128xf32>) {
      %x, %u = load_view_tko weak %va[%zero, %i] token = %t : partition_view<tile=(256x128), padding_value = zero, tensor_view<256x2000xf16, strides=[2048,1]>>, tile<i32> -> tile<256x128xf16>, token
      %y, %w = load_view_tko weak %vb[%i, %zero] token = %t : partition_view<tile=(128x128), padding_value = zero, tensor_view<2000x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
      %e = mmaf %x, %y, %acc : tile<256x128xf16>, tile<128x128xf16>, tile<256x128xf32>
      continue %e : tile<256x128xf32>
    }
    %z = store_view_tko weak %s, %vo[%zero, %zero] token = %t : tile<256x128xf32>, partition_view<tile=(256x128), tensor_view<256x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
