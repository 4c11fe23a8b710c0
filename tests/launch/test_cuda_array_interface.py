"""Arrays that are known only by `__cuda_array_interface__`: kernels read and write their memory; what says it wrong is refused."""
from __future__ import annotations

import gc
import weakref
from typing import Any

import cuda.tile as ct
import ml_dtypes
import numpy as np
import pytest

import tileiras
from tileiras.sim import cutile
from tileiras.sim.cutile.errors import ArgumentTypeError, ArgumentValueError


class Foreign:
    """An array of a library that nobody knows, over NumPy's memory."""

    def __init__(self, array: np.ndarray, **other: Any) -> None:
        self.array, self.other = array, other

    @property
    def __cuda_array_interface__(self) -> Any:
        told = {"shape": self.array.shape, "typestr": self.array.dtype.str, "data": (self.array.ctypes.data, False),
                "strides": None if self.array.flags.c_contiguous else self.array.strides, "version": 3, "stream": 1}
        return {**told, **self.other}


class Typed(Foreign):
    """One that also says its type."""

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype


@ct.kernel
def twice(x, y, T0: ct.Constant[int], T1: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(y, (i, j), ct.load(x, (i, j), (T0, T1)) * 2)


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a.T, lambda a: a[::2, 1:41]])
def test_a_kernel_reads_and_writes_them(view: Any) -> None:
    x = view(np.arange(96 * 96, dtype=np.float32).reshape(96, 96))
    whole = np.full((96, 96), 5, np.float32)
    y = whole[: x.shape[0], : x.shape[1]]
    tileiras.launch(twice, tuple(-(-n // 16) for n in x.shape), (Foreign(x), Foreign(y), 16, 16))
    assert np.array_equal(y, 2 * x) and (whole[x.shape[0]:] == 5).all() and (whole[:, x.shape[1]:] == 5).all()


def test_types_that_numpy_doesnt_know() -> None:
    x = np.arange(64).reshape(8, 8).astype(ml_dtypes.bfloat16)
    y = np.zeros_like(x)
    tileiras.launch(twice, (1, 1), (Typed(x), Typed(y), 8, 8))
    assert np.array_equal(y.astype(int), 2 * np.arange(64).reshape(8, 8))
    with pytest.raises(ArgumentTypeError, match="which tile kernels don't have"):
        tileiras.launch(twice, (1, 1), (Foreign(x), Foreign(y), 8, 8))


def test_the_memory_is_shared_and_lives_as_long() -> None:
    x = np.arange(6, dtype=np.int32)
    foreign = Foreign(x)
    known = weakref.ref(foreign)
    array = cutile.as_array(foreign)
    x[2] = 77
    assert array[2] == 77 and array.flags.writeable
    del foreign
    gc.collect()
    assert known() is not None
    del array
    gc.collect()
    assert known() is None


def test_arrays_without_elements_have_no_address() -> None:
    assert cutile.as_array(Foreign(np.zeros((0, 3)), data=(0, False))).shape == (0, 3)


def test_an_array_that_may_only_be_read() -> None:
    assert not cutile.as_array(Foreign(np.zeros(4), data=(np.zeros(4).ctypes.data, True))).flags.writeable


X = np.zeros((4, 4), np.float32)


@pytest.mark.parametrize(("other", "error", "words"), [
    ({"mask": X}, ArgumentTypeError, "a mask"),
    ({"shape": [4, 4]}, ArgumentTypeError, r"the shape \[4, 4\]"),
    ({"shape": (4, -4)}, ArgumentTypeError, r"the shape \(4, -4\)"),
    ({"shape": (4, 4.0)}, ArgumentTypeError, "the shape"),
    ({"shape": (1,) * 40}, ArgumentTypeError, "the shape"),
    ({"shape": None}, ArgumentTypeError, "the shape None"),
    ({"strides": (16,)}, ArgumentTypeError, r"the strides \(16,\)"),
    ({"strides": "ab"}, ArgumentTypeError, "the strides 'ab'"),
    ({"strides": (-16, 4)}, ArgumentValueError, "a negative stride"),
    ({"typestr": "<x9"}, ArgumentTypeError, "the type '<x9'"),
    ({"typestr": "2**9i4"}, ArgumentTypeError, "the type '2"),
    ({"shape": (0, 1 << 70)}, ArgumentTypeError, "the shape"),
    ({"shape": (0, 1 << 62, 1 << 62)}, ArgumentTypeError, "the shape"),
    ({"shape": (1, 4), "strides": (1 << 70, 4)}, ArgumentTypeError, "the strides"),
    ({"shape": (1, 4), "strides": (1 << 63, 4)}, ArgumentTypeError, "the strides"),
    ({"typestr": 4}, ArgumentTypeError, "the type 4"),
    ({"typestr": "|O"}, ArgumentTypeError, r"the type '\|O'"),
    ({"data": X.ctypes.data}, ArgumentTypeError, "the data"),
    ({"data": ("a", False)}, ArgumentTypeError, "the data"),
    ({"data": (-8, False)}, ArgumentTypeError, "the data"),
    ({"data": (0x10, False)}, ArgumentValueError, "64 bytes at 0x10"),
    ({"data": (0, False)}, ArgumentValueError, "aren't memory of the CPU"),
    ({"strides": (1 << 50, 4)}, ArgumentValueError, "aren't memory of the CPU"),
    ({"shape": (1 << 40, 1 << 40)}, ArgumentValueError, "aren't memory of the CPU"),
])
def test_what_says_it_wrongly_is_refused(other: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        cutile.as_array(Foreign(X, **other), "argument 'x'")


def test_interfaces_that_are_none() -> None:
    class Broken:
        @property
        def __cuda_array_interface__(self) -> Any:
            raise RuntimeError("the device is gone")

    class Wrong:
        __cuda_array_interface__ = 7

    with pytest.raises(ArgumentTypeError, match="the device is gone"):
        cutile.as_array(Broken())
    with pytest.raises(ArgumentTypeError, match="no dictionary"):
        cutile.as_array(Wrong())
    with pytest.raises(ArgumentTypeError, match="a kernel takes arrays"):
        cutile.as_array(Foreign)


def test_memory_that_may_not_be_written() -> None:
    """The code of a function."""
    import ctypes
    address = ctypes.cast(ctypes.pythonapi.Py_GetVersion, ctypes.c_void_p).value
    assert address is not None
    at = {"shape": (4,), "typestr": "|u1", "strides": None}
    with pytest.raises(ArgumentValueError, match="may write"):
        cutile.as_array(Foreign(X, data=(address, False), **at))
    assert cutile.as_array(Foreign(X, data=(address, True), **at)).shape == (4,)
