// B of bytes whose columns lie contiguous in memory: threads turn what they load to words along k, and four lanes beside each other
// along a row store their words in turns. One warpgroup brings such tiles itself, two have a load agent for them.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s

// CHECK-LABEL: sym_name = "one"
// CHECK: "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<1>]}>
// CHECK: "nv_tileas.tiled_load"
// CHECK-SAME: lane = {{\[\[}}0, 8], [0, 16], [4, 0], [8, 0], [32, 0]]
// CHECK: "nv_tileas.store_shared"({{.*}}) <{turned = [#builtin.int<0>, #builtin.int<0>, #builtin.int<1>]}>
// CHECK: "nv_tileas.async_dot"
// CHECK-LABEL: sym_name = "two"
// CHECK: "nv_tileas.agent_switch"() <{warps = [#builtin.int<8>, #builtin.int<8>]
// CHECK: }, {
// CHECK: "nv_tileas.tiled_load"
// CHECK: "nv_tileas.store_shared"({{.*}}) <{turned = [#builtin.int<0>, #builtin.int<0>, #builtin.int<1>]}>
cuda_tile.module @m {
  entry @one(%p: tile<ptr<i8>>, %q: tile<ptr<i32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <i32: 0> : tile<64x64xi32>
    %aligned = assume div_by<16>, %p : tile<ptr<i8>>
    %w = make_tensor_view %aligned, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xi8, strides=[4096,1]>
    %va = make_partition_view %w : partition_view<tile=(64x64), tensor_view<4096x4096xi8, strides=[4096,1]>>
    %vb = make_partition_view %w : partition_view<tile=(64x64), tensor_view<4096x4096xi8, strides=[4096,1]>>
    %s = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<64x64xi32>) {
      %a, %u0 = load_view_tko weak %va[%zero, %k] : partition_view<tile=(64x64), tensor_view<4096x4096xi8, strides=[4096,1]>>, tile<i32> -> tile<64x64xi8>, token
      %b, %u1 = load_view_tko weak %vb[%k, %zero] : partition_view<tile=(64x64), tensor_view<4096x4096xi8, strides=[4096,1]>>, tile<i32> -> tile<64x64xi8>, token
      %d = mmai %a, %b, %acc signed signed : tile<64x64xi8>, tile<64x64xi8>, tile<64x64xi32>
      continue %d : tile<64x64xi32>
    }
    %x = make_tensor_view %q, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xi32, strides=[64,1]>
    %y = make_partition_view %x : partition_view<tile=(64x64), tensor_view<64x64xi32, strides=[64,1]>>
    %e = store_view_tko weak %s, %y[%zero, %zero] : tile<64x64xi32>, partition_view<tile=(64x64), tensor_view<64x64xi32, strides=[64,1]>>, tile<i32> -> token
    return
  }
  entry @two(%p: tile<ptr<i8>>, %q: tile<ptr<i32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <i32: 0> : tile<128x128xi32>
    %aligned = assume div_by<16>, %p : tile<ptr<i8>>
    %w = make_tensor_view %aligned, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xi8, strides=[4096,1]>
    %va = make_partition_view %w : partition_view<tile=(128x128), tensor_view<4096x4096xi8, strides=[4096,1]>>
    %vb = make_partition_view %w : partition_view<tile=(128x128), tensor_view<4096x4096xi8, strides=[4096,1]>>
    %s = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<128x128xi32>) {
      %a, %u0 = load_view_tko weak %va[%zero, %k] : partition_view<tile=(128x128), tensor_view<4096x4096xi8, strides=[4096,1]>>, tile<i32> -> tile<128x128xi8>, token
      %b, %u1 = load_view_tko weak %vb[%k, %zero] : partition_view<tile=(128x128), tensor_view<4096x4096xi8, strides=[4096,1]>>, tile<i32> -> tile<128x128xi8>, token
      %d = mmai %a, %b, %acc signed signed : tile<128x128xi8>, tile<128x128xi8>, tile<128x128xi32>
      continue %d : tile<128x128xi32>
    }
    %x = make_tensor_view %q, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xi32, strides=[128,1]>
    %y = make_partition_view %x : partition_view<tile=(128x128), tensor_view<128x128xi32, strides=[128,1]>>
    %e = store_view_tko weak %s, %y[%zero, %zero] : tile<128x128xi32>, partition_view<tile=(128x128), tensor_view<128x128xi32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
