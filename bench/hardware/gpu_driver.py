"""The CUDA driver through ctypes, as little of it as the experiments need. Needs nothing but libcuda.so.1.

Launches go the frontends' way: `cuLibraryLoadData`, then `cuLaunchKernelEx`. Every error is a `CudaError` that names the
call and the driver's code. `Driver(library)` takes another library than libcuda, which is how the tests run without a GPU.
"""
from __future__ import annotations

import ctypes as c
import time
from collections.abc import Sequence
from typing import Any

CLUSTER_DIMENSION = 4
"""CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION."""


class CudaError(Exception):
    """A driver call that failed; `code` is its CUresult."""

    def __init__(self, call: str, code: int, name: str) -> None:
        super().__init__(f"{call}: {name} ({code})")
        self.code = code


class LaunchAttribute(c.Structure):
    """CUlaunchAttribute: an identifier, padding to 8 bytes, a union of 64 bytes."""

    _fields_ = [("id", c.c_int), ("padding", c.c_char * 4), ("value", c.c_uint32 * 16)]


class LaunchConfig(c.Structure):
    """CUlaunchConfig."""

    _fields_ = [("grid", c.c_uint * 3), ("block", c.c_uint * 3), ("shared", c.c_uint), ("stream", c.c_void_p),
                ("attributes", c.POINTER(LaunchAttribute)), ("count", c.c_uint)]


class Driver:
    """A context on device 0 and the calls on it. Raises CudaError from every call, OSError where there is no driver."""

    def __init__(self, library: Any = None) -> None:
        self.library = library or c.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = c.c_int(), c.c_void_p()
        self.call("cuDeviceGet", c.byref(device), 0)
        self.device = device.value
        self.call("cuDevicePrimaryCtxRetain", c.byref(context), self.device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.library, name)(*arguments)
        if code:
            text = c.c_char_p()
            self.library.cuGetErrorName(code, c.byref(text))
            raise CudaError(name, code, (text.value or b"unknown error").decode())

    def facts(self) -> dict[str, Any]:
        """The machine: GPU, driver version (as `cuDriverGetVersion` counts), SMs, L2 bytes, clock in kHz."""
        version, name = c.c_int(), c.create_string_buffer(128)
        self.call("cuDriverGetVersion", c.byref(version))
        self.call("cuDeviceGetName", name, 128, self.device)
        numbers = {"sms": 16, "l2_bytes": 38, "clock_khz": 13, "major": 75, "minor": 76, "shared_optin_bytes": 97}
        return {"gpu": name.value.decode(), "driver": version.value,
                **{key: self.attribute(number) for key, number in numbers.items()}}

    def attribute(self, number: int) -> int:
        value = c.c_int()
        self.call("cuDeviceGetAttribute", c.byref(value), number, self.device)
        return value.value

    def allocate(self, size: int) -> int:
        pointer = c.c_uint64()
        self.call("cuMemAlloc_v2", c.byref(pointer), c.c_size_t(max(size, 1)))
        return pointer.value

    def free(self, pointer: int) -> None:
        self.call("cuMemFree_v2", c.c_uint64(pointer))

    def upload(self, pointer: int, data: bytes) -> None:
        self.call("cuMemcpyHtoD_v2", c.c_uint64(pointer), data, c.c_size_t(len(data)))

    def download(self, pointer: int, size: int) -> bytes:
        out = c.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", out, c.c_uint64(pointer), c.c_size_t(size))
        return out.raw

    def fill(self, pointer: int, byte: int, size: int) -> None:
        self.call("cuMemsetD8_v2", c.c_uint64(pointer), c.c_ubyte(byte), c.c_size_t(size))

    def copy(self, to: int, source: int, size: int) -> None:
        self.call("cuMemcpyDtoDAsync_v2", c.c_uint64(to), c.c_uint64(source), c.c_size_t(size), None)

    def load(self, cubin: bytes, kernel: str) -> tuple[c.c_void_p, c.c_void_p]:
        """(library, kernel) of a cubin."""
        library, handle = c.c_void_p(), c.c_void_p()
        self.call("cuLibraryLoadData", c.byref(library), cubin, None, None, 0, None, None, 0)
        self.call("cuLibraryGetKernel", c.byref(handle), library, kernel.encode())
        return library, handle

    def launch(self, kernel: c.c_void_p, grid: Sequence[int], block: Sequence[int], arguments: Sequence[Any],
               shared: int = 0, cluster: Sequence[int] | None = None) -> None:
        """`cuLaunchKernelEx` on the default stream; arguments are ctypes values. Doesn't wait."""
        attributes = (LaunchAttribute * 1)()
        if cluster:
            attributes[0].id = CLUSTER_DIMENSION
            for i, extent in enumerate(cluster):
                attributes[0].value[i] = extent
        config = LaunchConfig((c.c_uint * 3)(*grid), (c.c_uint * 3)(*block), shared, None, attributes, 1 if cluster else 0)
        # A driver that takes hidden parameters for ordinary ones reads on; what it finds there is recognizable.
        beyond = c.create_string_buffer(b"\xee" * 4096)
        given = [c.cast(c.pointer(a), c.c_void_p) for a in arguments]
        pointers = (c.c_void_p * (len(arguments) + 4))(*given, *[c.cast(beyond, c.c_void_p)] * 4)
        self.call("cuLaunchKernelEx", c.byref(config), kernel, pointers, None)

    def synchronize(self) -> None:
        self.call("cuCtxSynchronize")

    def fill_async(self, pointer: int, size: int) -> None:
        self.call("cuMemsetD8Async", c.c_uint64(pointer), c.c_ubyte(0), c.c_size_t(size), None)

    def elapsed(self, first: c.c_void_p, last: c.c_void_p) -> float:
        """Microseconds between two events that have passed."""
        out = c.c_float()
        # From CUDA 13 on the plain name may stand for the second version only.
        name = "cuEventElapsedTime" if hasattr(self.library, "cuEventElapsedTime") else "cuEventElapsedTime_v2"
        self.call(name, c.byref(out), first, last)
        return out.value * 1000

    def time(self, action: Any, repeat: int) -> list[float]:
        """Microseconds of each of `repeat` actions, by events around each, after two that aren't counted."""
        first, last = c.c_void_p(), c.c_void_p()
        self.call("cuEventCreate", c.byref(first), 0)
        self.call("cuEventCreate", c.byref(last), 0)
        out = []
        for i in range(repeat + 2):
            self.call("cuEventRecord", first, None)
            action()
            self.call("cuEventRecord", last, None)
            self.call("cuEventSynchronize", last)
            if i >= 2:
                out.append(self.elapsed(first, last))
        return out

    def wall_microseconds(self, action: Any) -> float:
        start = time.perf_counter()
        action()
        self.synchronize()
        return (time.perf_counter() - start) * 1e6
