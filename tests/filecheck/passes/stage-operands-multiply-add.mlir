// What a dot without an instruction multiplies and adds lies in rows, but where memory holds columns it lies in columns: A's first
// dimension is the contiguous one of its buffer then, so that threads store four of its elements at once and the copy engine may bring it.
// RUN: tileiras-opt %s --to=nv_tileaa -O1 -o %t.aa
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,choose-atoms,assign-load-store-layouts,stage-operands --gpu-name=sm_90 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s --check-prefix=ENGINE

// CHECK-LABEL: sym_name = "columns"
// CHECK: "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<f32, #nv_tileas.shared<shape = [32x32], offset = [{{[0-9]+, [0-9]+, [0-9]+, [0-9]+, [0-9]+}}, 1, 2
// CHECK: "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<f32, #nv_tileas.shared<shape = [32x64], offset = [1, 2,
// CHECK-LABEL: sym_name = "rows"
// CHECK: "nv_tileas.alloc_tensor"() : () -> !nv_tileas.buffer<f32, #nv_tileas.shared<shape = [32x32], offset = [1, 2,
// ENGINE-LABEL: sym_name = "columns"
// ENGINE-COUNT-2: "nv_tileas.tma_load"
cuda_tile.module @m {
  entry @columns(%pa: tile<ptr<f32>>, %pb: tile<ptr<f32>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<32x64xf32>
    %aa = assume div_by<16>, %pa : tile<ptr<f32>>
    %ab = assume div_by<16>, %pb : tile<ptr<f32>>
    %ta = make_tensor_view %aa, shape = [128, 256], strides = [1, 128] : tensor_view<128x256xf32, strides=[1,128]>
    %tb = make_tensor_view %ab, shape = [256, 128], strides = [128, 1] : tensor_view<256x128xf32, strides=[128,1]>
    %to = make_tensor_view %po, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %va = make_partition_view %ta : partition_view<tile=(32x32), tensor_view<128x256xf32, strides=[1,128]>>
    %vb = make_partition_view %tb : partition_view<tile=(32x64), tensor_view<256x128xf32, strides=[128,1]>>
    %vo = make_partition_view %to : partition_view<tile=(32x64), tensor_view<128x128xf32, strides=[128,1]>>
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<32x64xf32>) {
      %a, %u0 = load_view_tko weak %va[%zero, %i] token = %t : partition_view<tile=(32x32), tensor_view<128x256xf32, strides=[1,128]>>, tile<i32> -> tile<32x32xf32>, token
      %b, %u1 = load_view_tko weak %vb[%i, %zero] token = %t : partition_view<tile=(32x64), tensor_view<256x128xf32, strides=[128,1]>>, tile<i32> -> tile<32x64xf32>, token
      %d = mmaf %a, %b, %acc : tile<32x32xf32>, tile<32x64xf32>, tile<32x64xf32>
      continue %d : tile<32x64xf32>
    }
    %u2 = store_view_tko weak %s, %vo[%zero, %zero] token = %t : tile<32x64xf32>, partition_view<tile=(32x64), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
  entry @rows(%pa: tile<ptr<f32>>, %pb: tile<ptr<f32>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<32x64xf32>
    %ta = make_tensor_view %pa, shape = [128, 256], strides = [256, 1] : tensor_view<128x256xf32, strides=[256,1]>
    %tb = make_tensor_view %pb, shape = [256, 128], strides = [128, 1] : tensor_view<256x128xf32, strides=[128,1]>
    %to = make_tensor_view %po, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %va = make_partition_view %ta : partition_view<tile=(32x32), tensor_view<128x256xf32, strides=[256,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(32x64), tensor_view<256x128xf32, strides=[128,1]>>
    %vo = make_partition_view %to : partition_view<tile=(32x64), tensor_view<128x128xf32, strides=[128,1]>>
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<32x64xf32>) {
      %a, %u0 = load_view_tko weak %va[%zero, %i] token = %t : partition_view<tile=(32x32), tensor_view<128x256xf32, strides=[256,1]>>, tile<i32> -> tile<32x32xf32>, token
      %b, %u1 = load_view_tko weak %vb[%i, %zero] token = %t : partition_view<tile=(32x64), tensor_view<256x128xf32, strides=[128,1]>>, tile<i32> -> tile<32x64xf32>, token
      %d = mmaf %a, %b, %acc : tile<32x32xf32>, tile<32x64xf32>, tile<32x64xf32>
      continue %d : tile<32x64xf32>
    }
    %u2 = store_view_tko weak %s, %vo[%zero, %zero] token = %t : tile<32x64xf32>, partition_view<tile=(32x64), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
