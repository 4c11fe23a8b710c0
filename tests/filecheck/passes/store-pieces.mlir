// A loop over tiles: what is stored of a tile goes by the copy engine in pieces, two buffers in turn, while the next tile is
// computed; the store's own token, which the loop carries, asks that a tile is there before the next one is stored. Of tensor memory
// a piece at a time is loaded. Where another access takes the token, threads store.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s
// RUN: sed 's/token = %carried/token = %first/; s/continue %z : token/continue %carried : token/' %s | tileiras-opt - --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=FREE
// RUN: sed '/%v\[/s/token = %first/token = %carried/' %s | tileiras-opt - --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=READ

// CHECK: "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<1>, #builtin.int<1>]}>
// CHECK: [[A:%[0-9]+]] = "nv_tileas.alloc_tensor"(){{.*}}shape = [128x32]
// CHECK: [[B:%[0-9]+]] = "nv_tileas.alloc_tensor"(){{.*}}shape = [128x32]
// CHECK: "scf.for"
// CHECK: "nv_tileas.store_wait"([[A]], [[B]]) <{pending = #builtin.int<0>, written}>
// CHECK: [[P:%[0-9]+]] = "nv_tileas.load_tmem"([[D:%[0-9]+]]) <{first = #builtin.int<0>}>
// CHECK: "nv_tileas.barrier"
// CHECK: "nv_tileas.store_shared"([[P]], [[A]])
// CHECK: "nv_tileas.fence_async"
// CHECK-NEXT: "nv_tileas.barrier"
// CHECK-NEXT: "nv_tileas.tma_store"({{.*}}, [[A]]) <{in_flight}>
// CHECK-NOT: store_wait
// CHECK: [[Q:%[0-9]+]] = "nv_tileas.load_tmem"([[D]]) <{first = #builtin.int<32>}>
// CHECK-NOT: barrier
// CHECK: "nv_tileas.store_shared"([[Q]], [[B]])
// CHECK: "nv_tileas.tma_store"({{.*}}, [[B]]) <{in_flight}>
// CHECK: "nv_tileas.store_wait"([[A]]) <{pending = #builtin.int<1>}>
// CHECK: "nv_tileas.load_tmem"([[D]]) <{first = #builtin.int<64>}>
// CHECK: "nv_tileas.barrier"
// CHECK: "nv_tileas.store_shared"({{%[0-9]+}}, [[A]])
// CHECK: "nv_tileas.load_tmem"([[D]]) <{first = #builtin.int<96>}>
// CHECK-NEXT: "nv_tileas.consumer_release"
// CHECK: "scf.yield"
// CHECK: "nv_tileas.store_wait"([[A]], [[B]]) <{pending = #builtin.int<0>}>
// CHECK-NEXT: "nv_tileas.tmem_free"

// FREE: "scf.for"
// FREE: "nv_tileas.store_wait"({{%[0-9]+}}) <{pending = #builtin.int<1>}>
// FREE: "nv_tileas.store_shared"
// FREE: "nv_tileas.store_wait"({{%[0-9]+}}) <{pending = #builtin.int<1>}>
// FREE-NOT: written

// READ-NOT: tma_store
// READ: "nv_tileas.tiled_store"
// READ-NOT: tma_store
cuda_tile.module @m {
  entry @sums(%pp: tile<ptr<f16>>, %qp: tile<ptr<f32>>, %n: tile<i32>, %tiles: tile<i32>) {
    %first = make_token : token
    %p = assume div_by<16>, %pp : tile<ptr<f16>>
    %q = assume div_by<16>, %qp : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<128x128xf32>
    %w = make_tensor_view %p, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %v = make_partition_view %w : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %u = make_tensor_view %p, shape = [4096, 128], strides = [128, 1] : tensor_view<4096x128xf16, strides=[128,1]>
    %k = make_partition_view %u : partition_view<tile=(64x128), tensor_view<4096x128xf16, strides=[128,1]>>
    %x = make_tensor_view %q, shape = [4096, 128], strides = [128, 1] : tensor_view<4096x128xf32, strides=[128,1]>
    %y = make_partition_view %x : partition_view<tile=(128x128), tensor_view<4096x128xf32, strides=[128,1]>>
    %last = for %tile in (%zero to %tiles, step %one) : tile<i32> iter_values(%carried = %first) -> (token) {
      %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<128x128xf32>) {
        %a, %u0 = load_view_tko weak %v[%tile, %i] token = %first : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<128x64xf16>, token
        %b, %u1 = load_view_tko weak %k[%i, %zero] token = %first : partition_view<tile=(64x128), tensor_view<4096x128xf16, strides=[128,1]>>, tile<i32> -> tile<64x128xf16>, token
        %d = mmaf %a, %b, %acc : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
        continue %d : tile<128x128xf32>
      }
      %z = store_view_tko weak %s, %y[%tile, %zero] token = %carried : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<4096x128xf32, strides=[128,1]>>, tile<i32> -> token
      continue %z : token
    }
    return
  }
}
