// A loop's second product reads what threads store: the next iteration's wait stands for it too, and a barrier behind that wait lets all threads store again.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s

// CHECK: "scf.for"
// CHECK: "nv_tileas.async_dot"([[A:%[0-9]+]], {{%[0-9]+}}) <{atom = "sm90
// CHECK: "nv_tileas.dot_wait"({{%[0-9]+}}, [[A]], {{%[0-9]+}}, [[P:%[0-9]+]], [[Q:%[0-9]+]])
// CHECK: "nv_tileas.barrier"
// CHECK: "nv_tileas.store_shared"({{%[0-9]+}}, [[P]])
// CHECK: "nv_tileas.barrier"
// CHECK: "nv_tileas.async_dot"([[P]], [[Q]], {{%[0-9]+}}) <{atom = "sm90
// CHECK: "scf.yield"
cuda_tile.module @m {
  entry @twice(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %rows: tile<i32>, %row: tile<i32>, %n: tile<i32>) optimization_hints=<default = {num_worker_warps_per_cta = 8}> {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %ones = constant <f16: 1.0> : tile<64x32xf16>
    %c = constant <f32: 0.0> : tile<64x32xf32>
    %d = constant <f32: 0.0> : tile<64x16xf32>
    %w = make_tensor_view %p, shape = [%rows, %rows], strides = [%row, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %v = make_partition_view %w : partition_view<tile=(32x16), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<64x32xf32>) {
      %b, %u = load_view_tko weak %v[%zero, %i] token = %t : partition_view<tile=(32x16), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<32x16xf16>, token
      %e = mmaf %ones, %b, %d : tile<64x32xf16>, tile<32x16xf16>, tile<64x16xf32>
      %f = ftof %e : tile<64x16xf32> -> tile<64x16xf16>
      %g = constant <f16: 1.0> : tile<16x32xf16>
      %h = mmaf %f, %g, %acc : tile<64x16xf16>, tile<16x32xf16>, tile<64x32xf32>
      continue %h : tile<64x32xf32>
    }
    %x = make_tensor_view %q, shape = [64, 32], strides = [32, 1] : tensor_view<64x32xf32, strides=[32,1]>
    %y = make_partition_view %x : partition_view<tile=(64x32), tensor_view<64x32xf32, strides=[32,1]>>
    %z = store_view_tko weak %s, %y[%zero, %zero] token = %t : tile<64x32xf32>, partition_view<tile=(64x32), tensor_view<64x32xf32, strides=[32,1]>>, tile<i32> -> token
    return
  }
}
