// Arrays whose places the kernel loads: their maps are built behind them, before the loop through their tiles, from the kernel's
// own values, one behind the other, since they share their fences; each gets its place. The tile that is loaded once, in no loop,
// goes by threads.
// RUN: env TILEIRAS_WITHOUT=agents,pipelines tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s --check-prefix=AGENTS
// RUN: tileiras-opt %s --to=nv_tileas -O0 --gpu-name=sm_90 | filecheck %s --check-prefix=PLAIN

// PLAIN-NOT: tma
// CHECK: built_maps = #builtin.int<2>
// CHECK-NOT: tensor_maps
// CHECK: [[WORD:%[0-9]+]] = "nv_tileas.int_to_ptr"
// CHECK: [[P:%[0-9]+]] = "nv_tileas.assume"([[WORD]])
// CHECK: "nv_tileas.make_memref"([[P]], %[[N:[0-9]+]])
// CHECK: "nv_tileas.make_memref"
// CHECK-NEXT: [[MAP:%[0-9]+]] = "nv_tileas.build_tma_desc"([[P]], %[[N]])
// CHECK-SAME: recipe = "f16 p0 [umax(u32(p1), 1), 64] [128] box [64, 64] swizzle 128", number = #builtin.int<0>
// CHECK-NEXT: {{.*}} = "nv_tileas.build_tma_desc"
// CHECK-SAME: number = #builtin.int<1>
// CHECK: "nv_tileas.tiled_load"
// CHECK: "scf.for"
// CHECK: "nv_tileas.tma_load"([[MAP]],
// CHECK: "nv_tileas.tma_load"

// The load agent builds what it copies by.
// AGENTS: "nv_tileas.agent_switch"
// AGENTS: "nv_tileas.async_dot"
// AGENTS-NOT: "nv_tileas.async_dot"
// AGENTS: "nv_tileas.build_tma_desc"
// AGENTS: "nv_tileas.tma_load"
cuda_tile.module @m {
  entry @product(%table: tile<ptr<i64>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<64x64xf32>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %at = offset %table, %x : tile<ptr<i64>>, tile<i32> -> tile<ptr<i64>>
    %word, %t0 = load_ptr_tko weak %at token=%t : tile<ptr<i64>> -> tile<i64>, token
    %next = offset %at, %one : tile<ptr<i64>>, tile<i32> -> tile<ptr<i64>>
    %other, %t1 = load_ptr_tko weak %next token=%t : tile<ptr<i64>> -> tile<i64>, token
    %p0 = int_to_ptr %word : tile<i64> -> tile<ptr<f16>>
    %p = assume div_by<16>, %p0 : tile<ptr<f16>>
    %r0 = int_to_ptr %other : tile<i64> -> tile<ptr<f16>>
    %r = assume div_by<16>, %r0 : tile<ptr<f16>>
    %w = make_tensor_view %p, shape = [64, %n], strides = [64, 1] : tile<i32> -> tensor_view<64x?xf16, strides=[64,1]>
    %v = make_partition_view %w : partition_view<tile=(64x64), padding_value = zero, tensor_view<64x?xf16, strides=[64,1]>>
    %wr = make_tensor_view %r, shape = [%n, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %vr = make_partition_view %wr : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>
    %o = make_tensor_view %q, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %ov = make_partition_view %o : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %once, %t2 = load_view_tko weak %ov[%zero, %zero] token = %t : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> tile<64x64xf32>, token
    %sum = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %once) -> (tile<64x64xf32>) {
      %a, %u0 = load_view_tko weak %v[%zero, %k] token = %t : partition_view<tile=(64x64), padding_value = zero, tensor_view<64x?xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %b, %u1 = load_view_tko weak %vr[%k, %zero] token = %t : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %d = mmaf %a, %b, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      continue %d : tile<64x64xf32>
    }
    %e = store_view_tko weak %sum, %ov[%zero, %zero] token = %t2 : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
