"""Which instructions does each warp of a launch execute, and what does each of them do? The join's product.

    streams = streams_of(ptx, cubin, "kernel", (32, 32, 1), args)

Runs a sample of the grid's CTAs in the simulator, finds for every way through the PTX that occurred the way through the machine
code, and hands every execution of a machine instruction what the functional run says of it.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import numpy as np

from tileiras.sim.errors import SimulationError
from tileiras.sim.run.launch import choose_entry, counted, parse_cached, simulate
from tileiras.sim.timing import anchors, detours, path, payloads, sass
from tileiras.sim.timing.cubin import Cubin
from tileiras.sim.timing.errors import NotTimed
from tileiras.sim.timing.join import Join, join, rounds
from tileiras.sim.timing.record import SKIPPED, CtaRecord, Record, Recorder
from tileiras.sim.timing.stream import (
    Arrivals,
    AsyncGroup,
    CtaStreams,
    GlobalAccess,
    Instruction,
    Joined,
    KernelStreams,
    MbarrierOp,
    Payload,
    SharedAccess,
    Step,
    WarpStream,
)
from tileiras.sim.timing.trace import WarpTrace

SAMPLE = 6                      # CTAs run where the caller names none
CANCELS = (2, 5)                # how many others they take over in turn, where a kernel does: two lengths show what one takes
FEW, LONG = 3, 1000             # of a kernel whose CTAs execute that many blocks, and the same ones, so many are enough
WHOLE = 512                     # CTAs of a grid that is run as a whole where the sample can't do without the rest
TOLERATED = path.EXPLAINED      # anchors that a way may leave unexplained ...
SHARE = 0.02                    # ... or this part of the trace's
IN_PART = "lanes of a warp go different ways"
"""Of the note that what a warp's lanes access together may be counted in part."""


@lru_cache(maxsize=8)
def code_of(cubin: bytes, kernel: str) -> sass.Code:
    """A kernel's machine code, read once."""
    return sass.read(cubin, kernel)


def sampled(clusters: tuple[int, int, int], cluster: int = 1, most: int = SAMPLE) -> dict[int, int]:
    """CTAs that stand for a grid of so many clusters, with how many each stands for: all of a small one; else the first, the last
    and one of each of equal stretches between them. Work often hangs on one coordinate (the rows that a mask leaves a tile), and
    may hang on x as well as on y or z: where stretches are longer than a row, each shows another part of it."""
    row = clusters[0]
    count = row * clusters[1] * clusters[2]
    if count <= most:
        return {c * cluster: cluster for c in range(count)}
    last, stretches = count - 1, most - 2
    out = {0: cluster, last * cluster: cluster}
    for k in range(stretches):
        low, high = 1 + (last - 1) * k // stretches, 1 + (last - 1) * (k + 1) // stretches
        middle = (low + high) // 2
        if high - low > 2 * row:
            middle += (2 * k + 1) * row // (2 * stretches) - middle % row
        out[middle * cluster] = (high - low) * cluster
    return out


def streams_of(ptx: str, cubin: bytes, kernel: str, grid, args: Sequence, ctas: Sequence[int] | None = None, *,
               cluster=None, dynamic_shared: int = 0, block=None) -> KernelStreams:
    """The streams of the CTAs named (numbers in the grid, x fastest), or of a sample. Arrays among `args` stay as they are.
    `block`: threads in x, y, z, where the kernel doesn't say.

    Raises NoDisassembler, NotTimed, and a SimulationError where the kernel faults."""
    code = code_of(cubin, kernel)
    file = Cubin(cubin)
    _check_pair(ptx, file)
    ax, ay, az = (*((grid,) if isinstance(grid, int) else tuple(grid)), 1, 1)[:3]
    asked = (ax, ay, az)
    shape = counted(choose_entry(parse_cached(ptx), kernel))
    x, y, z = (n * c for n, c in zip(asked, shape))
    whole = x * y * z
    cancels = CANCELS if "clusterlaunchcontrol.try_cancel" in ptx else None
    together = shape[0] * shape[1] * shape[2]
    counts: dict[int, float] = {}

    def run(wanted: Iterable[int]) -> Recorder:
        return _run(ptx, kernel, asked, args, sorted(wanted), cluster, dynamic_shared, block, whole, cancels)
    if ctas is not None:
        counts.update(dict.fromkeys(ctas, whole / max(len(ctas), 1)))
        recorders = [run(counts)]
    elif cancels is not None:
        counts.update(sampled(asked, together, 2 * len(CANCELS)))
        recorders = [run(counts)]
    else:
        counts.update(sampled(asked, together, FEW))
        recorders = [run(counts)]
        if not recorders[0].alike(LONG):
            more = sampled(asked, together)
            recorders.append(run(set(more) - set(counts)) if set(more) - set(counts) else recorders[0])
            counts = dict(more)
    recorder = recorders[0]
    launch = recorder.launch
    assert launch is not None and recorder.code is not None
    size = launch.cluster_size
    joined = join(code, recorder.code)
    builder = _Builder(joined, launch.module.lines)
    ran = {cta: record for r in recorders for cta, record in r.ctas_recorded().items()}
    chosen = {c // size for c in counts}
    made: dict[int, CtaStreams] = {}
    for cta, record in ran.items():
        if cta // size not in chosen:
            continue
        warps = tuple(builder.stream(trace, record) for trace in record.traces)
        count = sum(n for c, n in counts.items() if c // size == cta // size) / size
        made[cta] = CtaStreams(launch.ctaid(cta), round(count) or 1, warps, launch.threads, file.registers(kernel),
                               file.shared_bytes(kernel) + dynamic_shared, cta % size,
                               tiles=1 + launch.cancelled.get(cta - cta % size, 0), tensor_columns=launch.tensor_columns)
    if size > 1:
        for cta, stream in list(made.items()):
            first = cta - cta % size
            peers = tuple(made[c] for c in range(first, first + size) if c in made)
            object.__setattr__(stream, "peers", peers)
    reason = builder.failed()
    return KernelStreams(kernel, code.sm, (x, y, z), launch.cluster, () if reason else tuple(made[c] for c in sorted(made)),
                         builder.joined(), not reason, reason, tuple(builder.notes), launch.places())


def _check_pair(ptx: str, cubin: Cubin) -> None:
    """Raise NotTimed where the cubin embeds other PTX than the one given (ptxas takes comments and spaces out)."""
    if not cubin.ptx:
        return
    for number, (given, made) in enumerate(zip(ptx.split("\n"), cubin.ptx.split("\n")), 1):
        one, two = anchors.operation(given), anchors.operation(made)
        if one and two and one != two:
            raise NotTimed(f"the cubin was made of other PTX: line {number} has {two} there, {one} here")


def _run(ptx: str, kernel: str, grid: tuple[int, int, int], args: Sequence, wanted: list[int], cluster,
         dynamic_shared: int, block, whole: int, cancels: Sequence[int] | None = None) -> Recorder:
    """Run the wanted CTAs alone; where they need the others, the whole grid, of `whole` CTAs."""
    def watch(recorder: Recorder, only) -> Recorder:
        simulate(ptx, kernel, grid, args, block, cluster=cluster, dynamic_shared=dynamic_shared, races=False,
                 observer=recorder, only=only, prompt=True, cancels=cancels)
        return recorder
    try:
        return watch(Recorder(), wanted)
    except (SimulationError, NotTimed):
        if len(wanted) == whole or whole > WHOLE:
            raise
        return watch(Recorder(set(wanted)), list(range(whole)))


class _Template:
    """A way through the machine code: steps without what differs from warp to warp. `keys`: None, or (line, visit of the
    trace, number of instructions that share the record), or a payload. `begins`: each visit's first step, and the end."""

    def __init__(self, steps: list[tuple[Instruction, object]], found: path.Path, begins: list[int]) -> None:
        self.steps, self.path, self.begins = steps, found, begins

    def seen(self, visits: list[int]) -> list[int]:
        """For each step the visit in which the functional run executed it; -1: nothing is known of it."""
        return [visits[key[1]] if isinstance(key, tuple) else -1 for _, key in self.steps]


class _Lane(NamedTuple):
    """A lane's way: its steps, their visits (see `_Template.seen`), and where those of each machine block begin."""

    steps: list[Step]
    seen: list[int]
    begins: list[int]

    def visit(self, number: int) -> tuple[list[Step], list[int]]:
        begin, end = self.begins[number:number + 2]
        return self.steps[begin:end], self.seen[begin:end]


class _Builder:
    """Makes streams of traces; a trace is solved once."""

    def __init__(self, joined: Join, lines: list[str]) -> None:
        self.join, self.lines = joined, lines
        self.templates: dict[tuple[int, ...], _Template | None] = {}
        self.parted: dict[tuple[tuple[int, ...], ...], list[detours.Place] | None] = {}
        self.plain = {i.index: Step(i, None) for i in joined.code.instructions}
        self.skipped = {i.index: Step(i, SKIPPED) for i in joined.code.instructions}
        self.notes: list[str] = []
        self.fixed: dict[int, Payload] = {}
        for i in joined.code.instructions:
            operation = joined.ptx.operations.get(i.ptx_line, "")
            text = lines[i.ptx_line - 1] if 0 < i.ptx_line <= len(lines) else ""
            payload = payloads.of_text(i.opcode, i.base, i.operands, operation, text)
            if payload is not None:
                self.fixed[i.index] = payload
                self.plain[i.index] = Step(i, payload)

    def stream(self, trace: WarpTrace, record: CtaRecord) -> WarpStream:
        """The stream of one warp; empty where its way wasn't found."""
        mine = record.records.get(trace.warp, {})
        leader = self.solved(trace.blocks)
        if leader is None:
            return WarpStream(trace.warp, [])
        others = [(self.solved(other.blocks), other) for other in trace.beside]
        ways = [(leader, trace), *((t, other) for t, other in others if t is not None)]
        left_out = [other for t, other in others if t is None]
        at = {line: _by_visit(found) for line, found in mine.items()}
        each = [self.steps(template, way.visits.tolist(), at) for template, way in ways]
        steps = each[0]
        if len(ways) > 1:
            places = self.along(tuple(way.blocks for _, way in ways))
            if places is None:
                left_out = list(trace.beside)
            else:
                steps = list(_along(places, [_Lane(found, template.seen(way.visits.tolist()), template.begins)
                                             for found, (template, way) in zip(each, ways)]))
        apart = [trace.apart, *(other.visits[~np.isin(other.visits, trace.visits)] for other in left_out)]
        if not self.notes and any(_accessed(mine, a) for a in apart):
            self.notes.append(f"{IN_PART}; the longest stands for all")
        return WarpStream(trace.warp, steps)

    def solved(self, blocks: tuple[int, ...]) -> _Template | None:
        """A trace's way through the machine code, found once."""
        if blocks not in self.templates:
            self.templates[blocks] = self.template(blocks)
        return self.templates[blocks]

    def along(self, ways: tuple[tuple[int, ...], ...]) -> list[detours.Place] | None:
        """The machine blocks of a warp with lanes of these traces, which are solved; put together once."""
        if ways not in self.parted:
            templates = [t for w in ways if (t := self.templates[w]) is not None]
            self.parted[ways] = detours.merged([[v.block for v in t.path.visits] for t in templates])
        return self.parted[ways]

    def steps(self, template: _Template, visits: list[int], at: dict[int, dict[int, Payload]]) -> list[Step]:
        """The steps of a lane's way, with what the warp did in its visits, by line and visit."""
        plain, skipped = self.plain, self.skipped
        steps = []
        nothing: dict[int, Payload] = {}
        for instruction, key in template.steps:
            if key is None:
                steps.append(plain[instruction.index])
                continue
            if key is SKIPPED:
                steps.append(skipped[instruction.index])
                continue
            line, place, share = key                    # type: ignore[misc]
            found = at.get(line, nothing).get(visits[place])
            if found is None:
                steps.append(plain[instruction.index])
            else:
                steps.append(Step(instruction, found if share == 1 else _part(found, share)))
        return steps

    def template(self, blocks: tuple[int, ...]) -> _Template | None:
        """Solve a trace."""
        found = path.find(self.join, blocks)
        if found is None:
            return None
        steps: list[tuple[Instruction, object]] = []
        shapes = {b: self.shape(b) for b in {v.block for v in found.visits}}
        places, begins = found.places, [0]
        for visit in found.visits:
            used = visit.used
            for instruction, slot, share in shapes[visit.block]:
                if slot < 0:
                    steps.append((instruction, None))
                elif used[slot] < 0:
                    steps.append((instruction, SKIPPED if instruction.guard is not None else None))
                else:
                    steps.append((instruction, (instruction.ptx_line, places[used[slot]], share)))
            begins.append(len(steps))
        return _Template(steps, found, begins)

    def shape(self, block: int) -> list[tuple[Instruction, int, int]]:
        """A block's instructions, each with the anchor it belongs to (-1: none) and how many belong to that."""
        slots: dict[int, list[int]] = {}
        for k, a in enumerate(self.join.anchors[block]):
            slots.setdefault(a.line, []).append(k)
        place = self.join.code.blocks[block]
        mine: dict[int, tuple[int, int]] = {}
        for line, members in rounds(place, self.join.ptx):
            if slots.get(line):
                slot = slots[line].pop(0)
                for i in members:
                    if i.index not in self.fixed and i.base not in ("BRA", "EXIT", "BRX"):
                        mine[i.index] = slot, len(members)
        return [(i, *mine.get(i.index, (-1, 1))) for i in place.instructions]

    def joined(self) -> Joined:
        """The worst of all traces."""
        found = [t.path for t in self.templates.values() if t is not None]
        worst = max(found, key=lambda p: p.residual, default=None)
        return Joined(worst.residual if worst else 0.0, worst.anchors if worst else 0, sum(p.searched for p in found),
                      sum(p.instructions for p in found))

    def failed(self) -> str:
        """Why the join isn't to be trusted; empty where it is."""
        unsolved = sum(t is None for t in self.templates.values())
        if unsolved:
            return f"no way through the machine code was found for {unsolved} of {len(self.templates)} traces"
        for t in self.templates.values():
            assert t is not None
            if t.path.residual > max(TOLERATED, SHARE * t.path.anchors):
                return (f"the way through the machine code leaves {t.path.residual:.1f} of {t.path.anchors} anchors "
                        "unexplained")
        return ""


def _along(places: Sequence[detours.Place], lanes: Sequence[_Lane]) -> Iterator[Step]:
    """The steps of a warp whose lanes go different ways, from each lane's. What several execute at a time is executed once, and
    does what any of them says, since what lanes do together is in all; what each executes at a time of its own, as often."""
    for place in places:
        together, seen = lanes[place.way].visit(place.visit)
        for way, number in place.also:
            steps, when = lanes[way].visit(number)
            if any(-1 < a != b > -1 for a, b in zip(seen, when)):
                yield from steps
                continue
            together = [b if a.payload is None or a.payload is SKIPPED else a for a, b in zip(together, steps)]
            seen = [max(a, b) for a, b in zip(seen, when)]
        yield from together


def _accessed(found: dict[int, list[Record]], apart: np.ndarray) -> bool:
    """Whether anything but a wait was done in the visits that lanes made apart from the longest way."""
    if not len(apart):
        return False
    visits = set(apart.tolist())
    return any(r.visit in visits and r.payload is not SKIPPED and getattr(r.payload, "kind", "") != "wait"
               for records in found.values() for r in records)


def _by_visit(found: Sequence[Record]) -> dict[int, Payload]:
    """What a line's executions did, by visit. Lanes that arrive at different mbarriers leave a record each."""
    out = {r.visit: r.payload for r in found}
    if len(out) < len(found):
        for visit, several in groupby(found, key=lambda r: r.visit):
            arrivals = tuple(p for _, p in several if isinstance(p, (MbarrierOp, AsyncGroup)) and p.kind != "wait")
            if len(arrivals) > 1:
                out[visit] = Arrivals(arrivals)
    return out


def _part(payload: Payload, share: int) -> Payload:
    """One of several instructions that carry out an access together."""
    if isinstance(payload, GlobalAccess):
        return GlobalAccess(payload.sectors, payload.bytes // share, payload.is_store, payload.atomic, payload.to_shared,
                            payload.passes // share, payload.waves if payload.atomic else -(-payload.waves // share))
    if isinstance(payload, SharedAccess):
        return SharedAccess(max(payload.passes // share, 1), payload.bytes // share, payload.is_store, payload.atomic,
                            payload.cta)
    return payload


