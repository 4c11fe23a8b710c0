// RUN: tileiras-opt %s --passes=fuse-fma | filecheck %s

// CHECK-LABEL: entry @fused
// CHECK-NEXT:    %[[SUM:.*]] = fma %arg0, %arg1, %arg2 : tile<f32>
// CHECK-NEXT:    %[[MINUS:.*]] = negf %arg2 : tile<f32>
// CHECK-NEXT:    %[[DIFFERENCE:.*]] = fma %arg0, %[[SUM]], %[[MINUS]] rounding<zero> flush_to_zero : tile<f32>
// The product has two uses, or rounds otherwise than the sum.
// CHECK-NEXT:    %[[TWICE:.*]] = mulf %arg0, %[[DIFFERENCE]] : tile<f32>
// CHECK-NEXT:    %[[A:.*]] = addf %[[TWICE]], %arg1 : tile<f32>
// CHECK-NEXT:    %[[B:.*]] = addf %[[TWICE]], %arg2 : tile<f32>
// CHECK-NEXT:    %[[DOWN:.*]] = mulf %[[A]], %[[B]] rounding<negative_inf> : tile<f32>
// CHECK-NEXT:    %[[LAST:.*]] = addf %[[DOWN]], %arg1 : tile<f32>
cuda_tile.module @m {
  entry @fused(%a: tile<f32>, %b: tile<f32>, %c: tile<f32>) {
    %p = mulf %a, %b : tile<f32>
    %s = addf %c, %p : tile<f32>
    %q = mulf %a, %s rounding<zero> flush_to_zero : tile<f32>
    %d = subf %q, %c rounding<zero> flush_to_zero : tile<f32>
    %t = mulf %a, %d : tile<f32>
    %x = addf %t, %b : tile<f32>
    %y = addf %t, %c : tile<f32>
    %u = mulf %x, %y rounding<negative_inf> : tile<f32>
    %z = addf %u, %b : tile<f32>
    print_tko "%f", %z : tile<f32> -> token
    return
  }
}
