cuda_tile.module @every_op {
  global  @table <f32: [1.000000e+00, -2.500000e+00]> : tile<2xf32>
  global private  constant @limits alignment = 64 <i8: [-128, 127, 0, 1]> : tile<4xi8>
  entry @arithmetic(%arg0: tile<f32>, %arg1: tile<i32>, %arg2: tile<i64>) {
    %cst_1_f32 = constant <f32: 1.000000e+00> : tile<4x8xf32>
    %cst_f32 = constant <f32: [[1.000000e+00, 2.000000e+00], [0x7FC00000, -0.000000e+00]]> : tile<2x2xf32>
    %cst_NaN_f32 = constant <f32: 0x7FC00000> : tile<f32>
    %cst_2_f16 = constant <f16: 2.000000e+00> : tile<8xf16>
    %cst_f64 = constant <f64: 1.000000e-01> : tile<f64>
    %true = constant <i1: true> : tile<4x8xi1>
    %cst_i1 = constant <i1: [true, false]> : tile<2xi1>
    %cst_-7_i32 = constant <i32: -7> : tile<4x8xi32>
    %cst_3_i8 = constant <i8: 3> : tile<4x8xi8>
    %0 = absf %cst_1_f32 : tile<4x8xf32>
    %1 = negf %0 : tile<4x8xf32>
    %2 = ceil %1 : tile<4x8xf32>
    %3 = floor %2 : tile<4x8xf32>
    %4 = cos %3 : tile<4x8xf32>
    %5 = cosh %4 : tile<4x8xf32>
    %6 = sin %5 : tile<4x8xf32>
    %7 = sinh %6 : tile<4x8xf32>
    %8 = tan %7 : tile<4x8xf32>
    %9 = tanh %8  : tile<4x8xf32>
    %10 = tanh %8 rounding<approx> : tile<4x8xf32>
    %11 = exp %9  : tile<4x8xf32>
    %12 = exp %9 rounding<approx> : tile<4x8xf32>
    %13 = exp2 %11 flush_to_zero : tile<4x8xf32>
    %14 = log %13 : tile<4x8xf32>
    %15 = log2 %14 : tile<4x8xf32>
    %16 = sqrt %15  : tile<4x8xf32>
    %17 = sqrt %15 rounding<approx> flush_to_zero : tile<4x8xf32>
    %18 = rsqrt %16 : tile<4x8xf32>
    %19 = addf %18, %17 rounding<zero> flush_to_zero : tile<4x8xf32>
    %20 = subf %19, %18  : tile<4x8xf32>
    %21 = mulf %20, %19 rounding<positive_inf> : tile<4x8xf32>
    %22 = divf %21, %20 rounding<full> flush_to_zero : tile<4x8xf32>
    %23 = remf %22, %21 : tile<4x8xf32>
    %24 = fma %23, %22, %21 rounding<negative_inf> : tile<4x8xf32>
    %25 = maxf %24, %23 flush_to_zero propagate_nan : tile<4x8xf32>
    %26 = minf %25, %24 propagate_nan : tile<4x8xf32>
    %27 = fpowf %26, %25 : tile<4x8xf32>
    %28 = fpowi %27, %cst_-7_i32 : tile<4x8xf32>, tile<4x8xi32>
    %29 = atan2 %28, %27 : tile<4x8xf32>
    %30 = cmpf less_than_or_equal unordered %29, %28 : tile<4x8xf32> -> tile<4x8xi1>
    %31 = select %30, %29, %28 : tile<4x8xi1>, tile<4x8xf32>
    %32 = absi %cst_-7_i32 : tile<4x8xi32>
    %33 = negi %32 overflow<no_signed_wrap> : tile<4x8xi32>
    %34 = addi %33, %32 overflow<no_wrap> : tile<4x8xi32>
    %35 = subi %34, %33 : tile<4x8xi32>
    %36 = muli %35, %34 overflow<no_unsigned_wrap> : tile<4x8xi32>
    %37 = mulhii %36, %35 : tile<4x8xi32>
    %38 = divi %37, %36 signed rounding<negative_inf> : tile<4x8xi32>
    %39 = divi %38, %37 unsigned : tile<4x8xi32>
    %40 = remi %39, %38 signed : tile<4x8xi32>
    %41 = maxi %40, %39 signed : tile<4x8xi32>
    %42 = mini %41, %40 unsigned : tile<4x8xi32>
    %43 = shli %42, %41 : tile<4x8xi32>
    %44 = shri %43, %42 signed : tile<4x8xi32>
    %45 = andi %44, %43 : tile<4x8xi32>
    %46 = ori %45, %44 : tile<4x8xi32>
    %47 = xori %46, %45 : tile<4x8xi32>
    %48 = cmpi greater_than %47, %46, signed : tile<4x8xi32> -> tile<4x8xi1>
    %49 = bitcast %47 : tile<4x8xi32> -> tile<4x8xf32>
    %50 = exti %47 unsigned : tile<4x8xi32> -> tile<4x8xi64>
    %51 = trunci %50 overflow<no_signed_wrap> : tile<4x8xi64> -> tile<4x8xi16>
    %52 = ftof %49  : tile<4x8xf32> -> tile<4x8xf16>
    %53 = ftof %49 rounding<zero> : tile<4x8xf32> -> tile<4x8xf8E8M0FNU>
    %54 = ftoi %49 signed  : tile<4x8xf32> -> tile<4x8xi32>
    %55 = ftoi %49 unsigned  saturating : tile<4x8xf32> -> tile<4x8xi8>
    %56 = itof %54 unsigned  : tile<4x8xi32> -> tile<4x8xbf16>
    %cst_0_f32 = constant <f32: 0.000000e+00> : tile<16x8xf32>
    %cst_1_f16 = constant <f16: 1.000000e+00> : tile<16x32xf16>
    %cst_1_f16_0 = constant <f16: 1.000000e+00> : tile<32x8xf16>
    %57 = mmaf %cst_1_f16, %cst_1_f16_0, %cst_0_f32 fast_acc : tile<16x32xf16>, tile<32x8xf16>, tile<16x8xf32>
    %cst_1_f8E4M3FN = constant <f8E4M3FN: 1.000000e+00> : tile<16x32xf8E4M3FN>
    %cst_1_f8E4M3FN_1 = constant <f8E4M3FN: 1.000000e+00> : tile<32x8xf8E4M3FN>
    %cst_1_f8E8M0FNU = constant <f8E8M0FNU: 1.000000e+00> : tile<16x1xf8E8M0FNU>
    %cst_1_f8E8M0FNU_2 = constant <f8E8M0FNU: 1.000000e+00> : tile<1x8xf8E8M0FNU>
    %58 = mmaf_scaled %cst_1_f8E4M3FN, %cst_1_f8E4M3FN_1, %57, %cst_1_f8E8M0FNU, %cst_1_f8E8M0FNU_2 : tile<16x32xf8E4M3FN>, tile<32x8xf8E4M3FN>, tile<16x8xf32>, tile<16x1xf8E8M0FNU>, tile<1x8xf8E8M0FNU>
    %cst_1_i8 = constant <i8: 1> : tile<16x32xi8>
    %cst_1_i8_3 = constant <i8: 1> : tile<32x8xi8>
    %cst_0_i32 = constant <i32: 0> : tile<16x8xi32>
    %59 = mmai %cst_1_i8, %cst_1_i8_3, %cst_0_i32 signed unsigned : tile<16x32xi8>, tile<32x8xi8>, tile<16x8xi32>
    return
  }
  entry @shapes(%arg0: tile<ptr<f32>>, %arg1: tile<i32>) optimization_hints=<default = {occupancy = 2}, sm_90 = {num_cta_in_cga = 1}> {
    %assume = assume div_by<16>, %arg0 : tile<ptr<f32>>
    %assume_0 = assume bounded<0, ?>, %arg1 : tile<i32>
    %assume_assume = assume bounded<?, 100>, %assume_0 : tile<i32>
    %0 = iota : tile<32xi32>
    %assume_1 = assume div_by<4, every 8 along 0>, %0 : tile<32xi32>
    %assume_2 = assume same_elements<[4]>, %0 : tile<32xi32>
    %reshape = reshape %assume_2 : tile<32xi32> -> tile<4x8xi32>
    %assume_reshape = assume same_elements<[1, 2]>, %reshape : tile<4x8xi32>
    %bcast = broadcast %reshape : tile<4x8xi32> -> tile<4x8xi32>
    %1 = permute %bcast [1, 0] : tile<4x8xi32> -> tile<8x4xi32>
    %2 = cat %bcast, %reshape dim = 1 : tile<4x8xi32>, tile<4x8xi32> -> tile<4x16xi32>
    %blockId_x, %blockId_y, %blockId_z = get_tile_block_id : tile<i32>
    %gridSize_x, %gridSize_y, %gridSize_z = get_num_tile_blocks : tile<i32>
    %3 = extract %2[%blockId_x, %gridSize_y] : tile<4x16xi32> -> tile<4x8xi32>
    %4 = insert %3, %2[%blockId_x, %gridSize_y] : tile<4x8xi32>, tile<4x16xi32>
    %cst_2_i8 = constant <i8: 2> : tile<16xi8>
    %5 = unpack %cst_2_i8 : tile<16xi8> -> tile<32xf4E2M1FN>
    %6 = pack %5 : tile<32xf4E2M1FN> -> tile<16xi8>
    %reduce = reduce %4 dim=1 identities=[0 : i32] : tile<4x16xi32> -> tile<4xi32> 
    (%reduce_lhs: tile<i32>, %reduce_rhs: tile<i32>) {
      %11 = addi %reduce_lhs, %reduce_rhs : tile<i32>
      yield %11 : tile<i32>
    }
    %reduce_3:2 = reduce %3, %bcast dim=0 identities=[0 : i32, 1 : i32] : tile<4x8xi32>, tile<4x8xi32> -> tile<8xi32>, tile<8xi32> 
    (%reduce_lhs0: tile<i32>, %reduce_rhs0: tile<i32>, %reduce_lhs1: tile<i32>, %reduce_rhs1: tile<i32>) {
      %11 = addi %reduce_lhs0, %reduce_rhs0 : tile<i32>
      %12 = muli %reduce_lhs1, %reduce_rhs1 : tile<i32>
      yield %11, %12 : tile<i32>, tile<i32>
    }
    %7 = scan %reduce_3#1 dim=0 reverse=true identities=[0 : i32] : tile<8xi32> -> tile<8xi32> 
    (%arg2: tile<i32>, %arg3: tile<i32>) {
      %11 = maxi %arg2, %arg3 signed : tile<i32>
      yield %11 : tile<i32>
    }
    %cst_0_i32 = constant <i32: 0> : tile<i32>
    %cst_8_i32 = constant <i32: 8> : tile<i32>
    %for:2 = for unsigned %loopIdx in (%cst_0_i32 to %cst_8_i32, step %cst_8_i32) : tile<i32> iter_values(%iterArg0 = %7, %iterArg1 = %cst_0_i32) -> (tile<8xi32>, tile<i32>) {
      %11 = cmpi less_than %loopIdx, %iterArg1, unsigned : tile<i32> -> tile<i1>
      %12 = if %11 -> (tile<8xi32>) {
        yield %iterArg0 : tile<8xi32>
      } else {
        %13 = addi %iterArg0, %iterArg0 : tile<8xi32>
        yield %13 : tile<8xi32>
      }
      continue %12, %loopIdx : tile<8xi32>, tile<i32>
    }
    for %loopIdx in (%cst_0_i32 to %cst_8_i32, step %cst_8_i32) : tile<i32> {
      %11 = cmpi equal %loopIdx, %cst_0_i32, signed : tile<i32> -> tile<i1>
      if %11 {
        continue
      }
    }
    %8 = cmpi equal %for#1, %cst_0_i32, signed : tile<i32> -> tile<i1>
    assert %8, "equal \22numbers\22\0A" : tile<i1>
    %9:2 = loop iter_values(%arg2 = %cst_0_i32) : tile<i32> -> tile<i32>, tile<8xi32> {
      if %8 {
        break %arg2, %7 : tile<i32>, tile<8xi32>
      } else {
        continue %arg2 : tile<i32>
      }
      continue %cst_8_i32 : tile<i32>
    }
    loop {
      break
    }
    %10 = loop : tile<i32> {
      break %cst_0_i32 : tile<i32>
    }
    if %8 {
      return
    }
    return
  }
  entry @memory(%arg0: tile<ptr<f32>>, %arg1: tile<i32>, %arg2: tile<ptr<i32>>) {
    %0 = make_token : token
    %1 = get_global @table : tile<ptr<f32>>
    %reshape = reshape %1 : tile<ptr<f32>> -> tile<1xptr<f32>>
    %bcast = broadcast %reshape : tile<1xptr<f32>> -> tile<8xptr<f32>>
    %2 = iota : tile<8xi32>
    %3 = offset %bcast, %2 : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>>
    %4 = ptr_to_int %3 : tile<8xptr<f32>> -> tile<8xi64>
    %5 = int_to_ptr %4 : tile<8xi64> -> tile<8xptr<i32>>
    %6 = ptr_to_ptr %5 : tile<8xptr<i32>> -> tile<8xptr<f32>>
    %true = constant <i1: true> : tile<8xi1>
    %cst_0_f32 = constant <f32: 0.000000e+00> : tile<8xf32>
    %result, %result_token = load_ptr_tko weak %6, %true, %cst_0_f32 token=%0 optimization_hints = <default = {latency = 3}> : tile<8xptr<f32>>, tile<8xi1>, tile<8xf32> -> tile<8xf32>, token
    %result_0, %result_token_1 = load_ptr_tko acquire device %6 : tile<8xptr<f32>> -> tile<8xf32>, token
    %result_2, %result_token_3 = load_ptr_tko weak %6, %cst_0_f32 : tile<8xptr<f32>>, tile<8xf32> -> tile<8xf32>, token
    %7 = store_ptr_tko release sys %6, %result, %true token=%result_token : tile<8xptr<f32>>, tile<8xf32>, tile<8xi1> -> token
    %8 = join_tokens %7, %result_token_1, %result_token_3 : token
    %cst_1_i32 = constant <i32: 1> : tile<8xi32>
    %result_4, %result_token_5 = atomic_rmw_tko acq_rel device %5, add, %cst_1_i32, %true token=%8 : tile<8xptr<i32>>, tile<8xi32>, tile<8xi1> -> tile<8xi32>, token
    %result_6, %result_token_7 = atomic_cas_tko relaxed tl_blk %5, %cst_1_i32, %result_4 : tile<8xptr<i32>>, tile<8xi32> -> tile<8xi32>, token
    %tview = make_tensor_view %arg0, shape = [%arg1, 64], strides = [%arg1, 1] : tile<i32> -> tensor_view<?x64xf32, strides=[?,1]>
    %tview_8 = make_tensor_view %arg2, shape = [], strides = [] : tensor_view<i32>
    %tview_9 = make_tensor_view %arg2, shape = [32], strides = [2] : tensor_view<32xi32, strides=[2]>
    %pview = make_partition_view %tview : partition_view<tile=(4x8), padding_value = neg_inf, tensor_view<?x64xf32, strides=[?,1]>, dim_map=[1, 0]>
    %pview_10 = make_partition_view %tview : partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[?,1]>>
    %sview = make_strided_view %tview_9 : strided_view<tile=(8), traversal_strides=[3], tensor_view<32xi32, strides=[2]>>
    %gsview = make_gather_scatter_view %tview : gather_scatter_view<tile=(8x8), padding_value = zero, tensor_view<?x64xf32, strides=[?,1]>, sparse_dim=0>
    %9:2 = get_tensor_shape %tview : tensor_view<?x64xf32, strides=[?,1]> -> tile<i32>
    %10:2 = get_index_space_shape %pview : partition_view<tile=(4x8), padding_value = neg_inf, tensor_view<?x64xf32, strides=[?,1]>, dim_map=[1, 0]> -> tile<i32>
    %tile, %result_token_11 = load_view_tko weak %pview[%9#0, %10#1] token = %0 optimization_hints = <sm_90 = {allow_tma = false, latency = 2}> : partition_view<tile=(4x8), padding_value = neg_inf, tensor_view<?x64xf32, strides=[?,1]>, dim_map=[1, 0]>, tile<i32> -> tile<4x8xf32>, token
    %tile_12, %result_token_13 = load_view_tko relaxed device %pview_10[%9#0, %10#1] inbounds = [true, false] : partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[?,1]>>, tile<i32> -> tile<4x8xf32>, token
    %tile_14, %result_token_15 = load_view_tko weak %gsview[%2, %arg1] : gather_scatter_view<tile=(8x8), padding_value = zero, tensor_view<?x64xf32, strides=[?,1]>, sparse_dim=0>, tile<8xi32>, tile<i32> -> tile<8x8xf32>, token
    %11 = store_view_tko weak %tile, %pview_10[%9#0, %10#1] token = %result_token_11 : tile<4x8xf32>, partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[?,1]>>, tile<i32> -> token
    %12 = atomic_red_view_tko relaxed device %sview[%arg1], add, %cst_1_i32 token = %11 : tile<8xi32>, strided_view<tile=(8), traversal_strides=[3], tensor_view<32xi32, strides=[2]>>, tile<i32> -> token
    %13 = alloca num_elem = 16, alignment = 8 : tile<ptr<f64>>
    %14 = alloca num_elem = 1, alignment = 4 global : tile<ptr<i32>>
    %15 = memory_fence_alias_tko %12
    %16 = gdc_wait_tko token = %15 -> token
    %17 = gdc_launch_dependents_tko -> token
    %18 = print_tko "value %d of %f: 100%%\0A", %arg1, %tile token=%16 : tile<i32>, tile<4x8xf32> -> token
    %19 = print_tko "done" -> token
    return
  }
}
