// Products with weights of eight bits that threads widen: the turned product's first operand goes to tensor memory, and tiles of 32
// rows to instructions that take 64. Not where weights that lie along the columns would be read byte by byte for longer, or where the
// target has no tensor memory.
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_100 -o %t.aa
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,turn-dots --gpu-name=sm_100 | filecheck %s
// RUN: tileiras-opt %t.aa --passes=convert-tileaa-to-tileas,turn-dots --gpu-name=sm_90 | filecheck %s --check-prefix=STRAIGHT
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 | filecheck %s --check-prefix=ATOM

// CHECK: sym_name = "along_k"
// CHECK: "scf.for"({{.*}}, [[NONE:%[0-9]+]]) ({
// CHECK-NEXT: ^bb0({{%[0-9]+}}: i32, [[ACC:%[0-9]+]]: tensor<128x32xf32>)
// CHECK: [[X:%[0-9]+]], {{%[0-9]+}} = "nv_tileas.tiled_load"{{.*}} -> (tensor<32x64xf16>
// CHECK: [[W:%[0-9]+]], {{%[0-9]+}} = "nv_tileas.tiled_load"{{.*}} -> (tensor<128x64xi8>
// CHECK: [[A:%[0-9]+]] = "arith.sitofp"([[W]])
// CHECK-NEXT: [[B:%[0-9]+]] = "nv_tileas.permute"([[X]])
// CHECK-NEXT: [[D:%[0-9]+]] = "nv_tileas.dot"([[A]], [[B]], [[ACC]]){{.*}} -> tensor<128x32xf32>
// CHECK-NEXT: "scf.yield"([[D]])
// CHECK: "nv_tileas.permute"({{.*}} -> tensor<32x128xf32>

// CHECK: sym_name = "along_n"
// CHECK: [[W:%[0-9]+]], {{%[0-9]+}} = "nv_tileas.tiled_load"{{.*}} -> (tensor<64x128xi8>
// CHECK-NEXT: [[T:%[0-9]+]] = "nv_tileas.permute"([[W]])
// CHECK-NEXT: [[A:%[0-9]+]] = "arith.sitofp"([[T]])
// CHECK: "nv_tileas.dot"([[A]], {{.*}} -> tensor<128x32xf32>

// CHECK: sym_name = "squared"
// CHECK: [[A:%[0-9]+]] = "arith.mulf"([[F:%[0-9]+]], [[F]]){{.*}} -> tensor<128x64xf16>
// CHECK: "nv_tileas.dot"([[A]], {{.*}} -> tensor<128x32xf32>

// CHECK: sym_name = "many_rows"
// CHECK: "nv_tileas.dot"({{.*}} -> tensor<128x128xf32>

// STRAIGHT-NOT: tensor<128x32xf32>

// ATOM: sym_name = "along_k"
// ATOM: "nv_tileas.store_tmem"({{.*}}tensor<128x64xf16
// ATOM: "nv_tileas.tensor_dot"({{.*}}"sm100.mma.f16.m128n32k16.f32.f16.f16.cg1.ts"
// ATOM: sym_name = "along_n"
// ATOM: "nv_tileas.tensor_dot"({{.*}}"sm100.mma.f16.m128n32k16.f32.f16.f16.cg1.ts"
// ATOM: sym_name = "many_rows"
// ATOM: "nv_tileas.tensor_dot"({{.*}}"sm100.mma.f16.m128n128k16.f32.f16.f16.cg1.ss"
cuda_tile.module @m {
  entry @along_k(%pa: tile<ptr<f16>>, %pw: tile<ptr<i8>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<32x128xf32>
    %r, %j, %z = get_tile_block_id : tile<i32>
    %aa = assume div_by<16>, %pa : tile<ptr<f16>>
    %aw = assume div_by<16>, %pw : tile<ptr<i8>>
    %ta = make_tensor_view %aa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %tw = make_tensor_view %aw, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xi8, strides=[4096,1]>
    %to = make_tensor_view %po, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
    %va = make_partition_view %ta : partition_view<tile=(32x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vw = make_partition_view %tw : partition_view<tile=(128x64), tensor_view<4096x4096xi8, strides=[4096,1]>>
    %vo = make_partition_view %to : partition_view<tile=(32x128), tensor_view<4096x4096xf32, strides=[4096,1]>>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<32x128xf32>) {
      %x, %u0 = load_view_tko weak %va[%r, %i] token = %t : partition_view<tile=(32x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<32x64xf16>, token
      %w, %u1 = load_view_tko weak %vw[%j, %i] token = %t : partition_view<tile=(128x64), tensor_view<4096x4096xi8, strides=[4096,1]>>, tile<i32> -> tile<128x64xi8>, token
      %f = itof %w signed : tile<128x64xi8> -> tile<128x64xf16>
      %y = permute %f [1, 0] : tile<128x64xf16> -> tile<64x128xf16>
      %d = mmaf %x, %y, %acc : tile<32x64xf16>, tile<64x128xf16>, tile<32x128xf32>
      continue %d : tile<32x128xf32>
    }
    %u2 = store_view_tko weak %sum, %vo[%r, %j] token = %t : tile<32x128xf32>, partition_view<tile=(32x128), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> token
    return
  }
  entry @along_n(%pa: tile<ptr<f16>>, %pw: tile<ptr<i8>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<32x128xf32>
    %r, %j, %z = get_tile_block_id : tile<i32>
    %aa = assume div_by<16>, %pa : tile<ptr<f16>>
    %aw = assume div_by<16>, %pw : tile<ptr<i8>>
    %ta = make_tensor_view %aa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %tw = make_tensor_view %aw, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xi8, strides=[4096,1]>
    %to = make_tensor_view %po, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
    %va = make_partition_view %ta : partition_view<tile=(32x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vw = make_partition_view %tw : partition_view<tile=(64x128), tensor_view<4096x4096xi8, strides=[4096,1]>>
    %vo = make_partition_view %to : partition_view<tile=(32x128), tensor_view<4096x4096xf32, strides=[4096,1]>>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<32x128xf32>) {
      %x, %u0 = load_view_tko weak %va[%r, %i] token = %t : partition_view<tile=(32x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<32x64xf16>, token
      %w, %u1 = load_view_tko weak %vw[%i, %j] token = %t : partition_view<tile=(64x128), tensor_view<4096x4096xi8, strides=[4096,1]>>, tile<i32> -> tile<64x128xi8>, token
      %f = itof %w signed : tile<64x128xi8> -> tile<64x128xf16>
      %d = mmaf %x, %f, %acc : tile<32x64xf16>, tile<64x128xf16>, tile<32x128xf32>
      continue %d : tile<32x128xf32>
    }
    %u2 = store_view_tko weak %sum, %vo[%r, %j] token = %t : tile<32x128xf32>, partition_view<tile=(32x128), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> token
    return
  }
  entry @squared(%pa: tile<ptr<f16>>, %pw: tile<ptr<i8>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<32x128xf32>
    %r, %j, %z = get_tile_block_id : tile<i32>
    %aa = assume div_by<16>, %pa : tile<ptr<f16>>
    %aw = assume div_by<16>, %pw : tile<ptr<i8>>
    %ta = make_tensor_view %aa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %tw = make_tensor_view %aw, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xi8, strides=[4096,1]>
    %to = make_tensor_view %po, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
    %va = make_partition_view %ta : partition_view<tile=(32x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vw = make_partition_view %tw : partition_view<tile=(128x64), tensor_view<4096x4096xi8, strides=[4096,1]>>
    %vo = make_partition_view %to : partition_view<tile=(32x128), tensor_view<4096x4096xf32, strides=[4096,1]>>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<32x128xf32>) {
      %x, %u0 = load_view_tko weak %va[%r, %i] token = %t : partition_view<tile=(32x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<32x64xf16>, token
      %w, %u1 = load_view_tko weak %vw[%j, %i] token = %t : partition_view<tile=(128x64), tensor_view<4096x4096xi8, strides=[4096,1]>>, tile<i32> -> tile<128x64xi8>, token
      %f = itof %w signed : tile<128x64xi8> -> tile<128x64xf16>
      %p = permute %f [1, 0] : tile<128x64xf16> -> tile<64x128xf16>
      %y = mulf %p, %p rounding<nearest_even> : tile<64x128xf16>
      %d = mmaf %x, %y, %acc : tile<32x64xf16>, tile<64x128xf16>, tile<32x128xf32>
      continue %d : tile<32x128xf32>
    }
    %u2 = store_view_tko weak %sum, %vo[%r, %j] token = %t : tile<32x128xf32>, partition_view<tile=(32x128), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> token
    return
  }
  entry @many_rows(%pa: tile<ptr<f16>>, %pw: tile<ptr<i8>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x128xf32>
    %r, %j, %z = get_tile_block_id : tile<i32>
    %aa = assume div_by<16>, %pa : tile<ptr<f16>>
    %aw = assume div_by<16>, %pw : tile<ptr<i8>>
    %ta = make_tensor_view %aa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %tw = make_tensor_view %aw, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xi8, strides=[4096,1]>
    %to = make_tensor_view %po, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
    %va = make_partition_view %ta : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vw = make_partition_view %tw : partition_view<tile=(64x128), tensor_view<4096x4096xi8, strides=[4096,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x128), tensor_view<4096x4096xf32, strides=[4096,1]>>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<128x128xf32>) {
      %x, %u0 = load_view_tko weak %va[%r, %i] token = %t : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<128x64xf16>, token
      %w, %u1 = load_view_tko weak %vw[%i, %j] token = %t : partition_view<tile=(64x128), tensor_view<4096x4096xi8, strides=[4096,1]>>, tile<i32> -> tile<64x128xi8>, token
      %f = itof %w signed : tile<64x128xi8> -> tile<64x128xf16>
      %d = mmaf %x, %f, %acc : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %d : tile<128x128xf32>
    }
    %u2 = store_view_tko weak %sum, %vo[%r, %j] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> token
    return
  }
}
