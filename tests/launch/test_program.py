"""`python -m tileiras.sim.cutile`: options, exit codes, the report; programs that use CuPy, or start programs of their own."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tileiras.sim.cutile import cupyarrays

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
import numpy as np
import cuda.tile as ct

@ct.kernel
def double(x, y, TILE: ct.Constant[int]):
    i = ct.bid(0)
    t = ct.load(x, (i,), (TILE,))
    ct.store(y, (i,), t + t)

def run(n=64):
    x, y = np.ones(n, np.float32), np.zeros(n, np.float32)
    ct.launch(0, (n // 64,), double, (x, y, 64))
    return y.sum()
"""


def run(tmp_path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM + source)
    return subprocess.run([sys.executable, "-m", "tileiras.sim.cutile", *options, str(path), "--own", "7"], capture_output=True,
                          text=True, timeout=120, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)})


def test_options_before_the_program_are_ours_and_behind_it_its_own(tmp_path):
    report = tmp_path / "r.json"
    done = run(tmp_path, "from cuda.tile._cext import get_compute_capability as c\nprint(sys.argv[1:], c(), run(128))",
               "--gpu", "sm_120", "--level", "0", "--report", str(report))
    assert (done.returncode, done.stdout) == (0, "['--own', '7'] (12, 0) 256.0\n"), done.stderr
    said = json.loads(report.read_text())
    assert said["gpu"] == "sm_120" and said["launches"] == 1 and said["kernels"] == ["double"] and said["instructions"] > 10
    assert said["findings"] == []


@pytest.mark.parametrize("options,words", [(("--time", "1.5"), "the time is up"), (("--instructions", "5"), "instruction")])
def test_a_program_that_spends_its_budget_ends(tmp_path, options, words):
    done = run(tmp_path, "while True:\n    try:\n        run()\n    except Exception as e:\n        pass", *options)
    assert done.returncode == 124 and words in done.stderr and "Traceback" not in done.stderr


def test_the_programs_own_errors_and_codes_are_its_own(tmp_path):
    assert run(tmp_path, "sys.exit(9)").returncode == 9
    done = run(tmp_path, "raise KeyError('mine')")
    assert done.returncode == 1 and "KeyError: 'mine'" in done.stderr


def test_cupy_programs(tmp_path):
    source = """
import cupy as cp
rng = cp.random.default_rng(0)
x, y = cp.arange(64, dtype=cp.float32) + rng.integers(0, 2, 64).astype(cp.float32), cp.zeros(64, cp.float32)
with cp.cuda.Stream() as stream:
    ct.launch(cp.cuda.get_current_stream(), (1,), double, (x, y, 64))
stream.synchronize()
np.testing.assert_array_equal(cp.asnumpy(y), 2 * x.get())
print(type(cp.asnumpy(y)) is np.ndarray, isinstance(x + y, cp.ndarray), isinstance(cp.sqrt(x), cp.ndarray))
"""
    if run(tmp_path, "import cupy").returncode == 0:
        pytest.skip("CuPy is installed here")
    done = run(tmp_path, source, "--cupy")
    assert (done.returncode, done.stdout) == (0, "True True True\n"), done.stderr


CHILDREN = """
import subprocess
if '--child' in sys.argv:
    print('child', run())
    sys.exit()
done = subprocess.run([sys.executable, __file__, '--child'], capture_output=True, text=True)
print(done.stdout, done.returncode != 0)
"""


def test_programs_that_the_program_starts(tmp_path):
    assert run(tmp_path, CHILDREN, "--children").stdout == "child 128.0\n False\n"
    assert run(tmp_path, CHILDREN).stdout == " True\n"


def test_programs_that_it_starts_have_cupy_too(tmp_path):
    source = CHILDREN.replace("print('child', run())", "import cupy; print('child', cupy.ones(3).sum())")
    assert run(tmp_path, source, "--children", "--cupy").stdout == "child 3.0\n False\n"


def test_cupys_arrays_are_numpys():
    cupy: Any = cupyarrays.module("sm_90")
    a: Any = cupy.array([[1, 2], [3, 4]])
    assert issubclass(cupy.ndarray, np.ndarray)
    assert all(isinstance(made, cupy.ndarray) for made in (a, a.T @ a, cupy.sum(a), a + 1, cupy.random.rand(2),
                                                              cupy.random.default_rng(0).random(3)))
    copy = a.get()
    copy[0, 0] = 9
    assert a[0, 0] == 1 and type(copy) is np.ndarray
    a.set(copy)
    assert a[0, 0] == 9 and cupy.float32 is np.float32 and cupy.pi == np.pi
    with pytest.raises(AttributeError):
        getattr(cupy, "RawKernel")                # noqa: B009


def test_cupys_random_numbers_have_a_type():
    cupy: Any = cupyarrays.module("sm_90")
    for made in (cupy.random.randn(2, 3, dtype=cupy.float32), cupy.random.random((2, 3), dtype=cupy.float32),
                 cupy.random.uniform(-1, 1, (2, 3), dtype=cupy.float32)):
        assert isinstance(made, cupy.ndarray) and (made.shape, made.dtype) == ((2, 3), np.float32)
    assert cupy.random.randint(0, 5, 4, dtype=cupy.int32).dtype == np.int32 and cupy.random.randn(2).dtype == np.float64


def test_cupys_device_is_the_simulated_one():
    cuda: Any = cupyarrays.module("sm_100").cuda
    properties = cuda.runtime.getDeviceProperties(cuda.runtime.getDevice())
    assert (properties["major"], properties["minor"], cuda.Device().compute_capability) == (10, 0, "100")
    assert properties["multiProcessorCount"] == 148 and b"sm_100" in properties["name"]
    start, end = cuda.Event(), cuda.Event()
    start.record()
    end.record()
    assert cuda.get_elapsed_time(start, end) > 0
