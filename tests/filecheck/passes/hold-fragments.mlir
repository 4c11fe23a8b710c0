// What a loop's product reads unchanged in each iteration is loaded from its buffer once, before the loop, where its fragments
// take few registers, or are much of what is read and there are registers left beside the blocks that an SM holds.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_80 -O3 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_80 -O0 | filecheck %s --check-prefix=PLAIN
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_120 -O3 --print-ir-after=hold-fragments -o %t.as 2> %t.ir
// RUN: filecheck %s --input-file=%t.ir --check-prefix=ALONE
// ALONE: sym_name = "many"
// ALONE: [[F:%[0-9]+]] = "nv_tileas.load_shared"{{.*}} -> tensor<128x128xf16
// ALONE: "scf.for"
// ALONE: "nv_tileas.dot"([[F]],

cuda_tile.module @m {
  // CHECK: sym_name = "few"
  // CHECK: [[F:%[0-9]+]] = "nv_tileas.load_shared"{{.*}} -> tensor<64x32xf16
  // CHECK: "scf.for"
  // CHECK: "nv_tileas.dot"([[F]],
  // CHECK: sym_name = "many"
  // CHECK: [[G:%[0-9]+]] = "nv_tileas.load_shared"{{.*}} -> tensor<128x128xf16
  // CHECK: "scf.for"
  // CHECK: "nv_tileas.dot"([[G]],
  // CHECK: sym_name = "crowded"
  // CHECK-NOT: "nv_tileas.load_shared"{{.*}} -> tensor<128x128xf16
  // CHECK: "scf.for"
  // PLAIN-NOT: "nv_tileas.load_shared"{{.*}}xf16
  entry @few(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<64x64xf32>
    %wa = make_tensor_view %pa, shape = [64, 32], strides = [32, 1] : tensor_view<64x32xf16, strides=[32,1]>
    %wb = make_tensor_view %pb, shape = [1024, 64], strides = [64, 1] : tensor_view<1024x64xf16, strides=[64,1]>
    %va = make_partition_view %wa : partition_view<tile=(64x32), tensor_view<64x32xf16, strides=[32,1]>>
    %vb = make_partition_view %wb : partition_view<tile=(32x64), tensor_view<1024x64xf16, strides=[64,1]>>
    %a, %ta = load_view_tko weak %va[%zero, %zero] token = %t : partition_view<tile=(64x32), tensor_view<64x32xf16, strides=[32,1]>>, tile<i32> -> tile<64x32xf16>, token
    %sum = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<64x64xf32>) {
      %b, %tb = load_view_tko weak %vb[%k, %zero] token = %t : partition_view<tile=(32x64), tensor_view<1024x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
      %more = mmaf %a, %b, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      continue %more : tile<64x64xf32>
    }
    print_tko "%f", %sum : tile<64x64xf32> -> token
    return
  }
  entry @many(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<128x64xf32>
    %wa = make_tensor_view %pa, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %wb = make_tensor_view %pb, shape = [1024, 64], strides = [64, 1] : tensor_view<1024x64xf16, strides=[64,1]>
    %va = make_partition_view %wa : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>
    %vb = make_partition_view %wb : partition_view<tile=(128x64), tensor_view<1024x64xf16, strides=[64,1]>>
    %a, %ta = load_view_tko weak %va[%zero, %zero] token = %t : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
    %sum = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<128x64xf32>) {
      %b, %tb = load_view_tko weak %vb[%k, %zero] token = %t : partition_view<tile=(128x64), tensor_view<1024x64xf16, strides=[64,1]>>, tile<i32> -> tile<128x64xf16>, token
      %more = mmaf %a, %b, %acc : tile<128x128xf16>, tile<128x64xf16>, tile<128x64xf32>
      continue %more : tile<128x64xf32>
    }
    print_tko "%f", %sum : tile<128x64xf32> -> token
    return
  }
  entry @crowded(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %n: tile<i32>) optimization_hints=<sm_80 = {occupancy = 4}, sm_120 = {occupancy = 4}> {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<128x64xf32>
    %wa = make_tensor_view %pa, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %wb = make_tensor_view %pb, shape = [1024, 64], strides = [64, 1] : tensor_view<1024x64xf16, strides=[64,1]>
    %va = make_partition_view %wa : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>
    %vb = make_partition_view %wb : partition_view<tile=(128x64), tensor_view<1024x64xf16, strides=[64,1]>>
    %a, %ta = load_view_tko weak %va[%zero, %zero] token = %t : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
    %sum = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<128x64xf32>) {
      %b, %tb = load_view_tko weak %vb[%k, %zero] token = %t : partition_view<tile=(128x64), tensor_view<1024x64xf16, strides=[64,1]>>, tile<i32> -> tile<128x64xf16>, token
      %more = mmaf %a, %b, %acc : tile<128x128xf16>, tile<128x64xf16>, tile<128x64xf32>
      continue %more : tile<128x64xf32>
    }
    print_tko "%f", %sum : tile<128x64xf32> -> token
    return
  }
}
