// What an iteration's last product gives is added to sums in registers in the next one, in front of where that one writes its weights,
// with the factor that was this one's; once more behind the loop. The first adds a product of zeros. Sums that begin elsewhere than at
// zero, or that something else is done with, stay where they are.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --print-ir-after=late-sums -o %t.as 2>&1 | filecheck %s

// CHECK: sym_name = "beside"
// CHECK: "nv_tileas.store_tmem"({{%[0-9]+}}, [[O:%[0-9]+]])
// CHECK: [[ONE:%[0-9]+]] = "arith.constant"() <{value = 1.000000e+00 : f32}> : () -> tensor<64x1xf32
// CHECK: [[SUMS:%[0-9]+]], [[R:%[0-9]+]] = "scf.for"({{.*}}, [[ONE]])
// CHECK-NEXT: ^bb0({{.*}}, [[HELD:%[0-9]+]]: tensor<64x64xf32{{.*}}, [[BEFORE:%[0-9]+]]: tensor<64x1xf32
// CHECK: [[NOW:%[0-9]+]] = "math.exp2"
// CHECK: [[B:%[0-9]+]] = "nv_tileas.broadcast"([[BEFORE]])
// CHECK-NEXT: [[Y:%[0-9]+]] = "nv_tileas.load_tmem"([[O]])
// CHECK-NEXT: [[NEXT:%[0-9]+]] = "math.fma"([[HELD]], [[B]], [[Y]])
// CHECK-NEXT: "nv_tileas.store_tmem"({{%[0-9]+}}, [[W:%[0-9]+]])
// CHECK: "nv_tileas.tensor_dot"([[W]], {{%[0-9]+}}, [[O]],
// CHECK: "scf.yield"([[NEXT]], [[NOW]])
// CHECK: [[B2:%[0-9]+]] = "nv_tileas.broadcast"([[R]])
// CHECK-NEXT: [[Y2:%[0-9]+]] = "nv_tileas.load_tmem"([[O]])
// CHECK-NEXT: "math.fma"([[SUMS]], [[B2]], [[Y2]])

// CHECK: sym_name = "from_one"
// CHECK: "scf.for"
// CHECK: "nv_tileas.tensor_dot"({{.*}}.ts"
// CHECK-NEXT: "nv_tileas.consumer_release"
// CHECK-NEXT: "nv_tileas.load_tmem"
// CHECK-NEXT: "math.fma"
cuda_tile.module @m {
  entry @beside(%pa: tile<ptr<f16>>, %pk: tile<ptr<f16>>, %pv: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
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

  entry @from_one(%pa: tile<ptr<f16>>, %pk: tile<ptr<f16>>, %pv: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %first = constant <f32: 1.0> : tile<64x64xf32>
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
