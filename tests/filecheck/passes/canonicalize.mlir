// RUN: tileiras-opt %s --canonicalize --split-input-file | filecheck %s
// RUN: tileiras-opt %s --passes=canonicalize --split-input-file | filecheck %s

// Two branches on one condition become one; values known before it become selects; constants stand once, in front.
// CHECK-LABEL: entry @merged
// CHECK-NEXT:    %[[TWO:.*]] = constant <i32: 2> : tile<i32>
// CHECK-NEXT:    %[[SELECT:.*]] = select %arg0, %arg1, %[[TWO]] : tile<i1>, tile<i32>
// CHECK-NEXT:    if %arg0 {
// CHECK-NEXT:      %{{.*}} = print_tko "then %d", %[[SELECT]] : tile<i32> -> token
// CHECK-NEXT:    } else {
// CHECK-NEXT:      %{{.*}} = print_tko "else %d", %[[SELECT]] : tile<i32> -> token
// CHECK-NEXT:    }
// CHECK-NEXT:    return
cuda_tile.module @m {
  entry @merged(%c: tile<i1>, %x: tile<i32>) {
    %two = constant <i32: 2> : tile<i32>
    %v = if %c -> (tile<i32>) {
      yield %x : tile<i32>
    } else {
      %again = constant <i32: 2> : tile<i32>
      yield %two : tile<i32>
    }
    if %c {
      print_tko "then %d", %v : tile<i32> -> token
    } else {
      print_tko "else %d", %v : tile<i32> -> token
    }
    return
  }
}

// -----

// What both branches leave behind is never reached.
// CHECK-LABEL: entry @left
// CHECK-NEXT:    if %arg0 {
// CHECK-NEXT:      return
// CHECK-NEXT:    }
// CHECK-NEXT:    %{{.*}} = print_tko "else" -> token
// CHECK-NEXT:    return
// CHECK-NEXT:  }
cuda_tile.module @m {
  entry @left(%c: tile<i1>) {
    if %c {
      return
    } else {
      print_tko "else" -> token
      return
    }
    print_tko "never" -> token
    return
  }
}
