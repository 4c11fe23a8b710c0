"""The join over the suite goes on where it stopped, and does again what has changed."""
from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.sim.timing import suite_join
from tests.sim.timing.suite_join import in_strides, page, rows, verdict

CASES = [f"case_{n}" for n in range(40)]
GOOD, OPEN = (0.5, ""), (30.0, "the way through the machine code leaves 30.0 of 100 anchors unexplained")


@pytest.fixture
def suite(monkeypatch):
    """Forty kernels that aren't there: `code` by name, `worst` what their join leaves, `joined` which were joined."""
    made = SimpleNamespace(code=dict.fromkeys(CASES, b"code"), worst=dict.fromkeys(CASES, GOOD), joined=[])

    def streams(name, sm, original, cubin):
        made.joined.append(name)
        residual, reason = made.worst[name]
        return SimpleNamespace(is_joined=not reason, reason=reason,
                               joined=SimpleNamespace(residual=residual, anchors=100, share_searched=0.0))
    monkeypatch.setattr(suite_join, "case_cubin", lambda name, sm, original: made.code[name])
    monkeypatch.setattr(suite_join, "cubin_streams", streams)
    monkeypatch.setattr(suite_join.reference, "original", lambda: None)
    return made


def test_a_run_that_was_cut_off_goes_on(suite, tmp_path):
    run = rows(CASES, ["sm_90"], ["ours"], tmp_path / "store")
    for _ in range(25):
        next(run)
    run.close()
    assert suite.joined == CASES[:25]
    assert len(list(rows(CASES, ["sm_90"], ["ours"], tmp_path / "store"))) == 40
    assert suite.joined == CASES


def test_other_code_is_joined_again(suite, tmp_path):
    list(rows(CASES, ["sm_90"], ["ours"], tmp_path / "store"))
    suite.code["case_7"], suite.joined[:] = b"other", []
    list(rows(CASES, ["sm_90"], ["ours"], tmp_path / "store"))
    assert suite.joined == ["case_7"]


def test_another_join_joins_everything_again(suite, tmp_path, monkeypatch):
    list(rows(CASES, ["sm_90"], ["ours"], tmp_path / "store"))
    suite.joined[:] = []
    monkeypatch.setattr(suite_join, "join_key", lambda: "another")
    list(rows(CASES, ["sm_90"], ["ours"], tmp_path / "store"))
    assert suite.joined == CASES


def test_a_kernel_that_fails_is_named(suite, tmp_path):
    suite.worst["case_3"] = OPEN
    found = list(rows(CASES, ["sm_90"], ["ours", "original"], tmp_path / "store"))
    assert [row["name"] for row in found if verdict(row) != "good"] == ["case_3"]
    text = page(found)
    assert "39 of 40 are good (97.5%)" in text and f"- case_3, sm_90, ours: {OPEN[1]}" in text


def test_nothing_is_begun_behind_the_time(suite, tmp_path):
    assert not list(rows(CASES, ["sm_90"], ["ours"], tmp_path / "store", end=0)) and not suite.joined


def test_a_part_of_a_run_is_a_sample():
    order = in_strides(CASES)
    assert sorted(order) == sorted(CASES) and order[:3] == ["case_0", "case_16", "case_32"]
