// Rows that threads make for a product go to two places in tensor memory in turn, and a warp of its own begins the products when each
// warp has said that its rows are there. Threads meet in front of what they do with the sums, not in the loop.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s

// CHECK: [[MADE:%[0-9]+]] = "nv_tileas.create_pipeline"() <{producers = #builtin.int<4>, consumers = #builtin.int<1>, {{.*}}!nv_tileas.pipe<"mbarrier", #builtin.int<2>>
// CHECK: [[DONE:%[0-9]+]] = "nv_tileas.create_pipeline"() <{consumers = #builtin.int<4>, {{.*}}!nv_tileas.pipe<"umma", #builtin.int<1>>
// CHECK: [[R:%[0-9]+]] = "nv_tileas.alloc_tensor"() {{.*}}!nv_tileas.tmem<f16, [#builtin.int<2>, #builtin.int<64>, #builtin.int<64>]
// CHECK-NEXT: [[D:%[0-9]+]] = "nv_tileas.alloc_tensor"() {{.*}}!nv_tileas.tmem<f32, [#builtin.int<64>, #builtin.int<128>]
// CHECK: warps = [#builtin.int<4>, #builtin.int<1>, #builtin.int<1>]
// CHECK: "scf.for"(
// CHECK-NOT: "nv_tileas.barrier"
// CHECK: [[X:%[0-9]+]] = "arith.mulf"(
// CHECK: [[I:%[0-9]+]] = "nv_tileas.producer_acquire"([[MADE]])
// CHECK-NEXT: [[PLACE:%[0-9]+]] = "nv_tileas.tmem_stage"([[R]], [[I]])
// CHECK-NEXT: "nv_tileas.store_tmem"([[X]], [[PLACE]])
// CHECK-NEXT: "nv_tileas.producer_commit"([[MADE]])
// CHECK-NEXT: "scf.yield"
// CHECK: "nv_tileas.consumer_wait"([[DONE]], [[D]])
// CHECK: "nv_tileas.load_tmem"([[D]])
// CHECK: "nv_tileas.tma_load"
// CHECK: "scf.for"(
// CHECK-NOT: "nv_tileas.barrier"
// CHECK: "nv_tileas.consumer_wait"([[COLUMNS:%[0-9]+]]) <{by_dots}>
// CHECK: [[J:%[0-9]+]] = "nv_tileas.consumer_wait"([[MADE]]) <{by_dots}>
// CHECK-NEXT: [[READ:%[0-9]+]] = "nv_tileas.tmem_stage"([[R]], [[J]])
// CHECK-NEXT: "nv_tileas.tensor_dot"([[READ]], {{%[0-9]+}}, [[D]], {{.*}}.ts"{{.*}}told
// CHECK-NEXT: "nv_tileas.consumer_release"([[COLUMNS]]) <{by_dots}>
// CHECK-NEXT: "nv_tileas.consumer_release"([[MADE]]) <{by_dots}>
// CHECK-NEXT: "scf.yield"
// CHECK: "nv_tileas.producer_commit"([[DONE]])
cuda_tile.module @m {
  entry @scaled(%px: tile<ptr<f16>>, %pg: tile<ptr<f16>>, %pw: tile<ptr<f16>>, %py: tile<ptr<f16>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x128xf32>
    %ax = assume div_by<16>, %px : tile<ptr<f16>>
    %ag = assume div_by<16>, %pg : tile<ptr<f16>>
    %aw = assume div_by<16>, %pw : tile<ptr<f16>>
    %ay = assume div_by<16>, %py : tile<ptr<f16>>
    %tx = make_tensor_view %ax, shape = [64, 4096], strides = [4096, 1] : tensor_view<64x4096xf16, strides=[4096,1]>
    %tg = make_tensor_view %ag, shape = [4096], strides = [1] : tensor_view<4096xf16, strides=[1]>
    %tw = make_tensor_view %aw, shape = [4096, 128], strides = [128, 1] : tensor_view<4096x128xf16, strides=[128,1]>
    %ty = make_tensor_view %ay, shape = [64, 128], strides = [128, 1] : tensor_view<64x128xf16, strides=[128,1]>
    %vx = make_partition_view %tx : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>
    %vg = make_partition_view %tg : partition_view<tile=(64), tensor_view<4096xf16, strides=[1]>>
    %vw = make_partition_view %tw : partition_view<tile=(64x128), tensor_view<4096x128xf16, strides=[128,1]>>
    %vy = make_partition_view %ty : partition_view<tile=(64x128), tensor_view<64x128xf16, strides=[128,1]>>
    %sum = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<64x128xf32>) {
      %x, %u0 = load_view_tko weak %vx[%zero, %k] token = %t : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
      %g, %u1 = load_view_tko weak %vg[%k] token = %t : partition_view<tile=(64), tensor_view<4096xf16, strides=[1]>>, tile<i32> -> tile<64xf16>, token
      %w, %u2 = load_view_tko weak %vw[%k, %zero] token = %t : partition_view<tile=(64x128), tensor_view<4096x128xf16, strides=[128,1]>>, tile<i32> -> tile<64x128xf16>, token
      %row = reshape %g : tile<64xf16> -> tile<1x64xf16>
      %all = broadcast %row : tile<1x64xf16> -> tile<64x64xf16>
      %a = mulf %x, %all : tile<64x64xf16>
      %d = mmaf %a, %w, %acc : tile<64x64xf16>, tile<64x128xf16>, tile<64x128xf32>
      continue %d : tile<64x128xf32>
    }
    %y = ftof %sum : tile<64x128xf32> -> tile<64x128xf16>
    %u3 = store_view_tko weak %y, %vy[%zero, %zero] token = %t : tile<64x128xf16>, partition_view<tile=(64x128), tensor_view<64x128xf16, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
