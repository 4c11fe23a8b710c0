"""Launches of a suite are noted without running, and come back as they were."""
import pickle

import ml_dtypes
import numpy as np
import pytest

from bench.speed import launches, record
from tileiras.sim.run.launch import PointerTable


@pytest.mark.parametrize("array", [np.arange(12, dtype=np.int32).reshape(3, 4), np.arange(24, dtype=np.float16)[::2],
                                   np.arange(12, dtype=np.int8).reshape(3, 4).T,
                                   np.arange(12).reshape(3, 4).astype(ml_dtypes.float8_e4m3fn).T],
                         ids=["plain", "strided", "turned", "turned-e4m3"])
def test_an_array_is_kept_by_the_words_it_spans(array):
    back = launches.given(record.kept(array))
    words = f"u{array.itemsize}"        # NumPy strides no types but its own
    assert back.dtype == array.dtype
    assert np.array_equal(np.lib.stride_tricks.as_strided(back.view(words), array.shape, array.strides), array.view(words))


def test_large_arrays_become_zeros_and_tables_keep_their_words(monkeypatch):
    monkeypatch.setattr(record, "LARGEST", 16)
    large, small = np.ones(5, np.float32), np.ones(4, np.float32)
    back = launches.given(pickle.loads(pickle.dumps(record.kept(PointerTable([large, 7, small])))))
    assert np.array_equal(back.words[0], np.zeros(5, np.float32)) and back.words[1] == 7
    assert np.array_equal(back.words[2], small)


def test_the_largest_launch_of_a_specialization_is_noted(tmp_path):
    ct = pytest.importorskip("cuda.tile")

    @ct.kernel
    def twice(x, y):
        ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (16,)) * 2)

    recorder = record.Recorder(tmp_path, "sm_90")
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    for grid in ((2,), (4,), (3,)):
        recorder.launch(twice, grid, (x, y))
    path, = tmp_path.glob("twice-*.pickle")
    noted = launches.Noted(path, "sm_90")
    assert noted.grid == (4, 1, 1) and not y.any()
    assert any(isinstance(p, np.ndarray) and np.array_equal(p, x) for p in noted.flat)


def test_a_tuned_launch_takes_its_first_configuration():
    pytest.importorskip("cuda.tile.tune")
    assert record.first_configuration(iter([3, 4]), None).best.config == 3
