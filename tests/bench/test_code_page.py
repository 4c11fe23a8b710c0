"""The page that compares the suite's code with what it was: what is worse is named, with what it gets and whether it is slower."""
from __future__ import annotations

import pathlib
from typing import Any

import pytest

from bench import code_cycles, code_page, code_table


def row(case: str, sm: int = 80, **facts: int) -> dict[str, Any]:
    return {"case": case, "sm": sm, "ptx": f"{case}{sm}", "ok": True, **dict.fromkeys(code_table.COLUMNS, 100), **facts}


def took(before: int | None, after: int | None) -> dict[str, Any]:
    return {"before": before, "after": after, "ptx": ""}


BEFORE = [row("reduce_x"), row("reduce_x", 90), row("gemm_x"), row("cast_x"), row("saxpy"), row("odd_x")]
AFTER = [row("reduce_x", sectors=150, barriers=50), row("reduce_x", 90, sectors=120), row("gemm_x", barriers=102, sectors=80),
         row("cast_x", registers=103), row("saxpy", sass=90), row("odd_x", executed=500, sass=101)]


def test_rows_that_are_worse_are_those_with_more_of_a_count_that_matters() -> None:
    worse = [(a["case"], a["sm"]) for _, a in code_cycles.worse_rows(BEFORE, AFTER)]
    assert worse == [("reduce_x", 80), ("reduce_x", 90), ("gemm_x", 80), ("cast_x", 80), ("odd_x", 80)]


def test_a_case_has_one_row_with_what_it_pays_and_gets_on_its_dearest_sm() -> None:
    cycles = {("reduce_x", 80): took(1000, 830), ("reduce_x", 90): took(None, 900)}
    groups = code_page.outside(code_table.pairs_of(BEFORE, AFTER), cycles)
    rows = {r[0]: r[1:] for group in groups.values() for r in group}
    assert rows["`reduce_x`"] == ["80 90", "sectors 100 → 150", "barriers 100 → 50", "0.83"]
    assert rows["`gemm_x`"] == ["80", "barriers 100 → 102", "sectors 100 → 80", "not predicted"]
    assert rows["`odd_x`"][1:3] == ["instructions 100 → 101", "—"] and "`saxpy`" not in rows


@pytest.mark.parametrize(("case", "pays", "said"), [
    ("reduce_x", {"sectors"}, "rows of its own"), ("gemm_x", {"barriers"}, "by 16 bytes"), ("gemm_x", {"registers"}, "holds more"),
    ("misc_hint_num_ctas", {"passes"}, "clusters"), ("odd_x", {"sass"}, "")])
def test_reasons_go_by_what_a_case_is_and_pays(case: str, pays: set[str], said: str) -> None:
    found = code_page.reason_of(case, pays)
    assert said in found and bool(found) == bool(said)


def test_the_page_says_what_is_slower_and_how_much_was_measured() -> None:
    cycles = {("reduce_x", 80): took(1000, 830), ("cast_x", 80): took(1000, 1100), ("saxpy", 80): took(1000, 2000)}
    text = code_page.page(BEFORE, AFTER, cycles)
    assert "5 on sm_80, 1 on sm_90" in text
    assert "Of 5 rows that are worse in a count 2 were predicted" in text
    assert "drawn at regular" not in text
    drawn = {("saxpy", 80): took(1000, 500) | {"drawn": True}, ("gemm_x", 80): took(1000, 2000) | {"drawn": True}}
    assert "Of 2 drawn at regular distances from the whole suite the geometric mean\nis 1.000; 1 are quicker by more than 2 %, 1 " \
        "slower." in code_page.page(BEFORE, AFTER, drawn)
    assert text.endswith("Slower by more than 2 %: `cast_x`.\n")     # saxpy isn't worse in a count


def test_rows_are_put_in_a_table_in_place_of_their_like(tmp_path: pathlib.Path) -> None:
    table = tmp_path / "table.json"
    code_table.keep(table, [row("b", sass=1), row("a", sass=2)])
    code_table.keep(table, [row("b", sass=3), row("b", 90, sass=4)])
    assert {(r["case"], r["sm"]): r["sass"] for r in code_table.load(table)} == {("a", 80): 2, ("b", 80): 3, ("b", 90): 4}


def test_code_without_a_prediction_has_no_cycles(tmp_path: pathlib.Path) -> None:
    cache = code_table.Cache(tmp_path / "cycles.jsonl")
    broken = code_cycles.cycles_of("vector_add_float32", 80, "not PTX", b"not a cubin", cache)
    assert broken is None and len(cache.known) == 1
