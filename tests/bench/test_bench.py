"""The tools that measure: tables line up, and a cubin's facts are read from the cubin."""
from __future__ import annotations

import pathlib
import subprocess

import pytest

from bench import cubin, table

PTX = """
.version 9.2
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 p)
.reqntid 32
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<5>;
    .shared .align 16 .b8 buffer[512];
    ld.param.u64 %rd1, [p];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.u32 %r2, [%rd4];
    add.s32 %r2, %r2, %r2;
    st.shared.u32 [buffer], %r2;
    st.global.u32 [%rd4], %r2;
    ret;
}
"""


def test_table_sets_numbers_to_the_right() -> None:
    assert table.render(("name", "n"), [("a", 1), ("bcdef", 100)], indent="") == (
        "name     n\n"
        "-----  ---\n"
        "a        1\n"
        "bcdef  100")


def test_facts_of_a_cubin(tmp_path: pathlib.Path) -> None:
    (tmp_path / "k.ptx").write_text(PTX)
    subprocess.run([cubin.tool("ptxas"), "-arch=sm_80", str(tmp_path / "k.ptx"), "-o", str(tmp_path / "k.cubin")],
                   check=True)
    facts = cubin.inspect((tmp_path / "k.cubin").read_bytes())["twice"]
    assert facts.shared == 512 and facts.stack == 0 and facts.spills == 0
    assert 4 <= facts.registers <= 32
    assert facts.opcodes["LDG"] == facts.opcodes["STG"] == facts.opcodes["STS"] == 1
    assert 8 <= facts.instructions <= 24


def test_a_tool_that_is_not_there_is_named() -> None:
    with pytest.raises(SystemExit, match="nvnothing isn't there"):
        cubin.tool("nvnothing")
