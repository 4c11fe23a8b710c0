// A block asks for the next tile block before it works on its own, and goes on with what it is given. A kernel that returns from the
// middle, or never asks for its id, stays as it is.
// RUN: tileiras-opt %s --gpu-name=sm_100 --pass-pipeline='builtin.module(dynamic-persistent)' --verify-each | filecheck %s
// RUN: tileiras-opt %s --gpu-name=sm_90 --pass-pipeline='builtin.module(dynamic-persistent)' | filecheck %s --check-prefix=SM90

// SM90-NOT: nv_tileas.loop
// CHECK: sym_name = "k"
// CHECK: [[RING:%[0-9a-z_]+]] = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.ring<!nv_tileas.buffer<i32, {{.*}}>, #builtin.int<2>>
// CHECK-NEXT: [[PIPE:%[0-9a-z_]+]] = "nv_tileas.create_pipeline"() <{bytes = #builtin.int<16>, consumers = #builtin.int<4>}>
// CHECK-NEXT: [[X:%[0-9a-z_]+]], [[Y:%[0-9a-z_]+]], [[Z:%[0-9a-z_]+]] = "nv_tileas.get_program_id"
// CHECK-NEXT: "nv_tileas.loop"([[X]], [[Y]], [[Z]]) ({
// CHECK-NEXT: ^bb0([[A:%[0-9a-z_]+]]: i32, [[B:%[0-9a-z_]+]]: i32, [[C:%[0-9a-z_]+]]: i32):
// CHECK-NEXT: [[I:%[0-9a-z_]+]] = "nv_tileas.producer_acquire"([[PIPE]])
// CHECK-NEXT: [[TO:%[0-9a-z_]+]] = "nv_tileas.extract_slice"([[RING]], [[I]])
// CHECK-NEXT: "nv_tileas.cancel_next_program_id"([[TO]], [[PIPE]], [[I]])
// CHECK-NEXT: "nv_tileas.producer_commit"([[PIPE]])
// CHECK-NOT: get_program_id
// CHECK: "arith.addi"([[A]], [[C]])
// CHECK: [[J:%[0-9a-z_]+]] = "nv_tileas.consumer_wait"([[PIPE]])
// CHECK-NEXT: [[FROM:%[0-9a-z_]+]] = "nv_tileas.extract_slice"([[RING]], [[J]])
// CHECK-NEXT: [[U:%[0-9a-z_]+]], [[V:%[0-9a-z_]+]], [[W:%[0-9a-z_]+]], [[VALID:%[0-9a-z_]+]] = "nv_tileas.is_valid_program_id"([[FROM]])
// CHECK-NEXT: "nv_tileas.consumer_release"([[PIPE]])
// CHECK-NEXT: "scf.if"([[VALID]]) ({
// CHECK-NEXT: "nv_tileas.continue"([[U]], [[V]], [[W]])
// CHECK: "nv_tileas.break"
// CHECK: sym_name = "leaves"
// CHECK-NOT: nv_tileas.loop
builtin.module {
  "nv_tileas.func"() <{sym_name = "k", num_warps = #builtin.int<4>}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>):
    %x, %y, %z = "nv_tileas.get_program_id"() : () -> (i32, i32, i32)
    %s = "arith.addi"(%x, %z) : (i32, i32) -> i32
    %t = "nv_tileas.create_mem_token"() : () -> !nv_tileaa.mem_token
    %q = "nv_tileas.addptr"(%p, %s) : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.ptr<i32>
    %u = "nv_tileas.store"(%q, %s, %t) <{mem_semantic = "weak", operandSegmentSizes = array<i32: 1, 1, 0, 1>}> : (!nv_tileaa.ptr<i32>, i32, !nv_tileaa.mem_token) -> !nv_tileaa.mem_token
    "nv_tileas.return"() : () -> ()
  }) : () -> ()
  "nv_tileas.func"() <{sym_name = "leaves", num_warps = #builtin.int<4>}> ({
  ^bb0(%p: !nv_tileaa.ptr<i32>, %c: i1):
    %x, %y, %z = "nv_tileas.get_program_id"() : () -> (i32, i32, i32)
    %t = "nv_tileas.create_mem_token"() : () -> !nv_tileaa.mem_token
    "scf.if"(%c) ({
      "nv_tileas.return"() : () -> ()
    }, {
    }) : (i1) -> ()
    %q = "nv_tileas.addptr"(%p, %x) : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.ptr<i32>
    %u = "nv_tileas.store"(%q, %x, %t) <{mem_semantic = "weak", operandSegmentSizes = array<i32: 1, 1, 0, 1>}> : (!nv_tileaa.ptr<i32>, i32, !nv_tileaa.mem_token) -> !nv_tileaa.mem_token
    "nv_tileas.return"() : () -> ()
  }) : () -> ()
  "nv_tileas.func"() <{sym_name = "idless", num_warps = #builtin.int<4>}> ({
    "nv_tileas.return"() : () -> ()
  }) : () -> ()
}
