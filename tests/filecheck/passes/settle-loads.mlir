// A tile that two products read in different roles comes by way of registers, an iteration ahead (sm_80): its uses stand behind the next
// iteration's loads, so the first iteration's is there before the loop begins. Where the copy engine brings it, none is carried. A loop
// that multiplies nothing is as it was, but where few numbers are spread over all threads and pairs are computed with at once.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_80 | filecheck %s
// RUN: tileiras-opt %s --to=llvm --gpu-name=sm_80 | filecheck %s --check-prefix=LLVM
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s --check-prefix=ENGINE
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=PAIRS

// CHECK: sym_name = "both_roles"
// CHECK: [[FIRST:%[0-9]+]], %{{[0-9]+}} = "scf.if"
// CHECK: [[THERE:%[0-9]+]] = "nv_tileas.settle"([[FIRST]]) <{bytes = #builtin.int<16>}>
// CHECK: "scf.for"({{.*}}[[THERE]]
// CHECK: sym_name = "distances"
// CHECK-NOT: nv_tileas.settle

// LLVM: [[ZERO:%[0-9]+]] = "nvvm.inst"(%{{[0-9]+}}) <{instruction = "zero.of.b32"}>
// LLVM: "nvvm.inst"(%{{[0-9]+}}, [[ZERO]]) <{instruction = "settle.b32"}>

// ENGINE-NOT: nv_tileas.settle

// PAIRS: sym_name = "distances"
// PAIRS: "nv_tileas.settle"
// PAIRS: "scf.for"
// PAIRS: sym_name = "rows_in_place"
// PAIRS: as_loaded
// PAIRS-NOT: nv_tileas.settle
cuda_tile.module @m {
  entry @both_roles(%kp: tile<ptr<f16>>, %qp: tile<ptr<f16>>, %op: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %ka = assume div_by<16>, %kp : tile<ptr<f16>>
    %qa = assume div_by<16>, %qp : tile<ptr<f16>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<32x16xf32>
    %c = constant <f32: 0.0> : tile<32x64xf32>
    %kw = make_tensor_view %ka, shape = [32, 64], strides = [64, 1] : tensor_view<32x64xf16, strides=[64,1]>
    %qw = make_tensor_view %qa, shape = [4096, 64], strides = [64, 1] : tensor_view<4096x64xf16, strides=[64,1]>
    %kv = make_partition_view %kw : partition_view<tile=(32x64), tensor_view<32x64xf16, strides=[64,1]>>
    %qv = make_partition_view %qw : partition_view<tile=(16x64), tensor_view<4096x64xf16, strides=[64,1]>>
    %k, %u0 = load_view_tko weak %kv[%zero, %zero] token = %t : partition_view<tile=(32x64), tensor_view<32x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<32x64xf32>) {
      %q, %u1 = load_view_tko weak %qv[%i, %zero] token = %t : partition_view<tile=(16x64), tensor_view<4096x64xf16, strides=[64,1]>>, tile<i32> -> tile<16x64xf16>, token
      %turned = permute %q [1, 0] : tile<16x64xf16> -> tile<64x16xf16>
      %scores = mmaf %k, %turned, %none : tile<32x64xf16>, tile<64x16xf16>, tile<32x16xf32>
      %w = exp2 %scores : tile<32x16xf32>
      %p = ftof %w : tile<32x16xf32> -> tile<32x16xf16>
      %d = mmaf %p, %q, %acc : tile<32x16xf16>, tile<16x64xf16>, tile<32x64xf32>
      continue %d : tile<32x64xf32>
    }
    %ow = make_tensor_view %op, shape = [32, 64], strides = [64, 1] : tensor_view<32x64xf32, strides=[64,1]>
    %ov = make_partition_view %ow : partition_view<tile=(32x64), tensor_view<32x64xf32, strides=[64,1]>>
    %z = store_view_tko weak %s, %ov[%zero, %zero] token = %t : tile<32x64xf32>, partition_view<tile=(32x64), tensor_view<32x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }

  entry @distances(%xp: tile<ptr<f32>>, %op: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %xa = assume div_by<16>, %xp : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %i, %j, %k = get_tile_block_id : tile<i32>
    %c = constant <f32: 0.0> : tile<128xf32>
    %xw = make_tensor_view %xa, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %mv = make_partition_view %xw : partition_view<tile=(128), tensor_view<65536xf32, strides=[1]>>
    %mine, %u0 = load_view_tko weak %mv[%i] token = %t : partition_view<tile=(128), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> tile<128xf32>, token
    %column = reshape %mine : tile<128xf32> -> tile<128x1xf32>
    %a = broadcast %column : tile<128x1xf32> -> tile<128x128xf32>
    %s = for %l in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<128xf32>) {
      %x, %u1 = load_view_tko weak %mv[%l] token = %t : partition_view<tile=(128), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> tile<128xf32>, token
      %row = reshape %x : tile<128xf32> -> tile<1x128xf32>
      %b = broadcast %row : tile<1x128xf32> -> tile<128x128xf32>
      %d = subf %a, %b rounding<nearest_even> : tile<128x128xf32>
      %e = mulf %d, %d rounding<nearest_even> : tile<128x128xf32>
      %f = rsqrt %e : tile<128x128xf32>
      %g = mulf %f, %d rounding<nearest_even> : tile<128x128xf32>
      %h = reduce %g dim=1 identities=[0.0 : f32] : tile<128x128xf32> -> tile<128xf32> (%v: tile<f32>, %r: tile<f32>) {
        %m = addf %v, %r rounding<nearest_even> : tile<f32>
        yield %m : tile<f32>
      }
      %next = addf %acc, %h rounding<nearest_even> : tile<128xf32>
      continue %next : tile<128xf32>
    }
    %ow = make_tensor_view %op, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %ov = make_partition_view %ow : partition_view<tile=(128), tensor_view<65536xf32, strides=[1]>>
    %z = store_view_tko weak %s, %ov[%i] token = %t : tile<128xf32>, partition_view<tile=(128), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> token
    return
  }

  // Rows in place, each with a number of its own that comes ahead: an iteration waits for its row, and so for both.
  entry @rows_in_place(%xp: tile<ptr<f32>>, %fp: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %xa = assume div_by<16>, %xp : tile<ptr<f32>>
    %fa = assume div_by<16>, %fp : tile<ptr<f32>>
    %one = constant <i32: 1> : tile<i32>
    %i, %j, %k = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %xw = make_tensor_view %xa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
    %xv = make_partition_view %xw : partition_view<tile=(1x4096), tensor_view<4096x4096xf32, strides=[4096,1]>>
    %fw = make_tensor_view %fa, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %fv = make_partition_view %fw : partition_view<tile=(1), tensor_view<4096xf32, strides=[1]>>
    %z = for %l in (%i to %n, step %one) : tile<i32> iter_values(%before = %t) -> (token) {
      %x, %u0 = load_view_tko weak %xv[%l, %zero] token = %before : partition_view<tile=(1x4096), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> tile<1x4096xf32>, token
      %e = exp2 %x : tile<1x4096xf32>
      %f, %u1 = load_view_tko weak %fv[%l] token = %t : partition_view<tile=(1), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> tile<1xf32>, token
      %one_by_one = reshape %f : tile<1xf32> -> tile<1x1xf32>
      %whole = broadcast %one_by_one : tile<1x1xf32> -> tile<1x4096xf32>
      %y = mulf %e, %whole rounding<nearest_even> : tile<1x4096xf32>
      %after = store_view_tko weak %y, %xv[%l, %zero] token = %u0 : tile<1x4096xf32>, partition_view<tile=(1x4096), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> token
      continue %after : token
    }
    return
  }
}
