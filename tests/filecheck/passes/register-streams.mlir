// Tiles that must go through registers on their way to shared memory are loaded, converted and stored by a load agent of as many
// warps; with two warpgroups on either side registers go to those that compute.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s
// RUN: env TILEIRAS_WITHOUT=agents tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s --check-prefix=ONE

// ONE-NOT: agent_switch
// ONE-NOT: create_pipeline
// CHECK: "nv_tileas.create_pipeline"() <{producers = #builtin.int<8>, consumers = #builtin.int<8>, offset = {{.*}}}> : () -> !nv_tileas.pipe<"mbarrier"
// CHECK: "nv_tileas.agent_switch"() <{warps = [#builtin.int<8>, #builtin.int<8>], registers = [#builtin.int<168>, #builtin.int<88>]}> ({
// CHECK-NOT: arith.extsi
// CHECK: "nv_tileas.consumer_wait"
// CHECK: "nv_tileas.async_dot"
// CHECK: }, {
// CHECK: "scf.for"
// CHECK: [[X:%[0-9]+]], {{%[0-9]+}} = "nv_tileas.tiled_load"
// CHECK: [[Y:%[0-9]+]] = "arith.sitofp"([[X]])
// CHECK: [[P:%[0-9]+]] = "nv_tileas.producer_acquire"
// CHECK: [[SLOT:%[0-9]+]] = "nv_tileas.extract_slice"({{%[0-9]+}}, [[P]])
// CHECK: "nv_tileas.store_shared"([[Y]], [[SLOT]])
// CHECK: "nv_tileas.fence_async"
// CHECK-NEXT: "nv_tileas.producer_commit"
// CHECK-NOT: "nv_tileas.dot"
cuda_tile.module @m {
  entry @dequantized(%p: tile<ptr<i8>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<128x128xf32>
    %w = make_tensor_view %p, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xi8, strides=[4096,1]>
    %va = make_partition_view %w : partition_view<tile=(128x64), tensor_view<4096x4096xi8, strides=[4096,1]>>
    %vb = make_partition_view %w : partition_view<tile=(64x128), tensor_view<4096x4096xi8, strides=[4096,1]>>
    %s = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<128x128xf32>) {
      %a, %u0 = load_view_tko weak %va[%zero, %k] : partition_view<tile=(128x64), tensor_view<4096x4096xi8, strides=[4096,1]>>, tile<i32> -> tile<128x64xi8>, token
      %b, %u1 = load_view_tko weak %vb[%k, %zero] : partition_view<tile=(64x128), tensor_view<4096x4096xi8, strides=[4096,1]>>, tile<i32> -> tile<64x128xi8>, token
      %x = itof %a signed rounding<nearest_even> : tile<128x64xi8> -> tile<128x64xf16>
      %y = itof %b signed rounding<nearest_even> : tile<64x128xi8> -> tile<64x128xf16>
      %d = mmaf %x, %y, %acc : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %d : tile<128x128xf32>
    }
    %x = make_tensor_view %q, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %y = make_partition_view %x : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %e = store_view_tko weak %s, %y[%zero, %zero] : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
