// What fills a ring goes to an agent of its own, with the control flow and the addresses that it needs; the rest stays. Ring and
// pipe stand above both. Where a copy goes by what the kernel has written, it stays in one agent.
// RUN: tileiras-opt %s --passes=materialize-schedule | filecheck %s

builtin.module {
  // CHECK: sym_name = "copy"
  // CHECK: [[RING:%[0-9a-z_]+]] = "nv_tileas.alloc_tensor"
  // CHECK-NEXT: [[PIPE:%[0-9a-z_]+]] = "nv_tileas.create_pipeline"() <{producers = #builtin.int<4>, consumers = #builtin.int<4>}>
  // CHECK-NEXT: "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<4>]}> ({
  // CHECK-NOT: producer
  // CHECK: "scf.for"
  // CHECK-NEXT: ^bb0([[I:%[0-9a-z_]+]]: i32, {{%[0-9a-z_]+}}: f32):
  // CHECK: "nv_tileas.consumer_wait"([[PIPE]])
  // CHECK: "nv_tileas.consumer_release"([[PIPE]])
  // CHECK: "nv_tileas.tiled_store"
  // CHECK: "nv_tileas.store"
  // CHECK: "nv_tileas.return"
  // CHECK: }, {
  // CHECK-NOT: consumer
  // CHECK: "scf.for"({{.*}}) ({
  // CHECK-NEXT: ^bb0([[I:%[0-9a-z_]+]]: i32):
  // CHECK: "nv_tileas.tiled_load"
  // CHECK: [[INDEX:%[0-9a-z_]+]] = "nv_tileas.producer_acquire"([[PIPE]])
  // CHECK: [[SLOT:%[0-9a-z_]+]] = "nv_tileas.extract_slice"([[RING]], [[INDEX]])
  // CHECK: "nv_tileas.store_shared"({{%[0-9a-z_]+}}, [[SLOT]])
  // CHECK: "nv_tileas.producer_commit"([[PIPE]])
  // CHECK-NEXT: "scf.yield"() : () -> ()
  // CHECK-NOT: store
  // CHECK: "nv_tileas.return"
  // CHECK: })
  // CHECK-NEXT: "nv_tileas.return"
  "nv_tileas.func"() <{sym_name = "copy", num_warps = #builtin.int<4>}> ({
  ^bb0(%from: !nv_tileaa.ptr<f32>, %to: !nv_tileaa.ptr<f32>, %n: i32, %x: f32):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %t = "nv_tileas.create_mem_token"() : () -> !nv_tileaa.mem_token
    %a = "nv_tileas.make_memref"(%from) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileaa.ptr<f32>) -> !nv_tileaa.memref<4096xf32, strides = [1]>
    %b = "nv_tileas.make_memref"(%to) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileaa.ptr<f32>) -> !nv_tileaa.memref<4096xf32, strides = [1]>
    %v = "nv_tileas.block_tile"(%a) : (!nv_tileaa.memref<4096xf32, strides = [1]>) -> !nv_tileaa.tiled_view<partition, tile = [512], !nv_tileaa.memref<4096xf32, strides = [1]>>
    %w = "nv_tileas.block_tile"(%b) : (!nv_tileaa.memref<4096xf32, strides = [1]>) -> !nv_tileaa.tiled_view<partition, tile = [512], !nv_tileaa.memref<4096xf32, strides = [1]>>
    %ring = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.ring<!nv_tileas.buffer<f32, #nv_tileas.shared<shape = [512], offset = [1, 2, 4, 8, 16, 32, 64, 128, 256]>>, #builtin.int<2>>
    %pipe = "nv_tileas.create_pipeline"() <{producers = #builtin.int<8>, consumers = #builtin.int<8>}> : () -> !nv_tileas.pipe<"mbarrier", #builtin.int<2>>
    %sum = "scf.for"(%zero, %n, %one, %x) ({
    ^bb0(%i: i32, %y: f32):
      %d, %l = "nv_tileas.tiled_load"(%v, %i, %t) <{mem_semantic = "weak", operandSegmentSizes = array<i32: 1, 1, 1>, check = [#builtin.int<0>], runs = [#builtin.int<1>], contiguous = #builtin.int<0>}> : (!nv_tileaa.tiled_view<partition, tile = [512], !nv_tileaa.memref<4096xf32, strides = [1]>>, i32, !nv_tileaa.mem_token) -> (tensor<512xf32, #nv_tileas.layout<shape = [512], reg = [[128], [256]], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>>, !nv_tileaa.mem_token)
      %p = "nv_tileas.producer_acquire"(%pipe) : (!nv_tileas.pipe<"mbarrier", #builtin.int<2>>) -> i32
      %slot = "nv_tileas.extract_slice"(%ring, %p) : (!nv_tileas.ring<!nv_tileas.buffer<f32, #nv_tileas.shared<shape = [512], offset = [1, 2, 4, 8, 16, 32, 64, 128, 256]>>, #builtin.int<2>>, i32) -> !nv_tileas.buffer<f32, #nv_tileas.shared<shape = [512], offset = [1, 2, 4, 8, 16, 32, 64, 128, 256]>>
      "nv_tileas.store_shared"(%d, %slot) : (tensor<512xf32, #nv_tileas.layout<shape = [512], reg = [[128], [256]], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>>, !nv_tileas.buffer<f32, #nv_tileas.shared<shape = [512], offset = [1, 2, 4, 8, 16, 32, 64, 128, 256]>>) -> ()
      "nv_tileas.producer_commit"(%pipe) : (!nv_tileas.pipe<"mbarrier", #builtin.int<2>>) -> ()
      %c = "nv_tileas.consumer_wait"(%pipe) : (!nv_tileas.pipe<"mbarrier", #builtin.int<2>>) -> i32
      %full = "nv_tileas.extract_slice"(%ring, %c) : (!nv_tileas.ring<!nv_tileas.buffer<f32, #nv_tileas.shared<shape = [512], offset = [1, 2, 4, 8, 16, 32, 64, 128, 256]>>, #builtin.int<2>>, i32) -> !nv_tileas.buffer<f32, #nv_tileas.shared<shape = [512], offset = [1, 2, 4, 8, 16, 32, 64, 128, 256]>>
      %e = "nv_tileas.load_shared"(%full) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileas.buffer<f32, #nv_tileas.shared<shape = [512], offset = [1, 2, 4, 8, 16, 32, 64, 128, 256]>>) -> tensor<512xf32, #nv_tileas.layout<shape = [512], reg = [[128], [256]], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>>
      "nv_tileas.consumer_release"(%pipe) : (!nv_tileas.pipe<"mbarrier", #builtin.int<2>>) -> ()
      %s = "nv_tileas.tiled_store"(%e, %w, %i, %t) <{mem_semantic = "weak", operandSegmentSizes = array<i32: 1, 1, 1, 1>, check = [#builtin.int<0>], runs = [#builtin.int<1>], contiguous = #builtin.int<0>}> : (tensor<512xf32, #nv_tileas.layout<shape = [512], reg = [[128], [256]], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>>, !nv_tileaa.tiled_view<partition, tile = [512], !nv_tileaa.memref<4096xf32, strides = [1]>>, i32, !nv_tileaa.mem_token) -> !nv_tileaa.mem_token
      %z = "arith.addf"(%y, %x) <{rounding = "nearest_even"}> : (f32, f32) -> f32
      "scf.yield"(%z) : (f32) -> ()
    }) : (i32, i32, i32, f32) -> f32
    %u = "nv_tileas.store"(%to, %sum, %t) <{mem_semantic = "weak", operandSegmentSizes = array<i32: 1, 1, 0, 1>}> : (!nv_tileaa.ptr<f32>, f32, !nv_tileaa.mem_token) -> !nv_tileaa.mem_token
    "nv_tileas.return"() : () -> ()
  }) : () -> ()
}
