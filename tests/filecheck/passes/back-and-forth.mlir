// Three loops read the same tiles: the one that sums floating-point numbers runs from the first tile on, those beside it, of a maximum
// and of what is stored, from the last one back. So does a loop by pointers that counts by a tile's elements. A loop that reads other
// tiles stays as it is, and so do stores that wait for each other, and loops of small tiles.
// RUN: tileiras-opt %s --passes=convert-cudatile-to-tileaa,simplify,cse,back-and-forth,dce --gpu-name=sm_90 | filecheck %s
// RUN: sed 's/1024x/128x/g; s/(1024)/(128)/g' %s | tileiras-opt - --passes=convert-cudatile-to-tileaa,simplify,cse,back-and-forth,dce --gpu-name=sm_90 | filecheck %s --check-prefix=FORTH
// RUN: tileiras-opt %s --to=nv_tileaa -O0 --gpu-name=sm_90 | filecheck %s --check-prefix=FORTH

// FORTH-NOT: arith.subi
// CHECK-LABEL: sym_name = "views"
// CHECK: [[ONE:%[0-9]+]] = "arith.constant"() <{value = 1 : i32}>
// CHECK: [[LAST:%[0-9]+]] = "arith.subi"([[N:%[0-9]+]], [[ONE]])
// CHECK: "scf.for"({{%[0-9]+}}, [[N]], [[ONE]], {{%[0-9]+}}) ({
// CHECK-NEXT: ^bb0([[I:%[0-9]+]]: i32, {{.*}}):
// CHECK-NEXT: [[AT:%[0-9]+]] = "arith.subi"([[LAST]], [[I]])
// CHECK-NEXT: "nv_tileaa.tiled_load"([[VIEW:%[0-9]+]], [[AT]],
// CHECK-NEXT: "arith.maxf"
// CHECK: "scf.for"
// CHECK-NEXT: ^bb0([[I:%[0-9]+]]: i32, {{.*}}):
// CHECK-NEXT: "nv_tileaa.tiled_load"([[VIEW]], [[I]],
// CHECK: "scf.for"
// CHECK-NEXT: ^bb0([[I:%[0-9]+]]: i32):
// CHECK-NEXT: [[AT:%[0-9]+]] = "arith.subi"({{%[0-9]+}}, [[I]])
// CHECK-NEXT: "nv_tileaa.tiled_load"([[VIEW]], [[AT]],
// CHECK: "nv_tileaa.tiled_store"({{%[0-9]+}}, {{%[0-9]+}}, [[AT]],
// CHECK-LABEL: sym_name = "pointers"
// CHECK: "scf.for"
// CHECK-NOT: arith.subi
// CHECK: "arith.addf"
// CHECK: [[LAST:%[0-9]+]] = "arith.subi"
// CHECK: [[NUMBER:%[0-9]+]] = "arith.shrui"([[LAST]], {{%[0-9]+}})
// CHECK: [[FROM:%[0-9]+]] = "arith.muli"([[NUMBER]],
// CHECK: "scf.for"
// CHECK-NEXT: ^bb0([[I:%[0-9]+]]: i32):
// CHECK-NEXT: "arith.subi"([[FROM]], [[I]])
// CHECK-LABEL: sym_name = "others"
// CHECK-NOT: arith.subi
cuda_tile.module @m {
  entry @views(%p: tile<ptr<f32>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<1024xf32>
    %v0 = make_tensor_view %p, shape = [1048576], strides = [1] : tensor_view<1048576xf32, strides=[1]>
    %v1 = make_tensor_view %po, shape = [1048576], strides = [1] : tensor_view<1048576xf32, strides=[1]>
    %v = make_partition_view %v0 : partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>
    %o = make_partition_view %v1 : partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>
    %m = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%a = %none) -> (tile<1024xf32>) {
      %x, %u = load_view_tko weak %v[%i] token = %t : partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
      %b = maxf %a, %x : tile<1024xf32>
      continue %b : tile<1024xf32>
    }
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%a = %none) -> (tile<1024xf32>) {
      %x, %u = load_view_tko weak %v[%i] token = %t : partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
      %d = subf %x, %m rounding<nearest_even> : tile<1024xf32>
      %b = addf %a, %d rounding<nearest_even> : tile<1024xf32>
      continue %b : tile<1024xf32>
    }
    for %i in (%zero to %n, step %one) : tile<i32> {
      %x, %u = load_view_tko weak %v[%i] token = %t : partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
      %b = mulf %x, %s rounding<nearest_even> : tile<1024xf32>
      %w = store_view_tko weak %b, %o[%i] token = %t : tile<1024xf32>, partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>, tile<i32> -> token
      continue
    }
    return
  }
  entry @pointers(%p: tile<ptr<f32>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %step = constant <i32: 1024> : tile<i32>
    %none = constant <f32: 0.0> : tile<1024xf32>
    %lanes = iota : tile<1024xi32>
    %p1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %pp = broadcast %p1 : tile<1xptr<f32>> -> tile<1024xptr<f32>>
    %q1 = reshape %po : tile<ptr<f32>> -> tile<1xptr<f32>>
    %qq = broadcast %q1 : tile<1xptr<f32>> -> tile<1024xptr<f32>>
    %s = for %i in (%zero to %n, step %step) : tile<i32> iter_values(%a = %none) -> (tile<1024xf32>) {
      %i1 = reshape %i : tile<i32> -> tile<1xi32>
      %ii = broadcast %i1 : tile<1xi32> -> tile<1024xi32>
      %at = addi %ii, %lanes : tile<1024xi32>
      %f = offset %pp, %at : tile<1024xptr<f32>>, tile<1024xi32> -> tile<1024xptr<f32>>
      %x, %u = load_ptr_tko weak %f token = %t : tile<1024xptr<f32>> -> tile<1024xf32>, token
      %b = addf %a, %x rounding<nearest_even> : tile<1024xf32>
      continue %b : tile<1024xf32>
    }
    for %i in (%zero to %n, step %step) : tile<i32> {
      %i1 = reshape %i : tile<i32> -> tile<1xi32>
      %ii = broadcast %i1 : tile<1xi32> -> tile<1024xi32>
      %at = addi %ii, %lanes : tile<1024xi32>
      %f = offset %pp, %at : tile<1024xptr<f32>>, tile<1024xi32> -> tile<1024xptr<f32>>
      %x, %u = load_ptr_tko weak %f token = %t : tile<1024xptr<f32>> -> tile<1024xf32>, token
      %b = mulf %x, %s rounding<nearest_even> : tile<1024xf32>
      %g = offset %qq, %at : tile<1024xptr<f32>>, tile<1024xi32> -> tile<1024xptr<f32>>
      %w = store_ptr_tko weak %g, %b token = %t : tile<1024xptr<f32>>, tile<1024xf32> -> token
      continue
    }
    return
  }
  entry @others(%p: tile<ptr<f32>>, %pr: tile<ptr<f32>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<1024xf32>
    %v0 = make_tensor_view %p, shape = [1048576], strides = [1] : tensor_view<1048576xf32, strides=[1]>
    %v1 = make_tensor_view %po, shape = [1048576], strides = [1] : tensor_view<1048576xf32, strides=[1]>
    %v2 = make_tensor_view %pr, shape = [1048576], strides = [1] : tensor_view<1048576xf32, strides=[1]>
    %v = make_partition_view %v0 : partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>
    %o = make_partition_view %v1 : partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>
    %r = make_partition_view %v2 : partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%a = %none) -> (tile<1024xf32>) {
      %x, %u = load_view_tko weak %v[%i] token = %t : partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
      %b = addf %a, %x rounding<nearest_even> : tile<1024xf32>
      continue %b : tile<1024xf32>
    }
    for %i in (%zero to %n, step %one) : tile<i32> {
      %x, %u = load_view_tko weak %r[%i] token = %t : partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
      %b = mulf %x, %s rounding<nearest_even> : tile<1024xf32>
      %w = store_view_tko weak %b, %o[%i] token = %t : tile<1024xf32>, partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>, tile<i32> -> token
      continue
    }
    %e = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%k = %t) -> (token) {
      %x, %u = load_view_tko weak %v[%i] token = %t : partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
      %b = mulf %x, %s rounding<nearest_even> : tile<1024xf32>
      %w = store_view_tko weak %b, %o[%i] token = %k : tile<1024xf32>, partition_view<tile=(1024), tensor_view<1048576xf32, strides=[1]>>, tile<i32> -> token
      continue %w : token
    }
    return
  }
}
