// A slice that is chosen at run time goes through a buffer of one slice: only its elements are written.
// RUN: tileiras-opt %s --to=nv_tileas -O0 --gpu-name=sm_80 | filecheck %s

// CHECK: [[N:%[0-9]+]] = "arith.andi"
// CHECK: [[B:%[0-9]+]] = "nv_tileas.alloc_tensor"()
// CHECK-NEXT: "nv_tileas.store_shared"(%{{[0-9]+}}, [[B]], [[N]]) <{rounds = [#builtin.int<16>, #builtin.int<32>], round = #builtin.int<0>}>
// CHECK-NEXT: "nv_tileas.barrier"()
// CHECK-NEXT: "nv_tileas.load_shared"([[B]])
cuda_tile.module @m {
  entry @slices(%p: tile<ptr<f32>>) {
    %a = iota : tile<64xi32>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %s = extract %a[%x] : tile<64xi32> -> tile<16xi32>
    print_tko "%d", %s : tile<16xi32> -> token
    return
  }
}
