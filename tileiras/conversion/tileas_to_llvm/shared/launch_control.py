"""Tile blocks that haven't started: one thread asks for one, all read the answer.

    cancel_next_program_id %slot, %pipe[%i]     ->      the first thread: try_cancel [slot], [full[i]]
    %x, %y, %z, %valid = is_valid_program_id    ->      each thread: the answer's 16 bytes, and what they say

The answer is written by the asynchronous proxy: a thread that has read it says so by a fence, before it gives the slot back.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers
from tileiras.conversion.tileas_to_llvm.shared.pipes import barrier_at, only_if, pipe_of


@lowers("nv_tileas.cancel_next_program_id")
def cancel_next_program_id(low: Lowering, op: Any) -> None:
    slot = low.scalar(op.slot)
    full = pipe_of(low, op.pipe).full
    assert full is not None
    barrier = barrier_at(low, full, low.scalar(op.index))
    only_if(low, low.first_thread(), lambda: low.b.nvvm("clusterlaunchcontrol.try_cancel", [slot, barrier]))


@lowers("nv_tileas.is_valid_program_id")
def is_valid_program_id(low: Lowering, op: Operation) -> None:
    b = low.b
    *ids, given = b.nvvm("clusterlaunchcontrol.query_cancel", [low.scalar(op.operands[0])])
    for result, value in zip(op.results, ids):
        low.set(result, value)
    low.set(op.results[3], b.icmp("ne", given, b.i32(0)))
    b.nvvm("fence.proxy.async.shared_cta")
