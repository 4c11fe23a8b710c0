// Both halves of the operands together pass shared memory, and the loop does not count by one, so that it is not split (nor is the
// tile, since the hint asks for warps): the buffers of the second are those of the first, so a product is waited for before the
// operands of the next one are stored.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s --check-prefix=WARPS
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=CORE

// WARPS: shared_bytes = #builtin.int<131072>
// WARPS: "scf.for"
// WARPS: "nv_tileas.alloc_tensor"() <{offset = #builtin.int<0>}> : () -> !nv_tileas.buffer<tf32
// WARPS-NOT: async_dot
// WARPS: "nv_tileas.dot"({{%[0-9]+, %[0-9]+, %[0-9]+}}) <{atom = "sm90
// WARPS: "nv_tileas.alloc_tensor"() <{offset = #builtin.int<0>}> : () -> !nv_tileas.buffer<tf32
// WARPS-NOT: async_dot
// WARPS: "nv_tileas.dot"({{%[0-9]+, %[0-9]+, %[0-9]+}}) <{atom = "sm90

// CORE: "scf.for"
// CORE: "nv_tileas.tensor_dot"
// CORE: "nv_tileas.producer_commit"
// CORE: "nv_tileas.consumer_wait"
// CORE: "nv_tileas.store_shared"
// CORE: "nv_tileas.tensor_dot"
// CORE: "nv_tileas.producer_commit"
// CORE: "nv_tileas.consumer_wait"
// CORE: "scf.yield"
cuda_tile.module @m {
  entry @product(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %r: tile<ptr<f32>>, %n: tile<i32>) optimization_hints=<sm_90 = {num_worker_warps_per_cta = 8}> {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %c = constant <f32: 0.0> : tile<256x256xf32>
    %a = make_tensor_view %p, shape = [256, 4096], strides = [4096, 1] : tensor_view<256x4096xf32, strides=[4096,1]>
    %b = make_tensor_view %q, shape = [4096, 256], strides = [256, 1] : tensor_view<4096x256xf32, strides=[256,1]>
    %o = make_tensor_view %r, shape = [256, 256], strides = [256, 1] : tensor_view<256x256xf32, strides=[256,1]>
    %va = make_partition_view %a : partition_view<tile=(256x128), tensor_view<256x4096xf32, strides=[4096,1]>>
    %vb = make_partition_view %b : partition_view<tile=(128x256), tensor_view<4096x256xf32, strides=[256,1]>>
    %vo = make_partition_view %o : partition_view<tile=(256x256), tensor_view<256x256xf32, strides=[256,1]>>
    %s = for %i in (%zero to %n, step %two) : tile<i32> iter_values(%acc = %c) -> (tile<256x256xf32>) {
      %x, %u = load_view_tko weak %va[%zero, %i] token = %t : partition_view<tile=(256x128), tensor_view<256x4096xf32, strides=[4096,1]>>, tile<i32> -> tile<256x128xf32>, token
      %y, %w = load_view_tko weak %vb[%i, %zero] token = %t : partition_view<tile=(128x256), tensor_view<4096x256xf32, strides=[256,1]>>, tile<i32> -> tile<128x256xf32>, token
      %xt = ftof %x : tile<256x128xf32> -> tile<256x128xtf32>
      %yt = ftof %y : tile<128x256xf32> -> tile<128x256xtf32>
      %e = mmaf %xt, %yt, %acc : tile<256x128xtf32>, tile<128x256xtf32>, tile<256x256xf32>
      continue %e : tile<256x256xf32>
    }
    %z = store_view_tko weak %s, %vo[%zero, %zero] token = %t : tile<256x256xf32>, partition_view<tile=(256x256), tensor_view<256x256xf32, strides=[256,1]>>, tile<i32> -> token
    return
  }
}
