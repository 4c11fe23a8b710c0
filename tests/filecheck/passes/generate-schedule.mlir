// A loop that loads for a product: stage and order on its ops, the depth of its ring on its loads. A loop without loads for
// buffers gets nothing, and so does everything before sm_80.
// RUN: tileiras-opt %s --to=nv_tileaa -o %t.aa
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,choose-atoms,assign-load-store-layouts,stage-operands --gpu-name=sm_80 -o %t.as
// RUN: tileiras-opt %t.as --passes=generate-schedule --gpu-name=sm_80 | filecheck %s
// RUN: tileiras-opt %t.as --passes=generate-schedule --gpu-name=sm_75 | filecheck %s --check-prefix=TURING
// RUN: tileiras-opt %t.as --passes=generate-schedule --gpu-name=sm_80 --print-schedule -o %t.out 2>&1 | filecheck %s --check-prefix=CHART
// RUN: tileiras-opt %t.as --pass-pipeline='builtin.module(generate-schedule{num-stages=2})' --gpu-name=sm_80 | filecheck %s --check-prefix=TWO
// RUN: tileiras-opt %t.as --pass-pipeline='builtin.module(generate-schedule{pipeline-strategy=none})' --gpu-name=sm_80 | filecheck %s --check-prefix=TURING
// RUN: tileiras-opt %t.as --pass-pipeline='builtin.module(generate-schedule{max-constraint-iterations=0})' --gpu-name=sm_80 | filecheck %s --check-prefix=SERIAL

// RUN: not tileiras-opt %t.as --pass-pipeline='builtin.module(generate-schedule{num-stages=many})' 2>&1 | filecheck %s --check-prefix=MANY
// RUN: not tileiras-opt %t.as --pass-pipeline='builtin.module(generate-schedule{pipeline-strategy=fast})' 2>&1 | filecheck %s --check-prefix=FAST

// MANY: option 'num-stages' takes a number from 0 to 64, not 'many'
// FAST: unknown pipeline strategy 'fast'; known: none, unspecialize, warp-specialize
// CHECK: "scf.for"
// CHECK: "nv_tileas.tiled_load"{{.*}}nv_tile.aws.stage = 0 : i32, nv_tile.aws.order = {{[0-9]+}} : i32, nv_tile.aws.depth = {{[2-9]}} : i32
// CHECK: "nv_tileas.tiled_load"{{.*}}nv_tile.aws.stage = 0 : i32, nv_tile.aws.order = {{[0-9]+}} : i32, nv_tile.aws.depth = {{[2-9]}} : i32
// CHECK: "nv_tileas.dot"{{.*}}nv_tile.aws.stage = {{[1-9]}} : i32, nv_tile.aws.order
// CHECK: "scf.for"
// CHECK-NOT: nv_tile.aws
// TURING-NOT: nv_tile.aws
// CHART: product: interval {{[0-9]+}} (bound by {{[a-z]+}}), {{[2-9]}} stages, 7 ops, ahead
// CHART: tensor {{.*}}|
// CHART: nv_tileas.dot  stage {{[1-9]}} order {{[0-9]}} start {{[0-9]+}} cycles 128 latency
// CHART: ring: {{[0-9]+}} stages (a stage is there after
// TWO: nv_tile.aws.depth = 2 : i32
// TWO: nv_tile.aws.depth = 2 : i32
// SERIAL: "nv_tileas.dot"{{.*}}nv_tile.aws.stage = 0 : i32, nv_tile.aws.order = 6 : i32
cuda_tile.module @m {
  entry @product(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %r: tile<ptr<f32>>, %n: tile<i32>) {
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %av = make_tensor_view %p, shape = [64, %n], strides = [64, 1] : tile<i32> -> tensor_view<64x?xf16, strides=[64,1]>
    %bv = make_tensor_view %q, shape = [%n, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %cv = make_tensor_view %r, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %ap = make_partition_view %av : partition_view<tile=(64x32), tensor_view<64x?xf16, strides=[64,1]>>
    %bp = make_partition_view %bv : partition_view<tile=(32x64), tensor_view<?x64xf16, strides=[64,1]>>
    %cp = make_partition_view %cv : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %zero = constant <f32: 0.0> : tile<64x64xf32>
    %sum = for %i in (%c0 to %n, step %c1) : tile<i32> iter_values(%acc = %zero) -> (tile<64x64xf32>) {
      %a, %ta = load_view_tko weak %ap[%c0, %i] : partition_view<tile=(64x32), tensor_view<64x?xf16, strides=[64,1]>>, tile<i32> -> tile<64x32xf16>, token
      %b, %tb = load_view_tko weak %bp[%i, %c0] : partition_view<tile=(32x64), tensor_view<?x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
      %d = mmaf %a, %b, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      continue %d : tile<64x64xf32>
    }
    %more = for %i in (%c0 to %n, step %c1) : tile<i32> iter_values(%acc = %sum) -> (tile<64x64xf32>) {
      %d = addf %acc, %acc rounding<nearest_even> : tile<64x64xf32>
      continue %d : tile<64x64xf32>
    }
    %t = store_view_tko weak %more, %cp[%c0, %c0] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
