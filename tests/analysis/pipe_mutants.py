"""Mutants of functions with pipes: one mistake in the protocol each, drawn by seed over every place where one can be made.

    drop        an acquire, commit, wait, release or barrier is missing      double     a commit or a release is made twice
    early       a release stands directly behind its wait, before the reads; a read's wait or a fill's barrier comes too late
    count       arrivals that a pipe counts, bytes that it expects, groups that may be pending: one too many or too few
    smaller     the ring has a stage less than its pipe goes round            larger     the pipe goes round one stage more
    guard       a copy's guard is the opposite, or is always false
"""
from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import IntAttr, IntegerAttr, IntegerType
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import arith
from tileiras.dialects.base import OPERAND_SEGMENTS
from tileiras.dialects.nv_tileas import PipeType, RingType

PIPE_OPS = {"nv_tileas.producer_acquire": "acquire", "nv_tileas.producer_commit": "commit", "nv_tileas.consumer_wait": "wait",
            "nv_tileas.consumer_release": "release"}


@dataclass(frozen=True)
class Mutant:
    """`name` says what is wrong; `apply` makes it so in a module, which is a fresh copy of that the mutant was found in."""

    name: str
    apply: Callable[[Operation], None]


def _nth(name: str, n: int) -> Callable[[Operation], Operation]:
    return lambda module: [op for op in module.walk() if op.name == name][n]


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()


def _drop(find: Callable[[Operation], Operation]) -> Callable[[Operation], None]:
    def apply(module: Operation) -> None:
        op = find(module)
        if op.results:          # a number that is needed: a fixed one, as if nobody had waited
            zero = arith.Constant.make([], [op.results[0].type], {"value": IntegerAttr(0, op.results[0].type)})  # type: ignore
            assert op.parent is not None
            op.parent.insert_op_before(zero, op)
            op.results[0].replace_all_uses_with(zero.results[0])
        _erase(op)
    return apply


def _double(find: Callable[[Operation], Operation]) -> Callable[[Operation], None]:
    def apply(module: Operation) -> None:
        op = find(module)
        assert op.parent is not None
        op.parent.insert_op_after(op.clone(), op)
    return apply


def _number(find: Callable[[Operation], Operation], name: str, by: int) -> Callable[[Operation], None]:
    def apply(module: Operation) -> None:
        op = find(module)
        old: Any = op.properties[name]
        op.properties[name] = IntAttr(old.data + by)
    return apply


def _retype(value: SSAValue, t: Any) -> None:
    value._type = t         # pyright: ignore[reportAttributeAccessIssue]  # the value is the same, its extent is not


def _stages(find: Callable[[Operation], Operation], by: int) -> Callable[[Operation], None]:
    def apply(module: Operation) -> None:
        value = find(module).results[0]
        t: Any = value.type
        _retype(value, type(t)(t.parameters[0], IntAttr(t.stages.data + by)))
    return apply


def _release_early(find: Callable[[Operation], Operation]) -> Callable[[Operation], None]:
    def apply(module: Operation) -> None:
        release = find(module)
        wait = next(use.operation for use in release.operands[0].uses
                    if use.operation.name == "nv_tileas.consumer_wait" and use.operation.parent is release.parent)
        release.detach()
        assert wait.parent is not None
        wait.parent.insert_op_after(release, wait)
    return apply


def _guard(find: Callable[[Operation], Operation], opposite: bool) -> Callable[[Operation], None]:
    def apply(module: Operation) -> None:
        copy: Any = find(module)
        one = arith.Constant.make([], [IntegerType(1)], {"value": IntegerAttr(1 if opposite else 0, IntegerType(1))})
        copy.parent.insert_op_before(one, copy)
        guard = one.results[0]
        if opposite:
            flip = arith.Xori.make([copy.guard, guard], [IntegerType(1)])
            copy.parent.insert_op_before(flip, copy)
            guard = flip.results[0]
        new = type(copy).make([copy.view, copy.coords, copy.buffer, copy.pipe, copy.index, guard, copy.token], [])
        copy.operands = list(new.operands)
        copy.properties[OPERAND_SEGMENTS] = new.properties[OPERAND_SEGMENTS]
        new.erase()
    return apply


def mutants_of(module: Operation) -> list[Mutant]:
    """All that can be made of a module, in the order of its ops."""
    out: list[Mutant] = []
    seen: dict[str, int] = {}
    for op in module.walk():
        name = op.name
        n = seen[name] = seen.get(name, -1) + 1
        find = _nth(name, n)
        if name in PIPE_OPS:
            what = PIPE_OPS[name]
            t: Any = op.operands[0].type
            is_group = t.kind.data == "group"
            if not (is_group and what in ("acquire", "release")):       # those do nothing for groups
                out.append(Mutant(f"drop {what} {n}", _drop(find)))
            if what == "commit" or (what == "release" and not is_group):
                out.append(Mutant(f"double {what} {n}", _double(find)))
            if what == "wait" and is_group:
                out.append(Mutant(f"pending + 1 at wait {n}", _number(find, "pending", 1)))
            beside = [use.operation for use in op.operands[0].uses if use.operation.parent is op.parent]
            if what == "release" and not is_group and any(other.name == "nv_tileas.consumer_wait" for other in beside):
                out.append(Mutant(f"early release {n}", _release_early(find)))
        elif name == "nv_tileas.barrier":
            out.append(Mutant(f"drop barrier {n}", _drop(find)))
        elif name == "nv_tileas.create_pipeline":
            out.append(Mutant(f"larger pipe {n}", _stages(find, 1)))
            for attr, steps in (("producers", (1, -1)), ("consumers", (1, -1)), ("bytes", (16, -16))):
                number: Any = op.properties.get(attr, IntAttr(0))
                for step in steps:
                    if number.data and number.data + step > 0:
                        out.append(Mutant(f"{attr} {step:+} of pipe {n}", _number(find, attr, step)))
        elif name == "nv_tileas.alloc_tensor" and isinstance(op.results[0].type, RingType) and op.results[0].type.stages.data > 1:
            out.append(Mutant(f"smaller ring {n}", _stages(find, -1)))
        elif name == "nv_tileas.tiled_copy" and getattr(op, "guard", None) is not None:
            out.append(Mutant(f"opposite guard {n}", _guard(find, True)))
            out.append(Mutant(f"no copy {n}", _guard(find, False)))
    return out


def draw(module: Operation, count: int, seed: int) -> list[Mutant]:
    """`count` different mutants of a module, or all that there are."""
    found = mutants_of(module)
    return random.Random(seed).sample(found, min(count, len(found)))


def pipes_in(module: Operation) -> list[PipeType]:
    """The types of a module's pipes."""
    return [op.results[0].type for op in module.walk() if op.name == "nv_tileas.create_pipeline"]     # type: ignore[misc]
