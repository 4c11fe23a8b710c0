// A tile is stored to an array whose place the kernel loads, behind the loop that computes it: the map is built where the array is,
// before the loop, which hides what its fences take. Without a loop between, and at -O0, threads store.
// RUN: env TILEIRAS_WITHOUT=agents,pipelines tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=AGENTS
// RUN: tileiras-opt %s --to=nv_tileas -O0 --gpu-name=sm_90 | filecheck %s --check-prefix=PLAIN

// PLAIN-NOT: tma
// CHECK-LABEL: sym_name = "product"
// CHECK: [[MAP:%[0-9]+]] = "nv_tileas.build_tma_desc"
// CHECK: "scf.for"
// CHECK: "nv_tileas.tma_store"([[MAP]],
// CHECK-NOT: "nv_tileas.tiled_store"
// CHECK-LABEL: sym_name = "alone"
// CHECK-NOT: build_tma_desc
// CHECK: "nv_tileas.tiled_store"

// Who stores builds: the agent of the products, in front of its loop.
// AGENTS-LABEL: sym_name = "product"
// AGENTS: "nv_tileas.agent_switch"
// AGENTS: [[MAP:%[0-9]+]] = "nv_tileas.build_tma_desc"
// AGENTS: "scf.for"
// AGENTS: "nv_tileas.tma_store"([[MAP]],
cuda_tile.module @m {
  entry @product(%table: tile<ptr<i64>>, %a0: tile<ptr<f16>>, %b0: tile<ptr<f16>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<128x64xf32>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %at = offset %table, %x : tile<ptr<i64>>, tile<i32> -> tile<ptr<i64>>
    %word, %t0 = load_ptr_tko weak %at token=%t : tile<ptr<i64>> -> tile<i64>, token
    %o0 = int_to_ptr %word : tile<i64> -> tile<ptr<f16>>
    %o = assume div_by<16>, %o0 : tile<ptr<f16>>
    %ap = assume div_by<16>, %a0 : tile<ptr<f16>>
    %bp = assume div_by<16>, %b0 : tile<ptr<f16>>
    %av = make_tensor_view %ap, shape = [128, %n], strides = [4096, 1] : tile<i32> -> tensor_view<128x?xf16, strides=[4096,1]>
    %a = make_partition_view %av : partition_view<tile=(128x64), padding_value = zero, tensor_view<128x?xf16, strides=[4096,1]>>
    %bv = make_tensor_view %bp, shape = [%n, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %b = make_partition_view %bv : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>
    %ov = make_tensor_view %o, shape = [%n, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %out = make_partition_view %ov : partition_view<tile=(128x64), tensor_view<?x64xf16, strides=[64,1]>>
    %sum = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<128x64xf32>) {
      %l, %u0 = load_view_tko weak %a[%zero, %k] token = %t : partition_view<tile=(128x64), padding_value = zero, tensor_view<128x?xf16, strides=[4096,1]>>, tile<i32> -> tile<128x64xf16>, token
      %r, %u1 = load_view_tko weak %b[%k, %zero] token = %t : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %d = mmaf %l, %r, %acc : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      continue %d : tile<128x64xf32>
    }
    %h = ftof %sum : tile<128x64xf32> -> tile<128x64xf16>
    %e = store_view_tko weak %h, %out[%zero, %zero] token = %t : tile<128x64xf16>, partition_view<tile=(128x64), tensor_view<?x64xf16, strides=[64,1]>>, tile<i32> -> token
    return
  }
  entry @alone(%table: tile<ptr<i64>>, %a0: tile<ptr<f16>>, %b0: tile<ptr<f16>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %start = constant <f32: 0.0> : tile<128x64xf32>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %at = offset %table, %x : tile<ptr<i64>>, tile<i32> -> tile<ptr<i64>>
    %word, %t0 = load_ptr_tko weak %at token=%t : tile<ptr<i64>> -> tile<i64>, token
    %o0 = int_to_ptr %word : tile<i64> -> tile<ptr<f16>>
    %o = assume div_by<16>, %o0 : tile<ptr<f16>>
    %ap = assume div_by<16>, %a0 : tile<ptr<f16>>
    %bp = assume div_by<16>, %b0 : tile<ptr<f16>>
    %av = make_tensor_view %ap, shape = [128, 64], strides = [4096, 1] : tensor_view<128x64xf16, strides=[4096,1]>
    %a = make_partition_view %av : partition_view<tile=(128x64), padding_value = zero, tensor_view<128x64xf16, strides=[4096,1]>>
    %bv = make_tensor_view %bp, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf16, strides=[64,1]>
    %b = make_partition_view %bv : partition_view<tile=(64x64), padding_value = zero, tensor_view<64x64xf16, strides=[64,1]>>
    %ov = make_tensor_view %o, shape = [%n, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %out = make_partition_view %ov : partition_view<tile=(128x64), tensor_view<?x64xf16, strides=[64,1]>>
    %l, %u0 = load_view_tko weak %a[%zero, %zero] token = %t : partition_view<tile=(128x64), padding_value = zero, tensor_view<128x64xf16, strides=[4096,1]>>, tile<i32> -> tile<128x64xf16>, token
    %r, %u1 = load_view_tko weak %b[%zero, %zero] token = %t : partition_view<tile=(64x64), padding_value = zero, tensor_view<64x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %d = mmaf %l, %r, %start : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
    %h = ftof %d : tile<128x64xf32> -> tile<128x64xf16>
    %e = store_view_tko weak %h, %out[%zero, %zero] token = %t : tile<128x64xf16>, partition_view<tile=(128x64), tensor_view<?x64xf16, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
