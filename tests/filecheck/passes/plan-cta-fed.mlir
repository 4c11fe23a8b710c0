// Small parts of a loop's products are as fast as whole tiles where the loop's loads take no longer than what is done with them:
// attention's rows are shared by two CTAs, since both products of an iteration halve and only keys and values stay (sm_90). A
// product whose operands both come in each iteration reads more for each element; its tile stays whole.
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_90 --verify-each | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileaa --gpu-name=sm_100 --verify-each | filecheck %s --check-prefix=WHOLE
// On sm_100 64 rows take as long as 128.
// WHOLE-NOT: get_cta_rank

cuda_tile.module @m {
  // CHECK: sym_name = "attention", {{.*}}cluster = #builtin.int<2>
  // CHECK: "nv_tileaa.get_cta_rank"
  // CHECK: "nv_tileaa.dot"({{.*}}) -> tensor<64x64xf32>
  // CHECK: "nv_tileaa.dot"({{.*}}) -> tensor<64x64xf32>
  entry @attention(%pq: tile<ptr<f16>>, %pk: tile<ptr<f16>>, %pv: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) optimization_hints=<default = {num_cta_in_cga = 2}> {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %start = constant <f32: 0.0> : tile<128x64xf32>
    %qq = assume div_by<16>, %pq : tile<ptr<f16>>
    %qk = assume div_by<16>, %pk : tile<ptr<f16>>
    %qv = assume div_by<16>, %pv : tile<ptr<f16>>
    %tq = make_tensor_view %qq, shape = [4096, 64], strides = [64, 1] : tensor_view<4096x64xf16, strides=[64,1]>
    %tk = make_tensor_view %qk, shape = [64, 4096], strides = [4096, 1] : tensor_view<64x4096xf16, strides=[4096,1]>
    %tv = make_tensor_view %qv, shape = [4096, 64], strides = [64, 1] : tensor_view<4096x64xf16, strides=[64,1]>
    %to = make_tensor_view %po, shape = [4096, 64], strides = [64, 1] : tensor_view<4096x64xf32, strides=[64,1]>
    %vq = make_partition_view %tq : partition_view<tile=(128x64), tensor_view<4096x64xf16, strides=[64,1]>>
    %vk = make_partition_view %tk : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>
    %vv = make_partition_view %tv : partition_view<tile=(64x64), tensor_view<4096x64xf16, strides=[64,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x64), tensor_view<4096x64xf32, strides=[64,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %q, %r = load_view_tko weak %vq[%x, %zero] token = %t : partition_view<tile=(128x64), tensor_view<4096x64xf16, strides=[64,1]>>, tile<i32> -> tile<128x64xf16>, token
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<128x64xf32>) {
      %k, %u = load_view_tko weak %vk[%zero, %i] token = %t : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
      %v, %w = load_view_tko weak %vv[%i, %zero] token = %t : partition_view<tile=(64x64), tensor_view<4096x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %s = mmaf %q, %k, %start : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %e0 = exp2 %s : tile<128x64xf32>
      %e1 = exp2 %e0 : tile<128x64xf32>
      %e2 = exp2 %e1 : tile<128x64xf32>
      %e3 = exp2 %e2 : tile<128x64xf32>
      %e4 = exp2 %e3 : tile<128x64xf32>
      %e5 = exp2 %e4 : tile<128x64xf32>
      %p = ftof %e5 : tile<128x64xf32> -> tile<128x64xf16>
      %c = mmaf %p, %v, %acc : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      continue %c : tile<128x64xf32>
    }
    %o = store_view_tko weak %sum, %vo[%x, %zero] token = %t : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<4096x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }

  // CHECK: sym_name = "product"
  // CHECK-NOT: get_cta_rank
  // CHECK: "nv_tileaa.dot"({{.*}}) -> tensor<128x64xf32>
  entry @product(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) optimization_hints=<default = {num_cta_in_cga = 2}> {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %start = constant <f32: 0.0> : tile<128x64xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %ta = make_tensor_view %qa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %tb = make_tensor_view %qb, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %to = make_tensor_view %po, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
    %va = make_partition_view %ta : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(64x64), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %vo = make_partition_view %to : partition_view<tile=(128x64), tensor_view<4096x4096xf32, strides=[4096,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<128x64xf32>) {
      %a, %u = load_view_tko weak %va[%x, %i] token = %t : partition_view<tile=(128x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<128x64xf16>, token
      %b, %v = load_view_tko weak %vb[%i, %y] token = %t : partition_view<tile=(64x64), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
      %c = mmaf %a, %b, %acc : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      continue %c : tile<128x64xf32>
    }
    %w = store_view_tko weak %sum, %vo[%x, %y] token = %t : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> token
    return
  }
}
