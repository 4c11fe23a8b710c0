// Two CTAs multiply block-scaled operands together: each has half of A's rows, with their scales, half of B's columns, and the scales
// of all columns, which the two load for each other. The scales lie in memory as the tensor core copies them; where they lie by rows
// ("rows") each CTA multiplies for itself.
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_100 --verify-each | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_103 --verify-each | filecheck %s --check-prefix=AGENTS
// RUN: env TILEIRAS_WITHOUT=pairs tileiras-opt %s --to=nv_tileaa --gpu-name=sm_100 | filecheck %s --check-prefix=ALONE

// CHECK: sym_name = "pieces", {{.*}}cluster = #builtin.int<2>
// CHECK: "nv_tileaa.dot_scaled"({{.*}}<{block = #builtin.int<32>, pair}> : (tensor<128x128xf8E4M3FN>, tensor<128x128xf8E4M3FN>, tensor<128x256xf32>, tensor<128x4xf8E8M0FNU>, tensor<4x256xf8E8M0FNU>) -> tensor<128x256xf32>
// CHECK: sym_name = "rows"
// CHECK: "nv_tileaa.dot_scaled"
// CHECK-NOT: pair}>

// AGENTS: sym_name = "pieces"
// AGENTS: "nv_tileas.create_pipeline"() {{.*}}pair{{.*}} -> !nv_tileas.pipe<"umma"
// AGENTS: "nv_tileas.create_pipeline"() <{bytes = #builtin.int<34304>{{.*}}pair{{.*}} -> !nv_tileas.pipe<"tma"
// AGENTS: "nv_tileas.tmem_alloc"() <{columns = #builtin.int<512>, pair
// AGENTS: "nv_tileas.tensor_dot"({{.*}}sm100.mma_bs.mxf8f6f4.m256n256k32.f32.e4m3.e4m3.1x.ue8m0.cg2.ss
// AGENTS: "nv_tileas.tma_load"
// AGENTS: sym_name = "rows"
// AGENTS: cg1.ss

// ALONE: "nv_tileaa.dot_scaled"
// ALONE-NOT: pair}>

cuda_tile.module @m {
  entry @pieces(%pa: tile<ptr<f8E4M3FN>>, %pb: tile<ptr<f8E4M3FN>>, %pu: tile<ptr<f8E8M0FNU>>, %pv: tile<ptr<f8E8M0FNU>>,
                %po: tile<ptr<f32>>, %n: tile<i32>) optimization_hints=<default = {num_cta_in_cga = 2}> {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %start = constant <f32: 0.0> : tile<256x256xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f8E4M3FN>>
    %qb = assume div_by<16>, %pb : tile<ptr<f8E4M3FN>>
    %qu = assume div_by<16>, %pu : tile<ptr<f8E8M0FNU>>
    %qv = assume div_by<16>, %pv : tile<ptr<f8E8M0FNU>>
    %qo = assume div_by<16>, %po : tile<ptr<f32>>
    %ta = make_tensor_view %qa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf8E4M3FN, strides=[4096,1]>
    %tb = make_tensor_view %qb, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf8E4M3FN, strides=[4096,1]>
    %tu = make_tensor_view %qu, shape = [32, 32, 32, 16], strides = [16384, 512, 16, 1] : tensor_view<32x32x32x16xf8E8M0FNU, strides=[16384,512,16,1]>
    %tv = make_tensor_view %qv, shape = [32, 32, 32, 16], strides = [16384, 512, 16, 1] : tensor_view<32x32x32x16xf8E8M0FNU, strides=[16384,512,16,1]>
    %to = make_tensor_view %qo, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
    %va = make_partition_view %ta : partition_view<tile=(256x128), tensor_view<4096x4096xf8E4M3FN, strides=[4096,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(128x256), tensor_view<4096x4096xf8E4M3FN, strides=[4096,1]>>
    %vu = make_partition_view %tu : partition_view<tile=(2x1x32x16), tensor_view<32x32x32x16xf8E8M0FNU, strides=[16384,512,16,1]>>
    %vv = make_partition_view %tv : partition_view<tile=(2x1x32x16), tensor_view<32x32x32x16xf8E8M0FNU, strides=[16384,512,16,1]>>
    %vo = make_partition_view %to : partition_view<tile=(256x256), tensor_view<4096x4096xf32, strides=[4096,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<256x256xf32>) {
      %a, %ka = load_view_tko weak %va[%x, %i] token = %t : partition_view<tile=(256x128), tensor_view<4096x4096xf8E4M3FN, strides=[4096,1]>>, tile<i32> -> tile<256x128xf8E4M3FN>, token
      %b, %kb = load_view_tko weak %vb[%i, %y] token = %t : partition_view<tile=(128x256), tensor_view<4096x4096xf8E4M3FN, strides=[4096,1]>>, tile<i32> -> tile<128x256xf8E4M3FN>, token
      %u0, %ku = load_view_tko weak %vu[%x, %i, %zero, %zero] token = %t : partition_view<tile=(2x1x32x16), tensor_view<32x32x32x16xf8E8M0FNU, strides=[16384,512,16,1]>>, tile<i32> -> tile<2x1x32x16xf8E8M0FNU>, token
      %v0, %kv = load_view_tko weak %vv[%y, %i, %zero, %zero] token = %t : partition_view<tile=(2x1x32x16), tensor_view<32x32x32x16xf8E8M0FNU, strides=[16384,512,16,1]>>, tile<i32> -> tile<2x1x32x16xf8E8M0FNU>, token
      %u1 = reshape %u0 : tile<2x1x32x16xf8E8M0FNU> -> tile<2x1x32x4x4xf8E8M0FNU>
      %v1 = reshape %v0 : tile<2x1x32x16xf8E8M0FNU> -> tile<2x1x32x4x4xf8E8M0FNU>
      %u2 = permute %u1 [0, 3, 2, 1, 4] : tile<2x1x32x4x4xf8E8M0FNU> -> tile<2x4x32x1x4xf8E8M0FNU>
      %v2 = permute %v1 [0, 3, 2, 1, 4] : tile<2x1x32x4x4xf8E8M0FNU> -> tile<2x4x32x1x4xf8E8M0FNU>
      %u3 = reshape %u2 : tile<2x4x32x1x4xf8E8M0FNU> -> tile<256x4xf8E8M0FNU>
      %v3 = reshape %v2 : tile<2x4x32x1x4xf8E8M0FNU> -> tile<256x4xf8E8M0FNU>
      %v4 = permute %v3 [1, 0] : tile<256x4xf8E8M0FNU> -> tile<4x256xf8E8M0FNU>
      %c = mmaf_scaled %a, %b, %acc, %u3, %v4 : tile<256x128xf8E4M3FN>, tile<128x256xf8E4M3FN>, tile<256x256xf32>, tile<256x4xf8E8M0FNU>, tile<4x256xf8E8M0FNU>
      continue %c : tile<256x256xf32>
    }
    %w = store_view_tko weak %sum, %vo[%x, %y] token = %t : tile<256x256xf32>, partition_view<tile=(256x256), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> token
    return
  }

  entry @rows(%pa: tile<ptr<f8E4M3FN>>, %pb: tile<ptr<f8E4M3FN>>, %pu: tile<ptr<f8E8M0FNU>>, %pv: tile<ptr<f8E8M0FNU>>,
              %po: tile<ptr<f32>>, %n: tile<i32>) optimization_hints=<default = {num_cta_in_cga = 2}> {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %start = constant <f32: 0.0> : tile<256x256xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f8E4M3FN>>
    %qb = assume div_by<16>, %pb : tile<ptr<f8E4M3FN>>
    %qu = assume div_by<16>, %pu : tile<ptr<f8E8M0FNU>>
    %qv = assume div_by<16>, %pv : tile<ptr<f8E8M0FNU>>
    %qo = assume div_by<16>, %po : tile<ptr<f32>>
    %ta = make_tensor_view %qa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf8E4M3FN, strides=[4096,1]>
    %tb = make_tensor_view %qb, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf8E4M3FN, strides=[4096,1]>
    %tu = make_tensor_view %qu, shape = [4096, 128], strides = [128, 1] : tensor_view<4096x128xf8E8M0FNU, strides=[128,1]>
    %tv = make_tensor_view %qv, shape = [128, 4096], strides = [4096, 1] : tensor_view<128x4096xf8E8M0FNU, strides=[4096,1]>
    %to = make_tensor_view %qo, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
    %va = make_partition_view %ta : partition_view<tile=(256x128), tensor_view<4096x4096xf8E4M3FN, strides=[4096,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(128x256), tensor_view<4096x4096xf8E4M3FN, strides=[4096,1]>>
    %vu = make_partition_view %tu : partition_view<tile=(256x4), tensor_view<4096x128xf8E8M0FNU, strides=[128,1]>>
    %vv = make_partition_view %tv : partition_view<tile=(4x256), tensor_view<128x4096xf8E8M0FNU, strides=[4096,1]>>
    %vo = make_partition_view %to : partition_view<tile=(256x256), tensor_view<4096x4096xf32, strides=[4096,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<256x256xf32>) {
      %a, %ka = load_view_tko weak %va[%x, %i] token = %t : partition_view<tile=(256x128), tensor_view<4096x4096xf8E4M3FN, strides=[4096,1]>>, tile<i32> -> tile<256x128xf8E4M3FN>, token
      %b, %kb = load_view_tko weak %vb[%i, %y] token = %t : partition_view<tile=(128x256), tensor_view<4096x4096xf8E4M3FN, strides=[4096,1]>>, tile<i32> -> tile<128x256xf8E4M3FN>, token
      %u, %ku = load_view_tko weak %vu[%x, %i] token = %t : partition_view<tile=(256x4), tensor_view<4096x128xf8E8M0FNU, strides=[128,1]>>, tile<i32> -> tile<256x4xf8E8M0FNU>, token
      %v, %kv = load_view_tko weak %vv[%i, %y] token = %t : partition_view<tile=(4x256), tensor_view<128x4096xf8E8M0FNU, strides=[4096,1]>>, tile<i32> -> tile<4x256xf8E8M0FNU>, token
      %c = mmaf_scaled %a, %b, %acc, %u, %v : tile<256x128xf8E4M3FN>, tile<128x256xf8E4M3FN>, tile<256x256xf32>, tile<256x4xf8E8M0FNU>, tile<4x256xf8E8M0FNU>
      continue %c : tile<256x256xf32>
    }
    %w = store_view_tko weak %sum, %vo[%x, %y] token = %t : tile<256x256xf32>, partition_view<tile=(256x256), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> token
    return
  }
}
