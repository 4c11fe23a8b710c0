// Signs of operands are the instructions' business: of the first one, of the second one behind a turn, of both, which cancel. A
// product of few rows, which warps compute, changes the sign by an op as before, and so does one on a target without such instructions.
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_90 -o %t.aa
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,negate-dots,choose-atoms --gpu-name=sm_90 | filecheck %s
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,negate-dots --gpu-name=sm_80 | filecheck %s --check-prefix=OLDER
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 | filecheck %s --check-prefix=BEGUN
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=TENSOR
// OLDER-NOT: negated

// CHECK: sym_name = "first"
// CHECK: [[X:%[0-9]+]], {{%[0-9]+}} = "nv_tileas.tiled_load"
// CHECK-NOT: negf
// CHECK: "nv_tileas.dot"([[X]], {{.*}}negated = "lhs"
// BEGUN: sym_name = "first"
// BEGUN: "nv_tileas.async_dot"({{.*}}negated
// TENSOR: sym_name = "first"
// TENSOR: "nv_tileas.tensor_dot"({{.*}}negated

// CHECK: sym_name = "turned"
// CHECK-NOT: negf
// CHECK: [[T:%[0-9]+]] = "nv_tileas.permute"
// CHECK: "nv_tileas.dot"({{%[0-9]+}}, [[T]], {{.*}}negated

// CHECK: sym_name = "both"
// CHECK-NOT: negf
// CHECK-NOT: negated

// CHECK: sym_name = "of_few_rows"
// CHECK: [[N:%[0-9]+]] = "arith.negf"
// CHECK-NEXT: "nv_tileas.dot"([[N]],
// CHECK-NOT: negated
cuda_tile.module @m {
  entry @first(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %r: tile<ptr<f32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %zeros = constant <f32: 0.0> : tile<64x64xf32>
    %p1 = assume div_by<16>, %p : tile<ptr<f16>>
    %q1 = assume div_by<16>, %q : tile<ptr<f16>>
    %r1 = assume div_by<16>, %r : tile<ptr<f32>>
    %wp = make_tensor_view %p1, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf16, strides=[64,1]>
    %wq = make_tensor_view %q1, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf16, strides=[64,1]>
    %wr = make_tensor_view %r1, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %vp = make_partition_view %wp : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>
    %vq = make_partition_view %wq : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>
    %vr = make_partition_view %wr : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %x, %tx = load_view_tko weak %vp[%zero, %zero] : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %y, %ty = load_view_tko weak %vq[%zero, %zero] : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %a = negf %x : tile<64x64xf16>
    %s = mmaf %a, %y, %zeros : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
    %u = store_view_tko weak %s, %vr[%zero, %zero] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
  entry @turned(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %r: tile<ptr<f32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %zeros = constant <f32: 0.0> : tile<64x64xf32>
    %p1 = assume div_by<16>, %p : tile<ptr<f16>>
    %q1 = assume div_by<16>, %q : tile<ptr<f16>>
    %r1 = assume div_by<16>, %r : tile<ptr<f32>>
    %wp = make_tensor_view %p1, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf16, strides=[64,1]>
    %wq = make_tensor_view %q1, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf16, strides=[64,1]>
    %wr = make_tensor_view %r1, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %vp = make_partition_view %wp : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>
    %vq = make_partition_view %wq : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>
    %vr = make_partition_view %wr : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %x, %tx = load_view_tko weak %vp[%zero, %zero] : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %y, %ty = load_view_tko weak %vq[%zero, %zero] : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %b = negf %y : tile<64x64xf16>
    %c = permute %b [1, 0] : tile<64x64xf16> -> tile<64x64xf16>
    %s = mmaf %x, %c, %zeros : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
    %u = store_view_tko weak %s, %vr[%zero, %zero] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
  entry @both(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %r: tile<ptr<f32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %zeros = constant <f32: 0.0> : tile<64x64xf32>
    %p1 = assume div_by<16>, %p : tile<ptr<f16>>
    %q1 = assume div_by<16>, %q : tile<ptr<f16>>
    %r1 = assume div_by<16>, %r : tile<ptr<f32>>
    %wp = make_tensor_view %p1, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf16, strides=[64,1]>
    %wq = make_tensor_view %q1, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf16, strides=[64,1]>
    %wr = make_tensor_view %r1, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %vp = make_partition_view %wp : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>
    %vq = make_partition_view %wq : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>
    %vr = make_partition_view %wr : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %x, %tx = load_view_tko weak %vp[%zero, %zero] : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %y, %ty = load_view_tko weak %vq[%zero, %zero] : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %a = negf %x : tile<64x64xf16>
    %b = negf %y : tile<64x64xf16>
    %s = mmaf %a, %b, %zeros : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
    %u = store_view_tko weak %s, %vr[%zero, %zero] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
  entry @of_few_rows(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %r: tile<ptr<f32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %zeros = constant <f32: 0.0> : tile<16x64xf32>
    %p1 = assume div_by<16>, %p : tile<ptr<f16>>
    %q1 = assume div_by<16>, %q : tile<ptr<f16>>
    %r1 = assume div_by<16>, %r : tile<ptr<f32>>
    %wp = make_tensor_view %p1, shape = [16, 64], strides = [64, 1] : tensor_view<16x64xf16, strides=[64,1]>
    %wq = make_tensor_view %q1, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf16, strides=[64,1]>
    %wr = make_tensor_view %r1, shape = [16, 64], strides = [64, 1] : tensor_view<16x64xf32, strides=[64,1]>
    %vp = make_partition_view %wp : partition_view<tile=(16x64), tensor_view<16x64xf16, strides=[64,1]>>
    %vq = make_partition_view %wq : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>
    %vr = make_partition_view %wr : partition_view<tile=(16x64), tensor_view<16x64xf32, strides=[64,1]>>
    %x, %tx = load_view_tko weak %vp[%zero, %zero] : partition_view<tile=(16x64), tensor_view<16x64xf16, strides=[64,1]>>, tile<i32> -> tile<16x64xf16>, token
    %y, %ty = load_view_tko weak %vq[%zero, %zero] : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %a = negf %x : tile<16x64xf16>
    %s = mmaf %a, %y, %zeros : tile<16x64xf16>, tile<64x64xf16>, tile<16x64xf32>
    %u = store_view_tko weak %s, %vr[%zero, %zero] : tile<16x64xf32>, partition_view<tile=(16x64), tensor_view<16x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
