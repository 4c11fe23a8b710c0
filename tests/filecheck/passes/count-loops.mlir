// A loop that goes on while a counter is below a limit, as programs write `while`, counts; the counter behind it is the greater of
// its first value and the limit. One by steps of two may wrap around; unless the limit is known to be far from the largest number.
// One that ends elsewhere, too, stays a loop, and so does one whose limit changes.
// RUN: tileiras-opt %s --passes=convert-cudatile-to-tileaa,simplify,hoist-invariants,count-loops --gpu-name=sm_90 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileaa -O0 --gpu-name=sm_90 | filecheck %s --check-prefix=PLAIN

// PLAIN-NOT: scf.for
// CHECK-LABEL: sym_name = "below"
// CHECK: [[SUM:%[0-9]+]] = "scf.for"([[FIRST:%[0-9]+]], [[LIMIT:%[0-9]+]], %{{[0-9]+}}, %{{[0-9]+}})
// CHECK-NOT: scf.if
// CHECK: [[END:%[0-9]+]] = "arith.maxsi"([[FIRST]], [[LIMIT]])
// CHECK: "arith.addi"([[SUM]], [[END]])
// CHECK-LABEL: sym_name = "above"
// CHECK: "scf.for"
// CHECK-LABEL: sym_name = "by_twos"
// CHECK-NOT: scf.for
// CHECK-LABEL: sym_name = "by_twos_to_a_known_limit"
// CHECK: "scf.for"
// CHECK-LABEL: sym_name = "by_twos_and_told"
// CHECK-NOT: scf.for
// CHECK-LABEL: sym_name = "two_ways_out"
// CHECK-NOT: scf.for
// CHECK-LABEL: sym_name = "changing"
// CHECK-NOT: scf.for
cuda_tile.module @m {
  entry @below(%q: tile<ptr<i32>>, %first: tile<i32>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %s, %e = loop iter_values(%sum = %zero, %i = %first) : tile<i32>, tile<i32> -> tile<i32>, tile<i32> {
      %c = cmpi less_than %i, %n, signed : tile<i32> -> tile<i1>
      if %c {
      } else {
        break %sum, %i : tile<i32>, tile<i32>
      }
      %m = muli %i, %i : tile<i32>
      %t = addi %sum, %m : tile<i32>
      %j = addi %i, %one : tile<i32>
      continue %t, %j : tile<i32>, tile<i32>
    }
    %r = addi %s, %e : tile<i32>
    %k = store_ptr_tko weak %q, %r : tile<ptr<i32>>, tile<i32> -> token
    return
  }
  entry @above(%q: tile<ptr<i32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %s = loop iter_values(%sum = %zero, %i = %zero) : tile<i32>, tile<i32> -> tile<i32> {
      %c = cmpi less_than_or_equal %n, %i, signed : tile<i32> -> tile<i1>
      if %c {
        break %sum : tile<i32>
      }
      %t = addi %sum, %sum : tile<i32>
      %j = addi %one, %i : tile<i32>
      continue %t, %j : tile<i32>, tile<i32>
    }
    %k = store_ptr_tko weak %q, %s : tile<ptr<i32>>, tile<i32> -> token
    return
  }
  entry @by_twos(%q: tile<ptr<i32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %s = loop iter_values(%sum = %zero, %i = %zero) : tile<i32>, tile<i32> -> tile<i32> {
      %c = cmpi less_than %i, %n, signed : tile<i32> -> tile<i1>
      if %c {
      } else {
        break %sum : tile<i32>
      }
      %t = addi %sum, %i : tile<i32>
      %j = addi %i, %two : tile<i32>
      continue %t, %j : tile<i32>, tile<i32>
    }
    %k = store_ptr_tko weak %q, %s : tile<ptr<i32>>, tile<i32> -> token
    return
  }
  entry @by_twos_to_a_known_limit(%q: tile<ptr<i32>>, %n0: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %n = assume bounded<0, 65536>, %n0 : tile<i32>
    %s = loop iter_values(%sum = %zero, %i = %zero) : tile<i32>, tile<i32> -> tile<i32> {
      %c = cmpi less_than %i, %n, signed : tile<i32> -> tile<i1>
      if %c {
      } else {
        break %sum : tile<i32>
      }
      %t = addi %sum, %i : tile<i32>
      %j = addi %i, %two : tile<i32>
      continue %t, %j : tile<i32>, tile<i32>
    }
    %k = store_ptr_tko weak %q, %s : tile<ptr<i32>>, tile<i32> -> token
    return
  }
  entry @by_twos_and_told(%q: tile<ptr<i32>>, %n0: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %n = assume bounded<0, 65536>, %n0 : tile<i32>
    %s = loop iter_values(%sum = %zero, %i = %zero) : tile<i32>, tile<i32> -> tile<i32> {
      %c = cmpi less_than %i, %n, signed : tile<i32> -> tile<i1>
      if %c {
      } else {
        break %i : tile<i32>
      }
      %t = addi %sum, %i : tile<i32>
      %j = addi %i, %two : tile<i32>
      continue %t, %j : tile<i32>, tile<i32>
    }
    %k = store_ptr_tko weak %q, %s : tile<ptr<i32>>, tile<i32> -> token
    return
  }
  entry @two_ways_out(%q: tile<ptr<i32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %s = loop iter_values(%sum = %zero, %i = %zero) : tile<i32>, tile<i32> -> tile<i32> {
      %c = cmpi less_than %i, %n, signed : tile<i32> -> tile<i1>
      if %c {
      } else {
        break %sum : tile<i32>
      }
      %t = addi %sum, %i : tile<i32>
      %d = cmpi greater_than %t, %n, signed : tile<i32> -> tile<i1>
      if %d {
        break %t : tile<i32>
      }
      %j = addi %i, %one : tile<i32>
      continue %t, %j : tile<i32>, tile<i32>
    }
    %k = store_ptr_tko weak %q, %s : tile<ptr<i32>>, tile<i32> -> token
    return
  }
  entry @changing(%q: tile<ptr<i32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %s = loop iter_values(%m = %n, %i = %zero) : tile<i32>, tile<i32> -> tile<i32> {
      %c = cmpi less_than %i, %m, signed : tile<i32> -> tile<i1>
      if %c {
      } else {
        break %m : tile<i32>
      }
      %l = subi %m, %one : tile<i32>
      %j = addi %i, %one : tile<i32>
      continue %l, %j : tile<i32>, tile<i32>
    }
    %k = store_ptr_tko weak %q, %s : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
