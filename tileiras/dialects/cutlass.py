"""cutlass: the protocol between those who fill stages of a ring and those who empty them.

    %p = cutlass.pipeline.create(%barriers) : !cutlass.pipeline<stages = 4, "tma", producers = 1, consumers = 128, bytes = 32768>
    cutlass.pipeline.init(%p)
    %s = cutlass.pipeline.state {producer = true}            stage 0 and its phase
    cutlass.pipeline.producer_acquire(%p, %s)                wait until the stage is empty
    cutlass.pipeline.producer_commit(%p, %s)                 it will be full when the bytes are there
    cutlass.pipeline.consumer_wait(%p, %s)                   wait until it is full
    cutlass.pipeline.consumer_release(%p, %s)
    %n = cutlass.pipeline.advance(%p, %s)                    the next stage; the phase flips behind the last

A pipeline has a full and an empty mbarrier a stage (kind "group": none, wait groups count instead). `producers` and
`consumers` are arrivals, known once agents are mapped to warps.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition, param_def

from tileiras.dialects.base import TileOp

if TYPE_CHECKING:
    from xdsl.printer import Printer

PRODUCER_KINDS = ("group", "tma", "mbarrier", "umma")
NAMED_BARRIERS = 16
"""Of a CTA (PTX ISA, barrier); 0 is the whole block's."""


@irdl_attr_definition
class PipelineType(ParametrizedAttribute, TypeAttribute):
    """A ring of stages. kind: who fills them, one of PRODUCER_KINDS. bytes: that one stage receives (kind tma)."""

    name = "cutlass.pipeline"
    stages: IntAttr = param_def()
    kind: StringAttr = param_def()
    producers: IntAttr = param_def()
    consumers: IntAttr = param_def()
    bytes: IntAttr = param_def()


@irdl_attr_definition
class StateType(ParametrizedAttribute, TypeAttribute):
    """Which stage of a ring, and in which phase its barriers are."""

    name = "cutlass.pipeline_state"

    def print_parameters(self, printer: Printer) -> None:
        """It has none."""


def pipeline(stages: int, kind: str, producers: int, consumers: int, nbytes: int = 0) -> PipelineType:
    return PipelineType(IntAttr(stages), StringAttr(kind), IntAttr(producers), IntAttr(consumers), IntAttr(nbytes))


def _op(mnemonic: str, operands: str, results: str = "", attrs: str = "") -> type[TileOp]:
    name = "".join(part.capitalize() for part in mnemonic.replace(".", "_").split("_"))
    return type(name, (TileOp,), {"name": f"cutlass.{mnemonic}", "OPERANDS": operands, "RESULTS": results, "ATTRS": attrs})


_RING, _STATE = "pipeline:cutlass.pipeline", "state:cutlass.state"
OPS: dict[str, type[TileOp]] = {c.name: c for c in (
    _op("pipeline.create", "storage:llvm.ptr?", "pipeline:cutlass.pipeline"),
    _op("pipeline.init", _RING),
    _op("pipeline.state", "", "state:cutlass.state", "producer:unit?"),
    _op("pipeline.advance", f"{_RING} {_STATE}", "next:cutlass.state"),
    *(_op(f"pipeline.{m}", f"{_RING} {_STATE}") for m in
      ("producer_acquire", "producer_commit", "consumer_wait", "consumer_release")),
    _op("pipeline.producer_tail", f"{_RING} {_STATE}"),
    _op("named_barrier.arrive", "", "", "id:count threads:positive"),
    _op("named_barrier.arrive_and_wait", "", "", "id:count threads:positive"),
)}
TYPES = (PipelineType, StateType)
