// Exponentials of a softmax that are summed along the row and converted to few bits are flushed to zero: with a running maximum, rows
// far below it are scaled; with the row's own one it is no more than the flag.
// RUN: tileiras-opt %s --passes=flush-exponentials --verify-each --gpu-name=sm_90 | filecheck %s
// RUN: tileiras-opt %s --passes=flush-exponentials --gpu-name=sm_80 | filecheck %s --check-prefix=SM80

// SM80: sym_name = "streamed"
// SM80: "math.exp2"(%x) : (
// SM80: sym_name = "own_maximum"
// SM80: "math.exp2"(%x{{[_0-9]*}}) <{ftz}>

// CHECK: sym_name = "streamed"
// CHECK: [[N:%[0-9a-z_]+]] = "nv_tileaa.view"(%r)
// CHECK: %m = "arith.maxf"
// CHECK: [[AT:%[0-9a-z_]+]] = "arith.addf"(%{{[0-9a-z_]+}}, %{{[0-9a-z_]+}})
// CHECK: [[FAR:%[0-9a-z_]+]] = "arith.cmpf"([[AT]], %m) <{predicate = "olt"}>
// CHECK: value = 3.200000e+01
// CHECK: [[LESS:%[0-9a-z_]+]] = "arith.subf"(%m, %{{[0-9a-z_]+}})
// CHECK: [[M:%[0-9a-z_]+]] = "arith.select"([[FAR]], [[LESS]], %m)
// CHECK: value = 2.32830644e-10
// CHECK: [[BACK:%[0-9a-z_]+]] = "arith.select"([[FAR]], %{{[0-9a-z_]+}}, %{{[0-9a-z_]+}})
// CHECK: [[W:%[0-9a-z_]+]] = "nv_tileaa.broadcast"([[M]])
// CHECK: %x = "arith.subf"(%s, [[W]])
// CHECK: %p = "math.exp2"(%x) <{ftz}>
// CHECK: %f = "arith.convertf"(%p)
// CHECK: %l = "nv_tileaa.reduce"(%p)
// CHECK: [[B:%[0-9a-z_]+]] = "nv_tileaa.view"([[BACK]])
// CHECK: [[L:%[0-9a-z_]+]] = "arith.mulf"(%l, [[B]])
// CHECK: %k = "nv_tileaa.view"([[L]])

// CHECK: sym_name = "scaled"
// CHECK: "arith.cmpf"({{.*}}predicate = "olt"
// CHECK: "arith.negf"
// CHECK: "math.fma"
// CHECK: "math.exp2"({{.*}} <{ftz}>
// CHECK: sym_name = "scaled_before"
// CHECK: "math.exp2"({{.*}} <{ftz}>
// CHECK: sym_name = "eight_bits"
// CHECK: "math.exp2"({{.*}} <{ftz}>
// CHECK: sym_name = "own_maximum"
// CHECK-NOT: arith.select
// CHECK: "math.exp2"({{.*}} <{ftz}>
// CHECK-NOT: arith.mulf
// CHECK: sym_name = "shares"
// CHECK: "math.exp2"({{.*}} <{ftz}>
// CHECK: sym_name = "shares_by_reciprocal"
// CHECK: "math.exp2"({{.*}} <{ftz}>

// What is left: converted to bf16, rounded up, used otherwise, shared below a running maximum, summed along the columns, subtracted
// from other numbers than those reduced, a maximum that begins with more, a scale that may be negative, only sums of short rows.
// CHECK: sym_name = "to_bf16"
// CHECK-NOT: ftz
builtin.module {
  "nv_tileaa.func"() <{sym_name = "streamed"}> ({
  ^bb0(%s: tensor<64x64xf32>, %old: tensor<64x1xf32>, %scale: tensor<64x64xf32>, %rows: tensor<64x1xf32>):
    %r = "nv_tileaa.reduce"(%s) <{dim = 1 : i32, identities = [0xff800000 : f32]}> ({
    ^bb0(%ar: f32, %br: f32):
      %cr = "arith.maxf"(%ar, %br) : (f32, f32) -> f32
      "scf.yield"(%cr) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %n = "nv_tileaa.view"(%r) : (tensor<64xf32>) -> tensor<64x1xf32>
    %m = "arith.maxf"(%old, %n)  : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
    %w = "nv_tileaa.broadcast"(%m) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %x = "arith.subf"(%s, %w) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %p = "math.exp2"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %f = "arith.convertf"(%p) <{rounding = "nearest_even"}> : (tensor<64x64xf32>) -> tensor<64x64xf16>
    %l = "nv_tileaa.reduce"(%p) <{dim = 1 : i32, identities = [0.000000e+00 : f32]}> ({
    ^bb0(%al: f32, %bl: f32):
      %cl = "arith.addf"(%al, %bl) <{rounding = "nearest_even"}> : (f32, f32) -> f32
      "scf.yield"(%cl) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %k = "nv_tileaa.view"(%l) : (tensor<64xf32>) -> tensor<64x1xf32>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "scaled"}> ({
  ^bb0(%s: tensor<64x64xf32>, %old: tensor<64x1xf32>, %scale: tensor<64x64xf32>, %rows: tensor<64x1xf32>):
    %c = "arith.constant"() <{value = 0.18 : f32}> : () -> tensor<64x64xf32>
    %d = "arith.constant"() <{value = 0.18 : f32}> : () -> tensor<64x1xf32>
    %r = "nv_tileaa.reduce"(%s) <{dim = 1 : i32, identities = [0xff800000 : f32]}> ({
    ^bb0(%ar: f32, %br: f32):
      %cr = "arith.maxf"(%ar, %br) : (f32, f32) -> f32
      "scf.yield"(%cr) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %n = "nv_tileaa.view"(%r) : (tensor<64xf32>) -> tensor<64x1xf32>
    %e = "arith.mulf"(%n, %d) <{rounding = "nearest_even"}> : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
    %m = "arith.maxf"(%old, %e)  : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
    %g = "arith.negf"(%m) : (tensor<64x1xf32>) -> tensor<64x1xf32>
    %w = "nv_tileaa.broadcast"(%g) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %x = "math.fma"(%s, %c, %w) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %p = "math.exp2"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %f = "arith.convertf"(%p) <{rounding = "nearest_even"}> : (tensor<64x64xf32>) -> tensor<64x64xf16>
    %l = "nv_tileaa.reduce"(%p) <{dim = 1 : i32, identities = [0.000000e+00 : f32]}> ({
    ^bb0(%al: f32, %bl: f32):
      %cl = "arith.addf"(%al, %bl) <{rounding = "nearest_even"}> : (f32, f32) -> f32
      "scf.yield"(%cl) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "scaled_before"}> ({
  ^bb0(%s: tensor<64x64xf32>, %old: tensor<64x1xf32>, %scale: tensor<64x64xf32>, %rows: tensor<64x1xf32>):
    %c = "arith.constant"() <{value = 0.18 : f32}> : () -> tensor<64x64xf32>
    %d = "arith.constant"() <{value = 0.18 : f32}> : () -> tensor<64xf32>
    %r = "nv_tileaa.reduce"(%s) <{dim = 1 : i32, identities = [0xff800000 : f32]}> ({
    ^bb0(%ar: f32, %br: f32):
      %cr = "arith.maxf"(%ar, %br) : (f32, f32) -> f32
      "scf.yield"(%cr) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %e = "arith.mulf"(%r, %d) <{rounding = "nearest_even"}> : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %n = "nv_tileaa.view"(%e) : (tensor<64xf32>) -> tensor<64x1xf32>
    %m = "arith.maxf"(%old, %n)  : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
    %w = "nv_tileaa.broadcast"(%m) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %y = "arith.mulf"(%s, %c) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %x = "arith.subf"(%y, %w) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %p = "math.exp2"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %f = "arith.convertf"(%p) <{rounding = "nearest_even"}> : (tensor<64x64xf32>) -> tensor<64x64xf16>
    %l = "nv_tileaa.reduce"(%p) <{dim = 1 : i32, identities = [0.000000e+00 : f32]}> ({
    ^bb0(%al: f32, %bl: f32):
      %cl = "arith.addf"(%al, %bl) <{rounding = "nearest_even"}> : (f32, f32) -> f32
      "scf.yield"(%cl) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "eight_bits"}> ({
  ^bb0(%s: tensor<64x64xf32>, %old: tensor<64x1xf32>, %scale: tensor<64x64xf32>, %rows: tensor<64x1xf32>):
    %r = "nv_tileaa.reduce"(%s) <{dim = 1 : i32, identities = [0xff800000 : f32]}> ({
    ^bb0(%ar: f32, %br: f32):
      %cr = "arith.maxf"(%ar, %br) : (f32, f32) -> f32
      "scf.yield"(%cr) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %n = "nv_tileaa.view"(%r) : (tensor<64xf32>) -> tensor<64x1xf32>
    %m = "arith.maxf"(%old, %n)  : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
    %w = "nv_tileaa.broadcast"(%m) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %x = "arith.subf"(%s, %w) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %p = "math.exp2"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %f = "arith.convertf"(%p) <{rounding = "nearest_even"}> : (tensor<64x64xf32>) -> tensor<64x64xf8E4M3FN>
    %l = "nv_tileaa.reduce"(%p) <{dim = 1 : i32, identities = [0.000000e+00 : f32]}> ({
    ^bb0(%al: f32, %bl: f32):
      %cl = "arith.addf"(%al, %bl) <{rounding = "nearest_even"}> : (f32, f32) -> f32
      "scf.yield"(%cl) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "own_maximum"}> ({
  ^bb0(%s: tensor<64x64xf32>, %old: tensor<64x1xf32>, %scale: tensor<64x64xf32>, %rows: tensor<64x1xf32>):
    %r = "nv_tileaa.reduce"(%s) <{dim = 1 : i32, identities = [0xff800000 : f32]}> ({
    ^bb0(%ar: f32, %br: f32):
      %cr = "arith.maxf"(%ar, %br) : (f32, f32) -> f32
      "scf.yield"(%cr) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %n = "nv_tileaa.view"(%r) : (tensor<64xf32>) -> tensor<64x1xf32>
    %w = "nv_tileaa.broadcast"(%n) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %x = "arith.subf"(%s, %w) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %p = "math.exp2"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %f = "arith.convertf"(%p) <{rounding = "nearest_even"}> : (tensor<64x64xf32>) -> tensor<64x64xf16>
    %l = "nv_tileaa.reduce"(%p) <{dim = 1 : i32, identities = [0.000000e+00 : f32]}> ({
    ^bb0(%al: f32, %bl: f32):
      %cl = "arith.addf"(%al, %bl) <{rounding = "nearest_even"}> : (f32, f32) -> f32
      "scf.yield"(%cl) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "shares"}> ({
  ^bb0(%s: tensor<64x64xf32>, %old: tensor<64x1xf32>, %scale: tensor<64x64xf32>, %rows: tensor<64x1xf32>):
    %r = "nv_tileaa.reduce"(%s) <{dim = 1 : i32, identities = [0xff800000 : f32]}> ({
    ^bb0(%ar: f32, %br: f32):
      %cr = "arith.maxf"(%ar, %br) : (f32, f32) -> f32
      "scf.yield"(%cr) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %n = "nv_tileaa.view"(%r) : (tensor<64xf32>) -> tensor<64x1xf32>
    %w = "nv_tileaa.broadcast"(%n) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %x = "arith.subf"(%s, %w) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %p = "math.exp2"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %l = "nv_tileaa.reduce"(%p) <{dim = 1 : i32, identities = [0.000000e+00 : f32]}> ({
    ^bb0(%al: f32, %bl: f32):
      %cl = "arith.addf"(%al, %bl) <{rounding = "nearest_even"}> : (f32, f32) -> f32
      "scf.yield"(%cl) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %k = "nv_tileaa.view"(%l) : (tensor<64xf32>) -> tensor<64x1xf32>
    %u = "nv_tileaa.broadcast"(%k) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %y = "arith.divf"(%p, %u) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %f = "arith.convertf"(%y) <{rounding = "nearest_even"}> : (tensor<64x64xf32>) -> tensor<64x64xf16>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "shares_by_reciprocal"}> ({
  ^bb0(%s: tensor<64x64xf32>, %old: tensor<64x1xf32>, %scale: tensor<64x64xf32>, %rows: tensor<64x1xf32>):
    %r = "nv_tileaa.reduce"(%s) <{dim = 1 : i32, identities = [0xff800000 : f32]}> ({
    ^bb0(%ar: f32, %br: f32):
      %cr = "arith.maxf"(%ar, %br) : (f32, f32) -> f32
      "scf.yield"(%cr) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %n = "nv_tileaa.view"(%r) : (tensor<64xf32>) -> tensor<64x1xf32>
    %w = "nv_tileaa.broadcast"(%n) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %x = "arith.subf"(%s, %w) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %p = "math.exp2"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %l = "nv_tileaa.reduce"(%p) <{dim = 1 : i32, identities = [0.000000e+00 : f32]}> ({
    ^bb0(%al: f32, %bl: f32):
      %cl = "arith.addf"(%al, %bl) <{rounding = "nearest_even"}> : (f32, f32) -> f32
      "scf.yield"(%cl) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %k = "nv_tileaa.view"(%l) : (tensor<64xf32>) -> tensor<64x1xf32>
    %o = "arith.constant"() <{value = 1.0 : f32}> : () -> tensor<64x1xf32>
    %i = "arith.divf"(%o, %k) <{rounding = "nearest_even"}> : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
    %u = "nv_tileaa.broadcast"(%i) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %y = "arith.mulf"(%p, %u) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %f = "arith.convertf"(%y) <{rounding = "nearest_even"}> : (tensor<64x64xf32>) -> tensor<64x64xf16>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "to_bf16"}> ({
  ^bb0(%s: tensor<64x64xf32>, %old: tensor<64x1xf32>, %scale: tensor<64x64xf32>, %rows: tensor<64x1xf32>):
    %r = "nv_tileaa.reduce"(%s) <{dim = 1 : i32, identities = [0xff800000 : f32]}> ({
    ^bb0(%ar: f32, %br: f32):
      %cr = "arith.maxf"(%ar, %br) : (f32, f32) -> f32
      "scf.yield"(%cr) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %n = "nv_tileaa.view"(%r) : (tensor<64xf32>) -> tensor<64x1xf32>
    %m = "arith.maxf"(%old, %n)  : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
    %w = "nv_tileaa.broadcast"(%m) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %x = "arith.subf"(%s, %w) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %p = "math.exp2"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %f = "arith.convertf"(%p) <{rounding = "nearest_even"}> : (tensor<64x64xf32>) -> tensor<64x64xbf16>
    %l = "nv_tileaa.reduce"(%p) <{dim = 1 : i32, identities = [0.000000e+00 : f32]}> ({
    ^bb0(%al: f32, %bl: f32):
      %cl = "arith.addf"(%al, %bl) <{rounding = "nearest_even"}> : (f32, f32) -> f32
      "scf.yield"(%cl) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "rounded_up"}> ({
  ^bb0(%s: tensor<64x64xf32>, %old: tensor<64x1xf32>, %scale: tensor<64x64xf32>, %rows: tensor<64x1xf32>):
    %r = "nv_tileaa.reduce"(%s) <{dim = 1 : i32, identities = [0xff800000 : f32]}> ({
    ^bb0(%ar: f32, %br: f32):
      %cr = "arith.maxf"(%ar, %br) : (f32, f32) -> f32
      "scf.yield"(%cr) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %n = "nv_tileaa.view"(%r) : (tensor<64xf32>) -> tensor<64x1xf32>
    %m = "arith.maxf"(%old, %n)  : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
    %w = "nv_tileaa.broadcast"(%m) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %x = "arith.subf"(%s, %w) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %p = "math.exp2"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %f = "arith.convertf"(%p) <{rounding = "positive_inf"}> : (tensor<64x64xf32>) -> tensor<64x64xf16>
    %l = "nv_tileaa.reduce"(%p) <{dim = 1 : i32, identities = [0.000000e+00 : f32]}> ({
    ^bb0(%al: f32, %bl: f32):
      %cl = "arith.addf"(%al, %bl) <{rounding = "nearest_even"}> : (f32, f32) -> f32
      "scf.yield"(%cl) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "used"}> ({
  ^bb0(%s: tensor<64x64xf32>, %old: tensor<64x1xf32>, %scale: tensor<64x64xf32>, %rows: tensor<64x1xf32>):
    %r = "nv_tileaa.reduce"(%s) <{dim = 1 : i32, identities = [0xff800000 : f32]}> ({
    ^bb0(%ar: f32, %br: f32):
      %cr = "arith.maxf"(%ar, %br) : (f32, f32) -> f32
      "scf.yield"(%cr) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %n = "nv_tileaa.view"(%r) : (tensor<64xf32>) -> tensor<64x1xf32>
    %m = "arith.maxf"(%old, %n)  : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
    %w = "nv_tileaa.broadcast"(%m) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %x = "arith.subf"(%s, %w) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %p = "math.exp2"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %f = "arith.convertf"(%p) <{rounding = "nearest_even"}> : (tensor<64x64xf32>) -> tensor<64x64xf16>
    %y = "arith.mulf"(%p, %scale) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "used_of_own"}> ({
  ^bb0(%s: tensor<64x64xf32>, %old: tensor<64x1xf32>, %scale: tensor<64x64xf32>, %rows: tensor<64x1xf32>):
    %r = "nv_tileaa.reduce"(%s) <{dim = 1 : i32, identities = [0xff800000 : f32]}> ({
    ^bb0(%ar: f32, %br: f32):
      %cr = "arith.maxf"(%ar, %br) : (f32, f32) -> f32
      "scf.yield"(%cr) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %n = "nv_tileaa.view"(%r) : (tensor<64xf32>) -> tensor<64x1xf32>
    %w = "nv_tileaa.broadcast"(%n) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %x = "arith.subf"(%s, %w) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %p = "math.exp2"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %f = "arith.convertf"(%p) <{rounding = "nearest_even"}> : (tensor<64x64xf32>) -> tensor<64x64xf16>
    %y = "arith.negf"(%p) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "shared_below"}> ({
  ^bb0(%s: tensor<64x64xf32>, %old: tensor<64x1xf32>, %scale: tensor<64x64xf32>, %rows: tensor<64x1xf32>):
    %r = "nv_tileaa.reduce"(%s) <{dim = 1 : i32, identities = [0xff800000 : f32]}> ({
    ^bb0(%ar: f32, %br: f32):
      %cr = "arith.maxf"(%ar, %br) : (f32, f32) -> f32
      "scf.yield"(%cr) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %n = "nv_tileaa.view"(%r) : (tensor<64xf32>) -> tensor<64x1xf32>
    %m = "arith.maxf"(%old, %n)  : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
    %w = "nv_tileaa.broadcast"(%m) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %x = "arith.subf"(%s, %w) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %p = "math.exp2"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %l = "nv_tileaa.reduce"(%p) <{dim = 1 : i32, identities = [0.000000e+00 : f32]}> ({
    ^bb0(%al: f32, %bl: f32):
      %cl = "arith.addf"(%al, %bl) <{rounding = "nearest_even"}> : (f32, f32) -> f32
      "scf.yield"(%cl) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %k = "nv_tileaa.view"(%l) : (tensor<64xf32>) -> tensor<64x1xf32>
    %u = "nv_tileaa.broadcast"(%k) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %y = "arith.divf"(%p, %u) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %f = "arith.convertf"(%y) <{rounding = "nearest_even"}> : (tensor<64x64xf32>) -> tensor<64x64xf16>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "shared_in_full"}> ({
  ^bb0(%s: tensor<64x64xf32>, %old: tensor<64x1xf32>, %scale: tensor<64x64xf32>, %rows: tensor<64x1xf32>):
    %r = "nv_tileaa.reduce"(%s) <{dim = 1 : i32, identities = [0xff800000 : f32]}> ({
    ^bb0(%ar: f32, %br: f32):
      %cr = "arith.maxf"(%ar, %br) : (f32, f32) -> f32
      "scf.yield"(%cr) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %n = "nv_tileaa.view"(%r) : (tensor<64xf32>) -> tensor<64x1xf32>
    %w = "nv_tileaa.broadcast"(%n) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %x = "arith.subf"(%s, %w) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %p = "math.exp2"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %l = "nv_tileaa.reduce"(%p) <{dim = 1 : i32, identities = [0.000000e+00 : f32]}> ({
    ^bb0(%al: f32, %bl: f32):
      %cl = "arith.addf"(%al, %bl) <{rounding = "nearest_even"}> : (f32, f32) -> f32
      "scf.yield"(%cl) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %k = "nv_tileaa.view"(%l) : (tensor<64xf32>) -> tensor<64x1xf32>
    %u = "nv_tileaa.broadcast"(%k) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %y = "arith.divf"(%p, %u) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %f = "arith.convertf"(%y) <{rounding = "nearest_even"}> : (tensor<64x64xf32>) -> tensor<64x64xf16>
    %h = "arith.convertf"(%y) <{rounding = "nearest_even"}> : (tensor<64x64xf32>) -> tensor<64x64xbf16>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "columns"}> ({
  ^bb0(%s: tensor<64x64xf32>, %old: tensor<64x1xf32>, %scale: tensor<64x64xf32>, %rows: tensor<64x1xf32>):
    %r = "nv_tileaa.reduce"(%s) <{dim = 1 : i32, identities = [0xff800000 : f32]}> ({
    ^bb0(%ar: f32, %br: f32):
      %cr = "arith.maxf"(%ar, %br) : (f32, f32) -> f32
      "scf.yield"(%cr) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %n = "nv_tileaa.view"(%r) : (tensor<64xf32>) -> tensor<64x1xf32>
    %m = "arith.maxf"(%old, %n)  : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
    %w = "nv_tileaa.broadcast"(%m) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %x = "arith.subf"(%s, %w) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %p = "math.exp2"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %f = "arith.convertf"(%p) <{rounding = "nearest_even"}> : (tensor<64x64xf32>) -> tensor<64x64xf16>
    %l = "nv_tileaa.reduce"(%p) <{dim = 0 : i32, identities = [0.000000e+00 : f32]}> ({
    ^bb0(%al: f32, %bl: f32):
      %cl = "arith.addf"(%al, %bl) <{rounding = "nearest_even"}> : (f32, f32) -> f32
      "scf.yield"(%cl) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "others"}> ({
  ^bb0(%s: tensor<64x64xf32>, %old: tensor<64x1xf32>, %scale: tensor<64x64xf32>, %rows: tensor<64x1xf32>):
    %r = "nv_tileaa.reduce"(%scale) <{dim = 1 : i32, identities = [0xff800000 : f32]}> ({
    ^bb0(%ar: f32, %br: f32):
      %cr = "arith.maxf"(%ar, %br) : (f32, f32) -> f32
      "scf.yield"(%cr) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %n = "nv_tileaa.view"(%r) : (tensor<64xf32>) -> tensor<64x1xf32>
    %m = "arith.maxf"(%old, %n)  : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
    %w = "nv_tileaa.broadcast"(%m) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %x = "arith.subf"(%s, %w) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %p = "math.exp2"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %f = "arith.convertf"(%p) <{rounding = "nearest_even"}> : (tensor<64x64xf32>) -> tensor<64x64xf16>
    %l = "nv_tileaa.reduce"(%p) <{dim = 1 : i32, identities = [0.000000e+00 : f32]}> ({
    ^bb0(%al: f32, %bl: f32):
      %cl = "arith.addf"(%al, %bl) <{rounding = "nearest_even"}> : (f32, f32) -> f32
      "scf.yield"(%cl) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "begins_with_more"}> ({
  ^bb0(%s: tensor<64x64xf32>, %old: tensor<64x1xf32>, %scale: tensor<64x64xf32>, %rows: tensor<64x1xf32>):
    %r = "nv_tileaa.reduce"(%s) <{dim = 1 : i32, identities = [0.000000e+00 : f32]}> ({
    ^bb0(%ar: f32, %br: f32):
      %cr = "arith.maxf"(%ar, %br) : (f32, f32) -> f32
      "scf.yield"(%cr) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %n = "nv_tileaa.view"(%r) : (tensor<64xf32>) -> tensor<64x1xf32>
    %m = "arith.maxf"(%old, %n)  : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
    %w = "nv_tileaa.broadcast"(%m) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %x = "arith.subf"(%s, %w) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %p = "math.exp2"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %f = "arith.convertf"(%p) <{rounding = "nearest_even"}> : (tensor<64x64xf32>) -> tensor<64x64xf16>
    %l = "nv_tileaa.reduce"(%p) <{dim = 1 : i32, identities = [0.000000e+00 : f32]}> ({
    ^bb0(%al: f32, %bl: f32):
      %cl = "arith.addf"(%al, %bl) <{rounding = "nearest_even"}> : (f32, f32) -> f32
      "scf.yield"(%cl) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "rows_of_others"}> ({
  ^bb0(%s: tensor<64x64xf32>, %old: tensor<64x1xf32>, %scale: tensor<64x64xf32>, %rows: tensor<64x1xf32>):
    %m = "arith.maxf"(%old, %rows)  : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
    %w = "nv_tileaa.broadcast"(%m) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %x = "arith.subf"(%s, %w) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %p = "math.exp2"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %f = "arith.convertf"(%p) <{rounding = "nearest_even"}> : (tensor<64x64xf32>) -> tensor<64x64xf16>
    %l = "nv_tileaa.reduce"(%p) <{dim = 1 : i32, identities = [0.000000e+00 : f32]}> ({
    ^bb0(%al: f32, %bl: f32):
      %cl = "arith.addf"(%al, %bl) <{rounding = "nearest_even"}> : (f32, f32) -> f32
      "scf.yield"(%cl) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "least"}> ({
  ^bb0(%s: tensor<64x64xf32>, %old: tensor<64x1xf32>, %scale: tensor<64x64xf32>, %rows: tensor<64x1xf32>):
    %r = "nv_tileaa.reduce"(%s) <{dim = 1 : i32, identities = [0xff800000 : f32]}> ({
    ^bb0(%ar: f32, %br: f32):
      %cr = "arith.maxf"(%ar, %br) : (f32, f32) -> f32
      "scf.yield"(%cr) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %n = "nv_tileaa.view"(%r) : (tensor<64xf32>) -> tensor<64x1xf32>
    %m = "arith.minf"(%old, %n)  : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
    %w = "nv_tileaa.broadcast"(%m) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %x = "arith.subf"(%s, %w) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %p = "math.exp2"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %f = "arith.convertf"(%p) <{rounding = "nearest_even"}> : (tensor<64x64xf32>) -> tensor<64x64xf16>
    %l = "nv_tileaa.reduce"(%p) <{dim = 1 : i32, identities = [0.000000e+00 : f32]}> ({
    ^bb0(%al: f32, %bl: f32):
      %cl = "arith.addf"(%al, %bl) <{rounding = "nearest_even"}> : (f32, f32) -> f32
      "scf.yield"(%cl) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "scale_unknown"}> ({
  ^bb0(%s: tensor<64x64xf32>, %old: tensor<64x1xf32>, %scale: tensor<64x64xf32>, %rows: tensor<64x1xf32>):
    %r = "nv_tileaa.reduce"(%s) <{dim = 1 : i32, identities = [0xff800000 : f32]}> ({
    ^bb0(%ar: f32, %br: f32):
      %cr = "arith.maxf"(%ar, %br) : (f32, f32) -> f32
      "scf.yield"(%cr) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %n = "nv_tileaa.view"(%r) : (tensor<64xf32>) -> tensor<64x1xf32>
    %e = "arith.mulf"(%n, %rows) <{rounding = "nearest_even"}> : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
    %m = "arith.maxf"(%old, %e)  : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
    %w = "nv_tileaa.broadcast"(%m) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %y = "arith.mulf"(%s, %scale) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %x = "arith.subf"(%y, %w) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %p = "math.exp2"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %f = "arith.convertf"(%p) <{rounding = "nearest_even"}> : (tensor<64x64xf32>) -> tensor<64x64xf16>
    %l = "nv_tileaa.reduce"(%p) <{dim = 1 : i32, identities = [0.000000e+00 : f32]}> ({
    ^bb0(%al: f32, %bl: f32):
      %cl = "arith.addf"(%al, %bl) <{rounding = "nearest_even"}> : (f32, f32) -> f32
      "scf.yield"(%cl) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "scale_negative"}> ({
  ^bb0(%s: tensor<64x64xf32>, %old: tensor<64x1xf32>, %scale: tensor<64x64xf32>, %rows: tensor<64x1xf32>):
    %c = "arith.constant"() <{value = -0.18 : f32}> : () -> tensor<64x64xf32>
    %d = "arith.constant"() <{value = -0.18 : f32}> : () -> tensor<64x1xf32>
    %r = "nv_tileaa.reduce"(%s) <{dim = 1 : i32, identities = [0xff800000 : f32]}> ({
    ^bb0(%ar: f32, %br: f32):
      %cr = "arith.maxf"(%ar, %br) : (f32, f32) -> f32
      "scf.yield"(%cr) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %n = "nv_tileaa.view"(%r) : (tensor<64xf32>) -> tensor<64x1xf32>
    %e = "arith.mulf"(%n, %d) <{rounding = "nearest_even"}> : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
    %m = "arith.maxf"(%old, %e)  : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
    %w = "nv_tileaa.broadcast"(%m) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %y = "arith.mulf"(%s, %c) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %x = "arith.subf"(%y, %w) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %p = "math.exp2"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %f = "arith.convertf"(%p) <{rounding = "nearest_even"}> : (tensor<64x64xf32>) -> tensor<64x64xf16>
    %l = "nv_tileaa.reduce"(%p) <{dim = 1 : i32, identities = [0.000000e+00 : f32]}> ({
    ^bb0(%al: f32, %bl: f32):
      %cl = "arith.addf"(%al, %bl) <{rounding = "nearest_even"}> : (f32, f32) -> f32
      "scf.yield"(%cl) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
  "nv_tileaa.func"() <{sym_name = "only_sums"}> ({
  ^bb0(%s: tensor<64x64xf32>, %old: tensor<64x1xf32>, %scale: tensor<64x64xf32>, %rows: tensor<64x1xf32>):
    %r = "nv_tileaa.reduce"(%s) <{dim = 1 : i32, identities = [0xff800000 : f32]}> ({
    ^bb0(%ar: f32, %br: f32):
      %cr = "arith.maxf"(%ar, %br) : (f32, f32) -> f32
      "scf.yield"(%cr) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %n = "nv_tileaa.view"(%r) : (tensor<64xf32>) -> tensor<64x1xf32>
    %m = "arith.maxf"(%old, %n)  : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
    %w = "nv_tileaa.broadcast"(%m) : (tensor<64x1xf32>) -> tensor<64x64xf32>
    %x = "arith.subf"(%s, %w) <{rounding = "nearest_even"}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %p = "math.exp2"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %l = "nv_tileaa.reduce"(%p) <{dim = 1 : i32, identities = [0.000000e+00 : f32]}> ({
    ^bb0(%al: f32, %bl: f32):
      %cl = "arith.addf"(%al, %bl) <{rounding = "nearest_even"}> : (f32, f32) -> f32
      "scf.yield"(%cl) : (f32) -> ()
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    "nv_tileaa.return"() : () -> ()
  }) : () -> ()
}
