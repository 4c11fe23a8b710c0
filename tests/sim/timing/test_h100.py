"""What an H100 did in probes (bench/hardware/rate_probes.py, 2026-11-27), by the replay: cycles of its SM's clock."""
from __future__ import annotations

import pytest

from tests.sim.timing import streamkit as kit
from tests.sim.timing.streamkit import step
from tileiras.sim.timing.memory import Sharing
from tileiras.sim.timing.stream import BarrierOp, BulkCopy, GlobalAccess, Mma, SharedAccess, Step

SMS = 132


def scattered(count: int, lanes: int = 32, **more) -> list[Step]:
    """Accesses of so many sectors in lines of their own, which nobody waits for."""
    opcode = "LDG.E.STRONG.GPU" if not more else "STG.E" if not more.get("atomic") else "REDG.E.ADD.STRONG.GPU"
    return [step(opcode, GlobalAccess(tuple(4 * (32 * i + lane) for lane in range(lanes)), 128, waves=1, **more),
                 write=None if more else i % 6) for i in range(count)]


def each(body: list[Step], sharing: Sharing) -> float:
    """Cycles an access of one SM, at many of them by 16 warps."""
    return kit.cycles("H100", body, 16, sharing=sharing) / (16 * len(body))


@pytest.mark.parametrize(("sms", "seen"), [(1, 32.1), (SMS, 63.1)])
def test_a_gather_asks_l2_for_a_sector_a_cycle_and_all_sms_together_for_half_of_that(sms, seen):
    assert each(scattered(60), Sharing(sms, resident=True)) == pytest.approx(seen, rel=0.08)


def test_stores_cost_l2_more_than_loads():
    assert each(scattered(60, is_store=True), Sharing(SMS, resident=True)) == pytest.approx(129, rel=0.2)


@pytest.mark.parametrize(("lanes", "places", "seen"), [(32, 1e9, 81), (20, 1, 2704)])
def test_atomics_in_one_kibibyte_go_to_one_slice(lanes, places, seen):
    """Lanes anywhere in 16 MiB, and in one KiB, where 32 of them touch some 20 sectors."""
    body = scattered(30, lanes, is_store=True, atomic=True)
    assert each(body, Sharing(SMS, resident=True, atomic_places=places)) == pytest.approx(seen, rel=0.1)


def test_lanes_at_one_place_come_one_after_the_other():
    body = [step("REDG.E.ADD.F32", GlobalAccess((0,), 128, is_store=True, atomic=True, waves=32))] * 30
    assert each(body, Sharing(1, resident=True, atomic_places=1)) == pytest.approx(101, rel=0.1)


def test_a_load_whose_lanes_meet_in_banks_takes_as_many_passes():
    few, many = ([step("LDG.E.128", GlobalAccess(tuple(range(16)), 512, waves=n), write=i % 6) for i in range(60)] for n in (4, 16))
    assert each(few, Sharing(1, resident=True)) == pytest.approx(4, rel=0.1)
    assert each(many, Sharing(1, resident=True)) == pytest.approx(16, rel=0.1)


@pytest.mark.parametrize("warps", [4, 8, 16, 32])
def test_bar_sync_takes_12_cycles_and_2_for_each_warp(warps):
    body = [step("BAR.SYNC.DEFER_BLOCKING", BarrierOp(0, 32 * warps))]
    assert kit.rate("H100", body, warps) == pytest.approx(12 + 2 * warps, rel=0.05)


def test_bulk_stores_leave_by_32_bytes_a_cycle():
    def waited(size: int) -> float:
        body = [step("UBLKCP.G.S", BulkCopy("store", size, tuple(range(size // 32)))), step("UTMACMDFLUSH"),
                step("DEPBAR.LE", operands=("SB0", "0x0"))]
        return kit.cycles("H100", body, 1, sharing=Sharing(1, resident=True))
    assert waited(32 << 10) - waited(16 << 10) == pytest.approx(512, rel=0.05)


def test_ffma_and_imad_share_a_port_by_turns():
    """An FFMA goes to either half of the pipe by turns, an IMAD fits one of them: 1.55 cycles an instruction were seen, not 1."""
    def one(opcodes: tuple[str, ...]) -> float:
        return kit.rate("H100", [step(o) for o in opcodes * 8], 16) / (32 * len(opcodes))
    assert one(("FFMA",)) == pytest.approx(1, rel=0.05)
    assert one(("FFMA", "FFMA", "IMAD", "IMAD")) == pytest.approx(1.55, rel=0.08)


def test_spills_that_l1_cannot_hold_come_back_from_l2():
    def reread(words: int) -> float:
        store = [step("STL", operands=(f"[R1+{4 * i:#x}]", "R0")) for i in range(words)]
        load = [step("LDL.LU", operands=("R0", f"[R1+{4 * i:#x}]"), write=0, wait=1) for i in range(words)]
        both = kit.replay("H100", [kit.cta([store + load] * 8, shared=200 << 10)], sharing=Sharing(SMS))
        return both.ingress_bytes
    assert reread(8) == 0 and reread(400) > 100 * 8 * 128


def test_what_was_read_long_ago_comes_from_dram_again():
    def twice(sectors: int) -> float:
        body = [step("LDG.E.128.STRONG.GPU", GlobalAccess(tuple(range(16 * i, 16 * i + 16)), 512), write=i % 6)
                for i in range(sectors // 16)]
        return kit.replay("H100", [kit.cta([body * 2])], sharing=Sharing(SMS)).dram_bytes / (32 * sectors)
    assert twice(2048) == 1 and twice(16384) == 2       # 278 KB of L2 are an SM's share


def test_accumulators_of_wgmma_take_register_ports():
    product = step("HGMMA.64x256x16.F32", Mma("wgmma", (64, 256, 16), 16), operands=("R24", "gdesc[UR4]", "R24"))
    add = Step(kit.instruction_from("FADD", ("R4", "R5", "R6"), 1, None, None, 0), None)
    add = add._replace(instruction=type(add.instruction)(**{
        **{name: getattr(add.instruction, name) for name in add.instruction.__slots__}, "src": ("R5", "R6")}))
    alone = kit.cycles("H100", [add] * 100, 4)
    beside = kit.cycles("H100", [product, *[add] * 100], 4)
    assert beside > 1.5 * alone


def test_a_fence_holds_who_waits_for_it():
    free = [step("STS", SharedAccess(1, 128)), step("FENCE.VIEW.ASYNC.S", write=0), *[step("MOV")] * 60]
    held = [step("STS", SharedAccess(1, 128)), step("FENCE.VIEW.ASYNC.S", write=0), step("MOV", wait=1), *[step("MOV")] * 59]
    assert kit.cycles("H100", held, 1) - kit.cycles("H100", free, 1) == pytest.approx(70, abs=8)
