// A product whose accumulator a loop carries runs on while the next iteration waits for its tiles; its stage is given back then.
// RUN: env TILEIRAS_WITHOUT=agents tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s
// RUN: env TILEIRAS_WITHOUT=pipelines tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s --check-prefix=SERIAL

// CHECK: [[RING:%[0-9]+]] = "nv_tileas.alloc_tensor"() {{.*}} -> !nv_tileas.ring<
// CHECK: [[F:%[0-9]+]] = "nv_tileas.begin_flight"
// CHECK: [[R:%[0-9]+]] = "scf.for"({{%[0-9]+, %[0-9]+, %[0-9]+}}, [[F]])
// CHECK-NEXT: ^bb0(%{{[0-9]+}}: i32, [[ACC:%[0-9]+]]: !nv_tileas.flight<
// CHECK: [[NEXT:%[0-9]+]] = "nv_tileas.async_dot"({{%[0-9]+, %[0-9]+}}, [[ACC]]) <{atom = "sm90.mma.m64n64k16.f32.f16.f16.ss"}>
// CHECK: "scf.yield"([[NEXT]])
// CHECK: "nv_tileas.dot_wait"([[R]]{{.*}} <{pending = #builtin.int<0>

// What uses a product at once waits at once.
// CHECK: [[P:%[0-9]+]] = "nv_tileas.async_dot"({{%[0-9]+, %[0-9]+}}) <{atom = "sm90.mma.m64n64k16.f32.f16.f16.ss"}>
// CHECK: [[T:%[0-9]+]] = "nv_tileas.dot_wait"([[P]]
// CHECK: "arith.negf"([[T]])

// SERIAL-NOT: async_dot
cuda_tile.module @m {
  entry @sum(%pp: tile<ptr<f16>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %p = assume div_by<16>, %pp : tile<ptr<f16>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<64x64xf32>
    %w = make_tensor_view %p, shape = [64, 4096], strides = [4096, 1] : tensor_view<64x4096xf16, strides=[4096,1]>
    %v = make_partition_view %w : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<64x64xf32>) {
      %a, %u0 = load_view_tko weak %v[%zero, %i] token = %t : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
      %d = mmaf %a, %a, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      continue %d : tile<64x64xf32>
    }
    %b, %u1 = load_view_tko weak %v[%zero, %n] token = %t : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
    %e = mmaf %b, %b, %c : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
    %m = negf %e : tile<64x64xf32>
    %o = addf %m, %s rounding<nearest_even> : tile<64x64xf32>
    %x = make_tensor_view %q, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %y = make_partition_view %x : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %z = store_view_tko weak %o, %y[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
