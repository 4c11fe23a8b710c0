// Attention by products of warps: between the instructions of this iteration's second product stands the next one's softmax; where
// an SM holds as many blocks with what is carried as without.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_120 --print-ir-after=overlap-iterations -o %t.as 2>&1 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_120 --print-ir-after=generate-schedule -o %t.as 2>&1 | filecheck %s --check-prefix=STAGE
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_86 --print-ir-after=overlap-iterations -o %t.as 2>&1 | filecheck %s --check-prefix=APART
// STAGE: "nv_tileas.dot"{{.*}}nv_tile.aws.stage = 0
// STAGE: "nv_tileas.dot"{{.*}}nv_tile.aws.stage = 1
// CHECK: IR dump after overlap-iterations
// CHECK: "scf.if"
// CHECK: "nv_tileas.dot"{{.*}}mma.m16n8k16
// CHECK: "math.exp2"
// CHECK: "scf.for"
// CHECK: "nv_tileas.dot"{{.*}}mma.m16n8k16
// CHECK: "nv_tileas.dot"{{.*}}mma.m16n8k16
// CHECK: "math.exp2"
// CHECK: "scf.yield"
// CHECK: "nv_tileas.dot"{{.*}}mma.m16n8k16
// APART-NOT: "scf.if"
// APART: "scf.for"
// APART: "nv_tileas.dot"
// APART: "nv_tileas.dot"
// APART-NOT: "nv_tileas.dot"
cuda_tile.module @m {
  entry @attention(%pq: tile<ptr<f16>>, %pk: tile<ptr<f16>>, %pv: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %least = constant <f32: -1.0e30> : tile<64x1xf32>
    %aq = assume div_by<16>, %pq : tile<ptr<f16>>
    %ak = assume div_by<16>, %pk : tile<ptr<f16>>
    %av = assume div_by<16>, %pv : tile<ptr<f16>>
    %tq = make_tensor_view %aq, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf16, strides=[64,1]>
    %tk = make_tensor_view %ak, shape = [64, 8192], strides = [1, 64] : tensor_view<64x8192xf16, strides=[1,64]>
    %tv = make_tensor_view %av, shape = [8192, 64], strides = [64, 1] : tensor_view<8192x64xf16, strides=[64,1]>
    %to = make_tensor_view %po, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %vq = make_partition_view %tq : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>
    %vk = make_partition_view %tk : partition_view<tile=(64x64), tensor_view<64x8192xf16, strides=[1,64]>>
    %vv = make_partition_view %tv : partition_view<tile=(64x64), tensor_view<8192x64xf16, strides=[64,1]>>
    %vo = make_partition_view %to : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %q, %u0 = load_view_tko weak %vq[%zero, %zero] token = %t : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %o, %m = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none, %most = %least) -> (tile<64x64xf32>, tile<64x1xf32>) {
      %k, %u1 = load_view_tko weak %vk[%zero, %i] token = %t : partition_view<tile=(64x64), tensor_view<64x8192xf16, strides=[1,64]>>, tile<i32> -> tile<64x64xf16>, token
      %s = mmaf %q, %k, %none : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      %r = reduce %s dim=1 identities=[-1.0e30 : f32] : tile<64x64xf32> -> tile<64xf32>
      (%x: tile<f32>, %y: tile<f32>) {
        %z = maxf %x, %y : tile<f32>
        yield %z : tile<f32>
      }
      %r1 = reshape %r : tile<64xf32> -> tile<64x1xf32>
      %more = maxf %most, %r1 : tile<64x1xf32>
      %wide = broadcast %more : tile<64x1xf32> -> tile<64x64xf32>
      %d = subf %s, %wide : tile<64x64xf32>
      %e = exp2 %d : tile<64x64xf32>
      %p = ftof %e : tile<64x64xf32> -> tile<64x64xf16>
      %less = subf %most, %more : tile<64x1xf32>
      %scale = exp2 %less : tile<64x1xf32>
      %scales = broadcast %scale : tile<64x1xf32> -> tile<64x64xf32>
      %old = mulf %acc, %scales : tile<64x64xf32>
      %v, %u2 = load_view_tko weak %vv[%i, %zero] token = %t : partition_view<tile=(64x64), tensor_view<8192x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %new = mmaf %p, %v, %old : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      continue %new, %more : tile<64x64xf32>, tile<64x1xf32>
    }
    %e = store_view_tko weak %o, %vo[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
