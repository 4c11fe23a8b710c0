// A ring of S stages: the copies of S - 1 iterations stand before the loop, that of iteration k + S - 1 behind the barrier of
// iteration k; at the end nothing is pending. Before the pass a copy and its use stand in one iteration.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_80 --print-ir-before=unspecialized-pipeline --print-ir-after=unspecialized-pipeline -o %t.as 2> %t.ir
// RUN: filecheck %s --input-file=%t.ir

// CHECK: IR dump before unspecialized-pipeline
// CHECK: [[P:%[0-9]+]] = "nv_tileas.create_pipeline"() : () -> !nv_tileas.pipe<"group", #builtin.int<4>>
// CHECK-NEXT: "scf.for"
// CHECK: "nv_tileas.producer_acquire"([[P]])
// CHECK: "nv_tileas.tiled_copy"
// CHECK: "nv_tileas.producer_commit"([[P]])
// CHECK: "nv_tileas.consumer_wait"([[P]]) <{pending = #builtin.int<0>}>
// CHECK: "nv_tileas.dot"

// CHECK: IR dump after unspecialized-pipeline
// CHECK: [[P:%[0-9]+]] = "nv_tileas.create_pipeline"() : () -> !nv_tileas.pipe<"group", #builtin.int<4>>
// CHECK: "nv_tileas.tiled_copy"
// CHECK: "nv_tileas.producer_commit"([[P]])
// CHECK: "nv_tileas.tiled_copy"
// CHECK: "nv_tileas.producer_commit"([[P]])
// CHECK: "nv_tileas.tiled_copy"
// CHECK: "nv_tileas.producer_commit"([[P]])
// CHECK-NOT: nv_tileas.tiled_copy
// CHECK: "scf.for"
// CHECK: "nv_tileas.consumer_wait"([[P]]) <{pending = #builtin.int<2>}>
// CHECK-NEXT: "nv_tileas.barrier"
// CHECK: "nv_tileas.tiled_copy"
// CHECK: "nv_tileas.dot"
// CHECK-NEXT: "nv_tileas.producer_commit"([[P]])
// CHECK: "scf.yield"
// CHECK: "nv_tileas.consumer_wait"([[P]]) <{pending = #builtin.int<0>}>
// CHECK-NEXT: "nv_tileas.barrier"
cuda_tile.module @m {
  entry @product(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<64x64xf32>
    %a = assume div_by<16>, %p : tile<ptr<f16>>
    %w = make_tensor_view %a, shape = [64, 4096], strides = [4096, 1] : tensor_view<64x4096xf16, strides=[4096,1]>
    %o = make_tensor_view %q, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %v = make_partition_view %w : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>
    %ov = make_partition_view %o : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<64x64xf32>) {
      %x, %u = load_view_tko weak %v[%zero, %i] token = %t : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
      %d = mmaf %x, %x, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      continue %d : tile<64x64xf32>
    }
    %e = store_view_tko weak %sum, %ov[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
