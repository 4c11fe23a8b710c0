// A softmax reads its row three times. On an RTX 5090 three blocks an SM keep memory busy, with tiles of half as many bytes six: no
// more shall be there, and a block's shared memory keeps others out. Not where an SM has more of memory's bandwidth, where a hint says
// how many blocks there are to be, or where each loop reads another array.
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_120 | filecheck %s
// RUN: sed 's/1024x/512x/g; s/(1024)/(512)/g' %s | tileiras-opt - --to=nv_tileaa --gpu-name=sm_120 | filecheck %s --check-prefix=SIX
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_90 | filecheck %s --check-prefix=ANY
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_86 | filecheck %s --check-prefix=ANY
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_120 -O0 | filecheck %s --check-prefix=ANY
// RUN: sed 's/%%n: tile<i32>)/%%n: tile<i32>) optimization_hints=<sm_120 = {occupancy = 4}>/' %s | tileiras-opt - --to=nv_tileaa --gpu-name=sm_120 | filecheck %s --check-prefix=ANY
// RUN: sed 's/%%v\[%%j\]/%%r[%%j]/' %s | tileiras-opt - --to=nv_tileaa --gpu-name=sm_120 | filecheck %s --check-prefix=ANY
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_120 | filecheck %s --check-prefix=SHARED

// CHECK: most_blocks = #builtin.int<3>
// SIX: most_blocks = #builtin.int<6>
// ANY-NOT: most_blocks
// SHARED: shared_bytes = #builtin.int<24704>
cuda_tile.module @m {
  entry @norm(%p: tile<ptr<f32>>, %pr: tile<ptr<f32>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<1024xf32>
    %v0 = make_tensor_view %p, shape = [1048576], strides = [1] : tensor_view<1048576xf32, strides=[1]>
    %v1 = make_tensor_view %po, shape = [1048576], strides = [1] : tensor_view<1048576xf32, strides=[1]>
    %v2 = make_tensor_view %pr, shape = [1048576], strides = [1] : tensor_view<1048576xf32, strides=[1]>
    %v = make_partition_view %v0 : partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>
    %o = make_partition_view %v1 : partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>
    %r = make_partition_view %v2 : partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>
    %m = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%a = %none) -> (tile<1024xf32>) {
      %x, %u = load_view_tko weak %v[%i] token = %t : partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
      %b = addf %a, %x rounding<nearest_even> : tile<1024xf32>
      continue %b : tile<1024xf32>
    }
    %s = reduce %m dim=0 identities=[0.0 : f32] : tile<1024xf32> -> tile<f32> (%e: tile<f32>, %f: tile<f32>) {
      %g = addf %e, %f rounding<nearest_even> : tile<f32>
      yield %g : tile<f32>
    }
    %s1 = reshape %s : tile<f32> -> tile<1xf32>
    %sum = broadcast %s1 : tile<1xf32> -> tile<1024xf32>
    for %j in (%zero to %n, step %one) : tile<i32> {
      %x, %u = load_view_tko weak %v[%j] token = %t : partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
      %b = mulf %x, %sum rounding<nearest_even> : tile<1024xf32>
      %w = store_view_tko weak %b, %o[%j] token = %t : tile<1024xf32>, partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>, tile<i32> -> token
      continue
    }
    return
  }
}
