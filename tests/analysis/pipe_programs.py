"""Functions with pipes for tests of the model checker: by hand, as text, and as the compiler makes them."""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from tests.conversion.test_pipes import COPY, insert_ring
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.pipeline import PIPELINE


def through_a_ring(kind: str, stages: int, agents: bool, gpu: str = "sm_90") -> Operation:
    """A loop's tile goes through a ring of that kind, by one agent or by two; as `order-memory` leaves it.
    Loops aren't unrolled: the checker goes through few iterations."""
    options = CompileOptions(find_target(gpu), prefetch=False, without=frozenset() if agents else frozenset({"agents"}))
    ir: Any = parse_module(COPY)
    for entry in PIPELINE:
        if entry.name == "free-heap":
            insert_ring(ir, kind, stages)
        if entry.level == "llvm":
            break
        changed = entry.apply(ir, options)
        ir = ir if changed is None else changed
    return ir


def function_of(module: Operation) -> Operation:
    """The only function of a module."""
    return next(op for op in module.regions[0].block.ops if op.name == "nv_tileas.func")
