// Keys that threads compute and write to a buffer: the next iteration's product, which begins before the rest of its early part, takes
// along what writes the buffer.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 --print-ir-after=overlap-iterations -o %t.as 2>&1 | filecheck %s
// CHECK: IR dump after overlap-iterations
// CHECK: "scf.if"
// CHECK: "nv_tileas.store_shared"({{%[0-9]+}}, [[K:%[0-9]+]]){{.*}}tensor<128x128xf16
// CHECK-NEXT: "nv_tileas.dot"({{%[0-9]+}}, [[K]]
// CHECK: "scf.for"
// CHECK: "nv_tileas.store_shared"({{%[0-9]+}}, [[NEXT:%[0-9]+]]){{.*}}tensor<128x128xf16
// CHECK-NEXT: "nv_tileas.dot"({{%[0-9]+}}, [[NEXT]]
// CHECK: "nv_tileas.dot"{{.*}}f16.rs"
// CHECK: "scf.yield"
cuda_tile.module @m {
  entry @attention(%pq: tile<ptr<f16>>, %pk: tile<ptr<f16>>, %pv: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) optimization_hints=<sm_90 = {num_worker_warps_per_cta = 8}> {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x128xf32>
    %least = constant <f32: -1.0e30> : tile<128x1xf32>
    %aq = assume div_by<16>, %pq : tile<ptr<f16>>
    %ak = assume div_by<16>, %pk : tile<ptr<f16>>
    %av = assume div_by<16>, %pv : tile<ptr<f16>>
    %tq = make_tensor_view %aq, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %tk = make_tensor_view %ak, shape = [128, 8192], strides = [8192, 1] : tensor_view<128x8192xf16, strides=[8192,1]>
    %tv = make_tensor_view %av, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xf16, strides=[128,1]>
    %to = make_tensor_view %po, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %vq = make_partition_view %tq : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>
    %vk = make_partition_view %tk : partition_view<tile=(128x128), tensor_view<128x8192xf16, strides=[8192,1]>>
    %vv = make_partition_view %tv : partition_view<tile=(128x128), tensor_view<8192x128xf16, strides=[128,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %q, %u0 = load_view_tko weak %vq[%zero, %zero] token = %t : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
    %o, %m = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none, %most = %least) -> (tile<128x128xf32>, tile<128x1xf32>) {
      %k, %u1 = load_view_tko weak %vk[%zero, %i] token = %t : partition_view<tile=(128x128), tensor_view<128x8192xf16, strides=[8192,1]>>, tile<i32> -> tile<128x128xf16>, token
      %spread = broadcast %most : tile<128x1xf32> -> tile<128x128xf32>
      %half = ftof %spread : tile<128x128xf32> -> tile<128x128xf16>
      %kk = mulf %k, %half : tile<128x128xf16>
      %s = mmaf %q, %kk, %none : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
      %r = reduce %s dim=1 identities=[-1.0e30 : f32] : tile<128x128xf32> -> tile<128xf32>
      (%x: tile<f32>, %y: tile<f32>) {
        %z = maxf %x, %y : tile<f32>
        yield %z : tile<f32>
      }
      %r1 = reshape %r : tile<128xf32> -> tile<128x1xf32>
      %more = maxf %most, %r1 : tile<128x1xf32>
      %wide = broadcast %more : tile<128x1xf32> -> tile<128x128xf32>
      %d = subf %s, %wide : tile<128x128xf32>
      %e = exp2 %d : tile<128x128xf32>
      %p = ftof %e : tile<128x128xf32> -> tile<128x128xf16>
      %less = subf %most, %more : tile<128x1xf32>
      %scale = exp2 %less : tile<128x1xf32>
      %scales = broadcast %scale : tile<128x1xf32> -> tile<128x128xf32>
      %old = mulf %acc, %scales : tile<128x128xf32>
      %v, %u2 = load_view_tko weak %vv[%i, %zero] token = %t : partition_view<tile=(128x128), tensor_view<8192x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
      %new = mmaf %p, %v, %old : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
      continue %new, %more : tile<128x128xf32>, tile<128x1xf32>
    }
    %e = store_view_tko weak %o, %vo[%zero, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
