"""Where each op, type, attribute and pass of the specification lives here: `python -m tests.dialects.rosters --write`.

A roster is one dialect's list of one page (parts 04 to 12 of the specification). A row says where a name lives:

    ""              under the same name, in the dialect's own table
    "op a, b"       as these ops of ours            "type", "attr", "pass": the same for these
    "fn m.f"        as this function of Python      "row r": as these rows of dialects/nvvm.py
    "no: why"       not here

The page (docs/rosters.md) is made of these rows and of our own tables; the test looks up every name, so that a row can't outlive
what it speaks of, and asks for a reason where an op of ours is in no roster.
"""
from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "rosters.md"
NO = "no: "

_CONVOLUTION = "no: nothing in the language is a convolution: the frontend writes products of tiles"
_FUNCTIONS = "no: a file holds entries only, and nothing calls anything"
_PLUGIN = "no: what plugins are isn't public, and nothing in the language reaches them"
_UPSTREAM = "no: the language has no such conversion, so no program makes one"
_QUEUE = ("no: queues are how the original's front says which ops are another agent's; here `materialize-schedule` cuts a function "
          "by its effects, and pipes carry what is handed on")
_CURSOR = "no: a pipe holds its own cursors (docs/architecture.md), so no value goes round loops with the stage and the phase"
_REGION_PIPE = "no: a stage is filled and read between `producer_acquire` and `consumer_release`, without a region round it"
_NO_TOKEN = "no: what is in flight is known by its pipe or its type, so no token stands for it"
_SYNC_COPY = "no: a copy is a load and a store; what goes by an engine is a `tiled_copy`, a `tma_load` or a `tma_store`"
_STREAMK = ("no: the frontend launches the grid and gives tiles their ids, and no workspace can be had: a split along K is the "
            "program's own, by atomics (docs/deviations.md)")
_SCHEDULER = "no: a kernel's tile comes from its id or from `cancel_next_program_id`; a scheduler object would hold nothing else"
_MODS = "no: hooks of a test harness of NVIDIA's; nothing public answers them"
_SEQUENCE = "no: agents take turns by pipes, whose phases do what a sequence of barriers does"
_GENERIC_BARRIER = "no: counters in global memory between blocks; blocks meet only where the program says so, by atomics"
_STRIPED = "no: what split-K and StreamK exchange partial sums by; neither is made here"
_TEMPLATE = "no: layouts are static; the algebra is done in Python (layout/cute), so no op computes one"
_IM2COL = _CONVOLUTION
_NVGPU = "no: ops of nv_tileas go to instructions directly; a layer between would say each thing twice"
_DESCRIPTOR_CHANGE = "no: a map that a kernel builds is written whole, by ordinary stores"
_ASYNC_MMA_REGION = "no: `async_dot` and `dot_wait` say what is in flight"


@dataclass(frozen=True)
class Roster:
    """`rows`: (names with spaces between, where), for `page` of the specification; as many places as names are theirs in order.
    `kind`: op, type, attr, atom or pass."""

    dialect: str
    kind: str
    page: str
    rows: tuple[tuple[str, str], ...]

    def names(self) -> Iterator[tuple[str, str]]:
        for names, where in self.rows:
            each, (kind, _, rest) = names.split(), where.partition(" ")
            places = rest.split(", ")
            if where and not where.startswith(NO) and len(places) == len(each):
                yield from ((name, f"{kind} {place}") for name, place in zip(each, places))
            else:
                yield from ((name, where) for name in each)


ROSTERS = (
    Roster("nv_tileaa", "op", "04/02", (
        ("addf subf mulf divf", "op arith.addf, arith.subf, arith.mulf, arith.divf"),
        ("fma sqrt rsqrt exp2", "op math.fma, math.sqrt, math.rsqrt, math.exp2"),
        ("clampf", "op arith.maxf, arith.minf"), ("mulhiui", "op arith.mulhiui"),
        ("dot reduce scan splat broadcast view cat permute extract block_tile addptr int_to_ptr ptr_to_int make_memref get_global "
         "load store tiled_load tiled_store atomic_cas atomic_rmw tiled_atomic_rmw create_mem_token join_mem_token assert assume "
         "print func return global get_program_id get_num_programs make_range", ""),
        ("is_valid_program_id cancel_next_program_id", "op nv_tileas.is_valid_program_id, nv_tileas.cancel_next_program_id"),
        ("conv_dot conv_tile", _CONVOLUTION),
        ("histogram", "no: the language counts by atomics"),
        ("expand_dims", "op nv_tileaa.view"),
        ("extract_slice", "op nv_tileaa.extract"),
        ("generate", "no: a tile computed element by element is what `make_range` and elementwise ops make"),
        ("get_dim_size", "no: an extent is an operand of `make_memref`, which is used in its place"),
        ("bitcast", "op arith.bitcast"),
        ("fp_to_fp", "op arith.convertf"),
        ("extern_elementwise elementwise_inline_asm call_elementwise_intrinsic",
         "no: the language can't name functions or assembly"),
        ("gather_load scatter_store", "op nv_tileaa.tiled_load, nv_tileaa.tiled_store, nv_tileaa.load, nv_tileaa.store"),
        ("mark_for_reuse", "no: `allocate-buffers` sees which buffers are live together"),
        ("optimization_barrier", "no: no program asks for one"),
        ("pragma", "no: the only directives are hints of entries and accesses, which stay attributes"),
        ("message", "op nv_tileaa.print"),
        ("call launch_func execute", _FUNCTIONS),
        ("yield", "op scf.yield"),
        ("plugin inject_ir", _PLUGIN),
        ("create_queue queue.get queue.put queue.yield", _QUEUE))),
    Roster("nv_tileaa", "type", "04/03", (
        ("ptr memref tiled_view mem_token", ""),
        ("program_id", "no: an id is three i32"),
        ("queue", _QUEUE))),
    Roster("nv_tileaa", "attr", "04/03", (
        ("compute_capability target_spec", "no: the target travels in the compilation's options"),
        ("kernel_spec", "op nv_tileaa.func"),
        ("cache_modifier", "no: neither the language nor the original's code has one"),
        ("eviction_policy", "no: neither the language nor the original's code has one (its policy operand is always 0)"),
        ("mem_semantic mem_scope in_bounds padding_value", "op nv_tileaa.tiled_load"), ("rmw_mode", "op nv_tileaa.atomic_rmw"),
        ("alias_scope", "op nv_tileas.tiled_load"),
        ("rounding_mode propagate_nan", "op arith.addf, arith.maxf"),
        ("signedness", "op nv_tileaa.dot"),
        ("div_by bounded same_elements", "attr nv_tileaa.fact"),
        ("activation_layout conv_params", _CONVOLUTION))),
    Roster("nv_tileas", "op", "05/02", (
        ("tiled_load tiled_store tiled_atomic_rmw load store alloc_tensor extract_slice convert_layout view "
         "make_tiled_tma_desc dot reduce scan", ""),
        ("async.pipeline.create_pipeline", "op nv_tileas.create_pipeline"),
        ("async.pipeline.producer_acquire async.pipeline.producer_commit",
         "op nv_tileas.producer_acquire, nv_tileas.producer_commit"),
        ("async.pipeline.consumer_wait async.pipeline.consumer_release", "op nv_tileas.consumer_wait, nv_tileas.consumer_release"),
        ("async.pipeline.agent_switch", "op nv_tileas.agent_switch"),
        ("async.pipeline.create_iterator async.pipeline.inc_iter", _CURSOR),
        ("async.pipeline.produce_one async.pipeline.produce_one_async async.pipeline.consume_one async.pipeline.consume_one_async "
         "async.pipeline.yield", _REGION_PIPE),
        ("async.pipeline.producer_write async.pipeline.consumer_read", "op nv_tileas.extract_slice"),
        ("async.pipeline.create_null_token create_none async.to_async async.token_to_async async.future_wait", _NO_TOKEN),
        ("async.wait", "op nv_tileas.consumer_wait, nv_tileas.dot_wait"),
        ("async.tiled_load async.copy", "op nv_tileas.tiled_copy"),
        ("async.load", "op nv_tileas.async_copy"),
        ("async.store", "op nv_tileas.tma_store, nv_tileas.store_wait"),
        ("async.tiled_atomic_rmw", "no: atomics of tiles go through registers"),
        ("copy", _SYNC_COPY),
        ("gather_load scatter_store", "op nv_tileas.tiled_load, nv_tileas.tiled_store, nv_tileas.load, nv_tileas.store"),
        ("insert_slice", "op nv_tileas.insert, nv_tileas.store_shared"),
        ("async.extract_slice async.insert_slice", _NO_TOKEN),
        ("expand_dims", "op nv_tileas.view"),
        ("reinterpret", "op nv_tileas.extract_slice, nv_tileas.view"),
        ("shuffle", "op nv_tileas.convert_layout"),
        ("generate", "op nv_tileas.make_range"),
        ("async.tiled_tma_load", "op nv_tileas.tma_load"), ("async.tiled_tma_store", "op nv_tileas.tma_store"),
        ("async.gather_tma_load async.scatter_tma_store", "no: gathers and scatters go by loads and stores of threads"),
        ("async.dot", "op nv_tileas.async_dot, nv_tileas.tensor_dot"),
        ("yield", "op scf.yield"),
        ("pragma", "no: `insert-OCG-knobs` isn't run (docs/knobs.md)"),
        ("cancel_next_program_id", ""), ("async.cancel_next_program_id", "op nv_tileas.cancel_next_program_id"))),
    Roster("nv_tileas", "type", "05/03", (
        ("PipelineProducerToken PipelineConsumerToken", "type nv_tileas.pipe"),
        ("PipelineIterator", _CURSOR),
        ("AsyncToken", "type nv_tileas.flight, nv_tileas.pipe"),
        ("tma_desc", "type nv_tileas.tensormap"))),
    Roster("nv_tileas", "attr", "05/02", (
        ("atom", "op nv_tileas.dot, nv_tileas.async_dot, nv_tileas.tiled_copy"),
        ("padding_value oob_mode", "op nv_tileas.make_tiled_tma_desc"),
        ("swizzle_mode", "type nv_tileas.tensormap"),
        ("rmw_mode mem_semantic mem_scope in_bounds", "op nv_tileas.tiled_atomic_rmw"),
        ("numStages producerGroupId consumerGroupId sharedMem", "type nv_tileas.pipe"),
        ("dynamic", "no: a ring's depth is known when its kernel is compiled"),
        ("consumer_idx producer_types consumer_types", _REGION_PIPE),
        ("num_agents_per_group max_regs isolated", "op nv_tileas.agent_switch"),
        ("ocgEnterDirectives ocgLeaveDirectives", "no: `insert-OCG-knobs` isn't run (docs/knobs.md)"),
        ("operandSegmentSizes", "no: an op's declaration says which operands may be missing"))),
    Roster("cute", "op", "06/01, 06/02, 06/03, 06/04", (
        ("make_view get_iter local_tile slice add_offset crd2idx memref.load memref.store", ""),
        ("recast_layout", "op cute.recast"), ("recast", ""),
        ("make_layout make_ordered_layout", "fn layout.cute.algebra.make_layout, layout.cute.algebra.make_ordered_layout"),
        ("coalesce filter_zeros composition complement right_inverse left_inverse max_common_layout",
         "fn layout.cute.algebra.coalesce, layout.cute.algebra.filter_zeros, layout.cute.algebra.composition, "
         "layout.cute.algebra.complement, layout.cute.algebra.right_inverse, layout.cute.algebra.left_inverse, "
         "layout.cute.algebra.max_common_layout"),
        ("logical_divide zipped_divide tiled_divide flat_divide",
         "fn layout.cute.tiling.logical_divide, layout.cute.tiling.zipped_divide, layout.cute.tiling.tiled_divide, "
         "layout.cute.tiling.flat_divide"),
        ("logical_product zipped_product tiled_product flat_product blocked_product raked_product tile_to_shape",
         "fn layout.cute.tiling.logical_product, layout.cute.tiling.zipped_product, layout.cute.tiling.tiled_product, "
         "layout.cute.tiling.flat_product, layout.cute.tiling.blocked_product, layout.cute.tiling.raked_product, "
         "layout.cute.tiling.tile_to_shape"),
        ("group_modes select dice local_partition",
         "fn layout.cute.tiling.group_modes, layout.cute.tiling.select, layout.cute.tiling.dice_layout, "
         "layout.cute.tiling.local_partition"),
        ("size cosize rank depth equal tuple_eq", "fn layout.cute.tuples.size, layout.cute.tuples.rank, layout.cute.tuples.depth, "
                                                 "layout.cute.tuples.congruent"),
        ("make_swizzle make_composed_layout make_composed_layout_raw", "fn layout.cute.swizzle.parse_any"),
        ("make_shape make_coord make_tile make_tuple make_int_tuple make_layout_raw get_shape get_stride get_layout "
         "make_identity_layout make_identity_tensor make_tensor make_fragment_like", _TEMPLATE),
        ("stencil_divide", "no: a divide by a stencil is the convolution's"),
        ("make_atom make_tiled_copy make_tiled_mma copy_atom_call mma_atom_call mma.make_fragment tiled_partition partition copy",
         "op cute_nvgpu.arch.mma.SM80, cute_nvgpu.arch.copy.ldsm, cute_nvgpu.universal_copy"),
        ("kernel print", "op nv_tileas.func, nv_tileas.print"))),
    Roster("cute", "type", "06/01", (
        ("memref", ""),
        ("layout", "attr cute.layout"), ("swizzle composed_layout", "attr cute.layout"),
        ("shape stride coord tile int_tuple tiler", _TEMPLATE), ("view tensor ptr", "type cute.memref"))),
    Roster("cute_nvgpu", "op", "07/01, 07/02", (
        ("arch.mma.SM80 arch.mma.SM90 arch.mma.SM120.block_scaled arch.mma.SM100.umma arch.copy.ldsm arch.copy.stsm universal_copy "
         "arch.copy.SM80.cp_async arch.copy.SM90.tma_load arch.copy.SM90.tma_store arch.copy.SM90.tma_reduce "
         "arch.copy.SM100.tmem_load arch.copy.SM100.tmem_store smem_desc_view make_tma_desc_tiled arch.make_warp_uniform", ""),
        ("make_exec_tma", "op cute_nvgpu.arch.copy.SM90.tma_load"),
        ("arch.agent_switch", "op nv_tileas.agent_switch"),
        ("make_sm120_mma_bs", "op cute_nvgpu.arch.mma.SM120.block_scaled"))),
    Roster("cute_nvgpu", "atom", "07/02, 07/06", (
        ("atom.universal_copy atom.ldsm atom.stsm atom.simt_async_copy sm80.mma sm89.mma sm90.mma atom.tma_load atom.tma_store "
         "atom.tma_reduce sm100.mma sm100.mma_bs atom.tmem_load atom.tmem_store SM120.mma_bs", ""),
        ("atom.universal_fma", "fn conversion.tileas_to_llvm.matrix.fma.multiply_add"),
        ("sm80.sparse_mma sm100.mma_sp sm100.mma_bs_sp", "no: no op of the language is a sparse product"),
        ("atom.s2t_copy", ""),
        ("atom.non_exec_tiled_tma_load atom.non_exec_tiled_tma_store atom.non_exec_tiled_tma_reduce",
         "op nv_tileas.make_tiled_tma_desc"),
        ("smem_desc smem_desc_view", "op cute_nvgpu.smem_desc_view"),
        ("tma_descriptor_tiled", "type nv_tileas.tensormap"),
        ("tma_descriptor_im2col", _IM2COL),
        ("atom.tmem_to_smem_copy", "no: there is no such instruction; results go through registers"))),
    Roster("cutlass", "op", "08/01", (
        ("pipeline.create pipeline.init pipeline.producer_acquire pipeline.producer_commit pipeline.producer_tail "
         "pipeline.consumer_wait pipeline.consumer_release named_barrier.arrive named_barrier.arrive_and_wait", ""),
        ("pipeline.state.create", "op cutlass.pipeline.state"), ("pipeline.state.increment", "op cutlass.pipeline.advance"),
        ("pipeline.state.get_index pipeline.state.get_phase pipeline.state.get_count", "op cutlass.pipeline.state"),
        ("pipeline.producer_try_acquire pipeline.consumer_try_wait", "no: a wait is one op, whose assembly tries"),
        ("pipeline.make_participants pipeline.get_producer_mask pipeline.get_producer_barrier", "type cutlass.pipeline"),
        ("pipeline.produce pipeline.consume", _REGION_PIPE),
        ("pipeline.switch_by_executor async.exec", "op nv_tileas.agent_switch"),
        ("tile_scheduler.create_dp_params tile_scheduler.make_dp_params tile_scheduler.create_dp_work_tile_info",
         "op nv_tileas.get_program_id"),
        ("tile_scheduler.create_static_persistent_params tile_scheduler.make_static_persistent_params "
         "tile_scheduler.create_static_persistent_work_tile_info tile_scheduler.static_fetch_next_work", _SCHEDULER),
        ("tile_scheduler.create_SM100_scheduler tile_scheduler.fetch_next_work tile_scheduler.query_next_work "
         "tile_scheduler.advance_to_next_work tile_scheduler.get_workid_response_ptr tile_scheduler.initial_work_tile_info "
         "tile_scheduler.get_current_work", "op nv_tileas.cancel_next_program_id, nv_tileas.is_valid_program_id"),
        ("tile_scheduler.work_tile_info_to_cta_coord tile_scheduler.work_tile_info_to_coord_mnkl "
         "tile_scheduler.work_tile_info_set_value tile_scheduler.work_tile_info_get_value tile_scheduler.params_get_value "
         "tile_scheduler.get_grid_shape", _SCHEDULER),
        ("tile_scheduler.create_streamk_params tile_scheduler.make_streamk_params tile_scheduler.create_streamk_work_tile_info "
         "tile_scheduler.get_workspace_sizes tile_scheduler.initialize_workspace tile_scheduler.get_work_k_tile_start "
         "tile_scheduler.get_work_k_tile_count tile_scheduler.fixup tile_scheduler.fixup_wait tile_scheduler.fixup_increment "
         "tile_scheduler.compute_epilogue", _STREAMK),
        ("tile_scheduler.mods_report_mainloop_start tile_scheduler.mods_report_mainloop_end tile_scheduler.mods_report_smid "
         "tile_scheduler.mods_throttle", _MODS),
        ("seq_bar.create seq_bar.init seq_bar.arrive seq_bar.wait seq_bar.state.create", _SEQUENCE),
        ("generic_barrier.arrive_increment generic_barrier.wait_eq generic_barrier.wait_less_than", _GENERIC_BARRIER),
        ("block_striped.load block_striped.load_add block_striped.store block_striped.reduce", _STRIPED))),
    Roster("cutlass", "type", "08/01", (("pipeline pipeline_state", ""),)),
    Roster("nvgpu", "op", "09/01", (
        ("ldmatrix", "row ldmatrix.sync.aligned.m8n8.x4.b16"), ("stmatrix", "row stmatrix.sync.aligned.m8n8.x4.b16"),
        ("mma.sync", "row mma.m16n8k16.row.col.f32.f32"),
        ("mma.sp.sync", "no: no op of the language is a sparse product"),
        ("device_async_copy device_async_create_group device_async_wait",
         "row cp.async.cg.shared.global.16, cp.async.commit.group, cp.async.wait.group"),
        ("mbarrier.create mbarrier.init mbarrier.inval mbarrier.arrive mbarrier.arrive.expect_tx mbarrier.try_wait.parity",
         "row mbarrier.init.shared, mbarrier.inval.shared, mbarrier.arrive.shared, mbarrier.arrive.expect.tx.scope.cta.space.cta, "
         "mbarrier.wait.parity"),
        ("mbarrier.arrive.nocomplete mbarrier.test.wait", _NVGPU),
        ("tma.async.load tma.async.store tma.async.reduce tma.prefetch.descriptor",
         "row cp.async.bulk.tensor.s2g.tile.2d, cp.async.bulk.tensor.reduce.add.tile.2d, prefetch.tensormap"),
        ("tma.create.descriptor tma.fence.descriptor", "op nv_tileas.build_tma_desc"),
        ("tensormap.update", _DESCRIPTOR_CHANGE),
        ("warpgroup.mma warpgroup.mma.init.accumulator warpgroup.mma.store", "op nv_tileas.async_dot, nv_tileas.begin_flight, "
                                                                            "nv_tileas.dot_wait"),
        ("fma.packed.f32x2 mul.packed.f32x2", "no: LLVM makes packed operations of vectors itself"),
        ("cvt_fpext cvt_fptrunc", "op arith.convertf"),
        ("rcp", "op arith.divf"), ("warp.execute_on_lane_0", _NVGPU))),
    Roster("nvvm", "op", "09/02 to 09/09", (
        ("barrier0 barrier barrier.cta.sync", "row barrier.cta.sync.aligned.count, barrier.cta.sync.aligned.all"),
        ("bar.warp.sync", "row bar.warp.sync"),
        ("barrier.cta.arrive barrier.arrive", "row barrier.cta.arrive.aligned.count"),
        ("barrier.cta.red", "no: votes of a block are a reduction's last step, through shared memory"),
        ("elect.sync", ""), ("read.ptx.sreg.tid.x read.ptx.sreg.ntid.x read.ptx.sreg.ctaid.x read.ptx.sreg.nctaid.x "
                             "read.ptx.sreg.warpid read.ptx.sreg.laneid read.ptx.sreg.smid read.ptx.sreg.clusterid.x "
                             "read.ptx.sreg.nclusterid.x read.ptx.sreg.cluster.ctarank read.ptx.sreg.cluster.nctarank", ""),
        ("cp.async.shared.global", "row cp.async.ca.shared.global.4, cp.async.cg.shared.global.16"),
        ("cp.async.commit.group cp.async.wait.group cp.async.bulk.commit.group", ""),
        ("cp.async.bulk.wait_group", "row cp.async.bulk.wait.group, cp.async.bulk.wait.group.read"),
        ("cp.async.mbarrier.arrive cp.async.mbarrier.arrive.noinc", "row cp.async.mbarrier.arrive.shared, "
                                                                    "cp.async.mbarrier.arrive.noinc.shared"),
        ("shfl.sync", "row shfl.sync.bfly.i32, shfl.sync.idx.i32, shfl.sync.up.i32, shfl.sync.down.i32"),
        ("vote.sync", "row vote.all.sync, vote.any.sync, vote.ballot.sync, vote.uni.sync"),
        ("match.sync", "row match.any.sync.i32"), ("redux.sync", "row redux.sync.add, redux.sync.umax"),
        ("ldmatrix stmatrix", "row ldmatrix.sync.aligned.m8n8.x4.b16, stmatrix.sync.aligned.m8n8.x4.b16"),
        ("prefetch.tensormap", ""),
        ("fence.proxy.acquire", "row fence.proxy.async, fence.proxy.async.shared_cta"),
        ("fence.mbarrier.init", "row fence.mbarrier_init.release.cluster"),
        ("fence.proxy.tensormap.generic.release.cta", "row fence.proxy.tensormap_generic.release.gpu"),
        ("tensormap.cp_fenceproxy tensormap.replace", _DESCRIPTOR_CHANGE),
        ("cvt.packfloat.f32", "row cvt.rz.bf16.f32"),
        ("mma.sync", "row mma.m16n8k16.row.col.f32.f32"),
        ("mma.block_scale", "fn layout.atoms.block_scaled.choose_block_scaled"),
        ("wmma.load wmma.mma wmma.store", "no: `mma.sync` is on every SM from sm_75 on"),
        ("wgmma.fence.aligned wgmma.commit.group.sync.aligned wgmma.wait.group.sync.aligned",
         "row wgmma.fence, wgmma.commit_group.sync.aligned, wgmma.wait_group.0"),
        ("wgmma.mma_async", "row wgmma.mma_async.m64n128k16.f32.f16.f16.ss"),
        ("cp.async.bulk.tensor.shared.cluster.global cp.async.bulk.tensor.shared.cta.global",
         "row cp.async.bulk.tensor.g2s.tile.2d, cp.async.bulk.tensor.g2s.cta.tile.2d"),
        ("cp.async.bulk.tensor.global.shared.cta", "row cp.async.bulk.tensor.s2g.tile.2d"),
        ("cp.async.bulk.tensor.prefetch", "no: rings run ahead of the loop, which prefetches into shared memory itself"),
        ("cp.async.bulk.tensor.reduce", "row cp.async.bulk.tensor.reduce.add.tile.2d"),
        ("tcgen05.alloc tcgen05.dealloc tcgen05.relinquish_alloc_permit",
         "row tcgen05.alloc.shared.cg1, tcgen05.dealloc.cg1, tcgen05.relinq.alloc.permit.cg1"),
        ("tcgen05.ld tcgen05.st tcgen05.wait tcgen05.fence", "row tcgen05.ld.32x32b.x8, tcgen05.st.32x32b.x8, tcgen05.wait.ld, "
                                                           "tcgen05.wait.st, tcgen05.fence.before.thread.sync"),
        ("tcgen05.cp", "row tcgen05.cp.128x256b.cg1"), ("tcgen05.commit tcgen05.commit.arrive", "row tcgen05.commit.shared.cg1"),
        ("tcgen05.mma", "row tcgen05.mma.shared, tcgen05.mma.tensor"),
        ("tcgen05.mma.block_scale", "fn layout.descriptors.instruction_descriptor"),
        ("tcgen05.mma.sp tcgen05.mma.sp.block_scale tcgen05.mma.ws tcgen05.mma.ws.sp tcgen05.shift",
         "no: no op of the language is a sparse or weight-stationary product"),
        ("mbarrier.init mbarrier.inval mbarrier.arrive", "row mbarrier.init.shared, mbarrier.inval.shared, mbarrier.arrive.shared"),
        ("mbarrier.arrive.expect_tx", "row mbarrier.arrive.expect.tx.scope.cta.space.cta"),
        ("mbarrier.try_wait.parity mbarrier.test.wait mbarrier.wait.parity", "row mbarrier.wait.parity, mbarrier.spin.parity"),
        ("mbarrier.arrive.nocomplete mbarrier.txn", "no: no pipe needs one"),
        ("cluster.arrive cluster.arrive.relaxed cluster.wait",
         "row barrier.cluster.arrive.aligned, "
         "barrier.cluster.arrive.relaxed.aligned, barrier.cluster.wait.aligned"),
        ("mapa", "row mapa.shared.cluster"))),
    Roster("", "pass", "10/07, 11, 12", (
        ("convert-cudatile-to-tileaa convert-tileaa-to-tileas convert-tileas-to-llvm cse canonicalize synthesize-debug-info-scopes "
         "unspecialized-pipeline", ""),
        ("tileir-insert-debug-scope", "pass synthesize-debug-info-scopes"),
        ("tileir-emit-host-wrapper", "fn host.object.host_module"),
        ("convert-tileas-to-nvgpu convert-nvgpu-to-nvvm convert-vector-to-llvm convert-memref-to-llvm convert-to-llvm "
         "convert-math-to-funcs arith-expand test-convert-to-llvm", "pass convert-tileas-to-llvm"),
        ("tileir-verify-ops-analysis", "fn dialects.verify.verify_module"),
        ("host-device-assert-enable", "no: an assertion of the program is always compiled"),
        ("tileir-gpu-module-prepare tileir-legalize-llvm-kernel tileir-finalize-llvm-kernel tileir-post-nvvm-finalize "
         "convert-target-to-nvvm", "fn codegen.llvm_text.print_module"),
        ("tileas-materialize-async tileas-materialize-schedule tileas-unspecialized-pipeline tileas-materialize-convert-layout "
         "tileas-assign-load-store-layouts tileas-remove-layout-conversions",
         "pass materialize-async, materialize-schedule, unspecialized-pipeline, materialize-convert-layout, "
         "assign-load-store-layouts, remove-layout-conversions"),
        ("tileas-generate-schedule tileas-generate-schedule-constraints tileas-prepare-for-scheduling", "pass generate-schedule"),
        ("tileas-optimize-pipeline-region", "no: pipes have no regions; an agent is sliced to what its effects need"),
        ("tileas-optimize-execution-unit-mapping tileas-resolve-agent-boundary", "pass plan-agents, materialize-schedule"),
        ("tileas-remove-buffer-alias", "no: no pass makes a second name for a buffer: stages of rings are `extract_slice`, and "
                                       "loops carry no buffers"),
        ("tileas-remove-dead-args", "pass remove-dead-args"),
        ("tileas-slicing", "pass materialize-convert-layout, stage-slices"),
        ("tileas-unroll-register-loops", "no: a tile's registers are one vector, which no loop runs over"),
        ("tileas-lower-tma-load-store-to-async", "pass lower-tma-load-store-to-async"),
        ("tileas-separate-host-tma tileas-attach-tma-descriptor-args", "pass separate-host-tma"),
        ("tileas-legalize-tmem-copy", "no: tensor memory is only read and written by ops that say how"),
        ("tileas-plan-cta", "pass plan-cta"),
        ("tileas-dynamic-persistent", "pass dynamic-persistent"),
        ("tileas-insert-OCG-knobs", "no: none of ptxas' knobs makes our code faster (docs/knobs.md)"),
        ("tileas-sink-negf-through-shapes", "pass simplify"))),
)
"""The specification's lists."""

OURS: dict[str, str] = {
    "nv_tileaa.loop nv_tileaa.break nv_tileaa.continue": "the language's loops, which end anywhere",
    "nv_tileaa.insert nv_tileaa.pack nv_tileaa.unpack nv_tileaa.dot_scaled nv_tileaa.alloca nv_tileaa.ptr_to_ptr":
        "ops of the language that the specification's edition lacks",
    "nv_tileaa.gdc_wait nv_tileaa.gdc_launch_dependents nv_tileaa.fence_alias": "the same, from 13.3 and 13.4",
    "nv_tileas.buffer nv_tileas.ring": "shared memory's objects: tiles of the specification have a tag for where they lie",
    "nv_tileas.store_shared nv_tileas.load_shared nv_tileas.*barrier nv_tileas.fence nv_tileas.fence_async nv_tileas.dealloc":
        "shared memory and its order are in the IR, not in the lowering",
    "nv_tileas.*tmem*":
        "tensor memory, which is another tag of the specification's tiles",
    "nv_tileaa.*cta* nv_tileas.*cta* nv_tileas.cluster_* nv_tileas.producer_tail": "CTAs that share a tile block",
    "nv_tileaa.get_chain": "agents that share a tile block's rows",
    "nv_tileas.is_valid_program_id": "nv_tileaa's, where the answer is read",
    "nv_tileas.mask_runs": "comparisons of columns with a row's bounds, as words of bits",
    "nv_tileas.fill_outside": "padding of tiles that came by copies, which fill with zeros",
    "nv_tileas.prefetch_tma_desc nv_tileas.begin_flight": "what an engine is told before its first use",
    "nv_tileas.build_tma_desc": "maps that the kernel builds",
    "nv_tileas.settle": "what ptxas counts of loads on their way",
}
"""Ops and types of ours (`*`: all of such names), with why the specification has none."""


_ACCESSES, _CANONICAL = "tests/transforms/test_access_folds.py::", "tests/transforms/test_canonicalize.py::"
FOLDS: tuple[tuple[str, str, str, str], ...] = (
    ("04/04", "dot of a zero is its accumulator (of integers)", "fn transforms.rules.effects.fold_dot",
     f"{_ACCESSES}test_products_with_zero"),
    ("04/04", "dot of constants (of integers, each operand the same number everywhere)", "fn transforms.rules.effects.fold_dot",
     f"{_ACCESSES}test_a_product_of_equal_numbers_is_a_sum"),
    ("04/04", "addptr of addptr (known offsets; a sum of unknown ones may not be an i32)", "fn transforms.rules.shapes.fold_addptr",
     f"{_ACCESSES}test_two_known_ways_are_one"),
    ("04/04", "assume of a splat", "fn transforms.rules.effects.drop_idle_assume",
     f"{_ACCESSES}test_a_fact_about_a_splat_is_one_about_its_scalar"),
    ("04/04", "select and splat (before the splat, where it is made once)", "fn transforms.rules.shapes.hoist_splat",
     f"{_CANONICAL}test_splats_fold_through_shapes_and_arithmetic"),
    ("04/04", "load behind a constant mask", "fn transforms.rules.effects.fold_mask",
     f"{_ACCESSES}test_a_load_behind_an_empty_mask_is_what_stands_for_it"),
    ("04/04", "store behind a constant mask", "fn transforms.rules.effects.fold_mask",
     f"{_ACCESSES}test_a_store_behind_an_empty_mask_is_none"),
    ("04/04", "the full mask of a load and its value elsewhere", "fn transforms.rules.effects.fold_mask",
     f"{_CANONICAL}test_full_mask_goes_with_the_value_elsewhere"),
    ("04/04", "view of view; view, broadcast, expand_dims of a splat", "fn transforms.rules.shapes.fold_mover",
     f"{_CANONICAL}test_splats_fold_through_shapes_and_arithmetic"),
    ("04/04", "extract through elementwise ops", "fn transforms.rules.shapes.fold_mover",
     f"{_ACCESSES}test_only_what_is_extracted_is_computed"),
    ("04/04", "extract through expand_dims", "fn transforms.rules.shapes.fold_mover",
     f"{_ACCESSES}test_a_part_is_taken_before_extents_of_one_are_added"),
    ("04/04", "results of queues and pragmas that nobody reads", _QUEUE, ""),
    ("04/04", "what loops carry and branches hand on for nobody", "pass remove-dead-args",
     f"{_CANONICAL}test_what_a_loop_or_branch_hands_through_is_not_its_result"),
    ("04/04", "an atomic by its identity (relaxed, its result unread: a load could see an older value)",
     "fn transforms.rules.effects.fold_mask", f"{_ACCESSES}test_atomics_that_change_nothing"),
    ("04/04", "a compare-and-swap with what is compared (the same)", "fn transforms.rules.effects.fold_mask",
     f"{_ACCESSES}test_a_swap_with_what_is_there_changes_nothing"),
    ("04/04", "an exchange by what is there", "no: nothing says what is in memory", ""),
    ("05/05", "extract_slice of constant places", "no: parts have constant extents, and places that are constants are numbers in "
              "addresses", ""),
    ("05/05", "decompose loop iter args", "no: loops carry tiles in registers, never buffers", ""),
    ("05/05", "decompose if by insert or extract slice", "no: branches hand on tiles in registers, never buffers", ""),
    ("05/05", "extract_slice of a view", "fn transforms.rules.shapes.fold_mover",
     f"{_ACCESSES}test_a_part_is_taken_before_extents_of_one_are_added"),
    ("05/05", "extract_slice of insert_slice", "fn transforms.rules.shapes.fold_mover",
     f"{_ACCESSES}test_parts_of_what_is_put_together"),
    ("05/05", "coalesce perfectly nested loops", "no: a division an iteration for a branch less a row; one of the suite's 158 "
              "loops is such a nest", ""),
    ("05/05", "convert_layout of convert_layout", "pass remove-layout-conversions",
     "tests/transforms/test_remove_layout_conversions.py::test_conversions_meet"),
    ("11/02", "negation before shapes (sink-negf-through-shapes)", "fn transforms.rules.shapes.before_broadcast",
     f"{_ACCESSES}test_what_is_the_same_is_negated_once"),
    ("19/05", "the simplifier walker of cuda_tile", "fn transforms.canonicalize.run",
     "tests/transforms/test_canonical_form.py::test_rule"),
)
"""(page, fold, where it is, its test)."""
_ONE_VARIANT = "every target from sm_90 on is the arch-conditional one (`a`), so nothing is without it"
_UNNAMED = "no intrinsic of LLVM's can be called so: its name says the kinds that it is for"
TEXTS: tuple[tuple[str, str, str], ...] = (
    ("14/10", "INT8 type is supported only on arch-conditional variants.", ""),
    ("14/10", "MXF4 and MXF4NVF4 types with Sparsity are supported only on arch-conditional variants.", _ONE_VARIANT),
    ("14/10", "Explicit scale vector size is supported only on arch-conditional variants.", _ONE_VARIANT),
    ("14/10", "Scale input accumulator is not supported on this architecture.", ""),
    ("14/10", "Scale input accumulator can only be used with f16 and tf32 types", ""),
    ("14/10", "Block scale is not supported for f16, tf32, f8f6f4, and i8 types", _UNNAMED),
    ("14/10", "ashift is not supported with tcgen05.mma.block_scale variants", _UNNAMED),
    ("14/10", "cta_group::2 is not supported with weight stationary", "`tcgen05.mma.ws` takes no CTA group"),
    ("14/10", "Cannot use weight stationary with mxf8f6f4 and fp4 types", _UNNAMED),
    ("14/10", "Cannot use collector::a::use or colletor::a::fill with ashift", ""),
    ("14/10", "scale vector size is not legal for this input family", _UNNAMED),
    ("14/10", "TMA rank must be in the range 1..5", ""),
    ("14/10", "im2col tensor copies require at least three dimensions", ""),
    ("14/10", "wide im2col tensor copies are not supported on this architecture", ""),
    ("14/10", "two-CTA TMA tensor copies are not supported on this architecture", ""),
    ("14/10", "cluster multicast TMA requires a compatible SM target", "an SM with tensor copies has clusters; others are told "
              "that the copy itself needs a newer one"),
    ("14/11", "Transposed layout is not supported for m8n16 shape for nvvm.ldmatrix", ""),
    ("14/11", "m16n16 ldmatrix requires num=2 or num=4", "1 and 2 are what there is (PTX ISA, ptxas), and what is said"),
    ("14/05", "Not supported on this architecture", ""),
    ("14/05", "tcgen05.mma supported only on arch-conditional or family-conditional variants from SM100 onwards.", ""),
    ("14/05", "tcgen05.mma requires a newer PTX version", "the version of the PTX is ours to choose"),
    ("14/05", "cvt_packfloat intrinsic needs atleast SM90 and PTX >= 78", "sm_89 has the conversions to e4m3x2 and e5m2x2, and "
              "gets them; older ones are told which SMs do"),
    ("14/05", "ue8m0x2 type in cvt_packfloat intrinsic supported only in arch-conditional or family-conditional variants from "
              "SM100 onwards.", ""),
    ("14/05", "{fp6/fp4}x2 types in cvt_packfloat intrinsic supported only in arch-conditional variants from SM100 onwards.", ""),
    ("14/05", "128b atomics not supported on this architecture!", ""),
    ("14/04", "vector atomics not supported on this architecture!", ""),
    ("14/05", "noftz not support for other types for nvvm.red", "LLVM has no such intrinsic; reductions are rows of "
              "`dialects/nvvm.py`, with types that exist"),
    ("14/05", "atom.<kind>.<type> not supported in address space <space>", "LLVM takes pointers to any memory"),
    ("14/08", "fence ordering must be acquire, release, acq_rel, or seq_cst", ""),
    ("14/08", "unsupported NVPTX synchronization scope", ""),
    ("15/07", "a function that is not __global__ cannot be launched", ""),
    ("15/07", "A pointer to local memory or memory in 'addrspace(0)' has been used as a launch argument. Dereferencing this within "
              "the launch is undefined", ""),
)
"""(page, text, why it can't come up) of the refusals of instruction selection and of NVVM's verifier; without a reason the gate
has it (`codegen/gate.py`, `codegen/operand_rules.py`)."""


def ops_of(dialect: str) -> frozenset[str]:
    """The names of a dialect's ops, in full."""
    if dialect in ("arith", "math", "scf"):
        found = import_module("tileiras.dialects.arith")
        return frozenset(op.name for op in (*found.ARITH_OPS, *found.MATH_OPS, *found.SCF_OPS) if op.name.startswith(f"{dialect}."))
    return frozenset(import_module(f"tileiras.dialects.{dialect}").OPS)


def types_of(dialect: str) -> frozenset[str]:
    return frozenset(t.name for t in getattr(import_module(f"tileiras.dialects.{dialect}"), "TYPES", ()))


def attrs_of(dialect: str) -> frozenset[str]:
    return frozenset(a.name for a in getattr(import_module(f"tileiras.dialects.{dialect}"), "ATTRS", ()))


def passes() -> frozenset[str]:
    from tileiras.tools.tileiras_opt import known_passes
    return frozenset(known_passes())


def exists(kind: str, name: str) -> bool:
    """Whether there is an op, a type, an attribute, a pass, a function or a row of that name."""
    if kind == "pass":
        return name in passes()
    if kind == "atom":
        from tileiras.layout.atoms.registry import atoms
        return any(atom.name.startswith(name) for atom in atoms())
    if kind == "row":
        from tileiras.dialects.nvvm import find
        return find(name) is not None
    if kind == "fn":
        module, _, function = name.rpartition(".")
        return callable(getattr(import_module(f"tileiras.{module}"), function, None))
    dialect = name.partition(".")[0]
    return name in {"op": ops_of, "type": types_of, "attr": attrs_of}[kind](dialect)


def lives(roster: Roster, name: str, where: str) -> list[tuple[str, str]]:
    """(kind, name) of everything here that a row speaks of; nothing for a name that isn't here."""
    if where.startswith(NO):
        return []
    if not where:
        kind = "row" if roster.dialect == "nvvm" else roster.kind
        return [(kind, name if kind in ("row", "atom") or not roster.dialect else f"{roster.dialect}.{name}")]
    kind, _, rest = where.partition(" ")
    return [(kind, part.strip()) for part in rest.split(",")]


def page() -> str:
    """The page's text."""
    lines = ["# Rosters: the specification's names and ours",
             "Written by `python -m tests.dialects.rosters --write` from the table in that file, which a test looks up name by "
             "name (`tests/dialects/test_rosters.py`). The reasons for what isn't here stand beside it; what the specification "
             "gets wrong is in [deviations.md](deviations.md).", "",
             "| dialect | of the specification's | under that name | by other names | not here |", "|---|---|---|---|---|"]
    for roster in ROSTERS:
        rows = list(roster.names())
        same, absent = (sum(1 for _, where in rows if test(where)) for test in (lambda w: not w, lambda w: w.startswith(NO)))
        lines.append(f"| {roster.dialect or 'pipeline'} | {len(rows)} {PLURAL[roster.kind]} ({roster.page}) | {same} | "
                     f"{len(rows) - same - absent} | {absent} |")
    for roster in ROSTERS:
        title = f"{roster.dialect or 'Pipeline'}: {PLURAL[roster.kind]} ({roster.page})"
        lines += ["", f"## {title}", "", "| name | here |", "|---|---|"]
        for name, where in roster.names():
            text = where.removeprefix(NO) if where.startswith(NO) else ", ".join(f"`{n}`" for _, n in lives(roster, name, where))
            lines.append(f"| `{name}` | {'*not here*: ' if where.startswith(NO) else ''}{text} |")
    lines += ["", "## Folds (04/04, 05/05)", "",
              "Each is held to the interpreter by `tests/transforms/test_folds.py`, `test_canonicalize.py` and "
              "`test_canonical_form.py`.",
              "", "| fold | page | here | test |", "|---|---|---|---|"]
    lines += [f"| {fold} | {where} | " + (f"*not here*: {here.removeprefix(NO)} | |" if here.startswith(NO) else
                                          f"`{here.partition(' ')[2]}` | `{test}` |") for where, fold, here, test in FOLDS]
    lines += ["", "## Refusals of instruction selection and of NVVM's verifier (14, 15/07)", "",
              "What LLVM IR given to the compiler is refused with before LLVM gets it.", "",
              "| text | page | here |", "|---|---|---|"]
    lines += [f"| {text} | {where} | {'*not here*: ' + why if why else '`codegen/gate.py`'} |" for where, text, why in TEXTS]
    lines += ["", "## Ours", "", "| name | why |", "|---|---|"]
    lines += [f"| {', '.join(f'`{name}`' for name in names.split())} | {why} |" for names, why in OURS.items()]
    return "\n".join(lines) + "\n"


PLURAL = {"op": "ops", "type": "types", "attr": "attributes", "pass": "passes", "atom": "atoms"}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.dialects.rosters", description="where the specification's names live")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    if parser.parse_args(argv).write:
        PAGE.write_text(page())
    else:
        print(page(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
