// Tiles that warpgroups multiply lie as matrix descriptors name them; what threads wrote is fenced before the tensor cores read it.
// RUN: env TILEIRAS_WITHOUT=pipelines tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s

// CHECK: [[A:%[0-9]+]] = "nv_tileas.alloc_tensor"() <{offset = {{.*}}}> : () -> !nv_tileas.buffer<f16, #nv_tileas.shared<shape = [64x64], offset = [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048]>>
// CHECK: "nv_tileas.store_shared"(%{{[0-9]+}}, [[A]])
// CHECK: [[B:%[0-9]+]] = "nv_tileas.alloc_tensor"()
// CHECK: "nv_tileas.store_shared"(%{{[0-9]+}}, [[B]])
// CHECK-NEXT: "nv_tileas.fence_async"
// CHECK-NEXT: "nv_tileas.barrier"
// CHECK-NEXT: [[S:%[0-9]+]] = "nv_tileas.dot"([[A]], [[B]], %{{[0-9]+}}) <{atom = "sm90.mma.m64n64k16.f32.f16.f16.ss"}>

// What is in the registers that the instruction takes A from stays there.
// CHECK: [[P:%[0-9]+]] = "arith.convertf"([[S]])
// CHECK: "nv_tileas.dot"({{%[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}}) <{atom = "sm90.mma.m64n64k16.f32.f16.f16.rs"}> : (tensor<64x64xf16,
cuda_tile.module @m {
  entry @chain(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %j = constant <i32: 1> : tile<i32>
    %k = constant <i32: 2> : tile<i32>
    %c = constant <f32: 0.0> : tile<64x64xf32>
    %w = make_tensor_view %p, shape = [192, 64], strides = [64, 1] : tensor_view<192x64xf16, strides=[64,1]>
    %v = make_partition_view %w : partition_view<tile=(64x64), tensor_view<192x64xf16, strides=[64,1]>>
    %a, %u0 = load_view_tko weak %v[%i, %i] token = %t : partition_view<tile=(64x64), tensor_view<192x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %b, %u1 = load_view_tko weak %v[%j, %i] token = %t : partition_view<tile=(64x64), tensor_view<192x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %d, %u2 = load_view_tko weak %v[%k, %i] token = %t : partition_view<tile=(64x64), tensor_view<192x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %s = mmaf %a, %b, %c : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
    %h = ftof %s : tile<64x64xf32> -> tile<64x64xf16>
    %o = mmaf %h, %d, %c : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
    %x = make_tensor_view %q, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %y = make_partition_view %x : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %z = store_view_tko weak %o, %y[%i, %i] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
