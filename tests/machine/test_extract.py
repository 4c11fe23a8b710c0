"""What ptxas schedules for, extracted again, is what the checked-in table says."""
from __future__ import annotations

import pytest

from tileiras.codegen import toolchain
from tileiras.machine import chains, control, extract
from tileiras.machine.scheduled import PTXAS, SCHEDULED

NEEDED = pytest.mark.skipif(toolchain.find_tool("nvdisasm") is None or toolchain.find_tool("ptxas") is None,
                            reason="needs ptxas and nvdisasm")
PART = ("fma.f32", "mul.f16x2", "lop3", "ex2.f32", "shfl", "ld.shared.v4", "mma.m16n8k16.f16", "min.f32", "fma.f64")


def listing(*instructions: tuple[str, int]) -> list[str]:
    """What nvdisasm would print for opcodes with stall counts."""
    lines = ["\t.section\t.text.chain,\"ax\",@progbits"]
    for i, (text, stall) in enumerate(instructions):
        high = control.encode(control.Control(stall, False, None, None, 0, 0))
        lines += [f"        /*{16 * i:04x}*/         {text} ;   /* 0x{0:016x} */", f"              /* 0x{high:016x} */"]
    return lines


@NEEDED
@pytest.mark.parametrize("sm", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_a_part_extracted_again_is_the_table(sm):
    if extract.ptxas_version() != PTXAS:
        pytest.skip(f"the table is of ptxas {PTXAS}")
    found = extract.extract(sm, [o for o in chains.OPERATIONS if o.name in PART])
    assert len(found) == len(PART)
    assert {name: tuple(row) for name, row in found.items()} == {name: SCHEDULED[name][sm] for name in found}


def test_distances_count_the_stalls_of_fillers_between():
    kernels = extract.parse_listing(listing(("FFMA R0, R0, R1, R2", 2), ("NOP", 2), ("FFMA R0, R0, R1, R2", 3), ("@P0 NOP", 1),
                                            ("@!P0 FFMA R0, R0, R1, R2", 4)))
    assert extract.distances(kernels["chain"], ("FFMA",)) == ("FFMA", [4, 4], False)


def test_an_opcode_is_not_mistaken_for_a_longer_one():
    with pytest.raises(LookupError, match="no chain of FFMA"):
        extract.distances(extract.parse_listing(listing(*[("FFMA2 R0, R0, R2, R4", 2)] * 4))["chain"], ("FFMA",))


def test_the_table_has_the_known_latencies():
    # Published elsewhere: 4 cycles on every SM since Volta (Jia et al. 2018); 24.1 on Hopper's mma.sync (Luo et al. 2024).
    assert {row[1] for row in SCHEDULED["fma.f32"].values()} == {4}
    assert SCHEDULED["mma.m16n8k16.f16"]["sm_90"][1] == 24


def test_a_chain_that_is_dependent_has_one_register():
    operation = next(o for o in chains.OPERATIONS if o.name == "fma.f32")
    text = chains.kernel(operation, True)
    assert text.count("fma.rn.f32 %x0, %x0,") == chains.LENGTH
    assert chains.kernel(operation, False).count("fma.rn.f32 %x7, %x7,") == chains.ROUNDS
