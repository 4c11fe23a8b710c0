// A product of one matrix in a batch is a product of matrices, also where a loop carries its sums; a batch of two stays one. Pairs of
// CTAs multiply such tiles, in a loop over tiles whose tokens of loads go around both loops and tell nobody of anything.
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_100 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=PAIR

// CHECK: sym_name = "of_one"
// CHECK: [[SUM:%[0-9]+]] = "nv_tileaa.dot"{{.*}}<{pair}> : (tensor<128x64xf16>, tensor<64x128xf16>, tensor<128x256xf32>)
// CHECK: "scf.yield"([[SUM]]) : (tensor<128x256xf32>) -> ()
// CHECK: sym_name = "of_two"
// CHECK: "nv_tileaa.dot"({{.*}}tensor<2x64x64xf32>
// PAIR: sym_name = "of_one"
// PAIR: cg2
// PAIR-NOT: tiled_store
// PAIR: sym_name = "of_two"
cuda_tile.module @m {
  entry @of_one(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %r: tile<ptr<f16>>) optimization_hints=<default = {num_cta_in_cga = 2}> {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %steps = constant <i32: 16> : tile<i32>
    %tiles = constant <i32: 64> : tile<i32>
    %zeros = constant <f32: 0.0> : tile<1x256x256xf32>
    %t = make_token : token
    %first, %y, %z = get_tile_block_id : tile<i32>
    %many, %ny, %nz = get_num_tile_blocks : tile<i32>
    %p1 = assume div_by<16>, %p : tile<ptr<f16>>
    %q1 = assume div_by<16>, %q : tile<ptr<f16>>
    %r1 = assume div_by<16>, %r : tile<ptr<f16>>
    %wp = make_tensor_view %p1, shape = [4, 1024, 1024], strides = [1048576, 1024, 1] : tensor_view<4x1024x1024xf16, strides=[1048576,1024,1]>
    %wq = make_tensor_view %q1, shape = [4, 1024, 1024], strides = [1048576, 1024, 1] : tensor_view<4x1024x1024xf16, strides=[1048576,1024,1]>
    %wr = make_tensor_view %r1, shape = [4, 1024, 1024], strides = [1048576, 1024, 1] : tensor_view<4x1024x1024xf16, strides=[1048576,1024,1]>
    %vp = make_partition_view %wp : partition_view<tile=(1x256x64), padding_value = zero, tensor_view<4x1024x1024xf16, strides=[1048576,1024,1]>>
    %vq = make_partition_view %wq : partition_view<tile=(1x64x256), padding_value = zero, tensor_view<4x1024x1024xf16, strides=[1048576,1024,1]>>
    %vr = make_partition_view %wr : partition_view<tile=(1x256x256), tensor_view<4x1024x1024xf16, strides=[1048576,1024,1]>>
    %outer:3 = for %i in (%first to %tiles, step %many) : tile<i32> iter_values(%a = %t, %b = %t, %c = %t) -> (token, token, token) {
      %four = constant <i32: 4> : tile<i32>
      %sixteen = constant <i32: 16> : tile<i32>
      %batch = divi %i, %sixteen signed : tile<i32>
      %rest = remi %i, %sixteen signed : tile<i32>
      %row = divi %rest, %four signed : tile<i32>
      %column = remi %rest, %four signed : tile<i32>
      %before = join_tokens %a, %b : token
      %inner:3 = for %k in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %zeros, %d = %before, %e = %before) -> (tile<1x256x256xf32>, token, token) {
        %f = join_tokens %e, %d : token
        %x, %tx = load_view_tko weak %vp[%batch, %row, %k] : partition_view<tile=(1x256x64), padding_value = zero, tensor_view<4x1024x1024xf16, strides=[1048576,1024,1]>>, tile<i32> -> tile<1x256x64xf16>, token
        %g = join_tokens %f, %tx : token
        %w, %tw = load_view_tko weak %vq[%batch, %k, %column] : partition_view<tile=(1x64x256), padding_value = zero, tensor_view<4x1024x1024xf16, strides=[1048576,1024,1]>>, tile<i32> -> tile<1x64x256xf16>, token
        %h = join_tokens %g, %tw : token
        %s = mmaf %x, %w, %acc : tile<1x256x64xf16>, tile<1x64x256xf16>, tile<1x256x256xf32>
        continue %s, %g, %h : tile<1x256x256xf32>, token, token
      }
      %loaded = join_tokens %inner#2, %inner#1 : token
      %half = ftof %inner#0 : tile<1x256x256xf32> -> tile<1x256x256xf16>
      %stored = store_view_tko weak %half, %vr[%batch, %row, %column] token = %c : tile<1x256x256xf16>, partition_view<tile=(1x256x256), tensor_view<4x1024x1024xf16, strides=[1048576,1024,1]>>, tile<i32> -> token
      continue %stored, %loaded, %stored : token, token, token
    }
    return
  }
  entry @of_two(%p: tile<ptr<f32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %x = constant <f16: 1.0> : tile<2x64x64xf16>
    %zeros = constant <f32: 0.0> : tile<2x64x64xf32>
    %s = mmaf %x, %x, %zeros : tile<2x64x64xf16>, tile<2x64x64xf16>, tile<2x64x64xf32>
    %w = make_tensor_view %p, shape = [2, 64, 64], strides = [4096, 64, 1] : tensor_view<2x64x64xf32, strides=[4096,64,1]>
    %v = make_partition_view %w : partition_view<tile=(2x64x64), tensor_view<2x64x64xf32, strides=[4096,64,1]>>
    %t = store_view_tko weak %s, %v[%zero, %zero, %zero] : tile<2x64x64xf32>, partition_view<tile=(2x64x64), tensor_view<2x64x64xf32, strides=[4096,64,1]>>, tile<i32> -> token
    return
  }
}
