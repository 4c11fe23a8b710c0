// A block draws the number of its tile by an atomic that acquires: the number goes to both agents by a pipe, and the copy engine is
// told behind a fence.
// RUN: tileiras-opt %s --to=nv_tileas -O3 --gpu-name=sm_100 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas -O3 --gpu-name=sm_80 | filecheck %s --check-prefix=WHOLE

// CHECK: [[P:%[0-9]+]] = "nv_tileas.create_pipeline"() <{{{.*}}producers = {{.*}}4{{.*}}, consumers = {{.*}}5{{.*}}, told
// CHECK: agent_switch
// CHECK: [[N:%[0-9]+]], %{{[0-9]+}} = "nv_tileas.atomic_rmw"({{.*}}owners, told
// CHECK-NEXT: [[I:%[0-9]+]] = "nv_tileas.producer_acquire"([[P]]
// CHECK-NEXT: [[S:%[0-9]+]] = "nv_tileas.extract_slice"([[R:%[0-9]+]], [[I]])
// CHECK-NEXT: "nv_tileas.store_shared"([[N]], [[S]]) <{owners}>
// CHECK-NEXT: "nv_tileas.producer_commit"([[P]])
// CHECK-NEXT: [[J:%[0-9]+]] = "nv_tileas.consumer_wait"([[P]]
// CHECK-NEXT: [[T:%[0-9]+]] = "nv_tileas.extract_slice"([[R]], [[J]])
// CHECK-NEXT: "nv_tileas.load_shared"([[T]])
// CHECK-NOT: fence_async"() <{global
// CHECK: "nv_tileas.tensor_dot"
// CHECK: }, {
// CHECK-NOT: atomic_rmw
// CHECK: [[J:%[0-9]+]] = "nv_tileas.consumer_wait"([[P]]
// CHECK-NEXT: [[T:%[0-9]+]] = "nv_tileas.extract_slice"([[R]], [[J]])
// CHECK-NEXT: "nv_tileas.load_shared"([[T]])
// CHECK: "nv_tileas.fence_async"() <{global
// CHECK-NEXT: "nv_tileas.consumer_release"([[P]])
// CHECK: "nv_tileas.tma_load"

// WHOLE-NOT: told
// WHOLE: atomic_rmw
// WHOLE-NOT: told
cuda_tile.module @m {
  entry @tickets(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %next: tile<ptr<i32>>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f16>>
    %b0 = assume div_by<16>, %b : tile<ptr<f16>>
    %ta = make_tensor_view %a0, shape = [1024, 512], strides = [512, 1] : tensor_view<1024x512xf16, strides=[512,1]>
    %tb = make_tensor_view %b0, shape = [512, 64], strides = [64, 1] : tensor_view<512x64xf16, strides=[64,1]>
    %tc = make_tensor_view %c, shape = [1024, 64], strides = [64, 1] : tensor_view<1024x64xf32, strides=[64,1]>
    %pa = make_partition_view %ta : partition_view<tile=(128x64), tensor_view<1024x512xf16, strides=[512,1]>>
    %pb = make_partition_view %tb : partition_view<tile=(64x64), tensor_view<512x64xf16, strides=[64,1]>>
    %pc = make_partition_view %tc : partition_view<tile=(128x64), tensor_view<1024x64xf32, strides=[64,1]>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %eight = constant <i32: 8> : tile<i32>
    %sum0 = constant <f32: 0.0> : tile<128x64xf32>
    %before = make_token : token
    for %n in (%zero to %eight, step %one) : tile<i32> {
      %i, %drawn = atomic_rmw_tko acq_rel device %next, add, %one token=%before : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
      %more = cmpi less_than %i, %eight, signed : tile<i32> -> tile<i1>
      if %more {
        %sum = for %k in (%zero to %eight, step %one) : tile<i32> iter_values(%acc = %sum0) -> (tile<128x64xf32>) {
          %x, %t0 = load_view_tko weak %pa[%i, %k] token=%drawn : partition_view<tile=(128x64), tensor_view<1024x512xf16, strides=[512,1]>>, tile<i32> -> tile<128x64xf16>, token
          %y, %t1 = load_view_tko weak %pb[%k, %zero] token=%drawn : partition_view<tile=(64x64), tensor_view<512x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
          %d = mmaf %x, %y, %acc : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
          continue %d : tile<128x64xf32>
        }
        %t2 = store_view_tko weak %sum, %pc[%i, %zero] token=%drawn : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<1024x64xf32, strides=[64,1]>>, tile<i32> -> token
      }
    }
    return
  }
}
