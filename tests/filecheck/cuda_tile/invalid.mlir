// RUN: tileiras-opt %s --verify-diagnostics --split-input-file

cuda_tile.module @types {
  entry @f(%a: tile<i32>, %b: tile<f32>) {
    // expected-error @below {{use of value '%b' expects different type than prior uses: '!cuda_tile.tile<i32>' vs '!cuda_tile.tile<f32>'}}
    %0 = addi %a, %b : tile<i32>
  }
}

// -----

cuda_tile.module @results {
  entry @f(%a: tile<i32>) {
    // expected-error @below {{operation defines 1 results but was provided 2 to bind}}
    %0:2 = addi %a, %a : tile<i32>
  }
}

// -----

cuda_tile.module @terminators {
  entry @f(%c: tile<i1>) {
    // expected-error @below {{'cuda_tile.if' op has non-empty return type, must define else branch}}
    %0 = if %c -> (tile<i1>) {
      yield %c : tile<i1>
    }
  }

  entry @g(%n: tile<i32>) {
    for %i in (%n to %n, step %n) : tile<i32> {
      // expected-error-re @below {{`for` is missing a valid terminator. {{.*}} return types: (), but found: ('!cuda_tile.tile<i32>')}}
      continue %n : tile<i32>
    }
  }
}

// -----

cuda_tile.module @views {
  // expected-error @below {{tile shape dimensions must have power of two length but got [3, 4]}}
  entry @f(%v: partition_view<tile=(3x4), tensor_view<?x?xf32, strides=[?,1]>>) {
  }
}

// -----

cuda_tile.module @words {
  entry @f(%a: tile<i32>) {
    // expected-error @below {{custom op 'cuda_tile.maxi' expected signedness to be one of: {'signed', 'unsigned'}}}
    %0 = maxi %a, %a sometimes : tile<i32>
  }
}
