// Sums of columns by a ring of small stages: the compute agent waits for four stages of f16 at once (two of f32, which fill more),
// reads them, gives them back behind one fence, and adds. What is left over goes stage by stage. A stage as large as four isn't joined
// with others, nor are stages whose tiles go on to a product of the loop, nor is there anything to join by -O2.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 -O3 | filecheck %s
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 -O2 | filecheck %s --check-prefix=EACH
cuda_tile.module @m {
  // CHECK: sym_name = "halves"
  // CHECK: "nv_tileas.agent_switch"
  // CHECK: arith.remui
  // CHECK: "scf.for"
  // CHECK-COUNT-4: "nv_tileas.consumer_wait"
  // CHECK-NEXT: "nv_tileas.extract_slice"
  // CHECK-NEXT: "nv_tileas.load_shared"
  // CHECK-NEXT: "nv_tileas.fence_async"
  // CHECK-COUNT-4: "nv_tileas.consumer_release"
  // CHECK-NEXT: "arith.convertf"
  // CHECK-COUNT-4: arith.addf
  // CHECK-NEXT: "scf.yield"
  // CHECK: "scf.for"
  // CHECK: "nv_tileas.consumer_wait"
  // CHECK-NEXT: "nv_tileas.extract_slice"
  // CHECK-NEXT: "nv_tileas.load_shared"
  // CHECK-NEXT: "nv_tileas.fence_async"
  // CHECK-NEXT: "nv_tileas.consumer_release"
  // CHECK-NOT: "nv_tileas.consumer_wait"
  // CHECK: "nv_tileas.return"
  // EACH: sym_name = "halves"
  // EACH: "nv_tileas.consumer_wait"
  // EACH-NOT: "nv_tileas.consumer_wait"
  // EACH: sym_name = "words"
  entry @halves(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<16x128xf32>
    %column, %by, %bz = get_tile_block_id : tile<i32>
    %pa = assume div_by<16>, %p : tile<ptr<f16>>
    %w = make_tensor_view %pa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf16, strides=[4096,1]>
    %o = make_tensor_view %q, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(16x128), tensor_view<4096x4096xf16, strides=[4096,1]>>
    %ov = make_partition_view %o : partition_view<tile=(128), tensor_view<4096xf32, strides=[1]>>
    %sums = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<16x128xf32>) {
      %x, %tx = load_view_tko weak %v[%k, %column] token = %t : partition_view<tile=(16x128), tensor_view<4096x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<16x128xf16>, token
      %wide = ftof %x : tile<16x128xf16> -> tile<16x128xf32>
      %more = addf %acc, %wide : tile<16x128xf32>
      continue %more : tile<16x128xf32>
    }
    %sum = reduce %sums dim=0 identities=[0.0 : f32] : tile<16x128xf32> -> tile<128xf32>
      (%a: tile<f32>, %b: tile<f32>) {
        %r = addf %a, %b : tile<f32>
        yield %r : tile<f32>
      }
    %e = store_view_tko weak %sum, %ov[%column] token = %t : tile<128xf32>, partition_view<tile=(128), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
    return
  }

  // CHECK: sym_name = "words"
  // CHECK: "nv_tileas.agent_switch"
  // CHECK: "scf.for"
  // CHECK-COUNT-2: "nv_tileas.consumer_wait"
  // CHECK-NOT: "nv_tileas.consumer_wait"
  // CHECK-COUNT-2: arith.addf
  // CHECK-NEXT: "scf.yield"
  // CHECK: "nv_tileas.return"
  entry @words(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<16x128xf32>
    %column, %by, %bz = get_tile_block_id : tile<i32>
    %pa = assume div_by<16>, %p : tile<ptr<f32>>
    %w = make_tensor_view %pa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
    %o = make_tensor_view %q, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(16x128), tensor_view<4096x4096xf32, strides=[4096,1]>>
    %ov = make_partition_view %o : partition_view<tile=(128), tensor_view<4096xf32, strides=[1]>>
    %sums = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<16x128xf32>) {
      %x, %tx = load_view_tko weak %v[%k, %column] token = %t : partition_view<tile=(16x128), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> tile<16x128xf32>, token
      %more = addf %acc, %x : tile<16x128xf32>
      continue %more : tile<16x128xf32>
    }
    %sum = reduce %sums dim=0 identities=[0.0 : f32] : tile<16x128xf32> -> tile<128xf32>
      (%a: tile<f32>, %b: tile<f32>) {
        %r = addf %a, %b : tile<f32>
        yield %r : tile<f32>
      }
    %e = store_view_tko weak %sum, %ov[%column] token = %t : tile<128xf32>, partition_view<tile=(128), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
    return
  }

  // CHECK: sym_name = "large"
  // CHECK: "nv_tileas.agent_switch"
  // CHECK: "nv_tileas.consumer_wait"
  // CHECK-NOT: "nv_tileas.consumer_wait"
  // CHECK: "nv_tileas.return"
  entry @large(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<64x128xf32>
    %column, %by, %bz = get_tile_block_id : tile<i32>
    %pa = assume div_by<16>, %p : tile<ptr<f32>>
    %w = make_tensor_view %pa, shape = [4096, 4096], strides = [4096, 1] : tensor_view<4096x4096xf32, strides=[4096,1]>
    %o = make_tensor_view %q, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(64x128), tensor_view<4096x4096xf32, strides=[4096,1]>>
    %ov = make_partition_view %o : partition_view<tile=(128), tensor_view<4096xf32, strides=[1]>>
    %sums = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<64x128xf32>) {
      %x, %tx = load_view_tko weak %v[%k, %column] token = %t : partition_view<tile=(64x128), tensor_view<4096x4096xf32, strides=[4096,1]>>, tile<i32> -> tile<64x128xf32>, token
      %more = addf %acc, %x : tile<64x128xf32>
      continue %more : tile<64x128xf32>
    }
    %sum = reduce %sums dim=0 identities=[0.0 : f32] : tile<64x128xf32> -> tile<128xf32>
      (%a: tile<f32>, %b: tile<f32>) {
        %r = addf %a, %b : tile<f32>
        yield %r : tile<f32>
      }
    %e = store_view_tko weak %sum, %ov[%column] token = %t : tile<128xf32>, partition_view<tile=(128), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
