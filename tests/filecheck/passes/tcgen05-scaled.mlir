// A block-scaled product into tensor memory: bytes of two elements, scales as the tensor core copies them, columns for them there.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s
// RUN: env TILEIRAS_WITHOUT=tcgen05 tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=WIDE

// CHECK: [[A:%[0-9]+]] = "nv_tileas.alloc_tensor"() {{.*}} -> !nv_tileas.buffer<i8, #nv_tileas.shared<shape = [64x32], offset = [1, 2, 4, 8, 16, 32, 64, 144, 256, 1024, 2048]>>
// CHECK: [[B:%[0-9]+]] = "nv_tileas.alloc_tensor"() {{.*}} -> !nv_tileas.buffer<i8, #nv_tileas.shared<shape = [32x64], offset = [32, 64, 144, 256, 512, 1024, 1, 2, 4, 8, 16]>>
// CHECK: [[SA:%[0-9]+]] = "nv_tileas.alloc_tensor"() {{.*}} -> !nv_tileas.buffer<f8E4M3FN, #nv_tileas.shared<shape = [128x4], offset = [1, 2, 16, 32, 64, 128, 4, 8, 256]>>
// CHECK: "nv_tileas.broadcast"({{.*}}) : (tensor<1x64x1x4xf8E4M3FN, {{.*}}>) -> tensor<2x64x1x4xf8E4M3FN
// CHECK: [[SB:%[0-9]+]] = "nv_tileas.alloc_tensor"() {{.*}} -> !nv_tileas.buffer<f8E4M3FN, #nv_tileas.shared<shape = [4x128], offset = [16, 32, 64, 128, 256, 4, 8, 1, 2]>>
// CHECK: [[F:%[0-9]+]] = "nv_tileas.alloc_tensor"() {{.*}} -> !nv_tileas.tmem<i32, [#builtin.int<128>, #builtin.int<16>], #builtin.int<128>, #builtin.int<1>>
// CHECK: [[D:%[0-9]+]] = "nv_tileas.alloc_tensor"() {{.*}} -> !nv_tileas.tmem<f32, [#builtin.int<64>, #builtin.int<64>], #builtin.int<64>, #builtin.int<1>>
// CHECK: "nv_tileas.fence_async"
// CHECK-NEXT: "nv_tileas.barrier"
// CHECK: "nv_tileas.tensor_dot"([[A]], [[B]], [[D]], {{%[0-9]+}}, [[SA]], [[SB]], [[F]]) <{atom = "sm100.mma_bs.mxf4nvf4.m128n64k64.f32.e2m1.e2m1.4x.ue4m3.cg1.ss.r64"
// CHECK: "nv_tileas.load_tmem"([[D]])

// WIDE-NOT: dot_scaled
// WIDE: "nv_tileas.dot"({{.*}} <{atom = "mma.m16n8k16
cuda_tile.module @m {
  entry @sum(%x: tile<ptr<i8>>, %q: tile<ptr<f8E4M3FN>>, %o: tile<ptr<f32>>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %c = constant <f32: 0.0> : tile<64x64xf32>
    %w = make_tensor_view %x, shape = [64, 32], strides = [32, 1] : tensor_view<64x32xi8, strides=[32,1]>
    %v = make_partition_view %w : partition_view<tile=(64x32), tensor_view<64x32xi8, strides=[32,1]>>
    %s = make_tensor_view %q, shape = [64, 4], strides = [4, 1] : tensor_view<64x4xf8E4M3FN, strides=[4,1]>
    %r = make_partition_view %s : partition_view<tile=(64x4), tensor_view<64x4xf8E4M3FN, strides=[4,1]>>
    %y = make_tensor_view %o, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %z = make_partition_view %y : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %a, %u0 = load_view_tko weak %v[%zero, %zero] token = %t : partition_view<tile=(64x32), tensor_view<64x32xi8, strides=[32,1]>>, tile<i32> -> tile<64x32xi8>, token
    %f, %u1 = load_view_tko weak %r[%zero, %zero] token = %t : partition_view<tile=(64x4), tensor_view<64x4xf8E4M3FN, strides=[4,1]>>, tile<i32> -> tile<64x4xf8E4M3FN>, token
    %a1 = reshape %a : tile<64x32xi8> -> tile<2048xi8>
    %a2 = unpack %a1 : tile<2048xi8> -> tile<4096xf4E2M1FN>
    %e = reshape %a2 : tile<4096xf4E2M1FN> -> tile<64x64xf4E2M1FN>
    %g = permute %e [1, 0] : tile<64x64xf4E2M1FN> -> tile<64x64xf4E2M1FN>
    %h = permute %f [1, 0] : tile<64x4xf8E4M3FN> -> tile<4x64xf8E4M3FN>
    %d = mmaf_scaled %e, %g, %c, %f, %h : tile<64x64xf4E2M1FN>, tile<64x64xf4E2M1FN>, tile<64x64xf32>, tile<64x4xf8E4M3FN>, tile<4x64xf8E4M3FN>
    %p = store_view_tko weak %d, %z[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
