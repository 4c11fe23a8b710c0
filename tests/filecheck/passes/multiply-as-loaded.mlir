// Operands of tf32 that are numbers of 16 bits, or of 8, as they were loaded are multiplied as such, by whatever names; what was scaled,
// and what no one type of 16 bits holds, stays.
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_90 --verify-each | filecheck %s

// CHECK: sym_name = "halves"
// CHECK: [[X:%[0-9]+]], {{%[0-9]+}} = "nv_tileaa.load"{{.*}}tensor<32x16xbf16>
// CHECK: [[Y:%[0-9]+]], {{%[0-9]+}} = "nv_tileaa.load"{{.*}}tensor<32x16xbf16>
// CHECK-NOT: arith.convertf
// CHECK: [[T:%[0-9]+]] = "nv_tileaa.permute"([[Y]]){{.*}}tensor<16x32xbf16>
// CHECK-NEXT: "nv_tileaa.dot"([[X]], [[T]], {{%[0-9]+}}){{.*}}(tensor<32x16xbf16>, tensor<16x32xbf16>, tensor<32x32xf32>)
// CHECK-NOT: arith.convertf

// CHECK: sym_name = "eighths"
// CHECK: [[E:%[0-9]+]] = "arith.convertf"({{%[0-9]+}}){{.*}}(tensor<32x16xf8E4M3FN>) -> tensor<32x16xf16>
// CHECK: "nv_tileaa.dot"([[E]], {{%[0-9]+}}, {{%[0-9]+}}){{.*}}(tensor<32x16xf16>, tensor<16x32xf16>, tensor<32x32xf32>)

// CHECK: sym_name = "others"
// CHECK: "nv_tileaa.dot"{{.*}}(tensor<32x16xtf32>, tensor<16x32xtf32>, tensor<32x32xf32>)
// CHECK: "nv_tileaa.dot"{{.*}}(tensor<32x16xtf32>, tensor<16x32xtf32>, tensor<32x32xf32>)
cuda_tile.module @m {
  entry @halves(%px: tile<ptr<bf16>>, %pz: tile<ptr<f32>>) {
    %i = iota : tile<32xi32>
    %p1 = reshape %px : tile<ptr<bf16>> -> tile<1x1xptr<bf16>>
    %p2 = broadcast %p1 : tile<1x1xptr<bf16>> -> tile<32x16xptr<bf16>>
    %x, %tx = load_ptr_tko weak %p2 : tile<32x16xptr<bf16>> -> tile<32x16xbf16>, token
    %y, %ty = load_ptr_tko weak %p2 token = %tx : tile<32x16xptr<bf16>> -> tile<32x16xbf16>, token
    %xf = ftof %x : tile<32x16xbf16> -> tile<32x16xf32>
    %yf = ftof %y : tile<32x16xbf16> -> tile<32x16xf32>
    %yt = permute %yf [1, 0] : tile<32x16xf32> -> tile<16x32xf32>
    %xt = ftof %xf : tile<32x16xf32> -> tile<32x16xtf32>
    %yy = ftof %yt : tile<16x32xf32> -> tile<16x32xtf32>
    %zero = constant <f32: 0.0> : tile<32x32xf32>
    %d = mmaf %xt, %yy, %zero : tile<32x16xtf32>, tile<16x32xtf32>, tile<32x32xf32>
    %q1 = reshape %pz : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %q2 = broadcast %q1 : tile<1x1xptr<f32>> -> tile<32x32xptr<f32>>
    %s = store_ptr_tko weak %q2, %d : tile<32x32xptr<f32>>, tile<32x32xf32> -> token
    return
  }
  entry @eighths(%px: tile<ptr<f8E4M3FN>>, %py: tile<ptr<f16>>, %pz: tile<ptr<f32>>) {
    %p1 = reshape %px : tile<ptr<f8E4M3FN>> -> tile<1x1xptr<f8E4M3FN>>
    %p2 = broadcast %p1 : tile<1x1xptr<f8E4M3FN>> -> tile<32x16xptr<f8E4M3FN>>
    %x, %tx = load_ptr_tko weak %p2 : tile<32x16xptr<f8E4M3FN>> -> tile<32x16xf8E4M3FN>, token
    %o1 = reshape %py : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %o2 = broadcast %o1 : tile<1x1xptr<f16>> -> tile<16x32xptr<f16>>
    %y, %ty = load_ptr_tko weak %o2 : tile<16x32xptr<f16>> -> tile<16x32xf16>, token
    %xf = ftof %x : tile<32x16xf8E4M3FN> -> tile<32x16xf32>
    %yf = ftof %y : tile<16x32xf16> -> tile<16x32xf32>
    %xt = ftof %xf : tile<32x16xf32> -> tile<32x16xtf32>
    %yt = ftof %yf : tile<16x32xf32> -> tile<16x32xtf32>
    %zero = constant <f32: 0.0> : tile<32x32xf32>
    %d = mmaf %xt, %yt, %zero : tile<32x16xtf32>, tile<16x32xtf32>, tile<32x32xf32>
    %q1 = reshape %pz : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %q2 = broadcast %q1 : tile<1x1xptr<f32>> -> tile<32x32xptr<f32>>
    %s = store_ptr_tko weak %q2, %d : tile<32x32xptr<f32>>, tile<32x32xf32> -> token
    return
  }
  entry @others(%px: tile<ptr<bf16>>, %py: tile<ptr<f16>>, %pz: tile<ptr<f32>>) {
    %p1 = reshape %px : tile<ptr<bf16>> -> tile<1x1xptr<bf16>>
    %p2 = broadcast %p1 : tile<1x1xptr<bf16>> -> tile<32x16xptr<bf16>>
    %x, %tx = load_ptr_tko weak %p2 : tile<32x16xptr<bf16>> -> tile<32x16xbf16>, token
    %o1 = reshape %py : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %o2 = broadcast %o1 : tile<1x1xptr<f16>> -> tile<16x32xptr<f16>>
    %y, %ty = load_ptr_tko weak %o2 : tile<16x32xptr<f16>> -> tile<16x32xf16>, token
    %xf = ftof %x : tile<32x16xbf16> -> tile<32x16xf32>
    %yf = ftof %y : tile<16x32xf16> -> tile<16x32xf32>
    %xt = ftof %xf : tile<32x16xf32> -> tile<32x16xtf32>
    %yt = ftof %yf : tile<16x32xf32> -> tile<16x32xtf32>
    %zero = constant <f32: 0.0> : tile<32x32xf32>
    %d = mmaf %xt, %yt, %zero : tile<32x16xtf32>, tile<16x32xtf32>, tile<32x32xf32>
    %half = constant <f32: 0.7> : tile<32x16xf32>
    %xs = mulf %xf, %half rounding<nearest_even> : tile<32x16xf32>
    %xu = ftof %xs : tile<32x16xf32> -> tile<32x16xtf32>
    %yu = permute %xu [1, 0] : tile<32x16xtf32> -> tile<16x32xtf32>
    %e = mmaf %xu, %yu, %d : tile<32x16xtf32>, tile<16x32xtf32>, tile<32x32xf32>
    %q1 = reshape %pz : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %q2 = broadcast %q1 : tile<1x1xptr<f32>> -> tile<32x32xptr<f32>>
    %s = store_ptr_tko weak %q2, %e : tile<32x32xptr<f32>>, tile<32x32xf32> -> token
    return
  }
}
