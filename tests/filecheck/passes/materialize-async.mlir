// A loop's loads for its product go to rings ahead of it: copies in front of the loop and behind the barrier of each step (their
// instructions between those of the product), which copy nothing past the last iteration. Without pipelines, and at -O0, a tile
// goes through registers to one buffer.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_80 -O3 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_80 -O0 | filecheck %s --check-prefix=SERIAL
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_75 -O3 | filecheck %s --check-prefix=SERIAL

cuda_tile.module @m {
  // CHECK: [[A:%[0-9]+]] = "nv_tileas.alloc_tensor"{{.*}}!nv_tileas.ring<!nv_tileas.buffer<f16{{.*}}shape = [64x32]{{.*}}, #builtin.int<[[S:[0-9]+]]>>
  // CHECK-NEXT: [[B:%[0-9]+]] = "nv_tileas.alloc_tensor"{{.*}}!nv_tileas.ring<!nv_tileas.buffer<f16{{.*}}shape = [32x64]
  // CHECK-NEXT: [[P:%[0-9]+]] = "nv_tileas.create_pipeline"() : () -> !nv_tileas.pipe<"group", #builtin.int<[[S]]>>
  // CHECK-NEXT: [[SOME:%[0-9]+]] = "arith.cmpi"{{.*}}predicate = "slt"
  // CHECK: [[I:%[0-9]+]] = "nv_tileas.producer_acquire"([[P]])
  // CHECK-NEXT: [[SLOT:%[0-9]+]] = "nv_tileas.extract_slice"([[A]], [[I]])
  // CHECK-NEXT: "nv_tileas.tiled_copy"({{.*}}, [[SLOT]], [[P]], [[I]], [[SOME]]{{.*}}atom = "cp.async.16"
  // CHECK-NEXT: "nv_tileas.extract_slice"([[B]], [[I]])
  // CHECK-NEXT: "nv_tileas.tiled_copy"
  // CHECK-NEXT: "nv_tileas.producer_commit"([[P]])
  // CHECK: "scf.for"
  // CHECK: [[J:%[0-9]+]] = "nv_tileas.consumer_wait"([[P]]) <{pending =
  // CHECK-NEXT: "nv_tileas.barrier"
  // CHECK: [[MORE:%[0-9]+]] = "arith.cmpi"{{.*}}predicate = "ugt"
  // CHECK: "nv_tileas.tiled_copy"({{.*}}, [[MORE]]{{.*}}spread
  // CHECK: "nv_tileas.tiled_copy"({{.*}}, [[MORE]]{{.*}}spread
  // CHECK-NEXT: [[X:%[0-9]+]] = "nv_tileas.extract_slice"([[A]], [[J]])
  // CHECK-NEXT: [[Y:%[0-9]+]] = "nv_tileas.extract_slice"([[B]], [[J]])
  // CHECK-NEXT: "nv_tileas.dot"([[X]], [[Y]]
  // CHECK-NEXT: "nv_tileas.producer_commit"([[P]])
  // CHECK-NEXT: "nv_tileas.consumer_release"([[P]])
  // CHECK-NEXT: "scf.yield"
  // CHECK: "nv_tileas.consumer_wait"([[P]]) <{pending = #builtin.int<0>}>
  // CHECK-NEXT: "nv_tileas.barrier"
  // SERIAL-NOT: nv_tileas.pipe
  // SERIAL: "nv_tileas.store_shared"
  entry @product(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %pc: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<64x64xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %wa = make_tensor_view %qa, shape = [64, 1024], strides = [1024, 1] : tensor_view<64x1024xf16, strides=[1024,1]>
    %wb = make_tensor_view %qb, shape = [1024, 64], strides = [64, 1] : tensor_view<1024x64xf16, strides=[64,1]>
    %wc = make_tensor_view %pc, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %va = make_partition_view %wa : partition_view<tile=(64x32), tensor_view<64x1024xf16, strides=[1024,1]>>
    %vb = make_partition_view %wb : partition_view<tile=(32x64), tensor_view<1024x64xf16, strides=[64,1]>>
    %vc = make_partition_view %wc : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %sum = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<64x64xf32>) {
      %a, %ta = load_view_tko weak %va[%zero, %k] token = %t : partition_view<tile=(64x32), tensor_view<64x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<64x32xf16>, token
      %b, %tb = load_view_tko weak %vb[%k, %zero] token = %t : partition_view<tile=(32x64), tensor_view<1024x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
      %more = mmaf %a, %b, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      continue %more : tile<64x64xf32>
    }
    %e = store_view_tko weak %sum, %vc[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
