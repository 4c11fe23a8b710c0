"""How long does a kernel take on a named machine? Sampled CTAs are replayed on one SM, and the rest is extrapolated.

One SM gets the CTAs that the grid has for it, drawn from the samples in their proportions; it holds as many at a time as
registers, shared memory and warps allow. When the SM's CTAs are more than a few rounds of those, the time of one more, in the
steady state, stands for each that wasn't replayed. When they are few, and some have more to do than others, the SM is the one that
is done last, if each CTA of the grid, in its order, goes where a place gets free first.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapreplace
from itertools import islice
from math import ceil

from tileiras.machine import units
from tileiras.machine.latencies import LAUNCH_SECONDS
from tileiras.machine.machines import Machine, machine_of
from tileiras.sim.core.statistics import estimate
from tileiras.sim.run.launch import choose_entry, counted, parse_cached, simulate
from tileiras.sim.timing import streams
from tileiras.sim.timing.decoded import REASON_NAMES
from tileiras.sim.timing.errors import NotTimed
from tileiras.sim.timing.lines import places
from tileiras.sim.timing.memory import Sharing
from tileiras.sim.timing.occupancy import occupancy
from tileiras.sim.timing.prediction import BOUND_SHARE, Prediction, Stall
from tileiras.sim.timing.replay import Replay, ReplayDeadlock, Replayed, ReplayLimit
from tileiras.sim.timing.sharing import argument_bytes, sharing
from tileiras.sim.timing.stream import CtaStreams, KernelStreams

STEPS = 1_200_000
"""Warp instructions that a replay aims at: some two seconds."""
ROUNDS = 4
"""Rounds of resident CTAs that show the steady state."""
CLOCKS, SETTLED = 2, 0.98
"""How often a launch is replayed at a lower clock, where its own load lowers it, and the change that counts as none."""
MOST_STALLS = 200
ESTIMATE_SAMPLE = 4
ALIKE = 1.02
"""Instructions of a CTA, of another's, up to which all have as much to do."""


def predict(ptx: str, cubin: bytes, kernel: str, grid, args: Sequence, machine: str | int = "", *, cluster=None,
            dynamic_shared: int = 0, warm: bool = False, timeline: bool = False) -> Prediction:
    """How long a launch takes. `machine`: its name ("H100"), else the one that stands for the cubin's SM. `warm`: data lie in L2
    from a launch before, as far as they fit. Arrays among `args` may change.

    Raises LookupError for an unknown machine, NoDisassembler, NotTimed where the cubin has no line table, and a SimulationError
    where the kernel faults. A kernel that can't be joined to its machine code gets an estimate, marked as such."""
    found = streams.streams_of(ptx, cubin, kernel, grid, args, cluster=cluster, dynamic_shared=dynamic_shared)
    chosen = machine_of(machine or found.sm)
    check_machine(chosen, found.sm)
    if found.is_joined:
        try:
            return predict_streams(found, chosen, argument_bytes(args), ptx, warm=warm, timeline=timeline)
        except (ReplayDeadlock, ReplayLimit) as problem:
            end = "a deadlock" if isinstance(problem, ReplayDeadlock) else "a limit"
            reason = f"the replay of its machine code ends in {end}: {problem}"
    else:
        reason = found.reason
    return _estimate(ptx, found, chosen, args, reason, cluster, dynamic_shared)


def check_machine(machine: Machine, sm: int) -> None:
    """Code of an SM runs on machines of its own generation."""
    if machine.sm // 10 != sm // 10 or machine.sm < sm:
        raise LookupError(f"code for sm_{sm} doesn't run on {machine.name}, which is sm_{machine.sm}")


def predict_streams(found: KernelStreams, machine: Machine, memory: int, ptx: str = "", *, warm: bool = False,
                    timeline: bool = False, steps: int = STEPS) -> Prediction:
    """The same from streams. `memory`: bytes that the launch can touch. Raises ReplayDeadlock, ReplayLimit."""
    x, y, z = found.grid
    width = max(found.cluster[0] * found.cluster[1] * found.cluster[2], 1)
    total = x * y * z
    launched = max(total // width, 1)
    groups = max(machine.sms // width, 1)
    leaders = [c for c in found.ctas if c.rank == 0] or list(found.ctas)
    if not leaders:
        raise NotTimed(f"no CTA of {found.kernel} was run")
    first, lengths = leaders[0], [_steps(c) for c in leaders]
    along = max(found.cluster[0], 1)
    for_sm = -(-launched // groups)
    held = occupancy(machine, first.threads, first.registers, first.shared_bytes, for_sm, first.tensor_columns)
    active = min(machine.sms, max(round(total / for_sm), 1))
    shared = sharing(machine, found.ctas, total, active, held.ctas, memory, warm, found.arrays)

    dealt: list[CtaStreams] = []
    if for_sm <= ROUNDS * held.ctas and max(lengths) > ALIKE * min(lengths):
        last = _dealt(lengths, _stands_for(leaders, along, x // along, launched), groups, held.ctas)
        if sum(lengths[n] for n in last) <= steps:
            dealt = [leaders[n] for n in last]
    machine = machine.working(_multiplies(leaders))

    def replay(clocked: Machine) -> _Timed:
        run = _Run(clocked, shared, held.ctas, held.ctas * first.shared_bytes, timeline)
        if any(c.tiles > 1 for c in leaders):
            return _taking_over(run, leaders, launched / (groups * held.ctas))
        return _all_of(run, dealt) if dealt else _in_turn(run, leaders, for_sm, steps)
    timed = replay(machine)
    for _ in range(CLOCKS):
        slower = machine.clocked(timed.replayed.engine_busy / timed.replayed.cycles * active / machine.sms)
        if slower.sustained > machine.sustained * SETTLED:
            break
        machine = slower
        timed = replay(machine)
    replayed = timed.replayed
    # CTAs end before their last stores have left: no unit can do more than its rate, whatever the ends of a few rounds say.
    cycles = max(timed.cycles, _busiest(replayed) * timed.of / timed.length)
    prediction = Prediction(
        found.kernel, machine.name, found.grid, cycles, cycles / machine.sustained_clock, LAUNCH_SECONDS, {}, "", False,
        occupancy=held, waves=launched / (groups * held.ctas), residual=found.joined.residual,
        share_searched=found.joined.share_searched, events=replayed.events, clock=machine.sustained_clock)
    prediction.shares = _shares(replayed)
    busiest = max(prediction.shares, key=lambda u: prediction.shares[u])
    prediction.bound = busiest if prediction.shares[busiest] >= BOUND_SHARE else "latency"
    prediction.tail = max(0.0, 1 - launched / (groups * for_sm))
    prediction.stalls = _stalls(replayed, ptx)
    prediction.counts = _counts(replayed, total / (timed.length * width))
    prediction.replayed = f"replayed {timed.length} of {timed.of} CTAs of an SM ({replayed.instructions:,} warp instructions)"
    if timed.length > timed.of:
        prediction.replayed += f", without the time of {timed.length - timed.of}, {timed.steady:,.0f} cycles each"
    if timed.length < timed.of:
        prediction.replayed += f", the others at {timed.steady:,.0f} cycles each"
    prediction.notes = list(found.notes)
    if shared.dram_share < 0.999:
        prediction.notes.append(f"{1 - shared.dram_share:.0%} of first reads come from L2, since other SMs read the same")
    return prediction


def _multiplies(leaders: Sequence[CtaStreams]) -> bool:
    """Whether the tensor cores have something to do."""
    return any(step[0].base in units.MATRIX for cta in leaders for warp in cta.warps for step in warp.steps)


@dataclass(frozen=True)
class _Run:
    """What every replay of a launch has in common."""
    machine: Machine
    shared: Sharing
    resident: int
    shared_used: int
    timeline: bool

    def of(self, ctas: Iterable[CtaStreams]) -> Replayed:
        return Replay(self.machine, self.shared, self.resident, self.shared_used, timeline=self.timeline).run(ctas)


@dataclass(frozen=True)
class _Timed:
    """`length` of an SM's CTAs (`of` all) were replayed; one more takes `steady` cycles, all of them `cycles`."""
    replayed: Replayed
    length: int
    of: int
    steady: float
    cycles: float


def _in_turn(run: _Run, leaders: list[CtaStreams], for_sm: int, steps: int) -> _Timed:
    """CTAs that come one after the other as places get free."""
    order = _order(leaders)
    length = _length(order, for_sm, run.resident, steps)
    replayed = run.of(islice(_cycle(order), length))
    return _Timed(replayed, length, for_sm, *_extrapolate(replayed, for_sm, length, run.resident, len(order)))


def _all_of(run: _Run, ctas: list[CtaStreams]) -> _Timed:
    """All that an SM has."""
    replayed = run.of(ctas)
    return _Timed(replayed, len(ctas), len(ctas), 0.0, replayed.cycles)


def _dealt(lengths: Sequence[int], stands_for: Sequence[int], sms: int, resident: int) -> list[int]:
    """The samples that the SM has which is done last, in the order in which they come. `lengths`: of samples. Each CTA goes where a
    place is free first, to begin with to one SM after the other, and takes as long as it has instructions."""
    free = [(0, place) for place in range(sms * resident)]      # a heap
    lists: list[list[int]] = [[] for _ in range(sms)]
    ends = [(0, 0)] * sms
    for sample in stands_for:
        begin, place = free[0]
        end, sm = begin + lengths[sample], place % sms
        heapreplace(free, (end, place))
        lists[sm].append(sample)
        ends[sm] = max(ends[sm][0], end), ends[sm][1] + lengths[sample]
    return lists[max(range(sms), key=ends.__getitem__)]


def _stands_for(leaders: list[CtaStreams], width: int, row: int, launched: int) -> list[int]:
    """For each cluster (or CTA) of a grid, `width` CTAs wide and `row` of them in a row, the number of the sample that stands for
    it: of its stretch, or where stretches are longer than rows, so that each sample shows another part of a row
    (`streams.sampled`), the nearest along x."""
    along = [leader.cta[0] // width for leader in leaders]
    stretches = [n for n, leader in enumerate(leaders) for _ in range(leader.count)][:launched]
    if max(leader.count for leader in leaders) <= 2 * row:
        return stretches
    shown = [n for n, leader in enumerate(leaders) if leader.count > 1]
    nearest = [min(shown, key=lambda n: abs(along[n] - x)) for x in range(row)]
    return [nearest[i % row] for i in range(len(stretches))]


def _taking_over(run: _Run, leaders: list[CtaStreams], each: float) -> _Timed:
    """CTAs that stay and take over the work of others, of `each` in all: samples that took over a few and some more show what
    one more takes."""
    few, many = min(c.tiles for c in leaders), max(c.tiles for c in leaders)
    resident, wanted = run.resident, max(ceil(each), 1)
    short, long = (run.of(islice(_cycle([c for c in leaders if c.tiles == n]), resident)) for n in (few, many))
    steady = (long.cycles - short.cycles) / (many - few) if many > few else long.cycles / many
    cycles = long.cycles + (wanted - many) * steady
    return _Timed(long, many * resident, wanted * resident, steady / resident, cycles)


def _order(leaders: list[CtaStreams]) -> list[CtaStreams]:
    """Samples in the proportions of what they stand for, spread evenly."""
    total = sum(c.count for c in leaders)
    if len({c.count for c in leaders}) == 1:
        return list(leaders)
    least = max(min(c.count for c in leaders), total / (4 * len(leaders)))
    order: list[tuple[float, int, CtaStreams]] = []
    for i, c in enumerate(leaders):
        times = max(round(c.count / least), 0)
        order += [((k + 0.5) / times, i, c) for k in range(times)]
    return [c for _, _, c in sorted(order, key=lambda entry: entry[:2])] or list(leaders)


def _cycle(order: list[CtaStreams]):
    while True:
        yield from order


def _steps(cta: CtaStreams) -> int:
    return sum(len(w.steps) for c in (cta.peers or (cta,)) for w in c.warps)


def _length(order: list[CtaStreams], for_sm: int, resident: int, steps: int) -> int:
    """How many CTAs are replayed: all that the SM has, or enough for the steady state, or what the budget allows."""
    mean = max(sum(_steps(c) for c in order) / len(order), 1)
    wanted = max(ROUNDS * resident, resident + len(order) if len(order) * mean < steps else 0)
    affordable = max(int(steps / mean), resident + 1)
    return min(for_sm, wanted, affordable)


def _extrapolate(replayed: Replayed, for_sm: int, length: int, resident: int, period: int) -> tuple[float, float]:
    """(cycles of one more CTA in the steady state, of all). The samples come again after `period` CTAs: where as many were replayed
    behind the first round, the steady state is one of all samples alike."""
    if length >= for_sm:
        return 0.0, replayed.cycles
    ends = sorted(replayed.ends)
    settled = min(resident, len(ends) - 1) if len(ends) > resident else 0
    if len(ends) - 1 > settled:
        more = len(ends) - max(settled, 1)
        more -= more % period if more >= period else 0
        steady = (ends[-1] - ends[-1 - more]) / more
    else:
        steady = ends[-1] / len(ends)
    return steady, replayed.cycles + (for_sm - length) * steady


def _busiest(r: Replayed) -> float:
    """Cycles that the busiest of the SM's shared units works."""
    return max(r.dram_busy, r.l2_busy, r.requests_busy, r.ingress_busy, r.port_busy, r.tensor_busy)


def _shares(r: Replayed) -> dict[str, float]:
    cycles = max(r.cycles, 1.0)
    partitions = units.PARTITIONS
    busy = {name: r.pipe_busy[p] / partitions for p, name in enumerate(units.PIPE_NAMES)}
    found = {"issue": r.instructions / partitions / max(r.width, 1)}
    found |= {name: busy[name] for name in ("FMA", "ALU", "FP16", "XU", "FP64", "LSU")}
    for name, ports in (("FMA", r.ports[units.FMA]), ("ALU", r.ports[units.ALU]), ("FP16", r.ports[units.FP16])):
        found[name] /= ports
    found |= {"shared port": r.port_busy, "tensor": r.tensor_busy, "SM ingress": r.ingress_busy,
              "L2": max(r.l2_busy, r.requests_busy), "DRAM": r.dram_busy}
    return {name: min(value / cycles, 1.0) for name, value in found.items()}


def _stalls(replayed: Replayed, ptx: str) -> list[Stall]:
    where = places(ptx) if ptx else {}
    found = []
    everything = sum(sum(d.lost.values()) for d in replayed.decoded) or 1.0
    for d in replayed.decoded:
        line = d.instruction.ptx_line
        place = where.get(line)
        for reason, cycles in d.lost.items():
            found.append(Stall(line, place.source if place else "", place.loop if place else 0, d.instruction.opcode,
                               REASON_NAMES[reason], cycles, cycles / everything))
    found.sort(key=lambda s: (-s.cycles, s.ptx_line, s.opcode, s.reason))
    return found[:MOST_STALLS]


def _counts(r: Replayed, scale: float) -> dict[str, float]:
    spills = sum(d.issued for d in r.decoded if d.base in ("LDL", "STL"))
    return {"warp instructions": r.instructions * scale, "sectors": r.sectors * scale, "L1 hits": r.l1_hits * scale,
            "DRAM bytes": r.dram_bytes * scale * r.width, "ingress bytes": r.ingress_bytes * scale * r.width,
            "shared passes": r.port_busy * scale * r.width, "spills": spills * scale}


def _estimate(ptx: str, found: KernelStreams, machine: Machine, args: Sequence, reason: str, cluster,
              dynamic_shared: int) -> Prediction:
    """The least time from the work of a few CTAs, for a kernel that can't be replayed."""
    x, y, z = found.grid
    total = x * y * z
    cx, cy, cz = found.cluster
    width = cx * cy * cz
    chosen = sorted(streams.sampled((x // cx, y // cy, z // cz), width, ESTIMATE_SAMPLE))
    asked = tuple(n // c for n, c in zip(found.grid, counted(choose_entry(parse_cached(ptx), found.kernel))))
    report = simulate(ptx, found.kernel, asked, args, cluster=cluster, dynamic_shared=dynamic_shared, races=False, only=chosen)
    scale = total / max(len(chosen) * width, 1)
    # At the clock that a replay's cycles are of, so that the two compare.
    least = estimate(machine, {k: round(n * scale) for k, n in report.kinds.items()},
                     {k: round(n * scale) for k, n in report.bytes.items()}, round(report.tensor_work * scale), total,
                     argument_bytes(args), machine.sustained_clock)
    shares = {unit: cycles / least.cycles for unit, cycles in least.units.items()} if least.cycles else {}
    return Prediction(
        found.kernel, machine.name, found.grid, least.cycles, least.seconds, LAUNCH_SECONDS, shares, least.limit, True, reason,
        residual=found.joined.residual, share_searched=found.joined.share_searched, notes=list(found.notes),
        clock=machine.sustained_clock)
