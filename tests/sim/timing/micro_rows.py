"""What was measured of one instruction stream, beside what the model predicts for that stream: rates, latencies, bandwidths.

    python -m tests.sim.timing.micro_rows [--write docs/timing-micro.md]

A row is a published figure (a range where sources differ) with a generated stream that shows it alone. Most rows were used to
calibrate the model: they show that its mechanisms add up to the figures that its tables were made of. A row that the model misses
by more than 5 % says why.
"""
from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from bench.speed.page import table as markdown
from tests.sim.timing import streamkit as kit
from tests.sim.timing import test_micro as chains
from tests.sim.timing.streamkit import step
from tests.sim.timing.test_pairs import cluster, products, wait
from tileiras.machine.machines import DEFAULT, machine_of
from tileiras.sim.timing.memory import Sharing
from tileiras.sim.timing.stream import (
    AsyncGroup,
    BulkCopy,
    CtaStreams,
    GlobalAccess,
    MbarrierOp,
    Mma,
    Payload,
    SharedAccess,
    TensorAccess,
    WarpStream,
)

CLOSE = 0.05
KIB = 1024
SECTOR = 32


MISSED = {
    "loads from DRAM, RTX 5090": "the table has 0.89 of the pins' rate, which its sisters reach",
    "one of 8192 bytes in flight, B200": "4 and 16 KiB fit the latency and rate of one copy, 8 KiB of the same series doesn't",
    "2 of 16 KiB in flight, B200": "as two of 16 KiB are published to be no faster than one of 32",
    "1 of 16 KiB in flight, B300": "the table has the B200's latency for it",
    "m128n64, A in shared, B200, tcgen05, from issue": "its operands take 48 cycles of the port, the formula counts N / 2",
}
"""Rows that the model misses by more than CLOSE, by the beginning of their names, and why."""


@dataclass(frozen=True)
class Row:
    """`low` to `high`: published."""

    part: str
    what: str
    machine: str
    low: float
    high: float
    unit: str
    source: str
    predict: Callable[[], float]

    @property
    def missed(self) -> str:
        """Why the model is further off than CLOSE; empty where it isn't."""
        return next((why for start, why in MISSED.items() if self.name.startswith(start)), "")

    def error(self, found: float) -> float:
        """Of the nearer end of the range; 0 within it."""
        return 0.0 if self.low <= found <= self.high else found / (self.low if found < self.low else self.high) - 1

    @property
    def name(self) -> str:
        return f"{self.what}, {self.machine}, {self.part}"


# ---- chains of one operation, as ptxas schedules them

CHAINED = "PX, CPG, LUO, SD"
LATENCIES = "RRZE, LUO, JM, CC, JA, QR, ZB, SA"


def chained() -> Iterator[Row]:
    """Issue intervals and latencies, from chains of two lengths."""
    for part, table, dependent, warps in (("Issue intervals", chains.INTERVALS, False, 16),
                                          ("Dependent latencies", chains.LATENCIES, True, 4)):
        for name, row in table.items():
            for sm, expected in zip(chains.SMS, row):
                if expected is not None:
                    yield Row(part, name, DEFAULT[sm], expected, expected, "cycles", CHAINED, partial(
                        _chain, sm, name, dependent, warps))


def _chain(sm: int, name: str, dependent: bool, warps: int) -> float:
    return chains.per_operation(sm, name, dependent, warps) / (1 if dependent else warps / 4)


# ---- streams written by hand

def awaited(machine: str, opcode: str, payload: Payload) -> float:
    """Cycles until one more execution's result is there: what waits for it takes a cycle of its own."""
    return kit.rate(machine, [step(opcode, payload, write=0), step("MOV", wait=1)], 1) - 1


def shared_bytes(machine: str, width: int) -> float:
    """Bytes a cycle of an SM whose 16 warps load `width` bytes a lane, without conflicts."""
    load = step(f"LDS.{8 * width}" if width > 4 else "LDS", SharedAccess(max(width // 4, 1), 32 * width), write=0)
    return 16 * 32 * width / kit.rate(machine, [load], 16)


def streamed(machine: str, resident: bool) -> float:
    """TB/s of all SMs that load 16 bytes a lane; `resident`: from L2."""
    m = machine_of(machine)
    body = [[step("LDG.E.128", GlobalAccess(tuple(16 * (warp * 1000 + i) + k for k in range(16)), 512), write=i % 6,
                  wait=1 << i % 6) for i in range(200)] for warp in range(32)]
    found = kit.replay(machine, [kit.cta(body)], sharing=Sharing(m.sms, resident=resident))
    return m.sms * 32 * 200 * 512 / (found.cycles / m.sustained_clock) / 1e12


def alone(machine: str, size: int) -> float:
    """Cycles from a bulk copy's issue to the end of the wait for it, one in flight, while the other SMs do the same."""
    def run(rounds: int) -> float:
        steps = [step("SYNCS", MbarrierOp("init", 0, 0, 0, 1))]
        for turn in range(rounds):
            sectors = tuple(range(turn * size // SECTOR, (turn + 1) * size // SECTOR))
            steps += [step("SYNCS", MbarrierOp("arrive", 0, 0, turn, 1, size)),
                      step("UBLKCP", BulkCopy("load", size, sectors, 0, turn, (0,))),
                      step("SYNCS", MbarrierOp("wait", 0, 0, turn + 1))]
        return kit.replay(machine, [kit.cta([steps])], sharing=Sharing(machine_of(machine).sms)).cycles
    return (run(20) - run(4)) / 16


def in_flight(machine: str, size: int, deep: int) -> float:
    return chains.copies(machine, size, deep) / 1e12


def boxes(machine: str) -> float:
    """Cycles between small copies that are issued one after the other."""
    def run(count: int) -> float:
        steps = [step("SYNCS", MbarrierOp("init", 0, 0, 0, 1)), step("SYNCS", MbarrierOp("arrive", 0, 0, 0, 1, 128 * count))]
        steps += [step("UTMALDG.2D", BulkCopy("load", 128, tuple(range(4 * i, 4 * i + 4)), 0, 0, (0,))) for i in range(count)]
        steps += [step("SYNCS", MbarrierOp("wait", 0, 0, 1))]
        return kit.replay(machine, [kit.cta([steps])], sharing=Sharing(1, resident=True)).cycles
    return (run(120) - run(20)) / 100


def distributed(machine: str) -> float:
    """Cycles of a load from the shared memory of the cluster's other CTA."""
    def run(times: int) -> float:
        load = [step("LD.E", SharedAccess(1, 128, cta=1), write=0), step("MOV", wait=1)]
        pair = tuple(CtaStreams((i, 0, 0), 1, (WarpStream(0, load * times),), 32, 32, 0, i) for i in range(2))
        return kit.replay(machine, [CtaStreams((0, 0, 0), 1, pair[0].warps, 32, 32, 0, 0, pair)]).cycles
    return (run(60) - run(10)) / 50


def tensor_once(shape: tuple[int, int, int], a_from: str, ctas: int = 1) -> float:
    """Cycles from a product's issue to the end of the wait for its commit, on an idle engine."""
    work = Mma("tcgen05", shape, 16, "tensor" if a_from == "tensor" else "shared", ctas=ctas)
    if ctas == 2:
        body = [step("UTCHMMA.2CTA", work), step("UTCBAR.2CTA.MULTICAST", AsyncGroup("tcgen05", "commit", offset=0, ctas=(0, 1)))]
        first = [step("SYNCS", MbarrierOp("init", 0, 0, 0, 1)), *body, *wait(0)[1:]]
        return kit.replay("B200", [cluster(first, wait(1))]).cycles - _setup()
    steps = [step("SYNCS", MbarrierOp("init", 0, 0, 0, 1)), step("UTCHMMA", work),
             step("UTCBAR", AsyncGroup("tcgen05", "commit", offset=0, phase=0, ctas=(0,))),
             step("SYNCS", MbarrierOp("wait", 0, 0, 1))]
    return kit.cycles("B200", steps, 1) - _setup()


def _setup() -> float:
    return kit.cycles("B200", [step("SYNCS", MbarrierOp("init", 0, 0, 0, 1))], 1)


def pair_interval(shape: tuple[int, int, int]) -> float:
    """Cycles between two products of a pair of CTAs."""
    work = Mma("tcgen05", shape, 16, ctas=2)

    def run(count: int) -> float:
        steps = [*products(0, (0, 1))[:1], *[step("UTCHMMA.2CTA", work)] * count, *products(0, (0, 1))[1:], *wait(0)[1:]]
        return kit.replay("B200", [cluster(steps, wait(1))]).cycles
    return (run(120) - run(40)) / 80


def written() -> Iterator[Row]:
    """Rows whose streams are written by hand."""
    part = "Shared memory and L1"
    for machine, bytes_ in (("T4", 64), ("A100", 128), ("A6000", 128), ("H100", 128), ("B200", 128), ("RTX 5090", 128)):
        yield Row(part, "16-byte loads, bytes a cycle and SM", machine, bytes_, bytes_, "B/cycle", "WP, QR",
                  partial(shared_bytes, machine, 16))
    yield Row(part, "4-byte loads, share of the port", "B300", 0.50 * 128, 0.68 * 128, "B/cycle", "QR",
              partial(shared_bytes, "B300", 4))
    yield Row(part, "16-byte loads that hit L1", "B300", 125, 128, "B/cycle", "QR", lambda: 16 * 512 / kit.rate(
        "B300", [step("LDG.E.128", GlobalAccess(tuple(range(16)), 512), write=0)], 16))
    for ways in (2, 4, 8, 16, 32):
        yield Row(part, f"loads with {ways}-fold bank conflicts, one warp a partition", "H100", 4 * ways, 4 * ways, "cycles", "WP",
                  partial(kit.rate, "H100", [step("LDS", SharedAccess(ways, 128), write=0)], 4))
    yield Row(part, "ldmatrix.x4, four partitions", "H100", 15.7, 16, "cycles", "SD",
              partial(kit.rate, "H100", [step("LDSM.16.M88.4", SharedAccess(4, 512), write=0)], 4))
    yield Row(part, "16-byte stores, four partitions", "H100", 16, 16, "cycles", "WP",
              partial(kit.rate, "H100", [step("STS.128", SharedAccess(4, 512, True))], 4))
    yield Row(part, "atomic, awaited", "B300", 44, 44, "cycles", "QR",
              partial(awaited, "B300", "ATOMS.ADD", SharedAccess(1, 4, atomic=True)))
    part = "Memory, a chain of loads"
    for machine, low, high in (("T4", 236, 236), ("A6000", 219, 250), ("L40S", 274, 274), ("RTX 5090", 354, 354),
                               ("A100", 205, 399), ("H100", 208, 414), ("B200", 300, 420)):
        yield Row(part, "L2", machine, low, high, "cycles", LATENCIES, lambda m=machine: chains.chase(
            m, [(4 * i,) for i in range(200)], Sharing(1, resident=True)))
    for machine, low, high in (("A100", 466, 552), ("A6000", 515, 556), ("L40S", 541, 625), ("H100", 479, 689), ("B200", 800, 850),
                               ("RTX 5090", 716, 877)):
        yield Row(part, "DRAM", machine, low, high, "cycles", LATENCIES, lambda m=machine: chains.chase(
            m, [(4 * i,) for i in range(200)], Sharing(1)))
    yield Row(part, "global atomic with its result", "B300", 317, 317, "cycles", "QR: 165 ns", partial(
        awaited, "B300", "ATOMG.E.ADD", GlobalAccess((1,), 4, atomic=True)))
    part = "Memory, all SMs"
    for machine, low, high in (("A100", 1.73, 1.73), ("A6000", 0.745, 0.745), ("L40S", 0.797, 0.797), ("H100", 3.01, 3.01),
                               ("B200", 7.05, 7.15), ("B300", 7.3, 7.3)):
        yield Row(part, "loads from DRAM", machine, low, high, "TB/s", "RRZE, JM, QR, SA", partial(streamed, machine, False))
    yield Row(part, "loads from DRAM", "H200", 3.76, 4.06, "TB/s", "RRZE, JM, QR, SA; vector additions: ours",
              partial(streamed, "H200", False))
    yield Row(part, "loads from DRAM", "RTX 5090", 1.29, 1.33, "TB/s", "two microbenchmarks", partial(streamed, "RTX 5090", False))
    for machine, low, high in (("A100", 5.4, 5.4), ("L40S", 5.2, 5.2), ("H100", 7.5, 9.5), ("B200", 17, 21), ("B300", 17, 20)):
        yield Row(part, "loads from L2", machine, low, high, "TB/s", "RRZE, CC, QR; H100: ours",
                  partial(streamed, machine, True))
    part = "Bulk copies"
    for size, cycles in ((512, 900), (4 * KIB, 1038), (8 * KIB, 1258), (16 * KIB, 1405), (32 * KIB, 1757), (64 * KIB, 2698)):
        yield Row(part, f"one of {size} bytes in flight", "B200", cycles, cycles, "cycles", "SA",
                  partial(alone, "B200", size))
    for size, deep, low, high in ((16, 1, 3.4, 3.8), (32, 1, 5.4, 5.9), (16, 2, 5.4, 5.9), (64, 1, 7.0, 7.26), (128, 1, 7.1, 7.26),
                                  (32, 4, 7.0, 7.26)):
        yield Row(part, f"{deep} of {size} KiB in flight", "B200", low, high, "TB/s", "SA",
                  partial(in_flight, "B200", size * KIB, deep))
    for size, rate in ((16, 3.1), (32, 5.2), (64, 7.0)):
        yield Row(part, f"1 of {size} KiB in flight", "B300", rate, rate, "TB/s", "QR", partial(in_flight, "B300", size * KIB, 1))
    yield Row(part, "issue of small ones", "B300", 48, 50, "cycles", "QR", partial(boxes, "B300"))
    part = "Synchronization"
    for warps in (1, 4, 8, 16, 32):
        yield Row(part, f"bar.sync of {warps} warps", "B300", 22 + 2 * warps, 22 + 2 * warps, "cycles", "QR", partial(
            kit.rate, "B300", [step("BAR.SYNC.DEFER_BLOCKING", chains.BarrierOp(0, 32 * warps))], warps))
    yield Row(part, "mbarrier, arrival awaited", "B300", 14, 14, "cycles", "QR", partial(
        awaited, "B300", "SYNCS.ARRIVE", MbarrierOp("arrive", 0, 0, 0, 1)))
    for opcode, low, high, what in (("MEMBAR.ALL.CTA", 7, 9, "fence of the CTA"), ("MEMBAR.SC.GPU", 267, 285, "fence of the GPU")):
        yield Row(part, what, "B300", low, high, "cycles", "QR, idle", partial(kit.rate, "B300", [step(opcode)], 1))
    yield Row(part, "load from the cluster's other CTA", "H100", 181, 224, "cycles", "LUO, QR", partial(distributed, "H100"))
    part = "wgmma"
    for n, a_from, cycles in ((256, "shared", 128), (128, "shared", 64), (64, "shared", 32), (32, "shared", 24), (16, "shared", 20),
                              (8, "shared", 18), (256, "registers", 128), (64, "registers", 32), (16, "registers", 12)):
        body = [step(f"HGMMA.64x{n}x16.F32", Mma("wgmma", (64, n, 16), 16, "shared" if a_from == "shared" else "registers"),
                     operands=("gsb0",))]
        yield Row(part, f"m64n{n}k16, A in {a_from}", "H100", cycles, cycles, "cycles", "LUO, SD",
                  partial(kit.rate, "H100", body, 4))
    part = "tcgen05, interval"
    for m, n, a_from, cycles in ((128, 64, "shared", 48), (128, 128, "shared", 64), (128, 256, "shared", 128),
                                 (128, 128, "tensor", 64), (128, 256, "tensor", 128), (64, 256, "shared", 128),
                                 (64, 128, "shared", 64)):
        body = [step("UTCHMMA", Mma("tcgen05", (m, n, 16), 16, "shared" if a_from == "shared" else "tensor"))]
        yield Row(part, f"m{m}n{n}, A in {a_from}", "B200", cycles, cycles, "cycles", "SA, SD", partial(kit.rate, "B200", body, 1))
    for m, n, cycles in ((256, 256, 128), (256, 128, 64), (256, 64, 44), (128, 256, 64), (128, 128, 33)):
        yield Row(part, f"m{m}n{n} of a pair", "B200", cycles, cycles, "cycles", "SA, SD", partial(pair_interval, (m, n, 16)))
    part = "tcgen05, from issue to the wait's end"
    for m, n, a_from, ctas, extra in ((128, 256, "shared", 1, 136), (128, 64, "shared", 1, 136), (64, 128, "shared", 1, 120),
                                      (128, 128, "tensor", 1, 104), (256, 256, "shared", 2, 170), (256, 128, "tensor", 2, 138)):
        yield Row(part, f"m{m}n{n}, A in {a_from}" + (", of a pair" if ctas == 2 else ""), "B200", n / 2 + extra, n / 2 + extra,
                  "cycles", "SA", partial(tensor_once, (m, n, 16), a_from, ctas))
    part = "Tensor memory"
    for columns in (8, 32, 64, 128):
        yield Row(part, f"tcgen05.ld.32x32b.x{columns}, awaited", "B200", 25 + columns / 2, 25 + columns / 2, "cycles", "SD",
                  partial(awaited, "B200", f"LDTM.x{columns}", TensorAccess("ld", columns)))
    yield Row(part, "loads of 4 warps", "B200", 1024, 1024, "B/cycle", "SD", lambda: 4 * 32 * 128 / kit.rate(
        "B200", [step("LDTM.x32", TensorAccess("ld", 32), write=0)], 4))
    yield Row(part, "tcgen05.cp of 4 KiB", "B200", 128, 128, "cycles", "SD", partial(
        kit.rate, "B200", [step("UTCCP.T.S.4x32dp128bit", TensorAccess("cp", bytes=4096))], 1))


def rows() -> Iterator[Row]:
    yield from chained()
    yield from written()


def page(found: list[tuple[Row, float]]) -> str:
    """The page."""
    close = sum(abs(row.error(value)) <= CLOSE for row, value in found)
    out = ["# One instruction stream each: published and predicted", "",
           "Written by `python -m tests.sim.timing.micro_rows`. A figure that somebody measured of one kind of instruction, and",
           "what the timing model ([timing.md](timing.md)) says of a stream of just that. Sources by the short names of",
           "`tileiras/machine/machines.py`; PX: what ptxas itself schedules for. Most rows calibrate the model: they check that",
           "its mechanisms add up to its tables, and hold nothing out.", "",
           f"{close} of {len(found)} rows are within {CLOSE:.0%} of the published figure or range."]
    for part in dict.fromkeys(row.part for row, _ in found):
        out += ["", f"## {part}", ""]
        mine = [(row, value) for row, value in found if row.part == part]
        out.append(markdown(["what", "machine", "published", "predicted", "error", "source"], [
            [row.what, row.machine, f"{row.low:.4g}" + (f" to {row.high:.4g}" if row.high > row.low else "") + f" {row.unit}",
             f"{value:.4g}", f"{row.error(value):+.0%}" if row.error(value) else "", row.source] for row, value in mine]))
        off = [row for row, value in mine if abs(row.error(value)) > CLOSE]
        out += ["", *(f"- {row.what}, {row.machine}: {row.missed or 'not known why'}." for row in off)] if off else []
    return "\n".join(out) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=pathlib.Path)
    given = parser.parse_args()
    found = [(row, row.predict()) for row in rows()]
    for row, value in found:
        if abs(row.error(value)) > CLOSE or row.missed:
            print(f"{row.name}: {row.low:.4g} to {row.high:.4g}, predicted {value:.4g} ({row.error(value):+.0%}), "
                  f"{row.missed or 'unexplained'}")
    if given.write:
        given.write.write_text(page(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
