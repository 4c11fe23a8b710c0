"""The launcher stand-in keeps the rules of the frontend's own launcher: which launches it takes, and which errors it raises.

Each rule is read off the frontend's launcher; a program that catches its errors must catch the stand-in's."""
from __future__ import annotations

import collections
import subprocess
import sys
from typing import Annotated, Any

import cuda.tile as ct
import numpy as np
import pytest
from cuda.tile._annotated_function import LeafAnnotationNode
from cuda.tile._cext import TileDispatcher
from cuda.tile._exception import TileCompilerExecutionError

import tileiras
from tileiras.sim import LaunchError, cutile

Pair = collections.namedtuple("Pair", "a b")


@ct.kernel
def inc(x, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(x, (i,), ct.load(x, (i,), (TILE,)) + 1)


@ct.kernel
def pair_sum(pair: tuple[int, int], out):
    ct.store(out, (0,), ct.full((8,), pair[0] + pair[1], ct.int32))


@ct.kernel
def fixed_shape(xs: Annotated[list, ct.ListAnnotation(element=ct.ArrayAnnotation(static_shape_dims=(0,)))], out):
    ct.store(out, (0,), ct.load(xs[0], (0,), (8,)))


@ct.kernel
def fixed_axis_5(x: Annotated[ct.Array, ct.ArrayAnnotation(static_stride_dims=(5,))]):
    ct.store(x, (0,), ct.zeros((8,), ct.int32))


@pytest.fixture
def launch():
    cutile.install("sm_90")
    yield lambda grid, kernel, *args: ct.launch(0, grid, kernel, args)
    cutile.uninstall()


def ints(n=8):
    return np.zeros(n, np.int32)


def test_an_empty_grid_is_one_block(launch):
    x = ints(16)
    launch((), inc, x, 8)
    assert x.tolist() == [1] * 8 + [0] * 8
    tileiras.launch(inc, (), (x, 8))
    assert x.tolist() == [2] * 8 + [0] * 8


@pytest.mark.parametrize("grid,error,words", [
    ((1 << 24,), ValueError, r"Grid\[0\] exceeds 24-bit limit: max=16777215, got=16777216"),
    ((1, 65536), ValueError, r"Grid\[1\]"), ((1, 1, 1, 1), ValueError, "at most 3"), ((0,), ValueError, r"Grid\[0\]"),
    ((-1,), ValueError, r"Grid\[0\]"), ([1], TypeError, "must be a tuple"), (1, TypeError, "must be a tuple"),
    ((1.0,), TypeError, "no whole number")])
def test_grids_that_are_refused_before_anything_runs(launch, grid, error, words):
    x = ints()
    with pytest.raises(error, match=words) as caught:
        launch(grid, inc, x, 8)
    assert isinstance(caught.value, LaunchError) and not x.any()


@pytest.mark.parametrize("kernel,args,error,words", [
    (inc, (ints(),), TypeError, "Kernel expects 2 arguments but 1 was given"),
    (inc, (ints(), 8, 8), TypeError, "Kernel expects 2 arguments but 3 were given"),
    (inc, (Pair(ints(), ints()), 8), TypeError, "Invalid kernel argument #0: 'Pair' is a subclass of 'tuple'"),
    (inc, (ints(), "8"), TypeError, "Could not interpret object of type 'str' as a constant"),
    (pair_sum, ((1, Pair(1, 2)), ints()), TypeError, "Invalid item #1 of kernel argument #0: 'Pair'"),
    (inc, ("x", 8), TypeError, "is a str"),
    (pair_sum, ((1, 2, 3), ints()), TypeError, "tuple of length 3 for a parameter annotated as a tuple of length 2"),
    (pair_sum, (1, ints()), TypeError, "non-tuple argument"),
    (pair_sum, (Pair(1, 2), ints()), TypeError, "non-tuple argument"),
    (pair_sum, ((1, 1 << 40), ints()), OverflowError, "doesn't fit int32"),
    (fixed_shape, ([ints(8), ints(16)], ints()), ValueError, r"vary in static shape at axis 0 \(8 vs 16\)"),
    (fixed_shape, ([ints(8), np.zeros(8, np.int64)], ints()), TypeError, "vary in data type"),
    (fixed_shape, ([ints(8), np.zeros((8, 8), np.int32)], ints()), TypeError, "vary in rank"),
    (fixed_shape, ([], ints()), TypeError, "empty list"),
    (fixed_axis_5, (ints(),), ValueError, "static_stride_dims contains axis 5 but array rank is 1")])
def test_arguments_raise_what_the_frontend_raises(launch, kernel, args, error, words):
    with pytest.raises(error, match=words) as caught:
        launch((1,), kernel, *args)
    assert isinstance(caught.value, LaunchError)


def test_a_kernel_and_a_tuple_of_arguments_are_asked_for(launch):
    with pytest.raises(TypeError, match="is no cuTile kernel"):
        launch((1,), print)
    with pytest.raises(TypeError, match="as a tuple"):
        ct.launch(0, (1,), inc, [ints(), 8])                # pyright: ignore[reportArgumentType]


class Remembering(ct.kernel):
    """A kernel whose compilation is observed."""

    def __new__(cls, function):
        return TileDispatcher.__new__(cls, function)            # pyright: ignore[reportCallIssue]

    def __init__(self, function):
        super().__init__(function)
        self.compiled = []

    def _compile(self, signature, context, compute_capability=None):
        self.compiled.append((compute_capability, signature.symbol))
        return super()._compile(signature, context, compute_capability)


def test_subclassed_kernels_compile_by_their_own_method_once_a_signature(launch):
    kernel = Remembering(inc._pyfunc)
    x, y = ints(64), ints(64)
    for array, tile in ((x, 8), (y, 8), (x, 16)):
        launch((2,), kernel, array, tile)
    assert x[:16].tolist() == [2] * 16 and x[16:32].tolist() == [1] * 16 and y[:16].tolist() == [1] * 16
    assert [c for c, _ in kernel.compiled] == [(9, 0), (9, 0)] and kernel.compiled[0][1] != kernel.compiled[1][1]


class Wrapping(TileDispatcher):
    """A dispatcher that is no kernel: it hands out what another kernel compiles to."""

    def __init__(self, kernel, constants):
        super().__init__((LeafAnnotationNode(constant=False),))
        self.kernel, self.constants = kernel, constants

    def _compile(self, signature, context, compute_capability=None):
        from cuda.tile import compilation
        whole = compilation.KernelSignature([*signature.parameters, *map(compilation.ConstantConstraint, self.constants)],
                                            signature.calling_convention)
        return self.kernel._compile(whole, context, compute_capability)


def test_dispatchers_of_ones_own_run(launch):
    x = ints(16)
    launch((1,), Wrapping(inc, [16]), x)
    assert x.tolist() == [1] * 16


def test_a_refused_kernel_raises_the_frontends_error(launch, monkeypatch):
    """Tuning goes on after it with the next configuration."""
    def refuse(*_, **__):
        raise tileiras.CompileError("no such thing")
    monkeypatch.setattr("tileiras.launcher.compiled", refuse)
    with pytest.raises(TileCompilerExecutionError, match="no such thing"):
        launch((1,), inc, ints(), 8)


PRINTS = """
import numpy as np
import cuda.tile as ct

@ct.kernel
def shout(x, y, TILE: ct.Constant[int]):
    ct.printf("block %d\\n", ct.bid(0))
    ct.scatter(y, ct.arange(TILE, dtype=np.int32) + 100000 * (ct.bid(0) + 1), ct.load(x, (0,), (TILE,)), check_bounds=False)

ct.launch(None, (1,), shout, (np.zeros(16, np.float32), np.zeros(16, np.float32), 16))
"""


def test_what_a_kernel_printed_before_a_fault_is_shown(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PRINTS)
    done = subprocess.run([sys.executable, "-m", "tileiras.sim.cutile", str(path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 5 and "out of bounds" in done.stderr, done.stderr
    assert "block 0\n" in done.stdout


def test_an_empty_tensor_has_the_stride_its_library_gives():
    """PyTorch gives an empty tensor the stride 1, NumPy's view of it says 0: another signature would be compiled."""
    class Empty:
        device, dtype = collections.namedtuple("Device", "type")("cpu"), "torch.float32"
        detach = lambda self: self                          # noqa: E731
        stride = lambda self: (1,)                          # noqa: E731
        numpy = lambda self: np.lib.stride_tricks.as_strided(np.zeros(0, np.float32), (0,), (0,))    # noqa: E731
    Empty.__module__ = "torch"
    held = cutile.flatten(inc, (Empty(), 8))
    assert held.constraints[0].stride_constant == (1,) and held.parameters[2] == 1


def test_an_empty_tensor_of_pytorch():
    torch = pytest.importorskip("torch")
    made = cutile.flatten(inc, (torch.empty(0), 8))
    assert made.constraints[0].stride_constant == (1,) and made.constraints[0].shape_divisible_by == (16,)


def test_tuning_finds_the_configuration_with_the_least_estimate(launch):
    """One with 4 times as many elements a block needs fewer blocks' worth of instructions; one is refused."""
    from cuda.tile.tune import exhaustive_search
    x = np.zeros(4096, np.int32)
    kernel: Any = inc
    result = exhaustive_search([3, 16, 256], 0, lambda tile: (x.size // tile,), kernel, lambda tile: (x.copy(), tile),
                               quiet=True)
    assert result.best.config in (16, 256) and [c for c, *_ in result.failures] == [3]
    assert len(result.successes) == 2 and result.best.mean_us == min(m.mean_us for m in result.successes) > 0


@ct.kernel
def count_to(x, out):
    n = ct.load(x, (0,), (1,)).item()
    total = ct.zeros((1,), ct.int32)
    for i in range(n):
        total = total + i
    ct.store(out, (0,), total)


@ct.kernel
def wait_for_zero(x, out):
    flag = ct.load(x, (0,), (1,)).item()
    ct.store(out, (0,), ct.full((1,), 7, ct.int32))
    while flag != 0:
        ct.atomic_add(out, 0, 1)


def test_timing_a_launch_again_writes_its_arrays_again(launch):
    from cuda.tile import _cext
    timed: Any = _cext._benchmark
    x, times = np.array([9], np.int32), []
    for _ in range(3):
        out = np.zeros(1, np.int32)
        times.append(timed(0, (1,), count_to, (x, out)))
        assert out[0] == 36
    assert times[0] == times[1] == times[2] > 0


def test_what_is_in_the_arrays_says_how_long_a_launch_takes(launch):
    from cuda.tile import _cext
    timed: Any = _cext._benchmark
    times = [timed(0, (1,), count_to, (np.array([n], np.int32), np.zeros(1, np.int32))) for n in (1, 4000, 1)]
    assert times[0] == times[2] < times[1]


def test_measurements_are_forgotten_when_they_take_too_much_room(launch, monkeypatch):
    from cuda.tile import _cext

    from tileiras.sim.cutile import standin
    timed: Any = _cext._benchmark
    monkeypatch.setattr(standin, "MAX_BYTES_KEPT", 10)
    for n in range(3, 8):
        out = np.zeros(1, np.int32)
        timed(0, (1,), count_to, (np.array([n], np.int32), out))
        assert out[0] == n * (n - 1) // 2 and len(standin._measured) <= 2
    monkeypatch.setattr(standin, "MAX_BYTES_KEPT", 3)
    out = np.zeros(1, np.int32)
    timed(0, (1,), count_to, (np.array([9], np.int32), out))
    assert out[0] == 36 and not standin._measured


def test_tuning_under_a_limit_of_time_leaves_out_what_does_not_end(launch):
    """A loop without an end goes over the instructions of a simulation; a launch whose estimate is over the limit is left out,
    too."""
    from cuda.tile.tune import exhaustive_search
    from cuda.tile.tune._tune_utils import TileLaunchTimeoutError
    cutile.install("sm_90", max_instructions=3000)

    def arguments(flag: int) -> tuple:
        return np.array([flag], np.int32), np.zeros(1, np.int32)

    kernel: Any = wait_for_zero
    found = exhaustive_search([0, 1, 0], 0, lambda _: (1,), kernel, arguments, single_run_timeout_sec=60, quiet=True)
    assert len(found.successes) == 2 and [(c, kind) for c, kind, _ in found.failures] == [(1, TileLaunchTimeoutError)]
    assert "3000 instructions" in found.failures[0][2]
    with pytest.raises(ValueError, match="takes at least"):
        exhaustive_search([0], 0, lambda _: (1,), kernel, arguments, single_run_timeout_sec=1e-12, quiet=True)


def test_all_is_given_back(monkeypatch):
    """Names bound elsewhere, before and after, hold the frontend's functions again; the environment is as it was."""
    import os
    import types

    from cuda.tile import _cext, _compile
    from cuda.tile.tune import _tune, _tune_utils
    held: Any = types.ModuleType("held")
    held.launch = ct.launch
    monkeypatch.setitem(sys.modules, "held", held)
    timed = _tune_utils._TimedBenchmarkRunner

    def now() -> tuple:
        return (ct.launch, _tune._benchmark, _cext.get_compute_capability, _compile.compile_cubin, dict(os.environ), timed.run,
                _tune_utils._export_ipc_benchmark_payload)

    before = now()
    cutile.install("sm_120", children=True)
    late: Any = types.ModuleType("late")
    late.launch = ct.launch
    monkeypatch.setitem(sys.modules, "late", late)
    assert held.launch is late.launch is not before[0]
    assert _cext.get_compute_capability() == (12, 0) and _compile.get_sm_arch() == "sm_120"
    cutile.uninstall()
    assert now() == before
    assert held.launch is late.launch is before[0]
