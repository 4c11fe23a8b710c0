// A recurrent layer: a product whose state goes to the next iteration as another one's rows. Both products are chained, so that the
// state stays with its threads, and a block of machine code ends behind the one whose sums go to a function. What a loop multiplies
// without changing it is written to shared memory before the loop, although both matrices are more than a block has by itself.
// RUN: tileiras-opt %s --to=nv_tileaa -O0 -o %t.aa
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,choose-atoms --gpu-name=sm_80 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_80 --verify-each | filecheck %s --check-prefix=HELD

// CHECK: sym_name = "layer"
// CHECK: "scf.for"
// CHECK: "nv_tileas.dot"({{.*}}) <{atom = "mma.m16n8k16.row.col.f32.f32", chained, k_slices = #builtin.int<1>}>
// CHECK: "nv_tileas.dot"({{.*}}) <{atom = "mma.m16n8k16.row.col.f32.f32", chained, ends_block, k_slices = #builtin.int<1>}>

// HELD: sym_name = "layer"
// HELD-COUNT-2: "nv_tileas.store_shared"({{.*}}) : (tensor<128x128
// HELD: "scf.for"
// HELD-NOT: "nv_tileas.store_shared"({{.*}}) : (tensor<128x128
// HELD: "nv_tileas.dot"({{.*}} ends_block
// HELD: "nv_tileas.return"
cuda_tile.module @m {
  entry @layer(%x: tile<ptr<f16>>, %w: tile<ptr<f16>>, %u: tile<ptr<f16>>, %o: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %i, %y, %z = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x128xf32>
    %xa = assume div_by<16>, %x : tile<ptr<f16>>
    %wa = assume div_by<16>, %w : tile<ptr<f16>>
    %ua = assume div_by<16>, %u : tile<ptr<f16>>
    %oa = assume div_by<16>, %o : tile<ptr<f32>>
    %wt = make_tensor_view %wa, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %ut = make_tensor_view %ua, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %xt = make_tensor_view %xa, shape = [%n, 1024, 128], strides = [131072, 128, 1] : tile<i32> -> tensor_view<?x1024x128xf16, strides=[131072,128,1]>
    %ot = make_tensor_view %oa, shape = [%n, 1024, 128], strides = [131072, 128, 1] : tile<i32> -> tensor_view<?x1024x128xf32, strides=[131072,128,1]>
    %wp = make_partition_view %wt : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>
    %up = make_partition_view %ut : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>
    %xp = make_partition_view %xt : partition_view<tile=(1x64x128), tensor_view<?x1024x128xf16, strides=[131072,128,1]>>
    %op = make_partition_view %ot : partition_view<tile=(1x64x128), tensor_view<?x1024x128xf32, strides=[131072,128,1]>>
    %weights, %t1 = load_view_tko weak %wp[%zero, %zero] token = %t : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
    %back, %t2 = load_view_tko weak %up[%zero, %zero] token = %t : partition_view<tile=(128x128), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> tile<128x128xf16>, token
    %last = for %s in (%zero to %n, step %one) : tile<i32> iter_values(%h = %none) -> (tile<64x128xf32>) {
      %three, %t3 = load_view_tko weak %xp[%s, %i, %zero] token = %t : partition_view<tile=(1x64x128), tensor_view<?x1024x128xf16, strides=[131072,128,1]>>, tile<i32> -> tile<1x64x128xf16>, token
      %rows = reshape %three : tile<1x64x128xf16> -> tile<64x128xf16>
      %first = mmaf %rows, %weights, %none : tile<64x128xf16>, tile<128x128xf16>, tile<64x128xf32>
      %state = ftof %h : tile<64x128xf32> -> tile<64x128xf16>
      %sum = mmaf %state, %back, %first : tile<64x128xf16>, tile<128x128xf16>, tile<64x128xf32>
      %next = tanh %sum : tile<64x128xf32>
      %out = reshape %next : tile<64x128xf32> -> tile<1x64x128xf32>
      %t4 = store_view_tko weak %out, %op[%s, %i, %zero] token = %t : tile<1x64x128xf32>, partition_view<tile=(1x64x128), tensor_view<?x1024x128xf32, strides=[131072,128,1]>>, tile<i32> -> token
      continue %next : tile<64x128xf32>
    }
    return
  }
}
