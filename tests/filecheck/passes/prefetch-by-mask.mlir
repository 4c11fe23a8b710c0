// What pointers gather in a loop without products is asked for an iteration ahead under its mask and that of whether there is one more
// iteration: no branch, where ways of which would join nobody waits for what was loaded.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --print-ir-after=prefetch-to-registers -o %t.as 2> %t.ir
// RUN: filecheck %s --input-file=%t.ir

// CHECK: IR dump after prefetch-to-registers
// CHECK: "scf.for"
// CHECK-NOT: "scf.if"
// CHECK: [[MORE:%[0-9]+]] = "arith.cmpi"
// CHECK: [[MASK:%[0-9]+]] = "arith.andi"
// CHECK-NEXT: [[NEXT:%[0-9]+]], [[TOKEN:%[0-9]+]] = "nv_tileas.load"(%{{[0-9]+}}, [[MASK]],
// CHECK: "nv_tileas.store"
// CHECK: "scf.yield"({{.*}}[[NEXT]], [[TOKEN]])
cuda_tile.module @m {
  entry @counted(%p: tile<ptr<i32>>, %q: tile<ptr<i32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %ones = constant <i32: 1> : tile<1xi32>
    %none = constant <i32: 0> : tile<1xi32>
    %b = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
    %c = reshape %q : tile<ptr<i32>> -> tile<1xptr<i32>>
    %limit = reshape %n : tile<i32> -> tile<1xi32>
    %last = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%k = %t) -> (token) {
      %at = reshape %i : tile<i32> -> tile<1xi32>
      %inside = cmpi less_than %at, %limit, unsigned : tile<1xi32> -> tile<1xi1>
      %f = offset %b, %at : tile<1xptr<i32>>, tile<1xi32> -> tile<1xptr<i32>>
      %e, %k0 = load_ptr_tko weak %f, %inside, %none token=%t : tile<1xptr<i32>>, tile<1xi1>, tile<1xi32> -> tile<1xi32>, token
      %g = offset %c, %e : tile<1xptr<i32>>, tile<1xi32> -> tile<1xptr<i32>>
      %old, %k1 = load_ptr_tko weak %g token=%k : tile<1xptr<i32>> -> tile<1xi32>, token
      %new = addi %old, %ones : tile<1xi32>
      %k2 = store_ptr_tko weak %g, %new token=%k1 : tile<1xptr<i32>>, tile<1xi32> -> token
      continue %k2 : token
    }
    return
  }
}
