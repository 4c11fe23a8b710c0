// Accumulators of 256 x 256 f32 no block's registers hold: the block computes 128 rows after the other. Where tensor memory holds
// them it needn't, and smaller ones stay whole, as do tiles that a store orders behind what is loaded. Of bytes it computes 128
// columns after the other.
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_90 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_100 | filecheck %s --check-prefix=WHOLE
// RUN: sed 's/256x256xf32/128x256xf32/g; s/256x64x/128x64x/g; s/(256x256)/(128x256)/g; s/(256x64)/(128x64)/g' %s | tileiras-opt - --to=nv_tileaa --gpu-name=sm_90 | filecheck %s --check-prefix=SMALL
// RUN: sed 's/^    return/    %%o = store_view_tko weak %%first, %%v[%%i, %%zero] token = %%u : tile<256x64xf16>, partition_view<tile=(256x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> token\n    return/' %s | tileiras-opt - --to=nv_tileaa --gpu-name=sm_90 | filecheck %s --check-prefix=WHOLE
// RUN: sed 's/xf16/xf8E4M3FN/g; s/<f16>/<f8E4M3FN>/g' %s | tileiras-opt - --to=nv_tileaa --gpu-name=sm_90 | filecheck %s --check-prefix=BYTES
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_90 -O0 | filecheck %s --check-prefix=WHOLE

// CHECK: "scf.for"({{%[0-9]+}}, {{%[0-9]+}}, {{%[0-9]+}}) ({
// CHECK-NEXT: ^bb0([[PART:%[0-9]+]]: i32):
// CHECK: [[ROWS:%[0-9]+]] = "arith.addi"({{%[0-9]+}}, [[PART]])
// CHECK: "nv_tileaa.tiled_load"({{%[0-9]+}}, [[ROWS]], {{.*}} -> (tensor<128x64xf16>
// CHECK: "nv_tileaa.tiled_load"{{.*}} -> (tensor<64x256xf16>
// CHECK: "nv_tileaa.dot"{{.*}} -> tensor<128x256xf32>
// CHECK: "nv_tileaa.tiled_store"({{%[0-9]+}}, {{%[0-9]+}}, [[ROWS]],
// CHECK-NEXT: "scf.yield"() : () -> ()

// BYTES: "nv_tileaa.tiled_load"{{.*}} -> (tensor<256x64xf8E4M3FN>
// BYTES: "nv_tileaa.tiled_load"{{.*}} -> (tensor<64x128xf8E4M3FN>
// BYTES: "nv_tileaa.dot"{{.*}} -> tensor<256x128xf32>

// WHOLE: "nv_tileaa.dot"{{.*}} -> tensor<256x256xf32>
// SMALL-NOT: value = 2 : i32
// SMALL: "nv_tileaa.dot"{{.*}} -> tensor<128x256xf32>
cuda_tile.module @m {
  entry @product(%pp: tile<ptr<f16>>, %qp: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %p = assume div_by<16>, %pp : tile<ptr<f16>>
    %q = assume div_by<16>, %qp : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<256x256xf32>
    %i, %j, %bz = get_tile_block_id : tile<i32>
    %w = make_tensor_view %p, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %v = make_partition_view %w : partition_view<tile=(256x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %k = make_partition_view %w : partition_view<tile=(64x256), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %x = make_tensor_view %q, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
    %y = make_partition_view %x : partition_view<tile=(256x256), tensor_view<4096x4096xf32, strides=[4096,1]>>
    %first, %u = load_view_tko weak %v[%i, %zero] token = %t : partition_view<tile=(256x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<256x64xf16>, token
    %s = for %l in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<256x256xf32>) {
      %a, %u0 = load_view_tko weak %v[%i, %l] token = %t : partition_view<tile=(256x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<256x64xf16>, token
      %b, %u1 = load_view_tko weak %k[%l, %j] token = %t : partition_view<tile=(64x256), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x256xf16>, token
      %d = mmaf %a, %b, %acc : tile<256x64xf16>, tile<64x256xf16>, tile<256x256xf32>
      continue %d : tile<256x256xf32>
    }
    %z = store_view_tko weak %s, %y[%i, %j] token = %t : tile<256x256xf32>, partition_view<tile=(256x256), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> token
    return
  }
}
