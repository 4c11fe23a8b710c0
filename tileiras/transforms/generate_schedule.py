"""`generate-schedule`: when the ops of a loop run in its steady state, and how many stages its ring of loads has.

    scf.for ... {                                scf.for ... {
      %x = tiled_load %v[%i]                       %x = tiled_load %v[%i] {nv_tile.aws.stage = 0, .order = 2, .depth = 5}
      store_shared %x, %b                ->        store_shared %x, %b    {nv_tile.aws.stage = 3, .order = 0}
      %d = dot %b ...                              %d = dot %b ...        {nv_tile.aws.stage = 3, .order = 1}
    }                                            }

Only loops that can run ahead of themselves (counted, without loops inside and other ways out) and have loads that go to buffers
are looked at; others keep the program's order and get no attribute. Nothing moves here: the passes that make rings and agents
obey. See schedule/ for how it is decided.
"""
from __future__ import annotations

from dataclasses import replace
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.ahead import runs_ahead
from tileiras.analysis.shared_lives import SharedLives
from tileiras.schedule.names import ASYNC_LOADS, DEPTH, LEAST_IN_TURN, ORDER, STAGE

REGISTERS_KEPT_BACK = 48
"""Of a thread's registers, for addresses, fragments and what the loop doesn't change."""
LONGEST_DELAY = 2000
"""Cycles that a random delay adds at most."""
MOST_RANDOM_STAGES = 6


def run(module: Operation, context: Any) -> None:
    """Write the attributes, in place."""
    if not context.target.has_cp_async or not context.uses("pipelines"):
        return
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            loops = [op for op in func.walk() if op.name in ASYNC_LOADS and op.parent_op() is not None]
            lives = SharedLives(func)
            for loop in dict.fromkeys(op.parent_op() for op in loops):
                if loop is not None and runs_ahead(loop):
                    _loop(func, loop, context, lives)
    options = context.schedule
    if options is not None and options.trace_file:
        _write_trace(options)


def rings_of(loop: Operation, by_engine: bool = False) -> dict[SSAValue, Operation]:
    """The buffers of a loop's body that loads fill directly -> the load. `by_engine`: the copy engine brings tiles of views, so
    that one that goes to several buffers comes but once."""
    from tileiras.schedule.graph import load_behind
    body = loop.regions[0].block
    found: dict[SSAValue, Operation] = {}
    for op in body.ops:
        load = load_behind(op, by_engine)
        if load is not None and load.parent is body and (load.name == "nv_tileas.tiled_load" or load.results[0].has_one_use()):
            found[op.operands[1]] = load
    return found


def _loop(func: Operation, loop: Operation, context: Any, lives: SharedLives) -> None:
    by_engine = context.target.has_tma and context.uses("tma")
    rings = rings_of(loop, by_engine)
    if not rings:
        return
    from tileiras.analysis.shared_memory import buffer_bytes
    from tileiras.schedule.depth import ring_depth, ring_facts, shared_budget
    from tileiras.schedule.graph import loop_graph
    from tileiras.schedule.options import ScheduleOptions
    from tileiras.schedule.refine import Room, choose
    from tileiras.schedule.resources import model_of
    from tileiras.schedule.schedule import NoSchedule

    options: ScheduleOptions = context.schedule or ScheduleOptions()
    target = context.target
    num_warps: Any = func.properties["num_warps"]
    graph = loop_graph(loop, model_of(target, num_warps.data), rings)
    allocs = [v.owner for v in rings if isinstance(v.owner, Operation)]
    beside = lives.beside(loop, allocs)
    sizes = {v: buffer_bytes(v.type) for v in rings}
    sizes.update(dict.fromkeys(_with_others(rings), 0))
    dice = None if options.seed is None else _dice(f"{options.seed} {func.properties['sym_name']} {len(graph.nodes)}")
    if dice is not None:
        graph.edges = [replace(e, latency=e.latency + dice.randrange(LONGEST_DELAY)) if not e.distance else e for e in graph.edges]
    room = Room(shared_budget(target) - beside, target.max_registers_per_thread - REGISTERS_KEPT_BACK)
    try:
        outcome = choose(graph, room, sizes, True, iterations=options.iterations, threshold=options.threshold)
    except NoSchedule:
        return
    turns = [v for v, load in rings.items() if "in_turn" in load.properties]     # `materialize-schedule` counts their stages
    beside += LEAST_IN_TURN * sum(sizes[v] for v in turns)
    facts = ring_facts(loop, list(rings.values()), sum(n for v, n in sizes.items() if v not in turns), target, beside)
    if options.stages:
        facts = replace(facts, asked=options.stages)
    elif dice is not None:
        facts = replace(facts, asked=dice.randint(2, MOST_RANDOM_STAGES))
    depth = ring_depth(facts, target)
    schedule = outcome.schedule
    orders = schedule.orders()
    for node in graph.nodes:
        assert node.op is not None
        node.op.attributes[STAGE] = IntegerAttr(schedule.stage(node.index), i32)
        node.op.attributes[ORDER] = IntegerAttr(orders[node.index], i32)
    for v, load in rings.items():
        if v not in turns:
            load.attributes[DEPTH] = IntegerAttr(depth.stages, i32)
    name: str = func.properties["sym_name"].data  # type: ignore[attr-defined]
    if options.show is not None:
        from tileiras.schedule.chart import chart
        serial = f"  in the program's order: {outcome.why}\n" if outcome.why else ""
        options.show(f"{chart(schedule, name)}  ring: {depth}\n{serial}")
    if options.trace_file:
        options.traced.append((name, schedule))
    if context.remarks is not None:
        from tileiras.transforms.hint_remarks import apply_latency
        _remark(func, loop, schedule, depth, outcome.why, context.remarks)
        for load in dict.fromkeys(rings.values()):
            apply_latency(func, load, depth.stages, f"the ring is bound by {depth.bound}", context.remarks)


def _with_others(rings: dict[SSAValue, Operation]) -> list[SSAValue]:
    """Buffers that take no room of their own: that get, from a load, what another gets from it at the same places (the copy engine
    fills both at once), or come by the ring of another one, in turn."""
    seen: set[Any] = set()
    found = []
    for v, load in rings.items():
        t: Any = v.type
        key = load.properties.get("in_turn") or (load, tuple(sorted(t.layout.data.bases)))
        if key in seen:
            found.append(v)
        seen.add(key)
    return found


def _dice(seed: str) -> Any:
    from random import Random
    return Random(seed)


def _remark(func: Operation, loop: Operation, schedule: Any, depth: Any, why: str, remarks: list[Any]) -> None:
    from tileiras.remarks import ANALYSIS, RESOURCES, remark
    notes: dict[str, str | int] = {"interval": schedule.interval, "bound": schedule.bound or "nothing", "stages": schedule.stages,
                                   "ring": depth.stages, "wanted": depth.wanted, "latency": depth.latency}
    text = f"The loop is scheduled with an interval of {schedule.interval} cycles, its loads {depth.stages} stages deep"
    reasons = [f"the ring is bound by {depth.bound}"] + ([f"the program's order is kept: {why}"] if why else [])
    remarks.append(remark(func, loop, ANALYSIS, RESOURCES, "Schedule", text, notes, reasons))


def _write_trace(options: Any) -> None:
    from tileiras.errors import CompileError
    from tileiras.schedule.chart import trace
    try:
        with open(options.trace_file, "w", encoding="utf-8") as f:
            f.write(trace(options.traced))
    except OSError as error:
        raise CompileError(f"the schedule's trace can't be written to '{options.trace_file}': {error.strerror}") from error
