// Weights that eight nibbles of a word are: words are an eighth of the elements, constants stand before the loop. Threads unpack those
// that their fragment of B has, without a way through shared memory; the columns' factors, loaded an iteration ahead, are shared out
// before the next ones are asked for.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_120 --print-ir-after=prefetch-to-registers -o %t.as 2> %t.ir
// RUN: filecheck %s --input-file=%t.ir

// CHECK: IR dump after prefetch-to-registers
// CHECK: "nv_tileas.agent_switch"
// CHECK: "scf.for"
// CHECK-NEXT: ^{{.*}} [[NOW:%[0-9]+]]: tensor<1x128xf16, {{.*}}, %{{[0-9]+}}: !nv_tileaa.mem_token):
// CHECK-NEXT: "nv_tileas.convert_layout"([[NOW]])
// CHECK: [[NEXT:%[0-9]+]], %{{[0-9]+}} = "scf.if"
// CHECK-NEXT: "nv_tileas.tiled_load"
// CHECK-NOT: "nv_tileas.store_shared"
// CHECK-NOT: "nv_tileas.alloc_tensor"
// CHECK: "nv_tileas.dot"(%{{[0-9]+}}, %{{[0-9]+}}, {{.*}} : (!nv_tileas.buffer<f16, {{.*}}, tensor<64x128xf16, #nv_tileas.layout<shape = [64x128], reg = {{\[\[}}1, 0], [8, 0],
// CHECK: "scf.yield"(%{{[0-9]+}}, [[NEXT]],
cuda_tile.module @m {
  entry @packed(%p: tile<ptr<f16>>, %q: tile<ptr<i32>>, %s: tile<ptr<f16>>, %r: tile<ptr<f16>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %four = constant <i32: 4> : tile<8xi32>
    %low = constant <i32: 15> : tile<8x8x128xi32>
    %eight = constant <i32: 8> : tile<64x128xi32>
    %start = constant <f32: 0.0> : tile<16x128xf32>
    %a = assume div_by<16>, %p : tile<ptr<f16>>
    %w = assume div_by<16>, %q : tile<ptr<i32>>
    %f = assume div_by<16>, %s : tile<ptr<f16>>
    %o = assume div_by<16>, %r : tile<ptr<f16>>
    %at = make_tensor_view %a, shape = [16, 4096], strides = [4096, 1] : tensor_view<16x4096xf16, strides=[4096,1]>
    %wt = make_tensor_view %w, shape = [512, 128], strides = [128, 1] : tensor_view<512x128xi32, strides=[128,1]>
    %ft = make_tensor_view %f, shape = [64, 128], strides = [128, 1] : tensor_view<64x128xf16, strides=[128,1]>
    %ot = make_tensor_view %o, shape = [16, 128], strides = [128, 1] : tensor_view<16x128xf16, strides=[128,1]>
    %av = make_partition_view %at : partition_view<tile=(16x64), tensor_view<16x4096xf16, strides=[4096,1]>>
    %wv = make_partition_view %wt : partition_view<tile=(8x128), tensor_view<512x128xi32, strides=[128,1]>>
    %fv = make_partition_view %ft : partition_view<tile=(1x128), tensor_view<64x128xf16, strides=[128,1]>>
    %ov = make_partition_view %ot : partition_view<tile=(16x128), tensor_view<16x128xf16, strides=[128,1]>>
    %lanes = iota : tile<8xi32>
    %shifts = muli %lanes, %four : tile<8xi32>
    %by = reshape %shifts : tile<8xi32> -> tile<1x8x1xi32>
    %shift = broadcast %by : tile<1x8x1xi32> -> tile<8x8x128xi32>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<16x128xf32>) {
      %x, %xt = load_view_tko weak %wv[%i, %zero] token = %t : partition_view<tile=(8x128), tensor_view<512x128xi32, strides=[128,1]>>, tile<i32> -> tile<8x128xi32>, token
      %x1 = reshape %x : tile<8x128xi32> -> tile<8x1x128xi32>
      %x8 = broadcast %x1 : tile<8x1x128xi32> -> tile<8x8x128xi32>
      %moved = shri %x8, %shift signed : tile<8x8x128xi32>
      %nibble = andi %moved, %low : tile<8x8x128xi32>
      %rows = reshape %nibble : tile<8x8x128xi32> -> tile<64x128xi32>
      %number = subi %rows, %eight : tile<64x128xi32>
      %g, %gt = load_view_tko weak %fv[%i, %zero] token = %t : partition_view<tile=(1x128), tensor_view<64x128xf16, strides=[128,1]>>, tile<i32> -> tile<1x128xf16>, token
      %y, %yt = load_view_tko weak %av[%zero, %i] token = %t : partition_view<tile=(16x64), tensor_view<16x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<16x64xf16>, token
      %float = itof %number signed : tile<64x128xi32> -> tile<64x128xf16>
      %factor = broadcast %g : tile<1x128xf16> -> tile<64x128xf16>
      %weight = mulf %float, %factor : tile<64x128xf16>
      %z = mmaf %y, %weight, %acc : tile<16x64xf16>, tile<64x128xf16>, tile<16x128xf32>
      continue %z : tile<16x128xf32>
    }
    %out = ftof %sum : tile<16x128xf32> -> tile<16x128xf16>
    %st = store_view_tko weak %out, %ov[%zero, %zero] token = %t : tile<16x128xf16>, partition_view<tile=(16x128), tensor_view<16x128xf16, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
