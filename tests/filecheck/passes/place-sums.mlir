// Attention's sums that a thread would hold beside as many scores lie in tensor memory; the last product is added to them once the next
// weights are stored, with the factor that was the last iteration's, and once more behind the loop; a loop behind it goes on with both.
// The products then have a warp of their own. Where registers hold both, sums stay in them.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --print-ir-after=place-sums -o %t.as 2>&1 | filecheck %s
// RUN: filecheck %s --check-prefix=OWN --input-file=%t.as

// CHECK: sym_name = "beside"
// CHECK: [[O:%[0-9]+]] = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.tmem<f32, [#builtin.int<128>, #builtin.int<64>]
// CHECK-NEXT: [[S:%[0-9]+]] = "nv_tileas.alloc_tensor"() : () -> !nv_tileas.tmem<f32, [#builtin.int<128>, #builtin.int<64>]
// CHECK: "nv_tileas.store_tmem"([[ZERO:%[0-9]+]], [[O]])
// CHECK-NEXT: "nv_tileas.store_tmem"([[ZERO]], [[S]])
// CHECK: [[ONE:%[0-9]+]] = "arith.constant"() <{value = 1.000000e+00 : f32}> : () -> tensor<128x1xf32
// CHECK: [[R:%[0-9]+]] = "scf.for"({{.*}}, [[ONE]])
// CHECK-NEXT: ^bb0({{.*}}, [[BEFORE:%[0-9]+]]: tensor<128x1xf32
// CHECK: [[NOW:%[0-9]+]] = "math.exp2"
// CHECK: "nv_tileas.store_tmem"({{%[0-9]+}}, [[W:%[0-9]+]])
// CHECK-NEXT: [[B:%[0-9]+]] = "nv_tileas.broadcast"([[BEFORE]])
// CHECK-NEXT: "nv_tileas.add_tmem"([[B]], [[O]], [[S]]) <{fused}>
// CHECK: "nv_tileas.tensor_dot"([[W]], {{%[0-9]+}}, [[O]],
// CHECK: "scf.yield"([[NOW]])
// CHECK: [[B2:%[0-9]+]] = "nv_tileas.broadcast"([[R]])
// CHECK-NEXT: "nv_tileas.add_tmem"([[B2]], [[O]], [[S]]) <{fused}>
// CHECK-NEXT: "nv_tileas.load_tmem"([[S]])

// CHECK: sym_name = "twice"
// CHECK: "nv_tileas.store_tmem"({{%[0-9]+}}, [[O:%[0-9]+]])
// CHECK-NEXT: "nv_tileas.store_tmem"({{%[0-9]+}}, [[S:%[0-9]+]])
// CHECK: [[R:%[0-9]+]] = "scf.for"
// CHECK: "nv_tileas.add_tmem"({{%[0-9]+}}, [[O]], [[S]])
// CHECK: "scf.yield"
// CHECK-NOT: add_tmem
// CHECK: [[R2:%[0-9]+]] = "scf.for"({{.*}}, [[R]])
// CHECK: "nv_tileas.add_tmem"({{%[0-9]+}}, [[O]], [[S]])
// CHECK: "scf.yield"
// CHECK: [[B2:%[0-9]+]] = "nv_tileas.broadcast"([[R2]])
// CHECK-NEXT: "nv_tileas.add_tmem"([[B2]], [[O]], [[S]])
// CHECK-NEXT: "nv_tileas.load_tmem"([[S]])

// CHECK: sym_name = "few"
// CHECK-NOT: add_tmem
// CHECK: "math.fma"

// OWN: "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<1>, #builtin.int<1>]
// OWN: [[T:%[0-9]+]] = "nv_tileas.producer_acquire"([[WEIGHTS:%[0-9]+]], {{%[0-9]+}})
// OWN-NEXT: "nv_tileas.store_tmem"
// OWN-NEXT: "nv_tileas.broadcast"
// OWN-NEXT: "nv_tileas.add_tmem"({{.*}}wide
// OWN-NEXT: "nv_tileas.producer_commit"([[WEIGHTS]])
cuda_tile.module @m {
  entry @beside(%pa: tile<ptr<f16>>, %pk: tile<ptr<f16>>, %pv: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x64xf32>
    %first = constant <f32: 0.0> : tile<128x64xf32>
    %aa = assume div_by<16>, %pa : tile<ptr<f16>>
    %ak = assume div_by<16>, %pk : tile<ptr<f16>>
    %av = assume div_by<16>, %pv : tile<ptr<f16>>
    %ao = assume div_by<16>, %po : tile<ptr<f32>>
    %wa = make_tensor_view %aa, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf16, strides=[64,1]>
    %wk = make_tensor_view %ak, shape = [64, 65536], strides = [65536, 1] : tensor_view<64x65536xf16, strides=[65536,1]>
    %wv = make_tensor_view %av, shape = [65536, 64], strides = [64, 1] : tensor_view<65536x64xf16, strides=[64,1]>
    %wo = make_tensor_view %ao, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf32, strides=[64,1]>
    %va = make_partition_view %wa : partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>
    %vk = make_partition_view %wk : partition_view<tile=(64x64), tensor_view<64x65536xf16, strides=[65536,1]>>
    %vv = make_partition_view %wv : partition_view<tile=(64x64), tensor_view<65536x64xf16, strides=[64,1]>>
    %vo = make_partition_view %wo : partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>
    %a, %u0 = load_view_tko weak %va[%zero, %zero] token = %t : partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>, tile<i32> -> tile<128x64xf16>, token
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %first) -> (tile<128x64xf32>) {
      %k, %u1 = load_view_tko weak %vk[%zero, %i] token = %t : partition_view<tile=(64x64), tensor_view<64x65536xf16, strides=[65536,1]>>, tile<i32> -> tile<64x64xf16>, token
      %v, %u2 = load_view_tko weak %vv[%i, %zero] token = %t : partition_view<tile=(64x64), tensor_view<65536x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %x = mmaf %a, %k, %none : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %m = reduce %x dim=1 identities=[0.0 : f32] : tile<128x64xf32> -> tile<128xf32>
      (%e: tile<f32>, %d: tile<f32>) {
        %g = maxf %e, %d : tile<f32>
        yield %g : tile<f32>
      }
      %m1 = reshape %m : tile<128xf32> -> tile<128x1xf32>
      %r = exp2 %m1 : tile<128x1xf32>
      %rb = broadcast %r : tile<128x1xf32> -> tile<128x64xf32>
      %h = ftof %x : tile<128x64xf32> -> tile<128x64xf16>
      %z = mmaf %h, %v, %none : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %next = fma %acc, %rb, %z : tile<128x64xf32>
      continue %next : tile<128x64xf32>
    }
    %u3 = store_view_tko weak %s, %vo[%zero, %zero] token = %t : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }

  entry @twice(%pa: tile<ptr<f16>>, %pk: tile<ptr<f16>>, %pv: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>, %more: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x64xf32>
    %first = constant <f32: 0.0> : tile<128x64xf32>
    %aa = assume div_by<16>, %pa : tile<ptr<f16>>
    %ak = assume div_by<16>, %pk : tile<ptr<f16>>
    %av = assume div_by<16>, %pv : tile<ptr<f16>>
    %ao = assume div_by<16>, %po : tile<ptr<f32>>
    %wa = make_tensor_view %aa, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf16, strides=[64,1]>
    %wk = make_tensor_view %ak, shape = [64, 65536], strides = [65536, 1] : tensor_view<64x65536xf16, strides=[65536,1]>
    %wv = make_tensor_view %av, shape = [65536, 64], strides = [64, 1] : tensor_view<65536x64xf16, strides=[64,1]>
    %wo = make_tensor_view %ao, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf32, strides=[64,1]>
    %va = make_partition_view %wa : partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>
    %vk = make_partition_view %wk : partition_view<tile=(64x64), tensor_view<64x65536xf16, strides=[65536,1]>>
    %vv = make_partition_view %wv : partition_view<tile=(64x64), tensor_view<65536x64xf16, strides=[64,1]>>
    %vo = make_partition_view %wo : partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>
    %a, %u0 = load_view_tko weak %va[%zero, %zero] token = %t : partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>, tile<i32> -> tile<128x64xf16>, token
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %first) -> (tile<128x64xf32>) {
      %k, %u1 = load_view_tko weak %vk[%zero, %i] token = %t : partition_view<tile=(64x64), tensor_view<64x65536xf16, strides=[65536,1]>>, tile<i32> -> tile<64x64xf16>, token
      %v, %u2 = load_view_tko weak %vv[%i, %zero] token = %t : partition_view<tile=(64x64), tensor_view<65536x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %x = mmaf %a, %k, %none : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %m = reduce %x dim=1 identities=[0.0 : f32] : tile<128x64xf32> -> tile<128xf32>
      (%e: tile<f32>, %d: tile<f32>) {
        %g = maxf %e, %d : tile<f32>
        yield %g : tile<f32>
      }
      %m1 = reshape %m : tile<128xf32> -> tile<128x1xf32>
      %r = exp2 %m1 : tile<128x1xf32>
      %rb = broadcast %r : tile<128x1xf32> -> tile<128x64xf32>
      %h = ftof %x : tile<128x64xf32> -> tile<128x64xf16>
      %z = mmaf %h, %v, %none : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %next = fma %acc, %rb, %z : tile<128x64xf32>
      continue %next : tile<128x64xf32>
    }
    %s2 = for %i in (%n to %more, step %one) : tile<i32> iter_values(%acc = %s) -> (tile<128x64xf32>) {
      %k, %u1 = load_view_tko weak %vk[%zero, %i] token = %t : partition_view<tile=(64x64), tensor_view<64x65536xf16, strides=[65536,1]>>, tile<i32> -> tile<64x64xf16>, token
      %v, %u2 = load_view_tko weak %vv[%i, %zero] token = %t : partition_view<tile=(64x64), tensor_view<65536x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %x = mmaf %a, %k, %none : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %m = reduce %x dim=1 identities=[0.0 : f32] : tile<128x64xf32> -> tile<128xf32>
      (%e: tile<f32>, %d: tile<f32>) {
        %g = maxf %e, %d : tile<f32>
        yield %g : tile<f32>
      }
      %m1 = reshape %m : tile<128xf32> -> tile<128x1xf32>
      %r = exp2 %m1 : tile<128x1xf32>
      %rb = broadcast %r : tile<128x1xf32> -> tile<128x64xf32>
      %h = ftof %x : tile<128x64xf32> -> tile<128x64xf16>
      %z = mmaf %h, %v, %none : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %next = fma %acc, %rb, %z : tile<128x64xf32>
      continue %next : tile<128x64xf32>
    }
    %u3 = store_view_tko weak %s2, %vo[%zero, %zero] token = %t : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }

  entry @few(%pa: tile<ptr<f16>>, %pk: tile<ptr<f16>>, %pv: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %first = constant <f32: 0.0> : tile<64x64xf32>
    %aa = assume div_by<16>, %pa : tile<ptr<f16>>
    %ak = assume div_by<16>, %pk : tile<ptr<f16>>
    %av = assume div_by<16>, %pv : tile<ptr<f16>>
    %ao = assume div_by<16>, %po : tile<ptr<f32>>
    %wa = make_tensor_view %aa, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf16, strides=[64,1]>
    %wk = make_tensor_view %ak, shape = [64, 65536], strides = [65536, 1] : tensor_view<64x65536xf16, strides=[65536,1]>
    %wv = make_tensor_view %av, shape = [65536, 64], strides = [64, 1] : tensor_view<65536x64xf16, strides=[64,1]>
    %wo = make_tensor_view %ao, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %va = make_partition_view %wa : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>
    %vk = make_partition_view %wk : partition_view<tile=(64x64), tensor_view<64x65536xf16, strides=[65536,1]>>
    %vv = make_partition_view %wv : partition_view<tile=(64x64), tensor_view<65536x64xf16, strides=[64,1]>>
    %vo = make_partition_view %wo : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %a, %u0 = load_view_tko weak %va[%zero, %zero] token = %t : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %first) -> (tile<64x64xf32>) {
      %k, %u1 = load_view_tko weak %vk[%zero, %i] token = %t : partition_view<tile=(64x64), tensor_view<64x65536xf16, strides=[65536,1]>>, tile<i32> -> tile<64x64xf16>, token
      %v, %u2 = load_view_tko weak %vv[%i, %zero] token = %t : partition_view<tile=(64x64), tensor_view<65536x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %x = mmaf %a, %k, %none : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      %m = reduce %x dim=1 identities=[0.0 : f32] : tile<64x64xf32> -> tile<64xf32>
      (%e: tile<f32>, %d: tile<f32>) {
        %g = maxf %e, %d : tile<f32>
        yield %g : tile<f32>
      }
      %m1 = reshape %m : tile<64xf32> -> tile<64x1xf32>
      %r = exp2 %m1 : tile<64x1xf32>
      %rb = broadcast %r : tile<64x1xf32> -> tile<64x64xf32>
      %h = ftof %x : tile<64x64xf32> -> tile<64x64xf16>
      %z = mmaf %h, %v, %none : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      %next = fma %acc, %rb, %z : tile<64x64xf32>
      continue %next : tile<64x64xf32>
    }
    %u3 = store_view_tko weak %s, %vo[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
