"""No prediction lets products run faster than the tensor cores: replayed or estimated, of any type; arithmetic is the oracle."""
from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from tests.sim.timing import streamkit as kit
from tests.sim.timing.streamkit import step
from tileiras.codegen import ptxas, toolchain
from tileiras.machine.machines import machine_of
from tileiras.sim import simulate
from tileiras.sim.core.statistics import estimate, tensor_flops
from tileiras.sim.timing import predict, predictor
from tileiras.sim.timing.predictor import predict_streams
from tileiras.sim.timing.stream import AsyncGroup, Joined, KernelStreams, Mma

H100_SMS, H100_CLOCK = 132, 1.98e9
DENSE_AT_BOOST = H100_SMS * 4 * 512 * 2 * H100_CLOCK        # f16: 512 fused multiply-adds a cycle, tensor core and SM of four
NEEDED = pytest.mark.skipif(toolchain.find_tool("nvdisasm") is None or toolchain.find_tool("ptxas") is None,
                            reason="needs ptxas and nvdisasm")


@pytest.mark.parametrize("warps", [4, 8, 12])
@pytest.mark.parametrize("n", [64, 128, 256])
def test_warpgroups_share_the_tensor_cores(warps, n):
    """Products of 64 x n x 16 take n / 2 cycles of the SM, whichever warpgroup they are of."""
    products = 64
    product = step(f"HGMMA.64x{n}x16.F32", Mma("wgmma", (64, n, 16), 16), operands=("gsb0",))
    body = [product] * products + [step("WARPGROUP.DEPBAR.LE", AsyncGroup("wgmma", "wait", 0))]
    found = kit.replay("H100", [kit.cta([body] * warps)])
    assert found.tensor_busy == products * warps // 4 * n // 2
    assert found.tensor_busy <= found.cycles <= found.tensor_busy + 300


@pytest.mark.parametrize("ctas", [1, 132, 512, 4096])
@pytest.mark.parametrize("warps", [4, 8])
def test_a_grid_of_products_stays_below_the_machine(warps, ctas):
    """CTAs of 128 x 256 x 1024: two warpgroups with 64 rows each, or one with both halves; waves are whole."""
    halves, deep = 8 // warps, 1024 // 16
    product = step("HGMMA.64x256x16.F32", Mma("wgmma", (64, 256, 16), 16), operands=("gsb0",))
    body = [product] * (halves * deep) + [step("WARPGROUP.DEPBAR.LE", AsyncGroup("wgmma", "wait", 0))]
    cta = dataclasses.replace(kit.cta([body] * warps), count=ctas)
    streams = KernelStreams("product", 90, (ctas, 1, 1), (1, 1, 1), (cta,), Joined(0, 1, 0, 1), True, "", ())
    found = predict_streams(streams, machine_of("H100"), 0)
    flops = ctas * 2 * 128 * 256 * 1024
    assert flops / found.seconds <= DENSE_AT_BOOST * machine_of("H100").sustained
    assert found.cycles >= -(-ctas // H100_SMS) * 2 * deep * 128        # CTAs of the busiest SM, products, cycles of each


def products_kernel(instruction: str, rounds: int) -> str:
    """Each warp multiplies again and again."""
    return f""".version 8.0
.target sm_90a
.address_size 64
.visible .entry products(.param .u64 out)
.reqntid 128
{{
.reg .b64 %q, %o; .reg .b32 %t, %i, %a, %c<4>; .reg .pred %p;
ld.param.u64 %q, [out];
mov.u32 %t, %tid.x;
mov.b32 %a, 0;
mov.b32 %c0, 0;
mov.b32 %c1, 0;
mov.b32 %c2, 0;
mov.b32 %c3, 0;
mov.u32 %i, 0;
LOOP:
.pragma "nounroll";
{instruction} {{%c0, %c1, %c2, %c3}}, {{%a, %a, %a, %a}}, {{%a, %a}}, {{%c0, %c1, %c2, %c3}};
add.u32 %i, %i, 1;
setp.lt.u32 %p, %i, {rounds};
@%p bra LOOP;
mul.wide.u32 %o, %t, 4;
add.u64 %q, %q, %o;
st.global.u32 [%q], %c0;
ret;
}}
"""


@NEEDED
def test_products_that_cannot_be_joined_stay_below_the_machine_at_its_sustained_clock(monkeypatch):
    """The least time is the work's at the rate and clock that a replay has, and no less."""
    rounds, ctas = 40, 4 * H100_SMS
    ptx = products_kernel("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", rounds)
    cubin = ptxas.assemble(ptx, ptxas.arguments("sm_90a", 3, lineinfo=True)).cubin
    found = predictor.streams.streams_of
    monkeypatch.setattr(predictor.streams, "streams_of",
                        lambda *a, **k: dataclasses.replace(found(*a, **k), ctas=(), is_joined=False, reason="no way was found"))
    prediction = predict(ptx, cubin, "products", (ctas,), [np.zeros(128, np.uint32)], "H100")
    flops = ctas * 4 * rounds * 2 * 16 * 8 * 16
    sustained = machine_of("H100").sustained * H100_CLOCK
    assert prediction.is_estimate and prediction.clock == sustained
    assert prediction.cycles >= flops / (4096 * H100_SMS)
    assert flops / prediction.seconds <= 4096 * H100_SMS * sustained * 1.0001 < DENSE_AT_BOOST


@pytest.mark.parametrize("instruction", [
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"])
def test_operands_of_as_many_bytes_take_the_tensor_cores_as_long(instruction):
    """Eight of f16 and four of tf32 in 32 bytes along K: the rate of a type follows from its size."""
    report = simulate(products_kernel(instruction, 3), "products", (2,), [np.zeros(128, np.uint32)])
    assert report.tensor_work == 2 * 4 * 3 * (2 * 16 * 8 * 16)
    assert report.estimate is not None
    assert report.estimate.units["tensor"] == pytest.approx(report.tensor_work / 4096 / 2)      # both SMs in use


@pytest.mark.parametrize(("shape", "depth"), [("sync.aligned.m64n256k16.f32.bf16.bf16", 16),
                                              ("sync.aligned.m64n256k8.f32.tf32.tf32", 8),
                                              ("sync.aligned.m64n256k32.f32.e4m3.e4m3", 32),
                                              ("sp.sync.aligned.m64n256k32.f32.f16.f16", 32)])
def test_a_wgmma_of_any_type_takes_half_as_many_cycles_as_it_has_columns(shape, depth):
    module = SimpleNamespace(lines=[f"wgmma.mma_async.{shape} {{%c0}}, %d0, %d1;"])
    flops, work = tensor_flops(module, [SimpleNamespace(kinds=["wgmma"], lines=[1])], [128])
    assert flops == 2 * 64 * 256 * depth
    assert estimate(machine_of("H100"), {"wgmma": 128}, {}, work, 1).units["tensor"] == 256 / 2


def test_bytes_that_moved_need_l2_and_from_dram_only_what_the_arrays_hold():
    """7.5 TB/s of L2 and 3350 GB/s of DRAM at 1.8216 GHz."""
    clock = 0.92 * H100_CLOCK
    found = estimate(machine_of("H100"), {}, {"global read": 7_500_000_000}, 0, 1000, footprint=3_350_000, clock=clock)
    assert found.units["L2"] == pytest.approx(1e-3 * clock) and found.units["DRAM"] == pytest.approx(1e-6 * clock)
    assert found.seconds == pytest.approx(1e-3) and found.limit == "L2"


@pytest.mark.parametrize(("share", "published"), [(0.646, 1.58e9), (0.85, 1.3e9)])
def test_a_b200_under_load_holds_the_clock_that_was_seen(share, published):
    """1,237 of 2,382 TFLOP/s at 1.58 GHz are 0.646 of the peak at that clock (FlashInfer); locked at 1.3 GHz, 0.85 is held."""
    assert machine_of("B200").clocked(share).sustained_clock == pytest.approx(published, rel=0.05)


@pytest.mark.parametrize(("share", "seen"), [(0.754, 1.596e9), (0.867, 1.480e9)])
def test_an_h100_under_load_holds_the_clock_that_was_measured(share, seen):
    """Products of f16 of 4096 and 8192; kernels without the tensor cores ran at 1.98 GHz, the others with them at 1.79 to 1.85."""
    machine = machine_of("H100")
    assert machine.clocked(share).sustained_clock == pytest.approx(seen, rel=0.05)
    assert machine.working(False).sustained_clock == 1.98e9 and machine.working(True) == machine


def test_light_loads_and_other_machines_keep_their_clock():
    assert machine_of("B200").clocked(0.4) == machine_of("B200")
    for name in ("A100", "RTX 5090"):
        assert machine_of(name).clocked(1.0) == machine_of(name).working(False) == machine_of(name)


def tensor_memory_products(apart: int) -> KernelStreams:
    """CTAs that fill a B200, of products of 128 x 256 x 16 with `apart` other instructions behind each."""
    product = step("UTCHMMA", Mma("tcgen05", (128, 256, 16), 16))
    body = ([product] + [step("IADD3", stall=4)] * apart) * 200
    return KernelStreams("product", 100, (148, 1, 1), (1, 1, 1), (dataclasses.replace(kit.cta([body]), count=148),),
                         Joined(0, 1, 0, 1), True, "", ())


def test_products_side_by_side_lower_the_clock_of_a_b200_and_rare_ones_do_not():
    busy, rare = (predict_streams(tensor_memory_products(apart), machine_of("B200"), 0) for apart in (0, 100))
    # 128 cycles a product: at nearly its peak, 1.5 = share * GHz ** 2; 400 cycles apart, a third of the peak
    assert busy.clock == pytest.approx((1.5 / busy.shares["tensor"]) ** 0.5 * 1e9, rel=0.02) and busy.shares["tensor"] > 0.95
    assert rare.clock == machine_of("B200").sustained_clock and 0.25 < rare.shares["tensor"] < 0.4
    assert busy.seconds == pytest.approx(busy.cycles / busy.clock)
