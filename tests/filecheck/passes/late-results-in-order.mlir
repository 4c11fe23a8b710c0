// Of two results the second is stored behind the first, both in branches: where there was no iteration before, the first one's token is
// what it waits for itself.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --verify-each | filecheck %s

// CHECK: [[FREE:%[0-9]+]] = "nv_tileas.create_mem_token"()
// CHECK: "scf.for"(
// CHECK: "nv_tileas.tensor_dot"({{.*}}.ss"
// CHECK: [[OTHERS:%[0-9]+]] = "arith.cmpi"({{.*}}) <{predicate = "ne"}>
// CHECK: [[FIRST:%[0-9]+]] = "scf.if"([[OTHERS]])
// CHECK-NEXT: [[STORED:%[0-9]+]] = "nv_tileas.tiled_store"({{.*}}, [[FREE]])
// CHECK-NEXT: "scf.yield"([[STORED]])
// CHECK: "scf.yield"([[FREE]])
// CHECK: "scf.if"([[OTHERS]])
// CHECK: "nv_tileas.tiled_store"({{.*}}, [[FIRST]])
// CHECK: "nv_tileas.tensor_dot"({{.*}}.ts"
cuda_tile.module @m {
  entry @layers(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x64xf32>
    %aa = assume div_by<16>, %pa : tile<ptr<f16>>
    %ab = assume div_by<16>, %pb : tile<ptr<f16>>
    %ao = assume div_by<16>, %po : tile<ptr<f32>>
    %wa = make_tensor_view %aa, shape = [65536, 64], strides = [64, 1] : tensor_view<65536x64xf16, strides=[64,1]>
    %wb = make_tensor_view %ab, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf16, strides=[64,1]>
    %wo = make_tensor_view %po, shape = [65536, 64], strides = [64, 1] : tensor_view<65536x64xf32, strides=[64,1]>
    %va = make_partition_view %wa : partition_view<tile=(128x64), tensor_view<65536x64xf16, strides=[64,1]>>
    %vb = make_partition_view %wb : partition_view<tile=(64x64), tensor_view<128x64xf16, strides=[64,1]>>
    %vo = make_partition_view %wo : partition_view<tile=(128x64), tensor_view<65536x64xf32, strides=[64,1]>>
    %b, %u0 = load_view_tko weak %vb[%zero, %zero] token = %t : partition_view<tile=(64x64), tensor_view<128x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %c, %u1 = load_view_tko weak %vb[%one, %zero] token = %t : partition_view<tile=(64x64), tensor_view<128x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    for %i in (%zero to %n, step %one) : tile<i32> {
      %a, %u2 = load_view_tko weak %va[%i, %zero] token = %t : partition_view<tile=(128x64), tensor_view<65536x64xf16, strides=[64,1]>>, tile<i32> -> tile<128x64xf16>, token
      %x = mmaf %a, %b, %none : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %y = maxf %x, %none : tile<128x64xf32>
      %h = ftof %y : tile<128x64xf32> -> tile<128x64xf16>
      %z = mmaf %h, %c, %none : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %u3 = store_view_tko weak %z, %vo[%i, %zero] token = %t : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<65536x64xf32, strides=[64,1]>>, tile<i32> -> token
      %j = addi %i, %one : tile<i32>
      %u4 = store_view_tko weak %z, %vo[%j, %zero] token = %u3 : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<65536x64xf32, strides=[64,1]>>, tile<i32> -> token
      continue
    }
    return
  }
}
