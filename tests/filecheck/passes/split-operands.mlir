// Keys and values of 128 KB each don't fit an SM of 227 KB at once: keys come in four parts of 128 columns, whose products add up one
// after the other, values in four parts of 128 columns, which have sums of their own. All eight have one ring, filled in turn.
// RUN: tileiras-opt %s --pass-pipeline='builtin.module(convert-cudatile-to-tileaa,split-operands)' --gpu-name=sm_100 | filecheck %s
// RUN: tileiras-opt %s --pass-pipeline='builtin.module(convert-cudatile-to-tileaa,split-operands)' --gpu-name=sm_80 | filecheck %s --check-prefix=THREADS
// RUN: tileiras-translate --mlir-to-cudatilebc %s -o %t.bc
// RUN: tileiras %t.bc --gpu-name sm_100 -o %t.cubin --verify-each --print-ir-after=materialize-schedule 2>&1 | filecheck %s --check-prefix=RING
// RUN: tileiras %t.bc --gpu-name sm_90 -o %t.cubin --verify-each --remarks=all | filecheck %s --check-prefix=SAID

// CHECK-COUNT-4: "nv_tileaa.tiled_load"{{.*}} tile = [128, 16]
// CHECK: "scf.for"({{%[0-9]+}}, {{%[0-9]+}}, {{%[0-9]+}}, [[C:%[0-9]+]], [[C]], [[C]], [[C]])
// CHECK-NEXT: ^bb0({{%[0-9]+}}: i32, [[A0:%[0-9]+]]: tensor<128x16xf32>, [[A1:%[0-9]+]]: tensor<128x16xf32>, [[A2:%[0-9]+]]: tensor<128x16xf32>, [[A3:%[0-9]+]]: tensor<128x16xf32>)
// CHECK-COUNT-4: "nv_tileaa.tiled_load"{{.*}} in_turn = #builtin.int<1>{{.*}} tile = [128, 128]
// CHECK: [[S0:%[0-9]+]] = "nv_tileaa.dot"({{%[0-9]+, %[0-9]+, %[0-9]+}}) : (tensor<128x128xf16>, tensor<128x16xf16>, tensor<128x16xf32>)
// CHECK-NEXT: [[S1:%[0-9]+]] = "nv_tileaa.dot"({{%[0-9]+, %[0-9]+}}, [[S0]])
// CHECK-NEXT: [[S2:%[0-9]+]] = "nv_tileaa.dot"({{%[0-9]+, %[0-9]+}}, [[S1]])
// CHECK-NEXT: [[S3:%[0-9]+]] = "nv_tileaa.dot"({{%[0-9]+, %[0-9]+}}, [[S2]])
// CHECK-NEXT: [[P:%[0-9]+]] = "arith.convertf"([[S3]])
// CHECK-COUNT-4: "nv_tileaa.tiled_load"{{.*}} in_turn = #builtin.int<1>
// CHECK: [[N0:%[0-9]+]] = "nv_tileaa.dot"({{%[0-9]+}}, [[P]], [[A0]])
// CHECK-NEXT: [[N1:%[0-9]+]] = "nv_tileaa.dot"({{%[0-9]+}}, [[P]], [[A1]])
// CHECK-NEXT: [[N2:%[0-9]+]] = "nv_tileaa.dot"({{%[0-9]+}}, [[P]], [[A2]])
// CHECK-NEXT: [[N3:%[0-9]+]] = "nv_tileaa.dot"({{%[0-9]+}}, [[P]], [[A3]])
// CHECK-NEXT: "scf.yield"([[N0]], [[N1]], [[N2]], [[N3]])
// CHECK-COUNT-4: "nv_tileaa.tiled_store"{{.*}} tile = [128, 16]

// THREADS-NOT: in_turn

// RING: [[PIPE:%[0-9]+]] = "nv_tileas.create_pipeline"() <{bytes = #builtin.int<32768>,{{.*}} : () -> !nv_tileas.pipe<"tma", #builtin.int<6>>
// RING: "scf.for"
// RING-COUNT-8: "nv_tileas.consumer_wait"([[PIPE]])
// RING: "scf.yield"
// RING: "scf.for"
// RING-COUNT-8: "nv_tileas.producer_acquire"([[PIPE]])

// SAID: come in parts, by one ring
// SAID: Parts1 = 4 of dimension 1 of tile<128x512xf16>
// SAID: Parts2 = 4 of dimension 0 of tile<512x128xf16>
cuda_tile.module @m {
  entry @latent(%q: tile<ptr<f16>>, %k: tile<ptr<f16>>, %v: tile<ptr<f16>>, %r: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<512x16xf32>
    %z = constant <f32: 0.0> : tile<128x16xf32>
    %qa = assume div_by<16>, %q : tile<ptr<f16>>
    %ka = assume div_by<16>, %k : tile<ptr<f16>>
    %va = assume div_by<16>, %v : tile<ptr<f16>>
    %tq = make_tensor_view %qa, shape = [512, 16], strides = [16, 1] : tensor_view<512x16xf16, strides=[16,1]>
    %tk = make_tensor_view %ka, shape = [4096, 512], strides = [512, 1] : tensor_view<4096x512xf16, strides=[512,1]>
    %tv = make_tensor_view %va, shape = [4096, 512], strides = [512, 1] : tensor_view<4096x512xf16, strides=[512,1]>
    %to = make_tensor_view %r, shape = [512, 16], strides = [16, 1] : tensor_view<512x16xf32, strides=[16,1]>
    %pq = make_partition_view %tq : partition_view<tile=(512x16), tensor_view<512x16xf16, strides=[16,1]>>
    %pk = make_partition_view %tk : partition_view<tile=(128x512), tensor_view<4096x512xf16, strides=[512,1]>>
    %pv = make_partition_view %tv : partition_view<tile=(128x512), tensor_view<4096x512xf16, strides=[512,1]>>
    %po = make_partition_view %to : partition_view<tile=(512x16), tensor_view<512x16xf32, strides=[16,1]>>
    %x, %u = load_view_tko weak %pq[%zero, %zero] token = %t : partition_view<tile=(512x16), tensor_view<512x16xf16, strides=[16,1]>>, tile<i32> -> tile<512x16xf16>, token
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<512x16xf32>) {
      %y, %w = load_view_tko weak %pk[%i, %zero] token = %t : partition_view<tile=(128x512), tensor_view<4096x512xf16, strides=[512,1]>>, tile<i32> -> tile<128x512xf16>, token
      %d = mmaf %y, %x, %z : tile<128x512xf16>, tile<512x16xf16>, tile<128x16xf32>
      %p = ftof %d : tile<128x16xf32> -> tile<128x16xf16>
      %g, %h = load_view_tko weak %pv[%i, %zero] token = %t : partition_view<tile=(128x512), tensor_view<4096x512xf16, strides=[512,1]>>, tile<i32> -> tile<128x512xf16>, token
      %f = permute %g [1, 0] : tile<128x512xf16> -> tile<512x128xf16>
      %e = mmaf %f, %p, %acc : tile<512x128xf16>, tile<128x16xf16>, tile<512x16xf32>
      continue %e : tile<512x16xf32>
    }
    %o = store_view_tko weak %s, %po[%zero, %zero] token = %t : tile<512x16xf32>, partition_view<tile=(512x16), tensor_view<512x16xf32, strides=[16,1]>>, tile<i32> -> token
    return
  }
}
