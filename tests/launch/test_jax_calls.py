"""Kernels that JAX calls run on the simulator. The first part is XLA's side of its C interface, made by hand, and needs no JAX;
the second is programs for JAX, where it is installed."""
from __future__ import annotations

import ctypes
import json
from typing import Any

import cuda.tile as ct
import numpy as np
import pytest

from tileiras.sim import cutile
from tileiras.sim.cutile import jaxcalls

# ---- XLA's side by hand

KINDS = {np.dtype(np.float32): 11, np.dtype(np.int32): 4, np.dtype(np.uint64): 9, np.dtype(np.uint8): 6, np.dtype(np.float16): 10}


class Call:
    """A call as XLA makes it: buffers in and out, attributes. `run()`: the error's words, or ""."""

    def __init__(self, arguments: list[np.ndarray], results: list[np.ndarray], attributes: dict[str, Any]) -> None:
        self.held: list[Any] = []
        self.said = b""

        def create(error: Any) -> int:
            self.said = error.contents.message
            return 1
        self.create = jaxcalls._CREATE_ERROR(create)
        api = jaxcalls._Api(version=jaxcalls._Version(major=0, minor=3),
                            create_error=ctypes.cast(self.create, ctypes.c_void_p).value)
        self.frame = jaxcalls._Frame(api=ctypes.pointer(api), arguments=self.values(arguments), results=self.values(results),
                                     attributes=self.attributes(attributes))
        self.held.append(api)

    def keep(self, value: Any) -> Any:
        self.held.append(value)
        return value

    def address(self, value: Any) -> int:
        return ctypes.addressof(self.keep(value))

    def values(self, arrays: list[np.ndarray]) -> Any:
        buffers = [jaxcalls._Buffer(dtype=KINDS[a.dtype], data=a.ctypes.data, rank=a.ndim,
                                    dims=self.keep((ctypes.c_int64 * max(a.ndim, 1))(*a.shape))) for a in arrays]
        return jaxcalls._Values(size=len(arrays), values=self.keep((ctypes.c_void_p * len(arrays))(*map(self.address, buffers))))

    def span(self, text: bytes) -> Any:
        return jaxcalls._Span(data=ctypes.cast(self.keep(ctypes.create_string_buffer(text, len(text) + 1)), ctypes.c_void_p),
                              size=len(text))

    def attribute(self, value: Any) -> tuple[int, Any]:
        if isinstance(value, bytes):
            return jaxcalls._STRING, self.span(value)
        if isinstance(value, int):
            return jaxcalls._SCALAR, jaxcalls._Scalar(dtype=4, value=self.keep((ctypes.c_int32 * 1)(value)))
        self.held.append(value)
        return jaxcalls._ARRAY, jaxcalls._Array(dtype=KINDS[value.dtype], size=value.size, data=value.ctypes.data)

    def attributes(self, given: dict[str, Any]) -> Any:
        names = [ctypes.pointer(self.keep(self.span(name.encode()))) for name in given]
        kinds, values = zip(*map(self.attribute, given.values()))
        return jaxcalls._Attributes(
            size=len(given), types=self.keep((ctypes.c_int * len(given))(*kinds)),
            names=self.keep((ctypes.POINTER(jaxcalls._Span) * len(given))(*names)),
            values=self.keep((ctypes.c_void_p * len(given))(*map(self.address, values))))

    def run(self) -> str:
        result = jaxcalls._launch(ctypes.pointer(self.frame))
        assert (result is None) == (self.said == b"")
        return self.said.decode()


def attributes(parcel: bytes, ids: list[int], packed: list[int], grid: tuple[int, int, int] = (1, 1, 1)) -> dict[str, Any]:
    return {"buffer_ids": np.array(ids, np.int32), "cubin_code": parcel, "function_name": b"f", "grid_x": grid[0],
            "grid_y": grid[1], "grid_z": grid[2], "scalar_packed": np.array(packed, np.uint64)}


def parcel(**about: Any) -> bytes:
    return jaxcalls.MAGIC + json.dumps({"gpu": "sm_80", "level": 2, "scalars": [], **about}).encode() + b"\n\x7fTileIR"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What launches were asked for."""
    asked: list[Any] = []
    monkeypatch.setattr(jaxcalls, "_run", lambda *given: asked.append(given))
    return asked


def test_a_call_becomes_a_launch(ran: list[Any]) -> None:
    """Buffers by number, inputs before outputs before scalars; each array with its lengths and its strides."""
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros(4, np.int32)
    scalars = [0xFFFFFFFF_FFFFFFFD, int.from_bytes(np.float32(0.5).tobytes(), "little")]
    given = attributes(parcel(scalars=["int64", "float32"]), [1, 3, 0, 2], scalars, (5, 6, 7))
    assert Call([x], [y], given).run() == ""
    (bytecode, gpu, level, entry, grid, flat), = ran
    assert (bytecode, gpu, level, entry, grid) == (b"\x7fTileIR", "sm_80", 2, "f", (5, 6, 7))
    assert flat[0].ctypes.data == y.ctypes.data and flat[0].dtype == np.int32 and flat[1:3] == [4, 1]
    assert flat[3] == 0.5 and np.array_equal(flat[4], x.ravel()) and flat[5:9] == [2, 3, 3, 1]
    assert flat[9:] == [-3]


def test_arrays_without_elements_or_axes(ran: list[Any]) -> None:
    x, y = np.zeros((0, 3), np.float16), np.array(7, np.int32)
    assert Call([x], [y], attributes(parcel(), [0, 1], [])).run() == ""
    flat = ran[0][-1]
    assert flat[0].size == 0 and flat[1:5] == [0, 3, 3, 1] and flat[5].tolist() == [7] and len(flat) == 6


def test_what_cannot_run_is_an_error_of_xla(ran: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros(4, np.float32)
    assert "code for a GPU" in Call([x], [], attributes(b"\x7fELF", [0], [])).run()

    def refuse(*given: Any) -> None:
        raise ValueError("no such thing")
    monkeypatch.setattr(jaxcalls, "_run", refuse)
    assert Call([x], [], attributes(parcel(), [0], [])).run() == "ValueError: no such thing"
    monkeypatch.setattr(jaxcalls, "_run", None)
    assert "doesn't stand in" in Call([x], [], attributes(parcel(), [0], [])).run()


def test_a_question_for_the_version_is_answered_with_xlas_own(ran: list[Any]) -> None:
    call = Call([], [], attributes(b"", [], []))
    told = jaxcalls._Metadata()
    extension = jaxcalls._Extension(type=jaxcalls.METADATA, metadata=ctypes.addressof(told))
    call.frame.extension = ctypes.addressof(extension)
    assert call.run() == "" and not ran
    assert (told.version.major, told.version.minor) == (0, 3)


# ---- programs

@ct.kernel
def scale(x, y, factor, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(y, (i,), ct.load(x, (i,), (TILE,)) * factor)


@ct.kernel
def double(x, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(x, (i,), ct.load(x, (i,), (TILE,)) * 2)


@pytest.fixture
def jax() -> Any:
    """JAX with the simulator standing in."""
    module = pytest.importorskip("jax")
    cutile.install("sm_90")
    cutile.reports.clear()
    yield module
    cutile.uninstall()


def test_jitted_graphs_launch_kernels(jax: Any) -> None:
    from cuda.tile.jax import InputOutput, OutputPlaceholder, cutile_call

    @jax.jit
    def graph(x: Any) -> Any:
        like = OutputPlaceholder(x.shape, x.dtype)
        y = cutile_call((4,), scale, (x, like, 0.5, 16))
        return cutile_call((4,), double, (InputOutput(y), 16)) + cutile_call((4,), scale, (x, like, 3, 16))
    x = np.arange(64, dtype=np.float32)
    assert np.array_equal(graph(x), 4 * x)
    assert len(cutile.reports) == 3


def test_what_a_kernel_does_wrong_reaches_the_program(jax: Any) -> None:
    from cuda.tile.jax import OutputPlaceholder, cutile_call

    x = jax.numpy.arange(64, dtype=np.float32)
    with pytest.raises(Exception, match=r"70000.*65535"):
        cutile_call((1, 70000), scale, (x, OutputPlaceholder(x.shape, x.dtype), 2, 16)).block_until_ready()


def test_afterwards_jax_is_as_before(jax: Any) -> None:
    from cuda.tile.jax import OutputPlaceholder, cutile_call

    cutile.uninstall()
    x = jax.numpy.arange(16, dtype=np.float32)
    with pytest.raises(Exception, match="cutile_call_ffi"):
        cutile_call((1,), scale, (x, OutputPlaceholder(x.shape, x.dtype), 2, 16))
