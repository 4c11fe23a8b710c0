// Attention of few rows where warps multiply and the copy engine loads: two blocks share an SM, if each has room for what it
// multiplies and a stage of what its loop loads. Not where warpgroups multiply, or where the rows are too many.
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_120 -o %t.aa
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,plan-blocks --gpu-name=sm_120 | filecheck %s
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,plan-blocks --gpu-name=sm_90 | filecheck %s --check-prefix=OTHERS
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,plan-blocks --gpu-name=sm_80 | filecheck %s --check-prefix=OTHERS
// RUN: sed 's/64x128x/64x256x/g; s/128x64xf16/256x64xf16/g; s/=(64x128)/=(64x256)/g; s/, 128], strides = \[128/, 256], strides = [256/g; s/x128xf16, strides=\[128/x256xf16, strides=[256/g' %s | tileiras-opt - --to=nv_tileaa --gpu-name=sm_120 -o %t.wide
// RUN: tileiras-opt %t.wide --passes=convert-tileaa-to-tileas,plan-blocks --gpu-name=sm_120 | filecheck %s --check-prefix=OTHERS

// CHECK: "nv_tileas.func"() <{sym_name = "attention"{{.*}}occupancy = 2
// OTHERS-NOT: occupancy = 2
cuda_tile.module @m {
  entry @attention(%pq: tile<ptr<f16>>, %pk: tile<ptr<f16>>, %po: tile<ptr<f16>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %start = constant <f32: 0.0> : tile<64x128xf32>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %wq = make_tensor_view %pq, shape = [1024, 128], strides = [128, 1] : tensor_view<1024x128xf16, strides=[128,1]>
    %wk = make_tensor_view %pk, shape = [1024, 128], strides = [128, 1] : tensor_view<1024x128xf16, strides=[128,1]>
    %wo = make_tensor_view %po, shape = [1024, 128], strides = [128, 1] : tensor_view<1024x128xf16, strides=[128,1]>
    %vq = make_partition_view %wq : partition_view<tile=(64x128), tensor_view<1024x128xf16, strides=[128,1]>>
    %vk = make_partition_view %wk : partition_view<tile=(64x128), tensor_view<1024x128xf16, strides=[128,1]>>
    %vo = make_partition_view %wo : partition_view<tile=(64x128), tensor_view<1024x128xf16, strides=[128,1]>>
    %q, %tq = load_view_tko weak %vq[%x, %zero] token = %t : partition_view<tile=(64x128), tensor_view<1024x128xf16, strides=[128,1]>>, tile<i32> -> tile<64x128xf16>, token
    %sum = for %j in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<64x128xf32>) {
      %k, %tk = load_view_tko weak %vk[%j, %zero] token = %t : partition_view<tile=(64x128), tensor_view<1024x128xf16, strides=[128,1]>>, tile<i32> -> tile<64x128xf16>, token
      %v, %tv = load_view_tko weak %vk[%j, %one] token = %t : partition_view<tile=(64x128), tensor_view<1024x128xf16, strides=[128,1]>>, tile<i32> -> tile<64x128xf16>, token
      %kt = permute %k [1, 0] : tile<64x128xf16> -> tile<128x64xf16>
      %s = mmaf %q, %kt, %none : tile<64x128xf16>, tile<128x64xf16>, tile<64x64xf32>
      %e = exp2 %s : tile<64x64xf32>
      %p = ftof %e : tile<64x64xf32> -> tile<64x64xf16>
      %more = mmaf %p, %v, %acc : tile<64x64xf16>, tile<64x128xf16>, tile<64x128xf32>
      continue %more : tile<64x128xf32>
    }
    %o = ftof %sum : tile<64x128xf32> -> tile<64x128xf16>
    %u = store_view_tko weak %o, %vo[%x, %zero] token = %t : tile<64x128xf16>, partition_view<tile=(64x128), tensor_view<1024x128xf16, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
