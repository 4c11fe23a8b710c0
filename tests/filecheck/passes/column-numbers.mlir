// Scores of 64 rows that meet a number for each of their columns: four threads share two rows (16x256b), so that each takes half as many
// of these as of half a row; so have the rows of the next product (16x128b). The numbers, too many to be asked for an iteration ahead
// in registers, go by a ring that one warp of the load agent fills. Where rows are summed up, threads have halves of rows.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s
// RUN: tileiras-opt %s --to=llvm --gpu-name=sm_100 | filecheck %s --check-prefix=LLVM
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s --check-prefix=HOPPER

// CHECK: sym_name = "columns"
// CHECK: "nv_tileas.create_pipeline"() <{producers = #builtin.int<32>{{.*}} -> !nv_tileas.pipe<"cp_async"
// CHECK: "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<1>]
// CHECK: "nv_tileas.load_shared"{{.*}} -> tensor<1x64xf32, {{.*}}reg = {{\[\[}}0, 1], [0, 8], [0, 16], [0, 32]]
// CHECK: "nv_tileas.load_tmem"({{.*}}quads{{.*}} -> tensor<64x64xf32, #nv_tileas.layout<shape = [64x64], reg = {{\[\[}}0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = {{\[\[}}0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = {{\[\[}}16, 0], [32, 0]]
// CHECK: "nv_tileas.store_tmem"({{.*}}quads
// CHECK: "nv_tileas.async_copy"({{.*}} atom = "cp.async.4"
// CHECK: sym_name = "rows"
// CHECK-NOT: quads

// LLVM: tcgen05.ld.16x256b.x8
// LLVM: tcgen05.st.16x128b.x8

// HOPPER: sym_name = "columns"
// HOPPER: pipe<"cp_async"
// HOPPER: "nv_tileas.async_dot"
// HOPPER: "nv_tileas.async_copy"({{.*}} atom = "cp.async.4"
cuda_tile.module @m {
  entry @columns(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %r: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<64x64xf32>
    %a = assume div_by<16>, %p : tile<ptr<f16>>
    %b = assume div_by<16>, %q : tile<ptr<f32>>
    %c = reshape %b : tile<ptr<f32>> -> tile<1xptr<f32>>
    %s = broadcast %c : tile<1xptr<f32>> -> tile<64xptr<f32>>
    %lanes = iota : tile<64xi32>
    %width = constant <i32: 64> : tile<i32>
    %w = make_tensor_view %a, shape = [64, 4096], strides = [4096, 1] : tensor_view<64x4096xf16, strides=[4096,1]>
    %o = make_tensor_view %r, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %v = make_partition_view %w : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>
    %ov = make_partition_view %o : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %x, %w0 = load_view_tko weak %v[%zero, %zero] token = %t : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<64x64xf32>) {
      %y, %u = load_view_tko weak %v[%zero, %i] token = %t : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
      %j = muli %i, %width : tile<i32>
      %j1 = reshape %j : tile<i32> -> tile<1xi32>
      %j64 = broadcast %j1 : tile<1xi32> -> tile<64xi32>
      %at = addi %j64, %lanes : tile<64xi32>
      %f = offset %s, %at : tile<64xptr<f32>>, tile<64xi32> -> tile<64xptr<f32>>
      %l, %k = load_ptr_tko weak %f token=%t : tile<64xptr<f32>> -> tile<64xf32>, token
      %d = mmaf %x, %y, %start : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      %g = reshape %l : tile<64xf32> -> tile<1x64xf32>
      %h = broadcast %g : tile<1x64xf32> -> tile<64x64xf32>
      %e = subf %d, %h : tile<64x64xf32>
      %z = exp2 %e : tile<64x64xf32>
      %ph = ftof %z : tile<64x64xf32> -> tile<64x64xf16>
      %more = mmaf %ph, %y, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      continue %more : tile<64x64xf32>
    }
    %w1 = store_view_tko weak %sum, %ov[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
  entry @rows(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %r: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<64x64xf32>
    %a = assume div_by<16>, %p : tile<ptr<f16>>
    %b = assume div_by<16>, %q : tile<ptr<f32>>
    %c = reshape %b : tile<ptr<f32>> -> tile<1xptr<f32>>
    %s = broadcast %c : tile<1xptr<f32>> -> tile<64xptr<f32>>
    %lanes = iota : tile<64xi32>
    %width = constant <i32: 64> : tile<i32>
    %w = make_tensor_view %a, shape = [64, 4096], strides = [4096, 1] : tensor_view<64x4096xf16, strides=[4096,1]>
    %o = make_tensor_view %r, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %v = make_partition_view %w : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>
    %ov = make_partition_view %o : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %x, %w0 = load_view_tko weak %v[%zero, %zero] token = %t : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<64x64xf32>) {
      %y, %u = load_view_tko weak %v[%zero, %i] token = %t : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
      %j = muli %i, %width : tile<i32>
      %j1 = reshape %j : tile<i32> -> tile<1xi32>
      %j64 = broadcast %j1 : tile<1xi32> -> tile<64xi32>
      %at = addi %j64, %lanes : tile<64xi32>
      %f = offset %s, %at : tile<64xptr<f32>>, tile<64xi32> -> tile<64xptr<f32>>
      %l, %k = load_ptr_tko weak %f token=%t : tile<64xptr<f32>> -> tile<64xf32>, token
      %d = mmaf %x, %y, %start : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      %g = reshape %l : tile<64xf32> -> tile<1x64xf32>
      %h = broadcast %g : tile<1x64xf32> -> tile<64x64xf32>
      %e = subf %d, %h : tile<64x64xf32>
      %m = reduce %e dim=1 identities=[0.0 : f32] : tile<64x64xf32> -> tile<64xf32> (%c0: tile<f32>, %c1: tile<f32>) {
        %c2 = addf %c0, %c1 : tile<f32>
        yield %c2 : tile<f32>
      }
      %m1 = reshape %m : tile<64xf32> -> tile<64x1xf32>
      %m2 = broadcast %m1 : tile<64x1xf32> -> tile<64x64xf32>
      %z = addf %e, %m2 : tile<64x64xf32>
      %ph = ftof %z : tile<64x64xf32> -> tile<64x64xf16>
      %more = mmaf %ph, %y, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      continue %more : tile<64x64xf32>
    }
    %w1 = store_view_tko weak %sum, %ov[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
