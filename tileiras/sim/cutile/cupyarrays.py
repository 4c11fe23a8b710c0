"""How do programs that make CuPy arrays run without CuPy? `import cupy` finds NumPy, whose arrays are also CuPy's.

What a program does in the ordinary ways works: make arrays, compute with them, copy them to NumPy and back, give them to a
kernel. CuPy's own kernels, memory pools and compilers aren't there.
"""
from __future__ import annotations

import importlib.abc
import importlib.util
import sys
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from tileiras.sim.cutile.patches import Patches
from tileiras.sim.cutile.torchcuda import Event, Stream, device_properties

NULL = 0
TYPED = frozenset({"randint", "random_integers"})
"""Random numbers that NumPy makes of a type, too."""
CUDA_VERSION = 13000


class ndarray(np.ndarray):
    """A NumPy array with what CuPy's has beside."""

    def get(self, stream: Any = None, order: str = "C", out: Any = None) -> np.ndarray:
        """A copy that is NumPy's."""
        copied = np.array(self, order=order, subok=False)       # type: ignore[call-overload]
        if out is not None:
            out[...] = copied
            return out
        return copied

    def set(self, array: Any, stream: Any = None) -> None:
        self[...] = array

    @property
    def device(self) -> Any:
        return types.SimpleNamespace(id=NULL)


class CupyStream(Stream):
    """CuPy's streams call their handle `ptr`."""
    ptr = NULL

    def __init__(self, *_: Any, null: bool = False, non_blocking: bool = False, **__: Any) -> None:
        super().__init__()


class _Cupy(types.ModuleType):
    """NumPy's functions, whose arrays are `ndarray`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(np, name)
        if isinstance(found, np.ufunc) or (callable(found) and not isinstance(found, type)):
            return _giving(found)
        if isinstance(found, types.ModuleType):
            inner = _Random(found) if found is np.random else _Within(found)
            setattr(self, name, inner)
            return inner
        return found


class _Within:
    """A part of NumPy, such as `random` or a generator, whose arrays are `ndarray`."""

    def __init__(self, part: Any) -> None:
        self._part = part

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        return _giving(found) if callable(found) and not isinstance(found, type) else found


class _Random(_Within):
    """NumPy's random numbers, of the type that a program asks for."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        return found if isinstance(found, type) or name in TYPED else _of_type(found)


def _of_type(function: Any) -> Any:
    def call(*args: Any, dtype: Any = None, **kwargs: Any) -> Any:
        value = function(*args, **kwargs)
        return value if dtype is None else value.astype(dtype)
    return call


def _giving(function: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("blocking", None)
        return wrapped(function(*args, **kwargs))
    return call


def wrapped(value: Any) -> Any:
    """A result as CuPy gives it: arrays also of no dimensions."""
    if isinstance(value, np.ndarray):
        return value.view(ndarray)
    if isinstance(value, np.generic):
        return np.asarray(value).view(ndarray)
    if isinstance(value, np.random.Generator | np.random.RandomState):
        return _Within(value)
    if type(value) is tuple:
        return tuple(wrapped(v) for v in value)
    return value


def _properties(gpu_name: str) -> dict[str, Any]:
    """Those of the device, as the CUDA runtime names them."""
    p = device_properties(gpu_name)
    return {"name": p.name.encode(), "major": p.major, "minor": p.minor, "multiProcessorCount": p.multi_processor_count,
            "totalGlobalMem": p.total_memory, "warpSize": p.warp_size, "l2CacheSize": p.L2_cache_size,
            "sharedMemPerBlock": p.shared_memory_per_block, "sharedMemPerMultiprocessor": p.shared_memory_per_multiprocessor,
            "sharedMemPerBlockOptin": p.shared_memory_per_block_optin, "regsPerMultiprocessor": p.regs_per_multiprocessor,
            "maxThreadsPerMultiProcessor": p.max_threads_per_multi_processor, "clockRate": p.clock_rate}


def module(gpu_name: str) -> _Cupy:
    """The stand-in for CuPy, with a device of this name."""
    made = _Cupy("cupy")
    made.__version__ = "0+simulated"                            # type: ignore[attr-defined]
    made.ndarray = ndarray                                      # type: ignore[attr-defined]
    made.asnumpy = lambda a, *_, **__: np.array(a, subok=False)     # type: ignore[attr-defined]
    cuda = types.ModuleType("cupy.cuda")
    properties = _properties(gpu_name)
    device = types.SimpleNamespace(id=NULL, synchronize=lambda: None, use=lambda: None,
                                   compute_capability=f"{properties['major']}{properties['minor']}",
                                   mem_info=(properties["totalGlobalMem"],) * 2)
    runtime = types.SimpleNamespace(
        getDeviceCount=lambda: 1, getDevice=lambda: NULL, setDevice=lambda _: None, deviceSynchronize=lambda: None,
        getDeviceProperties=lambda _: dict(properties), runtimeGetVersion=lambda: CUDA_VERSION,
        driverGetVersion=lambda: CUDA_VERSION, memGetInfo=lambda: device.mem_info)
    for name, value in {"Stream": CupyStream, "Event": Event, "get_current_stream": lambda: CupyStream(),
                        "Device": lambda *_: device, "is_available": lambda: True, "runtime": runtime,
                        "get_elapsed_time": lambda start, end: start.elapsed_time(end)}.items():
        setattr(cuda, name, value)
    CupyStream.null = CupyStream()                              # type: ignore[attr-defined]
    made.cuda = cuda                                            # type: ignore[attr-defined]
    return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the stand-in where nothing else finds CuPy: it stands last in sys.meta_path."""

    def __init__(self, gpu_name: str) -> None:
        self.module = module(gpu_name)
        self.module.__path__ = []                               # type: ignore[attr-defined]
        sys.meta_path.append(self)

    def remove(self) -> None:
        sys.meta_path.remove(self)
        for name in [n for n, m in sys.modules.items() if m is self.module or m is self.module.cuda]:
            del sys.modules[name]

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None) -> Any:
        return importlib.util.spec_from_loader(fullname, self) if fullname in ("cupy", "cupy.cuda") else None

    def create_module(self, spec: Any) -> types.ModuleType:
        return self.module if spec.name == "cupy" else self.module.cuda

    def exec_module(self, module: types.ModuleType) -> None:
        """It is whole already."""


def install(patches: Patches, gpu_name: str) -> None:
    """Let `import cupy` find the stand-in, where CuPy isn't installed."""
    patches.at_end(Finder(gpu_name).remove)
