// A step of a gated delta rule: five products, three of which need the state or what it gave. The scores' product, which needs neither,
// runs behind the first one, and what scales its rows is computed while threads would wait; the next state's product doesn't stand
// behind what is stored. Few gates that all threads use in several ways are brought by the copy engine, an iteration ahead. Threads
// wait for the first product alone, and give back a stage that products read when they have waited for these.
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_100 --verify-each --print-ir-after=early-dots,list-schedule,stage-tiles,commit-dots -o %t.as 2> %t.ir
// RUN: filecheck %s --input-file=%t.ir
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_120 --verify-each --print-ir-after=list-schedule -o %t.as 2>&1 | filecheck %s --check-prefix=ALONE
// RUN: tileiras-opt %s --to=nv_tileas --gpu-name=sm_90 --print-ir-after=stage-tiles -o %t.as 2>&1 | filecheck %s --check-prefix=GROUPS

// CHECK: IR dump after early-dots
// CHECK: "scf.for"
// CHECK: [[STORED:%[0-9]+]] = "nv_tileas.tiled_store"
// CHECK: "nv_tileas.reduce"
// CHECK: "scf.yield"

// CHECK: IR dump after list-schedule
// CHECK: "scf.for"
// CHECK: ^bb0({{%[0-9]+}}: i32, [[STATE:%[0-9]+]]: tensor
// CHECK: "nv_tileas.reduce"
// CHECK: [[HALF:%[0-9]+]] = "arith.convertf"([[STATE]])
// CHECK: [[W:%[0-9]+]] = "nv_tileas.dot"({{%[0-9]+}}, [[HALF]]
// CHECK: "nv_tileas.dot"
// CHECK: [[O:%[0-9]+]] = "nv_tileas.dot"({{%[0-9]+}}, [[HALF]]
// CHECK: "math.exp"({{.*}}tensor<64x64xf32>
// CHECK: "arith.subf"({{%[0-9]+}}, [[W]])
// CHECK: "nv_tileas.dot"
// CHECK: "nv_tileas.tiled_store"
// CHECK-NEXT: "scf.yield"

// CHECK: IR dump after stage-tiles
// CHECK: "scf.for"
// CHECK: "nv_tileas.tiled_load"{{.*}}engine}>{{.*}}tile = [64], !nv_tileaa.memref<8192xf32
// CHECK: "scf.yield"

// CHECK: IR dump after commit-dots
// CHECK: "scf.for"
// CHECK: "nv_tileas.tensor_dot"({{%[0-9]+}}, {{%[0-9]+}}, [[SUMS:%[0-9]+]],
// CHECK-NEXT: "nv_tileas.producer_commit"([[FIRST:%[0-9]+]])
// CHECK: "nv_tileas.tensor_dot"
// CHECK: "nv_tileas.tensor_dot"
// CHECK-NOT: "nv_tileas.consumer_wait"{{.*}}"umma"
// CHECK: "math.exp"
// CHECK: "nv_tileas.consumer_wait"([[FIRST]], {{.*}}[[SUMS]])
// CHECK: "nv_tileas.load_tmem"([[SUMS]])

// Shared memory of sm_120 holds one iteration's tiles: who reads a tile last does so in front of what reads none, and its load stands
// in front of who reads it first.
// ALONE: IR dump after list-schedule
// ALONE: "scf.for"
// ALONE: [[W:%[0-9]+]], {{%[0-9]+}} = "nv_tileas.tiled_load"
// ALONE: "nv_tileas.dot"([[W]],
// ALONE: [[K:%[0-9]+]], {{%[0-9]+}} = "nv_tileas.tiled_load"({{.*}}tile = [64, 128]
// ALONE: "arith.convertf"([[K]])
// ALONE: [[Q:%[0-9]+]], {{%[0-9]+}} = "nv_tileas.tiled_load"
// ALONE: "nv_tileas.dot"([[Q]],
// ALONE: "nv_tileas.dot"([[Q]],
// ALONE: "nv_tileas.dot"
// ALONE: "nv_tileas.tiled_store"

// GROUPS: IR dump after stage-tiles
// GROUPS: "nv_tileas.tiled_load"{{.*}}engine}>{{.*}}tile = [64], !nv_tileaa.memref<8192xf32
cuda_tile.module @m {
  entry @gated(%pq: tile<ptr<bf16>>, %pk: tile<ptr<bf16>>, %pw: tile<ptr<bf16>>, %pu: tile<ptr<bf16>>, %pg: tile<ptr<f32>>, %po: tile<ptr<bf16>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %start = constant <f32: 0.0> : tile<128x64xf32>
    %aq = assume div_by<16>, %pq : tile<ptr<bf16>>
    %ak = assume div_by<16>, %pk : tile<ptr<bf16>>
    %aw = assume div_by<16>, %pw : tile<ptr<bf16>>
    %au = assume div_by<16>, %pu : tile<ptr<bf16>>
    %ag = assume div_by<16>, %pg : tile<ptr<f32>>
    %ao = assume div_by<16>, %po : tile<ptr<bf16>>
    %tq = make_tensor_view %aq, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xbf16, strides=[128,1]>
    %tk = make_tensor_view %ak, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xbf16, strides=[128,1]>
    %tw = make_tensor_view %aw, shape = [8192, 128], strides = [128, 1] : tensor_view<8192x128xbf16, strides=[128,1]>
    %tu = make_tensor_view %au, shape = [8192, 64], strides = [64, 1] : tensor_view<8192x64xbf16, strides=[64,1]>
    %tg = make_tensor_view %ag, shape = [8192], strides = [1] : tensor_view<8192xf32, strides=[1]>
    %to = make_tensor_view %ao, shape = [8192, 64], strides = [64, 1] : tensor_view<8192x64xbf16, strides=[64,1]>
    %vq = make_partition_view %tq : partition_view<tile=(64x128), tensor_view<8192x128xbf16, strides=[128,1]>>
    %vk = make_partition_view %tk : partition_view<tile=(64x128), tensor_view<8192x128xbf16, strides=[128,1]>>
    %vw = make_partition_view %tw : partition_view<tile=(64x128), tensor_view<8192x128xbf16, strides=[128,1]>>
    %vu = make_partition_view %tu : partition_view<tile=(64x64), tensor_view<8192x64xbf16, strides=[64,1]>>
    %vg = make_partition_view %tg : partition_view<tile=(64), tensor_view<8192xf32, strides=[1]>>
    %vo = make_partition_view %to : partition_view<tile=(64x64), tensor_view<8192x64xbf16, strides=[64,1]>>
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%state = %start) -> (tile<128x64xf32>) {
      %q, %uq = load_view_tko weak %vq[%i, %zero] token = %t : partition_view<tile=(64x128), tensor_view<8192x128xbf16, strides=[128,1]>>, tile<i32> -> tile<64x128xbf16>, token
      %k, %uk = load_view_tko weak %vk[%i, %zero] token = %t : partition_view<tile=(64x128), tensor_view<8192x128xbf16, strides=[128,1]>>, tile<i32> -> tile<64x128xbf16>, token
      %w, %uw = load_view_tko weak %vw[%i, %zero] token = %t : partition_view<tile=(64x128), tensor_view<8192x128xbf16, strides=[128,1]>>, tile<i32> -> tile<64x128xbf16>, token
      %u, %uu = load_view_tko weak %vu[%i, %zero] token = %t : partition_view<tile=(64x64), tensor_view<8192x64xbf16, strides=[64,1]>>, tile<i32> -> tile<64x64xbf16>, token
      %g, %ug = load_view_tko weak %vg[%i] token = %t : partition_view<tile=(64), tensor_view<8192xf32, strides=[1]>>, tile<i32> -> tile<64xf32>, token
      %half = ftof %state : tile<128x64xf32> -> tile<128x64xbf16>
      %ws = mmaf %w, %half, %none : tile<64x128xbf16>, tile<128x64xbf16>, tile<64x64xf32>
      %uf = ftof %u : tile<64x64xbf16> -> tile<64x64xf32>
      %new = subf %uf, %ws rounding<nearest_even> : tile<64x64xf32>
      %kt = permute %k [1, 0] : tile<64x128xbf16> -> tile<128x64xbf16>
      %qk = mmaf %q, %kt, %none : tile<64x128xbf16>, tile<128x64xbf16>, tile<64x64xf32>
      %gr = reshape %g : tile<64xf32> -> tile<64x1xf32>
      %gc = reshape %g : tile<64xf32> -> tile<1x64xf32>
      %gr2 = broadcast %gr : tile<64x1xf32> -> tile<64x64xf32>
      %gc2 = broadcast %gc : tile<1x64xf32> -> tile<64x64xf32>
      %gd = subf %gr2, %gc2 rounding<nearest_even> : tile<64x64xf32>
      %ge = exp %gd : tile<64x64xf32>
      %a = mulf %qk, %ge rounding<nearest_even> : tile<64x64xf32>
      %qs = mmaf %q, %half, %none : tile<64x128xbf16>, tile<128x64xbf16>, tile<64x64xf32>
      %er = exp %gr : tile<64x1xf32>
      %er2 = broadcast %er : tile<64x1xf32> -> tile<64x64xf32>
      %o0 = mulf %qs, %er2 rounding<nearest_even> : tile<64x64xf32>
      %ah = ftof %a : tile<64x64xf32> -> tile<64x64xbf16>
      %nh = ftof %new : tile<64x64xf32> -> tile<64x64xbf16>
      %o1 = mmaf %ah, %nh, %o0 : tile<64x64xbf16>, tile<64x64xbf16>, tile<64x64xf32>
      %oh = ftof %o1 : tile<64x64xf32> -> tile<64x64xbf16>
      %st = store_view_tko weak %oh, %vo[%i, %zero] token = %t : tile<64x64xbf16>, partition_view<tile=(64x64), tensor_view<8192x64xbf16, strides=[64,1]>>, tile<i32> -> token
      %last = reduce %g dim=0 identities=[0x7F800000 : f32] : tile<64xf32> -> tile<f32> (%x : tile<f32>, %y : tile<f32>) {
        %m = minf %x, %y : tile<f32>
        yield %m : tile<f32>
      }
      %l1 = reshape %last : tile<f32> -> tile<1xf32>
      %l2 = broadcast %l1 : tile<1xf32> -> tile<64xf32>
      %ld = subf %l2, %g rounding<nearest_even> : tile<64xf32>
      %le = exp %ld : tile<64xf32>
      %lr = reshape %le : tile<64xf32> -> tile<64x1xf32>
      %lr2 = broadcast %lr : tile<64x1xf32> -> tile<64x128xf32>
      %kf = ftof %k : tile<64x128xbf16> -> tile<64x128xf32>
      %ks = mulf %kf, %lr2 rounding<nearest_even> : tile<64x128xf32>
      %kh = ftof %ks : tile<64x128xf32> -> tile<64x128xbf16>
      %kht = permute %kh [1, 0] : tile<64x128xbf16> -> tile<128x64xbf16>
      %el = exp %last : tile<f32>
      %el1 = reshape %el : tile<f32> -> tile<1x1xf32>
      %el2 = broadcast %el1 : tile<1x1xf32> -> tile<128x64xf32>
      %ss = mulf %state, %el2 rounding<nearest_even> : tile<128x64xf32>
      %sn = mmaf %kht, %nh, %ss : tile<128x64xbf16>, tile<64x64xbf16>, tile<128x64xf32>
      continue %sn : tile<128x64xf32>
    }
    %h = ftof %s : tile<128x64xf32> -> tile<128x64xbf16>
    %vs = make_partition_view %to : partition_view<tile=(128x64), tensor_view<8192x64xbf16, strides=[64,1]>>
    %z = store_view_tko weak %h, %vs[%zero, %zero] token = %t : tile<128x64xbf16>, partition_view<tile=(128x64), tensor_view<8192x64xbf16, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
