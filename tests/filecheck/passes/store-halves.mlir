// Sums of bytes times a factor for each column, of which a thread has all: a half of the tile is loaded, multiplied and stored at a
// time, and the factors, which the copy engine brings while the products run, are read again for the second, so that registers leave
// room for another block. Where they come from an array that the kernel has written, threads read them, once.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s
// So it is where the factors are given their second dimension behind the load.
// RUN: sed -e '/^    %%ts = /s/.*/    %%ts = make_tensor_view %%as, shape = [128], strides = [1] : tensor_view<128xf32, strides=[1]>/' -e 's/partition_view<tile=(1x128), tensor_view<1x128xf32, strides=.128,1.>>/partition_view<tile=(128), tensor_view<128xf32, strides=[1]>>/' -e '/%%written = /d' -e '/%%s, %%u2 = /s/%%zero, %%zero/%%zero/' -e '/%%s, %%u2 = /s/-> tile<1x128xf32>/-> tile<128xf32>/' -e '/^    %%wide = /s/.*/    %%line = reshape %%s : tile<128xf32> -> tile<1x128xf32>\n    %%wide = broadcast %%line : tile<1x128xf32> -> tile<128x128xf32>/' %s | tileiras-opt - --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=TURNED
// RUN: sed '/%vs\[%zero, %zero\]/s/token = .t /token = %written /' %s | tileiras-opt - --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=ONCE

// CHECK: [[SUM:%[0-9]+]] = "nv_tileas.load_tmem"([[D:%[0-9]+]]) <{first = #builtin.int<0>}>
// CHECK: [[ROW:%[0-9]+]] = "nv_tileas.load_shared"([[FACTORS:%[0-9]+]]){{.*}}tensor<1x128xf32
// CHECK-NEXT: "nv_tileas.broadcast"([[ROW]])
// CHECK: "nv_tileas.tma_store"({{.*}}in_flight
// CHECK: "nv_tileas.load_tmem"([[D]]) <{first = #builtin.int<64>}>
// CHECK: [[AGAIN:%[0-9]+]] = "nv_tileas.load_shared"([[FACTORS]]){{.*}}tensor<1x128xf32
// CHECK-NEXT: "nv_tileas.broadcast"([[AGAIN]])
// CHECK: "nv_tileas.tma_store"({{.*}}in_flight

// TURNED: "nv_tileas.load_tmem"([[D:%[0-9]+]]) <{first = #builtin.int<0>}>
// TURNED: "nv_tileas.load_tmem"([[D]]) <{first = #builtin.int<64>}>

// ONCE: "nv_tileas.tiled_load"({{.*}}tensor<1x128xf32
// ONCE-NOT: "nv_tileas.tiled_load"({{.*}}tensor<1x128xf32
cuda_tile.module @m {
  entry @scaled(%pa: tile<ptr<i8>>, %pb: tile<ptr<i8>>, %ps: tile<ptr<f32>>, %po: tile<ptr<f16>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <i32: 0> : tile<128x128xi32>
    %least = constant <f32: 1.0> : tile<1x128xf32>
    %aa = assume div_by<16>, %pa : tile<ptr<i8>>
    %ab = assume div_by<16>, %pb : tile<ptr<i8>>
    %as = assume div_by<16>, %ps : tile<ptr<f32>>
    %ao = assume div_by<16>, %po : tile<ptr<f16>>
    %ta = make_tensor_view %aa, shape = [128, 4096], strides = [4096, 1] : tensor_view<128x4096xi8, strides=[4096,1]>
    %tb = make_tensor_view %ab, shape = [4096, 128], strides = [1, 4096] : tensor_view<4096x128xi8, strides=[1,4096]>
    %ts = make_tensor_view %as, shape = [1, 128], strides = [128, 1] : tensor_view<1x128xf32, strides=[128,1]>
    %to = make_tensor_view %ao, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %va = make_partition_view %ta : partition_view<tile=(128x128), tensor_view<128x4096xi8, strides=[4096,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(128x128), tensor_view<4096x128xi8, strides=[1,4096]>>
    %vs = make_partition_view %ts : partition_view<tile=(1x128), tensor_view<1x128xf32, strides=[128,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>
    %written = store_view_tko weak %least, %vs[%zero, %one] token = %t : tile<1x128xf32>, partition_view<tile=(1x128), tensor_view<1x128xf32, strides=[128,1]>>, tile<i32> -> token
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<128x128xi32>) {
      %a, %u0 = load_view_tko weak %va[%zero, %i] token = %t : partition_view<tile=(128x128), tensor_view<128x4096xi8, strides=[4096,1]>>, tile<i32> -> tile<128x128xi8>, token
      %b, %u1 = load_view_tko weak %vb[%i, %zero] token = %t : partition_view<tile=(128x128), tensor_view<4096x128xi8, strides=[1,4096]>>, tile<i32> -> tile<128x128xi8>, token
      %new = mmai %a, %b, %acc signed signed : tile<128x128xi8>, tile<128x128xi8>, tile<128x128xi32>
      continue %new : tile<128x128xi32>
    }
    %f = itof %sum signed : tile<128x128xi32> -> tile<128x128xf32>
    %s, %u2 = load_view_tko weak %vs[%zero, %zero] token = %t : partition_view<tile=(1x128), tensor_view<1x128xf32, strides=[128,1]>>, tile<i32> -> tile<1x128xf32>, token
    %wide = broadcast %s : tile<1x128xf32> -> tile<128x128xf32>
    %y = mulf %f, %wide : tile<128x128xf32>
    %h = ftof %y : tile<128x128xf32> -> tile<128x128xf16>
    %e = store_view_tko weak %h, %vo[%zero, %zero] token = %t : tile<128x128xf16>, partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
