// A loop that streams a kilobyte an iteration to registers (its rows aren't aligned, so that no ring can take them): a round asks
// for four iterations' tiles, then computes with one after the other. What rounds leave is asked for at once, too, each tile of an
// array that has no elements where there isn't that iteration; where the array's extent is a constant it is done by the loop as it
// was, from where they end, with what they carry.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_80 -O3 --print-ir-after=unroll-streams -o %t.as 2> %t.ir
// RUN: filecheck %s --input-file=%t.ir
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_80 -O2 | filecheck %s --check-prefix=ONCE

// CHECK: IR dump after unroll-streams
// CHECK: [[FOUR:%[0-9]+]] = "arith.constant"() <{value = 4 : i32}>
// CHECK: [[LAST:%[0-9]+]] = "arith.divui"
// CHECK: [[ALL:%[0-9]+]] = "arith.addi"([[LAST]],
// CHECK: [[REST:%[0-9]+]] = "arith.remui"([[ALL]], [[FOUR]])
// CHECK: "arith.subi"([[ALL]], [[REST]])
// CHECK: [[NONE:%[0-9]+]] = "arith.cmpi"([[REST]], %{{[0-9]+}}) <{predicate = "eq"}>
// CHECK: [[WHOLE:%[0-9]+]] = "arith.select"([[NONE]],
// CHECK: [[END:%[0-9]+]] = "arith.select"(%{{[0-9]+}}, [[WHOLE]],
// CHECK: [[SUM:%[0-9]+]] = "scf.for"(%{{[0-9]+}}, [[END]],
// CHECK-NEXT: ^bb0([[I:%[0-9]+]]: i32, [[ACC:%[0-9]+]]: tensor<
// CHECK-NEXT: [[X:%[0-9]+]], %{{[0-9]+}} = "nv_tileas.tiled_load"(%{{[0-9]+}}, [[I]],
// CHECK-NEXT: [[I1:%[0-9]+]] = "arith.addi"([[I]],
// CHECK-NEXT: [[X1:%[0-9]+]], %{{[0-9]+}} = "nv_tileas.tiled_load"(%{{[0-9]+}}, [[I1]],
// CHECK-COUNT-2: "nv_tileas.tiled_load"
// CHECK-NEXT: [[ONE:%[0-9]+]] = "arith.addf"([[ACC]], [[X]])
// CHECK-NEXT: "arith.addf"([[ONE]], [[X1]])
// CHECK-COUNT-2: "arith.addf"
// CHECK: "scf.for"([[END]], %{{[0-9]+}}, %{{[0-9]+}}, [[SUM]])
// CHECK: "nv_tileas.tiled_load"
// CHECK-NOT: "nv_tileas.tiled_load"

// CHECK: sym_name = "sums_of_any"
// CHECK: [[BASE:%[0-9]+]] = "nv_tileas.make_memref"([[P:%[0-9]+]], [[N:%[0-9]+]])
// CHECK: [[ROUNDS:%[0-9]+]] = "scf.for"(
// CHECK-COUNT-4: "nv_tileas.tiled_load"
// CHECK: "scf.yield"
// CHECK: [[LEFT:%[0-9]+]] = "arith.cmpi"(%{{[0-9]+}}, %{{[0-9]+}}) <{predicate = "slt"}>
// CHECK: "scf.if"([[LEFT]])
// CHECK-NEXT: [[Y:%[0-9]+]], %{{[0-9]+}} = "nv_tileas.tiled_load"(
// CHECK: [[TWO:%[0-9]+]] = "arith.cmpi"(%{{[0-9]+}}, %{{[0-9]+}}) <{predicate = "ugt"}>
// CHECK: [[EXTENT:%[0-9]+]] = "arith.select"([[TWO]], [[N]],
// CHECK: [[ARRAY:%[0-9]+]] = "nv_tileas.make_memref"([[P]], [[EXTENT]])
// CHECK: [[VIEW:%[0-9]+]] = "nv_tileas.block_tile"([[ARRAY]])
// CHECK: [[Y1:%[0-9]+]], %{{[0-9]+}} = "nv_tileas.tiled_load"([[VIEW]], {{.*}}check = [#builtin.int<1>]
// CHECK: [[THREE:%[0-9]+]] = "arith.cmpi"(%{{[0-9]+}}, %{{[0-9]+}}) <{predicate = "ugt"}>
// CHECK: "nv_tileas.tiled_load"
// CHECK: [[ACC0:%[0-9]+]] = "arith.addf"([[ROUNDS]], [[Y]])
// CHECK: "scf.if"([[TWO]])
// CHECK-NEXT: [[ACC1:%[0-9]+]] = "arith.addf"([[ACC0]], [[Y1]])
// CHECK-NEXT: "scf.if"([[THREE]])
// CHECK-NOT: "nv_tileas.tiled_load"

// ONCE-NOT: arith.divui
cuda_tile.module @m {
  entry @sums(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<256xf32>
    %w = make_tensor_view %p, shape = [65535], strides = [1] : tensor_view<65535xf32, strides=[1]>
    %o = make_tensor_view %q, shape = [256], strides = [1] : tensor_view<256xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(256), tensor_view<65535xf32, strides=[1]>>
    %ov = make_partition_view %o : partition_view<tile=(256), tensor_view<256xf32, strides=[1]>>
    %sum = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<256xf32>) {
      %x, %tx = load_view_tko weak %v[%k] token = %t : partition_view<tile=(256), tensor_view<65535xf32, strides=[1]>>, tile<i32> -> tile<256xf32>, token
      %more = addf %acc, %x : tile<256xf32>
      continue %more : tile<256xf32>
    }
    %e = store_view_tko weak %sum, %ov[%zero] token = %t : tile<256xf32>, partition_view<tile=(256), tensor_view<256xf32, strides=[1]>>, tile<i32> -> token
    return
  }
  entry @sums_of_any(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>, %m: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<256xf32>
    %w = make_tensor_view %p, shape = [%m], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %o = make_tensor_view %q, shape = [256], strides = [1] : tensor_view<256xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(256), tensor_view<?xf32, strides=[1]>>
    %ov = make_partition_view %o : partition_view<tile=(256), tensor_view<256xf32, strides=[1]>>
    %sum = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<256xf32>) {
      %x, %tx = load_view_tko weak %v[%k] token = %t : partition_view<tile=(256), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<256xf32>, token
      %more = addf %acc, %x : tile<256xf32>
      continue %more : tile<256xf32>
    }
    %e = store_view_tko weak %sum, %ov[%zero] token = %t : tile<256xf32>, partition_view<tile=(256), tensor_view<256xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
