"""`python -m bench.speed.programs`: which rows names stand for, what a pair and the page say."""
import pytest

from bench.speed import compare, original, programs
from tileiras.machine.machines import machine_of


def test_names_are_functions_rows_and_cases():
    every = programs.rows_of(["sums_in_memory"], "all")
    assert len(every) > 1
    function = every[0].rpartition("_")[0]
    assert programs.rows_of([function], "first") == every[:1]
    assert programs.rows_of([function], "last") == every[-1:]
    assert programs.rows_of([every[1], "suite:memory_num_tiles"], "last") == [every[1], "suite:memory_num_tiles"]
    for wrong in ("no_program", "suite:no_case"):
        with pytest.raises(KeyError):
            programs.rows_of([wrong], "last")


def test_an_unknown_name_is_an_error(capsys):
    assert programs.main(["no_program"]) == 1
    assert "nothing is called 'no_program'" in capsys.readouterr().err


@pytest.mark.skipif(not original.available(), reason="make original")
def test_a_pair_is_predicted_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(programs.side, "CACHE", tmp_path)
    first = programs.pair("suite:memory_num_tiles", machine_of("A100"))
    assert first.counts and first.ratio > 0
    assert len(list((tmp_path / "programs").iterdir())) == 2
    monkeypatch.setattr(programs, "predict", None)      # what is kept needs no second prediction
    assert programs.pair("suite:memory_num_tiles", machine_of("A100")) == first
    assert "ours: " in programs.explanation(first) and "original: " in programs.explanation(first)


def test_the_page_counts_joined_pairs(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "STORE", tmp_path / "programs.json")
    done = {"seconds": 2e-6, "estimate": False, "reason": "", "shares": {}, "stalls": {"barrier": 1.0}, "cycles": 10,
            "resident_warps": 4, "counts": {}}
    slow = compare.pair("slow", "", "H100", done, {**done, "seconds": 1e-6})
    none = compare.pair("none", "", "H100", {"failed": "X: no"}, done)
    text = programs.page(programs.keep([slow, none]))
    assert "2 pairs were looked at, 1 compared" in text
    assert "H100, `slow`: 0.500 (2.00 us against 1.00)" in text and "`none`: ours: X: no" in text
