"""Mutants of functions with pipes: one mistake in the protocol each, drawn by seed over every place where one can be made.

    drop        an acquire, commit, wait, release or barrier is missing      double     a commit or a release is made twice
    early       a release stands directly behind its wait, before the reads; a read's wait or a fill's barrier comes too late
    count       arrivals that a pipe counts, bytes that it expects, groups that may be pending: one too many or too few
    smaller     the ring has a stage less than its pipe goes round            larger     the pipe goes round one stage more
    guard       a copy's guard is the opposite, or is always false
    stay        the block or the cluster doesn't meet, a wait for products or stores is missing or lets one more be on its way
    threads     a stage is given back by the threads, where products by themselves read it
    tensor      columns of tensor memory are read and written in stage 0 always, old sums always or never count, nothing is freed
    cluster     a pipe tells its own CTA only, or a peer less; no agent waits for the other CTAs at its end
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


def _without(find: Callable[[Operation], Operation], name: str) -> Callable[[Operation], None]:
    def apply(module: Operation) -> None:
        del find(module).properties[name]
    return apply


def _fewer(find: Callable[[Operation], Operation], name: str) -> Callable[[Operation], None]:
    """The last of a list of numbers goes."""
    def apply(module: Operation) -> None:
        op = find(module)
        old: Any = op.properties[name]
        op.properties[name] = type(old)(old.data[:-1])
    return apply


def _fixed(find: Callable[[Operation], Operation], operand: int, number: int) -> Callable[[Operation], None]:
    """An operand is a number, whatever it was."""
    def apply(module: Operation) -> None:
        op = find(module)
        t: Any = op.operands[operand].type
        constant = arith.Constant.make([], [t], {"value": IntegerAttr(number, t)})
        assert op.parent is not None
        op.parent.insert_op_before(constant, op)
        op.operands[operand] = constant.results[0]
    return apply


def _constant(v: SSAValue) -> int | None:
    attr: Any = v.owner.properties["value"] if isinstance(v.owner, arith.Constant) else None
    return None if attr is None else attr.value.data & 1


def _mutants_of_others(op: Operation, n: int, find: Callable[[Operation], Operation]) -> list[Mutant]:
    """Those of ops beside the pipes: what waits for products and stores, tensor memory, clusters."""
    name, properties = op.name, op.properties
    short = name.rpartition(".")[2]
    out: list[Mutant] = []
    if name in DROPPED:
        out.append(Mutant(f"drop {short} {n}", _drop(find)))
    if name in WAITS_FOR_ENGINES:
        if not op.results:
            out.append(Mutant(f"drop {short} {n}", _drop(find)))
        out.append(Mutant(f"pending + 1 at {short} {n}", _number(find, "pending", 1)))
    if name == "nv_tileas.consumer_release" and "by_dots" in properties:
        out.append(Mutant(f"threads at release {n}", _without(find, "by_dots")))
    if name == "nv_tileas.consumer_release" and "with_dots" in properties:
        out.append(Mutant(f"threads alone at release {n}", _without(find, "with_dots")))
    if name == "nv_tileas.tensor_dot":
        at = list(op.operands).index(op.add)        # type: ignore[attr-defined]
        out += [Mutant(f"add is {bit} at dot {n}", _fixed(find, at, bit)) for bit in (0, 1) if bit != _constant(op.operands[at])]
    if name == SWITCH and any(inner.name in MEETINGS for inner in op.walk()):
        out.append(Mutant(f"agents leave alone {n}", _meet_nowhere))
    if name == "nv_tileas.tmem_stage":
        out.append(Mutant(f"tmem stage 0 at {n}", _fixed(find, 1, 0)))
    if name == "nv_tileas.create_pipeline":
        if "peers" in properties:
            out += [Mutant(f"no peers of pipe {n}", _without(find, "peers")),
                    Mutant(f"a peer less of pipe {n}", _fewer(find, "peers"))]
    return out


def _meet_nowhere(module: Operation) -> None:
    """No agent meets the cluster's others."""
    for op in [op for op in module.walk() if op.name in MEETINGS and op.parent_op().name == SWITCH]:     # type: ignore
        _erase(op)


SWITCH = "nv_tileas.agent_switch"
MEETINGS = ("nv_tileas.cluster_barrier", "nv_tileas.cluster_arrive", "nv_tileas.cluster_wait")
DROPPED = ("nv_tileas.fence_async", *MEETINGS, "nv_tileas.producer_tail", "nv_tileas.tmem_free")
WAITS_FOR_ENGINES = ("nv_tileas.dot_wait", "nv_tileas.store_wait")


def mutants_of(module: Operation) -> list[Mutant]:
    """All that can be made of a module, in the order of its ops."""
    out: list[Mutant] = []
    seen: dict[str, int] = {}
    for op in module.walk():
        name = op.name
        n = seen[name] = seen.get(name, -1) + 1
        find = _nth(name, n)
        out += _mutants_of_others(op, n, find)
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
