// Tiles become tensors, rank-0 tiles bare scalars, views memrefs, tokens memory tokens.
// RUN: tileiras-opt %s --passes=convert-cudatile-to-tileaa | filecheck %s

cuda_tile.module @m {
  // CHECK: "nv_tileaa.func"() <{sym_name = "copy"{{.*}}}> ({
  // CHECK-NEXT: ^bb0(%[[P:[0-9]+]]: !nv_tileaa.ptr<f32>, %[[N:[0-9]+]]: i32):
  entry @copy(%p: tile<ptr<f32>>, %n: tile<i32>) {
    // CHECK-NEXT: %[[T:[0-9]+]] = "nv_tileaa.create_mem_token"() : () -> !nv_tileaa.mem_token
    %t = make_token : token
    // CHECK-NEXT: %[[M:[0-9]+]] = "nv_tileaa.make_memref"(%[[P]], %[[N]])
    // CHECK-SAME: -> !nv_tileaa.memref<?xf32, strides = [1]>
    %w = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    // CHECK-NEXT: %[[X:[0-9]+]], %{{[0-9]+}}, %{{[0-9]+}} = "nv_tileaa.get_program_id"()
    %x, %y, %z = get_tile_block_id : tile<i32>
    // CHECK-NEXT: %[[V:[0-9]+]] = "nv_tileaa.block_tile"(%[[M]])
    %v = make_partition_view %w : partition_view<tile=(64), tensor_view<?xf32, strides=[1]>>
    // CHECK-NEXT: %[[D:[0-9]+]], %[[L:[0-9]+]] = "nv_tileaa.tiled_load"(%[[V]], %[[X]], %[[T]])
    // CHECK-SAME: -> (tensor<64xf32>, !nv_tileaa.mem_token)
    %d, %l = load_view_tko weak %v[%x] token = %t : partition_view<tile=(64), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<64xf32>, token
    // CHECK-NEXT: %[[S:[0-9]+]] = "arith.addf"(%[[D]], %[[D]]) <{rounding = "nearest_even"}>
    %s = addf %d, %d : tile<64xf32>
    // CHECK-NEXT: "nv_tileaa.tiled_store"(%[[S]], %[[V]], %[[X]], %[[L]])
    %o = store_view_tko weak %s, %v[%x] token = %l : tile<64xf32>, partition_view<tile=(64), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
    // CHECK-NEXT: "nv_tileaa.return"()
    return
  }
  // A stride along one element leads nowhere: it becomes 16 bytes, which tensor maps can have; a matrix's column keeps its own 1.
  // CHECK: "nv_tileaa.func"() <{sym_name = "columns"{{.*}}}> ({
  // CHECK-NEXT: ^bb0(%[[P:[0-9]+]]: !nv_tileaa.ptr<f16>, %[[N:[0-9]+]]: i32, %[[S:[0-9]+]]: i32):
  entry @columns(%p: tile<ptr<f16>>, %n: tile<i32>, %s: tile<i32>) {
    // CHECK-NEXT: "nv_tileaa.make_memref"(%[[P]], %[[N]]) {{.*}} -> !nv_tileaa.memref<?x1xf16, strides = [1, 8]>
    %a = make_tensor_view %p, shape = [%n, 1], strides = [1, %s] : tile<i32> -> tensor_view<?x1xf16, strides=[1,?]>
    // CHECK-NEXT: "nv_tileaa.make_memref"(%[[P]], %[[N]]) {{.*}} -> !nv_tileaa.memref<1x?xf16, strides = [8, 1]>
    %b = make_tensor_view %p, shape = [1, %n], strides = [1, 1] : tile<i32> -> tensor_view<1x?xf16, strides=[1,1]>
    // CHECK-NEXT: "nv_tileaa.make_memref"(%[[P]], %[[N]], %[[S]]) {{.*}} -> !nv_tileaa.memref<?x1xf16, strides = [?, 1]>
    %c = make_tensor_view %p, shape = [%n, 1], strides = [%s, 1] : tile<i32> -> tensor_view<?x1xf16, strides=[?,1]>
    return
  }
}
