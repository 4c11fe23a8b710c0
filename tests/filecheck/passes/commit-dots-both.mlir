// Rows that are multiplied as they are, and squared and summed meanwhile: threads read them first, the product begins before they
// work on them, and the ring's stage is given back by both, the four warps and the tensor core. The product is told of behind the
// loop only.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --verify-each | filecheck %s

// CHECK: [[DONE:%[0-9]+]] = "nv_tileas.create_pipeline"() {{.*}}!nv_tileas.pipe<"umma", #builtin.int<1>>
// CHECK: [[PIPE:%[0-9]+]] = "nv_tileas.create_pipeline"() <{bytes = #builtin.int<24576>, consumers = #builtin.int<5>, {{.*}}!nv_tileas.pipe<"tma", #builtin.int<4>>
// CHECK: "scf.for"(
// CHECK: "nv_tileas.consumer_wait"([[PIPE]])
// CHECK-NOT: "nv_tileas.consumer_wait"
// CHECK: "nv_tileas.load_shared"(
// CHECK: "nv_tileas.tensor_dot"(
// CHECK: "nv_tileas.consumer_release"([[PIPE]]) <{with_dots}>
// CHECK-NOT: "nv_tileas.producer_commit"
// CHECK: "arith.mulf"(
// CHECK: "nv_tileas.reduce"(
// CHECK-NOT: "nv_tileas.producer_commit"
// CHECK: }) : (i32, i32, i32
// CHECK: "nv_tileas.producer_commit"([[DONE]])
// CHECK-NEXT: "nv_tileas.consumer_wait"([[DONE]],
cuda_tile.module @m {
  entry @normed(%px: tile<ptr<f16>>, %pw: tile<ptr<f16>>, %py: tile<ptr<f32>>, %ps: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x128xf32>
    %nothing = constant <f32: 0.0> : tile<64xf32>
    %ax = assume div_by<16>, %px : tile<ptr<f16>>
    %aw = assume div_by<16>, %pw : tile<ptr<f16>>
    %ay = assume div_by<16>, %py : tile<ptr<f32>>
    %as = assume div_by<16>, %ps : tile<ptr<f32>>
    %tx = make_tensor_view %ax, shape = [64, 4096], strides = [4096, 1] : tensor_view<64x4096xf16, strides=[4096,1]>
    %tw = make_tensor_view %aw, shape = [4096, 128], strides = [128, 1] : tensor_view<4096x128xf16, strides=[128,1]>
    %ty = make_tensor_view %ay, shape = [64, 128], strides = [128, 1] : tensor_view<64x128xf32, strides=[128,1]>
    %ts = make_tensor_view %as, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
    %vx = make_partition_view %tx : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>
    %vw = make_partition_view %tw : partition_view<tile=(64x128), tensor_view<4096x128xf16, strides=[128,1]>>
    %vy = make_partition_view %ty : partition_view<tile=(64x128), tensor_view<64x128xf32, strides=[128,1]>>
    %vs = make_partition_view %ts : partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>
    %sum, %squares = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none, %sq = %nothing) -> (tile<64x128xf32>, tile<64xf32>) {
      %x, %u0 = load_view_tko weak %vx[%zero, %k] token = %t : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
      %f = ftof %x : tile<64x64xf16> -> tile<64x64xf32>
      %ff = mulf %f, %f : tile<64x64xf32>
      %s = reduce %ff dim=1 identities=[0.0 : f32] : tile<64x64xf32> -> tile<64xf32> (%p: tile<f32>, %q: tile<f32>) {
        %r = addf %p, %q : tile<f32>
        yield %r : tile<f32>
      }
      %sq1 = addf %sq, %s : tile<64xf32>
      %w, %u2 = load_view_tko weak %vw[%k, %zero] token = %t : partition_view<tile=(64x128), tensor_view<4096x128xf16, strides=[128,1]>>, tile<i32> -> tile<64x128xf16>, token
      %d = mmaf %x, %w, %acc : tile<64x64xf16>, tile<64x128xf16>, tile<64x128xf32>
      continue %d, %sq1 : tile<64x128xf32>, tile<64xf32>
    }
    %u3 = store_view_tko weak %sum, %vy[%zero, %zero] token = %t : tile<64x128xf32>, partition_view<tile=(64x128), tensor_view<64x128xf32, strides=[128,1]>>, tile<i32> -> token
    %u4 = store_view_tko weak %squares, %vs[%zero] token = %t : tile<64xf32>, partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
