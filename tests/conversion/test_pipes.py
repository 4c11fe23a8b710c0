"""Rings and pipes from hand-written ops to results: what one agent puts through a ring comes out again, in order, for any number
of iterations and stages; barriers are set up before they are used."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntAttr, StringAttr, f32, i32

from tileiras.codegen import compile_llvm_to_ptx
from tileiras.codegen.llvm_text import print_module
from tileiras.dialects import nv_tileas
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.dialects.nv_tileas import BufferType, PipeType, RingType, SharedLayoutAttr
from tileiras.driver.options import CompileOptions
from tileiras.layout.shared import SharedLayout
from tileiras.machine.targets import find_target
from tileiras.pipeline import PIPELINE, verify_after
from tileiras.sim import simulate

TILE, WARPS = 512, 4
VIEW = f"partition_view<tile=({TILE}), tensor_view<4096xf32, strides=[1]>>"
COPY = f"""cuda_tile.module @m {{
  entry @copy(%from: tile<ptr<f32>>, %to: tile<ptr<f32>>, %n: tile<i32>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %w = make_tensor_view %from, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %u = make_tensor_view %to, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %v = make_partition_view %w : {VIEW}
    %r = make_partition_view %u : {VIEW}
    for %i in (%zero to %n, step %one) : tile<i32> {{
      %d, %l = load_view_tko weak %v[%i] token = %t : {VIEW}, tile<i32> -> tile<{TILE}xf32>, token
      %e = store_view_tko weak %d, %r[%i] token = %t : tile<{TILE}xf32>, {VIEW}, tile<i32> -> token
      continue
    }}
    return
  }}
}}
"""


def through_a_ring(kind: str, stages: int, gpu: str) -> str:
    """The PTX of the copy with its tile put through a ring."""
    options = CompileOptions(find_target(gpu))
    ir: Any = parse_module(COPY)
    for entry in PIPELINE:
        if entry.name == "free-heap":
            insert_ring(ir, kind, stages)
            verify_after(ir, "the test")
        ir = entry.apply(ir, options)
        verify_after(ir, entry.name)
    return compile_llvm_to_ptx(print_module(ir), options.target, 3)


def insert_ring(module: Any, kind: str, stages: int) -> None:
    loop: Any = next(op for op in module.walk() if op.name == "scf.for")
    load = next(op for op in loop.walk() if op.name == "nv_tileas.tiled_load")
    buffer = BufferType(f32, SharedLayoutAttr(SharedLayout.row_major((TILE,))))
    ring = nv_tileas.AllocTensor.make([], [RingType(buffer, IntAttr(stages))])
    assert module.body.block.first_op.properties["num_warps"].data == WARPS
    warps = None if kind == "group" else IntAttr(WARPS)
    pipe = nv_tileas.CreatePipeline.make([], [PipeType(StringAttr(kind), IntAttr(stages))],
                                         {"producers": warps and IntAttr((32 if kind == "cp_async" else 1) * WARPS),
                                          "consumers": warps})
    loop.parent.insert_ops_before([ring, pipe], loop)
    p = pipe.results[0]
    acquire = nv_tileas.ProducerAcquire.make([p], [i32])
    slot = nv_tileas.ExtractSlice.make([ring.results[0], acquire.results[0]], [buffer])
    wait = nv_tileas.ConsumerWait.make([p], [i32], {"pending": IntAttr(0) if kind == "group" else None})
    filled = nv_tileas.ExtractSlice.make([ring.results[0], wait.results[0]], [buffer])
    again = nv_tileas.LoadShared.make([filled.results[0], None, None], [load.results[0].type])
    put = nv_tileas.StoreShared.make([load.results[0], slot.results[0]])
    block = load.parent
    load.results[0].replace_all_uses_with(again.results[0])
    put.operands[0] = load.results[0]
    meet = [nv_tileas.Barrier.create()] if kind == "group" else []
    block.insert_ops_after([acquire, slot, put, nv_tileas.ProducerCommit.make([p]), wait, *meet, filled, again,
                            nv_tileas.ConsumerRelease.make([p]), *([nv_tileas.Barrier.create()] if kind == "group" else [])], load)


@pytest.mark.parametrize("gpu, kind", [("sm_80", "group"), ("sm_80", "mbarrier"), ("sm_90", "mbarrier"), ("sm_90", "cp_async"),
                                       ("sm_100", "mbarrier"), ("sm_120", "group")])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_what_goes_through_a_ring_comes_out(gpu: str, kind: str, stages: int) -> None:
    ptx = through_a_ring(kind, stages, gpu)
    for trips, seed in ((0, 0), (1, 1), (2, 2), (stages + 4, 3), (5, 4)):
        source = np.arange(4096, dtype=np.float32) + 1
        target = np.zeros(4096, np.float32)
        simulate(ptx, "copy", (1, 1, 1), [source, target, np.int32(trips)], seed=seed)
        expected = np.where(np.arange(4096) < trips * TILE, source, 0)
        assert np.array_equal(target, expected), (trips, seed)


def test_barriers_are_set_up_before_any_thread_uses_them() -> None:
    """One thread initializes; a barrier of the block stands between that and the first wait."""
    ptx = through_a_ring("mbarrier", 2, "sm_90")
    assert ptx.index("mbarrier.init") < ptx.index("bar.sync") < ptx.index("mbarrier.try_wait")
