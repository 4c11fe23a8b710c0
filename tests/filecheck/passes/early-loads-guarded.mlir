// A load behind a branch is asked for before another load is waited for, though a loop stands between: ptxas moves none over a branch.
// One that needs what the loop gives stays behind it.
// RUN: tileiras-opt %s --to=nv_tileas -O3 --gpu-name=sm_100 | filecheck %s

// CHECK: [[MANY:%[0-9]+]], %{{[0-9]+}} = "nv_tileas.load"
// CHECK-NOT: ([[MANY]]
// CHECK: "scf.if"(
// CHECK-NEXT: "nv_tileas.load"
// CHECK-SAME: invariant
// CHECK: arith.muli"([[MANY]],
// CHECK: "scf.for"(
// CHECK: "nv_tileas.store"
// CHECK: "scf.if"(
// CHECK-NEXT: "nv_tileas.load"
// CHECK: "nv_tileas.store"
cuda_tile.module @m {
  entry @two_loops(%counts: tile<ptr<i32>>, %ids: tile<ptr<i32>>, %places: tile<ptr<i32>>, %out: tile<ptr<i32>>, %n: tile<i32>) {
    %t = make_token : token
    %x, %y, %z = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %pm = offset %counts, %x : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %many, %t0 = load_ptr_tko weak %pm token = %t : tile<ptr<i32>> -> tile<i32>, token
    %twice = muli %many, %many : tile<i32>
    %last, %t1 = for %i in (%zero to %twice, step %one) : tile<i32> iter_values(%l0 = %zero, %u0 = %t) -> (tile<i32>, token) {
      %po = offset %out, %i : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
      %u1 = store_ptr_tko weak %po, %x token = %u0 : tile<ptr<i32>>, tile<i32> -> token
      %l1 = xori %l0, %i : tile<i32>
      continue %l1, %u1 : tile<i32>, token
    }
    %some = cmpi less_than %zero, %n, signed : tile<i32> -> tile<i1>
    %pi = offset %ids, %x : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %id = if %some -> (tile<i32>) {
      %id1, %u1 = load_ptr_tko weak %pi token = %t : tile<ptr<i32>> -> tile<i32>, token
      yield %id1 : tile<i32>
    } else {
      yield %zero : tile<i32>
    }
    %pl = offset %ids, %last : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %other = cmpi less_than %zero, %x, signed : tile<i32> -> tile<i1>
    %il = if %other -> (tile<i32>) {
      %id1, %u1 = load_ptr_tko weak %pl token = %t : tile<ptr<i32>> -> tile<i32>, token
      yield %id1 : tile<i32>
    } else {
      yield %zero : tile<i32>
    }
    %pp = offset %places, %id : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %t2 = store_ptr_tko weak %pp, %il token = %t1 : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
