// A loop of a few iterations that loads small tiles becomes these, with constants for its counter: negative ones too. What it
// carries goes from one to the next. A store to a tile that is another each time waits for none of the others, and what comes
// behind for all; where it is the same tile each waits for the one before.
// RUN: tileiras-opt %s --passes=unroll-loops --verify-each | filecheck %s

// CHECK: sym_name = "sums"
// CHECK-NOT: scf.for
// CHECK: [[AT:%[0-9a-z_]+]] = "nv_tileaa.addptr"(%p, [[FROM:%[0-9a-z_]+]])
// CHECK-NEXT: [[X:%[0-9a-z_]+]], %{{[0-9a-z_]+}} = "nv_tileaa.load"([[AT]])
// CHECK-NEXT: [[A:%[0-9a-z_]+]] = "arith.addi"({{%[0-9a-z_]+}}, [[X]])
// CHECK-NEXT: [[ONE:%[0-9a-z_]+]] = "arith.constant"() <{value = -1 : i32}>
// CHECK-NEXT: "nv_tileaa.addptr"({{%[0-9a-z_]+}}, [[ONE]])
// CHECK-NEXT: "nv_tileaa.load"
// CHECK-NEXT: [[B:%[0-9a-z_]+]] = "arith.addi"([[A]],
// CHECK-NEXT: [[TWO:%[0-9a-z_]+]] = "arith.constant"() <{value = 2 : i32}>
// CHECK-NEXT: "nv_tileaa.addptr"({{%[0-9a-z_]+}}, [[TWO]])
// CHECK-NEXT: "nv_tileaa.load"
// CHECK-NEXT: [[C:%[0-9a-z_]+]] = "arith.addi"([[B]],
// CHECK-NEXT: "nv_tileaa.store"({{%[0-9a-z_]+}}, [[C]])

// CHECK: sym_name = "stores"
// CHECK: [[T:%[0-9a-z_]+]] = "nv_tileaa.create_mem_token"
// CHECK: [[T0:%[0-9a-z_]+]] = "nv_tileaa.tiled_store"({{.*}}, [[T]])
// CHECK: [[T1:%[0-9a-z_]+]] = "nv_tileaa.tiled_store"({{.*}}, [[T]])
// CHECK-NEXT: [[ALL:%[0-9a-z_]+]] = "nv_tileaa.join_mem_token"([[T0]], [[T1]])
// CHECK: [[S0:%[0-9a-z_]+]] = "nv_tileaa.tiled_store"({{.*}}, [[ALL]])
// CHECK: "nv_tileaa.tiled_store"({{.*}}, [[S0]])

// Tiles that overlap, and rows of tiles that begin where only the launch knows, keep their order.
// CHECK: sym_name = "overlapping"
// CHECK: [[O0:%[0-9a-z_]+]] = "nv_tileaa.tiled_store"
// CHECK: "nv_tileaa.tiled_store"({{.*}}, [[O0]])
// CHECK: [[R0:%[0-9a-z_]+]] = "nv_tileaa.tiled_store"
// CHECK: "nv_tileaa.tiled_store"({{.*}}, [[R0]])

// Loops in a loop whose counter alone says how often they run are unrolled with it: here twice, once and never.
// CHECK: sym_name = "triangle"
// CHECK-NOT: scf.for
// CHECK: [[L0:%[0-9a-z_]+]], %{{[0-9a-z_]+}} = "nv_tileaa.load"
// CHECK-NEXT: [[N0:%[0-9a-z_]+]] = "arith.addi"({{%[0-9a-z_]+}}, [[L0]])
// CHECK: [[L1:%[0-9a-z_]+]], %{{[0-9a-z_]+}} = "nv_tileaa.load"
// CHECK-NEXT: [[N1:%[0-9a-z_]+]] = "arith.addi"([[N0]], [[L1]])
// CHECK: [[M0:%[0-9a-z_]+]] = "arith.muli"([[N1]],
// CHECK: [[L2:%[0-9a-z_]+]], %{{[0-9a-z_]+}} = "nv_tileaa.load"
// CHECK-NEXT: [[N2:%[0-9a-z_]+]] = "arith.addi"([[M0]], [[L2]])
// CHECK: [[M1:%[0-9a-z_]+]] = "arith.muli"([[N2]],
// CHECK-NOT: "nv_tileaa.load"
// CHECK: [[M2:%[0-9a-z_]+]] = "arith.muli"([[M1]],
// CHECK: "nv_tileaa.store"({{%[0-9a-z_]+}}, [[M2]])

// What runs more often, or loads nothing, or goes on from inside, stays; so does what loads more than a few registers; and a loop
// in another that runs more often in all, or as often as only the launch knows.
// CHECK: sym_name = "left"
// CHECK-COUNT-8: "scf.for"
builtin.module {
  "nv_tileaa.func"() <{sym_name = "sums"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %q: !nv_tileaa.ptr<i32>, %x: i32):
    %from = "arith.constant"() <{value = -4 : i32}> : () -> i32
    %to = "arith.constant"() <{value = 4 : i32}> : () -> i32
    %three = "arith.constant"() <{value = 3 : i32}> : () -> i32
    %r = "scf.for"(%from, %to, %three, %x) ({
    ^bb0(%i: i32, %c: i32):
      %at = "nv_tileaa.addptr"(%p, %i) : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.ptr<i32>
      %l, %t = "nv_tileaa.load"(%at) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>) -> (i32, !nv_tileaa.mem_token)
      %n = "arith.addi"(%c, %l) : (i32, i32) -> i32
      "scf.yield"(%n) : (i32) -> ()
    }) : (i32, i32, i32, i32) -> i32
    %u = "nv_tileaa.store"(%q, %r) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "stores"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %x: i32):
    %m = "nv_tileaa.make_memref"(%p, %x) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.memref<?xi32, strides = [1]>
    %v = "nv_tileaa.block_tile"(%m) : (!nv_tileaa.memref<?xi32, strides = [1]>) -> !nv_tileaa.tiled_view<partition, tile = [32], !nv_tileaa.memref<?xi32, strides = [1]>>
    %t = "nv_tileaa.create_mem_token"() : () -> !nv_tileaa.mem_token
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %two = "arith.constant"() <{value = 2 : i32}> : () -> i32
    %all = "scf.for"(%zero, %two, %one, %t) ({
    ^bb0(%i: i32, %before: !nv_tileaa.mem_token):
      %l, %lt = "nv_tileaa.tiled_load"(%v, %i, %t) <{operandSegmentSizes = array<i32: 1, 1, 1>, mem_semantic = "weak"}> : (!nv_tileaa.tiled_view<partition, tile = [32], !nv_tileaa.memref<?xi32, strides = [1]>>, i32, !nv_tileaa.mem_token) -> (tensor<32xi32>, !nv_tileaa.mem_token)
      %far = "arith.muli"(%i, %two) : (i32, i32) -> i32
      %at = "arith.subi"(%x, %far) : (i32, i32) -> i32
      %s = "nv_tileaa.tiled_store"(%l, %v, %at, %before) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, mem_semantic = "weak"}> : (tensor<32xi32>, !nv_tileaa.tiled_view<partition, tile = [32], !nv_tileaa.memref<?xi32, strides = [1]>>, i32, !nv_tileaa.mem_token) -> !nv_tileaa.mem_token
      "scf.yield"(%s) : (!nv_tileaa.mem_token) -> ()
    }) : (i32, i32, i32, !nv_tileaa.mem_token) -> !nv_tileaa.mem_token
    "scf.for"(%zero, %two, %one, %all) ({
    ^bb0(%i: i32, %before: !nv_tileaa.mem_token):
      %l, %lt = "nv_tileaa.tiled_load"(%v, %i, %t) <{operandSegmentSizes = array<i32: 1, 1, 1>, mem_semantic = "weak"}> : (!nv_tileaa.tiled_view<partition, tile = [32], !nv_tileaa.memref<?xi32, strides = [1]>>, i32, !nv_tileaa.mem_token) -> (tensor<32xi32>, !nv_tileaa.mem_token)
      %s = "nv_tileaa.tiled_store"(%l, %v, %x, %before) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, mem_semantic = "weak"}> : (tensor<32xi32>, !nv_tileaa.tiled_view<partition, tile = [32], !nv_tileaa.memref<?xi32, strides = [1]>>, i32, !nv_tileaa.mem_token) -> !nv_tileaa.mem_token
      "scf.yield"(%s) : (!nv_tileaa.mem_token) -> ()
    }) : (i32, i32, i32, !nv_tileaa.mem_token) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "overlapping"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %x: i32):
    %m = "nv_tileaa.make_memref"(%p, %x) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.memref<?xi32, strides = [1]>
    %v = "nv_tileaa.block_tile"(%m) : (!nv_tileaa.memref<?xi32, strides = [1]>) -> !nv_tileaa.tiled_view<strided, tile = [32], steps = [16], !nv_tileaa.memref<?xi32, strides = [1]>>
    %n = "nv_tileaa.make_memref"(%p, %x, %x, %x) <{operandSegmentSizes = array<i32: 1, 2, 1>}> : (!nv_tileaa.ptr<i32>, i32, i32, i32) -> !nv_tileaa.memref<?x?xi32, strides = [?, 1]>
    %w = "nv_tileaa.block_tile"(%n) : (!nv_tileaa.memref<?x?xi32, strides = [?, 1]>) -> !nv_tileaa.tiled_view<partition, tile = [2, 32], !nv_tileaa.memref<?x?xi32, strides = [?, 1]>>
    %t = "nv_tileaa.create_mem_token"() : () -> !nv_tileaa.mem_token
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %two = "arith.constant"() <{value = 2 : i32}> : () -> i32
    %all = "scf.for"(%zero, %two, %one, %t) ({
    ^bb0(%i: i32, %before: !nv_tileaa.mem_token):
      %l, %lt = "nv_tileaa.tiled_load"(%v, %i, %t) <{operandSegmentSizes = array<i32: 1, 1, 1>, mem_semantic = "weak"}> : (!nv_tileaa.tiled_view<strided, tile = [32], steps = [16], !nv_tileaa.memref<?xi32, strides = [1]>>, i32, !nv_tileaa.mem_token) -> (tensor<32xi32>, !nv_tileaa.mem_token)
      %s = "nv_tileaa.tiled_store"(%l, %v, %i, %before) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, mem_semantic = "weak"}> : (tensor<32xi32>, !nv_tileaa.tiled_view<strided, tile = [32], steps = [16], !nv_tileaa.memref<?xi32, strides = [1]>>, i32, !nv_tileaa.mem_token) -> !nv_tileaa.mem_token
      "scf.yield"(%s) : (!nv_tileaa.mem_token) -> ()
    }) : (i32, i32, i32, !nv_tileaa.mem_token) -> !nv_tileaa.mem_token
    "scf.for"(%zero, %two, %one, %all) ({
    ^bb0(%i: i32, %before: !nv_tileaa.mem_token):
      %l, %lt = "nv_tileaa.tiled_load"(%w, %i, %x, %t) <{operandSegmentSizes = array<i32: 1, 2, 1>, mem_semantic = "weak"}> : (!nv_tileaa.tiled_view<partition, tile = [2, 32], !nv_tileaa.memref<?x?xi32, strides = [?, 1]>>, i32, i32, !nv_tileaa.mem_token) -> (tensor<2x32xi32>, !nv_tileaa.mem_token)
      %s = "nv_tileaa.tiled_store"(%l, %w, %x, %i, %before) <{operandSegmentSizes = array<i32: 1, 1, 2, 1>, mem_semantic = "weak"}> : (tensor<2x32xi32>, !nv_tileaa.tiled_view<partition, tile = [2, 32], !nv_tileaa.memref<?x?xi32, strides = [?, 1]>>, i32, i32, !nv_tileaa.mem_token) -> !nv_tileaa.mem_token
      "scf.yield"(%s) : (!nv_tileaa.mem_token) -> ()
    }) : (i32, i32, i32, !nv_tileaa.mem_token) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "triangle"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %q: !nv_tileaa.ptr<i32>, %x: i32):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %three = "arith.constant"() <{value = 3 : i32}> : () -> i32
    %r = "scf.for"(%zero, %three, %one, %x) ({
    ^bb0(%i: i32, %c: i32):
      %from = "arith.addi"(%i, %one) : (i32, i32) -> i32
      %inner = "scf.for"(%from, %three, %one, %c) ({
      ^bb0(%j: i32, %d: i32):
        %at = "nv_tileaa.addptr"(%p, %j) : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.ptr<i32>
        %l, %t = "nv_tileaa.load"(%at) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>) -> (i32, !nv_tileaa.mem_token)
        %n = "arith.addi"(%d, %l) : (i32, i32) -> i32
        "scf.yield"(%n) : (i32) -> ()
      }) : (i32, i32, i32, i32) -> i32
      %k = "arith.muli"(%inner, %x) : (i32, i32) -> i32
      "scf.yield"(%k) : (i32) -> ()
    }) : (i32, i32, i32, i32) -> i32
    %u = "nv_tileaa.store"(%q, %r) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "left"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %b: i1, %x: i32):
    %m = "nv_tileaa.make_memref"(%p, %x) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.memref<?xi32, strides = [1]>
    %v = "nv_tileaa.block_tile"(%m) : (!nv_tileaa.memref<?xi32, strides = [1]>) -> !nv_tileaa.tiled_view<partition, tile = [8192], !nv_tileaa.memref<?xi32, strides = [1]>>
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %two = "arith.constant"() <{value = 2 : i32}> : () -> i32
    %seventeen = "arith.constant"() <{value = 17 : i32}> : () -> i32
    %often = "scf.for"(%zero, %seventeen, %one, %x) ({
    ^bb0(%i: i32, %c: i32):
      %l, %t = "nv_tileaa.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>) -> (i32, !nv_tileaa.mem_token)
      %n = "arith.addi"(%c, %l) : (i32, i32) -> i32
      "scf.yield"(%n) : (i32) -> ()
    }) : (i32, i32, i32, i32) -> i32
    %computes = "scf.for"(%zero, %two, %one, %often) ({
    ^bb0(%i: i32, %c: i32):
      %n = "arith.muli"(%c, %c) : (i32, i32) -> i32
      "scf.yield"(%n) : (i32) -> ()
    }) : (i32, i32, i32, i32) -> i32
    %early = "scf.for"(%zero, %two, %one, %computes) ({
    ^bb0(%i: i32, %c: i32):
      "scf.if"(%b) ({
        "nv_tileaa.continue"(%i) : (i32) -> ()
      }, {
      }) : (i1) -> ()
      %l, %t = "nv_tileaa.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>) -> (i32, !nv_tileaa.mem_token)
      %n = "arith.addi"(%c, %l) : (i32, i32) -> i32
      "scf.yield"(%n) : (i32) -> ()
    }) : (i32, i32, i32, i32) -> i32
    %six = "arith.constant"() <{value = 6 : i32}> : () -> i32
    %many = "scf.for"(%zero, %six, %one, %early) ({
    ^bb0(%i: i32, %c: i32):
      %inner = "scf.for"(%i, %six, %one, %c) ({
      ^bb0(%j: i32, %d: i32):
        %at = "nv_tileaa.addptr"(%p, %j) : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.ptr<i32>
        %l, %t = "nv_tileaa.load"(%at) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>) -> (i32, !nv_tileaa.mem_token)
        %n = "arith.addi"(%d, %l) : (i32, i32) -> i32
        "scf.yield"(%n) : (i32) -> ()
      }) : (i32, i32, i32, i32) -> i32
      %k = "arith.muli"(%inner, %x) : (i32, i32) -> i32
      "scf.yield"(%k) : (i32) -> ()
    }) : (i32, i32, i32, i32) -> i32
    %unknown = "scf.for"(%zero, %two, %one, %many) ({
    ^bb0(%i: i32, %c: i32):
      %inner = "scf.for"(%i, %x, %one, %c) ({
      ^bb0(%j: i32, %d: i32):
        %at = "nv_tileaa.addptr"(%p, %j) : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.ptr<i32>
        %l, %t = "nv_tileaa.load"(%at) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>) -> (i32, !nv_tileaa.mem_token)
        %n = "arith.addi"(%d, %l) : (i32, i32) -> i32
        "scf.yield"(%n) : (i32) -> ()
      }) : (i32, i32, i32, i32) -> i32
      %k = "arith.muli"(%inner, %x) : (i32, i32) -> i32
      "scf.yield"(%k) : (i32) -> ()
    }) : (i32, i32, i32, i32) -> i32
    "scf.for"(%zero, %two, %one) ({
    ^bb0(%i: i32):
      %l, %lt = "nv_tileaa.tiled_load"(%v, %i) <{operandSegmentSizes = array<i32: 1, 1, 0>, mem_semantic = "weak"}> : (!nv_tileaa.tiled_view<partition, tile = [8192], !nv_tileaa.memref<?xi32, strides = [1]>>, i32) -> (tensor<8192xi32>, !nv_tileaa.mem_token)
      %s = "nv_tileaa.tiled_store"(%l, %v, %unknown) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>, mem_semantic = "weak"}> : (tensor<8192xi32>, !nv_tileaa.tiled_view<partition, tile = [8192], !nv_tileaa.memref<?xi32, strides = [1]>>, i32) -> !nv_tileaa.mem_token
      "scf.yield"() : () -> ()
    }) : (i32, i32, i32) -> ()
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
}
