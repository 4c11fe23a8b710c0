// A sum over four warps: within each, then all parts in every thread, then over the parts.
// RUN: tileiras-opt %s --to=nv_tileaa -O0 -o %t.aa
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,choose-atoms,assign-load-store-layouts,stage-operands,split-reductions --gpu-name=sm_80 | filecheck %s

// CHECK: [[P:%[0-9]+]] = "nv_tileas.reduce"(%{{[0-9]+}}) <{{{.*}}parts
// CHECK: (tensor<512xf32, {{.*}}) -> tensor<4xf32
// CHECK: [[G:%[0-9]+]] = "nv_tileas.convert_layout"([[P]])
// CHECK: "nv_tileas.reduce"([[G]]) <{{{.*}}dim = 0
// CHECK: -> f32
cuda_tile.module @m {
  entry @sums(%p: tile<ptr<f32>>) {
    %a = iota : tile<512xi32>
    %b = itof %a signed : tile<512xi32> -> tile<512xf32>
    %s = reduce %b dim=0 identities=[0.0 : f32] : tile<512xf32> -> tile<f32>
    (%x: tile<f32>, %y: tile<f32>) {
      %z = addf %x, %y : tile<f32>
      yield %z : tile<f32>
    }
    print_tko "%f", %s : tile<f32> -> token
    return
  }
}
