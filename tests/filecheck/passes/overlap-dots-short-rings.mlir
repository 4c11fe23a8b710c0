// Beside another block a ring has three stages: each is given back when its product is done, since another that isn't given back yet
// would leave one to be on its way. A block that has the SM to itself has four, and gives them back an iteration later.
// RUN: sed 's/COLUMNS/128/g' %s > %t
// RUN: tileiras-opt %t --to=nv_tileas --gpu-name=sm_90 | filecheck %s
// RUN: sed 's/COLUMNS/256/g' %s > %t
// RUN: tileiras-opt %t --to=nv_tileas --gpu-name=sm_90 | filecheck %s --check-prefix=ALONE

// CHECK: [[P:%[0-9]+]] = "nv_tileas.create_pipeline"{{.*}} !nv_tileas.pipe<"tma", #builtin.int<3>>
// CHECK: "nv_tileas.async_dot"
// CHECK-NEXT: "nv_tileas.dot_wait"{{.*}} <{pending = #builtin.int<0>
// CHECK-NEXT: "nv_tileas.consumer_release"([[P]])
// CHECK-NEXT: "scf.yield"

// ALONE: [[P:%[0-9]+]] = "nv_tileas.create_pipeline"{{.*}} !nv_tileas.pipe<"tma", #builtin.int<4>>
// ALONE: "nv_tileas.async_dot"
// ALONE-NEXT: "nv_tileas.dot_wait"{{.*}} <{pending = #builtin.int<1>
// ALONE: "scf.if"
// ALONE: "nv_tileas.consumer_release"([[P]])
cuda_tile.module @m {
  entry @product(%pp: tile<ptr<f16>>, %qp: tile<ptr<f16>>, %op: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %p = assume div_by<16>, %pp : tile<ptr<f16>>
    %q = assume div_by<16>, %qp : tile<ptr<f16>>
    %o = assume div_by<16>, %op : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %i, %j, %k = get_tile_block_id : tile<i32>
    %c = constant <f32: 0.0> : tile<128xCOLUMNSxf32>
    %av = make_tensor_view %p, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %bv = make_tensor_view %q, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %ov = make_tensor_view %o, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
    %at = make_partition_view %av : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %bt = make_partition_view %bv : partition_view<tile=(64xCOLUMNS), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %ot = make_partition_view %ov : partition_view<tile=(128xCOLUMNS), tensor_view<4096x4096xf32, strides=[4096,1]>>
    %s = for %l in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<128xCOLUMNSxf32>) {
      %a, %u0 = load_view_tko weak %at[%i, %l] token = %t : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<128x64xf16>, token
      %b, %u1 = load_view_tko weak %bt[%l, %j] token = %t : partition_view<tile=(64xCOLUMNS), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64xCOLUMNSxf16>, token
      %d = mmaf %a, %b, %acc : tile<128x64xf16>, tile<64xCOLUMNSxf16>, tile<128xCOLUMNSxf32>
      continue %d : tile<128xCOLUMNSxf32>
    }
    %z = store_view_tko weak %s, %ot[%i, %j] token = %t : tile<128xCOLUMNSxf32>, partition_view<tile=(128xCOLUMNS), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> token
    return
  }
}
