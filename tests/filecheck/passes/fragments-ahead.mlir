// Where blocks share out the tiles of a loop, what a product by warps multiplies is read from shared memory an iteration ahead: the
// first stage before the loop, the last product behind it. Not where the loop over tiles strides by another number, where there is
// no ring of the copy engine's, nor where two stages' fragments have no room. Such a block, alone on its SM, has eight warps, two for
// each scheduler.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_120 --print-ir-after=fragments-ahead -o %t.as 2>&1 | filecheck %s
// RUN: sed 's/step %%blocks/step %%one/' %s | tileiras-opt - --to=nv_tileas --gpu-name=sm_120 | filecheck %s --check-prefix=APART
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_80 | filecheck %s --check-prefix=APART
// RUN: env TILEIRAS_WITHOUT=agents tileiras-opt %s --to=nv_tileas --gpu-name=sm_120 --verify-each -o %t.alone
// RUN: sed 's/64x64xf32/128x256xf32/g; s/64x32x/128x32x/g; s/32x64x/32x256x/g; s/(64x64)/(128x256)/g; s/(64x32)/(128x32)/g; s/(32x64)/(32x256)/g' %s | tileiras-opt - --to=nv_tileas --gpu-name=sm_120 | filecheck %s --check-prefix=APART
// RUN: sed 's/step %%blocks/step %%one/' %s | tileiras-opt - --to=nv_tileas --gpu-name=sm_120 | filecheck %s --check-prefix=FOUR

// FOUR: num_warps = #builtin.int<4>
// CHECK: IR dump after fragments-ahead
// CHECK: num_warps = #builtin.int<8>
// CHECK: "nv_tileas.agent_switch"
// CHECK: "scf.for"
// CHECK: "scf.if"
// CHECK: [[I:%[0-9]+]] = "nv_tileas.consumer_wait"([[PIPE:%[0-9]+]])
// CHECK: [[A:%[0-9]+]] = "nv_tileas.load_shared"{{.*}}matrices{{.*}} -> tensor<64x32xf16
// CHECK-NEXT: [[B:%[0-9]+]] = "nv_tileas.load_shared"{{.*}}matrices{{.*}} -> tensor<32x64xf16
// CHECK-NEXT: "nv_tileas.consumer_release"([[PIPE]])
// CHECK: "scf.for"({{.*}}, [[A]], [[B]])
// CHECK: "nv_tileas.consumer_wait"([[PIPE]])
// CHECK: [[A1:%[0-9]+]] = "nv_tileas.load_shared"{{.*}}matrices
// CHECK-NEXT: [[B1:%[0-9]+]] = "nv_tileas.load_shared"{{.*}}matrices
// CHECK-NEXT: [[D:%[0-9]+]] = "nv_tileas.dot"(%{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}}) <{atom = "mma.m16n8k16.row.col.f32.f32"}>
// CHECK-NEXT: "nv_tileas.consumer_release"([[PIPE]])
// CHECK-NEXT: "scf.yield"([[D]], [[A1]], [[B1]])
// CHECK: "nv_tileas.dot"
// CHECK-NEXT: "scf.yield"

// APART-NOT: matrices
// APART: "nv_tileas.dot"
// APART-NOT: matrices
cuda_tile.module @m {
  entry @sums(%pp: tile<ptr<f16>>, %qp: tile<ptr<f32>>, %n: tile<i32>, %tiles: tile<i32>) {
    %t = make_token : token
    %p = assume div_by<16>, %pp : tile<ptr<f16>>
    %q = assume div_by<16>, %qp : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<64x64xf32>
    %block, %by, %bz = get_tile_block_id : tile<i32>
    %blocks, %gy, %gz = get_num_tile_blocks : tile<i32>
    %w = make_tensor_view %p, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %v = make_partition_view %w : partition_view<tile=(64x32), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %k = make_partition_view %w : partition_view<tile=(32x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %x = make_tensor_view %q, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
    %y = make_partition_view %x : partition_view<tile=(64x64), tensor_view<4096x4096xf32, strides=[4096,1]>>
    for %tile in (%block to %tiles, step %blocks) : tile<i32> {
      %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<64x64xf32>) {
        %a, %u0 = load_view_tko weak %v[%tile, %i] token = %t : partition_view<tile=(64x32), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x32xf16>, token
        %b, %u1 = load_view_tko weak %k[%i, %zero] token = %t : partition_view<tile=(32x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<32x64xf16>, token
        %d = mmaf %a, %b, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
        continue %d : tile<64x64xf32>
      }
      %z = store_view_tko weak %s, %y[%tile, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> token
    }
    return
  }
}
