// The first of two ops that compute the same stands for both, also inside of a loop. A load does where no token joins it to a
// write, but not in front of one that a token puts behind a write, and not for a tile too large to be kept, which without products
// is four times as large. Of two that wait for the same token the first does, also where a write is behind both; not where the
// second may wait for memory to be another's.
// RUN: tileiras-opt %s --passes=cse --verify-each | filecheck %s

// CHECK: [[A:%[0-9a-z]+]] = "arith.addi"(%x, %x)
// CHECK-NEXT: "scf.for"
// CHECK-NEXT: ^bb0
// CHECK-NEXT: [[L:%[0-9a-z]+]], {{%[0-9a-z]+}} = "nv_tileaa.load"
// CHECK-NEXT: "arith.addi"([[L]], [[L]])
// CHECK-NEXT: "arith.muli"([[A]],
// CHECK-NEXT: "nv_tileaa.store"
// CHECK: nv_tileaa.func
// CHECK: [[M:%[0-9a-z_]+]], {{%[0-9a-z_]+}} = "nv_tileaa.load"(%p
// CHECK-NEXT: "nv_tileaa.store"
// CHECK-NEXT: [[N:%[0-9a-z_]+]], {{%[0-9a-z_]+}} = "nv_tileaa.load"(%p
// CHECK-NEXT: "arith.addi"([[M]], [[N]])
// CHECK: nv_tileaa.func
// CHECK: "nv_tileaa.load"
// CHECK-NEXT: "nv_tileaa.load"
// CHECK: nv_tileaa.func
// CHECK: [[R:%[0-9a-z_]+]], {{%[0-9a-z_]+}} = "nv_tileaa.load"
// CHECK-NEXT: "arith.addi"([[R]], [[R]])
// CHECK: nv_tileaa.func
// CHECK: "nv_tileaa.load"
// CHECK-NEXT: "nv_tileaa.load"
// CHECK: nv_tileaa.func
// CHECK: [[K:%[0-9a-z_]+]], [[T:%[0-9a-z_]+]] = "nv_tileaa.load"(%p{{[_0-9]*}}, %t{{[_0-9]*}})
// CHECK-NEXT: "nv_tileaa.join_mem_token"([[T]], [[T]])
// CHECK-NEXT: "arith.addi"([[K]], [[K]])
// CHECK-NEXT: "nv_tileaa.store"
// CHECK: nv_tileaa.func
// CHECK: "nv_tileaa.load"
// CHECK: nv_tileaa.gdc_wait
// CHECK: "nv_tileaa.load"
"builtin.module"() ({
  "nv_tileaa.func"() <{sym_name = "k"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %x: i32):
    %a = "arith.addi"(%x, %x) : (i32, i32) -> i32
    "scf.for"(%x, %a, %x) ({
    ^bb0(%i: i32):
      %b = "arith.addi"(%x, %x) : (i32, i32) -> i32
      %l, %t = "nv_tileaa.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>) -> (i32, !nv_tileaa.mem_token)
      %m, %u = "nv_tileaa.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>) -> (i32, !nv_tileaa.mem_token)
      %s = "arith.addi"(%l, %m) : (i32, i32) -> i32
      %r = "arith.muli"(%b, %s) : (i32, i32) -> i32
      %w = "nv_tileaa.store"(%p, %r) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
      "scf.yield"() : () -> ()
    }) : (i32, i32, i32) -> ()
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "behind"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %x: i32):
    %l, %t = "nv_tileaa.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>) -> (i32, !nv_tileaa.mem_token)
    %w = "nv_tileaa.store"(%p, %x, %t) <{operandSegmentSizes = array<i32: 1, 1, 0, 1>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32, !nv_tileaa.mem_token) -> !nv_tileaa.mem_token
    %m, %u = "nv_tileaa.load"(%p, %w) <{operandSegmentSizes = array<i32: 1, 0, 0, 1>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, !nv_tileaa.mem_token) -> (i32, !nv_tileaa.mem_token)
    %s = "arith.addi"(%l, %m) : (i32, i32) -> i32
    %v = "nv_tileaa.store"(%p, %s, %u) <{operandSegmentSizes = array<i32: 1, 1, 0, 1>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32, !nv_tileaa.mem_token) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "large"}> ({
  ^bb0(%p: tensor<32768x!nv_tileaa.ptr<i32>>, %q: tensor<32768x!nv_tileaa.ptr<i32>>):
    %l, %t = "nv_tileaa.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, mem_semantic = "weak"}> : (tensor<32768x!nv_tileaa.ptr<i32>>) -> (tensor<32768xi32>, !nv_tileaa.mem_token)
    %m, %u = "nv_tileaa.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, mem_semantic = "weak"}> : (tensor<32768x!nv_tileaa.ptr<i32>>) -> (tensor<32768xi32>, !nv_tileaa.mem_token)
    %s = "arith.addi"(%l, %m) : (tensor<32768xi32>, tensor<32768xi32>) -> tensor<32768xi32>
    %v = "nv_tileaa.store"(%q, %s) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (tensor<32768x!nv_tileaa.ptr<i32>>, tensor<32768xi32>) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "alone"}> ({
  ^bb0(%p: tensor<8192x!nv_tileaa.ptr<i32>>, %q: tensor<8192x!nv_tileaa.ptr<i32>>):
    %l, %t = "nv_tileaa.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, mem_semantic = "weak"}> : (tensor<8192x!nv_tileaa.ptr<i32>>) -> (tensor<8192xi32>, !nv_tileaa.mem_token)
    %m, %u = "nv_tileaa.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, mem_semantic = "weak"}> : (tensor<8192x!nv_tileaa.ptr<i32>>) -> (tensor<8192xi32>, !nv_tileaa.mem_token)
    %s = "arith.addi"(%l, %m) : (tensor<8192xi32>, tensor<8192xi32>) -> tensor<8192xi32>
    %v = "nv_tileaa.store"(%q, %s) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (tensor<8192x!nv_tileaa.ptr<i32>>, tensor<8192xi32>) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "beside"}> ({
  ^bb0(%a: tensor<16x16xf16>, %z: tensor<16x16xf32>, %p: tensor<8192x!nv_tileaa.ptr<i32>>, %q: tensor<8192x!nv_tileaa.ptr<i32>>):
    %d = "nv_tileaa.dot"(%a, %a, %z) : (tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %l, %t = "nv_tileaa.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, mem_semantic = "weak"}> : (tensor<8192x!nv_tileaa.ptr<i32>>) -> (tensor<8192xi32>, !nv_tileaa.mem_token)
    %m, %u = "nv_tileaa.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, mem_semantic = "weak"}> : (tensor<8192x!nv_tileaa.ptr<i32>>) -> (tensor<8192xi32>, !nv_tileaa.mem_token)
    %s = "arith.addi"(%l, %m) : (tensor<8192xi32>, tensor<8192xi32>) -> tensor<8192xi32>
    %v = "nv_tileaa.store"(%q, %s) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}> : (tensor<8192x!nv_tileaa.ptr<i32>>, tensor<8192xi32>) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "one_token"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>):
    %t = "nv_tileaa.create_mem_token"() : () -> !nv_tileaa.mem_token
    %l, %u = "nv_tileaa.load"(%p, %t) <{operandSegmentSizes = array<i32: 1, 0, 0, 1>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, !nv_tileaa.mem_token) -> (i32, !nv_tileaa.mem_token)
    %m, %v = "nv_tileaa.load"(%p, %t) <{operandSegmentSizes = array<i32: 1, 0, 0, 1>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, !nv_tileaa.mem_token) -> (i32, !nv_tileaa.mem_token)
    %w = "nv_tileaa.join_mem_token"(%u, %v) : (!nv_tileaa.mem_token, !nv_tileaa.mem_token) -> !nv_tileaa.mem_token
    %s = "arith.addi"(%l, %m) : (i32, i32) -> i32
    %x = "nv_tileaa.store"(%p, %s, %w) <{operandSegmentSizes = array<i32: 1, 1, 0, 1>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32, !nv_tileaa.mem_token) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "waits"}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>):
    %t = "nv_tileaa.create_mem_token"() : () -> !nv_tileaa.mem_token
    %l, %u = "nv_tileaa.load"(%p, %t) <{operandSegmentSizes = array<i32: 1, 0, 0, 1>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, !nv_tileaa.mem_token) -> (i32, !nv_tileaa.mem_token)
    %g = "nv_tileaa.gdc_wait"(%t) : (!nv_tileaa.mem_token) -> !nv_tileaa.mem_token
    %m, %v = "nv_tileaa.load"(%p, %t) <{operandSegmentSizes = array<i32: 1, 0, 0, 1>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, !nv_tileaa.mem_token) -> (i32, !nv_tileaa.mem_token)
    %w = "nv_tileaa.join_mem_token"(%u, %v) : (!nv_tileaa.mem_token, !nv_tileaa.mem_token) -> !nv_tileaa.mem_token
    %s = "arith.addi"(%l, %m) : (i32, i32) -> i32
    %x = "nv_tileaa.store"(%p, %s, %w) <{operandSegmentSizes = array<i32: 1, 1, 0, 1>, mem_semantic = "weak"}> : (!nv_tileaa.ptr<i32>, i32, !nv_tileaa.mem_token) -> !nv_tileaa.mem_token
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
