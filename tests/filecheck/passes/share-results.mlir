// An atomic on a scalar pointer is made by the first thread; the others get the old value through a buffer.
// RUN: tileiras-opt %s --to=nv_tileas -O0 --gpu-name=sm_80 | filecheck %s

// CHECK: [[O:%[0-9]+]], %{{[0-9]+}} = "nv_tileas.atomic_rmw"({{.*}}owners
// CHECK-NEXT: [[B:%[0-9]+]] = "nv_tileas.alloc_tensor"()
// CHECK-NEXT: "nv_tileas.store_shared"([[O]], [[B]]) <{owners}>
// CHECK-NEXT: "nv_tileas.barrier"()
// CHECK-NEXT: "nv_tileas.load_shared"([[B]])
cuda_tile.module @m {
  entry @counts(%p: tile<ptr<i32>>) {
    %one = constant <i32: 1> : tile<i32>
    %old, %t = atomic_rmw_tko relaxed device %p, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    print_tko "%d", %old : tile<i32> -> token
    return
  }
}
