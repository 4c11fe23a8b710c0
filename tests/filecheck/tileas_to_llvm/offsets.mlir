// A gather's offsets: what is known of them is added by the access itself, to one address for all of a thread's registers.
// RUN: tileiras-translate --mlir-to-cudatilebc --bytecode-version 13.4 %s -o %t.tileirbc
// RUN: tileiras --gpu-name sm_90 -O3 --emit ptx %t.tileirbc | filecheck %s

// CHECK: .entry gather(
// CHECK: mul.wide.u32 %[[PLACE:rd[0-9]+]], {{.*}}, 4;
// CHECK-NOT: mul.wide
// CHECK: ld.global.b32 {{.*}}, [%[[FIRST:rd[0-9]+]]];
// CHECK: ld.global.b32 {{.*}}, [%[[FIRST]]+{{[0-9]+}}];
// CHECK-NOT: mul.wide
// CHECK: ret;
cuda_tile.module @m {
  entry @gather(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %s: tile<i64>) {
    %i = iota : tile<512xi32>
    %w = exti %i signed : tile<512xi32> -> tile<512xi64>
    %one = reshape %s : tile<i64> -> tile<1xi64>
    %row = broadcast %one : tile<1xi64> -> tile<512xi64>
    %o = addi %row, %w : tile<512xi64>
    %a = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %b = broadcast %a : tile<1xptr<f32>> -> tile<512xptr<f32>>
    %c = offset %b, %o : tile<512xptr<f32>>, tile<512xi64> -> tile<512xptr<f32>>
    %v, %t = load_ptr_tko weak %c : tile<512xptr<f32>> -> tile<512xf32>, token
    %x = reshape %q : tile<ptr<f32>> -> tile<1xptr<f32>>
    %y = broadcast %x : tile<1xptr<f32>> -> tile<512xptr<f32>>
    %z = offset %y, %w : tile<512xptr<f32>>, tile<512xi64> -> tile<512xptr<f32>>
    %u = store_ptr_tko weak %z, %v token = %t : tile<512xptr<f32>>, tile<512xf32> -> token
    return
  }
}
