// Barriers that copies arrive at are set up once, where no agents are made of the loops around (here: the next loads read what is stored).
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s

// CHECK-NOT: agent_switch
// CHECK: [[PIPE:%[0-9]+]] = "nv_tileas.create_pipeline"() <{{.*}} -> !nv_tileas.pipe<"cp_async"
// CHECK: "scf.for"(
// CHECK-NOT: create_pipeline
// CHECK: "scf.for"(
// CHECK: "nv_tileas.producer_acquire"([[PIPE]])
// CHECK: "nv_tileas.tensor_dot"
cuda_tile.module @m {
  entry @sums(%pp: tile<ptr<f16>>, %n: tile<i32>) {
    %t = make_token : token
    %p = assume div_by<8>, %pp : tile<ptr<f16>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<128x64xf32>
    %w = make_tensor_view %p, shape = [128, 4096], strides = [4096, 1] : tensor_view<128x4096xf16, strides=[4096,1]>
    %v = make_partition_view %w : partition_view<tile=(128x64), tensor_view<128x4096xf16, strides=[4096,1]>>
    %u = make_tensor_view %p, shape = [4096, 64], strides = [64, 1] : tensor_view<4096x64xf16, strides=[64,1]>
    %k = make_partition_view %u : partition_view<tile=(64x64), tensor_view<4096x64xf16, strides=[64,1]>>
    %last = for %j in (%zero to %n, step %one) : tile<i32> iter_values(%before = %t) -> (token) {
      %s, %read = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c, %e = %before) -> (tile<128x64xf32>, token) {
        %a, %u0 = load_view_tko weak %v[%zero, %i] token = %e : partition_view<tile=(128x64), tensor_view<128x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<128x64xf16>, token
        %b, %u1 = load_view_tko weak %k[%i, %zero] token = %u0 : partition_view<tile=(64x64), tensor_view<4096x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
        %d = mmaf %a, %b, %acc : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
        continue %d, %u1 : tile<128x64xf32>, token
      }
      %h = ftof %s : tile<128x64xf32> -> tile<128x64xf16>
      %z = store_view_tko weak %h, %v[%zero, %j] token = %read : tile<128x64xf16>, partition_view<tile=(128x64), tensor_view<128x4096xf16, strides=[4096,1]>>, tile<i32> -> token
      continue %z : token
    }
    return
  }
}
