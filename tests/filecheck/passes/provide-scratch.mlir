// A printed tile lies in a buffer; a scan over several warps gets one for their totals.
// RUN: tileiras-opt %s --to=nv_tileas -O0 --gpu-name=sm_80 | filecheck %s

// CHECK: [[S:%[0-9]+]] = "nv_tileas.alloc_tensor"()
// CHECK-NEXT: [[Y:%[0-9]+]] = "nv_tileas.scan"(%{{[0-9]+}}, [[S]])
// CHECK: [[B:%[0-9]+]] = "nv_tileas.alloc_tensor"()
// CHECK: "nv_tileas.store_shared"([[Y]], [[B]])
// CHECK: "nv_tileas.barrier"()
// CHECK-NEXT: "nv_tileas.print"([[B]])
cuda_tile.module @m {
  entry @sums(%p: tile<ptr<f32>>) {
    %a = iota : tile<512xi32>
    %s = scan %a dim=0 reverse=false identities=[0 : i32] : tile<512xi32> -> tile<512xi32>
    (%x: tile<i32>, %y: tile<i32>) {
      %z = addi %x, %y : tile<i32>
      yield %z : tile<i32>
    }
    print_tko "%d", %s : tile<512xi32> -> token
    return
  }
}
