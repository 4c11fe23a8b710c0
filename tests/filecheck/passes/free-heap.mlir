// Memory on the device heap goes back where control leaves the region that asked for it: after a meeting of all threads.
// RUN: tileiras-opt %s --passes=free-heap,allocate-buffers,order-memory | filecheck %s
// RUN: tileiras-opt %s --passes=free-heap -o %t.alone

// CHECK: "scf.if"
// CHECK: [[P:%[0-9a-z]+]] = "nv_tileas.alloca"()
// CHECK-NEXT: "nv_tileas.barrier"()
// CHECK-NEXT: "nv_tileas.dealloc"([[P]])
// CHECK-NEXT: "scf.yield"()
// CHECK-NOT: "nv_tileas.dealloc"
// CHECK: "nv_tileas.return"
"builtin.module"() ({
  "nv_tileas.func"() <{sym_name = "f", num_warps = #builtin.int<4>}> ({
  ^bb0(%c: i1):
    "scf.if"(%c) ({
      %p = "nv_tileas.alloca"() <{num_elem = 4 : i64, global}> : () -> !nv_tileaa.ptr<f32>
      "scf.yield"() : () -> ()
    }, {
    }) : (i1) -> ()
    "nv_tileas.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
