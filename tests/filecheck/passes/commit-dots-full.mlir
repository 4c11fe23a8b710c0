// A ring of four stages takes so much shared memory that results need a place of it. They live from behind the wait for the
// products on, though their addresses are computed in front of it: nobody waits in the loop, whose trips are known.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --verify-each | filecheck %s
// CHECK: "scf.for"
// CHECK: "nv_tileas.consumer_wait"({{%[0-9]+}}) <{by_dots}> : (!nv_tileas.pipe<"tma", #builtin.int<4>>)
// CHECK: "nv_tileas.tensor_dot"
// CHECK-NOT: "nv_tileas.barrier"
// CHECK: "nv_tileas.consumer_release"({{%[0-9]+}}) <{by_dots}>
// CHECK: "scf.yield"
// CHECK: "nv_tileas.consumer_wait"({{%[0-9]+}}, {{%[0-9]+}}, {{%[0-9]+}}, [[D:%[0-9]+]]) : (!nv_tileas.pipe<"umma"
// CHECK: "nv_tileas.load_tmem"([[D]])
// CHECK: "nv_tileas.alloc_tensor"() <{offset = #builtin.int<1024>}> : () -> !nv_tileas.buffer<f16
// CHECK: "nv_tileas.store_shared"
cuda_tile.module @m {
  entry @counted(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %po: tile<ptr<f16>>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %n = constant <i32: 16> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x256xf32>
    %aa = assume div_by<16>, %pa : tile<ptr<f16>>
    %ab = assume div_by<16>, %pb : tile<ptr<f16>>
    %ao = assume div_by<16>, %po : tile<ptr<f16>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %ta = make_tensor_view %aa, shape = [1024, 1024], strides = [1024, 1] : tensor_view<1024x1024xf16, strides=[1024,1]>
    %tb = make_tensor_view %ab, shape = [1024, 1024], strides = [1024, 1] : tensor_view<1024x1024xf16, strides=[1024,1]>
    %to = make_tensor_view %ao, shape = [1024, 1024], strides = [1024, 1] : tensor_view<1024x1024xf16, strides=[1024,1]>
    %va = make_partition_view %ta : partition_view<tile=(128x64), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(64x256), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x256), tensor_view<1024x1024xf16, strides=[1024,1]>>
    %o = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<128x256xf32>) {
      %a, %ua = load_view_tko weak %va[%x, %i] token = %t : partition_view<tile=(128x64), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<128x64xf16>, token
      %b, %ub = load_view_tko weak %vb[%i, %y] token = %t : partition_view<tile=(64x256), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<64x256xf16>, token
      %d = mmaf %a, %b, %acc : tile<128x64xf16>, tile<64x256xf16>, tile<128x256xf32>
      continue %d : tile<128x256xf32>
    }
    %h = ftof %o : tile<128x256xf32> -> tile<128x256xf16>
    %u = store_view_tko weak %h, %vo[%x, %y] token = %t : tile<128x256xf16>, partition_view<tile=(128x256), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32> -> token
    return
  }
}
