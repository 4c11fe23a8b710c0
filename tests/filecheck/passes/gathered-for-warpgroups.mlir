// Rows that a loop looks up for products of warpgroups are gathered by a load agent, by cp.async to a ring: it also reads where they
// lie, and counts arrivals; who multiplies says the fence itself. Without agents such tiles stay in their iteration.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s
// RUN: env TILEIRAS_WITHOUT=agents tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s --check-prefix=ALONE

// CHECK: [[RING:%[0-9]+]] = "nv_tileas.alloc_tensor"() {{.*}} -> !nv_tileas.ring<
// CHECK: [[PIPE:%[0-9]+]] = "nv_tileas.create_pipeline"() <{producers = #builtin.int<128>, consumers = #builtin.int<4>{{.*}} -> !nv_tileas.pipe<"cp_async"
// CHECK: "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<4>, #builtin.int<1>]
// CHECK: "nv_tileas.consumer_wait"([[PIPE]])
// CHECK-NEXT: "nv_tileas.fence_async"
// CHECK: "nv_tileas.async_dot"
// CHECK: "nv_tileas.consumer_release"([[PIPE]])
// CHECK: "scf.for"
// CHECK: [[INDEX:%[0-9]+]], %{{[0-9]+}} = "nv_tileas.load"
// CHECK: "nv_tileas.producer_acquire"([[PIPE]])
// CHECK-NEXT: "nv_tileas.extract_slice"([[RING]],
// CHECK-NEXT: "nv_tileas.async_copy"({{.*}} atom = "cp.async.16"
// CHECK: "nv_tileas.producer_commit"([[PIPE]])

// ALONE-NOT: "nv_tileas.async_copy"
// ALONE: "nv_tileas.store_shared"
cuda_tile.module @m {
  entry @product(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %pi: tile<ptr<i32>>, %pc: tile<ptr<f32>>, %from: tile<i32>, %to: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %size = constant <i32: 64> : tile<i32>
    %none = constant <i32: 0> : tile<64x64xi32>
    %pitch = constant <i32: 480> : tile<64x64xi32>
    %end = constant <i32: 464> : tile<64x64xi32>
    %outside = constant <f16: 0.0> : tile<64x64xf16>
    %start = constant <f32: 0.0> : tile<64x64xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %wb = make_tensor_view %qb, shape = [480, 64], strides = [64, 1] : tensor_view<480x64xf16, strides=[64,1]>
    %wc = make_tensor_view %pc, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %vb = make_partition_view %wb : partition_view<tile=(64x64), padding_value = zero, tensor_view<480x64xf16, strides=[64,1]>>
    %vc = make_partition_view %wc : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %n = iota : tile<64xi32>
    %p1 = reshape %qa : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %base = broadcast %p1 : tile<1x1xptr<f16>> -> tile<64x64xptr<f16>>
    %sum = for %k in (%from to %to, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<64x64xf32>) {
      %ip = reshape %pi : tile<ptr<i32>> -> tile<1xptr<i32>>
      %ib = broadcast %ip : tile<1xptr<i32>> -> tile<64xptr<i32>>
      %io = offset %ib, %n : tile<64xptr<i32>>, tile<64xi32> -> tile<64xptr<i32>>
      %index, %ti = load_ptr_tko weak %io token=%t : tile<64xptr<i32>> -> tile<64xi32>, token
      %column = reshape %index : tile<64xi32> -> tile<64x1xi32>
      %rows = broadcast %column : tile<64x1xi32> -> tile<64x64xi32>
      %some = cmpi greater_than_or_equal %rows, %none, signed : tile<64x64xi32> -> tile<64x64xi1>
      %starts = muli %rows, %pitch : tile<64x64xi32>
      %first = muli %k, %size : tile<i32>
      %f1 = reshape %first : tile<i32> -> tile<1xi32>
      %fb = broadcast %f1 : tile<1xi32> -> tile<64xi32>
      %line = addi %fb, %n : tile<64xi32>
      %row = reshape %line : tile<64xi32> -> tile<1x64xi32>
      %cols = broadcast %row : tile<1x64xi32> -> tile<64x64xi32>
      %inside = cmpi less_than %cols, %end, signed : tile<64x64xi32> -> tile<64x64xi1>
      %mask = andi %inside, %some : tile<64x64xi1>
      %far = addi %starts, %cols : tile<64x64xi32>
      %at = offset %base, %far : tile<64x64xptr<f16>>, tile<64x64xi32> -> tile<64x64xptr<f16>>
      %a, %ta = load_ptr_tko weak %at, %mask, %outside token=%t : tile<64x64xptr<f16>>, tile<64x64xi1>, tile<64x64xf16> -> tile<64x64xf16>, token
      %b, %tb = load_view_tko weak %vb[%k, %zero] token = %t : partition_view<tile=(64x64), padding_value = zero, tensor_view<480x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %more = mmaf %a, %b, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      continue %more : tile<64x64xf32>
    }
    %e = store_view_tko weak %sum, %vc[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
