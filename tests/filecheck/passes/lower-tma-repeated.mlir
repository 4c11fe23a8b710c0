// One left operand of all products of a batch comes once, by the copy engine: what the products read has offset 0 for the batch's bit,
// by threads (sm_120) as by matrix descriptors (sm_90), and a stage of its ring is one matrix.
// RUN: env TILEIRAS_WITHOUT=agents tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s
// RUN: env TILEIRAS_WITHOUT=agents tileiras-opt %s --to=nv_tileas --gpu-name=sm_120 | filecheck %s
// RUN: env TILEIRAS_WITHOUT=tma,agents tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s --check-prefix=PLAIN

// PLAIN-NOT: tma_load
// PLAIN: "nv_tileas.broadcast"
// CHECK-NOT: "nv_tileas.tiled_load"
// CHECK-NOT: "nv_tileas.broadcast"
// CHECK: "nv_tileas.create_pipeline"() <{bytes = #builtin.int<16384>
// CHECK: "scf.for"
// CHECK: "nv_tileas.tma_load"{{.*}}[#builtin.int<64>, #builtin.int<64>]
// CHECK: "nv_tileas.extract_slice"{{.*}}!nv_tileas.buffer<f16, #nv_tileas.shared<shape = [2x64x64], offset = [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 0]>>
cuda_tile.module @m {
  entry @shared_weight(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<2x64x32xf32>
    %aa = assume div_by<16>, %pa : tile<ptr<f16>>
    %ab = assume div_by<16>, %pb : tile<ptr<f16>>
    %ao = assume div_by<16>, %po : tile<ptr<f32>>
    %ta = make_tensor_view %aa, shape = [64, 256], strides = [256, 1] : tensor_view<64x256xf16, strides=[256,1]>
    %tb = make_tensor_view %ab, shape = [2, 256, 32], strides = [8192, 32, 1] : tensor_view<2x256x32xf16, strides=[8192,32,1]>
    %to = make_tensor_view %ao, shape = [2, 64, 32], strides = [2048, 32, 1] : tensor_view<2x64x32xf32, strides=[2048,32,1]>
    %va = make_partition_view %ta : partition_view<tile=(64x64), tensor_view<64x256xf16, strides=[256,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(2x64x32), tensor_view<2x256x32xf16, strides=[8192,32,1]>>
    %vo = make_partition_view %to : partition_view<tile=(2x64x32), tensor_view<2x64x32xf32, strides=[2048,32,1]>>
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<2x64x32xf32>) {
      %a, %u0 = load_view_tko weak %va[%zero, %i] token = %t : partition_view<tile=(64x64), tensor_view<64x256xf16, strides=[256,1]>>, tile<i32> -> tile<64x64xf16>, token
      %b, %u1 = load_view_tko weak %vb[%zero, %i, %zero] token = %t : partition_view<tile=(2x64x32), tensor_view<2x256x32xf16, strides=[8192,32,1]>>, tile<i32> -> tile<2x64x32xf16>, token
      %a1 = reshape %a : tile<64x64xf16> -> tile<1x64x64xf16>
      %a2 = broadcast %a1 : tile<1x64x64xf16> -> tile<2x64x64xf16>
      %d = mmaf %a2, %b, %acc : tile<2x64x64xf16>, tile<2x64x32xf16>, tile<2x64x32xf32>
      continue %d : tile<2x64x32xf32>
    }
    %u2 = store_view_tko weak %s, %vo[%zero, %zero, %zero] token = %t : tile<2x64x32xf32>, partition_view<tile=(2x64x32), tensor_view<2x64x32xf32, strides=[2048,32,1]>>, tile<i32> -> token
    return
  }
}
