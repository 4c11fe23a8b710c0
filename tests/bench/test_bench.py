"""The tools that measure: tables line up, and a cubin's facts are read from the cubin."""
from __future__ import annotations

import pathlib
import subprocess

import pytest

from bench import code_table, cubin, table

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


def row(case: str, **facts: int) -> dict[str, int | str]:
    return {"case": case, "sm": 80, "ptx": "", **dict.fromkeys(code_table.COLUMNS, 7), **facts}


def test_a_comparison_counts_better_and_worse_rows_of_both_tables() -> None:
    before = [row("a", sass=99), row("b", sass=49), row("c", sass=9), {"case": "d", "sm": 80, "refused": "no"}]
    after = [row("a", sass=49), row("b", sass=49), row("c", sass=19), row("d"), row("e")]
    pairs = code_table.pairs_of(before, after)
    assert [(b["case"], a["case"]) for b, a in pairs] == [("a", "a"), ("b", "b"), ("c", "c")]
    lines = {line[0]: line[1:] for line in code_table.summary(pairs)}
    assert lines["sass"] == (1, 1, 1, "66.7 %", "1.0000")       # 50/100 * 50/50 * 20/10 = 1
    assert lines["spills"] == (0, 3, 0, "100.0 %", "1.0000")


def test_what_is_measured_is_kept(tmp_path: pathlib.Path) -> None:
    cache = code_table.Cache(tmp_path / "cache.jsonl")
    assert cache.get("a", lambda: {"n": 1}) == {"n": 1}
    assert code_table.Cache(tmp_path / "cache.jsonl").get("a", lambda: {"n": 2}) == {"n": 1}


@pytest.mark.parametrize(("line", "count"), [
    ("bar.sync 0;", 1), ("@%p1 barrier.cta.sync.aligned.all 0;", 1), ("bar.warp.sync -1;", 0), ("// bar.sync 0;", 0)])
def test_barriers_of_a_text(line: str, count: int) -> None:
    assert len(code_table.BARRIER.findall(f"mov.u32 %r1, 0;\n\t{line}\n")) == count
