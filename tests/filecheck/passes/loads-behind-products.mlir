// What sums are to be added to comes while the products run: threads would ask for it when the sums are there, and wait. The engine's
// copy is the load agent's last, or where threads load what is multiplied stands in front of the loop. Sums that become functions of each are shared by two warpgroups where one would have 128 registers of
// them a thread.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s --check-prefix=SM90
// RUN: sed '/tanh/s/= tanh/= absf/' %s | tileiras-opt - --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=PLAIN
// RUN: sed '/%new = /s/mmaf.*$/addf %acc, %none : tile<128x128xf32>/' %s | tileiras-opt - --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=ALONE
// RUN: sed 's/x4096xf16, strides=.4096/x4096xf16, strides=[4099/g; s/s = .4096, 1/s = [4099, 1/; s/4096x128xf16, strides=.128/4096x128xf16, strides=[131/g; s/4096, 128., strides = .128/4096, 128], strides = [131/' %s | env TILEIRAS_WITHOUT=agents tileiras-opt - --to=nv_tileas --gpu-name=sm_90 | filecheck %s --check-prefix=THREADS

// CHECK: num_warps = #builtin.int<8>
// CHECK: "nv_tileas.agent_switch"
// CHECK-NOT: tiled_load
// CHECK: "nv_tileas.load_shared"{{.*}}tensor<1x128xf16
// CHECK: "nv_tileas.tma_load"{{.*}}[#builtin.int<128>, #builtin.int<64>]
// CHECK: "nv_tileas.tma_load"{{.*}}[#builtin.int<64>, #builtin.int<128>]
// CHECK: "scf.yield"
// CHECK: "nv_tileas.tma_load"{{.*}}[#builtin.int<1>, #builtin.int<128>]

// SM90: "nv_tileas.agent_switch"
// SM90-NOT: tiled_load
// SM90: "nv_tileas.tma_load"{{.*}}[#builtin.int<1>, #builtin.int<128>]

// PLAIN: num_warps = #builtin.int<4>

// ALONE-NOT: tma_load
// ALONE: "nv_tileas.tiled_load"({{.*}}tensor<1x128xf16


// THREADS: "nv_tileas.tma_load"{{.*}}[#builtin.int<1>, #builtin.int<128>]
// THREADS: "scf.for"
// THREADS-NOT: tma_load
// THREADS: "nv_tileas.consumer_wait"
cuda_tile.module @m {
  entry @activated(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %ps: tile<ptr<f16>>, %po: tile<ptr<f16>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x128xf32>
    %aa = assume div_by<16>, %pa : tile<ptr<f16>>
    %ab = assume div_by<16>, %pb : tile<ptr<f16>>
    %as = assume div_by<16>, %ps : tile<ptr<f16>>
    %ao = assume div_by<16>, %po : tile<ptr<f16>>
    %ta = make_tensor_view %aa, shape = [128, 4096], strides = [4096, 1] : tensor_view<128x4096xf16, strides=[4096,1]>
    %tb = make_tensor_view %ab, shape = [4096, 128], strides = [128, 1] : tensor_view<4096x128xf16, strides=[128,1]>
    %ts = make_tensor_view %as, shape = [1, 128], strides = [128, 1] : tensor_view<1x128xf16, strides=[128,1]>
    %to = make_tensor_view %ao, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %va = make_partition_view %ta : partition_view<tile=(128x64), tensor_view<128x4096xf16, strides=[4096,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(64x128), tensor_view<4096x128xf16, strides=[128,1]>>
    %vs = make_partition_view %ts : partition_view<tile=(1x128), tensor_view<1x128xf16, strides=[128,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<128x128xf32>) {
      %a, %u0 = load_view_tko weak %va[%zero, %i] token = %t : partition_view<tile=(128x64), tensor_view<128x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<128x64xf16>, token
      %b, %u1 = load_view_tko weak %vb[%i, %zero] token = %t : partition_view<tile=(64x128), tensor_view<4096x128xf16, strides=[128,1]>>, tile<i32> -> tile<64x128xf16>, token
      %new = mmaf %a, %b, %acc : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %new : tile<128x128xf32>
    }
    %s, %u2 = load_view_tko weak %vs[%zero, %zero] token = %t : partition_view<tile=(1x128), tensor_view<1x128xf16, strides=[128,1]>>, tile<i32> -> tile<1x128xf16>, token
    %f = ftof %s : tile<1x128xf16> -> tile<1x128xf32>
    %wide = broadcast %f : tile<1x128xf32> -> tile<128x128xf32>
    %y = addf %sum, %wide : tile<128x128xf32>
    %g = tanh %y : tile<128x128xf32>
    %h = ftof %g : tile<128x128xf32> -> tile<128x128xf16>
    %e = store_view_tko weak %h, %vo[%zero, %zero] token = %t : tile<128x128xf16>, partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
