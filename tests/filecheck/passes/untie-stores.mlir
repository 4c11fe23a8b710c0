// A loop's store that waits only for what it stored itself before needn't: of a partition each element is the same thread's every
// time. One that another store, or a load, comes before in the same array does wait, and so does one to tiles that overlap, by their
// view or by the array's strides. Where only the launch knows the strides, order-memory has the threads meet if tiles overlap.
// RUN: tileiras-opt %s --to=nv_tileaa -O0 -o %t.aa
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,untie-stores --gpu-name=sm_80 --verify-each | filecheck %s
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,untie-stores,order-memory --gpu-name=sm_80 --verify-each | filecheck %s --check-prefix=MEET

// CHECK: sym_name = "alone"
// CHECK: "scf.for"
// CHECK: [[FREE:%[0-9]+]] = "nv_tileas.create_mem_token"()
// CHECK-NEXT: "nv_tileas.tiled_store"({{.*}}, [[FREE]])
// CHECK: sym_name = "read_too"
// CHECK: "scf.for"
// CHECK-NOT: create_mem_token
// CHECK: "nv_tileas.tiled_store"
// CHECK: sym_name = "overlapping"
// CHECK: "scf.for"
// CHECK-NOT: create_mem_token
// CHECK: "nv_tileas.tiled_store"
// CHECK: sym_name = "equal_strides"
// CHECK: "scf.for"
// CHECK-NOT: create_mem_token
// CHECK: "nv_tileas.tiled_store"
// CHECK: sym_name = "strides_of_the_launch"
// CHECK: "scf.for"
// CHECK: [[FREE:%[0-9]+]] = "nv_tileas.create_mem_token"()
// CHECK-NEXT: "nv_tileas.tiled_store"({{.*}}, [[FREE]]) {{.*}}unless_apart

// MEET: sym_name = "alone"
// MEET-NOT: nv_tileas.barrier
// MEET: sym_name = "read_too"
// MEET: sym_name = "strides_of_the_launch"
// MEET: [[ROWS:%[0-9]+]] = "arith.cmpi"({{.*}}) <{predicate = "slt"}>
// MEET: "scf.for"
// MEET: "scf.if"(%{{[0-9]+}}) ({
// MEET-NEXT: "nv_tileas.barrier"()
// MEET: "nv_tileas.tiled_store"
cuda_tile.module @m {
  entry @alone(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %x = constant <f32: 1.0> : tile<128xf32>
    %w = make_tensor_view %p, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(128), tensor_view<4096xf32, strides=[1]>>
    %end = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%u = %t) -> (token) {
      %z = store_view_tko weak %x, %v[%i] token = %u : tile<128xf32>, partition_view<tile=(128), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
      continue %z : token
    }
    return
  }
  entry @read_too(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %w = make_tensor_view %p, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(128), tensor_view<4096xf32, strides=[1]>>
    %end = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%u = %t) -> (token) {
      %x, %r = load_view_tko weak %v[%zero] token = %u : partition_view<tile=(128), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> tile<128xf32>, token
      %z = store_view_tko weak %x, %v[%i] token = %r : tile<128xf32>, partition_view<tile=(128), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
      continue %z : token
    }
    return
  }
  entry @overlapping(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %x = constant <f32: 1.0> : tile<128xf32>
    %w = make_tensor_view %p, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %v = make_strided_view %w : strided_view<tile=(128), traversal_strides=[64], tensor_view<4096xf32, strides=[1]>>
    %end = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%u = %t) -> (token) {
      %z = store_view_tko weak %x, %v[%i] token = %u : tile<128xf32>, strided_view<tile=(128), traversal_strides=[64], tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
      continue %z : token
    }
    return
  }
  entry @equal_strides(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %x = constant <f32: 1.0> : tile<16x16xf32>
    %w = make_tensor_view %p, shape = [%n, %n], strides = [1, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[1,1]>
    %v = make_partition_view %w : partition_view<tile=(16x16), tensor_view<?x?xf32, strides=[1,1]>>
    %end = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%u = %t) -> (token) {
      %z = store_view_tko weak %x, %v[%i, %i] token = %u : tile<16x16xf32>, partition_view<tile=(16x16), tensor_view<?x?xf32, strides=[1,1]>>, tile<i32> -> token
      continue %z : token
    }
    return
  }
  entry @strides_of_the_launch(%p: tile<ptr<f32>>, %n: tile<i32>, %s: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %x = constant <f32: 1.0> : tile<16x16xf32>
    %w = make_tensor_view %p, shape = [%n, %n], strides = [%s, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %v = make_partition_view %w : partition_view<tile=(16x16), tensor_view<?x?xf32, strides=[?,1]>>
    %end = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%u = %t) -> (token) {
      %z = store_view_tko weak %x, %v[%i, %i] token = %u : tile<16x16xf32>, partition_view<tile=(16x16), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
      continue %z : token
    }
    return
  }
}
