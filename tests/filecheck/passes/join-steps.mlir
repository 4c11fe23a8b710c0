// Steps of 32 along k are 64 bytes: two are taken at once. The first array's own extent is where the loop ends; the second one is cut there.
// RUN: tileiras-opt %s --pass-pipeline='builtin.module(convert-cudatile-to-tileaa,simplify,join-steps)' --gpu-name=sm_90 | filecheck %s
// Without copies that run by themselves nothing is joined.
// RUN: tileiras-opt %s --pass-pipeline='builtin.module(convert-cudatile-to-tileaa,simplify,join-steps)' --gpu-name=sm_75 | filecheck %s --check-prefix=PLAIN

// CHECK: func"() <{sym_name = "product"}>
// CHECK: [[EXTENT:%[0-9]+]] = "nv_tileaa.assume"(%4) <{fact = #nv_tileaa.fact<bounded [0, ?]>}>
// CHECK: [[A:%[0-9]+]] = "nv_tileaa.make_memref"
// CHECK: "nv_tileaa.block_tile"([[A]]) {{.*}}tile = [64, 64], padding = zero
// CHECK: [[STEPS:%[0-9]+]] = "arith.shrui"
// CHECK: [[STEP:%[0-9]+]] = "arith.constant"() <{value = 32 : i32}>
// CHECK-NEXT: [[END:%[0-9]+]] = "arith.muli"([[STEPS]], [[STEP]])
// CHECK-NEXT: [[CUT:%[0-9]+]] = "arith.minui"([[EXTENT]], [[END]])
// CHECK-NEXT: [[C:%[0-9]+]] = "nv_tileaa.make_memref"({{%[0-9]+}}, [[CUT]], {{%[0-9]+}})
// CHECK-NEXT: "nv_tileaa.block_tile"([[C]]) {{.*}}tile = [64, 64], padding = zero
// CHECK: [[MORE:%[0-9]+]] = "arith.addi"([[STEPS]], {{%[0-9]+}})
// CHECK: [[HALF:%[0-9]+]] = "arith.shrui"([[MORE]], {{%[0-9]+}})
// CHECK-NEXT: "scf.for"({{%[0-9]+}}, [[HALF]], {{%[0-9]+}}, {{%[0-9]+}})
// CHECK: "nv_tileaa.dot"({{.*}}) : (tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>)

// A product that isn't added to what the loop carries is that of the last step: its steps stay as they are.
// CHECK: func"() <{sym_name = "last_one"}>
// CHECK: "nv_tileaa.dot"({{.*}}) : (tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32>)

// PLAIN-COUNT-2: "nv_tileaa.dot"({{.*}}) : (tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32>)
cuda_tile.module @m {
  entry @product(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %r: tile<ptr<f32>>, %k0: tile<i32>, %rows0: tile<i32>, %s: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %k = assume bounded<0, ?>, %k0 : tile<i32>
    %rows = assume bounded<0, ?>, %rows0 : tile<i32>
    %c = constant <f32: 0.0> : tile<64x64xf32>
    %a = make_tensor_view %p, shape = [64, %k], strides = [%s, 1] : tile<i32> -> tensor_view<64x?xf16, strides=[?,1]>
    %b = make_tensor_view %q, shape = [%rows, 64], strides = [%s, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[?,1]>
    %o = make_tensor_view %r, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %va = make_partition_view %a : partition_view<tile=(64x32), padding_value = zero, tensor_view<64x?xf16, strides=[?,1]>>
    %vb = make_partition_view %b : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x64xf16, strides=[?,1]>>
    %vo = make_partition_view %o : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %n:2 = get_index_space_shape %va : partition_view<tile=(64x32), padding_value = zero, tensor_view<64x?xf16, strides=[?,1]>> -> tile<i32>
    %sum = for %i in (%zero to %n#1, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<64x64xf32>) {
      %x, %u = load_view_tko weak %va[%zero, %i] token = %t : partition_view<tile=(64x32), padding_value = zero, tensor_view<64x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x32xf16>, token
      %y, %w = load_view_tko weak %vb[%i, %zero] token = %t : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x64xf16, strides=[?,1]>>, tile<i32> -> tile<32x64xf16>, token
      %e = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      continue %e : tile<64x64xf32>
    }
    %z = store_view_tko weak %sum, %vo[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
  entry @last_one(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %r: tile<ptr<f32>>, %k0: tile<i32>, %s: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %k = assume bounded<0, ?>, %k0 : tile<i32>
    %c = constant <f32: 0.0> : tile<64x64xf32>
    %a = make_tensor_view %p, shape = [64, %k], strides = [%s, 1] : tile<i32> -> tensor_view<64x?xf16, strides=[?,1]>
    %b = make_tensor_view %q, shape = [%k, 64], strides = [%s, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[?,1]>
    %o = make_tensor_view %r, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %va = make_partition_view %a : partition_view<tile=(64x32), padding_value = zero, tensor_view<64x?xf16, strides=[?,1]>>
    %vb = make_partition_view %b : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x64xf16, strides=[?,1]>>
    %vo = make_partition_view %o : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %n:2 = get_index_space_shape %va : partition_view<tile=(64x32), padding_value = zero, tensor_view<64x?xf16, strides=[?,1]>> -> tile<i32>
    %sum = for %i in (%zero to %n#1, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<64x64xf32>) {
      %x, %u = load_view_tko weak %va[%zero, %i] token = %t : partition_view<tile=(64x32), padding_value = zero, tensor_view<64x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x32xf16>, token
      %y, %w = load_view_tko weak %vb[%i, %zero] token = %t : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x64xf16, strides=[?,1]>>, tile<i32> -> tile<32x64xf16>, token
      %e = mmaf %x, %y, %c : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      continue %e : tile<64x64xf32>
    }
    %z = store_view_tko weak %sum, %vo[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
