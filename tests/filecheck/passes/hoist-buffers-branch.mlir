// A loop that multiplies on a condition (tiles behind a first one that isn't known): queries are written before the loop.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --print-ir-after=hoist-buffers -o %t.as 2>&1 | filecheck %s
// CHECK: IR dump after hoist-buffers
// CHECK: [[Q:%[0-9]+]] = "nv_tileas.alloc_tensor"
// CHECK-NEXT: "nv_tileas.store_shared"({{%[0-9]+}}, [[Q]])
// CHECK: "scf.for"
// CHECK: "scf.if"
// CHECK: "nv_tileas.dot"([[Q]]
cuda_tile.module @m {
  entry @window(%pq: tile<ptr<f16>>, %pk: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>, %first: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x128xf32>
    %aq = assume div_by<16>, %pq : tile<ptr<f16>>
    %ak = assume div_by<16>, %pk : tile<ptr<f16>>
    %tq = make_tensor_view %aq, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %tk = make_tensor_view %ak, shape = [128, 8192], strides = [8192, 1] : tensor_view<128x8192xf16, strides=[8192,1]>
    %to = make_tensor_view %po, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %vq = make_partition_view %tq : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>
    %vk = make_partition_view %tk : partition_view<tile=(128x128), tensor_view<128x8192xf16, strides=[8192,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %q, %u0 = load_view_tko weak %vq[%zero, %zero] token = %t : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
    %o = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<128x128xf32>) {
      %j = subi %i, %first : tile<i32>
      %seen = cmpi greater_than_or_equal %j, %zero, signed : tile<i32> -> tile<i1>
      %next = if %seen -> (tile<128x128xf32>) {
        %k, %u1 = load_view_tko weak %vk[%zero, %j] token = %t : partition_view<tile=(128x128), tensor_view<128x8192xf16, strides=[8192,1]>>, tile<i32> -> tile<128x128xf16>, token
        %s = mmaf %q, %k, %none : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
        %e = exp2 %s : tile<128x128xf32>
        %sum = addf %acc, %e rounding<nearest_even> : tile<128x128xf32>
        yield %sum : tile<128x128xf32>
      } else {
        yield %acc : tile<128x128xf32>
      }
      continue %next : tile<128x128xf32>
    }
    %u2 = store_view_tko weak %o, %vo[%zero, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
