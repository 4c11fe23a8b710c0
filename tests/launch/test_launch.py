"""`tileiras.launch` and the stand-in for cuTile's launcher: arguments become what the frontend's own rules say, kernels
compute what NumPy says."""
from __future__ import annotations

import subprocess
import sys
import types
from typing import Annotated

import cuda.tile as ct
import ml_dtypes
import numpy as np
import pytest

import tileiras
from tileiras import sim
from tileiras.sim import cutile

SECONDS = 120


@ct.kernel
def add(a, b, c, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(c, (i,), ct.load(a, (i,), (TILE,)) + ct.load(b, (i,), (TILE,)))


@ct.kernel
def everything(xs, n: int, big: ct.ScalarInt64, scale: float, flag: bool, pair, out, TILE: ct.Constant[int]):
    acc = ct.zeros((TILE,), ct.float32)
    for k in range(n):
        acc = acc + ct.load(xs[k], (0,), (TILE,))
    if flag:
        acc = acc * scale
    acc = acc + pair[0] + ct.astype(big // 1000000007, ct.float32)
    ct.store(out, (0,), acc + ct.load(pair[1], (0,), (TILE,)))


@ct.kernel
def copy2d(x, y, T0: ct.Constant[int], T1: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(y, (i, j), ct.load(x, (i, j), (T0, T1)))


@pytest.mark.parametrize("gpu_name,level", [("sm_80", None), ("sm_90", 0), ("sm_120", 3)])
def test_launch_computes(gpu_name, level):
    a, b, c = (np.random.default_rng(i).standard_normal(1000).astype(np.float32) for i in range(3))
    report = tileiras.launch(add, 8, (a, b, c, 128), gpu_name=gpu_name, opt_level=level)
    assert np.array_equal(c, a + b)
    assert report.instructions > 1000 and not report.findings


def test_lists_tuples_and_scalars():
    draw = np.random.default_rng(0)
    xs = [draw.integers(-8, 8, 64).astype(np.float32) for _ in range(3)]
    more, out = draw.integers(-8, 8, 64).astype(np.float32), np.zeros(64, np.float32)
    tileiras.launch(everything, 1, (xs, 3, 7 * 1000000007, 0.5, True, (4, more), out, 64))
    assert np.array_equal(out, sum(xs) * 0.5 + 4 + 7 + more)
    tileiras.launch(everything, 1, (xs, 2, 0, 0.5, False, (0, more), out, 64))
    assert np.array_equal(out, xs[0] + xs[1] + more)


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a.T, lambda a: a[::2, 1:41], lambda a: a[3:, ::3]])
def test_views_of_arrays(view):
    x = view(np.arange(96 * 96, dtype=np.float64).reshape(96, 96))
    y = np.zeros(x.shape)
    tileiras.launch(copy2d, tuple(-(-n // 16) for n in x.shape), (x, y, 16, 16))
    assert np.array_equal(x, y)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "float8_e4m3fn",
                                   "float8_e5m2"])
def test_types_of_arrays(dtype):
    kind = getattr(ml_dtypes, dtype, None) or np.dtype(dtype)
    x = np.arange(64).reshape(8, 8).astype(kind)
    y = np.zeros_like(x)
    tileiras.launch(copy2d, (1, 1), (x, y, 8, 8))
    assert x.tobytes() == y.tobytes()


def exported(kernel, *args):
    return cutile.export(kernel, args, "sm_90")


def constraint(array, annotation=None):
    """What is assumed of one array argument, and the calling convention that takes."""
    def one(x):
        pass
    if annotation is not None:
        one.__annotations__["x"] = Annotated[ct.Array, annotation]
    made = cutile.flatten(ct.kernel(one), (array,))
    return made.constraints[0], made.convention


def aligned(shape, dtype, offset=0):
    """An array whose base address is `offset` bytes past a multiple of 256."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 512, np.uint8)
    start = -raw.ctypes.data % 256 + offset
    return raw[start:start + size].view(dtype).reshape(shape)


def test_what_may_be_assumed_of_an_array():
    """The frontend's rules, by hand: strides of 16 bytes, lengths of 16 elements, unit strides and lengths, the base."""
    made, version = constraint(aligned((32, 48), np.float16))
    assert made.stride_constant == (None, 1) and made.stride_divisible_by == (8, 1)
    assert made.shape_divisible_by == (16, 16) and made.base_addr_divisible_by == 16
    assert not made.may_alias_internally and version == 1 and made.index_dtype == ct.int32
    made, version = constraint(aligned((3, 1, 5), np.float32, 4))
    assert made.stride_divisible_by == (1, 1, 1) and made.shape_divisible_by == (1, 1, 1)
    assert made.shape_constant == (None, 1, None) and version == 2 and made.base_addr_divisible_by == 1
    made, _ = constraint(np.broadcast_to(aligned((4,), np.float32), (8, 4)))
    assert made.may_alias_internally and made.stride_divisible_by == (4, 1)
    made, _ = constraint(aligned((64,) * 3, np.float64)[::2, :, ::4])
    assert made.stride_constant == (None, None, None) and made.stride_divisible_by == (2, 2, 2)
    made, _ = constraint(aligned((1,) * 6, np.float32))
    assert made.stride_constant == (None,) * 6 and made.shape_divisible_by == (1,) * 6


def test_annotations_fix_lengths_and_strides():
    made, version = constraint(aligned((32, 48), np.float16), ct.ArrayAnnotation(static_shape_dims=(0,),
                                                                                static_stride_dims=(-1,)))
    assert made.shape_constant == (32, None) and made.stride_constant == (None, 1) and version == 2
    made, _ = constraint(aligned((32, 48), np.float16), ct.ArrayAnnotation(index_dtype=ct.int64))
    assert made.index_dtype == ct.int64
    kernel = ct.kernel(_wide)
    flat = exported(kernel, np.zeros((4, 4), np.float32)).flat
    assert [type(f) for f in flat[1:]] == [np.int64] * 4


def _wide(x: Annotated[ct.Array, ct.ArrayAnnotation(index_dtype=ct.int64)]):
    ct.store(x, (0, 0), ct.ones((4, 4), ct.float32))


@pytest.mark.parametrize("args,words", [
    ((1, 2), "expects 4 arguments but 2 were given"),
    (("text", np.zeros(4), np.zeros(4), 4), "is a str"),
    (([], np.zeros(4), np.zeros(4), 4), "is an empty list"),
    ((np.zeros(4, np.complex64), np.zeros(4), np.zeros(4), 4), "which tile kernels don't have"),
    ((2**40, np.zeros(4), np.zeros(4), 4), "doesn't fit int32"),
    ((np.zeros(4)[::-1], np.zeros(4), np.zeros(4), 4), "'a' has a negative stride"),
    ((np.int64(4), np.zeros(4), np.zeros(4), 4), r"'a' is a NumPy int64; pass int\(...\)"),
    ((np.zeros(4), np.zeros(4), np.zeros(4), np.zeros(4)), "type 'ndarray' as a constant. argument 'TILE' is a ct.Constant"),
    ((np.zeros(4), np.zeros(4), np.zeros(4), np.int64(4)), r"ct.Constant; pass int\(...\)"),
    ((np.zeros(4, np.dtype(">f4" if sys.byteorder == "little" else "<f4")), np.zeros(4), np.zeros(4), 4), "byte order")])
def test_arguments_that_have_no_place(args, words):
    with pytest.raises(sim.LaunchError, match=words):
        tileiras.launch(add, 1, args)


@pytest.mark.parametrize("grid", ["1", 1.0, None, (1, "2"), (1, 2.5)])
def test_what_is_no_grid(grid):
    with pytest.raises(tileiras.ConfigError, match=r"grid is .*; it may be a whole number"):
        tileiras.launch(add, grid, (np.zeros(4), np.zeros(4), np.zeros(4), 4))


def test_an_unknown_gpu_is_named():
    with pytest.raises(tileiras.ConfigError, match="unsupported GPU target 'H100'"):
        tileiras.launch(add, 1, (np.zeros(4), np.zeros(4), np.zeros(4), 4), gpu_name="H100")


def test_a_read_only_array_stays_as_it_is():
    a, out = np.ones(16, np.float32), np.frombuffer(bytes(64), np.float32)
    with pytest.raises(sim.LaunchError, match="argument 'c' is a read-only array"):
        tileiras.launch(add, 1, (a, a, out, 16))
    assert not out.any()
    b = np.zeros(16, np.float32)
    tileiras.launch(add, 1, (a, out, b, 16))
    assert (b == 1).all()


def test_findings_name_the_kernels_arguments():
    first, base = np.ones(32), np.ones(48)
    with pytest.raises(sim.DataRace, match="argument 'b'"):
        tileiras.launch(add, 2, (first, base[:32], base[16:], 16))


def test_what_is_no_kernel():
    with pytest.raises(sim.LaunchError, match="is no cuTile kernel"):
        tileiras.launch(print, 1, ())
    with pytest.raises(tileiras.BytecodeError):
        tileiras.launch(b"nothing", 1, ())
    with pytest.raises(tileiras.ConfigError, match="findings"):
        tileiras.launch(add, 1, (), findings="drop")


def test_bytecode_and_flat_parameters():
    a, b, c = (np.ones(64, np.float32) for _ in range(3))
    made = exported(add, a, b, c, 64)
    tileiras.launch(made.bytecode, 1, made.flat, name=made.symbol)
    assert np.array_equal(c, a + b)


def test_torch_bfloat16_shares_memory(monkeypatch):
    """bfloat16 has no NumPy type: the tensor's own bytes must be used."""
    words = np.arange(8, dtype=np.int16)

    class Tensor:
        device = types.SimpleNamespace(type="cpu")
        dtype = "torch.bfloat16"

        def detach(self):
            return self

        def stride(self):
            return (1,)

        def numpy(self):
            raise TypeError("Got unsupported ScalarType BFloat16")

        def element_size(self):
            return 2

        def view(self, dtype):
            assert dtype == "int16"
            return types.SimpleNamespace(numpy=lambda: words)

    Tensor.__module__ = "torch"
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(uint8="uint8", int16="int16"))
    array = cutile.as_array(Tensor())
    assert array.dtype == ml_dtypes.bfloat16 and np.shares_memory(array, words)


PROGRAM = """
import sys
import numpy as np
import cuda.tile as ct
from cuda.tile import launch

@ct.kernel
def double(x, y, TILE: ct.Constant[int]):
    i = ct.bid(0)
    t = ct.load(x, (i,), (TILE,))
    ct.store(y, (i,), t + t)

x = np.arange(int(sys.argv[1]), dtype=np.int32)
y, z = np.zeros_like(x), np.zeros_like(x)
ct.launch(None, (4,), double, (x, y, 32))
launch(None, (4, 1, 1), double, (y, z, 32))
assert (z == 4 * x).all()
print("doubled", z.sum())
"""


def run_program(path, *arguments, **environment):
    import os
    return subprocess.run([sys.executable, "-m", "tileiras.sim.cutile", str(path), *arguments], capture_output=True,
                          text=True, timeout=SECONDS, env={**os.environ, **environment})


def test_an_unmodified_program_runs(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = run_program(path, "100", TILEIRAS_SIM_GPU="sm_80")
    assert (done.returncode, done.stdout) == (0, "doubled 19800\n"), done.stderr
    assert run_program(tmp_path / "none.py").returncode == 4
    assert run_program(path, "100", TILEIRAS_SIM_GPU="sm_7").returncode == 2


def test_a_fault_names_the_users_line(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.replace("t + t", "t + ct.gather(x, ct.arange(TILE, dtype=np.int32) + 1000, check_bounds=False)"))
    done = run_program(path, "100")
    assert done.returncode == 5 and "out of bounds" in done.stderr and "program.py:" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_a_refused_launch_names_its_line(tmp_path):
    path = tmp_path / "few.py"
    path.write_text(PROGRAM + "launch(None, (1,), double, (np.ones(4),))\n")
    done = run_program(path, "100")
    assert done.returncode == 5 and "expects 3 arguments but 1 was given" in done.stderr
    assert f"launched at {path}:{len(path.read_text().splitlines())}" in done.stderr


def test_install_and_uninstall():
    original = ct.launch
    cutile.install("sm_90")
    try:
        assert ct.launch is not original
        x, y = np.ones((16, 16), np.float32), np.zeros((16, 16), np.float32)
        cutile.reports.clear()
        ct.launch(None, (1, 1), copy2d, (x, y, 16, 16))
        assert np.array_equal(x, y) and len(cutile.reports) == 1
    finally:
        cutile.uninstall()
    assert ct.launch is original
