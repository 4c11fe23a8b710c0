// Sums of tiles of 32x1024, two arrays: neither shared memory has room for a ring of them nor registers for them and the sums, but
// for halves. Rows are summed, so columns are split. Smaller tiles stay whole, and all do where each part would store the same tile.
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_90 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_90 -O2 | filecheck %s --check-prefix=WHOLE
// RUN: sed 's/32x1024/16x1024/g' %s | tileiras-opt - --to=nv_tileaa --gpu-name=sm_90 | filecheck %s --check-prefix=SMALL
// RUN: sed 's/^    return/    %%u = store_view_tko weak %%seven, %%vo[%%one] token = %%t : tile<1024xf32>, partition_view<tile=(1024), tensor_view<8192xf32, strides=[1]>>, tile<i32> -> token\n    return/' %s | tileiras-opt - --to=nv_tileaa --gpu-name=sm_90 | filecheck %s --check-prefix=WHOLE

// CHECK: "scf.for"({{%[0-9]+}}, {{%[0-9]+}}, {{%[0-9]+}}) ({
// CHECK-NEXT: ^bb0([[PART:%[0-9]+]]: i32):
// CHECK: [[COLUMNS:%[0-9]+]] = "arith.addi"({{%[0-9]+}}, [[PART]])
// CHECK: "scf.for"
// CHECK: "nv_tileaa.tiled_load"({{%[0-9]+}}, {{%[0-9]+}}, [[COLUMNS]], {{.*}} -> (tensor<32x512xf32>
// CHECK: "nv_tileaa.tiled_load"({{%[0-9]+}}, {{%[0-9]+}}, [[COLUMNS]], {{.*}} -> (tensor<32x512xf32>
// CHECK: "nv_tileaa.tiled_store"({{%[0-9]+}}, {{%[0-9]+}}, [[COLUMNS]],
// CHECK: "scf.yield"() : () -> ()

// WHOLE: "nv_tileaa.tiled_load"{{.*}} -> (tensor<32x1024xf32>
// SMALL: "nv_tileaa.tiled_load"{{.*}} -> (tensor<16x1024xf32>
cuda_tile.module @m {
  entry @sums(%pa: tile<ptr<f32>>, %pb: tile<ptr<f32>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<32x1024xf32>
    %seven = constant <f32: 7.0> : tile<1024xf32>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %aa = assume div_by<16>, %pa : tile<ptr<f32>>
    %ab = assume div_by<16>, %pb : tile<ptr<f32>>
    %ta = make_tensor_view %aa, shape = [4096, 8192], strides = [8192, 1] : tensor_view<4096x8192xf32, strides=[8192,1]>
    %tb = make_tensor_view %ab, shape = [4096, 8192], strides = [8192, 1] : tensor_view<4096x8192xf32, strides=[8192,1]>
    %to = make_tensor_view %po, shape = [8192], strides = [1] : tensor_view<8192xf32, strides=[1]>
    %va = make_partition_view %ta : partition_view<tile=(32x1024), tensor_view<4096x8192xf32, strides=[8192,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(32x1024), tensor_view<4096x8192xf32, strides=[8192,1]>>
    %vo = make_partition_view %to : partition_view<tile=(1024), tensor_view<8192xf32, strides=[1]>>
    %o = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<32x1024xf32>) {
      %a, %ua = load_view_tko weak %va[%i, %x] token = %t : partition_view<tile=(32x1024), tensor_view<4096x8192xf32, strides=[8192,1]>>, tile<i32> -> tile<32x1024xf32>, token
      %b, %ub = load_view_tko weak %vb[%i, %x] token = %t : partition_view<tile=(32x1024), tensor_view<4096x8192xf32, strides=[8192,1]>>, tile<i32> -> tile<32x1024xf32>, token
      %c = mulf %a, %b rounding<nearest_even> : tile<32x1024xf32>
      %d = addf %acc, %c rounding<nearest_even> : tile<32x1024xf32>
      continue %d : tile<32x1024xf32>
    }
    %s = reduce %o dim=0 identities=[0.0 : f32] : tile<32x1024xf32> -> tile<1024xf32> (%e: tile<f32>, %f: tile<f32>) {
      %g = addf %e, %f rounding<nearest_even> : tile<f32>
      yield %g : tile<f32>
    }
    %w = store_view_tko weak %s, %vo[%x] token = %t : tile<1024xf32>, partition_view<tile=(1024), tensor_view<8192xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
