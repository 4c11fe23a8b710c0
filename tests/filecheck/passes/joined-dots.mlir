// Sums of 8-bit floats that take half of a thread's registers: each instruction's columns start at zero and are added before the
// next one's begin, in one op that isn't left on its way, and the load agent lends its registers. Smaller ones, and those that may
// be summed fast, are as ever.
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_90 -o %t.aa
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,plan-agents,choose-atoms --gpu-name=sm_90 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s --check-prefix=AGENTS
// RUN: sed 's/128x256xf32/128x128xf32/g; s/64x256x/64x128x/g; s/(64x256)/(64x128)/g; s/(128x256)/(128x128)/g' %s | tileiras-opt - --to=nv_tileaa --gpu-name=sm_90 -o %t.small
// RUN: tileiras-opt %t.small --passes=convert-tileaa-to-tileas,plan-agents,choose-atoms --gpu-name=sm_90 | filecheck %s --check-prefix=SMALL
// RUN: sed 's/%%acc : tile/%%acc fast_acc : tile/' %s | tileiras-opt - --to=nv_tileaa --gpu-name=sm_90 -o %t.fast
// RUN: tileiras-opt %t.fast --passes=convert-tileaa-to-tileas,plan-agents,choose-atoms --gpu-name=sm_90 | filecheck %s --check-prefix=FAST

// CHECK: ^bb{{.*}}([[K:%[0-9]+]]: i32, [[ACC:%[0-9]+]]: tensor<128x256xf32>):
// CHECK: [[D:%[0-9]+]] = "nv_tileas.dot"({{%[0-9]+, %[0-9]+}}, [[ACC]]) <{joined, atom = "sm90.mma.m64n128k32.f32.e4m3.e4m3.ss", k_slices
// CHECK-NEXT: "scf.yield"([[D]])

// AGENTS: "nv_tileas.agent_switch"() <{{.*}}registers = [#builtin.int<232>, #builtin.int<40>]
// AGENTS: [[D:%[0-9]+]] = "nv_tileas.dot"({{.*}}joined
// AGENTS-NEXT: "nv_tileas.consumer_release"
// AGENTS-NOT: async_dot

// SMALL-NOT: joined
// SMALL: arith.addf
// FAST-NOT: joined
// FAST: "nv_tileas.dot"({{.*}}m64n256k32
// FAST-NOT: arith.addf
cuda_tile.module @m {
  entry @product(%pp: tile<ptr<f8E4M3FN>>, %qp: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %p = assume div_by<16>, %pp : tile<ptr<f8E4M3FN>>
    %q = assume div_by<16>, %qp : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<128x256xf32>
    %i, %j, %bz = get_tile_block_id : tile<i32>
    %w = make_tensor_view %p, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf8E4M3FN, strides=[4096,1]>
    %wt = make_tensor_view %p, shape = [4096, 4096], strides = [1, 4096] : tensor_view<4096x4096xf8E4M3FN, strides=[1,4096]>
    %v = make_partition_view %w : partition_view<tile=(128x64), tensor_view<4096x4096xf8E4M3FN, strides=[4096,1]>>
    %k = make_partition_view %wt : partition_view<tile=(64x256), tensor_view<4096x4096xf8E4M3FN, strides=[1,4096]>>
    %x = make_tensor_view %q, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
    %y = make_partition_view %x : partition_view<tile=(128x256), tensor_view<4096x4096xf32, strides=[4096,1]>>
    %s = for %l in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<128x256xf32>) {
      %a, %u0 = load_view_tko weak %v[%i, %l] token = %t : partition_view<tile=(128x64), tensor_view<4096x4096xf8E4M3FN, strides=[4096,1]>>, tile<i32> -> tile<128x64xf8E4M3FN>, token
      %b, %u1 = load_view_tko weak %k[%l, %j] token = %t : partition_view<tile=(64x256), tensor_view<4096x4096xf8E4M3FN, strides=[1,4096]>>, tile<i32> -> tile<64x256xf8E4M3FN>, token
      %d = mmaf %a, %b, %acc : tile<128x64xf8E4M3FN>, tile<64x256xf8E4M3FN>, tile<128x256xf32>
      continue %d : tile<128x256xf32>
    }
    %z = store_view_tko weak %s, %y[%i, %j] token = %t : tile<128x256xf32>, partition_view<tile=(128x256), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> token
    return
  }
}
