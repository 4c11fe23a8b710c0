// A branch that masks a tile stays one where the copy engine brings tiles: LLVM would compute it in every iteration and choose. That
// of a few elements it may flatten.
// RUN: tileiras-translate --mlir-to-cudatilebc --bytecode-version 13.4 %s -o %t.tileirbc
// RUN: tileiras --gpu-name sm_90 -O3 --emit llvm %t.tileirbc | filecheck %s
// RUN: tileiras --gpu-name sm_80 -O3 --emit llvm %t.tileirbc | filecheck %s --check-prefix=OLD

cuda_tile.module @m {
  // CHECK: define {{.*}}@many(
  // CHECK: br i1
  // CHECK: call void asm sideeffect "", ""()
  // CHECK: setp.ne.b32
  // CHECK: select i1
  // CHECK: define {{.*}}@few(
  // CHECK-NOT: asm sideeffect "", ""
  // OLD: define {{.*}}@many(
  // OLD-NOT: asm sideeffect "", ""
  entry @many(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %low = constant <f32: -1.0> : tile<64x64xf32>
    %i = iota : tile<64xi32>
    %i1 = reshape %i : tile<64xi32> -> tile<64x1xi32>
    %i2 = reshape %i : tile<64xi32> -> tile<1x64xi32>
    %rows = broadcast %i1 : tile<64x1xi32> -> tile<64x64xi32>
    %columns = broadcast %i2 : tile<1x64xi32> -> tile<64x64xi32>
    %below = cmpi greater_than_or_equal %rows, %columns, signed : tile<64x64xi32> -> tile<64x64xi1>
    %w = make_tensor_view %p, shape = [65536, 64], strides = [64, 1] : tensor_view<65536x64xf32, strides=[64,1]>
    %v = make_partition_view %w : partition_view<tile=(64x64), tensor_view<65536x64xf32, strides=[64,1]>>
    for %j in (%zero to %n, step %one) : tile<i32> {
      %a, %t = load_view_tko weak %v[%j, %zero] : partition_view<tile=(64x64), tensor_view<65536x64xf32, strides=[64,1]>>, tile<i32> -> tile<64x64xf32>, token
      %c = cmpi equal %j, %n, signed : tile<i32> -> tile<i1>
      %m = if %c -> (tile<64x64xf32>) {
        %s = select %below, %a, %low : tile<64x64xi1>, tile<64x64xf32>
        yield %s : tile<64x64xf32>
      } else {
        yield %a : tile<64x64xf32>
      }
      %u = store_view_tko weak %m, %v[%j, %zero] token=%t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<65536x64xf32, strides=[64,1]>>, tile<i32> -> token
    }
    return
  }

  entry @few(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %low = constant <f32: -1.0> : tile<64xf32>
    %w = make_tensor_view %p, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(64), tensor_view<65536xf32, strides=[1]>>
    for %j in (%zero to %n, step %one) : tile<i32> {
      %a, %t = load_view_tko weak %v[%j] : partition_view<tile=(64), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> tile<64xf32>, token
      %c = cmpi equal %j, %n, signed : tile<i32> -> tile<i1>
      %m = if %c -> (tile<64xf32>) {
        %s = addf %a, %low : tile<64xf32>
        yield %s : tile<64xf32>
      } else {
        yield %a : tile<64xf32>
      }
      %u = store_view_tko weak %m, %v[%j] token=%t : tile<64xf32>, partition_view<tile=(64), tensor_view<65536xf32, strides=[1]>>, tile<i32> -> token
    }
    return
  }
}
