"""Queries of the grid, and ops without code of their own: tokens, assumptions, barriers."""
from __future__ import annotations

from xdsl.ir import Operation

from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers
from tileiras.conversion.tileas_to_llvm.memory.access import SCOPES


@lowers("nv_tileas.get_program_id")
def get_program_id(low: Lowering, op: Operation) -> None:
    sreg = low.tile_block_sreg
    for result, axis in zip(op.results, "xyz"):
        if result.first_use is not None:
            low.set(result, low.b.nvvm(f"read.ptx.sreg.{sreg}.{axis}")[0])


@lowers("nv_tileas.get_num_programs")
def get_num_programs(low: Lowering, op: Operation) -> None:
    sreg = "n" + low.tile_block_sreg
    for result, axis in zip(op.results, "xyz"):
        if result.first_use is not None:
            low.set(result, low.b.nvvm(f"read.ptx.sreg.{sreg}.{axis}")[0])


@lowers("nv_tileas.get_cta_rank")
def get_cta_rank(low: Lowering, op: Operation) -> None:
    low.set(op.results[0], low.b.nvvm("read.ptx.sreg.cluster.ctarank")[0])


@lowers("nv_tileas.create_mem_token", "nv_tileas.join_mem_token")
def no_code(low: Lowering, op: Operation) -> None:
    """Tokens order; they hold nothing."""


@lowers("nv_tileas.assume")
def assume(low: Lowering, op: Operation) -> None:
    """The fact was used before; the value passes through."""
    source, result = op.operands[0], op.results[0]
    if source in low.views:
        low.views[result] = low.views[source]
    elif low.is_tensor(source):
        low.set(result, low.vec(source))
    else:
        low.set(result, low.scalar(source))


@lowers("nv_tileas.barrier")
def barrier(low: Lowering, op: Operation) -> None:
    low.barrier()


@lowers("nv_tileas.warp_barrier")
def warp_barrier(low: Lowering, op: Operation) -> None:
    low.b.nvvm("bar.warp.sync", [low.b.i32(-1)])


@lowers("nv_tileas.cluster_barrier")
def cluster_barrier(low: Lowering, op: Operation) -> None:
    cluster_arrive(low, op)
    low.b.nvvm("barrier.cluster.wait.aligned")


@lowers("nv_tileas.cluster_arrive")
def cluster_arrive(low: Lowering, op: Operation) -> None:
    low.b.nvvm("bar.warp.sync", [low.b.i32(-1)])        # one thread may have done something alone, and come late
    low.b.nvvm(f"barrier.cluster.arrive{'.relaxed' if 'relaxed' in op.properties else ''}.aligned")


@lowers("nv_tileas.cluster_wait")
def cluster_wait(low: Lowering, op: Operation) -> None:
    low.b.nvvm("bar.warp.sync", [low.b.i32(-1)])
    low.b.nvvm("barrier.cluster.wait.aligned")


@lowers("nv_tileas.fence")
def fence(low: Lowering, op: Operation) -> None:
    low.b.nvvm(f"fence.acq_rel.{SCOPES[op.properties['mem_scope'].data]}")  # type: ignore[attr-defined]
