// Where threads load and convert what a product reads, they do so while the iteration before multiplies, and wait for that in front
// of the store: the first iteration for nothing, which is told of before the loop; behind the loop for the last.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --verify-each | filecheck %s

// CHECK: [[DONE:%[0-9]+]] = "nv_tileas.create_pipeline"() {{.*}}pipe<"umma", #builtin.int<1>>
// CHECK: "nv_tileas.agent_switch"
// CHECK: "nv_tileas.producer_commit"([[DONE]])
// CHECK: "scf.for"
// CHECK: "nv_tileas.load_shared"
// CHECK: "nv_tileas.consumer_wait"([[DONE]],
// CHECK: "nv_tileas.store_shared"
// CHECK: "nv_tileas.tensor_dot"
// CHECK: "nv_tileas.producer_commit"([[DONE]])
// CHECK-NEXT: "scf.yield"
// CHECK: "nv_tileas.consumer_wait"([[DONE]],
// CHECK: "nv_tileas.load_tmem"
cuda_tile.module @m {
  entry @narrowed(%pp: tile<ptr<f32>>, %qp: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %p = assume div_by<16>, %pp : tile<ptr<f32>>
    %q = assume div_by<16>, %qp : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<128x64xf32>
    %w = make_tensor_view %p, shape = [128, 4096], strides = [4096, 1] : tensor_view<128x4096xf32, strides=[4096,1]>
    %v = make_partition_view %w : partition_view<tile=(128x64), tensor_view<128x4096xf32, strides=[4096,1]>>
    %u = make_tensor_view %p, shape = [4096, 64], strides = [64, 1] : tensor_view<4096x64xf32, strides=[64,1]>
    %k = make_partition_view %u : partition_view<tile=(64x64), tensor_view<4096x64xf32, strides=[64,1]>>
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%x0 = %c) -> (tile<128x64xf32>) {
      %a, %u0 = load_view_tko weak %v[%zero, %i] token = %t : partition_view<tile=(128x64), tensor_view<128x4096xf32, strides=[4096,1]>>, tile<i32> -> tile<128x64xf32>, token
      %b, %u1 = load_view_tko weak %k[%i, %zero] token = %t : partition_view<tile=(64x64), tensor_view<4096x64xf32, strides=[64,1]>>, tile<i32> -> tile<64x64xf32>, token
      %e = ftof %a : tile<128x64xf32> -> tile<128x64xf16>
      %f = ftof %b : tile<64x64xf32> -> tile<64x64xf16>
      %d = mmaf %e, %f, %x0 : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      continue %d : tile<128x64xf32>
    }
    %x = make_tensor_view %q, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf32, strides=[64,1]>
    %y = make_partition_view %x : partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>
    %z = store_view_tko weak %s, %y[%zero, %zero] token = %t : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
