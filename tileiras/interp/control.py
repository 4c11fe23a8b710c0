"""What if, for and loop mean; break, continue, yield and return reach them as signals."""
from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from tileiras.interp import integers
from tileiras.interp.errors import InterpreterError
from tileiras.interp.program import Block, Program, Signal, fill, location, run_code, structured
from tileiras.interp.registry import flag, int_format

Run = Callable[[Block], Generator[None, None, Signal | None]]


@structured("if")
def if_(program: Program, op: Any) -> Run:
    condition = program.slot(op.condition)
    branches = program.region(op.elseRegion), program.region(op.thenRegion)
    results = [program.slot(r) for r in op.results]

    def run(block: Block) -> Generator[None, None, Signal | None]:
        signal = yield from run_code(branches[bool(block.frame[condition])], block)
        if signal.kind != "yield":
            return signal                       # break, continue and return belong to an op further out
        fill(block.frame, results, signal.values)
        return None
    return run


@structured("for")
def for_(program: Program, op: Any) -> Run:
    bounds = [program.slot(v) for v in (op.lowerBound, op.upperBound, op.step)]
    initial = [program.slot(v) for v in op.initValues]
    body = program.region(op.region)
    results = [program.slot(r) for r in op.results]
    fmt = int_format(op.lowerBound.type)
    signedness = "unsigned" if flag(op.unsignedCmp) else "signed"

    def run(block: Block) -> Generator[None, None, Signal | None]:
        frame = block.frame
        low, high, step = (int(integers.valued(frame[b], fmt, signedness)) for b in bounds)
        if step <= 0:
            raise InterpreterError(f"step {step} is not positive").at(op.name, location(op))
        carried = [frame[i] for i in initial]
        for i in range(low, high, step):
            block.launch.count_iteration(op)
            frame[body.arguments[0]] = integers.wrap((i + 2 ** 63) % 2 ** 64 - 2 ** 63, fmt)
            fill(frame, body.arguments[1:], carried)
            signal = yield from run_code(body, block)
            if signal.kind == "return":
                return signal
            carried = list(signal.values)
            if signal.kind == "break":
                break
        fill(frame, results, carried)
        return None
    return run


@structured("loop")
def loop(program: Program, op: Any) -> Run:
    initial = [program.slot(v) for v in op.initValues]
    body = program.region(op.region)
    results = [program.slot(r) for r in op.results]

    def run(block: Block) -> Generator[None, None, Signal | None]:
        carried: list[Any] = [block.frame[i] for i in initial]
        while True:
            block.launch.count_iteration(op)
            fill(block.frame, body.arguments, carried)
            signal = yield from run_code(body, block)
            if signal.kind == "return":
                return signal
            carried = list(signal.values)
            if signal.kind == "break":
                fill(block.frame, results, carried)
                return None
    return run
