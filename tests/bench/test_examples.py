"""Published kernels come from a checkout's files without a GPU's libraries, and the page says how far off the prediction is."""
from __future__ import annotations

import sys

import pytest

from bench.speed import examples


def test_a_file_that_imports_a_gpu_s_libraries_is_loaded_without_them(tmp_path):
    file = tmp_path / "doubled.py"
    file.write_text("import cupy, nvtx\nimport numpy as np\nFACTOR = np.float64(2)\n\ndef kernel(n):\n    return FACTOR * n\n")
    before = {name: sys.modules.get(name) for name in examples.NOT_NEEDED}
    module = examples.module_of(file)
    assert module.kernel(2.5) == 5 and type(module.FACTOR) is float
    assert {name: sys.modules.get(name) for name in examples.NOT_NEEDED} == before


def test_libraries_are_as_before_where_a_file_fails(tmp_path):
    file = tmp_path / "broken.py"
    file.write_text("import cupy\nraise ValueError('no')\n")
    with pytest.raises(ValueError, match="no"):
        examples.module_of(file)
    assert "cupy" not in sys.modules or "Mock" not in type(sys.modules["cupy"]).__name__


def test_grids_cover_what_the_publication_names():
    work = {e.name: e.work for e in examples.EXAMPLES}
    assert work["product tf32"] == 2 * 4096 ** 3                        # 4096^3
    assert work["batched product tf32"] == 2 * 8 * 1024 * 512 * 2048    # 1024 x 512 x 2048, eight of them
    assert work["causal attention f16"] == 4 * 8 * 16 * 1024 ** 2 * 64  # 8 x 16 x 1024^2, 64 deep, as if nothing were masked
    assert work["layer norm, forward"] == 4 * 4096 ** 2 * 4             # three reads and a write of f32
    grids = {e.name: e.grid for e in examples.EXAMPLES}
    assert grids["product tf32"] == (64 * 64,) and grids["causal attention f16"] == (8, 128)
    assert grids["softmax by whole rows"] == (168,)                     # two blocks on each of 84 SMs


def test_the_page_shows_failures_and_errors():
    row = {"name": "a", "julia": 100.0, "python": 80.0, "remark": "x"}
    good = {**row, "predicted": 100.0, "bound": "DRAM", "estimate": False}
    text = examples.section([good, {**row, "failed": "NoOriginal: refused"}])
    assert "| a | 100 | 80 | 100 | +25% | DRAM | x |" in text
    assert "NoOriginal: refused" in text and "1 of 2 predicted, mean error 25%" in text
