"""Machine code is read with its control fields, PTX lines and control flow."""
from __future__ import annotations

import re
import subprocess
import tempfile

import pytest

from tests.sim.timing.kernels import LOOP, assembled, needs_disassembler
from tileiras.codegen.toolchain import find_tool
from tileiras.errors import ConfigError, TileirasError
from tileiras.sim.timing import sass
from tileiras.sim.timing.cubin import Cubin

pytestmark = needs_disassembler


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_every_instruction_has_the_ptx_line_that_nvdisasm_prints(target):
    cubin = assembled(LOOP.replace("sm_90", target), target)
    tool = find_tool("nvdisasm")
    assert tool is not None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([tool, "-c", "-gp", file.name], capture_output=True, text=True, check=True).stdout
    line, expected = 0, {}
    for row in text.splitlines():
        if found := re.search(r"//## File .*, line (\d+)", row):
            line = int(found[1])
        elif found := re.match(r"\s+/\*([0-9a-f]{4,})\*/", row):
            expected[int(found[1], 16)] = line
    code = sass.read(cubin)
    assert {i.address: i.ptx_line for i in code.instructions} == expected
    assert len(set(expected.values())) > 10


def test_control_fields_are_those_of_the_encoding():
    cubin = assembled(LOOP)
    words = Cubin(cubin).contents(".text.k")
    for i in sass.read(cubin).instructions:
        word = int.from_bytes(words[i.address:i.address + 16], "little")
        assert i.stall == word >> 105 & 0xF
        assert i.yield_flag == word >> 109 & 1
        assert [7 if sb is None else sb for sb in (i.write_sb, i.read_sb)] == [word >> 110 & 7, word >> 113 & 7]
        assert (i.wait_mask, i.reuse) == (word >> 116 & 0x3F, word >> 122 & 0xF)


def test_a_load_sets_the_scoreboard_that_its_use_waits_for():
    code = sass.read(assembled(LOOP))
    load = next(i for i in code.instructions if i.base == "LDG")
    store = next(i for i in code.instructions if i.base == "STS")
    assert load.write_sb is not None and load.dst[0] in store.src
    assert any(i.wait_mask >> load.write_sb & 1 for i in code.instructions[load.index + 1:store.index + 1])


def test_a_loop_is_a_block_that_follows_itself():
    code = sass.read(assembled(LOOP))
    barriers = [b for b in code.blocks if any(i.base == "BAR" for i in b.instructions)]
    parents = sass.dominators(code.blocks, 0)
    assert barriers and all(b.index in parents for b in barriers)
    loop = next(b for b in code.blocks if b.index in b.successors and any(i.base == "LDG" for i in b.instructions))
    assert loop.branch is not None and loop.branch.conditions and loop.falls == loop.index + 1


def test_dominators_of_a_diamond_with_a_loop():
    # 0 -> 1 -> {2, 3} -> 4 -> {1, 5}
    parents = sass.immediate_dominators({0: [1], 1: [2, 3], 2: [4], 3: [4], 4: [1, 5], 5: []}, 0)
    assert parents == {0: 0, 1: 0, 2: 1, 3: 1, 4: 1, 5: 4}


def test_a_cubin_without_line_table_is_refused_with_what_to_do():
    with pytest.raises(TileirasError, match="--lineinfo"):
        sass.read(assembled(LOOP, lineinfo=False))


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\0" * 100, b"\x7fELF\x02" + b"\xff" * 200])
def test_what_is_no_cubin_is_refused(data):
    with pytest.raises(TileirasError, match="not a cubin"):
        sass.read(data)


@pytest.mark.parametrize("step", [37, pytest.param(5, marks=pytest.mark.slow)])
def test_damaged_cubins_are_refused_or_read_without_another_error(step):
    cubin = assembled(LOOP)
    table = next(s for s in Cubin(cubin).sections if s.name == ".nv_debug_line_sass")
    for at in range(0, table.size, step):
        broken = bytearray(cubin)
        broken[table.offset + at] ^= 0xFF
        try:
            sass.read(bytes(broken))
        except TileirasError:
            pass


def test_without_the_disassembler_the_message_says_how_to_get_it(monkeypatch):
    cubin = assembled(LOOP)
    monkeypatch.setattr(sass, "find_tool", lambda name: None)
    with pytest.raises(ConfigError, match=r"open-tileiras\[timing\]"):
        sass.read(cubin)
