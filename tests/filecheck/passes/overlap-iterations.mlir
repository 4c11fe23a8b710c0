// Attention: the scores of the next tile are computed beside the values of this one. Before the pass both products of an iteration
// stand in one body; after it the next iteration's scores come first, and a first early and a last late part stand around the loop.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 --print-ir-before=overlap-iterations --print-ir-after=overlap-iterations -o %t.as 2> %t.ir
// RUN: filecheck %s --input-file=%t.ir
// RUN: tileiras-translate --mlir-to-cudatilebc %s -o %t.bc
// RUN: tileiras %t.bc --gpu-name=sm_90 --remarks=tensorcore -o %t.cubin | filecheck %s --check-prefix=TOLD
// CHECK: IR dump before overlap-iterations
// CHECK: "scf.for"
// CHECK: "nv_tileas.dot"{{.*}}f16.ss"}> {nv_tile.aws.stage = 0 : i32
// CHECK: "math.exp2"{{.*}}nv_tile.aws.stage = 0 : i32
// CHECK: "nv_tileas.dot"{{.*}}f16.rs"}> {nv_tile.aws.stage = 1 : i32
// CHECK: "scf.yield"

// CHECK: IR dump after overlap-iterations
// CHECK: "scf.if"
// CHECK: "nv_tileas.dot"{{.*}}f16.ss"
// CHECK: [[FIRST:%[0-9]+]] = "math.exp2"{{.*}}stage = 0 : i32
// CHECK: "scf.for"
// CHECK: [[SCORES:%[0-9]+]] = "nv_tileas.dot"{{.*}}f16.ss"
// CHECK: "nv_tileas.dot"{{.*}}f16.rs"
// CHECK: "nv_tileas.reduce"([[SCORES]])
// CHECK: "math.exp2"{{.*}}stage = 0 : i32
// CHECK: "nv_tileas.consumer_release"
// CHECK-NEXT: "scf.yield"
// CHECK-NOT: f16.ss"
// CHECK: "nv_tileas.dot"{{.*}}f16.rs"
// CHECK: "scf.yield"

// TOLD: remark[passed]: The loop's late products run beside what the next iteration computes first
// TOLD: = name: RemarkTensorCoreIterationsOverlap
// TOLD: = note: ThisIteration = tile<128x128xf32>
// TOLD: = note: NextIteration = tile<128x128xf32>
cuda_tile.module @m {
  entry @attention(%pq: tile<ptr<f16>>, %pk: tile<ptr<f16>>, %pv: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) optimization_hints=<sm_90 = {num_worker_warps_per_cta = 8}> {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x128xf32>
    %least = constant <f32: -1.0e30> : tile<128x1xf32>
    %aq = assume div_by<16>, %pq : tile<ptr<f16>>
    %ak = assume div_by<16>, %pk : tile<ptr<f16>>
    %av = assume div_by<16>, %pv : tile<ptr<f16>>
    %tq = make_tensor_view %aq, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %tk = make_tensor_view %ak, shape = [128, 8192], strides = [8192, 1] : tensor_view<128x8192xf16, strides=[8192,1]>
    %tv = make_tensor_view %av, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xf16, strides=[128,1]>
    %to = make_tensor_view %po, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %vq = make_partition_view %tq : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>
    %vk = make_partition_view %tk : partition_view<tile=(128x128), tensor_view<128x8192xf16, strides=[8192,1]>>
    %vv = make_partition_view %tv : partition_view<tile=(128x128), tensor_view<8192x128xf16, strides=[128,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %q, %u0 = load_view_tko weak %vq[%zero, %zero] token = %t : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
    %o, %m = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none, %most = %least) -> (tile<128x128xf32>, tile<128x1xf32>) {
      %k, %u1 = load_view_tko weak %vk[%zero, %i] token = %t : partition_view<tile=(128x128), tensor_view<128x8192xf16, strides=[8192,1]>>, tile<i32> -> tile<128x128xf16>, token
      %s = mmaf %q, %k, %none : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
      %r = reduce %s dim=1 identities=[-1.0e30 : f32] : tile<128x128xf32> -> tile<128xf32>
      (%x: tile<f32>, %y: tile<f32>) {
        %z = maxf %x, %y : tile<f32>
        yield %z : tile<f32>
      }
      %r1 = reshape %r : tile<128xf32> -> tile<128x1xf32>
      %more = maxf %most, %r1 : tile<128x1xf32>
      %wide = broadcast %more : tile<128x1xf32> -> tile<128x128xf32>
      %d = subf %s, %wide : tile<128x128xf32>
      %e = exp2 %d : tile<128x128xf32>
      %p = ftof %e : tile<128x128xf32> -> tile<128x128xf16>
      %less = subf %most, %more : tile<128x1xf32>
      %scale = exp2 %less : tile<128x1xf32>
      %scales = broadcast %scale : tile<128x1xf32> -> tile<128x128xf32>
      %old = mulf %acc, %scales : tile<128x128xf32>
      %v, %u2 = load_view_tko weak %vv[%i, %zero] token = %t : partition_view<tile=(128x128), tensor_view<8192x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
      %new = mmaf %p, %v, %old : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
      continue %new, %more : tile<128x128xf32>, tile<128x1xf32>
    }
    %e = store_view_tko weak %o, %vo[%zero, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
