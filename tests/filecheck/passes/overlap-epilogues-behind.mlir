// Products of their own agent, whose sums a loop adds up and stores behind it: once they have all been waited for, nobody reads the
// ring any more, and the stored tile takes its place. Both beside each other are more than an SM has.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s

// CHECK: shared_bytes = #builtin.int<197632>
// CHECK: "nv_tileas.alloc_tensor"() <{offset = #builtin.int<1024>}> : () -> !nv_tileas.ring<!nv_tileas.buffer<f16, #nv_tileas.shared<shape = [64x256]
// CHECK: "nv_tileas.agent_switch"() <{warps = [#builtin.int<8>, #builtin.int<1>, #builtin.int<1>]}>
// CHECK: "nv_tileas.consumer_wait"
// CHECK: "scf.yield"
// CHECK: [[SUMS:%[0-9]+]] = "nv_tileas.alloc_tensor"() <{offset = #builtin.int<1024>}> : () -> !nv_tileas.buffer<f32, #nv_tileas.shared<shape = [128x256]
// CHECK: "nv_tileas.store_shared"({{%[0-9]+}}, [[SUMS]])
// CHECK: "nv_tileas.tma_store"({{.*}}, [[SUMS]])
// CHECK: "nv_tileas.tensor_dot"
cuda_tile.module @m {
  entry @promoted(%pp: tile<ptr<f16>>, %qp: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %p = assume div_by<16>, %pp : tile<ptr<f16>>
    %q = assume div_by<16>, %qp : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f16: 0.0> : tile<128x256xf16>
    %c = constant <f32: 0.0> : tile<128x256xf32>
    %w = make_tensor_view %p, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %v = make_partition_view %w : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %k = make_partition_view %w : partition_view<tile=(64x256), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %x = make_tensor_view %q, shape = [128, 256], strides = [256, 1] : tensor_view<128x256xf32, strides=[256,1]>
    %y = make_partition_view %x : partition_view<tile=(128x256), tensor_view<128x256xf32, strides=[256,1]>>
    %sums = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<128x256xf32>) {
      %s = for %j in (%zero to %n, step %one) : tile<i32> iter_values(%part = %none) -> (tile<128x256xf16>) {
        %a, %u0 = load_view_tko weak %v[%i, %j] token = %t : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<128x64xf16>, token
        %b, %u1 = load_view_tko weak %k[%j, %i] token = %t : partition_view<tile=(64x256), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x256xf16>, token
        %d = mmaf %a, %b, %part : tile<128x64xf16>, tile<64x256xf16>, tile<128x256xf16>
        continue %d : tile<128x256xf16>
      }
      %f = ftof %s : tile<128x256xf16> -> tile<128x256xf32>
      %e = addf %acc, %f : tile<128x256xf32>
      continue %e : tile<128x256xf32>
    }
    %z = store_view_tko weak %sums, %y[%zero, %zero] token = %t : tile<128x256xf32>, partition_view<tile=(128x256), tensor_view<128x256xf32, strides=[256,1]>>, tile<i32> -> token
    return
  }
}
