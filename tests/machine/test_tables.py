"""The machine tables give the rates that NVIDIA publishes, and the package stays light."""
from __future__ import annotations

import subprocess
import sys

import pytest

from tileiras.machine import control, latencies, machines, tensor, units
from tileiras.machine.machines import MACHINES, machine_of
from tileiras.machine.scheduled import SCHEDULED

# Datasheets, TFLOP/s dense: f16 products accumulated in f32, and FP32 outside tensor cores.
PUBLISHED = {"T4": (65, 8.1), "A100": (312, 19.5), "A6000": (154.8, 38.7), "L40S": (362, 91.6), "RTX 4090": (165.2, 82.6),
             "RTX 5080": (112.6, 56.3), "RTX 5090": (209.5, 104.8), "PRO 6000": (503.8, 126)}


@pytest.mark.parametrize("name", PUBLISHED)
def test_rates_of_mma_and_ffma_are_the_datasheets(name):
    m = MACHINES[name]
    opcode, fma = ("HMMA.1688.F32", 16 * 8 * 8) if m.sm == 75 else ("HMMA.16816.F32", 16 * 8 * 16)
    interval = units.use_of(m.sm, opcode, m.tensor_half).interval
    tensor_rate = m.sms * 4 * fma * 2 / interval * m.clock / 1e12
    ffma = units.use_of(m.sm, "FFMA")
    fp32 = m.sms * 4 * 32 * 2 * units.ports(m.sm)[units.FMA] / ffma.interval * m.clock / 1e12
    assert tensor_rate == pytest.approx(PUBLISHED[name][0], rel=0.03)
    assert fp32 == pytest.approx(PUBLISHED[name][1], rel=0.03)


@pytest.mark.parametrize("name,tflops,clock", [("H100", 989.4, 1.83e9), ("H200", 989.4, 1.83e9), ("B200", 2250, 1.85e9)])
def test_asynchronous_tensor_rates_are_the_datasheets(name, tflops, clock):
    m = MACHINES[name]
    wgmma, tcgen05 = 64 * 256 * 16 / tensor.wgmma_interval(256, True), 128 * 256 * 16 / tensor.tcgen05_interval(128, 256, True)
    work = wgmma if m.sm == 90 else tcgen05
    assert m.sms * work * 2 * clock / 1e12 == pytest.approx(tflops, rel=0.01)


def test_wgmma_with_small_n_is_bound_by_fetching_a():
    # 64 x 16 bf16 of A are 2048 bytes, 16 cycles of the port, and B another 8 * 32 / 128 = 2.
    assert tensor.wgmma_interval(8, True) == 18
    assert tensor.wgmma_interval(8, False) == 12
    assert tensor.wgmma_interval(256, True) == 128


@pytest.mark.parametrize("m,n,shared,ctas,cycles", [(128, 64, True, 1, 48), (128, 128, True, 1, 64), (128, 256, True, 1, 128),
                                                    (128, 64, False, 1, 32), (256, 256, True, 2, 128)])
def test_tcgen05_intervals_are_the_measured_ones(m, n, shared, ctas, cycles):
    assert tensor.tcgen05_interval(m, n, shared, ctas) == cycles


# Where the hardware takes fewer than ptxas writes, or more: the programming guide's rates are used.
_TURING_TO_GEFORCE = ("75", "86", "89", "103", "120")
NOT_PTXAS = {("103", "popc"), ("90", "fma.bf16x2")}
NOT_PTXAS |= {("120", op) for op in "ex2.f32 rcp.f32 rsqrt.f32 lg2.f32 tanh.f32 cvt.s32.f32 popc bfind add.s32 fma.f32x2".split()}
NOT_PTXAS |= {(sm, op) for sm in _TURING_TO_GEFORCE for op in ("fma.f64", "add.f64")}
NOT_PTXAS |= {(sm, "vote") for sm in ("80", "86", "89", "90", "100", "103", "120")}
NOT_PTXAS |= {(sm, op) for sm in ("80", "90") for op in ("fma.f16x2", "add.f16x2", "mul.f16x2")}


@pytest.mark.parametrize("operation", [o for o in SCHEDULED if not o.startswith(("mma", "ld.", "st.", "ldmatrix", "stmatrix"))])
def test_intervals_are_what_ptxas_schedules_for(operation):
    for sm, (opcode, _, interval) in SCHEDULED[operation].items():
        number = sm.removeprefix("sm_")
        if (number, operation) in NOT_PTXAS:
            continue
        use = units.use_of(int(number), opcode)
        ports = units.ports(int(number))[use.pipe] if use.port < 0 else 1
        assert use.interval / ports == interval, (operation, sm, opcode)


def test_latencies_grow_with_distance():
    for sm, found in latencies.LATENCIES.items():
        assert found.shared < found.l2 < found.dram, sm
        assert found.shared < found.l1 < found.l2, sm


def test_every_field_of_a_machine_has_a_source_and_twelve_values():
    assert len(MACHINES) == 12
    for field, source, values in machines.ROWS:
        assert source and len(values) == 12, field


@pytest.mark.parametrize("text,name", [("H100", "H100"), ("rtx5090", "RTX 5090"), ("5090", "RTX 5090"), ("RTX 4090", "RTX 4090"),
                                       ("pro6000", "PRO 6000"), ("sm_80", "A100"), ("sm_100a", "B200")])
def test_machines_are_found_by_the_names_people_write(text, name):
    assert machine_of(text).name == name


def test_an_unknown_machine_is_an_error_that_lists_the_known_ones():
    with pytest.raises(LookupError, match="no machine 'H900'; there are T4, A100"):
        machine_of("H900")


def test_control_fields_stand_where_the_listing_shows_them():
    # stall 5, yield bit 1 (keep), write scoreboard 2, no read scoreboard, waits for 0 and 4, reuse of operand 1
    bits = 5 | 1 << 4 | 2 << 5 | 7 << 8 | 0b010001 << 11 | 0b0010 << 17
    found = control.decode(bits << 41 | 0x1FF_FFFF_FFFF)
    assert found == control.Control(5, False, 2, None, 0b010001, 0b0010)
    assert control.encode(found) == bits << 41


def test_the_package_imports_neither_numpy_nor_dialects_nor_the_simulator():
    program = ("import sys, tileiras.machine.machines, tileiras.machine.units, tileiras.machine.latencies, tileiras.machine.tensor,"
               "tileiras.machine.scheduled, tileiras.machine.control\n"
               "print([m for m in sys.modules if m.split('.')[0] in ('numpy', 'xdsl') or m.startswith(('tileiras.sim', "
               "'tileiras.dialects'))])")
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "[]"
