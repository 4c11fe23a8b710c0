// What is loaded behind a flag that another block sets stays behind it: the load agent wouldn't wait for the flag.
// RUN: tileiras-opt %s --passes=materialize-schedule | filecheck %s

// CHECK: sym_name = "copy"
// CHECK-NOT: agent_switch
// CHECK: "nv_tileas.load"({{.*}}mem_semantic = "acquire"
// CHECK-NOT: agent_switch
// CHECK: "nv_tileas.producer_commit"
// CHECK: "nv_tileas.consumer_wait"
builtin.module {
  "nv_tileas.func"() <{sym_name = "copy", num_warps = #builtin.int<4>}> ({
  ^bb0(%from: !nv_tileaa.ptr<f32>, %to: !nv_tileaa.ptr<f32>, %n: i32, %x: f32):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %t = "nv_tileas.create_mem_token"() : () -> !nv_tileaa.mem_token
    %flag, %seen = "nv_tileas.load"(%to, %t) <{mem_semantic = "acquire", mem_scope = "device", operandSegmentSizes = array<i32: 1, 0, 0, 1>}> : (!nv_tileaa.ptr<f32>, !nv_tileaa.mem_token) -> (f32, !nv_tileaa.mem_token)
    %a = "nv_tileas.make_memref"(%from) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileaa.ptr<f32>) -> !nv_tileaa.memref<4096xf32, strides = [1]>
    %b = "nv_tileas.make_memref"(%to) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!nv_tileaa.ptr<f32>) -> !nv_tileaa.memref<4096xf32, strides = [1]>
    %v = "nv_tileas.block_tile"(%a) : (!nv_tileaa.memref<4096xf32, strides = [1]>) -> !nv_tileaa.tiled_view<partition, tile = [512], !nv_tileaa.memref<4096xf32, strides = [1]>>
    %w = "nv_tileas.block_tile"(%b) : (!nv_tileaa.memref<4096xf32, strides = [1]>) -> !nv_tileaa.tiled_view<partition, tile = [512], !nv_tileaa.memref<4096xf32, strides = [1]>>
    %ring = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.ring<!nv_tileas.buffer<f32, #nv_tileas.shared<shape = [512], offset = [1, 2, 4, 8, 16, 32, 64, 128, 256]>>, #builtin.int<2>>
    %pipe = "nv_tileas.create_pipeline"() <{producers = #builtin.int<8>, consumers = #builtin.int<8>}> : () -> !nv_tileas.pipe<"mbarrier", #builtin.int<2>>
    %sum = "scf.for"(%zero, %n, %one, %x) ({
    ^bb0(%i: i32, %y: f32):
      %d, %l = "nv_tileas.tiled_load"(%v, %i, %seen) <{mem_semantic = "weak", operandSegmentSizes = array<i32: 1, 1, 1>, check = [#builtin.int<0>], runs = [#builtin.int<1>], contiguous = #builtin.int<0>}> : (!nv_tileaa.tiled_view<partition, tile = [512], !nv_tileaa.memref<4096xf32, strides = [1]>>, i32, !nv_tileaa.mem_token) -> (tensor<512xf32, #nv_tileas.layout<shape = [512], reg = [[128], [256]], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>>, !nv_tileaa.mem_token)
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
