"""What reduce and scan mean.

A body is a function of scalars. Where it is a straight line of elementwise ops, which is nearly always, it runs on
whole slices at once; else element by element.

reduce: the language leaves the order open; here halves are folded onto each other, and the identity takes part at the
end. The body gets (element, accumulator) pairs. scan: a left fold from the identity along the dimension, from its far
end if reversed; the body gets (accumulator, element) pairs, which is what the original does, though the definition's
text names them the other way round.
"""
from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr

from tileiras.interp import integers
from tileiras.interp.errors import InterpreterError
from tileiras.interp.formats import F64, FloatFormat, IntFormat, format_of
from tileiras.interp.program import Block, Code, Program, Signal, Step, execute, fill, location, run_code, structured
from tileiras.interp.registry import integer
from tileiras.interp.rounding import round_to

Run = Callable[[Block], Generator[None, None, Signal | None]]
Values = list[Any]


def identity_value(attribute: Any, element_type: Any) -> Any:
    """The 0-d array that an identity attribute stands for."""
    fmt = format_of(element_type)
    if isinstance(attribute, FloatAttr) and isinstance(fmt, FloatFormat):
        value = np.array(attribute.value.data, np.float64)
        return value if fmt is F64 else np.asarray(round_to(value, fmt))
    if isinstance(attribute, IntegerAttr) and isinstance(fmt, IntFormat):
        value = attribute.value.data % (1 << fmt.bits)
        return np.asarray(integers.wrap(np.array(value, np.uint64).view(np.int64), fmt))
    raise InterpreterError(f"identity {attribute} doesn't fit elements of {fmt.name}")


def _combine(code: Code, block: Block, first: Values, second: Values) -> Values:
    """The body's results for pairs of arrays, all of one shape."""
    shape = first[0].shape
    if code.elementwise:
        return _combine_at_once(code, block, first, second)
    out = [np.empty(shape, a.dtype) for a in first]
    for at in np.ndindex(shape):
        results = _combine_one(code, block, [a[at] for a in first], [b[at] for b in second])
        for o, r in zip(out, results):
            o[at] = r
    return out


def _combine_at_once(code: Code, block: Block, first: Values, second: Values) -> Values:
    fill(block.frame, code.arguments, [v for pair in zip(first, second) for v in pair])
    for step in code.steps:
        if isinstance(step, Step):
            execute(step, block)
        else:
            return [np.broadcast_to(block.frame[i], first[0].shape) for i in step.operands]     # type: ignore[union-attr]
    raise InterpreterError("the body yields nothing")


def _combine_one(code: Code, block: Block, first: Values, second: Values) -> Values:
    fill(block.frame, code.arguments, [np.asarray(v) for pair in zip(first, second) for v in pair])
    run = run_code(code, block)
    while True:
        try:
            next(run)
        except StopIteration as end:
            return list(end.value.values)


def _prepare(program: Program, op: Any) -> tuple[list[int], list[int], Code, int, list[Any]]:
    operands = [program.slot(v) for v in op.operands]
    results = [program.slot(r) for r in op.results]
    identities = [identity_value(a, v.type.element_type) for a, v in zip(op.identities.data, op.operands)]
    if len(identities) != len(operands):
        raise InterpreterError("one identity is needed for each operand")
    return operands, results, program.region(op.body), integer(op.dim), identities


def _guarded(op: Any, work: Callable[[Block], None]) -> Run:
    def run(block: Block) -> Generator[None, None, Signal | None]:
        try:
            work(block)
        except InterpreterError as error:
            raise error.at(op.name, location(op)) from None
        return None
        yield
    return run


@structured("reduce")
def reduce(program: Program, op: Any) -> Run:
    operands, results, body, axis, identities = _prepare(program, op)

    def work(block: Block) -> None:
        parts = [np.moveaxis(np.asarray(block.frame[i]), axis, 0) for i in operands]
        while (n := parts[0].shape[0]) > 1:
            half = n // 2
            parts = _combine(body, block, [p[half:] for p in parts], [p[:half] for p in parts])
        elements = [p[0] for p in parts]
        accumulators = [np.broadcast_to(i, e.shape) for i, e in zip(identities, elements)]
        fill(block.frame, results, _combine(body, block, elements, accumulators))
    return _guarded(op, work)


@structured("scan")
def scan(program: Program, op: Any) -> Run:
    operands, results, body, axis, identities = _prepare(program, op)
    reverse = bool(integer(op.reverse))

    def work(block: Block) -> None:
        sources = [np.moveaxis(np.asarray(block.frame[i]), axis, 0) for i in operands]
        out = [np.empty(s.shape, s.dtype) for s in sources]
        carried = [np.broadcast_to(i, s.shape[1:]) for i, s in zip(identities, sources)]
        count = sources[0].shape[0]
        for at in reversed(range(count)) if reverse else range(count):
            carried = _combine(body, block, carried, [s[at] for s in sources])
            for o, c in zip(out, carried):
                o[at] = c
        fill(block.frame, results, [np.moveaxis(o, 0, axis) for o in out])
    return _guarded(op, work)
