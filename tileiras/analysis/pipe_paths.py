"""What agents do to pipes and rings along one way through a function: lists of events, for `analysis/pipes.py` to play.

A way is a choice of trip counts and branches. Scalars are terms: numbers where they are known, else expressions over what isn't
(parameters, loaded values). Where control needs an unknown number it is chosen, the same for every agent that computes the same
expression; a chosen trip count is carried back to the parameter that it comes from where arithmetic can be undone (the number
of K tiles to K), so that guards that compute with the parameter agree with the loop. All threads of an agent take the same way:
control is uniform in nv_tileas.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.effects import effects_of
from tileiras.analysis.shared_memory import buffer_bytes
from tileiras.dialects.nv_tileaa import MemTokenType
from tileiras.dialects.nv_tileas import BufferType

MOST_EVENTS = 6000
"""Of an agent on one way; a longer one isn't decided."""
MOST_STEPS = 120_000
"""Ops executed on one way."""
MOST_TRIPS_KNOWN = 600
"""A loop whose bounds the program fixes runs so often at most."""
BARRIERS = ("nv_tileas.barrier", "nv_tileas.cluster_barrier")
COPIES = ("nv_tileas.tiled_copy", "nv_tileas.async_copy", "nv_tileas.tma_load", "nv_tileas.cancel_next_program_id")
ANSWER = "nv_tileas.is_valid_program_id"
TOLD = "nv_tileas.load_shared"
SWITCH = "nv_tileas.agent_switch"
ASYNC_DOT, DOT_WAIT = "nv_tileas.async_dot", "nv_tileas.dot_wait"
TENSOR_DOT = "nv_tileas.tensor_dot"
LEAVE_LOOP, NEXT_ITERATION, LEAVE_FUNCTION, FALL_THROUGH = "break", "continue", "return", "yield"


class TooLong(Exception):
    """The way has more events, steps or iterations than are looked at."""


class Stage(int):
    """The number of a stage, and where it is from: the pipe, and how many stages of it the agent had acquired or waited for."""

    pipe: SSAValue
    count: int

    @classmethod
    def of(cls, pipe: SSAValue, count: int, stages: int) -> Stage:
        found = cls(count % stages)
        found.pipe, found.count = pipe, count
        return found


@dataclass(frozen=True)
class Event:
    """`what`: create, acquire, commit, wait, release (of `pipe`), barrier, fill (an asynchronous copy to `slot` of `ring` for
    `pipe`), store (by threads), read, product (which reads, by itself); of the last three `pipe` is the one that gave the stage's
    number, if one did. `guard`: of a fill, the term that says whether it is made. `number`: bytes of a fill, groups that may be
    pending of a wait, stages that the pipe had given before that of a read or a store."""

    what: str
    op: Operation
    pipe: SSAValue | None = None
    ring: SSAValue | None = None
    slot: int = 0
    guard: Any = 1
    number: int = 0


@dataclass
class AgentWay:
    """One agent's events. `warps`: that it has."""

    warps: int
    events: list[Event] = field(default_factory=list)


class Term:
    """An expression whose value isn't known: an op's name, what distinguishes it, and its operands' terms."""

    __slots__ = ("args", "key", "op", "width")

    def __init__(self, op: str, key: Any, args: tuple[Any, ...], width: int) -> None:
        self.op, self.key, self.args, self.width = op, key, args, width


Value = Any
"""A number or a Term."""


def _signed(x: int, width: int) -> int:
    if width <= 1:
        return x & 1
    x &= (1 << width) - 1
    return x - (1 << width) if x >> width - 1 else x


def _unsigned(x: int, width: int) -> int:
    return x & (1 << width) - 1


def _truncated(a: int, b: int) -> int:
    return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}
_FOLDS: dict[str, Callable[[int, int, int], int]] = {
    "addi": lambda a, b, w: a + b, "subi": lambda a, b, w: a - b, "muli": lambda a, b, w: a * b,
    "andi": lambda a, b, w: a & b, "ori": lambda a, b, w: a | b, "xori": lambda a, b, w: a ^ b,
    "shli": lambda a, b, w: a << min(_unsigned(b, w), w), "shrui": lambda a, b, w: _unsigned(a, w) >> min(_unsigned(b, w), w),
    "shrsi": lambda a, b, w: a >> min(_unsigned(b, w), w - 1), "maxsi": lambda a, b, w: max(a, b),
    "minsi": lambda a, b, w: min(a, b), "maxui": lambda a, b, w: max(_unsigned(a, w), _unsigned(b, w)),
    "minui": lambda a, b, w: min(_unsigned(a, w), _unsigned(b, w)),
    "divsi": lambda a, b, w: _truncated(a, b) if b else 0, "divui": lambda a, b, w: _unsigned(a, w) // _unsigned(b, w) if b else 0,
    "floordivsi": lambda a, b, w: a // b if b else 0, "ceildivsi": lambda a, b, w: -(-a // b) if b else 0,
    "ceildivui": lambda a, b, w: -(-_unsigned(a, w) // _unsigned(b, w)) if b else 0,
    "remsi": lambda a, b, w: a - b * _truncated(a, b) if b else 0,
    "remui": lambda a, b, w: _unsigned(a, w) % _unsigned(b, w) if b else 0}
_INVERSES: dict[str, tuple[Callable[[int, int], int] | None, Callable[[int, int], int] | None]] = {
    # result, known operand -> the other one: the first operand, the second
    "addi": (lambda r, b: r - b, lambda r, a: r - a), "subi": (lambda r, b: r + b, lambda r, a: a - r),
    "muli": (lambda r, b: r // b if b else 0, lambda r, a: r // a if a else 0),
    "shrui": (lambda r, b: r << b, None), "shrsi": (lambda r, b: r << b, None), "shli": (lambda r, b: r >> b, None),
    "divsi": (lambda r, b: r * b, None), "divui": (lambda r, b: r * b, None), "floordivsi": (lambda r, b: r * b, None),
    "ceildivsi": (lambda r, b: r * b, None), "ceildivui": (lambda r, b: r * b, None),
    "maxsi": (lambda r, b: r, lambda r, a: r), "minsi": (lambda r, b: r, lambda r, a: r)}


def fold(term: Term, args: list[int]) -> int | None:
    """The value of a term from its operands', None where arithmetic doesn't say."""
    name = term.op.partition(".")[2]
    if name == "cmpi":
        predicate, width = term.key
        a, b = args
        if predicate.startswith("u"):
            a, b = _unsigned(a, width), _unsigned(b, width)
        return int(_COMPARE[predicate.lstrip("su") if predicate not in ("eq", "ne") else predicate](a, b))
    if name == "select":
        return args[1] if args[0] else args[2]
    if name in ("extsi", "trunci"):
        return _signed(args[0], term.width)
    if name == "extui":
        return _unsigned(args[0], term.key)
    found = _FOLDS.get(name)
    return None if found is None or len(args) != 2 else _signed(found(args[0], args[1], term.width), term.width)


class Way:
    """One way. `choose(kind, count)` gives a number below `count`; `most_trips`: of a loop whose bounds are open."""

    def __init__(self, choose: Callable[[str, int], int], most_trips: int) -> None:
        self.choose, self.most_trips = choose, most_trips
        self.terms: dict[tuple[Any, ...], Term] = {}
        self.chosen: dict[Term, int] = {}
        self.more_tiles: int | None = None
        self.ops: dict[Block, list[Operation]] = {}
        self.steps = 0

    # --- terms

    def term(self, op: str, key: Any, args: tuple[Value, ...], width: int) -> Value:
        found = self.terms.get((op, key, args, width))
        if found is None:
            found = self.terms[op, key, args, width] = Term(op, key, args, width)
        if args and all(isinstance(a, int) for a in args):
            value = fold(found, list(args))
            if value is not None:
                return value
        return found

    def known(self, v: Value) -> int | None:
        """The number that a term stands for, as far as choices say."""
        if isinstance(v, int):
            return v
        if v in self.chosen:
            return self.chosen[v]
        if not v.args:
            return None
        args = []
        for a in v.args:
            number = self.known(a)
            if number is None:
                return None
            args.append(number)
        return fold(v, args)

    def number(self, v: Value, wanted: int) -> int:
        """What a term is; where nothing says, it becomes `wanted`."""
        found = self.known(v)
        if found is not None:
            return found
        self.solve(v, wanted)
        found = self.known(v)
        if found is None or found != wanted:
            self.chosen[v] = found = wanted
        return found

    def solve(self, v: Value, wanted: int) -> None:
        """Choose the unknown that a term comes from so that it is `wanted`, where one operand is unknown and arithmetic can be
        undone."""
        while isinstance(v, Term) and v not in self.chosen:
            if not v.args:
                self.chosen[v] = wanted
                return
            numbers = [self.known(a) for a in v.args]
            name = v.op.partition(".")[2]
            if name == "cmpi":
                self.compare(v, bool(wanted))
                return
            if name in ("extsi", "extui", "trunci") and numbers[0] is None:
                v = v.args[0]
                continue
            inverse = _INVERSES.get(name)
            if inverse is None or numbers.count(None) != 1 or len(numbers) != 2:
                self.chosen[v] = wanted
                return
            place = numbers.index(None)
            undo, other = inverse[place], numbers[1 - place]
            if undo is None or other is None or not -(1 << 40) < other < 1 << 40 or (name.startswith("sh") and not 0 <= other < 64):
                self.chosen[v] = wanted
                return
            wanted = undo(wanted, other)
            v = v.args[place]

    def compare(self, v: Term, wanted: bool) -> None:
        """Choose the operands of a comparison so that it comes out as wanted: a first one of 0 where it is unknown, a second one as
        many trips away."""
        a, b = v.args
        if self.known(a) is None and self.known(b) is None:
            self.number(a, 0)
        predicate = v.key[0]
        relation = predicate.lstrip("su") if predicate not in ("eq", "ne") else predicate
        far = 1 + self.choose("trips", self.most_trips)
        up, down = (far if wanted else 0), (-far if wanted else 0)
        step = {"lt": up, "le": 0 if wanted else -1, "gt": down, "ge": 0 if wanted else 1, "eq": int(not wanted),
                "ne": int(wanted)}[relation]
        if self.known(b) is None:
            self.number(b, self.number(a, 0) + step)
        elif self.known(a) is None:
            self.number(a, self.number(b, 0) - step)

    # --- the walk

    def function(self, func: Operation, ops: dict[Block, list[Operation]]) -> list[AgentWay]:
        """The events of all agents; what stands before agents part is the first one's alone and in every other's past. `ops`: of
        each block, that are executed (`analysis/pipe_slice.py`)."""
        self.ops = ops
        warps: Any = func.properties["num_warps"]
        main = AgentWay(warps.data)
        agents: list[AgentWay] = []
        env: dict[SSAValue, Value] = {}
        walk = _Walk(self, main, env, {})
        body = func.regions[0].block
        for n, arg in enumerate(body.args):
            env[arg] = self.term("argument", n, (), _width(arg))
        for op in ops[body]:
            if op.name == SWITCH:
                counts: Any = op.properties["warps"]
                for region, count in zip(op.regions, counts):
                    agents.append(AgentWay(count.data))
                    _Walk(self, agents[-1], dict(env), dict(walk.cursors)).block(region.block)
                break
            if walk.one(op) == LEAVE_FUNCTION:
                break
        if not agents:
            return [main]
        return [main, *agents]


def _width(v: SSAValue) -> int:
    return v.type.width.data if isinstance(v.type, IntegerType) else 64


class _Walk:
    """One agent on its way. `env`: what values are. Cursors of pipes are the agent's own."""

    def __init__(self, way: Way, agent: AgentWay, env: dict[SSAValue, Value], cursors: dict[tuple[SSAValue, str], int]) -> None:
        self.way, self.agent, self.env, self.cursors = way, agent, env, cursors
        self.left: list[Value] = []
        self.flying: list[list[Any]] = []
        """Stages that products in flight read, by product, the oldest first."""

    def value(self, v: SSAValue) -> Value:
        found = self.env.get(v)
        if found is None:
            found = self.env[v] = self.way.term("value", v, (), _width(v))
        return found

    def block(self, block: Block) -> str:
        """Execute a block; how it was left. Its terminator's operands are then to be asked for."""
        for op in self.way.ops[block]:
            end = self.one(op)
            if end is not None:
                return end
        return FALL_THROUGH

    def one(self, op: Operation) -> str | None:
        """Execute an op; how the block is left, if it is."""
        way = self.way
        way.steps += 1
        if way.steps > MOST_STEPS or len(self.agent.events) > MOST_EVENTS:
            raise TooLong
        name = op.name
        if name == "scf.for":
            return self._for(op)
        if name == "nv_tileas.loop":
            return self._loop(op)
        if name == "scf.if":
            return self._if(op)
        if name == "scf.yield":
            return FALL_THROUGH
        if name in ("nv_tileas.break", "nv_tileas.continue", "nv_tileas.return"):
            self.left = [self.value(v) for v in op.operands]
            return name.partition(".")[2]
        if name in _EVENTS:
            self._pipe(op, _EVENTS[name])
            return None
        if name in BARRIERS:
            self.agent.events.append(Event("barrier", op))
            return None
        self._data(op)
        if not op.regions:
            for r in op.results:
                self.env[r] = self._result(op, r)
        return None

    def _result(self, op: Operation, r: Any) -> Value:
        name = op.name
        if name == "arith.constant":
            attr: Any = op.properties["value"]
            value = getattr(getattr(attr, "value", None), "data", None)
            if isinstance(value, int):
                return _signed(value, _width(r)) if isinstance(r.type, IntegerType) else value
        if name == "nv_tileas.assume":
            return self.value(op.operands[0])
        if name == ANSWER:
            return self._answer(op, r)
        if name == TOLD and (told := self._told(op)) is not None:
            return self.way.term(name, told, (), _width(r))
        args = tuple(self.value(v) for v in op.operands if not isinstance(v.type, MemTokenType))
        key: Any = None
        if name == "arith.cmpi":
            predicate: Any = op.properties["predicate"]
            key = (predicate.data, _width(op.operands[0]))
        elif name == "arith.extui":
            key = _width(op.operands[0])
        elif name not in _ARITHMETIC:
            pure = bool(getattr(op, "PURE", False)) or name in ("nv_tileas.tiled_load", "nv_tileas.load")
            stated = tuple(item for item in op.properties.items() if item[0] not in _UNSTATED)
            key = (r.index, stated if pure else op, 0 if pure else self.way.steps)
        return self.way.term(name, key, args, _width(r))

    def _answer(self, op: Operation, r: Any) -> Value:
        """All agents are told the same: there are as many tile blocks more as are chosen."""
        place = self._slot(op.operands[0])
        stage = place[1] if place is not None else 0
        count = stage.count if isinstance(stage, Stage) else int(stage)
        if r is op.results[-1]:
            if self.way.more_tiles is None:
                self.way.more_tiles = self.way.choose("trips", self.way.most_trips + 1)
            return int(count < self.way.more_tiles)
        return self.way.term(op.name, (r.index, count), (), _width(r))

    def _told(self, op: Operation) -> Any:
        """Which number of a pipe an op reads that tells all agents (`tell-agents`)."""
        place = self._slot(op.operands[0])
        stage = place[1] if place is not None else None
        if not isinstance(stage, Stage) or not isinstance(stage.pipe.owner, Operation) or "told" not in stage.pipe.owner.properties:
            return None
        return stage.pipe, stage.count

    # --- control

    def _bounds(self, op: Operation) -> tuple[int, int, int]:
        way = self.way
        lower, upper, step = (self.value(v) for v in op.operands[:3])
        first = way.number(lower, 0)
        stride = max(1, way.number(step, 1))
        last = way.known(upper)
        if last is None:
            last = way.number(upper, first + stride * way.choose("trips", way.most_trips + 1))
        if "unsigned_cmp" in op.properties:
            first, last = _unsigned(first, _width(op.operands[0])), _unsigned(last, _width(op.operands[0]))
        return first, last, stride

    def _for(self, op: Any) -> str | None:
        first, last, stride = self._bounds(op)
        if (last - first) // stride > MOST_TRIPS_KNOWN:
            raise TooLong
        body = op.regions[0].block
        carried = [self.value(v) for v in op.carried_inits()]
        at = first
        while at < last:
            self.env[body.args[0]] = at
            self.env.update(zip(body.args[1:], carried))
            end = self.block(body)
            if end == LEAVE_FUNCTION:
                return end
            carried = self._carried(body, end)
            if end == LEAVE_LOOP:
                break
            at += stride
        self.env.update(zip(op.results, carried))
        return None

    def _loop(self, op: Any) -> str | None:
        body = op.regions[0].block
        carried = [self.value(v) for v in op.carried_inits()]
        while True:
            self.env.update(zip(op.carried_args(), carried))
            end = self.block(body)
            if end == LEAVE_FUNCTION:
                return end
            carried = self._carried(body, end)
            if end == LEAVE_LOOP:
                break
        self.env.update(zip(op.results, carried))
        return None

    def _carried(self, body: Block, end: str) -> list[Value]:
        if end == FALL_THROUGH and body.last_op is not None:
            return [self.value(v) for v in body.last_op.operands]
        return self.left

    def _bound(self, condition: Value) -> None:
        """Whether one number is below another that isn't known: chosen as a loop's bound is, for a loop with these bounds may
        stand in the branch."""
        if not isinstance(condition, Term) or condition.op != "arith.cmpi" or condition.key[0] not in ("slt", "ult"):
            return
        way = self.way
        lower, upper = condition.args
        if way.known(condition) is None and way.known(upper) is None:
            way.number(upper, way.number(lower, 0) + way.choose("trips", way.most_trips + 1))

    def _if(self, op: Operation) -> str | None:
        condition = self.value(op.operands[0])
        self._bound(condition)
        known = self.way.known(condition)
        taken = known if known is not None else self.way.number(condition, self.way.choose("branch", 2))
        region = op.regions[0 if taken else 1] if len(op.regions) > 1 or taken else None
        if region is None or not region.blocks:
            return None
        end = self.block(region.block)
        if end != FALL_THROUGH:
            return end
        last = region.block.last_op
        if last is not None:
            self.env.update(zip(op.results, [self.value(v) for v in last.operands]))
        return None

    # --- pipes and rings

    def _pipe(self, op: Operation, what: str) -> None:
        if what == "create":
            pipe = op.results[0]
            for cursor in ("acquire", "wait"):
                self.cursors[pipe, cursor] = 0
            self.agent.events.append(Event(what, op, pipe))
            return
        pipe = op.operands[0]
        pending: Any = op.properties.get("pending")
        self.agent.events.append(Event(what, op, pipe, number=pending.data if pending is not None else 0))
        t: Any = pipe.type
        if what == "acquire":
            self.env[op.results[0]] = Stage.of(pipe, self.cursors.get((pipe, what), 0), t.stages.data)
        elif what == "commit":
            self.cursors[pipe, "acquire"] = self.cursors.get((pipe, "acquire"), 0) + 1
        elif what == "wait":
            count = self.cursors.get((pipe, what), 0)
            self.env[op.results[0]] = Stage.of(pipe, count, t.stages.data)
            self.cursors[pipe, what] = count + 1

    def _data(self, op: Operation) -> None:
        if op.name in COPIES:
            buffer = next(v for v in op.operands if isinstance(v.type, BufferType))
            place = self._slot(buffer)
            if place is not None:
                guard: Any = getattr(op, "guard", None)
                pipe: Any = op.pipe         # type: ignore[attr-defined]
                self.agent.events.append(Event("fill", op, pipe, *place, 1 if guard is None else self.value(guard),
                                               buffer_bytes(buffer.type)))
            return
        if op.name == DOT_WAIT:
            pending: Any = op.properties["pending"]
            while len(self.flying) > pending.data:
                self.agent.events += [Event("read", op, *place) for place in self.flying.pop(0)]
            return
        if not any(isinstance(v.type, BufferType) for v in op.operands):
            return
        effects = effects_of(op)
        touched = [(what, place) for what, buffers in (("read", effects.reads), ("store", effects.writes)) for v in buffers
                   if (place := self._stage(v)) is not None]
        self.agent.events += [Event("product" if op.name == TENSOR_DOT else what, op, *place) for what, place in touched]
        if op.name == ASYNC_DOT:
            self.flying.append([place for _, place in touched])

    def _stage(self, buffer: SSAValue) -> tuple[SSAValue | None, SSAValue, int, int, int] | None:
        """What an event says of a stage that is read or stored to: the pipe that its number is from, the ring, the number, and how
        many stages the pipe had given."""
        place = self._slot(buffer)
        if place is None:
            return None
        index = place[1]
        return (index.pipe, *place, 1, index.count) if isinstance(index, Stage) else (None, *place, 1, 0)

    def _slot(self, buffer: SSAValue) -> tuple[SSAValue, int] | None:
        """The ring and the stage that a buffer is."""
        owner = buffer.owner
        if not isinstance(owner, Operation) or owner.name != "nv_tileas.extract_slice":
            return None
        value = self.value(owner.operands[1])
        if isinstance(value, Stage):
            return owner.operands[0], value
        index = self.way.known(value)
        return owner.operands[0], index if index is not None else 0


_EVENTS = {"nv_tileas.create_pipeline": "create", "nv_tileas.producer_acquire": "acquire", "nv_tileas.producer_commit": "commit",
           "nv_tileas.consumer_wait": "wait", "nv_tileas.consumer_release": "release"}
_ARITHMETIC = frozenset({f"arith.{n}" for n in (*_FOLDS, "select", "extsi", "trunci")})
_UNSTATED = ("operandSegmentSizes", "latency", "allow_tma", "runs", "contiguous", "neighbours", "check")


def rings_and_pipes(func: Operation) -> Iterator[Operation]:
    """The ops that make pipes."""
    return (op for op in func.walk() if op.name == "nv_tileas.create_pipeline")
